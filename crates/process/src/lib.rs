//! The controller of programs that run inside the loader: a node's processes in virtual time, and programs of a stack in real time (`--strict`, in
//! `real`). The rest of this page is about virtual time; in real time programs and their threads run as the host's kernel lets them, and only calls
//! on sockets arrive here.
//!
//! A [`Tree`] owns process 1 of a node (its own pid, mount, host name and network namespaces) and every process below it. They run inside
//! the loader (`weft-loader`): calls that need the node, another process or the clock arrive here through the arena, one at a time. One
//! thread of a node runs at a time, in the order in which they became runnable; everything else is asleep on its channel, so that memory,
//! pipes and files see one order only, and the same seed gives the same run.
//!
//! The world calls [`Tree::run`] with a grant and is asked through [`Outside`]. Nothing here reads a clock; wall time only bounds how long a
//! program may run without a call before it is interrupted (the run says then that it is not reproducible).
//!
//! What is not there is an errno, a warning and a row of [`Tree::calls`].

mod ahead;
mod answer;
mod arena;
mod brought;
mod caller;
mod child;
mod clocks;
mod clone;
mod collect;
mod config;
mod cpu_time;
mod cpu_timers;
mod descriptor;
mod discipline;
mod disk;
mod early;
mod error;
mod files;
mod futex;
mod futex_pi;
mod futexes;
mod ids;
mod interests;
mod launch;
mod ledger;
mod limits;
mod link;
mod machine;
mod mapping;
mod mib;
mod mirrors;
mod netlink;
pub mod network_files;
mod ntp;
mod nursery;
mod object;
mod outcome;
mod outside;
mod own_files;
mod pending;
mod poll;
mod posted;
mod proc_files;
pub mod processor;
mod real;
mod reply;
mod rights;
mod rings;
mod robust;
mod run;
pub mod settings;
mod signal;
mod socket;
mod standard_files;
mod state;
mod strace;
mod sys_files;
mod tasks;
mod time;
mod timers;
mod traffic;
mod tree;
mod usage;
mod users;

pub use collect::{From as CollectFrom, Taken, TakenFile, Wanted, collect};
pub use config::{Attach, Config, Held, Spawn};
pub use disk::{Disk, DiskUse};
pub use error::StartError;
pub use files::{Files, Mount, OWN_FOLDERS, OwnFile};
pub use limits::Limits;
pub use outside::{Called, Exit, INSIDE, Next, Outside, Record, Status, ToCome};
pub use real::{Loading, Parts};
pub use standard_files::{OutputFile, input};
pub use strace::{name as call_name, returned as call_result, signal_name};
pub use tree::Tree;
pub use usage::{Traffic, Usage};
pub use weft_loader::abi::{BOOT_NS, RATE_ONE};
