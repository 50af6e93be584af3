//! Schedulers: a question crosses the border whole, and the answer is looked at, whoever runs the code.

use crate::common;

use common::{counter, engine, folder, row, tell};
use std::process::Command;
use weft_core::schedule::{Choice, Memory, Question, View};
use weft_core::*;

const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

/// A question with another number in each field.
fn question() -> Question {
    let view = View {
        rtt: Some(Duration::from_nanos(101)),
        rtt_variation: Duration::from_nanos(102),
        pacing_rate_bytes_per_s: 112,
        cwnd_bytes: 10_300,
        free_bytes: 104,
        queued_bytes: 105,
        queued_memory_bytes: 0,
        credit_bytes: 1_000_006,
        mss_bytes: 107,
        mapping_bytes: 8,
        ahead_segments: 0,
        backup: true,
        next: 109,
        sent_bytes: 110,
        interface: 11,
    };
    Question {
        subflows: vec![(3, view), (4, View { rtt: None, backup: false, ..view })],
        una: 201,
        next: 301,
        end: 401,
        more: true,
        edge: 501,
        again: true,
        memory: Memory([1, 2, 3, u64::MAX]),
    }
}

/// The sum of all of that, with factors: what each of the blocks below gives as `bytes`.
fn sum(question: &Question) -> u64 {
    let bit = |set: bool| u64::from(set);
    let of = |place: usize, index: usize, view: &View| {
        let rtt = view.rtt.map_or(0, |rtt| rtt.as_nanos() as u64);
        let wide = [
            rtt,
            view.rtt_variation.as_nanos() as u64,
            view.queued_bytes,
            view.credit_bytes,
            view.room_bytes(),
            view.next,
            view.sent_bytes,
        ];
        let narrow = [index as u64, view.cwnd_bytes.into(), view.free_bytes.into(), view.mss_bytes.into(), view.mapping_bytes.into()];
        let rest = [view.interface.into(), bit(view.backup)];
        let all = wide.into_iter().chain(narrow).chain(rest);
        all.enumerate().map(|(at, word)| word * (at as u64 + 1)).sum::<u64>() * (place as u64 + 1)
    };
    let subflows: u64 = question.subflows.iter().enumerate().map(|(place, (index, view))| of(place, *index, view)).sum();
    subflows
        + question.una * 3
        + question.next * 5
        + question.end * 7
        + question.edge * 11
        + bit(question.more) * 13
        + bit(question.again) * 17
}

const C: &str = r#"
#include "weft-block.h"
WEFT_BLOCK("name = \"s\"\nversion = \"1\"\nsummary = \"s\"\n[scheduler]\nlends = false\n"
    "[[parameter]]\nname = \"place\"\ntype = \"unsigned\"\ndefault = 1\nlive = true\ndoc = \"d\"\n[[counter]]\nname = \"Seen\"\ntext = \"t\"\n")
static int32_t place;
void *weft_block_new(void) { return &place; }
void weft_block_set(void *self, uint32_t parameter, const weft_value *value) { (void)self; (void)parameter; place = (int32_t)value->number; }
int32_t weft_block_schedule(void *self, weft_question *q, const weft_subflow *subflows, uint32_t count) {
    (void)self;
    uint64_t sum = q->una * 3 + q->next * 5 + q->end * 7 + q->edge * 11 + q->more * 13 + q->again * 17;
    for (uint32_t at = 0; at < count; at++) {
        const weft_subflow *s = &subflows[at];
        sum += (at + 1) * (s->rtt_ns + 2 * s->rtt_variation_ns + 3 * s->queued_bytes + 4 * s->credit_bytes + 5 * s->room_bytes + 6 * s->next
            + 7 * s->sent_bytes + 8 * s->index + 9 * (uint64_t)s->cwnd_bytes + 10 * s->free_bytes + 11 * s->mss_bytes + 12 * s->mapping_bytes
            + 13 * s->interface + 14 * s->backup);
    }
    if (q->from != q->next || q->bytes != 0) return -2;
    q->from -= 1;
    q->bytes = sum;
    q->memory[0] += weft_random() % 7;
    q->memory[3] = 9;
    weft_count(0, 1);
    weft_set_timer(1, 1);
    return place;
}
"#;

