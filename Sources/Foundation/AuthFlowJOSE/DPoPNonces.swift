package import AuthFlowEssentials
import AuthFlowHTTP
package import HTTPTypes
import Synchronization

/// The nonces that servers require in the next proof (RFC 9449 sections 8 and 9), and resource servers' clock corrections, by
/// origin.
package final class DPoPNonces: Sendable {
    private let nonces = Mutex<[String: String]>([:])
    private let corrections = Mutex<[String: TimeInterval]>([:])

    /// The maximum number of origins; a client calls only its provider and a few APIs.
    private static let limit = 32

    package init() {}

    package func nonce(for origin: String) -> String? { nonces.withLock { $0[origin] } }

    /// Stores the nonce from the header fields of a response.
    /// - Returns: The nonce, if the response contains one.
    @discardableResult package func record(from fields: HTTPFields, origin: String) -> String? {
        // Section 8.1: nonce = 1*NQCHAR, the characters of a scope token.
        guard let nonce = fields[.dpopNonce], !nonce.isEmpty, nonce.utf8.count <= 1024,
            nonce.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C })
        else { return nil }
        nonces.withLock { nonces in
            if nonces.count >= Self.limit, nonces[origin] == nil { nonces.removeAll() }
            nonces[origin] = nonce
        }
        return nonce
    }

    /// The correction for this machine's clock in proofs for a resource server, in seconds; nil if that server has not rejected a proof.
    package func clockCorrection(for origin: String) -> TimeInterval? { corrections.withLock { $0[origin] } }

    /// Records the clock of a resource server that has rejected a proof.
    package func recordClock(_ correction: TimeInterval, origin: String) {
        corrections.withLock { corrections in
            if corrections.count >= Self.limit, corrections[origin] == nil { corrections.removeAll() }
            corrections[origin] = correction
        }
    }
}

extension HTTPField.Name {
    package static let dpop = Self(known: "DPoP")
    package static let dpopNonce = Self(known: "DPoP-Nonce")
}
