//! One connection: its data over its subflows.
//!
//! Numbers of data are *distances*: bytes since the side's first one. So they neither wrap nor begin at random; the extension of a subflow knows what
//! they are on the wire.

mod addresses;
mod bare;
mod close;
mod control;
mod events;
mod fall_back;
mod info;
mod known;
mod manager;
mod path;
mod policy;
mod receive;
mod receiver;
mod reinject;
mod send;
mod sender;
mod state;
mod tail;

pub(crate) use manager::{Entry, Manager};
pub(crate) use path::Path;

use crate::counters::Counter;
use crate::key::Key;
use crate::kind::Settings;
use crate::out::Out;
use crate::own::Scheduled;
use crate::word::{Down, Early, Have, Joinable, Up};
use bare::Bare;
use known::{Announcement, Known};
use path::FIRST_NUMBER;
use receiver::Receiver;
use sender::Sender;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use weft_core::{
    Bytes, CallId, DataFlags, FlowId, Instant, Room, StreamCall, StreamError, StreamEvent, StreamMessage, StreamOption, StreamOptions,
};
use weft_wire::tcp::mptcp::reset_reason;

/// How far the connection is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// Its first subflow's handshake goes on.
    Opening,
    /// Data flows.
    Open,
    /// Both streams have ended, and the subflows end.
    Ending,
    /// It was given up; the subflows are being reset.
    Failed,
}
weft_core::fields!(
    enum Stage {
        Opening = 0,
        Open = 1,
        Ending = 2,
        Failed = 3,
    }
);

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// What sockets know it by; its first subflow's, too.
    pub(crate) flow: FlowId,
    /// This side has opened it.
    pub(crate) opens: bool,
    pub(crate) local: Key,
    pub(crate) remote: Option<Key>,
    pub(crate) checksum: bool,
    /// What the SYNs of the first subflow carried.
    pub(crate) early: Early,
    /// The peer does not want subflows to the address of the first.
    pub(crate) deny_join_id0: bool,
    /// The peer has heard all of the first handshake.
    pub(crate) confirmed: bool,
    pub(crate) stage: Stage,
    /// It is plain TCP; what is left here is data that tcp had no room for.
    pub(crate) fallen_back: bool,
    /// As sockets have set them, for further subflows.
    pub(crate) options: StreamOptions,
    pub(crate) send: Sender,
    pub(crate) receive: Receiver,
    pub(crate) paths: Vec<Path>,
    /// The number of its next subflow.
    pub(crate) next_number: u32,
    /// Bytes that were handed down again, those of subflows that are gone, too.
    pub(crate) again: u64,
    /// What its scheduler remembers.
    pub(crate) scheduled: Scheduled,
    /// It has no subflow, and waits for one.
    pub(crate) bare: Option<Bare>,
    /// There was a second subflow: it can no longer become plain TCP.
    pub(crate) firm: bool,
    /// The program has let go of it.
    pub(crate) closed: bool,
    /// Calls that wait until all data is handed down, of a connection that has fallen back.
    pub(crate) waiting: Vec<(CallId, StreamCall)>,
    /// What sockets have heard: that it failed, that only TIME-WAIT is left.
    pub(crate) told_failed: bool,
    pub(crate) told_time_wait: bool,
    /// Addresses of this side that the peer is told of, and the peer's that may be used.
    pub(crate) said: Vec<Announcement>,
    pub(crate) known: Vec<Known>,
    /// Pairs of addresses between which there was a subflow, or an attempt.
    pub(crate) tried: BTreeSet<(IpAddr, SocketAddr)>,
    /// Identifiers of endpoints from which a subflow was tried, refused ones, too.
    pub(crate) endpoints_used: BTreeSet<u8>,
    /// Of the pairs those between which a box changes the data.
    pub(crate) barred: BTreeSet<(IpAddr, SocketAddr)>,
    /// Subflows that were begun from other ports of the first one's address (ndiffports).
    pub(crate) ports_tried: u32,
    /// What listeners were told last.
    pub(crate) offered: Option<Box<Joinable>>,
    /// A program manages its paths.
    pub(crate) manager: Option<Manager>,
    /// When data went last.
    pub(crate) active_at: Instant,
    /// When it gives up waiting for its peer.
    pub(crate) gives_up_at: Option<Instant>,
    /// What the engine's timer is set to.
    pub(crate) armed: Option<Instant>,
}

