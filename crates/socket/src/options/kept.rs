//! What one socket keeps of its options. How programs set and read them are the rows of the other files here.

use crate::abi::{IP_PMTUDISC_WANT, SO_TIMESTAMP_NEW, SO_TIMESTAMP_OLD, SO_TIMESTAMPNS_NEW, SO_TIMESTAMPNS_OLD};
use crate::membership::Membership;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{Attached, bpf};
use weft_wire::ipv4::Prepared;

/// SO_SNDBUF of a new stream socket (net.ipv4.tcp_wmem[1]).
pub(crate) const TCP_SEND_BUFFER: u32 = 16384;
/// SO_RCVBUF of a new stream socket (net.ipv4.tcp_rmem[1]).
pub(crate) const TCP_RECEIVE_BUFFER: u32 = 131_072;

/// SOCK_SNDBUF_LOCK and SOCK_RCVBUF_LOCK.
pub(crate) const SEND_BUFFER_LOCK: u8 = 1;
pub(crate) const RECEIVE_BUFFER_LOCK: u8 = 2;

/// Names of options: those of their rows. One that was read from a state is its own until it is known to be a row's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Labels(Vec<Cow<'static, str>>);

impl Labels {
    /// Adds a row's name, once.
    pub(crate) fn add(&mut self, label: &'static str) {
        if !self.0.iter().any(|known| known == label) {
            self.0.push(Cow::Borrowed(label));
        }
    }

    /// After reading: each name is a row's, as which `row` finds it.
    pub(crate) fn settle(&mut self, row: impl Fn(&str) -> Option<&'static str>) -> Result<(), Damage> {
        for label in &mut self.0 {
            let known = row(label).ok_or_else(|| Damage::new(format_args!("there is no option {label:?}")))?;
            *label = Cow::Borrowed(known);
        }
        Ok(())
    }
}

impl Field for Labels {
    fn write(&self, out: &mut Writer) {
        out.number(self.0.len() as u64);
        self.0.iter().for_each(|label| out.content(label.as_bytes()));
    }
    fn read(from: &mut Reader<'_>) -> Result<Labels, Damage> {
        let mut labels = Vec::new();
        for _ in 0..from.count(usize::MAX)? {
            labels.push(Cow::Owned(String::from_utf8_lossy(from.content()?).into_owned()));
        }
        Ok(Labels(labels))
    }
}

