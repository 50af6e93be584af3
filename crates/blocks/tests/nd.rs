//! Neighbour discovery between neighbours: resolution, answers, the rules of RFC 4861 §7.2.5, unreachability, duplicates.

use crate::six;

use six::*;
use std::time::Duration;
use weft_core::table::{AddressState, Family};
use weft_core::*;
use weft_wire::ethernet::Mac;
use weft_wire::icmpv6::nd::{self, Message as Nd, NeighborFlags};

const PEER: &str = "fd00::2";
const PEER_GROUP: &str = "ff02::1:ff00:2";
const OUR_GROUP: &str = "ff02::1:ff00:1";

fn solicitation(from: &str, to: &str, target: &str) -> Incoming {
    Incoming::new(from, to, Nd::NeighborSolicitation { target: ip(target) })
}

fn advertisement(target: &str, flags: NeighborFlags, mac: Option<Mac>) -> Incoming {
    let message = Incoming::new(target, "fd00::1", Nd::NeighborAdvertisement { flags, target: ip(target) });
    match mac {
        Some(mac) => message.option(nd::Opt::TargetAddress(mac)),
        None => message,
    }
}

const S: NeighborFlags = NeighborFlags::SOLICITED;
const O: NeighborFlags = NeighborFlags::OVERRIDE;
const R: NeighborFlags = NeighborFlags::ROUTER;

/// A node that has resolved fd00::2.
fn resolved() -> Node {
    let mut node = Node::quiet();
    node.send("fd00::1", PEER, b"x");
    node.receive(&advertisement(PEER, S | O, Some(PEER_MAC)));
    assert_eq!(node.neighbour(PEER).unwrap(), (Some(PEER_MAC.to_string()), "REACHABLE".to_owned(), false));
    node
}

fn state(node: &mut Node) -> (String, String) {
    let (mac, state, _) = node.neighbour(PEER).unwrap();
    (mac.unwrap_or_default(), state)
}

#[test]
fn a_packet_waits_for_the_advertisement() {
    let mut node = Node::quiet();
    // -> who has fd00::2? to its solicited-node group, with our link-layer address
    let out = node.send("fd00::1", PEER, b"one");
    let asked = sent(&out[0]);
    assert_eq!((out.len(), asked.message), (1, Nd::NeighborSolicitation { target: ip(PEER) }));
    assert_eq!((asked.ip.src, asked.ip.dst), (ip("fd00::1"), ip(PEER_GROUP)));
    assert_eq!((asked.dst_mac, asked.source), (Mac([0x33, 0x33, 0xff, 0, 0, 2]), Some(OUR_MAC)));
    assert!(node.send("fd00::1", PEER, b"two").is_empty(), "one solicitation is under way");
    // <- fd00::2 is at 02:00:00:00:00:02
    let out = node.receive(&advertisement(PEER, S | O, Some(PEER_MAC)));
    assert_eq!(
        out.iter().map(|frame| (frame.to_vec(), frame.meta().dst_mac)).collect::<Vec<_>>(),
        [(b"one".to_vec(), PEER_MAC), (b"two".to_vec(), PEER_MAC)]
    );
    assert_eq!(node.send("fd00::1", PEER, b"three")[0].meta().dst_mac, PEER_MAC);
    assert_eq!(node.send("fd00::1", "ff02::fb", b"all")[0].meta().dst_mac, Mac([0x33, 0x33, 0, 0, 0, 0xfb]));
}

#[test]
fn nobody_answers_three_solicitations() {
    let mut node = Node::quiet();
    let start = node.now;
    let mut times: Vec<u64> = node.send("fd00::1", PEER, b"lost").iter().map(|_| 0).collect();
    times.extend(node.advance(Duration::from_secs(10)).iter().map(|(at, _)| at.since(start).as_secs()));
    assert_eq!(times, [0, 1, 2]);
    let errors = node.errors();
    assert_eq!((errors.len(), errors[0].to_vec()), (1, b"lost".to_vec()));
    assert_eq!(errors[0].meta().error.unwrap().kind, IcmpErrorKind::HostUnreachable);
    assert_eq!(node.neighbour(PEER).unwrap(), (None, "FAILED".to_owned(), false));
    assert_eq!(node.counter("nd", "Failed"), 1);
}

