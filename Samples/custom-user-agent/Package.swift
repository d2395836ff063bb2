// swift-tools-version: 6.2

import PackageDescription

// A user agent in a separate package; AuthFlow itself is not changed.
let package = Package(
    name: "custom-user-agent",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "AuthFlow", path: "../..")],
    targets: [
        .executableTarget(
            name: "custom-user-agent",
            dependencies: [.product(name: "AuthFlowOIDC", package: "AuthFlow")]
        )
    ],
    swiftLanguageModes: [.v6]
)
