//! The engine: both modes carry the same frames; limits hold.

use crate::common;
use common::*;
use std::collections::BTreeMap;
use weft_core::*;

/// Ten blocks: a split three ways, a copy, two that hold, ways that meet again, and two exits.
fn graph(mode: Mode) -> Engine {
    let mut engine = engine(mode);
    let mut ops: Vec<Op> = ["p", "q", "r", "s"].iter().map(|name| stamp(name)).collect();
    for (name, kind) in [("split", "split"), ("copy", "copy"), ("hold", "hold"), ("late", "hold"), ("x", "exit"), ("y", "exit")] {
        ops.push(add(name, kind));
    }
    for (from, to) in [
        ("p:out", "split:in"),
        ("split:a", "q:in"),
        ("split:b", "copy:in"),
        ("split:c", "hold:in"),
        ("q:out", "x:in"),
        ("copy:out", "r:in"),
        ("copy:copy", "late:in"),
        ("r:out", "x:in"),
        ("hold:out", "s:in"),
        ("late:out", "s:in"),
        ("s:out", "y:in"),
    ] {
        ops.push(bind(from, to));
    }
    control(&mut engine, Op::All(ops)).unwrap();
    engine
}

/// Frames by exit and way, in the order in which they left; completed bytes; drops of every block.
type Outcome = (BTreeMap<(String, String), Vec<(u8, u32)>>, u64, Vec<(String, &'static str, u64)>);

fn run(mode: Mode, seed: u64) -> Outcome {
    let mut engine = graph(mode);
    let mut rng = Rng::for_name(seed, "traffic");
    let entry = engine.graph().find("p").unwrap();
    let exit = engine.graph().find("x").unwrap();
    let mut ways: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let (mut number, mut now) = (0u32, Instant::ZERO);
    let mut collect = |engine: &mut Engine| {
        for (exit, decision, number, way) in left(engine) {
            ways.entry((exit, way)).or_default().push((decision, number));
        }
    };
    while number < 10_000 {
        let burst = (rng.below(200) + 1).min(10_000 - u64::from(number));
        let frames: Vec<Frame> = (0..burst)
            .map(|_| {
                number += 1;
                let mut frame = frame(rng.u32() as u8, number);
                frame.meta_mut().completion = number.is_multiple_of(5).then_some(Completion { block: exit, token: 7, bytes: number });
                frame
            })
            .collect();
        engine.inject(now, entry, InPort(0), frames);
        collect(&mut engine);
        let until = now + Duration::from_micros(rng.below(3000));
        while let Some(at) = engine.next_timer().filter(|at| *at <= until) {
            engine.run(at);
            collect(&mut engine);
        }
        now = until;
    }
    while let Some(at) = engine.next_timer() {
        engine.run(at);
        collect(&mut engine);
    }
    let graph = engine.graph();
    let completed = graph.block(exit).unwrap().counters()[0];
    let drops = graph.ids().flat_map(|id| graph.drops(id).map(move |(reason, count)| (id, reason, count)));
    let drops = drops.map(|(id, reason, count)| (graph.name(id).to_owned(), reason.name(), count)).collect();
    (ways, completed, drops)
}

#[test]
fn inline_and_queued_give_the_same_frames_in_the_same_order_on_every_way() {
    for seed in 1..=3 {
        let (inline, queued) = (run(Mode::Inline, seed), run(Mode::Queued, seed));
        assert_eq!(inline, queued);
        let (ways, completed, drops) = inline;
        // p q → x, p r → x; p s → y by hold and by late have the same letters.
        assert_eq!(ways.keys().map(|(exit, way)| format!("{exit}{way}")).collect::<Vec<_>>(), ["xpq", "xpr", "yps"]);
        assert!(ways.values().all(|frames| frames.len() > 500));
        // One way keeps the order of numbers where nothing is held.
        for way in ["pq", "pr"] {
            let frames = &ways[&("x".to_owned(), way.to_owned())];
            assert!(frames.windows(2).all(|pair| pair[0].1 < pair[1].1));
        }
        assert!(completed > 0, "frames that ended inside have reported");
        assert!(drops.iter().any(|(block, reason, _)| (block.as_str(), *reason) == ("split", "filtered")));
    }
}

#[test]
fn every_frame_is_accounted_for() {
    let (ways, _, drops) = run(Mode::Inline, 9);
    let left: usize = ways.values().map(Vec::len).sum();
    let dropped: u64 = drops.iter().map(|(_, _, count)| count).sum();
    let mut rng = Rng::for_name(9, "traffic");
    let (mut number, mut copies, mut consumed) = (0, 0, 0);
    while number < 10_000 {
        let burst = (rng.below(200) + 1).min(10_000 - number);
        for _ in 0..burst {
            number += 1;
            let decision = rng.u32() as u8;
            consumed += u64::from(decision % 8 == 7);
            copies += u64::from(matches!(decision % 8, 2 | 3) && decision.is_multiple_of(3));
        }
        rng.below(3000);
    }
    assert_eq!(left as u64 + dropped + consumed, 10_000 + copies);
}

#[test]
fn completions_of_dropped_and_consumed_frames_are_reported_and_others_leave_with_the_frame() {
    for mode in [Mode::Inline, Mode::Queued] {
        let mut engine = graph(mode);
        let (entry, exit) = (engine.graph().find("p").unwrap(), engine.graph().find("x").unwrap());
        let with = |decision| {
            let mut frame = frame(decision, 1);
            frame.meta_mut().completion = Some(Completion { block: exit, token: 7, bytes: 1 << decision });
            frame
        };
        let completed = |engine: &Engine| engine.graph().block(exit).unwrap().counters()[0];
        engine.inject(Instant::ZERO, entry, InPort(0), [with(6), with(7), with(0)]);
        assert_eq!(completed(&engine), 0b1100_0000);
        let out = engine.take_outgoing();
        engine.completed(Instant::ZERO, out[0].frame.meta().completion.unwrap());
        assert_eq!(completed(&engine), 0b1100_0001);
        // A frame for a block that is not there.
        engine.inject(Instant::ZERO, BlockId(99), InPort(0), [with(1)]);
        assert_eq!(completed(&engine), 0b1100_0011);
    }
}

#[test]
fn a_graph_that_loops_drops_at_the_depth_limit() {
    for mode in [Mode::Inline, Mode::Queued] {
        let mut engine = engine(mode);
        control(&mut engine, Op::All(vec![stamp("a"), stamp("b"), bind("a:out", "b:in"), bind("b:out", "a:in")])).unwrap();
        let entry = engine.graph().find("a").unwrap();
        engine.inject(Instant::ZERO, entry, InPort(0), (0..10).map(|n| frame(0, n)));
        let visits: u64 = ["a", "b"].iter().map(|name| engine.graph().frames_in(engine.graph().find(name).unwrap())).sum();
        assert_eq!(drops(&engine, "a", Reason::Loop) + drops(&engine, "b", Reason::Loop), 10);
        assert_eq!(visits, 10 * (u64::from(engine::DEPTH_MAX) + 1));
    }
}

#[test]
fn a_graph_that_copies_in_a_loop_ends_all_the_same() {
    for mode in [Mode::Inline, Mode::Queued] {
        let mut engine = engine(mode);
        let ops =
            vec![add("c", "copy"), bind("c:out", "c:in"), bind("c:copy", "c:in"), stamp("a"), add("x", "exit"), bind("a:out", "x:in")];
        control(&mut engine, Op::All(ops)).unwrap();
        let (copy, other) = (engine.graph().find("c").unwrap(), engine.graph().find("a").unwrap());
        engine.inject(Instant::ZERO, copy, InPort(0), [frame(0, 1)]);
        assert!(engine.graph().frames_in(copy) <= u64::from(engine::VISITS_MAX) * 64);
        let lost = drops(&engine, "c", Reason::Loop) + drops(&engine, "c", Reason::QueueFull);
        assert!(lost > 1, "{lost} frames dropped");
        // The limit is of one event; the next has all of it again.
        engine.inject(Instant::ZERO, other, InPort(0), (0..10).map(|n| frame(0, n)));
        assert_eq!(left(&mut engine).len(), 10);
    }
}

#[test]
fn queues_are_bounded_and_full_ones_drop() {
    let mut engine = engine(Mode::Queued);
    // Every third frame is copied three times in a row: what enters "z" at once is more than its queue takes.
    let mut ops = vec![stamp("z"), add("x", "exit"), bind("z:out", "x:in")];
    let copies: Vec<String> = (0..8).map(|n| format!("copy{n}")).collect();
    ops.extend(copies.iter().map(|name| add(name, "copy")));
    for pair in copies.windows(2) {
        ops.push(bind(&format!("{}:out", pair[0]), &format!("{}:in", pair[1])));
    }
    ops.extend(copies.iter().map(|name| bind(&format!("{name}:copy"), "z:in")));
    control(&mut engine, Op::All(ops)).unwrap();
    let entry = engine.graph().find("copy0").unwrap();
    engine.inject(Instant::ZERO, entry, InPort(0), (0..64).map(|n| frame(0, n)));
    assert_eq!(left(&mut engine).len(), 64 * 8, "below the bound nothing is lost");
    assert_eq!(drops(&engine, "copy7", Reason::NotBound), 64, "the last copy's output leads nowhere");
}

#[test]
fn a_queue_that_is_full_drops_and_says_so() {
    // A block that emits more in one call than the queue in front of the next takes.
    let mut engine = engine(Mode::Queued);
    control(&mut engine, Op::All(vec![stamp("a"), add("x", "exit"), bind("a:out", "x:in")])).unwrap();
    let id = engine.graph().find("a").unwrap();
    let frames = engine::QUEUE_FRAMES_MAX as u32 + 500;
    let exit = engine.graph().find("x").unwrap();
    let with = |number| {
        let mut frame = frame(0, number);
        frame.meta_mut().completion = Some(Completion { block: exit, token: 7, bytes: 1 });
        frame
    };
    engine.with(Instant::ZERO, id, |_, cx| (0..frames).for_each(|n| cx.emit(OutPort(0), with(n))));
    assert_eq!(engine.graph().block(exit).unwrap().counters()[0], drops(&engine, "x", Reason::QueueFull), "their sender hears of it");
    let out = left(&mut engine);
    assert_eq!(out.len() as u64 + drops(&engine, "x", Reason::QueueFull), u64::from(frames));
    assert!(out.len() <= engine::QUEUE_FRAMES_MAX && drops(&engine, "x", Reason::QueueFull) >= 500);
    assert!(out.iter().map(|(_, _, number, _)| *number).eq(0..out.len() as u32), "what was lost is the tail");
}

#[test]
fn alerts_are_bounded_and_the_oldest_go() {
    let mut engine = engine(Mode::Inline);
    control(&mut engine, Op::All(vec![add("o", "owner"), add("x", "exit")])).unwrap();
    let exec = Op::Exec { target: Selector::parse("o"), procedure: "any".to_owned(), arguments: Value::Null };
    control(&mut engine, exec).unwrap();
    let alerts = engine.take_alerts();
    assert_eq!((alerts.len(), engine.alerts_lost()), (engine::ALERTS_MAX, 2000 - engine::ALERTS_MAX as u64));
    assert_eq!((&alerts.last().unwrap().value, alerts.last().unwrap().block.as_str()), (&1999.into(), "o"));
    let exit = engine.graph().find("x").unwrap();
    assert_eq!(engine.graph().block(exit).unwrap().counters()[1], 1, "the change of a table reached the others");
}

#[test]
fn time_never_runs_backwards_and_timers_are_never_early() {
    let mut engine = graph(Mode::Inline);
    let hold = engine.graph().find("hold").unwrap();
    engine.inject(Instant::from_millis(10), hold, InPort(0), [frame(3, 1), frame(1, 2)]);
    assert_eq!(engine.next_timer(), Some(Instant::from_millis(11)));
    engine.run(Instant::from_millis(5));
    assert_eq!((engine.now(), left(&mut engine).len()), (Instant::from_millis(10), 0));
    engine.run(Instant::from_millis(12));
    assert_eq!(left(&mut engine).iter().map(|row| row.2).collect::<Vec<_>>(), [2]);
    engine.run(Instant::from_millis(13));
    assert_eq!((left(&mut engine).len(), engine.next_timer()), (1, None));
}

/// Owns the groups of IPv4 and remembers, in order, what it was told and which frames came.
#[derive(Default)]
struct Owner(Vec<String>);
static OWNER: Kind = Kind {
    name: "owner",
    inputs: &[Port::optional("in", Carries::Any, "frames")],
    owns: &[Table::Groups(weft_core::table::Family::V4)],
    ..Kind::EMPTY
};
impl Block for Owner {
    fn kind(&self) -> &'static Kind {
        &OWNER
    }
    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        self.0.extend(vector.iter().map(|(_, frame)| format!("frame {}", frame.head()[0])));
    }
    fn change(&mut self, table: Table, change: Change, _cx: &mut Context<'_>) {
        self.0.push(format!("{table:?} {change:?}"));
    }
    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        (name == "log").then(|| self.0.clone().into())
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Tells the owner of IPv4's groups about each frame, and somebody who is not there about it too.
struct Teller;
static TELLER: Kind = Kind {
    name: "teller",
    inputs: &[Port::optional("in", Carries::Any, "frames")],
    outputs: &[Port::optional("out", Carries::Any, "the same")],
    ..Kind::EMPTY
};
impl Block for Teller {
    fn kind(&self) -> &'static Kind {
        &TELLER
    }
    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        vector.each(|frame| {
            let change = Change::WantRaw { protocol: weft_wire::Protocol(frame.head()[0]), wanted: true };
            cx.tell(Table::Groups(weft_core::table::Family::V4), change.clone());
            cx.tell(Table::Groups(weft_core::table::Family::V6), change);
            Verdict::Forward(OutPort(0))
        });
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

#[test]
fn what_is_told_reaches_the_owner_of_the_table_in_the_order_of_the_graph() {
    for mode in [Mode::Inline, Mode::Queued] {
        let rows = [
            BlockRow { kind: &OWNER, make: |_| Ok(Box::new(Owner::default())) },
            BlockRow { kind: &TELLER, make: |_| Ok(Box::new(Teller)) },
        ];
        let mut engine = Engine::new(mode, BlockTable::new(rows), Rng::for_name(1, "tell"));
        let ops = vec![add("teller", "teller"), add("owner", "owner"), bind("teller:out", "owner:in")];
        control(&mut engine, Op::All(ops)).unwrap();
        let entry = engine.graph().find("teller").unwrap();
        engine.inject(Instant::ZERO, entry, InPort(0), [frame(1, 0), frame(2, 1)]);
        let owner = engine.graph().find("owner").unwrap();
        let log = engine.graph().block(owner).unwrap().get("log", Instant::ZERO).unwrap();
        let told = |n: u8| format!("Groups(V4) WantRaw {{ protocol: {:?}, wanted: true }}", weft_wire::Protocol(n));
        let mut lines: Vec<String> = log.as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect();
        let frames: Vec<String> = lines.extract_if(.., |line| line.starts_with("frame")).collect();
        assert_eq!(lines, [told(1), told(2)], "{mode:?}");
        assert_eq!(frames.len(), 2, "{mode:?}");
    }
}
