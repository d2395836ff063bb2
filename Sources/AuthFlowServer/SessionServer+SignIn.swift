import AuthFlow
import HTTPTypes

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension SessionServer {
    /// The most sign-ins that one browser can have under way: one for each of a few tabs.
    private static let slots = 5

    /// How long a sign-in may take.
    private static let patience = Duration.seconds(600)

    private var slotPrefix: String { "\(options.cookieName)-login-" }

    /// The cookie of a sign-in under way. It comes with the provider's redirect, which begins at another site: a `Strict` one would not,
    /// and a form that another site posts needs `None`.
    private func slotCookie(_ name: String, _ value: String) -> ResponseCookie {
        let isPosted = client.registration.responseMode.delivery == .formPost
        return ResponseCookie(
            name: name,
            value: value,
            sameSite: isPosted ? .none : .lax,
            isSecure: isSecure,
            maximumAge: Self.patience
        )
    }

    /// GET /login: sends the browser to the provider. The parameter `return_to` names the page to come back to.
    func beginSignIn(_ query: String, _ request: HTTPRequest) async -> TransportResponse {
        let parameters = FormURLEncoding.decode(query) ?? FormParameters()
        let wanted = parameters.values(for: "return_to")
        let address = wanted.count == 1 ? ReturnAddress(wanted[0], prefixes: options.returnPrefixes) : nil
        do {
            var options = AuthorizationOptions()
            options.lifetime = Self.patience
            var pendingRequest = try await client.authorizationRequest(options)
            pendingRequest.note = address?.path
            let (name, value) = freeSlot(RequestCookies(request))
            try await pending.keep(pendingRequest, for: Secret(value))
            return ServerResponse.redirect(to: pendingRequest.url).setting(slotCookie(name, value))
        } catch {
            return failure(error)
        }
    }

    /// A cookie for another sign-in. Its value begins with the time, so that the oldest of too many can be told.
    private func freeSlot(_ cookies: RequestCookies) -> (name: String, value: String) {
        let host = client.server.host
        let used = cookies.named(slotPrefix)
        let names = (0..<Self.slots).map { "\(slotPrefix)\($0)" }
        let free = names.first { name in !used.contains { $0.name == name } }
        let oldest = names.min { left, right in
            let times = [left, right].map { name in
                used.first { $0.name == name }.flatMap { Int($0.value.prefix { $0 != "." }) } ?? 0
            }
            return times[0] < times[1]
        }
        let value = "\(Int(host.now().timeIntervalSince1970)).\(Base64URL.encode(host.randomBytes(32)))"
        return (free ?? oldest ?? names[0], value)
    }

    /// The callback: exchanges the code, begins a session with a new identifier, and leads to the page that was asked for.
    /// - Parameter parameters: Those of the authorization response, encoded.
    func finishSignIn(_ parameters: String, _ request: HTTPRequest) async -> TransportResponse {
        let callback = redirectURI + (redirectURI.contains("?") ? "&" : "?") + parameters
        let slots = RequestCookies(request).named(slotPrefix)
        do {
            var taken: (request: AuthorizationRequest, slot: String)?
            for slot in slots.prefix(2 * Self.slots) where slot.value.utf8.count >= 43 {
                do {
                    taken = (try await pending.take(for: callback, in: Secret(slot.value), of: client), slot.name)
                } catch let error as AuthError where error.code == .invalidCallback {
                    continue
                }
                break
            }
            guard let taken else {
                throw AuthError(
                    .invalidCallback,
                    "No sign-in of this browser waits for this response: it was finished already, took too long, or was begun elsewhere."
                )
            }
            let removal = slotCookie(taken.slot, "").removal
            do {
                let credential = try await client.exchange(callback, for: taken.request)
                let identifier = try await beginSession(credential, after: sessionIdentifier(of: request))
                return ServerResponse.leadingOn(to: taken.request.note ?? options.startPath).setting(removal)
                    .setting(sessionCookie(identifier.exposed))
            } catch {
                // It was taken out, so that it cannot be tried again.
                return failure(error).setting(removal)
            }
        } catch {
            return failure(error)
        }
    }

    /// Keeps a credential under a new identifier. What the browser had before ends: an identifier that was known before a sign-in must
    /// not have the session after it.
    private func beginSession(_ credential: Credential, after old: Secret?) async throws -> Secret {
        let identifier = Secret(Base64URL.encode(client.server.host.randomBytes(32)))
        try await credentials.save(
            credential,
            for: identifier.exposed,
            attributes: RecordAttributes(
                lifetime: options.lifetime,
                idleTime: options.idleTime,
                tags: tags(of: credential)
            )
        )
        if let old {
            let removed = try await credentials.remove([credentials.recordKey(for: CredentialKey(old.exposed))])
            // Tokens of the same user may belong to the same grant, which is still in use.
            revoke(removed.filter { $0.identity?.subject != credential.identity?.subject })
        }
        return identifier
    }

    func sessionCookie(_ value: String) -> ResponseCookie {
        ResponseCookie(
            name: options.cookieName,
            value: value,
            sameSite: .strict,
            isSecure: isSecure,
            maximumAge: options.isPersistent ? options.lifetime : nil
        )
    }

    /// The page for what went wrong. It shows no value of the request.
    private func failure(_ error: any Error) -> TransportResponse {
        guard let error = error as? AuthError else {
            return ServerResponse.refusal(
                .internalServerError,
                "Signing in has failed. Try again.",
                start: options.startPath
            )
        }
        let status: HTTPResponse.Status =
            switch error.code {
            case .invalidCallback, .accessDenied, .timedOut, .providerRejected, .issuerMismatch: .badRequest
            case .storageFailed, .leaseBusy: .serviceUnavailable
            default: .badGateway
            }
        // What is for the operator is told in the events, and not to the browser.
        let message =
            switch error.code {
            case .invalidCallback, .accessDenied, .timedOut: error.message
            default: "Signing in has failed (\(error.code.rawValue)). Try again."
            }
        return ServerResponse.refusal(status, message, start: options.startPath)
    }
}
