// The types of these modules stand in the signatures of this one: a program that only verifies needs no other import.

@_exported public import AuthFlowHTTP
@_exported public import AuthFlowJOSE
@_exported public import AuthFlowJSON
@_exported public import HTTPTypes
