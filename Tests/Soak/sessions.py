#!/usr/bin/env python3
"""Server processes share the sessions of many users in a database, and every refresh token is used once.

    sessions.py SESSION_SOAK STORE [--sessions N] [--seconds S] [--processes P] [--delay MS] [--gentle | --terminate]

STORE is "postgresql", "redis" or "sqlite"; Tests/Databases/databases.sh starts the first two, and gives the third a folder. Access tokens live for a few seconds, a refresh
token is used once, and a used one revokes the session. Every second a process is ended by SIGKILL, now and then one is stopped for
longer than its lease lasts, and the database is started again once. With --gentle nothing is killed; with --terminate processes are ended by SIGTERM, as by a service manager,
and nothing at all may be lost.

Fails when a refresh token was used twice or a session was lost, but where a process was killed between sending a refresh and writing its
result: what the provider's response had then is lost. Those are counted by the provider (a used token came again) and by the store
(the lease was never given up). A process that is stopped between looking at its lease and sending sends when it goes on; those tell
themselves.
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
            sys.exit(f"a server process has ended by itself: {self.process.returncode}")
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
    parser.add_argument("--delay", type=int, default=20, help="how long the provider takes, in milliseconds")
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
            # What the process finds when it goes on must be counted, and is printed within a second.
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
        # The leases of those that were killed last end first.
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
        f"{options.store}: {seen['reuses']} refresh tokens came twice; {left['ended_in_window']} sessions ended because a process was killed "
        f"while it refreshed them, {lost} for another reason; {left['tokens']} are good. {total['late']} refreshes came back when another "
        "process had the lease"
    )
    fault = lost > total["late"] or seen["reuses"] > left["ended"] or left["tokens"] + left["ended"] != options.sessions
    # What a request may end with while processes and the database are killed.
    unexpected = set(errors) - {"login_required", "storage_failed", "lease_busy", "timed_out", "network_failed"}
    fault = fault or unexpected or seen["refreshes"] < options.sessions or total["requests"] < seen["refreshes"] / 2
    fault = fault or left["ended_in_window"] > (kills + stops) * options.tasks
    if fault or (options.gentle or options.terminate) and (seen["reuses"] or left["ended"]):
        sys.exit(f"{options.store}: sessions were lost: {seen}, {left}")


main()
