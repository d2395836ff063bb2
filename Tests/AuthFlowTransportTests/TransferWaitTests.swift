#if os(Linux)
@testable import AuthFlowTransport
import Testing

import AuthFlow

@Suite struct TransferWaitTests {
    private func request(timeout: Duration) -> TransportRequest {
        TransportRequest(.post, "https://api.example.com/upload", timeout: timeout)
    }

    @Test(arguments: [
        (TransferWait.forConnection, "was not sent"),
        (.forBody, "The body of POST https://api.example.com/upload stalled for 2 seconds."),
        (.forResponse, "api.example.com sent nothing within 2 seconds."),
        (.forRest, "api.example.com did not complete the response within 2 seconds."),
    ])
    func theTimeoutErrorNamesThePhaseThatTimedOut(_ wait: TransferWait, message: String) {
        let error = wait.error(for: request(timeout: .seconds(2)), after: .seconds(2))
        #expect(error.code == .timedOut)
        #expect(error.message.contains(message))
        #expect((error.underlyingError is UploadStalled) == (wait == .forBody))
    }

    @Test func onlyTheFirstByteOfANonStreamedResponseHasAShorterTimeout() {
        let call = request(timeout: .seconds(20))
        let waits: [TransferWait] = [.forConnection, .forBody, .forResponse, .forRest]
        let whole = waits.map { $0.limit(for: call, isStream: false, firstByte: .seconds(5)) }
        #expect(whole == [.seconds(20), .seconds(20), .seconds(5), .seconds(20)])
        let streamed = waits.map { $0.limit(for: call, isStream: true, firstByte: .seconds(5)) }
        #expect(streamed == [.seconds(20), .seconds(20), .seconds(20), .seconds(20)])
    }
}
#endif
