import Synchronization
import Testing

@testable import AuthFlowCommand

/// The messages about requests that are in progress when the user presses Ctrl-C.
@Suite struct UnfinishedClientsTests {
    /// A client that waits for the response to a refresh request.
    private final class WaitingClient: UnfinishedClient {
        let isWaiting = Atomic(true)
        var hasPendingResponse: Bool { isWaiting.load(ordering: .relaxed) }
        var hasUnfinishedWork: Bool { hasPendingResponse }
        func stopSending() {}
        func drain(within waitTimeout: Duration) async -> Bool { true }
    }

    @Test func theMessagesDependOnTheOperationAndOnWhetherATokenCouldBeLost() {
        defer { UnfinishedClients.note(.other) }
        UnfinishedClients.note(.other)
        #expect(UnfinishedClients.messages.began == nil && UnfinishedClients.messages.done == nil)
        UnfinishedClients.note(.signIn)
        #expect(UnfinishedClients.messages.began == nil)
        #expect(UnfinishedClients.messages.done?.contains("you may be signed in now") == true)
        let client = WaitingClient()
        UnfinishedClients.add(client)
        defer { client.isWaiting.store(false, ordering: .relaxed) }
        for operation in [UnfinishedClients.Operation.signIn, .other] {
            UnfinishedClients.note(operation)
            #expect(UnfinishedClients.messages.began?.contains("so that no token is lost") == true)
            #expect(UnfinishedClients.messages.done?.contains("any new token was stored") == true)
        }
    }
}
