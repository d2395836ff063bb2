// The types of these modules stand in this module's own signatures, so importing AuthFlow is enough to use them.

@_exported public import AuthFlowJSON
@_exported public import HTTPTypes
