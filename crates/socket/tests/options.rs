//! docs/linux-notes/options.md says what becomes of every socket option; here it is held to the code.

use crate::graph;
use crate::language;

use language::Host;
use std::collections::BTreeSet;
use weft_core::Mode;
use weft_socket::options::{OptionRow, rows};

const PAGE: &str = include_str!("../../../docs/linux-notes/options.md");

/// An option as the page has it: level, number, name, what becomes of it.
fn listed() -> Vec<(i32, i32, &'static str, &'static str)> {
    let mut level = -1;
    let mut out = Vec::new();
    for line in PAGE.lines() {
        if let Some((_, number)) = line.strip_prefix("## SOL_").and_then(|line| line.split_once('(')) {
            level = number.trim_end_matches(')').parse().expect("a level");
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let ["", name, number, how, ..] = cells[..]
            && let Ok(number) = number.parse()
        {
            out.push((level, number, name, how));
        }
    }
    out
}

fn row_of(level: i32, number: i32) -> Option<&'static OptionRow> {
    rows().find(|row| (row.level, row.name) == (level, number))
}

#[test]
fn the_page_names_every_option_that_the_code_has() {
    let listed = listed();
    assert!(listed.len() > 230, "{} options", listed.len());
    let numbers: BTreeSet<(i32, i32)> = listed.iter().map(|(level, number, ..)| (*level, *number)).collect();
    assert_eq!(numbers.len(), listed.len(), "none twice");
    // The second numbers of options about time are told beside the first.
    let missing: Vec<&str> =
        rows().filter(|row| !row.label.ends_with("_NEW") && !numbers.contains(&(row.level, row.name))).map(|row| row.label).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for (level, number, name, how) in &listed {
        match row_of(*level, *number) {
            Some(row) => assert_eq!(row.label.trim_end_matches("_OLD"), *name),
            None => assert!(how.starts_with('E'), "{name}: {how}, and has no row"),
        }
    }
}

#[test]
fn what_the_page_calls_refused_is_refused_so_and_everything_else_is_not() {
    let mut model = graph::model(Mode::Inline);
    // All kinds of AF_INET6, AF_INET and AF_PACKET: whichever takes an option decides.
    let kinds = [
        (10, 1, 0),
        (10, 2, 0),
        (10, 3, 200),
        (10, 3, 58),
        (2, 1, 0),
        (2, 2, 0),
        (2, 3, 1),
        (2, 3, 200),
        (2, 2, 1),
        (2, 1, 262),
        (17, 3, 0x300),
    ];
    let sockets: Vec<usize> =
        kinds.iter().map(|(domain, kind, protocol)| model.socket(*domain, *kind, *protocol).expect("a socket")).collect();
    let mut wrong = Vec::new();
    for (level, number, name, how) in listed() {
        let mut all: Vec<String> = Vec::new();
        for s in &sockets {
            for value in [&1i32.to_ne_bytes()[..], &[1; 8], &[0; 16], &[0; 20], &[0; 32], &[]] {
                let set = model.set(*s, level, number, value);
                all.push(set.map_or_else(|errno| format!("{errno:?}"), |()| "ok".to_owned()));
            }
            for length in [4, 8, 100] {
                let got = model.get(*s, level, number, length);
                all.push(got.map_or_else(|errno| format!("{errno:?}"), |_| "read".to_owned()));
            }
        }
        let said = |what: &str| all.iter().any(|one| one == what);
        let right = match how {
            "works" | "kept" => said("ok") || said("EADDRNOTAVAIL") || said("ENODEV") || said("EINVAL") && row_of(level, number).is_some(),
            "read only" => !said("ok") && (said("read") || said("ENODATA") || said("EINVAL") || said("ENOTCONN") || said("EFAULT")),
            errno => said(errno),
        };
        if !right {
            wrong.push(format!("{name}: {how}: {:?}", all.iter().collect::<BTreeSet<_>>()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
