//! The protocol number of IPv4 and the next header of IPv6.

/// A protocol number (IPv4's protocol field, IPv6's next header): what the
/// payload of an IP packet is. Numbers: IANA "Protocol Numbers".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 hop-by-hop options (RFC 8200 §4.3).
    pub const HOP_BY_HOP: Protocol = Protocol(0);
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: Protocol = Protocol(1);
    /// IGMP (RFC 3376).
    pub const IGMP: Protocol = Protocol(2);
    /// IPv4 in IP (RFC 2003).
    pub const IPV4: Protocol = Protocol(4);
    /// TCP (RFC 9293).
    pub const TCP: Protocol = Protocol(6);
    /// UDP (RFC 768).
    pub const UDP: Protocol = Protocol(17);
    /// IPv6 in IP (RFC 2473).
    pub const IPV6: Protocol = Protocol(41);
    /// IPv6 routing header (RFC 8200 §4.4).
    pub const ROUTING: Protocol = Protocol(43);
    /// IPv6 fragment header (RFC 8200 §4.5).
    pub const FRAGMENT: Protocol = Protocol(44);
    /// GRE (RFC 2784).
    pub const GRE: Protocol = Protocol(47);
    /// Encapsulating security payload (RFC 4303).
    pub const ESP: Protocol = Protocol(50);
    /// Authentication header (RFC 4302).
    pub const AH: Protocol = Protocol(51);
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: Protocol = Protocol(58);
    /// IPv6: nothing follows (RFC 8200 §4.7).
    pub const NO_NEXT_HEADER: Protocol = Protocol(59);
    /// IPv6 destination options (RFC 8200 §4.6).
    pub const DESTINATION_OPTIONS: Protocol = Protocol(60);
    /// SCTP (RFC 9260).
    pub const SCTP: Protocol = Protocol(132);
    /// UDP-Lite (RFC 3828).
    pub const UDPLITE: Protocol = Protocol(136);
    /// Reserved, "raw IP": Linux's IPPROTO_RAW.
    pub const RAW: Protocol = Protocol(255);

    /// The name /etc/protocols would print, where there is one.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Protocol::HOP_BY_HOP => "hopopt",
            Protocol::ICMP => "icmp",
            Protocol::IGMP => "igmp",
            Protocol::IPV4 => "ipencap",
            Protocol::TCP => "tcp",
            Protocol::UDP => "udp",
            Protocol::IPV6 => "ipv6",
            Protocol::ROUTING => "ipv6-route",
            Protocol::FRAGMENT => "ipv6-frag",
            Protocol::GRE => "gre",
            Protocol::ESP => "esp",
            Protocol::AH => "ah",
            Protocol::ICMPV6 => "ipv6-icmp",
            Protocol::NO_NEXT_HEADER => "ipv6-nonxt",
            Protocol::DESTINATION_OPTIONS => "ipv6-opts",
            Protocol::SCTP => "sctp",
            Protocol::UDPLITE => "udplite",
            _ => return None,
        })
    }
}

impl core::fmt::Display for Protocol {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl core::fmt::Debug for Protocol {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Protocol({self})")
    }
}

impl From<u8> for Protocol {
    fn from(number: u8) -> Protocol {
        Protocol(number)
    }
}

impl From<Protocol> for u8 {
    fn from(protocol: Protocol) -> u8 {
        protocol.0
    }
}
