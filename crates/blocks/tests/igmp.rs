//! Membership in IPv4 groups: what is let in, what is reported and when, beside queriers of all versions.

use crate::six;

use six::Node;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use weft_core::table::Family;
use weft_core::*;
use weft_wire::igmp::{self, Message, QueryV3};
use weft_wire::{Protocol, ipv4};

const GROUP: &str = "239.1.2.3";

fn node(parameters: &[(&str, Value)]) -> Node {
    Node::membership("igmp", parameters)
}

fn all() -> Option<SourceFilter> {
    Some(SourceFilter::Exclude(Vec::new()))
}

fn addresses(last: &[u8]) -> Vec<IpAddr> {
    last.iter().map(|last| IpAddr::from([192, 0, 2, *last])).collect()
}

fn only(last: &[u8]) -> Option<SourceFilter> {
    Some(SourceFilter::Include(addresses(last)))
}

fn but(last: &[u8]) -> Option<SourceFilter> {
    Some(SourceFilter::Exclude(addresses(last)))
}

/// A packet on the wire as text: where to, and each record with the last bytes of its sources.
fn said(frame: &Frame) -> String {
    let bytes = frame.to_vec();
    let (ip, at) = ipv4::Header::parse(&bytes).unwrap();
    assert!(ipv4::verify_checksum(&bytes));
    // RFC 3376 §4: a TTL of 1, precedence of internetwork control, a router alert.
    assert_eq!((ip.ttl, ip.tos, ip.protocol, usize::from(ip.total_len)), (1, 0xc0, Protocol::IGMP, bytes.len()));
    assert!(matches!(ip.options.iter().next(), Some(Ok(ipv4::Opt::RouterAlert(0)))));
    assert_eq!((ip.src, frame.meta().next_hop), (Ipv4Addr::new(10, 0, 0, 1), Some(ip.dst.into())));
    assert!(igmp::verify_checksum(&bytes[at..]));
    let (message, header_len) = Message::parse(&bytes[at..]).unwrap();
    let what = match message {
        Message::ReportV3 { records } => {
            let records: Vec<String> = igmp::records(&bytes[at + header_len..], records)
                .map(Result::unwrap)
                .map(|record| {
                    let sources: Vec<u8> = record.sources.iter().map(|source| source.octets()[3]).collect();
                    format!("{:?} {} {sources:?}", record.kind, record.group)
                })
                .collect();
            records.join(", ")
        }
        other => format!("{other:?}"),
    };
    format!("{}: {what}", ip.dst)
}

fn heard(frames: &[Frame]) -> Vec<String> {
    frames.iter().map(said).collect()
}

fn over(node: &mut Node, time: Duration) -> Vec<String> {
    node.advance(time).iter().map(|(_, frame)| said(frame)).collect()
}

fn query(node: &mut Node, group: &str, code: u8, v3: Option<QueryV3>, sources: &[u8]) -> Vec<String> {
    let message = Message::Query { max_response_code: code, group: group.parse().unwrap(), v3 };
    let mut bytes = vec![0; message.header_len()];
    for last in sources {
        bytes.extend([192, 0, 2, *last]);
    }
    message.emit(&mut bytes);
    heard(&node.message("10.0.0.254", "224.0.0.1", 1, &bytes))
}

fn v3(sources: u16) -> Option<QueryV3> {
    Some(QueryV3 { suppress: false, robustness: 2, interval_code: 125, sources })
}

#[test]
fn joining_and_leaving_is_reported_at_once_and_once_more() {
    let mut node = node(&[]);
    assert_eq!(heard(&node.wish(GROUP, 1, all())), ["224.0.0.22: ToExclude 239.1.2.3 []"]);
    assert_eq!(over(&mut node, Duration::from_secs(1)), ["224.0.0.22: ToExclude 239.1.2.3 []"]);
    assert_eq!(over(&mut node, Duration::from_secs(60)), [""; 0]);
    assert_eq!(heard(&node.wish(GROUP, 2, all())), [""; 0], "nothing new");
    assert_eq!(heard(&node.wish(GROUP, 1, None)), [""; 0], "the second holder stays");
    assert!(node.wanted(GROUP, "192.0.2.1"));
    assert_eq!(heard(&node.wish(GROUP, 2, None)), ["224.0.0.22: ToInclude 239.1.2.3 []"]);
    assert!(!node.wanted(GROUP, "192.0.2.1"));
    assert_eq!(over(&mut node, Duration::from_secs(60)), ["224.0.0.22: ToInclude 239.1.2.3 []"]);
    assert_eq!((node.engine.next_timer(), node.list(Table::Groups(Family::V4)).len()), (None, 0));
}

