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

pub mod actor;
mod arrange;
mod boot;
mod builtin;
mod calls;
mod cell;
pub mod debug;
mod early;
mod error;
mod figures;
mod group;
pub mod guest;
pub mod hash;
mod item;
mod launch;
mod life;
mod limits;
pub mod plan;
pub mod process;
pub mod program;
mod queue;
pub mod record;
mod report;
pub mod result;
pub mod said;
pub mod scenario;
mod snapshots;
pub mod sweep;
mod ticket;
mod trace;
pub mod twin;
pub mod visit;
mod wire;
mod world;

pub use actor::{Actor, ActorContext, Next};
pub use cell::{FrameSink, Ring};
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
