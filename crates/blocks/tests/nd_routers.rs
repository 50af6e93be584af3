//! Routers and neighbour discovery: solicitations, advertisements, lifetimes, prefixes, autoconfigured addresses, redirects.

use crate::six;

use six::*;
use std::time::Duration;
use weft_core::table::{AddressState, Family, Route, RouteKind};
use weft_core::*;
use weft_wire::ethernet::Mac;
use weft_wire::icmpv6::nd::{self, Message as Nd, NeighborFlags, PrefixFlags, RouterFlags};

const ROUTER: &str = "fe80::ff";
/// Of [`OUR_MAC`].
const LINK_LOCAL: &str = "fe80::ff:fe00:1";

fn advertisement(lifetime_s: u16) -> Incoming {
    with_preference(lifetime_s, 0)
}

fn with_preference(lifetime_s: u16, preference: u8) -> Incoming {
    let flags = RouterFlags::from_bits_retain(preference << 3);
    Incoming::new(ROUTER, "ff02::1", Nd::RouterAdvertisement { hop_limit: 0, flags, lifetime_s, reachable_ms: 0, retransmit_ms: 0 })
}

fn prefix(prefix: &str, prefix_len: u8, flags: PrefixFlags, valid_s: u32, preferred_s: u32) -> nd::Opt<'static> {
    nd::Opt::Prefix { prefix_len, flags, valid_s, preferred_s, prefix: ip(prefix) }
}

const ON_LINK: PrefixFlags = PrefixFlags::ON_LINK;
const AUTONOMOUS: PrefixFlags = PrefixFlags::AUTONOMOUS;

fn route(destination: &str, prefix_bits: u8, gateway: Option<&str>, metric: u32) -> Route {
    Route {
        destination: ip(destination).into(),
        prefix_bits,
        gateway: gateway.map(|gateway| ip(gateway).into()),
        interface: ETH0,
        source: None,
        metric,
        mtu: None,
        kind: RouteKind::Unicast,
        // RTPROT_RA, and RTPROT_KERNEL for what is on the link.
        protocol: if gateway.is_some() { 9 } else { 2 },
        ..Route::PLAIN
    }
}

fn default(metric: u32) -> Route {
    route("::", 0, Some(ROUTER), metric)
}

/// A node whose link-local address is usable.
fn node(parameters: &[(&str, Value)]) -> Node {
    let mut node = Node::nd(parameters);
    node.address(LINK_LOCAL, AddressState::Preferred);
    node
}

#[test]
fn routers_are_asked_for_three_times_once_there_is_an_address_to_ask_from() {
    let mut node = Node::nd(&[]);
    node.address(LINK_LOCAL, AddressState::Tentative);
    let start = node.now;
    let out = node.advance(Duration::from_secs(60));
    let asked: Vec<_> = out.iter().filter(|(_, frame)| sent(frame).message == Nd::RouterSolicitation).collect();
    assert_eq!((out.len(), asked.len()), (4, 3), "one solicitation of the detection before them");
    let first = sent(&asked[0].1);
    assert_eq!((first.ip.src, first.ip.dst, first.source), (ip(LINK_LOCAL), ip("ff02::2"), Some(OUR_MAC)));
    assert_eq!(first.dst_mac, Mac([0x33, 0x33, 0, 0, 0, 2]));
    assert!(asked[0].0.since(start) >= Duration::from_secs(1), "the address had to be detected first");
    assert_eq!(asked.windows(2).map(|pair| pair[1].0.since(pair[0].0).as_secs()).collect::<Vec<_>>(), [4, 4]);
}

