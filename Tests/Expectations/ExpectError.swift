package import AuthFlowHTTP
import Testing

/// Expects that a body throws an ``AuthError`` with the given code. If any error were accepted, a test could pass for
/// the wrong reason.
package func expectError<Value>(
    _ code: AuthError.Code,
    _ comment: String = "",
    fileID: String = #fileID,
    filePath: String = #filePath,
    line: Int = #line,
    column: Int = #column,
    _ body: () throws -> Value
) {
    let place = SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    do {
        _ = try body()
        check(nil, code, comment, place)
    } catch {
        check(error, code, comment, place)
    }
}

/// Expects that an asynchronous body throws an ``AuthError`` with the given code.
package func expectError<Value>(
    _ code: AuthError.Code,
    _ comment: String = "",
    fileID: String = #fileID,
    filePath: String = #filePath,
    line: Int = #line,
    column: Int = #column,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws -> Value
) async {
    let place = SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    do {
        _ = try await body()
        check(nil, code, comment, place)
    } catch {
        check(error, code, comment, place)
    }
}

private func check(_ error: (any Error)?, _ code: AuthError.Code, _ comment: String, _ place: SourceLocation) {
    guard (error as? AuthError)?.code != code else { return }
    let found = error.map { "\(($0 as? AuthError)?.code.rawValue ?? "\(type(of: $0))"): \($0)" } ?? "no error"
    Issue.record("expected \(code.rawValue), found \(found). \(comment)", sourceLocation: place)
}
