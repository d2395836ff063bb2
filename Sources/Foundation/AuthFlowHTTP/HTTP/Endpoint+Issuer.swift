extension Endpoint {
    /// Parses the URL of an issuer.
    ///
    /// RFC 8414 section 2: an issuer "has no query or fragment components".
    /// - Throws: ``AuthError`` with `invalid_configuration` when it is not the URL of an issuer.
    package init(issuer: String) throws(AuthError) {
        try self.init(issuer, name: "issuer")
        func rejection(_ reason: String) -> AuthError {
            AuthError(.invalidConfiguration, "The issuer \"\(self)\" cannot be used: \(reason).")
        }
        guard query == nil else { throw rejection("it has a query (?...), which RFC 8414 section 2 forbids") }
        if let place = issuer.firstRange(of: "/.well-known/") {
            throw rejection(
                "it is the URL of a metadata document; the issuer is the value of \"issuer\" in that document, usually \(issuer[..<place.lowerBound])"
            )
        }
    }
}
