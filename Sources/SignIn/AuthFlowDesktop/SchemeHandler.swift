public import AuthFlow
import AuthFlowEssentials

/// A private-use URI scheme (RFC 8252 section 7.1) for which the desktop starts a program, registered through one of
/// the user's desktop entries (freedesktop.org's Desktop Entry and MIME Applications specifications).
///
/// For Linux and similar systems only: on Apple platforms, an app declares its schemes in its bundle.
public struct SchemeHandler: Sendable {
    /// The scheme.
    public let scheme: String

    private let environment: [String: String]

    /// Creates a handler for a scheme.
    /// - Parameters:
    ///   - scheme: The scheme, in lower case.
    ///   - environment: The environment variables that specify the user's directories.
    public init(scheme: String, environment: [String: String] = HostServices.system.environment) {
        self.scheme = scheme
        self.environment = environment
    }

    /// The file name of the entry.
    public var entryName: String { "authflow-\(scheme).desktop" }

    /// The path of the entry.
    public var entryPath: String { "\(applications)/\(entryName)" }

    /// Whether the entry exists.
    public var hasEntry: Bool { FileManager.default.fileExists(atPath: entryPath) }

    /// Whether the entry exists and is the default handler for the scheme.
    public var isInstalled: Bool { hasEntry && handler == entryName }

    /// The name of the default handler's entry for the scheme, according to `xdg-mime`; nil when there is none, or the query fails.
    public var handler: String? { try? currentHandler() }

    private func currentHandler() throws -> String? {
        let response = try run("xdg-mime", ["query", "default", mimeType])
        return response.isEmpty ? nil : response
    }

    /// The program that the entry starts; nil when there is no entry.
    public var program: String? {
        let text = FileManager.default.contents(atPath: entryPath).map { String(decoding: $0, as: UTF8.self) }
        let line = text?.split(separator: "\n").first { $0.hasPrefix("Exec=") }
        return line.map { String($0.dropFirst("Exec=".count).prefix { $0 != " " }) }
    }

