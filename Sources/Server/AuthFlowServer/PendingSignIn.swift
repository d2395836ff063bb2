import AuthFlow
import AuthFlowEssentials
import AuthFlowJSON

/// A sign-in under way: what is remembered here until the browser comes back from the provider.
struct PendingSignIn: Sendable {
    /// The session that the browser had: the name of its provider and of its record.
    var previous: (provider: String, name: String)?
    var returnPath: String
    var isSilent = false
    var requirement: AuthenticationRequirement?

}

extension PendingSignIn {
    private var json: JSON {
        var json: [String: JSON] = ["page": .string(returnPath)]
        if let previous { json["session"] = [.string(previous.provider), .string(previous.name)] }
        if isSilent { json["silent"] = true }
        if let requirement {
            json["acr_values"] = .array(requirement.acrValues.map(JSON.string))
            json["max_age"] = requirement.maximumAge.map { .integer($0.components.seconds) }
        }
        return .object(json)
    }

    /// The sign-in as the note of an authorization request.
    var note: String { (try? json.serialized()).map { String(decoding: $0, as: UTF8.self) } ?? "{}" }

    /// Reads a note.
    init(note: String?, startPath: String) {
        let json = (try? JSON(parsing: Array((note ?? "{}").utf8))) ?? [:]
        returnPath = json["page"]?.string ?? startPath
        if let names = json["session"]?.strings, names.count == 2 { previous = (names[0], names[1]) }
        isSilent = json["silent"]?.bool ?? false
        if let acrValues = json["acr_values"]?.strings {
            requirement = AuthenticationRequirement(
                acrValues: acrValues,
                maximumAge: json["max_age"]?.integer.map { .seconds($0) }
            )
        }
    }
}
