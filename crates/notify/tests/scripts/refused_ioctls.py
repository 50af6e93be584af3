"""Requests that Linux refuses as well, and one that weft has not: SIOCGHWTSTAMP."""

import ctypes
import errno
import socket

libc = ctypes.CDLL(None, use_errno=True)
libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]
inet, local = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socketpair()[0]
listener = socket.create_server(("127.0.0.1", 0))
# SIOCGIFADDR, SIOCDIFADDR, SIOCGIFMEM, SIOCGIFSLAVE, SIOCGSTAMP, FIONREAD
for s, request in ((local, 0x8915), (inet, 0x8936), (inet, 0x891F), (inet, 0x8929), (inet, 0x8906), (listener, 0x541B), (inet, 0x89B1)):
    room = ctypes.create_string_buffer(b"lo", 128)
    assert libc.ioctl(s.fileno(), request, room) < 0
    print(errno.errorcode[ctypes.get_errno()], end=" ")
