import AuthFlowEssentials
public import AuthFlowHTTP
import AuthFlowJOSE
package import AuthFlowJSON
import Crypto

extension AuthorizationRequest: Codable {
    /// Encodes the request as one JSON string. It contains secrets.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(String(decoding: try json.serialized(), as: UTF8.self))
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let json = try? JSON(parsing: Array(text.utf8)), let request = AuthorizationRequest(json) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "Not an authorization request.")
        }
        self = request
    }
}

extension AuthorizationRequest {
    /// The version of the stored form.
    private static let formatVersion: Int64 = 1

    /// The stored form. It contains secrets.
    package var json: JSON {
        var json: [String: JSON] = [
            "version": .integer(Self.formatVersion), "url": .string(url), "redirect_uri": .string(redirectURI),
            "issuer": .string(issuer), "expires_at": .double(expiresAt.timeIntervalSince1970),
            "client_id": .string(clientID), "state": .string(state.exposed),
            "code_verifier": .string(codeVerifier.exposed), "response_mode": .string(responseMode.rawValue),
            "scopes": .array(scopes.map(JSON.string)), "resources": .array(resources.map(JSON.string)),
            "binding": binding.json, "iss_required": .bool(requiresIssuer),
        ]
        json["requested_at"] = requestedAt.map { .double($0.timeIntervalSince1970) }
        json["url_lifetime"] = urlLifetime.map(JSON.double)
        json["note"] = note.map(JSON.string)
        json["nonce"] = nonce.map { .string($0.exposed) }
        // An infinite value means that only auth_time was requested. JSON cannot represent infinity.
        json["max_age"] = requirements.maximumAge.map { $0.isFinite ? .double($0) : "any" }
        json["acr_values"] = requirements.essentialACRValues.map { .array($0.map(JSON.string)) }
        json["subjects"] = requirements.subjects.map { .array($0.map(JSON.string)) }
        json["authorization_details"] = authorizationDetails
        json["dpop_key"] = dpopKey.map { .string($0.stored.exposed) }
        return .object(json)
    }

    /// Decodes the stored form that ``json`` returned.
    /// - Returns: nil when a required member is missing, a member is invalid, or the version differs.
    package init?(_ json: JSON) {
        guard json["version"]?.integer == Self.formatVersion, let url = json["url"]?.string,
            let redirectURI = json["redirect_uri"]?.string, let issuer = json["issuer"]?.string,
            let expiry = json["expires_at"]?.number, let clientID = json["client_id"]?.string,
            let state = json["state"]?.string, !state.isEmpty, let verifier = json["code_verifier"]?.string,
            let responseMode = json["response_mode"]?.string.flatMap(ResponseMode.init),
            let scopes = json["scopes"]?.strings, let resources = json["resources"]?.strings,
            let binding = json["binding"].flatMap(ProviderBinding.init(stored:))
        else { return nil }
        var requirements = AuthenticationRequirements()
        requirements.maximumAge = json["max_age"].flatMap { $0 == "any" ? .infinity : $0.number }
        requirements.essentialACRValues = json["acr_values"]?.strings
        requirements.subjects = json["subjects"]?.strings
        let nonce = json["nonce"]?.string
        let dpopKey = json["dpop_key"]?.string.flatMap { DPoPKey(stored: Secret($0)) }
        let details = json["authorization_details"]
        // A requirement that cannot be parsed must not be treated as absent.
        guard (json["max_age"] == nil) == (requirements.maximumAge == nil),
            (json["acr_values"] == nil) == (requirements.essentialACRValues == nil),
            (json["subjects"] == nil) == (requirements.subjects == nil),
            (json["nonce"] == nil) == (nonce == nil), (json["dpop_key"] == nil) == (dpopKey == nil),
            details == nil || details?.array != nil, json["iss_required"] == nil || json["iss_required"]?.bool != nil
        else { return nil }
        self.init(
            url: url,
            redirectURI: redirectURI,
            issuer: issuer,
            expiresAt: Date(secondsSince1970: expiry),
            requestedAt: json["requested_at"]?.number.map(Date.init(secondsSince1970:)),
            note: json["note"]?.string,
            clientID: clientID,
            state: Secret(state),
            nonce: nonce.map { Secret($0) },
            codeVerifier: Secret(verifier),
            responseMode: responseMode,
            requirements: requirements,
            scopes: scopes,
            resources: resources,
            authorizationDetails: details,
            dpopKey: dpopKey,
            binding: binding,
            requiresIssuer: json["iss_required"]?.bool ?? false,
            urlLifetime: json["url_lifetime"]?.number
        )
    }

    /// The request, encrypted with ChaCha20-Poly1305, for storage that other parties can read, such as a cookie.
    ///
    /// A sealed request can be opened any number of times. One ``AuthorizationServer`` accepts an authorization response only
    /// once; across instances and processes, rely on the server to reject a reused code, or use ``PendingAuthorizations``.
    /// - Parameter key: At least 32 random bytes, the same on every instance that opens the request.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the key is too short, or the sealed request would be larger than 32 KiB.
    public func sealed(by key: Secret) throws -> String {
        let box = try ChaChaPoly.seal(try json.serialized(), using: Self.symmetric(key), authenticating: Self.purpose)
        let text = Base64URL.encode(box.combined)
        guard text.utf8.count <= Self.maximumSealedSize else {
            throw AuthError(
                .invalidConfiguration,
                "The authorization request is too large to be sealed: its parameters must be shorter."
            )
        }
        return text
    }

    /// Opens a sealed request.
    /// - Throws: ``AuthError`` with `invalid_callback` when the request was sealed with another key, was tampered with, or has another version;
    ///   `invalid_configuration` when the key is too short.
    public init(sealed text: String, by key: Secret) throws {
        let symmetric = try Self.symmetric(key)
        guard text.utf8.count <= Self.maximumSealedSize, let bytes = Base64URL.decode(text),
            let box = try? ChaChaPoly.SealedBox(combined: bytes),
            let plain = try? ChaChaPoly.open(box, using: symmetric, authenticating: Self.purpose),
            let json = try? JSON(parsing: Array(plain)), let request = AuthorizationRequest(json)
        else { throw AuthError(.invalidCallback, "The sealed authorization request cannot be opened. Sign in again.") }
        self = request
    }

    private static let maximumSealedSize = 32 * 1024

    private static let purpose = Array("authflow authorization request".utf8)

    private static func symmetric(_ key: Secret) throws(AuthError) -> SymmetricKey {
        let bytes = Array(key.exposed.utf8)
        guard bytes.count >= 32 else {
            throw AuthError(.invalidConfiguration, "The key that seals authorization requests has fewer than 32 bytes.")
        }
        return HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: bytes),
            info: Array("authflow authorization request key".utf8),
            outputByteCount: 32
        )
    }
}
