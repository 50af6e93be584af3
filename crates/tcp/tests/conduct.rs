//! How TCP conducts itself in conversations of every kind, as a committed table: `tests/conduct.txt`.
//!
//! Two programs do what chance, from one seed, tells them: open, write, hold back, set options, close; their wire loses, falls silent, marks and
//! reorders; a stranger repeats segments with other numbers, and routers complain. Of every conversation holds: what is received was sent, in
//! order; nothing is left when all is over. Each row of the table then says how much was sent and how long it took, all counters, and a digest of every
//! segment, its time, and TCP_INFO after each step. Everything is virtual time, so the table is exact: a change of the stack that changes what goes over
//! a wire shows in the difference of that file; run with `WEFT_SNAPSHOT=write` to accept it.

use crate::common;

use common::pair::{Pair, Wire};
use common::{OnWire, encode, pattern};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use weft_core::*;
use weft_tcp::counters::ROWS;
use weft_wire::tcp::Flags;

const STEPS: usize = 240;
/// Bytes that a program has to send on one connection.
const STREAM_BYTES: usize = 600_000;
/// Quarters of a second that a transfer has.
const TRANSFER_STEPS: usize = 60;
/// Segments that the stranger remembers.
const HEARD_MAX: usize = 200;

type Parameters = Vec<(&'static str, Value)>;

/// A digest that any change changes (FNV-1a).
struct Digest(u64);

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

impl std::fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

/// One end of a connection, as its program knows it.
struct End {
    side: usize,
    flow: u64,
    written: usize,
    closed: bool,
}

struct Life {
    pair: Pair,
    rng: Rng,
    v6: bool,
    options: StreamOptions,
    ends: Vec<End>,
    accepted: BTreeSet<FlowId>,
    opened: u64,
    heard: Vec<(usize, OnWire)>,
    digest: Digest,
    segments: [usize; 2],
    loss: f64,
    data: Bytes,
}

impl Life {
    fn new(seed: u64, parameters: &Parameters, wire: &Wire, options: &StreamOptions, v6: bool) -> Life {
        let mut pair = Pair::new(seed, wire.clone(), parameters);
        pair.log = Some(Vec::new());
        pair.nodes[1].listen(1, if v6 { "[::]:80" } else { "0.0.0.0:80" }, 3, options.clone());
        Life {
            pair,
            rng: Rng::for_name(seed, "life"),
            v6,
            options: options.clone(),
            ends: Vec::new(),
            accepted: BTreeSet::new(),
            opened: 0,
            heard: Vec::new(),
            digest: Digest(0xcbf2_9ce4_8422_2325),
            segments: [0; 2],
            loss: wire.loss,
            data: pattern(STREAM_BYTES),
        }
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.rng.below(of.len() as u64) as usize].clone()
    }

    fn open(&mut self) {
        self.opened += 1;
        let (flow, port) = (100 + self.opened, 1000 + self.rng.below(6));
        let (local, remote) = match self.v6 {
            true => (format!("[fd00::1]:{port}"), "[fd00::2]:80"),
            false => (format!("10.0.0.1:{port}"), "10.0.0.2:80"),
        };
        let mut written = 0;
        if self.rng.chance(0.4) {
            written = self.pick(&[0, 100, 5000]);
            let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
            let (options, data) = (Box::new(self.options.clone()), self.data.slice(..written));
            // What is not taken at once comes back as credit; such a program does not write further.
            self.pair.nodes[0].call(flow, StreamCall::ConnectWith { local, remote, options, data, extension: None });
        } else {
            self.pair.nodes[0].connect(flow, &local, remote, self.options.clone());
        }
        let closed = written > 0;
        self.ends.push(End { side: 0, flow, written, closed });
        if closed && self.rng.chance(0.5) {
            self.pair.nodes[0].call(flow, StreamCall::ShutdownWrite);
        }
    }

    /// The ends that accepted connections have at the server.
    fn meet(&mut self) {
        for child in self.pair.app(1, |app, _| app.accepted.clone()) {
            if self.accepted.insert(child) {
                self.ends.push(End { side: 1, flow: child.0, written: 0, closed: false });
            }
        }
    }

    /// An end whose program still has it.
    fn an_end(&mut self) -> Option<usize> {
        let open: Vec<usize> = (0..self.ends.len())
            .filter(|at| {
                let End { side, flow, closed, .. } = self.ends[*at];
                !closed && self.pair.app(side, |app, _| !app.flow(FlowId(flow)).released)
            })
            .collect();
        (!open.is_empty()).then(|| self.pick(&open))
    }

    fn step(&mut self) {
        self.meet();
        match self.rng.below(24) {
            0 | 1 => self.open(),
            2..=8 => self.write(),
            9 | 10 => self.option(),
            11 => self.finish(),
            12 => self.read(),
            13 => self.network(),
            14 | 15 => self.stranger(),
            16 => self.complaint(),
            17 => self.wires(),
            _ => {}
        }
        let long = if self.rng.chance(0.2) { 90_000 } else { 300 };
        let millis = self.pick(&[0, 0, 1, 7, 7, 40, 40, 150, 150, 400, 1000, 5000, long]);
        self.pair.run_for(Duration::from_millis(millis));
        self.record();
    }

    fn write(&mut self) {
        let Some(at) = self.an_end() else { return };
        let length = self.pick(&[1, 10, 300, 1460, 3000, 20_000, 150_000]);
        let End { side, flow, written, .. } = self.ends[at];
        let bytes = self.data.slice(written..(written + length).min(STREAM_BYTES));
        let credit = self.pair.app(side, |app, _| app.flow(FlowId(flow)).credit);
        self.ends[at].written += bytes.len();
        if self.rng.chance(0.2) && (bytes.len() as u64) <= credit && !bytes.is_empty() && self.idle(side, flow) {
            let flags = DataFlags { more: self.rng.chance(0.5), urgent: self.rng.chance(0.5), ..DataFlags::default() };
            return self.pair.nodes[side].write_flags(flow, bytes, flags);
        }
        self.pair.nodes[side].write(flow, bytes);
    }

    fn idle(&mut self, side: usize, flow: u64) -> bool {
        self.pair.app(side, |app, _| app.flow(FlowId(flow)).unsent.is_empty())
    }

    fn option(&mut self) {
        let Some(at) = self.an_end() else { return };
        let End { side, flow, .. } = self.ends[at];
        let on = self.rng.chance(0.5);
        let seconds = Duration::from_secs(1 + self.rng.below(20));
        let bytes = 2000 + self.rng.below(200_000) as u32;
        let option = match self.rng.below(17) {
            0 => StreamOption::Nodelay(on),
            1 | 2 => StreamOption::Cork(on),
            3 => StreamOption::Quickack(Some(on)),
            4 => StreamOption::Keepalive(on),
            5 => StreamOption::KeepaliveIdle(Some(seconds)),
            6 => StreamOption::KeepaliveInterval(Some(seconds)),
            7 => StreamOption::KeepaliveProbes(Some(3)),
            8 => StreamOption::UserTimeout(Some(seconds)),
            9 => StreamOption::MssMax(500 + bytes % 900),
            10 => StreamOption::WindowClamp(bytes),
            11 => StreamOption::Congestion(Some(self.pick(&["cubic", "reno", "bbr"]).to_owned())),
            12 => StreamOption::UnsentLowWater(bytes),
            13 => StreamOption::SendBuffer(Some(bytes)),
            14 => StreamOption::ReceiveBuffer(Some(bytes)),
            15 => StreamOption::PacingRateMax(u64::from(bytes) * 10),
            _ => StreamOption::FinWait2(Some(seconds)),
        };
        self.pair.nodes[side].call(flow, StreamCall::Set(option));
    }

    fn finish(&mut self) {
        let Some(at) = self.an_end() else { return };
        let End { side, flow, .. } = self.ends[at];
        let call = match self.rng.below(8) {
            0 => StreamCall::Abort,
            1 => StreamCall::ShutdownRead,
            2..=4 => StreamCall::ShutdownWrite,
            _ => StreamCall::Close { unread: self.rng.chance(0.2), linger: self.pick(&[None, None, Some(Duration::from_secs(3))]) },
        };
        self.ends[at].closed = !matches!(call, StreamCall::ShutdownRead);
        if self.ends[at].closed {
            self.pair.app(side, |app, _| app.flow(FlowId(flow)).unsent.clear());
        }
        self.pair.nodes[side].call(flow, call);
    }

    /// Programs stop reading, or read what has come.
    fn read(&mut self) {
        let (side, holds) = (self.rng.below(2) as usize, self.rng.chance(0.5));
        self.pair.app(side, |app, _| app.holds = holds);
        for at in 0..self.ends.len() {
            let End { side: of, flow, .. } = self.ends[at];
            let (unread, released) = self.pair.app(of, |app, _| (app.flow(FlowId(flow)).unread, app.flow(FlowId(flow)).released));
            if of == side && !holds && unread > 0 && !released {
                self.pair.nodes[side].read(flow, unread);
            }
        }
    }

    fn network(&mut self) {
        let side = self.rng.below(2) as usize;
        let (what, value) = self.pick(&[("mtu", 1500), ("mtu", 1280), ("mtu", 9000), ("mtu", 1300), ("gso", 0), ("gso", 65_000)]);
        self.pair.nodes[side].exec_below(what, value);
    }

    /// The wire falls silent, or speaks again; long segments vanish, or pass.
    fn wires(&mut self) {
        let side = self.rng.below(2) as usize;
        self.pair.wires[side].loss = self.pick(&[1.0, self.loss, self.loss]);
        let most = self.pick(&[usize::MAX, usize::MAX, 1200]);
        self.pair.filter = Some(Box::new(move |_, one| one.bytes.len() <= most));
    }

    /// A segment that was heard, again, with other numbers, flags or options.
    fn stranger(&mut self) {
        if self.heard.is_empty() {
            return;
        }
        let (from, mut one) = self.pick(&self.heard.clone());
        let by = self.pick(&[0, 1, 1460, 100_000, 3_000_000_000, u32::MAX, u32::MAX - 1460]);
        match self.rng.below(9) {
            // Bytes elsewhere in the stream would be taken for what belongs there.
            0 => {
                one.segment.seq += by;
                one.payload.clear();
            }
            1 => one.segment.ack += by,
            2 => one.segment.flags |= Flags::RST,
            3 => one.segment.flags |= Flags::SYN,
            4 => one.segment.flags -= Flags::ACK,
            5 => one.segment.window = self.pick(&[0, 1, 100, 65_535]),
            6 => one.segment.options.timestamps.iter_mut().for_each(|stamps| stamps.value = stamps.value.wrapping_add(by)),
            7 => {
                let ack = one.segment.ack;
                let _ = one.segment.options.sack.try_push((ack + 1460, ack + by));
            }
            _ => one.tos |= 3,
        }
        if self.rng.chance(0.2) {
            one.segment.flags |= Flags::FIN;
        }
        if one.segment.options.fits() {
            one.bytes = encode(&one.segment, &one.payload, one.src, one.dst);
        }
        self.pair.nodes[1 - from].inject(&one);
    }

    /// A router complains of a segment that was heard.
    fn complaint(&mut self) {
        if self.heard.is_empty() {
            return;
        }
        let (from, one) = self.pick(&self.heard.clone());
        let mut bytes = vec![0u8; if self.v6 { 40 } else { 20 }];
        match (one.src.ip(), one.dst.ip()) {
            (std::net::IpAddr::V6(src), std::net::IpAddr::V6(dst)) => {
                (bytes[0], bytes[6]) = (0x60, 6);
                bytes[8..24].copy_from_slice(&src.octets());
                bytes[24..40].copy_from_slice(&dst.octets());
            }
            (std::net::IpAddr::V4(src), std::net::IpAddr::V4(dst)) => {
                let total_len = (20 + one.bytes.len()) as u16;
                let header = weft_wire::ipv4::Header { protocol: weft_wire::Protocol::TCP, src, dst, total_len, ..Default::default() };
                header.emit(&mut bytes);
            }
            _ => unreachable!(),
        }
        bytes.extend(&one.bytes[..8]);
        let mtu = self.pick(&[1400, 1300, 600, 100]);
        let kind = self.pick(&[IcmpErrorKind::TooBig { mtu }, IcmpErrorKind::HostUnreachable, IcmpErrorKind::PortUnreachable]);
        let mut frame = Frame::ingress(&bytes);
        frame.meta_mut().error = Some(IcmpError { kind, from: one.dst.ip() });
        let node = &mut self.pair.nodes[from];
        node.engine.inject(node.now, node.tcp, InPort(1), [frame]);
    }

    /// Much data one way, and some back, as fast as it goes.
    fn transfer(&mut self) {
        self.opened = 1;
        let (local, remote) = if self.v6 { ("[fd00::1]:1000", "[fd00::2]:80") } else { ("10.0.0.1:1000", "10.0.0.2:80") };
        self.pair.nodes[0].connect(101, local, remote, self.options.clone());
        self.ends.push(End { side: 0, flow: 101, written: STREAM_BYTES, closed: false });
        self.pair.nodes[0].write(101, self.data.clone());
        for _ in 0..TRANSFER_STEPS {
            self.pair.run_for(Duration::from_millis(250));
            let before = self.ends.len();
            self.meet();
            if self.ends.len() > before {
                let (child, answer) = (self.ends[before].flow, self.data.slice(..30_000));
                self.pair.nodes[1].write(child, answer);
            }
            self.record();
        }
    }

    fn record(&mut self) {
        for (at, from, one) in self.pair.log.replace(Vec::new()).into_iter().flatten() {
            self.segments[from] += 1;
            self.digest.add(&at.as_nanos().to_be_bytes());
            self.digest.add(&[from as u8, one.tos]);
            self.digest.add(&one.bytes);
            if self.heard.len() == HEARD_MAX {
                self.heard.remove(0);
            }
            self.heard.push((from, one));
        }
        for End { side, flow, .. } in &self.ends {
            let node = &mut self.pair.nodes[*side];
            if let Answer::FlowInfo(info) = node.engine.graph().block(node.tcp).unwrap().query(&Query::FlowInfo(FlowId(*flow)), node.now) {
                write!(self.digest, "{info:?}").unwrap();
            }
        }
        for side in 0..2 {
            let events = self.pair.app(side, |app, _| app.flows.values().map(|flow| flow.events.clone()).collect::<Vec<_>>());
            let drops = self.pair.nodes[side].drops();
            write!(self.digest, "{events:?}{drops:?}").unwrap();
        }
    }

    /// What is received was sent, in order, and nothing else.
    fn check(&mut self, name: &str) {
        for side in 0..2 {
            let received: Vec<(FlowId, Vec<u8>)> =
                self.pair.app(side, |app, _| app.flows.iter().map(|(flow, state)| (*flow, state.received.clone())).collect());
            for (flow, bytes) in received {
                assert!(
                    self.data.starts_with(&bytes),
                    "{name}: {flow:?} of node {side} received {} bytes, not those that were sent",
                    bytes.len()
                );
            }
        }
    }

    /// Everybody closes, the wire works, and after the longest timeout nothing is left but the listener.
    fn end(&mut self, name: &str) {
        self.pair.filter = None;
        self.pair.wires.iter_mut().for_each(|wire| wire.loss = 0.0);
        self.pair.nodes[1].call(1, StreamCall::Close { unread: false, linger: None });
        for _ in 0..2 {
            self.meet();
            for End { side, flow, .. } in &self.ends {
                if self.pair.app(*side, |app, _| !app.flow(FlowId(*flow)).released) {
                    self.pair.app(*side, |app, _| app.flow(FlowId(*flow)).unsent.clear());
                    self.pair.nodes[*side].call(*flow, StreamCall::Close { unread: false, linger: None });
                }
            }
            self.pair.run_for(Duration::from_secs(2000));
        }
        self.record();
        for side in 0..2 {
            let left = self.ends.iter().filter(|end| end.side == side).filter_map(|end| {
                let node = &self.pair.nodes[side];
                match node.engine.graph().block(node.tcp).unwrap().query(&Query::FlowInfo(FlowId(end.flow)), node.now) {
                    Answer::FlowInfo(info) => Some((end.flow, info)),
                    _ => None,
                }
            });
            let left: Vec<_> = left.collect();
            assert_eq!(self.pair.nodes[side].population(), (0, 0, 0), "{name}: node {side} at the end: {left:?}");
        }
    }

    fn row(&mut self, name: &str) -> String {
        let mut out =
            format!("{name}: {} connections, {:?} segments, {}, {:016x}\n", self.opened, self.segments, self.pair.now, self.digest.0);
        for (side, who) in [(0, "client"), (1, "server")] {
            let node = &self.pair.nodes[side];
            let values = node.engine.graph().block(node.tcp).unwrap().counters();
            let counted = ROWS.iter().zip(values).filter(|(_, value)| **value > 0).map(|(row, value)| format!("{} {value}", row.name));
            writeln!(out, "  {who}: {}", counted.collect::<Vec<_>>().join(", ")).unwrap();
        }
        out
    }
}

