import AuthFlow
import AuthFlowTesting

// Encrypted ID Tokens and userinfo. Rows 76, 77, 80 to 84, 123 and 124 of the table.
extension ConformanceTable {
    private static let rsa = Result { try DecryptionKey(generatedFor: .rsaOAEP256) }
    private static let elliptic = Result { try DecryptionKey(generatedFor: .ecdhESA128KW) }
    private static let older = Result { try DecryptionKey(generatedFor: .ecdhESA128KW) }

    static let encryptedIDTokens: [ConformanceRow] = [
        accepts("76", "rp-id_token-sig+enc", rsa, .rsaOAEP256, [.idToken]),
        accepts("77", "rp-id_token-sig+enc-a128kw", elliptic, .ecdhESA128KW, [.idToken]),
    ]

    static let encryptedUserInfo: [ConformanceRow] = [
        accepts("80", "rp-userinfo-enc", elliptic, .ecdhESA128KW, [.userInfo]),
        accepts("81", "rp-userinfo-sig+enc", rsa, .rsaOAEP256, [.userInfo], signature: .es256),
        .row(
            "82",
            "rp-key-rotation-rp-enc-key",
            "Decrypt with the new key, and with the old key while tokens encrypted for it are in transit.",
            clients: [client(older, .ecdhESA128KW, [.idToken])]
        ) { environment in
            try await ConformanceRow.signsIn(environment) {
                $0.decryptionKeys = DecryptionKeySource([try elliptic.get(), try older.get()])
            }
        },
        .notApplicable("83", "rp-request_uri-enc", encryptedRequests),
        .notApplicable("84", "rp-request_uri-sig+enc", encryptedRequests),
    ]

    static let encryptedFAPI: [ConformanceRow] = [
        accepts("123", "encrypted ID Token", rsa, .rsaOAEP256, [.idToken, .userInfo, .authorizationResponse]),
        .refuses(
            "124",
            "ID Token encrypted with RSA1_5",
            "Reject the ID Token.",
            fault: .idToken(.text { _ in "eyJhbGciOiJSU0ExXzUiLCJlbmMiOiJBMTI4Q0JDLUhTMjU2In0.AA.AA.AA.AA" }),
            settings: { $0.decryptionKeys = DecryptionKeySource([try rsa.get()]) }
        ),
    ]

    private static let encryptedRequests =
        "Requests are signed and pushed over TLS instead, without encryption, as in FAPI 2.0 Message Signing."

    private static func client(
        _ key: Result<DecryptionKey, any Error>,
        _ algorithm: KeyManagementAlgorithm,
        _ responses: Set<EncryptedResponse>,
        signature: SignatureAlgorithm? = nil
    ) -> OIDCEmulator.Client {
        var client = OIDCEmulator.Client.demo
        client.userInfoSigningAlgorithm = signature
        client.encryption = EmulatedEncryption(
            to: (try? key.get().publicJWK) ?? [:],
            algorithm: algorithm,
            responses: responses
        )
        return client
    }

    private static func accepts(
        _ number: String,
        _ name: String,
        _ key: Result<DecryptionKey, any Error>,
        _ algorithm: KeyManagementAlgorithm,
        _ responses: Set<EncryptedResponse>,
        signature: SignatureAlgorithm? = nil
    ) -> ConformanceRow {
        let encrypted = client(key, algorithm, responses, signature: signature)
        return .row(number, name, "Decrypt the response, and reject an unencrypted response.", clients: [encrypted]) {
            environment in
            let settings: @Sendable (inout ClientRegistration.Values) throws -> Void = {
                $0.decryptionKeys = DecryptionKeySource([try key.get()])
                $0.encryptedResponses = responses
                if responses.contains(.authorizationResponse) { $0.responseMode = .jwt }
            }
            try await ConformanceRow.signsIn(environment, settings)
            var plain = encrypted
            plain.encryption = nil
            try await EmulatorEnvironment.with(.inProcess, clients: [plain]) { environment in
                let code: AuthError.Code =
                    responses.contains(.authorizationResponse)
                    ? .invalidCallback : responses.contains(.idToken) ? .invalidIDToken : .invalidUserInfo
                try await ConformanceRow.requireError(code) {
                    try await ConformanceRow.signsIn(environment, settings)
                }
            }
        }
    }
}
