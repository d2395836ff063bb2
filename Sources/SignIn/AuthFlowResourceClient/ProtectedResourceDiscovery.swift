import AuthFlowHTTP
import AuthFlowJSON
import HTTPTypes

/// The discovery of the metadata of a protected resource (RFC 9728 section 3).
struct ProtectedResourceDiscovery: Sendable {
    /// The URL of the resource, to which requests are sent.
    let address: Endpoint
    let transport: any HTTPTransport
    let host: HostServices

    /// The maximum size of a document, in bytes.
    private static let maximumSize = 256 * 1024

    /// Finds the document: at the URL in the resource's challenge, or at the well-known URLs if the challenge contains no URL or, at the resource's
    /// origin, a URL without a document.
    /// - Parameter named: The `resource_metadata` parameter of the challenge; nil when absent.
    /// - Returns: The metadata; nil when the challenge contains no URL and no document exists at the well-known URLs.
    /// - Throws: ``AuthError`` with `discovery_failed` when a document must not be used, `invalid_response` for a redirect from the URL in the
    ///   challenge, or with a network error code.
    func metadata(named: String?) async throws -> ProtectedResourceMetadata? {
        if let named {
            let url = try AuthError.recoded(.discoveryFailed) { () throws(AuthError) in
                try Endpoint(named, name: "resource_metadata")
            }
            // RFC 9728 section 7.7: the server chooses the URL, and must not make this client send requests to hosts that only this client can
            // reach (SSRF).
            guard address.mayReferTo(url) else {
                throw AuthError(
                    .discoveryFailed,
                    "\(address.origin) advertises protected resource metadata at \(url.origin), a loopback or private address. A server must not refer to an address that is more local than its own, or from https to http."
                )
            }
            switch try await document(at: url) {
            case .found(let metadata): return metadata
            // Some servers derive the URL incorrectly, for example with a duplicate path, but have a document at the URL that RFC 9728 defines.
            case .absent(status: 404) where url.origin == address.origin:
                if let metadata = try await wellKnownMetadata() { return metadata }
            case .absent: break
            }
            throw AuthError(
                .discoveryFailed,
                "\(address.origin) advertises the resource metadata URL \(url), which returns no metadata."
            )
        }
        return try await wellKnownMetadata()
    }

    /// The metadata at the well-known URLs; nil when there is none.
    private func wellKnownMetadata() async throws -> ProtectedResourceMetadata? {
        for url in try wellKnownURLs() {
            do {
                if case .found(let metadata) = try await document(at: url) { return metadata }
            } catch let error as AuthError where error.code == .invalidResponse && 300..<400 ~= error.status ?? 0 {
                // A server that redirects unknown paths to its home page has no document at this URL.
            }
        }
        return nil
    }

    /// The result of a request for a document.
    private enum Lookup {
        case found(ProtectedResourceMetadata)
        case absent(status: Int)
    }

    /// The well-known URL for the resource, and the well-known URL for its host, which MCP clients try next.
    func wellKnownURLs() throws(AuthError) -> [Endpoint] {
        let (own, hosts) = (address.wellKnownMetadata, address.wellKnownMetadataOfHost)
        return try own == hosts ? [Endpoint(hosts)] : [Endpoint(own), Endpoint(hosts)]
    }

    private func document(at url: Endpoint) async throws -> Lookup {
        // No credential is sent, because the document is public, and the server chose its URL.
        let request = TransportRequest(
            .get,
            url,
            headerFields: [.accept: "application/json"],
            maximumResponseSize: Self.maximumSize
        )
        let response = try await ExchangeLimits.send(request, by: transport, clock: host.clock)
        try response.requireAvailable(from: url.host, now: host.now())
        if (400..<500).contains(response.status) { return .absent(status: response.status) }
        guard response.status == 200 else {
            throw AuthError(
                .discoveryFailed,
                "\(request) responded with status \(response.status), so the metadata of the resource is not available.",
                status: response.status
            )
        }
        // Section 3.2: a successful response "MUST use the 200 OK HTTP status code and return a JSON object using the
        // application/json content type". Applications that serve a page for every path have no document there.
        guard response.mediaType == "application/json" || response.mediaType.hasSuffix("+json") else {
            return .absent(status: response.status)
        }
        let json: JSON
        do {
            json = try response.parsed()
        } catch {
            // The host's document, which may be broader, must not replace a document that cannot be parsed.
            throw AuthError(
                .discoveryFailed,
                "The resource metadata at \(url) is not valid JSON.",
                underlyingError: error
            )
        }
        return .found(try ProtectedResourceMetadata(json, of: address, at: url))
    }
}
