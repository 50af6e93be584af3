//! Calls by family, and who answers each. To add one: a function in a family's file, its name in the row of the call
//! (`weft_loader::calls`), and a rule in [`crate::filter`].
//!
//! What everybody needs is at the bottom: [`rows`] and [`trapped`] (a call, and what it comes to). The supervisor stands on
//! them, the families on the supervisor, and [`answer`] on them all. What a call on a socket means is
//! [`crate::socket_calls`]'s to know; here stands what stand-ins make of it ([`carrier`]).

mod address;
mod carrier;
mod connection;
mod data;
mod on_socket;
mod opening;
mod option;
mod rows;
mod socket;
mod trapped;

pub(crate) use connection::hand_over;
pub(crate) use rows::row_of;
pub use rows::{CALLS, CallRow};
pub(crate) use trapped::{Call, Outcome};

use crate::supervisor::{Supervisor, Turn};
use crate::sys::Errno;
use weft_loader::calls::{self, Call as _};

macro_rules! supervised {
    (
        $($number:literal $constant:ident $name:ident($($argument:ident: $kind:ty),*):
            $by:ident $(($($what:tt)*))? $(-> $method:ident)? $(, strict $strict:ident $(($($strictly:tt)*))?)?
            $(, notify $($handler:ident)::+ $sentence:literal)?;)*
    ) => {
        /// Answers a call by the handler that its row names, which gets its arguments by type. Called again, with `held`
        /// set, when its socket has changed, and when memory that was [`LATER`](crate::memory::LATER) is there; must not
        /// have an effect before it gives an outcome, but for [`Call::messages`].
        pub(crate) fn answer(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call) -> Result<Outcome, Errno> {
            match call.row.number {
                $($($number => $($handler)::+(s, turn, call, calls::$name::of(&call.words())),)?)*
                rows::OF_I386 => socket::refuse_compat(s, call),
                // The filter and the table disagree: the kernel does it.
                _ => Ok(Outcome::Continue),
            }
        }
    };
}

weft_loader::for_each_call!(supervised);
