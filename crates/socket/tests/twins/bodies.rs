//! The bodies, from `bodies/*.txt`, by topic. In a file, `== NAME` begins a body, `:: NAME` a piece that `use NAME` puts into others.

use std::collections::BTreeMap;

/// A topic's name and its bodies' names and texts.
pub type Topic = (&'static str, Vec<(String, String)>);

/// All topics.
pub fn topics() -> Vec<Topic> {
    let texts = [
        ("states", include_str!("bodies/states.txt")),
        ("connection", include_str!("bodies/connection.txt")),
        ("ending", include_str!("bodies/ending.txt")),
        ("ports", include_str!("bodies/ports.txt")),
        ("transfer", include_str!("bodies/transfer.txt")),
        ("datagram", include_str!("bodies/datagram.txt")),
        ("options", include_str!("bodies/options.txt")),
    ];
    texts.into_iter().map(|(topic, text)| (topic, parse(text))).collect()
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