const PYTHON: &str = r#"
import weft_block as weft
MANIFEST = """
name = "s"
version = "1"
summary = "s"
[scheduler]
lends = false
[[parameter]]
name = "place"
type = "unsigned"
default = 1
live = true
doc = "d"
[[counter]]
name = "Seen"
text = "t"
"""
class S(weft.Block):
    def set(self, parameter, value):
        self.place = value.number
    def schedule(self, q):
        total = q.una * 3 + q.next * 5 + q.end * 7 + q.edge * 11 + q.more * 13 + q.again * 17
        for at, s in enumerate(q.subflows):
            words = (s.rtt_ns or 0, s.rtt_variation_ns, s.queued_bytes, s.credit_bytes, s.room_bytes, s.next, s.sent_bytes, s.index, s.cwnd_bytes,
                     s.free_bytes, s.mss_bytes, s.mapping_bytes, s.interface, s.backup)
            total += (at + 1) * sum((place + 1) * word for place, word in enumerate(words))
        q.memory[0] += self.random.randrange(7)
        q.memory[3] = 9
        self.count(0)
        self.set_timer(1, 1)
        return SAYS
"#;

/// In this folder a block of kind `s`, in one of the three ways.
fn write(name: &str, way: &str, c: &str, python_says: &str) -> (Engine, String) {
    let folder = folder(&format!("schedule-{name}-{way}"));
    let file = format!("s.{way}");
    std::fs::write(folder.join("s.c"), c).unwrap();
    let compiled = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command
            .current_dir(&folder)
            .args(&words[1..])
            .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-I", INCLUDE, "-o", &file, "s.c"]);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    match way {
        "wasm" => compiled(&["clang", "--target=wasm32", "-nostdlib", "-Wl,--no-entry"]),
        "so" => compiled(&["cc", "-shared", "-fPIC"]),
        _ => std::fs::write(folder.join(&file), PYTHON.replace("SAYS", python_says)).unwrap(),
    }
    (engine(folder), file)
}

fn with(name: &str, way: &str, c: &str, python_says: &str) -> Engine {
    let (mut engine, file) = write(name, way, c, python_says);
    tell(&mut engine, &format!("load {file}\nadd b s")).unwrap();
    engine
}

fn ask(engine: &Engine, question: &Question) -> Result<(Option<Choice>, Memory), String> {
    let id = engine.graph().find("b").unwrap();
    match engine.graph().block(id).unwrap().query(&Query::Schedule(Box::new(question.clone())), engine.now()) {
        Answer::Schedule(answer) => *answer,
        other => panic!("{other:?}"),
    }
}

fn how(engine: &Engine) -> Result<(bool, bool), String> {
    let id = engine.graph().find("b").unwrap();
    match engine.graph().block(id).unwrap().query(&Query::Scheduler, engine.now()) {
        Answer::Scheduler(answer) => answer.map(|of| (of.repeats, of.lends)),
        other => panic!("{other:?}"),
    }
}

const WAYS: [&str; 3] = ["wasm", "so", "py"];

#[test]
fn the_whole_question_goes_there_and_the_answer_comes_back() {
    for way in WAYS {
        let mut engine = with("whole", way, C, "q.subflows[self.place], total, q.next - 1");
        let asked = question();
        assert_eq!(how(&engine), Ok((false, false)), "{way}");
        let (choice, memory) = ask(&engine, &asked).unwrap();
        assert_eq!(choice, Some(Choice { index: 4, from: 300, bytes: sum(&asked) }), "{way}");
        assert_eq!((&memory.0[1..3], memory.0[3]), (&[2, 3][..], 9), "{way}");
        // The same question has the same answer, random numbers among it, and nothing else comes of it.
        assert_eq!(ask(&engine, &asked), Ok((choice, memory)), "{way}");
        tell(&mut engine, "set b.place 0").unwrap();
        assert_eq!(ask(&engine, &asked).unwrap().0.map(|choice| choice.index), Some(3), "{way}");
        assert_eq!(counter(&mut engine, "Seen"), 0, "{way}");
        assert_eq!(
            tell(&mut engine, "show blocks").unwrap().as_array().unwrap().iter().filter(|row| row.get("failure").is_some()).count(),
            0
        );
    }
}

