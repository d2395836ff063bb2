public import AuthFlow

extension TokenStoreFactory {
    /// `sqlite`: an SQLite file, which the processes on one machine can share.
    public static var sqlite: TokenStoreFactory {
        let path = ConfigurationKey(
            "path",
            .path,
            "The path of the file, which has mode 0600 and must not be on a network file system. Default: authflow/sessions.sqlite in the user's data directory."
        )
        return TokenStoreFactory("sqlite", keys: [path]) { options, host in
            let directory = FileTokenStore.defaultDirectory(for: "authflow", environment: host.environment)
            return try SQLiteTokenStore(path: try options[path] ?? "\(directory)/sessions.sqlite", host: host)
        }
    }
}
