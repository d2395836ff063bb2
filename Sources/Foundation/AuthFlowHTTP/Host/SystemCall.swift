package import AuthFlowSystem

/// System calls for types that have methods of the same name, which would shadow them.
package enum SystemCall {
    @unsafe package static func write(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
        unsafe writeBytes(descriptor, bytes, count)
    }

    /// Writes all bytes, and continues after partial writes.
    /// - Returns: Whether all bytes were written; if not, `errno` contains the reason.
    package static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 {
                if errno == EINTR { continue }
                // A terminal or a pipe that another program has made non-blocking accepts no more data for now.
                var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                if errno == EAGAIN, unsafe poll(&entry, 1, -1) >= 0 || errno == EINTR { continue }
                return false
            }
            rest = rest.dropFirst(count)
        }
        return true
    }

    @unsafe package static func read(_ descriptor: Int32, _ bytes: UnsafeMutableRawPointer?, _ count: Int) -> Int {
        unsafe readBytes(descriptor, bytes, count)
    }

    /// Reads the bytes that are available, up to the size of the buffer, and waits until there are any.
    /// - Returns: The number of bytes; 0 at end of file, and -1 on failure, in which case `errno` contains the reason.
    package static func read(from descriptor: Int32, into buffer: inout [UInt8]) -> Int {
        while true {
            let count = unsafe buffer.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
            guard count < 0 else { return count }
            if errno == EINTR { continue }
            // Another process that shares the descriptor has made it non-blocking.
            var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            if errno == EAGAIN, unsafe poll(&entry, 1, -1) >= 0 || errno == EINTR { continue }
            return count
        }
    }

    /// Writes a file's content, or a directory's entries, to the disk, so that they survive a power failure.
    /// - Returns: Whether they were written; if not, `errno` contains the reason.
    package static func synchronize(_ descriptor: Int32) -> Bool {
        #if canImport(Darwin)
        // fsync(2) on Apple platforms: the drive may still lose the data, or write it in another order. Not every file system supports F_FULLFSYNC.
        if fcntl(descriptor, F_FULLFSYNC) == 0 { return true }
        #endif
        return fsync(descriptor) == 0
    }

    package static func kill(_ process: pid_t, _ signal: Int32) { _ = signalProcess(process, signal) }

    package static func listen(_ descriptor: Int32, _ backlog: Int32) -> Int32 { listenAt(descriptor, backlog) }

    @unsafe package static func connect(
        _ descriptor: Int32,
        _ address: UnsafePointer<sockaddr>?,
        _ length: socklen_t
    ) -> Int32 {
        unsafe connectTo(descriptor, address, length)
    }
}

private func writeBytes(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
    unsafe write(descriptor, bytes, count)
}

private func readBytes(_ descriptor: Int32, _ bytes: UnsafeMutableRawPointer?, _ count: Int) -> Int {
    unsafe read(descriptor, bytes, count)
}

private func signalProcess(_ process: pid_t, _ signal: Int32) -> Int32 { kill(process, signal) }

private func listenAt(_ descriptor: Int32, _ backlog: Int32) -> Int32 { listen(descriptor, backlog) }

private func connectTo(_ descriptor: Int32, _ address: UnsafePointer<sockaddr>?, _ length: socklen_t) -> Int32 {
    unsafe connect(descriptor, address, length)
}
