import AuthFlow
import AuthFlowJSON
import CommandHarness
import Expectations
import Foundation
import Testing

@testable import AuthFlowJOSE
@testable import AuthFlowPKCS11

#if os(Linux)
/// A PKCS #11 token whose behavior is scripted: the module `Tests/ScriptedToken/token.c`, compiled once, and copied for each
/// token, because a process loads each module only once.
private final class ScriptedToken {
    private let directory: URL
    private var module: String { directory.appendingPathComponent("token.so").path }

    /// The compiled module.
    private static let compiled = Task {
        let source = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../ScriptedToken/token.c").standardized.path
        let library = "\(NSTemporaryDirectory())/authflow-token-\(ProcessInfo.processInfo.processIdentifier).so"
        // Swift needs one of these compilers to build C targets.
        let script = #"$(command -v clang || command -v cc) -shared -fPIC -o "$0" "$1""#
        let result = try await CommandHarness.run(
            ["-c", script, library, source],
            program: "/bin/sh",
            environment: ["PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin"]
        )
        try #require(result.status == 0, "\(result.standardError)")
        defer { try? FileManager.default.removeItem(atPath: library) }
        return try Data(contentsOf: URL(fileURLWithPath: library))
    }

    /// - Parameter script: Lines that replace those of a usable token with a P-256 key.
    init(_ script: String = "") async throws {
        directory = URL(fileURLWithPath: "\(NSTemporaryDirectory())/authflow-token-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        try await Self.compiled.value.write(to: directory.appendingPathComponent("token.so"))
        try change(script)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    func change(_ script: String) throws {
        // If several lines begin with the same word, the first of them takes effect.
        try "\(script)\n\(Self.usable)".write(toFile: "\(module).script", atomically: true, encoding: .utf8)
    }

    /// The generator of P-256 (FIPS 186-4 section D.1.2.3), which is a valid public key.
    static let point =
        "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
        + "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"

    private static let usable = """
        flags 400
        attribute 100 0300000000000000
        attribute 102 01
        attribute 180 06082a8648ce3d030107
        attribute 181 044104\(point)
        signature \(String(repeating: "a1", count: 64))
        """

    /// The number of calls of a function.
    func count(_ function: String) -> Int {
        let calls = (try? String(contentsOfFile: "\(module).calls", encoding: .utf8)) ?? ""
        return calls.split(separator: "\n").count { $0 == function }
    }

    var uri: String { "pkcs11:object=signing?module-path=\(module)" }

    func key(pin: String? = nil) throws -> PKCS11Key {
        try PKCS11Key(PKCS11URI(uri), pin: pin.map { Secret($0) })
    }
}

/// Keys in a PKCS #11 token, with a token that can fail at each call; `Tests/Interop/softhsm.sh` tests them with SoftHSM.
@Suite struct PKCS11KeyTests {
    struct Unusable: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let script: String
        var pin: String?
        /// The number of sessions that are opened, and must be closed.
        var sessions = 1
        let words: String
    }

    private static let rsa = "attribute 100 0000000000000000\nattribute 122 010001"

    private static let unusable: [Unusable] = [
        Unusable(testDescription: "no token", script: "tokens 0", sessions: 0, words: "Tokens present: none"),
        Unusable(
            testDescription: "an uninitialized token",
            script: "flags 0",
            sessions: 0,
            words: "Tokens present: \"Scripted\""
        ),
        Unusable(testDescription: "two tokens", script: "tokens 2", sessions: 0, words: "several tokens match"),
        Unusable(testDescription: "no private key", script: "private 0", words: "no such private key"),
        Unusable(testDescription: "two private keys", script: "private 2", words: "several such keys"),
        Unusable(testDescription: "no public key", script: "public 0", words: "no matching public key"),
        Unusable(testDescription: "a DSA key", script: "attribute 100 0100000000000000", words: "neither an RSA key"),
        Unusable(testDescription: "secp256k1", script: "attribute 180 06052b8104000a", words: "its curve is not P-256"),
        Unusable(
            testDescription: "a point that is too short",
            script: "attribute 181 04\(ScriptedToken.point.dropLast(4))",
            words: "cannot be read"
        ),
        Unusable(
            testDescription: "a point without its first byte",
            script: "attribute 181 \(ScriptedToken.point)",
            words: "cannot be read"
        ),
        Unusable(
            testDescription: "a compressed point",
            script: "attribute 181 042102\(ScriptedToken.point.prefix(64))",
            words: "cannot be read"
        ),
        Unusable(
            testDescription: "an RSA key of 2040 bits, padded to 2048",
            script: "\(rsa)\nattribute 120 00\(String(repeating: "c5", count: 255))",
            words: "fewer than 2048 bits"
        ),
        Unusable(testDescription: "a token that needs a PIN", script: "flags 404", words: "requires a PIN"),
        Unusable(testDescription: "a locked token", script: "flags 40404", pin: "1", words: "the token is locked"),
        Unusable(testDescription: "one attempt left", script: "flags 20404", pin: "1", words: "one more wrong PIN"),
        Unusable(testDescription: "a wrong PIN", script: "flags 404\nC_Login a0", pin: "1", words: "the PIN is wrong"),
        Unusable(
            testDescription: "a PIN that locks the token",
            script: "flags 404\nC_Login a4",
            pin: "1",
            words: "the token is locked"
        ),
        Unusable(
            testDescription: "a failing login",
            script: "flags 404\nC_Login 5",
            pin: "1",
            words: "failed (error 5)"
        ),
        Unusable(
            testDescription: "a failing list",
            script: "C_GetSlotList 5",
            sessions: 0,
            words: "unexpected error (5)"
        ),
        Unusable(
            testDescription: "a failing session",
            script: "C_OpenSession 5",
            sessions: 0,
            words: "unexpected error (5)"
        ),
        Unusable(testDescription: "a failing search", script: "C_FindObjectsInit 5", words: "unexpected error (5)"),
        Unusable(testDescription: "a failing result", script: "C_FindObjects 5", words: "unexpected error (5)"),
        Unusable(testDescription: "a failing end", script: "C_FindObjectsFinal 5", words: "unexpected error (5)"),
        Unusable(
            testDescription: "a failing attribute",
            script: "C_GetAttributeValue 5",
            words: "unexpected error (5)"
        ),
        Unusable(
            testDescription: "a module that fails",
            script: "C_Initialize 5",
            sessions: 0,
            words: "initialized (error 5)"
        ),
    ]

    @Test func aTokenThatIsInsertedLaterIsFound() async throws {
        let token = try await ScriptedToken("tokens 0")
        #expect(throws: AuthError.self) { try token.key() }
        try token.change("tokens 1")
        _ = try token.key()
    }

    @Test(arguments: unusable) func rejectsAnUnusableKeyAndClosesItsSession(_ unusable: Unusable) async throws {
        let token = try await ScriptedToken(unusable.script)
        let error = #expect(throws: AuthError.self) { try token.key(pin: unusable.pin) }
        #expect(error?.code == .keyUnavailable)
        #expect(error?.message.contains(unusable.words) == true, "\(error?.message ?? "")")
        #expect(token.count("C_CloseSession") == unusable.sessions)
        #expect(token.count("an unsupported function") == 0)
        #expect(token.count("C_Sign") == 0)
    }

    struct Unusual: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let script: String
        /// A call that shows that the case was reached.
        let call: String
    }

