//! The Subflow extension, used as MPTCP will use it: options on every segment, mappings that survive retransmission, the window from above,
//! fall-back and reset.

use crate::common;

use common::pattern;
use std::sync::{Arc, Mutex};
use weft_core::*;
use weft_tcp::connection::{Connection, Path, Setup};
use weft_tcp::extension::{Extension, Incoming, Outgoing, Verdict};
use weft_tcp::{Config, Env, Outbox};
use weft_wire::tcp::{Flags, Options, Segment, Seq};

const KIND: u8 = 253;

#[derive(Debug, Default)]
struct Log {
    written: Vec<Outgoing>,
    read: Vec<(u64, u32)>,
    fell_back: bool,
    resets: Vec<bool>,
}

#[derive(Debug)]
struct Tagged {
    log: Arc<Mutex<Log>>,
    verdict: Verdict,
    window: u32,
}

impl Extension for Tagged {
    fn export(&self, _now: Instant) -> State {
        State::none("tagged")
    }
    fn option_bytes(&self) -> u32 {
        12
    }
    fn write_options(&mut self, segment: Outgoing, options: &mut Options) {
        self.log.lock().unwrap().written.push(segment);
        if let Outgoing::Data { mapping, .. } = segment {
            options.push_other(KIND, &mapping.to_be_bytes()).unwrap();
        }
    }
    fn on_segment(&mut self, incoming: &Incoming<'_>) -> Verdict {
        self.log.lock().unwrap().read.push((incoming.offset, incoming.bytes));
        self.verdict
    }
    fn receive_window(&self, own: u32) -> u32 {
        own.min(self.window)
    }
    fn on_fallback(&mut self) {
        self.log.lock().unwrap().fell_back = true;
    }
    fn on_reset(&mut self, by_peer: Option<&Segment>) {
        self.log.lock().unwrap().resets.push(by_peer.is_some());
    }
}

struct Bench {
    connection: Connection,
    out: Outbox,
    config: Config,
    now: Instant,
    log: Arc<Mutex<Log>>,
    initial: Seq,
}

impl Bench {
    /// A connection with the extension, established.
    fn new(verdict: Verdict, window: u32) -> Bench {
        let log = Arc::new(Mutex::new(Log::default()));
        let (config, mut out, now) = (Config { timestamps: false, ..Config::default() }, Outbox::default(), Instant::from_millis(5));
        let setup = Setup {
            flow: FlowId(1),
            token: 0,
            local: "10.0.0.1:1".parse().unwrap(),
            remote: "10.0.0.2:2".parse().unwrap(),
            options: StreamOptions { nodelay: true, ..StreamOptions::default() },
            path: Path { mtu: 1500, gso_max_bytes: 0, interface: InterfaceIndex::NONE, neighbour: None, epoch: 1 },
            initial: Seq(100),
            timestamp_offset: 0,
            extension: Box::new(Tagged { log: log.clone(), verdict, window }),
            control_seed: 1,
        };
        let connection = Connection::connect(&mut Env { now, config: &config, out: &mut out }, setup);
        let mut bench = Bench { connection, out, config, now, log, initial: Seq(100) };
        let mut answer = Segment { seq: Seq(900), ack: Seq(101), flags: Flags::SYN | Flags::ACK, window: 60_000, ..Segment::default() };
        answer.options.mss = Some(1000);
        answer.options.sack_permitted = true;
        bench.segment(answer);
        bench
    }
    fn segment(&mut self, segment: Segment) {
        let mut env = Env { now: self.now, config: &self.config, out: &mut self.out };
        self.connection.on_segment(&mut env, &segment, Frame::ingress(b""));
    }
    fn send(&mut self, bytes: Bytes, mapping: u64) {
        let mut env = Env { now: self.now, config: &self.config, out: &mut self.out };
        self.connection.send(&mut env, bytes, DataFlags::default(), mapping);
    }
    /// Sequence number, length and mapping of each data frame given out.
    fn data(&mut self) -> Vec<(u32, usize, u64)> {
        let mut found = Vec::new();
        for frame in std::mem::take(&mut self.out.frames) {
            let (segment, header) = Segment::parse(frame.head()).unwrap();
            if let Some((KIND, data)) = segment.options.others().next() {
                found.push((segment.seq.since(self.initial), frame.len() - header, u64::from_be_bytes(data.try_into().unwrap())));
            }
        }
        found
    }
}

