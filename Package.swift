// swift-tools-version: 6.2

import PackageDescription

let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let cryptoExtras = Target.Dependency.product(name: "CryptoExtras", package: "swift-crypto")
let flyingSocks = Target.Dependency.product(name: "FlyingSocks", package: "FlyingFox")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")

/// The modules of a program that verifies ID Tokens.
let issuerModules = [
    "AuthFlowIssuer", "AuthFlowEssentials", "AuthFlowSystem", "AuthFlowJSON", "AuthFlowHTTP", "AuthFlowTransport",
    "AuthFlowJOSE",
]

/// The modules of a program that sends OAuth and OpenID Connect requests itself.
let protocolModules = issuerModules + ["AuthFlowOAuth", "AuthFlowStorage"]

/// `AuthFlow`, the modules that it re-exports, and their dependencies. Every target that imports AuthFlow must list all of them, because
/// otherwise the build does not detect a change in a re-exported module.
let engineModules =
    protocolModules + [
        "AuthFlow", "AuthFlowPKCS11", "AuthFlowCredentials", "AuthFlowStores", "AuthFlowSignIn",
        "AuthFlowResourceClient",
        "AuthFlowConfiguration",
    ]
let engine = engineModules.map { Target.Dependency(stringLiteral: $0) }
let protocolLayer = protocolModules.map { Target.Dependency(stringLiteral: $0) }

/// A module, by its path in `Sources`. The comment above each is its description in docs/architecture.md.
func module(_ path: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(
        name: path.split(separator: "/").last.map(String.init) ?? path,
        dependencies: dependencies,
        path: "Sources/\(path)"
    )
}

/// The dependencies of an adapter: the engine's public API and nothing else.
let adapterDependencies: [Target.Dependency] = engine + [httpTypes]

