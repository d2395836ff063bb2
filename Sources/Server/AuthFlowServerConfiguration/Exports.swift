@_exported public import AuthFlowConfiguration
@_exported public import AuthFlowServer