#[test]
fn the_queue_of_a_neighbour_is_bounded_and_so_is_the_cache() {
    let mut node = Node::nd(&[("pending_frames_max", 2.into()), ("entries_max", 3.into())]);
    node.address("fd00::1", AddressState::Preferred);
    for payload in [b"1", b"2", b"3"] {
        node.send("fd00::1", PEER, payload);
    }
    assert_eq!((node.counter("nd", "PendingDropped"), node.drops("nd", Reason::NeighbourPendingFull)), (1, 1));
    node.send("fd00::1", "fd00::3", b"x");
    node.send("fd00::1", "fd00::4", b"x");
    // All three wait for answers, so none can go.
    node.send("fd00::1", "fd00::5", b"x");
    assert_eq!((node.counter("nd", "TableFull"), node.drops("nd", Reason::TableFull)), (1, 1));
    assert_eq!(node.receive(&advertisement(PEER, S | O, Some(PEER_MAC))).len(), 2);
}

#[test]
fn a_stale_neighbour_is_probed_alone_unless_a_transport_confirms_it() {
    let mut node = resolved();
    // REACHABLE lasts at most 1.5 times 30 s.
    node.advance(Duration::from_secs(46));
    assert_eq!(state(&mut node).1, "STALE");
    assert_eq!(node.send("fd00::1", PEER, b"x").len(), 1, "a stale address is used");
    assert_eq!(state(&mut node).1, "DELAY");
    node.tell(Table::Neighbours(Family::V6), Change::Confirm { interface: ETH0, neighbour: ip(PEER).into() });
    assert_eq!(state(&mut node).1, "REACHABLE");
    assert!(node.advance(Duration::from_secs(10)).is_empty(), "nothing is probed");
    node.advance(Duration::from_secs(46));
    node.send("fd00::1", PEER, b"x");
    let probes = node.advance(Duration::from_millis(5100));
    let probe = sent(&probes[0].1);
    assert_eq!((probes.len(), probe.dst_mac, probe.ip.dst), (1, PEER_MAC, ip(PEER)));
    assert_eq!(state(&mut node).1, "PROBE");
    node.advance(Duration::from_secs(5));
    assert_eq!(state(&mut node).1, "FAILED");
}

#[test]
fn solicitations_for_our_addresses_are_answered_and_learnt_from() {
    let mut node = Node::quiet();
    let out = node.receive(&solicitation(PEER, OUR_GROUP, "fd00::1").option(nd::Opt::SourceAddress(PEER_MAC)));
    let answer = sent(&out[0]);
    assert_eq!(answer.message, Nd::NeighborAdvertisement { flags: S | O, target: ip("fd00::1") });
    assert_eq!((answer.ip.src, answer.ip.dst, answer.dst_mac), (ip("fd00::1"), ip(PEER), PEER_MAC));
    assert_eq!((out.len(), answer.target), (1, Some(OUR_MAC)));
    // The neighbour was STALE when it was learnt; that we answered it moved it on, as any packet does.
    assert_eq!(state(&mut node), (PEER_MAC.to_string(), "DELAY".to_owned()));
    // RFC 4861 §7.2.3: another address makes it STALE again.
    node.receive(&solicitation(PEER, OUR_GROUP, "fd00::1").option(nd::Opt::SourceAddress(OTHER_MAC)));
    assert_eq!(state(&mut node).0, OTHER_MAC.to_string());
    // For nobody, and for another interface's address: silence.
    assert!(node.receive(&solicitation(PEER, OUR_GROUP, "fd00::9").option(nd::Opt::SourceAddress(PEER_MAC))).is_empty());
    assert_eq!(state(&mut node).0, OTHER_MAC.to_string(), "nothing is learnt from what is not for us");
}

#[test]
fn an_answer_without_the_askers_address_resolves_it_first() {
    let mut node = Node::quiet();
    let out = node.receive(&solicitation(PEER, "fd00::1", "fd00::1"));
    assert_eq!(sent(&out[0]).message, Nd::NeighborSolicitation { target: ip(PEER) });
    let out = node.receive(&advertisement(PEER, S | O, Some(PEER_MAC)));
    let answer = sent(&out[0]);
    assert_eq!(answer.message, Nd::NeighborAdvertisement { flags: S, target: ip("fd00::1") });
    assert_eq!(answer.target, None, "whoever asks one node alone has its address");
    // RFC 4861 §4.3: who asks the group must say where it is.
    assert!(node.receive(&solicitation("fd00::7", OUR_GROUP, "fd00::1")).is_empty());
}

