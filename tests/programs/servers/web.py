"""A small HTTP(S) server: GET serves a folder, PUT and POST answer with the sha256 of the body.

    web.py ADDRESS PORT FOLDER [CERTIFICATE KEY]
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import socket
import ssl
import sys


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        left = int(self.headers["Content-Length"])
        digest = hashlib.sha256()
        while left:
            data = self.rfile.read(min(left, 1 << 16))
            if not data:
                break
            digest.update(data)
            left -= len(data)
        answer = digest.hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT


class Server(http.server.ThreadingHTTPServer):
    def server_bind(self) -> None:
        # HTTPServer's own asks the resolver for its name, which would be a query that no row wants.
        super(http.server.HTTPServer, self).server_bind()
        self.server_name, self.server_port = self.server_address[:2]


def main(address: str, port: str, folder: str, *tls: str) -> None:
    if ":" in address:
        Server.address_family = socket.AF_INET6
    server = Server((address, int(port)), functools.partial(Handler, directory=folder))
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


main(*sys.argv[1:])
