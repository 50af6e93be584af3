//! What a scheduler sees, and says.

pub use weft_core::schedule::{Choice, Memory, View};

/// What is to be decided.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Asked<'a> {
    /// The subflows that may send, with their index.
    pub paths: &'a [(usize, View)],
    /// The peer has everything before this distance.
    pub una: u64,
    /// No subflow has had anything from this distance on.
    pub next: u64,
    /// What the program has written ends here.
    pub end: u64,
    /// The program has written all that it may: there is likely more.
    pub more: bool,
    /// The peer takes data up to here.
    pub edge: u64,
    /// Data that was lost with a subflow, from `next` to `end`, looks for another.
    pub again: bool,
}

impl<'a> Asked<'a> {
    /// The subflows to use: those that are no backups, if there are any.
    pub fn usable(&self) -> impl Iterator<Item = &'a (usize, View)> + Clone + use<'a> {
        let backups = self.paths.iter().all(|(_, path)| path.backup);
        self.paths.iter().filter(move |(_, path)| path.backup == backups)
    }

    /// New data for this subflow.
    pub fn give(&self, index: usize, bytes: u64) -> Option<Choice> {
        Some(Choice { index, from: self.next, bytes })
    }
}

/// Chooses. The same for the same question and memory, always.
pub trait Scheduler: Sync {
    /// Which subflow gets the next data; none: wait.
    fn choose(&self, asked: &Asked<'_>, memory: &mut Memory) -> Option<Choice>;
    /// It may give a subflow what others have: it is asked even if nothing is new.
    fn repeats(&self) -> bool {
        false
    }
    /// A subflow that it leaves idle may carry what holds up the others ([NSDI'12](crate::connection)).
    fn lends(&self) -> bool {
        true
    }
}
