//! Blocks for tests of engines: an exit, a gate, a flood, some that ask each other, one with a bug.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use weft_core::table::Family;
use weft_core::*;
use weft_host::threaded::Threaded;

const IN: &[Port] = &[Port::optional("in", Carries::Any, "frames")];

pub fn add(name: &str, kind: &str) -> Op {
    Op::Add { name: name.to_owned(), kind: kind.to_owned(), parameters: Default::default() }
}
pub fn end(text: &str) -> End {
    End::parse(text)
}
pub fn bind(from: &str, to: &str) -> Op {
    Op::Bind { from: end(from), to: end(to) }
}

/// All bytes of a frame.
pub fn bytes_of(frame: &Frame) -> Vec<u8> {
    frame.tail().iter().fold(frame.head().to_vec(), |mut all, slice| {
        all.extend_from_slice(slice);
        all
    })
}

/// A node's blocks and these, with what `ops` make of them.
pub fn engine_with(mode: Mode, seed: u64, ops: Vec<Op>) -> Engine {
    build(mode, seed, [], ops)
}
pub fn engine_of(rows: impl IntoIterator<Item = BlockRow>, ops: Vec<Op>) -> Engine {
    build(Mode::Queued, 1, rows, ops)
}
fn build(mode: Mode, seed: u64, rows: impl IntoIterator<Item = BlockRow>, ops: Vec<Op>) -> Engine {
    let table = BlockTable::new(weft_node::block_table().iter().copied().chain([EXIT_ROW]).chain(rows));
    let mut engine = Engine::new(mode, table, Rng::for_name(seed, "test"));
    engine.control(Instant::ZERO, &Message { serial: 1, op: Op::All(ops) }).result.unwrap();
    engine
}

/// A control message that succeeds.
pub fn ask(threaded: &mut Threaded, op: Op) -> Value {
    threaded.control(Instant::ZERO, &Message { serial: 1, op }).result.unwrap()
}

/// Waits until something is so. Much longer than it takes, on a busy machine too: a hang is to fail.
pub fn within(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("waited in vain: {what}");
}

macro_rules! common {
    ($kind:expr) => {
        fn kind(&self) -> &'static Kind {
            $kind
        }
        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
    };
}

static EXIT: Kind = Kind {
    name: "exit",
    inputs: IN,
    outputs: &[Port::outside("out", Carries::Any, "frames")],
    counters: &[Counter { name: "Completed", text: "bytes reported" }],
    ..Kind::EMPTY
};
const EXIT_ROW: BlockRow = BlockRow { kind: &EXIT, make: |_| Ok(Box::new(Exit([0]))) };
struct Exit([u64; 1]);
impl Block for Exit {
    common!(&EXIT);
    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.forward_all(OutPort(0));
    }
    fn completed(&mut self, _token: u64, bytes: u32, _cx: &mut Context<'_>) {
        self.0[0] += u64::from(bytes);
    }
    fn counters(&self) -> &[u64] {
        &self.0
    }
}

/// What tests see of a [`Held`] block and a [`Flood`]: there is one of each in a test. Rows are plain functions, so a registry finds it.
#[derive(Default, Debug)]
pub struct Inner {
    closed: Mutex<bool>,
    opened: Condvar,
    pub inside: AtomicU64,
    pub messages: AtomicU64,
    pub flooded: AtomicU64,
}
pub type Gate = Arc<Inner>;

pub trait Handle {
    fn row(&self) -> [BlockRow; 2];
}
impl Handle for Gate {
    fn row(&self) -> [BlockRow; 2] {
        REGISTRY.with(|registry| *registry.borrow_mut() = Some(Arc::clone(self)));
        [
            BlockRow { kind: &HELD, make: |_| Ok(Box::new(Held(registered()))) },
            BlockRow { kind: &FLOOD, make: |_| Ok(Box::new(Flood(registered()))) },
        ]
    }
}
thread_local! {
    /// Blocks are made in the test's own thread.
    static REGISTRY: std::cell::RefCell<Option<Gate>> = const { std::cell::RefCell::new(None) };
}
fn registered() -> Gate {
    REGISTRY.with(|registry| registry.borrow().clone()).expect("the test has made a gate")
}

impl Inner {
    pub fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }
    pub fn open(&self) {
        *self.closed.lock().unwrap() = false;
        self.opened.notify_all();
    }
    fn pass(&self) {
        let mut closed = self.closed.lock().unwrap();
        while *closed {
            closed = self.opened.wait(closed).unwrap();
        }
    }
}

