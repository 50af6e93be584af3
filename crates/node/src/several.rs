//! Several mistakes of one file, told at once.
//!
//! Whoever reads a file stops at the first mistake. So the file is read again without what is wrong, until nothing more is found: no reader needs to know
//! of it. What only comes of an earlier mistake is no mistake. A section that stays silent about one is better than one that tells of ten, so in doubt
//! nothing is said:
//!
//! * of a section that has lost something on which the rest of it may depend, only unknown keys and values of the wrong type are told;
//! * nothing is told that names what has been taken out;
//! * once a wire or an interface is gone, nothing is told of addresses and ways; once a file of blocks is, nothing of kinds of block.

use crate::error::StackError;
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// So many are looked for.
const FOUND_MAX: usize = 40;
/// So many are shown, and the others are counted.
const SHOWN_MAX: usize = 10;

/// What the rest of a section depends on.
const DECIDING: [&str; 15] = [
    "kind",
    "count",
    "width",
    "height",
    "left",
    "right",
    "arity",
    "stack",
    "between",
    "node",
    "builtin",
    "command",
    "name",
    "destination",
    "gateway",
];
/// Sections that say one thing: without it they say nothing.
const SINGLE: [&str; 2] = ["events", "expect"];
/// Sections without which nodes have other interfaces, addresses and ways.
const CONNECTING: [&str; 5] = ["nodes", "wires", "templates", "interface", "address"];
/// What messages about those speak of.
const OF_CONNECTIONS: [&str; 7] = ["interface", "address", "network", "route", "gateway", "sides", "lead"];
/// Files that bring kinds of block, and what messages about those speak of.
const LOADING: &str = "load";
const OF_KINDS: &str = "kind of block";

/// The document in a text. Where that is none, the error tells of every line that is no TOML.
///
/// # Errors
/// What `explain` says of what the reader of TOML found.
pub fn parse<'t>(text: &'t str, explain: impl Fn(&toml::de::Error) -> StackError) -> Result<Spanned<DeTable<'t>>, StackError> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut found: Vec<StackError> = Vec::new();
    for error in errors.iter().map(explain) {
        // What follows in the same line comes of the first mistake in it.
        if found.iter().all(|known| known.line != error.line) {
            found.push(error);
        }
    }
    if found.is_empty() { Ok(document) } else { Err(together(found)) }
}

/// Reads a document. Where it is wrong, the error is the first in the order of the file, and tells of the others.
///
/// # Errors
/// What `read` says of the document, and of what is left of it.
pub fn read<'t, T>(document: &Spanned<DeTable<'t>>, read: impl Fn(Spanned<DeTable<'t>>) -> Result<T, StackError>) -> Result<T, StackError> {
    let first = match read(document.clone()) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let (mut left, mut gone, mut found) = (document.clone(), Gone::default(), vec![first]);
    let mut error = found[0].clone();
    for _ in 1..FOUND_MAX {
        let Some(path) = error.place().and_then(|place| smallest(left.get_ref(), &place)) else { break };
        gone.take(left.get_mut(), &path);
        error = match read(left.clone()) {
            Ok(_) => break,
            Err(error) => error,
        };
        if !gone.explains(left.get_ref(), &error) && found.iter().all(|known| (&known.what, known.place()) != (&error.what, error.place()))
        {
            found.push(error.clone());
        }
    }
    Err(together(found))
}

/// Errors as one: the first in the order of the file, and the others behind it.
fn together(errors: Vec<StackError>) -> StackError {
    let mut errors: Vec<StackError> = errors.into_iter().flat_map(StackError::apart).collect();
    errors.sort_by_key(|error| error.place().map_or(usize::MAX, |place| place.start));
    let (left_out, is_cut) = (errors.len().saturating_sub(SHOWN_MAX), errors.len() >= FOUND_MAX);
    errors.truncate(SHOWN_MAX);
    let mut errors = errors.into_iter();
    let first = errors.next().unwrap_or_default();
    first.with(errors.collect(), left_out, is_cut)
}

