//! One subflow carries everything; the next takes its place when it is gone, or its tcp waits in vain. The first that was opened is the first.

use super::interface::{Asked, Choice, Memory, Scheduler};

/// It.
#[derive(Debug)]
pub struct Backup;

impl Scheduler for Backup {
    fn choose(&self, asked: &Asked<'_>, _memory: &mut Memory) -> Option<Choice> {
        let (index, path) = asked.usable().min_by_key(|(index, _)| *index)?;
        if path.credit_bytes == 0 { None } else { asked.give(*index, path.credit_bytes) }
    }
    fn lends(&self) -> bool {
        false
    }
}
