//! What the command line says over the file: `--set wires.ab.loss=0.01`.

use super::names::matches;
use super::refine::{Made, is_switch};
use super::source::of_assignment;
use crate::limits::NAMES_TOLD;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};
use weft_node::StackError;

/// Tables whose keys are names that the scenario gives: what is set there must be there.
const NAMED: [&str; 4] = ["nodes", "wires", "templates", "programs"];

/// Tables of a node whose keys have points in them: `nodes.a.parameters.tcp.congestion=bbr` needs no quotes.
const WITH_POINTS: [&str; 4] = ["parameters", "sysctls", "files", "mounts"];

/// Sets everything in the document. What stands at `end + 1 + n` comes from the assignment number `n`.
pub(super) fn all<'t>(document: &mut DeTable<'t>, sets: &'t [String], end: usize) -> Result<(), StackError> {
    for (number, assignment) in sets.iter().enumerate() {
        let at = end + 1 + number;
        let (path, value) = split(assignment)?;
        let value = DeValue::parse(value).map_or(DeValue::String(DeString::Borrowed(value)), Spanned::into_inner);
        let made = Made::of(document);
        Assignment { text: assignment, at, value: moved(value, at), made: &made }.enter(document, "", &path)?;
    }
    Ok(())
}

/// An assignment: the keys of its path, and the text of its value. Keys are TOML's: elsewhere than in [`WITH_POINTS`], those with points in them stand in
/// quotes.
fn split(assignment: &str) -> Result<(Vec<&str>, &str), StackError> {
    keys(assignment).ok_or_else(|| {
        let help = "write it as path=value, for example wires.ab.loss=0.01, or nodes.a.sysctls.net.ipv4.tcp_ecn=1";
        of_assignment("--set", &format!("'{assignment}' is no assignment"), help)
    })
}

fn keys(assignment: &str) -> Option<(Vec<&str>, &str)> {
    let (mut keys, mut left) = (Vec::new(), assignment);
    loop {
        let (key, rest) = match left.chars().next()? {
            quote @ ('"' | '\'') => left[1..].split_once(quote)?,
            _ => left.split_at(left.find(ends_of(&keys))?),
        };
        keys.push(Some(key).filter(|key| !key.is_empty())?);
        match rest.split_at_checked(1)? {
            ("=", value) => return Some((keys, value)),
            (".", more) => left = more,
            _ => return None,
        }
    }
}

/// What ends the next key.
fn ends_of(before: &[&str]) -> &'static [char] {
    let of_node = match before {
        ["nodes", _, table] | ["templates", _, "node", table] => WITH_POINTS.contains(table),
        _ => false,
    };
    if of_node { &['='] } else { &['.', '='] }
}

