#!/usr/bin/env python3
"""Free TCP ports on 127.0.0.1 for programs that can neither choose a port themselves nor inherit a listening socket, and the wait for such a program.

    Tests/ports.py [COUNT]

The ports are below the kernel's ephemeral port range (outgoing connections, and bind() to port 0), because a port in that range
could be assigned to another process before the intended program listens on it. If the range begins so low that few ports remain
below it, ports in the range are used, too. The PID determines a process's first block, so scripts that run at the same time rarely get the same port.
"""
import errno
import os
import socket
import sys
import time

LOWEST, HIGHEST, SIZE = 10_000, 32_768, 20


def lowest_of_kernel():
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as range_of_kernel:
            return int(range_of_kernel.read().split()[0])
    except OSError:
        return HIGHEST


def candidates():
    end = min(lowest_of_kernel(), HIGHEST)
    if end < LOWEST + 1000:
        # The range is often extended down to 1024. With only a few blocks, concurrent scripts would get the same ports.
        end = HIGHEST
    # An odd number of blocks has no common divisor with the step, so every block is reached.
    blocks = (end - LOWEST) // SIZE - 1 | 1
    # Consecutive PIDs have consecutive blocks; after its first block, a process continues with a distant one.
    for round in range(blocks):
        block = (os.getpid() + round * (blocks // 2 + 1)) % blocks
        yield from range(LOWEST + block * SIZE, LOWEST + (block + 1) * SIZE)


_candidates = candidates()


def is_free(port):
    # Check all addresses: some programs, such as Caddy, also listen at addresses other than 127.0.0.1.
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family) as probe:
                # Like a server, ignore closed connections in TIME_WAIT.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((address, port))
        except OSError as error:
            # The machine may have no IPv6.
            if family == socket.AF_INET or error.errno == errno.EADDRINUSE:
                return False
    return True


def free_port(consecutive=1):
    """Returns the first of `consecutive` free ports, and never returns a port twice."""
    run = []
    for port in _candidates:
        run = [port] if not run or port != run[-1] + 1 else run + [port]
        if not is_free(port):
            run = []
        if len(run) == consecutive:
            return run[0]
    raise OSError("no port is free")


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until_open(port, process):
    """Waits until a program listens on a port, for at most a minute."""
    end = time.monotonic() + 60
    while not is_open(port):
        if time.monotonic() > end or process.poll() is not None:
            sys.exit(f"nothing listens on port {port}: {process.args}")
        time.sleep(0.05)


if __name__ == "__main__":
    print(*(free_port() for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1)))
