//! What a program is called.

use crate::abi;
use crate::block::Thread;
use crate::calls::number as nr;
use crate::sys;

/// What the program was called by: behind the target in the process's slot.
pub fn file_name(t: &Thread, into: &mut [u8]) -> usize {
    let mut both = [0_u8; abi::PATH_BYTES];
    t.process.target.get(0, &mut both);
    let first = both.iter().position(|byte| *byte == 0).unwrap_or(0);
    let rest = &both[(first + 1).min(both.len())..];
    let length = rest.iter().position(|byte| *byte == 0).unwrap_or(0).min(into.len());
    into[..length].copy_from_slice(&rest[..length]);
    length
}

/// The thread is called by the last part of its program's name, as exec does it.
pub fn name_thread(t: &Thread) {
    let mut name = [0_u8; abi::PATH_BYTES];
    let length = file_name(t, &mut name[..abi::PATH_BYTES - 1]);
    let from = name[..length].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    name[length] = 0;
    // PR_SET_NAME
    sys::call(nr::PRCTL, &[15, name.as_ptr() as usize + from]);
}
