"""A web server over Multipath TCP's sockets: serve.py FOLDER ADDRESS PORT."""

from __future__ import annotations

import functools
import http.server
import socket
import sys

IPPROTO_MPTCP = 262


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, folder: str, address: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
        super().__init__((address, port), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = socket.socket(self.address_family, socket.SOCK_STREAM, IPPROTO_MPTCP)
        self.server_bind()
        self.server_activate()


with Server(sys.argv[1], sys.argv[2], int(sys.argv[3])) as server:
    print("ready", flush=True)
    server.serve_forever()
