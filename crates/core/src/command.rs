//! What people write, as operations: `insert wan ether:lower interfaces:upper` is the same on the command line, at the console and in a scenario.
//!
//! [`parse`] reads a line, [`read`] its words when somebody else has split it (a shell), [`write()`] says an operation in the same words. Meaning is
//! given to them here and nowhere else; whether there is such a block, port or parameter is the graph's to say, when the operation is prepared.
//! Every error names the word and what is expected in its place. Nothing a person can write makes this panic.
//!
//! Quoting is a shell's: `'…'` is as it stands, in `"…"` and outside a backslash takes the next character as it is. What begins with `#` is a remark.

use crate::control::{End, Op, Show, Value};
use crate::nearest::hint;
use crate::selector::Selector;
use indexmap::IndexMap;

/// Longest line, bytes.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// A command: one row is all that says it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its first word.
    pub name: &'static str,
    /// What follows.
    pub usage: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// Every command that is an operation on a node.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "get",
        usage: "BLOCK[.PARAMETER] | group:GROUP[.FIGURE]",
        doc: "read a parameter, or all of a block; the block may be a pattern. Of an interface group: what each member has carried, and the sum",
    },
    Row {
        name: "set",
        usage: "BLOCK.PARAMETER VALUE | group:GROUP KEY=VALUE…",
        doc: "set a parameter; the block may be a pattern: then all that match are set, or none. Of an interface group: up, mtu, mac, group and the others that \
              `interfaces set` takes, or an address or a route for each member; all members are set, or none",
    },
    Row { name: "exec", usage: "BLOCK PROCEDURE [KEY=VALUE…]", doc: "run a procedure of a block" },
    Row { name: "add", usage: "NAME KIND [KEY=VALUE…]", doc: "make a block" },
    Row { name: "delete", usage: "NAME", doc: "remove a block and its edges" },
    Row { name: "bind", usage: "BLOCK[:PORT] BLOCK[:PORT]", doc: "make an edge from an output to an input" },
    Row {
        name: "unbind",
        usage: "BLOCK[:PORT] [BLOCK[:PORT]]",
        doc: "remove the edges from an output to an input, or to whatever it leads",
    },
    Row { name: "insert", usage: "BLOCK BLOCK[:PORT] BLOCK[:PORT]", doc: "put a block into the edge between two others, in one step" },
    Row { name: "extract", usage: "BLOCK", doc: "take a block out and join what was before and after it, in one step" },
    Row {
        name: "replace",
        usage: "NAME KIND [KEY=VALUE…] [--drop-state]",
        doc: "put a new block in a block's place; it takes over edges, parameters that are not given, and state",
    },
    Row {
        name: "load",
        usage: "FILE",
        doc: "make the kind of block in a file known, or another build of it: blocks that exist stay what they are",
    },
    Row { name: "unload", usage: "KIND", doc: "forget a kind of block that was loaded; no block may be of it" },
    Row {
        name: "snapshot",
        usage: "FILE",
        doc: "write the state of all blocks into a file: connections, tables, timers and frames that are held, as they stand at one moment",
    },
    Row {
        name: "restore",
        usage: "FILE",
        doc: "put the state in such a file into all blocks, or into none; the graph must have the shape that it had",
    },
    Row { name: "pause", usage: "", doc: "hold every frame in the graph; calls, timers and changes go on" },
    Row { name: "unpause", usage: "", doc: "let the frames that were held go on, in their order" },
    Row {
        name: "subscribe",
        usage: "[BLOCK]",
        doc: "print the alerts of blocks, and changes, as they come; the block may be a pattern, all unless it is given",
    },
    Row { name: "show", usage: "WHAT", doc: "show what the node is and what it has counted" },
];

