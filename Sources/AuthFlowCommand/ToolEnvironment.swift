import AuthFlow

/// The clock, random source and environment of this process, read once, and the transport used without a profile.
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
