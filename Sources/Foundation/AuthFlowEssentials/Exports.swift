// A program that needs nothing else from Foundation does not load ICU on Linux.

#if canImport(FoundationEssentials)
@_exported public import FoundationEssentials
#else
@_exported public import Foundation
#endif
