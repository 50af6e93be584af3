//! The virtual world: nodes on simulated wires in one deterministic time.
//!
//! A [`World`] is built from a [`plan::Plan`], which is plain data, and run to its end on as many threads as one likes, with the same result: the
//! order of events is decided by virtual time, names and sequence numbers alone ([`group`](crate) has the rules). The same stack as in real time runs in it, because a
//! stack never owned a clock.
//!
//! Nothing here reads the host's clock, environment or randomness; what a person wants to see of wall time is the caller's business, who is
//! called back with the virtual time now and then.
//!
//! Rejected: optimistic execution (state of nodes would have to be saved and restored), and one global event queue (no parallelism, and
//! every frame would cross it).
#![forbid(unsafe_code)]

// In layers: a file needs others of its own layer and of those above it here, and none of those below.

// What is told and kept of a world, and the bounds that everybody keeps to.
mod calls;
mod collected;
pub mod debug;
mod error;
mod figures;
pub mod hash;
mod item;
mod life;
mod limits;
pub mod record;
mod report;
mod snapshots;
mod ticket;

// The world as data, with the guests and visits that it speaks of.
mod builtin;
pub mod guest;
pub mod output_log;
pub mod plan;
mod trace;
pub mod visit;

// What acts on a node.
pub mod actor;
mod early;
pub mod process;
pub mod program;

// Wires, and the machines between them.
mod cell;
mod queue;
mod wire;

// How machines boot, get their programs, and run one after the other or on several threads.
mod arrange;
mod boot;
mod group;
mod launch;

// All of them.
mod world;

// What a world is read from, and what is said of its run.
pub mod grid;
pub mod result;
pub mod root;
pub mod scenario;
pub mod sweep;
pub mod twin;

pub use actor::{Actor, ActorContext, Next};
pub use cell::{FrameSink, Ring};
pub use collected::{FILES_FOLDER, Leavings, clear_files};
pub use error::WorldError;
pub use guest::{Guest, GuestContext};
pub use life::ProgramState;
pub use limits::{EVENTS_PER_INSTANT_MAX, LINGER, OUTPUT_BYTES_MAX};
pub use plan::{Boot, Plan};
pub use process::{OWN_FOLDERS, PATH, environment_of, files_of};
pub use queue::QueueCounters;
pub use report::{CallLine, CallRecord, ProgramId, Status, Stream};
pub use scenario::Scenario;
pub use snapshots::{SNAPSHOT_SUFFIX, SNAPSHOTS_FOLDER};
pub use trace::{OPPORTUNITY_BYTES, RateTrace};
pub use wire::{FRAME_BYTES_MIN, WireCounters};
pub use world::{FlowSample, Reason, RunEnd, WireSample, World};
