#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A thread for blocking work, so that no thread of Swift's pool blocks: it has only as many as there are processors.
package enum DetachedThread {
    /// Runs work on a new thread, which ends with it.
    /// - Returns: Whether the thread was started; false when the system refuses another one.
    @discardableResult package static func run(_ work: @escaping @Sendable () -> Void) -> Bool {
        let box = unsafe Unmanaged.passRetained(Work(work))
        // Allocated, because the compiler finds the type's initializer now in one C module, now in another.
        let attributes = UnsafeMutablePointer<pthread_attr_t>.allocate(capacity: 1)
        defer { unsafe attributes.deallocate() }
        unsafe pthread_attr_init(attributes)
        defer { unsafe pthread_attr_destroy(attributes) }
        unsafe pthread_attr_setdetachstate(attributes, CInt(PTHREAD_CREATE_DETACHED))
        #if canImport(Darwin)
        var thread: pthread_t?
        #else
        var thread = pthread_t()
        #endif
        let status = unsafe pthread_create(&thread, attributes, start, box.toOpaque())
        if status != 0 { unsafe box.release() }
        return status == 0
    }

    /// Carries a closure through the pointer that C passes to a thread.
    private final class Work: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    #if canImport(Darwin)
    private static let start: @convention(c) (UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? = { pointer in
        unsafe Unmanaged<Work>.fromOpaque(pointer).takeRetainedValue().run()
        return nil
    }
    #else
    private static let start: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { pointer in
        if let pointer = unsafe pointer { unsafe Unmanaged<Work>.fromOpaque(pointer).takeRetainedValue().run() }
        return nil
    }
    #endif
}
