//! Translates addresses and ports, so that hosts behind a router share one address (RFC 3022: NAPT).
//!
//! It has two ways through, as Linux has hooks before and behind routing: what leaves is translated when routing is done, what arrives before it begins. So the
//! node's own errors about forwarded packets quote what their senders sent, and the node's own connections share the address with those of the
//! hosts. Rejected: translating everything where it comes in. Before routing nobody knows what will leave outside, and errors about a
//! packet that was translated already would be sent to the node itself.
//!
//! A mapping belongs to one end inside, one outside, and a protocol, as Linux's conntrack has it (RFC 4787: address- and port-dependent mapping and filtering). It keeps
//! the port of the end inside where that is free.

mod mappings;
mod packet;

use crate::counted;
use crate::facts::FactsCache;
use mappings::{Mappings, Timeouts};
use packet::{Flow, Found, Local, Packet, find};
use std::any::Any;
use std::net::{Ipv4Addr, SocketAddr};
use weft_core::*;

const TO_NODE: OutPort = OutPort(0);
const TO_WIRE: OutPort = OutPort(1);
const FROM_WIRE: InPort = InPort(0);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "nat",
    summary: "translates addresses and ports, so that hosts behind a router share one address (IPv4)",
    doc: "Stands in both edges between interfaces and ether of a router. What leaves through the interface `outside` gets `address` as its source and a port \
          that is free: its own, or a random one between port_min and port_max. What arrives there for the address is for the end that the port belongs to; \
          without a mapping it is dropped (filtered), and so is everything else that arrives there, but for groups and broadcasts: nothing comes in that nobody \
          asked for. TCP, UDP, echo requests, and the packets that ICMP errors quote. A mapping is of one pair of ends; a used one stays for the time of its \
          kind. What leaves and finds no place or port is dropped (table-full), and so are fragments and other protocols (filtered), unless the node itself \
          sends them. Without outside or address everything passes. IPv6 and ARP pass as they are. Its state is the mappings.\n\
          Standards: RFC 3022 (NAPT); RFC 4787, 5382, 5508 (timeouts, errors; mapping and filtering are address- and port-dependent).\n\
          Example: insert nat:from_wire interfaces:upper ether:lower; insert nat:from_node ether:lower interfaces:upper; set nat.outside eth1; set nat.address \
          192.0.2.1",
    inputs: &[
        Port::optional("from_wire", Carries::Ethernet, "frames that arrive, of any interface"),
        Port::optional("from_node", Carries::Ethernet, "frames that leave, of any interface"),
    ],
    outputs: &[
        Port::optional("to_node", Carries::Ethernet, "frames that arrive, for whom they are inside"),
        Port::optional("to_wire", Carries::Ethernet, "frames that leave, with the address outside"),
    ],
    parameters: &[
        Parameter {
            name: "outside",
            value: ParameterType::Text,
            default: "\"\"",
            live: true,
            doc: "name of the interface behind which the others are; another one ends all mappings",
        },
        Parameter {
            name: "address",
            value: ParameterType::Text,
            default: "\"\"",
            live: true,
            doc: "IPv4 address that is shared, one of the interface's; another one ends all mappings",
        },
        Parameter {
            name: "port_min",
            value: ParameterType::Unsigned { min: 1, max: 65_535 },
            default: "49152",
            live: true,
            doc: "first port that is given out where an end's own is taken",
        },
        Parameter {
            name: "port_max",
            value: ParameterType::Unsigned { min: 1, max: 65_535 },
            default: "65535",
            live: true,
            doc: "last one; below port_min it counts as port_min",
        },
        Parameter {
            name: "established_timeout",
            value: ParameterType::Duration,
            default: "\"7440s\"",
            live: true,
            doc: "for a TCP connection after its handshake (RFC 5382 REQ-5: 2 hours 4 minutes at least)",
        },
        Parameter {
            name: "transitory_timeout",
            value: ParameterType::Duration,
            default: "\"240s\"",
            live: true,
            doc: "for one that begins or has ended (RFC 5382 REQ-5: 4 minutes at least)",
        },
        Parameter {
            name: "udp_timeout",
            value: ParameterType::Duration,
            default: "\"300s\"",
            live: true,
            doc: "for UDP (RFC 4787 REQ-5: 5 minutes are recommended)",
        },
        Parameter {
            name: "icmp_timeout",
            value: ParameterType::Duration,
            default: "\"60s\"",
            live: true,
            doc: "for echo requests (RFC 5508 REQ-1: 60 s at least)",
        },
        Parameter {
            name: "mappings_max",
            value: ParameterType::Unsigned { min: 1, max: 1_000_000 },
            default: "4096",
            live: true,
            doc: "most mappings",
        },
    ],
    counters: &[
        Counter { name: "Passed", text: "frames that are not its affair" },
        Counter { name: "Out", text: "packets that left translated" },
        Counter { name: "In", text: "packets that arrived and were translated" },
        Counter { name: "Errors", text: "of both, ICMP errors" },
        Counter { name: "Mappings", text: "mappings made" },
        Counter { name: "Refused", text: "packets that arrived without a mapping, dropped" },
        Counter { name: "Unsupported", text: "fragments, malformed packets and those of other protocols, dropped" },
        Counter { name: "NoPlace", text: "packets that left and found no place or port, dropped" },
    ],
    asks: &[Table::Interfaces],
    in_pairs: true,
    state_version: 1,
    ..Kind::EMPTY
};

