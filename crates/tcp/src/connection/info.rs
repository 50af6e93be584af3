//! TCP_INFO (tcp_get_info).

use super::bounds::header_bytes;
use super::deadlines::Timer;
use super::totals::Limit;
use super::{Connection, State};
use crate::config::Config;
use weft_core::table::FlowTimer;
use weft_core::{Duration, FlowId, Instant, StreamInfo};

/// TCPI_OPT_*
const OPTION_TIMESTAMPS: u8 = 1;
const OPTION_SACK: u8 = 2;
const OPTION_SCALING: u8 = 4;
const OPTION_ECN: u8 = 8;
const OPTION_ECN_SEEN: u8 = 16;
const OPTION_SYN_DATA: u8 = 32;

fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}
fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

impl Connection {
    /// What TCP_INFO and `ss -i` report.
    pub fn info(&self, config: &Config, now: Instant) -> StreamInfo {
        let segments = |bytes: u32| bytes / self.send.mss.max(1);
        let totals = &self.totals;
        let srtt = self.recovery.rtt.srtt().unwrap_or_default();
        let default_rate =
            crate::pacing::default_rate_bytes_per_s(&self.control.window, self.send.in_flight(), srtt, self.options.pacing_rate_max);
        let opened = self.state != State::SynSent;
        StreamInfo {
            state: self.state as u8,
            ca_state: self.recovery.phase as u8,
            retransmits: if opened { self.recovery.timeouts } else { self.opening.retransmitted }.min(255) as u8,
            probes: self.send.probes_unanswered.max(self.keepalive_unanswered).min(255) as u8,
            backoff: self.recovery.rtt.backoffs().min(255) as u8,
            options: self.option_bits(),
            snd_wscale: self.send.scale,
            rcv_wscale: self.receive.scale,
            delivery_rate_app_limited: self.send.delivery.rate_app_limited,
            rto_us: micros(self.recovery.rtt.rto()),
            ato_us: micros(self.receive.ack.timeout),
            snd_mss: self.send.mss,
            rcv_mss: self.receive.mss,
            // A SYN is in flight, too (tcp_connect_queue_skb).
            unacked: if opened { self.send.outstanding.len() as u32 } else { 1 },
            sacked: self.send.outstanding.sacked,
            lost: self.send.outstanding.lost,
            retrans: self.send.outstanding.retransmitted,
            last_data_sent_ms: millis(now - self.send.last_data),
            last_data_recv_ms: millis(now - totals.last_data_in),
            last_ack_recv_ms: millis(now - totals.last_ack_in),
            pmtu: self.path_mtu.usable(self.path.mtu),
            rcv_ssthresh: self.receive.slow_start,
            rtt_us: micros(srtt),
            rttvar_us: micros(self.recovery.rtt.mean_deviation()),
            // Linux's TCP_INFINITE_SSTHRESH.
            snd_ssthresh: if self.control.window.ssthresh_bytes == u32::MAX {
                0x7fff_ffff
            } else {
                segments(self.control.window.ssthresh_bytes)
            },
            snd_cwnd: self.shown_window(),
            advmss: self.advertised_mss(),
            reordering: self.recovery.reordering,
            rcv_rtt_us: micros(self.receive.rtt.unwrap_or_default()),
            rcv_space: self.receive.tuning_space,
            total_retrans: totals.retransmitted,
            pacing_rate: self.control.algorithm.pacing_rate_bytes_per_s(&self.control.window, srtt).unwrap_or(default_rate),
            max_pacing_rate: self.options.pacing_rate_max,
            bytes_acked: totals.bytes_acked + u64::from(self.state.is_synchronised() && self.flow.0 & FlowId::ACCEPTED == 0),
            bytes_received: totals.bytes_received,
            segs_out: totals.segments_out,
            segs_in: totals.segments_in,
            notsent_bytes: self.send.queue.end().saturating_sub(self.send.next).min(u64::from(u32::MAX)) as u32,
            min_rtt_us: self.recovery.rtt.min_rtt().map_or(u32::MAX, micros),
            data_segs_in: totals.data_segments_in,
            data_segs_out: totals.data_segments_out,
            delivery_rate: self.send.delivery.rate,
            busy_time_us: (totals.busy + totals.busy_since.map_or(Duration::ZERO, |since| now - since)).as_micros() as u64,
            rwnd_limited_us: totals.limited_for(Limit::Window, now).as_micros() as u64,
            sndbuf_limited_us: totals.limited_for(Limit::Buffer, now).as_micros() as u64,
            // The SYN counts (tcp_init_transfer, tcp_rate_skb_delivered).
            delivered: self.send.delivery.segments.wrapping_add(u32::from(self.state.is_synchronised())),
            delivered_ce: totals.delivered_ce,
            bytes_sent: totals.bytes_sent + totals.bytes_retransmitted,
            bytes_retrans: totals.bytes_retransmitted,
            dsack_dups: totals.dsack_duplicates,
            reord_seen: self.recovery.reordering_seen,
            rcv_ooopack: totals.out_of_order,
            snd_wnd: self.send.window,
            rcv_wnd: self.receive.window_left(),
            total_rto: totals.timeouts,
            total_rto_recoveries: totals.timeout_recoveries,
            total_rto_time_ms: self.recovery.timeouts_since.map_or(0, |since| millis(now - since)),
            receive_queue_bytes: ((self.receive.delivered - self.receive.taken) + self.receive.queue.bytes()).min(u64::from(u32::MAX))
                as u32,
            send_queue_bytes: self.send.queue.len().min(u64::from(u32::MAX)) as u32,
            // Of one that somebody stands in front of, that one's credit is all that may be written.
            write_room_bytes: if self.extension.is_plain() {
                self.send.write_room(self.low_water(config), self.leaves_at_once())
            } else {
                0
            },
            window_clamp: self.receive.clamp,
            receive_buffer_bytes: self.receive.buffer,
            send_buffer_bytes: self.send.buffer,
            congestion: self.control.algorithm.name().to_owned(),
            cc_info: self.control.algorithm.cc_info(),
            user_mss: self.send.peer_mss,
        }
    }

