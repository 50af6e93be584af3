//! Socket options: one table row each, by level. What has no row gives ENOPROTOOPT, never silence.
//!
//! Rows name how a value is read (its length rules are the level's) and how it is written. An option that weft does not act on is either a
//! row that says so in its comment and keeps the value (where Linux's effect cannot be seen by a program), or a refusal.

// One-line rows: an assignment inside Ok() says "set it and succeed".
#![allow(clippy::unit_arg)]

mod control;
mod ip;
mod ipv6;
mod multicast;
mod raw;
mod socket;
mod tcp;
mod tuning;
mod udp;

use crate::abi::*;
use crate::errno::Errno;
use crate::face::Sockets;
use crate::multicast::Membership;
use crate::socket::{Body, Socket, SocketId, Stream};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{Attached, Context, StreamCall, StreamOption, bpf};
use weft_wire::ipv4::Prepared;

/// SO_SNDBUF of a new stream socket (net.ipv4.tcp_wmem[1]).
pub(crate) const TCP_SEND_BUFFER: u32 = 16384;
/// SO_RCVBUF of a new stream socket (net.ipv4.tcp_rmem[1]).
pub(crate) const TCP_RECEIVE_BUFFER: u32 = 131_072;

/// Names of options, those of the rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Labels(Vec<&'static str>);

impl Field for Labels {
    fn write(&self, out: &mut Writer) {
        out.number(self.0.len() as u64);
        self.0.iter().for_each(|label| out.content(label.as_bytes()));
    }
    fn read(from: &mut Reader<'_>) -> Result<Labels, Damage> {
        let mut labels = Vec::new();
        for _ in 0..from.count(rows().count())? {
            let name = from.content()?;
            let row = rows().find(|row| row.label.as_bytes() == name);
            labels.push(row.ok_or_else(|| Damage::new(format_args!("there is no option {:?}", String::from_utf8_lossy(name))))?.label);
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
    receive_hop_limit: bool = false,
    receive_traffic_class: bool = false,
    receive_original_destination6: bool = false,
    packet_info_2292: bool = false,
    receive_hop_limit_2292: bool = false,
    receive_original_destination: bool = false,
    min_ttl: u8 = 0,
    freebind: bool = false,
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
    pub(crate) fn summary(&self) -> Vec<&'static str> {
        self.set.0.clone()
    }
}

/// Which sockets have an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applies {
    /// All.
    Any,
    /// SOCK_STREAM over TCP.
    Stream,
    /// SOCK_DGRAM over UDP.
    Datagram,
    /// SOCK_RAW.
    Raw,
}

/// How a value is written.
#[derive(Clone, Copy)]
pub(crate) enum Set {
    /// An `int`; fewer than four bytes are EINVAL.
    Int(fn(&mut Access<'_, '_>, i32) -> Result<(), Errno>),
    /// An `int`, or one byte where there are fewer than four (SOL_IP).
    IntOrByte(fn(&mut Access<'_, '_>, i32) -> Result<(), Errno>),
    /// An `int`, or 0 where there are fewer than four bytes (some of SOL_IPV6).
    IntOrZero(fn(&mut Access<'_, '_>, i32) -> Result<(), Errno>),
    /// Bytes as they are.
    Bytes(fn(&mut Access<'_, '_>, &[u8]) -> Result<(), Errno>),
    /// Cannot be set: this error.
    Never(Errno),
}

/// How a value is read.
#[derive(Clone, Copy)]
pub(crate) enum Get {
    /// An `int`, cut to the length asked for.
    Int(fn(&mut Access<'_, '_>) -> Result<i32, Errno>),
    /// An `int`, or one byte where fewer than four are asked for and it fits (SOL_IP).
    IntOrByte(fn(&mut Access<'_, '_>) -> Result<i32, Errno>),
    /// Bytes; the function gets the length asked for.
    Bytes(fn(&mut Access<'_, '_>, usize) -> Result<Vec<u8>, Errno>),
    /// Cannot be read: this error.
    Never(Errno),
}

/// One option.
#[derive(Clone, Copy)]
pub struct OptionRow {
    /// SOL_SOCKET, IPPROTO_IP, …
    pub level: i32,
    /// The number.
    pub name: i32,
    /// Linux's name.
    pub label: &'static str,
    /// Which sockets have it.
    pub applies: Applies,
    pub(crate) set: Set,
    pub(crate) get: Get,
}

