#if Hummingbird
import AuthFlowHTTP
import Hummingbird

extension Response {
    init(_ response: TransportResponse) {
        self.init(
            status: response.head.status,
            headers: response.head.headerFields,
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: response.body))
        )
    }
}
#endif
