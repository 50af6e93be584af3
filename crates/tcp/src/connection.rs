//! One connection, without input and output.
//!
//! Calls come from the block: a segment that was found to belong here ([`Connection::on_segment`]), a timer ([`Connection::on_timer`]),
//! something from the upper side ([`Connection::send`], [`Connection::close`] …), frames that left ([`Connection::on_completed`]). Each
//! takes an [`Env`]. Afterwards [`Connection::next_deadline`] says when to call `on_timer`, and [`Connection::finished`] whether
//! anything is left of it.
//!
//! It refuses to know listeners, half-open connections and TIME-WAIT: those are the block's, in less memory.

mod acknowledge;
mod close;
mod compress;
mod delivery;
mod ecn;
mod extended;
mod fast_open;
mod foresee;
mod handshake;
mod info;
mod marks;
mod mtu;
mod options;
mod outstanding;
mod rack;
mod ranges;
mod reassembly;
mod receive;
mod recovery;
mod segment;
mod send_queue;
mod stamps;
mod state;
mod timers;
mod transmit;
mod undo;
mod urgent;
mod window;

pub use crate::congestion::Phase;
pub use close::{Finished, TimeWait};
pub(crate) use fast_open::accept_early;
pub use fast_open::{Learned, Start};
pub use foresee::Foresight;
pub use handshake::{Handshake, Setup};
pub(crate) use handshake::{Offer, announced_mss as announced, initial_receive_window as first_window, syn_options, window_shift as shift};
pub(crate) use state::{STATE_WITHOUT_EXTENSIONS, read_extension, write_extension};
pub(crate) use transmit::{Headers, prepared, write_header};

use crate::congestion::usage::CwndUsage;
use crate::congestion::{CongestionControl, Window};
use crate::extension::Extension;
use crate::outbox::Env;
use crate::pacing::Pacer;
use crate::position::Space;
use crate::prr::Prr;
use crate::rtt::RttEstimator;
use outstanding::Outstanding;
use receive::Receive;
use send_queue::SendQueue;
use std::net::{IpAddr, SocketAddr};
use weft_core::{Bytes, DataFlags, Duration, FlowId, Instant, InterfaceIndex, StreamEvent, StreamMessage, StreamOptions};

/// States of RFC 9293 §3.3.2, numbered as in Linux (include/net/tcp_states.h).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum State {
    /// Data flows both ways.
    Established = 1,
    /// SYN sent.
    SynSent = 2,
    /// SYN received and sent.
    SynReceived = 3,
    /// FIN sent.
    FinWait1 = 4,
    /// FIN acknowledged.
    FinWait2 = 5,
    /// Both FINs acknowledged; old segments may still be around.
    TimeWait = 6,
    /// Nothing.
    Closed = 7,
    /// FIN received.
    CloseWait = 8,
    /// FIN received, then sent.
    LastAck = 9,
    /// Waiting for SYN.
    Listen = 10,
    /// Both sent FIN at once.
    Closing = 11,
}
weft_core::fields!(
    enum State {
        Established = 1,
        SynSent = 2,
        SynReceived = 3,
        FinWait1 = 4,
        FinWait2 = 5,
        TimeWait = 6,
        Closed = 7,
        CloseWait = 8,
        LastAck = 9,
        Listen = 10,
        Closing = 11,
    }
);

impl State {
    /// Name as `ss` prints it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Established => "ESTAB",
            State::SynSent => "SYN-SENT",
            State::SynReceived => "SYN-RECV",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::TimeWait => "TIME-WAIT",
            State::Closed => "UNCONN",
            State::CloseWait => "CLOSE-WAIT",
            State::LastAck => "LAST-ACK",
            State::Listen => "LISTEN",
            State::Closing => "CLOSING",
        }
    }
    /// The peer's FIN has been taken.
    pub const fn peer_closed(self) -> bool {
        matches!(self, State::CloseWait | State::LastAck | State::Closing | State::TimeWait | State::Closed)
    }
    /// Data may still be sent for the first time.
    pub const fn can_send(self) -> bool {
        matches!(self, State::Established | State::CloseWait)
    }
    /// SYNs have been exchanged.
    pub const fn is_synchronised(self) -> bool {
        !matches!(self, State::SynSent | State::SynReceived | State::Closed | State::Listen)
    }
}