#[test]
fn an_answer_ends_the_search_and_gives_a_default_route_for_its_lifetime() {
    let mut node = node(&[]);
    let out = node.advance(Duration::from_secs(1));
    assert_eq!(out.len(), 1);
    node.receive(&advertisement(1800).option(nd::Opt::SourceAddress(PEER_MAC)));
    assert_eq!(node.told(), [Change::AddRoute(default(1024))]);
    assert_eq!(node.neighbour(ROUTER).unwrap(), (Some(PEER_MAC.to_string()), "STALE".to_owned(), true));
    assert!(node.advance(Duration::from_secs(1000)).is_empty(), "no more solicitations");
    node.receive(&advertisement(1800));
    assert_eq!(node.told(), [], "renewed");
    node.advance(Duration::from_secs(1799));
    assert_eq!(node.told(), []);
    node.advance(Duration::from_secs(2));
    assert_eq!(node.told(), [Change::DeleteRoute(default(1024))]);
    // A lifetime of zero: at once.
    node.receive(&advertisement(1800));
    node.receive(&advertisement(0));
    assert_eq!(node.told(), [Change::AddRoute(default(1024)), Change::DeleteRoute(default(1024))]);
    assert_eq!(node.engine.next_timer(), None);
}

#[test]
fn preferences_are_metrics_and_a_change_moves_the_route() {
    let mut node = node(&[]);
    node.receive(&with_preference(1800, 1));
    node.receive(&with_preference(1800, 3));
    // RFC 4191 §2.2: the reserved value is medium.
    node.receive(&with_preference(1800, 2));
    assert_eq!(
        node.told(),
        [
            Change::AddRoute(default(1023)),
            Change::DeleteRoute(default(1023)),
            Change::AddRoute(default(1025)),
            Change::DeleteRoute(default(1025)),
            Change::AddRoute(default(1024)),
        ]
    );
}

#[test]
fn a_router_that_does_not_answer_is_a_last_resort_until_it_does() {
    let mut node = node(&[("router_solicitations", 0.into())]);
    node.receive(&advertisement(1800).option(nd::Opt::SourceAddress(PEER_MAC)));
    node.told();
    node.send(LINK_LOCAL, ROUTER, b"x");
    node.advance(Duration::from_secs(10));
    assert_eq!(node.neighbour(ROUTER).unwrap().1, "FAILED");
    assert_eq!(node.told(), [Change::DeleteRoute(default(1024)), Change::AddRoute(default(1040))]);
    // An advertisement shows that it speaks, not that it hears.
    node.receive(&advertisement(1800));
    assert_eq!(node.told(), []);
    node.send(LINK_LOCAL, ROUTER, b"x");
    let flags = NeighborFlags::SOLICITED | NeighborFlags::ROUTER | NeighborFlags::OVERRIDE;
    let answer = Incoming::new(ROUTER, LINK_LOCAL, Nd::NeighborAdvertisement { flags, target: ip(ROUTER) });
    node.receive(&answer.option(nd::Opt::TargetAddress(PEER_MAC)));
    assert_eq!(node.told(), [Change::DeleteRoute(default(1040)), Change::AddRoute(default(1024))]);
    // RFC 4861 §7.2.5: it no longer says that it is a router.
    let flags = NeighborFlags::SOLICITED | NeighborFlags::OVERRIDE;
    node.receive(&Incoming::new(ROUTER, LINK_LOCAL, Nd::NeighborAdvertisement { flags, target: ip(ROUTER) }));
    assert_eq!(node.told(), [Change::DeleteRoute(default(1024))]);
}

#[test]
fn prefixes_on_the_link_become_routes_for_their_lifetime() {
    let mut node = node(&[("router_solicitations", 0.into())]);
    // Bits behind the prefix do not count.
    node.receive(&advertisement(0).option(prefix("2001:db8:0:1::9", 64, ON_LINK, 600, 300)));
    let on_link = route("2001:db8:0:1::", 64, None, 256);
    assert_eq!(node.told(), [Change::AddRoute(on_link)]);
    assert_eq!(node.state("2001:db8:0:1:0:ff:fe00:1"), None, "no address without the flag");
    node.advance(Duration::from_secs(601));
    assert_eq!(node.told(), [Change::DeleteRoute(on_link)]);
    node.receive(&advertisement(0).option(prefix("2001:db8:0:1::", 64, ON_LINK, u32::MAX, 300)));
    node.told();
    assert_eq!(node.engine.next_timer(), None, "for ever");
    node.receive(&advertisement(0).option(prefix("2001:db8:0:1::", 64, ON_LINK, 0, 0)));
    assert_eq!(node.told(), [Change::DeleteRoute(on_link)]);
    // Ignored: the link-local prefix, a group, preferred for longer than valid; the network of an address that somebody set.
    node.address("fd07::1", AddressState::Preferred);
    let ignored = advertisement(0)
        .option(prefix("fe80::", 64, ON_LINK | AUTONOMOUS, 600, 300))
        .option(prefix("ff02::", 64, ON_LINK | AUTONOMOUS, 600, 300))
        .option(prefix("2001:db8:0:2::", 64, ON_LINK | AUTONOMOUS, 300, 600))
        .option(prefix("fd07::", 64, ON_LINK, 600, 300));
    node.receive(&ignored);
    assert_eq!(node.told(), []);
}

