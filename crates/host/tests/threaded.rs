//! The threaded engine: the same frames as inline, bounds, questions in circles, panics, the end. And the default stack on it.
//!
//! Nothing here is timed: the limit of [`within`] only turns a hang into a failure.

#[path = "threaded/blocks.rs"]
mod blocks;

use blocks::*;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use weft_core::control::Show;
use weft_core::engine::QUEUE_FRAMES_MAX;
use weft_core::*;
use weft_host::clock::Clock;
use weft_host::threaded::{MESSAGES_HIGH, Threaded};

/// A split by a filter, a copy, two impairments with seeds, a delay, ways that meet again at their end, two exits.
fn tools() -> Vec<Op> {
    // Byte 1 is even: accepted.
    let even = "48 0 0 1,84 0 0 1,21 0 1 0,6 0 0 65535,6 0 0 0";
    let with = |name: &str, kind: &str, parameters: &[(&str, Value)]| Op::Add {
        name: name.to_owned(),
        kind: kind.to_owned(),
        parameters: parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    };
    let mut ops = vec![
        add("in", "forward"),
        add("count", "counter"),
        add("copy", "tee"),
        with("even", "filter", &[("program", even.into())]),
        with("loss", "loss", &[("probability", 0.2.into())]),
        with("delay", "delay", &[("delay", 3_000_000.into()), ("queue_frames_max", 100_000.into())]),
        with("flip", "corrupt", &[("probability", 0.3.into())]),
        with("twice", "duplicate", &[("probability", 0.3.into())]),
        add("a", "exit"),
        add("b", "exit"),
        add("c", "exit"),
    ];
    for (from, to) in [
        ("in:out", "count:in"),
        ("count:out", "copy:in"),
        ("copy:out", "even:in"),
        ("copy:copy", "flip:in"),
        ("even:out", "loss:in"),
        ("even:rejected", "c:in"),
        ("loss:out", "delay:in"),
        ("delay:out", "a:in"),
        ("flip:out", "twice:in"),
        ("twice:out", "b:in"),
    ] {
        ops.push(bind(from, to));
    }
    ops
}

/// By exit, the bytes of the frames in the order in which they left; and counters and drops of every block.
type Outcome = (BTreeMap<String, Vec<Vec<u8>>>, Value, Value);

fn traffic(seed: u64) -> Vec<Frame> {
    let mut rng = Rng::for_name(seed, "traffic");
    (0..3000u32)
        .map(|number| {
            let mut bytes = vec![0u8; 20 + rng.below(300) as usize];
            rng.fill(&mut bytes);
            bytes[4..8].copy_from_slice(&number.to_be_bytes());
            Frame::ingress(&bytes)
        })
        .collect()
}

fn sort(engine: &Engine, outgoing: Vec<engine::Outgoing>, into: &mut BTreeMap<String, Vec<Vec<u8>>>) {
    for out in outgoing {
        into.entry(engine.graph().name(out.block).to_owned()).or_default().push(bytes_of(&out.frame));
    }
}

fn show(reply: impl Fn(Op) -> Reply) -> (Value, Value) {
    let of = |what| reply(Op::Show(what)).result.unwrap();
    (of(Show::Counters), of(Show::Drops))
}

fn inline(seed: u64) -> Outcome {
    let mut engine = engine_with(Mode::Inline, seed, tools());
    let entry = engine.graph().find("in").unwrap();
    engine.inject(Instant::ZERO, entry, InPort(0), traffic(seed));
    while let Some(at) = engine.next_timer() {
        engine.run(at);
    }
    let mut ways = BTreeMap::new();
    let outgoing = engine.take_outgoing();
    sort(&engine, outgoing, &mut ways);
    let engine = std::cell::RefCell::new(engine);
    let (counters, drops) = show(|op| engine.borrow_mut().control(Instant::ZERO, &Message { serial: 1, op }));
    (ways, counters, drops)
}

