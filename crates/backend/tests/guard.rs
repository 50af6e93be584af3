//! The guard and masquerading in namespaces: what the kernel does without them, what it does with them, and that nothing is left behind.

mod support;

use std::net::{IpAddr, TcpStream, UdpSocket};
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use support::*;
use weft_backend::guard::{ADDRESSES_MAX, Guard};
use weft_backend::nat::Nat;
use weft_backend::{OpenOptions, host_side, open};

fn run(program: &str, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = Command::new(program).args(arguments).output().unwrap();
    assert!(status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

fn ip(arguments: &str) {
    run("ip", &arguments.split(' ').collect::<Vec<_>>());
}

/// Two namespaces with a veth pair between them; `near` runs in the first, which the guard is for, `far` in the second.
fn namespaces(near: impl FnOnce(Receiver<()>) + Send + 'static, far: impl FnOnce() + Send + 'static) {
    let (id, given) = channel();
    let (go, start) = channel();
    let (finished, done) = channel();
    let first = in_namespace(move || {
        let other: u32 = given.recv().unwrap();
        ip("link add near type veth peer name far");
        ip(&format!("link set far netns {other}"));
        for line in ["addr add 10.8.0.2/24 dev near", "addr add fd08::2/64 dev near nodad", "link set near up", "link set lo up"] {
            ip(line);
        }
        go.send(()).unwrap();
        near(done);
    });
    let second = in_namespace(move || {
        id.send(nix::unistd::gettid().as_raw() as u32).unwrap();
        start.recv().unwrap();
        for line in ["addr add 10.8.0.1/24 dev far", "addr add fd08::1/64 dev far nodad", "link set far up", "link set lo up"] {
            ip(line);
        }
        far();
        // The near side may have seen enough, and be gone.
        let _ = finished.send(());
    });
    second.join().unwrap();
    first.join().unwrap();
}

/// Does anybody answer for the address: a reset, an unreachable port, a resolved neighbour?
fn answers(address: IpAddr) -> (bool, bool) {
    ip("neigh flush dev far");
    let tcp = TcpStream::connect_timeout(&(address, 9).into(), Duration::from_millis(700));
    let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
    let tcp = tcp.err().is_some_and(refused);
    let socket = UdpSocket::bind((if address.is_ipv4() { "0.0.0.0" } else { "::" }, 0)).unwrap();
    socket.connect((address, 9)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let _ = socket.send(b"?");
    let udp = socket.recv(&mut [0; 9]).err().is_some_and(refused);
    let neighbours = run("ip", &["neigh", "show", "dev", "far"]);
    let resolved = neighbours.lines().any(|line| line.starts_with(&format!("{address} ")) && line.contains("lladdr"));
    assert_eq!(tcp, udp, "{address}: {neighbours}");
    (tcp, resolved)
}

#[test]
fn the_kernel_is_silent_for_guarded_addresses_and_speaks_again_without_the_guard() {
    if !can_make_namespaces() {
        return;
    }
    let (order, orders) = channel::<Vec<IpAddr>>();
    let (obeyed, ready) = channel();
    namespaces(
        move |_done| {
            run("nft", &["add", "table", "inet", "somebody"]);
            let before = run("nft", &["list", "ruleset"]);
            let mut guard = Guard::new("near").unwrap();
            let packet = open("packet:near", &OpenOptions::default()).unwrap();
            for addresses in orders {
                assert!(guard.set(addresses).unwrap());
                // Another program cannot take it away.
                let table = run("nft", &["list", "tables"]).lines().find(|line| line.contains("weft-guard")).unwrap().to_owned();
                let name = table.split(' ').nth(2).unwrap();
                assert!(!Command::new("nft").args(["delete", "table", "netdev", name]).output().unwrap().status.success());
                obeyed.send(()).unwrap();
            }
            drop((guard, packet));
            assert_eq!(run("nft", &["list", "ruleset"]), before, "no other table is touched, and none is left");
        },
        move || {
            let (v4, v6): (IpAddr, IpAddr) = ("10.8.0.2".parse().unwrap(), "fd08::2".parse().unwrap());
            let keep = |addresses: &[IpAddr]| {
                order.send(addresses.to_vec()).unwrap();
                ready.recv_timeout(Duration::from_secs(10)).unwrap();
            };
            keep(&[]);
            assert_eq!((answers(v4), answers(v6)), ((true, true), (true, true)));
            keep(&[v4, v6]);
            assert_eq!((answers(v4), answers(v6)), ((false, false), (false, false)));
            keep(&[v6]);
            assert_eq!((answers(v4), answers(v6)), ((true, true), (false, false)));
            keep(&[]);
            assert_eq!((answers(v4), answers(v6)), ((true, true), (true, true)));
        },
    );
}

#[test]
fn guarded_frames_still_reach_the_packet_socket() {
    if !can_make_namespaces() {
        return;
    }
    let (kept, go) = channel();
    let (sent, came) = channel();
    namespaces(
        move |_done| {
            let mut guard = Guard::new("near").unwrap();
            guard.set(["10.8.0.2".parse().unwrap()]).unwrap();
            let mut packet = open("packet:near", &OpenOptions::default()).unwrap();
            kept.send(()).unwrap();
            came.recv().unwrap();
            // ARP for the address: nobody else answers it.
            receive_until(&mut *packet, |frame| frame.head()[12..14] == [8, 6] && frame.to_vec()[38..42] == [10, 8, 0, 2]);
        },
        move || {
            go.recv().unwrap();
            let socket = UdpSocket::bind("10.8.0.1:0").unwrap();
            socket.send_to(b"?", "10.8.0.2:9").unwrap();
            sent.send(()).unwrap();
        },
    );
}

#[test]
fn a_guard_keeps_no_more_than_its_bound_and_says_so() {
    if !can_make_namespaces() {
        return;
    }
    in_namespace(|| {
        host_side::create_veth("near", "far").unwrap();
        let mut guard = Guard::new("near").unwrap();
        let many = |count: u32| (0..count).map(|number| IpAddr::from((0x0a00_0000 + number).to_be_bytes()));
        assert!(guard.set(many(ADDRESSES_MAX as u32)).unwrap());
        assert!(!guard.set(many(ADDRESSES_MAX as u32 + 1)).unwrap());
        assert_eq!(guard.addresses().count(), ADDRESSES_MAX);
        // Groups are for both stacks.
        assert!(guard.set(["224.0.0.1".parse().unwrap(), "ff02::1".parse().unwrap()]).unwrap());
        assert_eq!(guard.addresses().count(), 0);
        let error = Guard::new("nowhere").unwrap_err().to_string();
        assert!(error.contains("guarding interface \"nowhere\" (nftables): No such device; there is no such interface"), "{error}");
    })
    .join()
    .unwrap();
}

/// What `ip_forward` and friends say, by file.
fn forwarding(names: &[&str]) -> Vec<String> {
    let files = ["ipv4/conf/{}/forwarding", "ipv6/conf/{}/force_forwarding", "ipv6/conf/{}/forwarding"];
    let read = |path: String| std::fs::read_to_string(format!("/proc/sys/net/{path}")).unwrap_or_default().trim().to_owned();
    names.iter().flat_map(|name| files.map(|file| read(file.replace("{}", name)))).collect()
}

#[test]
fn masquerading_carries_answers_back_and_puts_the_kernel_back_as_it_was() {
    if !can_make_namespaces() {
        return;
    }
    // Program's kernel: `inner`, behind the TUN that stands for the node. Host: in between. Outer server: `far`.
    let (tell, told) = channel();
    namespaces(
        move |done| {
            let (node, end) = Kernel::new(|| open("tun:node", &options(true, &["10.9.0.2/24", "fd09::2/64"])).unwrap());
            let host = open("tun:weft9", &options(true, &["10.9.0.1/24", "fd09::1/64"])).unwrap();
            let bridge = Bridge::new(end, host);
            node.start(|| {
                ip("route add default dev node");
                ip("-6 route add default dev node");
            })
            .recv()
            .unwrap();
            let before = (forwarding(&["near", "weft9", "all", "default"]), run("nft", &["list", "ruleset"]));
            let reach = |address: &'static str| {
                let said = node.start(move || {
                    let mut socket =
                        TcpStream::connect_timeout(&address.parse().unwrap(), Duration::from_secs(2)).map_err(|error| error.to_string())?;
                    let mut text = String::new();
                    std::io::Read::read_to_string(&mut socket, &mut text).map_err(|error| error.to_string())?;
                    Ok::<String, String>(text)
                });
                said.recv_timeout(Duration::from_secs(20)).unwrap()
            };
            assert!(reach("10.8.0.1:7000").is_err());
            let nat = Nat::new("weft9", &[prefix("10.9.0.2/24"), prefix("fd09::2/64")], &mut |_| true).unwrap();
            assert!(nat.switched().count() >= 2);
            assert_eq!(reach("10.8.0.1:7000").unwrap(), "10.8.0.2");
            assert_eq!(reach("[fd08::1]:7000").unwrap(), "fd08::2");
            tell.send(()).unwrap();
            done.recv().unwrap();
            drop(nat);
            assert_eq!((forwarding(&["near", "weft9", "all", "default"]), run("nft", &["list", "ruleset"])), before);
            bridge.stop();
        },
        move || {
            let serve = |address: &str| {
                let listener = std::net::TcpListener::bind((address, 7000)).unwrap();
                std::thread::spawn(move || {
                    for socket in listener.incoming() {
                        let mut socket = socket.unwrap();
                        let peer = socket.peer_addr().unwrap().ip().to_string();
                        std::io::Write::write_all(&mut socket, peer.as_bytes()).unwrap();
                    }
                });
            };
            serve("10.8.0.1");
            serve("fd08::1");
            told.recv().unwrap();
            // The host is no router for others: a connection from outside to the node's network does not pass.
            ip("route add 10.9.0.0/24 via 10.8.0.2");
            let error = TcpStream::connect_timeout(&"10.9.0.2:9".parse().unwrap(), Duration::from_millis(700)).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        },
    );
}

/// Runs in another process, which is killed: see below.
#[test]
fn helper_that_holds_a_guard_and_is_killed() {
    let Ok(interface) = std::env::var("WEFT_TEST_HOLD_GUARD") else { return };
    let mut guard = Guard::new(&interface).unwrap();
    guard.set(["10.8.0.2".parse().unwrap()]).unwrap();
    println!("holding");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_guard_is_gone_after_kill_9() {
    if !can_make_namespaces() {
        return;
    }
    in_namespace(|| {
        host_side::create_veth("near", "far").unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper_that_holds_a_guard_and_is_killed", "--nocapture"])
            .env("WEFT_TEST_HOLD_GUARD", "near")
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let output = std::io::BufReader::new(child.stdout.take().unwrap());
        assert!(std::io::BufRead::lines(output).any(|line| line.unwrap().contains("holding")));
        assert!(run("nft", &["list", "ruleset"]).contains("10.8.0.2"));
        child.kill().unwrap();
        child.wait().unwrap();
        // The kernel closes a dead process's sockets before its parent hears of it.
        assert_eq!(run("nft", &["list", "ruleset"]), "");
    })
    .join()
    .unwrap();
}
