// swift-tools-version: 6.2

import PackageDescription

// A separate package, so that the other samples need no web framework.
let settings: [SwiftSetting] = [.enableUpcomingFeature("MemberImportVisibility")]

func authFlow(_ products: [String]) -> [Target.Dependency] { products.map { .product(name: $0, package: "AuthFlow") } }

/// A program in its own directory that depends on AuthFlow products.
func program(_ name: String, _ products: [String], _ others: [Target.Dependency] = [hummingbird]) -> Target {
    .executableTarget(
        name: name,
        dependencies: authFlow(products) + others + ["SampleStart"],
        path: "\(name)/Sources",
        swiftSettings: settings
    )
}

let hummingbird = Target.Dependency.product(name: "Hummingbird", package: "hummingbird")
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")

let package = Package(
    name: "servers",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(
            name: "AuthFlow",
            path: "../..",
            traits: [.defaults, "Hummingbird", "Observability", "SwiftConfiguration"]
        ),
        .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.28.0", traits: []),
        .package(url: "https://github.com/apple/swift-http-types.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-nio.git", from: "2.80.0"),
        .package(url: "https://github.com/apple/swift-nio-extras.git", from: "1.25.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.8.0"),
        .package(url: "https://github.com/apple/swift-metrics.git", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing.git", from: "1.7.0"),
        .package(url: "https://github.com/apple/swift-configuration.git", from: "1.4.0"),
    ],
    targets: [
        .target(name: "SampleStart", path: "sample-start/Sources", swiftSettings: settings),
        program(
            "web-login",
            [
                "AuthFlowHummingbird", "AuthFlowServerConfiguration", "AuthFlowOIDC", "AuthFlowPostgreSQL",
                "AuthFlowRedis", "AuthFlowSQLite", "AuthFlowLog",
            ]
        ),
        program(
            "router-login",
            ["AuthFlowServerConfiguration", "AuthFlowOIDC"],
            [
                hummingbird, httpTypes,
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ]
        ),
        program(
            "nio-login",
            ["AuthFlowServerConfiguration", "AuthFlowOIDC"],
            [
                httpTypes,
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
                .product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ]
        ),
        program("page-cost", ["AuthFlowHummingbird", "AuthFlowServerConfiguration", "AuthFlowOIDC"]),
        // The listings in docs/servers.md
        program(
            "handbook",
            [
                "AuthFlowHummingbird", "AuthFlowServerConfiguration", "AuthFlowResourceServerConfiguration",
                "AuthFlowOIDC", "AuthFlowPostgreSQL", "AuthFlowSQLite", "AuthFlowSwiftConfiguration", "AuthFlowLog",
                "AuthFlowLoopback", "AuthFlowMCP", "AuthFlowObservability", "AuthFlowResourceServer", "AuthFlowTrace",
            ],
            [hummingbird, httpTypes, .product(name: "Configuration", package: "swift-configuration")]
        ),
        // Resource servers, configured from a file
        program("orders-api", ["AuthFlowHummingbird", "AuthFlowResourceServerConfiguration"]),
        program("mcp-server", ["AuthFlowHummingbird", "AuthFlowResourceServerConfiguration"]),
        // Products that require a package trait are tested here, because this package enables the trait.
        .testTarget(
            name: "WebLoginTests",
            dependencies: authFlow([
                "AuthFlowHummingbird", "AuthFlowObservability", "AuthFlowServer", "AuthFlowServerConfiguration",
                "AuthFlowSwiftConfiguration", "AuthFlowOIDC", "AuthFlowTesting",
            ]) + [
                hummingbird, httpTypes,
                .product(name: "Configuration", package: "swift-configuration"),
                .product(name: "HummingbirdTesting", package: "hummingbird"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
                .product(name: "Tracing", package: "swift-distributed-tracing"),
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
            ],
            path: "web-login/Tests",
            swiftSettings: settings
        ),
    ],
    swiftLanguageModes: [.v6]
)
