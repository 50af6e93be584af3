//! By what threads and processes of a node are known here: their places in the arena.

/// A channel's number.
pub(super) type ThreadId = usize;
/// A process slot's number.
pub(super) type ProcessId = usize;
