//! Queues of single interfaces, as `tc qdisc` has them: they stand in front of `interfaces`, keep the frames of their interface back and let
//! those of all others by. Linux's words and rules, so that what `tc` shows is what is there.
//!
//! Why not chains of the blocks `delay`, `loss` and `rate`: these act on every frame of their edge, and what a qdisc promises (one limit for the whole
//! queue, one backlog, the order of netem's misfortunes) is a property of no single one of them.
//!
//! A queue whose interface is gone orders its own end (`Context::order`); one whose interface is down holds nothing.

pub mod fifo;
pub mod netem;
pub mod tbf;

use std::any::Any;
use weft_core::offload::{CutChecksums, cut};
use weft_core::state::{Damage, Reader, Writer};
use weft_core::*;

const OUT: OutPort = OutPort(0);

/// What every queue of an interface declares.
pub(crate) const INTERFACE: Parameter = Parameter {
    name: "interface",
    value: ParameterType::Unsigned { min: 0, max: u32::MAX as u64 },
    default: "0",
    live: false,
    doc: "number of the interface whose frames it holds (`weft show interfaces`); 0: frames of all interfaces",
};
/// What every queue of an interface declares.
pub(crate) const HANDLE: Parameter = Parameter {
    name: "handle",
    value: ParameterType::Unsigned { min: 0, max: 0xffff },
    default: "0",
    live: false,
    doc: "the number before the colon by which tc knows it",
};
pub(crate) const INPUTS: &[Port] = &[Port::required("in", Carries::Ethernet, "frames to send, of any interface")];
pub(crate) const OUTPUTS: &[Port] =
    &[Port::required("out", Carries::Ethernet, "the same frames, those of its interface as the queue lets them go")];
/// In the order of [`Desk::counters`].
pub(crate) const COUNTERS: &[Counter] = &[
    Counter { name: "Sent", text: "frames of the interface that left the queue" },
    Counter { name: "SentBytes", text: "their bytes" },
    Counter { name: "Dropped", text: "frames that were dropped" },
    Counter { name: "Overlimits", text: "times that a frame had to wait for its turn" },
    Counter { name: "Requeues", text: "frames that were sent before others which came earlier" },
    Counter { name: "QueuedFrames", text: "frames that wait now" },
    Counter { name: "QueuedBytes", text: "their bytes" },
];

/// What a queue has whatever its discipline: whose frames it holds, and what it has counted.
#[derive(Debug)]
pub(crate) struct Desk {
    name: String,
    interface: InterfaceIndex,
    handle: u64,
    /// There was such an interface.
    seen: bool,
    /// Its own end is ordered.
    ending: bool,
    counters: [u64; 7],
}

impl Desk {
    /// A frame goes.
    fn send(&mut self, frame: Frame, cx: &mut Context<'_>) {
        self.counters[0] += 1;
        self.counters[1] += frame.len() as u64;
        cx.emit(OUT, frame);
    }
    /// A frame is dropped.
    fn drop(&mut self, frame: Frame, reason: Reason, cx: &mut Context<'_>) {
        self.counters[2] += 1;
        cx.drop(frame, reason);
    }
    /// A frame waits.
    fn wait(&mut self, frame: &Frame) {
        self.counters[5] += 1;
        self.counters[6] += frame.len() as u64;
    }
    /// A frame waits no longer.
    fn waited(&mut self, frame: &Frame) {
        self.counters[5] = self.counters[5].saturating_sub(1);
        self.counters[6] = self.counters[6].saturating_sub(frame.len() as u64);
    }
    fn queued_frames(&self) -> u64 {
        self.counters[5]
    }
    fn queued_bytes(&self) -> u64 {
        self.counters[6]
    }
}

