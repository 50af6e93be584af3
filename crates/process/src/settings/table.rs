//! Which settings there are.

/// How Linux writes a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Word,
    Number,
    /// 0 or 1.
    Flag,
    /// 1 where the parameter is false.
    Not,
    /// 0 or this where the parameter is a flag; of what else Linux takes nothing means the same here.
    On(u64),
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
    /// Pages where the parameter counts bytes.
    Pages,
    /// 1 where the parameter has this value, 0 where it has another, and this other one where it is to have none of the kind.
    Is(&'static str, &'static str),
    /// One of these words, each for a value of the parameter. The first one also stands for values that are not among them.
    OneOf(&'static [(&'static str, &'static str)]),
}

impl Form {
    /// Is it a word, and no number?
    pub(super) fn is_word(self) -> bool {
        matches!(self, Form::Word | Form::OneOf(_))
    }
}

/// Name below /proc/sys/net, how a value is written there, and the parameters (block and name), one for each number of the line.
pub(super) type Setting = (&'static str, Form, &'static [(&'static str, &'static str)]);

pub(super) const SETTINGS: &[Setting] = &[
    ("ipv4/tcp_congestion_control", Form::Word, &[("tcp", "congestion")]),
    ("ipv4/tcp_sack", Form::Flag, &[("tcp", "sack")]),
    ("ipv4/tcp_dsack", Form::Flag, &[("tcp", "dsack")]),
    ("ipv4/tcp_timestamps", Form::Flag, &[("tcp", "timestamps")]),
    ("ipv4/tcp_window_scaling", Form::Flag, &[("tcp", "window_scaling")]),
    ("ipv4/tcp_ecn", Form::Number, &[("tcp", "ecn")]),
    ("ipv4/tcp_keepalive_time", Form::Seconds, &[("tcp", "keepalive_time")]),
    ("ipv4/tcp_keepalive_intvl", Form::Seconds, &[("tcp", "keepalive_interval")]),
    ("ipv4/tcp_keepalive_probes", Form::Number, &[("tcp", "keepalive_probes")]),
    ("ipv4/tcp_fin_timeout", Form::Seconds, &[("tcp", "fin_timeout")]),
    ("ipv4/tcp_syn_retries", Form::Number, &[("tcp", "syn_retries")]),
    ("ipv4/tcp_syn_linear_timeouts", Form::Number, &[("tcp", "syn_linear_timeouts")]),
    ("ipv4/tcp_synack_retries", Form::Number, &[("tcp", "synack_retries")]),
    ("ipv4/tcp_retries1", Form::Number, &[("tcp", "retries1")]),
    ("ipv4/tcp_retries2", Form::Number, &[("tcp", "retries2")]),
    ("ipv4/tcp_orphan_retries", Form::Number, &[("tcp", "orphan_retries")]),
    ("ipv4/tcp_rmem", Form::Number, &[("tcp", "rmem_min"), ("tcp", "rmem_default"), ("tcp", "rmem_max")]),
    ("ipv4/tcp_wmem", Form::Number, &[("tcp", "wmem_min"), ("tcp", "wmem_default"), ("tcp", "wmem_max")]),
    ("ipv4/tcp_mem", Form::Pages, &[("tcp", "mem_low"), ("tcp", "mem_pressure"), ("tcp", "mem_max")]),
    ("ipv4/tcp_max_syn_backlog", Form::Number, &[("tcp", "syn_backlog")]),
    ("ipv4/tcp_syncookies", Form::Number, &[("tcp", "syncookies")]),
    ("ipv4/tcp_fastopen", Form::Number, &[("tcp", "fastopen")]),
    ("ipv4/tcp_mtu_probing", Form::Number, &[("tcp", "mtu_probing")]),
    ("ipv4/tcp_base_mss", Form::Number, &[("tcp", "base_mss")]),
    ("ipv4/tcp_mtu_probe_floor", Form::Number, &[("tcp", "mtu_probe_floor")]),
    ("ipv4/tcp_max_tw_buckets", Form::Number, &[("tcp", "time_wait_max")]),
    ("ipv4/tcp_challenge_ack_limit", Form::Number, &[("tcp", "challenge_ack_limit")]),
    ("ipv4/tcp_comp_sack_nr", Form::Number, &[("tcp", "compressed_acks_max")]),
    ("ipv4/tcp_slow_start_after_idle", Form::Flag, &[("tcp", "slow_start_after_idle")]),
    ("ipv4/tcp_moderate_rcvbuf", Form::Flag, &[("tcp", "moderate_rcvbuf")]),
    ("ipv4/tcp_rfc1337", Form::Flag, &[("tcp", "rfc1337")]),
    ("ipv4/tcp_reordering", Form::Number, &[("tcp", "reordering")]),
    ("ipv4/tcp_notsent_lowat", Form::Number, &[("tcp", "notsent_lowat")]),
    ("ipv4/tcp_min_snd_mss", Form::Number, &[("tcp", "mss_min")]),
    ("ipv4/tcp_invalid_ratelimit", Form::Milliseconds, &[("tcp", "invalid_ratelimit")]),
    ("ipv4/tcp_limit_output_bytes", Form::Number, &[("tcp", "tsq_bytes")]),
    ("ipv4/tcp_comp_sack_delay_ns", Form::Nanoseconds, &[("tcp", "compressed_ack_delay_max")]),
    ("ipv4/tcp_rto_min_us", Form::Microseconds, &[("tcp", "rto_min")]),
    ("ipv4/tcp_rto_max_ms", Form::Milliseconds, &[("tcp", "rto_max")]),
    ("ipv4/tcp_frto", Form::On(2), &[("tcp", "frto")]),
    ("ipv4/tcp_early_retrans", Form::On(3), &[("tcp", "tail_loss_probe")]),
    ("ipv4/tcp_tw_reuse", Form::Number, &[("sockets", "tw_reuse")]),
    ("ipv4/tcp_tw_reuse_delay", Form::Milliseconds, &[("sockets", "tw_reuse_delay")]),
    ("ipv4/ip_forward", Form::Flag, &[("ip4", "forward")]),
    ("ipv4/conf/all/forwarding", Form::Flag, &[("ip4", "forward")]),
    ("ipv4/conf/all/promote_secondaries", Form::Flag, &[("ip4", "promote_secondaries")]),
    ("ipv4/conf/all/ignore_routes_with_linkdown", Form::Flag, &[("ip4", "ignore_linkdown")]),
    ("ipv4/conf/all/rp_filter", Form::Number, &[("ip4", "rp_filter")]),
    ("ipv4/conf/all/accept_redirects", Form::Flag, &[("ip4", "accept_redirects")]),
    ("ipv4/conf/all/send_redirects", Form::Flag, &[("ip4", "send_redirects")]),
    ("ipv4/ipfrag_high_thresh", Form::Number, &[("ip4", "fragment_memory_bytes")]),
    ("ipv4/ipfrag_time", Form::Seconds, &[("ip4", "fragment_timeout")]),
    ("ipv4/ipfrag_max_dist", Form::Number, &[("ip4", "fragment_distance_max")]),
    ("ipv4/route/min_pmtu", Form::Number, &[("ip4", "path_mtu_min")]),
    ("ipv4/route/mtu_expires", Form::Seconds, &[("ip4", "path_mtu_expires")]),
    ("ipv4/ip_default_ttl", Form::Number, &[("ip4", "default_ttl")]),
    ("ipv4/fib_multipath_hash_policy", Form::Number, &[("ip4", "multipath_hash_policy")]),
    ("ipv4/ip_local_port_range", Form::Number, &[("sockets", "ephemeral_first"), ("sockets", "ephemeral_last")]),
    ("ipv4/icmp_echo_ignore_all", Form::Not, &[("icmp4", "echo")]),
    ("ipv4/icmp_msgs_per_sec", Form::Number, &[("icmp4", "messages_per_second")]),
    ("ipv4/icmp_msgs_burst", Form::Number, &[("icmp4", "messages_burst")]),
    ("ipv4/icmp_ratelimit", Form::Milliseconds, &[("icmp4", "target_interval")]),
    ("ipv4/igmp_qrv", Form::Number, &[("igmp", "robustness")]),
    ("ipv4/neigh/default/base_reachable_time_ms", Form::Milliseconds, &[("arp", "reachable_time")]),
    ("ipv4/neigh/default/retrans_time_ms", Form::Milliseconds, &[("arp", "retransmit_time")]),
    ("ipv4/neigh/default/delay_first_probe_time", Form::Seconds, &[("arp", "delay_time")]),
    ("ipv4/neigh/default/gc_stale_time", Form::Seconds, &[("arp", "stale_time")]),
    ("ipv4/neigh/default/unres_qlen_bytes", Form::Number, &[("arp", "pending_bytes_max")]),
    ("ipv4/neigh/default/gc_thresh1", Form::Number, &[("arp", "collect_above")]),
    ("ipv4/neigh/default/gc_thresh3", Form::Number, &[("arp", "entries_max")]),
    ("ipv6/neigh/default/base_reachable_time_ms", Form::Milliseconds, &[("nd", "reachable_time")]),
    ("ipv6/neigh/default/retrans_time_ms", Form::Milliseconds, &[("nd", "retransmit_time")]),
    ("ipv6/neigh/default/delay_first_probe_time", Form::Seconds, &[("nd", "delay_time")]),
    ("ipv6/neigh/default/gc_stale_time", Form::Seconds, &[("nd", "stale_time")]),
    ("ipv6/neigh/default/unres_qlen_bytes", Form::Number, &[("nd", "pending_bytes_max")]),
    ("ipv6/neigh/default/gc_thresh1", Form::Number, &[("nd", "collect_above")]),
    ("ipv6/neigh/default/gc_thresh3", Form::Number, &[("nd", "entries_max")]),
    ("ipv6/conf/all/disable_ipv6", Form::Flag, &[("ip6", "disable")]),
    ("ipv6/conf/default/disable_ipv6", Form::Flag, &[("ip6", "disable_new")]),
    ("ipv6/conf/all/ignore_routes_with_linkdown", Form::Flag, &[("ip6", "ignore_linkdown")]),
    ("ipv6/conf/all/accept_ra", Form::On(1), &[("nd", "accept_ra")]),
    ("ipv6/conf/all/accept_ra_defrtr", Form::Flag, &[("nd", "accept_default_router")]),
    ("ipv6/conf/all/accept_redirects", Form::Flag, &[("nd", "accept_redirects")]),
    ("ipv6/conf/all/autoconf", Form::Flag, &[("nd", "autoconfigure")]),
    ("ipv6/conf/all/dad_transmits", Form::Number, &[("nd", "dad_transmits")]),
    ("ipv6/conf/all/max_addresses", Form::Number, &[("nd", "addresses_max")]),
    ("ipv6/icmp/ratelimit", Form::Milliseconds, &[("icmp6", "target_interval")]),
    ("ipv6/icmp/echo_ignore_all", Form::Not, &[("icmp6", "echo")]),
    ("ipv6/icmp/echo_ignore_multicast", Form::Not, &[("icmp6", "echo_multicast")]),
    ("ipv6/ip6frag_high_thresh", Form::Number, &[("ip6", "fragment_memory_bytes")]),
    ("ipv6/ip6frag_time", Form::Seconds, &[("ip6", "fragment_timeout")]),
    ("ipv6/mld_qrv", Form::Number, &[("mld", "robustness")]),
    ("ipv6/conf/all/forwarding", Form::Flag, &[("ip6", "forward")]),
    ("ipv6/conf/all/hop_limit", Form::Number, &[("ip6", "default_hop_limit")]),
    ("ipv6/fib_multipath_hash_policy", Form::Number, &[("ip6", "multipath_hash_policy")]),
    ("mptcp/enabled", Form::Flag, &[("mptcp", "enabled")]),
    ("mptcp/checksum_enabled", Form::Flag, &[("mptcp", "checksum")]),
    // An 8-bit number of 0 or 1 (extra2 is SYSCTL_ONE).
    ("mptcp/allow_join_initial_addr_port", Form::On(1), &[("mptcp", "allow_join_initial_address")]),
    ("mptcp/stale_loss_cnt", Form::Number, &[("mptcp", "stale_timeouts")]),
    ("mptcp/close_timeout", Form::Seconds, &[("mptcp", "close_timeout")]),
    ("mptcp/scheduler", Form::Word, &[("mptcp", "scheduler")]),
    ("mptcp/path_manager", Form::OneOf(&[("kernel", "all"), ("userspace", "userspace")]), &[("mptcp", "path_manager")]),
    ("mptcp/pm_type", Form::Is("userspace", "all"), &[("mptcp", "path_manager")]),
    ("mptcp/add_addr_timeout", Form::Seconds, &[("mptcp", "add_addr_timeout")]),
    ("core/rmem_max", Form::Number, &[("sockets", "rmem_max")]),
    ("core/rmem_default", Form::Number, &[("sockets", "rmem_default")]),
    ("core/wmem_max", Form::Number, &[("sockets", "wmem_max")]),
    ("core/wmem_default", Form::Number, &[("sockets", "wmem_default")]),
    ("core/somaxconn", Form::Number, &[("sockets", "backlog_max")]),
];

