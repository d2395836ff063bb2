#!/usr/bin/env python3
"""Kills `authflow token` (SIGKILL) at random moments while it refreshes and stores, and checks what remains.

    crash.py PATH/TO/authflow COUNT

After every kill, the store must contain a complete credential: the new or the previous one. The test runs twice. With a provider
that accepts a refresh token again within a minute, the session must always continue. With a provider that never does, a kill
between the provider's response and its storage ends the session, which no client can prevent. The next run must then report
this, with status 4.
"""

import json, pathlib, random, signal, subprocess, sys, tempfile, time

import soak_user

tool, count = sys.argv[1], int(sys.argv[2])


def run(*arguments, **options):
    return subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=60, **options)


def fail(message, *details):
    sys.exit("crash: " + message + "".join(f"\n{detail}" for detail in details))


def whole(folder):
    """Returns the credential's refresh token, or None if the session has ended. The store must contain one complete credential."""
    files = list(folder.glob("*.json"))
    if len(files) != 1: fail(f"there are {len(files)} credentials")
    book = json.loads(files[0].read_text())
    account = book["accounts"][0]
    return account["refresh_token"] if "ended" not in account else None


def soak(leeway):
    random.seed(20261121)
    with tempfile.TemporaryDirectory() as work:
        with soak_user.provider(tool, leeway) as issuer:
            config = soak_user.configure(work, issuer, {"name": "file", "directory": "store"})
            environment = soak_user.environment(work)
            at = ["--config", str(config)]
            if run("login", *at, env=environment).returncode: fail("the first login failed")
            refresh = ["token", "--refresh", *at]
            start = time.monotonic()
            if run(*refresh, env=environment).returncode: fail("the first refresh failed")
            # Kills occur at any time during a run, and shortly after its end.
            length = (time.monotonic() - start) * 1.2
            killed = ended = 0
            for number in range(count):
                process = subprocess.Popen([tool, *refresh], env=environment, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                time.sleep(random.uniform(0, length))
                process.send_signal(signal.SIGKILL)
                killed += process.wait() == -signal.SIGKILL
                has_ended = whole(pathlib.Path(work, "store")) is None
                # After every tenth run, and after a run that has recorded that the provider ended the session, the next run is
                # not killed, and must handle the stored state.
                if has_ended or number % 10 == 9:
                    next_run = run(*refresh, env=environment)
                    if next_run.returncode == 0:
                        if has_ended: fail("an ended session continues")
                        continue
                    ended += 1
                    if next_run.returncode != 4 or "was ended by the provider" not in next_run.stderr:
                        fail(f"kill {number}: the next run exits with status {next_run.returncode}", next_run.stderr)
                    again = run(*refresh, env=environment)
                    if again.returncode != 4: fail("an ended session does not stay ended", again.stderr)
                    if run("login", *at, env=environment).returncode: fail("the next login failed")
            left = [file.name for file in pathlib.Path(work, "store").iterdir() if file.suffix not in (".json", ".lock")]
            print(f"leeway {leeway:2} s: {count} runs, {killed} killed before their end, sessions ended {ended}, "
                  f"files left behind {len(left)}")
            if leeway and ended: fail("with leeway, every session must continue")


soak(60)
soak(0)
