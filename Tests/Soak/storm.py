#!/usr/bin/env python3
"""Many sessions of one process refresh at the same moment, with a provider that is slow or whose connections hang.

    storm.py SESSION_SOAK STORE

STORE is "postgresql", "redis" or "sqlite"; Tests/Databases/databases.sh starts the first two, and provides a directory for the
third. The provider rotates refresh tokens, and ends a session whose old refresh token is reused. Each storm requests tokens once for every
session, waits, and requests them again.

Fails if a refresh token was reused or a session has ended. A refresh that gets no connection in time is not sent, so no session is lost.
"""
import json
import os
import subprocess
import sys
import urllib.request

# Name, sessions, the delay of a response in milliseconds, connections that hang.
STORMS = [("slow", 600, 4000, 0), ("hanging", 200, 300, 64), ("at once", 1000, 300, 0)]


def run(command, storm, store, number):
    name, sessions, delay, hanging = storm
    provider = subprocess.Popen(
        [command, "provider", "1", str(delay), str(hanging), str(sessions)], stdout=subprocess.PIPE, text=True)
    try:
        issuer = provider.stdout.readline().strip()
        if store == "sqlite":
            store = os.path.join(os.environ["AUTHFLOW_SQLITE"], f"storm-{os.getpid()}-{number}.sqlite")
        subprocess.run([command, "seed", issuer, store, str(sessions)], check=True, stdout=subprocess.DEVNULL)
        result = subprocess.run(
            [command, "storm", issuer, store, str(sessions)], check=True, stdout=subprocess.PIPE, text=True, timeout=300)
        with urllib.request.urlopen(f"{issuer}/counts", timeout=20) as response:
            counts = json.load(response)
        first, second = [json.loads(line) for line in result.stdout.splitlines()[-2:]]
    finally:
        provider.kill()
    print(f"{name}: {sessions} sessions, {delay} ms, {hanging} hang: {first['tokens']} tokens after the first requests, {second['tokens']} after the second,"
          f" {counts['refreshes']} refreshes, {counts['reuses']} reuses, errors {first['errors']} then {second['errors']}", flush=True)
    return counts["reuses"] == 0 and counts["refused"] == 0 and second["tokens"] - first["tokens"] == sessions


def main():
    command, store = sys.argv[1:3]
    if not all([run(command, storm, store, number) for number, storm in enumerate(STORMS)]):
        sys.exit("A session was lost.")


main()