/// What becomes of the frames of the interface.
pub(crate) trait Discipline: std::fmt::Debug + Send + Sized + 'static {
    /// What the block declares.
    fn kind() -> &'static Kind;
    /// With these parameters, and nothing in it.
    fn new(config: &Config) -> Self;
    /// Takes a frame, and lets go what may go then.
    fn take(&mut self, frame: Frame, desk: &mut Desk, cx: &mut Context<'_>);
    /// Lets go what may go, and sets the timer for what may later. Nothing else comes of it when it is called once more.
    fn run(&mut self, desk: &mut Desk, cx: &mut Context<'_>);
    /// The timer is due.
    fn timer(&mut self, desk: &mut Desk, cx: &mut Context<'_>) {
        self.run(desk, cx);
    }
    /// Everything that waits.
    fn empty(&mut self) -> Vec<Frame>;
    /// A parameter.
    fn get(&self, name: &str) -> Option<Value>;
    /// Sets one.
    fn set(&mut self, name: &str, value: &Value);
    /// Writes what it holds.
    fn export(&self, out: &mut Writer);
    /// Reads what another has written, beside the parameters; returns frames and bytes that wait.
    fn import(&mut self, from: &mut Reader<'_>) -> Result<(u64, u64), Damage>;
}

/// The block of a discipline.
#[derive(Debug)]
pub(crate) struct Queue<D> {
    desk: Desk,
    discipline: D,
}

/// Makes one.
pub(crate) fn make<D: Discipline>(config: &mut Config) -> Result<Box<dyn Block>, ControlError> {
    let desk = Desk {
        name: config.name.clone(),
        interface: InterfaceIndex(u32::try_from(config.u64("interface")).unwrap_or(0)),
        handle: config.u64("handle"),
        seen: false,
        ending: false,
        counters: [0; 7],
    };
    Ok(Box::new(Queue { desk, discipline: D::new(config) }))
}

impl<D: Discipline> Queue<D> {
    /// What has become of the interface: without it there is nothing to hold, and nobody to hold it for.
    fn look(&mut self, cx: &mut Context<'_>) {
        match cx.ask(Table::Interfaces, &Query::Interface(self.desk.interface)) {
            Answer::Interface(interface) => {
                self.desk.seen = true;
                if !interface.up {
                    self.purge(cx);
                }
            }
            _ if self.desk.seen && !self.desk.ending => {
                self.purge(cx);
                let name = self.desk.name.clone();
                let end = Op::All(vec![Op::Extract { block: name.clone() }, Op::Delete { name }]);
                // If there is no place for it, the next change of an interface finds it here still.
                self.desk.ending = cx.order(0, end).is_ok();
            }
            _ => {}
        }
    }

    fn purge(&mut self, cx: &mut Context<'_>) {
        for frame in self.discipline.empty() {
            self.desk.waited(&frame);
            cx.drop(frame, Reason::InterfaceDown);
        }
        cx.cancel_timer(0);
    }
}

impl<D: Discipline> Block for Queue<D> {
    fn kind(&self) -> &'static Kind {
        D::kind()
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        vector.forward_all(OUT);
        let (interface, mut parts) = (self.desk.interface, Vec::new());
        let is_ours = |frame: &Frame| interface == InterfaceIndex::NONE || frame.meta().interface == interface;
        for frame in vector.take_where(is_ours) {
            match frame.meta().gso {
                None => self.discipline.take(frame, &mut self.desk, cx),
                Some(_) => {
                    cut(frame, CutChecksums::Partial, &mut parts);
                    parts.drain(..).for_each(|part| self.discipline.take(part, &mut self.desk, cx));
                }
            }
        }
    }

    fn timer(&mut self, _token: u64, cx: &mut Context<'_>) {
        self.discipline.timer(&mut self.desk, cx);
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.look(cx);
        self.discipline.run(&mut self.desk, cx);
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Interfaces {
            self.look(cx);
        }
    }

    fn row_changed(&mut self, table: Table, row: Row, cx: &mut Context<'_>) {
        if (table, row) == (Table::Interfaces, Row::Interface(self.desk.interface)) {
            self.look(cx);
        }
    }

    fn answered(&mut self, _serial: u64, _result: Result<Value, ControlError>, _cx: &mut Context<'_>) {
        // Its end was refused, or nobody would be here to hear of it: the next change of an interface tries again.
        self.desk.ending = false;
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "interface" => Some(self.desk.interface.0.into()),
            "handle" => Some(self.desk.handle.into()),
            name => self.discipline.get(name),
        }
    }

    fn set(&mut self, name: &str, value: Value, cx: &mut Context<'_>) {
        self.discipline.set(name, &value);
        // Once all parameters of one change are set: two of them may each say how much goes at once.
        cx.set_timer(0, cx.now);
    }

    fn counters(&self) -> &[u64] {
        &self.desk.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(State::written(D::kind(), now, |out| {
            out.put(&self.desk.counters);
            self.discipline.export(out);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let (mut counters, waiting) = state.taken(D::kind(), now, |from| {
            let counters: [u64; 7] = from.take()?;
            Ok((counters, self.discipline.import(from)?))
        })?;
        (counters[5], counters[6]) = waiting;
        self.desk.counters = counters;
        Ok(())
    }

    fn give_up(&mut self) -> Vec<Frame> {
        self.discipline.empty()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// How many frames there are, and their bytes.
fn sum<'a>(frames: impl Iterator<Item = &'a Frame>) -> (u64, u64) {
    frames.fold((0, 0), |(count, bytes), frame| (count + 1, bytes + frame.len() as u64))
}
