//! Neighbour discovery on the wire: reading what came in, with the checks that hold for every message, and building packets.

use std::net::{IpAddr, Ipv6Addr};
use weft_core::{Frame, InterfaceIndex};
use weft_wire::ethernet::{EtherType, Mac};
use weft_wire::icmpv6::{self, nd};
use weft_wire::{Protocol, ipv6};

/// ff02::1, every node of the link.
pub(super) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// ff02::2, every router of the link.
pub(super) const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// Length of the nonce that this node sends, bytes (RFC 3971 §5.3.2: at least 6).
pub(super) const NONCE_BYTES: usize = 6;

/// RFC 4291 §2.7.1: the solicited-node group is ff02:0:0:0:0:1:ff00::/104 with the low-order 24 bits of the address.
pub(super) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | high & 0xff, low)
}

/// RFC 4291 §2.5.6.
pub(super) const fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// The modified EUI-64 interface identifier of an Ethernet address (RFC 4291 appendix A, RFC 2464 §4).
pub(super) const fn interface_identifier(mac: Mac) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac.0;
    [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
}

/// The address of a 64-bit prefix and an interface identifier.
pub(super) fn join(prefix: Ipv6Addr, identifier: [u8; 8]) -> Ipv6Addr {
    let mut octets = prefix.octets();
    octets[8..].copy_from_slice(&identifier);
    octets.into()
}

/// The options that more than one message has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub source: Option<Mac>,
    pub target: Option<Mac>,
    /// Its first bytes.
    pub nonce: Option<[u8; NONCE_BYTES]>,
}

/// A message as it came in.
#[derive(Debug)]
pub(super) struct Received<'a> {
    pub interface: InterfaceIndex,
    pub from: Ipv6Addr,
    pub to: Ipv6Addr,
    pub from_mac: Mac,
    pub message: nd::Message,
    pub options: Options,
    /// All options, as bytes; they have been read once without error.
    pub option_bytes: &'a [u8],
}

impl<'a> Received<'a> {
    /// Reads a message whose checksum icmp6 has verified. `None`: one of the checks of RFC 4861 §6.1, §7.1 and §8.1 failed.
    pub(super) fn read(frame: &'a Frame) -> Option<Received<'a>> {
        let meta = frame.meta();
        let (IpAddr::V6(from), IpAddr::V6(to)) = (meta.src, meta.dst) else { return None };
        // RFC 4861 §7.1.1: "The IP Hop Limit field has a value of 255, i.e., the packet could not possibly have been forwarded by a
        // router."
        if meta.ttl != nd::HOP_LIMIT {
            return None;
        }
        let Ok((icmpv6::Message::Nd(message), header_len)) = icmpv6::Message::parse(frame.head()) else { return None };
        let option_bytes = frame.head().get(header_len..)?;
        // §7.1.1: "All included options have a length that is greater than zero."
        let options = Options::read(option_bytes)?;
        let received = Received { interface: meta.interface, from, to, from_mac: meta.src_mac, message, options, option_bytes };
        received.is_valid().then_some(received)
    }

    fn is_valid(&self) -> bool {
        match self.message {
            // §6.1.1: a solicitation without source has no source link-layer address.
            nd::Message::RouterSolicitation => !self.from.is_unspecified() || self.options.source.is_none(),
            // §6.1.2: "IP Source Address is a link-local address."
            nd::Message::RouterAdvertisement { .. } => is_link_local(self.from),
            // §7.1.1: "Target Address is not a multicast address", and for a source unspecified: "the IP destination address is a
            // solicited-node multicast address", and "there is no source link-layer address option in the message".
            nd::Message::NeighborSolicitation { target } => {
                let detects = self.from.is_unspecified();
                !target.is_multicast() && (!detects || (is_solicited_node(self.to) && self.options.source.is_none()))
            }
            // §7.1.2: "If the IP Destination Address is a multicast address the Solicited flag is zero."
            nd::Message::NeighborAdvertisement { flags, target } => {
                let solicited_by_all = self.to.is_multicast() && flags.contains(nd::NeighborFlags::SOLICITED);
                !target.is_multicast() && !solicited_by_all
            }
            // §8.1: from a link-local address; "the ICMP Destination Address field in the redirect message does not contain a multicast
            // address"; the target is a router's link-local address or the destination itself.
            nd::Message::Redirect { target, destination } => {
                is_link_local(self.from) && !destination.is_multicast() && (is_link_local(target) || target == destination)
            }
        }
    }
}

fn is_solicited_node(address: Ipv6Addr) -> bool {
    address.octets()[..13] == Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0).octets()[..13]
}

