public import AuthFlowHTTP
import AuthFlowPKCS11
public import AuthFlowStorage

#if canImport(Glibc)
import AuthFlowEssentials
import AuthFlowSystem
import Synchronization

/// Stores credentials in the Secret Service of a Linux desktop: GNOME Keyring, KWallet or KeePassXC, which encrypt them
/// with a password, usually the user's login password.
///
/// libsecret is loaded on first use, so that programs also run on systems without it. Secrets are
/// encrypted when they cross the session bus. Every process of the same user can read an unlocked keyring.
public struct SecretServiceTokenStore: Sendable {
    /// The timeout for responses from the service. A call times out if the service prompts the user to unlock the keyring and
    /// the user does not respond in time.
    private static let responseTimeout = Duration.seconds(3)

    private let host: HostServices
    private let locks: FileTokenStore

    /// Creates a store.
    /// - Parameter host: Provides the clock, and the environment variables that determine the location of the lock files.
    public init(host: HostServices = .system) {
        self.host = host
        // The service has no locks, so processes use lock files instead.
        self.locks = FileTokenStore(host: host)
    }
}

extension SecretServiceTokenStore: TokenStore {
    public func bytes(for key: RecordKey) async throws -> [UInt8]? {
        let attributes = Self.attributes(of: key)
        guard let text = try await response({ try $0.lookup(attributes, $1) }) else { return nil }
        guard let bytes = Base64URL.decode(text) else {
            throw AuthError(.storageFailed, "The keyring's entry for this credential was not written by AuthFlow.")
        }
        return bytes
    }

    public func bytes(under lease: Lease) async throws -> [UInt8]? {
        let bytes = try await bytes(for: lease.key)
        try locks.requireHeld(lease)
        return bytes
    }

    public func reserve(_ size: Int, under lease: Lease) async throws {
        // The keyring is usually on the same disk as the lock files, and stores the bytes in base64url.
        try await locks.reserve(size * 4 / 3, under: lease)
    }

    public func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        locks.releaseReserved(for: lease)
        let attributes = Self.attributes(of: lease.key)
        let label = "AuthFlow: \(DisplayText.sanitized(lease.key.name, limit: 60))"
        try await locks.withHeldLock(of: lease) {
            guard let bytes else { return try await response { try $0.clear(attributes, $1) } }
            let text = Base64URL.encode(bytes)
            let isHidden = try await response { library, cancellation in
                try library.store(text, label: label, attributes, cancellation)
                // A lookup searches all keyrings. If the default keyring has changed, it may find an older entry in another one.
                return try library.lookup(attributes, cancellation) != text
            }
            guard isHidden else { return }
            // The replacement is not cancelled with the caller, because no entry exists between the two calls.
            let replacement = Task {
                let clearing = Task { try await response { try $0.clear(attributes, $1) } }
                let cleared = await clearing.result
                // The entry is stored even after an error, because the service may have removed it.
                try await response { try $0.store(text, label: label, attributes, $1) }
                try cleared.get()
            }
            try await replacement.value
        }
    }

    public func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return {
        try await locks.withLease(on: key, body)
    }

    private static func attributes(of key: RecordKey) -> [(name: String, value: String)] {
        // The values are encoded, because attributes are C strings, which end at a null byte.
        key.parts.map { ($0.name, Base64URL.encode(Array($0.value.utf8))) }
    }

    /// Calls the service on a separate thread, because libsecret blocks until the service responds. After a
    /// cancellation or timeout, the call is cancelled, and the caller does not wait for the thread; any late result
    /// is discarded.
    private func response<Value: Sendable>(
        _ question: @escaping @Sendable (Libsecret, Libsecret.Cancellation) throws -> Value
    ) async throws -> Value {
        let library = try Libsecret.shared.get()
        let cancellation = Libsecret.Cancellation(library)
        return try await withDeadline(Self.responseTimeout, clock: host.clock) {
            AuthError(
                .storageFailed,
                "The keyring did not respond within \(Self.responseTimeout.formattedSeconds). Check whether a prompt to unlock the keyring is open."
            )
        } _: {
            try await BlockingCall.run {
                try library.requireUnlocked(cancellation)
                return try question(library, cancellation)
            } onCancel: {
                cancellation.cancel()
            }
        }
    }
}

/// The functions of libsecret and GLib that this store uses, loaded at run time.
@safe private struct Libsecret: @unchecked Sendable {  // Addresses of thread-safe functions.
    static let shared = Result { () throws(AuthError) in try Libsecret() }

    typealias Pointer = UnsafeMutableRawPointer
    private typealias Text = UnsafePointer<CChar>
    private typealias Failure = UnsafeMutablePointer<Pointer?>

    /// The offset of the message in a `GError` (glib/gerror.h): after the domain and the code, 32 bits each.
    private static let messageOffset = 8

    /// A GLib object with which another thread can cancel a call.
    @safe final class Cancellation: @unchecked Sendable {  // GCancellable is thread-safe.
        fileprivate let object: Pointer?
        private let library: Libsecret

