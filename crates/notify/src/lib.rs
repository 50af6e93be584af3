//! Brings unmodified programs to weft's socket model: the *notify* adapter, in real time.
//!
//! A seccomp filter ([`filter`]) sends a program's network calls to the [`Supervisor`], which answers them from a
//! [`Stack`](weft_intercept::Stack); everything else runs natively. `socket` is answered with a *stand-in*, an AF_UNIX socket whose other
//! end the supervisor holds ([`standin`]), so that reading, writing, polling, forking and passing descriptors need no trap. Nothing is injected
//! into the program.
//!
//! The supervisor is one object for all process trees of a node, driven by the host's event loop: it registers descriptors through a
//! [`Reactor`], is told of their readiness by [`Supervisor::on_event`], and of changes in the stack by [`Supervisor::after_stack_ran`].
//! It never blocks; a call that has to wait is *held*: its notification stays unanswered and it is tried again when its socket changes.
//! Nor does it touch a page of a program's that may be missing: a worker does, and the call is *parked* meanwhile ([`remote`]).
//! Every answer is idempotent, because a signal cancels a held call and the kernel may bring it back under another id.
//!
//! Rejected: ptrace (twice the price of a notification, and it takes the program's debugger), LD_PRELOAD (static programs), and trapping
//! data calls too (1.6 to 26 µs for every read and write). What natively running data calls cost in fidelity is in docs/compatibility.md,
//! row by row. What is not supported fails with an errno and is counted ([`weft_intercept::calls`]).

mod call;
pub mod caretaker;
pub mod filter;
mod listener;
mod lost;
pub mod mounts;
mod netlink;
pub mod reactor;
mod remote;
pub mod spawn;
pub mod standin;
mod supervisor;
mod sys;
mod workers;

pub use reactor::{Epoll, Interest, Reactor, Readiness};
pub use supervisor::{Supervisor, TreeId};
