// The public API of this module uses types from these modules, so a program that only verifies ID Tokens needs no other
// import.

@_exported public import AuthFlowHTTP
@_exported public import AuthFlowJOSE
@_exported public import AuthFlowJSON
@_exported public import HTTPTypes
