// The types of this module stand in the signatures of ``ResourceServer``: an API needs no other import.

@_exported public import AuthFlowOAuth
