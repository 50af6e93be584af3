//! No bytes, addresses or order of events make neighbour discovery or group membership panic, grow without bound, or send without end.

use crate::six;

use proptest::prelude::*;
use six::*;
use std::net::IpAddr;
use std::time::Duration;
use weft_core::table::{AddressState, Family};
use weft_core::*;
use weft_wire::{icmpv6, igmp};

/// Addresses that matter, and others.
fn address() -> impl Strategy<Value = String> {
    let known =
        ["fd00::1", "fd00::2", "fe80::2", "fe80::ff:fe00:1", "::", "ff02::1", "ff02::1:ff00:1", "ff02::16", "10.0.0.1", "239.1.2.3"];
    prop_oneof![proptest::sample::select(known.to_vec()).prop_map(str::to_owned), any::<u128>().prop_map(|bits| Ip6Text(bits).text())]
}

struct Ip6Text(u128);
impl Ip6Text {
    fn text(&self) -> String {
        std::net::Ipv6Addr::from_bits(self.0).to_string()
    }
}

/// A message whose type is one of those that are read; most have the length of their header, options that hold together and IGMP's checksum.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![4 => 133u8..=137, 1 => 130u8..=132, 1 => Just(143u8), 1 => Just(0x11), 1 => Just(0x16), 1 => Just(0x22), 1 => any::<u8>()];
    let option = (prop_oneof![1u8..6, Just(14), Just(24), any::<u8>()], prop_oneof![9 => 1u8..6, 1 => Just(0)], any::<u64>());
    let options = proptest::collection::vec(option, 0..4);
    let target = address().prop_map(|text| text.parse::<std::net::Ipv6Addr>().unwrap_or(std::net::Ipv6Addr::LOCALHOST).octets());
    let parts = (kind, prop_oneof![9 => Just(0u8), 1 => any::<u8>()], any::<[u8; 4]>(), target, any::<[u8; 16]>(), options);
    (parts, 0usize..10, any::<bool>()).prop_map(|((kind, code, flags, target, more, options), cut, sum)| {
        let mut bytes = vec![kind, code, 0, 0];
        bytes.extend(flags);
        bytes.extend(target);
        bytes.extend(more);
        let header = match kind {
            133 => 8,
            134 => 16,
            135 | 136 => 24,
            137 => 40,
            _ => bytes.len(),
        };
        bytes.truncate(header);
        for (kind, units, data) in options {
            bytes.extend([kind, units]);
            bytes.extend(data.to_be_bytes().iter().cycle().take((usize::from(units) * 8).saturating_sub(2)));
        }
        if cut == 0 {
            bytes.truncate(bytes.len() - 3);
        }
        if sum && bytes.len() >= igmp::HEADER_LEN {
            let sum = weft_wire::checksum::of(&bytes);
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        bytes
    })
}

#[derive(Clone, Debug)]
enum Event {
    Message { from: String, to: String, ttl: u8, bytes: Vec<u8> },
    Send(String),
    Wish(u8, u8, Option<bool>, Vec<u8>),
    Address(String, bool),
    Up(bool),
    Wait(u32),
}

fn event() -> impl Strategy<Value = Event> {
    let ttl = prop_oneof![Just(255u8), Just(1), any::<u8>()];
    prop_oneof![
        6 => (address(), address(), ttl, message()).prop_map(|(from, to, ttl, bytes)| Event::Message { from, to, ttl, bytes }),
        2 => address().prop_map(Event::Send),
        3 => (any::<u8>(), 0u8..4, any::<Option<bool>>(), proptest::collection::vec(0u8..5, 0..4))
            .prop_map(|(group, holder, mode, sources)| Event::Wish(group, holder, mode, sources)),
        1 => (address(), any::<bool>()).prop_map(|(address, tentative)| Event::Address(address, tentative)),
        1 => any::<bool>().prop_map(Event::Up),
        2 => (0u32..400_000).prop_map(Event::Wait),
    ]
}