/// Parameters of both nodes, by name.
fn stacks() -> Vec<(&'static str, Parameters)> {
    vec![
        ("cubic", vec![("congestion", "cubic".into())]),
        ("reno", vec![("congestion", "reno".into())]),
        ("bbr", vec![("congestion", "bbr".into())]),
        ("no sack", vec![("sack", false.into())]),
        ("no timestamps", vec![("timestamps", false.into())]),
        ("nothing offered", vec![("sack", false.into()), ("timestamps", false.into()), ("window_scaling", false.into())]),
        ("ecn", vec![("ecn", 1.into())]),
        ("fast open", vec![("fastopen", 1027.into())]),
        ("fast open without cookies", vec![("fastopen", 519.into()), ("congestion", "reno".into())]),
        ("cookies", vec![("syncookies", 2.into())]),
        ("small backlog", vec![("syn_backlog", 1.into()), ("synack_retries", 2.into()), ("syncookies", 0.into())]),
        ("small buffers", vec![("rmem_default", 8000.into()), ("rmem_max", 20_000.into()), ("wmem_max", 20_000.into())]),
        ("paced", vec![("pacing", true.into()), ("tail_loss_probe", false.into()), ("reordering", 5.into())]),
        ("path searched for", vec![("mtu_probing", 2.into()), ("retries1", 2.into())]),
        ("no frto", vec![("frto", false.into()), ("dsack", false.into()), ("slow_start_after_idle", false.into())]),
        ("impatient", vec![("retries2", 4.into()), ("syn_retries", 1.into()), ("fin_timeout", "5s".into()), ("time_wait", "3s".into())]),
        (
            "limits",
            vec![("challenge_ack_limit", 2.into()), ("reset_limit", 1.into()), ("time_wait_max", 1.into()), ("rfc1337", true.into())],
        ),
    ]
}

