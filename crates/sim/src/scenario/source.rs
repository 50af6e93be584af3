//! The text of a scenario, for values in it and for messages about places in it.

use super::names::matches;
use crate::limits::{NAME_BYTES_MAX, NAMES_TOLD, RATE_MAX};
use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use weft_core::parameter::{parse_duration, parse_rate};
use weft_node::Spanned;
use weft_node::StackError;
use weft_plugin::Files;

/// What a scenario needs of the world outside: files that it names.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// A file's text, for messages about places in it.
pub(super) struct Source<'a> {
    pub file: &'a str,
    /// Where what it names lies.
    pub folder: &'a Path,
    pub text: &'a str,
    /// What the command line says over it.
    pub sets: &'a [String],
    /// Reads the files that it names.
    pub read: ReadFile<'a>,
    /// Reads blocks beside it, each file once: the nodes and all events of a world see the same.
    pub loader: Arc<Files>,
    /// [`super::Scenario::remarks`]
    pub remarks: RefCell<Vec<String>>,
}

impl Source<'_> {
    /// A path that the file names: what is not absolute lies in its folder.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A file with text in it.
    pub fn read_text(&self, name: &str) -> Result<String, String> {
        String::from_utf8((self.read)(name)?).map_err(|_| "it is no text (UTF-8)".to_owned())
    }

    pub fn error(&self, span: Range<usize>, what: impl AsRef<str>, help: impl AsRef<str>) -> StackError {
        // What was set on the command line stands behind the text.
        if let Some(number) = span.start.checked_sub(self.text.len() + 1) {
            let assignment = self.sets.get(number).map_or("--set".to_owned(), |assignment| format!("--set {assignment}"));
            return of_assignment(&assignment, what.as_ref(), help.as_ref()).at(span);
        }
        weft_node::locate(self.file, self.text, span, what.as_ref(), help.as_ref())
    }

    /// Something that is no error, but probably meant otherwise.
    pub fn remark(&self, span: Range<usize>, what: &str, help: &str) {
        let StackError { file, line, .. } = self.error(span, what, help);
        let place = if line == 0 { file } else { format!("{file}:{line}") };
        self.remarks.borrow_mut().push(format!("{place}: {what}: {help}"));
    }

    pub fn duration(&self, value: &Spanned<String>) -> Result<Duration, StackError> {
        parse_duration(value.get_ref())
            .map_err(|why| self.error(value.span(), why, "write it as \"20ms\", \"1.5s\", \"250us\" or \"30ns\""))
    }

    pub fn rate(&self, value: &Spanned<String>) -> Result<u64, StackError> {
        match parse_rate(value.get_ref()) {
            Ok(0) => Err(self.error(value.span(), "a rate of zero sends nothing, ever", "to cut a wire use an event: down = \"WIRE\"")),
            Ok(rate) if rate > RATE_MAX => {
                Err(self.error(value.span(), format!("no wire has a rate of {}", value.get_ref()), "use a rate from 1bit to 1000tbit"))
            }
            Ok(rate) => Ok(rate),
            Err(why) => Err(self.error(value.span(), why, "write it as \"100mbit\", \"1gbit\" or \"64kbit\"")),
        }
    }

    /// A size in bytes: "512MiB", "64KiB", "1GiB".
    pub fn bytes(&self, value: &Spanned<String>, range: std::ops::RangeInclusive<u64>) -> Result<u64, StackError> {
        let text = value.get_ref();
        let unit = [("KiB", 10), ("MiB", 20), ("GiB", 30)].into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
        let Some((number, shift)) = unit.and_then(|(number, shift)| Some((number.trim().parse::<u64>().ok()?, shift))) else {
            return Err(self.error(value.span(), format!("'{text}' is no size"), "write it as \"512MiB\", \"64KiB\" or \"1GiB\""));
        };
        let bytes = number.checked_mul(1 << shift).filter(|bytes| range.contains(bytes));
        bytes.ok_or_else(|| {
            let help = format!("give {} MiB to {} GiB", range.start() >> 20, range.end() >> 30);
            self.error(value.span(), format!("{text} is too little or too much"), help)
        })
    }

    pub fn probability(&self, value: &Spanned<f64>) -> Result<f64, StackError> {
        let number = *value.get_ref();
        match (0.0..=1.0).contains(&number) {
            true => Ok(number),
            false => {
                Err(self.error(value.span(), format!("{number} is no probability"), "use a number from 0 to 1: 0.01 is one in a hundred"))
            }
        }
    }

    /// What a program or a wire is called: results have it as the name of a folder.
    pub fn check_name(&self, name: &Spanned<String>, what: &str) -> Result<(), StackError> {
        let text = name.get_ref();
        let fits = (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.contains(|c: char| c.is_control() || "/\\\"".contains(c));
        if fits && !matches!(text.as_str(), "." | "..") {
            return Ok(());
        }
        let help = format!("use up to {NAME_BYTES_MAX} bytes without '/', '\\', quotes and control characters");
        Err(self.error(name.span(), format!("'{}' is no name of a {what}", text.escape_debug()), help))
    }

    /// The place of a name in a list, or what there is.
    pub fn find<'n>(&self, name: &Spanned<String>, what: &str, known: impl Iterator<Item = &'n str>) -> Result<usize, StackError> {
        let mut all = Vec::new();
        for (index, candidate) in known.enumerate() {
            if candidate == name.get_ref() {
                return Ok(index);
            }
            all.push(candidate);
        }
        let near = weft_core::nearest::hint(name.get_ref(), &all.join(", "));
        if all.len() > NAMES_TOLD {
            all.truncate(NAMES_TOLD);
            all.push("…");
        }
        let known = if all.is_empty() {
            format!("the scenario has no {what}{}", if what.ends_with('s') { "" } else { "s" })
        } else {
            format!("{near}the scenario has: {}", all.join(", "))
        };
        Err(self.error(name.span(), format!("there is no {what} '{}'", name.get_ref()), known))
    }

    /// Which of the known names a name is; those that it is a pattern for, of which there is at least one.
    pub fn find_all<'n, K>(&self, name: &Spanned<String>, what: &str, known: K) -> Result<Vec<usize>, StackError>
    where
        K: Iterator<Item = &'n str> + Clone,
    {
        let is_meant = |(_, candidate): &(usize, &str)| name.get_ref().contains('*') && matches(name.get_ref(), candidate);
        let all: Vec<usize> = known.clone().enumerate().filter(is_meant).map(|(index, _)| index).collect();
        if all.is_empty() { self.find(name, what, known).map(|index| vec![index]) } else { Ok(all) }
    }
}

/// An error about the command line.
pub(super) fn of_assignment(assignment: &str, what: &str, help: &str) -> StackError {
    let mut error = weft_node::locate(assignment, "", 0..0, what, help);
    error.line = 0;
    error
}
