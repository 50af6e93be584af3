"""A program that is killed, and what the other end of its connection sees of it. Run by Debian's Python, on any stack.

    ends.py victim CASE ADDRESS PORT      prints "ready" (and what it sent) and waits to be killed
    ends.py observer CASE ADDRESS PORT    prints "listening" or "connected", then in one line what it saw
"""

from __future__ import annotations

import errno
import select
import signal
import socket
import sys
import time

UNREAD = b"nobody reads this"


def victim(case: str, to: tuple[str, int]) -> None:
    if case == "listening":
        listener = socket.create_server(to)
        print("ready", flush=True)
        signal.pause()
    connection = socket.create_connection(to)
    sent = 0
    if case == "unread":
        select.select([connection], [], [])
    elif case == "written":
        connection.setblocking(False)
        try:
            while sent < 1 << 20:
                sent += connection.send(bytes(4096))
        except BlockingIOError:
            pass
    elif case == "shut":
        connection.shutdown(socket.SHUT_WR)
    print(f"ready {sent}", flush=True)
    signal.pause()


def observer(case: str, at: tuple[str, int]) -> None:
    if case == "listening":
        connection = socket.create_connection(at)
        print("connected", flush=True)
    else:
        listener = socket.create_server(at)
        print("listening", flush=True)
        connection, _ = listener.accept()
    if case == "unread":
        connection.sendall(UNREAD)
    seen = saw(connection, case == "written")
    if case == "shut":
        seen += ", then " + sees_when_it_writes(connection)
    if case == "listening":
        seen += ", then " + sees_when_it_connects(at)
    print(f"saw {seen}", flush=True)


def saw(connection: socket.socket, slowly: bool) -> str:
    got = 0
    try:
        while data := connection.recv(65536):
            got += len(data)
            if slowly:
                time.sleep(0.005)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return f"{got} bytes and the end"


def sees_when_it_writes(connection: socket.socket) -> str:
    try:
        while True:
            connection.send(b"x")
            time.sleep(0.02)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def sees_when_it_connects(to: tuple[str, int]) -> str:
    try:
        socket.create_connection(to).close()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "a connection"


if __name__ == "__main__":
    role, case, address, port = sys.argv[1:]
    {"victim": victim, "observer": observer}[role](case, (address, int(port)))
