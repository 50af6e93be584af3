//! Errors of datagram sockets, shown where poll(2) looks for them: see [`crate::standin::packet`].

use super::state::Supervisor;
use super::turn::Turn;
use super::waiting::{Waiting, is_waiting};
use crate::call::Call;
use crate::standin::{Body, StandIn, packet};
use crate::sys::{self, Errno};
use bytes::BytesMut;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use weft_intercept::face::Poll;

/// Options that follow a descriptor's stand-in when it is exchanged: those that native reads and writes obey.
const FOLLOWING: [i32; 3] = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, libc::SO_PEEK_OFF];
/// The largest datagram that can lie in a stand-in.
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// A native *write* would take an error that is shown, and fail with ECONNRESET, where Linux says for example EHOSTUNREACH, which traceroute
/// expects while it sends. So an error is shown when a thread of the program waits for something (poll, a read), and that is looked at so often
/// (see [`Waiting`]).
const ERROR_LOOK: Duration = Duration::from_millis(2);
impl Supervisor {
    /// The datagram body of a stand-in.
    pub(crate) fn packets(&mut self, key: usize) -> Option<&mut packet::Packets> {
        match &mut self.stand_ins.get_mut(key)?.body {
            Body::Packet(packets) => Some(packets),
            _ => None,
        }
    }

    /// Lets a stand-in that can show errors show one exactly while there is one to tell.
    pub(crate) fn mirror_error(&mut self, key: usize, turn: &mut Turn<'_>) {
        let Some(one) = self.stand_ins.get_mut(key) else { return };
        let Body::Packet(packets) = &mut one.body else { return };
        if packets.name.is_none() {
            return;
        }
        let wanted = packets.error.is_some() || turn.stack.readiness(packets.socket).contains(Poll::ERR);
        if !wanted {
            self.errors_waiting.remove(&key);
        }
        // While the model has no room for what the program wrote, that would be lost; the error waits.
        if wanted == packets.error_shown || wanted && (one.unsent.is_some() || one.readable) {
            return;
        }
        let tid = one.place.0;
        if wanted {
            let waiting = *self.errors_waiting.entry(key).or_insert_with(|| Waiting::begin(tid));
            if !waiting.is_over(tid) && !is_waiting(tid) {
                self.errors_at.get_or_insert(Instant::now() + ERROR_LOOK);
                return;
            }
        }
        self.errors_waiting.remove(&key);
        let Ok(end) = self.borrow(key) else { return };
        if wanted { self.raise_error(key, end.as_fd()) } else { self.hush(key, end.as_fd()) }
    }

    /// The program has made a call on the socket: what it computed before no longer counts.
    pub(super) fn error_waits_anew(&mut self, key: usize, tid: u32) {
        if let Some(waiting) = self.errors_waiting.get_mut(&key) {
            *waiting = Waiting::begin(tid);
        }
    }

    /// Looks again at the errors that wait for their programs to wait.
    pub(super) fn look_at_errors(&mut self, turn: &mut Turn<'_>) {
        self.errors_at = None;
        let keys: Vec<usize> = self.errors_waiting.keys().copied().collect();
        for key in keys {
            if self.packets(key).is_some() {
                self.mirror_error(key, turn);
            } else {
                self.errors_waiting.remove(&key);
            }
        }
    }

    fn raise_error(&mut self, key: usize, end: BorrowedFd<'_>) {
        let Some(StandIn { body: Body::Packet(packets), ours: Some(ours), .. }) = self.stand_ins.get_mut(key) else { return };
        let Some(name) = &packets.name else { return };
        if let Err(errno) = packet::raise_error(end, ours.as_fd(), name) {
            // Its writing side is shut down, or it is going: trapped calls still tell the error.
            tracing::debug!(errno = errno.0, "an error of a datagram socket does not show in poll");
        }
        packets.error_shown = true;
    }

