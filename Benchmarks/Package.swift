// swift-tools-version: 6.2

import PackageDescription

// A separate package, so that packages that depend on AuthFlow do not build the benchmarks.
let package = Package(
    name: "Benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "AuthFlow", path: ".."),
        .package(url: "https://github.com/apple/swift-crypto.git", from: "4.5.0"),
        .package(url: "https://github.com/apple/swift-http-types.git", from: "1.8.0"),
    ],
    targets: [
        // Counts allocations by interposing malloc (glibc).
        .target(name: "CAllocationCounter"),
        .executableTarget(
            name: "Benchmarks",
            dependencies: [
                .target(name: "CAllocationCounter", condition: .when(platforms: [.linux])),
                .product(name: "AuthFlow", package: "AuthFlow"),
                .product(name: "AuthFlowOIDC", package: "AuthFlow"),
                .product(name: "AuthFlowResourceServer", package: "AuthFlow"),
                .product(name: "AuthFlowLoopback", package: "AuthFlow"),
                .product(name: "AuthFlowHeadless", package: "AuthFlow"),
                .product(name: "AuthFlowTesting", package: "AuthFlow"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ],
            swiftSettings: [
                .enableUpcomingFeature("ExistentialAny"),
                .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
