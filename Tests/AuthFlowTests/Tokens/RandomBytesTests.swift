import AuthFlow
import Testing

@Suite struct RandomBytesTests {
    @Test(arguments: [0, 1, 7, 8, 9, 32, 33]) func systemRandomBytesReturnsTheRequestedNumberOfBytes(_ count: Int) {
        #expect(HostServices.systemRandomBytes(count).count == count)
    }

    @Test func everyRandomByteVariesBetweenSamples() {
        let samples = (0..<64).map { _ in HostServices.systemRandomBytes(17) }
        // The probability that a byte is the same in all samples by chance is 2^-504.
        for index in 0..<17 { #expect(Set(samples.map { $0[index] }).count > 1) }
    }
}