    /// Takes the error off the program's end.
    pub(crate) fn hush(&mut self, key: usize, end: BorrowedFd<'_>) {
        if let Some(packets) = self.packets(key).filter(|packets| packets.error_shown) {
            packets.error_shown = false;
            let _ = sys::get_option(end, libc::SOL_SOCKET, libc::SO_ERROR);
        }
    }

    /// A native call may have taken the error that the program's end showed; then the one that it stood for has been told.
    pub(crate) fn error_told_natively(&mut self, key: usize, turn: &mut Turn<'_>) {
        if !self.packets(key).is_some_and(|packets| packets.error_shown) {
            return;
        }
        let Ok(end) = self.borrow(key) else { return };
        if sys::poll_now(end.as_fd(), 0) & libc::POLLERR != 0 {
            return;
        }
        let Some(packets) = self.packets(key) else { return };
        packets.error_shown = false;
        let socket = packets.socket;
        if packets.error.take().is_none() {
            let _ = turn.stack.get_option(socket, libc::SOL_SOCKET, libc::SO_ERROR, 4);
        }
    }

    /// The program wants to know of errors (IP_RECVERR): exchanges its descriptor's stand-in for one that can show them, as
    /// [`Supervisor::exchange`] does.
    ///
    /// # Errors
    /// When descriptors cannot be made or the call was cancelled; then nothing has changed.
    pub(crate) fn let_errors_show(&mut self, key: usize, call: &Call, fd: i32, turn: &mut Turn<'_>) -> Result<(), Errno> {
        if self.packets(key).is_none_or(|packets| packets.name.is_some()) {
            return Ok(());
        }
        let old = self.borrow(key)?;
        let (theirs, ours, name) = packet::pair_with_errors()?;
        sys::set_option(ours.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1_i32.to_ne_bytes())?;
        if sys::status_flags(old.as_fd())? & libc::O_NONBLOCK != 0 {
            sys::set_nonblocking(theirs.as_fd())?;
        }
        for option in FOLLOWING {
            if let Ok((value, length)) = sys::get_option(old.as_fd(), libc::SOL_SOCKET, option) {
                let _ = sys::set_option(theirs.as_fd(), libc::SOL_SOCKET, option, &value[..length.min(value.len())]);
            }
        }
        let inode = sys::inode(theirs.as_fd())?;
        // What was written natively goes first.
        self.refresh(key);
        self.pump(key, false, turn);
        let exchanged = self.exchange(call, fd, old, theirs)?;
        self.detach(key, turn);
        let Some(one) = self.stand_ins.get_mut(key) else { return Err(Errno(libc::EBADF)) };
        if self.by_inode.get(&one.inode) == Some(&key) {
            self.by_inode.remove(&one.inode);
        }
        one.inode = inode;
        self.by_inode.insert(inode, key);
        if let Body::Packet(packets) = &mut one.body {
            packets.name = Some(name);
        }
        self.attach(key, ours, turn)?;
        self.watch(key);
        self.move_unread(key, exchanged.old.as_fd());
        self.move_in_epolls(exchanged);
        Ok(())
    }

    /// Brings what lies unread in the old stand-in into the new one.
    fn move_unread(&mut self, key: usize, old: BorrowedFd<'_>) {
        let Some(StandIn { body: Body::Packet(packets), ours: Some(ours), .. }) = self.stand_ins.get_mut(key) else { return };
        packets.forget_taken(sys::readable_bytes(old));
        let mut data = BytesMut::with_capacity(DATAGRAM_BYTES_MAX);
        for beside in std::mem::take(&mut packets.beside) {
            data.clear();
            let moved = sys::receive_into(old, &mut data, DATAGRAM_BYTES_MAX, 0).is_ok();
            if moved && !beside.wakes_for_error && sys::send_vectors(ours.as_fd(), &[&data], 0).is_ok() {
                packets.beside.push_back(beside);
            }
        }
    }
}
