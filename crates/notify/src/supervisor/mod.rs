//! The supervisor: trees, stand-ins and calls that wait, and the order in which they are served.
//!
//! From the bottom up:
//!
//! - parts, which know nothing of the supervisor: [`held`], [`parked`], [`replay`], [`limited`], [`door`], [`pidfds`], [`foreign`],
//!   [`search`], [`waiting`];
//! - the supervisor, which has them: [`state`];
//! - what is done with stand-ins and with those that wait there: [`stand_ins`], [`exchange`], [`pump`], [`links`], [`listeners`],
//!   [`errors`], [`told`], [`let_go`], [`memory`];
//! - the handlers of calls, which are [`crate::call`]'s;
//! - a call's way through its handler: [`serve`], [`errands`];
//! - what happens: [`events`].

mod door;
mod errands;
mod errors;
mod events;
mod exchange;
mod foreign;
mod held;
mod let_go;
mod limited;
mod links;
mod listeners;
mod memory;
mod parked;
mod pidfds;
mod pump;
mod replay;
mod search;
mod serve;
mod stand_ins;
mod state;
mod token;
mod told;
mod turn;
mod waiting;

pub(crate) use exchange::Exchanged;
pub(crate) use search::is_filtered;
pub use state::{Supervisor, TreeId};
pub(crate) use turn::Turn;
