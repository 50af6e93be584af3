//! Calls by family, and who answers each. To add one: a function in a family's file, its name in the row of the call
//! (`weft_loader::calls`), and a rule in [`crate::filter`].
//!
//! What everybody needs is at the bottom: [`weft_intercept::rows`] and [`trapped`] (a call, and what it comes to). The supervisor stands on
//! them, the families on the supervisor, and [`answer`] on them all. What a call on a socket means is
//! [`weft_intercept::socket_calls`]'s to know; here stands what stand-ins make of it ([`carrier`]).

mod address;
mod carrier;
mod connection;
mod data;
mod on_socket;
mod opening;
mod option;
mod socket;
mod trapped;
mod trapped_socket;

pub(crate) use connection::hand_over;
pub(crate) use trapped::{Call, Outcome};
pub(crate) use weft_intercept::rows::row_of;

use crate::supervisor::{Supervisor, Turn};
use crate::sys::Errno;
use weft_loader::calls::{self, Call as _};

macro_rules! supervised {
    (
        $($number:literal $constant:ident $name:ident($($argument:ident: $kind:ty),*):
            $by:ident $(($($what:tt)*))? $(-> $method:ident)? $(, strict $strict:ident $(($($strictly:tt)*))?)?
            $(, notify $($handler:ident)::+ $sentence:literal)? $(, note $($note:literal)+)?;)*
    ) => {
        /// Answers a call by the handler that its row names, which gets its arguments by type. Called again, with `held`
        /// set, when its socket has changed, and when memory that was [`LATER`](weft_intercept::memory::LATER) is there; must not
        /// have an effect before it gives an outcome, but for [`Call::messages`].
        pub(crate) fn answer(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call) -> Result<Outcome, Errno> {
            match call.row.number {
                $($($number => $($handler)::+(s, turn, call, calls::$name::of(&call.words())),)?)*
                weft_intercept::rows::OF_I386 => socket::refuse_compat(s, call),
                // The filter and the table disagree: the kernel does it.
                _ => Ok(Outcome::Continue),
            }
        }
    };
}

weft_loader::for_each_call!(supervised);

#[cfg(test)]
mod tests {
    use super::row_of;
    use weft_intercept::arch;

    #[test]
    fn every_call_that_the_filter_sends_has_a_row() {
        for number in crate::filter::ALWAYS.into_iter().chain([
            libc::SYS_socket,
            libc::SYS_socketpair,
            libc::SYS_sendto,
            libc::SYS_recvfrom,
            libc::SYS_ioctl,
        ]) {
            assert_eq!(i64::from(row_of(arch::AUDIT_ARCH, number as i32).number == number), 1, "call {number}");
        }
        assert_eq!(row_of(arch::AUDIT_ARCH_COMPAT, 41).name, "i386");
        assert_eq!(row_of(arch::AUDIT_ARCH, 0).name, "other");
    }
}
