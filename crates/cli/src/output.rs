//! Printing values to people (tables) and to programs (`--json`).

use comfy_table::{Table, presets};
use serde_json::Value;
use std::io::Write;

/// A line on standard error, if anybody reads it: eprintln! panics when nobody does.
macro_rules! tell {
    () => { tell!("") };
    ($($words:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr().lock(), format_args!("{}\n", format_args!($($words)*)));
    }};
}

/// As [`tell`], without the end of the line.
macro_rules! hint {
    ($($words:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr().lock(), format_args!($($words)*));
    }};
}

/// Prints without failing when the reader has gone (`weft show | head`).
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// JSON on one line.
pub fn json(value: &Value) {
    line(&value.to_string());
}

/// A list of objects as a table: one column for every key, in the order of their first appearance.
pub fn table(rows: &[Value]) {
    let mut columns: Vec<&str> = Vec::new();
    for row in rows.iter().filter_map(Value::as_object) {
        for key in row.keys() {
            if !columns.contains(&key.as_str()) {
                columns.push(key);
            }
        }
    }
    if columns.is_empty() {
        return line("(nothing)");
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(columns.iter().map(|name| name.to_uppercase()));
    for row in rows {
        table.add_row(columns.iter().map(|name| text(row.get(name).unwrap_or(&Value::Null))));
    }
    for row in table.lines() {
        line(row.trim_end());
    }
}

/// One value as a person reads it.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(map) => map.iter().map(|(key, value)| format!("{key}={}", text(value))).collect::<Vec<_>>().join(" "),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}
