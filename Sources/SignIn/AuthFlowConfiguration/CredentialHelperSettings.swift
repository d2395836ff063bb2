import AuthFlowEssentials
package import AuthFlowHTTP

/// The other programs that may receive a profile's tokens from a credential helper, and the hosts for which they may
/// be used.
package struct CredentialHelperSettings: Sendable {
    /// A token that a service accepts.
    package enum Token: String, Sendable, CaseIterable {
        case accessToken = "access_token"
        case idToken = "id_token"
    }

    /// The settings for Git: the hosts that accept the access token, the username, and the authentication scheme.
    package struct Git: Sendable {
        /// The authentication scheme with which Git sends the token.
        package enum Scheme: String, Sendable, CaseIterable {
            /// The token is the password (RFC 7617).
            case basic
            /// RFC 6750 section 2.1.
            case bearer
        }

        package let hosts: [String]
        package let username: String
        package let scheme: Scheme
    }

    /// For Docker and compatible tools: registries that accept the access token as a password.
    package struct Docker: Sendable {
        package let registries: [String]
        package let username: String
    }

    /// For kubectl and other Kubernetes clients.
    package struct Kubernetes: Sendable {
        package let servers: [Endpoint]
        /// A file with the CA certificates that a kubeconfig file may specify; nil to allow only the system's CA certificates.
        package let certificateAuthorities: String?
        package let token: Token
    }

    /// For AWS tools: the role to assume with the token, to obtain temporary credentials.
    package struct AWS: Sendable {
        package let role: String
        package let session: String
        package let token: Token
        package let lifetime: Duration?
        package let endpoint: Endpoint
    }

    package let git: Git?
    package let docker: Docker?
    package let kubernetes: Kubernetes?
    package let aws: AWS?

    /// Settings that allow no program to receive a token.
    init() { (git, docker, kubernetes, aws) = (nil, nil, nil, nil) }

    private init(_ object: ConfigurationObject) throws(ConfigurationError) {
        git = try object[Self.gitKey]
        docker = try object[Self.dockerKey]
        kubernetes = try object[Self.kubernetesKey]
        aws = try object[Self.awsKey]
    }
}

extension CredentialHelperSettings {
    static let key = ConfigurationKey(
        "helpers",
        ConfigurationValue<CredentialHelperSettings>.object([gitKey, dockerKey, kubernetesKey, awsKey]) {
            object throws(ConfigurationError) in try CredentialHelperSettings(object)
        },
        default: CredentialHelperSettings(),
        "The other programs that may receive the tokens, and the hosts for which the tokens may be used. Default: none."
    )

    private static let username = ConfigurationKey(
        "username",
        .text,
        default: "oauth2",
        "The user name that the service expects with the token, such as oauth2, x-access-token or x-token-auth."
    )
    private static let hosts = ConfigurationKey(
        "hosts",
        required: .list(.text),
        "The hosts, with the port unless it is the default: git.example.com, git.example.com:8443."
    )
    private static let scheme = ConfigurationKey(
        "scheme",
        ConfigurationValue<Git.Scheme>.choice,
        default: .basic,
        "basic, with the token as the password, or bearer, which requires Git 2.46 or later."
    )
    private static let gitKey = ConfigurationKey(
        "git",
        ConfigurationValue<Git>.object([hosts, username, scheme]) { object throws(ConfigurationError) in
            let names = try object[hosts].map { $0.lowercased() }
            guard !names.contains(where: { $0.contains("/") }) else {
                throw object.error("a host must have neither a scheme nor a path: git.example.com", at: hosts)
            }
            return Git(hosts: names, username: try object[username], scheme: try object[scheme])
        },
        "Git: hosts that accept the access token."
    )
    private static let registries = ConfigurationKey(
        "registries",
        required: .list(.text),
        "The registries, in the form that these programs use: registry.example.com, 127.0.0.1:5000."
    )
    private static let dockerKey = ConfigurationKey(
        "docker",
        ConfigurationValue<Docker>.object([registries, username]) { object throws(ConfigurationError) in
            let names = try object[registries].map { $0.lowercased() }
            guard !names.contains(where: { $0.contains("://") && !$0.hasPrefix("https://") }) else {
                throw object.error("a registry must not have a scheme other than https://", at: registries)
            }
            return Docker(registries: names, username: try object[username])
        },
        "Docker, Podman, Skopeo: registries that accept the access token as a password."
    )
    private static let servers = ConfigurationKey(
        "servers",
        .list(.url),
        default: [],
        "The URLs of the API servers that may receive the token, with their paths, for kubeconfig files with \"provideClusterInfo: true\". Default: the server in the kubeconfig file, which must then be trusted."
    )
    private static let kubernetesAuthorities = ConfigurationKey(
        "ca_file",
        ConfigurationValue<String>.certificateFile,
        "A PEM file with the servers' CA certificates. If \"servers\" is set, a kubeconfig file must not name other CA certificates. Default: the system's CA certificates."
    )
    private static let kubernetesToken = ConfigurationKey(
        "token",
        ConfigurationValue<Token>.choice,
        default: .idToken,
        "The token that API servers accept: id_token for OpenID Connect authentication, or access_token for webhook authentication."
    )
    private static let kubernetesKey = ConfigurationKey(
        "kubernetes",
        ConfigurationValue<Kubernetes>.object([servers, kubernetesAuthorities, kubernetesToken]) {
            object throws(ConfigurationError) in
            Kubernetes(
                servers: try object[servers],
                certificateAuthorities: try object[kubernetesAuthorities],
                token: try object[kubernetesToken]
            )
        },
        "Kubernetes: the tokens that API servers accept."
    )
    private static let role = ConfigurationKey("role_arn", required: .text, "The ARN of the role.")
    private static let session = ConfigurationKey(
        "session_name",
        .text,
        default: "authflow",
        "The name of the role session, which appears in AWS logs."
    )
    private static let awsToken = ConfigurationKey(
        "token",
        ConfigurationValue<Token>.choice,
        default: .idToken,
        "The token to exchange. Its audience must be registered with the IAM identity provider in AWS."
    )
    private static let lifetime = ConfigurationKey(
        "duration",
        .seconds(900...43_200),
        "The lifetime of the temporary credentials, in seconds. Default: one hour, the AWS default."
    )
    private static let endpoint = ConfigurationKey(
        "endpoint",
        .url,
        "The endpoint of the Security Token Service. Default: https://sts.amazonaws.com/."
    )
    private static let awsKey = ConfigurationKey(
        "aws",
        ConfigurationValue<AWS>.object([role, session, awsToken, lifetime, endpoint]) {
            object throws(ConfigurationError) in
            AWS(
                role: try object[role],
                session: try object[session],
                token: try object[awsToken],
                lifetime: try object[lifetime],
                endpoint: try object[endpoint] ?? "https://sts.amazonaws.com/"
            )
        },
        "AWS: the role to assume with the token, to obtain temporary credentials (AssumeRoleWithWebIdentity)."
    )
}
