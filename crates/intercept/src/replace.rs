//! Executing something else in a program's place: the loader, which then runs the program.

use crate::sys::Errno;

/// What a new process executes instead of its program.
///
/// # Safety
/// [`Replace::execute`] runs between fork and exec: it has to be async-signal-safe, and may allocate nothing.
pub unsafe trait Replace: std::fmt::Debug + Send {
    /// Executes it, for a program with these arguments and this environment. Returns only when that fails.
    ///
    /// # Safety
    /// In a new process before it executes; `arguments` and `environment` end in null.
    unsafe fn execute(&self, arguments: *const *const libc::c_char, environment: *const *const libc::c_char) -> Errno;
}
