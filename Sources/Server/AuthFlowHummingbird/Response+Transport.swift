#if Hummingbird
public import AuthFlowHTTP
public import Hummingbird

extension Response {
    /// The response that a `SessionServer` or a `ForwardAuth` gives, for a handler of the application.
    public init(_ response: TransportResponse) {
        self.init(
            status: response.head.status,
            headers: response.head.headerFields,
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: response.body))
        )
    }
}
#endif
