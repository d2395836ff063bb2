/// The two commands that scripts call often, parsed without the full command-line parser.
///
/// The parser discovers the options at run time, which takes longer than the commands themselves. Only the common forms
/// are parsed here; everything else is left to the parser, which also reports errors.
enum DirectCommand: Hashable {
    case token(TokenRequest)
    case status(StatusRequest)

    /// - Parameter arguments: The program's arguments, without its name.
    /// - Returns: nil when the parser must parse the arguments.
    init?(_ arguments: some Sequence<String>) {
        var rest = Array(arguments)[...]
        guard let name = rest.popFirst(), name == "token" || name == "status" else { return nil }
        var request = TokenRequest()
        var asJSON = false
        var format: TokenFormat?
        while let option = rest.popFirst() {
            if option == "--json" {
                asJSON = true
                continue
            }
            if request.resource == nil, !option.hasPrefix("-") {
                // Any argument other than a URL is left to the parser.
                guard ResourceChoice.isAddress(option) else { return nil }
                request.resource = ResourceChoice(address: option)
                continue
            }
            // A value that begins with a hyphen may be another option, so it is left to the parser.
            guard let value = rest.popFirst(), !value.hasPrefix("-") else { return nil }
            switch option {
            case "--config", "-c": request.choice.config = value
            case "--profile", "-p": request.choice.profile = value
            case "--account": request.choice.account = value
            case "--format":
                guard name == "token", let named = TokenFormat(rawValue: value) else { return nil }
                format = named
            case "--min-ttl":
                guard name == "token", let seconds = Int(value), TokenRequest.lifetimes.contains(seconds) else {
                    return nil
                }
                request.minimumLifetime = seconds
            default: return nil
            }
        }
        if let address = request.resource?.address {
            // The parser reports why the option has no effect.
            guard request.choice.account == nil else { return nil }
            request.resource = ResourceChoice(address: address, choice: request.choice)
        }
        // The parser reports that the options contradict each other.
        guard !asJSON || format == nil || format == .json else { return nil }
        request.format = format ?? (asJSON ? .json : .raw)
        self =
            name == "token"
            ? .token(request)
            : .status(StatusRequest(choice: request.choice, resource: request.resource, asJSON: asJSON))
    }

    func run() async throws {
        switch self {
        case .token(let request): try await request.run()
        case .status(let request): try await request.run()
        }
    }
}
