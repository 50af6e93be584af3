//! Order of stream messages where a call leads to another call of the same block before all that it said was delivered.
//!
//! The inline engine works off what a call led to before it goes on with what else the call said. A block between two others, which is called back by what
//! the first of its messages led to, may say more then: that goes behind what it has said already, as a queue would have it.

use std::collections::{BTreeMap, VecDeque};

/// Messages on their way, by the block that said them.
#[derive(Debug)]
pub(super) struct Behind<W> {
    /// How many there are, by the block's number.
    said: Vec<u32>,
    /// What has to wait until those are delivered.
    late: BTreeMap<u32, VecDeque<W>>,
}

impl<W> Default for Behind<W> {
    fn default() -> Behind<W> {
        Behind { said: Vec::new(), late: BTreeMap::new() }
    }
}

impl<W> Behind<W> {
    /// Is something on its way that the block has said before?
    pub(super) fn waits(&self, block: u32) -> bool {
        self.said.get(block as usize).is_some_and(|said| *said > 0)
    }

    /// A message sets out.
    pub(super) fn sets_out(&mut self, block: u32) {
        let index = block as usize;
        if self.said.len() <= index {
            self.said.resize(index + 1, 0);
        }
        self.said[index] += 1;
    }

    /// One that waits for the others.
    pub(super) fn add(&mut self, block: u32, work: W) {
        self.late.entry(block).or_default().push_back(work);
    }

    /// A message arrives. What waited for the last one sets out: it comes behind whatever this one leads to, and before what its block says then.
    pub(super) fn arrives(&mut self, block: u32, stack: &mut Vec<W>) {
        let Some(said) = self.said.get_mut(block as usize) else { return };
        *said = said.saturating_sub(1);
        if *said == 0
            && let Some(late) = self.late.remove(&block)
        {
            *said = late.len() as u32;
            stack.extend(late.into_iter().rev());
        }
    }
}
