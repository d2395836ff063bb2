import AuthFlowEssentials
import AuthFlowSystem

/// Reads files whose paths come from a configuration, up to a maximum size, because such a path may refer to a device
/// that returns unlimited data, such as `/dev/zero`.
package enum BoundedFile {
    /// The content of a file; nil when it cannot be read, or is larger than allowed.
    package static func contents(atPath path: String, maximumSize: Int) -> [UInt8]? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        return contents(of: descriptor, maximumSize: maximumSize)
    }

    /// The content of a regular file; nil also for any other file, such as a FIFO, because reading it could block.
    package static func contents(ofPlainFile path: String, maximumSize: Int) -> [UInt8]? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        return contents(of: descriptor, maximumSize: maximumSize)
    }

    /// The bytes read from a descriptor; nil when reading fails or the maximum size is exceeded.
    package static func contents(of descriptor: Int32, maximumSize: Int) -> [UInt8]? {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        while bytes.count <= maximumSize {
            let count = SystemCall.read(from: descriptor, into: &buffer)
            guard count >= 0 else { return nil }
            if count == 0 { return bytes }
            bytes += buffer[..<count]
        }
        return nil
    }
}