/// Settings of one byte (proc_dou8vec_minmax), which take a whole line whatever stands behind the first value; of the others a write ends there.
pub(super) const OF_A_BYTE: &[&str] = &[
    "ipv4/tcp_sack",
    "ipv4/tcp_dsack",
    "ipv4/tcp_timestamps",
    "ipv4/tcp_window_scaling",
    "ipv4/tcp_ecn",
    "ipv4/tcp_keepalive_probes",
    "ipv4/tcp_syn_retries",
    "ipv4/tcp_syn_linear_timeouts",
    "ipv4/tcp_synack_retries",
    "ipv4/tcp_retries1",
    "ipv4/tcp_retries2",
    "ipv4/tcp_orphan_retries",
    "ipv4/tcp_syncookies",
    "ipv4/tcp_mtu_probing",
    "ipv4/tcp_comp_sack_nr",
    "ipv4/tcp_slow_start_after_idle",
    "ipv4/tcp_moderate_rcvbuf",
    "ipv4/tcp_rfc1337",
    "ipv4/tcp_frto",
    "ipv4/tcp_early_retrans",
    "ipv4/tcp_tw_reuse",
    "ipv4/ip_default_ttl",
    "ipv4/icmp_echo_ignore_all",
    "ipv6/icmp/echo_ignore_all",
    "ipv6/icmp/echo_ignore_multicast",
    "ipv4/fib_multipath_hash_policy",
    "ipv6/fib_multipath_hash_policy",
    "mptcp/enabled",
    "mptcp/checksum_enabled",
    "mptcp/allow_join_initial_addr_port",
    "mptcp/pm_type",
];

