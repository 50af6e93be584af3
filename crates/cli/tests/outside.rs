//! Stacks and the host around them: published ports, masquerading, the guard, two stacks at once. Each in network namespaces of its own.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Network namespaces and a directory that go away with their test.
struct Place {
    directory: PathBuf,
    namespaces: Vec<String>,
}

impl Place {
    /// With these namespaces, lo up in each; none, where they cannot be made.
    fn new(name: &str, namespaces: &[&str]) -> Option<Place> {
        if Command::new("unshare").args(["--net", "true"]).output().is_ok_and(|output| !output.status.success()) {
            println!("SKIP: a network namespace cannot be made: run as root");
            return None;
        }
        let pid = std::process::id();
        let directory = std::env::temp_dir().join(format!("weft-outside-{name}-{pid}"));
        std::fs::create_dir_all(&directory).unwrap();
        let mut place = Place { directory, namespaces: Vec::new() };
        for namespace in namespaces {
            let namespace = format!("weft-{namespace}-{pid}");
            place.namespaces.push(namespace.clone());
            place.run(&format!("ip netns add {namespace}; ip -n {namespace} link set lo up"));
        }
        Some(place)
    }

    /// A shell script that must succeed; `$A`, `$B` … are the namespaces, `$WEFT` the command.
    fn run(&self, script: &str) -> String {
        let Output { status, stdout, stderr } = self.shell(script).output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr).into_owned());
        assert!(status.success(), "{script}\n{status}\n{stdout}\n{stderr}");
        stdout.trim_end().to_owned() + &stderr
    }

    fn shell(&self, script: &str) -> Command {
        // Whatever happens, nothing that the script has started outlives it.
        let clean = "set -m; trap 'for job in $(jobs -p); do kill -9 -- -$job || true; done 2>/dev/null' EXIT";
        let mut command = Command::new("bash");
        command
            .args(["-euc", &format!("{clean}\n{script}")])
            .current_dir(&self.directory)
            .env("XDG_RUNTIME_DIR", &self.directory)
            .stdin(Stdio::null());
        command.env("WEFT", env!("CARGO_BIN_EXE_weft"));
        for (name, namespace) in ["A", "B", "C"].iter().zip(&self.namespaces) {
            command.env(name, namespace);
        }
        command
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.directory.join(name), text).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            let _ = Command::new("ip").args(["netns", "delete", namespace]).status();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Echoes streams until their end, then says how much came and from whom; echoes datagrams backwards.
const ECHO: &str = r#"
import socket, threading
stream = socket.create_server(("0.0.0.0", 80))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("127.0.0.1", 53))
def answer():
    while True:
        data, peer = datagrams.recvfrom(70000)
        datagrams.sendto(data[::-1], peer)
threading.Thread(target=answer, daemon=True).start()
print("up", flush=True)
def serve(peer, address):
    count = 0
    try:
        while data := peer.recv(65536):
            count += len(data)
            peer.sendall(data)
        peer.sendall(b" %d from %s" % (count, address[0].encode()))
    except ConnectionResetError:
        print("reset", flush=True)
    peer.close()
while True:
    threading.Thread(target=serve, args=stream.accept()).start()
"#;

/// What a client on the host sees, both families.
const CLIENT: &str = r#"
import os, socket, struct
data = os.urandom(3_000_000)
for host in "127.0.0.1", "::1":
    peer = socket.create_connection((host, 8080), 10)
    pid = os.fork()
    if not pid:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        os._exit(0)
    got = b""
    while more := peer.recv(65536):
        got += more
    os.waitpid(pid, 0)
    assert got == data + b" 3000000 from 10.77.0.2", (len(got), got[-40:])
    peer = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    peer.settimeout(10)
    peer.connect((host, 5353))
    for text in b"abc", b"", b"x" * 60000:
        peer.send(text)
        assert peer.recv(70000) == text[::-1]
    try:
        # The reset may come before connect returns.
        peer = socket.create_connection((host, 8081), 10)
        print(peer.recv(1))
        assert False, "nobody listens there"
    except ConnectionResetError:
        pass
