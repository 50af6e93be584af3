"""An epoll that another process changes: one that it has by execve, and one that came over a unix socket. Prints what each call says."""

import os, select, socket, subprocess, sys, array
if len(sys.argv) > 1:
    ep, s = (int(w) for w in sys.argv[1:3])
    e = select.epoll.fromfd(ep)
    sock = socket.socket(fileno=s)
    def do(f,*a):
        try: return f(*a)
        except OSError as x: return x.strerror
    print("add again", do(e.register, s, 1))
    print("poll", do(e.poll, .2, 10) == [(s, 1)])
    print("modify", do(e.modify, s, 4), do(e.poll, 1, 10)==[(s,4)])
    print("remove", do(e.unregister, s), do(e.unregister, s))
    print("add", do(e.register, s, 1), do(e.poll, .2, 10)==[(s,1)])
    sys.exit()
for fam, host in ((socket.AF_INET,"127.0.0.1"),(socket.AF_INET6,"::1")):
    s=socket.socket(fam, socket.SOCK_DGRAM); s.bind((host,0)); s.sendto(b"x", s.getsockname())
    e=select.epoll(); e.register(s.fileno(), 1)
    os.set_inheritable(e.fileno(), True); os.set_inheritable(s.fileno(), True)
    subprocess.run([sys.executable, sys.argv[0], str(e.fileno()), str(s.fileno())], pass_fds=(e.fileno(), s.fileno()))
    # over a unix socket, to a process that was there before
    a,b=socket.socketpair()
    e2=select.epoll()
    pid=os.fork()
    if not pid:
        _, fds, _, _ = socket.recv_fds(b, 1, 2)
        for fd in fds: os.set_inheritable(fd, True)
        os.execv(sys.executable, [sys.executable, sys.argv[0], *map(str, fds)])
    t=socket.socket(fam, socket.SOCK_DGRAM); t.bind((host,0)); t.sendto(b"x", t.getsockname())
    e2.register(t.fileno(), 1)
    # the number in the other process is another: register under the number that it will have is not possible; only what is the same is asked
    socket.send_fds(a, [b"x"], [e2.fileno(), t.fileno()])
    os.waitpid(pid,0)
