import ArgumentParser
import AuthFlow

struct AccountsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accounts",
        abstract: "List the signed-in accounts, with the current account first; or make another account current."
    )

    @OptionGroup var options: ProfileOptions

    @Option(help: "The subject of the account to make current, or its issuer and subject, separated by a space.")
    var select: String?

    @Flag(help: "Print the accounts as JSON.")
    var json = false

    func run() async throws {
        let client = try options.choice.client()
        if let select {
            do {
                try await client.selectAccount(select)
            } catch let error as AuthError where error.code == .loginRequired {
                throw AccountNotSignedIn(message: error.description)
            }
        }
        let accounts = try await client.accounts()
        guard json else {
            if accounts.isEmpty { Terminal.printMessage("No account is signed in.") }
            for account in accounts {
                // The subject of a tenant's user is unique only within the tenant's issuer.
                let isOfTenant = !account.issuer.utf8.elementsEqual(client.client.server.issuer.utf8)
                let name = isOfTenant ? "\(account.issuer) \(account.subject)" : account.subject
                Terminal.result("\(DisplayText.sanitized(name))  \(account.displayName)")
            }
            return
        }
        try Terminal.result(
            .array(
                accounts.map {
                    ["issuer": .string($0.issuer), "subject": .string($0.subject), "name": .string($0.displayName)]
                }
            )
        )
    }
}
