//! Addresses for interfaces that have none, and routes along the shortest paths.
//!
//! What switches join is one network, and a wire between two hosts is one. Each gets the next free /24 (or a larger one for more than 254
//! interfaces) of `network`, in the order of the wires; hosts count up from 1 in the order in which they are joined. With `ipv6 = true` network number n
//! has `fd77:0:0:n::/64`, too, and with `ipv4 = false` none of IPv4. Paths count wires, or their delays (`routes`); the first found wins, in the order of names. An interface with `dhcp` gets its IPv4 address and routes
//! from a node that runs a DHCP server. One whose list of addresses is empty (`eth0 = []`) begins without any, and is in no route.
//!
//! A host with several ways out (`forward = false`, or `mptcp = true`) has a second route by each of its interfaces, as the machines of people have: what
//! is bound to an interface goes out there, and Multipath TCP has its paths.

use super::delay;
use super::draft::{InterfaceDraft, NodeDraft, WireDraft};
use super::raw::Raw;
use super::source::Source;
use super::wire::prefix;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_node::StackError;

const NETWORK_DEFAULT: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 0, 0, 0), 8);

/// A network of joined interfaces.
#[derive(Debug, Default)]
pub(super) struct Subnet {
    /// Node and interface (place in the node).
    pub members: Vec<(usize, usize)>,
    /// One of each family at most.
    pub prefixes: Vec<(IpAddr, u8)>,
}

/// Gives addresses to the interfaces that have none.
pub(super) fn assign(source: &Source<'_>, raw: &Raw, nodes: &mut [NodeDraft], wires: &mut [WireDraft]) -> Result<Vec<Subnet>, StackError> {
    let (base, base_bits) = match &raw.network {
        None => NETWORK_DEFAULT,
        Some(text) => match prefix(text.get_ref()) {
            Some((IpAddr::V4(address), bits)) if bits <= 24 => (address, bits),
            _ => {
                let what = format!("'{}' is no IPv4 network to take addresses from", text.get_ref());
                return Err(source.error(text.span(), what, "write it as network = \"10.0.0.0/8\", with 24 bits at most"));
            }
        },
    };
    let mut subnets = find_subnets(nodes, wires);
    let taken: Vec<(u32, u8)> = nodes
        .iter()
        .flat_map(|node| &node.interfaces)
        .flat_map(|interface| &interface.addresses)
        .filter_map(|(address, bits)| match address {
            IpAddr::V4(address) => Some((u32::from(*address), *bits)),
            IpAddr::V6(_) => None,
        })
        .collect();
    let mut next = u32::from(base) & mask(base_bits);
    let end = u64::from(next) + (1u64 << (32 - base_bits));
    for (number, subnet) in subnets.iter_mut().enumerate() {
        // Where no interface wants any, no network is used up.
        let wants_v4 = subnet.members.iter().any(|(node, _)| has_v4(raw, &nodes[*node]));
        let given = |v4: bool| {
            let mut all = subnet.members.iter().flat_map(|(node, interface)| &nodes[*node].interfaces[*interface].addresses);
            all.find(|(address, _)| address.is_ipv4() == v4).copied()
        };
        let v4 = match given(true) {
            Some((IpAddr::V4(address), bits)) => Some((u32::from(address) & mask(bits), bits)),
            _ if !wants_v4 => None,
            _ => {
                let host_bits = (u32::BITS - (subnet.members.len() as u32 + 1).leading_zeros()).max(8);
                let bits = 32 - host_bits as u8;
                let size = 1u32 << host_bits;
                next = next.next_multiple_of(size);
                while let Some((address, other)) = taken.iter().find(|(address, other)| overlap(next, bits, *address, *other)) {
                    next = ((address & mask(*other)) | !mask(*other)).saturating_add(1).next_multiple_of(size);
                }
                if u64::from(next) + u64::from(size) > end {
                    return Err(source.error(0..0, "the networks do not fit", "give more addresses: network = \"10.0.0.0/8\""));
                }
                let network = next;
                next += size;
                Some((network, bits))
            }
        };
        if let Some((network, bits)) = v4 {
            fill_v4(raw, nodes, subnet, network, bits);
            subnet.prefixes.push((Ipv4Addr::from(network).into(), bits));
        }
        let v6 = match given_v6(nodes, subnet) {
            Some(prefix) => Some(prefix),
            None if raw.ipv6 == Some(true) => {
                Some((Ipv6Addr::from(0xfd77_0000_0000_0000_0000_0000_0000_0000 | (number as u128 + 1) << 64), 64))
            }
            None => None,
        };
        if let Some((network, bits)) = v6 {
            fill_v6(nodes, subnet, network, bits);
            subnet.prefixes.push((network.into(), bits));
        }
    }
    Ok(subnets)
}

