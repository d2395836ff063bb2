// The names of the C library's module on each platform.

#if canImport(Darwin)
@_exported public import Darwin
#elseif canImport(Android)
@_exported public import Android
#elseif canImport(Musl)
@_exported public import Musl
#else
@_exported public import Glibc
#endif
