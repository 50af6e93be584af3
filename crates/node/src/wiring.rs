//! What a stack file says of interfaces, for a node that runs: which of them come, with their addresses and routes, and which go.
//!
//! Interfaces of one name are the same one or an error: none is changed. What a node has without a world behind it (`ip link add type dummy`) is
//! no part of it, and neither are the addresses and routes of interfaces that stay.

use crate::node::{Node, of_v6};
use crate::stack::{AddressSection, InterfaceSection, Interfaces, RouteSection, Stack};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use weft_core::control::Value;
use weft_core::table::Family;
use weft_core::{ControlError, ErrorKind, Instant, InterfaceIndex, Message, Op, Table};

/// The interfaces of a stack file, with their addresses and routes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Wiring {
    /// `[[interface]]`
    pub interfaces: Vec<InterfaceSection>,
    /// `[[address]]`
    pub addresses: Vec<AddressSection>,
    /// `[[route]]`
    pub routes: Vec<RouteSection>,
}

/// What leads from the interfaces that a node has to others.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rewiring {
    /// Names of those that go.
    pub leaving: Vec<String>,
    /// Those that come.
    pub coming: Vec<InterfaceSection>,
    /// Addresses of those that come.
    addresses: Vec<AddressSection>,
    /// Routes over those that come.
    routes: Vec<RouteSection>,
}

impl Wiring {
    /// What a file says of interfaces. `None`: nothing, so that those that are there stay.
    pub fn of(stack: &Stack) -> Option<Wiring> {
        let wiring = Wiring {
            interfaces: stack.interfaces().cloned().collect(),
            addresses: stack.addresses().cloned().collect(),
            routes: stack.routes().cloned().collect(),
        };
        (!wiring.interfaces.is_empty() || stack.node().interfaces == Interfaces::None).then_some(wiring)
    }

    /// What leads here from the interfaces that a world has opened.
    ///
    /// # Errors
    /// An interface is there and is another one: none is changed.
    pub fn rewiring<'a>(&self, there: impl Iterator<Item = &'a InterfaceSection> + Clone) -> Result<Rewiring, ControlError> {
        let coming: Vec<InterfaceSection> =
            self.interfaces.iter().filter(|section| there.clone().all(|other| other.name != section.name)).cloned().collect();
        for (section, now) in
            self.interfaces.iter().filter_map(|section| Some((section, there.clone().find(|now| now.name == section.name)?)))
        {
            if let Some(field) = differing(section, now) {
                let why = format!(
                    "it is there with another {field}, and a running interface is not changed: give it another name in the file, or take it away \
                     first (weft exec interfaces remove name={})",
                    section.name
                );
                return Err(ControlError::NotAttached { interface: section.name.clone(), why: why.into() });
            }
        }
        let comes = |name: &str| coming.iter().any(|section| section.name == name);
        let addresses: Vec<AddressSection> = self.addresses.iter().filter(|address| comes(&address.interface)).cloned().collect();
        let over_them = |route: &&RouteSection| {
            let hops = route.nexthops.iter().map(|hop| (&hop.interface, &hop.gateway));
            let mut hops = hops.chain([(&route.interface, &route.gateway)]);
            hops.any(|(interface, gateway)| {
                interface.as_deref().is_some_and(comes)
                    || gateway.as_deref().is_some_and(|gateway| addresses.iter().any(|address| connects(&address.address, gateway)))
            })
        };
        let routes = self.routes.iter().filter(over_them).cloned().collect();
        let stays = |name: &str| self.interfaces.iter().any(|section| section.name == name);
        let leaving = there.map(|section| &section.name).filter(|name| !stays(name)).cloned().collect();
        Ok(Rewiring { leaving, coming, addresses, routes })
    }
}

/// The first thing that is said of two interfaces of one name in two ways, but for their group, which programs change, and who gives them addresses, which
/// is a matter of the graph.
fn differing(one: &InterfaceSection, other: &InterfaceSection) -> Option<&'static str> {
    let InterfaceSection { name: _, backend, mac, mtu, link, group: _, host_address, offload, coalesce, dhcp: _ } = one;
    let fields = [
        ("backend", *backend == other.backend),
        ("mac", *mac == other.mac),
        ("mtu", *mtu == other.mtu),
        ("link", *link == other.link),
        ("host_address", *host_address == other.host_address),
        ("offload", *offload == other.offload),
        ("coalesce", *coalesce == other.coalesce),
    ];
    fields.into_iter().find_map(|(field, same)| (!same).then_some(field))
}

