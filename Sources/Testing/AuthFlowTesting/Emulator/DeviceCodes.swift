import AuthFlow
import AuthFlowEssentials

/// The device codes of an emulator, and its polling rules (RFC 8628 section 3.5).
struct DeviceCodes<Grant: Sendable>: Sendable {
    /// The user's decision on a code.
    enum Decision: Sendable {
        case pending
        case denied
        case approved(Grant)
    }

    /// An issued code.
    struct Code: Sendable {
        let userCode: String
        let clientID: String
        /// The scope and the resources of the request.
        let parameters: FormParameters
        let expiresAt: Date
        var interval: TimeInterval
        var lastPoll: Date
        var decision = Decision.pending
        var scope: String { parameters["scope"] ?? "" }
    }

    /// The result of a poll.
    enum Verdict: Sendable {
        case unknown
        case expired
        case denied
        case pending
        case slowDown(interval: Int64)
        case approved(Grant)
    }

    private var codes: [String: Code] = [:]

    /// Issues a code.
    /// - Parameter request: The device authorization request.
    mutating func begin(
        clientID: String,
        request: FormParameters,
        interval: TimeInterval,
        lifetime: TimeInterval,
        now: Date
    ) -> (deviceCode: String, userCode: String) {
        // RFC 8628 section 6.1: the suggested character set, which contains only consonants.
        let alphabet = Array("BCDFGHJKLMNPQRSTVWXZ")
        let letters = HostServices.systemRandomBytes(8).map { alphabet[Int($0) % alphabet.count] }
        let userCode = "\(String(letters[..<4]))-\(String(letters[4...]))"
        let deviceCode = OIDCEmulator.randomID()
        var parameters: FormParameters = ["scope": request["scope"] ?? ""]
        for resource in request.values(for: "resource") { parameters.append("resource", resource) }
        codes[deviceCode] = Code(
            userCode: userCode,
            clientID: clientID,
            parameters: parameters,
            expiresAt: now + lifetime,
            interval: interval,
            lastPoll: now
        )
        return (deviceCode, userCode)
    }

    /// Looks up the code that a user has entered, ignoring its case and punctuation.
    func entered(_ text: String) -> (deviceCode: String, code: Code)? {
        func normalized(_ text: String) -> String { text.uppercased().filter(\.isLetter) }
        return codes.first { normalized($0.value.userCode) == normalized(text) }.map { ($0.key, $0.value) }
    }

    /// Records the user's decision.
    mutating func decide(_ deviceCode: String, _ decision: Decision) {
        codes[deviceCode]?.decision = decision
    }

    /// Handles a poll.
    mutating func poll(_ deviceCode: String, clientID: String, now: Date) -> Verdict {
        guard var code = codes[deviceCode], code.clientID == clientID else { return .unknown }
        guard now < code.expiresAt else { return .expired }
        let isEarly = now.timeIntervalSince(code.lastPoll) < code.interval
        code.lastPoll = now
        if isEarly { code.interval += 5 }
        codes[deviceCode] = code
        guard !isEarly else { return .slowDown(interval: Int64(code.interval)) }
        switch code.decision {
        case .pending: return .pending
        case .denied:
            codes[deviceCode] = nil
            return .denied
        case .approved(let grant):
            // A device code can be used only once.
            codes[deviceCode] = nil
            return .approved(grant)
        }
    }
}
