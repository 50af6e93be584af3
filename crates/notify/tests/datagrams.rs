//! Datagram sockets of unmodified programs, and names.

mod support;

use support::Host;

#[test]
fn unconnected_sockets_tell_sources_whatever_is_read_in_between() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, os, select, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 7000)); s.settimeout(5)
cs = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for i in range(3)]
for i, c in enumerate(cs): c.bind(("127.0.0.1", 7001 + i))
for n in range(3):
    for c in cs: c.sendto(b"x" * (n + 1), ("127.0.0.1", 7000))
time.sleep(0.2)
assert s.recvfrom(10) == (b"x", ("127.0.0.1", 7001))
assert s.recv(10) == b"x"
assert s.recvmsg(10, 100)[3] == ("127.0.0.1", 7003)
assert os.read(s.fileno(), 10) == b"xx"
assert s.recvfrom(10, socket.MSG_PEEK) == (b"xx", ("127.0.0.1", 7002))
assert s.recvfrom(10) == (b"xx", ("127.0.0.1", 7002))
assert s.recvfrom(1) == (b"x", ("127.0.0.1", 7003))
d, _, flags, a = s.recvmsg(1); assert (d, a, flags & socket.MSG_TRUNC) == (b"x", ("127.0.0.1", 7001), socket.MSG_TRUNC)
cs[0].sendto(b"", ("127.0.0.1", 7000))
assert s.recv(10) == b"xxx" and s.recv(10) == b"xxx"
assert s.recvfrom(10) == (b"", ("127.0.0.1", 7001))
"#,
    );
    host.until("all stand-ins closed", |host| host.supervisor.stand_ins() == 0);
}

#[test]
fn connected_sockets_write_and_read_natively_and_learn_of_refusals() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, os, select, errno, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 7010))
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); c.connect(("127.0.0.1", 7010))
os.write(c.fileno(), b"one"); c.send(b"two")
s.settimeout(5)
d, a = s.recvfrom(10); assert d == b"one" and a == c.getsockname()
s.sendto(b"back", a); c.settimeout(5); assert c.recv(10) == b"back"
assert s.recv(10) == b"two"
n = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); n.connect(("127.0.0.1", 7)); n.send(b"x")
p = select.poll(); p.register(n, select.POLLIN); assert p.poll(5000)
try: n.recvfrom(10); raise SystemExit("received")
except ConnectionRefusedError: pass
assert p.poll(0) == []
"#,
    );
}

#[test]
fn many_datagrams_pass_in_order_while_there_is_room() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 7020)); s.settimeout(5)
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); c.connect(("127.0.0.1", 7020))
n = 0
for i in range(2000):
    c.send(struct.pack("I", i) + b"x" * (i % 1400))
    d = s.recv(2000) if i % 2 else s.recvfrom(2000)[0]
    assert struct.unpack("I", d[:4]) == (i,) and len(d) == 4 + i % 1400
"#,
    );
}

#[test]
fn interfaces_and_addresses_come_from_the_node() {
    let mut host = Host::new();
    let names = host.python("import socket; print([n for _, n in socket.if_nameindex()])");
    assert_eq!(names.trim(), "['lo', 'weft0']");
    let address = host.run(&["ip", "-4", "-o", "addr"]);
    assert!(address.output.contains("10.77.0.2/24") && address.output.contains("127.0.0.1/8"), "{}", address.output);
    let routes = host.run(&["ip", "route"]);
    assert!(routes.output.contains("default via 10.77.0.1 dev weft0"), "{}", routes.output);
    let get = host.run(&["ip", "route", "get", "192.0.2.1"]);
    assert!(get.output.contains("192.0.2.1 via 10.77.0.1 dev weft0"), "{}", get.output);
    let change = host.run(&["ip", "link", "set", "weft0", "mtu", "1400"]);
    assert_eq!(change.code, 0, "{}", change.output);
    assert!(host.run(&["ip", "link", "show", "weft0"]).output.contains("mtu 1400"));
    let refused = host.run(&["ip", "link", "set", "weft0", "mtu", "3"]);
    assert!(refused.code != 0 && refused.output.contains("mtu less than device minimum"), "{}", refused.output);
    host.python(
        r#"
import socket, fcntl, struct
def refused(s, request, name):
    try: fcntl.ioctl(s, request, struct.pack("40s", name))
    except OSError as e: return e.errno
inet, local = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
r = fcntl.ioctl(inet, 0x8915, struct.pack("40s", b"weft0")); assert socket.inet_ntoa(r[20:24]) == "10.77.0.2"
r = fcntl.ioctl(inet, 0x891b, struct.pack("40s", b"weft0")); assert socket.inet_ntoa(r[20:24]) == "255.255.255.0"
assert socket.if_nametoindex("weft0") > 1 and socket.if_nametoindex("lo") == 1
for s in inet, local:
    assert struct.unpack("i", fcntl.ioctl(s, 0x8921, struct.pack("40s", b"weft0"))[16:20])[0] > 1279, "MTU"
    assert refused(s, 0x8921, b"eth0") == 19, "the host's interface"
assert refused(inet, 0x8915, b"eth0") == 19 and refused(local, 0x8915, b"weft0") == 25, "addresses are asked through AF_INET"
"#,
    );
}

