import ArgumentParser
import AuthFlow

struct CredentialCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "credential",
        abstract: "Supply other programs with a fresh token, using their own protocols: Git, Docker, Kubernetes, AWS.",
        discussion: "Never signs in. The \"helpers\" of a profile list the servers that its tokens are for.",
        subcommands: [Git.self, Docker.self, Kubernetes.self, AWS.self]
    )
}

extension ProfileChoice {
    /// The first profile whose helpers match the request, among all profiles or only the selected profile.
    func first<Found>(
        where find: (CredentialHelperSettings) throws -> Found?
    ) throws -> (choice: ProfileChoice, found: Found)? {
        let file = try file()
        for name in try profile.map({ [try file.profile($0).name] }) ?? file.profileNames {
            guard let found = try find(try file.profile(name).helpers()) else { continue }
            var choice = self
            choice.profile = name
            return (choice, found)
        }
        return nil
    }
}
