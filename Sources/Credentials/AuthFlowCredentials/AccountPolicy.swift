import AuthFlowOAuth

/// The policy for a sign-in by a user other than the one who is already signed in.
public enum AccountPolicy: Sendable, Hashable {
    /// Reject the sign-in. The previous user remains signed in.
    case sameAccount
    /// Store both accounts; the new one becomes the current one. A provider with a session for the signed-in user may sign the same user in again
    /// without a page: request the `prompt` `select_account` or `login` in the ``AuthorizationOptions``, so that the user can choose another account.
    case addAccount
    /// Remove the previous user's account, and store the new one.
    case replaceAccount
}

/// The provider does not identify users, so a second account cannot be added.
package struct UnknownUser: Error {}

extension StoredAccounts {
    /// The account that a sign-in replaces; nil for none.
    /// - Parameter name: The name of the account that the client is limited to; nil for the current account.
    /// - Throws: ``AuthError`` with `account_mismatch` when the policy does not allow the sign-in.
    func accountToReplace(
        by credential: Credential,
        _ policy: AccountPolicy,
        _ name: String?
    ) throws(AuthError) -> AccountID? {
        guard let other = other(than: credential.account, name) else { return nil }
        if policy == .replaceAccount { return other }
        if other == credential.account { throw Self.unknownUserError }
        guard policy == .addAccount else {
            if case .ended(let session)? = entry(of: other) {
                throw AuthError(
                    .accountMismatch,
                    "\(credential.displayName) has signed in, but the account of \(session.identity?.displayName ?? "another user") is still stored here, even though the provider has ended its session. Sign out first, or choose to add or replace the account."
                )
            }
            throw AuthError(
                .accountMismatch,
                "\(credential.displayName) has signed in, but another user is already signed in. Sign out first, or choose to add or replace the account."
            )
        }
        return nil
    }

    /// The error for a sign-in while an unknown user is signed in.
    static var unknownUserError: AuthError {
        AuthError(
            .accountMismatch,
            "A user is already signed in, and the provider does not indicate whether this is the same user. Sign out first, or choose to replace the account.",
            underlyingError: UnknownUser()
        )
    }

    /// Whether an account is known to differ from the client's account.
    func isOther(_ signedIn: AccountID, than name: String?) -> Bool {
        signedIn.subject != nil && other(than: signedIn, name)?.subject != nil
    }

    /// Like ``isOther(_:than:)``, but false if tokens of the account, which may belong to the same grant, are stored.
    func isUnknown(_ signedIn: AccountID, than name: String?) -> Bool {
        isOther(signedIn, than: name) && entry(of: signedIn)?.credential == nil
    }

    /// The client's account, if it differs from the account that signed in.
    private func other(than signedIn: AccountID, _ name: String?) -> AccountID? {
        let known = entry(name)?.account
        // Unknown users cannot be distinguished, so a signed-in unknown user counts as another user.
        if let known, known.subject == nil, entry(of: known)?.credential != nil { return known }
        if let name, known == nil {
            return signedIn.isNamed(name) ? nil : AccountID(issuer: signedIn.issuer, subject: name)
        }
        return known == signedIn ? nil : known
    }
}
