import AuthFlow
import AuthFlowTesting
import Expectations
import Testing

@Suite struct SignOutRecordTests {
    /// The tokens of a refresh in progress are revoked if the sign-out is still recorded when they arrive.
    @Test("The record of a sign-out does not expire with the record of an earlier one")
    func theRecordOfASignOutDoesNotExpireWithTheRecordOfAnEarlierOne() async throws {
        let time = VirtualTime()
        let store = MemoryTokenStore(host: time.host)
        let credentials = CredentialManager(
            client: OAuthClient(
                server: AuthorizationServer(issuer: "https://id.example.com"),
                registration: try ClientRegistration(clientID: "client")
            ),
            store: store
        )
        let key = credentials.recordKey(for: CredentialKey("session"))
        let record = RecordKey(
            name: "signed out\n\(key.name)",
            issuer: key.issuer,
            clientID: key.clientID,
            kind: .claim
        )
        for _ in 0..<2 {
            try await credentials.revokeLateTokens(of: [key])
            time.advance(by: .seconds(590))
        }
        #expect(await !store.claim(record, for: .seconds(1)))
        time.advance(by: .seconds(20))
        #expect(await store.claim(record, for: .seconds(1)))
    }
}
