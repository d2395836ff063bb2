// swift-tools-version: 6.2

import PackageDescription

/// A program that depends on products of AuthFlow, the way a program in any other package would.
func program(_ name: String, at path: String? = nil, _ products: [String], exclude: [String] = []) -> Target {
    .executableTarget(
        name: name,
        dependencies: products.map { .product(name: $0, package: "AuthFlow") },
        path: path ?? name,
        exclude: exclude,
        swiftSettings: [.enableUpcomingFeature("MemberImportVisibility")]
    )
}

let package = Package(
    name: "samples",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "AuthFlow", path: "..")],
    targets: [
        // A program for each provider adapter
        program(
            "oidc-login",
            ["AuthFlowOIDC", "AuthFlowDesktop", "AuthFlowLoopback", "AuthFlowHeadless", "AuthFlowTerminal"],
            exclude: ["README.md", "authflow.json", "cloudentity.json", "resources.json"]
        ),
        program(
            "github-login",
            ["AuthFlowGitHub", "AuthFlowLoopback", "AuthFlowHeadless", "AuthFlowTerminal", "AuthFlowTesting"],
            exclude: ["README.md", "authflow.json"]
        ),
        program(
            "okta-native-sso",
            ["AuthFlowOkta", "AuthFlowLoopback", "AuthFlowHeadless"],
            exclude: ["README.md", "demo.sh", "mail.json", "calendar.json"]
        ),
        program(
            "forgerock-login",
            ["AuthFlowForgeRock", "AuthFlowLoopback", "AuthFlowTerminal"],
            exclude: ["README.md", "demo.sh", "type.py", "authflow.json"]
        ),

        // The examples in the README
        program("app", at: "lanes/app", ["AuthFlowOIDC", "AuthFlowLoopback"]),
        program("server", at: "lanes/server", ["AuthFlowOIDC"]),
        program("machine", at: "lanes/machine", ["AuthFlow"]),
        program("api", at: "lanes/api", ["AuthFlowResourceServer"]),
        program("resource", at: "lanes/resource", ["AuthFlowLoopback"]),

        // The listings in the manual
        program(
            "manual",
            [
                "AuthFlowOIDC", "AuthFlowLoopback", "AuthFlowTerminal", "AuthFlowHeadless", "AuthFlowOkta",
                "AuthFlowPostgreSQL", "AuthFlowServerConfiguration", "AuthFlowTesting",
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
