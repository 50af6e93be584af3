//! One connection, without input and output.
//!
//! Calls come from the block: a segment that was found to belong here ([`Connection::on_segment`]), a timer ([`Connection::on_timer`]),
//! something from the upper side ([`Connection::send`], [`Connection::close`] …), frames that left ([`Connection::on_completed`]). Each
//! takes an [`Env`]. Afterwards [`Connection::next_deadline`] says when to call `on_timer`, and [`Connection::finished`] whether
//! anything is left of it.
//!
//! It refuses to know listeners, half-open connections and TIME-WAIT: those are the block's, in less memory.
//!
//! # Parts
//! A connection drives five types. None of them knows it, or sends anything; each can be read, and is tested, without it:
//!
//! ```text
//!   Connection    identity, state of RFC 9293, options, extension, path, timers, totals, how it ends
//!    ├─ Opening   what was agreed on, the SYN, Fast Open, the clock of timestamps
//!    ├─ Sender    SND.*, write queue, retransmission queue, marks, delivery rate, probes of the window
//!    ├─ Receiver  RCV.*, reassembly, what is acknowledged when, SACK blocks, buffer and window, ECN that came
//!    ├─ Recovery  phase, RACK, PRR, F-RTO, undo, round trips   ── is lent ──▶ Sender, Control, Opening, PathMtu, timers
//!    ├─ Control   congestion control and its window, how it is used, pace, CWR
//!    └─ PathMtu   what a router told, the search for more
//! ```
//!
//! Sender and Receiver need nothing but what they are told; Control nothing at all. Recovery marks what is lost and arms timers; where something has
//! to leave at once it says so, and the connection transmits.
//!
//! | what comes | goes through |
//! |---|---|
//! | a segment | `segment.rs` (RFC 9293 §3.10.7.4, in its order) ▶ `acknowledge.rs` ▶ `text.rs`, `urgent.rs` ▶ `transmit.rs` |
//! | SYN, SYN\|ACK | `handshake.rs`, `early.rs` (Fast Open) |
//! | a deadline | `timers.rs` |
//! | a call | this file, `close.rs`, `options.rs`, `credit.rs`, `extended.rs` (the extension) |
//! | an ICMP error | `close.rs`, `mtu.rs` |
//!
//! Those files hold `impl Connection`; all others define types, and name nothing that drives them.

mod ack;
mod acknowledge;
mod bounds;
mod close;
mod compress;
mod compression;
mod control;
mod credit;
mod deadlines;
mod delivery;
mod early;
mod ecn;
mod extended;
mod fast_open;
mod finished;
mod foresee;
mod handshake;
mod headers;
mod info;
mod loss;
mod marks;
mod mtu;
mod opening;
mod options;
mod outstanding;
mod path;
mod path_mtu;
mod phases;
mod rack;
mod ranges;
mod reassembly;
mod receiver;
mod receiver_acks;
mod receiver_stamps;
mod receiver_tuning;
mod receiver_window;
mod recovery;
mod retransmission;
mod sacks;
mod segment;
mod send_queue;
mod sender;
mod setup;
mod stamps;
mod state;
mod states;
mod text;
mod timers;
mod totals;
mod transmit;
mod undo;
mod urgent;
mod write_queue;

pub use crate::congestion::Phase;
pub(crate) use bounds::{announced_mss as announced, initial_receive_window as first_window, window_shift as shift};
pub(crate) use early::accept_early;
pub use fast_open::{Learned, Start};
pub use finished::{Finished, TimeWait};
pub use foresee::Foresight;
pub(crate) use headers::{Headers, prepared, write_header};
pub use path::Path;
pub use setup::{Handshake, Setup};
pub(crate) use setup::{Offer, syn_options};
pub(crate) use state::{STATE_WITHOUT_EXTENSIONS, read_extension, write_extension};
pub use states::State;

use crate::extension::Extension;
use crate::outbox::Env;
use control::Control;
use deadlines::Deadlines;
use opening::Opening;
use path_mtu::PathMtu;
use receiver::Receiver;
use recovery::{Lent, Recovery};
use sender::Sender;
use std::net::SocketAddr;
use totals::Totals;
use weft_core::{Bytes, DataFlags, FlowId, Instant, StreamError, StreamEvent, StreamMessage, StreamOptions};

