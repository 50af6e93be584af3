//! WebAssembly blocks in a graph: what they can do, and that nothing they do harms anybody else.

use crate::common;

use common::{MANIFEST, counter, each, engine, folder, frames, module, row, send, tell, with};
use weft_core::{Instant, Reason};

const FORWARD: &str = "(i32.store offset=16 (local.get $frames) (i32.const 0))";

fn drops(engine: &mut weft_core::Engine) -> Vec<(String, u64)> {
    let rows = tell(engine, "show drops").unwrap();
    let of_b = rows.as_array().unwrap().iter().filter(|row| row["block"] == "b");
    of_b.map(|row| (row["reason"].as_str().unwrap().to_owned(), row["frames"].as_u64().unwrap())).collect()
}

#[test]
fn frames_are_edited_counted_dropped_and_sent_on_in_their_order() {
    // The first byte becomes 0x77; of frame 3, dropped for the block's reason; frame 5 is kept.
    let body = each(&format!(
        "(call $count (i32.const 0) (i64.const 1)) {FORWARD}
         (i32.store8 (i32.load (local.get $frames)) (i32.const 0x77))
         (i32.store8 offset=37 (local.get $frames) (i32.const 1))
         (if (i32.eq (local.get $at) (i32.const 3)) (then (i32.store offset=16 (local.get $frames) (i32.const 0x200))))
         (if (i32.eq (local.get $at) (i32.const 5)) (then (i32.store offset=16 (local.get $frames) (i32.const 0x100))))"
    ));
    let mut engine = with("edit", "k", &module(MANIFEST, &body, ""), "");
    let out = send(&mut engine, frames(8, 100));
    let got: Vec<Vec<u8>> = out.iter().map(|frame| frame.to_vec()[..2].to_vec()).collect();
    assert_eq!(got, [[0x77, 0], [0x77, 1], [0x77, 2], [0x77, 4], [0x77, 6], [0x77, 7]]);
    assert_eq!(counter(&mut engine, "Seen"), 8);
    assert_eq!(counter(&mut engine, "DroppedOdd"), 1);
    assert_eq!(drops(&mut engine), [(Reason::BlockDropped.name().to_owned(), 1)]);
}

#[test]
fn frames_of_any_size_come_and_go_whole() {
    let body = each(&format!(
        "{FORWARD} (i32.store8 (i32.load (local.get $frames)) (i32.const 9)) (i32.store8 offset=37 (local.get $frames) (i32.const 1))"
    ));
    let mut engine = with("size", "k", &module(MANIFEST, &body, ""), "");
    // More than the area holds at once, and frames of which the end is out of sight.
    for bytes in [1, 1500, 20_000, 65_536, 200_000] {
        let sent = frames(40, bytes);
        let out = send(&mut engine, sent.clone());
        assert_eq!(out.len(), 40, "{bytes}: {:?}", row(&mut engine, "blocks", "b"));
        for (frame, was) in out.iter().zip(&sent) {
            assert_eq!(frame.to_vec()[0], 9);
            assert_eq!(frame.to_vec()[1..], was.to_vec()[1..]);
        }
    }
}

#[test]
fn a_frame_can_become_longer_or_shorter_where_it_is_seen_whole() {
    let grow = |by: i32| {
        each(&format!(
            "{FORWARD} (i32.store offset=4 (local.get $frames) (i32.add (i32.load offset=4 (local.get $frames)) (i32.const {by})))
                       (i32.store8 offset=37 (local.get $frames) (i32.const 1))"
        ))
    };
    let mut engine = with("longer", "k", &module(MANIFEST, &grow(60), ""), "");
    assert_eq!(send(&mut engine, frames(2, 100)).iter().map(weft_core::Frame::len).collect::<Vec<_>>(), [160, 160]);
    let mut engine = with("shorter", "k", &module(MANIFEST, &grow(-60), ""), "");
    assert_eq!(send(&mut engine, frames(2, 100)).iter().map(weft_core::Frame::len).collect::<Vec<_>>(), [40, 40]);
    let mut engine = with("too-long", "k", &module(MANIFEST, &grow(65), ""), "");
    assert_eq!(send(&mut engine, frames(2, 100)).len(), 0);
    assert_eq!(row(&mut engine, "blocks", "b")["failure"], "it wrote 165 bytes where 164 fit (frame 0 of 2)");
}

