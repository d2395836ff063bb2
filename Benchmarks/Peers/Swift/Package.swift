// swift-tools-version: 6.2

import PackageDescription

// Validation of ID Tokens and access tokens by AuthFlow and by jwt-kit, for "make bench-peers". A separate package,
// because nothing else needs jwt-kit.
let package = Package(
    name: "Peer",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "AuthFlow", path: "../../.."),
        .package(url: "https://github.com/vapor/jwt-kit.git", from: "5.7.0"),
    ],
    targets: [
        .executableTarget(
            name: "Peer",
            dependencies: [
                .product(name: "AuthFlow", package: "AuthFlow"),
                .product(name: "AuthFlowOIDC", package: "AuthFlow"),
                .product(name: "AuthFlowResourceServer", package: "AuthFlow"),
                .product(name: "AuthFlowTesting", package: "AuthFlow"),
                .product(name: "JWTKit", package: "jwt-kit"),
            ],
            path: "Sources/Peer"
        )
    ],
    swiftLanguageModes: [.v6]
)
