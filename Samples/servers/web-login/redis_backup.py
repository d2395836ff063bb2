#!/usr/bin/env python3
"""Backs up the records of AuthFlow in Redis, and restores them: redis_backup.py backup|restore SERVER FILE [PREFIX]

SERVER is unix:PATH or redis://[USER:PASSWORD@]HOST[:PORT]. Stop the processes before a restore. Records that have expired since are not restored.
"""
import base64
import json
import os
import socket
import sys
import time
import urllib.parse


class Redis:
    """A connection (the protocol's version 2)."""

    def __init__(self, server):
        url = urllib.parse.urlsplit(server)
        if url.scheme == "unix":
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(url.path)
        else:
            self.socket = socket.create_connection((url.hostname, url.port or 6379))
        self.replies = self.socket.makefile("rb")
        if url.password:
            self.run("AUTH", *[urllib.parse.unquote(part) for part in (url.username, url.password) if part])

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
        if value is not None:
            end = int(time.time() * 1000) + left if left >= 0 else 0
            records.append([base64.b64encode(key).decode(), base64.b64encode(value).decode(), end])
    # It has tokens in it.
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as output:
        json.dump(records, output)


def restore(redis, file, prefix):
    with open(file) as saved:
        records = json.load(saved)
    old = redis.keys(prefix)
    # All or nothing, so that a restore that is broken off can be repeated.
    redis.run("MULTI")
    for key in old:
        redis.run("DEL", key)
    now = int(time.time() * 1000)
    for key, value, end in records:
        if end == 0 or end > now:
            redis.run("RESTORE", base64.b64decode(key), max(end - now, 0) if end else 0, base64.b64decode(value), "REPLACE")
    for result in redis.run("EXEC"):
        assert result is not None


if __name__ == "__main__":
    action, server, path, *names = sys.argv[1:]
    {"backup": backup, "restore": restore}[action](Redis(server), path, names[0] if names else "authflow")
