// swift-tools-version: 6.2

import PackageDescription

// A package of its own, so that the other samples need no web framework.
let package = Package(
    name: "web-login",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "AuthFlow", path: "../.."),
        .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.28.0", traits: []),
    ],
    targets: [
        .executableTarget(
            name: "web-login",
            dependencies: [
                .product(name: "AuthFlowServer", package: "AuthFlow"),
                .product(name: "AuthFlowOIDC", package: "AuthFlow"),
                .product(name: "AuthFlowPostgreSQL", package: "AuthFlow"),
                .product(name: "AuthFlowRedis", package: "AuthFlow"),
                .product(name: "Hummingbird", package: "hummingbird"),
            ],
            path: "Sources",
            swiftSettings: [.enableUpcomingFeature("MemberImportVisibility")]
        )
    ],
    swiftLanguageModes: [.v6]
)
