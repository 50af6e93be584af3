//! Control messages (`struct cmsghdr`), in and out. Damaged ones are EINVAL, as CMSG_OK failing is.

use crate::abi::*;
use crate::address::AF_INET6;
use crate::errno::Errno;
use crate::options::Options;
use crate::socket::{QueuedError, Seen, Socket, Waiting};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use weft_core::attached::Part;
use weft_core::table::Family;
use weft_core::{Attached, Instant};
use weft_wire::ipv4::Prepared;

const fn aligned(length: usize) -> usize {
    length.div_ceil(8) * 8
}

/// One message with its header, padded.
pub fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
    let length = CMSG_HEADER_BYTES + data.len();
    let mut out = Vec::with_capacity(aligned(length));
    out.extend((length as u64).to_ne_bytes());
    out.extend(level.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(data);
    out.resize(aligned(length), 0);
    out
}

/// Walks the messages of a send. A last piece that is too short for a header is ignored, as `for_each_cmsghdr` does.
///
/// # Errors
/// EINVAL for a length that is too short or leads beyond the end; those of `f`, which is given level, kind and data.
pub fn each(mut control: &[u8], mut f: impl FnMut(i32, i32, &[u8]) -> Result<(), Errno>) -> Result<(), Errno> {
    while control.len() >= CMSG_HEADER_BYTES {
        let (header, _) = control.split_at(CMSG_HEADER_BYTES);
        let &[l0, l1, l2, l3, l4, l5, l6, l7, v0, v1, v2, v3, k0, k1, k2, k3] = header else { return Err(Errno::EINVAL) };
        let length = usize::try_from(u64::from_ne_bytes([l0, l1, l2, l3, l4, l5, l6, l7])).map_err(|_| Errno::EINVAL)?;
        if length < CMSG_HEADER_BYTES || length > control.len() {
            return Err(Errno::EINVAL);
        }
        f(i32::from_ne_bytes([v0, v1, v2, v3]), i32::from_ne_bytes([k0, k1, k2, k3]), &control[CMSG_HEADER_BYTES..length])?;
        control = &control[aligned(length).min(control.len())..];
    }
    Ok(())
}

/// What a datagram's control messages ask for.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ancillary {
    /// Unspecified: none, even if the socket is bound to one.
    pub source: Option<IpAddr>,
    /// IP_RETOPTS: instead of IP_OPTIONS.
    pub ip_options: Option<Prepared>,
    /// Extension headers: instead of the socket's.
    pub attached: Option<Box<Attached>>,
    pub interface: Option<u32>,
    /// There was an IPV6_PKTINFO, whatever is in it.
    pub packet_info: bool,
    pub ttl: Option<u8>,
    pub tos: Option<u8>,
    pub segment_bytes: Option<u16>,
    pub mark: Option<u32>,
    pub dont_fragment: Option<bool>,
    /// SO_TIMESTAMPING: which transmit times are asked for; SCM_TS_OPT_ID: by which number they are told.
    pub timestamping: Option<u32>,
    pub timestamp_key: Option<u32>,
}

/// Whose messages are read: UDP has a level of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sender {
    Udp,
    Raw,
    Ping,
}

fn int(data: &[u8]) -> Option<i32> {
    Some(i32::from_ne_bytes(data.try_into().ok()?))
}

