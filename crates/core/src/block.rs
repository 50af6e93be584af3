//! A block: a unit of protocol with named, typed ports. And what a block declares about itself.
//!
//! A block never reads a clock, never blocks, never holds a descriptor. It is driven through the methods of [`Block`], each of which gets
//! a [`Context`] with the time, randomness and the way out.

use crate::change::Change;
use crate::context::Context;
use crate::control::{ControlError, Value};
use crate::frame::Frame;
use crate::state::{State, StateError};
use crate::stream::StreamMessage;
use crate::table::{Answer, Query, Row, Table};
use crate::time::Instant;
use crate::vector::{Vector, Verdict};
use crate::{Reason, Rng};
use std::any::Any;

/// The number of a block in its graph. Never used again for another block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId(pub u32);

/// Index into [`Kind::inputs`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InPort(pub u8);

/// Index into [`Kind::outputs`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OutPort(pub u8);

/// What travels through a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carries {
    /// Frames of any one type: the block (tee, counter, delay …) takes the type of what it is bound to, the same on all such ports.
    Any,
    /// Frames that begin with a link-layer header.
    Ethernet,
    /// Payload of the link layer (IP packets, ARP) with `ether_type`, `interface` and, once resolved, `dst_mac` in the metadata.
    Link,
    /// Transport segments or datagrams that begin with the transport header; addresses and protocol in the metadata.
    Transport,
    /// Payload of datagrams; addresses and ports in the metadata.
    Datagram,
    /// A packet about which something went wrong, beginning with its IP header; what, in `meta.error`.
    Error,
    /// Stream messages (Call, Reply, Data, Credit, Event), not frames.
    Stream,
}

/// A port as a block declares it.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Port {
    /// Name, used in `bind A:port B:port`.
    pub name: &'static str,
    /// Its type.
    pub carries: Carries,
    /// The graph is not complete while this port has no edge.
    pub required: bool,
    /// An output that leads out of the graph to the world (an interface's backend).
    pub outside: bool,
    /// What comes through.
    pub doc: &'static str,
}

impl Port {
    /// A port that must be bound.
    pub const fn required(name: &'static str, carries: Carries, doc: &'static str) -> Port {
        Port { name, carries, required: true, outside: false, doc }
    }
    /// A port that may stay unbound.
    pub const fn optional(name: &'static str, carries: Carries, doc: &'static str) -> Port {
        Port { name, carries, required: false, outside: false, doc }
    }
    /// An output to the world.
    pub const fn outside(name: &'static str, carries: Carries, doc: &'static str) -> Port {
        Port { name, carries, required: false, outside: true, doc }
    }
}

/// What a value of [`ParameterType::Scheduler`] begins with that names a block.
pub const SCHEDULER_BLOCK: &str = "block:";

/// Type and bounds of a parameter's value. In JSON and TOML, durations are strings with a unit (`"20ms"`) or numbers of nanoseconds,
/// rates are strings (`"100mbit"`) or numbers of bits per second.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParameterType {
    /// true or false.
    Bool,
    /// An unsigned number within bounds.
    Unsigned {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A number within bounds.
    Float {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// A time span.
    Duration,
    /// Bits per second.
    Rate,
    /// Any text.
    Text,
    /// The name of an interface; an empty one is none. Where a node has interfaces beside `lo` it has to be one of theirs when it is given.
    Interface,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One of these words, or [`SCHEDULER_BLOCK`] and the name of the block that owns [`Table::Schedulers`].
    Scheduler(&'static [&'static str]),
    /// A list of whatever the block's doc says; the block checks it.
    List,
}

/// In words, for help.
impl std::fmt::Display for ParameterType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ParameterType::Bool => f.write_str("true or false"),
            ParameterType::Unsigned { min, max: u64::MAX } => write!(f, "{min} or more"),
            ParameterType::Unsigned { min, max } => write!(f, "{min} to {max}"),
            ParameterType::Float { min, max } => write!(f, "number from {min} to {max}"),
            ParameterType::Duration => f.write_str("time span such as \"20ms\""),
            ParameterType::Rate => f.write_str("rate such as \"100mbit\""),
            ParameterType::Text => f.write_str("text"),
            ParameterType::Interface => f.write_str("interface"),
            ParameterType::Choice(words) => write!(f, "one of {}", words.join(", ")),
            ParameterType::Scheduler(words) => write!(f, "one of {}, or {SCHEDULER_BLOCK}NAME", words.join(", ")),
            ParameterType::List => f.write_str("list"),
        }
    }
}

/// A parameter as a block declares it.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Parameter {
    /// Name, units last.
    pub name: &'static str,
    /// Type and bounds.
    pub value: ParameterType,
    /// Default as it would stand in a stack file (TOML value syntax).
    pub default: &'static str,
    /// May be set while the block runs.
    pub live: bool,
    /// What it does.
    pub doc: &'static str,
}

