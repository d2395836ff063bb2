#if canImport(Security)
public import AuthFlowHTTP
public import AuthFlowStorage
import Foundation
import Security

/// Stores credentials in the keychain of Apple platforms.
///
/// On Linux, this store is type-checked against hand-written interfaces, but not run.
public struct KeychainTokenStore: Sendable {
    private let accessGroup: String?
    private let isSynchronizable: Bool
    private let locks: FileTokenStore

    /// Creates a store.
    /// - Parameters:
    ///   - accessGroup: The keychain access group that several apps of one team share; nil for the app's default group. The lock files are in the
    ///     container of each app, so a lease does not exclude the other apps and the app's extensions: only one of them may refresh a credential.
    ///   - isSynchronizable: Whether iCloud syncs the credentials to the user's other devices. Synced credentials
    ///     cannot be distinguished by device, or revoked for only one device. A lease does not exclude the other devices: if the provider rotates
    ///     refresh tokens, a refresh on one device can end the session on all of them.
    ///   - host: Provides the clock, and the environment variables that determine the location of the lock files.
    public init(accessGroup: String? = nil, isSynchronizable: Bool = false, host: HostServices = .system) {
        self.accessGroup = accessGroup
        self.isSynchronizable = isSynchronizable
        self.locks = FileTokenStore(host: host)
    }
}

extension KeychainTokenStore: TokenStore {
    public func bytes(for key: RecordKey) async throws -> [UInt8]? {
        let query = item(for: key)
        query[kSecReturnData] = true
        query[kSecMatchLimit] = kSecMatchLimitOne
        var found: CFTypeRef?
        let status = unsafe SecItemCopyMatching(query as NSDictionary as CFDictionary, &found)
        if status == errSecItemNotFound { return nil }
        guard status == errSecSuccess, let data = found as? Data else { throw Self.failure("read", status) }
        return Array(data)
    }

    public func bytes(under lease: Lease) async throws -> [UInt8]? {
        let bytes = try await bytes(for: lease.key)
        try locks.requireHeld(lease)
        return bytes
    }

    public func reserve(_ size: Int, under lease: Lease) async throws {
        // The keychain is usually on the same disk as the lock files.
        try await locks.reserve(size, under: lease)
    }

    public func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        locks.releaseReserved(for: lease)
        try await locks.withHeldLock(of: lease) { try replace(bytes, for: lease.key) }
    }

    private func replace(_ bytes: [UInt8]?, for key: RecordKey) throws {
        let query = item(for: key)
        guard let bytes else {
            let status = SecItemDelete(query as NSDictionary as CFDictionary)
            guard status == errSecSuccess || status == errSecItemNotFound else { throw Self.failure("removed", status) }
            return
        }
        // The item is updated in place. If it were removed and added again, a crash in between would lose it.
        let change = NSMutableDictionary()
        change[kSecValueData] = Data(bytes)
        var status = SecItemUpdate(query as NSDictionary as CFDictionary, change as NSDictionary as CFDictionary)
        if status == errSecItemNotFound {
            query[kSecValueData] = Data(bytes)
            // Readable in the background after the first unlock, and, unless synced by iCloud, on this device only. Not part of a query, which would
            // otherwise not find an item with another accessibility, although such an item prevents another one from being added.
            query[kSecAttrAccessible] =
                isSynchronizable ? kSecAttrAccessibleAfterFirstUnlock : kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
            status = unsafe SecItemAdd(query as NSDictionary as CFDictionary, nil)
        }
        guard status == errSecSuccess else { throw Self.failure("written", status) }
    }

    public func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return {
        try await locks.withLease(on: key, body)
    }

    private func item(for key: RecordKey) -> NSMutableDictionary {
        let item = NSMutableDictionary()
        item[kSecClass] = kSecClassGenericPassword
        item[kSecAttrService] = "AuthFlow"
        item[kSecAttrAccount] = key.uniqueName
        item[kSecAttrSynchronizable] = isSynchronizable
        item[kSecUseDataProtectionKeychain] = true
        if let accessGroup { item[kSecAttrAccessGroup] = accessGroup }
        return item
    }

    private static func failure(_ what: String, _ status: OSStatus) -> AuthError {
        let advice =
            switch status {
            case errSecMissingEntitlement:
                " The program has no entitlement for this keychain access group. Sign it with an entitlement for an application identifier or for the access group."
            case errSecInteractionNotAllowed:
                " The keychain becomes available when the device is unlocked for the first time after it was started."
            default: ""
            }
        return AuthError(
            .storageFailed,
            "The credential could not be \(what) in the keychain (status \(status)).\(advice)"
        )
    }
}
#endif
