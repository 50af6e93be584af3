//! Opening: SYN, SYN|ACK, both at once, and what they agree on.

use super::bounds::{SCALE_MAX, announced_mss, window_shift};
use super::bounds::{delayed_ack_max, rto_bounds};
use super::control::Control;
use super::deadlines::{Deadlines, Timer};
use super::opening::{Agreed, Opening};
use super::path_mtu::PathMtu;
use super::receiver::Receiver;
use super::recovery::Recovery;
use super::sender::Sender;
use super::setup::{Handshake, Offer, Setup, syn_options};
use super::totals::Totals;
use super::{Connection, Finished, State};
use crate::connection::outstanding::Outstanding;

use crate::counters::Counter;
use crate::extension::{Outgoing, Verdict};
use crate::outbox::Env;
use crate::position::START;
use weft_core::{Duration, FlowId, Frame, Reason, StreamError, StreamEvent};
use weft_wire::tcp::{Flags, Segment, Seq, Timestamps};

/// TCP_TIMEOUT_MIN: two jiffies with HZ=250.
const SYN_AGAIN: Duration = Duration::from_millis(8);

impl Connection {
    pub(super) fn new(env: &mut Env<'_>, setup: Setup, state: State) -> Connection {
        let config = env.config;
        let announced = announced_mss(config, &setup.options, setup.path.mtu, setup.remote);
        let buffer = setup.options.send_buffer.unwrap_or(config.send_buffer[1]);
        Connection {
            flow: setup.flow,
            token: setup.token,
            local: setup.local,
            remote: setup.remote,
            state,
            extension: setup.extension,
            path: setup.path,
            path_mtu: PathMtu::default(),
            opening: Opening::new(setup.timestamp_offset, env.now),
            send: Sender::new(setup.initial, buffer, announced, env.now),
            receive: Receiver::new(config, &setup.options, announced),
            recovery: Recovery::new(rto_bounds(config, &setup.options), config.reordering),
            control: Control::new(config, &setup.options, setup.control_seed, announced, env.now),
            timers: Deadlines::default(),
            keepalive_unanswered: 0,
            last_unacceptable: None,
            orphan: false,
            read_closed: false,
            failed: false,
            soft_error: None,
            finished: Finished::No,
            totals: Totals::new(env.now),
            progress: false,
            options: setup.options,
        }
    }

    /// Opens actively: sends a SYN.
    pub fn connect(env: &mut Env<'_>, setup: Setup) -> Connection {
        let mut connection = Connection::new(env, setup, State::SynSent);
        connection.begin_connecting(env);
        connection
    }

    pub(super) fn begin_connecting(&mut self, env: &mut Env<'_>) {
        self.opening.ecn_asked = env.config.ecn == 1;
        env.count(Counter::ActiveOpens);
        self.send_syn(env);
        let rto = self.recovery.rtt.rto();
        self.timers.set(Timer::Retransmit, env.now + rto);
    }

    /// A connection that a listener's handshake has made: the final ACK of the peer is still to be given to [`Connection::on_segment`].
    pub fn accept(env: &mut Env<'_>, setup: Setup, handshake: Handshake) -> Connection {
        let mut connection = Connection::new(env, setup, State::SynReceived);
        connection.receive.announced_mss = handshake.announced_mss;
        connection.opening.sent_at = handshake.sent_at;
        connection.opening.measured = handshake.measured;
        connection.opening.retransmitted = handshake.retransmits;
        // tcp_create_openreq_child: "newtp->total_retrans = req->num_retrans".
        connection.totals.retransmitted = handshake.retransmits;
        // The SYN, which the listener took.
        connection.totals.segments_in = 1;
        connection.opening.agreed = Agreed {
            sack: handshake.sack,
            timestamps: handshake.timestamp.is_some(),
            scaling: handshake.peer_scale.is_some(),
            ecn: handshake.ecn,
        };
        connection.send.scale = handshake.peer_scale.unwrap_or(0);
        connection.send.peer_mss = u32::from(handshake.peer_mss);
        connection.send.window_seq = START;
        connection.receive.begin(handshake.peer_initial, handshake.window, handshake.scale, handshake.timestamp, env.now);
        connection.receive.clamp = connection.receive.clamp.min(connection.opening.agreed.largest_window());
        connection
    }