#[test]
fn an_address_is_made_of_a_prefix_detected_and_used() {
    let mut node = node(&[("router_solicitations", 0.into())]);
    node.receive(&advertisement(0).option(prefix("2001:db8:0:1::", 64, AUTONOMOUS, 6000, 3000)));
    let made = "2001:db8:0:1:0:ff:fe00:1";
    assert_eq!(node.state(made), Some(AddressState::Tentative));
    let address = node.stub(|stub, _| *stub.addresses.last().unwrap());
    assert_eq!((address.dynamic, address.prefix_bits), (true, 64));
    assert_eq!(address.valid_until, Some(node.now + Duration::from_secs(6000)));
    assert_eq!(address.preferred_until, Some(node.now + Duration::from_secs(3000)));
    assert_eq!(node.told(), [], "a prefix is not on the link because addresses are made of it");
    let probes = node.advance(Duration::from_secs(3));
    assert_eq!((probes.len(), sent(&probes[0].1).message), (1, Nd::NeighborSolicitation { target: ip(made) }));
    assert_eq!(node.state(made), Some(AddressState::Preferred));
    // Deprecated by an advertisement, and preferred again.
    node.receive(&advertisement(0).option(prefix("2001:db8:0:1::", 64, AUTONOMOUS, 6000, 0)));
    assert_eq!(node.state(made), Some(AddressState::Deprecated));
    node.receive(&advertisement(0).option(prefix("2001:db8:0:1::", 64, AUTONOMOUS, 6000, 100)));
    assert_eq!(node.state(made), Some(AddressState::Preferred));
    // RFC 4862 §5.5.3 d: identifiers have 64 bits.
    node.receive(&advertisement(0).option(prefix("2001:db8:0:2::", 80, AUTONOMOUS, 6000, 100)));
    assert_eq!(node.stub(|stub, _| stub.addresses.len()), 2);
}

#[test]
fn nobody_shortens_a_valid_lifetime_below_two_hours() {
    const HOUR: u32 = 3600;
    let mut node = node(&[("router_solicitations", 0.into())]);
    let mut tell = |valid_s: u32| {
        node.receive(&advertisement(0).option(prefix("2001:db8:0:1::", 64, AUTONOMOUS, valid_s, 0)));
        let (now, address) = (node.now, node.stub(|stub, _| *stub.addresses.last().unwrap()));
        address.valid_until.map(|until| until.since(now).as_secs() as u32)
    };
    assert_eq!(tell(HOUR), Some(HOUR), "as told when it is made");
    assert_eq!(tell(HOUR / 2), Some(HOUR), "less than two hours remain: ignored");
    assert_eq!(tell(HOUR + 1), Some(HOUR + 1), "longer than what remains");
    assert_eq!(tell(10 * HOUR), Some(10 * HOUR));
    assert_eq!(tell(3 * HOUR), Some(3 * HOUR), "longer than two hours");
    assert_eq!(tell(60), Some(2 * HOUR));
    assert_eq!(tell(0), Some(2 * HOUR));
    assert_eq!(tell(u32::MAX), None);
    assert_eq!(tell(60), Some(2 * HOUR));
}

#[test]
fn what_is_made_of_advertisements_is_bounded() {
    let mut node = node(&[("router_solicitations", 0.into()), ("addresses_max", 2.into())]);
    for number in 0..300 {
        let text = format!("2001:db8:{number:x}::");
        node.receive(&advertisement(0).option(prefix(&text, 64, ON_LINK | AUTONOMOUS, 600, 300)));
    }
    assert_eq!(node.stub(|stub, _| stub.addresses.len()), 3, "two, and the link-local one");
    assert_eq!(node.told().len(), 256);
    assert_eq!(node.counter("nd", "Refused"), 298 + 44);
    for number in 0..100 {
        let from = ip(&format!("fe80::1:{number:x}"));
        node.receive(&Incoming { from, ..advertisement(600) });
    }
    assert_eq!((node.told().len(), node.counter("nd", "Refused")), (64, 298 + 44 + 36));
}