/// On one network nobody has the address of another, which ARP would find out only by chance; on different ones it is anycast, and sound. Who has the
/// network's own address, or the one for all of its hosts, is told: Linux gives both to an interface, without a word.
pub(super) fn check(source: &Source<'_>, nodes: &[NodeDraft], subnets: &[Subnet]) -> Result<(), StackError> {
    for node in nodes.iter().filter(|node| node.interfaces.is_empty() && nodes.len() > 1) {
        source.remark(
            node.span.clone(),
            &format!("'{}' has no wire", node.name),
            "it reaches nobody; is it to be in between = [… , …] of a wire?",
        );
    }
    for subnet in subnets {
        strangers(source, nodes, subnet);
        let mut owners: BTreeMap<IpAddr, (usize, usize)> = BTreeMap::new();
        for (node, interface) in &subnet.members {
            let (draft, own) = (&nodes[*node], &nodes[*node].interfaces[*interface]);
            let given = draft.section.addresses.iter().find(|(name, _)| *name.get_ref() == own.name);
            let span = given.map_or(draft.span.clone(), |(_, texts)| texts.span());
            for (address, bits) in &own.addresses {
                let before = owners.insert(*address, (*node, *interface));
                if let Some((other, at)) = before.filter(|(other, at)| other != node || at == interface) {
                    let what =
                        format!("{}:{} has {address}, too, on the same network", nodes[other].name, nodes[other].interfaces[at].name);
                    return Err(source.error(
                        span,
                        what,
                        "give each interface an address of its own, or none: then it gets the next free one",
                    ));
                }
                if let Some((what, help)) = special(*address, *bits) {
                    source.remark(span.clone(), &format!("{address} is {what} of its network"), help);
                }
            }
        }
    }
    Ok(())
}

/// Tells of who has nobody else of its IPv4 networks beside it: nothing that it is joined with is reached there.
fn strangers(source: &Source<'_>, nodes: &[NodeDraft], subnet: &Subnet) {
    let prefixes = |own: &InterfaceDraft| -> Vec<(u32, u8)> {
        let of_v4 = |(address, bits): &(IpAddr, u8)| match address {
            IpAddr::V4(address) => Some((u32::from(*address), *bits)),
            IpAddr::V6(_) => None,
        };
        own.addresses.iter().filter_map(of_v4).collect()
    };
    let all = subnet.members.iter().map(|(node, interface)| (*node, &nodes[*node].interfaces[*interface]));
    let all: Vec<_> = all.map(|(node, own)| (node, own, prefixes(own))).filter(|(.., prefixes)| !prefixes.is_empty()).collect();
    let is_stranger = |(node, _, own): &&(usize, &InterfaceDraft, Vec<(u32, u8)>)| {
        let reaches = |(address, bits): &(u32, u8)| {
            // Who has an address of its own without a network means that.
            *bits >= 31
                || all.iter().any(|(other, _, theirs)| other != node && theirs.iter().any(|(at, _)| overlap(*address, *bits, *at, 32)))
        };
        !own.iter().any(reaches)
    };
    let found: Vec<_> = all.iter().filter(is_stranger).collect();
    // Of two, one says it all.
    for (node, own, prefixes) in found.iter().take(if all.len() == 2 { 1 } else { found.len() }) {
        let Some((other, theirs, their_prefixes)) = all.iter().find(|(other, ..)| other != node) else { continue };
        let shown = |prefixes: &[(u32, u8)]| {
            prefixes.first().map(|(address, bits)| format!("{}/{bits}", Ipv4Addr::from(*address))).unwrap_or_default()
        };
        let (name, other) = (&nodes[*node].name, &nodes[*other].name);
        let (here, there) = (shown(prefixes), shown(their_prefixes));
        let what = format!("{name}:{} has {here}, and is joined with {other}:{}, which has {there}", own.name, theirs.name);
        let help = "without a route neither reaches the other: give both an address of one network, or one of them none";
        source.remark(nodes[*node].span.clone(), &what, help);
    }
}

