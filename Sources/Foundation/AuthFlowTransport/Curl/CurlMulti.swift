import AuthFlowHTTP

#if os(Linux)
import AuthFlowSystem
import CCurl

/// libcurl's handle for many transfers on one thread (libcurl-multi(3)).
///
/// Only the loop's thread may use it, except for ``wakeUp()``, which any thread may call (curl_multi_wakeup(3)).
@safe final class CurlMulti: @unchecked Sendable {  // see above
    private let pointer: OpaquePointer

    /// - Returns: nil when memory allocation fails.
    init?() {
        guard let pointer = unsafe authflow_curl_multi_new() else { return nil }
        unsafe self.pointer = pointer
    }

    deinit { unsafe authflow_curl_multi_free(pointer) }

    func set(_ option: authflow_curl_multi_option, _ value: Int) {
        _ = unsafe authflow_curl_multi_set(pointer, option, Int64(value))
    }

    func add(_ easy: CurlEasy) -> Bool { unsafe easy.withPointer { unsafe authflow_curl_multi_add(pointer, $0) } == 0 }

    func remove(_ easy: CurlEasy) {
        _ = unsafe easy.withPointer { unsafe authflow_curl_multi_remove(pointer, $0) }
    }

    /// Performs the work that is possible without blocking.
    func perform() { _ = unsafe authflow_curl_multi_perform(pointer) }

    /// Waits until there is work to perform, for at most the given duration.
    func wait(_ duration: Duration) {
        // A wait that fails would be retried immediately, in a busy loop.
        if unsafe authflow_curl_multi_wait(pointer, Int32(duration.seconds * 1000)) != 0 { usleep(10_000) }
    }

    /// Wakes up the waiting thread.
    /// - Returns: false if libcurl has no sockets for this.
    @discardableResult
    func wakeUp() -> Bool { unsafe authflow_curl_multi_wake_up(pointer) == 0 }

    /// Returns the next transfer that has ended.
    func nextEnded() -> (easy: UInt, result: authflow_curl_result)? {
        var result = AUTHFLOW_CURL_OK
        guard let easy = unsafe authflow_curl_multi_next_ended(pointer, &result) else { return nil }
        return (UInt(bitPattern: easy), result)
    }
}
#endif