#[test]
fn each_segment_carries_one_mapping_and_a_retransmission_the_same() {
    let mut bench = Bench::new(Verdict::Continue, u32::MAX);
    bench.data();
    bench.send(pattern(1500), 7);
    bench.send(pattern(700), 8);
    // 1000 announced, 12 are the extension's.
    let sent = bench.data();
    assert_eq!(sent, [(1, 988, 7), (989, 512, 7), (1501, 700, 8)]);
    // Nothing is acknowledged: all of it again, in the same pieces.
    let mut again = Vec::new();
    for _ in 0..3 {
        bench.now = bench.connection.next_deadline();
        let mut env = Env { now: bench.now, config: &bench.config, out: &mut bench.out };
        bench.connection.on_timer(&mut env);
        again.extend(bench.data());
    }
    assert!(!again.is_empty() && again.iter().all(|segment| sent.contains(segment)), "{again:?}");
}

#[test]
fn it_sees_every_segment_and_supplies_the_window() {
    let mut bench = Bench::new(Verdict::Continue, 5000);
    bench.out.frames.clear();
    let mut data = Segment { seq: Seq(901), ack: Seq(101), flags: Flags::ACK | Flags::PSH, window: 60_000, ..Segment::default() };
    data.options.push_other(KIND, &[1]).unwrap();
    let mut env = Env { now: bench.now, config: &bench.config, out: &mut bench.out };
    // The window that the SYN promised is used up first; what is announced behind it is the extension's.
    for at in 0..70u32 {
        let segment = Segment { seq: Seq(901) + at * 1000, ..data.clone() };
        bench.connection.on_segment(&mut env, &segment, Frame::ingress(&pattern(1000)));
        bench.connection.on_credit(&mut env, 1000);
    }
    let last = bench.out.frames.pop().unwrap();
    let (segment, _) = Segment::parse(last.head()).unwrap();
    assert_eq!((segment.ack, segment.window), (Seq(901 + 70_000), 5000));
    let log = bench.log.lock().unwrap();
    assert_eq!(log.read[..3], [(0, 0), (0, 1000), (1000, 1000)]);
    assert!(matches!(log.written[0], Outgoing::Syn));
}

#[test]
fn fall_back_leaves_plain_tcp_and_a_reset_is_told() {
    let mut bench = Bench::new(Verdict::FallBack, u32::MAX);
    assert!(bench.log.lock().unwrap().fell_back);
    bench.out.frames.clear();
    bench.send(pattern(1000), 3);
    assert_eq!(bench.data(), []);
    let bench = Bench::new(Verdict::Reset, u32::MAX);
    assert_eq!(bench.log.lock().unwrap().resets, [false]);
    let mut bench = Bench::new(Verdict::Continue, u32::MAX);
    bench.segment(Segment { seq: Seq(901), flags: Flags::RST, ..Segment::default() });
    assert_eq!(bench.log.lock().unwrap().resets, [true]);
    assert!(bench.connection.free_cwnd() == 0 || bench.connection.state() == weft_tcp::State::Closed);
}

#[test]
fn a_scheduler_can_ask_how_much_fits() {
    let mut bench = Bench::new(Verdict::Continue, u32::MAX);
    // Ten segments of 988 bytes.
    assert_eq!(bench.connection.free_cwnd(), 9880);
    bench.send(pattern(988 * 4), 0);
    assert_eq!(bench.connection.free_cwnd(), 988 * 6);
}