impl Options {
    /// `None`: one is malformed, and with it the whole message.
    fn read(bytes: &[u8]) -> Option<Options> {
        let mut options = Options::default();
        for option in nd::options(bytes) {
            match option.ok()? {
                // A group is nobody's address.
                nd::Opt::SourceAddress(mac) if mac.is_unicast() => options.source = Some(mac),
                nd::Opt::TargetAddress(mac) if mac.is_unicast() => options.target = Some(mac),
                nd::Opt::Nonce(bytes) => options.nonce = bytes.first_chunk().copied(),
                // RFC 4861 §9: "Options that are not recognized … MUST be ignored".
                _ => {}
            }
        }
        Some(options)
    }
}

/// A whole packet with a message of neighbour discovery. Options that are too long are left out; this node sends none.
pub(super) fn packet(interface: InterfaceIndex, src: Ipv6Addr, dst: Ipv6Addr, message: nd::Message, options: &[nd::Opt<'_>]) -> Frame {
    let message = icmpv6::Message::Nd(message);
    let header_len = message.header_len();
    let mut bytes = vec![0; header_len + options.iter().map(nd::Opt::len).sum::<usize>()];
    let mut at = header_len;
    for option in options {
        if option.emit(&mut bytes[at..]).is_ok() {
            at += option.len();
        }
    }
    bytes.truncate(at);
    message.emit(src, dst, &mut bytes);
    let mut frame = Frame::egress();
    frame.extend(&bytes);
    let header = ipv6::Header {
        payload_len: bytes.len() as u16,
        next_header: Protocol::ICMPV6,
        hop_limit: nd::HOP_LIMIT,
        src,
        dst,
        ..ipv6::Header::default()
    };
    header.emit(frame.push(ipv6::HEADER_LEN));
    let network_at = frame.position();
    let meta = frame.meta_mut();
    meta.interface = interface;
    meta.ether_type = EtherType::IPV6;
    (meta.src, meta.dst, meta.next_hop) = (src.into(), dst.into(), Some(dst.into()));
    (meta.protocol, meta.ttl) = (Protocol::ICMPV6, nd::HOP_LIMIT);
    meta.network_at = network_at;
    meta.transport_at = network_at + ipv6::HEADER_LEN as u16;
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_from_others() {
        let address: Ipv6Addr = "fe80::2aa:ff:fe28:9c5a".parse().unwrap();
        // RFC 4291 §2.7.1 has 4037::01:800:200e:8c6c and ff02::1:ff0e:8c6c.
        let rfc: Ipv6Addr = "4037::01:800:200e:8c6c".parse().unwrap();
        assert_eq!(solicited_node(rfc), "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().unwrap());
        assert!(is_solicited_node(solicited_node(address)) && !is_solicited_node(ALL_NODES));
        // RFC 2464 §4: 34-56-78-9A-BC-DE gives 36-56-78-FF-FE-9A-BC-DE.
        let identifier = interface_identifier(Mac([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]));
        assert_eq!(identifier, [0x36, 0x56, 0x78, 0xff, 0xfe, 0x9a, 0xbc, 0xde]);
        let joined = join("2001:db8::".parse().unwrap(), identifier);
        assert_eq!(joined, "2001:db8::3656:78ff:fe9a:bcde".parse::<Ipv6Addr>().unwrap());
        assert!(is_link_local(address) && is_link_local("febf::1".parse().unwrap()) && !is_link_local("fec0::1".parse().unwrap()));
    }
}
