/// The two commands that scripts call often, read without the parser of the whole command line.
///
/// The parser finds out about options while the program runs, which takes longer than all that these commands do. Here stand only the
/// ways in which they are usually called; whatever else is written is left to the parser, which also says what is wrong with it.
enum DirectCommand: Hashable {
    case token(TokenRequest)
    case status(StatusRequest)

    /// - Parameter arguments: Those of the program, without its name.
    /// - Returns: nil for what the parser is to read.
    init?(_ arguments: some Sequence<String>) {
        var rest = Array(arguments)[...]
        guard let name = rest.popFirst(), name == "token" || name == "status" else { return nil }
        var request = TokenRequest()
        while let option = rest.popFirst() {
            if option == "--json" {
                request.asJSON = true
                continue
            }
            // What begins with a hyphen may be another option, and is for the parser to decide.
            guard let value = rest.popFirst(), !value.hasPrefix("-") else { return nil }
            switch option {
            case "--config", "-c": request.choice.config = value
            case "--profile", "-p": request.choice.profile = value
            case "--account": request.choice.account = value
            case "--min-ttl":
                guard name == "token", let seconds = Int(value), TokenRequest.lifetimes.contains(seconds) else {
                    return nil
                }
                request.minimumLifetime = seconds
            default: return nil
            }
        }
        self =
            name == "token" ? .token(request) : .status(StatusRequest(choice: request.choice, asJSON: request.asJSON))
    }

    func run() async throws {
        switch self {
        case .token(let request): try await request.run()
        case .status(let request): try await request.run()
        }
    }
}
