#if Hummingbird
public import AuthFlowHTTP
public import Hummingbird
import ServiceLifecycle

extension Response {
    /// Creates a response from the response of a `SessionServer` or a `ForwardAuth`, for use in an application's handler.
    public init(_ response: TransportResponse) {
        self.init(
            status: response.head.status,
            headers: response.head.headerFields,
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: response.body))
        )
    }

    /// Creates a streamed response. A graceful shutdown aborts the stream instead of waiting for it to end.
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
