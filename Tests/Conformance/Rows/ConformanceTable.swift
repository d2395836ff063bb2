/// The rows of the conformance table, by section.
public enum ConformanceTable {
    /// A part of the table.
    public struct Section: Sendable {
        /// The subject of the rows.
        public let title: String
        /// The rows.
        public let rows: [ConformanceRow]
    }

    /// All sections, in the order of their row numbers.
    public static let sections: [Section] = [
        Section(title: "Basic: code, client_secret_basic (1 to 14)", rows: basic),
        Section(title: "Configuration and keys (15 to 19)", rows: configuration),
        Section(title: "WebFinger, registration and userinfo (20 to 25, 85, 86)", rows: dynamic),
        Section(title: "Form post (26 to 40)", rows: formPost),
        Section(title: "The comprehensive plan and client authentication (41 to 55, 74 to 84)", rows: comprehensive),
        Section(title: "Refresh, third-party-initiated login and logout (56 to 73)", rows: life),
        Section(title: "FAPI (87 to 110, 120 to 125)", rows: fapi),
        Section(title: "The complete FAPI 2.0 client plans (F1 to F32, 111 to 119)", rows: fapi2),
        Section(title: "Polling in the device grant (126 to 131)", rows: polling),
        Section(title: "Requirements for every request (I1 to I7, I11)", rows: requests),
        Section(title: "Protected resources and MCP (M1 to M44)", rows: resources),
        Section(title: "Web applications (W1 to W24)", rows: webApplications),
        Section(title: "Logout tokens (L1 to L27)", rows: logoutTokens),
        Section(title: "APIs that receive access tokens (A1 to A84)", rows: apiRows),
        Section(title: "AuthFlow's additional requirements (O1 to O15)", rows: own),
    ]

    /// All rows.
    public static let rows: [ConformanceRow] = sections.flatMap(\.rows)
}
