//! An expression asked about a frame.

use super::tree::{Addresses, Base, Ends, Framing, Operation, Ports, Prefix, Relation, Sum, Test, Way};
use crate::bpf::load;
use crate::frame::{Direction, Frame, InterfaceIndex};
use std::net::IpAddr;

const IPV4: u32 = 0x0800;
const ARP: u32 = 0x0806;
const RARP: u32 = 0x8035;
const IPV6: u32 = 0x86dd;
/// Bytes of an IPv6 header.
const IPV6_BYTES: u32 = 40;
/// IPv6 next header: a fragment's.
const FRAGMENT: u32 = 44;
const SCTP: u8 = 132;
const TCP: u8 = 6;
const UDP: u8 = 17;

pub(super) struct Run<'a> {
    pub frame: &'a Frame,
    pub framing: Framing,
    pub group_of: &'a mut dyn FnMut(InterfaceIndex) -> Option<u32>,
}

/// `None`: a load beyond the end, which rejects the frame whatever else holds.
type Answer = Option<bool>;

impl Run<'_> {
    pub(super) fn test(&mut self, test: &Test) -> Answer {
        Some(match test {
            Test::And(left, right) => self.test(left)? && self.test(right)?,
            Test::Or(left, right) => self.test(left)? || self.test(right)?,
            Test::Not(test) => !self.test(test)?,
            Test::Never => false,
            Test::EtherType(number) => self.is(u32::from(*number))?,
            Test::Protocol { v4, v6, number } => {
                *v4 && self.is(IPV4)? && self.network(9, 1)? == u32::from(*number) || *v6 && self.is(IPV6)? && self.next_header(*number)?
            }
            Test::Address(addresses, ends, prefix) => self.address(*addresses, *ends, *prefix)?,
            Test::Port { protocols, ends, low, high } => self.port(*protocols, *ends, (*low, *high))?,
            Test::Mac(ends, mac) => self.ends(*ends, |run, source| {
                let at = if source { 6 } else { 0 };
                let [a, b, c, d, e, f] = *mac;
                Some(run.load(at + 2, 4)? == u32::from_be_bytes([c, d, e, f]) && run.load(at, 2)? == u32::from_be_bytes([0, 0, a, b]))
            })?,
            Test::LengthAtMost(bytes) => self.frame.len() as u64 <= u64::from(*bytes),
            Test::LengthAtLeast(bytes) => self.frame.len() as u64 >= u64::from(*bytes),
            // RFC 2474 §3: the six upper bits of the byte that was TOS and Traffic Class.
            Test::Dscp(point) => {
                self.is(IPV4)? && self.network(1, 1)? >> 2 == u32::from(*point)
                    || self.is(IPV6)? && self.network(0, 2)? >> 6 & 0x3f == u32::from(*point)
            }
            Test::Group(way, number) => self.group(*way) == Some(*number),
            Test::Compare { needs, how, left, right } => {
                for need in needs {
                    if !self.test(need)? {
                        return Some(false);
                    }
                }
                let (left, right) = (self.sum(left)?, self.sum(right)?);
                match how {
                    Relation::Equal => left == right,
                    Relation::NotEqual => left != right,
                    Relation::Greater => left > right,
                    Relation::GreaterOrEqual => left >= right,
                    Relation::Less => left < right,
                    Relation::LessOrEqual => left <= right,
                }
            }
        })
    }

    fn load(&self, at: u32, bytes: u8) -> Option<u32> {
        load(self.frame, at, bytes)
    }

    fn network(&self, at: u32, bytes: u8) -> Option<u32> {
        self.load(self.framing.network_at() + at, bytes)
    }

    /// Is this what the frame holds? Without an Ethernet header the version of IP tells.
    fn is(&self, ether_type: u32) -> Answer {
        Some(match (self.framing, ether_type) {
            (Framing::Ethernet, _) => self.load(12, 2)? == ether_type,
            (Framing::Ip, IPV4) => self.load(0, 1)? >> 4 == 4,
            (Framing::Ip, IPV6) => self.load(0, 1)? >> 4 == 6,
            (Framing::Ip, _) => false,
        })
    }

    /// libpcap looks behind a fragment header, and behind no other.
    fn next_header(&self, number: u8) -> Answer {
        let next = self.network(6, 1)?;
        Some(next == u32::from(number) || next == FRAGMENT && self.network(IPV6_BYTES, 1)? == u32::from(number))
    }

    fn ends(&self, ends: Ends, holds: impl Fn(&Self, bool) -> Answer) -> Answer {
        Some(match ends {
            Ends::Source => holds(self, true)?,
            Ends::Destination => holds(self, false)?,
            Ends::Either => holds(self, true)? || holds(self, false)?,
            Ends::Both => holds(self, true)? && holds(self, false)?,
        })
    }

    fn address(&self, addresses: Addresses, ends: Ends, prefix: Prefix) -> Answer {
        let v4 = match prefix.address {
            IpAddr::V4(address) => u32::from(address),
            IpAddr::V6(address) => {
                return Some(self.is(IPV6)? && self.ends(ends, |run, source| run.address_v6(source, u128::from(address), prefix.mask))?);
            }
        };
        let mask = prefix.mask as u32;
        // Where the source's lies, and the destination's.
        let at = |ether_type: u32| if ether_type == IPV4 { [12, 16] } else { [14, 24] };
        let types: &[u32] = match addresses {
            Addresses::All => &[IPV4, ARP, RARP],
            Addresses::Ip => &[IPV4],
            Addresses::Arp => &[ARP],
            Addresses::Rarp => &[RARP],
        };
        for ether_type in types {
            let [source_at, destination_at] = at(*ether_type);
            let holds = |run: &Self, source: bool| Some(run.network(if source { source_at } else { destination_at }, 4)? & mask == v4);
            if self.is(*ether_type)? && self.ends(ends, holds)? {
                return Some(true);
            }
        }
        Some(false)
    }

    fn address_v6(&self, source: bool, address: u128, mask: u128) -> Answer {
        let at = if source { 8 } else { 24 };
        for word in 0..4_u32 {
            let (wanted, mask) = ((address >> (96 - 32 * word)) as u32, (mask >> (96 - 32 * word)) as u32);
            if mask != 0 && self.network(at + 4 * word, 4)? & mask != wanted {
                return Some(false);
            }
        }
        Some(true)
    }

    fn port(&self, protocols: Ports, ends: Ends, (low, high): (u16, u16)) -> Answer {
        let fits = |number: u32| match protocols {
            Ports::All => [TCP, UDP, SCTP].iter().any(|one| u32::from(*one) == number),
            Ports::Of(one) => u32::from(one) == number,
        };
        let within = |port: u32| (u32::from(low)..=u32::from(high)).contains(&port);
        if self.is(IPV4)? && fits(self.network(9, 1)?) {
            // Of a packet in fragments only the first one has ports.
            let first = self.network(6, 2)? & 0x1fff == 0;
            return Some(
                first && self.ends(ends, |run, source| Some(within(run.network(run.header_bytes()? + if source { 0 } else { 2 }, 2)?)))?,
            );
        }
        if self.is(IPV6)? && fits(self.network(6, 1)?) {
            return self.ends(ends, |run, source| Some(within(run.network(IPV6_BYTES + if source { 0 } else { 2 }, 2)?)));
        }
        Some(false)
    }

    /// Of an IPv4 header.
    fn header_bytes(&self) -> Option<u32> {
        Some((self.network(0, 1)? & 0xf) << 2)
    }

    fn group(&mut self, way: Way) -> Option<u32> {
        let meta = self.frame.meta();
        let fits = match way {
            Way::Either => true,
            Way::In => meta.direction == Direction::Ingress,
            Way::Out => meta.direction == Direction::Egress,
        };
        if fits && meta.interface != InterfaceIndex::NONE { (self.group_of)(meta.interface) } else { None }
    }

    fn sum(&self, sum: &Sum) -> Option<u32> {
        Some(match sum {
            Sum::Number(number) => *number,
            Sum::Length => self.frame.len() as u32,
            Sum::Load { base, at, bytes } => {
                let network = self.framing.network_at();
                let base = match base {
                    Base::Frame => 0,
                    Base::Network => network,
                    Base::Transport4 => network + self.header_bytes()?,
                    Base::Transport6 => network + IPV6_BYTES,
                };
                self.load(base.wrapping_add(self.sum(at)?), *bytes)?
            }
            Sum::Negative(sum) => self.sum(sum)?.wrapping_neg(),
            Sum::Two(operation, left, right) => {
                let (left, right) = (self.sum(left)?, self.sum(right)?);
                match operation {
                    Operation::Add => left.wrapping_add(right),
                    Operation::Subtract => left.wrapping_sub(right),
                    Operation::Multiply => left.wrapping_mul(right),
                    // As in BPF, a division by zero rejects the frame.
                    Operation::Divide => left.checked_div(right)?,
                    Operation::And => left & right,
                    Operation::Or => left | right,
                    Operation::ShiftLeft => left.wrapping_shl(right),
                    Operation::ShiftRight => left.wrapping_shr(right),
                }
            }
        })
    }
}
