//! Membership in IPv6 groups, where it differs from IGMP's.

use crate::six;

use six::{ETH0, Node, ip};
use std::time::Duration;
use weft_core::table::{AddressState, Family};
use weft_core::*;
use weft_wire::icmpv6::mld::{self, Message, QueryV2};
use weft_wire::{Protocol, icmpv6, ipv6};

const GROUP: &str = "ff05::1:3";
const LINK_LOCAL: &str = "fe80::ff:fe00:1";

fn node(parameters: &[(&str, Value)]) -> Node {
    let mut node = Node::membership("mld", parameters);
    node.address(LINK_LOCAL, AddressState::Preferred);
    node
}

fn all() -> Option<SourceFilter> {
    Some(SourceFilter::Exclude(Vec::new()))
}

/// A packet on the wire as text: from, to, what.
fn said(frame: &Frame) -> String {
    let bytes = frame.to_vec();
    let (header, at) = ipv6::Header::parse(&bytes).unwrap();
    assert_eq!((header.hop_limit, header.next_header, usize::from(header.payload_len)), (1, Protocol::HOP_BY_HOP, bytes.len() - at));
    let mut extensions = ipv6::Extensions::new(header.next_header, &bytes[at..]);
    let Some(Ok(ipv6::Extension::HopByHop(options))) = extensions.next() else { panic!("no hop-by-hop options") };
    assert!(matches!(options.iter().next(), Some(Ok((_, ipv6::extension::Opt::RouterAlert(0))))));
    assert!(extensions.next().is_none() && extensions.next_header() == Protocol::ICMPV6);
    let message = extensions.rest();
    assert!(icmpv6::verify_checksum(header.src, header.dst, message));
    assert_eq!(frame.meta().next_hop, Some(header.dst.into()));
    let (icmpv6::Message::Mld(parsed), header_len) = icmpv6::Message::parse(message).unwrap() else { panic!("no message of mld") };
    let what = match parsed {
        Message::ReportV2 { records } => {
            let records = mld::records(&message[header_len..], records).map(Result::unwrap);
            let text = records.map(|record| format!("{:?} {} {:?}", record.kind, record.group, record.sources.iter().collect::<Vec<_>>()));
            text.collect::<Vec<_>>().join(", ")
        }
        other => format!("{other:?}"),
    };
    format!("{} > {}: {what}", header.src, header.dst)
}

fn heard(frames: &[Frame]) -> Vec<String> {
    frames.iter().map(said).collect()
}

fn over(node: &mut Node, time: Duration) -> Vec<String> {
    node.advance(time).iter().map(|(_, frame)| said(frame)).collect()
}

fn query_bytes(group: &str, code: u16, v2: Option<QueryV2>) -> Vec<u8> {
    let message = icmpv6::Message::Mld(Message::Query { max_response_code: code, group: ip(group), v2 });
    let mut bytes = vec![0; message.header_len()];
    message.emit(ip("fe80::ff"), ip("ff02::1"), &mut bytes);
    bytes
}

fn query(node: &mut Node, group: &str, code: u16, v2: Option<QueryV2>) {
    assert!(node.message("fe80::ff", "ff02::1", 1, &query_bytes(group, code, v2)).is_empty());
}

#[test]
fn changes_are_reported_to_all_routers_of_version_2() {
    let mut node = node(&[]);
    let joined = "fe80::ff:fe00:1 > ff02::16: ToExclude ff05::1:3 []";
    assert_eq!(heard(&node.wish(GROUP, 1, all())), [joined]);
    assert_eq!(over(&mut node, Duration::from_secs(5)), [joined]);
    let source = Some(SourceFilter::Include(vec![ip("2001:db8::7").into()]));
    assert_eq!(heard(&node.wish(GROUP, 1, source)), ["fe80::ff:fe00:1 > ff02::16: ToInclude ff05::1:3 [2001:db8::7]"]);
    assert!(node.wanted(GROUP, "2001:db8::7") && !node.wanted(GROUP, "2001:db8::8"));
    assert!(node.wanted("ff02::1", "fe80::9"));
}

