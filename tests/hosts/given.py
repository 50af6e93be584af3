"""A socket that a program is given as its standard input: each line is what was asked, how, and the answer.

Its argument is the family. With more it makes such a socket, of that address, and becomes the command behind it.
"""

import os
import socket
import sys

from saying import said


def wrote_and_read() -> str:
    os.write(0, b"one")
    return os.read(0, 9).decode()


if __name__ == "__main__":
    family = int(sys.argv[1])
    if sys.argv[2:]:
        host, *command = sys.argv[2:]
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.bind((host, 0))
        made.connect(made.getsockname())
        os.dup2(made.fileno(), 0)
        os.execv(command[0], command)
    # Python asks the socket what it is, where nobody says so.
    given = socket.socket(family, socket.SOCK_DGRAM, 0, fileno=os.dup(0))
    said("a socket from outside", "write and read", wrote_and_read)
    said("a socket from outside", "getsockname", lambda: given.getsockname() and "works")
    said("a socket from outside", "setsockopt", lambda: given.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1))
    said("a socket from outside", "sendmsg", lambda: given.sendmsg([b"x"]) and "works")
    said("a socket from outside", "connect", lambda: given.connect(given.getpeername()))
