//! Names in a scenario: patterns for them, and the order in which they stand in the file.

use indexmap::IndexMap;
use weft_node::Spanned;

/// Does `pattern` (with `*` for any text) stand for `name`?
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => {
            let Some(rest) = name.strip_prefix(before) else { return false };
            (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(after, &rest[at..]))
        }
    }
}

/// `name1`, `name2` and so on.
pub(super) fn counted(name: &str, count: u32) -> impl Iterator<Item = String> {
    (1..=count).map(move |number| format!("{name}{number}"))
}

/// Named things in the order in which they stand in the file.
pub(super) fn in_order<T>(map: &IndexMap<Spanned<String>, T>) -> Vec<(&Spanned<String>, &T)> {
    let mut all: Vec<_> = map.iter().collect();
    all.sort_by_key(|(name, _)| name.span().start);
    all
}