#[test]
fn all_hosts_is_always_wanted_and_never_reported() {
    let mut node = node(&[]);
    assert!(node.wanted("224.0.0.1", "192.0.2.1") && !node.wanted("224.0.0.2", "192.0.2.1"));
    assert_eq!(heard(&node.wish("224.0.0.1", 1, all())), [""; 0]);
    assert_eq!(heard(&node.wish("224.0.0.251", 1, all())).len(), 1, "as Linux's igmp_link_local_mcast_reports does by default");
}

#[test]
fn changes_of_sources_are_told_as_differences() {
    // RFC 3376 §5.1, the table of "old state, new state, state-change record sent".
    let report = |before: Option<SourceFilter>, after: Option<SourceFilter>| {
        let mut node = node(&[]);
        node.wish(GROUP, 1, before);
        node.advance(Duration::from_secs(5));
        heard(&node.wish(GROUP, 1, after)).join("; ")
    };
    assert_eq!(report(only(&[1, 2]), only(&[2, 3])), "224.0.0.22: Allow 239.1.2.3 [3], Block 239.1.2.3 [1]");
    assert_eq!(report(but(&[1, 2]), but(&[2, 3])), "224.0.0.22: Allow 239.1.2.3 [1], Block 239.1.2.3 [3]");
    assert_eq!(report(only(&[1]), but(&[2])), "224.0.0.22: ToExclude 239.1.2.3 [2]");
    assert_eq!(report(but(&[2]), only(&[1])), "224.0.0.22: ToInclude 239.1.2.3 [1]");
    assert_eq!(report(None, only(&[1])), "224.0.0.22: Allow 239.1.2.3 [1]");
    assert_eq!(report(only(&[1]), None), "224.0.0.22: Block 239.1.2.3 [1]");
    assert_eq!(report(only(&[1]), only(&[1])), "");
}

#[test]
fn the_interface_wants_what_any_holder_wants() {
    let mut node = node(&[]);
    node.wish(GROUP, 1, but(&[1, 2, 3]));
    node.wish(GROUP, 2, but(&[2, 3, 4]));
    // RFC 3376 §3.2: the intersection, less what is included.
    node.wish(GROUP, 3, only(&[3]));
    let row = &node.list(Table::Groups(Family::V4))[0];
    assert_eq!((&row["mode"], &row["sources"], &row["holders"]), (&"exclude".into(), &serde_json::json!(["192.0.2.2"]), &3.into()));
    let wanted: Vec<bool> = (1..=5).map(|last| node.wanted(GROUP, &format!("192.0.2.{last}"))).collect();
    assert_eq!(wanted, [true, false, true, true, true]);
    assert!(!node.wanted("239.1.2.4", "192.0.2.1"));
}

#[test]
fn a_second_change_joins_what_is_still_to_be_repeated() {
    let mut node = node(&[("robustness", 3.into())]);
    node.wish(GROUP, 1, only(&[1]));
    // Within the repetitions of the first change; the mode changes, so everything before it is told by that.
    assert_eq!(heard(&node.wish(GROUP, 1, all())), ["224.0.0.22: ToExclude 239.1.2.3 []"]);
    let mut repeated = heard(&node.wish("239.9.9.9", 1, only(&[7])));
    assert_eq!(repeated, ["224.0.0.22: Allow 239.9.9.9 [7]"]);
    repeated = over(&mut node, Duration::from_secs(10));
    // Both groups in each repetition.
    assert_eq!(repeated, ["224.0.0.22: ToExclude 239.1.2.3 [], Allow 239.9.9.9 [7]"; 2]);
}

