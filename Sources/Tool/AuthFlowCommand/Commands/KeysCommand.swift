import ArgumentParser
import AuthFlow

struct KeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Create a client's private keys for signing and decryption, and show their public properties.",
        discussion: """
            Register with the provider the public key set that "new" and "jwks" print. In the configuration, specify the file \
            as "client_key". For the ECDH-ES and RSA-OAEP algorithms, specify it as "decryption_key", and use "show" and "jwks" \
            with --decryption. To rotate a key, also register the new key, and then replace the file.
            """,
        subcommands: [New.self, Show.self, PublicKeys.self]
    )

    struct TokenPIN: ParsableArguments {
        @Option(name: .customLong("pin-from"), help: "The environment variable with the PIN of the hardware token.")
        var variable: String?

        /// The key in a file, or in a hardware token.
        func source(_ place: String, keyID: String? = nil) throws -> SigningKeySource {
            guard place.hasPrefix("pkcs11:") else { return .file(path: place, keyID: keyID) }
            let pin = variable.flatMap { ToolEnvironment.host.environment[$0] }
            guard variable == nil || pin != nil else {
                throw AuthError(.invalidConfiguration, "The environment variable \(variable ?? "") is not set.")
            }
            return try .pkcs11(place, pin: pin.map(Secret.init), keyID: keyID)
        }
    }

    struct DecryptionAlgorithm: ParsableArguments {
        @Option(
            help:
                "With --decryption: the algorithm of the keys. Default: the algorithm in the file or, for an RSA key without one, RSA-OAEP-256."
        )
        var algorithm: String?

        func check(isForDecryption: Bool) throws {
            guard algorithm == nil || isForDecryption else {
                throw ValidationError("--algorithm requires --decryption.")
            }
        }

        /// The decryption keys in a file.
        func keys(_ path: String, keyID: String?) throws -> [DecryptionKey] {
            let algorithm = algorithm.map(KeyManagementAlgorithm.init(rawValue:))
            let keys = try DecryptionKeySource.file(path: path, keyID: keyID, algorithm: algorithm).keys()
            guard algorithm == nil || keys.allSatisfy({ $0.publicJWK["alg"]?.string == algorithm?.rawValue }) else {
                throw AuthError(.invalidConfiguration, "A key file specifies a different algorithm (alg).")
            }
            return keys
        }
    }

    struct New: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "new",
            abstract: "Write a new private key that only you can read, and print its public key set."
        )

        @Argument(help: "The file to write. An existing file is never overwritten.", completion: .file())
        var path: String

        @Option(
            help: """
                The signature algorithm: ES256, ES384, ES512, PS256, RS256 or EdDSA; or the decryption algorithm: ECDH-ES, ECDH-ES+A128KW, \
                ECDH-ES+A256KW, RSA-OAEP-256 or RSA-OAEP.
                """
        )
        var algorithm = "ES256"

        func run() async throws {
            let signing: [SignatureAlgorithm] = [.es256, .es384, .es512, .ps256, .rs256, .edDSA]
            let decrypting: [KeyManagementAlgorithm] = [.ecdhES, .ecdhESA128KW, .ecdhESA256KW, .rsaOAEP256, .rsaOAEP]
            if let algorithm = decrypting.first(where: { $0.rawValue == algorithm }) {
                let key = try DecryptionKey(generatedFor: algorithm)
                guard let pem = key.pem else { throw AuthError(.unsupported, "The key cannot be encoded as PEM.") }
                try write(pem, publicKey: key.publicJWK)
                if algorithm == .rsaOAEP {
                    Terminal.printMessage(
                        #"In the configuration, specify the algorithm together with the file: {"file": "...", "algorithm": "RSA-OAEP"}."#
                    )
                }
                return
            }
            guard let algorithm = signing.first(where: { $0.rawValue == algorithm }) else {
                let names = signing.map(\.rawValue) + decrypting.map(\.rawValue)
                throw ValidationError("--algorithm must be one of \(names.joined(separator: ", ")).")
            }
            let pem = try PrivateKey(generatedFor: algorithm).pem
            // Parsed from PEM, as when the file is loaded later: an RSA key
            // can sign with several algorithms, so the JWK has no `alg`.
            try write(pem, publicKey: try PrivateKey(pem: pem).publicJWK)
        }

        private func write(_ pem: Secret, publicKey: JSON) throws {
            guard try PrivateFile(path).create(with: Array("\(pem.exposed)\n".utf8)) else {
                throw AuthError(.invalidConfiguration, "\(path) already exists. Choose another name.")
            }
            try Terminal.result(["keys": [publicKey]])
            Terminal.printMessage("Wrote \(path). Register this key set with the provider.")
        }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show",
            abstract: "Show the key ID (kid) and the algorithms of a key."
        )

        @Argument(
            help: "A PEM, JWK or JWK Set file, or the PKCS #11 URI of a key in a hardware token.",
            completion: .file()
        )
        var path: String

        @OptionGroup var token: TokenPIN

        @Option(help: "The kid of the key in a set.")
        var kid: String?

        @Flag(help: "The key is a decryption key.")
        var decryption = false

        @OptionGroup var registered: DecryptionAlgorithm

        func validate() throws { try registered.check(isForDecryption: decryption) }

        func run() async throws {
            guard !decryption else {
                for key in try registered.keys(path, keyID: kid) {
                    Terminal.result("kid         \(key.keyID ?? "")")
                    Terminal.result("algorithms  \(key.algorithms.map(\.rawValue).joined(separator: " "))")
                }
                return
            }
            let key = try token.source(path, keyID: kid).key()
            Terminal.result("kid         \(key.keyID ?? "")")
            Terminal.result("algorithms  \(key.algorithms.map(\.rawValue).joined(separator: " "))")
        }
    }

    struct PublicKeys: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "jwks",
            abstract: "Print the public key set of key files, to register or to publish."
        )

        @Argument(
            help: "The key files, or PKCS #11 URIs of keys; during a rotation, the new key first.",
            completion: .file()
        )
        var paths: [String]

        @OptionGroup var token: TokenPIN

        @Option(help: "For a single key file: the kid of the key in a set, or the kid to print for a PEM key.")
        var kid: String?

        @Flag(help: "Treat the keys as decryption keys, and print them as such.")
        var decryption = false

        @OptionGroup var registered: DecryptionAlgorithm

        func validate() throws {
            guard kid == nil || paths.count == 1 else { throw ValidationError("--kid requires a single key file.") }
            try registered.check(isForDecryption: decryption)
        }

        func run() async throws {
            let keys =
                decryption
                ? try paths.flatMap { try registered.keys($0, keyID: kid).map(\.publicJWK) }
                : try paths.map { try token.source($0, keyID: kid).key().publicJWK }
            let names = keys.compactMap { $0["kid"]?.string }
            guard Set(names).count == keys.count else {
                throw AuthError(
                    .invalidConfiguration,
                    "Two of the keys have the same kid, so a provider could not distinguish them."
                )
            }
            try Terminal.result(["keys": .array(keys)])
        }
    }
}
