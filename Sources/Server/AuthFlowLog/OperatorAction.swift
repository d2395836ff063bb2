import AuthFlow

extension AuthError.Code {
    /// The recommended action for the operator of a service after a failure with this code; nil when the user must
    /// act, or no action is known.
    var operatorAction: String? {
        switch self {
        case .invalidConfiguration:
            "Correct the setting named in the message."
        case .discoveryFailed:
            "Fetch the issuer's metadata from this machine; check the issuer's URL, the proxy and the certificates."
        case .issuerMismatch:
            "Compare the configured issuer with the provider's. If they are the same, an intermediary may be modifying responses."
        case .networkFailed, .timedOut:
            "Check name resolution, the proxy, and the provider's certificate and status from this machine."
        case .temporarilyUnavailable:
            "Wait. If the problem persists, check the provider's status page, and request a higher rate limit."
        case .providerRejected:
            "Compare the client's registration with the configuration: secret or key, redirect URI, scopes, grant types."
        case .invalidResponse, .unsupported:
            "Report the response to the provider. The message describes the problem."
        case .invalidCallback:
            "Isolated failures may be due to the browser's Back button. Many at once may indicate injected responses."
        case .invalidIDToken, .invalidUserInfo, .invalidLogoutToken:
            "Check that this machine's clock is correct, and that client_id matches the registration. If both are correct, do not trust the provider."
        case .keyUnavailable, .assertionUnusable:
            "Check the key, token or file named in the message."
        case .storageFailed, .storeDamaged:
            "Check the database: connectivity, disk space, permissions. Unsaved tokens exist only in memory: do not kill the process."
        case .leaseBusy, .leaseLost, .outcomeUnknown:
            "Look for processes that were paused or killed, and for a slow or unreachable database."
        case .credentialUnusable, .sessionDataUnusable:
            "Compare the versions and encryption keys of all processes; the user must sign in again."
        default: nil
        }
    }
}
