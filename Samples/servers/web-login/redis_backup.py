#!/usr/bin/env python3
"""Backs up the records of AuthFlow in Redis, and restores them: STORE=... redis_backup.py backup|restore FILE

STORE is the store of the configuration, with its password in the URL: {"url": "unix:PATH"} or {"url": "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]", "prefix": "authflow"}. It is an
environment variable because other users can read arguments. Stop the processes before a restore. Records that have expired since the backup are
not restored.
"""
import base64
import json
import os
import socket
import sys
import time
import urllib.parse


class Redis:
    """A connection (RESP2)."""

    def __init__(self, server):
        url = urllib.parse.urlsplit(server)
        if url.scheme == "unix":
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(url.path)
        elif url.scheme == "redis":
            self.socket = socket.create_connection((url.hostname, url.port or 6379))
        else:
            sys.exit(f"redis_backup: {url.scheme} is not supported")
        self.replies = self.socket.makefile("rb")
        if url.password:
            self.run("AUTH", *[urllib.parse.unquote(part) for part in (url.username, url.password) if part])
        if url.scheme == "redis" and url.path.strip("/"):
            self.run("SELECT", url.path.strip("/"))

    def run(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self.reply()

    def reply(self):
        line = self.replies.readline()
        if not line.endswith(b"\r\n"):
            sys.exit("redis_backup: the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            sys.exit(f"redis_backup: {rest.decode()}")
        if kind == b"$":
            return None if rest == b"-1" else self.replies.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def keys(self, prefix):
        cursor, found = b"0", set()
        while True:
            cursor, some = self.run("SCAN", cursor, "MATCH", f"{prefix}:*", "COUNT", 1000)
            found.update(some)
            if cursor == b"0":
                return sorted(found)


def backup(redis, file, prefix):
    records = []
    for key in redis.keys(prefix):
        value, left = redis.run("DUMP", key), redis.run("PTTL", key)
        # The record may have expired in the meantime.
        if value is not None and left != -2:
            end = int(time.time() * 1000) + left if left >= 0 else 0
            records.append([base64.b64encode(key).decode(), base64.b64encode(value).decode(), end])
    if not records:
        sys.exit(f"redis_backup: there are no records with the prefix {prefix}")
    # The backup contains tokens, so an earlier file is replaced with a new file that no other user can read.
    new = f"{file}.{os.getpid()}"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as output:
        json.dump(records, output)
        output.flush()
        os.fsync(output.fileno())
    os.rename(new, file)


def restore(redis, file, prefix):
    with open(file) as saved:
        records = json.load(saved)
    # Restores to temporary keys first: if this server cannot read a value, the existing records stay unchanged.
    temporary = f"{prefix}-restored-{os.getpid()}:".encode()
    restored = []
    try:
        for key, value, end in records:
            key, left = base64.b64decode(key), end - int(time.time() * 1000) if end else 0
            if end and left <= 0:
                continue
            redis.run("RESTORE", temporary + key, left, base64.b64decode(value), "REPLACE")
            restored.append(key)
    except BaseException:
        for key in restored:
            redis.run("DEL", temporary + key)
        raise
    old = redis.keys(prefix)
    redis.run("MULTI")
    for key in old:
        redis.run("DEL", key)
    for key in restored:
        redis.run("RENAME", temporary + key, key)
    redis.run("EXEC")


if __name__ == "__main__":
    action, path = sys.argv[1:]
    store = json.loads(os.environ["STORE"])
    {"backup": backup, "restore": restore}[action](Redis(store["url"]), path, store.get("prefix", "authflow"))
