import AuthFlow
import AuthFlowDatabase

/// The tables, and the migrations from every earlier version.
enum PostgreSQLSchema {
    /// The migrations, in order, each with the minimum version that a program must support to use the resulting
    /// tables, because instances of an older version keep running during a rolling update. Never change a released
    /// migration.
    private static let steps = [(change: records, needs: 1)]

    /// `version` is the number of the lease holder's last write.
    private static let records = """
        CREATE TABLE records (
            id bytea PRIMARY KEY,
            record bytea NOT NULL,
            sealed bytea,
            version bigint NOT NULL DEFAULT 0,
            fence bigint NOT NULL,
            lease_owner bytea,
            lease_until timestamptz,
            is_awaited boolean NOT NULL DEFAULT false,
            is_after_unfinished boolean NOT NULL DEFAULT false,
            has_written boolean NOT NULL DEFAULT false,
            used_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            idle_time interval,
            idle_until timestamptz,
            expires_at timestamptz,
            tags bytea[] NOT NULL DEFAULT '{}'
        ) WITH (fillfactor = 70);
        CREATE INDEX records_tags ON records USING gin (tags);
        CREATE INDEX records_expires_at ON records (expires_at);
        CREATE INDEX records_idle_until ON records (idle_until);
        CREATE INDEX records_empty ON records (lease_until) WHERE sealed IS NULL;
        """

    /// The version of the tables that this program requires.
    static var version: Int { steps.count }

    /// Creates the tables, or migrates tables from an earlier version. Several processes may call it concurrently.
    /// - Returns: The version before the migration.
    static func migrate(_ link: PostgreSQLLink, schema: String) throws(DatabaseFailure) -> Int {
        let name = PostgreSQLSettings.quoted(schema)
        try link.run("SET statement_timeout = '60s'; SET lock_timeout = '60s'; BEGIN")
        do throws(DatabaseFailure) {
            // The lock serializes migrations, because a concurrent CREATE SCHEMA would fail.
            // It is released at the end of the transaction.
            try link.run("SELECT pg_advisory_xact_lock(hashtext('authflow migration'))")
            // CREATE SCHEMA IF NOT EXISTS requires the privilege even if the schema exists.
            let literal = name.replacing("'", with: "''")
            if try link.run("SELECT to_regnamespace('\(literal)') IS NULL") == "t" {
                do throws(DatabaseFailure) {
                    try link.run("CREATE SCHEMA \(name)")
                } catch  where error.message.contains("42501") {
                    throw DatabaseFailure(
                        error.kind,
                        "\(error.message) Ask an administrator to create the schema with this role as its owner: CREATE SCHEMA \(name) AUTHORIZATION ..."
                    )
                }
            }
            try link.run(
                """
                SET LOCAL search_path = \(name), pg_temp;
                CREATE TABLE IF NOT EXISTS migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now());
                ALTER TABLE migrations ADD COLUMN IF NOT EXISTS needs integer
                """
            )
            let (before, needs) = try versions(link, "migrations")
            try requireSupportedVersion(needs)
            for (index, step) in steps.enumerated().dropFirst(before) {
                try link.run(
                    "\(step.change); INSERT INTO migrations (version, needs) VALUES (\(index + 1), \(step.needs))"
                )
            }
            try link.run("COMMIT")
            return before
        } catch {
            _ = try? link.run("ROLLBACK")
            throw error
        }
    }

    /// The version of the tables, and the version that a program must support to use them. For tables that predate
    /// the `needs` column, both versions are the same.
    private static func versions(
        _ link: PostgreSQLLink,
        _ table: String
    ) throws(DatabaseFailure) -> (found: Int, needs: Int) {
        let row = try link.run(
            "SELECT max(version) || ' ' || max(coalesce((to_jsonb(m) ->> 'needs')::integer, version)) FROM \(table) AS m"
        )
        let numbers = (row ?? "").split(separator: " ").map { Int($0) ?? 0 }
        guard numbers.count == 2 else { return (0, 0) }
        guard numbers.allSatisfy({ $0 >= 0 }) else {
            throw DatabaseFailure(
                .unusable,
                "The table of migrations contains only negative versions, which AuthFlow never writes."
            )
        }
        return (numbers[0], numbers[1])
    }

    /// Rejects tables that this program cannot use: older versions, and versions that require a newer program.
    static func check(_ link: PostgreSQLLink, schema: String) throws(DatabaseFailure) {
        let found: (found: Int, needs: Int)
        do throws(DatabaseFailure) {
            found = try versions(link, "\(PostgreSQLSettings.quoted(schema)).migrations")
        } catch {
            guard error.kind == .refused else { throw error }
            throw DatabaseFailure(.unusable, error.message)
        }
        try requireSupportedVersion(found.needs)
        guard found.found >= version else {
            throw DatabaseFailure(
                .unusable,
                "The database has schema version \(found.found), but this program requires version \(version). Migrate the store: call migrate()."
            )
        }
    }

    private static func requireSupportedVersion(_ needs: Int) throws(DatabaseFailure) {
        guard needs <= version else {
            throw DatabaseFailure(
                .unusable,
                "The database requires schema version \(needs), but this program supports versions up to \(version). Upgrade the program."
            )
        }
    }
}