#[test]
fn nonsense_is_the_end_of_it_and_is_said() {
    let says = |line: &str| C.replace("    return place;\n", &format!("    {line}\n"));
    let cases = [
        ("far", "return 2;", "2, 5", "chose subflow 2, and there are 2"),
        ("no-bytes", "q->bytes = 0; return 0;", "q.subflows[0], 0", "gave 0 bytes to subflow 0"),
        ("ahead", "q->from = 302; return 0;", "q.subflows[0], 5, 302", "gave data from 302 on, outside of 201 (una) to 301 (next)"),
    ];
    for way in WAYS {
        for (name, c, python, why) in cases {
            let mut engine = with(name, way, &says(c), python);
            let said = ask(&engine, &question()).unwrap_err();
            assert!(said.contains(why), "{way} {said}");
            assert_eq!((ask(&engine, &question()), how(&engine)), (Err(said.clone()), Err(said.clone())));
            // Asked by `Context::tell`, it tells.
            let id = engine.graph().find("b").unwrap();
            let now = engine.now();
            engine.with(now, id, |block, cx| block.change(Table::Schedulers, Change::TellFailure, cx)).unwrap();
            assert!(engine.take_alerts().iter().any(|alert| alert.name == "failed" && alert.value["why"] == said.as_str()));
            assert_eq!((counter(&mut engine, "Failures"), row(&mut engine, "blocks", "b")["failure"].as_str()), (1, Some(said.as_str())));
            tell(&mut engine, "replace b s").unwrap();
            assert!(how(&engine).is_ok());
        }
    }
}

#[test]
fn code_that_breaks_off_or_never_ends_is_the_end_of_it() {
    let says = |line: &str| C.replace("    return place;\n", &format!("    {line}\n"));
    let why = |way: &str, name: &str, c: &str, python: &str| ask(&with(name, way, &says(c), python), &question()).unwrap_err();
    assert!(why("wasm", "trap", "__builtin_trap();", "").contains("it trapped"));
    assert!(why("wasm", "loop", "for (volatile int spins = 0;; spins++);", "").contains("it used up its fuel of 20000000 in one call"));
    assert!(why("py", "raise", "", "1 // 0").contains("ZeroDivisionError"));
    assert!(why("py", "text", "", "'subflow'").contains("Error"));
    assert!(why("py", "negative", "", "(q.subflows[0], -1)").contains("it answered a choice that is none"));
    // It overwrites its own table of subflows, and more: nobody else's.
    assert!(
        why("wasm", "area", "for (uint32_t at = 0; at < 100; at++) ((volatile uint8_t *)subflows)[at] = 255; return 77;", "")
            .contains("subflow 77")
    );
}

#[test]
fn one_that_does_not_schedule_is_refused_when_it_is_loaded() {
    let other = C.replace(
        "weft_block_schedule(void *self, weft_question *q, const weft_subflow *subflows",
        "weft_other(void *self, weft_question *q, const weft_subflow *subflows",
    );
    let with_process = format!(
        "{other}\nvoid weft_block_process(void *self, uint32_t input, weft_frame *frames, uint32_t count) {{ (void)self; (void)input; (void)frames; (void)count; }}\n"
    );
    for (way, why) in [("wasm", "and it exports no weft_block_schedule"), ("so", "and it has no weft_block_schedule")] {
        let (mut engine, file) = write("none", way, &with_process, "");
        let said = tell(&mut engine, &format!("load {file}")).unwrap_err().to_string();
        assert!(said.contains(why), "{way} {said}");
    }
    // Who has inputs needs to take frames.
    let inputs =
        C.replace("lends = false\\n\"", "lends = false\\n[[input]]\\nname = \\\"in\\\"\\ncarries = \\\"any\\\"\\ndoc = \\\"d\\\"\\n\"");
    for way in ["wasm", "so"] {
        let (mut engine, file) = write("inputs", way, &inputs, "");
        let said = tell(&mut engine, &format!("load {file}")).unwrap_err().to_string();
        assert!(said.contains("no weft_block_process"), "{way} {said}");
    }
}
