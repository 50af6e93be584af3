"""A program of random worlds (worlds.py): threads, asyncio, processes and signals of Python, drawn from a number; each result is told with the time.

    talks.py HOST PORT COUNT SEED     the server is talks.c's
"""

import asyncio
import contextlib
import fcntl
import mmap
import os
import pty
import queue
import random
import resource
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib

HOST, PORT, COUNT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(int(sys.argv[4]))


def tell(*what):
    print(*what, time.monotonic_ns(), flush=True)


@contextlib.contextmanager
def told(what):
    """What the network does is told, not raised."""
    try:
        yield
    except OSError as error:
        tell(what, type(error).__name__, error.errno)


def connect():
    connection = socket.create_connection((HOST, PORT), draw.uniform(0.1, 2))
    if draw.random() < 0.3:
        connection.setblocking(True)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, (1).to_bytes(8, "little") + (0).to_bytes(8, "little"))
    return connection


def order(what, kib):
    return what + kib.to_bytes(3, "big")


def echo():
    with connect() as connection:
        connection.sendall(order(b"e", 0))
        for _ in range(draw.randint(1, 8)):
            text = draw.randbytes(draw.randint(1, 6000))
            connection.sendall(text)
            got = b""
            while len(got) < len(text) and (piece := connection.recv(draw.randint(1, 9000))):
                got += piece
            tell("echoed", len(got))
            if not text.startswith(got):
                sys.exit("the echo is not what was sent")
            if draw.random() < 0.4:
                time.sleep(draw.uniform(0, 0.05))


def fetch():
    with connect() as connection, connection.makefile("rb") as file:
        connection.sendall(order(b"g", draw.randint(1, 200)))
        if draw.random() < 0.5:
            connection.shutdown(socket.SHUT_WR)
        tell("fetched", sum(len(piece) for piece in iter(lambda: file.read(draw.randint(1, 50000)) or b"", b"")))


def sends_file():
    with connect() as connection, open("/tmp/file", "w+b") as file:
        kib = draw.randint(1, 200)
        file.write(os.urandom(kib * 1024))
        file.seek(0)
        connection.sendall(order(b"s", kib))
        tell("sent", connection.sendfile(file))
        tell("answer", connection.recv(20))


def threads():
    done, lock = queue.Queue(draw.randint(1, 5)), threading.Lock()

    def work(number):
        for turn in range(draw.randint(1, 5)):
            with lock:
                tell("thread", number, turn)
            with told("thread"):
                draw.choice([echo, fetch, lambda: time.sleep(draw.uniform(0, 0.02)), datagrams])()
            done.put((number, turn))
        done.put(None)

    several = [threading.Thread(target=work, args=(number,)) for number in range(draw.randint(2, 4))]
    for thread in several:
        thread.start()
    left = len(several)
    while left:
        try:
            item = done.get(timeout=draw.uniform(0.001, 0.2))
        except queue.Empty:
            tell("nothing")
            continue
        left -= item is None
        tell("item", item)
    for thread in several:
        thread.join()


def datagrams():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
        datagram.settimeout(draw.choice([0, 0.01, 0.2]))
        if draw.random() < 0.5:
            datagram.connect((HOST, PORT))
            send = datagram.send
        else:
            def send(text):
                return datagram.sendto(text, (HOST, PORT))
        for number in range(draw.randint(1, 15)):
            with told("datagram"):
                send(b"%d" % number * draw.randint(1, 600))
                tell("ready", len(select.select([datagram], [], [], draw.uniform(0, 0.1))[0]))
                tell("answer", len(datagram.recv(4000)))


def several_at_once():
    async def one(number):
        try:
            async with asyncio.timeout(draw.uniform(0.05, 2)):
                reader, writer = await asyncio.open_connection(HOST, PORT)
                writer.write(order(b"e", 0))
                for turn in range(draw.randint(1, 4)):
                    text = b"x" * draw.randint(1, 3000)
                    writer.write(text)
                    await writer.drain()
                    tell("async", number, turn, len(await reader.readexactly(len(text))))
                    await asyncio.sleep(draw.uniform(0, 0.02))
                writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            tell("async", number, type(error).__name__)

    async def all_of_them():
        await asyncio.gather(*[one(number) for number in range(draw.randint(1, 6))])

    asyncio.run(all_of_them())


def processes():
    commands = [["sh", "-c", f"sleep 0.0{draw.randint(0, 9)}; echo $$ $PPID; exit {number}"] for number in range(draw.randint(1, 4))]
    made = [subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) for command in commands]
    if draw.random() < 0.5:
        time.sleep(draw.uniform(0, 0.03))
        draw.choice(made).send_signal(draw.choice([signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP]))
        time.sleep(0.01)
    for process in made:
        process.send_signal(signal.SIGCONT)
        tell("process", process.communicate()[0], process.returncode)


