import ArgumentParser
import AuthFlow
import AuthFlowEssentials
import AuthFlowMarkup

extension CredentialCommand {
    /// The external credential process of the AWS tools (`credential_process`).
    struct AWS: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "aws",
            abstract:
                "A role's credentials for the AWS tools: credential_process = authflow credential aws --profile NAME",
            discussion:
                "The role is set in the \"helpers\" of the profile. The credentials are stored in the profile's store."
        )

        @OptionGroup var options: ProfileOptions

        func run() async throws {
            let profile = try options.helperChoice.file().profile(options.profile)
            guard let settings = try profile.helpers().aws else {
                throw AuthError(
                    .invalidConfiguration,
                    "The profile \"\(profile.name)\" has no \"aws\" in its \"helpers\". Add it, with the role."
                )
            }
            let client = try options.helperChoice.client()
            let store = try AWSKeys.store(of: profile)
            // The credentials belong to the signed-in user and to this role. If fresh credentials are stored, no request is sent.
            let signIn = try await AWSKeys.signIn(of: client)
            let key = AWSKeys.key(settings, client)
            let keys: AWSKeys
            do {
                // Concurrent programs wait for a single request to AWS.
                keys = try await store.withLease(on: key) { lease in
                    let stored = try await store.bytes(under: lease).flatMap { AWSKeys(stored: $0, from: signIn) }
                    if let stored, stored.areFresh { return stored }
                    let (token, _) = try await HelperTokens.fresh(settings.token, of: client)
                    try await Self.requireSame(signIn, of: client)
                    let transport = try profile.transport(environment: ToolEnvironment.host.environment)
                    let keys = try await AWSKeys.assumeRole(token, settings, transport)
                    do {
                        try await store.write(keys.stored(for: signIn), under: lease)
                    } catch let error as AuthError where error.code == .storageFailed {
                        // As `authflow token` does, the helper returns what it has obtained.
                        Terminal.printMessage(
                            "Warning: the credentials could not be stored, so the next call requests new credentials from AWS. \(error.message)"
                        )
                    }
                    return keys
                }
            } catch let error as AuthError where HelperTokens.isOutage(error) {
                // Credentials are renewed long before they expire, so an outage need not interrupt their use.
                guard let bytes = try? await store.bytes(for: key), let stored = AWSKeys(stored: bytes, from: signIn),
                    stored.areUsable
                else { throw error }
                try await Self.requireSame(signIn, of: client)
                keys = stored
            }
            try Terminal.result(keys.json)
        }

        private static func requireSame(_ signIn: JSON, of client: AuthClient) async throws {
            let isSame = try await AWSKeys.signIn(of: client) == signIn
            guard isSame else {
                throw AuthError(.temporarilyUnavailable, "The user has signed in again in the meantime. Try again.")
            }
        }
    }
}

/// Temporary security credentials of a role.
struct AWSKeys {
    let json: JSON
    private let end: Date
    private let obtainedAt: Date

    /// The AWS tools request new credentials on every run when the current credentials expire within 15 minutes. Short-lived credentials count
    /// as fresh for three quarters of their lifetime.
    var areFresh: Bool { remainingTime > min(15 * 60, end.timeIntervalSince(obtainedAt) / 4) }

    /// Whether the calling program can still send a request with the credentials.
    var areUsable: Bool { remainingTime > HelperTokens.margin.seconds }

    private var remainingTime: TimeInterval { end.timeIntervalSince(ToolEnvironment.host.now()) }

    private init?(_ json: JSON, obtainedAt: Date) {
        guard let text = json["Expiration"]?.string, let end = Self.date(text) else { return nil }
        self.json = json
        self.end = end
        self.obtainedAt = obtainedAt
    }

