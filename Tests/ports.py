#!/usr/bin/env python3
"""Free TCP ports of 127.0.0.1 for programs that cannot choose one themselves, or inherit a listening socket.

    Tests/ports.py [COUNT]

They are below the range from which the kernel takes the local ports of connections and of bind() to port 0: a port of that range
can be taken by any process before the program that should listen there has started. Each process has its own block of ports, so
two scripts that run at the same time do not get the same port.
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
    # Consecutive processes have consecutive blocks; after its own block, a process goes on in one that is far away.
    for round in range(blocks):
        block = (os.getpid() + round * (blocks // 2 + 1)) % blocks
        yield from range(LOWEST + block * SIZE, LOWEST + (block + 1) * SIZE)


_candidates = candidates()


def free_port(consecutive=1):
    """The first of `consecutive` free ports. No port is returned twice by one process."""
    run = []
    for port in _candidates:
        run = [port] if not run or port != run[-1] + 1 else run + [port]
        with socket.socket() as probe:
            # As servers do, so that connections that have ended (TIME_WAIT) do not count.
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