/// Settings that each interface has for itself: the name in its folder below ipv6/conf, and the block's procedure that says and sets it (`interface` and
/// the last name).
pub(super) const OF_AN_INTERFACE: &[(&str, &str, &str, &str)] = &[("disable_ipv6", "ip6", "interface_disable", "disable")];

/// What may be written to a setting that no parameter stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// Whole numbers: it is about something that no node has, such as queues of processors.
    Numbers,
    /// A name.
    Name,
    /// Nothing but what it shows, which is what a node does.
    Only,
}

/// Settings that are taken and shown again, and change nothing: tuning guides and distributions write them. With what each shows before anybody writes it:
/// Linux's default with HZ = 250 and 1 GiB of memory.
pub(super) const KEPT: &[(&str, Kept, &str)] = &[
    ("core/netdev_max_backlog", Kept::Numbers, "1000"),
    ("core/netdev_budget", Kept::Numbers, "300"),
    ("core/netdev_budget_usecs", Kept::Numbers, "8000"),
    ("core/dev_weight", Kept::Numbers, "64"),
    ("core/optmem_max", Kept::Numbers, "131072"),
    ("core/busy_poll", Kept::Numbers, "0"),
    ("core/busy_read", Kept::Numbers, "0"),
    ("core/default_qdisc", Kept::Name, "pfifo_fast"),
    ("ipv4/tcp_autocorking", Kept::Numbers, "1"),
    ("ipv4/tcp_early_demux", Kept::Numbers, "1"),
    ("ipv4/udp_early_demux", Kept::Numbers, "1"),
    ("ipv4/ip_early_demux", Kept::Numbers, "1"),
    ("ipv4/tcp_max_orphans", Kept::Numbers, "4096"),
    ("ipv4/tcp_no_metrics_save", Kept::Only, "1"),
    ("ipv4/udp_rmem_min", Kept::Numbers, "4096"),
    ("ipv4/udp_wmem_min", Kept::Numbers, "4096"),
    ("ipv4/neigh/default/gc_thresh2", Kept::Numbers, "512"),
    ("ipv6/neigh/default/gc_thresh2", Kept::Numbers, "512"),
    ("ipv4/conf/all/log_martians", Kept::Numbers, "0"),
    ("ipv4/conf/all/accept_source_route", Kept::Only, "0"),
    ("ipv6/conf/all/accept_source_route", Kept::Only, "0"),
    ("ipv4/icmp_echo_ignore_broadcasts", Kept::Only, "1"),
    ("ipv4/icmp_ignore_bogus_error_responses", Kept::Only, "1"),
    // No SYN is taken for the work of a box that eats MP_CAPABLE for longer than its connection.
    ("mptcp/blackhole_timeout", Kept::Only, "0"),
];
