//! The default stack on the threaded engine: TCP to the byte, UDP and pings, beside a node that runs inline and beside another of its kind.

#[path = "../../node/tests/common/mod.rs"]
mod common;

use common::{AF_INET, AF_INET6, SOCK_DGRAM, SOCK_STREAM, address, address6};
use std::net::Ipv6Addr;
use weft_core::context::Context;
use weft_core::control::Show;
use weft_core::{Bytes, Instant, InterfaceIndex, Message, Op, Rng};
use weft_host::clock::Clock;
use weft_host::threaded::Threaded;
use weft_node::{Node, Stack};
use weft_socket::{Errno, SocketId, Sockets};

/// Two nodes on one wire, in real time.
struct Pair {
    clock: Clock,
    nodes: [Node; 2],
}

fn node(host: u8, engine: &str, gso_max_bytes: u32, clock: Clock) -> Node {
    let stack = Stack::parse(
        "test",
        &format!(
            "[node]\nname = \"host{host}\"\nengine = \"{engine}\"\n[[interface]]\nname = \"eth0\"\nbackend = \"memory:eth0\"\n\
             [[address]]\ninterface = \"eth0\"\naddress = \"10.0.0.{host}/24\"\n[[address]]\ninterface = \"eth0\"\naddress = \"fd77::{host}/64\"\n"
        ),
    )
    .unwrap();
    let mut node = match engine {
        "threaded" => Node::on(&stack, 1, |engine| Ok(Box::new(Threaded::start(engine, clock, None)?))),
        _ => Node::new(&stack, 1),
    }
    .unwrap();
    let mut interface = node.describe(&stack, 0, stack.interfaces().next().unwrap()).unwrap();
    interface.index = InterfaceIndex(2);
    interface.gso_max_bytes = gso_max_bytes;
    interface.checksum_offload = gso_max_bytes > 0;
    node.add_interface(clock.now(), &interface).unwrap();
    node.configure(clock.now(), &stack).unwrap();
    node
}

