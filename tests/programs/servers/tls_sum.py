"""Blocking TLS over plain sockets, without http: the client uploads a file and gets its sha256 back.

    tls_sum.py serve ADDRESS PORT CERTIFICATE KEY
    tls_sum.py send ADDRESS PORT CA FILE
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import struct
import sys
from pathlib import Path


def exactly(stream: ssl.SSLSocket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = stream.recv(size - len(data))
        if not part:
            raise EOFError(f"{len(data)} of {size} bytes")
        data += part
    return bytes(data)


def serve(address: str, port: str, certificate: str, key: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, int(port)), family=family) as listener:
        while True:
            connection, _ = listener.accept()
            with context.wrap_socket(connection, server_side=True) as stream:
                (size,) = struct.unpack("!Q", exactly(stream, 8))
                stream.sendall(hashlib.sha256(exactly(stream, size)).hexdigest().encode())


def send(address: str, port: str, authority: str, file: str) -> None:
    data = Path(file).read_bytes()
    context = ssl.create_default_context(cafile=authority)
    with socket.create_connection((address, int(port)), timeout=20) as connection:
        with context.wrap_socket(connection, server_hostname=address) as stream:
            stream.sendall(struct.pack("!Q", len(data)) + data)
            print(exactly(stream, 64).decode(), stream.version())


{"serve": serve, "send": send}[sys.argv[1]](*sys.argv[2:])