fn wires() -> [(&'static str, Wire); 5] {
    let shaped = Wire { delay: Duration::from_millis(10), rate: 20_000_000, queue: 60_000, ..Wire::default() };
    [
        ("shaped", Wire { mark_above: 20_000, ..shaped.clone() }),
        ("lossy", Wire { loss: 0.04, ..shaped.clone() }),
        ("disordered", Wire { reorder: 0.1, late: Duration::from_millis(7), duplicate: 0.05, ..shaped.clone() }),
        ("near", Wire { delay: Duration::from_micros(50), loss: 0.005, ..Wire::default() }),
        ("far", Wire { delay: Duration::from_millis(300), loss: 0.01, rate: 5_000_000, ..shaped }),
    ]
}

#[test]
fn conduct_is_as_recorded() {
    let mut table = String::from(
        "Conversations by stack and wire: connections, segments from client and server, virtual time at the end, digest of all segments, their times and\n\
         TCP_INFO; then the counters. What each stands for is in tests/conduct.rs.\n\n",
    );
    for (stack, parameters) in stacks() {
        for (at, (path, wire)) in wires().iter().enumerate() {
            let name = format!("{stack}, {path}");
            let options = StreamOptions { fast_open_queue: 4, ..StreamOptions::default() };
            for transfer in [false, true] {
                let name = format!("{name}{}", if transfer { ", a transfer" } else { "" });
                let mut life = Life::new(17 + at as u64, &parameters, wire, &options, (at % 2 == 1) != transfer);
                match transfer {
                    true => life.transfer(),
                    false => (0..STEPS).for_each(|_| life.step()),
                }
                life.check(&name);
                life.end(&name);
                table += &life.row(&name);
            }
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conduct.txt");
    if std::env::var("WEFT_SNAPSHOT").is_ok_and(|value| value == "write") {
        std::fs::write(path, &table).unwrap();
    }
    let recorded = std::fs::read_to_string(path).unwrap_or_default();
    let changed: Vec<String> = table.lines().filter(|line| !recorded.lines().any(|known| known == *line)).map(str::to_owned).collect();
    assert!(table == recorded, "conduct changed (if it is meant to: WEFT_SNAPSHOT=write); these lines are new:\n{}", changed.join("\n"));
}
