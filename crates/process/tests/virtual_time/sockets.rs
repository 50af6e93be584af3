//! Sockets of unmodified programs over the node's own stack.

use crate::world::{Ran, World, alone, run_alone};
use std::time::Duration;
use weft_core::Instant;
use weft_process::Status;

/// A server on b, a client on a, started 100 ms later.
fn pair(seed: u64, server: &[&str], client: &[&str]) -> (Ran, World) {
    let mut world = World::new(seed, 2);
    world.start(1, Instant::ZERO, server);
    let pid = world.start(0, Instant::from_millis(500), client);
    world.run(&[(0, pid)], Duration::from_secs(10_000));
    (world.ran(0, pid), world)
}

#[test]
fn loopback_carries_a_conversation_within_a_process() {
    let script = "
import socket, threading, time
s = socket.create_server(('127.0.0.1', 0))
def serve():
    c, a = s.accept()
    with c:
        while d := c.recv(1000): c.sendall(d.upper())
t = threading.Thread(target=serve); t.start()
c = socket.create_connection(s.getsockname())
c.sendall(b'hello'); print(c.recv(100)); c.close(); t.join()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 0)); u.settimeout(0.5)
u.sendto(b'datagram', u.getsockname()); print(u.recvfrom(100)[0])
try: u.recv(1)
except TimeoutError: print('timed out')
try: socket.create_connection(('127.0.0.1', 1))
except ConnectionRefusedError: print('refused')
";
    let ran = run_alone(1, &["/usr/bin/python3", "-c", script]);
    assert_eq!((ran.output.as_str(), ran.error.as_str()), ("b'HELLO'\nb'datagram'\ntimed out\nrefused\n", ""));
}

#[test]
fn what_linux_refuses_as_well_is_not_counted_as_lacking() {
    let script = include_str!("../../../notify/tests/scripts/refused_ioctls.py");
    let mut world = World::new(1, 1);
    let pid = world.start(0, Instant::ZERO, &["/usr/bin/python3", "-c", script]);
    world.run(&[(0, pid)], Duration::from_secs(100));
    assert_eq!(world.ran(0, pid).output, "ENOTTY ENOTTY ENOTTY EINVAL ENOENT EINVAL ENOTSUP ");
    let rows = world.hosts[0].tree.calls().unsupported_rows();
    let counted: Vec<&str> = rows.iter().map(|row| row.request.as_str()).filter(|request| request.starts_with("ioctl")).collect();
    assert_eq!(counted, ["ioctl 0x89b1"]);
}

#[test]
fn several_messages_of_a_blocking_stream_wait_for_room() {
    let script = include_str!("../../../notify/tests/scripts/stream_messages_that_wait.py");
    let native = std::process::Command::new("/usr/bin/python3").args(["-c", script]).output().unwrap();
    let ran = run_alone(1, &["/usr/bin/python3", "-c", script]);
    let wanted = String::from_utf8_lossy(&native.stdout);
    assert_eq!((wanted.lines().count(), ran.output.as_str(), ran.error.as_str()), (5, &*wanted, ""));
}