/// Why words are no operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Nothing was written.
    #[error("a command is missing; there are: {known}")]
    Nothing {
        /// Commands.
        known: String,
    },
    /// The first word is no command.
    #[error("there is no command '{word}'; {}there are: {known}", hint(word, known))]
    NoCommand {
        /// The word.
        word: String,
        /// Commands.
        known: String,
    },
    /// Too few words.
    #[error("{command}: {what} is missing: write {command} {usage}")]
    Missing {
        /// The command.
        command: &'static str,
        /// What is missing.
        what: &'static str,
        /// How it is written.
        usage: &'static str,
    },
    /// Too many words.
    #[error("{command}: '{word}' is one word too many: write {command}{}{usage}", if usage.is_empty() { "" } else { " " })]
    TooMany {
        /// The command.
        command: &'static str,
        /// The first that has no place.
        word: String,
        /// How it is written.
        usage: &'static str,
    },
    /// A word is not what belongs in its place.
    #[error("{command}: '{word}' {why}")]
    Wrong {
        /// The command.
        command: &'static str,
        /// The word.
        word: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// The words cannot be told apart.
    #[error("{why}")]
    Quoting {
        /// Why.
        why: &'static str,
    },
}

/// Reads a line. None: it is empty, or a remark.
///
/// # Errors
/// Which word is wrong, and what is expected.
pub fn parse(line: &str) -> Result<Option<Op>, CommandError> {
    let words = split(line)?;
    if words.is_empty() { Ok(None) } else { read(&words).map(Some) }
}

/// The words of a line.
///
/// # Errors
/// A quote that does not end, or a line that is too long.
pub fn split(line: &str) -> Result<Vec<String>, CommandError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(CommandError::Quoting { why: "the line is longer than 64 KiB" });
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '#' if word.is_none() => break,
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some('\'') => break,
                        Some(letter) => word.push(letter),
                        None => return Err(CommandError::Quoting { why: "a ' is open: end it with another one" }),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some('"') => break,
                        Some('\\') => word.extend(letters.next()),
                        Some(letter) => word.push(letter),
                        None => return Err(CommandError::Quoting { why: "a \" is open: end it with another one" }),
                    }
                }
            }
            '\\' => match letters.next() {
                Some(letter) => word.get_or_insert_default().push(letter),
                None => return Err(CommandError::Quoting { why: "the line ends with a backslash: write \\\\ for one" }),
            },
            letter if letter.is_whitespace() => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Reads words that are split already.
///
/// # Errors
/// Which word is wrong, and what is expected.
pub fn read<W: AsRef<str>>(words: &[W]) -> Result<Op, CommandError> {
    let mut words = words.iter().map(AsRef::as_ref);
    let known = || COMMANDS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    let first = words.next().ok_or_else(|| CommandError::Nothing { known: known() })?;
    let row = COMMANDS.iter().find(|row| row.name == first);
    let row = row.ok_or_else(|| CommandError::NoCommand { word: first.to_owned(), known: known() })?;
    let mut rest = Rest { row, words };
    let op = match row.name {
        "get" => rest.get(),
        "set" => rest.set(),
        "exec" => rest.exec(),
        "add" => rest.add(),
        "delete" => rest.block("the block's name").map(|name| Op::Delete { name }),
        "bind" => rest.bind(),
        "unbind" => rest.unbind(),
        "insert" => rest.insert(),
        "extract" => rest.block("the block's name").map(|block| Op::Extract { block }),
        "replace" => rest.replace(),
        "load" => rest.file().map(|file| Op::Load { file }),
        "snapshot" => rest.file().map(|file| Op::Snapshot { file }),
        "restore" => rest.file().map(|file| Op::Restore { file }),
        "unload" => rest.block("the kind").map(|kind| Op::Unload { kind }),
        "pause" => Ok(Op::Pause),
        "unpause" => Ok(Op::Unpause),
        "subscribe" => rest.subscribe(),
        _ => rest.show(),
    }?;
    match rest.words.next() {
        None => Ok(op),
        Some(word) => Err(CommandError::TooMany { command: row.name, word: word.to_owned(), usage: row.usage }),
    }
}

/// The words after the first.
struct Rest<I> {
    row: &'static Row,
    words: I,
}