#[test]
fn names_are_resolved_by_the_name_server_in_the_programs_own_resolv_conf() {
    let mut host = Host::new();
    let mut server = host.start(&[
        "dnsmasq",
        "--keep-in-foreground",
        "--no-resolv",
        "--no-hosts",
        "--conf-file=/dev/null",
        "--pid-file=",
        "--port=53",
        "--listen-address=127.0.0.1",
        "--bind-interfaces",
        "--user=root",
        "--address=/weft.test/192.0.2.7",
        "--log-facility=-",
        "--log-queries",
    ]);
    host.until_output(&mut server, "started");
    let with_resolv = |host: &mut Host, arguments: &[&str]| {
        let program = host.start_with(arguments, |command| {
            command.resolv_conf("nameserver 127.0.0.1\n");
        });
        assert_eq!(program.resolv_conf(), Ok(()));
        host.finish(program)
    };
    let cat = with_resolv(&mut host, &["cat", "/etc/resolv.conf"]);
    assert_eq!(cat.output, "nameserver 127.0.0.1\n");
    let getent = with_resolv(&mut host, &["getent", "ahostsv4", "weft.test"]);
    assert!(getent.output.contains("192.0.2.7"), "{} {}", getent.code, getent.output);
    let dig = with_resolv(&mut host, &["dig", "+short", "weft.test"]);
    assert_eq!(dig.output.trim(), "192.0.2.7");
    server.kill(libc::SIGTERM);
    host.finish(server);
}

#[test]
fn ss_shows_the_nodes_sockets() {
    let mut host = Host::new();
    let script = r#"
import socket, subprocess
s = socket.socket(); s.bind(("127.0.0.1", 8000)); s.listen(7)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 53)); u.connect(("127.0.0.1", 5353))
c = socket.create_connection(("127.0.0.1", 8000)); c.sendall(b"12345")
def ss(*options): return sorted(" ".join(line.split()) for line in subprocess.check_output(["ss", "-Hn", *options], text=True).splitlines())
print(ss("-tl"), ss("-u"), [line.split(" ")[:3] for line in ss("-t", "state", "established", "sport = :8000")], sep="\n")
"#;
    let expected = "['LISTEN 1 7 127.0.0.1:8000 0.0.0.0:*']\n['0 0 127.0.0.1:53 127.0.0.1:5353']\n[['5', '0', '127.0.0.1:8000']]\n";
    assert_eq!(host.python(script), expected);
}

#[test]
fn an_option_holds_for_what_is_written_after_it() {
    let mut host = Host::new();
    let script = r#"
import socket
b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); b.bind(("127.0.0.1", 0)); b.setsockopt(0, 12, 1); b.settimeout(5)
a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.connect(b.getsockname())
for ttl in range(1, 21): a.setsockopt(0, socket.IP_TTL, ttl); a.send(bytes([ttl]))
for ttl in range(1, 21):
    data, control, _, _ = b.recvmsg(10, 100)
    assert data[0] == ttl and int.from_bytes(control[0][2], "little") == ttl, (data, control)
"#;
    host.python(script);
}

#[test]
fn a_datagram_with_a_bad_page_is_not_sent_in_part() {
    let mut host = Host::new();
    let script = include_str!("scripts/datagram_page.py");
    let refused = "-1 EFAULT\n4 None\n4";
    assert_eq!(host.python(script).trim(), refused);
    let native = std::process::Command::new("python3").args(["-c", script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&native.stdout).trim(), refused, "{}", String::from_utf8_lossy(&native.stderr));
}
