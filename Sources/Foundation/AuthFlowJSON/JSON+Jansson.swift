#if Jansson && canImport(CJansson)
internal import CJansson

extension JSON {
    /// Parses UTF-8 JSON text (RFC 8259), which must be well formed throughout.
    /// - Parameters:
    ///   - text: The complete document.
    ///   - limits: The limits on its size, its depth and its number of values.
    /// - Throws: ``JSONError``, with the position of the first error if it is known.
    public init(parsing text: some Collection<UInt8>, limits: JSONLimits = JSONLimits()) throws(JSONError) {
        guard text.count <= limits.maximumBytes else { throw JSONError(.sizeLimitExceeded) }
        let text = Array(text)
        try limits.check(text)
        let document = try JanssonDocument(parsing: text)
        self = try document.value(maximumDepth: limits.maximumDepth)
    }

    /// Returns the value as UTF-8 JSON text with sorted keys, so that equal values yield equal bytes.
    /// - Parameter indented: Whether each member is on a separate line.
    /// - Throws: ``JSONError`` when a number is not finite or memory runs out.
    public func serialized(indented: Bool = false) throws(JSONError) -> [UInt8] {
        try JanssonDocument(copying: self).text(indented: indented)
    }
}

/// The owner of a libjansson value tree. No other code accesses a `json_t`, and the tree is freed with this value.
@safe private struct JanssonDocument: ~Copyable {
    private let root: UnsafeMutablePointer<json_t>

    init(parsing text: [UInt8]) throws(JSONError) {
        // Without JSON_ALLOW_NUL, U+0000 is an error. Without JSON_REJECT_DUPLICATES, the last of several
        // duplicate keys would be used.
        let flags = Int(JSON_DECODE_ANY) | Int(JSON_REJECT_DUPLICATES)
        var error = json_error_t()
        let parsed = unsafe text.withUnsafeBytes { buffer in
            unsafe json_loadb(buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count, flags, &error)
        }
        guard let parsed = unsafe parsed else {
            // `error.text` quotes the input, which may contain a token, so only the code and the position are used.
            throw unsafe JSONError(
                JSONError.Code(jansson: json_error_code(&error)),
                in: text,
                at: text.isEmpty ? nil : Int(error.position)
            )
        }
        unsafe self.root = parsed
    }

    init(copying value: JSON) throws(JSONError) {
        unsafe self.root = try Self.makeNode(value)
    }

    deinit { unsafe json_decref(root) }

    borrowing func value(maximumDepth: Int) throws(JSONError) -> JSON {
        try unsafe Self.makeValue(root, remainingDepth: maximumDepth)
    }

    borrowing func text(indented: Bool) throws(JSONError) -> [UInt8] {
        let layout = indented ? 2 : Int(JSON_COMPACT)
        let flags = Int(JSON_ENCODE_ANY) | Int(JSON_SORT_KEYS) | layout
        let size = unsafe json_dumpb(root, nil, 0, flags)
        guard size > 0 else { throw JSONError(.outOfMemory) }
        return unsafe [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            count = unsafe buffer.withMemoryRebound(to: CChar.self) { characters in
                unsafe json_dumpb(root, characters.baseAddress, size, flags)
            }
        }
    }

    private static func makeValue(
        _ node: UnsafeMutablePointer<json_t>,
        remainingDepth: Int
    ) throws(JSONError) -> JSON {
        switch unsafe node.pointee.type {
        case JSON_OBJECT:
            guard remainingDepth > 0 else { throw JSONError(.depthLimitExceeded) }
            var members: [String: JSON] = [:]
            members.reserveCapacity(unsafe json_object_size(node))
            var iterator = unsafe json_object_iter(node)
            while unsafe iterator != nil {
                let name = try unsafe string(json_object_iter_key(iterator), json_object_iter_key_len(iterator))
                // Two names that are equal after Unicode normalization cannot be distinct keys in a dictionary.
                guard members[name] == nil else { throw JSONError(.duplicateKey) }
                if let child = unsafe json_object_iter_value(iterator) {
                    members[name] = try unsafe makeValue(child, remainingDepth: remainingDepth - 1)
                }
                unsafe iterator = json_object_iter_next(node, iterator)
            }
            return .object(members)
        case JSON_ARRAY:
            guard remainingDepth > 0 else { throw JSONError(.depthLimitExceeded) }
            var elements: [JSON] = []
            elements.reserveCapacity(unsafe json_array_size(node))
            for index in 0..<(unsafe json_array_size(node)) {
                guard let child = unsafe json_array_get(node, index) else { continue }
                elements.append(try unsafe makeValue(child, remainingDepth: remainingDepth - 1))
            }
            return .array(elements)
        case JSON_STRING: return try unsafe .string(string(json_string_value(node), json_string_length(node)))
        case JSON_INTEGER: return unsafe .integer(Int64(json_integer_value(node)))
        case JSON_REAL: return unsafe .double(json_real_value(node))
        case JSON_TRUE: return .bool(true)
        case JSON_FALSE: return .bool(false)
        default: return .null
        }
    }

