#if os(Linux)
/// The default transport of the platform: libcurl on Linux, `URLSession` on Apple platforms.
public typealias SystemTransport = CurlTransport
#else
/// The default transport of the platform: libcurl on Linux, `URLSession` on Apple platforms.
public typealias SystemTransport = URLSessionTransport
#endif
