//! Calls by family. To add one: a function in a family's file, its name in the row of the call (`weft_loader::calls`), and a rule in
//! [`crate::filter`].

mod address;
mod connection;
mod data;
pub(crate) mod interface;
pub(crate) mod message;
pub(crate) mod option;
mod socket;

pub(crate) use connection::{give_back, hand_over, refresh};
use message::Message;

use crate::arch;
use crate::face::SocketId;
use crate::memory::Memory;
use crate::remote::{LATER, Remote};
use crate::supervisor::{Supervisor, Turn};
use crate::sys::{self, Errno};
use bytes::{Bytes, BytesMut};
use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use weft_loader::calls::{self, Call as _};

/// Bytes of one message that tell a call from another.
const MEMORY_BYTES_MAX: usize = 64 * 1024;

/// Bytes of an option's value that do.
const OPTION_BYTES_MAX: usize = 4096;

/// A call of a program that waits for its answer.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which listener it came from.
    pub(crate) tree: usize,
    /// Notification.
    pub(crate) id: u64,
    /// Thread.
    pub(crate) tid: u32,
    /// Number.
    pub(crate) number: i32,
    /// Arguments.
    pub(crate) arguments: [u64; 6],
    /// Where it was made.
    pub(crate) instruction: u64,
    /// Its row.
    pub(crate) row: &'static CallRow,
    /// When it came.
    pub(crate) since: Instant,
    /// It has waited already, at this stand-in.
    pub(crate) held: Option<usize>,
    /// Its time limit has passed: answer now.
    pub(crate) expired: bool,
    /// Its program's memory.
    pub(crate) remote: Remote,
    /// The stand-in that it is about and that one's generation, once it was found: the call holds its file, whatever the number means when its
    /// handler runs again.
    pub(crate) file: Cell<Option<(usize, u16)>>,
    /// Messages that are done, of a call that sends or receives several: its handler goes on behind them.
    pub(crate) messages: Cell<u64>,
}

/// What a call comes to, other than an errno.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// Returns this value.
    Done(i64),
    /// Returns this value, and something was consumed or sent that must not happen twice.
    DoneWithEffect(i64),
    /// The answer went out together with a descriptor.
    Sent,
    /// Returns a new descriptor for this connection, which a listening stand-in has given; with these flags of accept4.
    HandOver { listener: usize, child: SocketId, flags: i32 },
    /// A signal has cancelled it meanwhile.
    Cancelled,
    /// The kernel does it.
    Continue,
    /// Waits until its socket changes, at most so long.
    Hold { stand_in: usize, limit: Option<Duration> },
}

/// Answers a call. Called again, with `held` set, when its socket has changed, and when memory that was [`LATER`] is there; must not have an effect
/// before it gives an outcome, but for [`Call::messages`].
type Answer = fn(&mut Supervisor, &mut Turn<'_>, &Call) -> Result<Outcome, Errno>;

/// One row of the table of calls.
pub struct CallRow {
    /// Name in section 2 of the manual.
    pub name: &'static str,
    /// Number on this architecture.
    pub number: i64,
    /// One line for `weft show calls`.
    pub what: &'static str,
    pub(crate) answer: Answer,
}

impl std::fmt::Debug for CallRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name)
    }
}

macro_rules! supervised {
    (
        $($number:literal $constant:ident $name:ident($($argument:ident: $kind:ty),*):
            $by:ident $(($($what:tt)*))? $(-> $method:ident)? $(, strict $strict:ident $(($($strictly:tt)*))?)?
            $(, notify $($handler:ident)::+ $sentence:literal)?;)*
    ) => {
        /// Every call that the filter sends here: those whose row in the table of calls says so.
        pub static CALLS: &[CallRow] =
            &[$($(row(calls::$name::NAME, $number, $sentence, $($handler)::+),)?)*];
    };
}

weft_loader::for_each_call!(supervised);

const fn row(name: &'static str, number: i64, what: &'static str, answer: Answer) -> CallRow {
    CallRow { name, number, what, answer }
}

/// Calls of the i386 table.
static COMPAT: CallRow = row("i386", -1, "refused: there are no sockets for this table of calls", socket::refuse_compat);
/// What the filter never sends.
static UNKNOWN: CallRow = row("other", -1, "left to the kernel", socket::leave);

