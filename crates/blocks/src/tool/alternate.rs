//! Sends alternate packets left and right around a ring: a routing exercise without a change to IP.
//!
//! The same block is in examples/ring/ in C (WebAssembly or native) and in Python; docs/tutorial-ring.md walks through them.

use serde::{Deserialize, Serialize};
use std::any::Any;
use std::net::IpAddr;
use weft_core::*;
use weft_wire::ethernet::EtherType;

const fn way(name: &'static str, default: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, value: ParameterType::Text, default, live: true, doc }
}

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "alternate",
    summary: "sends alternate packets left and right",
    doc: "Stands after IP, where packets have a route already. Packets of this node's programs and packets that it forwards whose route leads to \
          the interface `left` or `right` go to both by turns, each through its gateway. Others pass as they are: those of the other family, those to \
          other interfaces, and all as long as an interface or gateway is missing. Whose turn it is survives a replacement.\n\
          Example: add ring alternate left_gateway=10.0.8.1 right_gateway=10.0.1.2; insert ring ip4:lower arp:upper",
    inputs: &[Port::required("in", Carries::Link, "packets from IP")],
    outputs: &[Port::required("out", Carries::Link, "the same packets")],
    parameters: &[
        way("left", "\"left\"", "the interface to the left"),
        way("left_gateway", "\"\"", "the neighbour there, an IP address"),
        way("right", "\"right\"", "the interface to the right"),
        way("right_gateway", "\"\"", "the neighbour there, of the same family"),
    ],
    counters: &[Counter { name: "Left", text: "packets sent left" }, Counter { name: "Right", text: "packets sent right" }],
    asks: &[Table::Interfaces],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let mut block = Alternate { name: config.name.clone(), ..Alternate::default() };
        for (side, (interface, gateway)) in [("left", "left_gateway"), ("right", "right_gateway")].into_iter().enumerate() {
            block.check(gateway, &config.value(gateway))?;
            block.ways[side] = Way { name: config.text(interface), gateway: config.text(gateway).parse().ok(), ..Way::default() };
        }
        Ok(Box::new(block))
    },
};

/// One of the two.
#[derive(Debug, Default)]
struct Way {
    name: String,
    interface: Option<InterfaceIndex>,
    gateway: Option<IpAddr>,
}

/// The block.
#[derive(Debug, Default)]
pub struct Alternate {
    name: String,
    ways: [Way; 2],
    /// Whose turn it is.
    next: u8,
    counters: [u64; 2],
}

#[derive(Serialize, Deserialize)]
struct Exported {
    next: u8,
    counters: [u64; 2],
}

impl Alternate {
    fn find_interfaces(&mut self, cx: &Context<'_>) {
        for way in &mut self.ways {
            way.interface = match cx.ask(Table::Interfaces, &Query::InterfaceNamed(way.name.clone())) {
                Answer::Interface(interface) => Some(interface.index),
                _ => None,
            };
        }
    }

    /// The family of packets that can go both ways; None: nothing can.
    fn family(&self) -> Option<EtherType> {
        match (self.ways[0].gateway?, self.ways[1].gateway?) {
            (IpAddr::V4(_), IpAddr::V4(_)) => Some(EtherType::IPV4),
            (IpAddr::V6(_), IpAddr::V6(_)) => Some(EtherType::IPV6),
            _ => None,
        }
    }
}

impl Block for Alternate {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.forward_all(OutPort(0));
        let (Some(family), [Some(left), Some(right)]) = (self.family(), [self.ways[0].interface, self.ways[1].interface]) else { return };
        for (_, frame) in vector.iter_mut() {
            let meta = frame.meta_mut();
            if meta.ether_type != family || meta.direction != Direction::Egress || ![left, right].contains(&meta.interface) {
                continue;
            }
            let side = usize::from(self.next);
            meta.interface = if side == 0 { left } else { right };
            meta.next_hop = self.ways[side].gateway;
            self.counters[side] += 1;
            self.next = 1 - self.next;
        }
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.find_interfaces(cx);
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Interfaces {
            self.find_interfaces(cx);
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        let [left, right] = &self.ways;
        let text = |gateway: Option<IpAddr>| gateway.map_or(String::new(), |address| address.to_string()).into();
        match name {
            "left" => Some(left.name.clone().into()),
            "left_gateway" => Some(text(left.gateway)),
            "right" => Some(right.name.clone().into()),
            "right_gateway" => Some(text(right.gateway)),
            _ => None,
        }
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        let text = value.as_str().unwrap_or_default();
        match name.ends_with("_gateway") && !text.is_empty() && text.parse::<IpAddr>().is_err() {
            true => Err(ControlError::BadValue {
                block: self.name.clone(),
                parameter: name.to_owned(),
                why: format!("'{text}' is no IP address such as \"10.0.0.1\""),
            }),
            false => Ok(()),
        }
    }

