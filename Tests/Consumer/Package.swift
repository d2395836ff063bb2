// swift-tools-version: 6.2

import PackageDescription

// A third-party app, which depends on the OIDC product alone.
let package = Package(
    name: "Consumer",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "AuthFlow", path: "../..")],
    targets: [
        .executableTarget(name: "Consumer", dependencies: [.product(name: "AuthFlowOIDC", package: "AuthFlow")])
    ],
    swiftLanguageModes: [.v6]
)
