//! What is wrong with a file that a person wrote: where, what, and what to do.

use std::fmt;
use std::ops::Range;

/// What is wrong with a stack file or scenario, where, and what to do; and what else is wrong with it.
#[derive(Clone, Debug, Default, thiserror::Error)]
pub struct StackError {
    /// The file.
    pub file: String,
    /// Line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub help: String,
    snippet: String,
    is_of_shape: bool,
    among: Box<Among>,
}

/// Where it is in its document, and what else is wrong there. Apart, so that a result that may be an error stays small.
#[derive(Clone, Debug, Default)]
struct Among {
    place: Option<Range<usize>>,
    others: Vec<StackError>,
    left_out: usize,
    is_cut: bool,
}

impl StackError {
    /// One that stands nowhere in a file.
    pub fn nowhere(file: &str, what: &str, help: &str) -> StackError {
        StackError { file: file.to_owned(), what: what.to_owned(), help: help.to_owned(), ..StackError::default() }
    }

    /// Where in its document it is, in bytes; none: nowhere, or everywhere.
    pub fn place(&self) -> Option<Range<usize>> {
        self.among.place.clone()
    }

    /// The same, at this place of the document.
    #[must_use]
    pub fn at(mut self, place: Range<usize>) -> StackError {
        let others = std::mem::take(&mut self.among.others);
        self.among.others = others.into_iter().map(|other| other.at(place.clone())).collect();
        self.among.place = Some(place).filter(|place| *place != (0..0));
        self
    }

    /// Is a key unknown or missing, or a value of the wrong type? Then nothing else of the file matters.
    pub fn is_of_shape(&self) -> bool {
        self.is_of_shape
    }

    /// The same, of the file's shape.
    #[must_use]
    pub fn of_shape(self) -> StackError {
        StackError { is_of_shape: true, ..self }
    }

    /// The same, with others of the same file, and how many more there are than those; `is_cut`: at least.
    #[must_use]
    pub(crate) fn with(mut self, others: Vec<StackError>, left_out: usize, is_cut: bool) -> StackError {
        (self.among.others, self.among.left_out, self.among.is_cut) = (others, left_out, is_cut);
        self
    }

    /// It and the others, each alone.
    pub(crate) fn apart(mut self) -> Vec<StackError> {
        let others = std::mem::take(&mut self.among.others);
        std::iter::once(self).chain(others).collect()
    }

    /// It, and the others, in the order of the file.
    pub fn all(&self) -> impl Iterator<Item = &StackError> {
        std::iter::once(self).chain(&self.among.others)
    }

    /// How many there are besides [`StackError::all`].
    pub fn left_out(&self) -> usize {
        self.among.left_out
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what)?,
            line => write!(f, "{}:{line}: {}", self.file, self.what)?,
        }
        if !self.snippet.is_empty() {
            write!(f, "\n{}", self.snippet)?;
        }
        if !self.help.is_empty() {
            write!(f, "\nhelp: {}", self.help)?;
        }
        Ok(())
    }
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f)?;
        for other in &self.among.others {
            f.write_str("\n\n")?;
            other.show(f)?;
        }
        match (self.among.left_out, self.among.is_cut) {
            (0, _) => Ok(()),
            (left_out, false) => write!(f, "\n\nand {left_out} more"),
            (left_out, true) => write!(f, "\n\nand {left_out} more or still more"),
        }
    }
}

/// An error at a place of a file: with line, and the line itself. For every kind of file that is TOML.
pub fn locate(file: &str, text: &str, span: Range<usize>, what: &str, help: &str) -> StackError {
    use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
    let start = span.start.min(text.len());
    let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
    // A table's span may cover many lines; the first one says enough.
    let end_of_line = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let end = span.end.clamp(start, end_of_line);
    let rendered = if text.is_empty() {
        String::new()
    } else {
        let snippet = Snippet::source(text).path(file).annotation(AnnotationKind::Primary.span(start..end));
        Renderer::plain().render(&[Level::ERROR.primary_title(what).element(snippet)])
    };
    // The title repeats what stands above it.
    let snippet = rendered.lines().skip(1).collect::<Vec<_>>().join("\n");
    StackError { line, snippet, ..StackError::nowhere(file, what, help) }.at(span)
}