    fn set(&mut self, name: &str, value: Value, cx: &mut Context<'_>) {
        let way = &mut self.ways[usize::from(name.starts_with("right"))];
        let text = value.as_str().unwrap_or_default();
        match name.ends_with("_gateway") {
            true => way.gateway = text.parse().ok(),
            false => text.clone_into(&mut way.name),
        }
        self.find_interfaces(cx);
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, _now: Instant) -> Result<State, StateError> {
        State::write(KIND.name, KIND.state_version, &Exported { next: self.next, counters: self.counters })
    }

    fn import(&mut self, state: &State, _now: Instant) -> Result<(), StateError> {
        let Exported { next, counters } = state.read(KIND.name, KIND.state_version)?;
        if next > 1 {
            return Err(StateError::Damaged { kind: KIND.name.to_owned(), why: format!("it is the turn of {next}, of 0 and 1") });
        }
        (self.next, self.counters) = (next, counters);
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::Bench;
    use weft_core::table::{Interface, LinkType};

    /// Knows two interfaces.
    static OWNER: Kind = Kind { name: "owner", owns: &[Table::Interfaces], ..Kind::EMPTY };
    struct Owner;
    impl Block for Owner {
        fn kind(&self) -> &'static Kind {
            &OWNER
        }
        fn query(&self, query: &Query, _now: Instant) -> Answer {
            let Query::InterfaceNamed(name) = query else { return Answer::None };
            let index = match name.as_str() {
                "left" => 1,
                "right" => 2,
                _ => return Answer::None,
            };
            let (mac, link, backend) = ([0; 6], LinkType::Ethernet, String::new());
            let index = InterfaceIndex(index);
            let (group, gso_max_bytes, checksum_offload) = (0, 0, false);
            let name = name.clone();
            Answer::Interface(Box::new(Interface {
                index,
                name,
                mac,
                mtu: 1500,
                up: true,
                carrier: true,
                link,
                group,
                gso_max_bytes,
                checksum_offload,
                backend,
            }))
        }
        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
    }

    fn packet(interface: u32, ether_type: EtherType) -> Frame {
        let mut frame = Frame::egress();
        frame.extend(&[0; 40]);
        (frame.meta_mut().interface, frame.meta_mut().ether_type) = (InterfaceIndex(interface), ether_type);
        frame
    }

    #[test]
    fn packets_of_the_ring_go_left_and_right_by_turns_and_no_others() {
        let owner = BlockRow { kind: &OWNER, make: |_| Ok(Box::new(Owner)) };
        let mut bench = Bench::with("alternate", &[("left_gateway", "10.0.8.1".into()), ("right_gateway", "10.0.1.2".into())], owner);
        let v4 = EtherType::IPV4;
        bench.send(Instant::ZERO, [packet(2, v4), packet(2, v4), packet(3, v4), packet(1, v4), packet(2, EtherType::IPV6), packet(2, v4)]);
        let went: Vec<_> =
            bench.taken().iter().map(|frame| (frame.meta().interface.0, frame.meta().next_hop.map(|hop| hop.to_string()))).collect();
        let (left, right) = ((1, Some("10.0.8.1".to_owned())), (2, Some("10.0.1.2".to_owned())));
        assert_eq!(went, [left.clone(), right.clone(), (3, None), left.clone(), (2, None), right]);
        bench.send(Instant::ZERO, [packet(2, v4)]);
        bench.replace("alternate");
        assert_eq!(bench.counters(), [3, 2]);
        bench.taken();
        bench.send(Instant::ZERO, [packet(2, v4)]);
        assert_eq!(bench.taken()[0].meta().interface.0, 2, "the turn survives a replacement");
        assert!(bench.set("left_gateway", "nowhere").unwrap_err().to_string().contains("is no IP address"));
        bench.set("left_gateway", "").unwrap();
        bench.send(Instant::ZERO, [packet(2, v4), packet(2, v4)]);
        assert!(bench.taken().iter().all(|frame| frame.meta().next_hop.is_none()), "without a gateway nothing is changed");
    }
}
