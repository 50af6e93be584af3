//! A call that was trapped: a thread of a program waits for its answer, and what it comes to.

use crate::remote::Remote;
use crate::sys::{self, Errno};
use bytes::{Bytes, BytesMut};
use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use weft_intercept::arch;
use weft_intercept::face::SocketId;
use weft_intercept::memory::{LATER, Memory};
use weft_intercept::rows::CallRow;
use weft_intercept::socket_calls::message::{MESSAGES_MAX, Message};
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
    /// Waits until its socket changes, at most so long. A signal's handler may ask for it to be made again, or not: the socket has a limit (SO_RCVTIMEO).
    Hold { stand_in: usize, limit: Option<Duration>, restarts: bool },
}

impl Call {
    /// Its arguments, as [`calls`] takes them.
    pub(super) fn words(&self) -> [usize; 6] {
        calls::words_of(self.arguments)
    }

    /// The descriptor that it is about.
    pub(crate) fn descriptor(&self) -> i32 {
        self.arguments[0] as i32
    }

    /// The bytes that it sends, or has just received, and where to; as much as tells one call from another. What cannot be read counts as none.
    ///
    /// # Errors
    /// [`LATER`].
    pub(crate) fn memory(&self) -> Result<Vec<u8>, Errno> {
        let words = self.words();
        match i64::from(self.number) {
            libc::SYS_sendmsg => self.headers(calls::Sendmsg::of(&words).msg.0, 1, 0),
            libc::SYS_recvmsg => self.headers(calls::Recvmsg::of(&words).msg.0, 1, 0),
            libc::SYS_sendmmsg => {
                let asked = calls::Sendmmsg::of(&words);
                self.headers(asked.mmsg.0, asked.vlen.get(), arch::MMSGHDR_BYTES)
            }
            libc::SYS_recvmmsg => {
                let asked = calls::Recvmmsg::of(&words);
                self.headers(asked.mmsg.0, asked.vlen.get(), arch::MMSGHDR_BYTES)
            }
            libc::SYS_sendto => {
                let asked = calls::Sendto::of(&words);
                self.flat(Message::flat(asked.buf.0 as u64, asked.len.get() as u64)?, asked.addr.0, asked.addrlen.get())
            }
            libc::SYS_recvfrom => {
                let asked = calls::Recvfrom::of(&words);
                // The word is a pointer here, whose lower half is seldom a length.
                self.flat(Message::flat(asked.buf.0 as u64, asked.len.get() as u64)?, asked.addr.0, asked.addrlen.0 as i32)
            }
            libc::SYS_connect => {
                let asked = calls::Connect::of(&words);
                self.address(asked.addr.0, asked.addrlen.get())
            }
            libc::SYS_bind => {
                let asked = calls::Bind::of(&words);
                self.address(asked.addr.0, asked.addrlen.get())
            }
            libc::SYS_setsockopt => {
                let asked = calls::Setsockopt::of(&words);
                self.option_value(asked.optval.0, asked.optlen.get())
            }
            libc::SYS_getsockopt => {
                let asked = calls::Getsockopt::of(&words);
                let length = readable(self.read_int(asked.optlen.0 as u64))?.unwrap_or_default();
                Ok([length.to_ne_bytes().to_vec(), self.option_value(asked.optval.0, length)?].concat())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Of messages whose headers lie so many bytes apart.
    fn headers(&self, at: usize, count: u32, bytes: usize) -> Result<Vec<u8>, Errno> {
        let mut all = Vec::new();
        for index in 0..u64::from(count).min(MESSAGES_MAX) {
            let at = (at as u64).wrapping_add(index * bytes as u64);
            if let Some(message) = readable(Message::read(self, at))? {
                all.extend(readable(message.gather(self, MEMORY_BYTES_MAX))?.unwrap_or_default());
                all.extend(readable(message.name(self))?.flatten().unwrap_or_default());
            }
        }
        Ok(all)
    }

    /// Of a message without a header.
    fn flat(&self, message: Message, address: usize, address_bytes: i32) -> Result<Vec<u8>, Errno> {
        let mut all = readable(message.gather(self, MEMORY_BYTES_MAX))?.unwrap_or_default().to_vec();
        all.extend(self.address(address, address_bytes)?);
        Ok(all)
    }

    fn address(&self, at: usize, bytes: i32) -> Result<Vec<u8>, Errno> {
        Ok(readable(self.read_address(at as u64, bytes))?.unwrap_or_default())
    }

    fn option_value(&self, at: usize, length: i32) -> Result<Vec<u8>, Errno> {
        let mut value = vec![0; usize::try_from(length).unwrap_or_default().min(OPTION_BYTES_MAX)];
        Ok(readable(self.read(at as u64, &mut value))?.map(|()| value).unwrap_or_default())
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
    fn read_ahead(&self, pointer: u64) -> Result<(), Errno> {
        self.remote.read_ahead(pointer)
    }
}

/// Waits, unless the descriptor or the call says not to, or its time is up: then this errno.
pub(super) fn wait(call: &Call, stand_in: usize, end: &OwnedFd, flags: i32, limit_option: i32, otherwise: i32) -> Result<Outcome, Errno> {
    let nonblocking = flags & libc::MSG_DONTWAIT != 0 || sys::status_flags(end.as_fd())? & libc::O_NONBLOCK != 0;
    if nonblocking || call.expired {
        return Err(Errno(otherwise));
    }
    let limit = sys::timeout_option(end.as_fd(), limit_option);
    Ok(Outcome::Hold { stand_in, limit, restarts: limit.is_none() })
}
