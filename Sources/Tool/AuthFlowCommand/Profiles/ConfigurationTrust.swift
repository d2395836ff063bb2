import AuthFlow
import AuthFlowEssentials
import Crypto

/// The configuration files in working directories that the user trusts: their paths, and hashes of their contents.
///
/// A configuration determines which endpoints receive the stored tokens, which files are read as secrets and which
/// programs are started. A user who can create a file in a directory must not be able to make these decisions for other
/// users who work there.
struct ConfigurationTrust {
    /// The directory with the records, in the user's data directory. Each configuration has a separate file, so that
    /// concurrent commands change different files.
    let folder: String

    init(environment: [String: String] = ToolEnvironment.host.environment) {
        self.folder =
            "\(FileTokenStore.defaultDirectory(for: "authflow", environment: environment))/trusted-configurations"
    }

    /// The trust state of a file.
    enum Verdict {
        case trusted
        /// The file was trusted, but its content has changed.
        case changed
        case unknown
    }

    /// The paths that are trusted, sorted, and the errors of the records that cannot be read.
    func paths() throws -> (paths: [String], errors: [any Error]) {
        guard FileManager.default.fileExists(atPath: folder) else { return ([], []) }
        var paths: [String] = []
        var errors: [any Error] = []
        for name in try FileManager.default.contentsOfDirectory(atPath: folder).sorted() where name.hasSuffix(".json") {
            do {
                if let path = try record(at: "\(folder)/\(name)")?.path { paths.append(path) }
            } catch {
                errors.append(error)
            }
        }
        return (paths.sorted(), errors)
    }

    func verdict(on file: String, content: [UInt8]) throws -> Verdict {
        let resolved = Self.resolved(file)
        guard let known = try record(at: place(of: resolved)), known.path.isIdentical(to: resolved) else {
            return .unknown
        }
        return known.hash == Self.hash(content) ? .trusted : .changed
    }

    /// Records a file with its current content.
    /// - Returns: The path that was recorded.
    func trust(_ file: String, content: [UInt8]) throws -> String {
        let resolved = Self.resolved(file)
        try PrivateFile.createDirectory(folder)
        let json: JSON = ["path": .string(resolved), "sha256": .string(Self.hash(content))]
        try PrivateFile(place(of: resolved)).replace(with: try json.serialized(indented: true))
        return resolved
    }

    /// Removes the record of a file, whether or not the file still exists.
    /// - Returns: Whether a record existed.
    func untrust(_ file: String) throws -> Bool {
        var wasKnown = false
        for path in Set([Self.resolved(file), file]) {
            let record = PrivateFile(place(of: path))
            guard record.exists else { continue }
            try record.remove()
            wasKnown = true
        }
        return wasKnown
    }

    private func place(of path: String) -> String { "\(folder)/\(Self.hash(Array(path.utf8))).json" }

    private func record(at place: String) throws -> (path: String, hash: String)? {
        guard PrivateFile(place).exists else { return nil }
        // Other users may read the list of trusted files, but must not be able to change it.
        let bytes = try ConfigurationFile.contents(ofFile: place)
        guard let json = try? JSON(parsing: bytes), let path = json["path"]?.string, let hash = json["sha256"]?.string
        else { throw AuthError(.storageFailed, "\(place) is damaged. Remove it, then trust the configuration again.") }
        return (path, hash)
    }

    private static func hash(_ content: [UInt8]) -> String { Base64URL.encode(SHA256.hash(data: content)) }

    /// The absolute path with all symbolic links resolved. The file may have been removed.
    static func resolved(_ file: String) -> String {
        if let path = FilePath.resolved(file) { return path }
        let url = URL(fileURLWithPath: file).standardizedFileURL
        let directory = FilePath.resolved(ConfigurationFile.directory(of: file))
        return directory.map { $0 == "/" ? "/\(url.lastPathComponent)" : "\($0)/\(url.lastPathComponent)" } ?? url.path
    }
}

/// Chooses the configuration file, and records the source of the choice.
struct ConfigurationChoice {
    /// The source of the choice.
    enum Origin: String {
        case option = "named on the command line"
        case environment = "named by AUTHFLOW_CONFIG"
        case workingDirectory = "in the working directory, and trusted"
        case user = "in your configuration directory"
    }

    /// The name of the configuration file in a working directory.
    static let localName = "authflow.json"

    let path: String
    let origin: Origin

    private init(path: String, origin: Origin) {
        self.path = path
        self.origin = origin
    }

