// The types of this module appear in the signatures of ``ResourceServer``, so an API needs no other import.

@_exported public import AuthFlowOAuth
