import AuthFlow
import AuthFlowEssentials

/// A sign-in in progress: the data that is stored until the provider redirects the browser back.
struct PendingSignIn: Sendable, Codable {
    struct Previous: Sendable, Codable {
        let provider: String
        /// The name of the session's record.
        let name: String
    }

    /// The browser's session at the start of the sign-in.
    let previous: Previous?
    let returnPath: String
    let isSilent: Bool
    let linksAccounts: Bool
    let acrValues: [String]
    /// The required maximum age of the authentication, in seconds.
    let maximumAge: Int64?

    var requirement: AuthenticationRequirement? {
        guard !acrValues.isEmpty || maximumAge != nil else { return nil }
        return AuthenticationRequirement(acrValues: acrValues, maximumAge: maximumAge.map { .seconds($0) })
    }
}

extension PendingSignIn.Previous {
    /// The session, encoded as a note for another sign-in.
    var note: String {
        get throws { String(decoding: try JSONEncoder().encode(self), as: UTF8.self) }
    }

    /// Decodes a note.
    init?(_ note: String) {
        guard let previous = try? JSONDecoder().decode(Self.self, from: Data(note.utf8)) else { return nil }
        self = previous
    }
}

extension PendingSignIn {
    /// The sign-in, encoded as the note of an authorization request.
    var note: String {
        get throws { String(decoding: try JSONEncoder().encode(self), as: UTF8.self) }
    }

    /// Decodes a note.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_callback` if the note cannot be decoded, for example
    ///   because a different version of the program encoded it.
    init(note: String?) throws(AuthError) {
        do {
            self = try JSONDecoder().decode(Self.self, from: Data((note ?? "").utf8))
        } catch {
            throw AuthError(
                .invalidCallback,
                "The sign-in cannot be completed: it may have been started by another version of this program.",
                underlyingError: error
            )
        }
    }
}
