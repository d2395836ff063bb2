import AuthFlow
import AuthFlowSimulation

/// A policy of the provider: for some time, it issues no tokens for one resource. The session and the tokens for other resources remain usable.
struct ResourcePolicy {
    /// The possible error codes, from RFC 8707 section 2, RFC 6749 section 4.1.2.1 and OpenID Connect Core section 3.1.2.6; a custom code; and none.
    private static let codes = ["invalid_target", "access_denied", "consent_required", "x_policy", nil]
    /// A duration that is shorter than every backoff, including its jitter.
    static let shortestBackoff = Duration.seconds(3)

    let resource: String
    private let code: String?
    /// The start and the end of the policy.
    let period: Range<Duration>
    /// The time at which each process received the latest refusal for a grant.
    private var refusals: [Recipient: Duration] = [:]

    private struct Recipient: Hashable {
        let process: Int
        let grant: Int
    }

    /// - Parameter seed: The seed of the history. No policy without resources, and for three in four seeds.
    init?(of resources: [String], seed: UInt64) {
        // The history's own generator is not used, so that histories without a policy remain unchanged.
        var random = SeededGenerator(seed: ~seed)
        guard random.happens(0.25), let resource = resources.randomElement(using: &random) else { return nil }
        self.resource = resource
        code = Self.codes.randomElement(using: &random) ?? nil
        let start = random.duration(.zero, .seconds(100))
        // Half of the policies outlast the history.
        period = start..<(random.happens(0.5) ? .seconds(10_000) : start + random.duration(.seconds(5), .seconds(120)))
    }

    /// Whether a request for a resource is refused at a given time.
    func refuses(_ resource: String?, at time: Duration) -> Bool { resource == self.resource && period.contains(time) }

    /// The body of the refusal; nil if it has no error code.
    var refusal: JSON? { code.map { ["error": .string($0)] } }

    /// Whether an error, or an underlying error, has the refusal's error code.
    func isCause(of error: AuthError) -> Bool {
        guard let code else { return false }
        return sequence(first: error) { $0.underlyingError as? AuthError }.contains { $0.providerError?.error == code }
    }

    /// Whether the rejection, which may have no error code, may have caused the given error.
    func mayCause(_ error: AuthError) -> Bool {
        code != nil ? isCause(of: error) : [.invalidResponse, .loginRequired].contains(error.code)
    }

    /// Records that a process has received the refusal.
    mutating func isDelivered(to process: Simulation.Process, of grant: Int, at time: Duration) {
        refusals[Recipient(process: process.index, grant: grant)] = time
    }

    /// Whether a process has just received a refusal, and must not yet repeat the request.
    func isKnown(to process: Simulation.Process, of grant: Int, at time: Duration) -> Bool {
        refusals[Recipient(process: process.index, grant: grant)].map { time - $0 < Self.shortestBackoff } ?? false
    }
}
