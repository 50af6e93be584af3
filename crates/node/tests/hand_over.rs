//! Blocks of a whole node are replaced while programs use it: what leaves the node is what would have left it, and no program notices.

use crate::common;

use common::{AF_INET, AF_INET6, Fate, Pair, SOCK_DGRAM, SOCK_STREAM, address, address6};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use weft_core::control::{ControlError, Message, Op};
use weft_core::{Bytes, Rng, State, StateError, Value};
use weft_socket::{Errno, SocketId};

fn replace(pair: &mut Pair, side: usize, name: &str) -> Result<Value, ControlError> {
    let op = Op::Replace { name: name.to_owned(), kind: name.to_owned(), parameters: Default::default(), drop_state: false };
    let now = pair.now;
    let result = pair.nodes[side].control(now, &Message { serial: 1, op }).result;
    pair.settle();
    result
}

/// The state of a node's block.
fn state_of(pair: &mut Pair, side: usize, name: &str) -> State {
    let now = pair.now;
    pair.nodes[side].export(now, name).unwrap().unwrap()
}

/// What programs were told, every frame that left, and how many blocks were replaced.
type Told = (Vec<String>, Vec<(usize, Vec<u8>)>, usize);
type Log = Rc<RefCell<Vec<(usize, Vec<u8>)>>>;

/// Two nodes on a wire that loses one frame in forty, and writes all of them down.
fn lossy(engine: &str) -> (Pair, Log) {
    let log = Log::default();
    let (seen, mut rng) = (log.clone(), Rng::for_name(4, "wire"));
    let wire = move |side: usize, frame: &weft_core::Frame| {
        seen.borrow_mut().push((side, frame.to_vec()));
        if rng.chance(0.025) { Fate::Lose } else { Fate::Pass }
    };
    (Pair::on_engine(engine, 0, "").with_wire(Duration::from_millis(8), wire), log)
}

/// What programs saw, a line each.
struct Programs {
    pair: Pair,
    log: Log,
    said: Vec<String>,
    blocks: &'static [&'static str],
    rng: Rng,
    replacements: usize,
}

impl Programs {
    fn new(engine: &str, blocks: &'static [&'static str]) -> Programs {
        let (pair, log) = lossy(engine);
        Programs { pair, log, said: Vec::new(), blocks, rng: Rng::for_name(9, "replacements"), replacements: 0 }
    }
    fn boundary(&mut self) {
        if self.blocks.is_empty() || !self.rng.chance(0.3) {
            return;
        }
        let side = self.rng.below(2) as usize;
        let name = self.blocks[self.rng.below(self.blocks.len() as u64) as usize];
        let before = state_of(&mut self.pair, side, name);
        replace(&mut self.pair, side, name).unwrap();
        self.replacements += 1;
        if ["tcp", "sockets"].contains(&name) {
            assert!(state_of(&mut self.pair, side, name) == before, "{name} took over something else");
            assert!(State::from_bytes(&before.to_bytes()).unwrap() == before);
        }
    }
    fn call<R: std::fmt::Debug>(
        &mut self,
        side: usize,
        what: &str,
        f: impl FnOnce(&mut weft_socket::Sockets, &mut weft_core::Context<'_>) -> R,
    ) -> R {
        self.boundary();
        let result = self.pair.call(side, f);
        let changed = self.pair.call(side, |sockets, _| sockets.take_changed());
        self.said.push(format!("{} {side} {what}: {result:?}, changed {changed:?}", self.pair.now));
        self.boundary();
        result
    }
    fn pass(&mut self, span: Duration) {
        let end = self.pair.now + span;
        while self.pair.now < end && self.pair.step(end.since(self.pair.now)) {
            self.boundary();
        }
        self.boundary();
    }
    fn socket(&mut self, side: usize, family: i32, kind: i32, bound: &[u8]) -> SocketId {
        self.call(side, "socket", |sockets, cx| {
            let socket = sockets.socket(family, kind, 0, cx)?;
            sockets.bind(socket, bound, cx).map(|()| socket)
        })
        .unwrap()
    }
    fn option(&mut self, side: usize, s: SocketId, level: i32, name: i32, value: &[u8]) {
        self.call(side, "setsockopt", |sockets, cx| sockets.set_option(s, level, name, value, cx)).unwrap();
    }
    fn ask(&mut self, side: usize, s: SocketId, level: i32, name: i32) {
        let _ = self.call(side, "getsockopt", |sockets, cx| sockets.get_option(s, level, name, 64, cx));
    }
    fn poll(&mut self, side: usize, s: SocketId) {
        self.call(side, "poll", |sockets, _| (sockets.state(s), sockets.readiness(s)));
    }
}

