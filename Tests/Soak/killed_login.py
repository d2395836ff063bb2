#!/usr/bin/env python3
"""Terminates `authflow login` and `authflow scheme` at random moments, with each of four signals, and checks what remains.

    killed_login.py PATH/TO/authflow COUNT

No open port, no running process and no half-written entry may remain. Only SIGKILL may leave a socket, which cannot be
prevented; the next command that searches the directory removes it.
"""

import ctypes, os, pathlib, random, re, signal, socket, subprocess, sys, tempfile, time

tool, count = os.path.realpath(sys.argv[1]), int(sys.argv[2])
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
PR_SET_CHILD_SUBREAPER = 36


def fail(message, *details):
    sys.exit("killed_login: " + message + "".join(f"\n{detail}" for detail in details))


def no_children():
    """Checks that every started process has ended, or ends by itself."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0: time.sleep(0.02)
        except ChildProcessError:
            return
    fail("a process is still running", subprocess.run(["ps", "-ef"], capture_output=True, text=True).stdout)


def ended(command, environment, length, number):
    """Starts a command, signals it at a random moment, and returns its messages."""
    with tempfile.TemporaryFile("w+") as talk:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=talk)
        time.sleep(random.uniform(0, length))
        process.send_signal(number)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            fail(f"{command[1]} continues after signal {number}")
        talk.seek(0)
        return talk.read()


def is_open(port):
    """Whether a process listens on a port. A connection to a free port can be a connection of the socket to itself."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0 and probe.getsockname() != probe.getpeername()


def check(work, issuer):
    runtime, home = work / "run", work / "home"
    runtime.mkdir(mode=0o700), home.mkdir()
    applications = home / ".local/share/applications"
    scheme = "com.example.authflow"
    entry = applications / f"authflow-{scheme}.desktop"
    config = work / "authflow.json"
    profile = ('{"provider": "oidc", "issuer": "%s", "client_id": "authflow-demo", "store": "memory", '
               '"redirect_uri": "%s", "user_agent": {"name": "%s", "browser": ["true"]}}')
    config.write_text('{"profiles": {"port": %s, "scheme": %s}}' % (
        profile % (issuer, "http://127.0.0.1/callback", "loopback"),
        profile % (issuer, f"{scheme}:/callback", "system-browser")))
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_RUNTIME_DIR": str(runtime)}

    def run(*arguments):
        return subprocess.run([tool, *arguments], env=environment, capture_output=True, text=True, timeout=60)

    def login(name): return [tool, "login", "--config", str(config), "--profile", name]

    if run("scheme", "install", scheme).returncode: fail("the scheme could not be installed")
    whole = entry.read_text()
    start = time.monotonic()
    run("scheme", "install", scheme)
    length = (time.monotonic() - start) * 1.1
    ports = sockets = 0
    for number in range(count):
        ending = SIGNALS[number % len(SIGNALS)]
        talk = ended(login("port"), environment, 0.3, ending)
        port = re.search(r"redirect_uri=http%3A%2F%2F127.0.0.1%3A(\d+)", talk)
        if port:
            ports += 1
            # A browser process has the descriptor until it executes its program, and outlives a killed command.
            no_children()
            if is_open(int(port.group(1))): fail("a port is left open")

        ended(login("scheme"), environment, 0.3, ending)
        left = list((runtime / "authflow").glob("*")) if (runtime / "authflow").exists() else []
        if left:
            sockets += 1
            if ending != signal.SIGKILL: fail(f"signal {ending} leaves {left}")
            run("handle-redirect", f"{scheme}:/callback?state=unknown")
            if list((runtime / "authflow").glob("*")): fail("the next command did not remove the socket")

        ended([tool, "scheme", random.choice(["install", "remove"]), scheme], environment, length, ending)
        no_children()
        if entry.exists() and entry.read_text() != whole: fail("an entry is half written", entry.read_text())
        if run("scheme", "install", scheme).returncode: fail("the scheme cannot be installed after a kill")
        files = {path.name for path in applications.iterdir()} - {"mimeinfo.cache"}
        if files != {entry.name}: fail("unexpected files remain", files)
    no_children()
    print(f"killed_login: {count} times each; {ports} had an open port, {sockets} left a socket for the next command;"
          " no port, process or half-written entry remains")


def main():
    random.seed(20261121)
    # If started in the background or by nohup, this program ignores some of these signals, and its child processes would too.
    for number in SIGNALS[1:]: signal.signal(number, signal.SIG_DFL)
    with tempfile.TemporaryDirectory(prefix="af-") as work:
        provider = subprocess.Popen([tool, "dev-idp"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        issuer = provider.stdout.readline().strip()
        # Orphaned processes become children of the forked process. The provider must not be among them when they are counted.
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
            check(pathlib.Path(work), issuer)
            sys.exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        provider.kill()
        provider.wait()
    sys.exit(status)


main()
