import AuthFlow
import AuthFlowEssentials

/// The localized text of the pages, in one language.
public struct PageTexts: Sendable {
    /// A title and a sentence.
    public struct Text: Sendable, Hashable {
        /// The title of the page.
        public var title: String
        /// The sentence below the title.
        public var message: String

        /// Creates a text.
        public init(_ title: String, _ message: String) {
            self.title = title
            self.message = message
        }
    }

    /// The language (BCP 47), such as `en` or `de`.
    public var language: String

    /// The text for each reason. A reason without an entry uses the text of
    /// ``SessionPage/Reason/failed``.
    public var texts: [SessionPage.Reason: Text]

    /// The link to the page to which the browser continues.
    public var continueLink: String

    /// The link that starts another attempt.
    public var retryLink: String

    /// The link to the start page of the application.
    public var startLink: String

    /// Creates the text for a language.
    public init(
        language: String,
        texts: [SessionPage.Reason: Text],
        continueLink: String,
        retryLink: String,
        startLink: String
    ) {
        self.language = language
        self.texts = texts
        self.continueLink = continueLink
        self.retryLink = retryLink
        self.startLink = startLink
    }

    /// English.
    public static let english = PageTexts(
        language: "en",
        texts: [
            .signedIn: Text("Signed in", "You are signed in."),
            .continuing: Text("One moment", "The page opens automatically."),
            .chooseProvider: Text("Sign in", "Choose where you want to sign in."),
            .confirmSignIn: Text(
                "Sign in again?",
                "A link from another site asks you to sign in again. You are already signed in."
            ),
            .denied: Text("Not signed in", "The sign-in was canceled or denied."),
            .refused: Text("Not signed in", "You do not have access to this application."),
            .stale: Text(
                "Sign in again",
                "This sign-in took too long, has already been completed, or was started in another browser."
            ),
            .ended: Text("Sign in again", "Your session was ended while you were signing in."),
            .insufficientAuthentication: Text(
                "Additional sign-in required",
                "This page requires a stronger or more recent sign-in than the one you completed."
            ),
            .unavailable: Text(
                "Try again later",
                "Sign-in is currently unavailable. Try again in a few minutes."
            ),
            .failed: Text("Not signed in", "The sign-in failed. Try again; if it happens again, contact support."),
            .signOutFailed: Text("Still signed in", "You could not be signed out. Try again in a few minutes."),
            .signOutNeedsSession: Text(
                "Sign in again",
                "This session had already ended, so your other sessions could not be found. Sign in again, and then sign out everywhere."
            ),
        ],
        continueLink: "Continue",
        retryLink: "Sign in again",
        startLink: "Back to the start page"
    )

    /// German.
    public static let german = PageTexts(
        language: "de",
        texts: [
            .signedIn: Text("Angemeldet", "Sie sind angemeldet."),
            .continuing: Text("Einen Moment", "Die Seite öffnet sich von selbst."),
            .chooseProvider: Text("Anmelden", "Wählen Sie, wo Sie sich anmelden möchten."),
            .confirmSignIn: Text(
                "Neu anmelden?",
                "Ein Link von einer anderen Seite fordert Sie auf, sich neu anzumelden. Sie sind schon angemeldet."
            ),
            .denied: Text("Nicht angemeldet", "Die Anmeldung wurde abgebrochen oder abgelehnt."),
            .refused: Text("Nicht angemeldet", "Sie können diese Anwendung nicht benutzen."),
            .stale: Text(
                "Bitte neu anmelden",
                "Diese Anmeldung hat zu lange gedauert, war schon abgeschlossen oder wurde in einem anderen Browser begonnen."
            ),
            .ended: Text("Bitte neu anmelden", "Ihre Sitzung wurde während der Anmeldung beendet."),
            .insufficientAuthentication: Text(
                "Das genügt nicht",
                "Diese Seite verlangt eine stärkere oder neuere Anmeldung als die, die Sie abgeschlossen haben."
            ),
            .unavailable: Text(
                "Bitte später versuchen",
                "Die Anmeldung ist im Moment nicht möglich. Versuchen Sie es in einigen Minuten noch einmal."
            ),
            .failed: Text(
                "Nicht angemeldet",
                "Die Anmeldung ist fehlgeschlagen. Versuchen Sie es noch einmal, und wenden Sie sich sonst an den Support."
            ),
            .signOutFailed: Text(
                "Noch angemeldet",
                "Sie konnten nicht abgemeldet werden. Versuchen Sie es in einigen Minuten noch einmal."
            ),
            .signOutNeedsSession: Text(
                "Bitte neu anmelden",
                "Diese Sitzung war schon beendet, deshalb konnten Ihre anderen Sitzungen nicht gefunden werden. Melden Sie sich an und dann überall ab."
            ),
        ],
        continueLink: "Weiter",
        retryLink: "Neu anmelden",
        startLink: "Zur Startseite"
    )

    /// The texts in the language that a browser prefers (RFC 9110 section 12.5.4); the first if none matches.
    static func preferred(by field: String?, of texts: [PageTexts]) -> PageTexts {
        // Browsers send only ASCII in this field, and only a few languages.
        let field = (field ?? "").utf8.allSatisfy { $0 < 0x80 } ? String((field ?? "").prefix(200)) : ""
        let ranges = field.lowercased().split(separator: ",").enumerated().map { place, range in
            let parts = range.split(separator: ";").map { $0.trimmingSpaces() }
            let weight = parts.dropFirst().first { $0.hasPrefix("q=") }.flatMap { Double($0.dropFirst(2)) } ?? 1
            return (
                language: parts.first?.split(separator: "-").first.map { String($0) } ?? "", weight: weight,
                place: place
            )
        }
        let wanted = ranges.filter { $0.weight > 0 }.sorted { ($1.weight, $0.place) < ($0.weight, $1.place) }
        for range in wanted {
            if let found = texts.first(where: {
                $0.language.lowercased().split(separator: "-").first.map { String($0) } == range.language
            }) {
                return found
            }
        }
        return texts.first ?? .english
    }
}
