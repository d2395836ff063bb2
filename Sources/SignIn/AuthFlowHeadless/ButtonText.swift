/// The text of a button, and the decision that it expresses.
///
/// The first decisive word determines the decision: "Allow (you can cancel any time)" grants, "No, do not allow" denies.
struct ButtonText {
    enum Decision: Hashable {
        /// Grants a request: "Allow", "Yes".
        case grant
        /// Continues without granting explicitly: "Continue".
        case proceed
        /// Denies a request, or cancels: "Deny", "Don't allow".
        case refuse
    }

    private let words: [String]

    init(_ text: String) {
        words = text.lowercased().filter { $0 != "'" && $0 != "\u{2019}" }.split { !$0.isLetter }.map(String.init)
    }

    /// The decision; nil if the text expresses none or contradicts itself.
    var decision: Decision? {
        // "no" is a preposition in Portuguese.
        if let first = words.first, Self.denials.contains(first) { return .refuse }
        guard let index = words.firstIndex(where: Self.decisive.contains) else { return nil }
        let word = words[index]
        // "Don't cancel" is not a refusal.
        if Self.negations.contains(word) { return words.contains(where: Self.refusals.contains) ? nil : .refuse }
        if Self.refusals.contains(word) { return .refuse }
        if Self.grants.contains(word) { return .grant }
        // "Continue with Google" and "Change the password and continue" do something else.
        guard index == 0, !words.contains("with") else { return nil }
        return Self.assents.contains(word) ? .grant : .proceed
    }

    /// Whether the text contains one of the phrases, and no word that negates or cancels it.
    func matches(_ phrases: [String]) -> Bool {
        let joined = " \(words.joined(separator: " ")) "
        return phrases.contains { joined.contains(" \($0) ") }
            && !words.contains { Self.negations.contains($0) || Self.refusals.contains($0) }
    }

    /// Whether the text consists only of words for signing in or continuing: "Log in".
    var isPlainSignIn: Bool { words.allSatisfy(Self.signIns.contains) }

    /// Whether the text offers an alternative to signing in with a password.
    var isAlternative: Bool { words.contains(where: Self.alternatives.contains) }

    private static let grants: Set<String> = [
        "accept", "accepter", "aceptar", "agree", "akzeptieren", "allow", "approve", "aprobar", "authorise",
        "authorize", "autoriser", "autorizar", "consent", "erlauben", "genehmigen", "grant", "permit", "permitir",
        "zulassen", "zustimmen",
    ]
    private static let assents: Set<String> = ["yes", "ja", "oui", "si", "sí"]
    private static let denials: Set<String> = ["nein", "no", "non"]
    private static let proceeds: Set<String> = [
        "confirm", "confirmar", "confirmer", "continue", "continuar", "continuer", "ok", "proceed", "weiter",
    ]
    private static let refusals: Set<String> = [
        "abbrechen", "ablehnen", "abort", "annuler", "cancel", "cancelar", "decline", "denegar", "deny", "disagree",
        "disallow", "rechazar", "refuse", "refuser", "reject", "revoke", "verweigern",
    ]
    private static let negations: Set<String> = [
        "dont", "kein", "nao", "não", "ne", "never", "nicht", "not", "pas", "without",
    ]
    private static let decisive = grants.union(assents).union(proceeds).union(refusals).union(negations)
    private static let signIns: Set<String> = proceeds.union([
        "acceder", "and", "anmelden", "connecter", "connexion", "einloggen", "enter", "entrar", "in", "iniciar", "log",
        "login", "logon", "next", "on", "se", "sesion", "sesión", "sign", "signin", "submit", "suivant", "to",
    ])
    private static let alternatives: Set<String> = [
        "another", "create", "forgot", "forgotten", "help", "other", "passkey", "register", "resend", "reset", "up",
        "with",
    ]
}