    @Test(arguments: [
        Unusual(
            testDescription: "another part of the program is logged in",
            script: "flags 404\nC_Login 100",
            call: "C_Login"
        ),
        Unusual(
            testDescription: "another part of the program has initialized the module",
            script: "C_Initialize 191",
            call: "C_Initialize"
        ),
        Unusual(
            testDescription: "a point without an octet string",
            script: "attribute 181 04\(ScriptedToken.point)",
            call: "C_GetAttributeValue"
        ),
        Unusual(testDescription: "a key without an identifier", script: "attribute 102", call: "public key by label"),
    ]) func acceptsAKeyInAnUnusualToken(_ unusual: Unusual) async throws {
        let token = try await ScriptedToken(unusual.script)
        #expect(try token.key(pin: "1").publicJWK["crv"] == "P-256")
        #expect(token.count(unusual.call) > 0)
    }

    @Test func offersTheAlgorithmsOfAnRSAKey() async throws {
        let modulus = String(repeating: "c5", count: 256)
        let token = try await ScriptedToken("\(Self.rsa)\nattribute 120 00\(modulus)\nsignature \(modulus)")
        let key = try token.key()
        #expect(key.algorithms == [.ps256, .rs256] && key.publicJWK["e"] == "AQAB")
        #expect(try await key.signature(over: [1], by: .ps256).count == 256)
        #expect(token.count("C_Sign") == 1)
    }

    /// Another attempt could lock the token.
    @Test func doesNotTryARejectedPINAgain() async throws {
        let token = try await ScriptedToken("flags 404\nC_Login a0")
        expectError(.keyUnavailable) { try token.key(pin: "1") }
        try token.change("flags 404")
        let error = #expect(throws: AuthError.self) { try token.key(pin: "1") }
        #expect(error?.message.contains("not retried") == true && token.count("C_Login") == 1)
        _ = try token.key(pin: "2")
        #expect(token.count("C_Login") == 2)
    }

