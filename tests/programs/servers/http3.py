"""HTTP/3 with aioquic: a server that serves one file and sums what is posted, and its client.

    http3.py serve ADDRESS PORT CERTIFICATE KEY FILE
    http3.py fetch ADDRESS PORT CA COUNT FILE      COUNT fetches at once over one connection, then FILE posted; prints sums
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from pathlib import Path

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, QuicEvent


class Http3(QuicConnectionProtocol):
    """What both sides do: hand data of streams to `received`."""

    def __init__(self, *words, **more) -> None:
        super().__init__(*words, **more)
        self.http: H3Connection | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if self.http is not None:
            for one in self.http.handle_event(event):
                if isinstance(one, (HeadersReceived, DataReceived)):
                    self.received(one)

    def received(self, event: HeadersReceived | DataReceived) -> None:
        raise NotImplementedError


class Server(Http3):
    file: bytes

    def __init__(self, *words, **more) -> None:
        super().__init__(*words, **more)
        self._methods: dict[int, bytes] = {}
        self._digests: dict[int, "hashlib._Hash"] = {}

    def received(self, event: HeadersReceived | DataReceived) -> None:
        stream = event.stream_id
        if isinstance(event, HeadersReceived):
            self._methods[stream] = dict(event.headers)[b":method"]
            self._digests[stream] = hashlib.sha256()
        else:
            self._digests[stream].update(event.data)
        if event.stream_ended:
            digest = self._digests.pop(stream).hexdigest().encode()
            body = self.file if self._methods.pop(stream) == b"GET" else digest
            self.http.send_headers(stream, [(b":status", b"200")])
            self.http.send_data(stream, body, end_stream=True)
            self.transmit()


class Client(Http3):
    def __init__(self, *words, **more) -> None:
        super().__init__(*words, **more)
        self._bodies: dict[int, bytearray] = {}
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    def received(self, event: HeadersReceived | DataReceived) -> None:
        stream = event.stream_id
        if isinstance(event, HeadersReceived):
            assert dict(event.headers)[b":status"] == b"200", event.headers
        else:
            self._bodies[stream] += event.data
        if event.stream_ended:
            self._waiting.pop(stream).set_result(bytes(self._bodies.pop(stream)))

    async def request(self, method: bytes, body: bytes = b"") -> bytes:
        stream = self._quic.get_next_available_stream_id()
        self._bodies[stream] = bytearray()
        future = self._waiting[stream] = asyncio.get_running_loop().create_future()
        self.http.send_headers(stream, [(b":method", method), (b":scheme", b"https"), (b":authority", b"server.weft.test"),
                                        (b":path", b"/")], end_stream=not body)
        if body:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        return await future


async def serve_file(address: str, port: str, certificate: str, key: str, file: str) -> None:
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=False)
    configuration.load_cert_chain(certificate, key)
    Server.file = Path(file).read_bytes()
    await serve(address, int(port), configuration=configuration, create_protocol=Server)
    await asyncio.Event().wait()


async def fetch(address: str, port: str, authority: str, count: str, file: str) -> None:
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=True, server_name="server.weft.test")
    configuration.load_verify_locations(authority)
    # aioquic's socket is a dual-stack one: IPv4 goes through ::ffff:a.b.c.d.
    async with connect(address, int(port), configuration=configuration, create_protocol=Client) as client:
        for body in await asyncio.gather(*(client.request(b"GET") for _ in range(int(count)))):
            print(hashlib.sha256(body).hexdigest())
        print((await client.request(b"POST", Path(file).read_bytes())).decode())


asyncio.run({"serve": serve_file, "fetch": fetch}[sys.argv[1]](*sys.argv[2:]))