#[test]
fn a_router_tells_times_mtu_and_hop_limit() {
    let mut node = node(&[("router_solicitations", 0.into())]);
    let message =
        Nd::RouterAdvertisement { hop_limit: 30, flags: RouterFlags::empty(), lifetime_s: 0, reachable_ms: 10_000, retransmit_ms: 250 };
    node.receive(&Incoming::new(ROUTER, "ff02::1", message).option(nd::Opt::Mtu(1400)));
    assert_eq!(node.told(), [Change::LinkParameters { interface: ETH0, mtu: Some(1400), hop_limit: Some(30) }]);
    for mtu in [1279, 1501, u32::MAX] {
        node.receive(&advertisement(0).option(nd::Opt::Mtu(mtu)));
        assert_eq!(node.told(), [], "{mtu}");
    }
    let start = node.now;
    assert_eq!(node.send(LINK_LOCAL, "fe80::5", b"x").len(), 1);
    let times: Vec<_> = node.advance(Duration::from_secs(5)).iter().map(|(at, _)| at.since(start).as_millis()).collect();
    assert_eq!(times, [250, 500], "three solicitations, 250 ms apart");
    // Weeks without address resolution are nothing that a router may ask for.
    let flags = RouterFlags::empty();
    let weeks = Nd::RouterAdvertisement { hop_limit: 0, flags, lifetime_s: 0, reachable_ms: 3_600_001, retransmit_ms: 10_001 };
    node.receive(&Incoming::new(ROUTER, "ff02::1", weeks));
    let start = node.now;
    assert_eq!(node.send(LINK_LOCAL, "fe80::6", b"x").len(), 1);
    let times: Vec<_> = node.advance(Duration::from_secs(5)).iter().map(|(at, _)| at.since(start).as_millis()).collect();
    assert_eq!(times, [250, 500], "what was told before goes on");
    node.send(LINK_LOCAL, "fe80::5", b"x");
    let answer = Nd::NeighborAdvertisement { flags: NeighborFlags::SOLICITED, target: ip("fe80::5") };
    node.receive(&Incoming::new("fe80::5", LINK_LOCAL, answer).option(nd::Opt::TargetAddress(PEER_MAC)));
    node.advance(Duration::from_millis(4_900));
    assert_eq!(node.neighbour("fe80::5").unwrap().1, "REACHABLE");
    node.advance(Duration::from_millis(10_200));
    assert_eq!(node.neighbour("fe80::5").unwrap().1, "STALE", "1.5 times 10 s at most");
}

#[test]
fn routes_of_routers_are_taken_as_far_as_allowed() {
    let told = |bits: u8, preference: u8, lifetime_s: u32| {
        let prefix = ip("2001:db8:7::").octets();
        advertisement(0).option(nd::Opt::Route { prefix_len: bits, preference, lifetime_s, prefix: &prefix })
    };
    let mut by_default = node(&[]);
    by_default.receive(&told(48, 0, 600));
    assert_eq!(by_default.told(), []);
    let mut node = node(&[("route_information_bits_max", 48.into()), ("router_solicitations", 0.into())]);
    node.receive(&told(48, 1, 600));
    node.receive(&told(49, 1, 600));
    node.receive(&told(48, 2, 600));
    let high = route("2001:db8:7::", 48, Some(ROUTER), 1023);
    assert_eq!(node.told(), [Change::AddRoute(high)]);
    node.advance(Duration::from_secs(601));
    assert_eq!(node.told(), [Change::DeleteRoute(high)]);
}

