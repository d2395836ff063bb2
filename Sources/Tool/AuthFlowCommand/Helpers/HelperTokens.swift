import ArgumentParser
import AuthFlow
import AuthFlowEssentials
import AuthFlowSystem

/// The tokens that credential helpers return. No helper signs a user in, because the calling programs often run in the background.
enum HelperTokens {
    /// The minimum remaining lifetime of a returned token.
    static let margin = Duration.seconds(60)

    /// Whether stored tokens can still be used after an error, because the server is unavailable, the store cannot be written, or another process
    /// holds the lease while it waits for the server.
    static func isOutage(_ error: AuthError) -> Bool {
        error.isTransient || [.leaseBusy, .storageFailed].contains(error.code)
    }

    /// A token of a profile, and its expiry.
    static func fresh(
        _ kind: CredentialHelperSettings.Token,
        of client: AuthClient
    ) async throws -> (token: Secret, end: Date?) {
        switch kind {
        case .accessToken:
            let credential = try await client.freshCredential(lasting: margin)
            // The calling programs do not support DPoP proofs.
            guard !credential.tokens.isDPoPBound else {
                throw AuthError(.unsupported, "The token is bound to a key (DPoP), so other programs cannot use it.")
            }
            return (credential.tokens.accessToken, credential.tokens.expiresAt)
        case .idToken:
            guard !client.isWithoutUser else {
                throw AuthError(
                    .unsupported,
                    "This profile does not sign in users, so it has no ID Token. Set \"token\" to \"access_token\" in the profile's \"helpers\"."
                )
            }
            return try await idToken(of: client)
        }
    }

    /// An ID Token with the minimum remaining lifetime, regardless of the access token's expiry.
    private static func idToken(of client: AuthClient) async throws -> (Secret, Date?) {
        let credential = try await client.requiredCredential()
        guard credential.tokens.idToken != nil else {
            throw AuthError(
                .unsupported,
                "The provider returned no ID Token: add the \"openid\" scope, or use the access token."
            )
        }
        if let current = lasting(credential) { return current }
        guard credential.tokens.refreshToken != nil, !wasRefreshedInVain(credential) else { throw expired }
        // One process refreshes, and the others use its result.
        let refreshed: Credential
        do {
            refreshed = try await client.credential(replacing: credential.tokens.accessToken)
        } catch let error as AuthError where isOutage(error) {
            // During an outage, a token is used until it expires, unless the user has signed out in the meantime.
            guard let current = lasting(try await client.requiredCredential(), margin: .zero) else { throw error }
            return current
        }
        if let current = lasting(refreshed) { return current }
        throw expired
    }

    private static var expired: AuthError {
        AuthError(
            .loginRequired,
            "The ID Token has expired or is about to expire, and no new ID Token could be obtained. Sign in again."
        )
    }

    /// Whether a refresh has returned no new ID Token, although the ID Token had expired, or was about to expire: the next refresh will not return
    /// one either. The first tokens of a sign-in are not the result of a refresh, and after the expiry, a refresh is tried once more.
    private static func wasRefreshedInVain(_ credential: Credential) -> Bool {
        guard let idToken = credential.tokens.verifiedIDToken else { return false }
        let isBeforeExpiry =
            credential.obtainedAt > credential.signedInAt && ToolEnvironment.host.now() < idToken.expiresAt
        return credential.obtainedAt >= (isBeforeExpiry ? freshUntil(idToken, margin) : idToken.expiresAt)
    }

    /// The ID Token and its expiry; nil if it has expired or is about to expire.
    private static func lasting(_ credential: Credential, margin: Duration = Self.margin) -> (Secret, Date?)? {
        guard let idToken = credential.tokens.verifiedIDToken, let text = credential.tokens.idToken,
            ToolEnvironment.host.now() < freshUntil(idToken, margin)
        else { return nil }
        return (text, idToken.expiresAt)
    }

    /// The time from which an ID Token is about to expire. A short-lived token counts as fresh for three quarters of its lifetime.
    private static func freshUntil(_ idToken: IDToken, _ margin: Duration) -> Date {
        let life = idToken.expiresAt.timeIntervalSince(idToken.issuedAt)
        return idToken.expiresAt - min(margin.seconds, life / 4)
    }
}

/// A negative response from a helper, in the calling program's protocol. It has already been printed.
struct HelperDeclined: CommandFailure {
    var status: ExitCode { ExitStatus.failure }
    var message: String { "" }
}

/// Reads the calling program's input from standard input, which that program may have made non-blocking.
enum HelperInput {
    /// The maximum size of the input, in bytes; no known calling program sends more.
    private static let limit = 256 * 1024

    /// - Parameter isComplete: Whether the input is complete, even if the calling program leaves the pipe open.
    /// - Throws: ``AuthFlow/AuthError`` with `invalid_configuration` if the input is too large; `CancellationError` if the task is cancelled.
    static func all(
        until isComplete: @escaping @Sendable ([UInt8]) -> Bool = { _ in false }
    ) async throws -> [UInt8] {
        try await BlockingInput.read { Result { try bytes(until: isComplete) } }.get()
    }

    private static func bytes(until isComplete: ([UInt8]) -> Bool) throws(AuthError) -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        while true {
            let count = SystemCall.read(from: STDIN_FILENO, into: &buffer)
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
            if isComplete(bytes) { return bytes }
            guard bytes.count <= limit else {
                throw AuthError(.invalidConfiguration, "The calling program's input is too large.")
            }
        }
    }
}
