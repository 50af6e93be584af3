//! Extension headers that a program gives for the packets it sends (RFC 3542 §8, §9): whole headers as bytes, of which only the field that
//! names the next header is filled in when they are put into a packet.

use std::net::Ipv6Addr;
use weft_wire::Protocol;

/// Longest header, bytes: the length field counts units of eight, without the first.
pub const HEADER_BYTES_MAX: usize = 8 * 256;
/// Routing headers hold 16-byte addresses behind their first 8 bytes.
const ROUTING_FIXED_BYTES: usize = 8;
/// Segment routing (RFC 8754 §2).
const TYPE_SEGMENTS: u8 = 4;

/// Which header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Hop-by-hop options.
    HopByHop,
    /// Destination options in front of a routing header.
    BeforeRouting,
    /// Routing header.
    Routing,
    /// Destination options for the destination alone.
    Destination,
}

/// The headers of packets, each empty or a multiple of eight bytes long.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Attached {
    parts: [Vec<u8>; 4],
}

impl Attached {
    /// A header; empty: none.
    pub fn get(&self, part: Part) -> &[u8] {
        &self.parts[part as usize]
    }

    /// Sets a header, or takes it away (no bytes). `false`: its length field does not fit its length, or there are more than 2048 bytes. What is
    /// behind the length that the header says is left out.
    pub fn set(&mut self, part: Part, header: &[u8]) -> bool {
        let length = match header {
            [] => 0,
            [_, units, ..] => (usize::from(*units) + 1) * 8,
            [_] => return false,
        };
        if length > header.len() || header.len() > HEADER_BYTES_MAX {
            return false;
        }
        self.parts[part as usize] = header[..length].to_vec();
        true
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(Vec::is_empty)
    }

    /// Bytes in each fragment. Destination options in front of a routing header need one (RFC 3542 §9.2; ipv6_fixup_options).
    pub fn unfragmentable_len(&self) -> usize {
        self.unfragmentable().map(|(_, header)| header.len()).sum()
    }

    /// Bytes of all headers.
    pub fn len(&self) -> usize {
        self.unfragmentable_len() + self.get(Part::Destination).len()
    }

    /// The headers of the unfragmentable part, in their order.
    fn unfragmentable(&self) -> impl DoubleEndedIterator<Item = (Protocol, &[u8])> {
        let routed = !self.get(Part::Routing).is_empty();
        let before = if routed { self.get(Part::BeforeRouting) } else { &[] };
        let all = [
            (Protocol::HOP_BY_HOP, self.get(Part::HopByHop)),
            (Protocol::DESTINATION_OPTIONS, before),
            (Protocol::ROUTING, self.get(Part::Routing)),
        ];
        all.into_iter().filter(|(_, header)| !header.is_empty())
    }

    /// Where packets are sent instead of their destination: the segment that the routing header says is next. Segments lie back to front.
    pub fn first_hop(&self) -> Option<Ipv6Addr> {
        let header = self.get(Part::Routing);
        let at = ROUTING_FIXED_BYTES + usize::from(*header.get(3)?) * 16;
        Some(Ipv6Addr::from(*header.get(at..)?.first_chunk::<16>()?))
    }

    /// The bytes of the unfragmentable part of a packet to `destination`, in front of a header of this kind, and what it begins with.
    pub fn unfragmentable_bytes(&self, destination: Ipv6Addr, next: Protocol) -> (Vec<u8>, Protocol) {
        let (mut out, mut next) = (Vec::new(), next);
        for (protocol, header) in self.unfragmentable().rev() {
            let mut header = header.to_vec();
            if protocol == Protocol::ROUTING {
                // RFC 8754 §4.1, ipv6_push_rthdr4: the last segment, which lies first, is the destination.
                if let Some(last) = header.get_mut(ROUTING_FIXED_BYTES..ROUTING_FIXED_BYTES + 16) {
                    last.copy_from_slice(&destination.octets());
                }
            }
            header[0] = next.0;
            next = protocol;
            header.append(&mut out);
            out = header;
        }
        (out, next)
    }

    /// The same of the destination options, which are cut with what follows them.
    pub fn fragmentable_bytes(&self, next: Protocol) -> (Vec<u8>, Protocol) {
        let mut header = self.get(Part::Destination).to_vec();
        match header.first_mut() {
            None => (header, next),
            Some(field) => {
                *field = next.0;
                (header, Protocol::DESTINATION_OPTIONS)
            }
        }
    }
}

/// Is this a routing header that may be sent? Segment routing as seg6_validate_srh has it, without TLVs; type 0 is deprecated (RFC 5095), and type 2
/// is Mobile IPv6's, which Linux may be built without.
pub fn is_routing_allowed(header: &[u8]) -> bool {
    let &[_, units, TYPE_SEGMENTS, left, first, ..] = header else { return false };
    let whole = ROUTING_FIXED_BYTES + (usize::from(first) + 1) * 16;
    left <= first && header.len() == whole && (usize::from(units) + 1) * 8 == whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_what_follows_them() {
        let mut all = Attached::default();
        assert!(all.set(Part::HopByHop, &[9, 0, 1, 4, 0, 0, 0, 0]));
        assert!(all.set(Part::Destination, &[9, 0, 1, 4, 0, 0, 0, 0, 7, 7]), "what is behind the header is left out");
        assert!(all.set(Part::BeforeRouting, &[9, 0, 1, 4, 0, 0, 0, 0]));
        assert!(!all.set(Part::Destination, &[9, 1, 1, 4, 0, 0, 0, 0]) && !all.set(Part::HopByHop, &[9]));
        assert_eq!((all.len(), all.unfragmentable_len()), (16, 8), "nothing in front of a routing header that is not there");
        let to = Ipv6Addr::LOCALHOST;
        let (tail, next) = all.fragmentable_bytes(Protocol::UDP);
        assert_eq!((tail.as_slice(), next), (&[17, 0, 1, 4, 0, 0, 0, 0][..], Protocol::DESTINATION_OPTIONS));
        assert_eq!(all.unfragmentable_bytes(to, next), (vec![60, 0, 1, 4, 0, 0, 0, 0], Protocol::HOP_BY_HOP));
        let hop: Ipv6Addr = "2001:db8::7".parse().unwrap();
        let routing = [&[9, 4, 4, 1, 1, 0, 0, 0][..], &[0; 16], &hop.octets()].concat();
        assert!(is_routing_allowed(&routing) && !is_routing_allowed(&routing[..24]) && all.set(Part::Routing, &routing));
        assert_eq!((all.len(), all.first_hop()), (64, Some(hop)));
        let (bytes, next) = all.unfragmentable_bytes(to, Protocol::TCP);
        assert_eq!((bytes.len(), next, bytes[0], bytes[8], bytes[16]), (56, Protocol::HOP_BY_HOP, 60, 43, 6));
        assert_eq!((&bytes[24..40], &bytes[40..]), (&to.octets()[..], &hop.octets()[..]));
    }
}
