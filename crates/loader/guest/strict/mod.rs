//! In real time (`weft run --strict`): sockets are the controller's, everything else is the kernel's, and every thread runs when it likes.
//!
//! A call that is the kernel's is made in the program's own context: the handler lets the program go on at an instruction of the loader's
//! ([`entry::native`]), with the program's registers, stack and blocked signals. So the kernel itself decides what a signal does to it, whether it is
//! restarted, and what it returns. A call about a socket is posted; the controller answers at once, or says that it waits. Then the thread waits
//! in ppoll(2) for its eventfd (and, in poll and select, for the kernel's descriptors beside), with the program's signals open.
//!
//! Signals are delivered by the kernel to [`signal::on_signal`], which builds the frame for the program where the program wants it: on its stack or
//! its own alternate one (ours is in use for the handler of calls). One that comes while a handler of ours waits is kept until the call ends.
//!
//! [`entry::native`]: crate::x86_64::entry::native

pub mod calls;
mod descriptors;
pub mod dispatch;
pub mod image;
pub mod memory;
pub mod next;
pub mod poll;
pub mod signal;
pub mod thread;