#[test]
fn advertisements_and_redirects_can_be_switched_off() {
    let mut node = node(&[("accept_ra", false.into()), ("accept_redirects", false.into())]);
    assert!(node.advance(Duration::from_secs(60)).is_empty(), "and nobody asks");
    node.receive(&advertisement(1800).option(prefix("2001:db8:0:1::", 64, ON_LINK | AUTONOMOUS, 600, 300)));
    node.stub(|stub, _| stub.gateway = Some(ip(ROUTER)));
    node.receive(&Incoming::new(ROUTER, LINK_LOCAL, Nd::Redirect { target: ip("fe80::7"), destination: ip("fd01::9") }));
    assert_eq!((node.told(), node.counter("nd", "InIgnored")), (vec![], 2));
}

#[test]
fn redirects_of_the_first_hop_are_passed_on() {
    let mut node = node(&[("router_solicitations", 0.into())]);
    node.stub(|stub, _| stub.gateway = Some(ip(ROUTER)));
    let redirect = |from: &str, target: &str, destination: &str| {
        let message = Nd::Redirect { target: ip(target), destination: ip(destination) };
        Incoming::new(from, LINK_LOCAL, message).option(nd::Opt::TargetAddress(OTHER_MAC))
    };
    node.receive(&redirect(ROUTER, "fe80::7", "fd01::9"));
    let change =
        Change::Redirect { destination: ip("fd01::9").into(), gateway: ip("fe80::7").into(), interface: ETH0, from: ip(ROUTER).into() };
    assert_eq!(node.told(), [change]);
    assert_eq!(node.neighbour("fe80::7").unwrap(), (Some(OTHER_MAC.to_string()), "STALE".to_owned(), true));
    // The destination itself is a neighbour, and perhaps no router.
    node.receive(&redirect(ROUTER, "fd01::8", "fd01::8"));
    assert_eq!((node.told().len(), node.neighbour("fd01::8").unwrap().2), (1, false));
    node.receive(&redirect("fe80::bad", "fe80::66", "fd01::9"));
    assert_eq!((node.told(), node.neighbour("fe80::66"), node.counter("nd", "InIgnored")), (vec![], None, 1), "not from the first hop");
}

#[test]
fn an_interface_that_goes_down_takes_what_was_learnt_with_it() {
    let mut node = node(&[("router_solicitations", 1.into())]);
    node.advance(Duration::from_secs(5));
    node.receive(&advertisement(1800).option(prefix("2001:db8:0:1::", 64, ON_LINK, 600, 300)).option(nd::Opt::SourceAddress(PEER_MAC)));
    node.told();
    node.exec("interfaces", "set", serde_json::json!({"name": "eth0", "up": false})).unwrap();
    let gone = [
        Change::DeleteRoute(default(1024)),
        Change::DeleteRoute(route("2001:db8:0:1::", 64, None, 256)),
        Change::LinkParameters { interface: ETH0, mtu: None, hop_limit: None },
    ];
    assert_eq!(node.told(), gone);
    assert_eq!(node.neighbour(ROUTER), None);
    assert!(node.advance(Duration::from_secs(3600)).is_empty());
    node.exec("interfaces", "set", serde_json::json!({"name": "eth0", "up": true})).unwrap();
    let out = node.advance(Duration::from_secs(2));
    assert_eq!((out.len(), sent(&out[0].1).message), (1, Nd::RouterSolicitation), "routers are asked for again");
}

#[test]
fn routers_and_prefixes_move_to_a_new_block() {
    let mut node = node(&[("router_solicitations", 0.into())]);
    node.receive(&advertisement(1800).option(prefix("2001:db8:0:1::", 64, ON_LINK, 600, 300)));
    node.told();
    node.advance(Duration::from_secs(100));
    let parameters = [("router_solicitations".to_owned(), Value::from(0))].into_iter().collect();
    node.control(Op::Replace { name: "nd".to_owned(), kind: "nd".to_owned(), parameters, drop_state: false }).unwrap();
    node.advance(Duration::from_secs(501));
    assert_eq!(node.told(), [Change::DeleteRoute(route("2001:db8:0:1::", 64, None, 256))]);
    node.advance(Duration::from_secs(1200));
    assert_eq!(node.told(), [Change::DeleteRoute(default(1024))]);
    assert_eq!(node.list(Table::Neighbours(Family::V6)), [] as [Value; 0]);
}