impl<'a, I: Iterator<Item = &'a str>> Rest<I> {
    fn next(&mut self, what: &'static str) -> Result<&'a str, CommandError> {
        self.words.next().ok_or(CommandError::Missing { command: self.row.name, what, usage: self.row.usage })
    }

    fn wrong(&self, word: &str, why: impl Into<String>) -> CommandError {
        CommandError::Wrong { command: self.row.name, word: word.to_owned(), why: why.into() }
    }

    /// The name of a block; whether there is one by that name, the graph knows.
    fn block(&mut self, what: &'static str) -> Result<String, CommandError> {
        let word = self.next(what)?;
        match word {
            "" => Err(self.wrong(word, format!("is empty: give {what}"))),
            _ if word.contains(':') => Err(self.wrong(word, format!("names a port: give {what} alone"))),
            _ => Ok(word.to_owned()),
        }
    }

    fn end(&self, word: &str) -> Result<End, CommandError> {
        let end = End::parse(word);
        match end.block.is_empty() || end.port.as_ref().is_some_and(|port| port.is_empty() || port.contains(':')) {
            true => Err(self.wrong(word, "names no block and port: write BLOCK or BLOCK:PORT, for example ether:lower")),
            false => Ok(end),
        }
    }

    fn next_end(&mut self, what: &'static str) -> Result<End, CommandError> {
        let word = self.next(what)?;
        self.end(word)
    }

    fn get(&mut self) -> Result<Op, CommandError> {
        let word = self.next("the block")?;
        // The parameter is what stands behind the last dot: names of blocks may have some.
        let (block, name) = word.rsplit_once('.').map_or((word, None), |(block, name)| (block, Some(name)));
        if block.is_empty() || name == Some("") {
            return Err(self.wrong(word, "names no block and parameter: write BLOCK or BLOCK.PARAMETER, for example tcp.mss"));
        }
        Ok(Op::Get { target: Selector::parse(block), name: name.map(str::to_owned) })
    }

    fn set(&mut self) -> Result<Op, CommandError> {
        let first = self.next("the parameter")?;
        if let Some(group) = first.strip_prefix("group:") {
            return self.set_group(group);
        }
        // `set a.b 5`, `set a.b=5` and, as `get` prints it, `set a.b = 5`.
        let (both, text) = match first.split_once('=') {
            Some(both) => both,
            None => match self.next("the value")? {
                "=" => (first, self.next("the value")?),
                text => (first, text),
            },
        };
        let Some((block, name)) = both.rsplit_once('.').filter(|(block, name)| !block.is_empty() && !name.is_empty()) else {
            return Err(self.wrong(both, "names no block and parameter: write BLOCK.PARAMETER, for example tcp.mss"));
        };
        Ok(Op::Set { target: Selector::parse(block), name: name.to_owned(), value: value(text) })
    }

    /// `group:5 mtu=1400 up=true`, `group:5 address=10.0.0.1/24`, `group:5 route=default gateway=10.0.0.254`: a procedure of the table's owner.
    fn set_group(&mut self, group: &str) -> Result<Op, CommandError> {
        let mut arguments = serde_json::Map::new();
        while let Some(word) = self.words.next() {
            let (key, text) = self.pair(word)?;
            let value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
            if arguments.insert(key.to_owned(), value).is_some() {
                return Err(self.wrong(word, format!("gives '{key}' a second time")));
            }
        }
        let text_of = |arguments: &serde_json::Map<String, Value>, key: &str| arguments.get(key).and_then(Value::as_str).map(str::to_owned);
        let of_v6 = |text: Option<String>| text.is_some_and(|text| text.contains(':'));
        let (block, procedure) = if let Some(address) = text_of(&arguments, "address") {
            (if of_v6(Some(address)) { "ip6" } else { "ip4" }, "address_add")
        } else if let Some(route) = text_of(&arguments, "route") {
            arguments.shift_remove("route");
            arguments.insert("destination".to_owned(), route.as_str().into());
            let v6 = of_v6(Some(route)) || of_v6(text_of(&arguments, "gateway"));
            (if v6 { "ip6" } else { "ip4" }, "route_add")
        } else if arguments.is_empty() {
            return Err(self.wrong(group, "what of the group? Write KEY=VALUE, for example mtu=1400"));
        } else {
            ("interfaces", "set")
        };
        if block == "interfaces" {
            arguments.insert("of_group".to_owned(), serde_json::from_str(group).unwrap_or_else(|_| group.into()));
            arguments.entry("report").or_insert(true.into());
        } else {
            arguments.insert("interface".to_owned(), format!("group:{group}").into());
        }
        let target = Selector::Name(block.to_owned());
        Ok(Op::Exec { target, procedure: procedure.to_owned(), arguments: arguments.into() })
    }

    fn exec(&mut self) -> Result<Op, CommandError> {
        let word = self.next("the block")?;
        if word.is_empty() {
            return Err(self.wrong(word, "is empty: give the block"));
        }
        let target = Selector::parse(word);
        let procedure = self.next("the procedure")?.to_owned();
        let mut arguments = serde_json::Map::new();
        while let Some(word) = self.words.next() {
            let (key, text) = self.pair(word)?;
            // Arguments have no declared types: what is a number, true or false is one.
            let value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
            if arguments.insert(key.to_owned(), value).is_some() {
                return Err(self.wrong(word, format!("gives '{key}' a second time")));
            }
        }
        Ok(Op::Exec { target, procedure, arguments: arguments.into() })
    }

    fn pair(&self, word: &'a str) -> Result<(&'a str, &'a str), CommandError> {
        match word.split_once('=') {
            Some((key, text)) if !key.is_empty() => Ok((key, text)),
            _ => Err(self.wrong(word, "is no KEY=VALUE, for example delay=20ms")),
        }
    }

    fn add(&mut self) -> Result<Op, CommandError> {
        let name = self.block("the block's name")?;
        let (kind, parameters, _) = self.made()?;
        Ok(Op::Add { name, kind, parameters })
    }

    fn replace(&mut self) -> Result<Op, CommandError> {
        let name = self.block("the block's name")?;
        let (kind, parameters, drop_state) = self.made()?;
        Ok(Op::Replace { name, kind, parameters, drop_state })
    }

    /// Kind, parameters, and whether state is to be dropped.
    fn made(&mut self) -> Result<(String, IndexMap<String, Value>, bool), CommandError> {
        let kind = self.next("the kind")?;
        if kind.is_empty() || kind.contains('=') {
            return Err(self.wrong(kind, "is no kind of block: it stands before the parameters"));
        }
        let (mut parameters, mut drop_state) = (IndexMap::new(), false);
        while let Some(word) = self.words.next() {
            if word == "--drop-state" && self.row.name == "replace" {
                drop_state = true;
                continue;
            }
            let (key, text) = self.pair(word)?;
            if parameters.insert(key.to_owned(), value(text)).is_some() {
                return Err(self.wrong(word, format!("gives '{key}' a second time")));
            }
        }
        Ok((kind.to_owned(), parameters, drop_state))
    }

    fn file(&mut self) -> Result<String, CommandError> {
        match self.next("the file")? {
            "" => Err(self.wrong("", "is empty: give the file")),
            file => Ok(file.to_owned()),
        }
    }

    fn bind(&mut self) -> Result<Op, CommandError> {
        Ok(Op::Bind { from: self.next_end("the output")?, to: self.next_end("the input")? })
    }

    fn unbind(&mut self) -> Result<Op, CommandError> {
        let from = self.next_end("the output")?;
        let to = self.words.next().map(|word| self.end(word)).transpose()?;
        Ok(Op::Unbind { from, to })
    }

    fn insert(&mut self) -> Result<Op, CommandError> {
        let block = self.next_end("the block")?;
        Ok(Op::Insert { block, from: self.next_end("the edge's output")?, to: self.next_end("the edge's input")? })
    }

    fn subscribe(&mut self) -> Result<Op, CommandError> {
        let target = Selector::parse(self.words.next().unwrap_or("*"));
        Ok(Op::Subscribe { target, alert: None, on: true })
    }

    fn show(&mut self) -> Result<Op, CommandError> {
        let word = self.next("what to show")?;
        match Show::ALL.iter().find(|(name, _)| *name == word) {
            Some((_, what)) => Ok(Op::Show(*what)),
            None => {
                let known = Show::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                Err(self.wrong(word, format!("is nothing that can be shown; {}there are: {known}", hint(word, &known))))
            }
        }
    }
}

/// A parameter's value as it was written: its type decides what it is (and a bare number is no time span). Lists, and texts that look like one, are
/// JSON.
fn value(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Array(_) | Value::Object(_) | Value::String(_))) => value,
        _ => text.into(),
    }
}

