//! What a scheduler remembers of a connection.

use crate::scheduler::Memory;

/// It, and whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scheduled {
    /// Index in [`crate::scheduler::SCHEDULERS`].
    scheduler: u32,
    memory: Memory,
}
weft_core::fields!(struct Scheduled { scheduler, memory });

impl Scheduled {
    /// The memory of this scheduler: empty, if it is another than before.
    pub(super) fn memory_of(&mut self, scheduler: usize) -> &mut Memory {
        let scheduler = scheduler as u32;
        if self.scheduler != scheduler {
            *self = Scheduled { scheduler, memory: Memory::default() };
        }
        &mut self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_is_one_schedulers() {
        let mut scheduled = Scheduled::default();
        scheduled.memory_of(2).0[3] = 7;
        assert_eq!(scheduled.memory_of(2).0[3], 7);
        assert_eq!(*scheduled.memory_of(1), Memory::default());
        assert_eq!(*scheduled.memory_of(2), Memory::default());
    }
}
