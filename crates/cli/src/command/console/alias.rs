//! What a line at the console means: its own words, and those of the consoles that weft's users come from.
//!
//! FINS' console has 14 commands (most of them answered "todo"), LANA's `fbctl` 10, and beside it `vlink`. With `--fins` or `--lana` they mean what they
//! meant there; every other word is the console's own.

use weft_core::command::{self, Row};
use weft_core::control::Op;

/// Whose words are taken beside one's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// Nobody's.
    Own,
    /// Those of the FINS framework.
    Fins,
    /// Those of LANA.
    Lana,
}

/// What a line means.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    /// An operation on the node.
    Op(Op),
    /// Something of the daemon's is to be shown.
    Daemons(String),
    /// Print news of these blocks.
    Listen(String),
    /// Print no more.
    Deafen,
    /// Is there such a kind of block?
    Kind(String),
    /// Remove a block that is bound to nothing.
    RemoveUnbound(String),
    /// Replace a block by another one, or by a new one of a kind.
    ReplaceBy {
        /// The block.
        name: String,
        /// The other block, or the kind.
        by: String,
        /// Start empty.
        drop_state: bool,
    },
    /// What commands there are, or what one does.
    Help(Option<String>),
    /// End the stack.
    Shutdown,
    /// End the console.
    Quit,
}

/// The console's own commands, beside those of `weft_core::command`.
pub const OWN: &[Row] = &[
    Row { name: "unsubscribe", usage: "", doc: "print no more alerts and changes" },
    Row { name: "help", usage: "[COMMAND]", doc: "list the commands, or say what one does" },
    Row { name: "shutdown", usage: "", doc: "end the stack" },
    Row { name: "quit", usage: "", doc: "end the console, as ctrl-D" },
];

/// FINS' commands.
pub const FINS: &[Row] = &[
    Row { name: "help", usage: "[COMMAND]", doc: "list the commands, or say what one does" },
    Row { name: "exec", usage: "MODULE PROCEDURE [KEY=VALUE…]", doc: "run a procedure of a block" },
    Row { name: "get", usage: "MODULE [PARAMETER]", doc: "read a parameter" },
    Row { name: "set", usage: "MODULE PARAMETER VALUE", doc: "set a parameter" },
    Row { name: "listen", usage: "[all|MODULE] [all] [0|1]", doc: "print alerts and changes, or (0) no more" },
    Row { name: "console", usage: "type 1|2|3", doc: "1: answers only; 2 and 3: alerts and changes as well" },
    Row { name: "pause", usage: "[all]", doc: "hold every frame in the graph" },
    Row { name: "unpause", usage: "[all]", doc: "let the frames that were held go on" },
    Row { name: "link", usage: "MODULE[:PORT] MODULE[:PORT]", doc: "make an edge" },
    Row { name: "unlink", usage: "MODULE[:PORT] [MODULE[:PORT]]", doc: "remove edges" },
    Row { name: "load", usage: "KIND [NAME] [KEY=VALUE…]", doc: "make a block; its name is its kind unless it is given" },
    Row { name: "unload", usage: "MODULE", doc: "remove a block and its edges" },
    Row { name: "replace", usage: "MODULE KIND [KEY=VALUE…]", doc: "put a new block in a block's place, with its data" },
    Row { name: "shutdown", usage: "[all]", doc: "end the stack" },
];

/// LANA's commands; `fbctl` may stand before each but the last.
pub const LANA: &[Row] = &[
    Row { name: "preload", usage: "KIND", doc: "see whether there is such a kind of block: weft has all of its own loaded" },
    Row { name: "add", usage: "NAME KIND [KEY=VALUE…]", doc: "make a block" },
    Row { name: "set", usage: "NAME KEY=VALUE", doc: "set a parameter" },
    Row { name: "rm", usage: "NAME", doc: "remove a block that is bound to nothing" },
    Row { name: "bind", usage: "NAME[:PORT] NAME[:PORT]", doc: "make an edge" },
    Row { name: "unbind", usage: "NAME[:PORT] [NAME[:PORT]]", doc: "remove edges" },
    Row { name: "replace", usage: "NAME OTHER", doc: "put another block, or a new one of a kind, in a block's place, with its data" },
    Row { name: "replace_drop", usage: "NAME OTHER", doc: "the same, without its data" },
    Row { name: "subscribe", usage: "[NAME]", doc: "print the alerts of a block, and changes" },
    Row { name: "unsubscribe", usage: "[NAME]", doc: "print no more" },
    Row { name: "vlink", usage: "hook INTERFACE | unhook INTERFACE | ethernet rm INTERFACE", doc: "take an interface up or down, or away" },
];

