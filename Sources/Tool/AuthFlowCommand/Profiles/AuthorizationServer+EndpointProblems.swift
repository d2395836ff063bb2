import AuthFlow

extension AuthorizationServer {
    /// An endpoint that cannot be used from this machine.
    struct EndpointProblem: Sendable {
        /// `keys`, or the name of an endpoint in the metadata.
        let name: String
        let error: any Error
    }

    /// Checks the prerequisites of a sign-in, except the metadata: the server's keys, and a connection to each
    /// server that the metadata names.
    ///
    /// The endpoints are only probed: any response shows that the server can be reached.
    /// - Parameter algorithms: The accepted algorithms for ID Tokens; nil if there are no ID Tokens.
    /// - Throws: Any error from fetching the metadata, or `CancellationError`.
    func endpointProblems(idTokenAlgorithms algorithms: [SignatureAlgorithm]?) async throws -> [EndpointProblem] {
        let metadata = try await metadata()
        var endpointProblems: [EndpointProblem] = []
        // The server from which the metadata was fetched, which need not be the issuer's.
        let source: String? =
            switch metadata.document {
            case .ofIssuer?: issuer
            case .at(let url)?: url
            case nil: nil
            }
        var origins = Set([source].compactMap(\.self).map { (try? Endpoint($0))?.origin ?? $0 })
        if let place = metadata.jwksURI {
            origins.insert(place.origin)
            do {
                let keys = try await signatureKeys(metadata)
                if let algorithms { try requireKey(for: algorithms, in: keys) }
            } catch {
                try Task.checkCancellation()
                endpointProblems.append(EndpointProblem(name: "keys", error: error))
            }
        }
        for (name, endpoint) in metadata.endpoints {
            guard let endpoint, origins.insert(endpoint.origin).inserted else { continue }
            do {
                _ = try await transport.send(TransportRequest(.head, endpoint, timeout: .seconds(10)))
            } catch {
                try Task.checkCancellation()
                endpointProblems.append(EndpointProblem(name: name, error: error))
            }
        }
        return endpointProblems
    }

    private func requireKey(for algorithms: [SignatureAlgorithm], in keys: [JWK]) throws(AuthError) {
        // A client secret is the key for the other algorithms.
        let isVerifiable = algorithms.contains { algorithm in
            !SignatureAlgorithm.asymmetric.contains(algorithm) || keys.contains { $0.supports(algorithm) }
        }
        guard !isVerifiable else { return }
        let names = algorithms.map(\.rawValue).joined(separator: ", ")
        let reason =
            algorithms.isEmpty
            ? "neither its metadata nor the profile lists a signature algorithm that is supported and allowed"
            : "it publishes no usable key for \(names)"
        throw AuthError(.invalidResponse, "No ID Token of \(Redaction.url(issuer)) can be verified: \(reason).")
    }
}
