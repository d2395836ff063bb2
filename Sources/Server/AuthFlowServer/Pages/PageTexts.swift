import AuthFlow

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

    /// The link to the application's start page.
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
                "Another site requested a new sign-in, but you are already signed in."
            ),
            .denied: Text("Not signed in", "The sign-in was cancelled or denied."),
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
            .failed: Text("Not signed in", "The sign-in failed. Try again. If the problem persists, contact support."),
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
            .continuing: Text("Einen Moment", "Die Seite wird automatisch geöffnet."),
            .chooseProvider: Text("Anmelden", "Wählen Sie, wo Sie sich anmelden möchten."),
            .confirmSignIn: Text(
                "Neu anmelden?",
                "Eine andere Website verlangt eine neue Anmeldung, Sie sind aber bereits angemeldet."
            ),
            .denied: Text("Nicht angemeldet", "Die Anmeldung wurde abgebrochen oder abgelehnt."),
            .refused: Text("Nicht angemeldet", "Sie haben keinen Zugriff auf diese Anwendung."),
            .stale: Text(
                "Bitte neu anmelden",
                "Diese Anmeldung hat zu lange gedauert, war schon abgeschlossen oder wurde in einem anderen Browser begonnen."
            ),
            .ended: Text("Bitte neu anmelden", "Ihre Sitzung wurde während der Anmeldung beendet."),
            .insufficientAuthentication: Text(
                "Weitere Anmeldung erforderlich",
                "Diese Seite erfordert eine stärkere oder neuere Anmeldung als die bereits abgeschlossene."
            ),
            .unavailable: Text(
                "Bitte versuchen Sie es später erneut",
                "Die Anmeldung ist im Moment nicht möglich. Versuchen Sie es in einigen Minuten noch einmal."
            ),
            .failed: Text(
                "Nicht angemeldet",
                "Die Anmeldung ist fehlgeschlagen. Versuchen Sie es noch einmal. Wenn das Problem weiterhin besteht, wenden Sie sich an den Support."
            ),
            .signOutFailed: Text(
                "Noch angemeldet",
                "Sie konnten nicht abgemeldet werden. Versuchen Sie es in einigen Minuten noch einmal."
            ),
            .signOutNeedsSession: Text(
                "Bitte neu anmelden",
                "Diese Sitzung war schon beendet, deshalb konnten Ihre anderen Sitzungen nicht gefunden werden. Melden Sie sich erneut an, und melden Sie sich dann überall ab."
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
            return (tag: parts.first ?? "", weight: weight, place: place)
        }
        let wanted = ranges.filter { $0.weight > 0 && !$0.tag.isEmpty }
            .sorted { ($1.weight, $0.place) < ($0.weight, $1.place) }
        let tags = texts.map { $0.language.lowercased() }
        func language(_ tag: String) -> Substring { tag.prefix { $0 != "-" } }
        for range in wanted {
            // A language can have texts for several regions or scripts, such as pt-BR and pt-PT.
            let index = tags.firstIndex(of: range.tag) ?? tags.firstIndex { language($0) == language(range.tag) }
            if let index { return texts[index] }
        }
        return texts.first ?? .english
    }
}
