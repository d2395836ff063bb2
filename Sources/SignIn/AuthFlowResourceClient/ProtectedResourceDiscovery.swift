import AuthFlowHTTP
import AuthFlowJSON
import HTTPTypes

/// The search for the metadata of a protected resource (RFC 9728 section 3).
struct ProtectedResourceDiscovery: Sendable {
    /// The resource, by the address that requests are sent to.
    let address: Endpoint
    let transport: any HTTPTransport
    let host: HostServices

    /// The largest document that is read, in bytes.
    private static let maximumSize = 256 * 1024

    /// Finds the document: where the resource's own challenge says, or else at the well-known addresses.
    /// - Parameter named: `resource_metadata` of a challenge; nil when there was none.
    /// - Returns: nil when the challenge named no address and there is no document at the others.
    /// - Throws: ``AuthError`` with `discovery_failed` when a document may not be used, or a code of the network's.
    func metadata(named: String?) async throws -> ProtectedResourceMetadata? {
        if let named {
            let place: Endpoint
            do throws(AuthError) {
                place = try Endpoint(named, name: "resource_metadata")
            } catch {
                throw AuthError(.discoveryFailed, error.message, underlyingError: error)
            }
            // RFC 9728 section 7.7: the address is chosen by the server, which must not have this client visit what only this client
            // can reach.
            guard address.mayName(place) else {
                throw AuthError(
                    .discoveryFailed,
                    "\(address.origin) names resource metadata at \(place.origin), an address of this machine or a private network, which a public server may not name."
                )
            }
            guard let metadata = try await document(at: place) else {
                throw AuthError(
                    .discoveryFailed,
                    "\(address.origin) names resource metadata at \(place), and there is none."
                )
            }
            return metadata
        }
        for place in try wellKnownPlaces() {
            do {
                if let metadata = try await document(at: place) { return metadata }
            } catch let error as AuthError where error.code == .invalidResponse && 300..<400 ~= error.status ?? 0 {
                // A front page that redirects what it does not know has no document there.
            }
        }
        return nil
    }

    /// The address for the resource, and the one for its host, where MCP asks after that.
    func wellKnownPlaces() throws(AuthError) -> [Endpoint] {
        let (own, hosts) = (address.wellKnownMetadata, address.wellKnownMetadataOfHost)
        return try own == hosts ? [Endpoint(hosts)] : [Endpoint(own), Endpoint(hosts)]
    }

    private func document(at place: Endpoint) async throws -> ProtectedResourceMetadata? {
        // No credential goes along: the document is public, and its address was chosen by the server.
        let request = TransportRequest(
            .get,
            place,
            headerFields: [.accept: "application/json"],
            maximumResponseSize: Self.maximumSize
        )
        let response = try await ExchangeLimits.send(request, by: transport, clock: host.clock)
        try response.requireAvailable(from: place.host, now: host.now())
        if (400..<500).contains(response.status) { return nil }
        guard response.status == 200 else {
            throw AuthError(
                .discoveryFailed,
                "\(request) responded with status \(response.status), which says nothing about the resource.",
                status: response.status
            )
        }
        // Section 3.2: a successful response "MUST use the 200 OK HTTP status code and return a JSON object using the
        // application/json content type". Applications that answer every path with a page have no document there.
        guard response.mediaType == "application/json" || response.mediaType.hasSuffix("+json"),
            let json = try? response.parsed(), json.object != nil
        else { return nil }
        return try ProtectedResourceMetadata(json, of: address, at: place)
    }
}