fn play(node: &mut Node, v4: bool, event: Event) {
    match event {
        Event::Message { from, to, ttl, bytes } => {
            node.message(&from, &to, ttl, &bytes);
        }
        Event::Send(to) => {
            if let Ok(to) = to.parse::<std::net::Ipv6Addr>() {
                node.send("fd00::1", &to.to_string(), b"x");
            }
        }
        Event::Wish(group, holder, mode, sources) => {
            let (group, source): (String, fn(u8) -> IpAddr) = match v4 {
                true => (format!("239.0.0.{group}"), |last| IpAddr::from([192, 0, 2, last])),
                false => (format!("ff05::{group:x}"), |last| {
                    std::net::Ipv6Addr::from([0x20, 1, 13, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]).into()
                }),
            };
            let sources: Vec<IpAddr> = sources.into_iter().map(source).collect();
            let filter = mode.map(|exclude| if exclude { SourceFilter::Exclude(sources) } else { SourceFilter::Include(sources) });
            node.wish(&group, u64::from(holder), filter);
        }
        Event::Address(text, tentative) => {
            if text.parse::<std::net::Ipv6Addr>().is_ok() {
                node.address(&text, if tentative { AddressState::Tentative } else { AddressState::Preferred });
            }
        }
        Event::Up(up) => {
            node.exec("interfaces", "set", serde_json::json!({"name": "eth0", "up": up})).unwrap();
        }
        Event::Wait(ms) => {
            node.advance(Duration::from_millis(u64::from(ms)));
        }
    }
}

/// After all that, and with nobody talking any more, it falls silent: within two days no timer is left but those of lifetimes, and nothing is sent.
fn falls_silent(node: &mut Node) {
    node.advance(Duration::from_secs(86_400));
    let late = node.advance(Duration::from_secs(86_400));
    assert!(late.is_empty(), "{} frames a day later", late.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn neighbour_discovery(events in proptest::collection::vec(event(), 0..60)) {
        let mut node = Node::nd(&[("entries_max", 16.into()), ("collect_above", 4.into()), ("route_information_bits_max", 128.into())]);
        node.address("fd00::1", AddressState::Preferred);
        node.address("fe80::ff:fe00:1", AddressState::Tentative);
        for event in events {
            play(&mut node, false, event);
            prop_assert!(node.list(Table::Neighbours(Family::V6)).len() <= 16);
        }
        falls_silent(&mut node);
        let (found, duplicate) = (node.state("fe80::ff:fe00:1"), node.counter("nd", "Duplicates"));
        prop_assert!(found != Some(AddressState::Tentative) || duplicate > 0, "a detection ends");
    }

    #[test]
    fn membership(v4 in any::<bool>(), events in proptest::collection::vec(event(), 0..60)) {
        let kind = if v4 { "igmp" } else { "mld" };
        let mut node = Node::membership(kind, &[("memberships_max", 12.into()), ("sources_max", 3.into())]);
        for event in events {
            if !matches!(event, Event::Send(_)) {
                play(&mut node, v4, event);
            }
            let family = if v4 { Family::V4 } else { Family::V6 };
            prop_assert!(node.list(Table::Groups(family)).len() <= 12);
        }
        falls_silent(&mut node);
    }
}

#[test]
fn the_messages_of_these_tests_are_read() {
    // What the generators make is not all refused at the door: some of each kind is well-formed.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut nd, mut mld, mut ig) = (0, 0, 0);
    for _ in 0..2000 {
        let bytes = proptest::strategy::ValueTree::current(&message().new_tree(&mut runner).unwrap());
        match icmpv6::Message::parse(&bytes) {
            Ok((icmpv6::Message::Nd(_), at)) => nd += usize::from(icmpv6::nd::options(&bytes[at..]).all(|option| option.is_ok())),
            Ok((icmpv6::Message::Mld(_), _)) => mld += 1,
            _ => {}
        }
        ig += usize::from(igmp::verify_checksum(&bytes) && igmp::Message::parse(&bytes).is_ok());
    }
    assert!(nd > 50 && mld > 50 && ig > 50, "{nd} {mld} {ig}");
}
