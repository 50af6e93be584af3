//! Order of stream messages where a call leads to another call of the same block before all that it said was delivered.
//!
//! The inline engine works off what a call led to before it goes on with what else the call said. A block between two others, which is called back by what
//! the first of its messages led to, may say more then: that goes behind what it has said already, as a queue would have it.

use super::Work;
use crate::block::BlockId;
use std::collections::{BTreeMap, VecDeque};

/// Messages on their way, by the block that said them.
#[derive(Debug, Default)]
pub(super) struct Behind {
    /// How many there are, by the block's number.
    said: Vec<u32>,
    /// What has to wait until those are delivered.
    late: BTreeMap<BlockId, VecDeque<Work>>,
}

impl Behind {
    /// Is something on its way that the block has said before?
    pub(super) fn waits(&self, block: BlockId) -> bool {
        self.said.get(block.0 as usize).is_some_and(|said| *said > 0)
    }

    /// A message sets out.
    pub(super) fn sets_out(&mut self, block: BlockId) {
        let index = block.0 as usize;
        if self.said.len() <= index {
            self.said.resize(index + 1, 0);
        }
        self.said[index] += 1;
    }

    /// One that waits for the others.
    pub(super) fn add(&mut self, block: BlockId, work: Work) {
        self.late.entry(block).or_default().push_back(work);
    }

    /// A message arrives. What waited for the last one sets out: it comes behind whatever this one leads to, and before what its block says then.
    pub(super) fn arrives(&mut self, block: BlockId, stack: &mut Vec<Work>) {
        let Some(said) = self.said.get_mut(block.0 as usize) else { return };
        *said = said.saturating_sub(1);
        if *said == 0
            && let Some(late) = self.late.remove(&block)
        {
            *said = late.len() as u32;
            stack.extend(late.into_iter().rev());
        }
    }
}
