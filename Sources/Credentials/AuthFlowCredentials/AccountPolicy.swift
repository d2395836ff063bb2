/// The rule for a sign-in by another user than the one who is signed in already.
public enum AccountPolicy: Sendable, Hashable {
    /// Refuse it. The user who was signed in stays.
    case sameAccount
    /// Keep both; the new one becomes the current one.
    case addAccount
    /// Forget the user who was signed in.
    case replaceAccount
}
