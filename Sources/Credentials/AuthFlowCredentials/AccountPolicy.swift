/// The policy for a sign-in by a user other than the one who is already signed in.
public enum AccountPolicy: Sendable, Hashable {
    /// Reject the sign-in. The previous user remains signed in.
    case sameAccount
    /// Store both accounts; the new one becomes the current one.
    case addAccount
    /// Remove the previous user's account, and store the new one.
    case replaceAccount
}
