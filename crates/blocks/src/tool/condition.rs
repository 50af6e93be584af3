//! What `filter` and `classify` ask about a frame, and the groups of interfaces that it may be about.

use crate::facts::FactsCache;
use weft_core::bpf::Program;
use weft_core::expression::{Expression, Framing};
use weft_core::{Context, Frame, Row, Table};

/// A question about a frame.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    /// In words.
    Expression(Expression),
    /// Classic BPF: true unless it returns 0.
    Program(Program),
}

impl Condition {
    /// A text that is a program, or else an expression; none: an empty one.
    pub(crate) fn parse(text: &str, framing: Framing) -> Result<Option<Condition>, String> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        if let Ok(program) = Program::parse(text) {
            return Ok(Some(Condition::Program(program)));
        }
        Expression::parse(text, framing).map(|expression| Some(Condition::Expression(expression))).map_err(|error| error.to_string())
    }

    /// Does the frame meet it?
    #[inline]
    pub(crate) fn accepts(&self, frame: &Frame, groups: &mut Groups, cx: &Context<'_>) -> bool {
        match self {
            Condition::Program(program) => program.run(frame) > 0,
            Condition::Expression(expression) => {
                expression.accepts(frame, &mut |interface| groups.facts.get(interface, cx).map(|facts| facts.group))
            }
        }
    }

    /// The words; of a program none.
    pub(crate) fn expression(&self) -> &str {
        match self {
            Condition::Expression(expression) => expression.text(),
            Condition::Program(_) => "",
        }
    }
}

/// What is remembered of interfaces that a condition asked about. Its user passes on what it hears of tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    facts: FactsCache,
}

impl Groups {
    pub(crate) fn table_changed(&mut self, table: Table, cx: &Context<'_>) {
        if table == Table::Interfaces {
            self.facts.refresh(cx);
        }
    }

    pub(crate) fn row_changed(&mut self, table: Table, row: Row, cx: &Context<'_>) {
        match row {
            Row::Interface(index) if table == Table::Interfaces => {
                self.facts.refresh_one(index, cx);
            }
            _ => self.table_changed(table, cx),
        }
    }
}
