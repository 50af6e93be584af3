//! A stand-in as [`weft_intercept::socket_calls`] needs it.

use super::trapped::{Outcome, wait};
use super::trapped_socket::TrappedSocket;
use super::{address, connection, data, option};
use crate::remote::Stored;
use crate::standin::{Body, StandIn};
use crate::sys::{self, Errno};
use std::os::fd::AsFd;
use std::time::Duration;
use weft_intercept::face::SocketId;
use weft_intercept::memory::LATER;
use weft_intercept::memory::Memory;
use weft_intercept::socket_calls::{Carrier, Limit, Message, Taken};

impl Carrier for TrappedSocket<'_, '_> {
    type Outcome = Outcome;

    fn memory(&self) -> &impl Memory {
        self.call
    }
    fn told(&self, value: i64) -> Outcome {
        Outcome::Done(value)
    }
    fn done(&self, value: i64) -> Outcome {
        Outcome::DoneWithEffect(value)
    }
    fn natively(&self) -> Result<Outcome, Errno> {
        Ok(Outcome::Continue)
    }
    fn wait(&mut self, limit: Limit, flags: i32, otherwise: i32) -> Result<Outcome, Errno> {
        let end = match self.end.take() {
            Some(end) => end,
            None => self.s.borrow(self.key)?,
        };
        let limit = if limit == Limit::Send { libc::SO_SNDTIMEO } else { libc::SO_RCVTIMEO };
        wait(self.call, self.key, &end, flags, limit, otherwise)
    }
    fn has_waited(&self) -> bool {
        self.call.held.is_some()
    }
    /// What is shut has an end for each message, and no message to wait for.
    fn waits_between(&self) -> bool {
        self.s.stand_ins.get(self.key).is_some_and(|one| one.shut_read)
    }

    fn bind(&mut self, name: &[u8]) -> Result<(), Errno> {
        address::bind(self, name)
    }
    fn listen(&mut self, backlog: i32) -> Result<(), Errno> {
        connection::listen(self, backlog)
    }
    fn shutdown(&mut self, how: i32) -> Result<(), Errno> {
        connection::shutdown(self, how)
    }
    fn local_address(&mut self) -> Result<Vec<u8>, Errno> {
        address::local(self)
    }
    fn peer_address(&mut self) -> Result<Vec<u8>, Errno> {
        address::peer(self)
    }
    fn connect(&mut self, name: &[u8]) -> Result<(), Errno> {
        connection::connect(self, name)
    }

    fn accept(&mut self) -> Result<SocketId, Errno> {
        connection::accept(self)
    }
    fn accepted_address(&mut self, child: SocketId) -> Result<Vec<u8>, Errno> {
        self.turn.stack.accepted_address(child)
    }
    fn give_up(&mut self, child: SocketId) {
        self.turn.stack.close(child);
        self.s.update_token(self.key, self.end.as_ref().map(AsFd::as_fd), self.turn);
    }
    fn hand_over(&mut self, child: SocketId, flags: i32) -> Result<Outcome, Errno> {
        self.s.update_token(self.key, self.end.as_ref().map(AsFd::as_fd), self.turn);
        Ok(Outcome::HandOver { listener: self.key, child, flags })
    }

    fn get_option(&mut self, level: i32, name: i32, asked: &[u8], length: i32) -> Result<Option<Vec<u8>>, Errno> {
        option::get(self, level, name, asked, length)
    }
    fn option_bytes(&mut self, level: i32, name: i32, length: usize) -> usize {
        let socket = self.s.stand_ins.get(self.key).and_then(StandIn::socket);
        socket.map_or(length, |socket| self.turn.stack.option_bytes(socket, level, name, length))
    }
    fn set_option(&mut self, level: i32, name: i32, value: &[u8]) -> Result<bool, Errno> {
        option::set(self, level, name, value)
    }
    fn ioctl(&mut self, request: u32) -> Result<Option<Vec<u8>>, Errno> {
        option::request(self, request)
    }
    fn about_interfaces(&mut self, request: u32, pointer: u64) -> Result<(), Errno> {
        option::about_interfaces(self.s, self.turn, self.call, Some(self.key), request, pointer)
    }

    fn send(&mut self, message: &Message, name: Option<&[u8]>, control: &[u8], flags: i32) -> Result<usize, Errno> {
        data::send(self, message, name, control, flags)
    }
    fn take(&mut self, bytes: u64, flags: i32) -> Result<Taken, Errno> {
        let taken = data::take(self.s, self.turn, self.key, bytes, flags);
        let shut = matches!(self.s.stand_ins.get(self.key), Some(StandIn { body: Body::Packet(_), shut_read: true, .. }));
        if shut && matches!(taken, Err(Errno(libc::EAGAIN))) && flags & (libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE) == 0 {
            // __skb_wait_for_more_packets: "Socket shut down? if (sk->sk_shutdown & RCV_SHUTDOWN) goto out_noerr;"
            let end = self.s.borrow(self.key)?;
            if sys::status_flags(end.as_fd())? & libc::O_NONBLOCK == 0 {
                return Ok(Taken::default());
            }
        }
        taken
    }
    fn is_stream(&mut self) -> bool {
        matches!(self.s.stand_ins.get(self.key), Some(StandIn { body: Body::Stream(_), .. }))
    }
    fn send_failed(&mut self, errno: Errno) {
        self.s.forget_native_error(self.key);
        if errno.0 != libc::EPIPE {
            self.s.error_was_told(self.key, self.turn);
        }
    }
    fn broken_pipe(&mut self) {
        self.s.signal(self.call.tid, libc::SIGPIPE);
    }

    fn waited(&self) -> Duration {
        self.call.since.elapsed()
    }
    fn messages_done(&self) -> u64 {
        self.call.messages.get()
    }
    /// What is written of a message is written before the next one is looked at.
    fn message_is_done(&mut self, index: u64) -> Result<(), Result<i64, Errno>> {
        self.call.messages.set(index + 1);
        let written = self.call.remote.store();
        let before = |index: u64| if index > 0 { Ok(index as i64) } else { Err(Errno(libc::EFAULT)) };
        self.call.remote.otherwise(before(index + 1));
        match written {
            Stored::All => Ok(()),
            Stored::Failed(otherwise) => Err(otherwise),
            Stored::Later => Err(Err(LATER)),
        }
    }
    fn error_waits(&mut self) -> bool {
        data::error_waits(self.s, self.turn, self.key)
    }

    fn unsupported(&mut self, request: String, errno: Errno) {
        self.s.calls.unsupported(request, errno);
    }
}