#[test]
fn whoever_detects_our_address_as_a_duplicate_hears_so_with_everybody() {
    let mut node = Node::quiet();
    let out = node.receive(&solicitation("::", OUR_GROUP, "fd00::1"));
    let answer = sent(&out[0]);
    assert_eq!(answer.message, Nd::NeighborAdvertisement { flags: O, target: ip("fd00::1") });
    assert_eq!((answer.ip.dst, answer.dst_mac), (ip("ff02::1"), Mac([0x33, 0x33, 0, 0, 0, 1])));
    assert_eq!(node.neighbour("::"), None);
}

#[test]
fn a_router_says_so_when_it_is_one() {
    let mut node = Node::nd(&[("router", true.into())]);
    node.address("fd00::1", AddressState::Preferred);
    let out = node.receive(&solicitation("::", OUR_GROUP, "fd00::1"));
    assert_eq!(sent(&out[0]).message, Nd::NeighborAdvertisement { flags: O | R, target: ip("fd00::1") });
}

#[test]
fn messages_that_fail_a_check_change_nothing() {
    let mut node = Node::quiet();
    let source = nd::Opt::SourceAddress(PEER_MAC);
    let good = || solicitation(PEER, OUR_GROUP, "fd00::1").option(source);
    let wrong = [
        // RFC 4861 §7.1.1: the hop limit; a target that is a group; from nobody, to no solicited-node group; from nobody, with an address.
        Incoming { hop_limit: 254, ..good() },
        solicitation(PEER, OUR_GROUP, "ff02::1").option(source),
        solicitation("::", "fd00::1", "fd00::1"),
        solicitation("::", OUR_GROUP, "fd00::1").option(source),
        // An option of length 0, one cut off.
        Incoming { options: vec![1, 0, 0, 0, 0, 0, 0, 0], ..good() },
        Incoming { options: vec![1, 2, 0, 0, 0, 0, 0, 0], ..good() },
        // §7.1.2: solicited, to a group.
        Incoming { to: ip("ff02::1"), ..advertisement(PEER, S | O, Some(PEER_MAC)) },
        // §6.1.2 and §8.1: not from a link-local address.
        Incoming::new(
            "fd00::9",
            "ff02::1",
            Nd::RouterAdvertisement { hop_limit: 1, flags: nd::RouterFlags::empty(), lifetime_s: 9, reachable_ms: 0, retransmit_ms: 0 },
        ),
        Incoming::new("fd00::9", "fd00::1", Nd::Redirect { target: ip("fe80::9"), destination: ip("fd00::9") }),
    ];
    let count = wrong.len() as u64;
    for message in &wrong {
        assert!(node.receive(message).is_empty());
    }
    assert_eq!((node.counter("nd", "InErrors"), node.drops("nd", Reason::BadPacket)), (count, count));
    assert!(node.list(Table::Neighbours(Family::V6)).is_empty() && node.told().is_empty());
    assert_eq!(node.receive(&good()).len(), 1);
}

#[test]
fn advertisements_update_by_the_rules_of_section_7_2_5() {
    let (peer, other) = (PEER_MAC.to_string(), OTHER_MAC.to_string());
    let after = |message: Incoming| {
        let mut node = resolved();
        node.receive(&message);
        state(&mut node)
    };
    // I a: no override, another address: STALE, and no other change.
    assert_eq!(after(advertisement(PEER, S, Some(OTHER_MAC))), (peer.clone(), "STALE".to_owned()));
    // II: override, another address: it is taken; REACHABLE if solicited, STALE if not.
    assert_eq!(after(advertisement(PEER, S | O, Some(OTHER_MAC))), (other.clone(), "REACHABLE".to_owned()));
    assert_eq!(after(advertisement(PEER, O, Some(OTHER_MAC))), (other, "STALE".to_owned()));
    // The same address, not solicited: unchanged; without an option too.
    assert_eq!(after(advertisement(PEER, O, Some(PEER_MAC))), (peer.clone(), "REACHABLE".to_owned()));
    assert_eq!(after(advertisement(PEER, S, None)), (peer.clone(), "REACHABLE".to_owned()));
    // I b: a STALE entry ignores another address without override; II: a solicited answer confirms it.
    let mut node = resolved();
    node.advance(Duration::from_secs(46));
    node.receive(&advertisement(PEER, S, Some(OTHER_MAC)));
    assert_eq!(state(&mut node), (peer.clone(), "STALE".to_owned()));
    node.receive(&advertisement(PEER, S, None));
    assert_eq!(state(&mut node), (peer, "REACHABLE".to_owned()));
    assert_eq!(node.neighbour("fd00::7"), None);
    node.receive(&advertisement("fd00::7", S | O, Some(OTHER_MAC)));
    assert_eq!(node.neighbour("fd00::7"), None, "no entry is made");
}

