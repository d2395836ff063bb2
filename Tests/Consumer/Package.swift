// swift-tools-version: 6.2

import PackageDescription

// A third-party app that depends only on the OIDC product, a program that only verifies tokens, and an API.
let package = Package(
    name: "Consumer",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "AuthFlow", path: "../..")],
    targets: [
        .executableTarget(name: "Consumer", dependencies: [.product(name: "AuthFlowOIDC", package: "AuthFlow")]),
        .executableTarget(name: "API", dependencies: [.product(name: "AuthFlowResourceServer", package: "AuthFlow")]),
        .executableTarget(name: "Verifier", dependencies: [.product(name: "AuthFlowIssuer", package: "AuthFlow")]),
    ],
    swiftLanguageModes: [.v6]
)
