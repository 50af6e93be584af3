//! What a half-written word at the console can become.

use super::alias::{self, Dialect};
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use weft_core::{BlockTable, Kind, ParameterType, Show};

/// What there is to choose from, as of this prompt.
pub struct Words {
    /// Names and kinds.
    blocks: Vec<(String, String)>,
    kinds: BlockTable,
    dialect: Dialect,
}

impl Words {
    pub fn new(blocks: Vec<(String, String)>, dialect: Dialect) -> Words {
        Words { blocks, kinds: weft_node::block_table(), dialect }
    }

    fn kind(&self, name: &str) -> Option<&'static Kind> {
        self.kinds.get(name).map(|row| row.kind)
    }

    fn kind_of(&self, block: &str) -> Option<&'static Kind> {
        self.blocks.iter().find(|(name, _)| name == block).and_then(|(_, kind)| self.kind(kind))
    }

    /// Where the word under the cursor begins, and what it can become.
    pub fn candidates(&self, before: &str) -> (usize, Vec<String>) {
        let start = before.rfind(char::is_whitespace).map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
        let mut words: Vec<&str> = before[..start].split_whitespace().collect();
        if self.dialect == Dialect::Lana && words.first() == Some(&"fbctl") {
            words.remove(0);
        }
        let word = &before[start..];
        let mut all = self.all(&words, word);
        all.retain(|candidate| candidate.starts_with(word));
        all.sort();
        all.dedup();
        (start, all)
    }

    fn all(&self, words: &[&str], word: &str) -> Vec<String> {
        let name = |name: &&str| (*name).to_owned();
        let blocks = || self.blocks.iter().map(|(name, _)| name.clone()).collect();
        let kinds = || self.kinds.iter().map(|row| row.kind.name.to_owned()).collect();
        let keys =
            |kind: Option<&'static Kind>| kind.into_iter().flat_map(|kind| kind.parameters).map(|row| format!("{}=", row.name)).collect();
        let parameters =
            |block: &str| self.kind_of(block).into_iter().flat_map(|kind| kind.parameters).map(|row| row.name.to_owned()).collect();
        match words {
            [] => alias::rows(self.dialect).iter().map(|row| row.name.to_owned()).collect(),
            ["help"] => alias::rows(self.dialect).iter().map(|row| row.name.to_owned()).collect(),
            ["show"] => Show::ALL.iter().map(|(name, _)| *name).chain(["calls", "published"]).map(|word| name(&word)).collect(),
            ["get" | "set"] if self.dialect == Dialect::Own => self.parameters(word),
            ["get" | "set", block] if self.dialect == Dialect::Fins => parameters(block),
            ["set", block] if self.dialect == Dialect::Lana => keys(self.kind_of(block)),
            ["set", parameter] if self.dialect == Dialect::Own => self.choices(parameter),
            ["get" | "set", ..] if self.dialect == Dialect::Own => Vec::new(),
            ["exec", block] => self.kind_of(block).into_iter().flat_map(|kind| kind.procedures).map(|row| row.name.to_owned()).collect(),
            ["load" | "unload" | "snapshot" | "restore"] if self.dialect == Dialect::Own => Vec::new(),
            ["add", _] | ["preload" | "load"] => kinds(),
            ["replace" | "replace_drop", _] => kinds(),
            ["add" | "replace", _, kind, ..] => keys(self.kind(kind)),
            ["bind" | "unbind" | "link" | "unlink"] => self.ends(word, false),
            ["bind" | "unbind" | "link" | "unlink", _] => self.ends(word, true),
            ["insert", _] => self.ends(word, false),
            ["insert", _, _] => self.ends(word, true),
            ["add" | "help" | "quit", ..] => Vec::new(),
            [_] => blocks(),
            _ => Vec::new(),
        }
    }

    /// Blocks, and behind the dot their parameters.
    fn parameters(&self, word: &str) -> Vec<String> {
        match word.rsplit_once('.').and_then(|(block, _)| Some((block, self.kind_of(block)?))) {
            Some((block, kind)) => kind.parameters.iter().map(|row| format!("{block}.{}", row.name)).collect(),
            None => self.blocks.iter().map(|(name, _)| format!("{name}.")).collect(),
        }
    }

    /// What a parameter can be, where that is one of some words.
    fn choices(&self, parameter: &str) -> Vec<String> {
        let row = parameter.rsplit_once('.').and_then(|(block, name)| self.kind_of(block)?.parameters.iter().find(|row| row.name == name));
        let words: &[&str] = match row.map(|row| row.value) {
            Some(ParameterType::Choice(words) | ParameterType::Scheduler(words)) => words,
            Some(ParameterType::Bool) => &["true", "false"],
            _ => &[],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Blocks, and behind the colon their inputs or outputs.
    fn ends(&self, word: &str, inputs: bool) -> Vec<String> {
        match word.split_once(':').and_then(|(block, _)| Some((block, self.kind_of(block)?))) {
            Some((block, kind)) => {
                let ports = if inputs { kind.inputs } else { kind.outputs };
                ports.iter().map(|port| format!("{block}:{}", port.name)).collect()
            }
            None => self.blocks.iter().map(|(name, _)| name.clone()).collect(),
        }
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.candidates(line.get(..at).unwrap_or_default()))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_what_fits_in_their_place() {
        let blocks = [("tcp", "tcp"), ("ip4", "ip4"), ("wan", "delay"), ("ether", "ether")];
        let of = |dialect: Dialect, line: &str| {
            let blocks = blocks.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
            let (start, found) = Words::new(blocks, dialect).candidates(line);
            (start, found.join(" "))
        };
        for (dialect, line, start, found) in [
            (Dialect::Own, "ins", 0, "insert"),
            (Dialect::Own, "un", 0, "unbind unload unpause unsubscribe"),
            (Dialect::Own, "get t", 4, "tcp."),
            (Dialect::Own, "get tcp.ms", 4, "tcp.mss tcp.mss_min"),
            (Dialect::Own, "set wan.del", 4, "wan.delay"),
            (Dialect::Own, "set wan.delay ", 14, ""),
            (Dialect::Own, "set tcp.congestion b", 19, "balia bbr"),
            (Dialect::Own, "set tcp.sack ", 13, "false true"),
            (Dialect::Own, "add x del", 6, "delay"),
            (Dialect::Own, "add x delay del", 12, "delay="),
            (Dialect::Own, "bind e", 5, "ether"),
            (Dialect::Own, "bind ether:lo", 5, "ether:lower"),
            (Dialect::Own, "insert wan ether:lower ip4:up", 23, "ip4:upper"),
            (Dialect::Own, "extract w", 8, "wan"),
            (Dialect::Own, "exec tcp con", 9, "control"),
            (Dialect::Own, "show pub", 5, "published"),
            (Dialect::Own, "help ext", 5, "extract"),
            (Dialect::Fins, "get tcp ms", 8, "mss mss_min"),
            (Dialect::Fins, "lin", 0, "link"),
            (Dialect::Fins, "load del", 5, "delay"),
            (Dialect::Lana, "fbctl rm w", 9, "wan"),
            (Dialect::Lana, "set wan del", 8, "delay="),
            (Dialect::Own, "\u{2003}é", 3, ""),
        ] {
            assert_eq!(of(dialect, line), (start, found.to_owned()), "{line}");
        }
    }
}