/// Does not come back from a call while the gate is closed.
static HELD: Kind = Kind {
    name: "gate",
    inputs: &[Port::optional("in", Carries::Any, "frames"), Port::optional("stream", Carries::Stream, "messages")],
    outputs: &[Port::outside("out", Carries::Any, "frames")],
    ..Kind::EMPTY
};
struct Held(Gate);
impl Block for Held {
    common!(&HELD);
    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        self.0.inside.store(1, Ordering::SeqCst);
        self.0.pass();
        vector.forward_all(OutPort(0));
    }
    fn stream(&mut self, _port: InPort, _message: StreamMessage, _cx: &mut Context<'_>) {
        self.0.messages.fetch_add(1, Ordering::SeqCst);
    }
}

/// Sends as many messages as a frame says.
static FLOOD: Kind = Kind { name: "flood", inputs: IN, outputs: &[Port::optional("stream", Carries::Stream, "messages")], ..Kind::EMPTY };
struct Flood(Gate);
impl Block for Flood {
    common!(&FLOOD);
    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        for (_, frame) in vector.iter() {
            let many = u32::from_be_bytes(bytes_of(frame).try_into().unwrap());
            (0..many).for_each(|_| cx.send(OutPort(0), StreamMessage::Credit { flow: FlowId(1), bytes: 1, enough: 0 }));
            if many == 0 && self.0.inside.load(Ordering::SeqCst) == 1 {
                // A frame behind the one that floods has been seen: what that sent is in the queue.
                self.0.flooded.store(1, Ordering::SeqCst);
            }
        }
    }
}

/// Counts answers; each test of questions has its own, as above.
#[derive(Default, Debug)]
pub struct Answers {
    pub answered: AtomicU64,
    pub unanswered: AtomicU64,
}
pub type Asked = Arc<Answers>;
thread_local! {
    static ANSWERS: std::cell::RefCell<Option<Asked>> = const { std::cell::RefCell::new(None) };
}
pub trait Rows {
    fn rows(&self) -> [BlockRow; 3];
}
impl Rows for Asked {
    fn rows(&self) -> [BlockRow; 3] {
        ANSWERS.with(|answers| *answers.borrow_mut() = Some(Arc::clone(self)));
        fn asks(kind: &'static Kind) -> Result<Box<dyn Block>, ControlError> {
            let answers = ANSWERS.with(|answers| answers.borrow().clone()).expect("the test counts answers");
            Ok(Box::new(Asks { kind, answers }))
        }
        [
            BlockRow { kind: &EAST, make: |_| asks(&EAST) },
            BlockRow { kind: &WEST, make: |_| asks(&WEST) },
            BlockRow { kind: &TOP, make: |_| asks(&TOP) },
        ]
    }
}

const THROUGH: Kind = Kind { inputs: IN, outputs: &[Port::optional("out", Carries::Any, "frames")], ..Kind::EMPTY };
const E: Table = Table::Groups(Family::V4);
const W: Table = Table::Routes(Family::V4);
/// East and west own what the other asks about.
static EAST: Kind = Kind { name: "east", owns: &[E], asks: &[W], ..THROUGH };
static WEST: Kind = Kind { name: "west", owns: &[W], asks: &[E], ..THROUGH };
/// Asks both, and is asked by none.
static TOP: Kind = Kind { name: "top", owns: &[Table::Flows], asks: &[E, W], ..THROUGH };

/// For each frame, asks the owners of all tables that its kind names.
struct Asks {
    kind: &'static Kind,
    answers: Asked,
}
impl Block for Asks {
    fn kind(&self) -> &'static Kind {
        self.kind
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        vector.each(|_| {
            for table in self.kind.asks {
                match cx.ask(*table, &Query::List(*table)) {
                    Answer::List(_) => self.answers.answered.fetch_add(1, Ordering::SeqCst),
                    _ => self.answers.unanswered.fetch_add(1, Ordering::SeqCst),
                };
            }
            Verdict::Forward(OutPort(0))
        });
    }
    fn query(&self, _query: &Query, _now: Instant) -> Answer {
        Answer::List(Vec::new())
    }
}

/// Panics over a frame that says boom.
static BAD: Kind = Kind { name: "bad", ..THROUGH };
pub const BAD_ROW: BlockRow = BlockRow { kind: &BAD, make: |_| Ok(Box::new(Bad)) };
struct Bad;
impl Block for Bad {
    common!(&BAD);
    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        assert!(vector.iter().all(|(_, frame)| bytes_of(frame) != b"boom"), "a bug in the block");
        vector.forward_all(OutPort(0));
    }
}
