import AuthFlowEssentials
import AuthFlowSystem

/// The clock for leases: the time since boot. All processes on a machine share it, and it cannot be set.
package struct LeaseClock: Sendable {
    /// Milliseconds since boot, including time during which the machine was asleep.
    package let now: @Sendable () -> Int64

    /// The identifier of this boot: a lease from an earlier boot has expired, because its holder no longer exists.
    package let boot: [UInt8]

    package init(boot: [UInt8], now: @escaping @Sendable () -> Int64) {
        self.boot = boot
        self.now = now
    }

    /// The clock of this machine.
    package static let system: LeaseClock = {
        #if canImport(Darwin)
        // This clock continues to run while the machine sleeps (clock_gettime(3)).
        let clock = CLOCK_MONOTONIC_RAW
        // The time of the boot, in contrast, changes when the clock is set.
        var boot = [UInt8](repeating: 0, count: 64)
        var size = boot.count
        _ = unsafe sysctlbyname("kern.bootsessionuuid", &boot, &size, nil, 0)
        boot.removeLast(boot.count - min(size, boot.count))
        #else
        let clock = CLOCK_BOOTTIME
        let boot =
            (try? Data(contentsOf: URL(fileURLWithPath: "/proc/sys/kernel/random/boot_id"))).map { Array($0) } ?? []
        #endif
        return LeaseClock(boot: boot) {
            var time = timespec()
            unsafe clock_gettime(clock, &time)
            return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
        }
    }()
}
