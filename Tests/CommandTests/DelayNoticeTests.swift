import Testing

@testable import AuthFlowCommand

/// The notice that a waiting command prints.
@Suite struct DelayNoticeTests {
    @Test(.timeLimit(.minutes(1))) func theDelayNoticeIsPrintedWhileTheCommandIsWaiting() async throws {
        let (notices, continuation) = AsyncStream.makeStream(of: String.self)
        let notice = DelayNotice(delay: .zero) { continuation.yield($0) }
        // The operation ends only after the notice.
        let text = await notice.during { await notices.first { _ in true } }
        #expect(text?.contains("Ctrl-C") == true)
    }

    @Test func theDelayNoticeIsNotPrintedForAFastCommandOrWithoutATerminal() async {
        let fast = DelayNotice(delay: .seconds(3_600)) { _ in Issue.record("printed") }
        #expect(await fast.during { 1 } == 1)
        #expect(await DelayNotice(delay: .zero, notify: nil).during { 2 } == 2)
    }
}