#[test]
fn a_general_query_is_answered_once_for_all_groups_within_its_time() {
    let mut node = node(&[]);
    node.wish(GROUP, 1, all());
    node.wish("239.9.9.9", 1, only(&[1, 2]));
    node.advance(Duration::from_secs(60));
    let asked = node.now;
    assert_eq!(query(&mut node, "0.0.0.0", 100, v3(0), &[]), [""; 0]);
    query(&mut node, "0.0.0.0", 100, v3(0), &[]);
    let out = node.advance(Duration::from_secs(11));
    let answers: Vec<String> = out.iter().map(|(_, frame)| said(frame)).collect();
    // The second query either found the answer sooner (rule 1) or moved it forward (rule 2): one answer.
    assert_eq!(answers, ["224.0.0.22: IsExclude 239.1.2.3 [], IsInclude 239.9.9.9 [1, 2]"]);
    assert!(out[0].0.since(asked) <= Duration::from_secs(10));
    assert_eq!(node.counter("igmp", "InQueries"), 2);
}

#[test]
fn queries_for_a_group_are_answered_for_it_and_the_sources_asked_about() {
    let mut node = node(&[]);
    node.wish(GROUP, 1, but(&[1]));
    node.wish("239.9.9.9", 1, only(&[1, 2]));
    node.advance(Duration::from_secs(60));
    let mut ask = |group: &str, sources: &[&[u8]]| {
        for asked in sources {
            query(&mut node, group, 10, v3(asked.len() as u16), asked);
        }
        over(&mut node, Duration::from_secs(2))
    };
    assert_eq!(ask(GROUP, &[&[]]), ["224.0.0.22: IsExclude 239.1.2.3 [1]"]);
    // §5.2: of an EXCLUDE group those asked about and not excluded; of an INCLUDE group those that are included.
    assert_eq!(ask(GROUP, &[&[1, 5]]), ["224.0.0.22: IsInclude 239.1.2.3 [5]"]);
    assert_eq!(ask("239.9.9.9", &[&[2, 3]]), ["224.0.0.22: IsInclude 239.9.9.9 [2]"]);
    assert_eq!(ask("239.9.9.9", &[&[7]]), [""; 0], "nothing to say");
    assert_eq!(ask("239.8.8.8", &[&[]]), [""; 0]);
    // Rule 5: sources of two queries in one answer; rule 4: a query for the whole group swallows them.
    assert_eq!(ask("239.9.9.9", &[&[2], &[1, 3]]), ["224.0.0.22: IsInclude 239.9.9.9 [1, 2]"]);
    assert_eq!(ask(GROUP, &[&[5], &[]]), ["224.0.0.22: IsExclude 239.1.2.3 [1]"]);
}

#[test]
fn beside_a_querier_of_version_2_that_version_is_spoken_until_it_is_silent() {
    let mut node = node(&[]);
    query(&mut node, "0.0.0.0", 100, None, &[]);
    assert_eq!(heard(&node.wish(GROUP, 1, only(&[1]))), ["239.1.2.3: ReportV2 { group: 239.1.2.3 }"]);
    assert_eq!(over(&mut node, Duration::from_secs(11)), ["239.1.2.3: ReportV2 { group: 239.1.2.3 }"], "once more within 10 s");
    query(&mut node, GROUP, 10, None, &[]);
    assert_eq!(over(&mut node, Duration::from_secs(1)), ["239.1.2.3: ReportV2 { group: 239.1.2.3 }"]);
    // Another host's report is enough, and then it is not ours to say that nobody is left.
    query(&mut node, "0.0.0.0", 100, None, &[]);
    let mut report = vec![0; 8];
    Message::ReportV2 { group: GROUP.parse().unwrap() }.emit(&mut report);
    node.message("10.0.0.9", GROUP, 1, &report);
    assert_eq!(over(&mut node, Duration::from_secs(11)), [""; 0]);
    assert_eq!(heard(&node.wish(GROUP, 1, None)), [""; 0]);
    node.wish(GROUP, 1, all());
    assert_eq!(heard(&node.wish(GROUP, 1, None)), ["224.0.0.2: Leave { group: 239.1.2.3 }"]);
    // RFC 3376 §8.12: 2 times 125 s plus 10 s after the last query.
    node.advance(Duration::from_secs(261));
    assert_eq!(heard(&node.wish(GROUP, 1, all())), ["224.0.0.22: ToExclude 239.1.2.3 []"]);
}