/// A network: its address as a number from the highest bit on, its length in bits, and how long addresses of its family are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Network {
    number: u128,
    bits: u32,
    width: u32,
}

impl Network {
    /// Reads `10.1.0.0/24`, or an address alone. `default` has no family: `None`, as all that is no network.
    fn parse(text: &str) -> Option<Network> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let (number, width) = match address.parse().ok()? {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let bits = bits.map_or(Some(width), |bits| bits.parse().ok().filter(|bits| *bits <= width))?;
        Some(Network { number, bits, width })
    }

    fn has(self, other: Network) -> bool {
        // No length at all: everything is near.
        self.width == other.width && (self.number ^ other.number).checked_shr(128 - self.bits).unwrap_or(0) == 0
    }
}

/// Is the gateway on the network of an address with a prefix length?
fn connects(address: &str, gateway: &str) -> bool {
    let network = Network::parse(address).filter(|_| address.contains('/'));
    network.zip(Network::parse(gateway)).is_some_and(|(network, gateway)| network.has(gateway))
}

/// Do both texts name one destination of a family?
fn same_destination(one: &str, other: &str) -> bool {
    let is_default = |text: &str| text == "default" || Network::parse(text).is_some_and(|network| network.bits == 0);
    let same = || Network::parse(one).zip(Network::parse(other)).is_some_and(|(one, other)| one.bits == other.bits && one.has(other));
    (is_default(one) && is_default(other)) || same()
}

impl Rewiring {
    /// Is there nothing to do?
    pub fn is_empty(&self) -> bool {
        self.leaving.is_empty() && self.coming.is_empty()
    }

    fn blame(&self, route: &RouteSection, error: &ControlError) -> ControlError {
        let interface = route.interface.as_deref().or(self.coming.first().map(|section| section.name.as_str()));
        not_settled(interface.unwrap_or_default(), &format!("the route to {}", route.destination), error)
    }

    /// What is done, in the words of the commands.
    pub fn words(&self) -> Vec<String> {
        let coming = self.coming.iter().map(|section| format!("exec interfaces add name={} backend={}", section.name, section.backend));
        coming.chain(self.leaving.iter().map(|name| format!("exec interfaces remove name={name}"))).collect()
    }
}

impl Node {
    /// Gives the interfaces that have come their addresses and routes. A route that one of the leaving ones stands for still is for later: they are
    /// returned, for [`Node::settle_late`].
    ///
    /// # Errors
    /// The first that cannot be. Those before it go with their interfaces.
    pub fn settle_in(&mut self, now: Instant, rewiring: &Rewiring, leaving: &[InterfaceIndex]) -> Result<Vec<RouteSection>, ControlError> {
        for address in &rewiring.addresses {
            let why = |error| not_settled(&address.interface, &format!("its address {}", address.address), &error);
            self.add_address(now, address).map_err(why)?;
        }
        let mut late = Vec::new();
        for route in &rewiring.routes {
            match self.add_route(now, route) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Exists && self.is_left(now, route, leaving) => late.push(route.clone()),
                Err(error) => return Err(rewiring.blame(route, &error)),
            }
        }
        Ok(late)
    }

    /// Adds the routes that were for later.
    ///
    /// # Errors
    /// The first that cannot be: the node has as many routes as it may have, for example.
    pub fn settle_late(&mut self, now: Instant, rewiring: &Rewiring, routes: &[RouteSection]) -> Result<(), ControlError> {
        routes.iter().try_for_each(|route| self.add_route(now, route).map_err(|error| rewiring.blame(route, &error)))
    }

    /// Is the route that is in the way one over interfaces that are about to leave, and no other?
    fn is_left(&mut self, now: Instant, route: &RouteSection, leaving: &[InterfaceIndex]) -> bool {
        let leaves = |row: &Value| row["interface"].as_u64().is_some_and(|index| leaving.iter().any(|gone| u64::from(gone.0) == index));
        let family = if of_v6(route) { Family::V6 } else { Family::V4 };
        let list = Message { serial: 0, op: Op::List(Table::Routes(family)) };
        let Ok(Value::Array(rows)) = self.control(now, &list).result else { return false };
        let in_the_way = |row: &&Value| {
            let same = row["destination"].as_str().is_some_and(|destination| same_destination(destination, &route.destination));
            same && row["table"] == "main" && row["metric"].as_u64() == Some(u64::from(route.metric))
        };
        let mut found = rows.iter().filter(in_the_way).peekable();
        found.peek().is_some()
            && found.all(|row| match row["nexthops"].as_array() {
                Some(hops) => hops.iter().all(leaves),
                None => leaves(row),
            })
    }
}

