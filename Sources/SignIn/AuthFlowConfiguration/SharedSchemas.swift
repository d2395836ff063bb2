package import AuthFlowJSON

/// A JSON Schema whose repeated parts are written once, under `$defs`, because the profiles of all providers have most
/// members in common.
///
/// > The "$ref" keyword [...] is used to reference a statically identified schema. [...] The "$defs" keyword reserves a location for schema
/// > authors to inline re-usable JSON Schemas into a more general schema. (JSON Schema 2020-12, sections 8.2.3.1 and 8.2.4)
package struct SharedSchemas {
    /// The whole schema.
    package private(set) var schema: JSON = [:]

    private var occurrences: [JSON: Int] = [:]
    private var names: [JSON: String]
    private var definitions: [String: JSON] = [:]

    /// - Parameters:
    ///   - schema: A schema without references.
    ///   - names: The names of definitions. Any other definition is named after a member that uses it.
    package init(of schema: [String: JSON], names: [JSON: String]) {
        self.names = names
        count(in: .object(schema))
        var shared = referring(.object(schema)).object ?? [:]
        shared["$defs"] = definitions.isEmpty ? nil : .object(definitions)
        self.schema = .object(shared)
    }

    /// Counts the occurrences of each member's schema.
    private mutating func count(in schema: JSON) {
        for (key, value) in schema.object ?? [:] {
            switch key {
            case "properties":
                for member in (value.object ?? [:]).values {
                    let shape = Self.shape(of: member)
                    let isFirst = occurrences[shape] == nil
                    occurrences[shape, default: 0] += 1
                    // The parts of a repeated schema are counted once, because they are written only in its definition.
                    if isFirst { count(in: shape) }
                }
            case "anyOf": for choice in value.array ?? [] { count(in: choice) }
            case "items", "additionalProperties": count(in: value)
            default: break
            }
        }
    }

    /// The schema, with each repeated part replaced by a reference.
    private mutating func referring(_ schema: JSON) -> JSON {
        guard var keys = schema.object else { return schema }
        // The order is deterministic, so that the names are stable.
        for (key, value) in keys.sorted(by: { $0.key < $1.key }) {
            switch key {
            case "properties":
                var members = value.object ?? [:]
                for (name, member) in members.sorted(by: { $0.key < $1.key }) {
                    members[name] = reference(to: member, of: name)
                }
                keys[key] = .object(members)
            case "anyOf": keys[key] = .array((value.array ?? []).map { referring($0) })
            case "items", "additionalProperties": keys[key] = referring(value)
            default: break
            }
        }
        return .object(keys)
    }

    private mutating func reference(to member: JSON, of name: String) -> JSON {
        let shape = Self.shape(of: member)
        guard occurrences[shape, default: 0] > 1, shape["properties"] != nil || shape["anyOf"] != nil else {
            return referring(member)
        }
        let definition = names[shape] ?? unusedName(for: name)
        if definitions[definition] == nil {
            names[shape] = definition
            // Reserves the name before the definition's parts are named.
            definitions[definition] = [:]
            definitions[definition] = referring(shape)
        }
        var reference: [String: JSON] = ["$ref": .string("#/$defs/\(definition)")]
        for key in Self.annotations { reference[key] = member[key] }
        return .object(reference)
    }

    private func unusedName(for name: String) -> String {
        let taken = Set(names.values)
        guard taken.contains(name) else { return name }
        var number = 2
        while taken.contains("\(name)_\(number)") { number += 1 }
        return "\(name)_\(number)"
    }

    /// The annotations of a member, which do not affect validation.
    private static let annotations = ["description", "default"]

    private static func shape(of member: JSON) -> JSON {
        .object((member.object ?? [:]).filter { !annotations.contains($0.key) })
    }
}