#[test]
fn an_incomplete_entry_needs_the_address_and_knows_unsolicited_answers_as_stale() {
    let mut node = Node::quiet();
    node.send("fd00::1", PEER, b"x");
    assert!(node.receive(&advertisement(PEER, S | O, None)).is_empty());
    assert_eq!(state(&mut node).1, "INCOMPLETE");
    assert_eq!(node.receive(&advertisement(PEER, R, Some(PEER_MAC))).len(), 1);
    assert_eq!(node.neighbour(PEER).unwrap(), (Some(PEER_MAC.to_string()), "DELAY".to_owned(), true), "STALE, and then in use");
}

#[test]
fn a_tentative_address_is_detected_and_then_preferred() {
    let mut node = Node::nd(&[]);
    let start = node.now;
    node.address("fd00::1", AddressState::Tentative);
    assert_eq!(node.joined(), [(ip(OUR_GROUP), true)]);
    assert!(node.receive(&solicitation(PEER, OUR_GROUP, "fd00::1").option(nd::Opt::SourceAddress(PEER_MAC))).is_empty(), "not ours yet");
    let probes = node.advance(Duration::from_secs(1));
    let probe = sent(&probes[0].1);
    assert_eq!((probes.len(), probe.message), (1, Nd::NeighborSolicitation { target: ip("fd00::1") }));
    assert_eq!((probe.ip.src, probe.ip.dst, probe.source), (ip("::"), ip(OUR_GROUP), None));
    assert_eq!(node.state("fd00::1"), Some(AddressState::Tentative));
    let probed = probes[0].0;
    assert!(probed.since(start) <= Duration::from_secs(1));
    node.advance((probed + Duration::from_millis(999)).since(node.now));
    assert_eq!(node.state("fd00::1"), Some(AddressState::Tentative), "one retransmission time must pass");
    node.advance(Duration::from_millis(2));
    assert_eq!(node.state("fd00::1"), Some(AddressState::Preferred));
    assert_eq!(node.receive(&solicitation("::", OUR_GROUP, "fd00::1")).len(), 1, "now it is defended");
    assert_eq!(node.engine.next_timer(), None);
}

#[test]
fn whoever_has_or_detects_a_tentative_address_makes_it_a_duplicate() {
    let conflicts = [
        Incoming { to: ip("ff02::1"), ..advertisement("fd00::1", O, Some(PEER_MAC)) },
        solicitation("::", OUR_GROUP, "fd00::1"),
        solicitation("::", OUR_GROUP, "fd00::1").option(nd::Opt::Nonce(&[1, 2, 3, 4, 5, 6])),
    ];
    for conflict in conflicts {
        let mut node = Node::nd(&[]);
        node.address("fd00::1", AddressState::Tentative);
        node.advance(Duration::from_secs(1));
        node.receive(&conflict);
        assert_eq!(node.state("fd00::1"), Some(AddressState::Duplicated));
        let alerts = node.engine.take_alerts();
        assert_eq!(alerts.iter().filter(|alert| alert.name == "duplicate" && alert.value["address"] == "fd00::1").count(), 1);
        assert!(node.advance(Duration::from_secs(5)).is_empty());
        assert_eq!((node.state("fd00::1"), node.counter("nd", "Duplicates")), (Some(AddressState::Duplicated), 1));
        assert!(node.receive(&solicitation(PEER, OUR_GROUP, "fd00::1")).is_empty(), "and it is not answered for");
    }
}