/// A place in a document: keys and numbers of elements.
type Path = Vec<String>;

/// The smallest part of a document that this place lies in, and of several the deepest.
fn smallest(table: &DeTable<'_>, place: &Range<usize>) -> Option<Path> {
    let mut best: Option<(usize, Path)> = None;
    in_table(table, place, &mut Vec::new(), &mut best);
    best.map(|(_, path)| path)
}

fn in_table(table: &DeTable<'_>, place: &Range<usize>, path: &mut Path, best: &mut Option<(usize, Path)>) {
    for (key, value) in table {
        path.push(key.get_ref().to_string());
        offer(&key.span(), place, path, best);
        in_value(value, place, path, best);
        path.pop();
    }
}

fn in_value(value: &Spanned<DeValue<'_>>, place: &Range<usize>, path: &mut Path, best: &mut Option<(usize, Path)>) {
    offer(&value.span(), place, path, best);
    match value.get_ref() {
        DeValue::Table(table) => in_table(table, place, path, best),
        DeValue::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                path.push(number.to_string());
                in_value(item, place, path, best);
                path.pop();
            }
        }
        _ => {}
    }
}

fn offer(span: &Range<usize>, place: &Range<usize>, path: &Path, best: &mut Option<(usize, Path)>) {
    let fits = span.start <= place.start && place.end <= span.end;
    if fits && best.as_ref().is_none_or(|(length, _)| span.len() <= *length) {
        *best = Some((span.len(), path.clone()));
    }
}

/// What has been taken out of a document.
#[derive(Default)]
struct Gone {
    /// Names of sections that are no longer what they were: what begins with one may be made of it.
    names: BTreeSet<String>,
    /// Words of values that are no longer there.
    words: BTreeSet<String>,
    /// Sections that have lost something, by where they begin: numbers become others.
    touched: BTreeSet<usize>,
    /// Sections that have lost what the rest of them may depend on.
    undecided: BTreeSet<usize>,
    /// Wires or interfaces are others than the file says.
    disconnected: bool,
    /// Kinds of block that a file would have brought are not there.
    unloaded: bool,
}

impl Gone {
    fn take(&mut self, document: &mut DeTable<'_>, path: &Path) {
        let section = section_of(document, path);
        let is_whole = path.len() <= section.len();
        let decides = path.iter().skip(section.len()).any(|part| DECIDING.contains(&part.as_str()));
        let (name, begin) = (name_of(document, &section), begin_of(document, &section));
        let Some(value) = remove(document, path) else { return };
        self.touched.insert(begin);
        self.unloaded |= path.iter().any(|part| part == LOADING);
        let is_of = |kinds: &[&str]| section.first().is_some_and(|kind| kinds.contains(&kind.as_str()));
        if !is_whole && is_measure(&value) && !decides && !is_of(&SINGLE) {
            return;
        }
        if is_whole || decides {
            self.names.extend(name);
            self.disconnected |= is_of(&CONNECTING);
        }
        if !is_whole {
            words_of(&value, &mut self.words);
        }
        self.undecided.insert(begin);
    }

    /// Does an error only come of what is no longer there?
    fn explains(&self, document: &DeTable<'_>, error: &StackError) -> bool {
        let Some(path) = error.place().and_then(|place| smallest(document, &place)) else { return !self.undecided.is_empty() };
        let section = section_of(document, &path);
        let (is_whole, begin) = (path.len() <= section.len(), begin_of(document, &section));
        let is_of_section = is_whole && self.touched.contains(&begin);
        if is_of_section || error.is_of_shape() {
            return is_of_section;
        }
        // Behind it stands what there is instead.
        let what = error.what.split(';').next().unwrap_or_default();
        let of_kinds = self.unloaded && what.contains(OF_KINDS);
        let of_connections = self.disconnected && OF_CONNECTIONS.iter().any(|word| what.contains(word));
        // A section may lack what a value elsewhere has given it; the same value, wrong once more, is another mistake.
        let lacks = |word: &str| is_whole && self.words.contains(word);
        self.undecided.contains(&begin) || of_connections || of_kinds || named(what).any(|word| lacks(word) || self.has_name(word))
    }