#[test]
fn curl_fetches_from_http_server() {
    alone(|| {
        let folder = std::env::temp_dir().join(format!("weft-virtual-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(folder.join("file"), &content).unwrap();
        let folder_text = folder.to_str().unwrap().to_owned();
        let server = ["/usr/bin/python3", "-m", "http.server", "8000", "--directory", &folder_text];
        let client = [
            "bash",
            "-c",
            "curl -s --show-error http://10.0.0.2:8000/file | md5sum; curl -s -o /dev/null -w '%{http_code}\\n' http://10.0.0.2:8000/no",
        ];
        let run = || pair(5, &server, &client).0;
        let (one, two) = (run(), run());
        let sum = std::process::Command::new("md5sum").arg(folder.join("file")).output().unwrap();
        let sum = String::from_utf8_lossy(&sum.stdout).split(' ').next().unwrap_or_default().to_owned();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((one.output.as_str(), one.error.as_str()), (format!("{sum}  -\n404\n").as_str(), ""));
        assert_eq!(one, two, "the same seed, the same run");
        assert!(one.at > Instant::from_millis(504), "two round trips of 2 ms at least");
    });
}

#[test]
fn select_poll_and_epoll_mix_sockets_and_pipes() {
    let script = "
import os, select, selectors, socket, time, threading
def later(f, s):
    t = threading.Thread(target=lambda: (time.sleep(s), f())); t.start(); return t
for kind in (selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector):
    sel = kind()
    r, w = os.pipe()
    a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(('127.0.0.1', 0))
    sel.register(r, selectors.EVENT_READ, 'pipe'); sel.register(a, selectors.EVENT_READ, 'socket')
    start = time.monotonic()
    print(kind.__name__, sel.select(0.5), round(time.monotonic() - start, 2))
    t = later(lambda: os.write(w, b'x'), 1)
    print([k.data for k, _ in sel.select(9)], round(time.monotonic() - start, 1)); os.read(r, 1); t.join()
    t = later(lambda: a.sendto(b'y', a.getsockname()), 1)
    print([k.data for k, _ in sel.select(9)], round(time.monotonic() - start, 1)); t.join()
    sel.close(); os.close(r); os.close(w); a.close()
e = select.epoll(); a, b = socket.socketpair(); e.register(a, select.EPOLLIN | select.EPOLLET)
b.send(b'1'); print(len(e.poll(1)), len(e.poll(0.1))); b.send(b'2'); print(len(e.poll(1)))
";
    let ran = run_alone(1, &["/usr/bin/python3", "-c", script]);
    let each = |name: &str| format!("{name} [] 0.5\n['pipe'] 1.5\n['socket'] 2.5\n");
    let wanted = format!("{}{}{}1 0\n1\n", each("SelectSelector"), each("PollSelector"), each("EpollSelector"));
    assert_eq!((ran.output, ran.error.as_str()), (wanted, ""));
}

#[test]
fn sendfile_sends_a_file() {
    let script = "
import socket, threading, os, tempfile
f = tempfile.TemporaryFile(); f.write(bytes(range(256)) * 2000); f.flush(); f.seek(1000)
s = socket.create_server(('127.0.0.1', 0))
got = []
def serve():
    c, _ = s.accept()
    while d := c.recv(65536): got.append(d)
t = threading.Thread(target=serve); t.start()
c = socket.create_connection(s.getsockname())
sent = 0
while n := os.sendfile(c.fileno(), f.fileno(), None, 1 << 20): sent += n
c.close(); t.join(); f.seek(1000)
print(sent, b''.join(got) == f.read(), f.tell())
";
    let ran = run_alone(1, &["/usr/bin/python3", "-c", script]);
    assert_eq!((ran.output.as_str(), ran.error.as_str()), ("511000 True 512000\n", ""));
}

#[test]
fn asyncio_talks_across_the_wire() {
    alone(|| {
        let server = "
import asyncio
async def serve(r, w):
    while line := await r.readline():
        await asyncio.sleep(0.1)
        w.write(line.upper()); await w.drain()
    w.close()
async def main():
    async with await asyncio.start_server(serve, '10.0.0.2', 7777) as s: await s.serve_forever()
asyncio.run(main())
";
        let client = "
import asyncio, time
async def one(n):
    r, w = await asyncio.open_connection('10.0.0.2', 7777)
    w.write(f'message {n}\\n'.encode()); line = await r.readline(); w.close(); await w.wait_closed(); return line
async def main():
    start = time.monotonic()
    print(await asyncio.gather(*(one(n) for n in range(5))), round(time.monotonic() - start, 1))
asyncio.run(main())
";
        let (ran, _) = pair(1, &["/usr/bin/python3", "-c", server], &["/usr/bin/python3", "-c", client]);
        assert_eq!(ran.error, "");
        assert!(ran.output.starts_with("[b'MESSAGE 0\\n', b'MESSAGE 1\\n'") && ran.output.ends_with("] 0.1\n"), "{}", ran.output);
        assert_eq!(ran.status, Status::Exited(0));
    });
}