    /// Sends the SYN (or, in SYN-RECEIVED, the SYN|ACK) for the first time or again.
    pub(super) fn send_syn(&mut self, env: &mut Env<'_>) {
        let config = env.config;
        let answering = self.state == State::SynReceived;
        // What a router has told is the path's by now (ip_rt_update_pmtu).
        let mtu = self.learned_mtu().map_or(self.path.mtu, |told| told.min(self.path.mtu));
        self.receive.announced_mss = announced_mss(config, &self.options, mtu, self.remote);
        // What the first one says of the window, all say.
        if !answering && self.opening.retransmitted == 0 && !self.opening.fast_open.bare {
            self.receive.prepare_syn(config, &self.options, self.receive.announced_mss);
        }
        // Both have sent a SYN: the answer is this side's SYN again, with all that it offers (tcp_send_synack).
        let repeats = answering && self.flow.0 & FlowId::ACCEPTED == 0;
        let negotiated = answering && !repeats;
        let timestamps = if negotiated { self.opening.agreed.timestamps } else { config.timestamps };
        // Whether the peer has a scale or not, what was offered is offered again ("opts->ws = tp->rx_opt.rcv_wscale" of tcp_syn_options).
        let scale = if repeats { window_shift(config, &self.options) } else { self.receive.scale };
        let offer = Offer {
            mss: self.receive.announced_mss,
            sack: if negotiated { self.opening.agreed.sack } else { config.sack },
            timestamps: timestamps
                .then(|| Timestamps { value: self.opening.timestamp(env.now), echo: if answering { self.receive.timestamp } else { 0 } }),
            scale: (if negotiated { self.opening.agreed.scaling } else { config.window_scaling }).then_some(scale),
        };
        let mut flags = Flags::SYN;
        if answering {
            flags |= Flags::ACK;
            if self.opening.agreed.ecn {
                flags |= Flags::ECE;
            }
        } else if self.opening.ecn_asked && self.opening.retransmitted == 0 {
            // RFC 3168 §6.1.1.1: a SYN with both flags; again without them, should the network refuse it (tcp_ecn_fallback).
            flags |= Flags::ECE | Flags::CWR;
        }
        let mut options = syn_options(&offer);
        if self.opening.retransmitted == 0 && !self.opening.fast_open.bare {
            options.fast_open = self.opening.fast_open.option.clone();
        }
        let kind = if answering { Outgoing::SynAck } else { Outgoing::Syn };
        self.extension.write_options(kind, &mut options);
        let window = self.receive.window.min(u32::from(u16::MAX)) as u16;
        let ack = if answering { self.receive.space.seq(self.receive.next) } else { Seq(0) };
        let segment = Segment { seq: self.send.space.initial, ack, flags, window, options, ..self.header() };
        let frame = self.syn_frame();
        self.emit(env, &segment, frame, 0);
    }

    /// RFC 9293 §3.10.7.3: SYN-SENT.
    pub(super) fn on_segment_syn_sent(&mut self, env: &mut Env<'_>, segment: &Segment, frame: Frame) {
        let ack = self.send.space.position(self.send.una, segment.ack);
        if segment.flags.contains(Flags::ACK) {
            // "If SEG.ACK =< ISS or SEG.ACK > SND.NXT, send a reset (unless the RST bit is set …) and discard the segment."
            if ack <= self.send.una || ack > self.send.next {
                env.refuse(Reason::TcpOldAck);
                if self.opening.retransmitted == 0 {
                    // "Previous FIN/ACK or RST/ACK might be ignored.": the SYN goes again soon.
                    self.timers.set(Timer::Retransmit, env.now + SYN_AGAIN);
                }
                if !segment.flags.contains(Flags::RST) {
                    self.send_reset_for(env, segment.ack);
                }
                return;
            }
            // RFC 7323 §3.2: an echo that we cannot have sent is not of this connection.
            if let (Some(stamp), true) = (segment.options.timestamps, env.config.timestamps)
                && stamp.echo != 0
                && !self.opening.echo_is_plausible(env.now, stamp.echo)
            {
                env.count(Counter::PAWSActive);
                env.refuse(Reason::TcpPaws);
                self.send_reset_for(env, segment.ack);
                return;
            }
        }
        if segment.flags.contains(Flags::RST) {
            // "If the ACK was acceptable then signal to the user 'error: connection reset'".
            if segment.flags.contains(Flags::ACK) {
                env.count(Counter::AttemptFails);
                self.fail(env, StreamError::Refused);
            }
            return;
        }
        if !segment.flags.contains(Flags::SYN) {
            env.refuse(Reason::TcpInvalidState);
            return;
        }
        self.take_syn(env, segment);
        if segment.flags.contains(Flags::ACK) {
            if self.extension_verdict(env, segment, START, frame.len() as u32) != Verdict::Continue {
                return;
            }
            self.receive.acknowledged();
            self.take_syn_ack(env, segment, ack);
            self.open(env, segment, true);
            let (options, established) = (self.options.clone(), self.state == State::Established);
            // Data or FIN on the SYN|ACK go the usual way.
            if established && (!frame.is_empty() || segment.flags.contains(Flags::FIN)) {
                let start = self.receive.next;
                self.take_text(env, segment, start, frame);
            }
            // RFC 9293 §3.10.7.3: "<SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>". It may ride on data.
            let defer = !options.defer_accept.is_zero() || options.quickack == Some(false);
            if defer {
                self.receive.ack.wanted = true;
                self.timers.set_earlier(Timer::DelayedAck, env.now + delayed_ack_max(env.config, &options));
            } else if self.send.unsent() > 0 {
                // tcp_rcv_fastopen_synack: the data of the SYN that was not taken carries the acknowledgment.
                self.receive.ack.wanted = true;
                self.transmit(env);
                if self.receive.ack.wanted {
                    self.send_ack(env);
                }
                return;
            } else {
                self.send_ack(env);
            }
            self.transmit(env);
        } else {
            // Simultaneous open: "enter SYN-RECEIVED, form a SYN,ACK segment <SEQ=ISS><ACK=RCV.NXT><CTL=SYN,ACK> and send it."
            self.change_state(env, State::SynReceived);
            self.send.next = START + 1;
            self.opening.agreed.ecn = false;
            self.send_syn(env);
            let rto = self.recovery.rtt.rto();
            self.timers.set(Timer::Retransmit, env.now + rto);
        }
    }

