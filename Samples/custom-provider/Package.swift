// swift-tools-version: 6.2

import PackageDescription

// A provider adapter in a separate package; AuthFlow itself is not changed.
let package = Package(
    name: "custom-provider",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "AuthFlow", path: "../..")],
    targets: [
        .executableTarget(
            name: "custom-provider",
            dependencies: [
                .product(name: "AuthFlow", package: "AuthFlow"),
                .product(name: "AuthFlowHeadless", package: "AuthFlow"),
                .product(name: "AuthFlowTesting", package: "AuthFlow"),
            ]
        )
    ],
    swiftLanguageModes: [.v6]
)