    fn has_name(&self, word: &str) -> bool {
        let made_of =
            |name: &String| word.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || !rest.starts_with(char::is_alphabetic));
        self.names.iter().any(made_of)
    }
}

/// The names in a message: what stands in quotes, and the block of block.parameter and block:port.
fn named(message: &str) -> impl Iterator<Item = &str> {
    let quoted = message.split('\'').skip(1).step_by(2).chain(message.split('`').skip(1).step_by(2));
    let owners = message.split(|c: char| c.is_whitespace() || "\'`".contains(c)).filter_map(|word| Some(word.split_once([':', '.'])?.0));
    quoted.chain(owners)
}

/// A number, with a unit or without: nothing else depends on what kind of number it is.
fn is_measure(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::String(text) => text.trim_start().starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)),
        DeValue::Integer(_) | DeValue::Float(_) => true,
        _ => false,
    }
}

fn words_of(value: &DeValue<'_>, words: &mut BTreeSet<String>) {
    match value {
        DeValue::String(text) => {
            for word in text.split_whitespace() {
                words.extend([word, word.split([':', '.']).next().unwrap_or(word)].map(str::to_owned));
            }
        }
        DeValue::Array(items) => items.iter().for_each(|item| words_of(item.get_ref(), words)),
        DeValue::Table(table) => table.iter().for_each(|(_, item)| words_of(item.get_ref(), words)),
        _ => {}
    }
}

fn inside<'a, 't>(document: &'a mut DeTable<'t>, path: &[String]) -> Option<&'a mut DeValue<'t>> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(document.get_mut(first.as_str())?.get_mut(), |value, part| match value {
        DeValue::Table(table) => Some(table.get_mut(part.as_str())?.get_mut()),
        DeValue::Array(items) => Some(items.get_mut(part.parse::<usize>().ok()?)?.get_mut()),
        _ => None,
    })
}

/// Where a section begins in the file.
fn begin_of(document: &DeTable<'_>, section: &[String]) -> usize {
    let Some((first, rest)) = section.split_first() else { return 0 };
    let Some(top) = document.get(first.as_str()) else { return 0 };
    let below = match (top.get_ref(), rest.first()) {
        (DeValue::Table(table), Some(name)) => table.get(name.as_str()),
        (DeValue::Array(items), Some(number)) => number.parse::<usize>().ok().and_then(|number| items.get(number)),
        _ => None,
    };
    below.unwrap_or(top).span().start
}

/// Takes a part out.
fn remove<'t>(document: &mut DeTable<'t>, path: &[String]) -> Option<DeValue<'t>> {
    let (last, before) = path.split_last()?;
    if before.is_empty() {
        return document.remove(last.as_str()).map(Spanned::into_inner);
    }
    match inside(document, before)? {
        DeValue::Table(table) => table.remove(last.as_str()).map(Spanned::into_inner),
        DeValue::Array(items) => {
            let number = last.parse::<usize>().ok()?;
            let mut taken = None;
            for (at, item) in std::mem::replace(items, DeArray::new()).into_iter().enumerate() {
                if at == number { taken = Some(item.into_inner()) } else { items.push(item) }
            }
            taken
        }
        _ => None,
    }
}

/// What a section is called: the last part of its path, or its `name` where sections are numbered.
fn name_of(document: &mut DeTable<'_>, section: &[String]) -> Option<String> {
    let numbered = section.last()?.parse::<usize>().is_ok();
    if !numbered {
        return section.get(1).cloned();
    }
    let table = inside(document, section)?.as_table()?;
    table.get("name").and_then(|name| name.get_ref().as_str()).map(str::to_owned)
}

