import AuthFlow
import Foundation
import Testing

/// The kinds of names in a server's certificate.
@Suite struct CertificateNamesTests {
    private static func element(_ tag: UInt8, _ parts: [UInt8]...) -> [UInt8] {
        let content = parts.flatMap(\.self)
        return [tag, UInt8(content.count)] + content
    }

    /// A certificate with the given fields.
    private static func pem(_ fields: [UInt8]...) -> String {
        let bytes = element(0x30, element(0x30, fields.flatMap(\.self)))
        return "-----BEGIN CERTIFICATE-----\n\(Data(bytes).base64EncodedString())\n-----END CERTIFICATE-----\n"
    }

    /// An extension that contains a name.
    /// - Parameter number: The last number of the extension's identifier 2.5.29.
    private static func names(_ number: UInt8, _ name: [UInt8]) -> [UInt8] {
        element(0x30, element(0x06, [0x55, 0x1D, number]), element(0x04, element(0x30, name)))
    }

    private static let hostName = element(0x82, Array("id.example.com".utf8))
    private static let address = element(0x87, [127, 0, 0, 1])

    /// 17 is subjectAltName; 18 is issuerAltName, which has the same syntax.
    @Test(
        arguments: [
            (names(17, hostName), true, false), (names(17, address), false, true),
            (names(18, hostName), false, false), (names(18, hostName) + names(17, address), false, true),
        ] as [([UInt8], Bool, Bool)]
    ) func onlyTheSubjectsNamesAreNamesOfACertificate(
        _ extensions: [UInt8],
        _ hasHostName: Bool,
        _ hasAddress: Bool
    ) {
        let list = Self.element(0xA3, Self.element(0x30, extensions))
        let names = CertificateNames(pem: Self.pem(Self.element(0x02, [1]), list))
        #expect(names.hasHostName == hasHostName)
        #expect(names.hasAddress == hasAddress)
    }

    /// The length of the first field is invalid.
    @Test func aMalformedCertificateHasNoNames() {
        let list = Self.element(0xA3, Self.element(0x30, Self.names(17, Self.hostName)))
        #expect(CertificateNames(pem: Self.pem(Self.element(0x02, [1]), list)).hasHostName)
        #expect(!CertificateNames(pem: Self.pem([0x02, 0x83], list)).hasHostName)
    }
}
