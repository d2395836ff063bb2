// FoundationEssentials does not depend on ICU, so a program that uses no other part of Foundation does not load it.

#if canImport(FoundationEssentials)
@_exported public import FoundationEssentials
#else
@_exported public import Foundation
#endif
