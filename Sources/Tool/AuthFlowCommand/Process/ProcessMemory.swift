#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Protects the memory of this process, which holds tokens.
enum ProcessMemory {
    /// Keeps the memory from being written to disk when the process crashes, and from being read by other processes of the same user: no core
    /// file is written, and no debugger can attach (prctl(2), `PR_SET_DUMPABLE`). Child programs are not affected.
    ///
    /// Linux only: macOS writes no core files by default.
    static func keepToItself() {
        // TLS libraries write the keys of every connection into the file that this variable names.
        unsafe unsetenv("SSLKEYLOGFILE")
        #if os(Linux)
        // One malloc arena is enough for a program that mostly waits; each further one costs memory and a little time.
        typealias AllocationOption = @convention(c) (Int32, Int32) -> Int32
        let maximumArenas: Int32 = -8
        if let address = unsafe dlsym(nil, "mallopt") {
            _ = unsafe unsafeBitCast(address, to: AllocationOption.self)(maximumArenas, 1)
        }
        // Swift cannot call variadic functions, and prctl is declared as one.
        typealias Control = @convention(c) (Int32, UInt, UInt, UInt, UInt) -> Int32
        let setDumpable: Int32 = 4
        guard let address = unsafe dlsym(nil, "prctl") else { return }
        _ = unsafe unsafeBitCast(address, to: Control.self)(setDumpable, 0, 0, 0, 0)
        #endif
    }
}
