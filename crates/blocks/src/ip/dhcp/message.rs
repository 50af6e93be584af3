//! DHCP in packets: which of those that come in are a server's, what is in them, and what this node sends.

use crate::transport::udp::checksum_holds;
use std::net::Ipv4Addr;
use weft_core::*;
use weft_wire::dhcp::{self, CLIENT_PORT, Header, MessageType, Options, SERVER_PORT, Writer, code, op};
use weft_wire::ethernet::{EtherType, Mac};
use weft_wire::{Protocol, checksum, ipv4, udp};

/// RFC 2132 §9.14: the type of the link-layer address, and the address: what udhcpc and Windows send.
const CLIENT_IDENTIFIER_BYTES: usize = 7;
/// The largest message that is built: padding and all options.
const MESSAGE_BYTES_MAX: usize = 576 - ipv4::HEADER_LEN - udp::LEN;
/// Longest name of a host that is told.
pub(super) const HOST_NAME_BYTES_MAX: usize = 63;

/// What is asked for: what is made use of, and the times that a lease has anyway.
const PARAMETERS: [u8; 10] = [
    code::SUBNET_MASK,
    code::CLASSLESS_ROUTES,
    code::ROUTERS,
    code::NAME_SERVERS,
    code::DOMAIN_NAME,
    code::INTERFACE_MTU,
    code::BROADCAST_ADDRESS,
    code::LEASE_TIME,
    code::RENEWAL_TIME,
    code::REBINDING_TIME,
];

/// Is it a datagram from a server's port to a client's? Reads what is there and changes nothing, but that headers lie in one piece.
#[inline]
pub(super) fn is_from_server(frame: &mut Frame) -> bool {
    if frame.head().len() < ipv4::HEADER_LEN {
        let _ = frame.pull_up(frame.len().min(ipv4::HEADER_LEN));
    }
    let &[version_ihl, _, _, _, _, _, fragment_high, fragment_low, _, protocol, ..] = frame.head() else { return false };
    // Of a fragment ip4 makes a whole, which is none of ours then: Linux's clients, which read packets, take none either.
    let is_fragment = u16::from_be_bytes([fragment_high, fragment_low]) & 0x3fff != 0;
    if protocol != Protocol::UDP.0 || version_ihl >> 4 != 4 || is_fragment {
        return false;
    }
    let at = usize::from(version_ihl & 0xf) * 4;
    let _ = frame.pull_up(frame.len().min(at + udp::LEN));
    let ports = frame.head().get(at..).map(udp::Header::parse);
    matches!(ports, Some(Ok((udp::Header { src_port: SERVER_PORT, dst_port: CLIENT_PORT, .. }, _))))
}

/// Takes the headers off such a datagram, if they hold together. What is left is the message.
pub(super) fn take_message(frame: &mut Frame) -> Result<(), Reason> {
    let _ = frame.pull_up(frame.len().min(ipv4::HEADER_LEN_MAX));
    let (ip, ip_len) = ipv4::Header::parse(frame.head()).map_err(|_| Reason::BadPacket)?;
    if !ipv4::verify_checksum(frame.head()) {
        return Err(Reason::BadChecksum);
    }
    let packet_len = ip.check_total_len(frame.len()).map_err(|_| Reason::Truncated)?;
    frame.truncate(packet_len);
    frame.pull(ip_len).map_err(|_| Reason::Truncated)?;
    let meta = frame.meta_mut();
    (meta.src, meta.dst) = (ip.src.into(), ip.dst.into());
    let _ = frame.pull_up(frame.len());
    let (header, header_len) = udp::Header::parse(frame.head()).map_err(|_| Reason::Truncated)?;
    let payload_len = header.payload_len(frame.len()).map_err(|_| Reason::BadTotalLength)?;
    frame.truncate(header_len + payload_len);
    if !checksum_holds(frame, &header) {
        return Err(Reason::BadChecksum);
    }
    frame.pull(header_len).map_err(|_| Reason::Truncated)
}

/// A message of a server.
#[derive(Debug)]
pub(super) struct Received<'a> {
    pub header: Header,
    pub kind: MessageType,
    pub options: Options<'a>,
    /// Who sent it.
    pub server: Option<Ipv4Addr>,
}

impl<'a> Received<'a> {
    /// None: it is no message of DHCP's that a server sends.
    pub(super) fn read(message: &'a [u8]) -> Option<Received<'a>> {
        let (header, _) = Header::parse(message).ok()?;
        let options = Options::parse(message).ok()?;
        let kind = options.fixed(code::MESSAGE_TYPE).and_then(|[kind]| MessageType::try_from(kind).ok())?;
        let server = options.fixed::<4>(code::SERVER_IDENTIFIER).map(Ipv4Addr::from);
        (header.op == op::REPLY).then_some(Received { header, kind, options, server })
    }

    /// Is it for the station with this address?
    pub(super) fn is_for(&self, mac: Mac) -> bool {
        let own = self.header.hardware() == mac.0;
        // RFC 6842 §3: "the client MUST … silently discard" an answer with another's identifier.
        let identifier =
            self.options.iter().filter(|(code, _)| *code == code::CLIENT_IDENTIFIER).all(|(_, told)| told == client_identifier(mac));
        own && identifier
    }
}

fn client_identifier(mac: Mac) -> [u8; CLIENT_IDENTIFIER_BYTES] {
    let [a, b, c, d, e, f] = mac.0;
    [dhcp::ETHERNET, a, b, c, d, e, f]
}

/// What is to be sent.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub kind: MessageType,
    pub xid: u32,
    pub secs: u16,
    /// The address that this node has and answers for.
    pub own: Option<Ipv4Addr>,
    /// The address that it would like to have.
    pub wanted: Option<Ipv4Addr>,
    /// Whose offer it takes, or who is told that the address is free.
    pub server: Option<Ipv4Addr>,
    /// None: to everybody on the link.
    pub to: Option<Ipv4Addr>,
}