/// Whether anything is left of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// It goes on.
    All,
    /// Its flow goes on as plain TCP.
    Plain,
    /// Nothing; sockets have been told.
    Nothing,
}

impl Connection {
    pub(crate) fn new(flow: FlowId, opens: bool, local: Key, options: StreamOptions, first: Path) -> Connection {
        Connection {
            flow,
            opens,
            local,
            remote: None,
            checksum: false,
            early: Early::default(),
            deny_join_id0: false,
            confirmed: false,
            stage: Stage::Opening,
            fallen_back: false,
            options,
            send: Sender::default(),
            receive: Receiver::default(),
            paths: vec![first],
            next_number: FIRST_NUMBER + 1,
            again: 0,
            scheduled: Scheduled::default(),
            bare: None,
            firm: false,
            closed: false,
            waiting: Vec::new(),
            said: Vec::new(),
            known: Vec::new(),
            tried: BTreeSet::new(),
            endpoints_used: BTreeSet::new(),
            barred: BTreeSet::new(),
            ports_tried: 0,
            offered: None,
            manager: None,
            told_failed: false,
            told_time_wait: false,
            active_at: Instant::ZERO,
            gives_up_at: None,
            armed: None,
        }
    }

    pub(crate) fn path(&self, flow: FlowId) -> Option<usize> {
        self.paths.iter().position(|path| path.flow == flow)
    }

    /// What is left of it.
    pub(crate) fn left(&self) -> Left {
        if self.bare.is_none() && self.paths.iter().all(|path| path.released) {
            Left::Nothing
        } else if self.fallen_back && self.is_level() {
            Left::Plain
        } else {
            Left::All
        }
    }

    /// A word of a subflow's extension.
    pub(crate) fn on_word(&mut self, index: usize, word: Up, out: &mut Out<'_, '_>) {
        match word {
            Up::Agreed { remote, checksum, deny_join_id0, early } => {
                (self.remote, self.checksum, self.deny_join_id0, self.early) = (Some(remote), checksum, deny_join_id0, early);
            }
            Up::Confirmed => {
                self.paths[index].confirmed = true;
                self.is_bare_no_more(out);
                if self.paths[index].joined {
                    // RFC 8684 §3.2: the fourth segment says that the third has come.
                    self.have(index, true, out);
                    self.make_firm(out);
                } else if !std::mem::replace(&mut self.confirmed, true) {
                    self.tell("established", out);
                }
                self.is_active(out.now());
                let locals = out.locals;
                self.reconcile(locals, out);
                self.follow_policy(out);
                self.push(out);
            }
            Up::ThirdAgain => self.have(index, true, out),
            Up::Heard { ack, window_bytes } => self.heard(ack, window_bytes, out),
            Up::End(distance) => self.peer_ends(index, distance, out),
            Up::FastClosed => self.fast_closed(out),
            Up::FellBack => self.fell_back(out),
            Up::Silent(silent) => self.paths[index].silent = silent,
            Up::Count(counter) => out.count(counter),
            Up::Summed { offset, bytes, sum } => self.paths[index].sum((offset, bytes, sum)),
            Up::Priority { backup } => {
                self.paths[index].backup_by_peer = backup;
                self.tell_path("subflow-priority", index, None, out);
                self.push(out);
            }
            Up::Answered { remote_id, backup } => {
                if self.paths[index].remote.port() != self.paths[0].remote.port() {
                    out.count(Counter::MPJoinPortSynAckRx);
                }
                (self.paths[index].remote_id, self.paths[index].backup_by_peer) = (remote_id, backup);
            }
            Up::Failed(_) => self.failed_at_peer(index, out),
            Up::Reset { transient, reason } => {
                self.paths[index].reset = Some((transient, reason));
                if !transient && reason == reset_reason::MIDDLEBOX {
                    self.bar(index);
                }
            }
            Up::Gone { .. } => {}
            Up::Announced { id, address, port, echo } => self.announced(index, (id, address, port), echo, out),
            Up::Removed(ids) => self.removed(&ids, out),
            // The first words of accepted connections, which the block has taken.
            Up::Begun { .. } | Up::Joined { .. } => {}
        }
    }

