import ctypes, errno, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
s = socket.create_server(("127.0.0.1", 0))
s.setblocking(False)
for address, length in ((8, ctypes.byref(ctypes.c_int(16))), (ctypes.create_string_buffer(16), ctypes.c_void_p(8)),
                        (ctypes.create_string_buffer(16), ctypes.byref(ctypes.c_int(-1)))):
    c = socket.create_connection(s.getsockname()); c.settimeout(10)
    while libc.accept(s.fileno(), ctypes.c_void_p(address) if address == 8 else address, length) >= 0 or ctypes.get_errno() == errno.EAGAIN: pass
    print(errno.errorcode[ctypes.get_errno()], c.recv(1))
    try: s.accept(); print("it is there once more")
    except BlockingIOError: pass