/// A connection.
#[derive(Debug)]
pub struct Connection {
    flow: FlowId,
    token: u64,
    local: SocketAddr,
    remote: SocketAddr,
    state: State,
    options: StreamOptions,
    extension: Box<dyn Extension>,
    path: Path,
    path_mtu: PathMtu,
    opening: Opening,
    send: Sender,
    receive: Receiver,
    recovery: Recovery,
    control: Control,
    timers: Deadlines,
    keepalive_unanswered: u32,
    /// Last answer to an unacceptable segment.
    last_unacceptable: Option<Instant>,
    /// The program has let go.
    orphan: bool,
    /// The program will not read.
    read_closed: bool,
    /// The sockets have been told how it ended.
    failed: bool,
    soft_error: Option<StreamError>,
    finished: Finished,
    totals: Totals,
    /// Something new was acknowledged or arrived since this was last asked for.
    progress: bool,
}

impl Connection {
    /// The flow between sockets and this connection.
    pub fn flow(&self) -> FlowId {
        self.flow
    }
    /// Own address and port.
    pub fn local(&self) -> SocketAddr {
        self.local
    }
    /// The peer's.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }
    /// State of RFC 9293.
    pub fn state(&self) -> State {
        self.state
    }
    /// What is left of it.
    pub fn finished(&self) -> &Finished {
        &self.finished
    }
    /// Options as they stand.
    pub fn options(&self) -> &StreamOptions {
        &self.options
    }
    /// Its path, as last set.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Has the peer acknowledged or sent something new since the last call?
    pub fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progress)
    }
    /// Its recovery, and what that needs of the others.
    fn parts(&mut self) -> (&mut Recovery, Lent<'_>) {
        let lent = Lent {
            send: &mut self.send,
            control: &mut self.control,
            opening: &self.opening,
            path_mtu: &mut self.path_mtu,
            timers: &mut self.timers,
            totals: &mut self.totals,
            options: &self.options,
            last_echo: self.receive.last_echo_seen,
        };
        (&mut self.recovery, lent)
    }

    fn event(&self, env: &mut Env<'_>, event: StreamEvent) {
        env.out.messages.push(StreamMessage::Event { flow: self.flow, event: Box::new(event) });
    }

    /// Bytes from the upper side, within its credit. `mapping` is that of [`StreamMessage::Data`].
    pub fn send(&mut self, env: &mut Env<'_>, bytes: Bytes, flags: DataFlags, mapping: u64) {
        let length = bytes.len() as u64;
        if length == 0 || self.send.fin_wanted || self.state.peer_closed() && !self.state.can_send() {
            return;
        }
        // More than the credit where a buffer that was begun took more ([`Connection::write_room`]).
        self.send.credit = self.send.credit.saturating_sub(length);
        self.send.check_app_limited(self.control.window.cwnd_bytes);
        let behind = self.send.queue.end() > self.send.next;
        self.send.close_record();
        self.send.queue.push(bytes, mapping, behind);
        self.send.note_written(length, self.leaves_at_once());
        self.send.mark(&mut env.out.counters, flags);
        self.send.more = flags.more;
        if !flags.more {
            self.send.pushed = self.send.queue.end();
        }
        if flags.urgent {
            // RFC 6093 §4: "the urgent pointer … points to the octet following the urgent data".
            self.send.urgent = self.send.queue.end();
        }
        if self.state.can_send() || self.is_early() {
            self.transmit(env);
        }
        // tcp_push: "__tcp_push_pending_frames(sk, mss_now, (flags & MSG_MORE) ? TCP_NAGLE_CORK : nonagle)": what else makes it send, as an
        // acknowledgment does, does not ask whether more follows.
        self.send.more = false;
        if self.low_water(env.config) != u32::MAX {
            // What has left does not wait unsent any more.
            self.return_credit(env);
        }
    }

    /// Frames with `bytes` have left the node, or were dropped in it.
    pub fn on_completed(&mut self, env: &mut Env<'_>, bytes: u32) {
        self.send.below = self.send.below.saturating_sub(u64::from(bytes));
        if self.send.below_blocked && self.send.below < self.below_limit(env) {
            self.send.below_blocked = false;
            self.transmit(env);
        }
    }

    /// A new answer about the way to the peer.
    pub fn set_path(&mut self, env: &mut Env<'_>, path: Path) {
        self.path = path;
        self.path_mtu.follow(self.path.mtu);
        self.update_mss(env);
    }
}