/// Declares the options once: field, type, and what a new socket has.
macro_rules! kept {
    ($($(#[$doc:meta])* $field:ident : $type:ty = $default:expr),+ $(,)?) => {
        #[derive(Debug, Clone)]
        pub(crate) struct Options { $($(#[$doc])* pub $field: $type),+ }
        impl Default for Options {
            fn default() -> Options { Options { $($field: $default),+ } }
        }
        weft_core::fields!(struct Options { $($field),+ });
    };
}

// Values of the options that sockets themselves act on or keep. Those a stream transport acts on are in `Stream::transport` as well.
kept! {
    debug: bool = false,
    reuse_address: bool = false,
    reuse_port: bool = false,
    dont_route: bool = false,
    broadcast: bool = false,
    keepalive: bool = false,
    urgent_inline: bool = false,
    no_check: bool = false,
    priority: i32 = 0,
    /// None: off.
    linger: Option<Duration> = None,
    /// SO_LINGER's time, kept while off.
    linger_seconds: i32 = 0,
    /// Doubled, as Linux keeps and reports it, bytes.
    send_buffer: u32 = 0,
    receive_buffer: u32 = 0,
    receive_low_water: i32 = 1,
    /// None: wait for ever; zero: not at all.
    receive_timeout: Option<Duration> = None,
    send_timeout: Option<Duration> = None,
    /// Interface number; 0: none.
    interface: u32 = 0,
    interface_name: String = String::new(),
    /// SO_TIMESTAMP (false) or SO_TIMESTAMPNS (true: nanoseconds). By which number they were set is in `timestamping_new`.
    timestamps: Option<bool> = None,
    /// SO_ATTACH_FILTER.
    filter: Option<bpf::Shared> = None,
    filter_locked: bool = false,
    mark: u32 = 0,
    receive_overflow: bool = false,
    /// SO_RCVMARK.
    receive_mark: bool = false,
    /// What SIOCGSTAMP tells (`sk_stamp`): nothing yet; 0: when it is asked for; nanoseconds. Whether it was asked for (SOCK_TIMESTAMP).
    stamp: Option<u64> = None,
    stamps: bool = false,
    /// SO_WIFI_STATUS, SO_NOFCS.
    wifi_status: bool = false,
    no_check_sequence: bool = false,
    peek_offset: i32 = -1,
    select_error_queue: bool = false,
    busy_poll: i32 = 0,
    incoming_cpu: i32 = -1,
    zerocopy: bool = false,
    pacing_rate_max: u64 = u64::MAX,
    tos: u8 = 0,
    /// IP_OPTIONS.
    ip_options: Option<Prepared> = None,
    /// IPV6_HOPOPTS, IPV6_RTHDRDSTOPTS, IPV6_RTHDR, IPV6_DSTOPTS.
    attached: Option<Box<Attached>> = None,
    /// IPV6_RECVHOPOPTS, IPV6_RECVRTHDR, IPV6_RECVDSTOPTS, and RFC 2292's forms.
    receive_hop_options: bool = false,
    receive_routing: bool = false,
    receive_destination_options: bool = false,
    receive_hop_options_2292: bool = false,
    receive_routing_2292: bool = false,
    receive_destination_options_2292: bool = false,
    /// 0: the node's default.
    ttl: u8 = 0,
    mtu_discover: u8 = IP_PMTUDISC_WANT as u8,
    packet_info: bool = false,
    receive_ttl: bool = false,
    receive_tos: bool = false,
    receive_options: bool = false,
    return_options: bool = false,
    /// IP_PASSSEC, IP_CHECKSUM.
    pass_security: bool = false,
    receive_checksum: bool = false,
    receive_errors: bool = false,
    receive_errors6: bool = false,
    /// IP_RECVERR_RFC4884, IPV6_RECVERR_RFC4884.
    receive_errors_extended: bool = false,
    receive_errors6_extended: bool = false,
    /// SO_TIMESTAMPING: SOF_TIMESTAMPING_*; whether a time was last asked for by a new number (SOCK_TSTAMP_NEW); the number of the next record (OPT_ID).
    timestamping: u32 = 0,
    timestamping_new: bool = false,
    timestamp_key: u32 = 0,
    /// The number of the next MSG_ZEROCOPY send.
    zerocopy_key: u32 = 0,
    /// IPV6_RECVPKTINFO, IPV6_RECVHOPLIMIT, IPV6_RECVTCLASS, IPV6_RECVORIGDSTADDR and RFC 2292's forms of the first two.
    packet_info6: bool = false,
    /// IPV6_FLOWINFO.
    receive_flow_info: bool = false,
    receive_hop_limit: bool = false,
    receive_traffic_class: bool = false,
    receive_original_destination6: bool = false,
    /// IPV6_RECVPATHMTU; where to something was too long that may not be fragmented, and what would fit: the next receive tells it.
    receive_path_mtu: bool = false,
    path_mtu_news: Option<(SocketAddr, u32)> = None,
    packet_info_2292: bool = false,
    receive_hop_limit_2292: bool = false,
    receive_original_destination: bool = false,
    min_ttl: u8 = 0,
    freebind: bool = false,
    /// IP_TRANSPARENT, IPV6_TRANSPARENT.
    transparent: bool = false,
    bind_address_no_port: bool = false,
    multicast_ttl: u8 = 1,
    multicast_loop: bool = true,
    multicast_all: bool = true,
    /// IP_MULTICAST_IF: the address given, and the interface's number (0: by route).
    multicast_interface: Ipv4Addr = Ipv4Addr::UNSPECIFIED,
    multicast_index: u32 = 0,
    memberships: Vec<Membership> = Vec::new(),
    multicast6_loop: bool = true,
    multicast6_all: bool = true,
    /// SO_PREFER_BUSY_POLL.
    prefer_busy_poll: bool = false,
    /// SO_BUF_LOCK: SOCK_SNDBUF_LOCK (1), SOCK_RCVBUF_LOCK (2).
    buffers_locked: u8 = 0,
    /// SO_TXREHASH.
    rehash: bool = true,
    /// SO_TXTIME: clock and flags, and whether it was ever set.
    transmit_time: (i32, u32) = (0, 0),
    transmit_time_on: bool = false,
    /// TCP_THIN_LINEAR_TIMEOUTS.
    thin_timeouts: bool = false,
    /// TCP_TX_DELAY, microseconds.
    transmit_delay_us: i32 = 0,
    /// IP_UNICAST_IF and IPV6_UNICAST_IF; 0: by route.
    unicast_index: u32 = 0,
    unicast6_index: u32 = 0,
    /// IPV6_ROUTER_ALERT_ISOLATE.
    router_alert_isolate: bool = false,
    /// IPV6_PKTINFO's interface; 0: none. Its address is looked at nowhere.
    sticky6_index: u32 = 0,
    /// IPV6_MULTICAST_IF; 0: by route.
    multicast6_index: u32 = 0,
    /// IPV6_V6ONLY (`sk_ipv6only`), which bind(2) to an IPv6 address sets too.
    v6_only: bool = false,
    /// IPV6_UNICAST_HOPS as set; -1: the node's default, which 0 comes to as well.
    hop_limit: i16 = -1,
    /// IPV6_TCLASS.
    traffic_class: u8 = 0,
    mtu_discover6: u8 = IP_PMTUDISC_WANT as u8,
    /// IPV6_MULTICAST_HOPS.
    multicast6_hops: u8 = 1,
    /// IPV6_MTU: packets are made no larger, bytes; 0: off.
    fragment_bytes: u32 = 0,
    /// IPV6_DONTFRAG.
    dont_fragment: bool = false,
    /// IPV6_AUTOFLOWLABEL.
    auto_flow_label: bool = true,
    /// IPV6_ADDR_PREFERENCES, the kernel's `srcprefs`.
    address_preferences: u8 = 0,
    /// IPV6_MINHOPCOUNT.
    min_hop_count: u8 = 0,
    /// IPV6_FLOWINFO_SEND and the label of the last connect(2).
    flow_info_send: bool = false,
    flow_label: u32 = 0,
    /// IP_LOCAL_PORT_RANGE: low and high; 0: the node's.
    port_range: (u16, u16) = (0, 0),
    /// TCP_NOTSENT_LOWAT as set.
    unsent_low_water: i32 = 0,
    tcp_inq: bool = false,
    udp_cork: bool = false,
    udp_gro: bool = false,
    udp_segment: u16 = 0,
    /// UDPLITE_SEND_CSCOV, UDPLITE_RECV_CSCOV, once set.
    coverage_sent: Option<u16> = None,
    coverage_received: Option<u16> = None,
    /// UDP_NO_CHECK6_TX, UDP_NO_CHECK6_RX.
    no_check6_sent: bool = false,
    no_check6_received: bool = false,
    /// Names of options that were set, for the table's rows.
    set: Labels = Labels::default(),
}

impl Options {
    /// The option, and control message, that tells received times in these units.
    pub(crate) fn timestamps_name(&self, nanos: bool) -> i32 {
        match (nanos, self.timestamping_new) {
            (false, false) => SO_TIMESTAMP_OLD,
            (false, true) => SO_TIMESTAMP_NEW,
            (true, false) => SO_TIMESTAMPNS_OLD,
            (true, true) => SO_TIMESTAMPNS_NEW,
        }
    }

    /// `inet_can_nonlocal_bind`: may it bind to an address that is not the node's?
    pub(crate) fn binds_anywhere(&self) -> bool {
        self.freebind || self.transparent
    }

    /// IP_RECVERR or IPV6_RECVERR.
    pub(crate) fn wants_errors(&self, v6: bool) -> bool {
        if v6 { self.receive_errors6 } else { self.receive_errors }
    }

    /// IP_MTU_DISCOVER or IPV6_MTU_DISCOVER.
    pub(crate) fn discover(&self, v6: bool) -> u8 {
        if v6 { self.mtu_discover6 } else { self.mtu_discover }
    }

    /// Time to live or hop limit of a packet to this address; 0: the node's default.
    pub(crate) fn hop_limit(&self, to: IpAddr) -> u8 {
        match (to.is_multicast(), to.is_ipv6()) {
            (true, true) => self.multicast6_hops,
            (true, false) => self.multicast_ttl,
            (false, true) => self.hop_limit.max(0) as u8,
            (false, false) => self.ttl,
        }
    }

    /// IP_MULTICAST_LOOP or IPV6_MULTICAST_LOOP.
    pub(crate) fn multicast_loops(&self, v6: bool) -> bool {
        if v6 { self.multicast6_loop } else { self.multicast_loop }
    }

    /// IP_TOS or IPV6_TCLASS.
    pub(crate) fn traffic_class_of(&self, v6: bool) -> u8 {
        if v6 { self.traffic_class } else { self.tos }
    }

    /// The options that a program has set, by name.
    pub(crate) fn summary(&self) -> Vec<&str> {
        self.set.0.iter().map(|label| &**label).collect()
    }

    /// Would the socket hear this source of a group? A group that it did not join is heard with IP_MULTICAST_ALL.
    pub(crate) fn hears(&self, to: IpAddr, from: IpAddr, interface: u32) -> bool {
        if !to.is_multicast() {
            return true;
        }
        // ip_mc_sf_allow looks at the interface too, inet6_mc_check does not.
        let found = |entry: &&Membership| entry.group == to && (to.is_ipv6() || entry.interface == interface || interface == 0);
        let all = if to.is_ipv6() { self.multicast6_all } else { self.multicast_all };
        self.memberships.iter().find(found).map_or(all, |entry| entry.allows(from))
    }

    /// Where the membership in a group on an interface is in the list.
    pub(crate) fn membership_at(&self, group: IpAddr, interface: u32) -> Option<usize> {
        let any = group.is_ipv6() && interface == 0;
        self.memberships.iter().position(|entry| entry.group == group && (any || entry.interface == interface))
    }
}
