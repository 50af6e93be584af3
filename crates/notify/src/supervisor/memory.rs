//! The memory of programs whose calls come here, and who may touch it.

use super::state::Supervisor;
use crate::remote::{Remote, Window};
use std::sync::Arc;

/// Windows kept open: two descriptors each.
const WINDOWS_MAX: usize = 256;

impl Supervisor {
    /// The memory of a thread's program.
    pub(super) fn remote(&mut self, tree: usize, tid: u32) -> Remote {
        if self.windows.len() >= WINDOWS_MAX && !self.windows.contains_key(&tid) {
            self.windows.clear();
        }
        let window = self.windows.entry(tid).or_insert_with(|| Arc::new(Window::new(tid)));
        Remote::new(Arc::clone(window), self.by_workers.contains(&tree))
    }

    /// A process of this tree makes a userfaultfd: from now on nobody but workers touches the memory of the tree's processes.
    pub(crate) fn leave_to_workers(&mut self, tree: usize) {
        self.by_workers.insert(tree);
        self.held.calls_of_tree(tree).for_each(|call| call.remote.leave_to_workers());
        self.parked.calls_of_tree(tree).for_each(|call| call.remote.leave_to_workers());
    }
}
