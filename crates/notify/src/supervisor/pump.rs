//! Data moved between stand-ins and the model's sockets, and what it shows to the program: ends and resets.

use super::state::Supervisor;
use super::turn::Turn;
use crate::standin::stream::Phase;
use crate::standin::{self, Body, StandIn, packet_pump, stream_pump};
use crate::sys;
use std::os::fd::AsFd;
use weft_intercept::face::{SocketId, SocketState};

impl Supervisor {
    /// Moves what can move, without touching held calls.
    pub(crate) fn pump(&mut self, key: usize, hung_up: bool, turn: &mut Turn<'_>) {
        let Some(one) = self.stand_ins.get(key) else { return };
        match &one.body {
            Body::Stream(stream) => match stream.phase {
                Phase::Fresh | Phase::Dead => {}
                Phase::Listening { .. } => self.update_token(key, None, turn),
                Phase::Connecting { .. } | Phase::Connected => self.pump_stream(key, hung_up, turn),
            },
            Body::Packet(_) => self.pump_packets(key, hung_up, turn),
            Body::Netlink(_) => self.pump_link(key, turn),
        }
    }

    fn pump_stream(&mut self, key: usize, hung_up: bool, turn: &mut Turn<'_>) {
        let Supervisor { stand_ins, buffer, .. } = self;
        let Some(one) = stand_ins.get_mut(key) else { return };
        let Body::Stream(stream) = &mut one.body else { return };
        let socket = stream.socket;
        let mut filling = 0;
        if let Phase::Connecting { filling: bytes } = stream.phase {
            match turn.stack.state(socket) {
                Some(SocketState::Connected | SocketState::PeerClosed) => {
                    filling = bytes;
                    stream.phase = Phase::Connected;
                }
                Some(SocketState::Connecting) if !hung_up => return,
                Some(SocketState::Connecting) => {
                    // Closed while connecting.
                    self.over(key, turn);
                    return;
                }
                // What fills it is unread, so closing resets: IN, OUT, ERR and HUP, and ECONNRESET to reads.
                _ => {
                    self.die(key, turn);
                    return;
                }
            }
        }
        // The first write of a deferred Fast Open has begun to connect: ends are looked at when that is over.
        if filling == 0 && turn.stack.state(socket) == Some(SocketState::Connecting) {
            return;
        }
        if matches!(turn.stack.state(socket), Some(SocketState::Fresh | SocketState::Bound)) {
            // connect(AF_UNSPEC) has dissolved the connection: ECONNRESET, as in TCP.
            self.reset(key, turn);
            return;
        }
        let was_ended = one.write_ended;
        let out = stream_pump::pump_out(one, socket, &mut filling, buffer, turn.stack);
        match out {
            stream_pump::Out::Open => {}
            stream_pump::Out::End if was_ended && !hung_up => {}
            stream_pump::Out::End => {
                if self.end_of_writing(key, socket, turn) {
                    return;
                }
            }
            stream_pump::Out::Reset => {
                self.close_stand_in(key, true, turn);
                return;
            }
        }
        self.widen_bulk(key);
        let Some(one) = self.stand_ins.get_mut(key) else { return };
        match stream_pump::pump_in(one, socket, turn.stack) {
            stream_pump::In::Open => self.watch_room(key, turn),
            stream_pump::In::Failed => self.reset(key, turn),
            stream_pump::In::Gone => self.close_stand_in(key, true, turn),
        }
    }

    /// A program in bulk transfer may write further ahead of us. Once for a stand-in.
    fn widen_bulk(&mut self, key: usize) {
        let Some(one) = self.stand_ins.get_mut(key).filter(|one| !one.bulk && one.written >= standin::BULK_BYTES) else { return };
        one.bulk = true;
        // Where its end cannot be borrowed it is only slower.
        if let Ok(end) = self.borrow(key) {
            sys::set_send_buffer(end.as_fd(), standin::BULK_SEND_BUFFER_BYTES);
        }
    }

    /// All that the program wrote has been read. Has it shut down its side, or gone? True: gone.
    fn end_of_writing(&mut self, key: usize, socket: SocketId, turn: &mut Turn<'_>) -> bool {
        let Some(one) = self.stand_ins.get_mut(key) else { return true };
        let hung_up = one.ours.as_ref().is_some_and(|ours| sys::poll_now(ours.as_fd(), 0) & libc::POLLHUP != 0);
        if hung_up && !one.hang_up_is_ambiguous() {
            let unread = one.unread > 0 && one.ours.as_ref().is_some_and(|ours| sys::poll_now(ours.as_fd(), 0) & libc::POLLERR != 0);
            self.close_stand_in(key, unread, turn);
            return true;
        }
        if !one.write_ended {
            one.write_ended = true;
            let _ = turn.stack.shutdown(socket, libc::SHUT_WR);
        }
        if hung_up {
            self.watch(key);
            self.look_soon();
        }
        false
    }

    /// The program's end of a socketpair is closed or shut down both ways.
    pub(super) fn over(&mut self, key: usize, turn: &mut Turn<'_>) {
        let Some(one) = self.stand_ins.get_mut(key) else { return };
        if one.shut_write || one.shut_read {
            self.watch(key);
            self.look_for_closed(turn);
        } else {
            self.close_stand_in(key, false, turn);
        }
    }

    fn pump_packets(&mut self, key: usize, hung_up: bool, turn: &mut Turn<'_>) {
        if let Some(StandIn { body: Body::Packet(packets), readable: true, .. }) = self.stand_ins.get(key) {
            // The program has written something.
            let socket = packets.socket;
            self.look_before_reaching(socket, None, turn);
        }
        let Supervisor { stand_ins, buffer, calls, .. } = self;
        let Some(one) = stand_ins.get_mut(key) else { return };
        let Some(socket) = one.socket() else { return };
        let ended = packet_pump::pump_out(one, socket, buffer, &mut calls.late_refusals, turn.stack);
        let gone = packet_pump::pump_in(one, turn.stack);
        if ended || hung_up && one.unsent.is_none() && !one.readable {
            self.over(key, turn);
        } else if gone {
            self.look_soon();
        }
        self.mirror_error(key, turn);
        self.watch_room(key, turn);
    }

    /// The connection is gone by an error: the program's end gets ECONNRESET after what is queued there.
    pub(crate) fn reset(&mut self, key: usize, turn: &mut Turn<'_>) {
        let unread = self.stand_ins.get(key).and_then(|one| one.ours.as_ref()).is_some_and(|ours| sys::readable_bytes(ours.as_fd()) > 0);
        if !unread {
            // A unix socket is reset when its peer closes with unread data. There is none: put one byte in from the program's side.
            match self.borrow(key) {
                Ok(end) => {
                    let _ = sys::send_vectors(end.as_fd(), &[b"\0"], 0);
                }
                Err(errno) => tracing::debug!(errno = errno.0, "a reset shows as an end of stream"),
            }
        }
        self.die(key, turn);
    }

    pub(crate) fn die(&mut self, key: usize, turn: &mut Turn<'_>) {
        let shown = self.stand_ins.get(key).and_then(|one| one.ours.as_ref()).is_some_and(|ours| sys::readable_bytes(ours.as_fd()) > 0);
        self.detach(key, turn);
        self.watch(key);
        if let Some(one) = self.stand_ins.get_mut(key) {
            one.reset_shown = shown;
            one.leftover.clear();
            one.unsent = None;
            if let Body::Stream(stream) = &mut one.body {
                stream.phase = Phase::Dead;
            }
        }
    }
}