/// What an address stands for besides its interface, and what comes of that. Of /31 and /32 nothing (RFC 3021); IPv6 has no broadcast, and its address for
/// all routers of a network is a router's to have.
fn special(address: IpAddr, bits: u8) -> Option<(&'static str, &'static str)> {
    let IpAddr::V4(address) = address else { return None };
    match u32::from(address) & !mask(bits) {
        _ if bits >= 31 => None,
        // Linux since 5.14, and weft.
        0 => Some((
            "the first address",
            "connections reach it here, but systems that are older than 2021 take it for a broadcast; is the next one meant?",
        )),
        host if host == !mask(bits) => {
            Some(("the broadcast address", "no host of the network can connect to it (ENETUNREACH); give the interface another"))
        }
        _ => None,
    }
}

fn mask(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
}

fn overlap(a: u32, a_bits: u8, b: u32, b_bits: u8) -> bool {
    let bits = a_bits.min(b_bits);
    a & mask(bits) == b & mask(bits)
}

fn given_v6(nodes: &[NodeDraft], subnet: &Subnet) -> Option<(Ipv6Addr, u8)> {
    let mut all = subnet.members.iter().flat_map(|(node, interface)| &nodes[*node].interfaces[*interface].addresses);
    all.find_map(|(address, bits)| match address {
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(*bits)).unwrap_or(0);
            Some((Ipv6Addr::from(u128::from(*address) & mask), *bits))
        }
        IpAddr::V4(_) => None,
    })
}

/// Do the interfaces of a node get addresses of IPv4?
fn has_v4(raw: &Raw, node: &NodeDraft) -> bool {
    node.section.ipv4.or(raw.ipv4).unwrap_or(true)
}

fn fill_v4(raw: &Raw, nodes: &mut [NodeDraft], subnet: &Subnet, network: u32, bits: u8) {
    let members = &subnet.members;
    let mut used: BTreeSet<u32> = members
        .iter()
        .flat_map(|(node, interface)| &nodes[*node].interfaces[*interface].addresses)
        .filter_map(|(address, _)| if let IpAddr::V4(address) = address { Some(u32::from(*address)) } else { None })
        .collect();
    let mut host = network;
    for (node, interface) in members {
        if !has_v4(raw, &nodes[*node]) {
            continue;
        }
        let InterfaceDraft { addresses, dhcp, bare, .. } = &mut nodes[*node].interfaces[*interface];
        if *dhcp || *bare || addresses.iter().any(|(address, _)| address.is_ipv4()) {
            continue;
        }
        host += 1;
        while used.contains(&host) {
            host += 1;
        }
        used.insert(host);
        addresses.insert(0, (Ipv4Addr::from(host).into(), bits));
    }
}

fn fill_v6(nodes: &mut [NodeDraft], subnet: &Subnet, network: Ipv6Addr, bits: u8) {
    let all = subnet.members.iter().flat_map(|(node, interface)| &nodes[*node].interfaces[*interface].addresses);
    let mut used: BTreeSet<IpAddr> = all.map(|(address, _)| *address).collect();
    for (number, (node, interface)) in subnet.members.iter().enumerate() {
        let InterfaceDraft { addresses, bare, .. } = &mut nodes[*node].interfaces[*interface];
        if *bare || addresses.iter().any(|(address, _)| address.is_ipv6()) {
            continue;
        }
        let mut host = u128::from(network) + number as u128 + 1;
        while !used.insert(Ipv6Addr::from(host).into()) {
            host += 1;
        }
        addresses.push((Ipv6Addr::from(host).into(), bits));
    }
}

