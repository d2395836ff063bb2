import ArgumentParser
import AuthFlow
import AuthFlowJSON
import AuthFlowMarkup

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension CredentialCommand {
    /// The external processes of AWS's programs (`credential_process`).
    struct AWS: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "aws",
            abstract: "Keys of a role for AWS's programs: credential_process = authflow credential aws --profile NAME",
            discussion: "The role stands in the \"helpers\" of the profile. The keys are kept in the profile's store."
        )

        @OptionGroup var options: ProfileOptions

        func run() async throws {
            let profile = try options.choice.file().profile(options.profile)
            guard let settings = try profile.helpers().aws else {
                throw AuthError(
                    .invalidConfiguration,
                    "The profile \"\(profile.name)\" has no \"aws\" in its \"helpers\", which says the role."
                )
            }
            let client = try options.choice.client()
            let store = try profile.makeStore(
                providers: Known.providers,
                userAgents: Known.userAgents,
                stores: Known.stores,
                assertions: Known.assertions,
                host: ToolEnvironment.host
            )
            // The keys are of the user who has signed in, and of this role.
            let credential = try await client.freshCredential(lasting: HelperTokens.margin)
            let key = RecordKey(
                name: [settings.role, settings.session, credential.identity?.subject ?? ""].joined(separator: "\u{0}"),
                issuer: credential.issuer ?? "",
                clientID: client.registration.clientID,
                kind: "aws_keys"
            )
            // Programs that run side by side wait for one exchange.
            let keys = try await store.withLease(on: key) { lease in
                if let kept = try await store.bytes(for: key).flatMap(AWSKeys.init(stored:)), kept.areFresh {
                    return kept
                }
                let (token, _) = try await HelperTokens.fresh(settings.token, of: client)
                let transport = try profile.transport(environment: ToolEnvironment.host.environment)
                let keys = try await AWSKeys.exchanging(token, settings, transport)
                try await store.write(keys.json.serialized(), under: lease)
                return keys
            }
            try Terminal.result(keys.json)
        }
    }
}

/// Keys of a role, for a while.
private struct AWSKeys {
    let json: JSON
    private let end: Date

    /// AWS's programs ask again, in every run, for keys that end within a quarter of an hour.
    var areFresh: Bool { end.timeIntervalSince(ToolEnvironment.host.now()) > 15 * 60 }

    private init?(_ json: JSON) {
        guard json["Version"] == 1, let text = json["Expiration"]?.string,
            let end = try? Date(text, strategy: .iso8601)
        else { return nil }
        self.json = json
        self.end = end
    }

    init?(stored: [UInt8]) {
        guard let json = try? JSON(parsing: stored) else { return nil }
        self.init(json)
    }

    /// AssumeRoleWithWebIdentity of the Security Token Service.
    static func exchanging(
        _ token: Secret,
        _ settings: CredentialHelperSettings.AWS,
        _ transport: any HTTPTransport
    ) async throws -> AWSKeys {
        var form: FormParameters = [
            "Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": settings.role,
            "RoleSessionName": settings.session, "WebIdentityToken": token.exposed,
        ]
        if let lifetime = settings.lifetime { form.append("DurationSeconds", "\(lifetime.components.seconds)") }
        let response = try await transport.send(
            TransportRequest(
                .post,
                settings.endpoint,
                headerFields: [.contentType: "application/x-www-form-urlencoded"],
                body: Array(FormURLEncoding.encodeForm(form).utf8)
            )
        )
        let root = try XMLElement.root(of: response.body, from: "AWS")
        guard response.status == 200 else {
            let code = root["Error", "Code"] ?? "status \(response.status)"
            throw AuthError(
                .providerRejected,
                "AWS gives no keys of the role (\(DisplayText.sanitized(code, limit: 80))). The identity provider there has to trust this issuer and the token's audience."
            )
        }
        let path = ["AssumeRoleWithWebIdentityResult", "Credentials"]
        func value(_ name: String) -> JSON? { root[path[0], path[1], name].map(JSON.string) }
        guard let identifier = value("AccessKeyId"), let secret = value("SecretAccessKey"),
            let session = value("SessionToken"), let end = value("Expiration"),
            let keys = AWSKeys([
                "Version": 1, "AccessKeyId": identifier, "SecretAccessKey": secret, "SessionToken": session,
                "Expiration": end,
            ])
        else { throw AuthError(.invalidResponse, "AWS's response has no keys.") }
        return keys
    }
}
