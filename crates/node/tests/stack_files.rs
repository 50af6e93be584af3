//! Spoiled stack files: whatever stands in one, reading it never panics, and every refusal says where or why.

use proptest::prelude::*;
use weft_node::{DEFAULT_STACK, Node, Stack};

const FILES: [&str; 4] = [
    DEFAULT_STACK,
    "[node]\nname = \"client\"\nengine = \"queued\"\nnameservers = [\"10.77.0.1\", \"::1\"]\n[[interface]]\nname = \"a\"\nbackend = \"memory:a\"\n\
     mac = \"02:77:65:66:74:01\"\nmtu = 1500\ngroup = 3\noffload = false\n[[interface]]\nname = \"b\"\nbackend = \"memory:b\"\n[[address]]\n\
     interface = \"a\"\naddress = \"10.77.0.2/24\"\n[[route]]\ndestination = \"10.0.0.0/8\"\ngateway = \"10.77.0.1\"\nmetric = 7\n[[route]]\n\
     destination = \"default\"\ninterface = \"b\"\n",
    "[block.tcp]\ncongestion = \"reno\"\nmss = 536\n[block.wan]\nkind = \"loss\"\nprobability = 0.01\n[block.d]\nkind = \"delay\"\ndelay = \"20ms\"\n\
     jitter = \"1ms\"\n[block.r]\nkind = \"rate\"\nrate = \"10Mbit\"\n[graph]\ninsert = [\"wan ether:lower interfaces:upper\", \
     \"d interfaces:upper ether:lower\"]\n",
    "[node]\ngraph = \"empty\"\n[block.interfaces]\n[block.ether]\n[block.t]\nkind = \"tee\"\n[block.c]\nkind = \"counter\"\n[graph]\n\
     edges = [\"interfaces:upper -> t:in\", \"t:out -> ether:lower\", \"t:copy -> c:in\", \"ether:lower -> interfaces:upper\"]\n",
];

/// Words that mean something somewhere in a stack file.
const WORDS: [&str; 40] = [
    "tcp",
    "ip4",
    "sockets",
    "interfaces",
    "ether",
    "kind",
    "\"tee\"",
    "\"delay\"",
    "edges",
    "insert",
    "[graph]",
    "[[interface]]",
    "[block.x]",
    "name",
    "=",
    "\"\"",
    "-1",
    "0",
    "18446744073709551616",
    "1e999",
    "nan",
    "true",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "\n",
    "#",
    "\"\\u0000\"",
    "\"584y\"",
    "\"0bit\"",
    "\"10.0.0.0/33\"",
    "\"a:b -> b:a\"",
    "\"a <-> a\"",
    "\"x\"",
    "é",
    "\u{0}",
    "1979-05-27",
];

fn check(text: &str) -> Result<(), TestCaseError> {
    let outcome = Stack::parse("spoiled.toml", text).and_then(|stack| {
        ask(&stack);
        Node::check(&stack).map(|_| ())
    });
    if let Err(error) = outcome {
        prop_assert!(!error.what.trim().is_empty(), "no reason for\n{}", text);
        prop_assert!(error.line <= text.lines().count() + 1, "line {} of\n{}", error.line, text);
        prop_assert!(error.line > 0 || !error.help.is_empty(), "neither line nor help: {}", error);
        prop_assert!(error.to_string().starts_with("spoiled.toml:"), "{}", error);
    }
    Ok(())
}

/// What is read can be asked for.
fn ask(stack: &Stack) {
    let _ = (stack.nameservers().count(), stack.interfaces().count(), stack.addresses().count(), stack.routes().count());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("FULL").is_some_and(|full| full == "1") { 20_000 } else { 600 }))]

    #[test]
    fn spoiled_characters(
        file in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<char>(), 0u8..3), 1..8),
    ) {
        let mut text: Vec<char> = file.get(&FILES).chars().collect();
        for (at, character, how) in changes {
            let at = at.index(text.len());
            match how {
                0 => text[at] = character,
                1 => text.insert(at, character),
                _ => drop(text.remove(at)),
            }
        }
        check(&text.into_iter().collect::<String>())?;
    }

    #[test]
    fn spoiled_words_and_lines(
        file in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..5), 1..6),
    ) {
        let mut lines: Vec<String> = file.get(&FILES).lines().map(str::to_owned).collect();
        for (at, word, other, how) in changes {
            let at = at.index(lines.len());
            let word = *word.get(&WORDS);
            match how {
                0 => lines[at] = match lines[at].split_once('=') {
                    Some((key, _)) => format!("{key}= {word}"),
                    None => word.to_owned(),
                },
                1 => lines[at] = match lines[at].split_once('=') {
                    Some((_, value)) => format!("{word} ={value}"),
                    None => format!("[{word}]"),
                },
                2 => lines.insert(at, format!("{word} = {}", other.get(&WORDS))),
                3 => {
                    let other = other.index(lines.len());
                    lines.swap(at, other);
                }
                _ => {
                    let copy = lines[at].clone();
                    lines.insert(other.index(lines.len()), copy);
                }
            }
        }
        check(&lines.join("\n"))?;
    }

    #[test]
    fn numbers_out_of_range(mtu in any::<i64>(), metric in any::<i64>(), group in any::<i64>(), value in any::<i64>(), which in any::<prop::sample::Index>()) {
        let parameters = ["tcp]\nmss", "tcp]\nrmem_max", "arp]\nentries_max", "arp]\nreachable_time", "sockets]\nsockets_max", "sockets]\nephemeral_last"];
        check(&format!(
            "[[interface]]\nname = \"a\"\nbackend = \"memory:a\"\nmtu = {mtu}\ngroup = {group}\n[[address]]\ninterface = \"a\"\n\
             address = \"10.0.0.1/24\"\n[[route]]\ndestination = \"default\"\ngateway = \"10.0.0.2\"\nmetric = {metric}\n[block.{} = {value}\n",
            which.get(&parameters),
        ))?;
    }
}