impl Parameter {
    /// The block that a value of [`ParameterType::Scheduler`] names.
    pub fn scheduler<'a>(&self, value: &'a Value) -> Option<&'a str> {
        let is_one = matches!(self.value, ParameterType::Scheduler(_));
        value.as_str().and_then(|text| text.strip_prefix(SCHEDULER_BLOCK)).filter(|_| is_one)
    }
}

/// A counter as a block declares it; its value is at the same index of [`Block::counters`].
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Counter {
    /// Name, units last. Where Linux's SNMP tables have the same counter, their name (`ActiveOpens`).
    pub name: &'static str,
    /// What is counted.
    pub text: &'static str,
}

/// A procedure that can be called by `exec`, or an alert that can be subscribed to.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Named {
    /// Name.
    pub name: &'static str,
    /// Arguments or fields, and what it does.
    pub doc: &'static str,
}

/// Everything a kind of block declares about itself. `weft help block NAME` and the site's page are made from it.
#[derive(Debug, serde::Serialize)]
pub struct Kind {
    /// Name in stack files.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The contract: what it does, what it refuses, RFCs; ends with an example graph line.
    pub doc: &'static str,
    /// Inputs.
    pub inputs: &'static [Port],
    /// Outputs.
    pub outputs: &'static [Port],
    /// Parameters.
    pub parameters: &'static [Parameter],
    /// Procedures for `exec`.
    pub procedures: &'static [Named],
    /// Alerts for `subscribe`.
    pub alerts: &'static [Named],
    /// Counters.
    pub counters: &'static [Counter],
    /// Tables that it owns.
    #[serde(skip)]
    pub owns: &'static [Table],
    /// Tables of others that it asks about (`Context::ask`, `Context::route`). What is not declared is not answered: an engine that runs
    /// blocks side by side knows from this which of them may wait for which.
    #[serde(skip)]
    pub asks: &'static [Table],
    /// It stands in several edges: what comes in by an input goes on by the output of the same place. So it is put into each, and taken out of all.
    #[serde(skip)]
    pub in_pairs: bool,
    /// Version of its exported state; 0: it keeps none.
    pub state_version: u32,
    /// Which build it is: another one has another version.
    pub version: &'static str,
}

impl Kind {
    /// A kind without anything, to be completed with `..Kind::EMPTY`.
    pub const EMPTY: Kind = Kind {
        name: "",
        summary: "",
        doc: "",
        inputs: &[],
        outputs: &[],
        parameters: &[],
        procedures: &[],
        alerts: &[],
        counters: &[],
        owns: &[],
        asks: &[],
        in_pairs: false,
        state_version: 0,
        version: env!("CARGO_PKG_VERSION"),
    };
    /// Finds an input by name.
    pub fn input(&self, name: &str) -> Option<InPort> {
        self.inputs.iter().position(|port| port.name == name).map(|at| InPort(at as u8))
    }
    /// Finds an output by name.
    pub fn output(&self, name: &str) -> Option<OutPort> {
        self.outputs.iter().position(|port| port.name == name).map(|at| OutPort(at as u8))
    }
    /// Finds a parameter by name.
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }
    /// The error about a procedure that is none of this kind's.
    pub fn no_procedure(&self, block: &str, procedure: &str) -> ControlError {
        let known = self.procedures.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
        ControlError::NoProcedure { block: block.to_owned(), procedure: procedure.to_owned(), known }
    }
}

/// What a constructor gets: the instance's name, its parameters (checked against the kind's rows, defaults filled in) and its randomness.
#[derive(Debug)]
pub struct Config {
    /// The block's name in its graph.
    pub name: String,
    /// A value for every parameter of the kind.
    pub parameters: indexmap::IndexMap<String, Value>,
    /// The block's own random stream, for keys and the like made at birth.
    pub rng: Rng,
}

/// One row of a block table: how to make a block of a kind.
#[derive(Clone, Copy, Debug)]
pub struct BlockRow {
    /// The kind.
    pub kind: &'static Kind,
    /// Its constructor. Errors name the parameter.
    pub make: fn(&mut Config) -> Result<Box<dyn Block>, ControlError>,
}

/// A unit of protocol. See the module's text.
///
/// The engine guarantees: one call at a time; time never runs backwards; ports are those of the kind; `set` follows a `check` that passed.
pub trait Block: Any + Send {
    /// What this kind declares.
    fn kind(&self) -> &'static Kind;