#[test]
fn groups_of_the_node_and_all_nodes_are_not_reported() {
    let mut node = node(&[]);
    for group in ["ff02::1", "ff01::7", "ff00::7"] {
        assert_eq!(heard(&node.wish(group, 1, all())), [""; 0], "{group}");
    }
    assert_eq!(heard(&node.wish("ff02::1:ff00:1", HOLDER_NODE, all())).len(), 1);
}

#[test]
fn without_a_link_local_address_reports_come_from_nobody_and_are_repeated_when_there_is_one() {
    let mut node = Node::membership("mld", &[("robustness", 1.into())]);
    node.address(LINK_LOCAL, AddressState::Tentative);
    assert_eq!(heard(&node.wish(GROUP, 1, all())), [":: > ff02::16: ToExclude ff05::1:3 []"]);
    node.address(LINK_LOCAL, AddressState::Preferred);
    assert_eq!(heard(&node.wire()), ["fe80::ff:fe00:1 > ff02::16: ToExclude ff05::1:3 []"]);
    node.address("fe80::2", AddressState::Preferred);
    assert_eq!(heard(&node.wire()), [""; 0], "one is enough");
}

#[test]
fn queries_are_answered_within_their_time() {
    let mut node = node(&[]);
    node.wish(GROUP, 1, all());
    node.advance(Duration::from_secs(9));
    query(&mut node, "::", 400, Some(QueryV2::default()));
    assert_eq!(over(&mut node, Duration::from_millis(400)), ["fe80::ff:fe00:1 > ff02::16: IsExclude ff05::1:3 []"]);
    query(&mut node, GROUP, 400, Some(QueryV2::default()));
    assert_eq!(over(&mut node, Duration::from_millis(400)).len(), 1);
}

#[test]
fn beside_a_querier_of_version_1_its_messages_are_spoken() {
    let mut node = node(&[]);
    node.wish(GROUP, 1, all());
    query(&mut node, "::", 1000, None);
    let report = "fe80::ff:fe00:1 > ff05::1:3: Report { group: ff05::1:3 }";
    assert_eq!(over(&mut node, Duration::from_secs(1)), [report]);
    assert_eq!(node.list(Table::Groups(Family::V6))[0]["version"], 1);
    assert_eq!(heard(&node.wish(GROUP, 1, None)), ["fe80::ff:fe00:1 > ff02::2: Done { group: ff05::1:3 }"]);
    node.advance(Duration::from_secs(261));
    assert_eq!(heard(&node.wish(GROUP, 1, all())), ["fe80::ff:fe00:1 > ff02::16: ToExclude ff05::1:3 []"]);
}

#[test]
fn messages_from_elsewhere_are_refused() {
    let mut node = node(&[]);
    node.wish(GROUP, 1, all());
    node.advance(Duration::from_secs(9));
    let bytes = query_bytes("::", 100, Some(QueryV2::default()));
    // RFC 3810 §6.2: not link-local, or forwarded, or from nobody; a query of impossible length; for something that is no group.
    node.message("2001:db8::ff", "ff02::1", 1, &bytes);
    node.message("fe80::ff", "ff02::1", 64, &bytes);
    node.message("::", "ff02::1", 1, &bytes);
    node.message("fe80::ff", "ff02::1", 1, &bytes[..26]);
    node.message("fe80::ff", "ff02::1", 1, &query_bytes("fe80::1", 100, Some(QueryV2::default())));
    assert_eq!(over(&mut node, Duration::from_secs(9)), [""; 0]);
    assert_eq!((node.counter("mld", "InErrors"), node.counter("mld", "InQueries")), (5, 0));
}

#[test]
fn what_is_wanted_is_bounded() {
    let mut node = node(&[("memberships_max", 2.into())]);
    for last in 1..5 {
        node.wish(&format!("ff05::{last}"), 1, all());
    }
    node.tell(Table::Groups(Family::V6), Change::Group { interface: ETH0, group: "239.1.1.1".parse().unwrap(), holder: 1, filter: all() });
    assert_eq!((node.list(Table::Groups(Family::V6)).len(), node.counter("mld", "Refused")), (2, 3));
}
