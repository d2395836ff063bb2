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
    /// - Parameter algorithms: The accepted algorithms for ID Tokens; none if there are no ID Tokens. Default: those in the metadata.
    /// - Throws: Any error from fetching the metadata, or `CancellationError`.
    func obstacles(algorithms: [SignatureAlgorithm]? = nil) async throws -> [Obstacle] {
        let metadata = try await metadata()
        var obstacles: [Obstacle] = []
        var origins: Set<String> = metadata.document == nil ? [] : [(try? Endpoint(issuer))?.origin ?? issuer]
        if let place = metadata.jwksURI {
            origins.insert(place.origin)
            do {
                let keys = try await signatureKeys(metadata)
                let accepted = algorithms ?? metadata.usableIDTokenAlgorithms
                // A client secret is the key of the other algorithms.
                let isVerifiable = accepted.contains { algorithm in
                    !SignatureAlgorithm.asymmetric.contains(algorithm) || keys.contains { $0.fits(algorithm) }
                }
                if !isVerifiable, algorithms?.isEmpty != true {
                    let names = accepted.map(\.rawValue).joined(separator: ", ")
                    let reason =
                        accepted.isEmpty
                        ? "its metadata lists no supported signature algorithm for ID Tokens"
                        : "its key set has no usable key for \(names)"
                    throw AuthError(.invalidResponse, "No ID Token of \(place.host) can be verified: \(reason).")
                }
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