# A client that resets.
peer = socket.create_connection(("127.0.0.1", 8080), 10)
peer.sendall(b"hello")
assert peer.recv(5) == b"hello"
peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
peer.close()
"#;

const NOWHERE: &str =
    "[[interface]]\nname = \"weft0\"\nbackend = \"memory:nowhere\"\n[[address]]\ninterface = \"weft0\"\naddress = \"10.77.0.2/24\"\n";

#[test]
fn published_ports_carry_streams_and_datagrams_of_both_families() {
    let Some(place) = Place::new("publish", &["publish"]) else { return };
    place.file("stack.toml", NOWHERE);
    place.file("echo.py", ECHO);
    place.file("client.py", CLIENT);
    let said = place.run(
        r#"
        ip netns exec $A $WEFT up --stack stack.toml --publish 8080:80 --publish 5353:53/udp --publish 8081:81 > up & weft=$!
        until grep -q ready up; do sleep 0.02; done
        ip netns exec $A $WEFT run --control weft/control -- python3 echo.py > echo & program=$!
        until grep -q up echo; do sleep 0.02; done
        ip netns exec $A python3 client.py
        until grep -q reset echo; do sleep 0.02; done
        $WEFT show published --control weft/control --json
        kill $program; wait $program || true
        kill $weft; wait $weft
        # A stack of its own has a control socket, too.
        ip netns exec $A $WEFT run --stack stack.toml --publish 8082:82 -- $WEFT show published --json
        "#,
    );
    assert!(said.contains(r#""published":"8082:82","open":0,"opened":0"#), "{said}");
    assert!(said.contains(r#""published":"8080:80","open":0,"opened":3,"failed":0,"full":0,"to_node_bytes":6000005"#), "{said}");
    assert!(said.contains(r#""published":"5353:53/udp","open":2,"opened":2,"failed":0"#), "{said}");
    assert!(said.contains(r#""published":"8081:81","open":0,"opened":2,"failed":2"#), "{said}");
}

#[test]
fn a_port_that_is_taken_is_told() {
    let Some(place) = Place::new("taken", &["taken"]) else { return };
    place.file("stack.toml", NOWHERE);
    let said = place.run(
        r#"
        ip netns exec $A python3 -c 'import socket, time; s = socket.create_server(("0.0.0.0", 8080)); print("up", flush=True); time.sleep(60)' > up & other=$!
        until grep -q up up; do sleep 0.02; done
        ip netns exec $A $WEFT run --stack stack.toml --publish 8080:80 -- true && exit 1
        kill $other
        "#,
    );
    assert!(said.contains("weft: --publish 8080:80: the port is taken on the host: choose another"), "{said}");
}

#[test]
fn masquerading_reaches_a_server_beyond_the_host_and_ends_with_weft() {
    let Some(place) = Place::new("nat", &["nat-host", "nat-outer"]) else { return };
    place.file("serve.py", "import socket\ns = socket.create_server((\"10.8.0.1\", 7000))\nprint(\"up\", flush=True)\nwhile True:\n c, a = s.accept()\n c.sendall(a[0].encode())\n c.close()\n");
    place
        .file("client.py", "import socket\nc = socket.create_connection((\"10.8.0.1\", 7000), 10)\nprint(\"from\", c.recv(99).decode())\n");
    let said = place.run(
        r#"
        ip -n $A link add near type veth peer name far netns $B
        ip -n $A addr add 10.8.0.2/24 dev near; ip -n $A link set near up
        ip -n $B addr add 10.8.0.1/24 dev far; ip -n $B link set far up
        ip netns exec $A sysctl -q net.ipv4.conf.near.forwarding=0
        ip netns exec $B python3 serve.py > up & server=$!
        until grep -q up up; do sleep 0.02; done
        ip netns exec $A $WEFT run --nat -- python3 client.py
        echo left: "$(ip netns exec $A nft list ruleset)" "$(ip netns exec $A sysctl -n net.ipv4.conf.near.forwarding)"
        ip netns exec $A $WEFT up --nat > ready 2>/dev/null & weft=$!
        until grep -q ready ready; do sleep 0.02; done
        ip netns exec $A nft list ruleset | grep -c masquerade
        kill -9 $weft; wait $weft || true
        is() { echo "$(ip netns exec $A nft list ruleset)" "$(ip netns exec $A sysctl -n net.ipv4.conf.near.forwarding)"; }
        for look in $(seq 1000); do [ "$(is)" = " 0" ] && break; sleep 0.02; done
        echo killed: "$(is)"
        kill $server
        "#,
    );
    assert!(said.contains("from 10.8.0.2"), "{said}");
    assert!(said.contains("left:  0"), "{said}");
    assert!(said.contains("killed:  0"), "forwarding ends with a weft that is killed: {said}");
    assert!(
        said.contains("--nat has switched forwarding on until weft ends") && said.contains("/proc/sys/net/ipv4/conf/near/forwarding"),
        "{said}"
    );
}

#[test]
fn masquerading_is_refused_where_it_leads_nowhere() {
    let Some(place) = Place::new("nonat", &["nonat"]) else { return };
    place.file("stack.toml", NOWHERE);
    let said = place.run("ip netns exec $A $WEFT run --nat --stack stack.toml -- true && exit 1; true");
    assert!(said.contains("weft: --nat: the stack's first interface is memory:nowhere: masquerading needs tap: or tun:"), "{said}");
}

#[test]
fn the_hosts_kernel_is_silent_beside_a_stack_on_its_own_interface() {
    let Some(place) = Place::new("guard", &["guard-near", "guard-far"]) else { return };
    place.file(
        "stack.toml",
        "[[interface]]\nname = \"eth0\"\nbackend = \"packet:near\"\n[[address]]\ninterface = \"eth0\"\naddress = \"10.8.0.2/24\"\n",
    );
    place.file("serve.py", "import socket\ns = socket.create_server((\"10.8.0.2\", 80))\nprint(\"up\", flush=True)\nwhile True:\n c, a = s.accept()\n c.sendall(b\"weft\")\n c.close()\n");
    place.file(
        "fetch.py",
        "import socket\nc = socket.create_connection((\"10.8.0.2\", 80), 10)\nprint(\"served by\", c.recv(99).decode())\n",
    );
    // The kernel has the same address: without the guard its resets would end every connection.
    let said = place.run(
        r#"
        ip -n $A link add near type veth peer name far netns $B
        ip -n $A addr add 10.8.0.2/24 dev near; ip -n $A link set near up
        ip -n $B addr add 10.8.0.1/24 dev far; ip -n $B link set far up
        ip netns exec $A nft add table inet somebody
        ip netns exec $A $WEFT up --stack stack.toml > up & weft=$!
        until grep -q ready up; do sleep 0.02; done
        ip netns exec $A $WEFT run --control weft/control -- python3 serve.py > served & program=$!
        until grep -q up served; do sleep 0.02; done
        for i in 1 2 3; do ip netns exec $B python3 fetch.py; done
        echo resets: $(ip netns exec $A nstat -asz TcpOutRsts | awk '/TcpOutRsts/ { print $2 }')
        kill -9 $weft; wait $weft || true
        echo left: $(ip netns exec $A nft list ruleset)
        kill $program || true
        "#,
    );
    assert_eq!(said.matches("served by weft").count(), 3, "{said}");
    assert!(said.contains("resets: 0"), "{said}");
    assert!(said.contains("left: table inet somebody { }"), "{said}");
}

#[test]
fn two_programs_on_two_stacks_at_once() {
    let Some(place) = Place::new("two", &["two"]) else { return };
    let stack = |name: &str, subnet: u8, congestion: &str| {
        format!(
            "[[interface]]\nname = \"{name}\"\nbackend = \"tap:{name}\"\nhost_address = \"10.77.{subnet}.1/24\"\n\
             [[address]]\ninterface = \"{name}\"\naddress = \"10.77.{subnet}.2/24\"\n[block.tcp]\ncongestion = \"{congestion}\"\n"
        )
    };
    place.file("a.toml", &stack("wa", 8, "reno"));
    place.file("b.toml", &stack("wb", 9, "cubic"));
    place.file("serve.py", "import socket, threading\ns = socket.create_server((\"0.0.0.0\", 7000))\nprint(\"up\", flush=True)\ndef serve(c, a):\n c.sendall(a[0].encode())\n c.recv(1)\nwhile True:\n threading.Thread(target=serve, args=s.accept(), daemon=True).start()\n");
    // Each holds its connection until the other has one, too.
    place.file(
        "client.py",
        "import os, socket, sys, time\nhere, other, server = sys.argv[1:]\nc = socket.create_connection((server, 7000), 10)\n\
         print(here, c.recv(99).decode(), c.getsockopt(socket.IPPROTO_TCP, 13, 16).rstrip(b\"\\0\").decode(), flush=True)\n\
         open(here, \"w\").close()\nwhile not os.path.exists(other): time.sleep(0.02)\n",
    );
    let said = place.run(
        r#"
        ip netns exec $A python3 serve.py > up & server=$!
        until grep -q up up; do sleep 0.02; done
        ip netns exec $A $WEFT run --stack a.toml -- python3 client.py one two 10.77.8.1 & first=$!
        ip netns exec $A $WEFT run --stack b.toml -- python3 client.py two one 10.77.9.1
        wait $first
        # Default stacks move out of each other's way by themselves.
        ip netns exec $A $WEFT run --set tcp.congestion=reno -- python3 client.py three four 10.77.0.1 & first=$!
        until [ -e three ]; do sleep 0.02; done
        ip netns exec $A $WEFT run --set tcp.congestion=cubic -- python3 client.py four three 10.77.1.1
        wait $first
        kill $server
        "#,
    );
    for line in ["one 10.77.8.2 reno", "two 10.77.9.2 cubic", "three 10.77.0.2 reno", "four 10.77.1.2 cubic"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(said.contains("weft: weft0 is in use; this stack is on weft1 with 10.77.1.2/24, the host's side 10.77.1.1/24"), "{said}");
}

/// Fetches what the server sends until its end, and says how much that was.
const FETCH: &str = "import socket\nc = socket.create_connection((\"10.77.0.1\", 7000), 20)\nc.settimeout(30)\ncount = 0\nwhile data := c.recv(65536):\n assert data == b\"w\" * len(data)\n count += len(data)\nprint(\"fetched\", count)\n";
const SEND: &str = "import socket\ns = socket.create_server((\"0.0.0.0\", 7000))\nprint(\"up\", flush=True)\nwhile True:\n c, a = s.accept()\n c.sendall(b\"w\" * 2_000_000)\n c.close()\n";

fn stack_on(backend: &str) -> String {
    format!(
        "[[interface]]\nname = \"weft0\"\nbackend = \"{backend}\"\nhost_address = \"10.77.0.1/24\"\n\
         [[address]]\ninterface = \"weft0\"\naddress = \"10.77.0.2/24\"\n"
    )
}

#[test]
fn programs_run_on_tun_behind_faults_and_under_a_trace() {
    let Some(place) = Place::new("kinds", &["kinds"]) else { return };
    place.file("serve.py", SEND);
    place.file("fetch.py", FETCH);
    place.file("tun.toml", &stack_on("tun:weft0"));
    place.file("fault.toml", &stack_on("fault:loss=0.01,duplicate=0.01,corrupt=0.01,delay=1ms,seed=5:tap:weft0"));
    place.file("trace.toml", &stack_on("trace:tun:weft0"));
    let said = place.run(
        r#"
        ip netns exec $A python3 serve.py > up & server=$!
        until grep -q up up; do sleep 0.02; done
        for stack in tun fault trace; do ip netns exec $A $WEFT run --stack $stack.toml -- python3 fetch.py; done
        kill $server
        "#,
    );
    assert_eq!(said.matches("fetched 2000000").count(), 3, "{}", &said[..said.len().min(4000)]);
    assert!(
        said.contains(" weft0 out TCP 10.77.0.2:") && said.contains(" -> 10.77.0.1:7000 SYN seq "),
        "{}",
        &said[..said.len().min(4000)]
    );
}

#[test]
fn a_capture_on_a_full_disk_ends_and_the_program_does_not() {
    let Some(place) = Place::new("full", &["full"]) else { return };
    place.file("serve.py", SEND);
    place.file("fetch.py", FETCH);
    place.file("stack.toml", &stack_on("tap:weft0"));
    std::fs::create_dir(place.directory.join("disk")).unwrap();
    // `ip netns exec` has mounts of its own.
    let said = place.run(
        r#"
        ip netns exec $A python3 serve.py > up & server=$!
        until grep -q up up; do sleep 0.02; done
        ip netns exec $A bash -euc 'mount -t tmpfs -o size=256k none disk
            $WEFT run --stack stack.toml --capture disk/c.pcapng -- python3 fetch.py; stat -c "kept %s" disk/c.pcapng'
        kill $server
        "#,
    );
    assert!(said.contains("fetched 2000000"), "{said}");
    assert_eq!(
        said.matches("the capture disk/c.pcapng ends here: No space left on device (os error 28); traffic goes on").count(),
        1,
        "{said}"
    );
}

#[test]
fn a_second_stack_leaves_the_network_of_the_first_alone() {
    let Some(place) = Place::new("second", &["second"]) else { return };
    place.file("serve.py", SEND);
    place.file("fetch.py", FETCH);
    place.file("taken.toml", &stack_on("tap:weft6"));
    // A file that says nothing of interfaces leaves TAP and network to weft, too.
    place.file("delay.toml", "[block.wan]\nkind = \"delay\"\ndelay = \"1ms\"\n[graph]\ninsert = [\"wan ether:lower interfaces:upper\"]\n");
    let said = place.run(
        r#"
        ip netns exec $A python3 serve.py > served & server=$!
        until grep -q up served; do sleep 0.02; done
        ip netns exec $A $WEFT up > up & weft=$!
        until grep -q ready up; do sleep 0.02; done
        ip netns exec $A $WEFT up --tap weft5 --control second > up2 & second=$!
        until grep -q ready up2; do sleep 0.02; done
        ip netns exec $A $WEFT up --stack delay.toml --control third > up3 & third=$!
        until grep -q ready up3; do sleep 0.02; done
        ip -n $A -o addr show dev weft5
        $WEFT show addresses --control third
        ip netns exec $A $WEFT up --stack taken.toml --control fourth && exit 1
        ip netns exec $A $WEFT run -- python3 fetch.py
        sed s/10.77.0.1/10.77.2.1/ fetch.py > fetch2.py
        ip netns exec $A $WEFT run --control ./third -- python3 fetch2.py
        for one in $third $second $weft; do kill $one; wait $one; done
        kill $server
        "#,
    );
    assert!(said.contains("inet 10.77.1.1/24"), "{said}");
    assert!(said.contains("weft: the host has 10.77.0.1/24 on weft0 already; this stack is on weft5 with 10.77.1.2/24"), "{said}");
    assert!(
        said.contains("weft: weft0 is in use; this stack is on weft2 with 10.77.2.2/24")
            || said.contains("this stack is on weft2 with 10.77.2.2/24"),
        "{said}"
    );
    assert!(said.contains("weft: interface weft0: the host has 10.77.0.1/24 on weft0 already: choose another network"), "{said}");
    assert_eq!(said.matches("fetched 2000000").count(), 2, "{said}");
}

#[test]
fn settings_of_the_hosts_kernel_are_read_only_for_programs_without_fuse() {
    let Some(place) = Place::new("settings", &["settings"]) else { return };
    place.file("stack.toml", NOWHERE);
    place.file("alone.toml", "[node]\ninterfaces = \"none\"\n");
    let said = place.run(
        r#"
        for stack in stack alone; do
            unshare --mount sh -c 'mount --bind /dev/null /dev/fuse; exec "$@"' sh ip netns exec $A $WEFT run --stack $stack.toml -- sh -c 'cat /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv4/ip_forward' || true
        done
        echo host: $(ip netns exec $A sysctl -n net.ipv4.ip_forward)
        "#,
    );
    assert_eq!(said.matches("Read-only file system").count(), 2, "{said}");
    assert!(said.contains("host: 0"), "{said}");
}
