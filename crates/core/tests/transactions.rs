//! Changes of a running graph: every operation, what it refuses, and that a refused one leaves nothing behind.

use crate::common;
use common::*;
use weft_core::control::End;
use weft_core::*;

/// a → b → x.
fn chain() -> Engine {
    chain_of(Mode::Inline)
}

fn chain_of(mode: Mode) -> Engine {
    let mut engine = engine(mode);
    control(&mut engine, Op::All(vec![stamp("a"), stamp("b"), add("x", "exit"), bind("a:out", "b:in"), bind("b:out", "x:in")])).unwrap();
    engine
}

/// The letters that a frame collects from `a` on.
fn way(engine: &mut Engine) -> String {
    let entry = engine.graph().find("a").unwrap();
    engine.inject(engine.now(), entry, InPort(0), [frame(0, 0)]);
    left(engine).pop().map_or(String::new(), |row| row.3)
}

fn edges(engine: &mut Engine) -> Vec<String> {
    let rows = control(engine, Op::Show(Show::Edges)).unwrap();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let edge = |row: &Value| format!("{}:{}-{}:{}", text(row, "from"), text(row, "output"), text(row, "to"), text(row, "input"));
    rows.as_array().unwrap().iter().map(edge).collect()
}

fn unbind(from: &str, to: &str) -> Op {
    Op::Unbind { from: End::parse(from), to: Some(End::parse(to)) }
}

fn insert(block: &str, from: &str, to: &str) -> Op {
    Op::Insert { block: End::parse(block), from: End::parse(from), to: End::parse(to) }
}

fn replace(name: &str, kind: &str, drop_state: bool) -> Op {
    Op::Replace { name: name.to_owned(), kind: kind.to_owned(), parameters: Default::default(), drop_state }
}

fn set(target: &str, name: &str, value: Value) -> Op {
    Op::Set { target: Selector::parse(target), name: name.to_owned(), value }
}

#[test]
fn insert_and_extract_change_the_way_and_back() {
    let mut engine = chain();
    assert_eq!(way(&mut engine), "ab");
    let summary = control(&mut engine, Op::All(vec![stamp("i"), insert("i", "a", "b")])).unwrap();
    assert_eq!(summary, serde_json::json!(["add i stamp", "insert i a b: a:out -> i:in, i:out -> b:in"]));
    assert_eq!(way(&mut engine), "aib");
    assert_eq!(edges(&mut engine), ["a:out-i:in", "b:out-x:in", "i:out-b:in"]);
    let summary = control(&mut engine, Op::Extract { block: "i".to_owned() }).unwrap();
    assert_eq!(summary, serde_json::json!(["extract i: a:out -> b:in"]));
    assert_eq!(way(&mut engine), "ab");
    assert!(engine.graph().find("i").is_some(), "it is out of the way, not gone");
    control(&mut engine, Op::Delete { name: "i".to_owned() }).unwrap();
    assert_eq!((engine.graph().find("i"), way(&mut engine).as_str()), (None, "ab"));
    // Changes say which edges they end, also where those who asked named no ports.
    assert_eq!(control(&mut engine, Op::Delete { name: "b".to_owned() }).unwrap()[0], "delete b, which ends a:out -> b:in, b:out -> x:in");
}

#[test]
fn a_block_for_several_edges_is_put_into_each_and_taken_out_of_all() {
    let mut engine = chain();
    let two =
        control(&mut engine, Op::All(vec![add("w", "both"), insert("w:from_left", "a", "b"), insert("w:from_right", "b", "x")])).unwrap();
    assert_eq!(two[1], "insert w:from_left a b: a:out -> w:from_left, w:to_right -> b:in");
    assert_eq!((edges(&mut engine).len(), way(&mut engine).as_str()), (4, "ab"));
    let taken = control(&mut engine, insert("w:from_left", "w", "x")).unwrap_err().to_string();
    assert!(taken.contains("w:to_right") || taken.contains("bound"), "{taken}");
    let unnamed = control(&mut engine, Op::All(vec![add("v", "both"), insert("v", "a", "w")])).unwrap_err().to_string();
    assert!(unnamed.contains("from_left, from_right"), "{unnamed}");
    let out = control(&mut engine, Op::Extract { block: "w".to_owned() }).unwrap();
    assert_eq!(out, serde_json::json!(["extract w: a:out -> b:in, b:out -> x:in"]));
    assert_eq!(way(&mut engine), "ab");
}