fn threaded(seed: u64, expected: usize) -> Outcome {
    let clock = Clock::default();
    let mut threaded = Threaded::start(engine_with(Mode::Queued, seed, tools()), clock, None).unwrap();
    let entry = threaded.engine().graph().find("in").unwrap();
    threaded.inject(clock.now(), entry, InPort(0), &mut traffic(seed).into_iter());
    let mut ways = BTreeMap::new();
    within("every frame is out", || {
        let outgoing = threaded.take_outgoing();
        sort(threaded.engine(), outgoing, &mut ways);
        ways.values().map(Vec::len).sum::<usize>() >= expected
    });
    let threaded = std::cell::RefCell::new(threaded);
    let (counters, drops) = show(|op| threaded.borrow_mut().control(clock.now(), &Message { serial: 1, op }));
    assert!(threaded.borrow_mut().take_outgoing().is_empty(), "more frames than the inline engine's");
    (ways, counters, drops)
}

#[test]
fn blocks_order_operations_as_on_the_other_engines() {
    let orders = "add n counter; insert n in x; extract n; bind n:out in:nowhere; delete n";
    let parameters = [("frames".to_owned(), 10.into()), ("orders".to_owned(), orders.into())];
    let trigger = Op::Add { name: "in".to_owned(), kind: "trigger".to_owned(), parameters: parameters.into_iter().collect() };
    let engine = engine_with(Mode::Queued, 1, vec![trigger, add("x", "exit"), bind("in:out", "x:in")]);
    let entry = engine.graph().find("in").unwrap();
    let mut threaded = Threaded::start(engine, Clock::default(), None).unwrap();
    let edges = [1, 2, 1, 1, 1];
    for (round, edges) in edges.into_iter().enumerate() {
        threaded.inject(Instant::ZERO, entry, InPort(0), &mut traffic(1).into_iter().take(10));
        let mut obeyed = Vec::new();
        within("an order", || {
            threaded.run(Instant::ZERO);
            obeyed.extend(threaded.take_obeyed());
            !obeyed.is_empty()
        });
        assert_eq!((obeyed.len(), obeyed[0].block.as_str(), obeyed[0].result.is_ok()), (1, "in", round != 3), "{obeyed:?}");
        assert_eq!(threaded.engine().graph().edges().count(), edges, "{obeyed:?}");
    }
    assert_eq!(threaded.engine().graph().find("n"), None);
    let shown = ask(&mut threaded, Op::Show(Show::Blocks));
    assert_eq!((&shown[0]["orders"], &shown[0]["orders_refused"]), (&5.into(), &0.into()));
    let left = threaded.take_outgoing().len();
    assert_eq!(left, 50, "nothing is lost");
}

#[test]
fn every_output_gives_the_frames_of_the_inline_engine_in_their_order() {
    for seed in 1..=5 {
        let expected = inline(seed);
        let frames: usize = expected.0.values().map(Vec::len).sum();
        assert_eq!(expected.0.len(), 3, "all exits are used");
        assert!(expected.0.values().all(|frames| frames.len() > 500), "{frames}");
        let found = threaded(seed, frames);
        for (exit, frames) in &expected.0 {
            assert!(found.0[exit] == *frames, "seed {seed}, exit {exit}: other frames, or another order");
        }
        let but_peaks = |value: &Value| -> Vec<Value> {
            let mut rows = value.as_array().unwrap().clone();
            // How many were held at a time depends on how fast they came.
            rows.iter_mut().for_each(|row| drop(row["counters"].as_object_mut().unwrap().remove("QueuedFramesMax")));
            rows
        };
        assert_eq!(but_peaks(&found.1), but_peaks(&expected.1));
        assert_eq!(found.2, expected.2);
    }
}

