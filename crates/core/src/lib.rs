//! The pure machinery of a weft node: frames, blocks, the graph and its engines, control messages and transactions, timers, randomness,
//! counters, drop reasons, selectors, the types of a node's tables, and exported state.
//!
//! Nothing here owns a clock, a thread, a descriptor or a random source: time, frames and calls come in as arguments, frames and events go
//! out as results. That is why the same code runs in real time, in virtual time, in a test and in a debugger. The alternative, an
//! `async` runtime with tasks per connection, was rejected: its scheduler would own the order of things, which has to belong to the world.
#![forbid(unsafe_code)]

pub mod attached;
pub mod block;
pub mod bpf;
pub mod change;
pub mod command;
pub mod context;
pub mod control;
pub mod engine;
pub mod execute;
pub mod expression;
pub mod frame;
pub mod graph;
pub mod load;
pub mod map;
pub mod multipath;
pub mod nearest;
pub mod offload;
pub mod order;
pub mod parameter;
pub mod reason;
pub mod refused;
pub mod rng;
pub mod schedule;
pub mod scope;
pub mod selector;
pub mod slab;
pub mod snapshot;
pub mod solo;
pub mod state;
mod statistics;
pub mod stream;
pub mod table;
pub mod tcp_info;
pub mod time;
pub mod timer;
pub mod transaction;
pub mod vector;
pub mod vnet;

pub use attached::Attached;
pub use block::{
    Block, BlockId, BlockRow, Carries, Config, Counter, InPort, Kind, Named, OutPort, Parameter, ParameterType, Port, SCHEDULER_BLOCK,
};
pub use bytes::Bytes;
pub use change::{Change, HOLDER_NODE, SourceFilter};
pub use context::Context;
pub use control::{ControlError, End, Message, Op, Reply, Show, Value};
pub use engine::{Engine, Mode};
pub use execute::Execute;
pub use frame::{Checksum, Completion, Direction, Frame, Gso, GsoKind, IcmpError, IcmpErrorKind, InterfaceIndex, Meta, Tail};
pub use graph::{BlockTable, Found, GENERATIONS_MAX, GONE_MAX, Generation};
pub use load::{Loaded, Loader};
pub use map::{KeyedHasher, Map};
pub use multipath::{MultipathInfo, MultipathNode, SubflowInfo};
pub use order::Obeyed;
pub use reason::Reason;
pub use refused::{ErrorKind, Refused};
pub use rng::Rng;
pub use selector::Selector;
pub use slab::Slab;
pub use snapshot::{Snapshot, SnapshotError, TimeKind};
pub use solo::Solo;
pub use state::{State, StateError};
pub use stream::{
    Advice, CallId, DataFlags, FlowId, Moment, Room, SIBLINGS_MAX, Sibling, Stamps, StreamCall, StreamError, StreamEvent, StreamInfo,
    StreamMessage, StreamOption, StreamOptions,
};
pub use table::{Answer, Query, Row, Table};
pub use time::{Duration, Instant};
pub use vector::{Vector, Verdict};
