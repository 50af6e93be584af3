import ctypes, errno, mmap, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
pages = mmap.mmap(-1, 8192)
end = ctypes.addressof(ctypes.c_char.from_buffer(pages)) + 4096
assert libc.munmap(ctypes.c_void_p(end), 4096) == 0
r = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); r.bind(("127.0.0.1", 0)); r.settimeout(10)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
name = struct.pack("=H", socket.AF_INET) + struct.pack("!H", r.getsockname()[1]) + socket.inet_aton("127.0.0.1") + bytes(8)
for length in (64, 4):
    print(libc.sendto(s.fileno(), ctypes.c_void_p(end - 4), length, 0, name, 16), errno.errorcode.get(ctypes.get_errno()))
    ctypes.set_errno(0)
print(len(r.recv(100)))
