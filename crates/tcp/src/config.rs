//! The settings that a node's connections share, with Linux's defaults (net.ipv4.tcp_*, Documentation/networking/ip-sysctl.rst, 6.18).

use crate::congestion::hystart;
use weft_core::Duration;

/// Settings of all connections of a node. Durations that Linux fixes in its headers are here too, so that an experiment can vary them.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Congestion control of sockets that chose none.
    pub congestion: String,
    /// How cubic leaves slow start.
    pub hystart: hystart::Kind,
    /// Largest segment to announce and to send, bytes of payload without options; 0: what the path allows.
    pub mss: u32,
    /// Offer and accept selective acknowledgments (tcp_sack).
    pub sack: bool,
    /// Report duplicates by SACK (tcp_dsack, RFC 2883).
    pub dsack: bool,
    /// Offer and accept timestamps (tcp_timestamps).
    pub timestamps: bool,
    /// Offer and accept window scaling (tcp_window_scaling).
    pub window_scaling: bool,
    /// 0: never; 1: ask for ECN and accept it; 2: accept it only (tcp_ecn).
    pub ecn: u8,
    /// Silence before the first keepalive probe (tcp_keepalive_time).
    pub keepalive_time: Duration,
    /// Time between keepalive probes (tcp_keepalive_intvl).
    pub keepalive_interval: Duration,
    /// Probes without an answer that end the connection (tcp_keepalive_probes).
    pub keepalive_probes: u32,
    /// Time in FIN-WAIT-2 after the program let go (tcp_fin_timeout).
    pub fin_timeout: Duration,
    /// TIME-WAIT (TCP_TIMEWAIT_LEN: 60 s).
    pub time_wait: Duration,
    /// SYNs repeated with growing intervals (tcp_syn_retries).
    pub syn_retries: u32,
    /// SYNs repeated at the initial interval before that (tcp_syn_linear_timeouts).
    pub syn_linear_timeouts: u32,
    /// SYN|ACKs repeated (tcp_synack_retries).
    pub synack_retries: u32,
    /// Retransmissions after which the route is asked for again (tcp_retries1).
    pub retries1: u32,
    /// Retransmissions, as the time they would take, after which the connection ends (tcp_retries2).
    pub retries2: u32,
    /// The same for connections without a program (tcp_orphan_retries; 0 counts as 8).
    pub orphan_retries: u32,
    /// First congestion window, segments (RFC 6928).
    pub initial_window: u32,
    /// Receive buffer: least, first, most; bytes (tcp_rmem).
    pub receive_buffer: [u32; 3],
    /// Send buffer: least, first, most; bytes (tcp_wmem).
    pub send_buffer: [u32; 3],
    /// Memory of all connections together: low, pressure, most; bytes (tcp_mem, there in pages).
    pub memory: [u64; 3],
    /// Bytes of one connection that may wait below at most (tcp_limit_output_bytes).
    pub tsq_bytes: u32,
    /// Pace every connection; without it, only those that have a rate limit or a congestion control that needs it.
    pub pacing: bool,
    /// Half-open connections of a listener at most, whatever its backlog (tcp_max_syn_backlog).
    pub syn_backlog: u32,
    /// Fast Open, bits as in net.ipv4.tcp_fastopen: 1 client, 2 server, 4 client without cookie, 0x200 server without, 0x400 every listener.
    pub fastopen: u32,
    /// Search for the path MTU: 0 never, 1 once a path seems to swallow long packets, 2 always (tcp_mtu_probing; Linux: 0).
    pub mtu_probing: u8,
    /// Segment size that such a search begins with (tcp_base_mss).
    pub base_mss: u32,
    /// Smallest segment that it goes down to (tcp_mtu_probe_floor).
    pub mtu_probe_floor: u32,
    /// SYN cookies: 0 never, 1 when a listener has no room for half-open connections, 2 always (tcp_syncookies).
    pub syncookies: u8,
    /// Connections in TIME-WAIT at most (tcp_max_tw_buckets).
    pub time_wait_max: u32,
    /// Connections at most.
    pub connections_max: u32,
    /// Challenge ACKs of the node in a second at most (tcp_challenge_ack_limit; RFC 5961 §7).
    pub challenge_ack_limit: u32,
    /// Resets in answer to segments to nowhere, in a second at most.
    pub reset_limit: u32,
    /// Shortest retransmission timeout (tcp_rto_min_us).
    pub rto_min: Duration,
    /// Longest (tcp_rto_max_ms).
    pub rto_max: Duration,
    /// First one, before a round trip was measured (TCP_TIMEOUT_INIT, RFC 6298 §2.1).
    pub rto_initial: Duration,
    /// Shortest delay of an acknowledgment (TCP_DELACK_MIN).
    pub delayed_ack_min: Duration,
    /// Longest (TCP_DELACK_MAX).
    pub delayed_ack_max: Duration,
    /// Acknowledgments of out-of-order data that may leave as one (tcp_comp_sack_nr; 0: none).
    pub compressed_acks_max: u32,
    /// How long they may wait for that (tcp_comp_sack_delay_ns).
    pub compressed_ack_delay_max: Duration,
    /// Shrink the window of a connection that was idle (tcp_slow_start_after_idle).
    pub slow_start_after_idle: bool,
    /// Let the receive buffer follow the program (tcp_moderate_rcvbuf).
    pub moderate_receive_buffer: bool,
    /// Ignore RST in TIME-WAIT (tcp_rfc1337).
    pub rfc1337: bool,
    /// Least time between answers to unacceptable segments of one connection (tcp_invalid_ratelimit).
    pub invalid_ratelimit: Duration,
    /// Send tail loss probes (tcp_early_retrans).
    pub tail_loss_probe: bool,
    /// Unsent bytes above which a program may not write (tcp_notsent_lowat), of sockets that choose none.
    pub unsent_low_water: u32,
    /// Duplicates that count as loss until reordering was seen (tcp_reordering).
    pub reordering: u32,
    /// Least MSS that a peer can force on us (tcp_min_snd_mss).
    pub mss_min: u32,
    /// Segments of one burst at least, where there is that much (tcp_min_tso_segs).
    pub burst_segments_min: u32,
    /// Detect spurious timeouts by RFC 5682 (tcp_frto).
    pub frto: bool,
    /// Pacing rate in slow start, percent of cwnd / srtt (tcp_pacing_ss_ratio).
    pub pacing_slow_start_percent: u32,
    /// Pacing rate in congestion avoidance, percent of cwnd / srtt (tcp_pacing_ca_ratio).
    pub pacing_avoidance_percent: u32,
}