    /// A subflow's extension learns how far the connection's data has come. `now`: the peer is to hear of it at once.
    pub(crate) fn have(&mut self, index: usize, now: bool, out: &mut Out<'_, '_>) {
        let path = &self.paths[index];
        if self.fallen_back || path.released {
            return;
        }
        let have = Have { ack: self.receive.acknowledges(), edge: self.receive.edge, answered: path.received, now };
        out.word(path.flow, &Down::Have(have));
    }

    /// RFC 8684 §3.2: the third segment of a handshake that joins is repeated until the fourth has come.
    fn say_third_again(&mut self, out: &mut Out<'_, '_>) {
        for index in 0..self.paths.len() {
            if self.paths[index].third_again_at().is_some_and(|at| at <= out.now()) {
                let again = self.paths[index].third.map_or(0, |(_, again)| again.saturating_add(1));
                self.paths[index].third = Some((out.now(), again));
                self.have(index, true, out);
            }
        }
    }

    /// How a subflow does.
    pub(crate) fn on_room(&mut self, index: usize, room: Room, out: &mut Out<'_, '_>) {
        self.paths[index].room = room;
        if self.receive.widen(self.paths[index].room.receive_bytes.into(), self.receive_buffer_max(index)) {
            (0..self.paths.len()).for_each(|index| self.have(index, false, out));
        }
        self.watch(index, out);
        self.repair();
        self.tell_siblings(out);
        self.measure_buffer(out);
        self.grant(out);
        self.push(out);
    }

    /// What the receive buffer may become: as much as those of the subflows together, as the send buffer; with SO_RCVBUF that.
    fn receive_buffer_max(&self, index: usize) -> u64 {
        let of = |path: &Path| u64::from(path.room.receive_bytes_max);
        if self.options.receive_buffer.is_some() {
            return of(&self.paths[index]);
        }
        self.paths.iter().filter(|path| path.may_send()).map(of).sum::<u64>().max(of(&self.paths[index]))
    }

    /// Something happened to a subflow.
    pub(crate) fn on_event(&mut self, index: usize, event: StreamEvent, out: &mut Out<'_, '_>) {
        if self.fallen_back {
            return self.pass_event(index, event, out);
        }
        let (was_closed, error) = (self.paths[index].closed, if let StreamEvent::Failed(error) = &event { Some(*error) } else { None });
        self.happens(index, event, out);
        if self.has_lost(index, was_closed) {
            self.tell_path("subflow-closed", index, error, out);
        }
    }

    fn happens(&mut self, index: usize, event: StreamEvent, out: &mut Out<'_, '_>) {
        match event {
            StreamEvent::Established { local, remote } => {
                (self.paths[index].local, self.paths[index].remote) = (local, remote);
                self.paths[index].up = true;
                if self.paths[index].joined {
                    self.paths[index].third = self.paths[index].opened.then(|| (out.now(), 0));
                    self.tell_path("subflow-established", index, None, out);
                } else {
                    self.opened(out);
                    out.event(self.flow, StreamEvent::Established { local, remote });
                }
            }
            StreamEvent::Released => self.path_released(index, out),
            StreamEvent::Failed(error) => self.path_failed(index, error, out),
            StreamEvent::HalfClosed => self.path_half_closed(index, out),
            StreamEvent::TimeWait => {
                self.paths[index].time_wait = true;
                self.tell_time_wait(out);
            }
            StreamEvent::Soft(error) => out.event(self.flow, StreamEvent::Soft(error)),
            StreamEvent::Began { syn, ip_options } => out.event(self.flow, StreamEvent::Began { syn, ip_options }),
            // Of the connection's end that is said elsewhere; the rest is of plain TCP.
            StreamEvent::SendQueueEmpty | StreamEvent::Urgent { .. } | StreamEvent::Accepted { .. } => {}
            StreamEvent::Stamped { at, moment, bytes } => {
                if index == 0 {
                    out.event(self.flow, StreamEvent::Stamped { at, moment, bytes });
                }
            }
        }
    }