/// What is joined without a router between.
fn find_subnets(nodes: &[NodeDraft], wires: &[WireDraft]) -> Vec<Subnet> {
    let mut of_wire: Vec<usize> = (0..wires.len()).collect();
    for node in nodes.iter().filter(|node| node.is_switch()) {
        let joined: Vec<usize> = node.interfaces.iter().map(|interface| of_wire[interface.wire]).collect();
        if let Some(least) = joined.iter().min().copied() {
            of_wire.iter_mut().filter(|of| joined.contains(of)).for_each(|of| *of = least);
        }
    }
    let mut subnets: BTreeMap<usize, Subnet> = BTreeMap::new();
    for (number, wire) in wires.iter().enumerate() {
        let subnet = subnets.entry(of_wire[number]).or_default();
        for (node, interface) in &wire.plan.ends {
            if !nodes[*node].is_switch()
                && let Some(place) = nodes[*node].interfaces.iter().position(|known| known.name == *interface)
            {
                subnet.members.push((*node, place));
            }
        }
    }
    subnets.into_values().collect()
}

/// Of second routes: this, and the place of the interface more. Above 1024, which is what IPv6 gives to routes without one.
const SECOND_METRIC: u32 = 2000;

/// A route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hop {
    /// Network and its bits.
    pub destination: (IpAddr, u8),
    pub gateway: IpAddr,
    /// Lower wins.
    pub metric: u32,
}

/// How ways are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ways {
    /// Over as few wires as can be.
    Hops,
    /// In as little time as can be.
    Delay,
    /// They are not: somebody else sets routes.
    None,
}

/// What a scenario's `routes` says.
pub(super) fn ways(source: &Source<'_>, text: Option<&weft_node::Spanned<String>>) -> Result<Option<Ways>, StackError> {
    let Some(text) = text else { return Ok(None) };
    match text.get_ref().as_str() {
        "hops" => Ok(Some(Ways::Hops)),
        "delay" => Ok(Some(Ways::Delay)),
        "none" => Ok(Some(Ways::None)),
        other => Err(source.error(text.span(), format!("no ways are found by '{other}'"), "use hops, delay or none")),
    }
}

/// A world, as far as ways go.
struct Net<'a> {
    nodes: &'a [NodeDraft],
    subnets: &'a [Subnet],
    /// The networks of each node, and at which of its interfaces.
    of_node: Vec<Vec<(usize, usize)>>,
    /// Where delays count.
    map: Option<delay::Map>,
}

/// The routes of every node along the shortest paths, joined to larger prefixes where they can be.
pub(super) fn routes(
    source: &Source<'_>,
    raw: &Raw,
    nodes: &[NodeDraft],
    wires: &[WireDraft],
    subnets: &[Subnet],
) -> Result<Vec<Vec<Hop>>, StackError> {
    let usual = ways(source, raw.routes.as_ref())?.unwrap_or(Ways::Hops);
    let mut all = Vec::new();
    for node in nodes {
        all.push(ways(source, node.section.ways().as_ref())?.unwrap_or(usual));
    }
    let mut of_node: Vec<Vec<(usize, usize)>> = vec![Vec::new(); nodes.len()];
    for (number, subnet) in subnets.iter().enumerate() {
        for (node, interface) in &subnet.members {
            of_node[*node].push((number, *interface));
        }
    }
    let map = all.contains(&Ways::Delay).then(|| delay::Map::new(nodes, wires));
    let net = Net { nodes, subnets, of_node, map };
    let of = |(node, ways): (usize, &Ways)| match ways {
        _ if nodes[node].is_switch() => Vec::new(),
        Ways::None => Vec::new(),
        ways => net.routes_of(node, *ways),
    };
    Ok(all.iter().enumerate().map(of).collect())
}

