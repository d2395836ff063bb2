#!/usr/bin/env python3
"""Lets each system call of a command fail once, and checks what the command reports and what remains.

    faults.py PATH/TO/authflow COUNT

strace, which requires root, injects an error (full disk, I/O error, interrupted call, too many open files) into at most COUNT calls of each
command. A command must not crash or wait; it reports success only if the new state is stored, or warns that it is not; a failure has a
message without a token. All files stay private, and the next commands work.
"""

import os, pathlib, random, re, shutil, subprocess, sys, tempfile

import soak_user

tool, count = os.path.abspath(sys.argv[1]), int(sys.argv[2])
FILE_CALLS = "openat,write,read,lseek,ftruncate,fsync,fchmod,chmod,flock,fstat,newfstatat,rename,link,unlink,mkdir,pwrite64,pread64,utimensat"
ERRORS = ["ENOSPC", "EIO", "EINTR", "EMFILE"]
LONGEST, NOT_SIGNED_IN = 20, 4


def fail(message, *details):
    sys.exit("faults: " + message + "".join(f"\n{detail}" for detail in details))


class Machine:
    """The files of a user, and the commands that the user runs."""

    def __init__(self, root, issuer, store):
        self.root, self.saved = root, root.with_name("saved")
        (root / "home").mkdir(parents=True)
        self.config = soak_user.configure(root.parent, issuer, store)

    def run(self, *arguments, prefix=()):
        try:
            return subprocess.run([*prefix, tool, *arguments, "--config", str(self.config)], capture_output=True, text=True,
                                  timeout=LONGEST, env=soak_user.environment(self.root / "home"), cwd=self.root)
        except subprocess.TimeoutExpired: fail(f"{' '.join([*prefix, *arguments])} takes longer than {LONGEST} s")

    def token(self):
        result = self.run("token")
        if result.returncode not in (0, NOT_SIGNED_IN): fail(f"the next command exits with status {result.returncode}", result.stderr)
        return result.stdout

    def save(self):
        shutil.rmtree(self.saved, ignore_errors=True)
        shutil.copytree(self.root, self.saved)

    def restore(self):
        shutil.rmtree(self.root)
        shutil.copytree(self.saved, self.root)

    def trace(self, calls, *arguments, inject=None):
        """Runs a command. Returns its result and its system calls."""
        output = self.root.with_name("trace")
        prefix = ["strace", "-f", "-y", "-e", f"trace={calls}", "-o", str(output), *(["-e", f"inject={inject}"] if inject else [])]
        result = self.run(*arguments, prefix=prefix)
        return result, output.read_text(errors="replace").splitlines()

    def concerns(self, line):
        """Whether a call concerns the user's files or the network thread, and not a library, /proc or a standard stream."""
        return str(self.root) in re.sub(r"AT_FDCWD<[^>]*>", "", line) or "socketpair" in line

    def moments(self, calls, *arguments):
        """The calls that can fail: their names, and their numbers in their threads."""
        numbers, found = {}, set()
        for line in self.trace(calls, *arguments)[1]:
            parts = re.match(r"(\d+) +(\w+)\(", line)
            if not parts: continue
            numbers[parts.groups()] = numbers.get(parts.groups(), 0) + 1
            if self.concerns(line): found.add((parts[2], numbers[parts.groups()]))
        return sorted(found)

    def check(self, call, number, error, command, before):
        """Runs a command in which one call fails, and which changes the given access token."""
        name = f"{' '.join(command)}, {call} {number} fails with {error}"
        result, lines = self.trace(call, *command, inject=f"{call}:error={error}:when={number}")
        hits = [line for line in lines if "(INJECTED)" in line]
        if not all(self.concerns(line) for line in hits): return False
        details = [f"status {result.returncode}", result.stdout, result.stderr, *hits]
        if result.returncode < 0 or result.returncode > 128 or "Fatal error" in result.stderr: fail(f"{name}: a crash", *details)
        if result.returncode and not result.stderr.strip(): fail(f"{name}: no message", *details)
        for path in (self.root / "home").rglob("*"):
            if path.stat().st_mode & 0o077: fail(f"{name}: other users can access {path}", *details)
        after = self.token()
        if any(token and token.strip() in result.stderr for token in (before, after)): fail(f"{name}: a token in a message", *details)
        is_warned = "could not be stored" in result.stderr and "has now been stored" not in result.stderr
        is_stored = after == result.stdout if command[0] == "token" else bool(after) == (command[0] == "login")
        if result.returncode == 0 and not is_warned and not is_stored: fail(f"{name}: success, but not stored", *details)
        if self.run("login").returncode: fail(f"{name}: the next sign-in fails", *details)
        return bool(hits)


random.seed(20261201)
with soak_user.provider(tool, 86400) as issuer:
    for store in [{"name": "file"}, {"name": "encrypted-file", "key_file": "disk/home/keys/key"}, {"name": "sqlite"}]:
        with tempfile.TemporaryDirectory() as work:
            machine = Machine(pathlib.Path(work, "disk"), issuer, store)
            for command in [["login"], ["token", "--refresh"], ["logout", "--local"]]:
                if command[0] != "login" and machine.run("login").returncode: fail("the first sign-in fails")
                # `authflow token` would create the directory, which the first sign-in must create.
                before = "" if command[0] == "login" else machine.token()
                machine.save()
                known = machine.moments(FILE_CALLS + ",socketpair", *command)
                sockets = [moment for moment in known if moment[0] == "socketpair"]
                files = [moment for moment in known if moment not in sockets]
                # The command prevents other processes of its user from reading its memory.
                if not files: fail("strace shows no paths, because it is not run as root")
                # Always when the network thread starts: it needs a pair of sockets.
                chosen = sockets + random.sample(files, min(count, len(files)))
                failed = 0
                for call, number in chosen:
                    machine.restore()
                    failed += machine.check(call, number, "EMFILE" if call == "socketpair" else random.choice(ERRORS), command, before)
                machine.restore()
                print(f"{store['name'] + ': ' + ' '.join(command):36} {failed:4} of {len(known):4} calls failed")