    /// Copies a string by its length, not up to a NUL character.
    private static func string(_ characters: UnsafePointer<CChar>?, _ length: Int) throws(JSONError) -> String {
        let buffer = unsafe UnsafeRawBufferPointer(start: characters, count: length)
        let text = unsafe String(decoding: buffer, as: UTF8.self)
        try JSONLimits.check(text)
        return text
    }

    /// Creates a tree, which the caller owns.
    private static func makeNode(_ value: JSON) throws(JSONError) -> UnsafeMutablePointer<json_t> {
        let node: UnsafeMutablePointer<json_t>?
        switch value {
        case .null: unsafe node = json_null()
        case .bool(let value): unsafe node = value ? json_true() : json_false()
        case .integer(let value): unsafe node = json_integer(json_int_t(value))
        case .double(let value):
            // json_real(NaN) returns NULL, which the rest of libjansson cannot handle.
            guard value.isFinite else { throw JSONError(.numberOutOfRange) }
            unsafe node = json_real(value)
        case .string(var value):
            unsafe node = value.withUTF8 { utf8 in
                unsafe utf8.withMemoryRebound(to: CChar.self) { unsafe json_stringn($0.baseAddress ?? empty, $0.count) }
            }
        case .array(let elements):
            unsafe node = json_array()
            guard let array = unsafe node else { throw JSONError(.outOfMemory) }
            do throws(JSONError) {
                for element in elements {
                    // json_array_append_new steals the reference even when it fails.
                    guard unsafe json_array_append_new(array, try makeNode(element)) == 0 else {
                        throw JSONError(.outOfMemory)
                    }
                }
            } catch {
                unsafe json_decref(array)
                throw error
            }
        case .object(let members):
            unsafe node = json_object()
            guard let object = unsafe node else { throw JSONError(.outOfMemory) }
            do throws(JSONError) {
                for (name, member) in members {
                    let child = try unsafe makeNode(member)
                    var name = name
                    let status = name.withUTF8 { utf8 in
                        unsafe utf8.withMemoryRebound(to: CChar.self) {
                            unsafe json_object_setn_new(object, $0.baseAddress ?? empty, $0.count, child)
                        }
                    }
                    guard status == 0 else { throw JSONError(.outOfMemory) }
                }
            } catch {
                unsafe json_decref(object)
                throw error
            }
        }
        guard let node = unsafe node else { throw JSONError(.outOfMemory) }
        return unsafe node
    }

    /// A pointer to the empty string: an empty Swift buffer may have no base address, and libjansson rejects NULL.
    private static var empty: UnsafePointer<CChar> {
        unsafe UnsafeRawPointer(StaticString("").utf8Start).assumingMemoryBound(to: CChar.self)
    }
}

extension JSONError.Code {
    fileprivate init(jansson code: json_error_code) {
        self =
            switch code {
            case json_error_invalid_utf8: .invalidUTF8
            case json_error_premature_end_of_input: .prematureEndOfInput
            case json_error_end_of_input_expected, json_error_invalid_syntax: .invalidSyntax
            case json_error_null_character, json_error_null_byte_in_key: .nullCharacter
            case json_error_duplicate_key: .duplicateKey
            case json_error_numeric_overflow: .numberOutOfRange
            case json_error_stack_overflow: .depthLimitExceeded
            case json_error_out_of_memory: .outOfMemory
            default: .other
            }
    }
}
#endif
