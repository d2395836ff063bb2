/// The kinds of names in a certificate's subjectAltName extension (RFC 5280 section 4.2.1.6).
package struct CertificateNames {
    /// Whether there is a dNSName.
    package private(set) var hasHostName = false
    /// Whether there is an iPAddress.
    package private(set) var hasAddress = false

    /// - Parameter pem: The certificate. A certificate that cannot be decoded has no names.
    package init(pem: String) {
        guard let certificate = PEMBlock.blocks(in: pem).first?.content,
            var names = Self.subjectAltName(of: certificate)
        else { return }
        while let tag = names.tag, names.next(tag) != nil {
            if tag == 0x82 { hasHostName = true }
            if tag == 0x87 { hasAddress = true }
        }
    }

    /// 2.5.29.17
    private static let identifier: [UInt8] = [0x55, 0x1D, 0x11]

    /// RFC 5280 section 4.1: the extensions are the last field of the TBSCertificate.
    private static func subjectAltName(of certificate: [UInt8]) -> DERReader? {
        var file = DERReader(certificate[...])
        guard let whole = file.next(0x30) else { return nil }
        var parts = DERReader(whole)
        guard let signed = parts.next(0x30) else { return nil }
        var members = DERReader(signed)
        while let tag = members.tag, tag != 0xA3 {
            guard members.next(tag) != nil else { return nil }
        }
        guard let list = members.next(0xA3) else { return nil }
        var wrapper = DERReader(list)
        guard let sequence = wrapper.next(0x30) else { return nil }
        var extensions = DERReader(sequence)
        while let entry = extensions.next(0x30) {
            var entry = DERReader(entry)
            guard entry.next(0x06).map(Array.init) == identifier else { continue }
            if entry.tag == 0x01 { _ = entry.next(0x01) }  // critical
            var value = DERReader(entry.next(0x04) ?? [])
            return value.next(0x30).map(DERReader.init)
        }
        return nil
    }
}