#[test]
fn an_output_is_unbound_from_wherever_it_leads() {
    let mut engine = chain();
    let anywhere = |from: &str| Op::Unbind { from: End::parse(from), to: None };
    assert_eq!(control(&mut engine, anywhere("a:out")).unwrap(), serde_json::json!(["unbind a:out b:in"]));
    assert_eq!(control(&mut engine, anywhere("a")).unwrap_err().to_string(), "there is no edge from a to anywhere");
    assert_eq!(edges(&mut engine), ["b:out-x:in"]);
}

#[test]
fn replace_keeps_edges_parameters_and_state_unless_told_otherwise() {
    let mut engine = chain();
    way(&mut engine);
    let b = engine.graph().find("b").unwrap();
    control(&mut engine, replace("b", "stamp", false)).unwrap();
    assert_eq!(engine.graph().block(b).unwrap().counters(), [1], "the count came along");
    assert_eq!(way(&mut engine), "ab");
    control(&mut engine, replace("b", "stamp", true)).unwrap();
    assert_eq!(engine.graph().block(b).unwrap().counters(), [0]);
    let parameters = [("letter".to_owned(), Value::from("B"))].into_iter().collect();
    control(&mut engine, Op::Replace { name: "b".to_owned(), kind: "stamp".to_owned(), parameters, drop_state: false }).unwrap();
    assert_eq!(way(&mut engine), "aB");
    // A block that keeps no state can be replaced by any that has its ports, and one with state only with drop_state.
    control(&mut engine, Op::All(vec![add("c", "copy"), insert("c", "a", "b")])).unwrap();
    control(&mut engine, unbind("c:copy", "b")).unwrap_err();
    control(&mut engine, replace("c", "stamp", false)).unwrap();
    control(&mut engine, replace("c", "copy", false)).unwrap_err();
    control(&mut engine, replace("c", "copy", true)).unwrap();
    assert_eq!(way(&mut engine), "aB");
}

#[test]
fn frames_that_wait_in_a_deleted_block_and_its_timers_are_gone() {
    let mut engine = chain();
    control(&mut engine, Op::All(vec![add("h", "hold"), insert("h", "a", "b")])).unwrap();
    let entry = engine.graph().find("a").unwrap();
    engine.inject(Instant::ZERO, entry, InPort(0), [frame(3, 0)]);
    assert!(engine.next_timer().is_some());
    control(&mut engine, Op::Delete { name: "h".to_owned() }).unwrap();
    assert_eq!(engine.next_timer(), None);
    assert_eq!(way(&mut engine), "");
    assert_eq!(drops(&engine, "a", Reason::NotBound), 1);
    control(&mut engine, bind("a", "b")).unwrap();
    assert_eq!(way(&mut engine), "ab");
}

#[test]
fn set_is_all_or_none_and_takes_patterns() {
    let mut engine = chain();
    control(&mut engine, set("?", "letter", "z".into())).unwrap_err();
    assert_eq!(way(&mut engine), "ab", "x has no letter, so nobody was set");
    control(&mut engine, Op::All(vec![set("a", "letter", "z".into()), set("b", "letter", "y".into())])).unwrap();
    assert_eq!(way(&mut engine), "zy");
    let both = Op::All(vec![set("a", "letter", "1".into()), set("b", "letter", "too long".into())]);
    assert_eq!(control(&mut engine, both).unwrap_err().to_string(), "stamp.letter: one letter");
    assert_eq!(way(&mut engine), "zy");
    let get = Op::Get { target: Selector::parse("*"), name: None };
    assert_eq!(control(&mut engine, get).unwrap()["a"], serde_json::json!({"letter": "z", "fixed": 1}));
}