/// `udp_cmsg_send`, `ip_cmsg_send` or `ip6_datagram_send_ctl` by the family of the destination, `__sock_cmsg_send`.
pub(crate) fn for_sending(control: &[u8], sender: Sender, socket: &Socket, family: Family) -> Result<Ancillary, Errno> {
    let mut out = Ancillary::default();
    each(control, |level, kind, data| match (level, family) {
        (SOL_UDP, _) if sender == Sender::Udp => {
            if kind != UDP_SEGMENT {
                return Err(Errno::EINVAL);
            }
            out.segment_bytes = Some(u16::from_ne_bytes(data.try_into().map_err(|_| Errno::EINVAL)?));
            Ok(())
        }
        (SOL_SOCKET, _) => of_socket(&mut out, socket, kind, data),
        (SOL_IP, Family::V4) => of_ipv4(&mut out, kind, data),
        (SOL_IPV6, Family::V6) => of_ipv6(&mut out, kind, data),
        (SOL_IPV6, Family::V4) if socket.is_v6() && kind == IPV6_PKTINFO => {
            // ip_cmsg_send: "if (!ipv6_addr_v4mapped(&src_info->ipi6_addr)) return -EINVAL; … ipc->addr = src_info->ipi6_addr.s6_addr32[3];"
            of_ipv6(&mut out, kind, data)?;
            match out.source {
                Some(IpAddr::V6(address)) => out.source = Some(address.to_ipv4_mapped().ok_or(Errno::EINVAL)?.into()),
                _ => return Err(Errno::EINVAL),
            }
            Ok(())
        }
        // "if (cmsg->cmsg_level != SOL_IP) continue;"
        _ => Ok(()),
    })?;
    Ok(out)
}

