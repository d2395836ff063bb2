import AuthFlowJSON
public import Foundation

/// What a sign-in leaves behind and a store keeps: the tokens and whom they belong to.
public struct Credential: Sendable, Hashable {
    /// The tokens.
    public var tokens: TokenSet

    /// Who signed in.
    public var identity: Identity

    /// When, by this machine's clock.
    public var signedInAt: Date

    /// Creates a credential.
    public init(tokens: TokenSet, identity: Identity, signedInAt: Date) {
        self.tokens = tokens
        self.identity = identity
        self.signedInAt = signedInAt
    }
}

// MARK: - Stored form

extension Credential {
    /// The version that ``serialized()`` writes.
    static let formatVersion: Int64 = 1

    /// The credential as bytes for a ``TokenStore``. They hold secrets.
    /// - Throws: ``AuthError`` with `storage_failed` when it cannot be written as JSON.
    public func serialized() throws(AuthError) -> [UInt8] {
        var json: [String: JSON] = [
            "version": .integer(Self.formatVersion),
            "signed_in_at": .double(signedInAt.timeIntervalSince1970),
            "identity": [
                "issuer": .string(identity.issuer), "subject": .string(identity.subject), "claims": identity.claims,
            ],
            "access_token": .string(tokens.accessToken.exposed),
            "token_type": .string(tokens.tokenType),
            "scopes": .array(tokens.scopes.map(JSON.string)),
            "parameters": tokens.parameters.exposed,
        ]
        json["expires_at"] = tokens.expiresAt.map { .double($0.timeIntervalSince1970) }
        json["refresh_token"] = tokens.refreshToken.map { .string($0.exposed) }
        json["id_token"] = tokens.idToken.map { .string($0.exposed) }
        if let verified = tokens.verifiedIDToken {
            json["verified_id_token"] = ["header": verified.header.json, "claims": verified.claims]
        }
        do throws(JSONError) {
            return try JSON.object(json).serialized(indented: true)
        } catch {
            throw AuthError(.storageFailed, "The credential cannot be written: \(error).", underlyingError: error)
        }
    }

    /// Reads what ``serialized()`` wrote.
    /// - Throws: ``AuthError`` with `storage_failed` when the bytes are damaged or of a version not known here.
    public init(serialized bytes: [UInt8]) throws(AuthError) {
        let json: JSON
        do throws(JSONError) {
            json = try JSON(parsing: bytes)
        } catch {
            throw AuthError(
                .storageFailed,
                "The stored credential is damaged: \(error). Sign out and in again.",
                underlyingError: error
            )
        }
        guard json["version"]?.integer == Self.formatVersion else {
            throw AuthError(
                .storageFailed,
                "The stored credential was written by another version of AuthFlow. Sign out and in again."
            )
        }
        guard let accessToken = json["access_token"]?.string, let tokenType = json["token_type"]?.string,
            let signedInAt = json["signed_in_at"]?.number, let scopes = json["scopes"]?.strings,
            let issuer = json["identity"]?["issuer"]?.string, let subject = json["identity"]?["subject"]?.string
        else {
            throw AuthError(.storageFailed, "The stored credential is incomplete. Sign out and in again.")
        }
        var tokens = TokenSet(
            accessToken: Secret(accessToken),
            tokenType: tokenType,
            expiresAt: json["expires_at"]?.number.map(Date.init(timeIntervalSince1970:)),
            refreshToken: json["refresh_token"]?.string.map(Secret.init),
            idToken: json["id_token"]?.string.map(Secret.init),
            scopes: scopes,
            parameters: RedactedJSON(json["parameters"] ?? [:])
        )
        // Verified before it was stored; what the store returns is as trustworthy as the refresh token beside it.
        tokens.verifiedIDToken = json["verified_id_token"].flatMap { IDToken(stored: $0) }
        self.init(
            tokens: tokens,
            identity: Identity(issuer: issuer, subject: subject, claims: json["identity"]?["claims"] ?? [:]),
            signedInAt: Date(timeIntervalSince1970: signedInAt)
        )
    }
}

extension IDToken {
    fileprivate init?(stored json: JSON) {
        guard let header = json["header"], let claims = json["claims"], let issuer = claims["iss"]?.string,
            let subject = claims["sub"]?.string, let expiry = claims["exp"]?.number, let issued = claims["iat"]?.number
        else { return nil }
        self.init(
            header: JWSHeader(header),
            claims: claims,
            issuer: issuer,
            subject: subject,
            audience: claims["aud"]?.string.map { [$0] } ?? claims["aud"]?.strings ?? [],
            expiresAt: Date(timeIntervalSince1970: expiry),
            issuedAt: Date(timeIntervalSince1970: issued)
        )
    }
}