#[test]
fn every_refusal_says_what_is_wrong_and_leaves_nothing_behind() {
    let mut engine = chain();
    control(&mut engine, Op::All(vec![add("o", "owner"), add("h", "hold"), insert("h", "b", "x")])).unwrap();
    let cases: Vec<(Op, &str)> = vec![
        (add("n", "nothing"), "there is no kind of block named 'nothing'; known: both, copy, exit, hold, owner, split, stamp"),
        (stamp("a"), "a block named 'a' exists already"),
        (add("a b", "exit"), "'a b' is no name for a block: use letters, digits, '-', '_' and '.', at most 64"),
        (Op::Delete { name: "q".to_owned() }, "there is no block named 'q'; the graph has: a, b, h, o, x"),
        (bind("a:out", "x:in"), "a:out is bound to b:in already; unbind it first, or put a tee between"),
        (bind("a:nose", "x:in"), "block 'a' has no output port 'nose'; it has: out"),
        (bind("x:out", "a:mouth"), "block 'a' has no input port 'mouth'; it has: in"),
        (bind("o", "x:stream"), "which port? o -> x:stream could be: none, no two of their ports carry the same"),
        (bind("o:frames", "o:need"), "o:frames carries Ethernet, o:need takes Link: they cannot be bound"),
        (unbind("x", "a"), "there is no edge from x to a"),
        (insert("q", "a", "b"), "there is no block named 'q'; the graph has: a, b, h, o, x"),
        (insert("b", "a", "b"), "b is bound to h: already; unbind it first, or put a tee between"),
        (insert("x", "x", "a"), "there is no edge from x to a"),
        (
            Op::Extract { block: "x".to_owned() },
            "'x' cannot be extracted: it has 0 output edges, and only a block with one leaves an edge behind; unbind what leads to it, then delete it",
        ),
        (replace("h", "hold", false), "cannot replace 'h': a block of kind hold cannot export its state"),
        (replace("b", "hold", false), "cannot replace 'b': state of kind stamp"),
        (replace("h", "split", true), "block 'h' has no output port 'out'; it has: a, b, c"),
        (set("a", "fixed", 2.into()), "a.fixed can only be set when the block is made"),
        (set("a", "colour", 2.into()), "block 'a' has no parameter 'colour'; it has: letter, fixed"),
        (set("a", "letter", 2.into()), "a.letter: 2 is no text"),
        (set("zz*", "letter", "q".into()), "'zz*' matches nothing"),
        (add("p", "owner"), "'o' and 'p' would both own the table of"),
        (
            Op::Exec { target: Selector::parse("a"), procedure: "dance".to_owned(), arguments: Value::Null },
            "block 'stamp' has no procedure 'dance'",
        ),
    ];
    let before = (edges(&mut engine), control(&mut engine, Op::Show(Show::Blocks)).unwrap());
    for (op, text) in cases {
        // Alone, and as the last of a transaction whose beginning is good (texts may then name the new block).
        let last = Op::All(vec![stamp("good"), bind("good", "a"), op.clone()]);
        let error = control(&mut engine, op).expect_err(text).to_string();
        assert!(error.starts_with(text), "{error}");
        control(&mut engine, last).expect_err(text);
        let after = (edges(&mut engine), control(&mut engine, Op::Show(Show::Blocks)).unwrap());
        assert_eq!(after, before, "left something behind: {text}");
    }
    assert_eq!(way(&mut engine), "", "held");
    engine.run(Instant::from_millis(1));
    assert_eq!(left(&mut engine).pop().unwrap().3, "ab");
}

#[test]
fn left_out_ports_are_found_by_type_and_name() {
    let mut engine = engine(Mode::Inline);
    control(&mut engine, Op::All(vec![stamp("a"), add("x", "exit"), add("s", "split"), bind("a", "s")])).unwrap();
    assert_eq!(edges(&mut engine), ["a:out-s:in"]);
    let error = control(&mut engine, bind("s", "x")).unwrap_err().to_string();
    assert_eq!(error, "which port? s -> x could be: a->in, b->in, c->in");
    // The free port wins over taken ones, until only one is free.
    control(&mut engine, Op::All(vec![bind("s:a", "x"), bind("s:b", "x"), bind("s", "x")])).unwrap();
    assert_eq!(edges(&mut engine).len(), 4);
}

