//! Waits with a time limit (SO_RCVTIMEO, SO_SNDTIMEO) that a signal ends: Linux does not make such a call again, whatever its handler asks for.
//!
//! sock_intr_errno: "Alas, with timeout socket operations are not restartable." The kernel knows nothing of the limit of a trapped call: with SA_RESTART
//! it makes the call again when the handler returns, and here it is refused with EINTR. The call that comes may be another one, though, which looks the
//! same: the program's next, after it saw EINTR, or one of the handler's own. What tells them apart is the frame that the handler had. It lies below
//! the stack's end until the thread uses that memory again, and nothing runs between a handler's return and the call that is made again.
//!
//! Not seen so, and begun anew with the whole limit: a call whose handler ran on a stack of its own (sigaltstack), as nobody tells from outside where
//! that lies; and one that goes on after its process was stopped, as no handler ran.

use crate::call::Call;
use crate::sys::{self, Errno};
use std::collections::HashMap;
use weft_intercept::arch;
use weft_intercept::memory::{LATER, Memory as _};

/// Most waits of one thread: those of handlers that were interrupted in their turn.
const THREAD_MAX: usize = 4;
/// Most threads.
const THREADS_MAX: usize = 4096;
const PAGE_BYTES: u64 = 4096;

/// The waits that have no answer, by thread. Of a thread that makes another call they were ended by a signal.
#[derive(Debug, Default)]
pub(super) struct LimitedWaits(HashMap<u32, Vec<Wait>>);

/// A wait with a limit.
#[derive(Debug)]
struct Wait {
    number: i32,
    arguments: [u64; 6],
    instruction: u64,
    /// The end of its thread's stack.
    stack: u64,
}

impl Wait {
    fn is_of(&self, call: &Call) -> bool {
        (self.number, self.arguments, self.instruction) == (call.number, call.arguments, call.instruction)
    }
}

impl LimitedWaits {
    /// A call begins to wait, with such a limit or without one. `still_waits`: it has not been cancelled, so that its thread is in no other.
    pub fn begin(&mut self, call: &Call, limited: bool, still_waits: impl Fn() -> bool) {
        if !limited && self.0.is_empty() {
            return;
        }
        let Some(stack) = sys::stack_of(call.tid, still_waits) else { return };
        let waits = self.0.entry(call.tid).or_default();
        waits.retain(|wait| !wait.is_of(call) || wait.stack != stack);
        if limited {
            if waits.len() >= THREAD_MAX {
                waits.remove(0);
            }
            waits.push(Wait { number: call.number, arguments: call.arguments, instruction: call.instruction, stack });
        }
        if waits.is_empty() {
            self.0.remove(&call.tid);
        }
        // Beyond the bound the others, whose threads may have ended, are forgotten.
        if self.0.len() > THREADS_MAX {
            self.0.retain(|tid, _| *tid == call.tid);
        }
    }

    /// The call has its answer.
    pub fn answered(&mut self, call: &Call) {
        let Some(waits) = self.0.get_mut(&call.tid) else { return };
        if let Some(at) = waits.iter().rposition(|wait| wait.is_of(call)) {
            waits.remove(at);
        }
        if waits.is_empty() {
            self.0.remove(&call.tid);
        }
    }

    /// Is this one of them, which a handler's return has made again? `still_waits`: it has not been cancelled in its turn.
    ///
    /// # Errors
    /// [`LATER`].
    pub fn comes_again(&self, call: &Call, still_waits: impl Fn() -> bool) -> Result<bool, Errno> {
        let looks_alike = |wait: &&Wait| wait.is_of(call);
        let Some(waits) = self.0.get(&call.tid).filter(|waits| waits.iter().any(|wait| looks_alike(&wait))) else { return Ok(false) };
        let Some(stack) = sys::stack_of(call.tid, still_waits) else { return Ok(false) };
        if !waits.iter().filter(looks_alike).any(|wait| wait.stack == stack) {
            return Ok(false);
        }
        let (from, to) = arch::frame_range(stack);
        let mut words: Vec<u64> = Vec::new();
        let mut end = to;
        // From the stack's end down, page by page: how much of it there is the program's to know.
        while end > from {
            let start = from.max((end - 1) & !(PAGE_BYTES - 1));
            let mut bytes = vec![0; (end - start) as usize];
            match call.read(start, &mut bytes) {
                Err(LATER) => return Err(LATER),
                Err(_) => break,
                Ok(()) => {}
            }
            let below = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
            words.splice(..0, below);
            if arch::makes_again(&words, call.number as u64, call.arguments, stack, call.instruction) {
                return Ok(true);
            }
            end = start;
        }
        Ok(false)
    }

    /// Shrinks the table to what it holds.
    pub fn give_back_memory(&mut self) {
        self.0.shrink_to_fit();
    }

    /// Nobody is left to make a call again.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