        init(_ library: Libsecret) {
            self.library = library
            unsafe self.object = library.cancellableNew()
        }

        deinit { unsafe library.objectUnref(object) }

        func cancel() { unsafe library.cancellableCancel(object) }
    }

    private let hashTableNew: @convention(c) (Pointer?, Pointer?) -> Pointer?
    private let hashTableInsert: @convention(c) (Pointer?, Pointer?, Pointer?) -> Int32
    private let hashTableUnref: @convention(c) (Pointer?) -> Void
    private let stringHash: Pointer
    private let stringEqual: Pointer
    private let errorFree: @convention(c) (Pointer?) -> Void
    fileprivate let objectUnref: @convention(c) (Pointer?) -> Void
    fileprivate let cancellableNew: @convention(c) () -> Pointer?
    fileprivate let cancellableCancel: @convention(c) (Pointer?) -> Void
    private let serviceGet: @convention(c) (Int32, Pointer?, Failure) -> Pointer?
    private let aliasPath: @convention(c) (Pointer?, Text, Pointer?, Failure) -> UnsafeMutablePointer<CChar>?
    private let collectionAtPath: @convention(c) (Pointer?, Text, Int32, Pointer?, Failure) -> Pointer?
    private let memoryFree: @convention(c) (Pointer?) -> Void
    private let collectionIsLocked: @convention(c) (Pointer?) -> Int32
    private let passwordStore: @convention(c) (Pointer?, Pointer?, Text?, Text, Text, Pointer?, Failure) -> Int32
    private let passwordLookup: @convention(c) (Pointer?, Pointer?, Pointer?, Failure) -> UnsafeMutablePointer<CChar>?
    private let passwordClear: @convention(c) (Pointer?, Pointer?, Pointer?, Failure) -> Int32
    private let passwordFree: @convention(c) (UnsafeMutablePointer<CChar>?) -> Void
    private let schema: Pointer

    init() throws(AuthError) {
        guard let library = unsafe dlopen("libsecret-1.so.0", RTLD_NOW | RTLD_LOCAL) else {
            throw AuthError(
                .storageFailed,
                "libsecret is not installed, so the keyring cannot be used. Install it (Debian: libsecret-1-0), or choose the store \"encrypted-file\"."
            )
        }
        func find(_ name: String) throws(AuthError) -> Pointer {
            guard let address = unsafe dlsym(library, name) else {
                throw AuthError(.storageFailed, "The installed libsecret does not have the function \(name).")
            }
            return unsafe address
        }
        unsafe hashTableNew = unsafeBitCast(try find("g_hash_table_new"), to: type(of: hashTableNew))
        unsafe hashTableInsert = unsafeBitCast(try find("g_hash_table_insert"), to: type(of: hashTableInsert))
        unsafe hashTableUnref = unsafeBitCast(try find("g_hash_table_unref"), to: type(of: hashTableUnref))
        unsafe stringHash = try find("g_str_hash")
        unsafe stringEqual = try find("g_str_equal")
        unsafe errorFree = unsafeBitCast(try find("g_error_free"), to: type(of: errorFree))
        unsafe objectUnref = unsafeBitCast(try find("g_object_unref"), to: type(of: objectUnref))
        unsafe cancellableNew = unsafeBitCast(try find("g_cancellable_new"), to: type(of: cancellableNew))
        unsafe cancellableCancel = unsafeBitCast(try find("g_cancellable_cancel"), to: type(of: cancellableCancel))
        unsafe serviceGet = unsafeBitCast(try find("secret_service_get_sync"), to: type(of: serviceGet))
        unsafe aliasPath = unsafeBitCast(try find("secret_service_read_alias_dbus_path_sync"), to: type(of: aliasPath))
        unsafe collectionAtPath = unsafeBitCast(
            try find("secret_collection_new_for_dbus_path_sync"),
            to: type(of: collectionAtPath)
        )
        unsafe memoryFree = unsafeBitCast(try find("g_free"), to: type(of: memoryFree))
        unsafe collectionIsLocked = unsafeBitCast(
            try find("secret_collection_get_locked"),
            to: type(of: collectionIsLocked)
        )
        unsafe passwordStore = unsafeBitCast(try find("secret_password_storev_sync"), to: type(of: passwordStore))
        unsafe passwordLookup = unsafeBitCast(try find("secret_password_lookupv_sync"), to: type(of: passwordLookup))
        unsafe passwordClear = unsafeBitCast(try find("secret_password_clearv_sync"), to: type(of: passwordClear))
        unsafe passwordFree = unsafeBitCast(try find("secret_password_free"), to: type(of: passwordFree))
        unsafe schema = Self.makeSchema()
    }

