#if os(Linux)
/// The transport of this system: libcurl on Linux, `URLSession` on Apple's systems.
public typealias SystemTransport = CurlTransport
#else
/// The transport of this system: libcurl on Linux, `URLSession` on Apple's systems.
public typealias SystemTransport = URLSessionTransport
#endif