impl std::fmt::Debug for OptionRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.label)
    }
}

pub(crate) const fn row(level: i32, name: i32, label: &'static str, applies: Applies, set: Set, get: Get) -> OptionRow {
    OptionRow { level, name, label, applies, set, get }
}

/// All rows of all levels.
pub fn rows() -> impl Iterator<Item = &'static OptionRow> {
    socket::ROWS
        .iter()
        .chain(tuning::SOCKET_ROWS)
        .chain(ip::ROWS)
        .chain(ipv6::ROWS)
        .chain(tuning::TCP_ROWS)
        .chain(tcp::ROWS)
        .chain(udp::ROWS)
        .chain(raw::ROWS)
        .chain(crate::fast_open::ROWS)
        .chain(multicast::ROWS)
        .chain(control::ROWS)
}

/// The socket an option is about, and the way out.
pub(crate) struct Access<'a, 'b> {
    pub sockets: &'a mut Sockets,
    pub id: SocketId,
    pub cx: &'a mut Context<'b>,
}

impl Access<'_, '_> {
    pub(crate) fn socket(&mut self) -> Result<&mut Socket, Errno> {
        self.sockets.get_mut(self.id)
    }
    pub(crate) fn options(&mut self) -> Result<&mut Options, Errno> {
        Ok(&mut self.sockets.get_mut(self.id)?.options)
    }
    pub(crate) fn stream(&mut self) -> Result<&mut Stream, Errno> {
        match &mut self.sockets.get_mut(self.id)?.body {
            Body::Stream(stream) => Ok(stream),
            Body::Datagram(_) | Body::Raw(_) | Body::Ping(_) => Err(Errno::ENOPROTOOPT),
        }
    }
    /// Tells a stream's transport, now and at connect or listen.
    pub(crate) fn transport(&mut self, option: StreamOption) -> Result<(), Errno> {
        let Ok(stream) = self.stream() else { return Ok(()) };
        stream.transport.apply(option.clone());
        if let Some(flow) = stream.flow {
            self.sockets.call(flow, StreamCall::Set(option), self.cx);
        }
        Ok(())
    }
    /// Tells a stream's transport what counts for one of the two families only, if that is its peer's.
    pub(crate) fn of_family(&mut self, v6: bool, option: StreamOption) -> Result<(), Errno> {
        let socket = self.socket()?;
        let talks = socket.remote.map_or(socket.is_v6(), |remote| remote.is_ipv6());
        if talks == v6 { self.transport(option) } else { Ok(()) }
    }
    /// Lets others see this socket's reuse flags and interface.
    pub(crate) fn update_hold(&mut self) -> Result<(), Errno> {
        self.sockets.show_hold(self.id);
        Ok(())
    }
}

/// The rows of a level, as far as this socket has it.
fn tables(socket: &Socket, level: i32) -> Option<[&'static [OptionRow]; 2]> {
    match (level, &socket.body) {
        (SOL_SOCKET, _) => Some([socket::ROWS, tuning::SOCKET_ROWS]),
        // ipv6_setsockopt: "if (level == SOL_IP && sk->sk_type != SOCK_RAW) return ip_setsockopt(…); if (level != SOL_IPV6) return -ENOPROTOOPT;"
        (SOL_IP, Body::Raw(_)) if socket.is_v6() => None,
        (SOL_IP, _) => Some([ip::ROWS, &[]]),
        (SOL_IPV6, _) if socket.is_v6() => Some([ipv6::ROWS, &[]]),
        (SOL_TCP, Body::Stream(_)) => Some([tcp::ROWS, tuning::TCP_ROWS]),
        (SOL_UDP, Body::Datagram(_)) => Some([udp::ROWS, &[]]),
        (SOL_ICMPV6, Body::Raw(_)) if !socket.is_v6() => None,
        (SOL_RAW | SOL_ICMPV6, Body::Raw(_)) => Some([raw::ROWS, &[]]),
        _ => None,
    }
}