/// The section that a path leads into: [wires.ab], the third [[events]], or [graph].
fn section_of(document: &DeTable<'_>, path: &Path) -> Path {
    let Some(top) = path.first() else { return Path::new() };
    let holds_sections = match document.get(top.as_str()).map(Spanned::get_ref) {
        Some(DeValue::Table(table)) => {
            path.get(1).and_then(|name| table.get(name.as_str())).is_some_and(|value| value.get_ref().is_table())
        }
        Some(DeValue::Array(items)) => items.iter().any(|item| item.get_ref().is_table()),
        _ => false,
    };
    path[..path.len().min(if holds_sections { 2 } else { 1 })].to_vec()
}

#[cfg(test)]
mod tests {
    use crate::Stack;

    fn lines(text: &str) -> (Vec<usize>, String) {
        let error = Stack::parse_checked("a.toml", text, &|stack| crate::Node::check(stack).map(drop)).unwrap_err();
        (error.all().map(|one| one.line).collect(), error.to_string())
    }

    #[test]
    fn mistakes_of_shape_names_and_blocks_are_told_together() {
        let text = "[node]\nnme = \"x\"\nspin = \"9ms\"\n\n[[interface]]\nname = \"a\"\nbackend = \"memory:a\"\nmtu = \"big\"\n\n\
                    [[address]]\ninterface = \"nope\"\naddress = \"10.0.0.1/8\"\n\n[block.tcp]\nmss = 5\nconjestion = \"bbr\"\n\n[block.wan]\nkind = \"deley\"\n\n\
                    [graph]\ninsert = [\"wan ether:lower interfaces:upper\"]\nedges = [\"udp\"]\n";
        let (found, shown) = lines(text);
        assert_eq!(found, [2, 3, 8, 11, 16, 18, 23], "{shown}");
        assert!(shown.starts_with("a.toml:2: unknown field `nme`") && shown.contains("\n\na.toml:3: "), "{shown}");
    }

    #[test]
    fn what_only_comes_of_a_mistake_is_not_told() {
        for (text, line) in [
            // A block without its kind is none to insert.
            ("[block.wan]\nknd = \"delay\"\n[graph]\ninsert = [\"wan ether:lower interfaces:upper\"]\n", 1),
            // An interface that cannot be read has no name for others.
            ("[[interface]]\nname = \"a\"\n[[address]]\ninterface = \"a\"\naddress = \"10.0.0.1/8\"\n", 1),
            // A block that is in no edge, because the edge is wrong.
            ("[block.wan]\nkind = \"delay\"\n[graph]\ninsert = [\"wan ether:lowr interfaces:upper\"]\n", 4),
            ("[block.wan]\nkind = \"delay\"\n[graph]\ninsert = [\"wan ether:lower\"]\n", 4),
            // A kind that a file would have brought.
            ("[block.own]\nkind = \"own\"\n[graph]\nload = [\"none.wasm\"]\n", 4),
        ] {
            let (found, shown) = lines(text);
            assert_eq!(found, [line], "{shown}");
        }
    }

    #[test]
    fn lines_that_are_no_toml_are_told_together() {
        let (found, shown) = lines("[node\nname = \"a\"\n[graph]\nedges = [\"a -> b\"\nx y\n");
        assert!(found.len() > 1 && found.is_sorted_by(|one, next| one < next), "{shown}");
    }

    #[test]
    fn only_so_many_are_shown() {
        let many = |count: usize| (0..count).map(|number| format!("[block.b{number}]\nkind = \"none\"\n")).collect::<String>();
        let (found, shown) = lines(&many(12));
        assert!(found.len() == 10 && shown.ends_with("\n\nand 2 more"), "{shown}");
        assert!(lines(&many(60)).1.ends_with("\n\nand 30 more or still more"));
    }
}
