import AuthFlow
import AuthFlowJSON
import Crypto
import Foundation

/// The configuration files in working directories that the user has looked at: their paths, and what was in them.
///
/// A configuration says which endpoints get the stored tokens, which files are read as secrets and which programs are started.
/// Whoever can put a file into a folder must not thereby decide that for everybody who works there.
struct ConfigurationTrust {
    /// Where they are recorded: in the user's data directory.
    let path: String

    init(environment: [String: String] = ProcessInfo.processInfo.environment) {
        self.path = "\(FileTokenStore.defaultDirectory(environment: environment))/trusted-configurations.json"
    }

    /// What is known about a file.
    enum Verdict {
        case trusted
        /// It was trusted, and has another content now.
        case changed
        case unknown
    }

    /// The paths that are trusted, sorted.
    func paths() throws -> [String] { try entries().keys.sorted() }

    func verdict(on file: String, content: [UInt8]) throws -> Verdict {
        guard let known = try entries()[Self.resolved(file)] else { return .unknown }
        return known == Self.hash(content) ? .trusted : .changed
    }

    /// Records a file with what is in it now.
    /// - Returns: The path that was recorded.
    func trust(_ file: String, content: [UInt8]) throws -> String {
        let resolved = Self.resolved(file)
        try change { $0[resolved] = Self.hash(content) }
        return resolved
    }

    /// Forgets a file, whether or not it is still there.
    /// - Returns: Whether it was known.
    func untrust(_ file: String) throws -> Bool {
        let known = try entries()
        let name = [Self.resolved(file), file].first { known[$0] != nil }
        guard let name else { return false }
        try change { $0[name] = nil }
        return true
    }

    private func entries() throws -> [String: String] {
        guard let bytes = try PrivateFile(path).contents(maximumSize: 1024 * 1024) else { return [:] }
        guard let files = (try? JSON(parsing: bytes))?["trusted"]?.object else {
            throw AuthError(.storageFailed, "\(path) is damaged. Remove it, and trust the files anew.")
        }
        return files.compactMapValues(\.string)
    }

    private func change(_ body: (inout [String: String]) -> Void) throws {
        try PrivateFile.createDirectory(
            FileTokenStore.defaultDirectory(environment: ProcessInfo.processInfo.environment)
        )
        var entries = try entries()
        body(&entries)
        let json: JSON = ["trusted": .object(entries.mapValues(JSON.string))]
        try PrivateFile(path).replace(with: try json.serialized(indented: true))
    }

    private static func hash(_ content: [UInt8]) -> String {
        Base64URL.encode(SHA256.hash(data: content))
    }

    /// The path with all links followed, absolute.
    private static func resolved(_ file: String) -> String {
        guard let found = unsafe realpath(file, nil) else {
            return URL(fileURLWithPath: file).standardizedFileURL.path
        }
        defer { unsafe free(found) }
        return unsafe String(cString: found)
    }
}

/// Which configuration file is used, and why.
struct ConfigurationChoice {
    /// What named the file.
    enum Origin: String {
        case option = "named by --config"
        case environment = "named by AUTHFLOW_CONFIG"
        case workingDirectory = "in the working directory, and trusted"
        case user = "in your configuration directory"
    }

    /// The name of a file in a working directory.
    static let localName = "authflow.json"

    let path: String
    let origin: Origin

    /// - Parameter option: What `--config` names.
    init(option: String?, environment: [String: String] = ProcessInfo.processInfo.environment) {
        let home = environment["HOME"] ?? NSHomeDirectory()
        let folder = environment["XDG_CONFIG_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "\(home)/.config"
        let user = "\(folder)/authflow/config.json"
        if let option {
            (self.path, self.origin) = (option, .option)
        } else if let named = environment["AUTHFLOW_CONFIG"], !named.isEmpty {
            (self.path, self.origin) = (named, .environment)
        } else if FileManager.default.fileExists(atPath: Self.localName)
            || !FileManager.default.fileExists(atPath: user)
        {
            (self.path, self.origin) = (Self.localName, .workingDirectory)
        } else {
            (self.path, self.origin) = (user, .user)
        }
    }

    /// Reads the file.
    /// - Throws: ``AuthFlow/AuthError`` with `invalid_configuration` when it is not there, others could have written it, or it is
    ///   in the working directory and not trusted.
    func file() throws -> ConfigurationFile {
        // Read once: what was compared is what is used.
        let content: [UInt8]
        do throws(AuthError) {
            content = try ConfigurationFile.contents(ofFile: path)
        } catch {
            guard !FileManager.default.fileExists(atPath: path) else { throw error }
            throw AuthError(.invalidConfiguration, "\(error.message) Name another with --config.")
        }
        if origin == .workingDirectory {
            let place = "\(FileManager.default.currentDirectoryPath)/\(path)"
            let shown = DisplayText.sanitized(place, limit: 1000)
            switch try ConfigurationTrust().verdict(on: path, content: content) {
            case .trusted: break
            case .changed:
                throw AuthError(
                    .invalidConfiguration,
                    "\(shown) has changed since you trusted it. A configuration decides where your tokens go: look at it, then run: authflow config trust"
                )
            case .unknown:
                throw AuthError(
                    .invalidConfiguration,
                    "\(shown) is not trusted yet. A configuration decides where your tokens go and which programs are started: look at it, then run: authflow config trust"
                )
            }
        }
        return try ConfigurationFile(text: content, name: path, directory: ConfigurationFile.directory(of: path))
    }
}
