//! The socket of a trapped call: its stand-in.

use super::trapped::Call;
use crate::standin::StandIn;
use crate::supervisor::{Supervisor, Turn};
use std::os::fd::OwnedFd;
use weft_intercept::face::{Errno, SocketId};
use weft_loader::calls;

/// A stand-in, while a call on it is answered.
pub(super) struct TrappedSocket<'a, 't> {
    pub s: &'a mut Supervisor,
    pub turn: &'a mut Turn<'t>,
    pub call: &'a Call,
    /// The program's descriptor.
    pub fd: i32,
    /// Its stand-in.
    pub key: usize,
    /// The program's end of that, once it was borrowed.
    pub end: Option<OwnedFd>,
    /// The next message has waited for room before.
    pub again: bool,
}

impl<'a, 't> TrappedSocket<'a, 't> {
    /// The stand-in behind a descriptor. None: it is something else, and the kernel's.
    pub fn find(s: &'a mut Supervisor, turn: &'a mut Turn<'t>, call: &'a Call, fd: calls::Fd) -> Result<Option<Self>, Errno> {
        let fd = fd.get();
        Ok(s.find(call, fd)?.map(|key| TrappedSocket { s, turn, call, fd, key, end: None, again: call.held.is_some() }))
    }

    /// The model's socket; none: it is a netlink socket, or was closed.
    pub fn socket(&self) -> Option<SocketId> {
        self.s.stand_ins.get(self.key).and_then(StandIn::socket)
    }
}
