//! A whole node and its neighbours: who is asked for how often while programs talk.

use crate::common;
use common::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::rc::Rc;
use std::time::Duration;
use weft_core::Bytes;
use weft_wire::ethernet::EtherType;

const SERVER: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
/// MSG_CONFIRM.
const CONFIRM: i32 = 0x800;

/// Frames that crossed the wire, by what they are.
type Seen = Rc<RefCell<BTreeMap<&'static str, u32>>>;

fn watched() -> (Pair, Seen) {
    let seen = Seen::default();
    let counted = Rc::clone(&seen);
    let pair = Pair::new(0, "").with_wire(Duration::from_micros(100), move |_, frame| {
        let bytes = frame.to_vec();
        // Behind Ethernet and IPv6 headers: next header and ICMPv6 type.
        let what = match (frame.meta().ether_type, bytes.get(20), bytes.get(54)) {
            (EtherType::ARP, _, _) => "ARP",
            (EtherType::IPV6, Some(58), Some(135)) => "solicitation",
            _ => "other",
        };
        *counted.borrow_mut().entry(what).or_default() += 1;
        Fate::Pass
    });
    (pair, seen)
}

fn count(seen: &Seen, what: &str) -> u32 {
    seen.borrow().get(what).copied().unwrap_or(0)
}

#[test]
fn an_active_connection_does_not_ask_for_its_neighbour_again() {
    for (family, to, question) in [(AF_INET, address(2, 80), "ARP"), (AF_INET6, address6(SERVER, 80, 0), "solicitation")] {
        let (mut pair, seen) = watched();
        pair.pass(Duration::from_secs(5));
        let (client, server) = pair.connect_to(family, &to);
        let asked = count(&seen, question);
        assert!(asked > 0, "the neighbour was resolved");
        // One way only: the other end does nothing but acknowledge.
        for _ in 0..600 {
            pair.call(0, |sockets, cx| sockets.send(client, Bytes::from_static(b"tick"), 0, None, &[], cx)).unwrap();
            pair.pass(Duration::from_millis(500));
            pair.call(1, |sockets, cx| sockets.receive(server, 100, 0, cx).map(|_| ())).unwrap();
        }
        assert_eq!(count(&seen, question), asked, "five minutes of progress, {question}");
        // After a long silence it is stale, and confirmed before it would be probed.
        let before = count(&seen, question);
        pair.pass(Duration::from_secs(90));
        pair.call(0, |sockets, cx| sockets.send(client, Bytes::from_static(b"tick"), 0, None, &[], cx)).unwrap();
        pair.pass(Duration::from_secs(5));
        assert_eq!(count(&seen, question), before, "confirmed by the acknowledgment, {question}");
    }
}

#[test]
fn datagrams_confirm_only_when_the_program_says_so() {
    for (family, to, question) in [(AF_INET, address(2, 7), "ARP"), (AF_INET6, address6(SERVER, 7, 0), "solicitation")] {
        let mut asked = Vec::new();
        for flags in [0, CONFIRM] {
            let (mut pair, seen) = watched();
            pair.pass(Duration::from_secs(5));
            let client = pair.call(0, |sockets, cx| sockets.socket(family, SOCK_DGRAM, 0, cx)).unwrap();
            pair.call(1, |sockets, cx| {
                let server = sockets.socket(family, SOCK_DGRAM, 0, cx)?;
                sockets.bind(server, &to, cx)
            })
            .unwrap();
            for _ in 0..300 {
                pair.call(0, |sockets, cx| sockets.send(client, Bytes::from_static(b"tick"), flags, Some(&to), &[], cx)).unwrap();
                pair.pass(Duration::from_secs(1));
            }
            asked.push(count(&seen, question));
        }
        // Without the flag the neighbour is probed again and again (every 15 to 45 s, and 5 s of delay).
        assert!(asked[0] > asked[1] + 4, "{question}: {asked:?}");
    }
}