    /// `SecretSchema` (libsecret/secret-schema.h): a name, flags, up to 32 attributes, each with a name and a type, and
    /// eight reserved words. Created once and never freed.
    private static func makeSchema() -> Pointer {
        let word = MemoryLayout<UInt>.size
        let size = 2 * word + 32 * 2 * word + 8 * word
        let memory = Pointer.allocate(byteCount: size, alignment: word)
        unsafe memory.initializeMemory(as: UInt8.self, repeating: 0, count: size)
        unsafe memory.storeBytes(of: strdup("org.authflow.Credential"), as: UnsafeMutablePointer<CChar>?.self)
        let names = ["kind", "name", "issuer", "client_id", "resource"]
        for index in names.indices {
            // Type 0 is a string.
            unsafe memory.storeBytes(
                of: strdup(names[index]),
                toByteOffset: (2 + 2 * index) * word,
                as: UnsafeMutablePointer<CChar>?.self
            )
        }
        return unsafe memory
    }

    /// Checks whether there is a keyring and whether it can be used without prompting the user.
    func requireUnlocked(_ cancellation: Cancellation) throws(AuthError) {
        // SECRET_SERVICE_OPEN_SESSION
        let service = try unsafe call("cannot be reached") { unsafe serviceGet(2, cancellation.object, $0) }
        defer { unsafe objectUnref(service) }
        let path = try unsafe call("cannot be examined") {
            unsafe aliasPath(service, "default", cancellation.object, $0)
        }
        guard let path = unsafe path else {
            throw AuthError(
                .storageFailed,
                "The keyring has no default collection. Create one, or choose another store."
            )
        }
        defer { unsafe memoryFree(path) }
        // The service object's cached collections are not updated when the user locks or unlocks the keyring, because no GLib main loop
        // runs, so a new object is created.
        let collection = try unsafe call("cannot be examined") {
            unsafe collectionAtPath(service, path, 0, cancellation.object, $0)
        }
        guard let collection = unsafe collection else {
            throw AuthError(.storageFailed, "The keyring cannot be examined.")
        }
        defer { unsafe objectUnref(collection) }
        guard unsafe collectionIsLocked(collection) == 0 else {
            throw AuthError(.storageFailed, "The keyring is locked. Unlock it, or choose another store.")
        }
    }

    func lookup(
        _ attributes: [(name: String, value: String)],
        _ cancellation: Cancellation
    ) throws(AuthError) -> String? {
        let found = try unsafe withTable(attributes) { table throws(AuthError) in
            try unsafe call("cannot be read") { unsafe passwordLookup(schema, table, cancellation.object, $0) }
        }
        guard let found = unsafe found else { return nil }
        // `secret_password_free` also overwrites the memory.
        defer { unsafe passwordFree(found) }
        return unsafe String(cString: found)
    }

    func store(
        _ text: String,
        label: String,
        _ attributes: [(name: String, value: String)],
        _ cancellation: Cancellation
    ) throws(AuthError) {
        let isStored = try unsafe withTable(attributes) { table throws(AuthError) in
            try unsafe call("cannot be written to") {
                unsafe passwordStore(schema, table, nil, label, text, cancellation.object, $0)
            }
        }
        guard isStored != 0 else { throw AuthError(.storageFailed, "The keyring did not store the credential.") }
    }

    func clear(_ attributes: [(name: String, value: String)], _ cancellation: Cancellation) throws(AuthError) {
        _ = try unsafe withTable(attributes) { table throws(AuthError) in
            try unsafe call("cannot be written to") { unsafe passwordClear(schema, table, cancellation.object, $0) }
        }
    }

    /// Calls a function that reports errors as a `GError`.
    private func call<Value>(_ what: String, _ body: (Failure) -> Value) throws(AuthError) -> Value {
        var failure: Pointer?
        let value = unsafe body(&failure)
        guard let failure = unsafe failure else { return value }
        defer { unsafe errorFree(failure) }
        let message = unsafe failure.load(fromByteOffset: Self.messageOffset, as: UnsafePointer<CChar>?.self)
        let reason = unsafe message.map { unsafe String(cString: $0) } ?? "no reason given"
        throw AuthError(
            .storageFailed,
            "The keyring \(what): \(DisplayText.sanitized(reason, limit: 160)). Without a desktop session, choose the store \"encrypted-file\"."
        )
    }

    /// Runs `body` with the attributes as a `GHashTable`.
    private func withTable<Value>(
        _ attributes: [(name: String, value: String)],
        _ body: (Pointer?) throws(AuthError) -> Value
    ) throws(AuthError) -> Value {
        let table = unsafe hashTableNew(stringHash, stringEqual)
        var copies = unsafe [UnsafeMutablePointer<CChar>?]()
        defer {
            unsafe hashTableUnref(table)
            for index in unsafe copies.indices { unsafe free(copies[index]) }
        }
        for attribute in attributes {
            let (name, value) = unsafe (strdup(attribute.name), strdup(attribute.value))
            unsafe copies += [name, value]
            _ = unsafe hashTableInsert(table, name, value)
        }
        return try unsafe body(table)
    }
}
#endif