#[test]
fn version_1_has_no_leaves_and_wins_over_version_2() {
    let mut node = node(&[]);
    query(&mut node, "0.0.0.0", 0, None, &[]);
    query(&mut node, "0.0.0.0", 100, None, &[]);
    assert_eq!(heard(&node.wish(GROUP, 1, all())), ["239.1.2.3: ReportV1 { group: 239.1.2.3 }"]);
    assert_eq!(heard(&node.wish(GROUP, 1, None)), [""; 0]);
    let mut forced = self::node(&[("force_version", 2.into())]);
    assert_eq!(heard(&forced.wish(GROUP, 1, all())), ["239.1.2.3: ReportV2 { group: 239.1.2.3 }"]);
}

#[test]
fn an_older_querier_cancels_what_is_pending() {
    let mut node = node(&[]);
    node.wish(GROUP, 1, all());
    query(&mut node, "239.7.7.7", 100, None, &[]);
    assert_eq!(over(&mut node, Duration::from_secs(11)), [""; 0], "RFC 3376 §7.2.1");
    assert!(node.wanted(GROUP, "192.0.2.1"), "but nothing is forgotten");
}

#[test]
fn a_querier_tells_its_robustness() {
    let mut node = node(&[]);
    query(&mut node, "0.0.0.0", 10, Some(QueryV3 { robustness: 4, interval_code: 20, ..QueryV3::default() }), &[]);
    assert_eq!(over(&mut node, Duration::from_secs(1)), [""; 0], "there is nothing to answer");
    node.wish(GROUP, 1, all());
    assert_eq!(over(&mut node, Duration::from_secs(30)).len(), 3);
    // The time that an older querier counts as present follows: 4 times 20 s plus 10 s.
    query(&mut node, "0.0.0.0", 100, None, &[]);
    node.advance(Duration::from_secs(89));
    assert_eq!(heard(&node.wish("239.0.0.1", 1, all())), ["239.0.0.1: ReportV2 { group: 239.0.0.1 }"]);
    node.advance(Duration::from_secs(2));
    assert_eq!(heard(&node.wish("239.0.0.2", 1, all())), ["224.0.0.22: ToExclude 239.0.0.2 []"]);
}

#[test]
fn reports_fit_the_mtu() {
    let mut node = node(&[("robustness", 1.into())]);
    node.exec("interfaces", "set", serde_json::json!({"name": "eth0", "mtu": 68})).unwrap();
    // 68 - 24 - 8 leaves 36 bytes: a record of 8 and 7 sources.
    let many: Vec<u8> = (1..=10).collect();
    let out = heard(&node.wish(GROUP, 1, only(&many)));
    assert_eq!(out, ["224.0.0.22: Allow 239.1.2.3 [1, 2, 3, 4, 5, 6, 7]", "224.0.0.22: Allow 239.1.2.3 [8, 9, 10]"]);
    // RFC 3376 §4.2.16: excluded sources that do not fit are left out.
    assert_eq!(heard(&node.wish(GROUP, 1, but(&many))), ["224.0.0.22: ToExclude 239.1.2.3 [1, 2, 3, 4, 5, 6, 7]"]);
    assert_eq!(node.counter("igmp", "SourcesCut"), 1);
}