impl Net<'_> {
    fn routes_of(&self, start: usize, ways: Ways) -> Vec<Hop> {
        let node = &self.nodes[start];
        let own: Vec<_> = self.of_node[start].iter().filter(|(_, interface)| !node.interfaces[*interface].bare).copied().collect();
        let mut hops = self.by_these(start, &own, ways);
        if own.len() > 1 && node.has_ways_out() {
            for one in &own {
                let metric = SECOND_METRIC + one.1 as u32;
                hops.extend(self.by_these(start, &[*one], ways).into_iter().map(|hop| Hop { metric, ..hop }));
            }
        }
        hops
    }

    /// The shortest paths that begin with one of these networks; those of IPv4 not with one where a DHCP server tells the routes.
    fn by_these(&self, start: usize, first: &[(usize, usize)], ways: Ways) -> Vec<Hop> {
        let interfaces = &self.nodes[start].interfaces;
        let given: Vec<(usize, usize)> = first.iter().filter(|(_, interface)| !interfaces[*interface].dhcp).copied().collect();
        if given.len() == first.len() {
            return self.shortest(start, first, ways);
        }
        let v4 = self.shortest(start, &given, ways).into_iter().filter(|hop| hop.gateway.is_ipv4());
        let v6 = self.shortest(start, first, ways).into_iter().filter(|hop| hop.gateway.is_ipv6());
        v4.chain(v6).collect()
    }

    fn shortest(&self, start: usize, first: &[(usize, usize)], ways: Ways) -> Vec<Hop> {
        let via = match (&self.map, ways) {
            (Some(map), Ways::Delay) => self.by_delay(map, start, first),
            _ => self.by_hops(start, first),
        };
        let mut hops = Vec::new();
        for (subnet, via) in self.subnets.iter().zip(&via) {
            let Some((router, interface)) = via else { continue };
            for (network, bits) in &subnet.prefixes {
                let mut addresses = self.nodes[*router].interfaces[*interface].addresses.iter();
                if let Some((gateway, _)) = addresses.find(|(address, _)| address.is_ipv4() == network.is_ipv4()) {
                    hops.push(Hop { destination: (*network, *bits), gateway: *gateway, metric: 0 });
                }
            }
        }
        shorten(hops)
    }

    /// Breadth first over networks: the neighbour that the path to each begins with.
    fn by_hops(&self, start: usize, first: &[(usize, usize)]) -> Vec<Option<(usize, usize)>> {
        let (nodes, subnets) = (self.nodes, self.subnets);
        let mut via: Vec<Option<(usize, usize)>> = vec![None; subnets.len()];
        let mut seen = vec![false; subnets.len()];
        let mut queue: VecDeque<usize> = VecDeque::new();
        for (subnet, _) in first {
            seen[*subnet] = true;
            queue.push_back(*subnet);
        }
        while let Some(subnet) = queue.pop_front() {
            let mut routers: Vec<&(usize, usize)> =
                subnets[subnet].members.iter().filter(|(node, _)| *node != start && nodes[*node].forwards()).collect();
            routers.sort_by(|a, b| nodes[a.0].name.cmp(&nodes[b.0].name));
            for (router, interface) in routers {
                for (next, _) in &self.of_node[*router] {
                    if !seen[*next] {
                        seen[*next] = true;
                        via[*next] = via[subnet].or(Some((*router, *interface)));
                        queue.push_back(*next);
                    }
                }
            }
        }
        via
    }

    /// The same by time: to each network the way to that of its routers which is reached first.
    fn by_delay(&self, map: &delay::Map, start: usize, first: &[(usize, usize)]) -> Vec<Option<(usize, usize)>> {
        let interfaces: Vec<usize> = first.iter().map(|(_, interface)| *interface).collect();
        let found = map.ways(start, &interfaces, self.nodes);
        let to = |(number, subnet): (usize, &Subnet)| {
            if first.iter().any(|(own, _)| *own == number) {
                return None;
            }
            let routers = subnet.members.iter().filter(|(node, _)| *node != start && self.nodes[*node].forwards());
            routers.filter_map(|(node, _)| found.get(node)).min().map(|(_, via)| *via)
        };
        self.subnets.iter().enumerate().map(to).collect()
    }
}

