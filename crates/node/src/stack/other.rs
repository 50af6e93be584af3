//! What kind of file it is: a scenario where a stack file was wanted, the other way round, or either where a program was.

use indexmap::IndexMap;
use serde::de::IgnoredAny;

/// A kind of file: its name, what may stand at its top, and who takes it.
struct Kind {
    name: &'static str,
    keys: &'static [&'static str],
    help: &'static str,
}

impl Kind {
    fn has_any(&self, top: &IndexMap<String, IgnoredAny>) -> bool {
        top.keys().any(|key| self.keys.contains(&key.as_str()))
    }
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "stack",
        keys: &["node", "interface", "address", "route", "block", "graph"],
        help: "`weft run --stack FILE`, `weft up --stack FILE` and `weft check FILE` take it; a node of a scenario does by stack = \"FILE\"",
    },
    Kind {
        name: "scenario",
        keys: &[
            "seed",
            "duration",
            "start",
            "sample",
            "capture",
            "ipv6",
            "network",
            "nodes",
            "wires",
            "templates",
            "programs",
            "events",
            "expect",
        ],
        help: "`weft sim FILE` takes it",
    },
];

/// The kind of a file ("stack", "scenario"), and who takes it. None: nothing at its top is of either.
pub fn kind_of(text: &str) -> Option<(&'static str, &'static str)> {
    let top: IndexMap<String, IgnoredAny> = toml::from_str(text).ok()?;
    KINDS.iter().find(|kind| kind.has_any(&top)).map(|kind| (kind.name, kind.help))
}

/// What to say when a file that is no `wanted` ("stack", "scenario") is of the other kind: nothing at its top is of this kind, and something of that.
pub fn other_kind(text: &str, wanted: &str) -> Option<(String, String)> {
    let top: IndexMap<String, IgnoredAny> = toml::from_str(text).ok()?;
    if KINDS.iter().any(|kind| kind.name == wanted && kind.has_any(&top)) {
        return None;
    }
    let other = KINDS.iter().find(|kind| kind.name != wanted && kind.has_any(&top))?;
    Some((format!("this is a {} file, and a {wanted} file was wanted", other.name), other.help.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_of_the_kind_of_what_stands_at_its_top() {
        let (scenario, stack) = ("seed = 1\n[nodes.a]\n", "[node]\nname = \"a\"\n");
        assert!(other_kind(scenario, "stack").unwrap().1.contains("weft sim"));
        assert!(other_kind(stack, "scenario").unwrap().1.contains("weft check"));
        assert_eq!((kind_of(scenario).unwrap().0, kind_of(stack).unwrap().0, kind_of("#!/bin/sh\nx=1\n")), ("scenario", "stack", None));
        for (text, wanted) in
            [(scenario, "scenario"), (stack, "stack"), ("", "stack"), ("x = 1", "scenario"), ("[node.a]\n[wires.w]", "scenario")]
        {
            assert_eq!(other_kind(text, wanted), None, "{text}");
        }
    }
}
