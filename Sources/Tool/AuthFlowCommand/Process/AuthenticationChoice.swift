/// The authentication of the user that a sign-in for a resource requests (RFC 9470).
struct AuthenticationChoice: Hashable {
    var acrValues: [String] = []
    /// In seconds.
    var maxAge: Int?

    /// The options of `authflow login`. With "=", because a value may begin with "-".
    var words: [String] {
        acrValues.map { "--acr-values=\($0)" } + (maxAge.map { ["--max-age=\($0)"] } ?? [])
    }
}