    /// tcpi_snd_cwnd: in a reduction the window is what is in flight and what may follow at once (tcp_cwnd_reduction).
    fn shown_window(&self) -> u32 {
        let segments = |bytes: u32| bytes / self.send.mss.max(1);
        match self.state.is_synchronised() {
            true if self.recovery.prr.is_active() => segments(self.send.in_flight() + self.recovery.prr_allowed).max(1),
            true => segments(self.control.window.cwnd_bytes),
            false if self.opening.retransmitted > 0 => 1,
            false => crate::congestion::INITIAL_WINDOW_SEGMENTS,
        }
    }

    /// What `ss -o` shows (inet_sk_diag_fill).
    pub fn shown_timer(&self, now: Instant) -> FlowTimer {
        let due = |timers: &[Timer]| timers.iter().map(|timer| self.timers.at(*timer)).min().filter(|at| *at != Instant::FAR_FUTURE);
        let shown = |kind, retransmits: u32, at: Instant| FlowTimer {
            kind,
            retransmits: retransmits.min(255) as u8,
            expires_ms: if at > now { millis(at - now) } else { 0 },
        };
        let retransmits = if self.state == State::SynSent { self.opening.retransmitted } else { self.recovery.timeouts };
        if let Some(at) = due(&[Timer::Retransmit, Timer::Probe, Timer::Reorder]) {
            shown(1, retransmits, at)
        } else if let Some(at) = due(&[Timer::Persist]) {
            shown(4, self.send.probes_unanswered, at)
        } else if let Some(at) = due(&[Timer::Keepalive]) {
            shown(2, self.keepalive_unanswered, at)
        } else if let Some(at) = due(&[Timer::FinWait2]) {
            // tcp_time_wait: FIN-WAIT-2 without a program is a small record in Linux, too.
            shown(3, 0, at)
        } else {
            FlowTimer::default()
        }
    }

    /// TCPI_OPT_*.
    fn option_bits(&self) -> u8 {
        let agreed = &self.opening.agreed;
        let rows = [
            (agreed.timestamps, OPTION_TIMESTAMPS),
            (agreed.sack, OPTION_SACK),
            (agreed.scaling, OPTION_SCALING),
            (agreed.ecn, OPTION_ECN),
            (self.receive.ecn_seen, OPTION_ECN_SEEN),
            (self.opening.fast_open.acknowledged, OPTION_SYN_DATA),
        ];
        rows.iter().map(|(on, bit)| if *on { *bit } else { 0 }).sum()
    }

    /// Name and internal values of the congestion control.
    pub fn control_info(&self) -> serde_json::Value {
        let values: serde_json::Map<_, _> =
            self.control.algorithm.info().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        serde_json::json!({"name": self.control.algorithm.name(), "cwnd_bytes": self.control.window.cwnd_bytes, "values": values})
    }

    /// Bytes of IP and TCP header for its family, with the IP options that each segment carries and without TCP's
    /// (RFC 9293 §3.7.1: "the MSS … must be decreased by … the size of any IP options").
    pub fn header_bytes(&self) -> u32 {
        let options = match (self.remote.is_ipv4(), &self.options.attached) {
            (true, _) => self.options.ip_options.len().next_multiple_of(4),
            (false, Some(attached)) => attached.len(),
            (false, None) => 0,
        };
        header_bytes(self.remote) + options as u32
    }
}
