"""WebSocket: a server that says everything again, and a client that sends messages of all sizes."""

from __future__ import annotations

import asyncio
import hashlib
import sys

import tornado.web
import tornado.websocket

SIZES = (0, 1, 125, 126, 65535, 65536, 300_000)


class Echo(tornado.websocket.WebSocketHandler):
    async def on_message(self, message: bytes) -> None:
        await self.write_message(message, binary=True)


async def serve(address: str, port: int) -> None:
    tornado.web.Application([("/", Echo)]).listen(port, address=address)
    await asyncio.Event().wait()


async def talk(host: str, port: int) -> None:
    connection = await tornado.websocket.websocket_connect(f"ws://{host}:{port}/")
    for size in SIZES:
        message = hashlib.shake_128(str(size).encode()).digest(size)
        await connection.write_message(message, binary=True)
        if await connection.read_message() != message:
            sys.exit(f"a message of {size} bytes came back another")
    connection.close()
    print(len(SIZES))


if __name__ == "__main__":
    what, where, number = sys.argv[1:]
    asyncio.run({"serve": serve, "talk": talk}[what](where, int(number)))