/// The row of a call.
pub(crate) fn row_of(architecture: u32, number: i32) -> &'static CallRow {
    if architecture != arch::AUDIT_ARCH {
        return &COMPAT;
    }
    CALLS.iter().find(|row| row.number == i64::from(number)).unwrap_or(&UNKNOWN)
}

impl Call {
    fn argument(&self, index: usize) -> u64 {
        self.arguments.get(index).copied().unwrap_or(0)
    }
    /// An argument of type int.
    fn int(&self, index: usize) -> i32 {
        self.argument(index) as i32
    }

    /// The descriptor that it is about.
    pub(crate) fn descriptor(&self) -> i32 {
        self.int(0)
    }

    /// The bytes that it sends, or has just received, and where to; as much as tells one call from another. What cannot be read counts as none.
    ///
    /// # Errors
    /// [`LATER`].
    pub(crate) fn memory(&self) -> Result<Vec<u8>, Errno> {
        let headers = |count: u64, bytes: usize| {
            let mut all = Vec::new();
            for index in 0..count.min(data::MESSAGES_MAX) {
                let at = self.argument(1).wrapping_add(index * bytes as u64);
                if let Some(message) = readable(Message::read(self, at))? {
                    all.extend(readable(message.gather(self, MEMORY_BYTES_MAX))?.unwrap_or_default());
                    all.extend(readable(message.name(self))?.flatten().unwrap_or_default());
                }
            }
            Ok(all)
        };
        match i64::from(self.number) {
            libc::SYS_sendmsg | libc::SYS_recvmsg => headers(1, 0),
            libc::SYS_sendmmsg | libc::SYS_recvmmsg => headers(u64::from(self.argument(2) as u32), arch::MMSGHDR_BYTES),
            libc::SYS_sendto | libc::SYS_recvfrom => {
                let message = Message::flat(self.argument(1), self.argument(2));
                let mut all = readable(message.gather(self, MEMORY_BYTES_MAX))?.unwrap_or_default().to_vec();
                all.extend(readable(self.read_address(self.argument(4), self.int(5)))?.unwrap_or_default());
                Ok(all)
            }
            libc::SYS_connect | libc::SYS_bind => Ok(readable(self.read_address(self.argument(1), self.int(2)))?.unwrap_or_default()),
            libc::SYS_setsockopt => self.option_value(self.int(4)),
            libc::SYS_getsockopt => {
                let length = readable(self.read_int(self.argument(4)))?.unwrap_or_default();
                Ok([length.to_ne_bytes().to_vec(), self.option_value(length)?].concat())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn option_value(&self, length: i32) -> Result<Vec<u8>, Errno> {
        let mut value = vec![0; usize::try_from(length).unwrap_or_default().min(OPTION_BYTES_MAX)];
        Ok(readable(self.read(self.argument(3), &mut value))?.map(|()| value).unwrap_or_default())
    }
}

/// What was read, or nothing; LATER stays an error.
fn readable<T>(read: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(LATER) => Err(LATER),
        Err(_) => Ok(None),
    }
}

impl Memory for Call {
    fn read(&self, pointer: u64, into: &mut [u8]) -> Result<(), Errno> {
        self.remote.read(pointer, into)
    }
    fn write(&self, pointer: u64, from: &[u8]) -> Result<(), Errno> {
        self.remote.write(pointer, from)
    }
    fn gather(&self, vectors: &[(u64, u64)], limit: usize) -> Result<BytesMut, Errno> {
        self.remote.gather(vectors, limit)
    }
    fn scatter(&self, vectors: &[(u64, u64)], from: &Bytes) -> Result<usize, Errno> {
        self.remote.scatter(vectors, from)
    }
}

/// Waits, unless the descriptor or the call says not to, or its time is up: then this errno.
fn wait(call: &Call, stand_in: usize, end: &OwnedFd, flags: i32, limit_option: i32, otherwise: i32) -> Result<Outcome, Errno> {
    let nonblocking = flags & libc::MSG_DONTWAIT != 0 || sys::status_flags(end.as_fd())? & libc::O_NONBLOCK != 0;
    if nonblocking || call.expired {
        return Err(Errno(otherwise));
    }
    Ok(Outcome::Hold { stand_in, limit: sys::timeout_option(end.as_fd(), limit_option) })
}

#[cfg(test)]
mod tests {
    use super::*;

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
