import AuthFlow
import Testing

@testable import AuthFlowPKCS11

/// The URIs of keys in PKCS #11 tokens (RFC 7512).
@Suite struct PKCS11URITests {
    @Test func readsTheAttributesOfAPKCS11URI() throws {
        let uri = try PKCS11URI(
            "pkcs11:token=My%20card;serial=1;model=M;manufacturer=Acme;object=a%3Bb;id=%00%FF;type=private"
                + ";slot-id=1;library-version=2?module-path=/usr/lib/p.so"
        )
        #expect(uri.token == "My card" && uri.serial == "1" && uri.model == "M" && uri.manufacturer == "Acme")
        #expect(uri.object == "a;b" && uri.identifier == [0, 255] && uri.module == "/usr/lib/p.so")
        #expect(try PKCS11URI("pkcs11:object=x").module == "p11-kit-proxy.so")
        #expect(try PKCS11URI("pkcs11:id=%01?module-path=p.so").module == "p.so")
    }

    @Test(
        arguments: [
            ("object=x", "does not begin with \"pkcs11:\""), ("pkcs12:object=x", "does not begin with \"pkcs11:\""),
            ("pkcs11:", "neither \"object\" nor \"id\""), ("pkcs11:token=x", "neither \"object\" nor \"id\""),
            ("pkcs11:object=x;type=public", "type is not \"private\""),
            ("pkcs11:object=x;type=secret-key", "type is not \"private\""),
            ("pkcs11:object=x?pin-value=1", "a PIN must be configured separately"),
            ("pkcs11:object=x;pin-value=1", "a PIN must be configured separately"),
            ("pkcs11:object=x?pin-source=/pin", "a PIN must be configured separately"),
            ("pkcs11:object=x;color=red", "\"color\" is not supported"),
            ("pkcs11:object=x?module-name=y", "\"module-name\" is not supported"),
            ("pkcs11:object=x?token=y", "\"token\" is not supported"),
            ("pkcs11:object", "object is malformed"), ("pkcs11:object=%zz", "object is malformed"),
            ("pkcs11:object=x;id=%+5", "id is malformed"), ("pkcs11:object=x;object=y", "occurs more than once"),
            ("pkcs11:object=x?module-path=/a&module-path=/b", "occurs more than once"),
            ("pkcs11:object=", "object is empty"), ("pkcs11:object=a%00b", "contains a NUL character"),
            ("pkcs11:object=%ff", "not UTF-8"), ("pkcs11:object=x?module-path=lib/p.so", "not absolute"),
            ("pkcs11:object=x?module-path=.%2fp.so", "not absolute"),
        ] as [(String, String)]
    ) func rejectsInvalidOrUnsupportedPKCS11URIs(_ uri: String, _ words: String) {
        let error = #expect(throws: AuthError.self) { try PKCS11URI(uri) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
    }

    @Test func rejectsAPrivateKeyAsASecretKey() throws {
        let error = #expect(throws: AuthError.self) { try PKCS11URI("pkcs11:object=x;type=private", type: .secretKey) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains("type is not \"secret-key\"") == true)
    }
}