    @Test func rejectsAnAlgorithmThatTheKeyDoesNotSupport() async throws {
        let token = try await ScriptedToken()
        let key = try token.key()
        await expectError(.unsupported) { try await key.signature(over: [1], by: .es384) }
        #expect(token.count("C_Sign") == 0)
    }

    /// The token was removed and inserted again, or another part of the program closed the session.
    @Test(arguments: ["32", "b0", "b3", "e0", "101"]) func signsInANewSessionIfTheSessionIsLost(_ result: String)
        async throws
    {
        let token = try await ScriptedToken("C_Sign \(result) 0")
        let key = try token.key()
        #expect(try await key.signature(over: [1], by: .es256) == [UInt8](repeating: 0xA1, count: 64))
        #expect(token.count("C_OpenSession") == 2 && token.count("C_CloseSession") == 1)
        _ = try await key.signature(over: [1], by: .es256)
        #expect(token.count("C_OpenSession") == 2 && token.count("C_Sign") == 3)
    }

    @Test func aFailureOtherThanALostSessionOpensNoSession() async throws {
        let token = try await ScriptedToken("C_SignInit 5 0")
        let key = try token.key()
        let error = await #expect(throws: AuthError.self) { try await key.signature(over: [1], by: .es256) }
        #expect(error?.code == .keyUnavailable && error?.message.contains("signing failed (error 5)") == true)
        _ = try await key.signature(over: [1], by: .es256)
        #expect(token.count("C_OpenSession") == 1)
    }

    @Test func rejectsAnotherKeyAfterTheSessionIsLost() async throws {
        let token = try await ScriptedToken()
        let key = try token.key()
        let other = ScriptedToken.point.replacingOccurrences(of: "6b17", with: "6b18")
        try token.change("C_Sign 32 0\nattribute 181 044104\(other)")
        let error = await #expect(throws: AuthError.self) { try await key.signature(over: [1], by: .es256) }
        #expect(error?.message.contains("not the same key as before") == true && token.count("C_Sign") == 1)
    }

    @Test func aSessionThatIsLostTwiceIsReported() async throws {
        let token = try await ScriptedToken("C_Sign 32")
        let key = try token.key()
        await expectError(.keyUnavailable) { try await key.signature(over: [1], by: .es256) }
        #expect(token.count("C_Sign") == 2)
    }

    @Test func doesNotSignForACancelledTask() async throws {
        let token = try await ScriptedToken()
        let key = try token.key()
        let task = Task {
            unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
            return try await key.signature(over: [1], by: .es256)
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(token.count("C_Sign") == 0)
    }

    /// A module that encodes the signature in DER would otherwise produce a JWT that the provider rejects without a reason.
    @Test(arguments: ["signature 30450221", "signature \(String(repeating: "a1", count: 72))"])
    func rejectsASignatureOfTheWrongSize(_ script: String) async throws {
        let token = try await ScriptedToken(script)
        let key = try token.key()
        let error = await #expect(throws: AuthError.self) { try await key.signature(over: [1], by: .es256) }
        #expect(error?.code == .keyUnavailable && error?.message.contains("instead of 64") == true)
        #expect(token.count("C_Sign") == 1)
    }

    /// CK_UNAVAILABLE_INFORMATION instead of a length.
    @Test func rejectsASignatureWithoutALength() async throws {
        let token = try await ScriptedToken()
        let key = try token.key()
        try token.change("signature-length")
        let error = await #expect(throws: AuthError.self) { try await key.signature(over: [1], by: .es256) }
        #expect(
            error?.code == .keyUnavailable && error?.message.contains("0 bytes") == true && token.count("C_Sign") == 1
        )
    }

    @Test func rejectsAnAuthenticationCodeThatIsNot32Bytes() async throws {
        let token = try await ScriptedToken("signature \(String(repeating: "b2", count: 32))")
        let uri = try PKCS11URI(token.uri, type: .secretKey)
        #expect(try PKCS11Key.authenticationCode(for: [1], by: uri, pin: nil) == [UInt8](repeating: 0xB2, count: 32))
        try token.change("signature \(String(repeating: "b2", count: 31))")
        expectError(.keyUnavailable) { try PKCS11Key.authenticationCode(for: [1], by: uri, pin: nil) }
        #expect(token.count("C_OpenSession") == token.count("C_CloseSession"))
    }
}
#endif
