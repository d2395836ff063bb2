#!/usr/bin/env python3
"""Terminates `authflow token` at random moments while it refreshes and stores, with each signal that requests termination.

    signals.py PATH/TO/authflow COUNT

COUNT runs are divided among four signals and three stores, eight of them at a time, alongside processes that keep the processors busy. The provider
accepts a refresh token only once, and ends the session if it is reused. Every run refreshes, so a response that is not stored would end the
session. No session may end.
"""

import os, pathlib, random, signal, subprocess, sys, tempfile, threading, time

import soak_user

tool, count = os.path.realpath(sys.argv[1]), int(sys.argv[2])
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]
STORES = {
    "file": {"name": "file", "directory": "store"},
    "encrypted-file": {"name": "encrypted-file", "directory": "store", "key_file": "key"},
    "sqlite": {"name": "sqlite", "path": "store.sqlite"},
}
WORKERS = 8


class Session:
    """A signed-in user with a separate directory."""

    def __init__(self, folder, issuer, store):
        self.at = ["--config", str(soak_user.configure(folder, issuer, STORES[store]))]
        self.refresh = [tool, "token", "--refresh", *self.at]
        self.environment = soak_user.environment(folder)
        self.store = store
        self.run([tool, "login", *self.at])
        start = time.monotonic()
        self.run(self.refresh)
        self.length = (time.monotonic() - start) * 1.2

    def run(self, command):
        process = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)
        if process.returncode:
            raise SystemError(f"{self.store}: {command[1]} ends with {process.returncode}\n{process.stderr}")

    def trial(self, number, delay):
        """Terminates a run, and checks that the next run can refresh."""
        process = subprocess.Popen(self.refresh, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        process.send_signal(number)
        try:
            said = process.communicate(timeout=40)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            raise SystemError(f"{self.store}: continues after {signal.Signals(number).name}")
        try:
            self.run(self.refresh)
        except SystemError as error:
            raise SystemError(f"{error}after {signal.Signals(number).name} {delay * 1000:.0f} ms after the start of a run with these messages: {said}")
        return process.returncode


def work(index, folder, issuer, results):
    chance = random.Random(20261124 + index)
    try:
        session = Session(folder, issuer, list(STORES)[index % len(STORES)])
        for trial in range(index, count, WORKERS):
            number = SIGNALS[trial // WORKERS % len(SIGNALS)]
            status = session.trial(number, chance.uniform(0, session.length))
            results.append((session.store, number, status))
    except Exception as error:
        results.append(error)


with tempfile.TemporaryDirectory() as folder, soak_user.provider(tool, 0) as issuer:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 2)]
    try:
        workers, results = [], []
        for index in range(WORKERS):
            own = pathlib.Path(folder, str(index))
            own.mkdir()
            workers.append(threading.Thread(target=work, args=(index, own, issuer, results)))
        for worker in workers: worker.start()
        for worker in workers: worker.join()
    finally:
        for process in busy:
            process.terminate()
            process.wait()

failures = [result for result in results if isinstance(result, Exception)]
runs = [result for result in results if not isinstance(result, Exception)]
if failures: sys.exit("signals: " + "\n".join(map(str, failures)))
for store in STORES:
    ends = [status for name, _, status in runs if name == store]
    print(f"{store}: {len(ends)} runs, {sum(status != 0 for status in ends)} ended by a signal, no session lost")