#[test]
fn a_plan_can_be_looked_at_and_thrown_away() {
    let mut engine = chain();
    let plan = engine.prepare(&[stamp("c"), insert("c", "a", "b")]).unwrap();
    assert_eq!(plan.summary(), ["add c stamp", "insert c a b: a:out -> c:in, c:out -> b:in"]);
    drop(plan);
    assert_eq!((engine.graph().find("c"), way(&mut engine).as_str()), (None, "ab"));
    let plan = engine.prepare(&[stamp("c"), insert("c", "a", "b")]).unwrap();
    assert_eq!(engine.commit(plan).len(), 2);
    assert_eq!(way(&mut engine), "acb");
}

#[test]
fn a_graph_is_complete_when_required_ports_are_bound() {
    let mut engine = engine(Mode::Inline);
    control(&mut engine, add("o", "owner")).unwrap();
    let error = transaction::check_complete(engine.graph()).unwrap_err().to_string();
    assert_eq!(error, "o:give must be bound (packets)");
    control(&mut engine, bind("o:give", "o:need")).unwrap();
    transaction::check_complete(engine.graph()).unwrap();
}

#[test]
fn numbers_of_blocks_are_never_used_again_and_the_graph_is_bounded() {
    let mut engine = chain();
    let b = engine.graph().find("b").unwrap();
    control(&mut engine, Op::Delete { name: "b".to_owned() }).unwrap();
    control(&mut engine, stamp("b")).unwrap();
    assert_ne!(engine.graph().find("b"), Some(b));
    let many: Vec<Op> = (0..graph::BLOCKS_MAX).map(|n| add(&format!("n{n}"), "split")).collect();
    let error = control(&mut engine, Op::All(many)).unwrap_err().to_string();
    assert_eq!(error, format!("limit: blocks in one graph (at most {})", graph::BLOCKS_MAX));
    assert!(engine.graph().find("n0").is_none());
}

#[test]
fn a_paused_graph_holds_its_frames_and_is_changed_meanwhile() {
    for mode in [Mode::Inline, Mode::Queued] {
        let mut engine = chain_of(mode);
        assert_eq!(control(&mut engine, Op::Pause).unwrap(), serde_json::json!(["pause"]));
        assert_eq!(control(&mut engine, Op::Pause).unwrap(), serde_json::json!([]), "it is already");
        let entry = engine.graph().find("a").unwrap();
        let put =
            |engine: &mut Engine, count: u32| engine.inject(engine.now(), entry, InPort(0), (0..count).map(|number| frame(0, number)));
        put(&mut engine, 3);
        assert!(left(&mut engine).is_empty() && engine.is_paused());
        control(&mut engine, Op::All(vec![stamp("i"), insert("i", "a", "b")])).unwrap();
        assert_eq!(control(&mut engine, Op::Unpause).unwrap(), serde_json::json!(["unpause: 3 frames go on"]));
        let rows: Vec<(u32, String)> = left(&mut engine).into_iter().map(|row| (row.2, row.3)).collect();
        assert_eq!(rows, [(0, "aib".to_owned()), (1, "aib".to_owned()), (2, "aib".to_owned())], "in their order, the new way");
        assert_eq!(control(&mut engine, Op::Unpause).unwrap(), serde_json::json!([]));
        // What it holds has a bound, and a counter.
        control(&mut engine, Op::Pause).unwrap();
        put(&mut engine, 10_000);
        let lost: u64 = engine.graph().drops(entry).map(|(reason, count)| if reason == Reason::Paused { count } else { 0 }).sum();
        assert!((10_000 - engine::HELD_FRAMES_MAX as u64..5000).contains(&lost), "{lost}");
        control(&mut engine, Op::Unpause).unwrap();
        assert_eq!(left(&mut engine).len() as u64, 10_000 - lost);
    }
}

