//! What can stand before the `=` of `--set`: names that the scenario has, and keys that it may have.

use serde_json::Value;
use toml::Table;

/// The paths that begin as this one does, up to its next dot. What is a value, and no table, is followed by `=`.
pub fn paths(document: &Table, word: &str) -> Vec<String> {
    if word.contains('=') {
        return Vec::new();
    }
    let (before, _) = word.rsplit_once('.').unwrap_or(("", ""));
    let schema = weft_sim::scenario::schema();
    let mut place = Place { schema: &schema, whole: &schema, value: Some(toml::Value::Table(document.clone())) };
    for key in before.split('.').filter(|key| !key.is_empty()) {
        let Some(next) = place.enter(key) else { return Vec::new() };
        place = next;
    }
    let prefix = if before.is_empty() { String::new() } else { format!("{before}.") };
    place.keys().into_iter().map(|(key, is_table)| format!("{prefix}{key}{}", if is_table { "." } else { "=" })).collect()
}

/// Somewhere in a scenario.
struct Place<'a> {
    whole: &'a Value,
    schema: &'a Value,
    value: Option<toml::Value>,
}

impl<'a> Place<'a> {
    fn enter(&self, key: &str) -> Option<Place<'a>> {
        let number = || key.parse::<usize>().ok()?.checked_sub(1);
        let value = match &self.value {
            Some(toml::Value::Table(table)) => table.get(key).cloned(),
            Some(toml::Value::Array(items)) => items.get(number()?).cloned(),
            _ => None,
        };
        let below = [&self.schema["properties"][key], &self.schema["additionalProperties"], &self.schema["items"]];
        let schema = below.into_iter().find(|schema| schema.is_object())?;
        Some(Place { whole: self.whole, schema: resolved(self.whole, schema), value })
    }

    /// The keys that can stand here, and whether there are others below them.
    fn keys(&self) -> Vec<(String, bool)> {
        let mut keys: Vec<(String, bool)> = match &self.value {
            Some(toml::Value::Array(items)) => (1..=items.len()).map(|number| (number.to_string(), true)).collect(),
            // Names are the scenario's: others cannot be set.
            Some(toml::Value::Table(table)) if self.schema["properties"].is_null() => {
                table.iter().map(|(key, value)| (key.clone(), value.is_table() || value.is_array())).collect()
            }
            _ => Vec::new(),
        };
        for (key, schema) in self.schema["properties"].as_object().into_iter().flatten() {
            let schema = resolved(self.whole, schema);
            let is_table = schema["properties"].is_object() || schema["additionalProperties"].is_object();
            let is_list = schema["items"].is_object() && resolved(self.whole, &schema["items"])["properties"].is_object();
            keys.push((key.clone(), is_table || is_list));
        }
        keys
    }
}

fn resolved<'a>(whole: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        Some(name) => &whole["$defs"][name],
        None => schema,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_scenarios_and_keys_those_of_the_schema() {
        let document: Table = "[nodes.alice]\n[wires.ab]\nbetween = [\"a\", \"b\"]\n[[events]]\nat = \"1s\"\n".parse().unwrap();
        let offered = |word: &str| paths(&document, word).into_iter().filter(|path| path.starts_with(word)).collect::<Vec<_>>().join(" ");
        assert_eq!(offered("du"), "duration=");
        assert_eq!((offered("wir"), offered("wires.")), ("wires.".to_owned(), "wires.ab.".to_owned()));
        assert_eq!(offered("wires.ab.loss"), "wires.ab.loss=");
        assert_eq!(offered("wires.ab.back.del"), "wires.ab.back.delay=");
        assert_eq!((offered("nodes.a"), offered("nodes.*.mp")), ("nodes.alice.".to_owned(), "nodes.*.mptcp=".to_owned()));
        assert_eq!((offered("events."), offered("events.1.a")), ("events.1.".to_owned(), "events.1.at= events.1.arguments=".to_owned()));
        assert_eq!((offered("nothing.x"), offered("seed=")), (String::new(), String::new()));
    }
}