const SOL_SOCKET: i32 = 1;
const IPPROTO_IP: i32 = 0;
const IPPROTO_TCP: i32 = 6;

/// Streams both ways, an accept queue that waits, datagrams in a queue, a group, errors, options of each type, a cork.
fn programs(engine: &str, blocks: &'static [&'static str]) -> Told {
    let mut run = Programs::new(engine, blocks);
    run.pass(Duration::from_secs(3));
    let listener = run.socket(1, AF_INET, SOCK_STREAM, &address(2, 80));
    run.option(1, listener, SOL_SOCKET, 9, &1i32.to_ne_bytes());
    run.call(1, "listen", |sockets, cx| sockets.listen(listener, 5, cx)).unwrap();
    let clients: Vec<SocketId> = (0..3)
        .map(|at| {
            let client = run.socket(0, AF_INET, SOCK_STREAM, &address(1, 0));
            run.option(0, client, IPPROTO_TCP, 1, &i32::from(at == 0).to_ne_bytes());
            run.option(0, client, SOL_SOCKET, 13, &[1, 0, 0, 0, 5, 0, 0, 0]);
            let _ = run.call(0, "connect", |sockets, cx| sockets.connect(client, &address(2, 80), cx));
            client
        })
        .collect();
    run.pass(Duration::from_secs(4));
    let servers: Vec<SocketId> = (0..2).map(|_| run.call(1, "accept", |sockets, cx| sockets.accept(listener, cx)).unwrap()).collect();
    // The third stays in the accept queue with data in it.
    run.call(0, "send", |sockets, cx| sockets.send(clients[2], Bytes::from_static(b"early"), 0, None, &[], cx)).unwrap();
    // Datagrams: in a queue, from a connected peer, to nobody (an error comes back), under a cork, to a group.
    let (left, right) = (run.socket(0, AF_INET, SOCK_DGRAM, &address(1, 5500)), run.socket(1, AF_INET, SOCK_DGRAM, &address(2, 5500)));
    let six = run.socket(1, AF_INET6, SOCK_DGRAM, &address6(std::net::Ipv6Addr::UNSPECIFIED, 5501, 0));
    run.option(1, right, IPPROTO_IP, 8, &1i32.to_ne_bytes());
    run.option(0, left, IPPROTO_IP, 11, &1i32.to_ne_bytes());
    run.option(1, right, IPPROTO_IP, 35, &[224, 0, 0, 99, 10, 0, 0, 2]);
    for port in [5500, 5500, 5501, 7777] {
        for size in [1, 600, 1400, 4000] {
            let to = address(2, port);
            let _ = run.call(0, "sendto", |sockets, cx| sockets.send(left, Bytes::from(vec![9; size]), 0, Some(&to), &[], cx));
        }
    }
    // In fragments, to nobody: an error comes back.
    let to = address6("fd77::1".parse().unwrap(), 5502, 0);
    for size in [2000, 5000, 9000] {
        let _ = run.call(1, "sendto", |sockets, cx| sockets.send(six, Bytes::from(vec![8; size]), 0, Some(&to), &[], cx));
    }
    let corked = |run: &mut Programs, more: i32| {
        let to = address(2, 5500);
        run.call(0, "corked", |sockets, cx| sockets.send(left, Bytes::from_static(b"part"), more, Some(&to), &[], cx))
    };
    let _ = corked(&mut run, 0x8000);
    run.pass(Duration::from_millis(50));
    let _ = corked(&mut run, 0);
    // Bulk, in large and small pieces, read slowly.
    let (mut sent, mut received) = ([0usize; 2], [0usize; 2]);
    let size = 300_000;
    for round in 0..4000 {
        for (at, (client, server)) in clients.iter().zip(&servers).enumerate() {
            let most: usize = if at == 0 { 50 } else { 30_000 };
            let piece = most.min(size - sent[at]);
            if piece > 0 && (at == 1 || sent[at] < 20_000) {
                let data: Bytes = (0..piece).map(|byte| ((sent[at] + byte) * 7 / 3) as u8).collect::<Vec<_>>().into();
                let flags = if at == 0 && sent[0] == 1000 { 1 } else { 0 };
                sent[at] += run.call(0, "send", |sockets, cx| sockets.send(*client, data, flags, None, &[], cx)).unwrap_or(0);
            }
            if round % 3 == 0 {
                let got = run.pair.call(1, |sockets, cx| sockets.receive(*server, 4000 + round, 0, cx));
                if let Ok(got) = got {
                    let start = received[at];
                    for (offset, byte) in got.data.iter().flatten().enumerate() {
                        if at == 1 {
                            assert_eq!(*byte, ((start + offset) * 7 / 3) as u8, "byte {}", start + offset);
                        }
                    }
                    received[at] += got.len();
                    run.said.push(format!("{} got {} of {at}", run.pair.now, got.len()));
                }
            }
        }
        run.pass(Duration::from_millis(5));
        if received[1] == size && round > 1200 {
            break;
        }
    }
    assert_eq!(received[1], size);
    for (side, socket) in [(0, clients[0]), (0, left), (1, servers[0]), (1, right), (1, listener), (1, six)] {
        run.poll(side, socket);
        for (level, name) in
            [(SOL_SOCKET, 4), (SOL_SOCKET, 7), (SOL_SOCKET, 8), (SOL_SOCKET, 13), (IPPROTO_IP, 8), (IPPROTO_TCP, 1), (IPPROTO_TCP, 13)]
        {
            run.ask(side, socket, level, name);
        }
    }
    for _ in 0..12 {
        let _ = run.call(1, "recvfrom", |sockets, cx| sockets.receive(right, 2000, 0, cx).map(|got| (got.len(), got.from, got.control)));
        let _ = run.call(0, "errors", |sockets, cx| sockets.receive(left, 2000, 0x2000, cx).map(|got| (got.len(), got.from, got.control)));
    }
    let third = run.call(1, "accept", |sockets, cx| sockets.accept(listener, cx)).unwrap();
    let got = run.call(1, "recv", |sockets, cx| sockets.receive(third, 100, 0, cx).map(|got| got.data.concat()));
    assert_eq!(got, Ok(b"early".to_vec()));
    // Endings: half closed, closed with data in flight, reset by unread data.
    run.call(0, "shutdown", |sockets, cx| sockets.shutdown(clients[0], 1, cx)).unwrap();
    run.call(0, "close", |sockets, cx| sockets.close(clients[1], cx));
    run.call(1, "send", |sockets, cx| sockets.send(third, Bytes::from(vec![1; 5000]), 0, None, &[], cx)).unwrap();
    run.call(1, "close", |sockets, cx| sockets.close(third, cx));
    run.pass(Duration::from_secs(2));
    run.call(0, "close", |sockets, cx| sockets.close(clients[2], cx));
    for side in 0..2 {
        run.pass(Duration::from_secs(5));
        let socket = [clients[0], servers[0]][side];
        run.poll(side, socket);
        let _ = run.call(side, "recv", |sockets, cx| sockets.receive(socket, 1 << 20, 0, cx).map(|got| got.len()));
        run.call(side, "close", |sockets, cx| sockets.close(socket, cx));
    }
    // The port of a connection in TIME-WAIT is held, also after a replacement.
    let again = run.call(0, "socket", |sockets, cx| sockets.socket(AF_INET, SOCK_STREAM, 0, cx)).unwrap();
    let _ = run.call(0, "bind", |sockets, cx| sockets.bind(again, &address(1, 0), cx));
    run.pass(Duration::from_secs(90));
    let frames = run.log.borrow().clone();
    (run.said, frames, run.replacements)
}

