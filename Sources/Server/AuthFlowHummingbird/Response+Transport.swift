#if Hummingbird
public import AuthFlowHTTP
public import Hummingbird
import ServiceLifecycle

extension Response {
    /// The response that a `SessionServer` or a `ForwardAuth` gives, for a handler of the application.
    public init(_ response: TransportResponse) {
        self.init(
            status: response.head.status,
            headers: response.head.headerFields,
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: response.body))
        )
    }

    /// A response that is passed on as it arrives. It is broken off when the application shuts down, which would wait for it otherwise.
    init(_ response: ResponseStream) {
        let body = response.body
        self.init(
            status: response.head.status,
            headers: response.head.headerFields,
            body: ResponseBody { writer in
                try await withGracefulShutdownHandler {
                    for try await part in body { try await writer.write(ByteBuffer(bytes: part)) }
                } onGracefulShutdown: {
                    body.cancel()
                }
                try await writer.finish(nil)
            }
        )
    }
}
#endif
