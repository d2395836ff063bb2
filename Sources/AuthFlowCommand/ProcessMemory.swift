import Foundation

/// The memory of this process, in which there are tokens.
enum ProcessMemory {
    /// Keeps it off the disk when the process crashes, and from other processes of the same user: no core file is written,
    /// and no debugger let in (prctl(2), `PR_SET_DUMPABLE`). Programs that are started from here are as they would be.
    ///
    /// Linux only: macOS writes no core files unless told to.
    static func keepToItself() {
        #if os(Linux)
        // Swift does not call functions that take any number of arguments, as this one is declared.
        typealias Control = @convention(c) (Int32, UInt, UInt, UInt, UInt) -> Int32
        let setDumpable: Int32 = 4
        guard let address = unsafe dlsym(nil, "prctl") else { return }
        _ = unsafe unsafeBitCast(address, to: Control.self)(setDumpable, 0, 0, 0, 0)
        #endif
    }
}
