//! Ethernet II framing on and off. The one block that knows how an interface frames its packets.
//!
//! On Ethernet interfaces it takes the header off, notes both addresses and the EtherType in the metadata and sends the packet to the
//! port of its EtherType; on the way out it puts the header on, with the interface's own address as source. On interfaces that carry IP
//! without a header (`link = raw`) packets pass as they are, and the version nibble says what they are. Nothing is padded: the backend's
//! driver does that.
//!
//! It refuses frames for other stations (other-host), 802.1Q tags that name a VLAN (a tag with VLAN 0 only carries a priority and is taken
//! off), 802.3 frames with a length field, and EtherTypes that no port leads to.

use crate::facts::FactsCache;
use std::any::Any;
use weft_core::table::LinkType;
use weft_core::*;
use weft_wire::ethernet::{EtherType, HEADER_LEN, Header, Mac, TAGGED_HEADER_LEN};

const IN_LOWER: InPort = InPort(0);
const IN_FRAMES: InPort = InPort(2);
const OUT_LOWER: OutPort = OutPort(0);
const OUT_IP4: OutPort = OutPort(1);
const OUT_IP6: OutPort = OutPort(2);
const OUT_ARP: OutPort = OutPort(3);
const OUT_OTHER: OutPort = OutPort(4);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "ether",
    summary: "Ethernet II header on and off, demultiplexing by EtherType",
    doc: "Takes the Ethernet header off received frames and sends each to the port of its EtherType; puts it on frames to send, with the \
          interface's own address as source. Interfaces with link raw carry IP packets without header: those pass unchanged. Frames for other \
          stations are dropped (other-host), as are VLAN tags other than 0 and 802.3 length fields (unknown-ether-type).\n\
          Standards: RFC 894, IEEE 802.3 (types only), IEEE 802.1Q (priority tags only).\n\
          Example: bind ether:ip4 ip4:lower",
    inputs: &[
        Port::required("lower", Carries::Ethernet, "received frames"),
        Port::required("upper", Carries::Link, "packets to send, with dst_mac and interface"),
        Port::optional("frames", Carries::Ethernet, "frames to send that have their header already, from packet sockets"),
    ],
    outputs: &[
        Port::required("lower", Carries::Ethernet, "frames to send"),
        Port::optional("ip4", Carries::Link, "received IPv4 packets"),
        Port::optional("ip6", Carries::Link, "received IPv6 packets"),
        Port::optional("arp", Carries::Link, "received ARP packets"),
        Port::optional("other", Carries::Link, "received packets of other EtherTypes, and of those above without an edge"),
    ],
    counters: &[
        Counter { name: "InFrames", text: "frames whose payload was passed up" },
        Counter { name: "OutFrames", text: "frames sent" },
        Counter { name: "InOtherHost", text: "frames for other stations" },
        Counter { name: "InUnknown", text: "frames with a VLAN, a length or an EtherType that nobody takes" },
        Counter { name: "InErrors", text: "frames shorter than their header" },
    ],
    asks: &[Table::Interfaces],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |_| Ok(Box::new(Ether::default())) };

/// The block.
#[derive(Debug, Default)]
pub struct Ether {
    facts: FactsCache,
    bound: [bool; 5],
    counters: [u64; 5],
}

