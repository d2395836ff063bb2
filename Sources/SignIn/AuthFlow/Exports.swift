// These modules use one another's types in their public APIs, so they are re-exported: importing AuthFlow is enough.

@_exported public import AuthFlowConfiguration
@_exported public import AuthFlowCredentials
@_exported public import AuthFlowHTTP
@_exported public import AuthFlowIssuer
@_exported public import AuthFlowJOSE
@_exported public import AuthFlowJSON
@_exported public import AuthFlowOAuth
@_exported public import AuthFlowPKCS11
@_exported public import AuthFlowResourceClient
@_exported public import AuthFlowSignIn
@_exported public import AuthFlowStorage
@_exported public import AuthFlowStores
@_exported public import AuthFlowTransport
@_exported public import HTTPTypes
