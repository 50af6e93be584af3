//! What the command line says over the file: `--set wires.ab.loss=0.01`.

use crate::limits::NAMES_TOLD;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};
use weft_node::StackError;

/// Tables whose keys are names that the scenario gives: what is set there must be there.
const NAMED: [&str; 4] = ["nodes", "wires", "templates", "programs"];

/// Sets everything in the document. What stands at `end + 1 + n` comes from the assignment number `n`.
pub(super) fn all<'t>(document: &mut DeTable<'t>, sets: &'t [String], end: usize) -> Result<(), StackError> {
    for (number, assignment) in sets.iter().enumerate() {
        let at = end + 1 + number;
        let (path, value) = split(assignment)?;
        let value = DeValue::parse(value).map_or(DeValue::String(DeString::Borrowed(value)), Spanned::into_inner);
        assign(document, assignment, path, moved(value, at), at)?;
    }
    Ok(())
}

/// An assignment: the keys of its path, and the text of its value. Keys are TOML's: those with points in them stand in quotes.
fn split(assignment: &str) -> Result<(Vec<&str>, &str), StackError> {
    keys(assignment).ok_or_else(|| {
        let help = "write it as path=value, for example wires.ab.loss=0.01, or nodes.a.sysctls.\"net.ipv4.tcp_ecn\"=1";
        error("--set", &format!("'{assignment}' is no assignment"), help)
    })
}

fn keys(assignment: &str) -> Option<(Vec<&str>, &str)> {
    let (mut keys, mut left) = (Vec::new(), assignment);
    loop {
        let (key, rest) = match left.chars().next()? {
            quote @ ('"' | '\'') => left[1..].split_once(quote)?,
            _ => left.split_at(left.find(['.', '='])?),
        };
        keys.push(Some(key).filter(|key| !key.is_empty())?);
        match rest.split_at_checked(1)? {
            ("=", value) => return Some((keys, value)),
            (".", more) => left = more,
            _ => return None,
        }
    }
}

/// An error about the command line.
pub(super) fn error(assignment: &str, what: &str, help: &str) -> StackError {
    let mut error = weft_node::locate(assignment, "", 0..0, what, help);
    error.line = 0;
    error
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

/// Sets `a.b.c` to a value. Numbers count the sections of a list from 1: `events.1.at`. What is no TOML value is text.
fn assign<'t>(document: &mut DeTable<'t>, assignment: &str, path: Vec<&'t str>, value: DeValue<'t>, at: usize) -> Result<(), StackError> {
    let wrong = |what: String, help: &str| Err(error(&format!("--set {assignment}"), &what, help));
    let Some((last, parents)) = path.split_last() else { return Ok(()) };
    let mut table = document;
    let mut before = "";
    let mut parts = parents.iter().copied();
    while let Some(part) = parts.next() {
        if NAMED.contains(&before) && !table.contains_key(part) {
            let mut known: Vec<String> = table.keys().map(|key| key.get_ref().to_string()).collect();
            let near = weft_core::nearest::hint(part, &known.join(", "));
            known.truncate(NAMES_TOLD);
            let there =
                if known.is_empty() { format!("the scenario has no {before}") } else { format!("{near}there are: {}", known.join(", ")) };
            return wrong(format!("there is nothing called '{part}' in {before}"), &there);
        }
        if !table.contains_key(part) {
            table.insert(Spanned::new(at..at, DeString::Borrowed(part)), Spanned::new(at..at, DeValue::Table(DeTable::new())));
        }
        before = part;
        table = match table.get_mut(part).map(Spanned::get_mut) {
            Some(DeValue::Table(next)) => next,
            Some(DeValue::Array(list)) => {
                let (count, number) = (list.len(), parts.next().unwrap_or_default());
                let index = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                match index.and_then(|index| list.get_mut(index)).map(Spanned::get_mut) {
                    Some(DeValue::Table(next)) => next,
                    _ => return wrong(format!("there is no '{part}.{number}'"), &format!("they are counted from 1 to {count}")),
                }
            }
            _ => return wrong(format!("'{part}' in '{}' is no table", path.join(".")), "`weft help scenario` shows what there is to set"),
        };
    }
    table.remove(*last);
    table.insert(Spanned::new(at..at, DeString::Borrowed(last)), Spanned::new(at..at, value));
    Ok(())
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
        assert_eq!(keys("'a=b'.c=d=e"), Some((vec!["a=b", "c"], "d=e")));
        for wrong in ["", "a", "=1", "a.=1", ".a=1", "a..b=1", "\"a=1", "\"a\"b=1", "\"\"=1", "ä"] {
            assert_eq!(keys(wrong), None, "{wrong}");
        }
    }
}
