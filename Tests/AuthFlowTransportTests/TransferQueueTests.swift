#if os(Linux)
@testable import AuthFlowTransport
import Testing

import AuthFlow

@Suite struct TransferQueueTests {
    private func transfer(_ host: String, _ settings: NetworkSettings) throws -> CurlTransfer {
        CurlTransfer(TransportRequest(.get, try Endpoint("https://\(host)/")), settings: settings, proxy: nil)
    }

    /// A host with an ever-growing number of requests must not delay the requests to other hosts.
    @Test func theLongestWaitingRequestIsSentNextRegardlessOfItsHost() throws {
        var settings = NetworkSettings()
        (settings.maximumConnections, settings.connectionsPerHost) = (2, 2)
        var queue = TransferQueue()
        func add(_ host: String) throws -> CurlTransfer {
            let transfer = try transfer(host, settings)
            _ = queue.add(transfer)
            return transfer
        }
        var busy = try (0..<3).map { _ in try add("busy.example.com") }
        let other = try add("other.example.com")
        busy += try (0..<3).map { _ in try add("busy.example.com") }
        #expect(queue.waiting.count == 5)
        #expect(queue.releaseSlot(busy[0]).map(ObjectIdentifier.init) == [ObjectIdentifier(busy[2])])
        #expect(queue.releaseSlot(busy[1]).map(ObjectIdentifier.init) == [ObjectIdentifier(other)])
        #expect(queue.releaseSlot(other).map(ObjectIdentifier.init) == [ObjectIdentifier(busy[3])])
    }

    @Test func cancellingAWaitingRequestNeitherLosesOtherRequestsNorRaisesALimit() throws {
        var settings = NetworkSettings()
        (settings.maximumConnections, settings.connectionsPerHost) = (2, 1)
        var queue = TransferQueue()
        let transfers = try ["a", "b", "a", "c", "c"].map { try transfer("\($0).example.com", settings) }
        let isStarted = transfers.map { queue.add($0) != nil }
        #expect(isStarted == [true, true, false, false, false])
        let areRemoved = [2, 3].map { queue.remove(transfers[$0]) }
        #expect(areRemoved == [true, true])
        #expect(queue.waiting.map(ObjectIdentifier.init) == [ObjectIdentifier(transfers[4])])
        #expect(queue.releaseSlot(transfers[1]).map(ObjectIdentifier.init) == [ObjectIdentifier(transfers[4])])
        #expect(queue.releaseSlot(transfers[4]).isEmpty)
        // The first request still uses the only connection to its host.
        let next = try transfer("a.example.com", settings)
        #expect(queue.add(next) == nil)
    }
}
#endif
