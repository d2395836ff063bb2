import AuthFlowSystem

/// Protects the memory of this process, which contains tokens.
enum ProcessMemory {
    /// Prevents core dumps, and prevents other processes of the same user from reading the memory or attaching a
    /// debugger (prctl(2), `PR_SET_DUMPABLE`). Programs that this process executes are not affected, because execve(2)
    /// resets the attribute.
    ///
    /// Linux only: macOS does not write core dumps by default.
    static func disableCoreDumps() {
        // Some TLS libraries write the keys of every connection into the file that this variable names.
        unsafe unsetenv("SSLKEYLOGFILE")
        #if os(Linux)
        // One malloc arena is enough for a program that mostly waits; each additional arena costs memory and some time.
        typealias AllocationOption = @convention(c) (Int32, Int32) -> Int32
        let maximumArenas: Int32 = -8
        if let address = unsafe dlsym(nil, "mallopt") {
            _ = unsafe unsafeBitCast(address, to: AllocationOption.self)(maximumArenas, 1)
        }
        // Swift cannot call variadic functions, and prctl is declared as variadic.
        typealias Control = @convention(c) (Int32, UInt, UInt, UInt, UInt) -> Int32
        let setDumpable: Int32 = 4
        guard let address = unsafe dlsym(nil, "prctl") else { return }
        _ = unsafe unsafeBitCast(address, to: Control.self)(setDumpable, 0, 0, 0, 0)
        #endif
    }
}