/// A value whose places are all this one: those within the assignment would lead anywhere in the file.
fn moved(value: DeValue<'_>, at: usize) -> DeValue<'_> {
    let place: Range<usize> = at..at;
    match value {
        DeValue::Array(array) => {
            let items = array.into_iter().map(|item| Spanned::new(place.clone(), moved(item.into_inner(), at)));
            DeValue::Array(items.collect::<DeArray<'_>>())
        }
        DeValue::Table(table) => {
            let rows = table.into_iter().map(|(key, item)| {
                (Spanned::new(place.clone(), key.into_inner()), Spanned::new(place.clone(), moved(item.into_inner(), at)))
            });
            DeValue::Table(rows.collect())
        }
        other => other,
    }
}

/// One `a.b.c=value`. What is no TOML value is text.
struct Assignment<'t, 'm> {
    text: &'t str,
    at: usize,
    value: DeValue<'t>,
    /// What the document makes without naming it.
    made: &'m Made,
}

impl<'t> Assignment<'t, '_> {
    fn wrong(&self, what: String, help: &str) -> Result<(), StackError> {
        Err(of_assignment(&format!("--set {}", self.text), &what, help))
    }

    /// Goes on in a table, which is called `before`. Numbers count the sections of a list from 1: `events.1.at`.
    fn enter(&self, table: &mut DeTable<'t>, before: &str, path: &[&'t str]) -> Result<(), StackError> {
        let (part, rest) = match path {
            [] => return Ok(()),
            [last] => {
                table.remove(*last);
                table.insert(self.place(DeString::Borrowed(last)), self.place(self.value.clone()));
                return Ok(());
            }
            [part, rest @ ..] => (*part, rest),
        };
        if NAMED.contains(&before) {
            if part.contains('*') {
                return self.enter_all(table, before, part, rest);
            }
            if !table.contains_key(part) && self.made.names(before).all(|name| name != part) {
                return self.unknown(table, before, part);
            }
        }
        if !table.contains_key(part) {
            table.insert(self.place(DeString::Borrowed(part)), self.place(DeValue::Table(DeTable::new())));
        }
        match (table.get_mut(part).map(Spanned::get_mut), rest) {
            (Some(DeValue::Table(next)), rest) => self.enter(next, part, rest),
            (Some(DeValue::Array(list)), [number, rest @ ..]) => {
                let count = list.len();
                let index = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                match index.and_then(|index| list.get_mut(index)) {
                    Some(item) if rest.is_empty() => {
                        *item = self.place(self.value.clone());
                        Ok(())
                    }
                    Some(item) => match item.get_mut() {
                        DeValue::Table(next) => self.enter(next, part, rest),
                        _ => self.wrong(format!("'{part}.{number}' is no table"), "`weft help scenario` shows what there is to set"),
                    },
                    None => self.wrong(format!("there is no '{part}.{number}'"), &format!("they are counted from 1 to {count}")),
                }
            }
            _ => self.wrong(format!("'{part}' is no table"), "`weft help scenario` shows what there is to set"),
        }
    }

    /// Goes on in all that a pattern stands for: of nodes those that have a stack.
    fn enter_all(&self, table: &mut DeTable<'t>, before: &str, pattern: &str, rest: &[&'t str]) -> Result<(), StackError> {
        // What is made from a section that is set has it from there.
        let has_it = |name: &&str| self.made.origin(before, name).is_some_and(|section| matches(pattern, section));
        for name in self.made.names(before).filter(|name| matches(pattern, name) && !has_it(name)) {
            if !self.made.is_switch(name) && !table.contains_key(name) {
                table.insert(self.place(DeString::Owned(name.to_owned())), self.place(DeValue::Table(DeTable::new())));
            }
        }
        let mut found = false;
        for (name, section) in table.iter_mut() {
            if !matches(pattern, name.get_ref())
                || section.get_ref().as_table().is_some_and(is_switch)
                || self.made.is_switch(name.get_ref())
            {
                continue;
            }
            let name = name.get_ref().to_string();
            let DeValue::Table(next) = section.get_mut() else { return self.wrong(format!("'{name}' is no table"), "") };
            self.enter(next, &name, rest)?;
            found = true;
        }
        if found { Ok(()) } else { self.unknown(table, before, pattern) }
    }

    fn unknown(&self, table: &DeTable<'t>, before: &str, part: &str) -> Result<(), StackError> {
        let named = table.keys().map(|key| key.get_ref().to_string());
        let mut known: Vec<String> = named.chain(self.made.names(before).map(str::to_owned)).collect();
        let near = weft_core::nearest::hint(part, &known.join(", "));
        known.truncate(NAMES_TOLD);
        let there =
            if known.is_empty() { format!("the scenario has no {before}") } else { format!("{near}there are: {}", known.join(", ")) };
        self.wrong(format!("there is nothing called '{part}' in {before}"), &there)
    }

    fn place<T>(&self, of: T) -> Spanned<T> {
        Spanned::new(self.at..self.at, of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_points_stand_in_quotes() {
        assert_eq!(keys("wires.ab.loss=0.01"), Some((vec!["wires", "ab", "loss"], "0.01")));
        assert_eq!(
            keys("nodes.a.sysctls.\"net.ipv4.tcp_rmem\"=\"1 2\""),
            Some((vec!["nodes", "a", "sysctls", "net.ipv4.tcp_rmem"], "\"1 2\""))
        );
        // Where all keys have points, none needs quotes.
        assert_eq!(keys("nodes.a.parameters.tcp.congestion=bbr"), Some((vec!["nodes", "a", "parameters", "tcp.congestion"], "bbr")));
        assert_eq!(keys("templates.n.node.sysctls.net.x=1"), Some((vec!["templates", "n", "node", "sysctls", "net.x"], "1")));
        assert_eq!(keys("nodes.a.files.\"/x.y\".from=z"), Some((vec!["nodes", "a", "files", "/x.y", "from"], "z")));
        assert_eq!(keys("'a=b'.c=d=e"), Some((vec!["a=b", "c"], "d=e")));
        for wrong in ["", "a", "=1", "a.=1", ".a=1", "a..b=1", "\"a=1", "\"a\"b=1", "\"\"=1", "ä"] {
            assert_eq!(keys(wrong), None, "{wrong}");
        }
    }
}
