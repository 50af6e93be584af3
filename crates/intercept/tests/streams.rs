//! Stream sockets of unmodified programs.

mod support;

use support::Host;

const SERVER: &str = r#"
import socket
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 8000)); s.listen(5)
print("ready")
c, a = s.accept()
assert a[0] == "127.0.0.1", a
total = 0
while True:
    d = c.recv(65536)
    if not d: break
    total += len(d)
c.sendall(b"got %d" % total)
c.close()
print("served", total)
"#;

#[test]
fn a_blocking_client_and_server_exchange_data_and_half_close() {
    let mut host = Host::new();
    let mut server = host.start(&["python3", "-c", SERVER]);
    host.until_output(&mut server, "ready");
    let client = host.python(
        r#"
import socket
c = socket.create_connection(("127.0.0.1", 8000))
assert c.getpeername() == ("127.0.0.1", 8000)
c.sendall(b"x" * 3000000)
c.shutdown(socket.SHUT_WR)
print(c.recv(100).decode(), c.recv(100))
"#,
    );
    assert_eq!(client.trim(), "got 3000000 b''");
    let server = host.finish(server);
    assert!(server.output.contains("served 3000000"), "{}", server.output);
    host.until("all stand-ins closed", |host| host.supervisor.stand_ins() == 0);
}
