import AuthFlow
import AuthFlowJSON
import HTTPTypes

extension HTTPReply {
    static func json(_ json: JSON, status: HTTPResponse.Status = .ok) -> HTTPReply {
        HTTPReply(
            response: HTTPResponse(status: status, headerFields: [.contentType: "application/json"]),
            body: (try? json.serialized()) ?? []
        )
    }

    static var failure: HTTPReply { HTTPReply(response: HTTPResponse(status: .internalServerError)) }

    static func redirect(to location: String) -> HTTPReply {
        HTTPReply(
            response: HTTPResponse(status: .seeOther, headerFields: [.location: location, .cacheControl: "no-store"])
        )
    }

    static func page(_ title: String, _ body: String, status: HTTPResponse.Status = .ok) -> HTTPReply {
        let page = """
            <!doctype html>
            <html lang="en">
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <title>\(title)</title>
            <style>
            :root { color-scheme: light dark; font: 1.125rem/1.5 system-ui, sans-serif; }
            body { max-width: 24rem; margin: 15vh auto; padding: 1rem; }
            label { display: block; margin: 0.75rem 0; }
            input { display: block; width: 100%; box-sizing: border-box; font: inherit; padding: 0.4rem; }
            button { font: inherit; padding: 0.4rem 1rem; margin: 0.5rem 0.5rem 0 0; }
            [role=alert] { color: light-dark(#b00020, #ff8a80); }
            </style>
            <h1>\(title)</h1>
            \(body)
            </html>

            """
        return HTTPReply(
            response: HTTPResponse(
                status: status,
                headerFields: [.contentType: "text/html; charset=utf-8", .cacheControl: "no-store"]
            ),
            body: Array(page.utf8)
        )
    }
}

extension HTTPRequest {
    var sessionCookie: String? {
        let cookies = (headerFields[.cookie] ?? "").split(separator: ";").map { $0.drop { $0 == " " } }
        return cookies.first { $0.hasPrefix("session=") }.map { String($0.dropFirst("session=".count)) }
    }
}

extension [UInt8] {
    var form: FormParameters { FormURLEncoding.decode(String(decoding: self, as: UTF8.self)) ?? [:] }
}
