#!/usr/bin/env python3
"""Free TCP ports on 127.0.0.1 for programs that can neither choose a port themselves nor inherit a listening socket.

    Tests/ports.py [COUNT]

They are below the kernel's ephemeral port range (outgoing connections, and bind() to port 0), because a port of that range
could be assigned to another process before the intended program listens on it. The PID determines a process's first block, so
scripts that run at the same time rarely get the same port.
"""
import os
import socket
import sys

LOWEST, SIZE = 10_000, 20


def lowest_of_kernel():
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as range_of_kernel:
            return int(range_of_kernel.read().split()[0])
    except OSError:
        return 32_768


def candidates():
    blocks = max(1, (min(lowest_of_kernel(), 32_768) - LOWEST) // SIZE)
    # Consecutive PIDs have consecutive blocks; after its first block, a process continues with a distant one.
    for round in range(blocks):
        block = (os.getpid() + round * (blocks // 2 + 1)) % blocks
        yield from range(LOWEST + block * SIZE, LOWEST + (block + 1) * SIZE)


_candidates = candidates()


def free_port(consecutive=1):
    """Returns the first of `consecutive` free ports, and never returns a port twice."""
    run = []
    for port in _candidates:
        run = [port] if not run or port != run[-1] + 1 else run + [port]
        with socket.socket() as probe:
            # Like a server, ignore closed connections in TIME_WAIT.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                run = []
        if len(run) == consecutive:
            return run[0]
    raise OSError("no port is free")


if __name__ == "__main__":
    print(*(free_port() for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1)))
