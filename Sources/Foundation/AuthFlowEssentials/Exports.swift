// A program that needs nothing else of Foundation does not load ICU on Linux.

#if canImport(FoundationEssentials)
@_exported public import FoundationEssentials
#else
@_exported public import Foundation
#endif
