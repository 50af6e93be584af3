//! Locks that nobody poisons.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock. A panic is caught where a block runs, before it can pass a lock; and what is behind these locks is whole between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