/// All commands of a dialect, each once.
pub fn rows(dialect: Dialect) -> Vec<&'static Row> {
    let theirs = match dialect {
        Dialect::Own => &[][..],
        Dialect::Fins => FINS,
        Dialect::Lana => LANA,
    };
    let mut rows: Vec<&Row> = theirs.iter().collect();
    for row in command::COMMANDS.iter().chain(OWN) {
        if !rows.iter().any(|known| known.name == row.name) {
            rows.push(row);
        }
    }
    rows
}

/// What commands there are, or what one does.
pub fn help(dialect: Dialect, word: Option<&str>) -> anyhow::Result<Vec<String>> {
    let say = |row: &Row| format!("{:<58} {}", format!("{} {}", row.name, row.usage), row.doc);
    let rows = rows(dialect);
    let Some(word) = word else {
        return Ok(rows.into_iter().map(say).chain(["`weft help block KIND` describes a kind of block".to_owned()]).collect());
    };
    let Some(row) = rows.iter().find(|row| row.name == word) else {
        let known = rows.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
        anyhow::bail!("there is no command '{word}'; there are: {known}");
    };
    Ok(vec![say(row)])
}

/// Reads the words of a line.
///
/// # Errors
/// Which word is wrong, and what is expected.
pub fn read(dialect: Dialect, words: &[String]) -> Result<Said, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match dialect {
        Dialect::Fins => fins(&words),
        Dialect::Lana => lana(&words),
        Dialect::Own => own(&words),
    }
}

fn own(words: &[&str]) -> Result<Said, String> {
    match words {
        ["help"] => Ok(Said::Help(None)),
        ["help", word] => Ok(Said::Help(Some((*word).to_owned()))),
        ["shutdown"] => Ok(Said::Shutdown),
        ["quit" | "exit"] => Ok(Said::Quit),
        ["subscribe"] => Ok(Said::Listen("*".to_owned())),
        ["subscribe", target] => Ok(Said::Listen((*target).to_owned())),
        ["unsubscribe"] => Ok(Said::Deafen),
        ["show", what @ ("calls" | "published")] => Ok(Said::Daemons((*what).to_owned())),
        [name, ..] if OWN.iter().any(|row| row.name == *name) => Err(usage(OWN, name)),
        words => op(words),
    }
}

fn usage(rows: &[Row], name: &str) -> String {
    let row = rows.iter().find(|row| row.name == name);
    row.map_or_else(|| format!("there is no command '{name}'"), |row| format!("{name}: write {name} {}", row.usage).trim_end().to_owned())
}

/// An operation in the console's own words.
fn op(words: &[&str]) -> Result<Said, String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    command::read(&crate::groups::numbered(&words)).map(Said::Op).map_err(|error| error.to_string())
}

fn with<'a>(first: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [first].into_iter().chain(rest.iter().copied()).collect()
}

