//! Control messages (`struct cmsghdr`), in and out. Damaged ones are EINVAL, as CMSG_OK failing is.

use crate::abi::*;
use crate::errno::{Errno, icmp_type_and_code};
use crate::options::Options;
use crate::socket::{QueuedError, Waiting};
use std::net::{IpAddr, Ipv4Addr};

const fn aligned(length: usize) -> usize {
    length.div_ceil(8) * 8
}

/// One message with its header, padded.
pub(crate) fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
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
fn each(mut control: &[u8], mut f: impl FnMut(i32, i32, &[u8]) -> Result<(), Errno>) -> Result<(), Errno> {
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
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Ancillary {
    pub source: Option<Ipv4Addr>,
    pub interface: Option<u32>,
    pub ttl: Option<u8>,
    pub tos: Option<u8>,
    pub segment_bytes: Option<u16>,
    pub mark: Option<u32>,
}

fn int(data: &[u8]) -> Option<i32> {
    Some(i32::from_ne_bytes(data.try_into().ok()?))
}

/// `udp_cmsg_send`, `ip_cmsg_send`, `__sock_cmsg_send`.
pub(crate) fn for_datagram(control: &[u8]) -> Result<Ancillary, Errno> {
    let mut out = Ancillary::default();
    each(control, |level, kind, data| {
        match (level, kind) {
            (SOL_UDP, UDP_SEGMENT) => out.segment_bytes = Some(u16::from_ne_bytes(data.try_into().map_err(|_| Errno::EINVAL)?)),
            (SOL_UDP, _) => return Err(Errno::EINVAL),
            (SOL_SOCKET, SO_MARK) => out.mark = Some(int(data).ok_or(Errno::EINVAL)? as u32),
            (SOL_SOCKET, _) => return Err(Errno::EINVAL),
            (SOL_IP, IP_PKTINFO) => {
                // struct in_pktinfo { int ipi_ifindex; struct in_addr ipi_spec_dst; struct in_addr ipi_addr; }
                let &[i0, i1, i2, i3, a, b, c, d, _, _, _, _] = data else { return Err(Errno::EINVAL) };
                let interface = u32::from_ne_bytes([i0, i1, i2, i3]);
                out.interface = (interface != 0).then_some(interface);
                out.source = Some(Ipv4Addr::new(a, b, c, d)).filter(|ip| !ip.is_unspecified());
            }
            (SOL_IP, IP_TTL) => match int(data) {
                Some(ttl @ 1..=255) => out.ttl = Some(ttl as u8),
                _ => return Err(Errno::EINVAL),
            },
            (SOL_IP, IP_TOS) => match (int(data), data) {
                (Some(tos @ 0..=255), _) => out.tos = Some(tos as u8),
                (None, [tos]) => out.tos = Some(*tos),
                _ => return Err(Errno::EINVAL),
            },
            (SOL_IP, _) => return Err(Errno::EINVAL),
            // "if (cmsg->cmsg_level != SOL_IP) continue;"
            _ => {}
        }
        Ok(())
    })?;
    Ok(out)
}

/// `sock_cmsg_send` for streams: only SOL_SOCKET messages are looked at.
pub(crate) fn check_stream(control: &[u8]) -> Result<(), Errno> {
    each(control, |level, kind, _| match (level, kind) {
        (SOL_SOCKET, SO_MARK) => Ok(()),
        (SOL_SOCKET, _) => Err(Errno::EINVAL),
        _ => Ok(()),
    })
}

fn pair(first: i64, second: i64) -> [u8; 16] {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&first.to_ne_bytes());
    out[8..].copy_from_slice(&second.to_ne_bytes());
    out
}

/// What a received datagram carries for a program that asked: `__sock_recv_cmsgs`, then `ip_cmsg_recv_offset`, in their order.
pub(crate) fn of_received(options: &Options, waiting: &Waiting, boot_time_nanos: u64, dropped: u32) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some((name, nanos)) = options.timestamps {
        let at = boot_time_nanos.saturating_add(waiting.received.as_nanos());
        let (seconds, rest) = ((at / 1_000_000_000) as i64, (at % 1_000_000_000) as i64);
        out.extend(message(SOL_SOCKET, name, &pair(seconds, if nanos { rest } else { rest / 1000 })));
    }
    if options.receive_overflow && dropped > 0 {
        out.extend(message(SOL_SOCKET, SO_RXQ_OVFL, &dropped.to_ne_bytes()));
    }
    // udp_cmsg_recv: "if (skb_shinfo(skb)->gso_type & SKB_GSO_UDP_L4) … put_cmsg(msg, SOL_UDP, UDP_GRO, sizeof(gso_size), &gso_size);"
    if waiting.segment_bytes != 0 {
        out.extend(message(SOL_UDP, UDP_GRO, &i32::from(waiting.segment_bytes).to_ne_bytes()));
    }
    if options.packet_info {
        let mut info = Vec::with_capacity(12);
        info.extend(waiting.interface.to_ne_bytes());
        info.extend(octets(waiting.own));
        info.extend(octets(waiting.to));
        out.extend(message(SOL_IP, IP_PKTINFO, &info));
    }
    if options.receive_ttl {
        out.extend(message(SOL_IP, IP_TTL, &i32::from(waiting.ttl).to_ne_bytes()));
    }
    if options.receive_tos {
        out.extend(message(SOL_IP, IP_TOS, &[waiting.tos]));
    }
    if options.receive_original_destination {
        let to = std::net::SocketAddr::new(waiting.to, waiting.to_port);
        out.extend(message(SOL_IP, IP_RECVORIGDSTADDR, &crate::address::to_bytes(to)));
    }
    out
}

fn octets(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(_) => [0; 4],
    }
}

/// `struct sock_extended_err` and the offender's address (ip_recv_error).
pub(crate) fn of_error(error: &QueuedError) -> Vec<u8> {
    const SO_EE_ORIGIN_ICMP: u8 = 2;
    let (kind, code) = icmp_type_and_code(error.kind);
    let information = match error.kind {
        weft_core::IcmpErrorKind::TooBig { mtu } => mtu,
        _ => 0,
    };
    let mut data = Vec::with_capacity(32);
    data.extend((error.errno.0 as u32).to_ne_bytes());
    data.extend([SO_EE_ORIGIN_ICMP, kind, code, 0]);
    data.extend(information.to_ne_bytes());
    data.extend(0u32.to_ne_bytes());
    data.extend(crate::address::to_bytes(std::net::SocketAddr::new(error.offender, 0)));
    message(SOL_IP, IP_RECVERR, &data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_are_written() {
        let mut control = message(SOL_IP, IP_TTL, &7i32.to_ne_bytes());
        control.extend(message(SOL_IP, IP_TOS, &[0x10]));
        let asked = for_datagram(&control).unwrap();
        assert_eq!((asked.ttl, asked.tos), (Some(7), Some(0x10)));
        assert_eq!(control.len(), 48);
    }

    #[test]
    fn damaged_messages_are_invalid_and_short_rests_ignored() {
        let mut control = message(SOL_IP, IP_TTL, &7i32.to_ne_bytes());
        control[0] = 200;
        assert_eq!(for_datagram(&control).map(|_| ()), Err(Errno::EINVAL));
        control[0] = 15;
        assert_eq!(for_datagram(&control).map(|_| ()), Err(Errno::EINVAL));
        assert!(for_datagram(&[1, 2, 3]).is_ok());
        assert_eq!(for_datagram(&message(SOL_IP, 99, &[])).map(|_| ()), Err(Errno::EINVAL));
        assert!(check_stream(&message(SOL_IP, 99, &[])).is_ok());
    }
}
