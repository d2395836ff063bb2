public import AuthFlowEssentials
import AuthFlowSystem

/// The host services that the engine uses: time, randomness, waiting, and the process environment.
///
/// Tests pass custom host services; all other callers use ``system``.
public struct HostServices: Sendable {
    /// The wall clock, which is used to check token lifetimes.
    public var now: @Sendable () -> Date

    /// Returns the given number of bytes from a cryptographically secure source.
    public var randomBytes: @Sendable (_ count: Int) -> [UInt8]

    /// The monotonic clock for timeouts, waits and leases. Unlike the wall clock, it is never adjusted, and it
    /// continues to advance while the system is suspended.
    public var clock: any Clock<Duration>

    /// The environment variables, for configurations, default paths, user agents and assertion sources.
    public var environment: [String: String]

    /// Creates host services; each defaults to the system's.
    public init(
        now: @escaping @Sendable () -> Date = { Date() },
        randomBytes: @escaping @Sendable (_ count: Int) -> [UInt8] = HostServices.systemRandomBytes,
        clock: any Clock<Duration> = ContinuousClock(),
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) {
        self.now = now
        self.randomBytes = randomBytes
        self.clock = clock
        self.environment = environment
    }

    /// The system's clock, random number generator and environment. The environment is read once, at the first use.
    public static let system = HostServices()

    /// Returns bytes from the system's random number generator (`getrandom` on Linux, `arc4random_buf` on Apple platforms).
    public static func systemRandomBytes(_ count: Int) -> [UInt8] {
        #if canImport(Glibc)
        // A single system call: "The maximum permitted value for the length argument is 256" (getentropy(3)).
        if count <= 256 {
            var bytes = [UInt8](repeating: 0, count: count)
            if unsafe bytes.withUnsafeMutableBytes({ unsafe getentropy($0.baseAddress, count) }) == 0 { return bytes }
        }
        #endif
        var generator = SystemRandomNumberGenerator()
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count + 8)
        // Each number requires a system call, so all eight of its bytes are used.
        while bytes.count < count {
            let number = generator.next() as UInt64
            for shift in stride(from: 0, to: 64, by: 8) {
                bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(shift)))
            }
        }
        return Array(bytes.prefix(count))
    }

    /// The current time in whole seconds, as in JWTs, so that a stored value is read back unchanged.
    package var wholeSecond: Date { Date(timeIntervalSince1970: now().timeIntervalSince1970.rounded(.down)) }

    /// A string of 43 characters with 256 random bits, for `state`, `nonce` and `code_verifier`.
    package func randomToken() -> String { Base64URL.encode(randomBytes(32)) }
}

extension HostServices: CustomStringConvertible, NonReflectable {
    /// Only the names of the environment variables, because their values may be secrets.
    public var description: String { "host services with \(environment.keys.sorted().joined(separator: ", "))" }
}