fn fins(words: &[&str]) -> Result<Said, String> {
    match words {
        ["get", module, parameter] => op(&["get", &format!("{module}.{parameter}")]),
        ["set", module, parameter, value] if *parameter != "=" => op(&["set", &format!("{module}.{parameter}"), value]),
        ["set", "console"] => Ok(Said::Deafen),
        ["set", "listener" | "dual"] => Ok(Said::Listen("*".to_owned())),
        ["listen"] => Ok(Said::Listen("*".to_owned())),
        ["listen", rest @ ..] => match rest {
            [.., "0"] if rest.len() <= 3 => Ok(Said::Deafen),
            ["all"] | ["all", "1"] | ["all", "all"] | ["all", "all", "1"] | ["1"] => Ok(Said::Listen("*".to_owned())),
            [module] | [module, "1"] | [module, "all"] | [module, "all", "1"] => Ok(Said::Listen((*module).to_owned())),
            _ => Err(usage(FINS, "listen")),
        },
        ["console", "type", "1"] => Ok(Said::Deafen),
        ["console", "type", "2" | "3"] => Ok(Said::Listen("*".to_owned())),
        ["console", ..] => Err(usage(FINS, "console")),
        ["pause", "all"] => op(&["pause"]),
        ["unpause", "all"] => op(&["unpause"]),
        [name @ ("pause" | "unpause"), module] => {
            Err(format!("{name}: '{module}' alone cannot be held: the graph is, as a whole: write {name} [all]"))
        }
        ["link", rest @ ..] => op(&with("bind", rest)).map_err(|why| why.replace("bind", "link")),
        ["unlink", rest @ ..] => op(&with("unbind", rest)).map_err(|why| why.replace("unbind", "unlink")),
        ["load"] => Err(usage(FINS, "load")),
        ["load", kind, name, rest @ ..] if !name.contains('=') => op(&with("add", &with(name, &with(kind, rest)))),
        ["load", kind, rest @ ..] => op(&with("add", &with(kind, &with(kind, rest)))),
        ["unload", rest @ ..] => op(&with("delete", rest)).map_err(|why| why.replace("delete", "unload")),
        ["shutdown", "all"] => Ok(Said::Shutdown),
        words => own(words),
    }
}

