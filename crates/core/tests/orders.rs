//! Operations that blocks order: carried out between two frames, answered, bounded; the same on both engines.

use crate::common;
use common::*;
use std::any::Any;
use weft_core::control::{End, Show};
use weft_core::order::{OBEYED_MAX, ORDERS_MAX};
use weft_core::*;

const IN: &[Port] = &[Port::optional("in", Carries::Any, "frames")];
const OUT: &[Port] = &[Port::optional("out", Carries::Any, "frames")];

/// Orders what a frame's decision byte says, and remembers the answers.
static BOSS: Kind = Kind { name: "boss", inputs: IN, outputs: OUT, ..Kind::EMPTY };

#[derive(Default)]
struct Boss {
    frames: u64,
    /// Order number by number, as answered.
    answers: Vec<(u64, Result<Value, ControlError>)>,
    /// Refused on the spot.
    refused: u64,
    endless: bool,
}

impl Boss {
    fn order(&mut self, op: Op, cx: &mut Context<'_>) {
        if let Err(error) = cx.order(self.frames, op) {
            assert!(matches!(error, ControlError::Limit { max, .. } if max == u64::from(ORDERS_MAX)), "{error}");
            self.refused += 1;
        }
    }
}

impl Block for Boss {
    fn kind(&self) -> &'static Kind {
        &BOSS
    }
    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        vector.forward_all(OutPort(0));
        for (_, frame) in vector.iter() {
            self.frames += 1;
            let op = match frame.head()[0] {
                b'i' => Op::Insert { block: End::parse("s"), from: End::parse("boss"), to: End::parse("x") },
                b'e' => Op::Extract { block: "s".to_owned() },
                b'w' => Op::Insert { block: End::parse("s:nowhere"), from: End::parse("boss"), to: End::parse("x:in") },
                b'g' => Op::Get { target: Selector::parse("s"), name: Some("letter".to_owned()) },
                b'd' => Op::All(vec![Op::Extract { block: "boss".to_owned() }, Op::Delete { name: "boss".to_owned() }]),
                b'f' => Op::Snapshot { file: "x".to_owned() },
                b'l' => {
                    self.endless = true;
                    Op::Show(Show::Edges)
                }
                _ => continue,
            };
            self.order(op, cx);
        }
    }
    fn answered(&mut self, serial: u64, result: Result<Value, ControlError>, cx: &mut Context<'_>) {
        self.answers.push((serial, result));
        if self.endless {
            self.order(Op::Show(Show::Edges), cx);
            self.order(Op::Show(Show::Edges), cx);
        }
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// boss → x, and a stamp beside.
fn graph(mode: Mode) -> (Engine, BlockId) {
    let table = BlockTable::new(table().iter().copied().chain([BlockRow { kind: &BOSS, make: |_| Ok(Box::new(Boss::default())) }]));
    let mut engine = Engine::new(mode, table, Rng::for_name(1, "test"));
    control(&mut engine, Op::All(vec![add("boss", "boss"), stamp("s"), add("x", "exit"), bind("boss:out", "x:in")])).unwrap();
    let boss = engine.graph().find("boss").unwrap();
    (engine, boss)
}

fn boss(engine: &mut Engine) -> &mut Boss {
    let id = engine.graph().find("boss").unwrap();
    engine.block(id).unwrap().as_any_mut().downcast_mut().unwrap()
}

/// One frame for each letter, one after the other; the letters of those that left.
fn send(engine: &mut Engine, block: BlockId, letters: &[u8]) -> Vec<String> {
    for (number, letter) in letters.iter().enumerate() {
        engine.inject(Instant::from_millis(number as u64), block, InPort(0), [frame(*letter, number as u32)]);
    }
    left(engine).into_iter().map(|(_, letter, _, way)| format!("{}{way}", char::from(letter))).collect()
}

#[test]
fn a_block_inserts_and_extracts_another_between_two_frames() {
    for mode in [Mode::Inline, Mode::Queued] {
        let (mut engine, id) = graph(mode);
        // The frame that gives rise to it went the old way.
        assert_eq!(send(&mut engine, id, b"-i--e-"), ["-", "i", "-s", "-s", "es", "-"], "{mode:?}");
        let answers = std::mem::take(&mut boss(&mut engine).answers);
        assert_eq!(answers.iter().map(|(serial, _)| *serial).collect::<Vec<_>>(), [2, 5]);
        assert_eq!(answers[0].1, Ok(serde_json::json!(["insert s boss x: boss:out -> s:in, s:out -> x:in"])));
        let told: Vec<String> = engine.take_obeyed().iter().map(Obeyed::words).collect();
        assert_eq!(told[1], "boss orders extract s\n[\"extract s: boss:out -> x:in\"]");
        assert_eq!((told.len(), engine.changes()), (2, 3));
        let shown = control(&mut engine, Op::Show(Show::Blocks)).unwrap();
        assert_eq!((&shown[0]["orders"], &shown[0]["orders_refused"]), (&2.into(), &0.into()));
        assert_eq!(shown[1].get("orders"), None);
    }
}

#[test]
fn a_wrong_order_is_answered_with_its_error_and_a_question_with_its_answer() {
    for mode in [Mode::Inline, Mode::Queued] {
        let (mut engine, id) = graph(mode);
        assert_eq!(send(&mut engine, id, b"weg f"), ["w", "e", "g", " ", "f"]);
        let answers = std::mem::take(&mut boss(&mut engine).answers);
        let said = |at: usize| answers[at].1.as_ref().unwrap_err();
        assert!(matches!(said(0), ControlError::NoPort { block, port, .. } if (block.as_str(), port.as_str()) == ("s", "nowhere")));
        assert!(matches!(said(1), ControlError::NotExtractable { .. }), "nothing is bound to it: {}", said(1));
        assert_eq!(answers[2], (3, Ok(serde_json::json!({"s": "s"}))));
        assert!(said(3).to_string().contains("files are the world's"), "{}", said(3));
        assert_eq!(engine.changes(), 1, "nothing has changed");
    }
}

#[test]
fn who_orders_without_end_is_bounded_and_holds_nobody_up() {
    for mode in [Mode::Inline, Mode::Queued] {
        let (mut engine, id) = graph(mode);
        for round in 1..=3 {
            assert_eq!(send(&mut engine, id, b"l").len(), 1);
            let answered = boss(&mut engine).answers.len() as u64;
            assert_eq!(answered, round * u64::from(ORDERS_MAX), "each event has as many as there are places");
            assert_eq!(engine.graph().orders(id), [answered, boss(&mut engine).refused]);
            assert!(boss(&mut engine).refused > 0);
        }
        // One vector: more than there are places for.
        boss(&mut engine).endless = false;
        let refused = boss(&mut engine).refused;
        engine.inject(Instant::from_millis(9), id, InPort(0), (0..32).map(|n| frame(b'g', n)));
        assert_eq!(boss(&mut engine).refused, refused);
    }
}

#[test]
fn what_nobody_fetches_is_dropped_and_counted() {
    let (mut engine, id) = graph(Mode::Inline);
    send(&mut engine, id, &[b'g'; OBEYED_MAX + 7]);
    assert_eq!((engine.take_obeyed().len(), engine.obeyed_lost()), (OBEYED_MAX, 7));
}

#[test]
fn a_block_may_order_its_own_end() {
    for mode in [Mode::Inline, Mode::Queued] {
        let (mut engine, id) = graph(mode);
        control(&mut engine, Op::Insert { block: End::parse("s"), from: End::parse("boss"), to: End::parse("x") }).unwrap();
        assert_eq!(send(&mut engine, id, b"-d-"), ["-s", "ds"]);
        let obeyed = engine.take_obeyed().pop().unwrap();
        assert_eq!((obeyed.block.as_str(), obeyed.result.is_ok()), ("boss", true));
        assert_eq!(engine.graph().find("boss"), None);
    }
}

#[test]
fn orders_upon_the_start_of_a_block_wait_for_the_change_to_be_whole() {
    static EAGER: Kind = Kind { name: "eager", inputs: IN, outputs: OUT, ..Kind::EMPTY };
    struct Eager;
    impl Block for Eager {
        fn kind(&self) -> &'static Kind {
            &EAGER
        }
        fn started(&mut self, cx: &mut Context<'_>) {
            if !cx.is_bound(OutPort(0)) {
                cx.order(0, bind("eager:out", "x:in")).unwrap();
            }
        }
        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
    }
    for mode in [Mode::Inline, Mode::Queued] {
        let table = BlockTable::new(table().iter().copied().chain([BlockRow { kind: &EAGER, make: |_| Ok(Box::new(Eager)) }]));
        let mut engine = Engine::new(mode, table, Rng::for_name(1, "test"));
        control(&mut engine, Op::All(vec![add("eager", "eager"), add("x", "exit")])).unwrap();
        assert_eq!(engine.graph().edges().count(), 1);
        assert_eq!((engine.take_obeyed().len(), engine.changes()), (1, 2));
    }
}
