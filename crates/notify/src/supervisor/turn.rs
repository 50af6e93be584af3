//! What the supervisor borrows from the host's loop for one turn.

use crate::reactor::Reactor;
use crate::sys::Errno;
use weft_intercept::face::{SocketId, Stack};

/// What is borrowed for one turn.
pub(crate) struct Turn<'a> {
    pub stack: &'a mut dyn Stack,
    pub reactor: &'a mut dyn Reactor,
}

impl Turn<'_> {
    /// The model's pending error, which is cleared.
    pub fn take_error(&mut self, socket: SocketId) -> Option<Errno> {
        let value = self.stack.get_option(socket, libc::SOL_SOCKET, libc::SO_ERROR, 4).ok()?;
        let errno = i32::from_ne_bytes(value.get(..4)?.try_into().ok()?);
        (errno != 0).then_some(Errno(errno))
    }
}
