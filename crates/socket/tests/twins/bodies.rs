//! The bodies, from `bodies/*.txt`, by topic. In a file, `== NAME` begins a body, `:: NAME` a piece that `use NAME` puts into others.

use std::collections::BTreeMap;

/// A topic's name and its bodies' names and texts.
pub type Topic = (&'static str, Vec<(String, String)>);

/// The topics whose bodies were written for IPv4, and with IPv6 in it.
const TEXTS: &[(&str, &str)] = &[
    ("states", include_str!("bodies/states.txt")),
    ("connection", include_str!("bodies/connection.txt")),
    ("ending", include_str!("bodies/ending.txt")),
    ("ports", include_str!("bodies/ports.txt")),
    ("transfer", include_str!("bodies/transfer.txt")),
    ("datagram", include_str!("bodies/datagram.txt")),
    ("options", include_str!("bodies/options.txt")),
    ("multicast", include_str!("bodies/multicast.txt")),
];
const TEXTS_MORE: &[(&str, &str)] = &[
    ("filters", include_str!("bodies/filters.txt")),
    ("reuse", include_str!("bodies/reuse.txt")),
    ("segments", include_str!("bodies/segments.txt")),
    ("tuning", include_str!("bodies/tuning.txt")),
    ("raw", include_str!("bodies/raw.txt")),
    ("ping", include_str!("bodies/ping.txt")),
    ("records", include_str!("bodies/records.txt")),
    ("loopback", include_str!("bodies/loopback.txt")),
    ("headers", include_str!("bodies/headers.txt")),
];
const TEXTS_6: &[(&str, &str)] = &[
    ("dual", include_str!("bodies/dual.txt")),
    ("options6", include_str!("bodies/options6.txt")),
    ("raw6", include_str!("bodies/raw6.txt")),
    ("ping6", include_str!("bodies/ping6.txt")),
    ("multicast6", include_str!("bodies/multicast6.txt")),
    ("records6", include_str!("bodies/records6.txt")),
    ("loopback6", include_str!("bodies/loopback6.txt")),
    ("headers6", include_str!("bodies/headers6.txt")),
];

/// The topics of IPv4 that every adapter is compared in.
pub fn topics() -> Vec<Topic> {
    TEXTS.iter().map(|(topic, text)| (*topic, parse(text))).collect()
}

/// More topics of IPv4.
pub fn topics_more() -> Vec<Topic> {
    TEXTS_MORE.iter().map(|(topic, text)| (*topic, parse(text))).collect()
}

/// Topics of IPv6's own.
pub fn topics_6() -> Vec<Topic> {
    TEXTS_6.iter().map(|(topic, text)| (*topic, parse(text))).collect()
}

/// The topic of hosts with a second interface (`kernel::add_link`).
#[allow(dead_code)] // as above
pub fn topic_of_links() -> Vec<(String, String)> {
    parse(include_str!("bodies/links.txt"))
}

/// Every topic in every form: those of IPv4, the same over IPv6 and mapped, and those of IPv6's own.
#[allow(dead_code)] // only one of the programs that share this file has a use for it
pub fn everything() -> Vec<(String, Vec<(String, String)>)> {
    let four: Vec<Topic> = topics().into_iter().chain(topics_more()).collect();
    let form = |name: &str, form: fn(&str) -> Option<String>| -> Vec<(String, Vec<(String, String)>)> {
        let bodies = |bodies: &[(String, String)]| bodies.iter().filter_map(|(name, body)| Some((name.clone(), form(body)?))).collect();
        four.iter().map(|(topic, of_topic)| (format!("{topic}-{name}"), bodies(of_topic))).collect()
    };
    let (six, mapped) = (form("ipv6", over_ipv6), form("mapped", mapped));
    let own = topics_6().into_iter().map(|(topic, bodies)| (topic.to_owned(), bodies));
    let four = four.iter().map(|(topic, bodies)| ((*topic).to_owned(), bodies.clone()));
    four.chain(six).chain(mapped).chain(own).collect()
}

/// A body of IPv4, over IPv6; none: it has to do with something that is IPv4's own.
pub fn over_ipv6(body: &str) -> Option<String> {
    let text = six(body).replace("127.0.0.1:", "[::1]:").replace("0.0.0.0:", "[::]:");
    let of_ipv4 = |line: &str| {
        [" 127.", " 10.", " 224.", " 239.", " 255.", " IP_", "cmsg 0", "sets S 0", "gets S 0"].iter().any(|part| line.contains(part))
    };
    (!text.lines().any(of_ipv4)).then_some(text)
}

/// A body of IPv4, on AF_INET6 sockets with IPv4-mapped addresses; none: its errors come from an error queue, which is another family's.
pub fn mapped(body: &str) -> Option<String> {
    let map = |word: &str| match word.split_once(':').filter(|(ip, _)| ip.parse::<std::net::Ipv4Addr>().is_ok()) {
        Some((ip, port)) => format!("[::ffff:{ip}]:{port}"),
        None => word.to_owned(),
    };
    let line = |line: &str| line.split(' ').map(map).collect::<Vec<_>>().join(" ") + "\n";
    Some(six(body).lines().map(line).collect()).filter(|text: &String| !text.contains("IP_RECVERR"))
}

/// The same with sockets of IPv6.
fn six(body: &str) -> String {
    let line = |line: &str| match line.ends_with("= socket stream") || line.ends_with("= socket dgram") {
        true => format!("{line}6\n"),
        false => format!("{}\n", line.replace("= socket 2 ", "= socket 10 ")),
    };
    body.lines().map(line).collect()
}

fn parse(text: &str) -> Vec<(String, String)> {
    let mut pieces: BTreeMap<&str, String> = BTreeMap::new();
    let mut bodies: Vec<(String, String)> = Vec::new();
    let mut piece = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix(":: ") {
            assert!(pieces.insert(name, String::new()).is_none(), "the piece {name} is there twice");
            piece = Some(name);
        } else if let Some(name) = line.strip_prefix("== ") {
            bodies.push((name.to_owned(), String::new()));
            piece = None;
        } else {
            let lines = match line.strip_prefix("use ") {
                Some(name) => pieces.get(name).unwrap_or_else(|| panic!("no piece named {name}")).clone(),
                None => format!("{line}\n"),
            };
            let open = match piece {
                Some(name) => pieces.get_mut(name),
                None => bodies.last_mut().map(|(_, body)| body),
            };
            *open.expect("steps stand in a body or piece") += &lines;
        }
    }
    bodies
}
