import AuthFlow
import Testing

@Suite struct PEMBlockTests {
    /// A reverse proxy may forward a client's certificate in a header field.
    @Test("The time is proportional to the number of lines", .timeLimit(.minutes(1)))
    func readsABlockOfAnyNumberOfLinesInLinearTime() {
        let lines = String(repeating: "AAAA\n", count: 200_000)
        let blocks = PEMBlock.blocks(
            in: "-----BEGIN CERTIFICATE-----\n\(lines)-----END CERTIFICATE-----\ntext\n"
                + "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
        )
        #expect(blocks.map(\.label) == ["CERTIFICATE", "PUBLIC KEY"])
        #expect(blocks.map { $0.content?.count } == [600_000, 3])
    }
}
