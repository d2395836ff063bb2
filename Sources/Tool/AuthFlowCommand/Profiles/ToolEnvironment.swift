import AuthFlow
import AuthFlowEssentials

/// The clock, random number generator and environment of this process, read once, and the transport used without a profile.
enum ToolEnvironment {
    static let host = HostServices.system

    static let transport: any HTTPTransport = {
        #if os(Linux)
        var settings = NetworkSettings()
        settings.proxy = .environment(host.environment)
        return SystemTransport(settings)
        #else
        return SystemTransport()
        #endif
    }()

    /// The path of this program with symbolic links resolved, so that a desktop entry that contains the path does not
    /// depend on the links.
    static func program() throws -> String {
        #if os(Linux)
        let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        #else
        let path = Bundle.main.executableURL?.resolvingSymlinksInPath().path
        #endif
        guard let path else {
            throw AuthError(.userAgentFailed, "The path of this program cannot be determined.")
        }
        return path
    }
}
