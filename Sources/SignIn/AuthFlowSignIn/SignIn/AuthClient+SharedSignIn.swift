import AuthFlowCredentials
import AuthFlowOAuth

extension AuthClient {
    /// Signs in with the credential that another app has shared, if that credential is valid and satisfies the options.
    func signInByExchange(_ options: AuthorizationOptions, _ reporter: FlowReporter) async throws -> SignIn? {
        guard let provider = client.adapter as? any SharedSignIn else { return nil }
        let exchange: TokenExchange
        do {
            guard let found = try await provider.exchangeForSignIn(in: client.providerContext) else { return nil }
            let ignored = client.parametersIgnoredByTokenExchange(options)
            guard ignored.isEmpty else {
                throw AuthError(
                    .unsupported,
                    "The shared sign-in was not used, because it does not support \(ignored.joined(separator: ", "))."
                )
            }
            if let subject = found.subject,
                try await current().isOtherAccount(AccountID(issuer: client.adapter.issuer, subject: subject))
            {
                throw AuthError(.accountMismatch, "The shared sign-in belongs to another user.")
            }
            exchange = found
        } catch let error as AuthError {
            reportSkipped(FlowEvent.Step.tokenExchange.rawValue, error, reporter)
            return nil
        }
        return try await credentials.unfinished.finish { [self] in
            let credential: Credential
            do {
                credential = try await client.signIn(by: exchange, reporter: reporter)
            } catch let error as AuthError where !error.isTransient || Self.mayRecur(error) {
                reportSkipped(FlowEvent.Step.tokenExchange.rawValue, error, reporter)
                return nil
            }
            return try await save(credential, [:], .sameAccount, reporter)
        }
    }

    /// Whether a server error may recur for as long as the shared credential exists, so that the user could never sign in. RFC 9110 section
    /// 15.6.1: 500 is for "an unexpected condition", which, unlike 503, need not be temporary.
    private static func mayRecur(_ error: AuthError) -> Bool {
        let isOutageOrLimit = error.status.map { $0 > 500 || $0 == 429 } ?? false
        return error.status == 500 || error.providerError?.error == "server_error" && !isOutageOrLimit
    }

    /// Shares the credential of a sign-in with the other apps in the provider's group, if it has one.
    /// - Returns: The reason why the credential could not be shared; nil if it was shared, or there is no group.
    func share(_ credential: Credential, _ reporter: FlowReporter) async throws -> AuthError? {
        guard let provider = client.adapter as? any SharedSignIn else { return nil }
        do {
            try await provider.share(credential, replacing: nil, in: client.providerContext)
            return nil
        } catch {
            if error is CancellationError { throw error }
            let failure =
                error as? AuthError
                ?? AuthError(
                    .storageFailed,
                    "The sign-in could not be shared with the other apps in its group.",
                    underlyingError: error
                )
            reporter.report(.sharing, .failed(failure.code))
            return failure
        }
    }
}