let package = Package(
    name: "AuthFlow",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "AuthFlow", targets: engineModules),
        .library(name: "AuthFlowIssuer", targets: issuerModules),
        .library(name: "AuthFlowOAuth", targets: protocolModules),
        .library(name: "AuthFlowOIDC", targets: ["AuthFlowOIDC"] + engineModules),
        .library(name: "AuthFlowGitHub", targets: ["AuthFlowGitHub"] + engineModules),
        .library(name: "AuthFlowOkta", targets: ["AuthFlowOkta"] + engineModules),
        .library(
            name: "AuthFlowForgeRock",
            targets: ["AuthFlowForgeRock", "AuthFlowHeadless"] + engineModules
        ),
        .library(name: "AuthFlowPresets", targets: ["AuthFlowPresets"] + engineModules),
        .library(name: "AuthFlowDesktop", targets: ["AuthFlowDesktop"]),
        .library(name: "AuthFlowLoopback", targets: ["AuthFlowLoopback", "AuthFlowDesktop"]),
        .library(name: "AuthFlowHeadless", targets: ["AuthFlowHeadless"]),
        .library(name: "AuthFlowTerminal", targets: ["AuthFlowTerminal"]),
        .library(name: "AuthFlowLog", targets: ["AuthFlowLog"]),
        .library(name: "AuthFlowTrace", targets: ["AuthFlowTrace"]),
        .library(name: "AuthFlowMCP", targets: ["AuthFlowMCP"] + engineModules),
        .library(name: "AuthFlowServer", targets: ["AuthFlowServer"] + engineModules),
        .library(name: "AuthFlowResourceServer", targets: ["AuthFlowResourceServer"] + protocolModules),
        .library(
            name: "AuthFlowResourceServerConfiguration",
            targets: ["AuthFlowResourceServerConfiguration", "AuthFlowResourceServer"] + engineModules
        ),
        .library(
            name: "AuthFlowServerConfiguration",
            targets: ["AuthFlowServerConfiguration", "AuthFlowServer"] + engineModules
        ),
        .library(name: "AuthFlowHummingbird", targets: ["AuthFlowHummingbird"]),
        .library(name: "AuthFlowObservability", targets: ["AuthFlowObservability"]),
        .library(name: "AuthFlowPostgreSQL", targets: ["AuthFlowPostgreSQL"]),
        .library(name: "AuthFlowRedis", targets: ["AuthFlowRedis"]),
        .library(name: "AuthFlowSQLite", targets: ["AuthFlowSQLite"]),
        .library(name: "AuthFlowSwiftConfiguration", targets: ["AuthFlowSwiftConfiguration"]),
        .library(name: "AuthFlowURLSession", targets: ["AuthFlowURLSession"]),
        .library(name: "AuthFlowTesting", targets: ["AuthFlowTesting"]),
        .library(name: "AuthFlowSimulation", targets: ["AuthFlowSimulation"]),
        .executable(name: "authflow", targets: ["AuthFlowCommand"]),
    ],
    traits: [
        .trait(name: "Jansson", description: "Read and write JSON with the system's libjansson."),
        .trait(name: "Hummingbird", description: "AuthFlowHummingbird: sessions for web applications on Hummingbird."),
        .trait(name: "Observability", description: "AuthFlowObservability: metrics and traces."),
        .trait(
            name: "SwiftConfiguration",
            description: "AuthFlowSwiftConfiguration: settings from swift-configuration."
        ),
        .default(enabledTraits: ["Jansson"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-http-types.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-crypto.git", from: "4.5.0"),
        .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.6.0"),
        .package(url: "https://github.com/swhitty/FlyingFox.git", from: "0.27.0"),
        // Fetched only if the trait is enabled: see "make consumer".
        .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.28.0", traits: []),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-metrics.git", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing.git", from: "1.7.0"),
        .package(url: "https://github.com/apple/swift-configuration.git", from: "1.4.0", traits: []),
    ],
    targets: [
        // The libjansson functions, declared by its header.
        .systemLibrary(
            name: "CJansson",
            path: "Sources/C/CJansson",
            pkgConfig: "jansson",
            providers: [.apt(["libjansson-dev"]), .yum(["jansson-devel"]), .brew(["jansson"])]
        ),
        // The libcurl functions, loaded at the first request; on Apple platforms, URLSession is used instead.
        module("C/CCurl"),
        // The libxml2 functions, loaded for the first XML response.
        module("C/CMarkup"),
        // The functions of a hardware token's PKCS #11 library, which is loaded when it is first used.
        module("C/CPKCS11"),
        // The libpq functions, loaded when the store is first used.
        module("C/CPostgreSQL"),
        // The hiredis functions, loaded when the store is first used.
        module("C/CRedis"),
        // The SQLite functions, loaded when the store is first used.
        module("C/CSQLite"),
        // The hooks into Swift's concurrency runtime through which a simulation schedules the jobs of its thread.
        module("C/CSimulation"),

        // FoundationEssentials, or Foundation where the two are not separate, so that every file needs only one import.
        module("Foundation/AuthFlowEssentials"),
        // The platform's C library, so that only one file names the platforms.
        module("Foundation/AuthFlowSystem"),
        // JSON values, parsed by libjansson with the trait `Jansson` (on by default), or by Foundation without it.
        module(
            "Foundation/AuthFlowJSON",
            [
                .target(name: "CJansson", condition: .when(platforms: [.linux, .macOS], traits: ["Jansson"])),
                "AuthFlowEssentials", "AuthFlowSystem",
            ]
        ),
        // Endpoints, forms, requests and responses, the transport seam, limits, redaction, errors, and host services: time, randomness, files.
        module("Foundation/AuthFlowHTTP", ["AuthFlowJSON", "AuthFlowEssentials", "AuthFlowSystem", httpTypes, crypto]),
        // The system's HTTP transport: libcurl on Linux, URLSession on Apple platforms.
        module(
            "Foundation/AuthFlowTransport",
            [
                "AuthFlowHTTP", "AuthFlowEssentials", "AuthFlowSystem",
                .target(name: "CCurl", condition: .when(platforms: [.linux])),
                httpTypes, crypto,
            ]
        ),
        // JWS, JWE, JWK, algorithms, keys and their sources.
        module(
            "Foundation/AuthFlowJOSE",
            ["AuthFlowJSON", "AuthFlowHTTP", "AuthFlowEssentials", "AuthFlowSystem", httpTypes, crypto, cryptoExtras]
        ),
        // Keys in PKCS #11 tokens.
        module(
            "Foundation/AuthFlowPKCS11",
            [
                "AuthFlowJSON", "AuthFlowHTTP", "AuthFlowJOSE", "AuthFlowEssentials", "AuthFlowSystem",
                .target(name: "CPKCS11", condition: .when(platforms: [.linux, .macOS])), crypto, cryptoExtras,
            ]
        ),
        // XML parsing, for services that respond in XML.
        module("Foundation/AuthFlowMarkup", ["AuthFlowHTTP", "AuthFlowJSON", "CMarkup"]),
        // The store seam: records, leases, and the in-memory store.
        module("Foundation/AuthFlowStorage", ["AuthFlowJSON", "AuthFlowHTTP", "AuthFlowEssentials", "AuthFlowSystem"]),

        // An issuer: its metadata, its keys, and the verification of its ID Tokens.
        module(
            "Protocol/AuthFlowIssuer",
            [
                "AuthFlowJSON", "AuthFlowHTTP", "AuthFlowTransport", "AuthFlowJOSE", "AuthFlowEssentials",
                "AuthFlowSystem", httpTypes, crypto,
            ]
        ),
        // A client of an authorization server: OAuth and OpenID Connect requests and responses, and the adapter seam.
        module(
            "Protocol/AuthFlowOAuth",
            [
                "AuthFlowJSON", "AuthFlowHTTP", "AuthFlowTransport", "AuthFlowJOSE", "AuthFlowStorage",
                "AuthFlowIssuer", "AuthFlowEssentials", "AuthFlowSystem", httpTypes, crypto, cryptoExtras,
            ]
        ),

        // The lifecycle of a credential: refreshes, leases, accounts, and the sessions of many users.
        module(
            "Credentials/AuthFlowCredentials",
            protocolLayer + [httpTypes, crypto]
        ),
        // Stores on one machine: files, encrypted files, and the key stores of the operating systems.
        module(
            "Credentials/AuthFlowStores",
            [
                "AuthFlowJSON", "AuthFlowHTTP", "AuthFlowJOSE", "AuthFlowPKCS11", "AuthFlowStorage",
                "AuthFlowEssentials", "AuthFlowSystem", crypto, cryptoExtras,
            ]
        ),

        // `AuthClient`, sign-in methods, and the user agent seam.
        module(
            "SignIn/AuthFlowSignIn",
            protocolLayer + ["AuthFlowCredentials", "AuthFlowStores", httpTypes, crypto]
        ),
        // The client for protected resources (RFC 9728), which needs only the URL of a resource.
        module(
            "SignIn/AuthFlowResourceClient",
            protocolLayer + ["AuthFlowCredentials", "AuthFlowSignIn", httpTypes, crypto]
        ),
        // Configuration files, their validation and their schema; the creation of a client from a profile.
        module(
            "SignIn/AuthFlowConfiguration",
            protocolLayer + [
                "AuthFlowPKCS11", "AuthFlowCredentials", "AuthFlowStores", "AuthFlowSignIn", "AuthFlowResourceClient",
                httpTypes, crypto,
            ]
        ),
        // The single import for the engine: re-exports its modules.
        module(
            "SignIn/AuthFlow",
            protocolLayer + [
                "AuthFlowPKCS11", "AuthFlowCredentials", "AuthFlowStores", "AuthFlowSignIn", "AuthFlowResourceClient",
                "AuthFlowConfiguration", httpTypes,
            ]
        ),
        // The system browser, URL schemes, and the handoff of a redirect between processes; on Apple platforms,
        // the system's sign-in window.
        module("SignIn/AuthFlowDesktop", engine),
        // The loopback user agent and its server.
        module(
            "SignIn/AuthFlowLoopback",
            engine + ["AuthFlowDesktop", flyingSocks, httpTypes]
        ),
        // The headless user agent: cookies, redirects, HTML forms.
        module("SignIn/AuthFlowHeadless", engine + [httpTypes]),
        // Terminal input and output: device codes, also as QR codes if libqrencode is installed, and pasted redirects.
        module("SignIn/AuthFlowTerminal", engine),
        // `authorize(_: inout URLRequest)`, for programs that send requests with URLSession; on Linux,
        // the only module that loads FoundationNetworking.
        module("SignIn/AuthFlowURLSession", engine),

        // The generic adapter: OpenID Connect, or OAuth 2.0 with a metadata document.
        .target(
            name: "AuthFlowOIDC",
            dependencies: adapterDependencies,
            path: "Providers/OIDC",
            exclude: ["README.md"]
        ),
        // The adapter for GitHub.
        .target(
            name: "AuthFlowGitHub",
            dependencies: adapterDependencies + ["AuthFlowMarkup"],
            path: "Providers/GitHub",
            exclude: ["README.md"]
        ),
        // The adapter for Okta's native SSO.
        .target(
            name: "AuthFlowOkta",
            dependencies: adapterDependencies,
            path: "Providers/Okta",
            exclude: ["README.md"]
        ),
        // The adapter for ForgeRock, and the driver for its authentication trees.
        .target(
            name: "AuthFlowForgeRock",
            dependencies: adapterDependencies + ["AuthFlowHeadless"],
            path: "Providers/ForgeRock",
            exclude: ["README.md"]
        ),
        // Presets, as data, for providers that need no separate adapter.
        .target(name: "AuthFlowPresets", dependencies: engine, path: "Providers/Presets"),

        // The code that the database stores share: connections, leases, waiting.
        module("Server/AuthFlowDatabase", engine),
        // The PostgreSQL store.
        module("Server/AuthFlowPostgreSQL", engine + ["AuthFlowDatabase", "CPostgreSQL"]),
        // The Redis store.
        module("Server/AuthFlowRedis", engine + ["AuthFlowDatabase", "CRedis", crypto]),
        // The SQLite store: a file shared by the processes of one machine.
        module("Server/AuthFlowSQLite", engine + ["AuthFlowDatabase", "CSQLite"]),
        // The sessions of a web application's users: cookies, routes, back-channel logout; independent of web frameworks.
        module("Server/AuthFlowServer", engine + [crypto, httpTypes]),
        // The resource server: an API that validates access tokens; independent of web frameworks.
        module(
            "Server/AuthFlowResourceServer",
            protocolLayer + [httpTypes, crypto]
        ),
        // A resource server that is configured from a file.
        module(
            "Server/AuthFlowResourceServerConfiguration",
            protocolLayer + ["AuthFlowResourceServer", "AuthFlowConfiguration", httpTypes]
        ),
        // A web application that is configured from a file.
        module("Server/AuthFlowServerConfiguration", engine + ["AuthFlowServer"]),
        // The middleware and the service for Hummingbird; empty without its trait, so that programs without the trait do not build a web framework.
        module(
            "Server/AuthFlowHummingbird",
            engine + [
                "AuthFlowServer", "AuthFlowResourceServer", httpTypes,
                .product(name: "Hummingbird", package: "hummingbird", condition: .when(traits: ["Hummingbird"])),
                .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Hummingbird"])),
                .product(
                    name: "ServiceLifecycle",
                    package: "swift-service-lifecycle",
                    condition: .when(traits: ["Hummingbird"])
                ),
                .product(
                    name: "UnixSignals",
                    package: "swift-service-lifecycle",
                    condition: .when(traits: ["Hummingbird"])
                ),
            ]
        ),
        // Metrics and tracing spans for events; empty without its trait.
        module(
            "Server/AuthFlowObservability",
            engine + [
                "AuthFlowResourceServer",
                .product(name: "Metrics", package: "swift-metrics", condition: .when(traits: ["Observability"])),
                .product(
                    name: "Tracing",
                    package: "swift-distributed-tracing",
                    condition: .when(traits: ["Observability"])
                ),
            ]
        ),
        // Settings that are read through swift-configuration; empty without its trait.
        module(
            "Server/AuthFlowSwiftConfiguration",
            [
                "AuthFlowConfiguration", "AuthFlowHTTP",
                .product(
                    name: "Configuration",
                    package: "swift-configuration",
                    condition: .when(traits: ["SwiftConfiguration"])
                ),
            ]
        ),
        // Event logging with swift-log.
        module("Server/AuthFlowLog", engine + [logging]),
        // A trace of a sign-in as an HTML page: every step, check and request.
        module("Server/AuthFlowTrace", engine),
        // The bridge between an MCP host and a remote server: JSON-RPC, event streams, sessions, mirrored headers.
        module("Server/AuthFlowMCP", engine + [httpTypes]),

        // Emulators (an OpenID provider, GitHub, Okta, ForgeRock, protected resources), faults, virtual time, conformance suites, and the test harness for adapters.
        module(
            "Testing/AuthFlowTesting",
            engine + ["AuthFlowLoopback", "AuthFlowHeadless", "AuthFlowOIDC", httpTypes, crypto, cryptoExtras]
        ),
        // A deterministic simulation of several processes on one thread.
        module("Testing/AuthFlowSimulation", engine + ["CSimulation"]),

        // The command-line tool `authflow`.
        .executableTarget(
            name: "AuthFlowCommand",
            dependencies: engine + [
                "AuthFlowOIDC", "AuthFlowGitHub", "AuthFlowOkta", "AuthFlowForgeRock", "AuthFlowDesktop",
                "AuthFlowLoopback", "AuthFlowHeadless", "AuthFlowTerminal", "AuthFlowTrace", "AuthFlowMCP",
                "AuthFlowMarkup", "AuthFlowPostgreSQL", "AuthFlowPresets", "AuthFlowRedis", "AuthFlowSQLite",
                "AuthFlowResourceServer", "AuthFlowResourceServerConfiguration", "AuthFlowServer",
                "AuthFlowServerConfiguration", "AuthFlowTesting", crypto, argumentParser, httpTypes,
            ],
            path: "Sources/Tool/AuthFlowCommand"
        ),

        // Tests
        // Expectations that the tests of several modules share.
        .target(name: "Expectations", dependencies: ["AuthFlowHTTP", "AuthFlowStorage"], path: "Tests/Expectations"),
        // The conformance rows are a library, because both the tests and the report program use them.
        .target(
            name: "ConformanceRows",
            dependencies: engine + [
                "AuthFlowOIDC", "AuthFlowMCP", "AuthFlowServer", "AuthFlowResourceServer", "AuthFlowHeadless",
                "AuthFlowTesting", httpTypes, crypto,
            ],
            path: "Tests/Conformance/Rows"
        ),
        .executableTarget(
            name: "conformance-report",
            dependencies: ["ConformanceRows", "AuthFlowTesting"],
            path: "Tests/Conformance/Report"
        ),
        // The steps of one sign-in, each in a separate process.
        .executableTarget(
            name: "sign-in-steps",
            dependencies: engine + ["AuthFlowOIDC"],
            path: "Tests/SignInSteps"
        ),
        // Records which functions run, in order: see make trace-flows.
        .target(name: "FlowTraceCalls", path: "Tests/FlowTrace/Calls"),
        .executableTarget(
            name: "flow-trace",
            dependencies: engine + [
                "FlowTraceCalls", "AuthFlowOIDC", "AuthFlowDesktop", "AuthFlowLoopback", "AuthFlowServer", httpTypes,
            ],
            path: "Tests/FlowTrace/Program"
        ),
        // Histories of credentials and sessions under simulation, and their invariants: see make simulate.
        .target(
            name: "SimulatedHistories",
            dependencies: engine + ["AuthFlowDatabase", "AuthFlowServer", "AuthFlowSimulation", crypto, httpTypes],
            path: "Tests/SimulatedHistories"
        ),
        .executableTarget(
            name: "simulate",
            dependencies: engine + ["AuthFlowSimulation", "SimulatedHistories"],
            path: "Tests/Simulation",
            exclude: ["capacity.gnuplot", "capacity.py", "failed-seeds.txt", "faults.py"]
        ),
        // The parts of a server's soak test, in separate processes.
        .executableTarget(
            name: "session-soak",
            dependencies: engine + [
                "AuthFlowOIDC", "AuthFlowPostgreSQL", "AuthFlowRedis", "AuthFlowSQLite", "AuthFlowTesting", httpTypes,
            ],
            path: "Tests/SessionSoak"
        ),
        .executableTarget(
            name: "fuzz",
            dependencies: engine + [
                "AuthFlowGitHub", "AuthFlowOIDC", "AuthFlowLoopback", "AuthFlowHeadless", "AuthFlowMCP",
                "AuthFlowTesting", httpTypes,
            ],
            path: "Tests/Fuzz"
        ),
        .testTarget(name: "AuthFlowJSONTests", dependencies: ["AuthFlowJSON"]),
        .testTarget(
            name: "AuthFlowTests",
            dependencies: engine + [
                "CommandHarness", "Expectations", "AuthFlowDesktop", "AuthFlowLoopback", "AuthFlowTesting", httpTypes,
            ]
        ),
        .testTarget(
            name: "AuthFlowTransportTests",
            dependencies: engine + ["Expectations", "AuthFlowLoopback", httpTypes]
        ),
        .testTarget(
            name: "AuthFlowLoopbackTests",
            dependencies: engine + [
                "CommandHarness", "Expectations", "AuthFlowDesktop", "AuthFlowLoopback", "AuthFlowTesting", httpTypes,
            ]
        ),
        .testTarget(
            name: "AuthFlowHeadlessTests",
            dependencies: engine + ["Expectations", "AuthFlowHeadless", "AuthFlowTesting", httpTypes]
        ),
        .testTarget(
            name: "AuthFlowOIDCTests",
            dependencies: engine + [
                "Expectations",
                "AuthFlowPresets", "AuthFlowURLSession", "AuthFlowDesktop", "ConformanceRows", "AuthFlowLog",
                "AuthFlowTrace", logging, "AuthFlowOIDC", "AuthFlowLoopback", "AuthFlowHeadless", "AuthFlowTesting",
                "AuthFlowServerConfiguration", httpTypes,
            ]
        ),
        .testTarget(
            name: "AuthFlowResourceServerTests",
            dependencies: engine + [
                "Expectations",
                "AuthFlowResourceServer", "AuthFlowResourceServerConfiguration", "AuthFlowTesting", httpTypes, crypto,
            ]
        ),
        .testTarget(
            name: "AuthFlowMCPTests",
            dependencies: engine + [
                "Expectations", "ConformanceRows", "AuthFlowMCP", "AuthFlowHeadless", "AuthFlowTesting", httpTypes,
            ]
        ),
        .testTarget(
            name: "AuthFlowGitHubTests",
            dependencies: engine + [
                "Expectations",
                "ConformanceRows", "AuthFlowGitHub", "AuthFlowHeadless", "AuthFlowTesting", httpTypes,
            ]
        ),
        .testTarget(
            name: "AuthFlowOktaTests",
            dependencies: engine + [
                "Expectations",
                "ConformanceRows", "AuthFlowOkta", "AuthFlowHeadless", "AuthFlowTesting", httpTypes,
            ]
        ),
        .testTarget(
            name: "AuthFlowForgeRockTests",
            dependencies: engine + [
                "Expectations",
                "ConformanceRows", "AuthFlowForgeRock", "AuthFlowHeadless", "AuthFlowTesting", httpTypes,
            ]
        ),
        .testTarget(
            name: "AuthFlowSimulationTests",
            dependencies: engine + ["AuthFlowServer", "AuthFlowSimulation", "SimulatedHistories", httpTypes]
        ),
        .testTarget(
            name: "AuthFlowTerminalTests",
            dependencies: engine + ["Expectations", "AuthFlowTerminal", "AuthFlowTesting"]
        ),
        // Runs programs, for the tests of several modules.
        .target(name: "CommandHarness", path: "Tests/CommandHarness"),
        .testTarget(
            name: "SecurityTests",
            dependencies: engine + [
                "Expectations",
                "CommandHarness", "AuthFlowCommand", "AuthFlowHeadless", "AuthFlowLoopback", "AuthFlowTesting",
                httpTypes,
            ],
            path: "Tests/Security"
        ),
        .testTarget(
            name: "CommandTests",
            dependencies: engine + [
                argumentParser, "CommandHarness", "sign-in-steps", "AuthFlowCommand", "AuthFlowTesting", httpTypes,
            ],
            exclude: ["paste.py"]
        ),
        // The samples are a separate package, whose programs these tests run: see "make samples".
        .testTarget(
            name: "SampleTests",
            dependencies: engine + ["CommandHarness", "AuthFlowTesting"],
            path: "Tests/Samples"
        ),
        .testTarget(
            name: "AuthFlowSQLiteTests",
            dependencies: engine + [
                "Expectations",
                "ConformanceRows", "CSQLite", "AuthFlowDatabase", "AuthFlowSQLite", "AuthFlowTesting",
            ]
        ),
        // Requires database servers, which a script starts: see "make databases".
        .testTarget(
            name: "DatabaseTests",
            dependencies: engine + [
                "Expectations", "ConformanceRows", "AuthFlowDatabase", "AuthFlowPostgreSQL", "AuthFlowRedis",
                "AuthFlowSQLite",
                "AuthFlowResourceServer", "AuthFlowSimulation", "AuthFlowTesting", "SimulatedHistories",
            ],
            path: "Tests/Databases",
            exclude: ["databases.sh"]
        ),
        .testTarget(
            name: "InteropTests",
            dependencies: engine + [
                "AuthFlowOIDC", "AuthFlowHeadless", "AuthFlowResourceServer", "AuthFlowServer", "AuthFlowTesting",
                httpTypes,
            ],
            path: "Tests/Interop",
            exclude: [
                "README.md", "browser.sh", "browser_login.py", "desktop.sh", "django_provider.py",
                "encrypted_requests.py", "fastmcp_server.py", "glewlwyd.sh", "glewlwyd_seed.py", "helpers.py",
                "helpers.sh", "html_pages.py", "idpyoidc.sh", "idpyoidc_provider.py", "keyring.sh", "mcp.sh",
                "mcp_client.py",
                "mcp_interop.py", "mcp_server.py", "private_windows.sh", "providers.py", "providers.sh",
                "resource_server.py", "servers.sh", "softhsm.sh", "sts.sh", "tls_proxy.py", "tpm.sh",
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)

// To build and run the tests of only some modules: AUTHFLOW_TESTS="AuthFlowJSONTests AuthFlowOktaTests" swift test
if let tests = Context.environment["AUTHFLOW_TESTS"] {
    var needed = Set(tests.split(separator: " ").map(String.init))
    var unvisited = needed
    while let name = unvisited.popFirst() {
        for dependency in package.targets.first(where: { $0.name == name })?.dependencies ?? [] {
            switch dependency {
            case .byNameItem(let name, _), .targetItem(let name, _):
                if needed.insert(name).inserted { unvisited.insert(name) }
            default:
                break  // a product of another package
            }
        }
    }
    package.targets.removeAll { !needed.contains($0.name) }
    package.products = []
}

for target in package.targets {
    switch target.type {
    case .regular
    where ["CCurl", "CMarkup", "CPKCS11", "CPostgreSQL", "CRedis", "CSQLite", "CSimulation"].contains(target.name):
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