/// What is known of the way to the peer: the answer of the routes, kept until the tables change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Largest payload of a frame that may be handed down whole, bytes; 0: one segment each.
    pub gso_max_bytes: u32,
    /// Interface that the socket is bound to; [`InterfaceIndex::NONE`]: routed by destination.
    pub interface: InterfaceIndex,
    /// The neighbour that packets are handed to and the interface it is on; none for what does not leave the node.
    pub neighbour: Option<(InterfaceIndex, IpAddr)>,
    /// The block's count of changes to the tables when this was asked for.
    pub epoch: u64,
}
weft_core::fields!(struct Path { mtu, gso_max_bytes, interface, neighbour, epoch });

/// Sender's variables of RFC 9293 §3.3.1 and what belongs to them.
#[derive(Debug)]
struct Send {
    space: Space,
    /// SND.UNA
    una: u64,
    /// SND.NXT
    next: u64,
    /// SND.WND, bytes, scaled.
    window: u32,
    /// Largest window the peer ever announced (RFC 9293 §3.8.6.2.1, Max(SND.WND)).
    window_max: u32,
    /// SND.WL1, position.
    window_seq: u64,
    /// Shift of the peer's window.
    scale: u8,
    /// MSS that the peer announced.
    peer_mss: u32,
    /// SND.UP: position after the urgent byte.
    urgent: u64,
    /// Position after the last partial segment (Minshall's variant of Nagle).
    small: u64,
    /// FIN is to follow the queue.
    fin_wanted: bool,
    /// FIN has a number.
    fin_sent: bool,
    /// Bytes that the sockets may still hand down.
    credit: u64,
    /// Send buffer, bytes.
    buffer: u32,
    /// The write that is being dealt with said that more follows.
    more: bool,
    /// Where the last write ended that did not say so (pushed_seq).
    pushed: u64,
    /// Where the buffer begins that writes are put into (the last skb of the write queue).
    tail: u64,
    /// Last transmission of data.
    last_data: Instant,
    /// Bytes below that did not leave yet.
    below: u64,
    /// Waits for them.
    below_blocked: bool,
}
weft_core::fields!(struct Send {
    space, una, next, window, window_max, window_seq, scale, peer_mss, urgent, small, fin_wanted, fin_sent, credit, buffer, more, pushed, tail, last_data, below,
    below_blocked,
});

/// What the handshake agreed on.
#[derive(Debug, Clone, Copy, Default)]
struct Agreed {
    sack: bool,
    timestamps: bool,
    scaling: bool,
    ecn: bool,
}
weft_core::fields!(struct Agreed { sack, timestamps, scaling, ecn });

/// Loss recovery.
#[derive(Debug, Default)]
struct Recovery {
    phase: Phase,
    /// Recovery ends when this is acknowledged.
    high: u64,
    /// Duplicate acknowledgments without SACK, as bytes that left (Linux's "reno sacks").
    duplicate_acks: u32,
    /// Undo is possible down to this position.
    undo_marker: Option<u64>,
    /// Retransmissions that no DSACK has explained yet; `None` before the first.
    undo_retransmissions: Option<u32>,
    /// Timestamp clock at the first retransmission of this episode.
    retransmit_stamp: Option<Instant>,
    /// F-RTO is watching.
    frto: bool,
    /// Tail loss probe: ends when this is acknowledged.
    tlp_high: Option<u64>,
    /// The probe was a retransmission.
    tlp_retransmitted: bool,
    /// Bytes that PRR allows.
    prr_allowed: u32,
    /// RACK.
    rack: rack::Rack,
    /// Segments by which order may differ.
    reordering: u32,
    /// Reordering was seen so many times.
    reordering_seen: u32,
    /// Consecutive retransmission timeouts.
    timeouts: u32,
    /// When the first of them sent something again (retrans_stamp).
    timeouts_since: Option<Instant>,
}
weft_core::fields!(struct Recovery {
    phase, high, duplicate_acks, undo_marker, undo_retransmissions, retransmit_stamp, frto, tlp_high, tlp_retransmitted, prr_allowed, rack,
    reordering, reordering_seen, timeouts, timeouts_since,
});

