import ArgumentParser
import AuthFlow

struct CredentialCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "credential",
        abstract: "Supply other programs with a fresh token via their native protocols: Git, Docker, Kubernetes, AWS.",
        discussion: "Never signs in. \"helpers\" in a profile lists servers that may receive its tokens.",
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

extension String {
    /// A host without its port, if that is the default port of the scheme.
    func withoutPort(_ port: Int) -> String {
        let suffix = ":\(port)"
        return hasSuffix(suffix) ? String(dropLast(suffix.count)) : self
    }
}
