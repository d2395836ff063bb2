import AuthFlowEssentials

/// One block of PEM text (RFC 7468).
package struct PEMBlock {
    package let label: String
    package let text: String

    /// The decoded content between the encapsulation boundaries; nil when it is not base64.
    package var content: [UInt8]? {
        let lines = text.split(whereSeparator: \.isNewline).dropFirst().dropLast()
        return Data(base64Encoded: lines.joined()).map(Array.init)
    }

    /// Returns the only private key in the text. The key must not be encrypted with a passphrase.
    package static func privateKey(in text: String) throws(AuthError) -> PEMBlock {
        func rejection(_ reason: String) -> AuthError {
            AuthError(.invalidConfiguration, "The private key cannot be used: \(reason).")
        }
        let blocks = blocks(in: text)
        // RFC 1421 section 4.6.1.1: older files declare encryption in a header below the label.
        if blocks.contains(where: { $0.label == "ENCRYPTED PRIVATE KEY" || $0.text.contains("Proc-Type: 4,ENCRYPTED") })
        {
            throw rejection("it is encrypted with a passphrase, which cannot be entered for every request; decrypt it")
        }
        // OpenSSL writes EC PARAMETERS before an EC key, and the text may also contain a certificate.
        let keys = blocks.filter { ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"].contains($0.label) }
        guard let key = keys.first else {
            if blocks.contains(where: { $0.label == "OPENSSH PRIVATE KEY" }) {
                throw rejection(
                    "it is in OpenSSH format; convert an RSA or ECDSA key with: ssh-keygen -p -m PKCS8 -f FILE, and replace an Ed25519 key with one from: openssl genpkey -algorithm ed25519"
                )
            }
            if blocks.contains(where: { $0.label.hasSuffix("PUBLIC KEY") }) { throw rejection("it is a public key") }
            if blocks.contains(where: { $0.label == "CERTIFICATE" }) { throw rejection("it is a certificate") }
            throw rejection("the text contains no private key in PEM or JWK format")
        }
        guard keys.count == 1 else { throw rejection("the text contains several private keys; use one file per key") }
        return key
    }

    package static func blocks(in text: String) -> [PEMBlock] {
        var blocks: [PEMBlock] = []
        // The label of the open block; nil outside a block.
        var label: String?
        // Separate from the label, because appending to a copy of an optional with both would copy all lines for each line.
        var lines: [Substring] = []
        for line in text.split(whereSeparator: \.isNewline) {
            let line = Substring(line.reversed().drop { $0 == " " || $0 == "\t" }.reversed())
            if line.hasPrefix("-----BEGIN "), line.hasSuffix("-----"), line.count > 16 {
                (label, lines) = (String(line.dropFirst(11).dropLast(5)), [line])
            } else if let current = label {
                lines.append(line)
                guard line == "-----END \(current)-----" else { continue }
                blocks.append(PEMBlock(label: current, text: lines.joined(separator: "\n")))
                (label, lines) = (nil, [])
            }
        }
        return blocks
    }
}