impl Default for Config {
    fn default() -> Config {
        let (millis, secs) = (Duration::from_millis, Duration::from_secs);
        Config {
            congestion: "cubic".to_owned(),
            hystart: hystart::Kind::default(),
            mss: 0,
            sack: true,
            dsack: true,
            timestamps: true,
            window_scaling: true,
            ecn: 2,
            keepalive_time: secs(7200),
            keepalive_interval: secs(75),
            keepalive_probes: 9,
            fin_timeout: secs(60),
            time_wait: secs(60),
            syn_retries: 6,
            syn_linear_timeouts: 4,
            synack_retries: 5,
            retries1: 3,
            retries2: 15,
            orphan_retries: 0,
            initial_window: 10,
            receive_buffer: [4096, 131_072, 33_554_432],
            send_buffer: [4096, 16_384, 4_194_304],
            memory: [402_653_184, 536_870_912, 805_306_368],
            tsq_bytes: 4_194_304,
            pacing: false,
            syn_backlog: 2048,
            mtu_probing: 1,
            base_mss: 1024,
            mtu_probe_floor: 48,
            fastopen: 1,
            syncookies: 1,
            time_wait_max: 131_072,
            connections_max: 262_144,
            challenge_ack_limit: i32::MAX as u32,
            reset_limit: 10_000,
            rto_min: millis(200),
            rto_max: secs(120),
            rto_initial: secs(1),
            delayed_ack_min: millis(40),
            delayed_ack_max: millis(200),
            compressed_acks_max: 44,
            compressed_ack_delay_max: millis(1),
            slow_start_after_idle: true,
            moderate_receive_buffer: true,
            rfc1337: false,
            invalid_ratelimit: millis(500),
            tail_loss_probe: true,
            unsent_low_water: u32::MAX,
            reordering: 3,
            mss_min: 48,
            burst_segments_min: 2,
            frto: true,
            pacing_slow_start_percent: 200,
            pacing_avoidance_percent: 120,
        }
    }
}
