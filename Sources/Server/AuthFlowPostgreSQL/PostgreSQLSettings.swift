import AuthFlow
import AuthFlowSystem
import CPostgreSQL

/// The validated connection settings: by default, TLS with a verified server certificate is required over a network.
struct PostgreSQLSettings: Sendable {
    /// The connection parameters, including the password.
    let keywords: [(String, String)]
    let schema: String

    private static let certificates = [
        "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem",
    ]

    /// - Parameters:
    ///   - url: A connection URI, or a keyword/value string (PostgreSQL manual, section 34.1.1).
    ///   - password: The password; default: the password in the URL, or in the password file.
    ///   - schema: The schema of the tables.
    ///   - allowsUnverifiedServer: Whether a server without a verified certificate is accepted.
    ///   - environment: The process environment, which libpq reads too.
    init(
        url: Secret,
        password: Secret?,
        schema: String,
        allowsUnverifiedServer: Bool,
        environment: [String: String] = HostServices.system.environment
    ) throws {
        guard authflow_pq_open() else {
            throw AuthError(
                .unsupported,
                "PostgreSQL's client library, libpq 5, is not installed. On Debian, install the package libpq5."
            )
        }
        guard let given = Self.parse(url.exposed) else {
            throw AuthError(
                .invalidConfiguration,
                "The database URL is invalid. The format is postgresql://user@host/database."
            )
        }
        // PostgreSQL limits names to 63 bytes.
        guard (1...63).contains(schema.utf8.count), !schema.utf8.contains(0), !schema.hasPrefix("pg_") else {
            throw AuthError(.invalidConfiguration, "The schema name is empty, too long, reserved, or contains a NUL.")
        }
        var values = Dictionary(given, uniquingKeysWith: { $1 })
        // libpq quotes an invalid port in its message, and parses a password up to its first slash as the port.
        let ports = (values["port"] ?? "").split(separator: ",").map { Int($0) ?? 0 }
        guard ports.allSatisfy({ (1...65535).contains($0) }) else {
            throw AuthError(
                .invalidConfiguration,
                "The database URL has an invalid port. If its password contains a slash, write %2F instead."
            )
        }
        let hosts = [values["host"], values["hostaddr"]].compactMap(\.self)
            .flatMap { $0.split(separator: ",", omittingEmptySubsequences: false) }
        let isLocal = hosts.allSatisfy { Self.isLocal(String($0)) }
        if let mode = values["sslmode"], mode != "verify-full", !isLocal || hosts.isEmpty, !allowsUnverifiedServer {
            throw AuthError(
                .invalidConfiguration,
                "The database URL has sslmode=\(mode), which allows a man-in-the-middle attack. Use verify-full."
            )
        }
        // Unix-domain sockets never use TLS, regardless of `sslmode`. Without a host, libpq uses such a socket, or
        // the host from the environment.
        if values["sslmode"] == nil { values["sslmode"] = isLocal && !hosts.isEmpty ? "prefer" : "verify-full" }
        if values["sslmode"] == "verify-full", values["sslrootcert"] == nil, !Self.hasOwnCertificates(environment),
            let path = Self.certificates.first(where: { unsafe access($0, R_OK) == 0 })
        {
            values["sslrootcert"] = path
        }
        values["password"] = password?.exposed ?? values["password"]
        let defaults = [
            "connect_timeout": "5", "tcp_user_timeout": "10000", "keepalives_idle": "30",
            "application_name": "authflow", "gssencmode": "disable",
        ]
        values.merge(defaults) { given, _ in given }
        // A standby would reject writes.
        values["target_session_attrs"] = "read-write"
        values["client_encoding"] = "UTF8"
        self.keywords = values.sorted { $0.key < $1.key }
        self.schema = schema
    }

    /// Whether libpq finds the certificates of authorities itself (PostgreSQL manual, section 34.19.1). The system's certificates would replace them,
    /// so that a server with a private authority's certificate would be rejected, and any public authority's accepted.
    private static func hasOwnCertificates(_ environment: [String: String]) -> Bool {
        if environment["PGSSLROOTCERT"]?.isEmpty == false { return true }
        return unsafe access("\(HomeDirectory.path(environment: environment))/.postgresql/root.crt", F_OK) == 0
    }

    private static func parse(_ text: String) -> [(String, String)]? {
        final class Received { var values: [(String, String)] = [] }
        let received = Received()
        let isReadable = unsafe authflow_pq_parse(text, Unmanaged.passUnretained(received).toOpaque()) {
            unsafe Unmanaged<Received>.fromOpaque($0).takeUnretainedValue().values
                .append((String(cString: $1), String(cString: $2)))
        }
        return isReadable ? received.values : nil
    }

    /// Whether a host is local: a Unix-domain socket or a loopback address.
    private static func isLocal(_ host: String) -> Bool {
        if host.isEmpty || host.hasPrefix("/") || host.hasPrefix("@") { return true }
        return Endpoint.isLoopback(host: host.contains(":") ? "[\(host)]" : host)
    }

    /// The statements that initialize a new connection.
    var sessionStatements: String {
        """
        SET search_path = \(Self.quoted(schema)), pg_temp; SET statement_timeout = '2s'; SET lock_timeout = '1s'; \
        SET idle_in_transaction_session_timeout = '5s'; \
        SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
        """
    }

    /// Quotes a name as an SQL identifier.
    static func quoted(_ name: String) -> String {
        "\"\(name.replacing(scalar: "\"", with: "\"\""))\""
    }
}
