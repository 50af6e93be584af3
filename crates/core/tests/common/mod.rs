//! Small blocks that split, copy, hold, drop and end frames by what is in the frames, so that two engines must agree.
#![allow(dead_code, reason = "each test file uses its part")]

use std::any::Any;
use std::collections::VecDeque;
use weft_core::control::End;
use weft_core::*;

const IN: &[Port] = &[Port::optional("in", Carries::Any, "frames")];
const OUT: &[Port] = &[Port::optional("out", Carries::Any, "frames")];

/// Frames begin with a decision byte and a number of 4 bytes; blocks append the letter of their name.
pub fn frame(decision: u8, number: u32) -> Frame {
    let mut frame = Frame::ingress(&[decision]);
    frame.extend(&number.to_be_bytes());
    frame
}

fn decision(frame: &Frame) -> u8 {
    frame.head().first().copied().unwrap_or(0)
}

macro_rules! common {
    ($kind:ident) => {
        fn kind(&self) -> &'static Kind {
            &$kind
        }
        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
    };
}

/// Appends its letter and forwards.
pub static STAMP: Kind = Kind {
    name: "stamp",
    inputs: IN,
    outputs: OUT,
    parameters: &[
        Parameter { name: "letter", value: ParameterType::Text, default: "\"?\"", live: true, doc: "one letter" },
        Parameter { name: "fixed", value: ParameterType::Unsigned { min: 0, max: 9 }, default: "1", live: false, doc: "a number" },
    ],
    counters: &[Counter { name: "Stamped", text: "frames stamped" }],
    state_version: 1,
    ..Kind::EMPTY
};
pub struct Stamp {
    letter: String,
    fixed: u64,
    counters: [u64; 1],
}
impl Block for Stamp {
    common!(STAMP);
    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        let letter = self.letter.as_bytes().first().copied().unwrap_or(b'?');
        self.counters[0] += vector.len() as u64;
        vector.each(|frame| {
            frame.extend(&[letter]);
            Verdict::Forward(OutPort(0))
        });
    }
    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "letter" => Some(self.letter.clone().into()),
            "fixed" => Some(self.fixed.into()),
            _ => None,
        }
    }
    fn check(&self, _name: &str, value: &Value) -> Result<(), ControlError> {
        match value.as_str().map(str::len) {
            Some(1) => Ok(()),
            _ => Err(ControlError::BadValue { block: "stamp".to_owned(), parameter: "letter".to_owned(), why: "one letter".to_owned() }),
        }
    }
    fn set(&mut self, _name: &str, value: Value, _cx: &mut Context<'_>) {
        self.letter = value.as_str().unwrap_or("?").to_owned();
    }
    fn exec(&mut self, procedure: &str, _arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        match procedure {
            "shout" => {
                cx.alert("shout", self.counters[0].into());
                Ok(self.counters[0].into())
            }
            other => Err(self.kind().no_procedure("stamp", other)),
        }
    }
    fn counters(&self) -> &[u64] {
        &self.counters
    }
    fn export(&self, _now: Instant) -> Result<State, StateError> {
        State::write("stamp", 1, &self.counters)
    }
    fn import(&mut self, state: &State, _now: Instant) -> Result<(), StateError> {
        self.counters = state.read("stamp", 1)?;
        Ok(())
    }
}

/// Sends frames three ways, drops some and ends some, by their decision byte.
pub static SPLIT: Kind = Kind {
    name: "split",
    inputs: IN,
    outputs: &[
        Port::optional("a", Carries::Any, "0 and 1 of 8"),
        Port::optional("b", Carries::Any, "2 and 3 of 8"),
        Port::optional("c", Carries::Any, "4 and 5 of 8"),
    ],
    ..Kind::EMPTY
};
pub struct Split;
impl Block for Split {
    common!(SPLIT);
    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.each(|frame| match decision(frame) % 8 {
            way @ 0..=5 => Verdict::Forward(OutPort(way / 2)),
            6 => Verdict::Drop(Reason::Filtered),
            _ => Verdict::Consumed,
        });
    }
}

/// Forwards, and emits a copy through its second output for every third number.
pub static COPY: Kind = Kind {
    name: "copy",
    inputs: IN,
    outputs: &[Port::optional("out", Carries::Any, "frames"), Port::optional("copy", Carries::Any, "copies")],
    ..Kind::EMPTY
};
pub struct Copy;
impl Block for Copy {
    common!(COPY);
    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        vector.forward_all(OutPort(0));
        for (_, frame) in vector.iter() {
            if decision(frame).is_multiple_of(3) {
                let mut copy = frame.clone();
                copy.take_completion();
                cx.emit(OutPort(1), copy);
            }
        }
    }
}

/// Holds frames for as many milliseconds as their decision byte's lower bits say; at most 100 at a time.
pub static HOLD: Kind = Kind { name: "hold", inputs: IN, outputs: OUT, state_version: 1, ..Kind::EMPTY };
#[derive(Default)]
pub struct Hold {
    held: VecDeque<(Instant, Frame)>,
}
impl Block for Hold {
    common!(HOLD);
    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        for index in 0..vector.len() {
            let Some(frame) = vector.take(index) else { continue };
            if self.held.len() >= 100 {
                cx.drop(frame, Reason::QueueFull);
                continue;
            }
            let due = cx.now + Duration::from_millis(u64::from(decision(&frame) & 3));
            self.held.push_back((due, frame));
            cx.set_timer(0, self.held.iter().map(|(due, _)| *due).min().unwrap_or(due));
        }
    }
    fn timer(&mut self, _token: u64, cx: &mut Context<'_>) {
        for (due, frame) in std::mem::take(&mut self.held) {
            match due <= cx.now {
                true => cx.emit(OutPort(0), frame),
                false => self.held.push_back((due, frame)),
            }
        }
        if let Some(next) = self.held.iter().map(|(due, _)| *due).min() {
            cx.set_timer(0, next);
        }
    }
}