    /// Takes over what a SYN says.
    fn take_syn(&mut self, env: &mut Env<'_>, segment: &Segment) {
        let config = env.config;
        let options = &segment.options;
        self.opening.agree(config, segment);
        self.send.scale = options.window_scale.filter(|_| self.opening.agreed.scaling).unwrap_or(0).min(SCALE_MAX);
        if !self.opening.agreed.scaling {
            self.receive.scale = 0;
            self.receive.clamp = self.receive.clamp.min(u32::from(u16::MAX));
        }
        self.send.peer_mss = options.mss.map_or(0, u32::from);
        let stamp = options.timestamps.filter(|_| self.opening.agreed.timestamps).map(|stamp| stamp.value);
        let (window, scale) = (self.receive.window, self.receive.scale);
        self.receive.begin(segment.seq, window, scale, stamp, env.now);
        // RFC 7323 §2.2: "The window field in a segment where the SYN bit is set … MUST NOT be scaled."
        self.send.window = u32::from(segment.window);
        self.send.window_max = self.send.window;
        self.send.window_seq = self.receive.next;
    }

    /// The connection is established; `active`: this side's SYN was answered.
    pub(super) fn open(&mut self, env: &mut Env<'_>, segment: &Segment, active: bool) {
        self.change_state(env, State::Established);
        if self.opening.agreed.ecn {
            env.count(Counter::TCPECNEstab);
        }
        self.send.outstanding = Outstanding::default();
        self.recovery.timeouts_are_over();
        self.timers.cancel(Timer::Retransmit);
        self.send.una = self.send.una.max(START + 1);
        self.progress = true;
        self.first_sample(env, segment);
        self.begin_transfer(env);
        if active {
            self.event(env, StreamEvent::Established { local: self.local, remote: self.remote });
        }
        self.grant_credit(env);
        self.arm_keepalive(env);
    }

    /// Everything that the sending and receiving of data begin with.
    pub(super) fn begin_transfer(&mut self, env: &mut Env<'_>) {
        self.begin_path_mtu(env.config);
        self.update_mss(env);
        self.control.begin(env.config, env.now, self.send.mss, self.opening.retransmitted, self.recovery.rtt.min_rtt());
        self.send.delivery.begin(env.now);
        self.send.last_data = env.now;
        let advertised = self.advertised_mss();
        self.receive.reserve_segment(advertised);
        self.receive.start_tuning(env.now, advertised);
        self.grow_send_buffer(env, true);
    }

    /// The handshake as an RTT sample.
    pub(super) fn first_sample(&mut self, env: &mut Env<'_>, segment: &Segment) {
        match self.opening.round_trip(env.now, segment) {
            Some(Some(sample)) => self.recovery.rtt.on_sample(env.now, sample, self.send.una_seq(), self.send.next_seq(), false),
            Some(None) => self.recovery.rtt.handshake_without_sample(),
            None => {}
        }
    }
}
