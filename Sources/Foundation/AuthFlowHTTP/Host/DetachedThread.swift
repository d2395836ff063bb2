import AuthFlowSystem

/// A thread for blocking work, which must not block Swift's cooperative thread pool: the pool has only one thread per
/// core.
package enum DetachedThread {
    /// Runs work on a new thread, which exits when the work is done.
    /// - Returns: Whether the thread was started; false when the system cannot create another thread.
    @discardableResult package static func run(_ work: @escaping @Sendable () -> Void) -> Bool {
        let box = unsafe Unmanaged.passRetained(Work(work))
        // Allocated rather than initialized, because the C module in which the compiler finds the initializer varies.
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

    /// A box that passes a closure through the pointer argument of a C thread function.
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
