//! How an answer gets back to its thread, and who is told of the call.

use super::caller::{Caller, Posted};
use super::ids::ThreadId;
use super::outside::{Called, Outside, Record};
use super::strace;
use super::tree::Tree;
use std::sync::atomic::Ordering::Relaxed;
use weft_core::Instant;
use weft_loader::abi;

impl Tree {
    /// Puts a result into a thread's channel.
    pub(super) fn answer(&mut self, thread: ThreadId, result: i64) {
        let channel = self.arena.channel(thread);
        channel.answer.store(abi::RETURN, Relaxed);
        channel.result.store(result, Relaxed);
        channel.writes.store(0, Relaxed);
    }

    /// Records a call of a program. The loader's own questions are none.
    pub(super) fn tell(&mut self, thread: ThreadId, posted: &Posted, result: i64, output: &[u8], outside: &mut dyn Outside) {
        let (number, arguments, result) = match posted.number {
            abi::POLL => (libc::SYS_poll as u32, [posted.arguments[0], 0, 0], result),
            number if number >= abi::HELLO => return,
            number => (number as u32, [posted.arguments[0], posted.arguments[1], posted.arguments[2]], result),
        };
        self.report(outside);
        let one = self.tasks.threads.get(&thread);
        let (program, process) =
            one.and_then(|one| self.tasks.processes.get(&one.process)).map_or((0, 0), |process| (process.program, process.pid));
        let thread = one.map_or(0, |one| one.tid);
        outside.record(&Record { at: self.clock, program, process, thread, number, arguments, result, output });
    }

    /// Tells a call as text, where that is wanted: one that has returned, or one that never will.
    pub(super) fn called(&self, thread: ThreadId, number: u64, words: [u64; 5], result: Option<i64>, outside: &mut dyn Outside) {
        let Some(one) = self.tasks.threads.get(&thread) else { return };
        let Some(process) = self.tasks.processes.get(&one.process) else { return };
        let caller = Caller::new(self.arena.channel(thread), process.outer);
        let text = strace::describe(&caller, number as i64, words, result);
        let at = self.own_time();
        outside.called(&Called { at, program: process.program, process: process.pid, thread: one.tid, text: &text });
    }

    /// What was answered in a program happened at its own time, which may be later than the node's.
    fn own_time(&self) -> Instant {
        self.clock.max(Instant::from_nanos(self.arena.header().now.load(Relaxed)))
    }

    /// A thread has written to standard output or error, maybe.
    pub(super) fn wrote(&self, thread: ThreadId, outside: &mut dyn Outside) {
        if let Some(process) = self.tasks.threads.get(&thread).and_then(|one| self.tasks.processes.get(&one.process)) {
            outside.wrote(process.program, self.own_time());
        }
    }
}
