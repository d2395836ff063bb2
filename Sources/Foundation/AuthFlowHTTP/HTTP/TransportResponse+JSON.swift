public import AuthFlowJSON

extension TransportResponse {
    /// Whether the status is in the 2xx (Successful) class (RFC 9110 section 15.3).
    package var isSuccessful: Bool { (200..<300).contains(status) }

    /// The body as JSON. RFC 8259 section 8.1: a parser "MAY ignore the presence of a byte order mark rather than treating it as an
    /// error".
    package func parsed() throws(JSONError) -> JSON {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        return try body.starts(with: mark) ? JSON(parsing: body.dropFirst(mark.count)) : JSON(parsing: body)
    }

    /// The body as a JSON object.
    /// - Parameter source: The server that responded, for the message.
    /// - Throws: ``AuthError`` with `invalid_response` when the body is not acceptable JSON; the message never quotes it.
    public func json(from source: String) throws(AuthError) -> JSON {
        let json: JSON
        do throws(JSONError) {
            json = try parsed()
        } catch {
            throw AuthError(
                .invalidResponse,
                "The response from \(source) (status \(status)) is not acceptable JSON: \(error).",
                status: status,
                underlyingError: error
            )
        }
        guard json.object != nil else {
            throw AuthError(
                .invalidResponse,
                "The response from \(source) is \(json.kind), not a JSON object.",
                status: status
            )
        }
        return json
    }
}
