public import AuthFlowHTTP
public import AuthFlowJSON
public import HTTPTypes

extension ResourceServer {
    /// The protected resource metadata of the API (RFC 9728 section 2).
    public var metadata: JSON {
        var members: [String: JSON] = [
            "resource": .string(resource.url),
            "authorization_servers": .array(issuers.map { .string($0.server.issuer) }),
            // RFC 9700 section 4.3.2: tokens in queries are not accepted, nor are tokens in form-encoded bodies.
            "bearer_methods_supported": ["header"],
        ]
        if !rules.supportedScopes.isEmpty {
            members["scopes_supported"] = .array(rules.supportedScopes.map(JSON.string))
        }
        if rules.advertisesDPoP {
            members["dpop_signing_alg_values_supported"] = .array(rules.dpop.algorithms.map { .string($0.rawValue) })
        }
        if rules.binding == .dpop { members["dpop_bound_access_tokens_required"] = true }
        if supportsCertificateBoundTokens { members["tls_client_certificate_bound_access_tokens"] = true }
        return .object(members)
    }

    /// RFC 9728 section 2: `tls_client_certificate_bound_access_tokens` indicates "support for mutual-TLS client certificate-bound access tokens",
    /// whether or not the API also accepts other tokens; "If omitted, the default value is false."
    private var supportsCertificateBoundTokens: Bool {
        [.certificate, .dpopOrCertificate].contains(rules.binding) || rules.certificateField != nil
    }

    /// Returns the response to a request for the metadata. Call it before authorizing the request.
    /// - Returns: The response; nil for any other request.
    public func metadataResponse(to request: HTTPRequest) -> TransportResponse? {
        let path = (request.path ?? "/").utf8.prefix { $0 != UInt8(ascii: "?") }
        guard path.elementsEqual(ResourceMetadata.path(of: resource).utf8) else { return nil }
        var response = TransportResponse(head: HTTPResponse(status: .ok))
        // Pages of any origin may read the metadata, because it is public and no cookies are involved.
        response.head.headerFields[.accessControlAllowOrigin] = "*"
        switch request.method {
        case .get, .head:
            response.head.headerFields[.contentType] = "application/json"
            response.head.headerFields[.cacheControl] = "public, max-age=3600"
            if request.method == .get { response.body = (try? metadata.serialized()) ?? [] }
        case .options:
            response.head.status = .noContent
            response.head.headerFields[.accessControlAllowMethods] = "GET, HEAD"
            response.head.headerFields[.accessControlAllowHeaders] = "*"
        default:
            response.head.status = .methodNotAllowed
            response.head.headerFields[.allow] = "GET, HEAD, OPTIONS"
        }
        return response
    }
}
