import AuthFlow

extension AuthorizationServer {
    /// An endpoint that cannot be used from this machine.
    struct Obstacle: Sendable {
        /// `keys`, or the name of an endpoint in the metadata.
        let name: String
        let error: any Error
    }

    /// Checks the prerequisites of a sign-in, except the metadata: the server's keys, and a connection to each
    /// server that the metadata names.
    ///
    /// The endpoints are only probed: any response shows that the server can be reached.
    /// - Throws: Any error from fetching the metadata, or `CancellationError`.
    func obstacles() async throws -> [Obstacle] {
        let metadata = try await metadata()
        var obstacles: [Obstacle] = []
        var origins: Set<String> = metadata.document == nil ? [] : [(try? Endpoint(issuer))?.origin ?? issuer]
        if let place = metadata.jwksURI {
            origins.insert(place.origin)
            do {
                _ = try await encryptionKeys(metadata)
            } catch {
                try Task.checkCancellation()
                obstacles.append(Obstacle(name: "keys", error: error))
            }
        }
        for (name, endpoint) in metadata.endpoints {
            guard let endpoint, origins.insert(endpoint.origin).inserted else { continue }
            do {
                _ = try await transport.send(TransportRequest(.head, endpoint, timeout: .seconds(10)))
            } catch {
                try Task.checkCancellation()
                obstacles.append(Obstacle(name: name, error: error))
            }
        }
        return obstacles
    }
}