#[test]
fn a_full_queue_refuses_frames_counts_them_and_tells_their_senders() {
    let gate = Gate::default();
    let ops = vec![add("in", "forward"), add("slow", "gate"), add("x", "exit"), bind("in:out", "slow:in")];
    let clock = Clock::default();
    let mut threaded = Threaded::start(engine_of(gate.row(), ops), clock, None).unwrap();
    let id = |threaded: &Threaded, name: &str| threaded.engine().graph().find(name).unwrap();
    let (entry, slow, exit) = (id(&threaded, "in"), id(&threaded, "slow"), id(&threaded, "x"));
    let number = |n: u32| {
        let mut frame = Frame::ingress(&n.to_be_bytes());
        frame.meta_mut().completion = Some(Completion { block: exit, token: 7, bytes: 1 });
        frame
    };
    gate.close();
    threaded.inject(clock.now(), entry, InPort(0), &mut [number(0)].into_iter());
    within("the first is inside", || gate.inside.load(Ordering::SeqCst) == 1);
    let surplus = 640;
    let frames = QUEUE_FRAMES_MAX as u32 + surplus;
    // Straight to the block, so that the queue before it is not full instead.
    threaded.inject(clock.now(), slow, InPort(0), &mut (1..=frames).map(number));
    gate.open();
    let mut left = Vec::new();
    within("what was let in comes out", || {
        left.extend(threaded.take_outgoing().iter().map(|out| u32::from_be_bytes(bytes_of(&out.frame).try_into().unwrap())));
        left.len() > QUEUE_FRAMES_MAX
    });
    assert_eq!(left, (0..=QUEUE_FRAMES_MAX as u32).collect::<Vec<_>>());
    let drops = ask(&mut threaded, Op::Show(Show::Drops));
    assert_eq!(drops.as_array().unwrap().len(), 1, "{drops}");
    assert_eq!((&drops[0]["block"], &drops[0]["reason"], &drops[0]["frames"]), (&"slow".into(), &"queue-full".into(), &surplus.into()));
    let counters = ask(&mut threaded, Op::Show(Show::Counters));
    let completed = counters.as_array().unwrap().iter().find(|row| row["block"] == "x").unwrap();
    assert_eq!(completed["counters"]["Completed"], surplus, "completions of refused frames");
}

#[test]
fn nothing_new_is_let_in_while_other_work_piles_up() {
    let gate = Gate::default();
    let ops = vec![add("flood", "flood"), add("slow", "gate"), bind("flood:stream", "slow:stream")];
    let clock = Clock::default();
    let mut threaded = Threaded::start(engine_of(gate.row(), ops), clock, None).unwrap();
    let flood = threaded.engine().graph().find("flood").unwrap();
    let slow = threaded.engine().graph().find("slow").unwrap();
    gate.close();
    threaded.inject(clock.now(), slow, InPort(0), &mut [Frame::ingress(&[0])].into_iter());
    within("the gate holds its block", || gate.inside.load(Ordering::SeqCst) == 1);
    let many = MESSAGES_HIGH as u32 + 2;
    threaded.inject(clock.now(), flood, InPort(0), &mut [Frame::ingress(&many.to_be_bytes())].into_iter());
    // One frame a time, that asks for nothing, until one is refused.
    let mut sent = 1;
    within("frames are refused", || {
        threaded.inject(clock.now(), flood, InPort(0), &mut [Frame::ingress(&0u32.to_be_bytes())].into_iter());
        sent += 1;
        gate.flooded.load(Ordering::SeqCst) == 1
    });
    for _ in 0..10 {
        threaded.inject(clock.now(), flood, InPort(0), &mut [Frame::ingress(&0u32.to_be_bytes())].into_iter());
        sent += 1;
    }
    gate.open();
    within("every message has come", || gate.messages.load(Ordering::SeqCst) == u64::from(many));
    let drops = ask(&mut threaded, Op::Show(Show::Drops));
    let refused: u64 =
        drops.as_array().unwrap().iter().filter(|row| row["reason"] == "queue-full").map(|row| row["frames"].as_u64().unwrap()).sum();
    assert!(refused >= 10, "{refused}: {drops}");
    let counters = ask(&mut threaded, Op::Show(Show::Counters));
    let flooded = counters.as_array().unwrap().iter().find(|row| row["block"] == "flood").unwrap();
    assert_eq!(flooded["frames"].as_u64().unwrap() + refused, sent, "every frame was let in or counted");
    // And it is let in again.
    threaded.inject(clock.now(), flood, InPort(0), &mut [Frame::ingress(&5u32.to_be_bytes())].into_iter());
    within("messages flow", || gate.messages.load(Ordering::SeqCst) == u64::from(many) + 5);
}

