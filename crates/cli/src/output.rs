//! Printing values to people (tables) and to programs (`--json`).
//!
//! What a terminal has no room for is cut or wrapped. What goes elsewhere, into a file or to another program, is whole.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;
use std::io::{IsTerminal as _, Write};
use std::sync::{Mutex, PoisonError};

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

/// Wider lines are not easy to read, however wide the terminal is.
const PROSE_COLUMNS_MAX: usize = 120;

/// `--wide`
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Wide {
    /// Print tables whole, however narrow the terminal is
    #[arg(long)]
    wide: bool,
}

/// How wide the terminal is that standard output is; none: it is no terminal.
fn columns() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0)).filter(|columns| *columns > 0)
}

/// Prose of a line each, and what stands as it is, fitted to the terminal.
pub fn fitted(text: &str) -> String {
    columns().map_or_else(|| text.trim_end().to_owned(), |columns| crate::page::fitted(text, columns.min(PROSE_COLUMNS_MAX)))
}

/// A text behind its name, whose further lines begin below the text.
pub fn hanging(name: &str, text: &str) {
    let Some(columns) = columns() else { return line(&format!("{name}{text}")) };
    let below = " ".repeat(name.chars().count());
    let options = textwrap::Options::new(columns.min(PROSE_COLUMNS_MAX)).initial_indent(name).subsequent_indent(&below);
    textwrap::wrap(text, options).iter().for_each(|one| line(one));
}

/// Does the terminal do what escape sequences ask? A dumb one, an editor's for one, shows them.
fn is_able() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Can lines of standard error be written over?
pub fn is_lively() -> bool {
    std::io::stderr().is_terminal() && is_able()
}

/// Are colours wanted where a terminal reads? Where nothing is said, they are (<https://no-color.org>).
fn are_colours_wanted() -> bool {
    is_able() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Is standard error to be coloured?
pub fn is_coloured() -> bool {
    is_lively() && are_colours_wanted()
}

/// The same for what clap prints. By itself it colours a dumb terminal where CI is set.
pub fn colours() -> clap::ColorChoice {
    if are_colours_wanted() { clap::ColorChoice::Auto } else { clap::ColorChoice::Never }
}

/// A line of standard error in the place of the one before it, as far as there is room.
pub fn progress(text: &str) {
    let columns = terminal_size::terminal_size_of(std::io::stderr()).map_or(usize::MAX, |(width, _)| usize::from(width.0));
    hint!("\r\x1b[K{}", text.chars().take(columns.saturating_sub(1)).collect::<String>());
}

/// Why standard output has not taken everything.
static LOST: Mutex<Option<std::io::Error>> = Mutex::new(None);

/// Prints without failing when the reader has gone (`weft show | head`).
pub fn line(text: &str) {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            LOST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        _ => {}
    }
}

/// Why something that was printed is lost, if it is: the disk is full.
pub fn lost() -> Option<std::io::Error> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// JSON on one line.
pub fn json(value: &Value) {
    line(&value.to_string());
}

/// A list of objects as a table: one column for every key, in the order of their first appearance. What the terminal has no room for is cut.
pub fn table(rows: &[Value], wide: Wide) {
    let width = columns().filter(|_| !wide.wide);
    table_of(rows, width, width.map(|_| 1)).iter().for_each(|row| line(row));
}

/// The same with texts in it, which take several lines where the terminal has no room.
pub fn table_of_texts(rows: &[Value]) {
    table_of(rows, columns(), None).iter().for_each(|row| line(row));
}

/// The lines of a table that is so wide at most, with rows of so many lines at most.
fn table_of(rows: &[Value], width: Option<usize>, lines_max: Option<usize>) -> Vec<String> {
    let mut columns: Vec<&str> = Vec::new();
    for row in rows.iter().filter_map(Value::as_object) {
        for key in row.keys() {
            if !columns.contains(&key.as_str()) {
                columns.push(key);
            }
        }
    }
    if columns.is_empty() {
        return vec!["(nothing)".to_owned()];
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_truncation_indicator("…");
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::try_from(width).unwrap_or(u16::MAX));
    }
    let cells = rows.iter().map(|row| columns.iter().map(|name| text(row.get(name).unwrap_or(&Value::Null))).collect());
    let head: Vec<String> = columns.iter().map(|name| name.to_uppercase()).collect();
    let row = |cells: Vec<String>| {
        let mut row = comfy_table::Row::from(cells);
        if let Some(lines) = lines_max {
            row.max_height(lines);
        }
        row
    };
    table.set_header(row(head));
    table.add_rows(cells.map(row));
    let cut = |line: String| match (width, lines_max) {
        // A table of many columns does not become narrower than these.
        (Some(width), Some(_)) if line.trim_end().chars().count() > width => line.chars().take(width - 1).chain(['…']).collect(),
        _ => line.trim_end().to_owned(),
    };
    table.lines().map(cut).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_is_no_wider_than_its_terminal() {
        let long = "one two three four five six seven eight nine ten";
        let rows = [json!({"name": "tcp", "parameters": long, "frames": 12}), json!({"name": "interfaces", "parameters": "", "frames": 7})];
        let whole = table_of(&rows, None, None);
        assert!(whole[1].contains(long) && whole[0].ends_with("FRAMES"), "{whole:?}");
        for width in [20, 30, 40, 60] {
            let cut = table_of(&rows, Some(width), Some(1));
            assert!(cut.len() == 3 && cut.iter().all(|line| line.chars().count() <= width), "{width}: {cut:?}");
            assert!(cut[1].contains('…') && (width < 30 || cut[1].ends_with("12")), "{width}: {cut:?}");
        }
        assert_eq!(table_of(&rows, Some(200), Some(1)), whole);
        // Many columns.
        let wide = json!((0..30).map(|number| (format!("key{number}"), json!("value"))).collect::<serde_json::Map<_, _>>());
        assert!(table_of(&[wide], Some(40), Some(1)).iter().all(|line| line.chars().count() <= 40));
        // Texts are whole.
        let texts = table_of(&rows, Some(30), None).join(" ");
        assert!(long.split(' ').all(|word| texts.contains(word)), "{texts}");
    }
}
