import ctypes, itertools, signal, socket, struct, threading
libc = ctypes.CDLL(None, use_errno=True)
class Vector(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
class Header(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_length", ctypes.c_uint), ("vectors", ctypes.c_void_p), ("count", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t), ("flags", ctypes.c_int),
                ("padding", ctypes.c_int), ("sent", ctypes.c_uint), ("end", ctypes.c_int)]
listener = socket.create_server(("127.0.0.1", 0))
signal.signal(signal.SIGALRM, lambda *_: None)
def show(what, lengths, reads=False, limit=0, alarm=0):
    """Sends messages of a blocking stream: the answer, how much of each it says is sent, and whether that arrives."""
    letters = [bytes([at]) for at in range(len(lengths))]
    texts = [ctypes.create_string_buffer(letter * length, length) for letter, length in zip(letters, lengths)]
    vectors = [Vector(ctypes.addressof(text), length) for text, length in zip(texts, lengths)]
    headers = (Header * len(lengths))(*(Header(None, 0, ctypes.addressof(vector), 1, None, 0, 0, 0) for vector in vectors))
    one = socket.create_connection(listener.getsockname())
    other, _ = listener.accept()
    got = bytearray()
    def read():
        while piece := other.recv(1 << 16): got.extend(piece)
    reader = threading.Thread(target=read)
    if reads: reader.start()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("qq", 0, limit))
    signal.setitimer(signal.ITIMER_REAL, alarm)
    count = libc.sendmmsg(one.fileno(), headers, len(lengths), 0)
    wanted = b"".join(letter * header.sent for letter, header in zip(letters, headers))
    one.close()
    if not reads: reader.start()
    reader.join()
    said = ["all" if header.sent == length else "a part" if header.sent else "nothing" for header, length in zip(headers, lengths)]
    print(what, count, [one for one, _ in itertools.groupby(said)], bytes(got) == wanted, flush=True)
BIG = 9_000_000
show("room comes:", [BIG, 10, BIG], reads=True)
show("many:", [70_000] * 100, reads=True)
show("a time limit:", [10, BIG, 10], limit=300_000)
show("a signal, the third:", [10, 20, BIG, 10], alarm=0.3)
show("a signal, the first:", [BIG, BIG], alarm=0.3)
