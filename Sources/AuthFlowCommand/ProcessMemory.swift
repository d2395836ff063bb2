#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The memory of this process, in which there are tokens.
enum ProcessMemory {
    /// Keeps it off the disk when the process crashes, and from other processes of the same user: no core file is written,
    /// and no debugger let in (prctl(2), `PR_SET_DUMPABLE`). Programs that are started from here are as they would be.
    ///
    /// Linux only: macOS writes no core files unless told to.
    static func keepToItself() {
        // Libraries for TLS write the keys of every connection into the file that this variable names.
        unsafe unsetenv("SSLKEYLOGFILE")
        #if os(Linux)
        // One place to allocate from is enough for a program that mostly waits; each more costs memory and a part of a millisecond.
        typealias AllocationOption = @convention(c) (Int32, Int32) -> Int32
        let maximumArenas: Int32 = -8
        if let address = unsafe dlsym(nil, "mallopt") {
            _ = unsafe unsafeBitCast(address, to: AllocationOption.self)(maximumArenas, 1)
        }
        // Swift does not call functions that take any number of arguments, as this one is declared.
        typealias Control = @convention(c) (Int32, UInt, UInt, UInt, UInt) -> Int32
        let setDumpable: Int32 = 4
        guard let address = unsafe dlsym(nil, "prctl") else { return }
        _ = unsafe unsafeBitCast(address, to: Control.self)(setDumpable, 0, 0, 0, 0)
        #endif
    }
}