/// The way out, and the one who hears of completions.
pub static EXIT: Kind = Kind {
    name: "exit",
    inputs: &[Port::optional("in", Carries::Any, "frames"), Port::optional("stream", Carries::Stream, "messages")],
    outputs: &[Port::outside("out", Carries::Any, "frames")],
    counters: &[Counter { name: "Completed", text: "bytes reported" }, Counter { name: "Changed", text: "tables reported" }],
    ..Kind::EMPTY
};
#[derive(Default)]
pub struct Exit {
    counters: [u64; 2],
}
impl Block for Exit {
    common!(EXIT);
    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.forward_all(OutPort(0));
    }
    fn completed(&mut self, token: u64, bytes: u32, _cx: &mut Context<'_>) {
        assert_eq!(token, 7);
        self.counters[0] += u64::from(bytes);
    }
    fn table_changed(&mut self, _table: Table, _cx: &mut Context<'_>) {
        self.counters[1] += 1;
    }
    fn counters(&self) -> &[u64] {
        &self.counters
    }
}

/// Stands in two edges, and does nothing.
pub static BOTH: Kind = Kind {
    name: "both",
    inputs: &[Port::optional("from_left", Carries::Any, "frames"), Port::optional("from_right", Carries::Any, "frames")],
    outputs: &[Port::optional("to_right", Carries::Any, "frames"), Port::optional("to_left", Carries::Any, "frames")],
    in_pairs: true,
    ..Kind::EMPTY
};
pub struct Both;
impl Block for Both {
    common!(BOTH);
    fn process(&mut self, port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.forward_all(OutPort(port.0));
    }
}

/// Owns a table, and needs a port bound.
pub static OWNER: Kind = Kind {
    name: "owner",
    inputs: &[Port::required("need", Carries::Link, "packets")],
    outputs: &[Port::required("give", Carries::Link, "packets"), Port::optional("frames", Carries::Ethernet, "frames")],
    owns: &[Table::Interfaces],
    asks: &[Table::Interfaces],
    ..Kind::EMPTY
};
pub struct Owner;
impl Block for Owner {
    common!(OWNER);
    fn exec(&mut self, _procedure: &str, _arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        cx.table_changed(Table::Interfaces);
        for number in 0..2000u32 {
            cx.alert("many", number.into());
        }
        // The table's owner is running: nobody answers.
        assert!(matches!(cx.ask(Table::Interfaces, &Query::List(Table::Interfaces)), Answer::None));
        Ok(Value::Null)
    }
}

pub fn table() -> BlockTable {
    BlockTable::new([
        BlockRow {
            kind: &STAMP,
            make: |config| Ok(Box::new(Stamp { letter: config.text("letter"), fixed: config.u64("fixed"), counters: [0] })),
        },
        BlockRow { kind: &SPLIT, make: |_| Ok(Box::new(Split)) },
        BlockRow { kind: &COPY, make: |_| Ok(Box::new(Copy)) },
        BlockRow { kind: &HOLD, make: |_| Ok(Box::new(Hold::default())) },
        BlockRow { kind: &EXIT, make: |_| Ok(Box::new(Exit::default())) },
        BlockRow { kind: &BOTH, make: |_| Ok(Box::new(Both)) },
        BlockRow { kind: &OWNER, make: |_| Ok(Box::new(Owner)) },
    ])
}

pub fn add(name: &str, kind: &str) -> Op {
    Op::Add { name: name.to_owned(), kind: kind.to_owned(), parameters: Default::default() }
}

/// A stamp whose letter is its name.
pub fn stamp(name: &str) -> Op {
    Op::Add { name: name.to_owned(), kind: "stamp".to_owned(), parameters: [("letter".to_owned(), name.into())].into_iter().collect() }
}

pub fn bind(from: &str, to: &str) -> Op {
    Op::Bind { from: End::parse(from), to: End::parse(to) }
}

pub fn engine(mode: Mode) -> Engine {
    Engine::new(mode, table(), Rng::for_name(1, "test"))
}

pub fn control(engine: &mut Engine, op: Op) -> Result<Value, ControlError> {
    let reply = engine.control(engine.now(), &Message { serial: 5, op });
    assert_eq!(reply.serial, 5);
    reply.result
}

/// What left, as (exit, decision, number, letters).
pub fn left(engine: &mut Engine) -> Vec<(String, u8, u32, String)> {
    let out = engine.take_outgoing();
    let row = |outgoing: &engine::Outgoing| {
        let bytes = outgoing.frame.to_vec();
        let number = u32::from_be_bytes(bytes[1..5].try_into().unwrap());
        (engine.graph().name(outgoing.block).to_owned(), bytes[0], number, String::from_utf8(bytes[5..].to_vec()).unwrap())
    };
    out.iter().map(row).collect()
}

pub fn drops(engine: &Engine, block: &str, reason: Reason) -> u64 {
    let id = engine.graph().find(block).unwrap();
    engine.graph().drops(id).find(|(of, _)| *of == reason).map_or(0, |(_, count)| count)
}