/// Totals for TCP_INFO.
#[derive(Debug, Default, Clone, Copy)]
struct Totals {
    bytes_acked: u64,
    bytes_received: u64,
    bytes_sent: u64,
    bytes_retransmitted: u64,
    segments_in: u32,
    segments_out: u32,
    data_segments_in: u32,
    data_segments_out: u32,
    retransmitted: u32,
    dsack_duplicates: u32,
    out_of_order: u32,
    timeouts: u32,
    timeout_recoveries: u32,
    delivered_ce: u32,
    last_ack_in: Instant,
    last_data_in: Instant,
    busy_since: Option<Instant>,
    busy: Duration,
    /// What keeps it from sending more, since when, and how long each did (tcp_chrono).
    limited_by: Option<(Limit, Instant)>,
    window_limited: Duration,
    buffer_limited: Duration,
}
weft_core::fields!(struct Totals {
    bytes_acked, bytes_received, bytes_sent, bytes_retransmitted, segments_in, segments_out, data_segments_in, data_segments_out, retransmitted,
    dsack_duplicates, out_of_order, timeouts, timeout_recoveries, delivered_ce, last_ack_in, last_data_in, busy_since, busy, limited_by,
    window_limited, buffer_limited,
});

/// What keeps a busy connection from sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Limit {
    /// The peer's window.
    Window,
    /// The send buffer: the program would write more.
    Buffer,
}
weft_core::fields!(
    enum Limit {
        Window = 0,
        Buffer = 1,
    }
);

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
    path_mtu: mtu::PathMtu,
    agreed: Agreed,
    timestamp_offset: u32,
    send: Send,
    queue: SendQueue,
    outstanding: Outstanding,
    receive: Receive,
    compression: compress::Compression,
    /// Payload bytes of a full segment without SACK blocks.
    mss: u32,
    /// The MSS we announced.
    announced_mss: u32,
    rtt: RttEstimator,
    window: Window,
    control: Box<dyn CongestionControl>,
    /// Seeds a control that is chosen later.
    control_seed: u64,
    usage: CwndUsage,
    prr: Prr,
    pacer: Pacer,
    recovery: Recovery,
    delivery: delivery::Delivery,
    ecn: ecn::Ecn,
    fast_open: fast_open::FastOpen,
    timers: timers::Deadlines,
    keepalive_unanswered: u32,
    probes_unanswered: u32,
    probing_since: Option<Instant>,
    /// Last answer to an unacceptable segment.
    last_unacceptable: Option<Instant>,
    /// The program has let go.
    orphan: bool,
    /// The program will not read.
    read_closed: bool,
    /// The sockets have been told how it ended.
    failed: bool,
    soft_error: Option<weft_core::StreamError>,
    syn_sent_at: Instant,
    /// It is known when the SYN was sent.
    handshake_measured: bool,
    syn_retransmitted: u32,
    finished: Finished,
    totals: Totals,
    marks: marks::Marks,
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
        self.check_app_limited();
        let behind = self.queue.end() > self.send.next;
        self.close_record();
        self.queue.push(bytes, mapping, behind);
        self.note_written(length);
        self.mark(env, flags);
        self.send.more = flags.more;
        if !flags.more {
            self.send.pushed = self.queue.end();
        }
        if flags.urgent {
            // RFC 6093 §4: "the urgent pointer … points to the octet following the urgent data".
            self.send.urgent = self.queue.end();
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
        self.path_mtu_follows();
        self.update_mss(env);
    }
}
