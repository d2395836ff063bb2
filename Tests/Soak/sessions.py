#!/usr/bin/env python3
"""Server processes share the sessions of many users in a database, and every refresh token is used once.

    sessions.py SESSION_SOAK STORE [--sessions N] [--seconds S] [--processes P] [--delay MS] [--gentle | --terminate]

STORE is "postgresql", "redis" or "sqlite"; Tests/Databases/databases.sh starts the first two, and provides a directory for the third. Access tokens
live for a few seconds, refresh tokens are single-use, and a reused refresh token revokes the session. Every second, a process is killed
with SIGKILL. Occasionally, a process is stopped for longer than its lease, and the database is restarted once. With --gentle, nothing is
killed; with --terminate, processes are terminated with SIGTERM, as by a service manager, and no session may be lost, unless the database was
away for longer than a lease.

Fails if a refresh token was reused or a session was lost, unless a process was killed between sending a refresh and writing its result,
which loses the provider's response. Such sessions are counted by the provider (a used token was sent again) and by the store (the lease
was never released). A process that is stopped between checking its lease and sending a refresh sends it when it continues; the process
itself reports such refreshes.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request


def counts(issuer):
    with urllib.request.urlopen(f"{issuer}/counts", timeout=20) as response:
        return json.load(response)


class Server:
    """One server process, and the last counts that it printed."""

    def __init__(self, command, log):
        self.command, self.log, self.totals = command, log, {"requests": 0, "tokens": 0, "late": 0, "errors": {}, "slowest": 0.0}
        self.start()

    def start(self):
        self.last, self.buffer = {}, b""
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=self.log)
        os.set_blocking(self.process.stdout.fileno(), False)

    def read(self):
        data = self.process.stdout.read()
        if not data:
            return
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            self.last = json.loads(line)

    def add_up(self):
        self.read()
        for name in ("requests", "tokens", "late"):
            self.totals[name] += self.last.get(name, 0)
        self.totals["slowest"] = max(self.totals["slowest"], self.last.get("slowest", 0))
        for code, count in self.last.get("errors", {}).items():
            self.totals["errors"][code] = self.totals["errors"].get(code, 0) + count

    def kill(self, gently=False):
        if self.process.poll() is not None:
            sys.exit(f"a server process exited by itself with status {self.process.returncode}")
        self.process.send_signal(signal.SIGTERM if gently else signal.SIGKILL)
        self.process.wait(60)
        self.add_up()
        self.process.stdout.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("store", choices=["postgresql", "redis", "sqlite"])
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--delay", type=int, default=20, help="the provider's response time in milliseconds")
    parser.add_argument("--gentle", action="store_true")
    parser.add_argument("--terminate", action="store_true")
    options = parser.parse_args()
    databases = os.environ["AUTHFLOW_DATABASES"]

    provider = subprocess.Popen([options.program, "provider", "4", str(options.delay)], stdout=subprocess.PIPE, text=True)
    servers = []
    try:
        issuer = provider.stdout.readline().strip()
        store = f"{os.environ['AUTHFLOW_SQLITE']}/soak{os.getpid()}.sqlite" if options.store == "sqlite" else options.store
        place = [issuer, store, str(options.sessions)]
        subprocess.run([options.program, "seed", *place], check=True, stdout=subprocess.DEVNULL)
        command = [options.program, "serve", *place, str(options.tasks), str(options.seconds + 3600)]
        servers = [Server(command, sys.stderr) for _ in range(options.processes)]
        kills, stops, restarts = 0, 0, 0
        stopped, resumed = None, None
        end = time.monotonic() + options.seconds
        halfway = time.monotonic() + options.seconds / 2
        second = 0
        while time.monotonic() < end:
            time.sleep(1)
            second += 1
            for server in servers:
                server.read()
            if options.gentle:
                continue
            if stopped and time.monotonic() >= stopped[1]:
                stopped[0].process.send_signal(signal.SIGCONT)
                stopped, resumed = None, (stopped[0], time.monotonic() + 4)
            elif not stopped and second % 10 == 5 and not options.terminate:
                # Longer than the lease of 5 seconds.
                server = random.choice(servers)
                server.process.send_signal(signal.SIGSTOP)
                stopped, stops = (server, time.monotonic() + 7), stops + 1
            if not restarts and options.store != "sqlite" and time.monotonic() >= halfway:
                restarts += 1
                subprocess.run([databases, options.store, "crash"], check=True)
                time.sleep(1)
                subprocess.run([databases, options.store, "start"], check=True)
            if resumed and time.monotonic() >= resumed[1]:
                resumed = None
            # The results of a resumed process must be counted. It prints them within a second.
            spared = [entry[0] for entry in (stopped, resumed) if entry]
            server = random.choice([server for server in servers if server not in spared])
            server.kill(options.terminate)
            kills += 1
            server.start()
        if stopped:
            stopped[0].process.send_signal(signal.SIGCONT)
            time.sleep(4)
        for server in servers:
            server.kill(options.gentle or options.terminate)
        # The leases of the processes that were killed last must expire first.
        time.sleep(6)
        left = json.loads(subprocess.run([options.program, "check", *place], check=True, stdout=subprocess.PIPE).stdout)
        seen = counts(issuer)
    finally:
        for server in servers:
            if server.process.poll() is None:
                server.process.kill()
        provider.kill()

    total = {name: sum(server.totals[name] for server in servers) for name in ("requests", "tokens", "late")}
    errors = {}
    for server in servers:
        for code, count in server.totals["errors"].items():
            errors[code] = errors.get(code, 0) + count
    lost = left["ended"] - left["ended_in_window"]
    print(
        f"{options.store}: {options.sessions} sessions, {options.processes} processes, {options.seconds} s, {kills} kills, {stops} stops, "
        f"{restarts} restarts of the database: {total['requests']} requests, {seen['refreshes']} refreshes, "
        f"slowest request {max(server.totals['slowest'] for server in servers):.1f} s, other errors {errors or 'none'}"
    )
    print(
        f"{options.store}: {seen['reuses']} refresh tokens were reused; {left['ended_in_window']} sessions ended because a process was killed "
        f"while it refreshed them, {lost} for another reason; {left['tokens']} are valid. {total['late']} refreshes returned when another "
        "process had the lease"
    )
    fault = lost > total["late"] or seen["reuses"] > left["ended"] or left["tokens"] + left["ended"] != options.sessions
    # The errors that a request may return while processes and the database are killed.
    unexpected = set(errors) - {"login_required", "storage_failed", "lease_busy", "timed_out", "network_failed"}
    fault = fault or unexpected or seen["refreshes"] < options.sessions
    # A process that is killed has not printed its last results: on a busy machine, most of them.
    isCounted = options.gentle or options.terminate
    fault = fault or total["requests"] < (seen["refreshes"] / 2 if isCounted else 1)
    fault = fault or left["ended_in_window"] > (kills + stops) * options.tasks
    # A refresh that could not be written before the end of its lease.
    excused = total["late"] if max(server.totals["slowest"] for server in servers) > 5 else 0
    if fault or isCounted and max(seen["reuses"], left["ended"]) > excused:
        sys.exit(f"{options.store}: sessions were lost: {seen}, {left}")


main()
