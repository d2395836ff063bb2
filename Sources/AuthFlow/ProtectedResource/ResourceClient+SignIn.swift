import AuthFlowJSON
import HTTPTypes
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension ResourceClient {
    /// Signs in, whether or not a user is signed in already.
    /// - Parameter challenge: What the resource demands; default: what it says to a request without a token.
    /// - Returns: The credential.
    /// - Throws: ``AuthError``: `discovery_failed` when the resource does not say where tokens come from, `unsupported` when a sign-in
    ///   there would not be safe or possible, and everything that ``AuthClient/signIn(_:options:)`` throws.
    @discardableResult
    public func signIn(to challenge: ResourceChallenge? = nil) async throws -> Credential {
        let before = try await status()?.credential?.tokens.accessToken
        var demand = challenge
        if demand == nil { demand = try await askForChallenge() }
        try await signIn(to: demand, rejected: before, sharesFailures: false)
        // The sign-in has succeeded, and the next process will not find it.
        if let error = state.withLock({ $0.storageError }) { throw error }
        return try await freshCredential()
    }

    /// What the resource says to a request without a token.
    func askForChallenge() async throws -> ResourceChallenge? {
        let request = TransportRequest(
            .get,
            address,
            headerFields: [.accept: "*/*"],
            timeout: .seconds(15),
            maximumResponseSize: 1 << 20
        )
        // Servers that stream may respond with a head alone, or not at all, to a GET that they accept.
        guard let response = try? await transport.send(request) else { return nil }
        if let challenge = ResourceChallenge(response) { return challenge }
        guard [400, 404, 405, 406, 415].contains(response.status) else { return nil }
        let discovery = ProtectedResourceDiscovery(address: address, transport: transport, host: host)
        guard try await discovery.metadata(named: nil) == nil else { return nil }
        // What speaks JSON-RPC may serve POST alone. This message asks for nothing.
        let ping = TransportRequest(
            .post,
            address,
            headerFields: [.accept: "application/json, text/event-stream", .contentType: "application/json"],
            body: Array(#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.utf8),
            timeout: .seconds(15)
        )
        return (try? await transport.send(ping)).flatMap { ResourceChallenge($0) }
    }

    /// Signs in, unless another task or process has done so since a token was rejected: one page is shown for all who wait.
    /// - Parameters:
    ///   - rejected: The access token that did not do; nil for none.
    ///   - sharesFailures: Whether the failure of the sign-in that was waited for counts for this one, too.
    func signIn(to challenge: ResourceChallenge?, rejected: Secret?, sharesFailures: Bool) async throws {
        let found = try await find(challenge)
        let scopes = try await scopes(for: challenge, found)
        let began = host.now()
        let key = RecordKey(name: recordName, issuer: "", clientID: "", kind: .signInTurn)
        let finish = began + options.timeout.seconds
        while true {
            do {
                return try await store.withLease(on: key) { lease in
                    if try await hasNewer(than: rejected, with: scopes) { return }
                    if sharesFailures,
                        let failure = try await failure(since: began - options.restAfterFailure.seconds, key)
                    {
                        throw failure
                    }
                    do {
                        try await signIn(found, challenge, scopes)
                    } catch {
                        // Cancelling one request says nothing about the others.
                        if !(error is CancellationError) { try? await store.write(note(of: error), under: lease) }
                        throw error
                    }
                    try? await store.write(nil, under: lease)
                }
            } catch let error as AuthError where error.code == .leaseBusy && host.now() < finish {
                continue
            }
        }
    }

    /// Whether another has obtained a token meanwhile that may do.
    private func hasNewer(than rejected: Secret?, with scopes: [String]) async throws -> Bool {
        guard let known = try await known(reading: true), Set(known.scopes).isSuperset(of: scopes),
            let token = try await client(of: known)?.credential()?.tokens.accessToken
        else { return false }
        return token != rejected
    }

    // MARK: Failures for all who wait

    private func note(of error: any Error) throws -> [UInt8] {
        let error = error as? AuthError ?? AuthError(.userAgentFailed, "The sign-in has failed.")
        let json: JSON = [
            "failed_at": .double(host.now().timeIntervalSince1970), "code": .string(error.code.rawValue),
            "message": .string(error.description),
        ]
        return try json.serialized()
    }

    private func failure(since date: Date, _ key: RecordKey) async throws -> AuthError? {
        guard let bytes = try await store.bytes(for: key), let json = try? JSON(parsing: bytes),
            let time = json["failed_at"]?.number, date.timeIntervalSince1970...host.now().timeIntervalSince1970 ~= time,
            let code = json["code"]?.string, let message = json["message"]?.string
        else { return nil }
        return AuthError(
            AuthError.Code(rawValue: code),
            "A sign-in that was begun a moment ago has failed, and no other page is shown so soon. \(DisplayText.sanitized(message, limit: 500))"
        )
    }

    // MARK: One sign-in

    private func signIn(_ found: FoundServer, _ challenge: ResourceChallenge?, _ scopes: [String]) async throws {
        let dpop = usesDPoP(challenge, found)
        var replaced: ReplacedRegistration?
        while true {
            let known = try await identify(found, scopes: scopes, usesDPoP: dpop)
            guard let client = try await client(of: known) else {
                throw AuthError(.storageFailed, "The registration with \(known.issuer) was not kept.")
            }
            if replaced == nil, try await isForgotten(known, client) {
                replaced = try await replaceRegistration(of: known, client, isForgotten: true)
                continue
            }
            let signIn: SignIn
            do {
                var request = AuthorizationOptions(scopes: scopes, resources: [known.resource])
                request.acrValues = challenge?.acrValues ?? []
                request.maxAge = challenge?.maxAge.map { .seconds($0) }
                signIn = try await client.signIn(.replaceAccount, options: request)
            } catch let error as AuthError
                where replaced == nil && known.identification == .dynamic && Self.mayBeRegistration(error)
            {
                let isForgotten = ["invalid_client", "unauthorized_client"].contains(error.providerError?.error)
                replaced = try await replaceRegistration(of: known, client, isForgotten: isForgotten)
                continue
            } catch {
                // The session of the old registration goes on.
                if let replaced, !replaced.isForgotten {
                    try? await registrations.keep(replaced.kept, for: redirectURI)
                }
                throw error
            }
            try await keep(known)
            // The tokens of a registration that is not used any more are of no use either.
            if let replaced { _ = try? await replaced.client.signOutLocally() }
            state.withLock { ($0.end, $0.storageError) = (nil, signIn.storageError) }
            return
        }
    }

    /// A registration in whose place another was made.
    private struct ReplacedRegistration {
        let kept: KeptRegistration
        /// The client with its tokens.
        let client: AuthClient
        /// Whether the server does not know it any more.
        let isForgotten: Bool
    }

    /// Whether a new registration may help: the server has forgotten the client, did not register these scopes, or none of the
    /// registered ports is free.
    private static func mayBeRegistration(_ error: AuthError) -> Bool {
        guard error.code == .providerRejected else { return error.code == .portBusy }
        return ["invalid_client", "unauthorized_client", "invalid_scope", "invalid_redirect_uri"].contains(
            error.providerError?.error
        )
    }

    /// - Returns: The registration that was removed; nil when another process was faster.
    private func replaceRegistration(
        of known: KnownResource,
        _ client: AuthClient,
        isForgotten: Bool
    ) async throws -> ReplacedRegistration? {
        let kept = try await registrations.remove(at: known.issuer, for: redirectURI, clientID: known.clientID)
        state.withLock { if $0.client?.known == known { $0.client = nil } }
        return kept.map { ReplacedRegistration(kept: $0, client: client, isForgotten: isForgotten) }
    }
}
