import AuthFlow
import AuthFlowEssentials
import AuthFlowSystem

/// Adds profiles to configuration files, and leaves everything else unchanged, except that a second profile may add `default_profile`.
struct ConfigurationWriter {
    /// The file.
    let path: String

    /// The free space that the configuration file, the response to a registration and the client secret require, in bytes.
    private static let requiredSpace = 64 * 1024

    /// - Parameter path: The file, relative to the working directory or absolute.
    /// - Throws: ``AuthFlow/AuthError`` with `storage_failed` if the path is relative and the working directory was removed.
    init(_ path: String) throws(AuthError) {
        let absolute = try WorkingDirectory.absolute(path)
        // A symbolic link is preserved.
        self.path = URL(fileURLWithPath: absolute).resolvingSymlinksInPath().path
    }

    /// Checks that a profile with this name can be written, before any step that cannot be repeated.
    /// - Throws: ``AuthFlow/AuthError`` with `invalid_configuration` or `storage_failed`.
    func requirePlace(for profile: String) throws {
        // The profile's name is also part of the names of other files.
        guard !profile.isEmpty, profile.utf8.count <= 60,
            !profile.unicodeScalars.contains(where: { $0 == "/" || $0.properties.generalCategory == .control })
        else {
            throw AuthError(
                .invalidConfiguration,
                "\"\(DisplayText.sanitized(profile, limit: 60))\" cannot be the name of a profile: a name must have 1 to 60 bytes, and no slashes or control characters."
            )
        }
        let directory = ConfigurationFile.directory(of: path)
        guard FileManager.default.isWritableFile(atPath: directory) else {
            throw AuthError(
                .storageFailed,
                "\(DisplayText.sanitized(path)) cannot be written: its directory does not exist, or you do not have write permission."
            )
        }
        // A link to an existing file was resolved.
        guard FileManager.default.fileExists(atPath: path) || !PrivateFile(path).exists else {
            throw AuthError(
                .storageFailed,
                "\(DisplayText.sanitized(path)) cannot be written: it is a symbolic link to a file that does not exist."
            )
        }
        // The provider sends the response to a registration only once, so a full disk must be detected before the request.
        let probe = PrivateFile("\(path).probe-\(UUID().uuidString)")
        // If the directory cannot be synced to disk, the creation fails although the file exists.
        defer { try? probe.remove() }
        guard try probe.create(with: [UInt8](repeating: UInt8(ascii: " "), count: Self.requiredSpace)) else {
            throw AuthError(.storageFailed, "\(DisplayText.sanitized(path)) cannot be created.")
        }
        // A file that other users can change would be rejected when it is read.
        _ = try ConfigurationFile.contents(ofFile: probe.path)
        _ = try text(with: [:], as: profile)
    }

    /// Writes a profile.
    func write(_ members: JSON, as profile: String) throws {
        // Several commands may write the file at the same time.
        let lock = try Self.lock(ConfigurationFile.directory(of: path))
        defer { lock.release() }
        let isNew = !FileManager.default.fileExists(atPath: path)
        let (old, text) = try text(with: members, as: profile)
        // A trust record that cannot be read must not stop the command after a client has been registered.
        let isTrusted = isNew || (try? ConfigurationTrust().verdict(on: path, content: old)) == .trusted
        // Never writes a file that cannot be read back.
        _ = try ConfigurationChoice.file(path, with: text).profile(profile)
        if isNew {
            guard try PrivateFile(path).create(with: text) else {
                throw AuthError(
                    .storageFailed,
                    "\(DisplayText.sanitized(path)) was created in the meantime, and was not changed."
                )
            }
        } else {
            guard try ConfigurationFile.contents(ofFile: path) == old else {
                throw AuthError(
                    .storageFailed,
                    "\(DisplayText.sanitized(path)) was changed in the meantime, and was not overwritten."
                )
            }
            try PrivateFile(path).replacePreservingAccess(with: text)
        }
        // A file that this command has just created, or that was trusted before it added a profile, needs no review; an untrusted file stays untrusted.
        if isTrusted, URL(fileURLWithPath: path).lastPathComponent == ConfigurationChoice.localName {
            _ = try ConfigurationTrust().trust(path, content: text)
        }
    }

    /// Locks the directory of a file, and waits up to five seconds for other commands.
    private static func lock(_ directory: String) throws -> FileLock {
        for _ in 0..<250 {
            if let lock = try PrivateFile.lockDirectory(directory) { return lock }
            usleep(20_000)
        }
        throw AuthError(.storageFailed, "\(DisplayText.sanitized(directory)) is locked by another program.")
    }

    /// The text of the file with the profile added.
    /// - Returns: The current content, and the new content.
    private func text(with members: JSON, as profile: String) throws -> (old: [UInt8], new: [UInt8]) {
        guard FileManager.default.fileExists(atPath: path) else {
            var file: [String: JSON] = ["profiles": [profile: members]]
            file["$schema"] = Self.schema.map(JSON.string)
            return ([], try JSON.object(file).serialized(indented: true) + Array("\n".utf8))
        }
        let old = try ConfigurationFile.contents(ofFile: path)
        let shown = DisplayText.sanitized(path, limit: 1000)
        guard let json = try? JSON(parsing: old), let profiles = json["profiles"]?.object,
            let key = try? JSONSourceMap(of: old).offset(of: JSONPath().member("profiles")),
            let start = old[key...].firstIndex(of: UInt8(ascii: "{"))
        else {
            throw AuthError(
                .invalidConfiguration,
                "\(shown) is not a configuration file with profiles. Choose another --output."
            )
        }
        guard profiles[profile] == nil else {
            throw AuthError(
                .invalidConfiguration,
                "\(shown) already has a profile \"\(DisplayText.sanitized(profile))\". Choose another name with --profile."
            )
        }
        let name = String(decoding: try JSON.string(profile).serialized(), as: UTF8.self)
        let indented = String(decoding: try members.serialized(indented: true), as: UTF8.self)
            .replacing("\n", with: "\n    ")
        let entry = "\n    \(name): \(indented)\(profiles.isEmpty ? "\n  " : ",")"
        var new = Array(old[...start]) + Array(entry.utf8) + old[(start + 1)...]
        // Until now, the only profile was implicitly the default, and it must remain the default.
        if profiles.count == 1, json["default_profile"] == nil, let only = profiles.keys.first,
            let root = new.firstIndex(of: UInt8(ascii: "{"))
        {
            let name = String(decoding: try JSON.string(only).serialized(), as: UTF8.self)
            new.insert(contentsOf: Array("\n  \"default_profile\": \(name),".utf8), at: root + 1)
        }
        return (old, new)
    }

    /// The JSON Schema installed with the program, which editors use to explain each member.
    private static var schema: String? {
        guard let program = try? ToolEnvironment.program() else { return nil }
        let path = URL(fileURLWithPath: program).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("share/authflow/authflow.schema.json").path
        return FileManager.default.fileExists(atPath: path) ? "file://\(path)" : nil
    }
}
