public import AuthFlow

extension AssertionSource {
    /// The maximum size of a program's output, in bytes.
    private static let maximumSize = 64 * 1024

    /// A program that prints a JWT. No shell is involved; the program's standard error is discarded. Linux only.
    /// - Parameters:
    ///   - command: The program (its path, or a name to look up in `PATH`) and its arguments.
    ///   - timeout: The timeout for the program; default: 30 seconds.
    ///   - audience: The required audience of the JWT; default: the authorization server's issuer identifier.
    public static func command(
        _ command: [String],
        timeout: Duration = .seconds(30),
        audience: String? = nil
    ) -> AssertionSource {
        let name = "the program \(DisplayText.sanitized(command.first ?? ""))"
        return AssertionSource(name, identity: command.joined(separator: "\u{0}"), audience: audience) { request in
            let environment = request.host.environment
            guard let program = command.first, let path = LaunchEnvironment.find(program, environment) else {
                throw AuthError(.assertionUnusable, "No assertion is available: \(name) is not installed.")
            }
            let (status, bytes) = try await withDeadline(timeout, clock: request.host.clock) {
                AuthError(.assertionUnusable, "No assertion is available: \(name) did not exit in time.")
            } _: {
                try await ProgramOutput.of(
                    [path] + command.dropFirst(),
                    environment: environment,
                    maximumSize: maximumSize
                )
            }
            guard let bytes else {
                throw AuthError(.assertionUnusable, "\(name) printed more than \(maximumSize) bytes.")
            }
            guard status == 0 else {
                throw AuthError(.assertionUnusable, "No assertion is available: \(name) exited with status \(status).")
            }
            return try Assertion(printed: bytes, by: name)
        }
    }
}

extension AssertionSourceFactory {
    /// `command`: a program that prints a JWT.
    public static var command: AssertionSourceFactory {
        let command = ConfigurationKey(
            "command",
            required: .command,
            "The program and its arguments. No shell is involved. The program must print the JWT and nothing else within 30 seconds."
        )
        return AssertionSourceFactory("command", keys: [command, audience]) { options, _ in
            .command(try options[command], audience: try options[audience])
        }
    }
}