    /// Takes a vector of frames that came in through `port`, edits them in place, gives each a verdict (`Consumed` unless set).
    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        let _ = (port, cx);
        vector.set_all(Verdict::Drop(Reason::Refused));
    }

    /// Takes a stream message.
    fn stream(&mut self, port: InPort, message: StreamMessage, cx: &mut Context<'_>) {
        let _ = (port, message, cx);
    }

    /// A timer set with this token is due (never early; possibly later than asked).
    fn timer(&mut self, token: u64, cx: &mut Context<'_>) {
        let _ = (token, cx);
    }

    /// Frames with a completion for this block and token have left (or were dropped); `bytes` are no longer below.
    fn completed(&mut self, token: u64, bytes: u32, cx: &mut Context<'_>) {
        let _ = (token, bytes, cx);
    }

    /// Called once after the graph is complete, and again after every change of edges around the block.
    fn started(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// A table it asked about has changed (sent to every block by the owner through `Context::table_changed`).
    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        let _ = (table, cx);
    }

    /// One row of a table has changed (sent by the owner through `Context::row_changed`). A block that looks at that row only makes a thousand
    /// changes cost a thousand times one; the others look at the whole table.
    fn row_changed(&mut self, table: Table, row: Row, cx: &mut Context<'_>) {
        let _ = row;
        self.table_changed(table, cx);
    }

    /// What the owner of a table knew is gone: it was deleted, or the one that stands there now has begun without its state. Sent to the blocks that ask
    /// about the table (`Kind::asks`), at the frame boundary of the change and before [`Block::started`]: what one of them waits for from the owner never
    /// comes.
    fn owner_lost(&mut self, table: Table, cx: &mut Context<'_>) {
        let _ = (table, cx);
    }

    /// Changes a table it owns, because another block asked for it (`Context::tell`). What cannot be done is counted, not answered.
    fn change(&mut self, table: Table, change: Change, cx: &mut Context<'_>) {
        let _ = (table, change, cx);
    }

    /// Gives back memory that a burst needed and that what the block holds now does not: its tables shrink. Called in quiet times. Nothing that can
    /// be observed changes.
    fn give_back_memory(&mut self) {}

    /// An operation that it ordered ([`Context::order`]) was carried out, or refused: every order that was taken has one answer. A successor gets those of
    /// its predecessor's.
    fn answered(&mut self, serial: u64, result: Result<Value, ControlError>, cx: &mut Context<'_>) {
        let _ = (serial, result, cx);
    }

    /// Answers a question about a table it owns.
    fn query(&self, query: &Query, now: Instant) -> Answer {
        let _ = (query, now);
        Answer::None
    }

    /// Reads a parameter, a counter-like figure or part of its state by name; `None`: no such thing.
    fn get(&self, name: &str, now: Instant) -> Option<Value> {
        let _ = (name, now);
        None
    }

    /// Would this (well-typed) value do? Must not change anything.
    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        let _ = (name, value);
        Ok(())
    }

    /// Sets a parameter that passed [`Block::check`]. Cannot fail.
    fn set(&mut self, name: &str, value: Value, cx: &mut Context<'_>) {
        let _ = (name, value, cx);
    }

    /// Runs a procedure.
    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let _ = (arguments, cx);
        Err(self.kind().no_procedure(self.kind().name, procedure))
    }

    /// The values of the kind's counters, in order.
    fn counters(&self) -> &[u64] {
        &[]
    }

    /// Its state as versioned bytes; timers as remaining time.
    fn export(&self, now: Instant) -> Result<State, StateError> {
        let _ = now;
        match self.kind().state_version {
            0 => Ok(State::none(self.kind().name)),
            _ => Err(StateError::NotExportable { kind: self.kind().name.to_owned() }),
        }
    }

    /// Takes over exported state. On error the block is as before. Not called for the state of a block that keeps none.
    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let _ = now;
        match state.version {
            0 => Ok(()),
            // Silently losing what the old block knew is what `drop_state` is for.
            _ => Err(StateError::WrongKind { found: state.kind.clone(), expected: self.kind().name.to_owned() }),
        }
    }

    /// Could it take over all that `old` holds as it is ([`Block::take_over`])? A block of the same build can, and spares itself [`Block::export`] and
    /// [`Block::import`], which take time for each thing that is held.
    fn takes_over(&self, old: &dyn Block) -> bool {
        let _ = old;
        false
    }

    /// Takes over what `old` holds, in whose place it stands now: [`Block::takes_over`] said that it could. Its own parameters stay. Cannot fail. What is left of the
    /// old one is asked for its counters, and dropped.
    fn take_over(&mut self, old: &mut dyn Block) {
        let _ = old;
    }

    /// Does something go through it that would not go on without it? Then `extract` only retires it.
    fn lingers(&self) -> bool {
        false
    }

    /// It is to be extracted: from now on it takes nothing new, and it orders its extraction ([`Context::order`]) when it no longer [lingers](Block::lingers).
    fn retire(&mut self) {}

    /// The block is deleted or replaced: the frames that it holds back. They end here, and whoever waits for them hears of it.
    fn give_up(&mut self) -> Vec<Frame> {
        Vec::new()
    }

    /// The node went back to what it held at another time, or in another process. Frames that it had given to the world then are nobody's any more, and
    /// nobody will report that they have left: what is counted of them counts as left. What may be given out once only (numbers of a cipher) may have been
    /// given out since, and begins at another place.
    fn went_back(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// Why it has stopped working, if it has: a block that runs somebody else's code is isolated when that fails.
    fn failure(&self) -> Option<&str> {
        None
    }

    /// For typed access by the node that assembled the graph.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl std::fmt::Debug for dyn Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({})", self.kind().name)
    }
}
