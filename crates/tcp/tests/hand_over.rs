//! tcp is replaced while it works: its successor goes on in the middle of everything, and sends to the bit what the one before would have sent.

use crate::common;

use common::pair::{Pair, Wire};
use common::{Node, OnWire, pattern};
use indexmap::IndexMap;
use weft_core::state::{State, StateError};
use weft_core::*;
use weft_tcp::counters::Counter as Count;
use weft_wire::tcp::{Flags, Segment};

fn replace(node: &mut Node, kind: &str, parameters: &[(&str, Value)], drop_state: bool) -> Result<Value, ControlError> {
    let parameters: IndexMap<String, Value> = parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let op = Op::Replace { name: "tcp".to_owned(), kind: kind.to_owned(), parameters, drop_state };
    node.engine.control(node.now, &Message { serial: 4, op }).result
}

fn flows(node: &mut Node) -> Value {
    node.engine.control(node.now, &Message { serial: 5, op: Op::List(Table::Flows) }).result.unwrap()
}

fn state_of(node: &Node) -> State {
    node.engine.graph().block(node.tcp).unwrap().export(node.now).unwrap()
}

/// Replaces tcp by another of its kind, which takes over what it holds as it is, and by way of another type, from bytes; what each exports at once is what it has
/// taken over, from bytes alone as well.
fn succeed(node: &mut Node) {
    let before = state_of(node);
    for kind in ["tcp", "tcp-by-bytes", "tcp"] {
        replace(node, kind, &[], false).unwrap();
        let after = state_of(node);
        assert!(after == before, "the state of a successor is another: {} and {} bytes", before.bytes.len(), after.bytes.len());
    }
    let through_file = State::from_bytes(&before.to_bytes()).unwrap();
    assert!(through_file == before);
}

/// When a run replaces tcp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Replaced {
    Never,
    /// At every boundary, on both nodes.
    Always,
    /// At random boundaries, on one of them.
    Randomly(u64),
}

/// What two runs are compared by: all that went over the wire, and all that the programs saw.
#[derive(PartialEq, Debug)]
struct Trace {
    wire: Vec<(Instant, usize, Vec<u8>, u8)>,
    programs: Vec<String>,
    counters: Vec<Vec<u64>>,
}

struct Run {
    pair: Pair,
    replaced: Replaced,
    rng: Rng,
    replacements: usize,
}

impl Run {
    fn new(seed: u64, wire: Wire, parameters: &[(&str, Value)], replaced: Replaced) -> Run {
        let mut pair = Pair::new(seed, wire, parameters);
        pair.log = Some(Vec::new());
        Run { pair, replaced, rng: Rng::for_name(seed, "replacements"), replacements: 0 }
    }
    fn boundary(pair: &mut Pair, replaced: Replaced, rng: &mut Rng, replacements: &mut usize) {
        let which: &[usize] = match replaced {
            Replaced::Never => &[],
            Replaced::Always => &[0, 1],
            Replaced::Randomly(one_in) if rng.below(one_in) > 0 => &[],
            Replaced::Randomly(_) if rng.chance(0.5) => &[0],
            Replaced::Randomly(_) => &[1],
        };
        for node in which {
            succeed(&mut pair.nodes[*node]);
            *replacements += 1;
        }
    }
    fn run_for(&mut self, millis: u64) {
        let Run { pair, replaced, rng, replacements } = self;
        let until = pair.now + Duration::from_millis(millis);
        pair.run(until, |pair| {
            Run::boundary(pair, *replaced, rng, replacements);
            false
        });
        pair.run_for(until.since(pair.now));
        Run::boundary(pair, *replaced, rng, replacements);
    }
    fn trace(&mut self) -> Trace {
        let log = self.pair.log.take().unwrap();
        let wire = log.into_iter().map(|(at, from, OnWire { bytes, tos, .. })| (at, from, bytes, tos)).collect();
        let programs = self
            .pair
            .nodes
            .iter_mut()
            .map(|node| {
                node.app(|app, _| {
                    let flows = app.flows.iter().map(|(id, flow)| {
                        let received = digest(&flow.received);
                        format!(
                            "{id:?} {} {received:x} {:?} {:?} {} {}",
                            flow.received.len(),
                            flow.events,
                            flow.replies,
                            flow.credit,
                            flow.released
                        )
                    });
                    format!("{:?} {:#?}", app.accepted, flows.collect::<Vec<_>>())
                })
            })
            .collect();
        let counters = self.pair.nodes.iter().map(|node| node.engine.graph().block(node.tcp).unwrap().counters().to_vec()).collect();
        Trace { wire, programs, counters }
    }
}

fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn assert_same(a: &Trace, b: &Trace, what: &str) {
    for (at, (one, other)) in a.wire.iter().zip(&b.wire).enumerate() {
        assert!(one == other, "{what}: segment {at} is another\n{:?} {:?}\n{:?} {:?}", one.0, parsed(&one.2), other.0, parsed(&other.2));
    }
    assert_eq!(a.wire.len(), b.wire.len(), "{what}");
    assert_eq!(a.programs, b.programs, "{what}");
    assert_eq!(a.counters, b.counters, "{what}");
}

fn parsed(bytes: &[u8]) -> Segment {
    Segment::parse(bytes).unwrap().0
}

/// Bulk both ways through loss, reordering, duplicates and a bottleneck.
fn bulk(control: &str, seed: u64, replaced: Replaced) -> (Trace, usize) {
    let wire = Wire {
        rate: 20_000_000,
        queue: 40_000,
        loss: 0.02,
        duplicate: 0.01,
        reorder: 0.02,
        late: Duration::from_millis(7),
        mark_above: if seed.is_multiple_of(2) { 20_000 } else { u64::MAX },
        ..Wire::default()
    };
    let parameters = [("congestion", Value::from(control)), ("ecn", 1.into()), ("sack", (!seed.is_multiple_of(3)).into())];
    let mut run = Run::new(seed, wire, &parameters, replaced);
    run.pair.connect(StreamOptions::default());
    run.run_for(4000);
    let child = run.pair.accepted().map_or(0, |child| child.0);
    let (there, back) = (pattern(400_000), pattern(300_000));
    run.pair.nodes[0].write(1, there.clone());
    if child > 0 {
        // In pieces as small as those that are joined, and larger ones.
        for piece in 0..300 {
            run.pair.nodes[1].write(child, back.slice(piece * 1000..piece * 1000 + 300));
            run.pair.nodes[1].write(child, back.slice(piece * 1000 + 300..piece * 1000 + 1000));
        }
    }
    run.run_for(60_000);
    let received = |run: &mut Run, node: usize, flow: u64| run.pair.nodes[node].app(|app, _| app.flow(FlowId(flow)).received.clone());
    if child > 0 {
        assert!(received(&mut run, 1, child) == there && received(&mut run, 0, 1) == back, "{control} {seed} {replaced:?}");
    }
    (run.trace(), run.replacements)
}

#[test]
fn a_successor_sends_what_the_one_before_would_have_sent() {
    for control in ["cubic", "reno", "bbr"] {
        for seed in 0..4 {
            let (expected, _) = bulk(control, seed, Replaced::Never);
            let (replaced, count) = bulk(control, seed, Replaced::Randomly(7));
            assert_same(&expected, &replaced, &format!("{control}, seed {seed}"));
            assert!(count > 100, "{count} replacements");
        }
    }
}

