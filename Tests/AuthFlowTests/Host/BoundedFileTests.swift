import AuthFlow
import Testing

@Suite struct BoundedFileTests {
    /// A directory can be opened but not read, and `/dev/zero` returns unlimited data.
    @Test(arguments: ["/", "/dev/zero", "/dev/null/file"])
    func aPathThatCannotBeReadUpToItsEndHasNoContents(_ path: String) {
        #expect(BoundedFile.contents(atPath: path, maximumSize: 100) == nil)
        #expect(BoundedFile.contents(ofPlainFile: path, maximumSize: 100) == nil)
    }

    /// `/dev/null` reads like an empty file, as does a FIFO without a writer.
    @Test func aDeviceIsNotAPlainFile() {
        #expect(BoundedFile.contents(atPath: "/dev/null", maximumSize: 100) == [])
        #expect(BoundedFile.contents(ofPlainFile: "/dev/null", maximumSize: 100) == nil)
    }
}