#[test]
fn blocks_that_ask_each_other_in_a_circle_all_get_their_answers() {
    let asked = Asked::default();
    let kinds = ["east", "west", "top"];
    let mut ops: Vec<Op> = kinds.iter().map(|kind| add(kind, kind)).collect();
    ops.push(add("x", "exit"));
    // Each frame goes round three times, through blocks that ask both others: all run at once.
    ops.extend([bind("east:out", "west:in"), bind("west:out", "top:in"), bind("top:out", "x:in")]);
    let clock = Clock::default();
    let mut threaded = Threaded::start(engine_of(asked.rows(), ops), clock, None).unwrap();
    let ids = kinds.map(|kind| threaded.engine().graph().find(kind).unwrap());
    let (rounds, burst) = (200, 64);
    let mut left = 0;
    for _ in 0..rounds {
        for id in ids {
            threaded.inject(clock.now(), id, InPort(0), &mut (0..burst).map(|n| Frame::ingress(&[n])));
        }
        left += threaded.take_outgoing().len();
        std::thread::yield_now();
    }
    let dropped = |threaded: &mut Threaded| {
        let drops = ask(threaded, Op::Show(Show::Drops));
        drops.as_array().unwrap().iter().map(|row| row["frames"].as_u64().unwrap() as usize).sum::<usize>()
    };
    within("every frame has left", || {
        left += threaded.take_outgoing().len();
        left + dropped(&mut threaded) == rounds * usize::from(burst) * ids.len()
    });
    assert!(left > 1000, "{left}");
    assert!(asked.answered.load(Ordering::SeqCst) > 1000);
    assert_eq!(asked.unanswered.load(Ordering::SeqCst), 0);
}

#[test]
fn a_loop_ends_at_the_depth_limit() {
    let ops = vec![add("a", "forward"), add("b", "forward"), bind("a:out", "b:in"), bind("b:out", "a:in")];
    let clock = Clock::default();
    let mut threaded = Threaded::start(engine_with(Mode::Queued, 1, ops), clock, None).unwrap();
    let entry = threaded.engine().graph().find("a").unwrap();
    threaded.inject(clock.now(), entry, InPort(0), &mut (0..10).map(|n| Frame::ingress(&[n])));
    within("all are dropped", || {
        let drops = ask(&mut threaded, Op::Show(Show::Drops));
        drops.as_array().unwrap().iter().filter(|row| row["reason"] == "loop").map(|row| row["frames"].as_u64().unwrap()).sum::<u64>() == 10
    });
}

