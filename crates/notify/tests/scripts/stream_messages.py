import ctypes, mmap, socket
libc = ctypes.CDLL(None, use_errno=True)
BYTES = 3_000_000
class Vector(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
class Header(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_length", ctypes.c_uint), ("vectors", ctypes.c_void_p), ("count", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t), ("flags", ctypes.c_int),
                ("padding", ctypes.c_int), ("sent", ctypes.c_uint), ("end", ctypes.c_int)]
texts = [ctypes.create_string_buffer(letter * BYTES, BYTES) for letter in (b"1", b"2")]
vectors = [Vector(ctypes.addressof(text), BYTES) for text in texts]
listener = socket.create_server(("127.0.0.1", 0))
def show(headers, room):
    headers[:] = [Header(None, 0, ctypes.addressof(vector), 1, None, 0, 0, 0) for vector in vectors]
    one = socket.create_connection(listener.getsockname())
    other, _ = listener.accept()
    if room: one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)
    one.setblocking(False)
    count = libc.sendmmsg(one.fileno(), headers, 2, 0)
    wanted = b"".join(letter * header.sent for letter, header in zip((b"1", b"2"), headers[:count]))
    one.close()
    got = bytearray()
    while piece := other.recv(1 << 16): got += piece
    print(count > 0, bytes(got) == wanted, all(header.sent == BYTES for header in headers[:count - 1]))
show((Header * 2)(), 0)
# A worker of weft's writes into such memory, and there is still room when it has.
show((Header * 2).from_buffer(mmap.mmap(-1, 4096)), 4 << 20)
