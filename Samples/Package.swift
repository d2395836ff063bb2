// swift-tools-version: 6.2

import PackageDescription

/// A product of AuthFlow. This package depends on AuthFlow the way any other package would.
func authFlow(_ product: String) -> Target.Dependency { .product(name: product, package: "AuthFlow") }

let package = Package(
    name: "samples",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "AuthFlow", path: "..")],
    targets: [
        // A program for each provider adapter
        .executableTarget(
            name: "oidc-login",
            dependencies: [
                authFlow("AuthFlowOIDC"), authFlow("AuthFlowDesktop"), authFlow("AuthFlowLoopback"),
                authFlow("AuthFlowHeadless"), authFlow("AuthFlowTerminal"),
            ],
            path: "oidc-login",
            exclude: ["README.md", "authflow.json", "cloudentity.json", "resources.json"]
        ),
        .executableTarget(
            name: "github-login",
            dependencies: [
                authFlow("AuthFlowGitHub"), authFlow("AuthFlowLoopback"), authFlow("AuthFlowHeadless"),
                authFlow("AuthFlowTerminal"), authFlow("AuthFlowTesting"),
            ],
            path: "github-login",
            exclude: ["README.md", "authflow.json"]
        ),
        .executableTarget(
            name: "okta-native-sso",
            dependencies: [authFlow("AuthFlowOkta"), authFlow("AuthFlowLoopback"), authFlow("AuthFlowHeadless")],
            path: "okta-native-sso",
            exclude: ["README.md", "demo.sh", "mail.json", "calendar.json"]
        ),
        .executableTarget(
            name: "forgerock-login",
            dependencies: [authFlow("AuthFlowForgeRock"), authFlow("AuthFlowLoopback"), authFlow("AuthFlowTerminal")],
            path: "forgerock-login",
            exclude: ["README.md", "demo.sh", "type.py", "authflow.json"]
        ),

        // The examples in the README
        .executableTarget(
            name: "app",
            dependencies: [authFlow("AuthFlowOIDC"), authFlow("AuthFlowLoopback")],
            path: "lanes/app"
        ),
        .executableTarget(name: "server", dependencies: [authFlow("AuthFlowOIDC")], path: "lanes/server"),
        .executableTarget(name: "machine", dependencies: [authFlow("AuthFlow")], path: "lanes/machine"),
        .executableTarget(name: "api", dependencies: [authFlow("AuthFlowResourceServer")], path: "lanes/api"),
        .executableTarget(name: "resource", dependencies: [authFlow("AuthFlowLoopback")], path: "lanes/resource"),

        // The listings in the manual
        .executableTarget(
            name: "manual",
            dependencies: [
                authFlow("AuthFlowOIDC"), authFlow("AuthFlowLoopback"), authFlow("AuthFlowTerminal"),
                authFlow("AuthFlowHeadless"), authFlow("AuthFlowOkta"), authFlow("AuthFlowPostgreSQL"),
                authFlow("AuthFlowServerConfiguration"), authFlow("AuthFlowTesting"),
            ],
            path: "manual"
        ),
    ],
    swiftLanguageModes: [.v6]
)
for target in package.targets { target.swiftSettings = [.enableUpcomingFeature("MemberImportVisibility")] }