    /// Some services include fractional seconds.
    private static func date(_ text: String) -> Date? {
        (try? Date(text, strategy: .iso8601))
            ?? (try? Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: true)))
    }

    /// Decodes stored credentials; nil if they were obtained in another sign-in, even by the same user.
    init?(stored: [UInt8], from signIn: JSON) {
        guard let json = try? JSON(parsing: stored), let keys = json["keys"], let time = json["obtained_at"]?.number,
            json["sign_in"] == signIn
        else { return nil }
        self.init(keys, obtainedAt: Date(secondsSince1970: time))
    }

    func stored(for signIn: JSON) throws -> [UInt8] {
        try JSON.object(["keys": json, "obtained_at": .double(obtainedAt.timeIntervalSince1970), "sign_in": signIn])
            .serialized()
    }

    /// A value that identifies the sign-in, even if the user is unknown. The tokens of a client without a user, or for the user of another profile, are
    /// replaced by each renewal.
    static func signIn(of client: AuthClient) async throws -> JSON {
        if client.isWithoutUser { return [.string(try await client.owner() ?? "")] }
        let credential = try await client.requiredCredential()
        return [.string(credential.account.subject ?? ""), .double(credential.signedInAt.timeIntervalSince1970)]
    }

    /// The store for the credentials.
    static func store(of profile: Profile) throws -> any TokenStore {
        try profile.makeStore(Known.components, host: ToolEnvironment.host)
    }

    /// The record, which all users of a profile share, so that a sign-out finds it even if the user is unknown.
    static func key(_ settings: CredentialHelperSettings.AWS, _ client: AuthClient) -> RecordKey {
        RecordKey(
            name: [settings.role, settings.session].joined(separator: "\u{0}"),
            issuer: client.server.issuer,
            clientID: client.registration.clientID,
            kind: "aws_keys"
        )
    }

    /// Removes the credentials, so that none remain after a sign-out.
    static func remove(_ profile: Profile, _ client: AuthClient) async throws {
        guard let settings = try profile.helpers().aws else { return }
        let store = try store(of: profile)
        try await store.withLease(on: key(settings, client)) { lease in
            try await store.write(nil, under: lease)
        }
    }

    /// Calls the AssumeRoleWithWebIdentity action of the AWS Security Token Service (STS).
    static func assumeRole(
        _ token: Secret,
        _ settings: CredentialHelperSettings.AWS,
        _ transport: any HTTPTransport
    ) async throws -> AWSKeys {
        var form: FormParameters = [
            "Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": settings.role,
            "RoleSessionName": settings.session, "WebIdentityToken": token.exposed,
        ]
        if let lifetime = settings.lifetime { form.append("DurationSeconds", "\(lifetime.components.seconds)") }
        let request = TransportRequest(
            .post,
            settings.endpoint,
            headerFields: [.contentType: "application/x-www-form-urlencoded"],
            body: Array(FormURLEncoding.encodeForm(form).utf8),
            // A small limit, because libxml2 compares every attribute of an element with every other attribute.
            maximumResponseSize: 64 * 1024
        )
        let response = try await ExchangeLimits.send(request, by: transport, clock: ToolEnvironment.host.clock)
        guard response.status == 200 else {
            // A proxy or a load balancer may respond with a page that is not XML.
            let code = (try? XMLElement.root(of: response.body, from: "AWS"))?["Error", "Code"]
            let reason = code.map { [token].redacted(in: $0) } ?? "status \(response.status)"
            let shown = DisplayText.sanitized(reason, limit: 80)
            // AWS reports these errors with status 400.
            let isTemporary = ["IDPCommunicationError", "Throttling", "ThrottlingException"].contains(code ?? "")
            guard !isTemporary, response.status != 429, response.status < 500 else {
                throw AuthError(
                    .temporarilyUnavailable,
                    "AWS cannot issue credentials for the role at the moment (\(shown)). Try again later.",
                    status: response.status
                )
            }
            throw AuthError(
                .providerRejected,
                "AWS did not issue credentials for the role (\(shown)). The IAM identity provider in AWS must be configured with this issuer and the token's audience."
            )
        }
        let root = try XMLElement.root(of: response.body, from: "AWS")
        func value(_ name: String) -> JSON? {
            guard let text = root["AssumeRoleWithWebIdentityResult", "Credentials", name], !text.isEmpty else {
                return nil
            }
            return .string(text)
        }
        guard let identifier = value("AccessKeyId"), let secret = value("SecretAccessKey"),
            let session = value("SessionToken"), let end = value("Expiration"),
            let keys = AWSKeys(
                [
                    "Version": 1, "AccessKeyId": identifier, "SecretAccessKey": secret, "SessionToken": session,
                    "Expiration": end,
                ],
                obtainedAt: ToolEnvironment.host.now()
            )
        else { throw AuthError(.invalidResponse, "AWS's response contains no credentials.") }
        guard keys.remainingTime > 0 else {
            throw AuthError(
                .invalidResponse,
                "The new credentials from AWS have already expired according to this machine's clock. Check the clock."
            )
        }
        return keys
    }
}