#[test]
fn what_is_wanted_is_bounded_and_counted() {
    let mut node = node(&[("memberships_max", 3.into()), ("sources_max", 2.into())]);
    for holder in 0..5 {
        node.wish(GROUP, holder, all());
    }
    assert_eq!((node.counter("igmp", "Refused"), &node.list(Table::Groups(Family::V4))[0]["holders"]), (2, &3.into()));
    node.wish(GROUP, 1, only(&[1]));
    assert_eq!(node.counter("igmp", "Refused"), 2, "one that is there may change");
    node.wish(GROUP, 1, only(&[1, 2, 3]));
    node.wish("10.0.0.1", 1, all());
    node.wish(GROUP, 0, None);
    node.tell(
        Table::Groups(Family::V4),
        Change::Group { interface: InterfaceIndex(77), group: GROUP.parse().unwrap(), holder: 9, filter: all() },
    );
    assert_eq!(node.counter("igmp", "Refused"), 5);
    node.wish("239.0.0.9", 9, all());
    assert_eq!(node.list(Table::Groups(Family::V4)).len(), 2, "there is room again");
}

#[test]
fn malformed_messages_are_counted() {
    let mut node = node(&[]);
    node.wish(GROUP, 1, all());
    node.advance(Duration::from_secs(9));
    let good = {
        let mut bytes = vec![0; 12];
        Message::Query { max_response_code: 1, group: Ipv4Addr::UNSPECIFIED, v3: v3(0) }.emit(&mut bytes);
        bytes
    };
    let mut bad_sum = good.clone();
    bad_sum[2] ^= 1;
    let mut missing_source = good.clone();
    Message::Query { max_response_code: 1, group: Ipv4Addr::UNSPECIFIED, v3: v3(1) }.emit(&mut missing_source);
    let mut unicast = good.clone();
    Message::Query { max_response_code: 1, group: Ipv4Addr::new(10, 0, 0, 1), v3: v3(0) }.emit(&mut unicast);
    for bytes in [&bad_sum[..], &good[..4], &missing_source, &unicast] {
        assert!(node.message("10.0.0.254", "224.0.0.1", 1, bytes).is_empty());
    }
    assert_eq!(node.counter("igmp", "InErrors"), 4);
    assert_eq!(over(&mut node, Duration::from_secs(20)), [""; 0]);
    node.message("10.0.0.254", "224.0.0.1", 1, &good);
    assert_eq!(over(&mut node, Duration::from_secs(20)).len(), 1);
}

#[test]
fn an_interface_that_comes_up_reports_again_and_one_that_is_gone_is_forgotten() {
    let mut node = node(&[("robustness", 1.into())]);
    node.wish(GROUP, 1, all());
    let set = |node: &mut Node, what: Value| {
        node.exec("interfaces", "set", what).unwrap();
        heard(&node.wire())
    };
    assert_eq!(set(&mut node, serde_json::json!({"name": "eth0", "group": 7})), [""; 0]);
    assert_eq!(set(&mut node, serde_json::json!({"name": "eth0", "up": false})), [""; 0]);
    assert_eq!(heard(&node.wish("239.0.0.5", 1, all())), [""; 0], "nothing is said while it is down");
    let said = set(&mut node, serde_json::json!({"name": "eth0", "up": true}));
    assert_eq!(said, ["224.0.0.22: ToExclude 239.0.0.5 []", "224.0.0.22: ToExclude 239.1.2.3 []"]);
    node.exec("interfaces", "remove", serde_json::json!({"name": "eth0"})).unwrap();
    assert_eq!(node.list(Table::Groups(Family::V4)), [] as [Value; 0]);
}

#[test]
fn memberships_move_to_a_new_block_without_a_word() {
    let mut node = node(&[]);
    node.wish(GROUP, 1, but(&[1]));
    node.advance(Duration::from_secs(9));
    let replace = Op::Replace { name: "igmp".to_owned(), kind: "igmp".to_owned(), parameters: Default::default(), drop_state: false };
    node.control(replace).unwrap();
    assert_eq!(over(&mut node, Duration::from_secs(9)), [""; 0]);
    assert!(!node.wanted(GROUP, "192.0.2.1") && node.wanted(GROUP, "192.0.2.2"));
    assert_eq!(heard(&node.wish(GROUP, 1, None)), ["224.0.0.22: ToInclude 239.1.2.3 []"]);
}