    /// Its first handshake has ended.
    pub(crate) fn opened(&mut self, out: &mut Out<'_, '_>) {
        if self.stage == Stage::Opening {
            self.stage = Stage::Open;
            out.count(Counter::MPCurrEstab);
            self.tell("created", out);
        }
        self.paths[0].up = true;
    }

    /// Sockets ask something of the connection.
    pub(crate) fn call(&mut self, id: CallId, op: StreamCall, out: &mut Out<'_, '_>) {
        if self.fallen_back {
            return self.pass_call(id, op, out);
        }
        match op {
            StreamCall::Set(option) => {
                self.options.apply(option.clone());
                if matches!(option, StreamOption::Congestion(_)) {
                    self.forget_told();
                }
                let flow = self.flow;
                let others: Vec<FlowId> = self.paths.iter().skip(1).filter(|path| !path.released).map(|path| path.flow).collect();
                for other in others {
                    out.call(other, StreamCall::Set(option.clone()));
                }
                out.down(StreamMessage::Call { id, flow, op: Box::new(StreamCall::Set(option)) });
            }
            StreamCall::ShutdownRead => {
                self.receive.refuses = true;
                out.reply(id, self.flow, Ok(()));
            }
            StreamCall::ShutdownWrite if self.stage == Stage::Opening => {
                self.send.end_wanted = true;
                out.reply(id, self.flow, Ok(()));
            }
            StreamCall::ShutdownWrite => {
                out.reply(id, self.flow, Ok(()));
                self.send.end_wanted = true;
                self.push(out);
            }
            StreamCall::Close { unread, linger } => {
                out.reply(id, self.flow, Ok(()));
                self.close(unread, linger, out);
            }
            StreamCall::Abort => {
                out.reply(id, self.flow, Ok(()));
                self.fast_close(out);
            }
            StreamCall::Took { .. }
            | StreamCall::Plain
            | StreamCall::Connect { .. }
            | StreamCall::ConnectWith { .. }
            | StreamCall::Listen { .. } => {
                out.reply(id, self.flow, Err(StreamError::Invalid));
            }
        }
    }

    /// Sockets hand data down.
    pub(crate) fn data_down(&mut self, bytes: Bytes, flags: DataFlags, out: &mut Out<'_, '_>) {
        self.wakes(out);
        self.send.push(bytes, flags);
        self.push(out);
    }

    /// Its SYN has this data, and tcp has it already. It is beyond what sockets were allowed to write.
    pub(crate) fn goes_early(&mut self, bytes: Bytes, out: &mut Out<'_, '_>) {
        let length = bytes.len() as u64;
        out.uses(self.paths[0].local.ip(), length);
        self.send.push(bytes, DataFlags::default());
        self.send.granted += length;
        self.send.next = length;
        self.paths[0].sent = length;
        self.paths[0].map(0, length);
    }

    /// The time that it has set.
    pub(crate) fn deadline(&self, settings: &Settings) -> Option<Instant> {
        let idle = self.idle_at(settings).filter(|_| self.paths.iter().any(|path| path.may_send() && path.stands_by));
        let bare = self.bare.map(|bare| bare.again_at.map_or(bare.until, |at| at.min(bare.until)));
        let third = self.paths.iter().filter_map(Path::third_again_at).min();
        [third, self.send.again_at, self.send.stalled_at, self.next_announcement(), self.gives_up_at, bare, idle]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn on_timer(&mut self, out: &mut Out<'_, '_>) {
        self.say_third_again(out);
        if self.send.again_at.is_some_and(|at| at <= out.now()) {
            self.say_end_again(out);
        }
        if self.send.stalled_at.is_some_and(|at| at <= out.now()) {
            self.stalled(out);
        }
        if self.next_announcement().is_some_and(|at| at <= out.now()) {
            self.address_timer(out);
        }
        if self.idle_at(out.settings).is_some_and(|at| at <= out.now()) {
            self.follow_policy(out);
        }
        match self.bare {
            Some(bare) if bare.until <= out.now() => self.give_up_bare(out),
            Some(bare) if bare.again_at.is_some_and(|at| at <= out.now()) => self.try_again(out),
            _ => {}
        }
        if self.gives_up_at.is_some_and(|at| at <= out.now()) {
            self.gives_up_at = None;
            self.fast_close(out);
        }
    }
}