#[test]
fn whatever_it_does_it_is_isolated_and_named_and_its_path_closed_or_bypassed() {
    let endless = "(loop $again (br $again))";
    let eat = "(loop $again (drop (memory.grow (i32.const 1))) (br $again))";
    let recurse = "(func $deep (param i32) (result i32) (i32.add (call $deep (local.get 0)) (i32.const 1)))";
    let after_some = each(&format!(
        "{FORWARD} (if (i32.eq (local.get $at) (i32.const 2)) (then (i32.store offset=16 (local.get $frames) (i32.const 77))))"
    ));
    let rows: &[(&str, &str, &str, &str)] = &[
        ("unreachable", "unreachable", "", "it trapped: "),
        ("outside", "(i32.store (i32.const -4) (i32.const 1))", "", "it trapped: "),
        ("division", "(drop (i32.div_u (i32.const 1) (local.get $at)))", "", "it trapped: "),
        ("deep", "(drop (call $deep (i32.const 1)))", recurse, "it trapped: "),
        ("endless", endless, "", "it used up its fuel of 20000000 in one call: does it loop for ever? (fuel_max)"),
        ("memory", eat, "", "it wanted more than 16777216 bytes of memory (memory_max_bytes)"),
        ("silence", "", "", "it gave no verdict (frame 0 of 4)"),
        ("port", &after_some, "", "it gave the verdict 'through port 77', and it has 1 outputs (frame 2 of 4)"),
        ("counter", "(call $count (i32.const 9) (i64.const 1))", "", "it counted in counter 9, and it has 1"),
        (
            "timers",
            "(loop $again (call $set_timer (i64.const 1) (i64.const 1)) (br $again))",
            "",
            "it set more than 1024 timers in one call",
        ),
        ("emit", "(loop $again (call $emit (i32.const 0) (i32.const 0)) (br $again))", "", "it made more than 256 frames in one call"),
        ("emit-far", "(call $emit (i32.const 0) (i32.const -8))", "", "it gave out a frame that is not in its memory"),
    ];
    for (name, body, more, why) in rows {
        for bypass in [false, true] {
            let parameters = if bypass { "on_failure=bypass" } else { "" };
            let mut engine = with(&format!("bad-{name}-{bypass}"), "k", &module(MANIFEST, body, more), parameters);
            let expected = if bypass { 4 } else { 0 };
            for _ in 0..2 {
                assert_eq!(send(&mut engine, frames(4, 60)).len(), expected, "{name}");
            }
            let shown = row(&mut engine, "blocks", "b");
            assert!(shown["failure"].as_str().unwrap().starts_with(why), "{name}: {shown}");
            let alerts = engine.take_alerts();
            assert_eq!(alerts.len(), 1, "{name}: it is told once");
            assert_eq!((alerts[0].name, &alerts[0].value["block"]), ("failed", &"b".into()));
            assert_eq!(counter(&mut engine, "Failures"), 1);
            assert_eq!(counter(&mut engine, "Seen"), 0, "{name}: nothing of a call that failed is carried out");
            if !bypass {
                assert_eq!(drops(&mut engine), [(Reason::BlockFailed.name().to_owned(), 8)]);
            }
            // Out of it leads a replacement, without the state that nobody knows.
            let kept = tell(&mut engine, "replace b k on_failure=close --drop-state").unwrap();
            assert!(kept[0].as_str().unwrap().starts_with("replace b k"), "{kept}");
            assert_eq!(row(&mut engine, "blocks", "b")["failure"], serde_json::Value::Null);
        }
    }
}

