//! Errors that a program has been told: what showed them at its end goes, and so does the model's.

use super::state::Supervisor;
use super::turn::Turn;
use crate::standin::{Body, StandIn};
use crate::sys;
use bytes::BytesMut;
use std::os::fd::AsFd;
use weft_intercept::face::SocketId;

impl Supervisor {
    /// The stand-in of a failed connection has an error of its own (ECONNRESET), which poll shows; reading SO_ERROR clears it as in TCP.
    pub(crate) fn forget_native_error(&mut self, key: usize) {
        let dead = self.stand_ins.get(key).is_some_and(|one| one.watched && one.ours.is_none());
        if dead && let Ok(end) = self.borrow(key) {
            let _ = sys::get_option(end.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR);
            if let Some(one) = self.stand_ins.get_mut(key) {
                one.reset_shown = false;
            }
        }
    }

    /// A native read of a stream that has failed takes the error of the stand-in; the model's, which is the same one, goes with it.
    pub(crate) fn forget_told_error(&mut self, key: usize, socket: SocketId, turn: &mut Turn<'_>) {
        if !self.stand_ins.get(key).is_some_and(|one| one.reset_shown) {
            return;
        }
        let Ok(end) = self.borrow(key) else { return };
        if sys::poll_now(end.as_fd(), 0) & libc::POLLERR == 0 {
            turn.take_error(socket);
            if let Some(one) = self.stand_ins.get_mut(key) {
                one.reset_shown = false;
            }
        }
    }

    /// The program has been told an error of a datagram socket: what woke it for that goes, and comes again if there is another.
    pub(crate) fn error_was_told(&mut self, key: usize, turn: &mut Turn<'_>) {
        self.drop_wake(key);
        self.pump(key, false, turn);
    }

    /// Takes out the empty packet that woke the program for an error.
    fn drop_wake(&mut self, key: usize) {
        let is_wake = |one: &StandIn| matches!(&one.body, Body::Packet(packets) if packets.beside.front().is_some_and(|beside| beside.wakes_for_error));
        if !self.stand_ins.get(key).is_some_and(is_wake) {
            return;
        }
        let Ok(end) = self.borrow(key) else { return };
        let Some(StandIn { body: Body::Packet(packets), .. }) = self.stand_ins.get_mut(key) else { return };
        // Only if it is still what comes first: the program may have read it.
        if sys::poll_now(end.as_fd(), libc::POLLIN) & libc::POLLIN != 0 && sys::next_packet_bytes(end.as_fd()) == Ok(0) {
            let _ = sys::receive_into(end.as_fd(), &mut BytesMut::with_capacity(1), 1, 0);
        }
        packets.beside.pop_front();
    }
}
