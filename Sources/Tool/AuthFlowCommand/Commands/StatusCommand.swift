import ArgumentParser
import AuthFlow

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract:
            "Show the signed-in user. Sends no requests; exits with 4 if no user is signed in or the session has ended."
    )

    @OptionGroup var resource: ResourceOptions

    @OptionGroup var options: ProfileOptions

    @Flag(help: "Print the status as JSON.")
    var json = false

    func validate() throws { try resource.check(options) }

    func run() async throws {
        try await StatusRequest(choice: options.choice, resource: try resource.choice(options), asJSON: json).run()
    }
}

/// The options of `authflow status`.
struct StatusRequest: Hashable {
    var choice = ProfileChoice()
    /// The protected resource; nil if a profile is used instead.
    var resource: ResourceChoice?
    var asJSON = false

    func run() async throws {
        let credential: Credential
        var isRenewable = false
        if let resource {
            let client = try resource.client()
            isRenewable = client.isWithoutUser
            do {
                credential = try await ResourceReport.print(client, asJSON: asJSON)
            } catch let error as AuthError where error.code == .loginRequired {
                if client.isWithoutUser { return try printMissingToken() }
                try printAbsence(error, isEnded: try await client.status()?.isEnded == true)
                throw error
            }
        } else {
            let client = try choice.client()
            isRenewable = client.isWithoutUser
            do {
                credential = try await client.requiredCredential()
            } catch let error as AuthError where error.code == .loginRequired {
                if client.isWithoutUser, !client.hasOwner {
                    return try printMissingToken(others: try await client.storedCredentials().count)
                }
                try printAbsence(error, isEnded: try await client.isEnded())
                throw error
            }
            try Report.print(
                credential,
                asJSON: asJSON,
                coversDetails: client.coversAuthorizationDetails(credential),
                tokens: client.tokensWithoutSignIn
            )
        }
        if let error = credential.end(isRenewable: isRenewable) { throw error }
    }

    /// Reports that no token of a client without a user is stored.
    /// - Parameter others: The number of the profile's resources for which a token is stored; default: 0.
    private func printMissingToken(others count: Int = 0) throws {
        let message =
            count == 0
            ? "No token is stored. A token is requested when it is needed."
            : "Tokens are stored for \(count) of the resources, but not for the client itself."
        let json: JSON = ["state": "expired", "message": .string(message)]
        asJSON ? try Terminal.result(json) : Terminal.result(message)
    }

    /// With `--json`, prints the error, with the state: `ended` if the session has ended, otherwise `signed_out`.
    private func printAbsence(_ error: AuthError, isEnded: Bool) throws {
        guard asJSON else { return }
        let state = isEnded ? "ended" : "signed_out"
        try Terminal.result(.object(error.members.merging(["state": .string(state)]) { $1 }))
    }
}