#[test]
fn what_is_no_block_is_not_loaded_and_why_is_said() {
    let folder = folder("no-block");
    let mut engine = engine(folder.clone());
    let mut wrong = |content: &[u8]| {
        std::fs::write(folder.join("x.wasm"), content).unwrap();
        tell(&mut engine, "load x.wasm").unwrap_err().to_string()
    };
    let sound = module(MANIFEST, "", "");
    let mut text = |of: &str| wrong(&wat::parse_str(of).unwrap());
    assert_eq!(
        text(&sound.replace("(result i32) (i32.const 1)", "(result i32) (i32.const 7)")),
        "cannot load 'x.wasm': it is built for version 7 of the block interface, this weft has 1: build it anew with this weft's weft-block.h"
    );
    assert!(text("(module)").contains("exports no memory"));
    assert!(text("(module (memory (export \"memory\") 1))").contains("exports no weft_block_interface"));
    assert!(
        text(&sound.replace("(memory (export \"memory\") 1)", "(memory (export \"memory\") 1 3)")).contains("cannot grow by the 4 pages")
    );
    assert!(text(&sound.replace("\"weft\" \"say\"", "\"env\" \"printf\"")).contains("it wants what weft does not have"));
    assert!(
        text(&sound.replace("weft_block_new\") (result i32) (i32.const 0)", "weft_block_new\") (result i64) (i64.const 0)"))
            .contains("other parameters")
    );
    assert!(text(&module("name = 1", "", "")).contains("its manifest is no TOML as wanted"));
    assert!(text(&module(&MANIFEST.replace("\"k\"", "\"end\""), "", "")).contains("'end' has the name of a built-in one"));
    assert!(text(&module(&format!("state_version = 1\n{MANIFEST}"), "", "")).contains("exports no weft_block_export"));
    assert!(wrong(b"").contains("it is empty"));
    assert!(wrong(b"GIF89a").contains("it is no block"));
    assert!(wrong(b"\0asm\x01\0\0\0\xff").contains("no WebAssembly that runs here"));
    assert!(tell(&mut engine, "load none.wasm").unwrap_err().to_string().contains("there is no such file"));
    assert!(tell(&mut engine, "unload end").unwrap_err().to_string().contains("it is built in"));
    assert!(tell(&mut engine, "unload k").unwrap_err().to_string().contains("nothing is loaded"));
}

/// Counts its timers, in memory at 0; state is those 8 bytes.
const TICKS: &str = r#"
  (func (export "weft_block_started") (param i32) (call $set_timer (i64.const 5) (i64.const 1000000)))
  (func (export "weft_block_timer") (param i32) (param i64)
    (i64.store (i32.const 0) (i64.add (i64.load (i32.const 0)) (i64.const 1)))
    (call $count (i32.const 0) (i64.load (i32.const 0)))
    (call $say (i32.const 4096) (i32.const 4))
    (call $set_timer (i64.const 5) (i64.const 1000000)))
  (func (export "weft_block_export") (param i32 i32 i32) (result i32) (i64.store (local.get 1) (i64.load (i32.const 0))) (i32.const 8))
  (func (export "weft_block_import") (param i32 i32 i32 i32) (result i32)
    (if (i32.ne (local.get 3) (i32.const 8)) (then (return (i32.const 1))))
    (i64.store (i32.const 0) (i64.load (local.get 2))) (i32.const 0))"#;

#[test]
fn another_build_takes_over_state_counters_and_timers_and_its_version_is_shown() {
    let manifest = format!("state_version = 4\n{MANIFEST}");
    let mut engine = with("builds", "k", &module(&manifest, &each(FORWARD), TICKS), "");
    engine.run(Instant::from_millis(1));
    engine.run(Instant::from_millis(2));
    assert_eq!(counter(&mut engine, "Seen"), 1 + 2);
    assert_eq!(engine.take_alerts().iter().filter(|alert| alert.name == "said" && alert.value["text"] == "stat").count(), 2);
    let first = row(&mut engine, "blocks", "b")["version"].clone();
    let other = module(&manifest.replace("1.0", "1.1"), &each(FORWARD), TICKS);
    std::fs::write(folder("builds").join("a.wasm"), wat::parse_str(&other).unwrap()).unwrap();
    let loaded = tell(&mut engine, "load a.wasm").unwrap();
    assert_eq!(row(&mut engine, "blocks", "b")["version"], first, "blocks that exist stay what they are");
    let done = tell(&mut engine, "replace b k").unwrap();
    let second = row(&mut engine, "blocks", "b")["version"].clone();
    assert_eq!(loaded[0], format!("load k {}", second.as_str().unwrap()));
    assert_eq!(done[0], format!("replace b k: version {} in place of {}", second.as_str().unwrap(), first.as_str().unwrap()));
    assert!(first.as_str().unwrap().starts_with("1.0+") && second.as_str().unwrap().starts_with("1.1+"));
    engine.run(Instant::from_millis(3));
    assert_eq!(counter(&mut engine, "Seen"), 1 + 2 + 3, "it counts on from where the other was");
    assert!(tell(&mut engine, "unload k").unwrap_err().to_string().contains("'b' of the graph would be without it"));
    tell(&mut engine, "delete b\nunload k").unwrap();
    assert!(tell(&mut engine, "add b k").unwrap_err().to_string().contains("no kind of block named 'k'"));
}