#[test]
fn whoever_has_an_address_that_is_a_duplicate_here_is_answered() {
    let mut node = Node::nd(&[]);
    node.address("fd00::9", AddressState::Tentative);
    node.receive(&Incoming { to: ip("ff02::1"), ..advertisement("fd00::9", O, Some(PEER_MAC)) });
    node.address("fd00::1", AddressState::Preferred);
    let asked = || solicitation("fd00::9", OUR_GROUP, "fd00::1").option(nd::Opt::SourceAddress(PEER_MAC));
    let out = node.receive(&asked());
    assert_eq!(sent(&out[0]).message, Nd::NeighborAdvertisement { flags: S | O, target: ip("fd00::1") });
    // From an address that this node uses itself nobody asks.
    node.address("fd00::8", AddressState::Preferred);
    assert!(node.receive(&solicitation("fd00::8", OUR_GROUP, "fd00::1").option(nd::Opt::SourceAddress(PEER_MAC))).is_empty());
}

#[test]
fn ones_own_solicitation_that_comes_back_is_no_duplicate() {
    let mut node = Node::nd(&[]);
    node.address("fd00::1", AddressState::Tentative);
    let probe = sent(&node.advance(Duration::from_secs(1))[0].1);
    let nonce = probe.nonce.unwrap();
    node.receive(&Incoming { from_mac: OUR_MAC, ..solicitation("::", OUR_GROUP, "fd00::1").option(nd::Opt::Nonce(&nonce)) });
    assert_eq!(node.counter("nd", "LoopedBack"), 1);
    let more = node.advance(Duration::from_secs(5));
    assert_eq!(more.len(), 1, "one solicitation more, with another nonce");
    assert_ne!(sent(&more[0].1).nonce.unwrap(), nonce);
    assert_eq!(node.state("fd00::1"), Some(AddressState::Preferred));
}

#[test]
fn without_transmits_an_address_is_usable_at_once_and_preferred_ones_are_not_detected() {
    let mut node = Node::nd(&[("dad_transmits", 0.into())]);
    node.address("fd00::1", AddressState::Tentative);
    assert_eq!(node.state("fd00::1"), Some(AddressState::Preferred));
    let mut node = Node::nd(&[]);
    node.address("fd00::1", AddressState::Preferred);
    assert!(node.advance(Duration::from_secs(5)).is_empty());
    // A conflict later is reported, and leaves the address as it is (as in Linux).
    node.receive(&Incoming { to: ip("ff02::1"), ..advertisement("fd00::1", O, Some(PEER_MAC)) });
    assert_eq!((node.counter("nd", "Conflicts"), node.state("fd00::1")), (1, Some(AddressState::Preferred)));
}

#[test]
fn a_solicited_node_group_is_left_with_its_last_address() {
    let mut node = Node::quiet();
    node.address("fd01::1", AddressState::Preferred);
    assert_eq!(node.joined(), [(ip(OUR_GROUP), true)], "both addresses have one group");
    for (address, left) in [("fd00::1", vec![]), ("fd01::1", vec![(ip(OUR_GROUP), false)])] {
        let change = Change::DeleteAddress { interface: ETH0, address: ip(address).into() };
        node.tell(Table::Addresses(Family::V6), change);
        assert_eq!(node.joined(), left);
    }
}

#[test]
fn state_moves_to_a_new_block() {
    let mut node = resolved();
    let replace = Op::Replace { name: "nd".to_owned(), kind: "nd".to_owned(), parameters: Default::default(), drop_state: false };
    node.control(replace).unwrap();
    assert_eq!(node.send("fd00::1", PEER, b"x")[0].meta().dst_mac, PEER_MAC);
    node.exec("nd", "add", serde_json::json!({"interface": "eth0", "address": "fd00::8", "mac": OTHER_MAC.to_string()})).unwrap();
    assert_eq!(node.neighbour("fd00::8").unwrap().1, "PERMANENT");
    let error = node.exec("nd", "add", serde_json::json!({"interface": "eth0", "address": "10.0.0.1", "mac": OTHER_MAC.to_string()}));
    assert_eq!(error.unwrap_err().to_string(), "nd add: address: '10.0.0.1' is no IPv6 address such as \"2001:db8::1\"");
}