impl Outgoing {
    fn message(&self, mac: Mac, mtu: u32, host_name: &str) -> Vec<u8> {
        let mut hardware = [0; 16];
        hardware[..6].copy_from_slice(&mac.0);
        let header = Header {
            op: op::REQUEST,
            hardware_type: dhcp::ETHERNET,
            hardware_len: 6,
            hops: 0,
            xid: self.xid,
            secs: self.secs,
            // An answer to everybody is heard by whoever has no address, on every link.
            flags: if self.own.is_none() { dhcp::BROADCAST } else { 0 },
            client: self.own.unwrap_or(Ipv4Addr::UNSPECIFIED),
            yours: Ipv4Addr::UNSPECIFIED,
            next_server: Ipv4Addr::UNSPECIFIED,
            relay: Ipv4Addr::UNSPECIFIED,
            hardware,
        };
        let mut bytes = vec![0; MESSAGE_BYTES_MAX];
        header.emit(&mut bytes);
        let mut options = Writer::new(&mut bytes[dhcp::HEADER_LEN..]);
        let mut put = |code: u8, value: &[u8]| {
            // Everything there is takes less than the room for it.
            let _ = options.put(code, value);
        };
        put(code::MESSAGE_TYPE, &[self.kind as u8]);
        put(code::CLIENT_IDENTIFIER, &client_identifier(mac));
        if let Some(wanted) = self.wanted {
            put(code::REQUESTED_ADDRESS, &wanted.octets());
        }
        if let Some(server) = self.server {
            put(code::SERVER_IDENTIFIER, &server.octets());
        }
        // RFC 2131 table 5: of these a release has none.
        if self.kind != MessageType::Release {
            put(code::MESSAGE_LEN_MAX, &u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes());
            put(code::PARAMETERS, &PARAMETERS);
            if !host_name.is_empty() {
                put(code::HOST_NAME, host_name.as_bytes());
            }
        }
        let len = dhcp::HEADER_LEN + options.end();
        bytes.truncate(len.max(dhcp::MESSAGE_LEN_MIN));
        bytes
    }

    /// The whole packet, routed.
    pub(super) fn packet(&self, interface: InterfaceIndex, mac: Mac, mtu: u32, host_name: &str, cx: &Context<'_>) -> Frame {
        let message = self.message(mac, mtu, host_name);
        let (src, dst) = (self.own.unwrap_or(Ipv4Addr::UNSPECIFIED), self.to.unwrap_or(Ipv4Addr::BROADCAST));
        let length = (udp::LEN + message.len()) as u16;
        let mut frame = Frame::egress();
        frame.extend(&message);
        let mut header = udp::Header { src_port: CLIENT_PORT, dst_port: SERVER_PORT, length, checksum: 0 };
        header.emit(frame.push(udp::LEN));
        let pseudo = checksum::pseudo_v4(src, dst, Protocol::UDP.0, u32::from(length));
        header.checksum = frame.chunks().fold(pseudo, checksum::Sum::add_bytes).finish_udp();
        header.emit(&mut frame.head_mut()[..udp::LEN]);
        let total_len = ipv4::HEADER_LEN as u16 + length;
        ipv4::Header { total_len, protocol: Protocol::UDP, src, dst, ..ipv4::Header::default() }.emit(frame.push(ipv4::HEADER_LEN));
        let network_at = frame.position();
        let meta = frame.meta_mut();
        meta.interface = interface;
        meta.ether_type = EtherType::IPV4;
        (meta.src, meta.dst, meta.next_hop) = (src.into(), dst.into(), Some(next_hop(interface, self.own, dst, cx)));
        (meta.protocol, meta.ttl) = (Protocol::UDP, ipv4::Header::default().ttl);
        (meta.src_port, meta.dst_port) = (CLIENT_PORT, SERVER_PORT);
        meta.network_at = network_at;
        meta.transport_at = network_at + ipv4::HEADER_LEN as u16;
        frame
    }
}

/// A server need not be on the link: a relay may have asked it.
fn next_hop(interface: InterfaceIndex, own: Option<Ipv4Addr>, to: Ipv4Addr, cx: &Context<'_>) -> std::net::IpAddr {
    if to.is_broadcast() {
        return to.into();
    }
    let query = Query::Route {
        destination: to.into(),
        source: own.map(Into::into),
        interface: Some(interface),
        traffic: weft_core::table::Traffic::default(),
    };
    cx.route(&query, weft_core::table::Family::V4).map_or(to.into(), |answer| answer.next_hop)
}

/// What may be told as the name of this host: RFC 2132 §3.14, by the rules of RFC 1035 for one label.
pub fn is_host_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    text.len() <= HOST_NAME_BYTES_MAX && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}
