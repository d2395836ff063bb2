import AuthFlow

extension AuthError.Code {
    /// The action of the operator of a service after a failure with this code; nil where it is the user's, or unknown.
    var operatorAction: String? {
        switch self {
        case .invalidConfiguration:
            "Correct the setting that the message names."
        case .discoveryFailed:
            "Fetch the issuer's metadata from this machine; check the issuer's address, the proxy and the certificates."
        case .issuerMismatch:
            "Compare the configured issuer with the provider's. If they are the same, something between changes responses."
        case .networkFailed, .timedOut:
            "Check name resolution, the proxy, and the provider's certificate and status from this machine."
        case .temporarilyUnavailable:
            "Wait. If it lasts, look at the provider's status, and ask for a higher rate limit."
        case .providerRejected:
            "Compare the client's registration with the configuration: secret or key, redirect URI, scopes, grant types."
        case .invalidResponse, .unsupported:
            "Report the response to the provider; the message names what is wrong with it."
        case .invalidCallback:
            "A few are users who go back in their browsers. Many at once: look for an attempt to inject responses."
        case .invalidIDToken, .invalidUserInfo, .invalidLogoutToken:
            "Compare this machine's clock with the provider's, and the client ID. Otherwise do not trust the provider."
        case .keyUnavailable, .assertionUnusable:
            "Check the key, token or file that the message names."
        case .storageFailed, .storeDamaged:
            "Check the database: reachable, disk space, permissions. Tokens that are not stored are kept in memory: do not kill the process."
        case .leaseBusy, .leaseLost, .outcomeUnknown:
            "Look for processes that were paused or killed, and for a slow or unreachable database."
        case .credentialUnusable, .sessionDataUnusable:
            "Compare the versions and encryption keys of all processes; the user signs in again."
        default: nil
        }
    }
}