#[test]
fn a_panic_ends_one_block_and_the_others_go_on() {
    let ops = vec![add("bad", "bad"), add("good", "forward"), add("x", "exit"), bind("bad:out", "x:in"), bind("good:out", "x:in")];
    let clock = Clock::default();
    let mut threaded = Threaded::start(engine_of([BAD_ROW], ops), clock, None).unwrap();
    let (bad, good) = ["bad", "good"].map(|name| threaded.engine().graph().find(name).unwrap()).into();
    assert_eq!(threaded.failure(), None);
    threaded.inject(clock.now(), bad, InPort(0), &mut [Frame::ingress(b"boom")].into_iter());
    within("it is told", || threaded.failure().is_some());
    assert_eq!(threaded.failure().unwrap(), "the block 'bad' panicked: a bug in the block");
    threaded.inject(clock.now(), bad, InPort(0), &mut (0..5).map(|n| Frame::ingress(&[n])));
    threaded.inject(clock.now(), good, InPort(0), &mut (0..5).map(|n| Frame::ingress(&[n])));
    let mut left = 0;
    within("the other forwards", || {
        left += threaded.take_outgoing().len();
        left == 5
    });
    let mut called = false;
    threaded.with(clock.now(), bad, &mut |_, _| called = true);
    assert!(!called, "nobody is there to call");
    within("the frames of the lost block are dropped", || {
        let drops = ask(&mut threaded, Op::Show(Show::Drops));
        let gone = drops.as_array().unwrap().iter().find(|row| row["reason"] == "block-gone");
        gone.is_some_and(|row| row["block"] == "bad" && row["frames"] == 5)
    });
}

#[test]
fn the_graph_changes_while_frames_are_under_way_and_none_is_lost_or_overtakes() {
    let ops = vec![add("a", "forward"), add("b", "forward"), add("x", "exit"), bind("a:out", "b:in"), bind("b:out", "x:in")];
    let clock = Clock::default();
    let mut threaded = Threaded::start(engine_with(Mode::Queued, 1, ops), clock, None).unwrap();
    let entry = threaded.engine().graph().find("a").unwrap();
    let mut number = 0u32;
    let mut send = |threaded: &mut Threaded| {
        let frames: Vec<Frame> = (number..number + 500).map(|n| Frame::ingress(&n.to_be_bytes())).collect();
        number += 500;
        threaded.inject(clock.now(), entry, InPort(0), &mut frames.into_iter());
    };
    for _ in 0..5 {
        send(&mut threaded);
        ask(&mut threaded, Op::All(vec![add("mid", "counter"), Op::Insert { block: end("mid"), from: end("a:out"), to: end("b:in") }]));
        send(&mut threaded);
        ask(&mut threaded, Op::Get { target: Selector::parse("mid"), name: None });
        send(&mut threaded);
        ask(&mut threaded, Op::All(vec![Op::Extract { block: "mid".to_owned() }, Op::Delete { name: "mid".to_owned() }]));
    }
    let mut left = Vec::new();
    within("all have left", || {
        left.extend(threaded.take_outgoing().iter().map(|out| u32::from_be_bytes(bytes_of(&out.frame).try_into().unwrap())));
        left.len() >= number as usize
    });
    assert_eq!(left, (0..number).collect::<Vec<_>>());
}

/// Of a thread's flags in its `stat`: it has begun to end (include/linux/sched.h).
const PF_EXITING: u32 = 4;

#[test]
fn the_end_joins_every_thread() {
    // A thread may end while it is looked at, and is there for a moment after it was joined: it is leaving then.
    let lives = |after_name: &str| after_name.split(' ').nth(7).is_some_and(|flags| flags.parse::<u32>().unwrap() & PF_EXITING == 0);
    let running = |name: &str| {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        stats
            .filter(|stat| {
                stat.split_once(&format!(" ({name}")).and_then(|(_, rest)| rest.split_once(')')).is_some_and(|(_, rest)| lives(rest))
            })
            .count()
    };
    let ops = (0..20).map(|n| add(&format!("ending{n}"), "forward")).collect();
    let clock = Clock::default();
    let mut threaded = Threaded::start(engine_with(Mode::Queued, 1, ops), clock, None).unwrap();
    within("threads have their names", || running("ending") == 20);
    let first = threaded.engine().graph().find("ending0").unwrap();
    threaded.inject(clock.now(), first, InPort(0), &mut (0..5).map(|n| Frame::ingress(&[n])));
    drop(threaded);
    assert_eq!(running("ending"), 0);
}