impl Ether {
    fn receive(&mut self, frame: &mut Frame, cx: &Context<'_>) -> Verdict {
        let index = frame.meta().interface;
        let Some(facts) = self.facts.get(index, cx) else { return Verdict::Drop(Reason::UnknownInterface) };
        let (own, link) = (facts.mac, facts.link);
        if link != LinkType::Ethernet {
            return self.receive_raw(frame);
        }
        if frame.head().len() < TAGGED_HEADER_LEN {
            // Cannot fail: never more than the frame has.
            let _ = frame.pull_up(frame.len().min(TAGGED_HEADER_LEN));
        }
        let Ok((header, header_len)) = Header::parse(frame.head()) else {
            self.counters[4] += 1;
            return Verdict::Drop(Reason::Truncated);
        };
        if header.dst != own && !header.dst.is_multicast() {
            self.counters[2] += 1;
            return Verdict::Drop(Reason::OtherHost);
        }
        // IEEE 802.1Q: the null VLAN ID "indicates that the tag header contains only priority information".
        if header.vlan.is_some_and(|vlan| vlan.id != 0) || header.ether_type.is_length() {
            self.counters[3] += 1;
            return Verdict::Drop(Reason::UnknownEtherType);
        }
        if frame.pull(header_len).is_err() {
            return Verdict::Drop(Reason::Truncated);
        }
        let meta = frame.meta_mut();
        meta.src_mac = header.src;
        meta.dst_mac = header.dst;
        meta.ether_type = header.ether_type;
        self.up(header.ether_type)
    }

    fn receive_raw(&mut self, frame: &mut Frame) -> Verdict {
        if frame.head().is_empty() {
            let _ = frame.pull_up(frame.len().min(1));
        }
        let ether_type = match frame.head().first().map(|byte| byte >> 4) {
            Some(4) => EtherType::IPV4,
            Some(6) => EtherType::IPV6,
            Some(_) => {
                self.counters[3] += 1;
                return Verdict::Drop(Reason::BadVersion);
            }
            None => {
                self.counters[4] += 1;
                return Verdict::Drop(Reason::Truncated);
            }
        };
        let meta = frame.meta_mut();
        meta.src_mac = Mac::ZERO;
        meta.dst_mac = Mac::ZERO;
        meta.ether_type = ether_type;
        self.up(ether_type)
    }

    #[inline]
    fn up(&mut self, ether_type: EtherType) -> Verdict {
        let port = match ether_type {
            EtherType::IPV4 => OUT_IP4,
            EtherType::IPV6 => OUT_IP6,
            EtherType::ARP => OUT_ARP,
            _ => OUT_OTHER,
        };
        let port = if self.bound[usize::from(port.0)] { port } else { OUT_OTHER };
        if !self.bound[usize::from(port.0)] {
            self.counters[3] += 1;
            return Verdict::Drop(Reason::UnknownEtherType);
        }
        self.counters[0] += 1;
        Verdict::Forward(port)
    }

    fn send(&mut self, frame: &mut Frame, cx: &Context<'_>) -> Verdict {
        let Some(facts) = self.facts.get(frame.meta().interface, cx) else { return Verdict::Drop(Reason::UnknownInterface) };
        let (src, link) = (facts.mac, facts.link);
        match link {
            LinkType::Ethernet => {
                let header = Header { dst: frame.meta().dst_mac, src, vlan: None, ether_type: frame.meta().ether_type };
                frame.meta_mut().src_mac = src;
                header.emit(frame.push(HEADER_LEN));
            }
            LinkType::Raw if frame.meta().ether_type != EtherType::ARP => {}
            LinkType::Raw | LinkType::Loopback => return Verdict::Drop(Reason::UnknownInterface),
        }
        self.counters[1] += 1;
        Verdict::Forward(OUT_LOWER)
    }
}

impl Block for Ether {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        match port {
            IN_LOWER => vector.each(|frame| self.receive(frame, cx)),
            IN_FRAMES => {
                self.counters[1] += vector.len() as u64;
                vector.forward_all(OUT_LOWER);
            }
            _ => vector.each(|frame| self.send(frame, cx)),
        }
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        for (port, bound) in self.bound.iter_mut().enumerate() {
            *bound = cx.is_bound(OutPort(port as u8));
        }
        self.facts.refresh(cx);
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Interfaces {
            self.facts.refresh(cx);
        }
    }

    fn row_changed(&mut self, _table: Table, row: Row, cx: &mut Context<'_>) {
        if let Row::Interface(interface) = row {
            self.facts.refresh_one(interface, cx);
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(crate::counted::export(&KIND, &self.counters, now))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        self.counters = crate::counted::import(&KIND, state, now)?;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