/// Several networks over one neighbour become one default route, or fewer, larger prefixes.
fn shorten(hops: Vec<Hop>) -> Vec<Hop> {
    let mut out = Vec::new();
    for v4 in [true, false] {
        let family: Vec<Hop> = hops.iter().filter(|hop| hop.destination.0.is_ipv4() == v4).copied().collect();
        let gateways: BTreeSet<IpAddr> = family.iter().map(|hop| hop.gateway).collect();
        match gateways.first() {
            Some(only) if gateways.len() == 1 => {
                let any: IpAddr = if v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
                out.push(Hop { destination: (any, 0), gateway: *only, metric: 0 });
            }
            _ => out.extend(join_siblings(family)),
        }
    }
    out
}

fn join_siblings(hops: Vec<Hop>) -> Vec<Hop> {
    let width = |address: IpAddr| if address.is_ipv4() { 32u8 } else { 128 };
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    let mut all: BTreeSet<(u8, u128, IpAddr)> =
        hops.iter().map(|hop| (hop.destination.1, number(hop.destination.0), hop.gateway)).collect();
    let total = hops.first().map_or(32, |hop| width(hop.destination.0));
    for bits in (1..=total).rev() {
        let size = 1u128.checked_shl(u32::from(total - bits)).unwrap_or(0);
        let level: Vec<_> = all.iter().filter(|(of, _, _)| *of == bits).copied().collect();
        for (_, network, gateway) in level {
            let sibling = (bits, network ^ size, gateway);
            if network & size == 0 && size != 0 && all.contains(&sibling) {
                all.remove(&(bits, network, gateway));
                all.remove(&sibling);
                all.insert((bits - 1, network, gateway));
            }
        }
    }
    let address =
        |number: u128| -> IpAddr { if total == 32 { Ipv4Addr::from(number as u32).into() } else { Ipv6Addr::from(number).into() } };
    all.into_iter().map(|(bits, network, gateway)| Hop { destination: (address(network), bits), gateway, metric: 0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_address_of_a_network_are_special() {
        let of = |address: &str, bits: u8| special(address.parse().unwrap(), bits).map(|(what, _)| what);
        for (address, bits, what) in [
            ("10.0.0.0", 24, Some("the first address")),
            ("10.0.0.255", 24, Some("the broadcast address")),
            ("10.0.0.0", 16, Some("the first address")),
            ("10.0.255.255", 16, Some("the broadcast address")),
            ("10.0.0.1", 24, None),
            ("10.0.1.0", 16, None),
            ("10.0.0.0", 31, None),
            ("10.0.0.1", 31, None),
            ("10.0.0.0", 32, None),
            ("fd00::", 64, None),
        ] {
            assert_eq!(of(address, bits), what, "{address}/{bits}");
        }
    }

    #[test]
    fn a_host_with_several_ways_out_has_a_second_route_by_each() {
        let routes = |keys: &str| {
            let text = format!(
                "ipv6 = true\n[nodes.a]\n{keys}\n[nodes.r]\n[nodes.s]\n[nodes.z]\n[wires.1]\nbetween = [\"a\", \"r\"]\n[wires.2]\nbetween = [\"a\", \"s\"]\n\
                 [wires.3]\nbetween = [\"r\", \"z\"]\n[wires.4]\nbetween = [\"s\", \"z\"]\n"
            );
            let scenario = super::super::Scenario::parse("w.toml", &text, &[], &|_| Err(String::new())).unwrap();
            let crate::plan::NodeKind::Host(stack) = &scenario.plan.nodes[0].kind else { panic!("a host") };
            let seen = |route: &weft_node::RouteSection| {
                format!("{} {} {}", route.destination, route.gateway.as_deref().unwrap_or_default(), route.metric)
            };
            stack.routes().map(seen).collect::<Vec<_>>()
        };
        let shortest = ["10.0.2.0/24 10.0.0.2 0", "10.0.3.0/24 10.0.1.2 0"];
        for keys in ["mptcp = true", "forward = false"] {
            let found = routes(keys);
            assert!(shortest.iter().all(|route| found.contains(&(*route).to_owned())), "{found:?}");
            for route in ["default 10.0.0.2 2000", "default 10.0.1.2 2001", "default fd77:0:0:1::2 2000", "default fd77:0:0:2::2 2001"] {
                assert!(found.contains(&route.to_owned()), "{found:?}");
            }
        }
        for keys in ["", "forward = true", "mptcp = false"] {
            assert!(routes(keys).iter().all(|route| route.ends_with(" 0")), "{keys}");
        }
    }

    #[test]
    fn ways_are_found_by_hops_by_delay_or_not_at_all() {
        // From a to d: over b with two long wires, over c and e with three short ones; s is a switch before c.
        let text = "[nodes.a]\n[nodes.b]\n[nodes.c]\n[nodes.d]\n[nodes.e]\n[nodes.z]\n[nodes.s]\nkind = \"switch\"\n\
                    [wires.1]\nbetween = [\"a\", \"b\"]\ndelay = \"50ms\"\n[wires.2]\nbetween = [\"b\", \"d\"]\ndelay = \"50ms\"\n\
                    [wires.3]\nbetween = [\"a\", \"s\"]\n[wires.4]\nbetween = [\"s\", \"c\"]\ndelay = \"1ms\"\n\
                    [wires.5]\nbetween = [\"c\", \"e\"]\ndelay = \"1ms\"\n[wires.6]\nbetween = [\"e\", \"d\"]\ndelay = \"1ms\"\n\
                    [wires.7]\nbetween = [\"d\", \"z\"]\n";
        let to_z = |keys: &str, sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            let scenario = super::super::Scenario::parse("w.toml", &format!("{keys}\n{text}"), &sets, &|_| Err(String::new())).unwrap();
            let z: IpAddr = scenario.plan.hosts["z"];
            let crate::plan::NodeKind::Host(stack) = &scenario.plan.nodes[0].kind else { panic!("a host") };
            let covers = |route: &weft_node::RouteSection| match prefix(&route.destination) {
                Some((IpAddr::V4(network), bits)) => matches!(z, IpAddr::V4(z) if overlap(network.into(), bits, z.into(), 32)),
                _ => route.destination == "default",
            };
            let gateway = stack.routes().find(|route| covers(route)).and_then(|route| route.gateway.clone());
            let owner = gateway.and_then(|gateway| scenario.owners.get(&gateway.parse::<IpAddr>().unwrap()).cloned());
            (owner.unwrap_or_default(), stack.routes().count())
        };
        assert_eq!(to_z("", &[]).0, "b");
        assert_eq!(to_z("routes = \"hops\"", &[]), to_z("", &[]));
        assert_eq!(to_z("routes = \"delay\"", &[]).0, "c");
        assert_eq!(to_z("routes = \"delay\"", &["wires.5.delay=200ms"]).0, "b");
        assert_eq!(to_z("", &["nodes.a.routes=delay"]).0, "c");
        assert_eq!(to_z("routes = \"none\"", &[]), (String::new(), 0));
        assert_eq!(to_z("routes = \"delay\"", &["nodes.a.routes=none"]), (String::new(), 0));
    }

    #[test]
    fn a_world_or_a_node_may_have_no_ipv4() {
        let addresses = |keys: &str| {
            let text = format!("ipv6 = true\n{keys}\n[nodes.b]\n[wires.w]\nbetween = [\"a\", \"b\"]\n");
            let plan = super::super::Scenario::parse("w.toml", &text, &[], &|_| Err(String::new())).unwrap().plan;
            let of = |node: usize| {
                let crate::plan::NodeKind::Host(stack) = &plan.nodes[node].kind else { panic!("a host") };
                stack.addresses().map(|one| one.address.clone()).collect::<Vec<_>>()
            };
            [of(0), of(1)]
        };
        let (first, second) = ("fd77:0:0:1::1/64", "fd77:0:0:1::2/64");
        assert_eq!(addresses("ipv4 = false\n[nodes.a]"), [vec![first], vec![second]]);
        assert_eq!(addresses("[nodes.a]\nipv4 = false"), [vec![first], vec!["10.0.0.1/24", second]]);
        assert_eq!(addresses("ipv4 = false\n[nodes.a]\nipv4 = true"), [vec!["10.0.0.1/24", first], vec![second]]);
    }

    #[test]
    fn an_empty_list_is_no_address() {
        let text = "ipv6 = true\n[nodes.a]\naddresses = { eth0 = [] }\n[nodes.b]\n[nodes.c]\n[nodes.d]\n[wires.x]\nbetween = [\"a\", \"b\"]\n\
                    [wires.y]\nbetween = [\"a\", \"c\"]\n[wires.z]\nbetween = [\"b\", \"d\"]\n";
        let plan = super::super::Scenario::parse("w.toml", text, &[], &|_| Err(String::new())).unwrap().plan;
        let crate::plan::NodeKind::Host(stack) = &plan.nodes[0].kind else { panic!("a host") };
        let addresses: Vec<String> = stack.addresses().map(|one| format!("{} {}", one.interface, one.address)).collect();
        assert_eq!(addresses, ["eth1 10.0.1.1/24", "eth1 fd77:0:0:2::1/64"]);
        assert_eq!(stack.routes().count(), 0);
        assert_eq!(plan.hosts["a"].to_string(), "10.0.1.1");
    }

    #[test]
    fn what_a_dhcp_server_gives_is_not_given_here() {
        let text = "ipv6 = true\n[nodes.a]\ndhcp = [\"eth0\"]\n[nodes.b]\n[nodes.c]\n[nodes.d]\n[wires.x]\nbetween = [\"a\", \"b\"]\n\
                    [wires.y]\nbetween = [\"a\", \"c\"]\n[wires.z]\nbetween = [\"b\", \"d\"]\n";
        let scenario = super::super::Scenario::parse("w.toml", text, &[], &|_| Err(String::new())).unwrap();
        let crate::plan::NodeKind::Host(stack) = &scenario.plan.nodes[0].kind else { panic!("a host") };
        assert_eq!(stack.by_dhcp().collect::<Vec<_>>(), ["eth0"]);
        let addresses: Vec<String> = stack.addresses().map(|one| format!("{} {}", one.interface, one.address)).collect();
        assert_eq!(addresses, ["eth0 fd77:0:0:1::1/64", "eth1 10.0.1.1/24", "eth1 fd77:0:0:2::1/64"]);
        // The way to d leads through b: of IPv4 the server tells it.
        let routes: Vec<&str> = stack.routes().map(|route| route.first_gateway().unwrap_or_default()).collect();
        assert_eq!(routes, ["fd77:0:0:1::2"]);
        for (node, what) in [
            ("dhcp = true\nstack = \"x.toml\"", "a stack file says itself"),
            ("dhcp = true\nkind = \"linux\"", "asks no DHCP server"),
            ("dhcp = [\"eth7\"]", "no wire ends at interface 'eth7'"),
        ] {
            let text = format!("[nodes.a]\n{node}\n[nodes.b]\n[wires.x]\nbetween = [\"a\", \"b\"]\n");
            let error = super::super::Scenario::parse("w.toml", &text, &[], &|_| Err(String::new())).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn neighbouring_networks_over_one_gateway_become_one_route() {
        let hop = |network: &str, bits: u8, gateway: &str| Hop {
            destination: (network.parse().unwrap(), bits),
            gateway: gateway.parse().unwrap(),
            metric: 0,
        };
        let hops = vec![
            hop("10.0.0.0", 24, "1.1.1.1"),
            hop("10.0.1.0", 24, "1.1.1.1"),
            hop("10.0.2.0", 24, "1.1.1.1"),
            hop("10.0.3.0", 24, "1.1.1.1"),
            hop("10.0.4.0", 24, "1.1.1.1"),
            hop("10.0.5.0", 24, "2.2.2.2"),
        ];
        assert_eq!(shorten(hops.clone()), [hop("10.0.0.0", 22, "1.1.1.1"), hop("10.0.4.0", 24, "1.1.1.1"), hop("10.0.5.0", 24, "2.2.2.2")]);
        assert_eq!(shorten(hops[..5].to_vec()), [hop("0.0.0.0", 0, "1.1.1.1")]);
    }
}