#[test]
fn every_generation_keeps_what_it_did_for_itself() {
    for mode in [Mode::Inline, Mode::Queued] {
        let mut engine = chain_of(mode);
        let generations = |engine: &mut Engine, block: &str| -> Vec<(u64, u64, bool)> {
            let rows = control(engine, Op::Show(Show::Generations)).unwrap();
            let of = rows.as_array().unwrap().iter().filter(|row| row["block"] == block);
            of.map(|row| (row["generation"].as_u64().unwrap(), row["frames"].as_u64().unwrap(), row["ended_ns"].is_null())).collect()
        };
        for frames in [1, 3, 0, 2] {
            (0..frames).for_each(|_| drop(way(&mut engine)));
            control(&mut engine, replace("b", "stamp", true)).unwrap();
        }
        drop(way(&mut engine));
        assert_eq!(generations(&mut engine, "b"), [(1, 1, false), (2, 3, false), (3, 0, false), (4, 2, false), (5, 1, true)]);
        assert_eq!(generations(&mut engine, "a"), [(1, 7, true)]);
        control(&mut engine, Op::Delete { name: "b".to_owned() }).unwrap();
        assert_eq!(generations(&mut engine, "b").last(), Some(&(5, 1, false)), "what a block did that is gone is known");
        // A refused one is no generation.
        let before = generations(&mut engine, "a");
        control(&mut engine, replace("a", "no-such-kind", true)).unwrap_err();
        assert_eq!(generations(&mut engine, "a"), before);
    }
}

#[test]
fn old_generations_are_forgotten_and_counted() {
    let mut engine = chain();
    for _ in 0..weft_core::GENERATIONS_MAX + 5 {
        control(&mut engine, replace("b", "stamp", true)).unwrap();
    }
    let first = engine.graph().generations().next().unwrap();
    assert_eq!((first.number, engine.graph().generations_forgotten()), (6, 5));
}

/// Rows of `show drops`: block, reason, frames.
fn drop_rows(engine: &mut Engine) -> Vec<(String, String, u64)> {
    let rows = control(engine, Op::Show(Show::Drops)).unwrap();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.as_array().unwrap().iter().map(|row| (text(row, "block"), text(row, "reason"), row["frames"].as_u64().unwrap())).collect()
}

#[test]
fn what_a_deleted_block_dropped_is_shown_still() {
    for mode in [Mode::Inline, Mode::Queued] {
        let mut engine = chain_of(mode);
        let entry = engine.graph().find("b").unwrap();
        let lose = |engine: &mut Engine| {
            control(engine, unbind("b:out", "x:in")).unwrap();
            way(engine);
            control(engine, bind("b:out", "x:in")).unwrap();
        };
        let row = |block: &str, reason: Reason, frames: u64| (block.to_owned(), reason.name().to_owned(), frames);
        lose(&mut engine);
        let before = drop_rows(&mut engine);
        assert_eq!(before, [row("b", Reason::NotBound, 1)]);
        // Three wait for it, and find that it is gone.
        control(&mut engine, Op::Pause).unwrap();
        engine.inject(engine.now(), entry, InPort(0), (0..3).map(|number| frame(0, number)));
        control(&mut engine, Op::Delete { name: "b".to_owned() }).unwrap();
        assert_eq!(drop_rows(&mut engine), before);
        control(&mut engine, Op::Unpause).unwrap();
        let after = [row("b", Reason::NotBound, 1), row("b", Reason::BlockGone, 3)];
        assert_eq!(drop_rows(&mut engine), after);
        // Another one of this name counts on.
        control(&mut engine, Op::All(vec![stamp("b"), bind("a:out", "b:in"), bind("b:out", "x:in")])).unwrap();
        assert_eq!(drop_rows(&mut engine), after);
        lose(&mut engine);
        assert_eq!(drop_rows(&mut engine), [row("b", Reason::NotBound, 2), row("b", Reason::BlockGone, 3)]);
    }
}

#[test]
fn drops_of_blocks_that_are_long_gone_are_counted_together() {
    let mut engine = chain();
    for number in 0..weft_core::GONE_MAX + 5 {
        let name = format!("gone{number}");
        control(&mut engine, stamp(&name)).unwrap();
        let id = engine.graph().find(&name).unwrap();
        engine.inject(engine.now(), id, InPort(0), [frame(0, 0)]);
        control(&mut engine, Op::Delete { name }).unwrap();
    }
    let rows = drop_rows(&mut engine);
    assert_eq!((rows.len(), &rows[0]), (weft_core::GONE_MAX + 1, &("(deleted earlier)".to_owned(), "not-bound".to_owned(), 5)));
    assert_eq!(rows.iter().map(|row| row.2).sum::<u64>(), weft_core::GONE_MAX as u64 + 5, "none is forgotten");
}
