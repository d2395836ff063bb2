#!/usr/bin/env python3
"""Hands every connection to the next of several servers: alternate.py PORT SERVER_PORT..."""
import asyncio
import itertools
import sys


async def pipe(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def main():
    servers = itertools.cycle(int(port) for port in sys.argv[2:])

    async def serve(reader, writer):
        # One request on each connection, so that the next one goes elsewhere.
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return writer.close()
        head = head.replace(b"Connection: keep-alive", b"Connection: close")
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", next(servers))
        upstream_writer.write(head)
        await asyncio.gather(pipe(reader, upstream_writer), pipe(upstream_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


asyncio.run(main())