fn find(socket: &Socket, level: i32, name: i32) -> Option<&'static OptionRow> {
    let applies = |row: &&OptionRow| match row.applies {
        Applies::Any => true,
        Applies::Stream => matches!(socket.body, Body::Stream(_)),
        Applies::Datagram => matches!(socket.body, Body::Datagram(_)),
        Applies::Raw => matches!(socket.body, Body::Raw(_)),
    };
    tables(socket, level)?
        .into_iter()
        .flatten()
        .chain(raw::ROWS)
        .chain(crate::fast_open::ROWS)
        .chain(multicast::ROWS)
        .chain(control::ROWS)
        .find(|row| (row.level, row.name) == (level, name) && applies(row))
}

/// setsockopt(2).
pub(crate) fn set(sockets: &mut Sockets, id: SocketId, level: i32, name: i32, value: &[u8], cx: &mut Context<'_>) -> Result<(), Errno> {
    let socket = sockets.get(id)?;
    let row = find(socket, level, name);
    let integer = value.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes));
    // sk_setsockopt, do_tcp_setsockopt, udp_lib_setsockopt: "if (optlen < sizeof(int)) return -EINVAL;" stands before the switch by name.
    let length_first = matches!((level, &socket.body), (SOL_SOCKET, _) | (SOL_TCP, Body::Stream(_)) | (SOL_UDP, Body::Datagram(_)));
    if length_first && integer.is_none() && !matches!(row, Some(OptionRow { set: Set::Bytes(_), .. })) {
        return Err(Errno::EINVAL);
    }
    let row = row.ok_or(Errno::ENOPROTOOPT)?;
    let mut access = Access { sockets, id, cx };
    match row.set {
        Set::Int(set) => set(&mut access, integer.ok_or(Errno::EINVAL)?)?,
        // do_ip_setsockopt: "if (optlen >= sizeof(int)) … else if (optlen >= sizeof(char)) … val = (int) ucval;", and 0 for nothing.
        Set::IntOrByte(set) => set(&mut access, integer.unwrap_or_else(|| value.first().copied().map_or(0, i32::from)))?,
        Set::IntOrZero(set) => set(&mut access, integer.unwrap_or(0))?,
        Set::Bytes(set) => set(&mut access, value)?,
        Set::Never(error) => return Err(error),
    }
    let options = access.options()?;
    if !options.set.0.contains(&row.label) {
        options.set.0.push(row.label);
    }
    sockets.touch(id);
    Ok(())
}

/// getsockopt(2).
pub(crate) fn get(
    sockets: &mut Sockets,
    id: SocketId,
    level: i32,
    name: i32,
    length: usize,
    cx: &mut Context<'_>,
) -> Result<Vec<u8>, Errno> {
    let socket = sockets.get(id)?;
    // ip_getsockopt: "if (level != SOL_IP) return -EOPNOTSUPP;", where ip_setsockopt says ENOPROTOOPT, and ipv6_getsockopt too.
    let known = socket.is_v6() || tables(socket, level).is_some();
    let row = find(socket, level, name).ok_or(if known { Errno::ENOPROTOOPT } else { Errno::EOPNOTSUPP })?;
    let mut access = Access { sockets, id, cx };
    let mut value = match row.get {
        Get::Int(get) => get(&mut access)?.to_ne_bytes().to_vec(),
        Get::IntOrByte(get) => match get(&mut access)? {
            // do_ip_getsockopt: "if (len < sizeof(int) && len > 0 && val >= 0 && val <= 255) { unsigned char ucval = (unsigned char)val; len = 1;"
            small @ 0..=255 if (1..4).contains(&length) => vec![small as u8],
            number => number.to_ne_bytes().to_vec(),
        },
        Get::Bytes(get) => get(&mut access, length)?,
        Get::Never(error) => return Err(error),
    };
    value.truncate(length);
    Ok(value)
}

pub(crate) const fn flag(value: bool) -> Result<i32, Errno> {
    Ok(value as i32)
}

/// A value between these, else EINVAL.
pub(crate) fn within(value: i32, low: i32, high: i32) -> Result<i32, Errno> {
    if (low..=high).contains(&value) { Ok(value) } else { Err(Errno::EINVAL) }
}

/// Whole seconds as a duration.
pub(crate) const fn seconds(value: i32) -> Duration {
    Duration::from_secs(value.unsigned_abs() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_one_row() {
        for row in rows() {
            let same = rows().filter(|other| (other.level, other.name) == (row.level, row.name)).count();
            assert_eq!(same, 1, "{row:?}");
        }
        assert!(rows().count() > 90);
    }
}