    /// Registers a program, for this user only.
    /// - Parameters:
    ///   - program: Its path. It is started as `PROGRAM handle-redirect URL`, without a shell.
    ///   - replacing: Whether to replace another program that has registered the scheme.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration` when the path or the scheme cannot be registered, or another
    ///   program handles the scheme; `storage_failed` when the entry cannot be written; `user_agent_failed` when its directory cannot be created,
    ///   `xdg-mime` is missing or fails, or the desktop does not accept the entry; `unsupported` on systems other than Linux.
    public func install(program: String, replacing: Bool = false) throws {
        // RFC 8252 section 7.1. Characters with a special meaning in desktop entry files or launchers are also
        // rejected.
        let isReversedName =
            scheme.contains(".")
            && scheme.utf8.allSatisfy { byte in
                UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
                    || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "+")
            }
        guard isReversedName, scheme.first?.isLetter == true else {
            throw AuthError(
                .invalidConfiguration,
                "\"\(DisplayText.sanitized(scheme, limit: 80))\" is not a reversed domain name such as com.example.app (RFC 8252 section 7.1)."
            )
        }
        guard program.hasPrefix("/"), program.utf8.allSatisfy(Self.isPlain) else {
            throw AuthError(
                .invalidConfiguration,
                "The path \(DisplayText.sanitized(program)) is not safe in a desktop entry. Install the program at an absolute path that contains only ASCII letters, digits and /._-+@."
            )
        }
        // A failed query is an error, because it is inconclusive: another program's scheme must not be taken over.
        if !replacing, let handler = try currentHandler(), handler != entryName {
            throw AuthError(
                .invalidConfiguration,
                "The scheme \(scheme) is already handled by \(DisplayText.sanitized(handler)), which is replaced only on request.",
                underlyingError: OtherHandler(entryName: handler)
            )
        }
        do {
            try FileManager.default.createDirectory(atPath: applications, withIntermediateDirectories: true)
        } catch {
            throw AuthError(.userAgentFailed, "Cannot create the directory \(applications).", underlyingError: error)
        }
        let entry = """
            [Desktop Entry]
            Type=Application
            Version=1.0
            Name=AuthFlow sign-in
            Comment=Passes a redirect to the program that is waiting for it
            Exec=\(program) handle-redirect %u
            Terminal=false
            NoDisplay=true
            StartupNotify=false
            MimeType=\(mimeType);

            """
        let existed = hasEntry
        // The write is atomic, even if this process is killed.
        try PrivateFile(entryPath).replace(with: Array(entry.utf8))
        do {
            // Some desktops cache the entries. A desktop without update-desktop-database has no cache to update.
            _ = try? run("update-desktop-database", [applications])
            _ = try run("xdg-mime", ["default", entryName, mimeType])
            guard isInstalled else {
                throw AuthError(
                    .userAgentFailed,
                    "The desktop's handler for \(scheme): URLs is still \(handler ?? "not set"). Is XDG_CONFIG_HOME writable?"
                )
            }
        } catch {
            // With an entry, a sign-in would use the scheme, and wait for a redirect that does not arrive.
            if !existed { try? PrivateFile(entryPath).remove() }
            throw error
        }
    }

    /// Removes the registration.
    /// - Returns: Whether there was a registration.
    /// - Throws: ``/AuthFlow/AuthError`` when the registration cannot be removed.
    public func remove() throws -> Bool {
        let existed = hasEntry
        try PrivateFile(entryPath).remove()
        for list in ["\(configuration)/mimeapps.list", "\(applications)/mimeapps.list"] {
            try removeAssociation(in: list)
        }
        _ = try? run("update-desktop-database", [applications])
        return existed
    }

    /// Removes the association by editing the list, because `xdg-mime` can only add associations.
    private func removeAssociation(in list: String) throws {
        guard let bytes = FileManager.default.contents(atPath: list) else { return }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        let left = lines.compactMap { line -> String? in
            let entries = line.dropFirst(mimeType.count + 1).split(separator: ";")
            // A line of other programs may lack the last semicolon. It remains as it is.
            guard line.hasPrefix("\(mimeType)="), entries.contains(where: { $0 == entryName }) else {
                return String(line)
            }
            let others = entries.filter { $0 != entryName }
            return others.isEmpty ? nil : "\(mimeType)=\(others.joined(separator: ";"));"
        }
        guard left != lines.map(String.init) else { return }
        // The list may be a symbolic link, for example into a dotfiles repository, and other programs read it.
        let file = URL(fileURLWithPath: list).resolvingSymlinksInPath().path
        try PrivateFile(file).replacePreservingAccess(with: Array(left.joined(separator: "\n").utf8))
    }

    private var mimeType: String { "x-scheme-handler/\(scheme)" }

    private var applications: String {
        "\(HomeDirectory.base("XDG_DATA_HOME", ".local/share", environment))/applications"
    }

    private var configuration: String { HomeDirectory.base("XDG_CONFIG_HOME", ".config", environment) }

    /// Whether the character has no special meaning in launchers, quoting rules and desktop entry files.
    private static func isPlain(_ byte: UInt8) -> Bool { byte.isLetterOrDigit || "/._-+@".utf8.contains(byte) }

    /// Runs a desktop utility and returns its standard output.
    private func run(_ name: String, _ arguments: [String]) throws -> String {
        #if os(Linux)
        guard let path = LaunchEnvironment.find(name, environment) else {
            throw AuthError(.userAgentFailed, "\(name) is not installed. Install the package xdg-utils.")
        }
        let (status, bytes): (Int32, [UInt8]?)
        do {
            (status, bytes) = try ProgramOutput.waiting(
                for: [path] + arguments,
                environment: environment,
                maximumSize: 64 * 1024,
                limit: .seconds(10)
            )
        } catch let error as AuthError {
            throw AuthError(.userAgentFailed, error.message, underlyingError: error)
        }
        guard let bytes else {
            throw AuthError(.userAgentFailed, "\(name) did not exit within 10 seconds, or its output was too long.")
        }
        guard status == 0 else { throw AuthError(.userAgentFailed, "\(name) exited with status \(status).") }
        return String(decoding: bytes, as: UTF8.self).trimmingWhitespace()
        #else
        throw AuthError(.unsupported, "On this system, only apps can handle URI schemes.")
        #endif
    }
}

extension SchemeHandler {
    /// Another program handles the scheme.
    package struct OtherHandler: Error {
        /// The file name of that program's desktop entry.
        package let entryName: String
    }
}

extension SchemeHandler: CustomStringConvertible, NonReflectable {
    /// The scheme.
    public var description: String { scheme }
}
