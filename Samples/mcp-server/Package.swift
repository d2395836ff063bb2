// swift-tools-version: 6.2

import PackageDescription

// A package of its own, so that the other samples need no web framework.
let package = Package(
    name: "mcp-server",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "AuthFlow", path: "../..", traits: [.defaults, "Hummingbird", "Observability"]),
        .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.28.0", traits: []),
    ],
    targets: [
        .executableTarget(
            name: "mcp-server",
            dependencies: [
                .product(name: "AuthFlowHummingbird", package: "AuthFlow"),
                .product(name: "AuthFlowResourceServerConfiguration", package: "AuthFlow"),
                .product(name: "Hummingbird", package: "hummingbird"),
            ],
            path: "Sources",
            swiftSettings: [.enableUpcomingFeature("MemberImportVisibility")]
        )
    ],
    swiftLanguageModes: [.v6]
)
