import AuthFlow

/// Time, randomness and environment of this process, read once, and the way to the network where no profile describes one.
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
}
