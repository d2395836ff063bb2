// swift-tools-version: 6.2

import PackageDescription

let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let cryptoExtras = Target.Dependency.product(name: "CryptoExtras", package: "swift-crypto")
let flyingSocks = Target.Dependency.product(name: "FlyingSocks", package: "FlyingFox")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")

/// What every provider adapter is written with: the engine's public API and nothing else.
let adapterDependencies: [Target.Dependency] = ["AuthFlow", "AuthFlowJSON", httpTypes]

let package = Package(
    name: "AuthFlow",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "AuthFlow", targets: ["AuthFlow", "AuthFlowJSON"]),
        .library(name: "AuthFlowOIDC", targets: ["AuthFlowOIDC", "AuthFlow", "AuthFlowJSON"]),
        .library(name: "AuthFlowGitHub", targets: ["AuthFlowGitHub", "AuthFlow", "AuthFlowJSON"]),
        .library(name: "AuthFlowOkta", targets: ["AuthFlowOkta", "AuthFlow", "AuthFlowJSON"]),
        .library(
            name: "AuthFlowForgeRock",
            targets: ["AuthFlowForgeRock", "AuthFlowHeadless", "AuthFlow", "AuthFlowJSON"]
        ),
        .library(name: "AuthFlowPresets", targets: ["AuthFlowPresets", "AuthFlow", "AuthFlowJSON"]),
        .library(name: "AuthFlowDesktop", targets: ["AuthFlowDesktop"]),
        .library(name: "AuthFlowLoopback", targets: ["AuthFlowLoopback", "AuthFlowDesktop"]),
        .library(name: "AuthFlowHeadless", targets: ["AuthFlowHeadless"]),
        .library(name: "AuthFlowTerminal", targets: ["AuthFlowTerminal"]),
        .library(name: "AuthFlowLog", targets: ["AuthFlowLog"]),
        .library(name: "AuthFlowTrace", targets: ["AuthFlowTrace"]),
        .library(name: "AuthFlowMCP", targets: ["AuthFlowMCP", "AuthFlow", "AuthFlowJSON"]),
        .library(name: "AuthFlowServer", targets: ["AuthFlowServer", "AuthFlow", "AuthFlowJSON"]),
        .library(name: "AuthFlowHummingbird", targets: ["AuthFlowHummingbird"]),
        .library(name: "AuthFlowObservability", targets: ["AuthFlowObservability"]),
        .library(name: "AuthFlowPostgreSQL", targets: ["AuthFlowPostgreSQL"]),
        .library(name: "AuthFlowRedis", targets: ["AuthFlowRedis"]),
        .library(name: "AuthFlowSQLite", targets: ["AuthFlowSQLite"]),
        .library(name: "AuthFlowURLSession", targets: ["AuthFlowURLSession"]),
        .library(name: "AuthFlowTesting", targets: ["AuthFlowTesting"]),
        .executable(name: "authflow", targets: ["AuthFlowCommand"]),
    ],
    traits: [
        .trait(name: "Jansson", description: "Read and write JSON with the system's libjansson."),
        .trait(name: "Hummingbird", description: "AuthFlowHummingbird: sessions for web applications on Hummingbird."),
        .trait(name: "Observability", description: "AuthFlowObservability: metrics and traces."),
        .default(enabledTraits: ["Jansson"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-http-types.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-crypto.git", from: "4.5.0"),
        .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.6.0"),
        .package(url: "https://github.com/swhitty/FlyingFox.git", from: "0.27.0"),
        // Fetched for those who enable the trait alone: see "make consumer".
        .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.28.0", traits: []),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-metrics.git", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing.git", from: "1.7.0"),
    ],
    targets: [
        // C libraries
        .systemLibrary(
            name: "CJansson",
            pkgConfig: "jansson",
            providers: [.apt(["libjansson-dev"]), .yum(["jansson-devel"]), .brew(["jansson"])]
        ),

        // Loads libcurl when the program runs; on Apple's systems URLSession stands in its place.
        .target(name: "CCurl"),
        // Loads libxml2 likewise.
        .target(name: "CMarkup"),
        // Loads the libraries of hardware tokens likewise.
        .target(name: "CPKCS11"),
        // Load libpq, hiredis and SQLite likewise.
        .target(name: "CPostgreSQL"),
        .target(name: "CRedis"),
        .target(name: "CSQLite"),

        // Engine
        .target(
            name: "AuthFlowJSON",
            dependencies: [
                .target(name: "CJansson", condition: .when(platforms: [.linux, .macOS], traits: ["Jansson"]))
            ]
        ),
        .target(
            name: "AuthFlow",
            dependencies: [
                "AuthFlowJSON", .target(name: "CCurl", condition: .when(platforms: [.linux])),
                .target(name: "CPKCS11", condition: .when(platforms: [.linux, .macOS])), httpTypes, crypto,
                cryptoExtras,
            ]
        ),

        // Stores that several processes share
        // Connections, leases and waiting, which all have in common.
        .target(name: "AuthFlowDatabase", dependencies: ["AuthFlow"]),
        .target(name: "AuthFlowPostgreSQL", dependencies: ["AuthFlow", "AuthFlowDatabase", "CPostgreSQL"]),
        .target(name: "AuthFlowRedis", dependencies: ["AuthFlow", "AuthFlowDatabase", "CRedis", crypto]),
        .target(name: "AuthFlowSQLite", dependencies: ["AuthFlow", "AuthFlowDatabase", "CSQLite"]),

        // The XML responses of services.
        .target(name: "AuthFlowMarkup", dependencies: ["AuthFlow", "CMarkup"]),

        // User agents
        // The system browser, schemes, and the hand-over of a redirect between processes.
        .target(name: "AuthFlowDesktop", dependencies: ["AuthFlow"]),
        .target(name: "AuthFlowLoopback", dependencies: ["AuthFlow", "AuthFlowDesktop", flyingSocks, httpTypes]),
        .target(name: "AuthFlowHeadless", dependencies: ["AuthFlow", "AuthFlowJSON", "CMarkup", httpTypes]),

        // What a program in a terminal shows
        .target(name: "AuthFlowTerminal", dependencies: ["AuthFlow"]),

        // Events as log lines, for those who log with swift-log; the engine itself does not.
        .target(name: "AuthFlowLog", dependencies: ["AuthFlow", logging]),

        // For programs that send with URLSession: on Linux that loads FoundationNetworking, which nothing else here does.
        .target(name: "AuthFlowURLSession", dependencies: ["AuthFlow"]),

        // A login written down, as a page
        .target(name: "AuthFlowTrace", dependencies: ["AuthFlow"]),

        // Remote MCP servers: tokens for their clients, and a bridge for hosts that cannot sign in
        .target(name: "AuthFlowMCP", dependencies: ["AuthFlow", "AuthFlowJSON", httpTypes]),

        // The sessions of a web application's users
        .target(name: "AuthFlowServer", dependencies: ["AuthFlow", "AuthFlowJSON", crypto, httpTypes]),

        // Both are empty without their trait, so that no other program fetches or builds a web framework for them.
        .target(
            name: "AuthFlowHummingbird",
            dependencies: [
                "AuthFlow", "AuthFlowServer", httpTypes,
                .product(name: "Hummingbird", package: "hummingbird", condition: .when(traits: ["Hummingbird"])),
                .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Hummingbird"])),
                .product(
                    name: "ServiceLifecycle",
                    package: "swift-service-lifecycle",
                    condition: .when(traits: ["Hummingbird"])
                ),
            ]
        ),
        .target(
            name: "AuthFlowObservability",
            dependencies: [
                "AuthFlow",
                .product(name: "Metrics", package: "swift-metrics", condition: .when(traits: ["Observability"])),
                .product(
                    name: "Tracing",
                    package: "swift-distributed-tracing",
                    condition: .when(traits: ["Observability"])
                ),
            ]
        ),

        // Providers
        .target(
            name: "AuthFlowOIDC",
            dependencies: adapterDependencies,
            path: "Providers/OIDC",
            exclude: ["README.md"]
        ),

        .target(
            name: "AuthFlowGitHub",
            dependencies: adapterDependencies + ["AuthFlowMarkup"],
            path: "Providers/GitHub",
            exclude: ["README.md"]
        ),

        .target(
            name: "AuthFlowOkta",
            dependencies: adapterDependencies,
            path: "Providers/Okta",
            exclude: ["README.md"]
        ),

        .target(
            name: "AuthFlowForgeRock",
            dependencies: adapterDependencies + ["AuthFlowHeadless"],
            path: "Providers/ForgeRock",
            exclude: ["README.md"]
        ),

        // What is known of providers that need no adapter of their own, as data
        .target(name: "AuthFlowPresets", dependencies: ["AuthFlow", "AuthFlowJSON"], path: "Providers/Presets"),

        // Emulators and conformance suites
        .target(
            name: "AuthFlowTesting",
            dependencies: [
                "AuthFlow", "AuthFlowJSON", "AuthFlowLoopback", "AuthFlowHeadless", "AuthFlowOIDC", httpTypes, crypto,
                cryptoExtras,
            ]
        ),

        // Programs
        // Not a module "authflow": beside "AuthFlow" it would be the same file on systems that ignore case.
        .executableTarget(
            name: "AuthFlowCommand",
            dependencies: [
                "AuthFlow", "AuthFlowJSON", "AuthFlowOIDC", "AuthFlowGitHub", "AuthFlowOkta", "AuthFlowForgeRock",
                "AuthFlowDesktop", "AuthFlowLoopback", "AuthFlowHeadless", "AuthFlowTerminal", "AuthFlowTrace",
                "AuthFlowMCP", "AuthFlowMarkup", "AuthFlowPostgreSQL", "AuthFlowPresets", "AuthFlowRedis",
                "AuthFlowSQLite",
                "AuthFlowTesting", crypto,
                argumentParser,
                httpTypes,
            ]
        ),

        // Tests
        // The conformance rows are a library, because tests run them and a program writes the score.
        .target(
            name: "ConformanceRows",
            dependencies: [
                "AuthFlow", "AuthFlowJSON", "AuthFlowOIDC", "AuthFlowMCP", "AuthFlowServer", "AuthFlowHeadless",
                "AuthFlowTesting", httpTypes,
            ],
            path: "Tests/Conformance/Rows"
        ),
        .executableTarget(
            name: "conformance-report",
            dependencies: ["ConformanceRows", "AuthFlowTesting"],
            path: "Tests/Conformance/Report"
        ),
        // The steps of one sign-in in processes of their own.
        .executableTarget(
            name: "sign-in-steps",
            dependencies: ["AuthFlow", "AuthFlowOIDC"],
            path: "Tests/SignInSteps"
        ),
        // The parts of a server's soak test, in processes of their own.
        .executableTarget(
            name: "session-soak",
            dependencies: [
                "AuthFlow", "AuthFlowJSON", "AuthFlowOIDC", "AuthFlowPostgreSQL", "AuthFlowRedis", "AuthFlowSQLite",
                "AuthFlowTesting", httpTypes,
            ],
            path: "Tests/SessionSoak"
        ),
        .executableTarget(
            name: "fuzz",
            dependencies: [
                "AuthFlow", "AuthFlowJSON", "AuthFlowGitHub", "AuthFlowOIDC", "AuthFlowLoopback", "AuthFlowHeadless",
                "AuthFlowMCP", "AuthFlowTesting",
                httpTypes,
            ],
            path: "Tests/Fuzz"
        ),
        .testTarget(name: "AuthFlowJSONTests", dependencies: ["AuthFlowJSON"]),
        .testTarget(
            name: "AuthFlowTests",
            dependencies: [
                "AuthFlowDesktop",
                "AuthFlow", "AuthFlowJSON", "AuthFlowLoopback", "AuthFlowTesting", httpTypes,
            ]
        ),
        .testTarget(
            name: "AuthFlowLoopbackTests",
            dependencies: ["AuthFlowDesktop", "AuthFlowLoopback", "AuthFlow", "AuthFlowTesting", httpTypes]
        ),
        .testTarget(
            name: "AuthFlowHeadlessTests",
            dependencies: ["AuthFlowHeadless", "AuthFlow", "AuthFlowTesting", httpTypes]
        ),
        .testTarget(
            name: "AuthFlowOIDCTests",
            dependencies: [
                "AuthFlowPresets", "AuthFlowURLSession",
                "AuthFlowDesktop",
                "ConformanceRows", "AuthFlowLog", "AuthFlowTrace", logging, "AuthFlowOIDC", "AuthFlowLoopback",
                "AuthFlowHeadless",
                "AuthFlowTesting",
                "AuthFlow", "AuthFlowJSON", httpTypes,
            ]
        ),
        .testTarget(
            name: "AuthFlowMCPTests",
            dependencies: [
                "ConformanceRows", "AuthFlowMCP", "AuthFlowHeadless", "AuthFlowTesting", "AuthFlow", "AuthFlowJSON",
                httpTypes,
            ]
        ),
        .testTarget(
            name: "AuthFlowGitHubTests",
            dependencies: [
                "ConformanceRows", "AuthFlowGitHub", "AuthFlowHeadless", "AuthFlowTesting", "AuthFlow", "AuthFlowJSON",
                httpTypes,
            ]
        ),
        .testTarget(
            name: "AuthFlowOktaTests",
            dependencies: [
                "ConformanceRows", "AuthFlowOkta", "AuthFlowHeadless", "AuthFlowTesting", "AuthFlow", "AuthFlowJSON",
                httpTypes,
            ]
        ),
        .testTarget(
            name: "AuthFlowForgeRockTests",
            dependencies: [
                "ConformanceRows", "AuthFlowForgeRock", "AuthFlowHeadless", "AuthFlowTesting", "AuthFlow",
                "AuthFlowJSON",
                httpTypes,
            ]
        ),
        .testTarget(name: "AuthFlowTerminalTests", dependencies: ["AuthFlowTerminal", "AuthFlow", "AuthFlowTesting"]),
        // Runs the built programs, for the tests of the tool and for the attacks on it.
        .target(name: "CommandHarness", path: "Tests/CommandHarness"),
        .testTarget(
            name: "SecurityTests",
            dependencies: [
                "CommandHarness", "AuthFlowCommand", "AuthFlowHeadless", "AuthFlowLoopback", "AuthFlowTesting",
                "AuthFlow", "AuthFlowJSON", httpTypes,
            ],
            path: "Tests/Security"
        ),
        .testTarget(
            name: "CommandTests",
            dependencies: [
                argumentParser, "CommandHarness", "sign-in-steps",
                "AuthFlowCommand", "AuthFlowTesting", "AuthFlow", "AuthFlowJSON", httpTypes,
            ],
            exclude: ["paste.py"]
        ),
        // The samples are a package of their own, whose programs these tests run: see "make samples".
        .testTarget(
            name: "SampleTests",
            dependencies: ["CommandHarness", "AuthFlowTesting", "AuthFlow", "AuthFlowJSON"],
            path: "Tests/Samples"
        ),
        .testTarget(
            name: "AuthFlowSQLiteTests",
            dependencies: [
                "ConformanceRows", "CSQLite", "AuthFlowDatabase", "AuthFlowSQLite", "AuthFlowTesting", "AuthFlow",
            ]
        ),
        // Runs beside servers that a script starts: see "make databases".
        .testTarget(
            name: "DatabaseTests",
            dependencies: [
                "ConformanceRows", "AuthFlowPostgreSQL", "AuthFlowRedis", "AuthFlowSQLite", "AuthFlowTesting",
                "AuthFlow",
            ],
            path: "Tests/Databases",
            exclude: ["databases.sh"]
        ),
        .testTarget(
            name: "InteropTests",
            dependencies: [
                "AuthFlowOIDC", "AuthFlowHeadless", "AuthFlowServer", "AuthFlowTesting", "AuthFlow", "AuthFlowJSON",
                httpTypes,
            ],
            path: "Tests/Interop",
            exclude: [
                "README.md", "servers.sh", "keyring.sh", "browser.sh", "desktop.sh", "browser_login.py", "glewlwyd.sh",
                "mcp.sh", "mcp_interop.py", "mcp_server.py", "fastmcp_server.py",
                "glewlwyd_seed.py", "tls_proxy.py", "softhsm.sh", "tpm.sh", "idpyoidc.sh", "idpyoidc_provider.py",
                "encrypted_requests.py",
                "sts.sh", "helpers.sh", "helpers.py", "private_windows.sh",
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets {
    switch target.type {
    case .regular where ["CCurl", "CMarkup", "CPKCS11", "CPostgreSQL", "CRedis", "CSQLite"].contains(target.name):
        break  // C
    case .regular, .test, .executable:
        target.swiftSettings = [
            .strictMemorySafety(),
            .enableUpcomingFeature("ExistentialAny"),
            .enableUpcomingFeature("MemberImportVisibility"),
            .enableUpcomingFeature("InternalImportsByDefault"),
            .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
        ]
    default:
        break  // system libraries take no Swift settings
    }
}