    /// The files that can be used without `--config`, in order of preference. A file that AUTHFLOW_CONFIG names is included
    /// even if it does not exist.
    static func existing(environment: [String: String] = ToolEnvironment.host.environment) -> [ConfigurationChoice] {
        let chosen = ConfigurationChoice(option: nil, environment: environment)
        let user = ConfigurationChoice(path: userPath(environment), origin: .user)
        let choices = chosen.origin == .workingDirectory ? [chosen, user] : [chosen]
        return choices.filter { $0.origin == .environment || FileManager.default.fileExists(atPath: $0.path) }
    }

    static func userPath(_ environment: [String: String]) -> String {
        "\(HomeDirectory.base("XDG_CONFIG_HOME", ".config", environment))/authflow/config.json"
    }

    /// The file to use when another program determines the working directory; nil if AUTHFLOW_CONFIG is a relative path, which every command rejects.
    static var pathForHelpers: String? {
        let environment = ToolEnvironment.host.environment
        guard let named = environment["AUTHFLOW_CONFIG"], !named.isEmpty else { return userPath(environment) }
        return named.hasPrefix("/") ? named : nil
    }

    /// - Parameter option: The value of `--config`.
    init(option: String?, environment: [String: String] = ToolEnvironment.host.environment) {
        let user = Self.userPath(environment)
        if let option {
            // Helpers pass the path of the variable or of the user's file as the option.
            let isNamed = option.hasPrefix("/") && option == environment["AUTHFLOW_CONFIG"]
            (self.path, self.origin) = (option, isNamed ? .environment : option == user ? .user : .option)
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
    /// - Parameter advice: The advice to the user if there is no file; default: the advice for commands that use a profile.
    /// - Throws: ``AuthFlow/AuthError`` with `invalid_configuration` when it does not exist,
    ///   other users could have written it, or it is in the working directory and not trusted; `storage_failed` when its trust record is damaged.
    func file(
        advice: String =
            "To create one, run: authflow init. Or use --issuer and --client-id, or specify a file with --config."
    ) throws -> ConfigurationFile {
        // A relative path would refer to a file in the working directory, and that file would not have to be trusted.
        guard origin != .environment || path.hasPrefix("/") else {
            throw AuthError(.invalidConfiguration, "AUTHFLOW_CONFIG must be an absolute path.")
        }
        // The file is read only once, so that the content that is used is the content that was compared with the trusted
        // version.
        let content: [UInt8]
        do throws(AuthError) {
            content = try ConfigurationFile.contents(ofFile: path)
        } catch {
            guard !FileManager.default.fileExists(atPath: path) else { throw error }
            guard origin == .workingDirectory || origin == .user else {
                throw AuthError(.invalidConfiguration, "\(error.message) It is \(origin.rawValue).")
            }
            let user = Self.userPath(ToolEnvironment.host.environment)
            guard origin == .workingDirectory else {
                throw AuthError(
                    .invalidConfiguration,
                    "There is no configuration file at \(DisplayText.sanitized(user, limit: 1000)). To create one, run: authflow init. Credential helpers, such as the helper for git, use this file or the file that AUTHFLOW_CONFIG names, but not ./\(Self.localName)."
                )
            }
            throw AuthError(
                .invalidConfiguration,
                "There is no configuration file: neither ./\(Self.localName) nor \(DisplayText.sanitized(user, limit: 1000)) exists. \(advice)"
            )
        }
        if origin == .workingDirectory {
            let place = "\(FileManager.default.currentDirectoryPath)/\(path)"
            let shown = DisplayText.sanitized(place, limit: 1000)
            switch try ConfigurationTrust().verdict(on: path, content: content) {
            case .trusted: break
            case .changed:
                throw AuthError(
                    .invalidConfiguration,
                    "\(shown) has changed since you trusted it. A configuration file determines where your tokens are sent. Review it, then run: authflow config trust"
                )
            case .unknown:
                throw AuthError(
                    .invalidConfiguration,
                    "\(shown) is not trusted yet. A configuration file determines where your tokens are sent and which programs are started. Review it, then run: authflow config trust"
                )
            }
        }
        // Paths in a file that is named by a relative path, such as ./authflow.json, are relative to the file's own directory, even if it is opened
        // through
        // a symbolic link: the working directory could contain other programs with the same names.
        let isElsewhere = origin != .workingDirectory && path.hasPrefix("/")
        return try Self.file(path, with: content, at: isElsewhere ? path : ConfigurationTrust.resolved(path))
    }

    /// Parses the content of a file.
    /// - Parameter place: The path whose directory is the base directory for relative paths; default: the path of the file.
    static func file(_ path: String, with content: [UInt8], at place: String? = nil) throws -> ConfigurationFile {
        let directory = ConfigurationFile.directory(of: place ?? path)
        return try ConfigurationFile(text: content, name: path, directory: directory, presets: Known.presets)
    }
}