fn not_settled(interface: &str, what: &str, error: &ControlError) -> ControlError {
    ControlError::NotAttached { interface: interface.to_owned(), why: format!("{what}: {error}").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(text: &str) -> Wiring {
        Wiring::of(&Stack::parse("a.toml", text).unwrap()).unwrap_or_default()
    }

    const ONE: &str = "[[interface]]\nname = \"a\"\nbackend = \"tap:a\"\n[[address]]\ninterface = \"a\"\naddress = \"10.1.0.2/24\"\n\
                       [[route]]\ndestination = \"default\"\ngateway = \"10.1.0.1\"\n";
    const OTHER: &str = "[[interface]]\nname = \"b\"\nbackend = \"tun:b\"\n[[address]]\ninterface = \"b\"\naddress = \"fd02::2/64\"\n\
                         [[route]]\ndestination = \"fd03::/64\"\ngateway = \"fd02::1\"\n[[route]]\ndestination = \"fd04::/64\"\ninterface = \"b\"\n";

    #[test]
    fn interfaces_come_with_what_is_theirs_and_go_by_name() {
        let (one, both) = (stack(ONE), stack(&format!("{ONE}{OTHER}")));
        let change = both.rewiring(one.interfaces.iter()).unwrap();
        assert_eq!(change.words(), ["exec interfaces add name=b backend=tun:b"]);
        assert_eq!((change.addresses.len(), change.routes.len()), (1, 2), "{change:?}");
        let change = stack(OTHER).rewiring(both.interfaces.iter()).unwrap();
        assert_eq!((change.words(), change.addresses.len()), (vec!["exec interfaces remove name=a".to_owned()], 0));
        assert!(both.rewiring(both.interfaces.iter()).unwrap().is_empty());
        let change = Wiring::default().rewiring(both.interfaces.iter()).unwrap();
        assert_eq!(change.leaving, ["a", "b"]);
    }

    #[test]
    fn a_file_that_says_nothing_of_interfaces_changes_none() {
        let of = |text: &str| Wiring::of(&Stack::parse("a.toml", text).unwrap());
        assert_eq!(of("[node]\nname = \"x\"\n"), None);
        assert_eq!(of("[node]\ninterfaces = \"none\"\n"), Some(Wiring::default()));
    }

    #[test]
    fn an_interface_that_would_be_another_is_named_with_the_difference() {
        let one = stack(ONE);
        for (changed, field) in [
            ("backend = \"tap:c\"", "backend"),
            ("backend = \"tap:a\"\nmtu = 1400", "mtu"),
            ("backend = \"tap:a\"\noffload = false", "offload"),
        ] {
            let error = stack(&ONE.replace("backend = \"tap:a\"", changed)).rewiring(one.interfaces.iter()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("interface 'a': it is there with another {field}")), "{error}");
        }
        assert!(
            stack(&ONE.replace("backend = \"tap:a\"", "backend = \"tap:a\"\ngroup = 7"))
                .rewiring(one.interfaces.iter())
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn one_destination_has_several_texts() {
        for (one, other, same) in [
            ("default", "0.0.0.0/0", true),
            ("default", "::/0", true),
            ("10.1.0.0/16", "10.1.0.0/16", true),
            ("10.1.0.0/16", "10.1.0.0/17", false),
            ("10.1.2.3", "10.1.2.3/32", true),
            ("fd01::/64", "fd01:0::/64", true),
            ("fd01::/64", "fd02::/64", false),
            ("default", "10.0.0.0/8", false),
        ] {
            assert_eq!(same_destination(one, other), same, "{one} {other}");
        }
    }

    #[test]
    fn a_gateway_is_near_an_address_or_not() {
        for (address, gateway, near) in [
            ("10.1.0.2/24", "10.1.0.9", true),
            ("10.1.0.2/24", "10.1.1.9", false),
            ("10.1.0.2/0", "10.99.1.9", true),
            ("10.1.0.2/32", "10.1.0.3", false),
            ("fd02::2/64", "fd02::ffff:1", true),
            ("fd02::2/64", "10.1.0.9", false),
            ("10.1.0.2/99", "10.1.0.9", false),
            ("10.1.0.2", "10.1.0.9", false),
        ] {
            assert_eq!(connects(address, gateway), near, "{address} {gateway}");
        }
    }
}