fn lana(words: &[&str]) -> Result<Said, String> {
    let words = if let ["fbctl", rest @ ..] = words { rest } else { words };
    let owned = |word: &str| word.to_owned();
    match words {
        [] => Err("fbctl: a command is missing".to_owned()),
        ["preload", kind] => Ok(Said::Kind(owned(kind))),
        ["set", name, pair] if pair.contains('=') && !name.contains('=') => op(&["set", &format!("{name}.{pair}")]),
        ["rm", name] => Ok(Said::RemoveUnbound(owned(name))),
        ["replace", name, by] => Ok(Said::ReplaceBy { name: owned(name), by: owned(by), drop_state: false }),
        ["replace_drop", name, by] => Ok(Said::ReplaceBy { name: owned(name), by: owned(by), drop_state: true }),
        ["unsubscribe", _] => Ok(Said::Deafen),
        ["vlink", way @ ("hook" | "unhook"), interface] => {
            let up = if *way == "hook" { "up=true" } else { "up=false" };
            op(&["exec", "interfaces", "set", &format!("name={interface}"), up])
        }
        ["vlink", "ethernet", "rm", interface] => op(&["exec", "interfaces", "remove", &format!("name={interface}")]),
        ["vlink", "ethernet", "add", ..] => {
            Err("vlink: a stack has the interfaces of its stack file: write an [[interface]] there (`weft help stack`)".to_owned())
        }
        [name @ ("preload" | "rm" | "replace_drop" | "vlink"), ..] => Err(usage(LANA, name)),
        words => own(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(dialect: Dialect, line: &str) -> Said {
        read(dialect, &command::split(line).unwrap()).unwrap_or_else(|why| panic!("{line}: {why}"))
    }

    fn same(dialect: Dialect, theirs: &str, ours: &str) {
        assert_eq!(said(dialect, theirs), said(Dialect::Own, ours), "{theirs}");
    }

    #[test]
    fn every_command_of_fins_is_taken() {
        for (theirs, ours) in [
            ("help", "help"),
            ("help link", "help link"),
            ("exec arp get_addr src_ip=10.0.0.1", "exec arp get_addr src_ip=10.0.0.1"),
            ("get tcp mss", "get tcp.mss"),
            ("get tcp", "get tcp"),
            ("set tcp mss 536", "set tcp.mss 536"),
            ("set tcp.mss = 536", "set tcp.mss 536"),
            ("listen", "subscribe"),
            ("listen all all 1", "subscribe"),
            ("listen tcp", "subscribe tcp"),
            ("listen tcp all 0", "unsubscribe"),
            ("console type 1", "unsubscribe"),
            ("console type 3", "subscribe"),
            ("set dual", "subscribe"),
            ("pause", "pause"),
            ("pause all", "pause"),
            ("unpause all", "unpause"),
            ("link a:out b", "bind a:out b"),
            ("unlink a:out", "unbind a:out"),
            ("load counter", "add counter counter"),
            ("load delay wan delay=20ms", "add wan delay delay=20ms"),
            ("load delay delay=20ms", "add delay delay delay=20ms"),
            ("unload counter", "delete counter"),
            ("replace tcp tcp congestion=reno", "replace tcp tcp congestion=reno"),
            ("shutdown all", "shutdown"),
            ("shutdown", "shutdown"),
        ] {
            same(Dialect::Fins, theirs, ours);
        }
        assert_eq!(FINS.len(), 14);
    }

    #[test]
    fn every_command_of_lana_is_taken() {
        for (theirs, ours) in [
            ("add f filter", "add f filter"),
            ("fbctl add f filter", "add f filter"),
            ("set f expression='udp port 53'", "set f.expression 'udp port 53'"),
            ("bind a b", "bind a b"),
            ("fbctl unbind a b", "unbind a b"),
            ("subscribe a", "subscribe a"),
            ("unsubscribe a", "unsubscribe"),
            ("vlink hook weft0", "exec interfaces set name=weft0 up=true"),
            ("vlink unhook weft0", "exec interfaces set name=weft0 up=false"),
            ("vlink ethernet rm weft0", "exec interfaces remove name=weft0"),
        ] {
            same(Dialect::Lana, theirs, ours);
        }
        assert_eq!(said(Dialect::Lana, "preload filter"), Said::Kind("filter".to_owned()));
        assert_eq!(said(Dialect::Lana, "fbctl rm f"), Said::RemoveUnbound("f".to_owned()));
        let by = |drop_state| Said::ReplaceBy { name: "a".to_owned(), by: "b".to_owned(), drop_state };
        assert_eq!((said(Dialect::Lana, "replace a b"), said(Dialect::Lana, "replace_drop a b")), (by(false), by(true)));
        assert_eq!(LANA.iter().filter(|row| row.name != "vlink").count(), 10);
    }

    #[test]
    fn wrong_words_are_answered_with_what_is_expected() {
        for (dialect, line, why) in [
            (Dialect::Own, "link a b", "there is no command 'link'"),
            (Dialect::Own, "quit now", "quit: write quit"),
            (Dialect::Own, "help a b", "help: write help [COMMAND]"),
            (Dialect::Fins, "link a", "link: the input is missing: write link "),
            (Dialect::Fins, "console type 9", "console: write console type 1|2|3"),
            (Dialect::Fins, "pause tcp", "pause: 'tcp' alone cannot be held"),
            (Dialect::Fins, "listen a b c", "listen: write listen "),
            (Dialect::Fins, "load", "load: write load KIND"),
            (Dialect::Lana, "rm", "rm: write rm NAME"),
            (Dialect::Lana, "vlink", "vlink: write vlink hook INTERFACE"),
            (Dialect::Lana, "vlink ethernet add v0 eth0 5", "vlink: a stack has the interfaces of its stack file"),
            (Dialect::Lana, "fbctl", "fbctl: a command is missing"),
        ] {
            let found = read(dialect, &command::split(line).unwrap()).unwrap_err();
            assert!(found.starts_with(why), "{line}: {found}");
        }
        assert!(help(Dialect::Fins, Some("link")).unwrap()[0].starts_with("link MODULE[:PORT]"));
        assert!(help(Dialect::Own, Some("link")).unwrap_err().to_string().starts_with("there is no command 'link'; there are: get, "));
    }
}