def alarms():
    seen = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append(time.monotonic_ns()))
    signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0001, 0.03), draw.uniform(0.001, 0.03))
    try:
        for _ in range(draw.randint(1, 3)):
            with told("alarmed"):
                draw.choice([echo, fetch, datagrams, lambda: time.sleep(draw.uniform(0, 0.1)), processes])()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    tell("alarms", seen)


def many():
    """Connections in one selector."""
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for number in range(draw.randint(1, 5)):
            with told("many"):
                connection = stack.enter_context(connect())
                connection.setblocking(False)
                connection.send(order(b"g", draw.randint(1, 60)))
                selector.register(connection, selectors.EVENT_READ, number)
        for _ in range(200):
            if not selector.get_map():
                break
            for key, _ in selector.select(draw.uniform(0, 0.3)):
                piece = b""
                with told("many"):
                    piece = key.fileobj.recv(draw.randint(1, 30000))
                tell("many", key.data, len(piece))
                if not piece:
                    selector.unregister(key.fileobj)


def listens():
    """A server of its own, over the loopback."""
    with socket.create_server(("", 0)) as server:
        port, text = server.getsockname()[1], os.urandom(draw.randint(1, 300000))

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.sendall(text)

        thread = threading.Thread(target=serve)
        thread.start()
        with socket.create_connection(("localhost", port)) as connection:
            got = b"".join(iter(lambda: connection.recv(draw.randint(1, 70000)), b""))
        thread.join()
        tell("over the loopback", len(got))
        if got != text:
            sys.exit("what comes over the loopback is not what was sent")


def files():
    """Files, their order, times, locks and ends."""
    with tempfile.TemporaryDirectory() as name, open(f"{name}/lock", "w") as lock:
        for number in range(draw.randint(1, 40)):
            with open(f"{name}/{draw.randrange(10**6)}", "wb") as file:
                file.write(os.urandom(draw.randint(0, 5000)))
        tell("files", name, [(entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in os.scandir(name)])
        with mmap.mmap(-1, 4096) as shared:
            if os.fork() == 0:
                with open(f"{name}/lock") as own:
                    fcntl.flock(own, fcntl.LOCK_EX)
                    time.sleep(draw.uniform(0, 0.02))
                    shared[0] = 1
                os._exit(0)
            time.sleep(draw.uniform(0, 0.01))
            fcntl.flock(lock, fcntl.LOCK_EX)
            tell("locked", shared[0])
            fcntl.flock(lock, fcntl.LOCK_UN)
            tell("waited", os.wait()[1], shared[0])


def neighbours():
    """AF_UNIX sockets, pipes and a terminal between processes."""
    kind = draw.choice([socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET])
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    one.settimeout(draw.choice([0.005, 0.1]))
    if os.fork() == 0:
        one.close()
        for _ in range(draw.randint(1, 6)):
            time.sleep(draw.uniform(0, 0.01))
            with told("child"):
                other.send(os.urandom(draw.randint(1, 3000)))
        os._exit(0)
    other.close()
    for _ in range(8):
        with told("neighbour"):
            tell("neighbour", len(one.recv(2000)))
    one.close()
    tell("waited", os.wait()[1])
    child, terminal = pty.fork()
    if child == 0:
        os.execvp("sh", ["sh", "-c", "read line; echo \"<$line>\"; sleep 0.01; stty size; tty; exit 3"])
    os.write(terminal, b"some words\n")
    text = b""
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, draw.randint(1, 100)):
            text += piece
    tell("terminal", text, os.waitpid(child, 0)[1])
    os.close(terminal)


def looks():
    """What the kernel tells about itself and its processes."""
    for name in draw.sample(["/proc/self/stat", "/proc/self/status", "/proc/uptime", "/proc/loadavg", "/proc/stat", "/proc/net/tcp", "/proc/net/dev", "/proc/self/io", "/proc/meminfo",
                             "/proc/self/maps", "/proc/self/fdinfo/0", "/proc/self/limits", "/proc/vmstat", "/proc/self/schedstat", "/proc/interrupts", "/proc/self/mountinfo"], 4):
        with told(name), open(name) as file:
            tell(name, zlib.crc32(file.read().encode()))
    tell(os.listdir("/proc"), os.times(), time.process_time_ns(), resource.getrusage(resource.RUSAGE_SELF), os.stat("/proc/self/fd/1").st_ino)
    tell(os.getloadavg(), shutil.disk_usage("/tmp"), os.stat("/tmp").st_mtime_ns, os.stat("/etc/hosts").st_ino, os.uname(), os.cpu_count())


def chance():
    tell(os.urandom(4).hex(), random.random(), hash("text"), id(object()) % 4096, os.getpid(), sorted(os.listdir("/proc/self/task")))


THINGS = [echo, fetch, sends_file, threads, datagrams, several_at_once, processes, alarms, many, listens, chance, files, neighbours, looks]
for number in range(COUNT):
    thing = draw.choice(THINGS)
    tell(number, thing.__name__)
    with told(thing.__name__):
        thing()
    time.sleep(draw.choice([0, draw.uniform(0, 0.1)]))
tell("done")
