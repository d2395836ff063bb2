// swift-tools-version: 6.2

import PackageDescription

// The three examples of the README, each as a program that depends on AuthFlow from outside.
let package = Package(
    name: "lanes",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "AuthFlow", path: "../..")],
    targets: [
        .executableTarget(
            name: "app",
            dependencies: [
                .product(name: "AuthFlowOIDC", package: "AuthFlow"),
                .product(name: "AuthFlowLoopback", package: "AuthFlow"),
            ]
        ),
        .executableTarget(name: "server", dependencies: [.product(name: "AuthFlowOIDC", package: "AuthFlow")]),
        .executableTarget(name: "verifier", dependencies: [.product(name: "AuthFlowOIDC", package: "AuthFlow")]),
    ],
    swiftLanguageModes: [.v6]
)
for target in package.targets { target.swiftSettings = [.enableUpcomingFeature("MemberImportVisibility")] }
