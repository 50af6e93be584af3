use super::*;
use crate::frame::Direction;

/// A UDP or TCP packet from 192.0.2.1:1000 to 192.0.2.2:`port`.
fn packet(protocol: u8, port: u16, tos: u8) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    (bytes[0], bytes[1], bytes[9]) = (0x45, tos, protocol);
    bytes[12..16].copy_from_slice(&[192, 0, 2, 1]);
    bytes[16..20].copy_from_slice(&[192, 0, 2, 2]);
    bytes[20..22].copy_from_slice(&1000_u16.to_be_bytes());
    bytes[22..24].copy_from_slice(&port.to_be_bytes());
    bytes
}

fn accepts(text: &str, bytes: &[u8]) -> bool {
    let expression = Expression::parse(text, Framing::Ip).unwrap_or_else(|error| panic!("{text}: {error}"));
    expression.accepts(&Frame::ingress(bytes), &mut |_| None)
}

#[test]
fn conditions_are_met_by_what_they_say() {
    let (dns, web) = (packet(17, 53, 0xb8), packet(6, 80, 0));
    for (text, of_dns, of_web) in [
        ("udp", true, false),
        ("udp port 53", true, false),
        ("port domain or http", true, true),
        ("not udp", false, true),
        ("tcp dst port 80 and src host 192.0.2.1", false, true),
        ("src net 192.0.2.0/31 and dst net 192.0.2.2/31", true, true),
        ("src and dst net 192.0.2.0/30", true, true),
        ("src or dst host 192.0.2.2", true, true),
        ("host 198.51.100.1", false, false),
        ("dscp ef", true, false),
        ("dscp 46 or dscp cs0", true, true),
        ("portrange 50-60", true, false),
        ("ip proto 6", false, true),
        ("ip6", false, false),
        ("ip[8] = 0 and (ip[1] & 0xfc) >> 2 == 46", true, false),
        ("(udp or tcp) and not (port 53)", false, true),
        ("udp[2:2] = 53", true, false),
        ("less 60 and greater 60", true, true),
        ("len / 2 = 30", true, true),
        ("arp", false, false),
    ] {
        assert_eq!((accepts(text, &dns), accepts(text, &web)), (of_dns, of_web), "{text}");
    }
}

#[test]
fn and_and_or_bind_equally_from_left_to_right() {
    let web = packet(6, 80, 0);
    // (tcp or udp) and port 81; with "and" binding more it would be true.
    assert!(!accepts("tcp or udp and port 81", &web));
}

#[test]
fn a_load_beyond_the_end_rejects_whatever_else_holds() {
    let short = &packet(17, 53, 0)[..21];
    assert!(!accepts("not udp port 53", short));
    assert!(accepts("udp", short));
}

#[test]
fn groups_are_those_of_the_frames_interface() {
    let mut frame = Frame::ingress(&packet(17, 53, 0));
    frame.meta_mut().interface = InterfaceIndex(3);
    let met = |text: &str, frame: &Frame| {
        Expression::parse(text, Framing::Ip).unwrap().accepts(frame, &mut |index| (index == InterfaceIndex(3)).then_some(7))
    };
    assert!(met("group 7", &frame) && met("iifgroup 7 and udp", &frame) && !met("oifgroup 7", &frame) && !met("group default", &frame));
    frame.meta_mut().direction = Direction::Egress;
    assert!(met("group 7", &frame) && met("oifgroup 7", &frame) && !met("iifgroup 7", &frame));
    frame.meta_mut().interface = InterfaceIndex::NONE;
    assert!(!met("group 7", &frame) && !met("oifgroup 0", &frame), "a frame without an interface is of no group");
}

#[test]
fn what_is_not_understood_is_named() {
    for (text, said) in [
        ("tcp prot 80", "'prot' (word 2)"),
        ("", "ends where more is needed"),
        ("udp port", "ends where more is needed"),
        ("udp port 70000", "a number from 0 to 65535"),
        ("host example.org", "names of hosts are not looked up"),
        ("net 192.0.2.1/24", "bits behind the prefix"),
        ("icmp port 5", "'icmp' has no ports"),
        ("group wifi", "/etc/iproute2/group"),
        ("dscp af44", "a code point is"),
        ("ether host 02:00:00:00:00:01", "begin with an IP header"),
        ("tcp[0:3] = 1", "1, 2 or 4 bytes"),
        ("(udp", "here belongs ')'"),
        ("vlan 5", "'vlan' (word 1)"),
        ("udp tcp", "between two conditions"),
        ("ip6 host 192.0.2.1", "has no such address"),
        ("80", "a condition belongs here"),
    ] {
        let error = Expression::parse(text, Framing::Ip).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
    let deep = format!("{}udp{}", "(".repeat(100), ")".repeat(100));
    assert_eq!(Expression::parse(&deep, Framing::Ip), Err(ExpressionError::Depth));
    assert_eq!(Expression::parse(&"x".repeat(5000), Framing::Ip), Err(ExpressionError::Length(5000)));
    assert_eq!(Expression::parse(&vec!["udp"; 300].join(" or "), Framing::Ip), Err(ExpressionError::Depth));
}

#[test]
fn no_text_is_too_strange_and_no_frame_too_short() {
    const WORDS: [&str; 24] = [
        "tcp",
        "udp",
        "ip",
        "ip6",
        "arp",
        "host",
        "net",
        "port",
        "portrange",
        "src",
        "dst",
        "and",
        "or",
        "not",
        "(",
        ")",
        "[",
        "]",
        ":",
        "0",
        "53",
        "192.0.2.1",
        "/",
        "&",
    ];
    let mut rng = crate::Rng::for_name(1, "expressions");
    let mut understood = 0;
    for _ in 0..20_000 {
        let text: Vec<&str> = (0..rng.below(7)).map(|_| WORDS[rng.below(WORDS.len() as u64) as usize]).collect();
        if let Ok(expression) = Expression::parse(&text.join(" "), Framing::Ethernet) {
            understood += 1;
            let mut bytes = vec![0; rng.below(80) as usize];
            rng.fill(&mut bytes);
            expression.accepts(&Frame::ingress(&bytes), &mut |_| None);
        }
    }
    assert!(understood > 100, "{understood} texts were expressions");
}
