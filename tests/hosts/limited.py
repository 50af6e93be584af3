"""Opens sockets until no more are given, closes them, and opens as many at once, some times: are all of them there again?"""

import errno
import socket

TIMES = 20


def opened(most: int) -> list[socket.socket]:
    made = []
    try:
        while len(made) < most:
            made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
    return made


def again() -> str:
    for _ in range(TIMES):
        first = opened(10_000)
        for one in first:
            one.close()
        second = opened(len(first))
        if len(second) < len(first):
            return "some"
        for one in second:
            one.close()
    return "all"


print(again())
