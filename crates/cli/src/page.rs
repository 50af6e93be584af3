//! Texts about files, for terminals of any width and for manual pages: prose, and TOML with remarks.
//!
//! A text is written once, in lines of any length. What is wrapped here is still the same: TOML stays TOML.

use std::borrow::Cow;

/// Below this many columns beside the code, a remark goes below it.
const REMARK_COLUMNS_MIN: usize = 40;
/// How far remarks below the code are moved in.
const BELOW: &str = "#   ";

/// A part of a text.
#[derive(PartialEq, Eq, Debug)]
pub enum Part<'a> {
    /// A paragraph.
    Prose(Cow<'a, str>),
    /// Lines of a file, to be shown as they are.
    Lines(Vec<&'a str>),
}

/// The parts of a text, which blank lines separate.
pub fn parts(text: &str) -> Vec<Part<'_>> {
    let blocks = text.split("\n\n").map(|block| block.trim_matches('\n')).filter(|block| !block.is_empty());
    blocks.map(|block| if is_toml(block) { Part::Lines(block.lines().collect()) } else { Part::Prose(joined(block)) }).collect()
}

/// One line, however many they were.
fn joined(block: &str) -> Cow<'_, str> {
    if block.contains('\n') { block.lines().map(str::trim).collect::<Vec<_>>().join(" ").into() } else { block.into() }
}

/// Does it begin as TOML does?
fn is_toml(block: &str) -> bool {
    let first = block.lines().next().unwrap_or_default();
    let key = first.split_once(" = ").is_some_and(|(key, _)| !key.contains(char::is_whitespace));
    first.starts_with('[') || first.starts_with('#') || key
}

/// The text with no line that is longer than `columns`, as far as words can be parted.
pub fn fitted(text: &str, columns: usize) -> String {
    let part = |part: Part<'_>| match part {
        Part::Prose(prose) => textwrap::fill(&prose, columns),
        Part::Lines(lines) => lines.into_iter().flat_map(|line| fitted_line(line, columns)).collect::<Vec<_>>().join("\n"),
    };
    parts(text).into_iter().map(part).collect::<Vec<_>>().join("\n\n")
}

/// A line of TOML as several: what its remark says goes on in remarks.
pub fn fitted_line(line: &str, columns: usize) -> Vec<String> {
    let Some(at) = remark(line).filter(|_| line.chars().count() > columns) else { return vec![line.to_owned()] };
    let (code, remark) = line.split_at(at);
    let text = remark.trim_start_matches('#');
    let words = text.trim_start();
    let indent = format!("#{}", &text[..text.len() - words.len()]);
    let column = code.chars().count();
    if column + REMARK_COLUMNS_MIN <= columns {
        let next = format!("{}{indent}", " ".repeat(column));
        let options = textwrap::Options::new(columns).initial_indent(&next).subsequent_indent(&next);
        let mut lines = textwrap::wrap(words, options).into_iter().map(Cow::into_owned).collect::<Vec<_>>();
        // Code is no text to be wrapped: it takes the place of the first line's blanks.
        if let Some(first) = lines.first_mut() {
            first.replace_range(..column, code);
        }
        return lines;
    }
    let below = if indent.len() > 1 && code.trim().is_empty() { indent.as_str() } else { BELOW };
    let options = textwrap::Options::new(columns).initial_indent(below).subsequent_indent(below);
    let code = Some(code.trim_end().to_owned()).filter(|code| !code.is_empty());
    code.into_iter().chain(textwrap::wrap(words, options).into_iter().map(Cow::into_owned)).collect()
}

/// Where the remark of a line begins: the first # that stands in no text.
fn remark(line: &str) -> Option<usize> {
    let mut quote = None;
    line.char_indices().find_map(|(at, c)| match (quote, c) {
        (None, '#') => Some(at),
        (None, '"' | '\'') => {
            quote = Some(c);
            None
        }
        (Some(open), c) => {
            quote = Some(open).filter(|_| open != c);
            None
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "A file says\nwhat is.\n\nkey = \"#1\"     # a remark that is much too long to stand in forty columns\n[table]\n\
                        a = [\"as\", \"long\", \"as\", \"a\", \"line\", \"can\", \"be\"]   # more\n#   and still more of it, which goes on\n\n`weft` does it.";

    #[test]
    fn remarks_go_on_beside_the_code_or_below_it() {
        let wide = fitted(TEXT, 60);
        assert_eq!(
            wide,
            "A file says what is.\n\n\
             key = \"#1\"     # a remark that is much too long to stand in\n               # forty columns\n[table]\n\
             a = [\"as\", \"long\", \"as\", \"a\", \"line\", \"can\", \"be\"]   # more\n#   and still more of it, which goes on\n\n`weft` does it."
        );
        assert_eq!(fitted_line("key = \"#1\"     # a remark that is too long", 30), ["key = \"#1\"", "#   a remark that is too long"]);
        assert_eq!(fitted_line("#   and still more of it, which goes on", 30), ["#   and still more of it,", "#   which goes on"]);
        assert_eq!(fitted_line("no_remark = \"however long it may be\"", 10), ["no_remark = \"however long it may be\""]);
        assert_eq!(fitted(TEXT, 200).lines().count(), TEXT.lines().count() - 1, "only prose is joined");
    }

    #[test]
    fn wrapped_examples_say_what_they_said() {
        for text in [weft_sim::scenario::HELP, weft_node::STACK_HELP, crate::command::root::HELP] {
            for columns in [30, 60, 72, 100, 1000] {
                let fitted = fitted(text, columns);
                for (before, after) in parts(text).iter().zip(parts(&fitted)) {
                    let (Part::Lines(before), Part::Lines(after)) = (before, after) else { continue };
                    let read = |lines: &[&str]| toml::from_str::<toml::Table>(&lines.join("\n")).map_err(|error| error.to_string());
                    assert_eq!(read(before).is_ok(), read(&after).is_ok(), "{columns}: {after:#?}");
                    assert_eq!(read(before).ok(), read(&after).ok());
                    // Only a line of code may be longer.
                    let long = after
                        .iter()
                        .find(|line| line.chars().count() > columns && line.trim_start().starts_with('#') && line.contains(' '));
                    assert!(
                        long.is_none_or(|line| line.trim_start_matches(['#', ' ']).split(' ').any(|word| word.len() + 5 > columns)),
                        "{long:?}"
                    );
                }
            }
        }
    }
}
