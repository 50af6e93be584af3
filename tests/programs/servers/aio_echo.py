"""An asyncio echo server and its client of many connections at once.

    aio_echo.py serve ADDRESS PORT
    aio_echo.py echo ADDRESS PORT CONNECTIONS BYTES      prints how many came back equal
"""

from __future__ import annotations

import asyncio
import random
import sys


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve(address: str, port: str) -> None:
    server = await asyncio.start_server(echo, address, int(port))
    await server.serve_forever()


async def one(address: str, port: int, number: int, size: int) -> bool:
    """Writes and reads at once, half-closes, wants back what it sent and then the end."""
    sent = random.Random(number).randbytes(size)
    reader, writer = await asyncio.open_connection(address, port)

    async def send() -> None:
        writer.write(sent)
        await writer.drain()
        writer.write_eof()

    _, received = await asyncio.gather(send(), reader.read(-1))
    writer.close()
    await writer.wait_closed()
    return received == sent


async def client(address: str, port: str, connections: str, size: str) -> None:
    equal = await asyncio.gather(*(one(address, int(port), n, int(size)) for n in range(int(connections))))
    print(sum(equal))


asyncio.run({"serve": serve, "echo": client}[sys.argv[1]](*sys.argv[2:]))