/// `__sock_cmsg_send`.
fn of_socket(out: &mut Ancillary, socket: &Socket, kind: i32, data: &[u8]) -> Result<(), Errno> {
    match kind {
        // "SCM_RIGHTS and SCM_CREDENTIALS are semantically in SOL_UNIX."
        SCM_RIGHTS | SCM_CREDENTIALS => {}
        SO_MARK => out.mark = Some(int(data).ok_or(Errno::EINVAL)? as u32),
        // "if (sk_is_tcp(sk)) return -EINVAL; tsflags = READ_ONCE(sk->sk_tsflags); if (!(tsflags & SOF_TIMESTAMPING_OPT_ID)) return -EINVAL;"
        SCM_TS_OPT_ID if socket.stream().is_none() && socket.options.timestamping & TIMESTAMPING_OPT_ID != 0 => {
            out.timestamp_key = Some(int(data).ok_or(Errno::EINVAL)? as u32);
        }
        // Which memory of a device is sent, where MSG_ZEROCOPY of a stream would ask for it: there is none.
        SCM_DEVMEM_DMABUF if int(data).is_some_and(|number| number == 0 || socket.stream().is_none()) => {}
        SO_TIMESTAMPING_OLD | SO_TIMESTAMPING_NEW => {
            let asked = int(data).ok_or(Errno::EINVAL)? as u32;
            if asked & !TIMESTAMPING_TX_RECORDS != 0 {
                return Err(Errno::EINVAL);
            }
            out.timestamping = Some(asked);
        }
        // Priorities order nothing here, and datagrams leave at once whatever their time is: checked, then forgotten.
        SO_PRIORITY if data.len() == 4 => {}
        SO_TXTIME if socket.options.transmit_time_on && data.len() == 8 => {}
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// `ip_cmsg_send`.
fn of_ipv4(out: &mut Ancillary, kind: i32, data: &[u8]) -> Result<(), Errno> {
    match kind {
        IP_PKTINFO => {
            // struct in_pktinfo { int ipi_ifindex; struct in_addr ipi_spec_dst; struct in_addr ipi_addr; }
            let &[i0, i1, i2, i3, a, b, c, d, _, _, _, _] = data else { return Err(Errno::EINVAL) };
            let interface = u32::from_ne_bytes([i0, i1, i2, i3]);
            out.interface = (interface != 0).then_some(interface);
            out.source = Some(Ipv4Addr::new(a, b, c, d).into());
        }
        // "ip_options_get(net, &ipc->opt, …, err < 40 ? err : 40)"
        IP_RETOPTS => out.ip_options = Some(Prepared::new(data.get(..40).unwrap_or(data), |_| false).ok_or(Errno::EINVAL)?),
        IP_TTL => match int(data) {
            Some(ttl @ 1..=255) => out.ttl = Some(ttl as u8),
            _ => return Err(Errno::EINVAL),
        },
        IP_TOS => match (int(data), data) {
            (Some(tos @ 0..=255), _) => out.tos = Some(tos as u8),
            (None, [tos]) => out.tos = Some(*tos),
            _ => return Err(Errno::EINVAL),
        },
        // "case IP_PROTOCOL: … ipc->protocol = val;", which raw sockets with IP_HDRINCL alone look at, to choose a route.
        IP_PROTOCOL if int(data).is_some_and(|protocol| (1..=255).contains(&protocol)) => {}
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// `ip6_datagram_send_ctl`. A routing header is EINVAL: only type 2 could be given so.
fn of_ipv6(out: &mut Ancillary, kind: i32, data: &[u8]) -> Result<(), Errno> {
    match kind {
        IPV6_PKTINFO | IPV6_2292PKTINFO => {
            // struct in6_pktinfo { struct in6_addr ipi6_addr; int ipi6_ifindex; }
            let (address, rest) = data.split_first_chunk::<16>().ok_or(Errno::EINVAL)?;
            let interface = u32::from_ne_bytes(*rest.first_chunk::<4>().ok_or(Errno::EINVAL)?);
            out.interface = (interface != 0).then_some(interface);
            out.source = Some(Ipv6Addr::from(*address)).filter(|address| !address.is_unspecified()).map(IpAddr::V6);
            out.packet_info = true;
        }
        IPV6_HOPLIMIT | IPV6_2292HOPLIMIT => match int(data) {
            Some(-1) => out.ttl = None,
            Some(limit @ 0..=255) => out.ttl = Some(limit as u8),
            _ => return Err(Errno::EINVAL),
        },
        IPV6_TCLASS => match int(data) {
            Some(-1) => out.tos = None,
            Some(class @ 0..=255) => out.tos = Some(class as u8),
            _ => return Err(Errno::EINVAL),
        },
        IPV6_HOPOPTS | IPV6_2292HOPOPTS => attach(out, Part::HopByHop, data, true)?,
        IPV6_2292DSTOPTS => attach(out, Part::Destination, data, true)?,
        IPV6_DSTOPTS => attach(out, Part::Destination, data, false)?,
        IPV6_RTHDRDSTOPTS => attach(out, Part::BeforeRouting, data, false)?,
        // Packets leave without a flow label. "if (cmsg->cmsg_len < CMSG_LEN(4)) { err = -EINVAL; goto exit_f; }"
        IPV6_FLOWINFO if data.len() >= 4 => {}
        IPV6_DONTFRAG => match int(data) {
            Some(flag @ 0..=1) => out.dont_fragment = Some(flag == 1),
            _ => return Err(Errno::EINVAL),
        },
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// One header: "if (opt->hopopt || cmsg->cmsg_len < CMSG_LEN(sizeof(struct ipv6_opt_hdr))) … len = ((hdr->hdrlen + 1) << 3);
/// if (cmsg->cmsg_len < CMSG_LEN(len)) … -EINVAL".
fn attach(out: &mut Ancillary, part: Part, data: &[u8], once: bool) -> Result<(), Errno> {
    let attached = out.attached.get_or_insert_default();
    let again = once && !attached.get(part).is_empty();
    if again || data.is_empty() || !attached.set(part, data) { Err(Errno::EINVAL) } else { Ok(()) }
}

/// `sock_cmsg_send` for streams: only SOL_SOCKET messages are looked at.
pub(crate) fn for_stream(control: &[u8], socket: &Socket) -> Result<Ancillary, Errno> {
    let mut asked = Ancillary::default();
    each(control, |level, kind, data| if level == SOL_SOCKET { of_socket(&mut asked, socket, kind, data) } else { Ok(()) })?;
    Ok(asked)
}

/// What a stream's read tells of when its last byte came (`tcp_recv_timestamp`).
pub(crate) fn of_stream_time(socket: &Socket, at: Instant, boot_time_nanos: u64) -> Vec<u8> {
    of_time(&socket.options, boot_time_nanos.saturating_add(at.as_nanos()), false)
}

fn pair(first: i64, second: i64) -> [u8; 16] {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&first.to_ne_bytes());
    out[8..].copy_from_slice(&second.to_ne_bytes());
    out
}

/// What a received datagram carries for a program that asked: `__sock_recv_cmsgs`, then the family's, in their order.
pub(crate) fn of_received(socket: &Socket, waiting: &Waiting, boot_time_nanos: u64, dropped: u32) -> Vec<u8> {
    let options = &socket.options;
    let mut out = of_time(options, boot_time_nanos.saturating_add(waiting.received.as_nanos()), false);
    if options.receive_overflow && dropped > 0 {
        out.extend(message(SOL_SOCKET, SO_RXQ_OVFL, &dropped.to_ne_bytes()));
    }
    // sock_recv_mark: "if (sock_flag(sk, SOCK_RCVMARK) && skb)"
    if options.receive_mark {
        out.extend(message(SOL_SOCKET, SO_MARK, &waiting.seen.mark.to_ne_bytes()));
    }
    // udp_cmsg_recv: "if (skb_shinfo(skb)->gso_type & SKB_GSO_UDP_L4) … put_cmsg(msg, SOL_UDP, UDP_GRO, sizeof(gso_size), &gso_size);"
    if waiting.joined.each_bytes != 0 {
        out.extend(message(SOL_UDP, UDP_GRO, &i32::from(waiting.joined.each_bytes).to_ne_bytes()));
    }
    of_packet(socket, &waiting.seen, &mut out);
    out
}

/// `__sock_recv_timestamp`. What was received has a time where SO_TIMESTAMPING asks for it, an entry of the error queue has one always.
fn of_time(options: &Options, at: u64, of_error: bool) -> Vec<u8> {
    let (seconds, rest) = ((at / 1_000_000_000) as i64, (at % 1_000_000_000) as i64);
    let mut out = match options.timestamps {
        Some(nanos) => message(SOL_SOCKET, options.timestamps_name(nanos), &pair(seconds, if nanos { rest } else { rest / 1000 })),
        None => Vec::new(),
    };
    let flags = options.timestamping;
    // A packet has a time where the socket asked for any; SOF_TIMESTAMPING_OPT_RX_FILTER shows it only to who asked for this one.
    let anyway = options.timestamps.is_some() && flags & TIMESTAMPING_OPT_RX_FILTER == 0;
    if flags & TIMESTAMPING_SOFTWARE != 0 && (of_error || anyway || flags & TIMESTAMPING_RX_SOFTWARE != 0) {
        // struct scm_timestamping: three times, of which the first is the software's and the others are hardware's.
        let mut times = pair(seconds, rest).to_vec();
        times.resize(48, 0);
        let name = if options.timestamping_new { SO_TIMESTAMPING_NEW } else { SO_TIMESTAMPING_OLD };
        out.extend(message(SOL_SOCKET, name, &times));
    }
    out
}

/// What the program asked for about the packet itself: `ip_cmsg_recv_offset`, `ip6_datagram_recv_common_ctl`, `_specific_ctl`.
fn of_packet(socket: &Socket, seen: &Seen, out: &mut Vec<u8>) {
    let options = &socket.options;
    if socket.domain == AF_INET6 && options.packet_info6 {
        out.extend(message(SOL_IPV6, IPV6_PKTINFO, &packet_info6(seen)));
    }
    match seen.to {
        IpAddr::V4(to) => of_ipv4_packet(options, seen, to, out),
        IpAddr::V6(_) => of_ipv6_packet(options, seen, out),
    }
}

fn of_ipv4_packet(options: &Options, seen: &Seen, to: Ipv4Addr, out: &mut Vec<u8>) {
    if options.packet_info {
        let mut info = Vec::with_capacity(12);
        info.extend(seen.interface.to_ne_bytes());
        info.extend(octets(seen.own));
        info.extend(to.octets());
        out.extend(message(SOL_IP, IP_PKTINFO, &info));
    }
    if options.receive_ttl {
        out.extend(message(SOL_IP, IP_TTL, &i32::from(seen.ttl).to_ne_bytes()));
    }
    if options.receive_tos {
        out.extend(message(SOL_IP, IP_TOS, &[seen.tos]));
    }
    if let Some(received) = seen.headers.as_ref().filter(|_| seen.to.is_ipv4()) {
        if options.receive_options {
            out.extend(message(SOL_IP, IP_RECVOPTS, received));
        }
        if options.return_options {
            // No source route ever comes in (ip4 refuses them), so that who sent it does not matter.
            let answer = Prepared::answer(received, Ipv4Addr::UNSPECIFIED, |_| false);
            let given = answer.map(|answer| answer.given()).unwrap_or_default();
            out.extend(message(SOL_IP, IP_RETOPTS, &given));
        }
    }
    if let (true, Some(port)) = (options.receive_original_destination, seen.to_port) {
        let to = SocketAddr::new(seen.to, port);
        out.extend(message(SOL_IP, IP_RECVORIGDSTADDR, &crate::address::to_bytes(to)));
    }
}

fn of_ipv6_packet(options: &Options, seen: &Seen, out: &mut Vec<u8>) {
    let hop_limit = i32::from(seen.ttl).to_ne_bytes();
    if options.receive_hop_limit {
        out.extend(message(SOL_IPV6, IPV6_HOPLIMIT, &hop_limit));
    }
    if options.receive_traffic_class {
        out.extend(message(SOL_IPV6, IPV6_TCLASS, &i32::from(seen.tos).to_ne_bytes()));
    }
    // "if (np->rxopt.bits.rxflow) { __be32 flowinfo = ip6_flowinfo((struct ipv6hdr *)nh); if (flowinfo) put_cmsg(…); }"
    if options.receive_flow_info && seen.flow_info != 0 {
        out.extend(message(SOL_IPV6, IPV6_FLOWINFO, &seen.flow_info.to_be_bytes()));
    }
    for (kind, header) in extensions(seen) {
        let wanted = match kind {
            HOP_BY_HOP => (options.receive_hop_options, IPV6_HOPOPTS),
            ROUTING => (options.receive_routing, IPV6_RTHDR),
            _ => (options.receive_destination_options, IPV6_DSTOPTS),
        };
        if wanted.0 {
            out.extend(message(SOL_IPV6, wanted.1, header));
        }
    }
    if options.packet_info_2292 {
        out.extend(message(SOL_IPV6, IPV6_2292PKTINFO, &packet_info6(seen)));
    }
    if options.receive_hop_limit_2292 {
        out.extend(message(SOL_IPV6, IPV6_2292HOPLIMIT, &hop_limit));
    }
    for (kind, header) in extensions(seen) {
        let wanted = match kind {
            HOP_BY_HOP => (options.receive_hop_options_2292, IPV6_2292HOPOPTS),
            ROUTING => (options.receive_routing_2292, IPV6_2292RTHDR),
            _ => (options.receive_destination_options_2292, IPV6_2292DSTOPTS),
        };
        if wanted.0 {
            out.extend(message(SOL_IPV6, wanted.1, header));
        }
    }
    if let (true, Some(port)) = (options.receive_original_destination6, seen.to_port) {
        let to = std::net::SocketAddr::new(seen.to, port);
        out.extend(message(SOL_IPV6, IPV6_ORIGDSTADDR, &crate::address::to_bytes(to)));
    }
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION: u8 = 60;

/// The extension headers of a received packet, each with what it is.
fn extensions(seen: &Seen) -> impl Iterator<Item = (u8, &[u8])> {
    let (first, rest) = seen.headers.as_deref().and_then(<[u8]>::split_first).unwrap_or((&u8::MAX, &[]));
    let mut next = (*first, rest);
    std::iter::from_fn(move || {
        let (kind, bytes) = next;
        if !matches!(kind, HOP_BY_HOP | ROUTING | DESTINATION) {
            return None;
        }
        let [following, units, ..] = bytes else { return None };
        let (header, after) = bytes.split_at_checked((usize::from(*units) + 1) * 8)?;
        next = (*following, after);
        Some((kind, header))
    })
}

/// `struct ip6_mtuinfo`: an address of 28 bytes, and what fits.
pub(crate) fn of_path_mtu(to: SocketAddr, mtu: u32) -> Vec<u8> {
    let mut info = crate::address::to_bytes(to);
    info.extend(mtu.to_ne_bytes());
    message(SOL_IPV6, IPV6_PATHMTU, &info)
}

/// `struct in6_pktinfo`: 20 bytes.
fn packet_info6(seen: &Seen) -> Vec<u8> {
    let address = match seen.to {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let mut info = address.octets().to_vec();
    info.extend(seen.interface.to_ne_bytes());
    info
}

fn octets(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(_) => [0; 4],
    }
}

/// `struct sock_extended_err` and the offender's address, after what the program asked for about the ICMP message (ip_recv_error,
/// ipv6_recv_error).
pub(crate) fn of_error(socket: &Socket, error: &QueuedError, boot_time_nanos: u64) -> Vec<u8> {
    let timed = error.origin != SO_EE_ORIGIN_ZEROCOPY && error.origin != SO_EE_ORIGIN_LOCAL;
    let mut out = if timed { of_time(&socket.options, boot_time_nanos.saturating_add(error.at.as_nanos()), true) } else { Vec::new() };
    // __sock_recv_timestamp: "if (!empty) { … if (skb_is_err_queue(skb) && skb->len && SKB_EXT_ERR(skb)->opt_stats) put_cmsg(msg, SOL_SOCKET,
    // SCM_TIMESTAMPING_OPT_STATS, skb->len, skb->data);"
    if error.statistics && socket.options.timestamping & TIMESTAMPING_SOFTWARE != 0 {
        out.extend(message(SOL_SOCKET, SCM_TIMESTAMPING_OPT_STATS, &error.data));
    }
    if let Some(seen) = &error.seen {
        of_packet(socket, seen, &mut out);
    }
    let mut data = Vec::with_capacity(44);
    data.extend((error.errno.0 as u32).to_ne_bytes());
    data.extend([error.origin, error.kind, error.code, 0]);
    data.extend(error.info.to_ne_bytes());
    data.extend(error.value.to_ne_bytes());
    let v6 = socket.domain == AF_INET6;
    match error.offender {
        Some(offender) => data.extend(crate::address::told(socket.domain, std::net::SocketAddr::new(offender, 0))),
        None => data.resize(data.len() + if v6 { 28 } else { 16 }, 0),
    }
    out.extend(if v6 { message(SOL_IPV6, IPV6_RECVERR, &data) } else { message(SOL_IP, IP_RECVERR, &data) });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp() -> Socket {
        Socket::for_test(crate::socket::Body::Datagram(Default::default()))
    }

    #[test]
    fn messages_are_read_as_they_are_written() {
        let mut control = message(SOL_IP, IP_TTL, &7i32.to_ne_bytes());
        control.extend(message(SOL_IP, IP_TOS, &[0x10]));
        let asked = for_sending(&control, Sender::Udp, &udp(), Family::V4).unwrap();
        assert_eq!((asked.ttl, asked.tos), (Some(7), Some(0x10)));
        assert_eq!(control.len(), 48);
    }

    #[test]
    fn damaged_messages_are_invalid_and_short_rests_ignored() {
        let mut control = message(SOL_IP, IP_TTL, &7i32.to_ne_bytes());
        control[0] = 200;
        assert_eq!(for_sending(&control, Sender::Udp, &udp(), Family::V4).map(|_| ()), Err(Errno::EINVAL));
        control[0] = 15;
        assert_eq!(for_sending(&control, Sender::Udp, &udp(), Family::V4).map(|_| ()), Err(Errno::EINVAL));
        assert!(for_sending(&[1, 2, 3], Sender::Udp, &udp(), Family::V4).is_ok());
        assert_eq!(for_sending(&message(SOL_IP, 99, &[]), Sender::Udp, &udp(), Family::V4).map(|_| ()), Err(Errno::EINVAL));
        assert!(for_stream(&message(SOL_IP, 99, &[]), &udp()).is_ok());
    }
}