const PASSED: usize = 0;
const OUT: usize = 1;
const IN: usize = 2;
const ERRORS: usize = 3;
const MAPPINGS: usize = 4;
const REFUSED: usize = 5;
const UNSUPPORTED: usize = 6;
const NO_PLACE: usize = 7;

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        Ok(Box::new(Nat {
            name: config.name.clone(),
            outside: config.text("outside"),
            address: read_address(&config.text("address")).map_err(|why| config.bad("address", why))?,
            ports: [config.u64("port_min") as u16, config.u64("port_max") as u16],
            timeouts: Timeouts {
                established: config.duration("established_timeout"),
                transitory: config.duration("transitory_timeout"),
                udp: config.duration("udp_timeout"),
                icmp: config.duration("icmp_timeout"),
            },
            rng: config.rng.clone(),
            mappings: Mappings::new(config.u64("mappings_max")),
            facts: FactsCache::default(),
            counters: [0; 8],
        }))
    },
};

fn read_address(text: &str) -> Result<Option<Ipv4Addr>, String> {
    match text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("'{text}' is no IPv4 address such as \"192.0.2.1\"")),
    }
}

/// The block.
#[derive(Debug)]
pub struct Nat {
    name: String,
    outside: String,
    address: Option<Ipv4Addr>,
    /// First and last.
    ports: [u16; 2],
    timeouts: Timeouts,
    rng: Rng,
    mappings: Mappings,
    facts: FactsCache,
    counters: [u64; 8],
}

/// For many: nobody's in particular.
fn is_for_many(packet: &Packet) -> bool {
    packet.dst.is_multicast() || packet.dst.is_broadcast()
}

impl Nat {
    fn drop(&mut self, counter: usize, reason: Reason) -> Verdict {
        self.counters[counter] += 1;
        Verdict::Drop(reason)
    }

    /// What is to be translated in a frame of the interface outside; a verdict on all else.
    fn look(&mut self, frame: &mut Frame, passes: Verdict, cx: &Context<'_>) -> Result<(Packet, Ipv4Addr), Verdict> {
        let facts = self.facts.get(frame.meta().interface, cx).filter(|facts| *facts.name == *self.outside);
        let (Some(link), Some(address)) = (facts.map(|facts| facts.link), self.address) else {
            self.counters[PASSED] += 1;
            return Err(passes);
        };
        match find(frame, link) {
            Found::Malformed => Err(self.drop(UNSUPPORTED, Reason::BadPacket)),
            Found::Packet(packet) if !is_for_many(&packet) => Ok((packet, address)),
            Found::NotIpv4 | Found::Packet(_) => {
                self.counters[PASSED] += 1;
                Err(passes)
            }
        }
    }

    fn leaving(&mut self, frame: &mut Frame, cx: &Context<'_>) -> Verdict {
        let passes = Verdict::Forward(TO_WIRE);
        let (packet, address) = match self.look(frame, passes, cx) {
            Ok(found) => found,
            Err(verdict) => return verdict,
        };
        let flow = if packet.fragment { None } else { packet.flow(frame.head(), Local::Source) };
        if let Some(flow) = flow {
            let flags = packet.tcp_flags(frame.head());
            let Some(port) = self.mappings.port(&flow, cx.now).or_else(|| self.open(&flow, cx.now)) else {
                return self.drop(NO_PLACE, Reason::TableFull);
            };
            self.mappings.used(&flow, port, flags, false, &self.timeouts, cx.now);
            packet.rewrite(frame, Local::Source, &flow, (address, port).into());
            self.counters[OUT] += 1;
            return passes;
        }
        let quote = if packet.fragment { None } else { packet.quote(frame) };
        let about = quote.and_then(|quote| Some((quote, quote.flow(frame.head(), Local::Source.quoted())?)));
        if let Some((quote, flow, port)) = about.and_then(|(quote, flow)| Some((quote, flow, self.mappings.port(&flow, cx.now)?))) {
            packet.rewrite_quote(frame, &quote, Local::Source.quoted(), &flow, (address, port).into());
            packet.rewrite_address(frame, Local::Source, address);
            self.counters[OUT] += 1;
            self.counters[ERRORS] += 1;
            return passes;
        }
        // What the node itself says needs no translation.
        if packet.src == address {
            self.counters[PASSED] += 1;
            return passes;
        }
        self.drop(UNSUPPORTED, Reason::Filtered)
    }