impl Pair {
    fn new(engines: [&str; 2], gso_max_bytes: u32) -> Pair {
        let clock = Clock::default();
        Pair { clock, nodes: [(1, engines[0]), (2, engines[1])].map(|(host, engine)| node(host, engine, gso_max_bytes, clock)) }
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Carries frames across. False: there were none.
    fn carry(&mut self) -> bool {
        let mut any = false;
        for side in 0..2 {
            let now = self.clock.now();
            self.nodes[side].run(now);
            for mut frame in self.nodes[side].take_transmit().collect::<Vec<_>>() {
                any = true;
                if let Some(completion) = frame.take_completion() {
                    self.nodes[side].transmitted(now, completion);
                }
                frame.meta_mut().interface = InterfaceIndex(2);
                self.nodes[1 - side].receive(now, [frame]);
            }
        }
        any
    }

    fn call<R>(&mut self, side: usize, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> R {
        let now = self.now();
        let result = self.nodes[side].sockets(now, f).expect("the node has sockets");
        self.carry();
        result
    }

    /// Tries until it does not fail with EAGAIN. The limit is only there so that a hang fails.
    fn until<R>(&mut self, side: usize, mut f: impl FnMut(&mut Sockets, &mut Context<'_>) -> Result<R, Errno>) -> R {
        for _ in 0..60_000 {
            match self.call(side, &mut f) {
                Ok(result) => return result,
                Err(Errno::EAGAIN | Errno::EINPROGRESS | Errno::EALREADY) => self.rest(),
                Err(error) => panic!("{error:?}"),
            }
        }
        panic!("waited in vain");
    }

    fn rest(&mut self) {
        if !self.carry() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    fn connect(&mut self, family: i32, to: &[u8]) -> (SocketId, SocketId) {
        let listener = self.call(1, |sockets, cx| {
            let listener = sockets.socket(family, SOCK_STREAM, 0, cx).unwrap();
            sockets.bind(listener, to, cx).unwrap();
            sockets.listen(listener, 8, cx).unwrap();
            listener
        });
        let client = self.call(0, |sockets, cx| sockets.socket(family, SOCK_STREAM, 0, cx).unwrap());
        self.until(0, |sockets, cx| match sockets.connect(client, to, cx) {
            Ok(()) | Err(Errno::EISCONN) => Ok(()),
            other => other,
        });
        let server = self.until(1, |sockets, cx| sockets.accept(listener, cx));
        self.call(1, |sockets, cx| sockets.close(listener, cx));
        (client, server)
    }

    /// Sends bytes one way to the end of the stream, and returns what arrived.
    fn transfer(&mut self, from: usize, (sender, receiver): (SocketId, SocketId), bytes: &Bytes) -> Vec<u8> {
        let (mut sent, mut received, mut idle) = (0, Vec::new(), 0);
        loop {
            let wrote = match bytes.len() - sent {
                0 => 0,
                _ => self.call(from, |sockets, cx| sockets.send(sender, bytes.slice(sent..), 0, None, &[], cx)).unwrap_or(0),
            };
            sent += wrote;
            if wrote > 0 && sent == bytes.len() {
                self.call(from, |sockets, cx| sockets.shutdown(sender, 1, cx)).unwrap();
            }
            let before = received.len();
            match self.call(1 - from, |sockets, cx| sockets.receive(receiver, 1 << 20, 0, cx)) {
                Ok(got) if got.data.is_empty() => return received,
                Ok(got) => got.data.iter().for_each(|slice| received.extend_from_slice(slice)),
                Err(Errno::EAGAIN) => {}
                Err(error) => panic!("{error:?} after {before} bytes"),
            }
            if wrote == 0 && received.len() == before {
                idle += 1;
                assert!(idle < 60_000, "stuck after {before} bytes");
                self.rest();
            }
        }
    }

    fn control(&mut self, side: usize, op: Op) -> weft_core::Value {
        let now = self.now();
        self.nodes[side].control(now, &Message { serial: 1, op }).result.unwrap()
    }
}

fn random(seed: u64, bytes: usize) -> Bytes {
    let mut data = vec![0; bytes];
    Rng::for_name(seed, "data").fill(&mut data);
    data.into()
}

/// An echo request, the address family's way.
fn echo(kind: u8, sequence: u8) -> Bytes {
    let mut message = vec![kind, 0, 0, 0, 0, 0, 0, sequence];
    message.extend(b"are you there?");
    message.into()
}

fn pings_and_datagrams(pair: &mut Pair) {
    for (family, protocol, kinds, to) in
        [(AF_INET, 1, (8, 0), address(2, 0)), (AF_INET6, 58, (128, 129), address6("fd77::2".parse().unwrap(), 0, 0))]
    {
        let socket = pair.call(0, |sockets, cx| sockets.socket(family, SOCK_DGRAM, protocol, cx).unwrap());
        for sequence in 1..=5 {
            pair.until(0, |sockets, cx| sockets.send(socket, echo(kinds.0, sequence), 0, Some(&to), &[], cx));
            let reply = pair.until(0, |sockets, cx| sockets.receive(socket, 1500, 0, cx));
            let reply: Vec<u8> = reply.data.iter().flat_map(|slice| slice.to_vec()).collect();
            assert_eq!((reply[0], reply[7], &reply[8..]), (kinds.1, sequence, &b"are you there?"[..]));
        }
    }
    for (family, to) in [(AF_INET, address(2, 7)), (AF_INET6, address6("fd77::2".parse().unwrap(), 7, 0))] {
        let server = pair.call(1, |sockets, cx| sockets.socket(family, SOCK_DGRAM, 0, cx).unwrap());
        pair.call(1, |sockets, cx| sockets.bind(server, &to, cx)).unwrap();
        let client = pair.call(0, |sockets, cx| sockets.socket(family, SOCK_DGRAM, 0, cx).unwrap());
        for number in 0..50 {
            let data = random(number, 1 + number as usize * 60);
            pair.until(0, |sockets, cx| sockets.send(client, data.clone(), 0, Some(&to), &[], cx));
            let got = pair.until(1, |sockets, cx| sockets.receive(server, 65_535, 0, cx));
            assert_eq!(got.data.iter().flat_map(|slice| slice.to_vec()).collect::<Vec<_>>(), data);
            let answer = data.slice(..data.len() / 2);
            pair.until(1, |sockets, cx| sockets.send(server, answer.clone(), 0, Some(&got.from), &[], cx));
            let got = pair.until(0, |sockets, cx| sockets.receive(client, 65_535, 0, cx));
            assert_eq!(got.data.iter().flat_map(|slice| slice.to_vec()).collect::<Vec<_>>(), answer);
        }
    }
}

fn streams(pair: &mut Pair, port: u16, megabytes: usize) {
    for (number, (family, to)) in
        [(AF_INET, address(2, port)), (AF_INET6, address6("fd77::2".parse().unwrap(), port, 0))].into_iter().enumerate()
    {
        let (client, server) = pair.connect(family, &to);
        let up = random(10 + number as u64, megabytes << 20);
        assert!(pair.transfer(0, (client, server), &up) == up, "bytes from the client differ");
        let down = random(20 + number as u64, megabytes << 20);
        assert!(pair.transfer(1, (server, client), &down) == down, "bytes from the server differ");
        for (side, socket) in [(0, client), (1, server)] {
            pair.call(side, |sockets, cx| sockets.close(socket, cx));
        }
    }
}

#[test]
fn a_threaded_node_and_an_inline_one_understand_each_other() {
    for engines in [["threaded", "inline"], ["inline", "threaded"]] {
        let mut pair = Pair::new(engines, 0);
        pings_and_datagrams(&mut pair);
        streams(&mut pair, 80, 3);
        assert!(pair.nodes.iter().all(|node| node.failure().is_none()));
    }
}

#[test]
fn two_threaded_nodes_carry_large_frames_while_their_graphs_change() {
    let mut pair = Pair::new(["threaded", "threaded"], 65_160);
    pings_and_datagrams(&mut pair);
    streams(&mut pair, 80, 8);
    // A counter in the way, and the same again.
    let end = weft_core::End::parse;
    let insert = Op::All(vec![
        Op::Add { name: "mid".to_owned(), kind: "counter".to_owned(), parameters: Default::default() },
        Op::Insert { block: end("mid"), from: end("interfaces:upper"), to: end("ether:lower") },
    ]);
    pair.control(1, insert);
    streams(&mut pair, 81, 2);
    let counters = pair.control(1, Op::Show(Show::Counters));
    let mid = counters.as_array().unwrap().iter().find(|row| row["block"] == "mid").unwrap();
    assert!(mid["frames"].as_u64().unwrap() > 10, "{mid}");
    assert!(pair.nodes.iter().all(|node| node.failure().is_none()));
}

#[test]
fn worlds_without_threads_refuse_it_and_say_where() {
    let stack = Stack::parse("stack.toml", "[node]\nname = \"a\"\nengine = \"threaded\"\n").unwrap();
    let error = Node::new(&stack, 1).unwrap_err().to_string();
    assert!(error.starts_with("stack.toml:3: the threaded engine is there in real time only"), "{error}");
    assert!(Node::check(&stack).is_ok(), "the file itself is sound");
    let error = Stack::parse("stack.toml", "[node]\nengine = \"fast\"\n").unwrap_err().to_string();
    assert!(error.contains("inline") && error.contains("queued") && error.contains("threaded"), "{error}");
}

/// What a call sends to the node itself is there when the node has settled, and so is the answer, whatever the engine.
#[test]
fn what_a_call_causes_in_the_node_has_happened_when_it_has_settled() {
    for engine in ["inline", "queued", "threaded"] {
        let clock = Clock::default();
        let mut node = node(1, engine, 0, clock);
        let mut call = |f: &mut dyn FnMut(&mut Sockets, &mut Context<'_>) -> Result<usize, Errno>| {
            let result = node.sockets(clock.now(), |sockets, cx| f(sockets, cx)).expect("the node has sockets");
            node.settle(clock.now());
            result
        };
        for round in 0..200 {
            for (family, at, nobody) in [
                (AF_INET, address(1, 4000), address(1, 5)),
                (AF_INET6, address6(Ipv6Addr::LOCALHOST, 4000, 0), address6(Ipv6Addr::LOCALHOST, 5, 0)),
            ] {
                let mut sockets = [None; 2];
                call(&mut |all, cx| {
                    let datagrams = all.socket(family, SOCK_DGRAM, 0, cx)?;
                    all.bind(datagrams, &at, cx)?;
                    sockets = [Some(datagrams), Some(all.socket(family, SOCK_STREAM, 0, cx)?)];
                    all.send(datagrams, Bytes::from_static(b"to itself"), 0, Some(&at), &[], cx)
                })
                .unwrap();
                let [datagrams, stream] = sockets.map(|socket| socket.expect("it was made"));
                let came = call(&mut |all, cx| all.receive(datagrams, 100, 0x40, cx).map(|received| received.len()));
                assert_eq!(came, Ok(9), "{engine}, round {round}");
                let connect = &mut |all: &mut Sockets, cx: &mut Context<'_>| all.connect(stream, &nobody, cx).map(|()| 0);
                assert_eq!(call(connect), Err(Errno::EINPROGRESS), "{engine}, round {round}");
                assert_eq!(call(connect), Err(Errno::ECONNREFUSED), "{engine}, round {round}");
                let close = &mut |all: &mut Sockets, cx: &mut Context<'_>| {
                    [datagrams, stream].into_iter().for_each(|socket| all.close(socket, cx));
                    Ok(0)
                };
                call(close).unwrap();
            }
        }
    }
}