/// Says an operation in the words that [`parse`] reads; those of several, a line each. None: it has none (a row of a table is asked for by programs only).
pub fn write(op: &Op) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    match op {
        Op::Get { target, name } => {
            words.extend(["get".to_owned(), name.as_ref().map_or(target.to_string(), |name| format!("{target}.{name}"))]);
        }
        Op::Set { target, name, value } => words.extend(["set".to_owned(), format!("{target}.{name}"), plain(value, self::value)]),
        Op::Exec { target, procedure, arguments } => {
            words.extend(["exec".to_owned(), target.to_string(), procedure.clone()]);
            let any = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| text.into());
            words.extend(arguments.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", plain(value, any))));
        }
        Op::Add { name, kind, parameters } => {
            words.extend(["add".to_owned(), name.clone(), kind.clone()]);
            words.extend(parameters.iter().map(|(key, value)| format!("{key}={}", plain(value, self::value))));
        }
        Op::Delete { name } => words.extend(["delete".to_owned(), name.clone()]),
        Op::Bind { from, to } => words.extend(["bind".to_owned(), from.to_string(), to.to_string()]),
        Op::Unbind { from, to } => {
            words.extend(["unbind".to_owned(), from.to_string()]);
            words.extend(to.as_ref().map(End::to_string));
        }
        Op::Insert { block, from, to } => words.extend(["insert".to_owned(), block.to_string(), from.to_string(), to.to_string()]),
        Op::Extract { block } => words.extend(["extract".to_owned(), block.clone()]),
        Op::Replace { name, kind, parameters, drop_state } => {
            words.extend(["replace".to_owned(), name.clone(), kind.clone()]);
            words.extend(parameters.iter().map(|(key, value)| format!("{key}={}", plain(value, self::value))));
            words.extend(drop_state.then(|| "--drop-state".to_owned()));
        }
        Op::Load { file } => words.extend(["load".to_owned(), file.clone()]),
        Op::Unload { kind } => words.extend(["unload".to_owned(), kind.clone()]),
        Op::Snapshot { file } => words.extend(["snapshot".to_owned(), file.clone()]),
        Op::Restore { file } => words.extend(["restore".to_owned(), file.clone()]),
        Op::Show(what) => words.extend(["show".to_owned(), what.name().to_owned()]),
        Op::All(ops) => return ops.iter().map(write).collect::<Option<Vec<_>>>().map(|lines| lines.join("\n")),
        Op::Pause => words.push("pause".to_owned()),
        Op::Unpause => words.push("unpause".to_owned()),
        Op::Subscribe { target, alert: None, on: true } => words.extend(["subscribe".to_owned(), target.to_string()]),
        Op::Subscribe { .. } | Op::List(_) => return None,
    }
    Some(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

/// A value as it is written, which is then read as the same.
fn plain(value: &Value, read: impl Fn(&str) -> Value) -> String {
    match value {
        Value::String(text) if read(text) == *value => text.clone(),
        other => other.to_string(),
    }
}

/// A word that a shell and [`split`] read as it is.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_./:=,+@%-".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn one(line: &str) -> Op {
        parse(line).unwrap().unwrap()
    }

    fn wrong(line: &str) -> String {
        parse(line).unwrap_err().to_string()
    }

    #[test]
    fn every_command_is_read_and_said_again_in_the_same_words() {
        for line in [
            "get tcp",
            "get tcp.mss",
            "get '*.mss'",
            "set tcp.mss 536",
            "set wan.delay 20ms",
            "set f.expression 'tcp port 80'",
            "exec arp flush",
            "exec interfaces set name=weft0 mtu=1400 up=true",
            "add wan delay delay=20ms jitter=1ms",
            "delete wan",
            "bind tcp ip4",
            "bind tcp:ip4 ip4:upper",
            "unbind tcp:ip4 ip4:upper",
            "unbind tcp:ip4",
            "insert wan ether:lower interfaces:upper",
            "insert wan:in ether interfaces",
            "extract wan",
            "replace tcp tcp congestion=bbr",
            "replace a counter --drop-state",
            "load blocks/alternate.wasm",
            "unload alternate-c",
            "snapshot n1.snapshot",
            "restore '/tmp/a b.snapshot'",
            "pause",
            "unpause",
            "subscribe 'ip*'",
            "show blocks",
            "show routes",
        ] {
            assert_eq!(write(&one(line)).unwrap(), line);
        }
        let both = Op::All(vec![one("add a counter"), one("insert a b c")]);
        assert_eq!(write(&both).unwrap(), "add a counter\ninsert a b c");
        assert_eq!(write(&Op::All(vec![Op::List(crate::Table::Flows)])), None);
    }

    #[test]
    fn values_are_what_their_place_makes_them() {
        let set = |line: &str| match one(line) {
            Op::Set { value, .. } => value,
            other => panic!("{other:?}"),
        };
        for line in ["set tcp.mss 536", "set tcp.mss=536", "set tcp.mss = 536"] {
            assert_eq!(set(line), json!("536"), "the parameter's type makes it a number");
        }
        assert_eq!(set("set a.b -1"), json!("-1"));
        assert_eq!(set("set a.b=c=d"), json!("c=d"));
        assert_eq!(set("set a.b '[\"x\", 1]'"), json!(["x", 1]));
        assert_eq!(set("set a.b '\"[1]\"'"), json!("[1]"), "a text that looks like a list");
        assert_eq!(set("set a.b ''"), json!(""));
        let Op::Exec { arguments, .. } = one("exec a b n=5 t=true x=10.0.0.1 e= \"s=a b\"") else { panic!() };
        assert_eq!(arguments, json!({"n": 5, "t": true, "x": "10.0.0.1", "e": "", "s": "a b"}));
        let Op::Set { target, name, .. } = one("set my.tap.rate 5mbit") else { panic!() };
        assert_eq!((target.to_string().as_str(), name.as_str()), ("my.tap", "rate"), "names may have dots");
    }

    #[test]
    fn a_group_is_set_by_the_owner_of_what_is_set() {
        let told = |line: &str| match parse(line) {
            Ok(Some(Op::Exec { target, procedure, arguments })) => format!("{target} {procedure} {arguments}"),
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(told("set group:5 mtu=1400 up=true"), r#"interfaces set {"mtu":1400,"up":true,"of_group":5,"report":true}"#);
        assert_eq!(told("set group:5 address=fd00::1/64"), r#"ip6 address_add {"address":"fd00::1/64","interface":"group:5"}"#);
        let route = r#"ip4 route_add {"gateway":"10.0.0.9","destination":"default","interface":"group:5"}"#;
        assert_eq!(told("set group:5 route=default gateway=10.0.0.9"), route);
        assert!(parse("set group:5").unwrap_err().to_string().contains("mtu=1400"));
        assert!(parse("set group:5 mtu=1 mtu=2").unwrap_err().to_string().contains("second time"));
    }

    #[test]
    fn words_are_split_as_a_shell_does() {
        for (line, words) in [
            ("", &[][..]),
            ("  # nothing", &[]),
            ("a  b\tc", &["a", "b", "c"]),
            ("a#b #c", &["a#b"]),
            (r#"'a b' "c \" d" e\ f"#, &["a b", "c \" d", "e f"]),
            (r"it'\''s ''", &["it\\s"]),
            ("'' x", &["", "x"]),
        ] {
            let found = split(line);
            if line.starts_with("it") {
                assert!(found.is_err(), "three quotes");
            } else {
                assert_eq!(found.unwrap(), words, "{line}");
            }
        }
        assert_eq!(split(r"'it'\''s'").unwrap(), ["it's"]);
        assert!(wrong("'a").contains("' is open") && wrong("\"a").contains("\" is open") && wrong("a\\").contains("backslash"));
        assert!(wrong(&"a".repeat(LINE_BYTES_MAX + 1)).contains("64 KiB"));
    }

    #[test]
    fn errors_name_the_word_and_what_is_expected() {
        for (line, error) in [
            ("isnert a b c", "there is no command 'isnert'; did you mean 'insert'? there are: get, set, exec, add, "),
            ("set", "set: the parameter is missing: write set BLOCK.PARAMETER VALUE"),
            ("set tcp.mss", "set: the value is missing: write set BLOCK.PARAMETER VALUE"),
            ("set mss 536", "set: 'mss' names no block and parameter: write BLOCK.PARAMETER, for example tcp.mss"),
            ("set .mss 536", "set: '.mss' names no block and parameter"),
            ("get tcp.", "get: 'tcp.' names no block and parameter"),
            ("exec arp", "exec: the procedure is missing: write exec BLOCK PROCEDURE [KEY=VALUE…]"),
            ("exec arp flush now", "exec: 'now' is no KEY=VALUE, for example delay=20ms"),
            ("exec arp flush a=1 a=2", "exec: 'a=2' gives 'a' a second time"),
            ("add wan", "add: the kind is missing: write add NAME KIND [KEY=VALUE…]"),
            ("add wan delay=20ms", "add: 'delay=20ms' is no kind of block: it stands before the parameters"),
            ("add wan delay --drop-state", "add: '--drop-state' is no KEY=VALUE"),
            ("delete wan:in", "delete: 'wan:in' names a port: give the block's name alone"),
            ("bind tcp", "bind: the input is missing: write bind BLOCK[:PORT] BLOCK[:PORT]"),
            ("bind tcp: ip4", "bind: 'tcp:' names no block and port: write BLOCK or BLOCK:PORT, for example ether:lower"),
            ("bind a:b:c ip4", "bind: 'a:b:c' names no block and port"),
            ("bind a b c", "bind: 'c' is one word too many: write bind BLOCK[:PORT] BLOCK[:PORT]"),
            ("insert wan ether", "insert: the edge's input is missing"),
            ("extract ''", "extract: '' is empty: give the block's name"),
            ("replace tcp", "replace: the kind is missing"),
            ("load", "load: the file is missing: write load FILE"),
            ("load ''", "load: '' is empty: give the file"),
            ("unload a b", "unload: 'b' is one word too many: write unload KIND"),
            ("pause now", "pause: 'now' is one word too many: write pause"),
            ("show block", "show: 'block' is nothing that can be shown; did you mean 'blocks'? there are: blocks, edges, "),
        ] {
            assert!(wrong(line).starts_with(error), "{line}: {}", wrong(line));
        }
        assert!(read::<&str>(&[]).unwrap_err().to_string().starts_with("a command is missing; there are: get, "));
        assert_eq!(parse("  "), Ok(None));
    }

    /// Words that commands are made of, and others.
    fn word() -> impl Strategy<Value = String> {
        let known: Vec<&str> =
            COMMANDS.iter().map(|row| row.name).chain(["--drop-state", "tcp", "tcp:ip4", "a.b", "k=v", "=", ":", "."]).collect();
        prop_oneof![proptest::sample::select(known).prop_map(str::to_owned), ".{0,6}", "[a-z.:=*'\"\\\\#\\[\\]{}0-9-]{0,8}"]
    }

    proptest! {
        #[test]
        fn no_words_make_it_panic_and_what_is_read_is_said_so_that_it_is_read_again(words in proptest::collection::vec(word(), 0..7)) {
            let _ = parse(&words.join(" "));
            if let Ok(op) = read(&words) {
                let said = write(&op).expect("every operation that was read has words");
                prop_assert_eq!(parse(&said), Ok(Some(op)), "{}", said);
            }
        }
    }
}