fn settings() -> [(&'static str, Value); 2] {
    [("fastopen", 3.into()), ("mtu_probing", 2.into())]
}

/// Whatever state a flow can be in, with what the block keeps beside flows: one long life, a step after the other.
fn life(replaced: Replaced) -> Run {
    let mut run = Run::new(3, Wire::default(), &settings(), replaced);
    let options = StreamOptions {
        keepalive: true,
        keepalive_idle: Some(Duration::from_secs(2)),
        keepalive_interval: Some(Duration::from_secs(1)),
        keepalive_probes: Some(3),
        fast_open_queue: 5,
        congestion: Some("reno".to_owned()),
        save_syn: 1,
        ..StreamOptions::default()
    };
    let connect = |run: &mut Run, flow: u64, port: u16, to: &str, options: &StreamOptions| {
        run.pair.nodes[0].connect(flow, &format!("10.0.0.1:{port}"), to, options.clone());
    };
    run.pair.nodes[1].listen(1, "10.0.0.2:80", 2, options.clone());
    run.pair.nodes[1].listen(2, "10.0.0.2:81", 0, StreamOptions { defer_accept: Duration::from_secs(3), ..options.clone() });
    // A full accept queue, half-open connections, and SYN cookies.
    run.pair.nodes[1].app(|app, _| app.leaves_in_queue = true);
    for flow in 10..17 {
        connect(&mut run, flow, 1000 + flow as u16, "10.0.0.2:80", &options);
    }
    run.run_for(4000);
    run.pair.nodes[1].call(1, StreamCall::Took { connections: 3 });
    run.run_for(6000);
    run.pair.nodes[1].app(|app, _| app.leaves_in_queue = false);
    run.pair.nodes[1].call(1, StreamCall::Took { connections: 3 });
    // A SYN without an answer, one that is refused, one that waits for data.
    connect(&mut run, 20, 1100, "10.0.0.9:80", &options);
    connect(&mut run, 21, 1101, "10.0.0.2:99", &options);
    connect(&mut run, 22, 1102, "10.0.0.2:81", &options);
    run.run_for(5000);
    run.pair.nodes[0].write(22, pattern(10));
    run.run_for(500);
    // Fast Open: the first asks for a cookie, the second has it.
    for flow in [30, 31] {
        let (local, remote) = (format!("10.0.0.1:{}", 1170 + flow).parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        run.pair.nodes[0].call(
            flow,
            StreamCall::ConnectWith { local, remote, options: Box::new(options.clone()), data: pattern(3000), extension: None },
        );
        run.run_for(300);
    }
    // Urgent data, small writes behind the cork, a window that closes, and probes.
    let children = run.pair.nodes[1].app(|app, _| app.accepted.clone());
    run.pair.nodes[1].app(|app, _| app.holds = true);
    run.pair.nodes[0].write_flags(10, pattern(5), DataFlags { urgent: true, ..DataFlags::default() });
    run.pair.nodes[0].call(11, StreamCall::Set(StreamOption::Cork(true)));
    (0..30).for_each(|_| run.pair.nodes[0].write_flags(11, pattern(7), DataFlags::default()));
    run.pair.nodes[0].write(12, pattern(300_000));
    run.run_for(9000);
    let unread = run.pair.nodes[1].app(|app, _| app.flows.iter().map(|(flow, state)| (flow.0, state.unread)).collect::<Vec<_>>());
    assert!(unread.iter().any(|(_, bytes)| *bytes > 50_000), "a window is closed");
    run.pair.nodes[1].app(|app, _| app.holds = false);
    for (flow, bytes) in unread.into_iter().filter(|(_, bytes)| *bytes > 0) {
        run.pair.nodes[1].read(flow, bytes);
        run.run_for(30);
    }
    // A silence: retransmissions with growing timeouts, keepalives without an answer, and an orphan.
    run.pair.filter = Some(Box::new(|from, _| from == 1));
    for flow in [12, 13] {
        if !run.pair.nodes[0].app(|app, _| app.flow(FlowId(flow)).released) {
            run.pair.nodes[0].write(flow, pattern(20_000));
        }
    }
    run.pair.nodes[0].call(13, StreamCall::Close { unread: false, linger: None });
    run.run_for(1500);
    run.pair.filter = None;
    run.run_for(4000);
    // Every way to end.
    run.pair.nodes[0].call(10, StreamCall::ShutdownWrite);
    run.run_for(15);
    run.pair.nodes[1].write(children[0].0, pattern(4000));
    run.pair.nodes[1].call(children[0].0, StreamCall::Close { unread: false, linger: None });
    run.pair.nodes[0].call(11, StreamCall::Close { unread: false, linger: Some(Duration::from_secs(1)) });
    run.pair.nodes[0].call(14, StreamCall::Abort);
    run.pair.nodes[0].call(12, StreamCall::Close { unread: false, linger: None });
    run.run_for(100);
    run
}

#[test]
fn every_state_is_handed_over() {
    let mut expected = life(Replaced::Never);
    let mut replaced = life(Replaced::Always);
    for millis in [1000, 20_000, 50_000, 90_000] {
        expected.run_for(millis);
        replaced.run_for(millis);
    }
    assert!(replaced.replacements > 500, "{}", replaced.replacements);
    for (expected, replaced) in expected.pair.nodes.iter_mut().zip(&mut replaced.pair.nodes) {
        assert_eq!(expected.population(), replaced.population());
        assert_eq!(flows(expected), flows(replaced));
    }
    for count in [
        Count::SyncookiesRecv,
        Count::TCPFastOpenPassive,
        Count::TCPWinProbe,
        Count::TCPKeepAlive,
        Count::TCPTimeouts,
        Count::TCPUrgentReceived,
        Count::TCPDeferAcceptDrop,
        Count::TCPSynRetrans,
        Count::TW,
        Count::ListenOverflows,
    ] {
        let happened: u64 = replaced.pair.nodes.iter_mut().map(|node| node.counter(count)).sum();
        assert!(happened > 0, "{count:?} did not happen");
    }
    let (expected, replaced) = (expected.trace(), replaced.trace());
    assert_same(&expected, &replaced, "a life");
}

#[test]
fn frames_below_come_back_to_the_successor_and_buffers_are_not_copied() {
    let mut pair = Pair::new(1, Wire::default(), &[]);
    pair.connect(StreamOptions::default());
    pair.run_for(Duration::from_millis(50));
    pair.nodes[0].exec_below("gso", 65_536);
    let data = pattern(8000);
    let range = data.as_ptr() as usize..data.as_ptr() as usize + data.len();
    pair.nodes[0].holds_completions = true;
    pair.nodes[0].write(1, data.clone());
    assert!(!pair.nodes[0].take_frames().is_empty(), "lost");
    succeed(&mut pair.nodes[0]);
    let later = pair.now + Duration::from_secs(1);
    pair.nodes[0].advance(later);
    let again = pair.nodes[0].take_frames();
    let slices: Vec<&Bytes> = again.iter().flat_map(|frame| frame.tail()).collect();
    assert!(!slices.is_empty() && slices.iter().all(|slice| range.contains(&(slice.as_ptr() as usize))), "the program's own memory");
    let below = |node: &Node| node.held.iter().map(|completion| completion.bytes).sum::<u32>();
    assert!(below(&pair.nodes[0]) > 0);
    // They name the connection by the key that it still has: nothing is below when all have left.
    while !pair.nodes[0].held.is_empty() {
        pair.nodes[0].complete_all();
        pair.nodes[0].take_frames();
    }
    let at_rest = state_of(&pair.nodes[0]);
    pair.nodes[0].engine.completed(later, Completion { block: pair.nodes[0].tcp, token: 0, bytes: u32::MAX });
    assert!(at_rest == state_of(&pair.nodes[0]), "more left than there was: the account was not at zero");
}

#[test]
fn another_congestion_control_goes_on_from_the_window_that_was() {
    for (from, to) in [("cubic", "bbr"), ("bbr", "reno"), ("reno", "cubic")] {
        let wire = Wire { rate: 20_000_000, queue: 60_000, loss: 0.005, ..Wire::default() };
        let mut pair = Pair::new(5, wire, &[("congestion", from.into())]);
        pair.connect(StreamOptions::default());
        // This one's program has chosen.
        let chosen = StreamOptions { congestion: Some(from.to_owned()), ..StreamOptions::default() };
        pair.nodes[0].connect(2, "10.0.0.1:1235", "10.0.0.2:80", chosen);
        pair.run_for(Duration::from_millis(50));
        let child = pair.accepted().unwrap();
        let data = pattern(2_000_000);
        pair.nodes[0].write(1, data.clone());
        pair.run_for(Duration::from_millis(400));
        let before = pair.nodes[0].info(1);
        replace(&mut pair.nodes[0], "tcp", &[("congestion", to.into())], false).unwrap();
        let after = pair.nodes[0].info(1);
        assert_eq!((before.congestion.as_str(), after.congestion.as_str()), (from, to));
        assert_eq!((after.snd_cwnd, after.unacked, after.rtt_us), (before.snd_cwnd, before.unacked, before.rtt_us));
        assert_eq!(pair.nodes[0].info(2).congestion, from);
        if to == "bbr" {
            // struct tcp_bbr_info: bbr_min_rtt is the third word.
            assert_eq!(after.cc_info[2], before.min_rtt_us, "what the connection has measured counts before the next acknowledgment");
        }
        pair.run_for(Duration::from_secs(20));
        let received = pair.nodes[1].app(|app, _| app.flow(child).received.clone());
        assert!(received == data, "{from} to {to}: {} bytes", received.len());
        assert_eq!(pair.nodes[0].counter(Count::EstabResets), 0);
    }
}

/// The same ports as tcp, and a state to hand over that somebody else has made.
#[derive(Debug, Default)]
struct Forge(Option<State>);

static FORGE: Kind =
    Kind { name: "forge", inputs: weft_tcp::block::KIND.inputs, outputs: weft_tcp::block::KIND.outputs, state_version: 1, ..Kind::EMPTY };

impl Block for Forge {
    fn kind(&self) -> &'static Kind {
        &FORGE
    }
    fn export(&self, _now: Instant) -> Result<State, StateError> {
        self.0.clone().ok_or(StateError::NotExportable { kind: "forge".to_owned() })
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Puts a forged state in the place of tcp's, and tcp there again.
fn import(node: &mut Node, state: State) -> Result<Value, ControlError> {
    replace(node, "forge", &[], true).unwrap();
    let tcp = node.tcp;
    node.engine.with(node.now, tcp, |block, _| block.as_any_mut().downcast_mut::<Forge>().unwrap().0 = Some(state)).unwrap();
    replace(node, "tcp", &settings(), false)
}

/// The same state with other bytes here and there, and a checksum that fits.
fn forged(state: &State, rng: &mut Rng) -> State {
    let mut bytes = state.bytes[..state.bytes.len() - 8].to_vec();
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] = if rng.chance(0.5) { bytes[at] ^ 1 << rng.below(8) } else { rng.u32() as u8 };
    }
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    State { bytes, ..state.clone() }
}

fn busy() -> Pair {
    let mut run = life(Replaced::Never);
    // Some data that waits behind a gap, and some that nobody has acknowledged.
    let mut lost = 0;
    run.pair.filter = Some(Box::new(move |from, on_wire| {
        lost += usize::from(from == 0 && !on_wire.payload.is_empty());
        lost % 3 != 1
    }));
    run.pair.nodes[0].connect(50, "10.0.0.1:3000", "10.0.0.2:80", StreamOptions::default());
    run.run_for(100);
    run.pair.nodes[0].write(50, pattern(30_000));
    run.run_for(15);
    run.pair
}

#[test]
fn damaged_state_is_refused_and_the_old_block_goes_on() {
    let mut pair = busy();
    for node in &mut pair.nodes {
        let good = state_of(node);
        let mut target = Node::with_rows("target", &[], &[BlockRow { kind: &FORGE, make: |_| Ok(Box::new(Forge::default())) }]);
        target.now = node.now;
        let step = 1 + good.bytes.len() / 1500;
        for length in (0..good.bytes.len()).step_by(step).chain(good.bytes.len() - 40..good.bytes.len()) {
            let cut = State { bytes: good.bytes[..length].to_vec(), ..good.clone() };
            let refused = import(&mut target, cut).unwrap_err().to_string();
            assert!(refused.starts_with("cannot replace 'tcp': state of tcp is damaged: "), "{refused}");
        }
        for at in (0..good.bytes.len()).step_by(step) {
            let mut flipped = good.clone();
            flipped.bytes[at] ^= 1 << (at % 8);
            assert!(matches!(import(&mut target, flipped), Err(ControlError::StateRefused { .. })), "byte {at}");
        }
        let refused = import(&mut target, State { version: 9, ..good.clone() }).unwrap_err();
        assert_eq!(refused.to_string(), "cannot replace 'tcp': state of tcp has version 9, this build reads 8");
        // The forge is still there: its export is asked for again, and this time it is a good one.
        import(&mut target, good.clone()).unwrap();
        assert_eq!(state_of(&target), good);
        // What nobody takes over leaves the old block as it was.
        let refused = replace(node, "app", &[], false).unwrap_err();
        assert!(matches!(refused, ControlError::StateRefused { .. }), "{refused}");
        let refused = replace(node, "tcp", &[("congestion", "vegas".into())], false).unwrap_err();
        assert!(matches!(refused, ControlError::BadValue { .. }), "{refused}");
        assert!(state_of(node) == good);
    }
    pair.filter = None;
    let child = pair.nodes[1].app(|app, _| *app.accepted.last().unwrap());
    pair.run_for(Duration::from_secs(60));
    assert_eq!(pair.nodes[1].app(|app, _| app.flow(child).received.len()), 30_000);
}

/// Deliberate damage under a good checksum: refused, or at least nothing that panics when the block runs on.
#[test]
fn nonsense_under_a_good_checksum_does_no_harm() {
    let mut rng = Rng::for_name(11, "forgery");
    let pair = busy();
    let (mut taken, rounds) = (0, 3000);
    for round in 0..rounds {
        let node = &pair.nodes[round % 2];
        let state = forged(&state_of(node), &mut rng);
        let mut target = Node::with_rows("target", &[], &[BlockRow { kind: &FORGE, make: |_| Ok(Box::new(Forge::default())) }]);
        target.now = node.now;
        if import(&mut target, state).is_err() {
            continue;
        }
        taken += 1;
        let now = target.now;
        for millis in [1, 50, 300, 2000, 70_000] {
            target.advance(now + Duration::from_millis(millis));
            target.take_frames();
        }
        let _ = flows(&mut target);
    }
    assert!(taken > rounds / 20 && taken < rounds, "{taken} of {rounds} were believed");
}

#[test]
fn on_another_clock_timestamps_and_timers_go_on_from_bytes_alone() {
    let mut pair = Pair::new(1, Wire::default(), &[]);
    pair.connect(StreamOptions::default());
    pair.run_for(Duration::from_millis(300));
    let child = pair.accepted().unwrap();
    pair.nodes[0].write(1, pattern(1000));
    let lost = pair.nodes[0].take_segments();
    let bytes = state_of(&pair.nodes[0]).to_bytes();
    for shift in [Duration::from_secs(1_000_000), Duration::ZERO] {
        let mut node = Node::with_rows("client", &[], &[BlockRow { kind: &FORGE, make: |_| Ok(Box::new(Forge::default())) }]);
        node.now = Instant::from_millis(10) + shift;
        import(&mut node, State::from_bytes(&bytes).unwrap()).unwrap();
        let began = node.now;
        let mut again = Vec::new();
        while again.is_empty() {
            let next = node.engine.next_timer().unwrap();
            node.advance(next);
            again = node.take_segments();
        }
        let waited = node.now.since(began);
        assert!(
            waited > Duration::from_millis(20) && waited < Duration::from_millis(400),
            "the probe's or the retransmission's time, {waited:?}"
        );
        let stamp = |on_wire: &OnWire| on_wire.segment.options.timestamps.unwrap().value;
        assert_eq!(u128::from(stamp(&again[0]).wrapping_sub(stamp(&lost[0]))), waited.as_millis());
        assert_eq!((again[0].segment.seq, &again[0].payload), (lost[0].segment.seq, &lost[0].payload));
        if shift.is_zero() {
            again.iter().for_each(|segment| pair.nodes[1].inject(segment));
            assert_eq!(pair.nodes[1].app(|app, _| app.flow(child).received.clone()), pattern(1000));
        }
    }
    assert!(lost[0].segment.flags.contains(Flags::ACK));
}
