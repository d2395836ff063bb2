// swift-tools-version: 6.2

import PackageDescription

// Small programs whose builds are timed by "make bench-build": some use AuthFlow, two use other libraries, and one
// uses only AuthFlow's third-party dependencies.
func program(_ name: String, _ products: [(String, String)]) -> Target {
    .executableTarget(name: name, dependencies: products.map { .product(name: $0.0, package: $0.1) })
}

let package = Package(
    name: "build-costs",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "AuthFlow", path: "../.."),
        .package(url: "https://github.com/apple/swift-crypto.git", "3.12.3"..<"5.0.0"),
        .package(url: "https://github.com/apple/swift-http-types.git", from: "1.8.0"),
        .package(url: "https://github.com/swhitty/FlyingFox.git", from: "0.27.1"),
        .package(url: "https://github.com/vapor/jwt-kit.git", from: "5.7.0"),
        .package(url: "https://github.com/swift-server/async-http-client.git", from: "1.37.0"),
    ],
    targets: [
        program(
            "floor",
            [
                ("Crypto", "swift-crypto"), ("CryptoExtras", "swift-crypto"), ("HTTPTypes", "swift-http-types"),
                ("FlyingSocks", "FlyingFox"),
            ]
        ),
        program("verifier", [("AuthFlowIssuer", "AuthFlow")]),
        program("api", [("AuthFlowResourceServer", "AuthFlow")]),
        program("app", [("AuthFlowOIDC", "AuthFlow"), ("AuthFlowLoopback", "AuthFlow")]),
        program(
            "server",
            [("AuthFlowOIDC", "AuthFlow"), ("AuthFlowServer", "AuthFlow"), ("AuthFlowPostgreSQL", "AuthFlow")]
        ),
        program("jwt-kit-verifier", [("JWTKit", "jwt-kit")]),
        program("async-http-client-get", [("AsyncHTTPClient", "async-http-client")]),
    ],
    swiftLanguageModes: [.v6]
)