    fn open(&mut self, flow: &Flow, now: Instant) -> Option<u16> {
        let [first, last] = self.ports;
        let port = self.mappings.open(flow, &(first..=last.max(first)), &mut self.rng, now)?;
        self.counters[MAPPINGS] += 1;
        Some(port)
    }

    fn arriving(&mut self, frame: &mut Frame, cx: &Context<'_>) -> Verdict {
        let passes = Verdict::Forward(TO_NODE);
        let (packet, address) = match self.look(frame, passes, cx) {
            Ok(found) => found,
            Err(verdict) => return verdict,
        };
        if packet.fragment {
            return self.drop(UNSUPPORTED, Reason::Filtered);
        }
        if packet.dst != address {
            return self.drop(REFUSED, Reason::Filtered);
        }
        let found = |mappings: &Mappings, flow: Flow| mappings.inside(&flow, cx.now).map(|inside| (flow, inside));
        if let Some((flow, inside)) = packet.flow(frame.head(), Local::Destination).and_then(|flow| found(&self.mappings, flow)) {
            let flags = packet.tcp_flags(frame.head());
            self.mappings.used(&flow, flow.local.port(), flags, true, &self.timeouts, cx.now);
            packet.rewrite(frame, Local::Destination, &flow, inside);
            self.counters[IN] += 1;
            return passes;
        }
        // RFC 5508 REQ-5: an error does not keep a mapping.
        if let Some(quote) = packet.quote(frame)
            && let Some((flow, inside)) = quote.flow(frame.head(), Local::Destination.quoted()).and_then(|flow| found(&self.mappings, flow))
            && let (true, SocketAddr::V4(host)) = (quote.src == address, inside)
        {
            packet.rewrite_quote(frame, &quote, Local::Destination.quoted(), &flow, inside);
            packet.rewrite_address(frame, Local::Destination, *host.ip());
            self.counters[IN] += 1;
            self.counters[ERRORS] += 1;
            return passes;
        }
        self.drop(REFUSED, Reason::Filtered)
    }
}

impl Block for Nat {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        vector.each(|frame| if port == FROM_WIRE { self.arriving(frame, cx) } else { self.leaving(frame, cx) });
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Interfaces {
            self.facts.refresh(cx);
        }
    }

    fn row_changed(&mut self, table: Table, row: Row, cx: &mut Context<'_>) {
        match row {
            Row::Interface(index) if table == Table::Interfaces => {
                self.facts.refresh_one(index, cx);
            }
            _ => self.table_changed(table, cx),
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        let nanos = |time: Duration| Value::from(time.as_nanos() as u64);
        Some(match name {
            "outside" => self.outside.clone().into(),
            "address" => self.address.map(|address| address.to_string()).unwrap_or_default().into(),
            "port_min" => self.ports[0].into(),
            "port_max" => self.ports[1].into(),
            "established_timeout" => nanos(self.timeouts.established),
            "transitory_timeout" => nanos(self.timeouts.transitory),
            "udp_timeout" => nanos(self.timeouts.udp),
            "icmp_timeout" => nanos(self.timeouts.icmp),
            "mappings_max" => self.mappings.most().into(),
            "mappings" => self.mappings.len().into(),
            _ => return None,
        })
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        let bad = |why| ControlError::BadValue { block: self.name.clone(), parameter: name.to_owned(), why };
        match (name, value.as_str()) {
            ("address", Some(text)) => read_address(text).map(|_| ()).map_err(bad),
            _ => Ok(()),
        }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        match (name, value.as_str(), value.as_u64()) {
            ("outside", Some(text), _) if text != self.outside => {
                self.outside = text.to_owned();
                self.mappings.clear();
            }
            ("address", Some(text), _) => {
                let address = read_address(text).unwrap_or_default();
                if address != self.address {
                    self.address = address;
                    self.mappings.clear();
                }
            }
            ("port_min", _, Some(port)) => self.ports[0] = port as u16,
            ("port_max", _, Some(port)) => self.ports[1] = port as u16,
            ("established_timeout", _, Some(nanos)) => self.timeouts.established = Duration::from_nanos(nanos),
            ("transitory_timeout", _, Some(nanos)) => self.timeouts.transitory = Duration::from_nanos(nanos),
            ("udp_timeout", _, Some(nanos)) => self.timeouts.udp = Duration::from_nanos(nanos),
            ("icmp_timeout", _, Some(nanos)) => self.timeouts.icmp = Duration::from_nanos(nanos),
            ("mappings_max", _, Some(most)) => self.mappings.set_most(most),
            _ => {}
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(counted::export_with(&KIND, &self.counters, now, |out| {
            out.put(&self.rng);
            self.mappings.export(out);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let most = self.mappings.most();
        let read = |from: &mut state::Reader<'_>| Ok((from.take()?, Mappings::import(most, from)?));
        ((self.rng, self.mappings), self.counters) = counted::import_with(&KIND, state, now, read)?;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