#[test]
fn the_same_module_gives_the_same_randomness_and_time_again() {
    let body = each(&format!(
        "{FORWARD} (i64.store (i32.load (local.get $frames)) (call $random)) (i64.store offset=8 (i32.load (local.get $frames)) (call $now))
         (i32.store8 offset=37 (local.get $frames) (i32.const 1))"
    ));
    let run = || {
        let mut engine = with("random", "k", &module(MANIFEST, &body, ""), "");
        engine.run(Instant::from_millis(7));
        send(&mut engine, frames(3, 16)).iter().map(weft_core::Frame::to_vec).collect::<Vec<_>>()
    };
    let (one, other) = (run(), run());
    assert_eq!(one, other);
    assert_ne!(one[0][..8], one[1][..8]);
    assert_eq!(one[0][8..], 7_000_000u64.to_le_bytes());
}

/// LEB128.
fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        bytes.push(if value == 0 { low } else { low | 0x80 });
        if value == 0 {
            return bytes;
        }
    }
}

/// A module of these sections, each so many times the same thing.
fn binary(sections: &[(u8, usize, &[u8])]) -> Vec<u8> {
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    for (id, count, one) in sections {
        let content = [number(*count as u64), one.repeat(*count)].concat();
        module.push(*id);
        module.extend(number(content.len() as u64));
        module.extend(content);
    }
    module
}

#[test]
fn what_would_take_long_to_look_at_is_refused_for_its_size() {
    const TYPE: &[u8] = &[0x60, 0, 0];
    const EMPTY: &[u8] = &[2, 0, 0x0b];
    let folder = folder("hostile");
    let mut engine = engine(folder.clone());
    let mut wrong = |module: &[u8]| {
        std::fs::write(folder.join("a.wasm"), module).unwrap();
        tell(&mut engine, "load a.wasm").unwrap_err().to_string()
    };
    let few = 1000;
    // The same with few of them is refused for what it lacks, not for its size.
    for (many, sections, why) in [
        (1_000_000, [(1, 1, TYPE), (3, 0, &[0_u8][..]), (10, 0, EMPTY)], "the limit of 10000 functions"),
        (9_999, [(1, 1, TYPE), (3, 0, &[0][..]), (10, 0, EMPTY)], "minimum average bytes per function"),
        (1_001, [(1, 1, TYPE), (5, 1, &[0, 1][..]), (6, 0, &[0x7f, 0, 0x41, 0, 0x0b][..])], "the limit of 1000 global variables"),
        (1_001, [(1, 1, TYPE), (5, 1, &[0, 1][..]), (11, 0, &[0, 0x41, 0, 0x0b, 0][..])], "the limit of 1000 active data segments"),
    ] {
        let of = |count: usize| binary(&sections.map(|(id, fixed, one)| (id, if fixed == 0 { count } else { fixed }, one)));
        assert!(wrong(&of(many)).contains(why), "{why}: {}", wrong(&of(many)));
        let small = wrong(&of(10));
        assert!(!small.contains(why), "{why}: {small}");
    }
    // Names that nobody calls, and types that nobody uses.
    let exports =
        (0..10_001).flat_map(|count: u32| [vec![4], format!("{count:04x}").into_bytes(), vec![0, 0]].concat()).collect::<Vec<_>>();
    let exports = [number(10_001), exports].concat();
    let mut module = binary(&[(1, 1, TYPE), (3, 1, &[0])]);
    module.push(7);
    module.extend([number(exports.len() as u64), exports].concat());
    module.extend(&binary(&[(10, 1, EMPTY)])[8..]);
    assert!(wrong(&module).contains("it has 10001 exports, at most 10000"));
    let imports = binary(&[(1, 1, &[0x60, 0, 1, 0x7e]), (2, 9_999, b"\x04weft\x03now\0\0")]);
    assert!(wrong(&imports).contains("it exports no memory"), "{}", wrong(&imports));
    assert!(wrong(&binary(&[(1, few, TYPE)])).contains("it exports no memory"));
    assert!(wrong(&binary(&[(1, 1_000_001, TYPE)])).contains("no WebAssembly that runs here"));
    assert!(wrong(&[&binary(&[])[..], &vec![0; 17 << 20]].concat()).contains("at most 16777216"));
    // A pipe that nobody writes to.
    std::fs::remove_file(folder.join("a.wasm")).unwrap();
    let path = std::ffi::CString::new(folder.join("a.wasm").to_str().unwrap()).unwrap();
    // SAFETY: a string that ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    assert!(tell(&mut engine, "load a.wasm").unwrap_err().to_string().contains("it is no plain file"));
    std::fs::remove_file(folder.join("a.wasm")).unwrap();
}
