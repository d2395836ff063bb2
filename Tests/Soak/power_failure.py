#!/usr/bin/env python3
"""Simulates a power failure at every moment of the commands that write to a file store, and checks what remains on the disk.

    power_failure.py PATH/TO/authflow TREES

strace, which requires root, records the file operations of each command. After a power failure, POSIX guarantees less than the running system
shows: data that was not synced may be missing, truncated or zero, and the changes to a directory that was not synced may be lost
individually. For each moment, the test draws directory trees that may remain (at most TREES for each command), and runs the next commands on
each. The store must contain the previous state or the new state, the new state if the command has reported success, and accept a sign-in.
"""

import collections, concurrent.futures, os, pathlib, random, re, subprocess, sys, tempfile

import soak_user

tool, limit = os.path.abspath(sys.argv[1]), int(sys.argv[2])
CALLS = "openat,write,pwrite64,lseek,ftruncate,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat"
NOT_SIGNED_IN = 4


def fail(message, *details):
    sys.exit("power failure: " + message + "".join(f"\n{detail}" for detail in details))


class File:
    def __init__(self, data=b"", is_synced=False):
        self.data, self.synced, self.is_synced = data, data, is_synced

    def write(self, offset, data):
        self.resize(max(len(self.data), offset))
        self.data = self.data[:offset] + data + self.data[offset + len(data):]
        self.is_synced = False

    def resize(self, size):
        if size == len(self.data): return
        self.data = self.data[:size].ljust(size, b"\0")
        self.is_synced = False

    def sync(self): self.synced, self.is_synced = self.data, True

    def draw(self):
        """A content that may remain."""
        if self.is_synced: return self.data
        return random.choice([self.data, self.synced, self.data[:len(self.data) // 2], bytes(len(self.data))])


class Directory:
    def __init__(self): self.entries, self.synced, self.changes = {}, {}, []

    def change(self, names):
        """Changes entries atomically; None removes one."""
        self.changes.append(names)
        self.entries = self.after([names], self.entries)

    def sync(self): self.synced, self.changes = dict(self.entries), []

    @staticmethod
    def after(changes, entries):
        merged = collections.ChainMap(*reversed(changes), entries)
        return {name: entry for name, entry in merged.items() if entry is not None}

    def shown(self, path=""):
        """The paths and contents that the running system shows."""
        tree = {}
        for name, entry in self.entries.items():
            if isinstance(entry, Directory): tree |= {f"{path}{name}/": None} | entry.shown(f"{path}{name}/")
            else: tree[path + name] = entry.data
        return tree

    def draw(self, path, tree, chance):
        """Adds the entries that may remain to a tree of paths and contents; each unsynced change remains with the given probability."""
        for name, entry in self.after([names for names in self.changes if random.random() < chance], self.synced).items():
            if isinstance(entry, Directory):
                tree[f"{path}{name}/"] = None
                entry.draw(f"{path}{name}/", tree, chance)
            else: tree[path + name] = entry.draw()


def read(path):
    """A directory that is completely on the disk."""
    directory = Directory()
    for entry in path.iterdir():
        directory.change({entry.name: read(entry) if entry.is_dir() else File(entry.read_bytes(), True)})
    directory.sync()
    return directory


class Disk:
    """The files in a directory, to which recorded system calls are applied."""

    def __init__(self, root): self.root, self.top, self.offsets = str(root), read(root), {}

    def locate(self, path):
        """The directory of a path, and the name in it."""
        directory, parts = self.top, path[len(self.root) + 1:].split("/")
        for part in parts[:-1]: directory = directory.entries[part]
        return directory, parts[-1]

    def entry(self, path):
        if path == self.root: return self.top
        directory, name = self.locate(path)
        return directory.entries.get(name)

    def apply(self, call, arguments, result):
        """Applies a successful call. Returns whether it changed the disk."""
        paths = [text for text in arguments if text.startswith(self.root)]
        if not paths: return False
        if call == "openat":
            self.offsets[result] = 0
            existing = self.entry(paths[0])
            if existing is None and "O_CREAT" in arguments:
                directory, name = self.locate(paths[0])
                directory.change({name: File()})
            elif existing is not None and "O_TRUNC" in arguments: existing.resize(0)
            else: return False
        elif call in ("mkdir", "mkdirat"):
            directory, name = self.locate(paths[0])
            directory.change({name: Directory()})
        elif call in ("unlink", "unlinkat"):
            directory, name = self.locate(paths[0])
            directory.change({name: None})
        elif call in ("rename", "renameat", "renameat2", "link", "linkat"):
            (source, old), (target, new) = self.locate(paths[0]), self.locate(paths[1])
            if source is not target: fail("a file is moved to another directory, which this test does not simulate")
            moved = source.entries[old]
            source.change({new: moved} if call.startswith("link") else {new: moved, old: None})
        else: return self.apply_to_file(call, arguments, result, self.entry(paths[0]))
        return True

    def apply_to_file(self, call, arguments, result, file):
        if file is None: return False
        descriptor = int(arguments[0])
        if call == "lseek": self.offsets[descriptor] = result
        elif call == "write":
            file.write(self.offsets[descriptor], arguments[2].encode("latin-1")[:result])
            self.offsets[descriptor] += result
        elif call == "pwrite64": file.write(int(arguments[4]), arguments[2].encode("latin-1")[:result])
        elif call == "ftruncate": file.resize(int(arguments[2]))
        elif call in ("fsync", "fdatasync"): file.sync()
        return call != "lseek"

    def draw(self):
        """Trees that may remain: without the unsynced changes, with all of them, and with some of them."""
        for chance in [0, 1] + [0.5] * 20:
            tree = {}
            self.top.draw("", tree, chance)
            yield tree


def recorded_calls(text):
    """The successful calls in strace's output, with their arguments; the path of a descriptor is a separate argument."""
    unfinished = {}
    for line in text.splitlines():
        process, line = line.split(None, 1)
        if line.endswith("<unfinished ...>"):
            unfinished[process] = line.removesuffix("<unfinished ...>")
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>", line)
        if resumed: line = unfinished.pop(process) + line[resumed.end():]
        parts = re.match(r"(\w+)\((.*)\)\s+= (\d+)", line)
        if not parts: continue
        text = re.sub(r"AT_FDCWD<[^>]*>", "AT_FDCWD", parts[2])
        words = re.findall(r'"((?:\\x..)*)"|<((?:\\x..|[^>])*)>|([\w-]+)', text)
        arguments = [re.sub(r"\\x(..)", lambda code: chr(int(code[1], 16)), "".join(word)) for word in words]
        yield parts[1], arguments, int(parts[3])


class Commands:
    """Runs commands in directories that each contain a configuration file, a home directory and, if the store has one, a key file."""

    def __init__(self, parent): self.parent = parent

    def run(self, root, *arguments, prefix=()):
        return subprocess.run([*prefix, tool, *arguments, "--config", f"{root}/authflow.json"], capture_output=True, text=True, timeout=60,
                              env=soak_user.environment(root / "home"), cwd=root)

    def token(self, root):
        """The stored access token; None if no user is signed in."""
        result = self.run(root, "token")
        if result.returncode == NOT_SIGNED_IN: return None
        if result.returncode: fail(f"`authflow token` exits with status {result.returncode}", result.stderr, *sorted(tree_of(root)))
        return result.stdout

    def check(self, tree, allowed, signs_in):
        """Checks one tree that may remain after a power failure."""
        with tempfile.TemporaryDirectory(dir=self.parent) as work:
            root = pathlib.Path(work)
            for path, data in tree.items():
                if data is None: (root / path).mkdir(mode=0o700)
                else:
                    (root / path).write_bytes(data)
                    (root / path).chmod(0o600)
            remaining = sorted(f"{path} ({len(data)} bytes)" for path, data in tree.items() if data is not None)
            found = self.token(root)
            if found not in allowed: fail("the store contains neither the previous state nor the new one", *remaining)
            if not signs_in: return
            result = self.run(root, "login")
            if result.returncode: fail("a sign-in fails", result.stderr, *remaining)
            if self.token(root) is None: fail("a sign-in is not stored", *remaining)

    def simulate(self, root, name, before, *arguments):
        """Runs a command, and checks the trees that may remain after a power failure at any moment. Returns the new access token."""
        disk = Disk(root)
        trace = self.parent / "trace"
        prefix = ["strace", "-f", "-y", "-xx", "-s", "10000000", "-e", f"trace={CALLS}", "-o", str(trace)]
        result = self.run(root, *arguments, prefix=prefix)
        if result.returncode: fail(f"{name} fails", result.stderr)
        # `authflow logout` reports to standard error.
        output = "1" if result.stdout else "2"
        shown = read(root).shown()
        after, states, moments, is_reported = self.token(root), {}, 0, False
        for call, arguments, result in recorded_calls(trace.read_text()):
            is_reported = is_reported or call == "write" and arguments[0] == output
            if not disk.apply(call, arguments, result): continue
            moments += 1
            for tree in disk.draw(): states[tuple(sorted(tree.items())), is_reported] = tree
        # The command prevents other processes of its user from reading its memory.
        if not moments: fail("strace shows no paths, because it is not run as root")
        simulated = disk.top.shown()
        wrong = sorted(path for path in shown.keys() | simulated.keys() if shown.get(path, 0) != simulated.get(path, 0))
        if wrong: fail(f"{name}: the recorded operations do not explain the files", *wrong)
        # Nothing more is synced after the command.
        for tree in disk.draw(): states[tuple(sorted(tree.items())), True] = tree
        chosen = random.sample(sorted(states.items(), key=lambda item: repr(item[0])), min(limit, len(states)))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            checks = [pool.submit(self.check, tree, [after] if is_reported else [before, after], number % 5 == 0)
                      for number, ((_, is_reported), tree) in enumerate(chosen)]
            for check in checks: check.result()
        print(f"{name:36} {moments:3} moments, {len(chosen):4} of {len(states):4} trees, each with the previous or the new state")
        return after


def tree_of(root): return [str(path.relative_to(root)) for path in pathlib.Path(root).rglob("*")]


random.seed(20261130)
with tempfile.TemporaryDirectory() as work, soak_user.provider(tool, 60) as issuer:
    for store in [{"name": "file"}, {"name": "encrypted-file", "key_file": "home/keys/key"}]:
        parent = pathlib.Path(work, store["name"])
        disk = parent / "disk"
        (disk / "home").mkdir(parents=True)
        soak_user.configure(disk, issuer, store)
        commands, token = Commands(parent), None
        for command in [["login"], ["token", "--refresh"], ["login"], ["logout", "--local"]]:
            token = commands.simulate(disk, f"{store['name']}: {' '.join(command)}", token, *command)
