"""A server for one connection: whom it sees. With a second argument a client of a port, which says who it is and what came of it."""

import errno
import socket
import sys

port = int(sys.argv[1])
if sys.argv[2:]:
    try:
        with socket.create_connection(("127.0.0.1", port)) as s:
            mine = s.getsockname()
            got = s.recv(100).decode()
        print("own address" if got == repr(mine) else "another address" if got else "the end")
    except OSError as error:
        print(errno.errorcode[error.errno])
else:
    with socket.create_server(("", port)) as server:
        print("serves", flush=True)
        connection, sender = server.accept()
        connection.sendall(repr(sender).encode())