fn assert_same(expected: &Told, replaced: &Told) {
    for (at, (one, other)) in expected.1.iter().zip(&replaced.1).enumerate() {
        assert!(one == other, "frame {at} is another:\n{one:02x?}\n{other:02x?}");
    }
    for (one, other) in expected.0.iter().zip(&replaced.0) {
        assert_eq!(one, other);
    }
    assert_eq!((expected.0.len(), expected.1.len()), (replaced.0.len(), replaced.1.len()));
}

#[test]
fn any_block_is_replaced_and_no_frame_is_another() {
    let all = &["tcp", "sockets", "ether", "ip4", "ip6", "arp", "nd", "udp", "icmp4", "icmp6", "igmp", "mld", "loopback", "interfaces"];
    for engine in ["inline", "queued"] {
        let expected = programs(engine, &[]);
        let replaced = programs(engine, all);
        assert_same(&expected, &replaced);
        assert!(replaced.2 > 500 && replaced.1.len() > 500, "{} replacements", replaced.2);
    }
}

#[test]
fn sockets_refuse_what_is_cut_damaged_or_of_another_kind_and_go_on() {
    let mut pair = Pair::new(0, "");
    let (client, server) = pair.connect();
    pair.call(0, |sockets, cx| sockets.send(client, Bytes::from_static(b"waits"), 0, None, &[], cx)).unwrap();
    let good = state_of(&mut pair, 1, "sockets");
    let mut config =
        weft_core::parameter::complete("sockets", weft_socket::ROW.kind, &Default::default(), Rng::for_name(1, "other")).unwrap();
    let mut other = (weft_socket::ROW.make)(&mut config).unwrap();
    let fresh = other.export(pair.now).unwrap();
    let mut import = |state: &State| other.import(state, weft_core::Instant::ZERO);
    for length in 0..good.bytes.len() {
        let cut = State { bytes: good.bytes[..length].to_vec(), ..good.clone() };
        assert!(matches!(import(&cut), Err(StateError::Damaged { .. })), "cut at {length}");
        let mut flipped = good.clone();
        flipped.bytes[length] ^= 1 << (length % 8);
        assert!(matches!(import(&flipped), Err(StateError::Damaged { .. })), "byte {length}");
    }
    assert!(matches!(import(&State { version: 99, ..good.clone() }), Err(StateError::WrongVersion { found: 99, .. })));
    assert!(matches!(import(&State { kind: "tcp".to_owned(), ..good.clone() }), Err(StateError::WrongKind { .. })));
    assert!(other.export(pair.now).unwrap() == fresh, "as before");
    other.import(&good, pair.now).unwrap();
    assert!(other.export(pair.now).unwrap() == good);
    // A block that would not take the state does not get the place.
    let op = Op::Replace { name: "sockets".to_owned(), kind: "tcp".to_owned(), parameters: Default::default(), drop_state: false };
    let now = pair.now;
    let refused = pair.nodes[1].control(now, &Message { serial: 1, op }).result.unwrap_err();
    assert!(refused.to_string().starts_with("cannot replace 'sockets': state of kind sockets"), "{refused}");
    assert!(state_of(&mut pair, 1, "sockets") == good);
    replace(&mut pair, 1, "sockets").unwrap();
    let got = pair.call(1, |sockets, cx| sockets.receive(server, 100, 0, cx).map(|got| got.data.concat()));
    assert_eq!(got, Ok(b"waits".to_vec()));
    assert_eq!(pair.call(1, |sockets, cx| sockets.receive(server, 100, 0, cx).err()), Some(Errno::EAGAIN));
}
