//! Posted calls, by number: who answers each.

use super::caller::{Caller, Posted};
use super::ids::ThreadId;
use super::outcome::{Asked, Outcome};
use super::outside::Outside;
use super::pending;
use super::state::Wait;
use super::tree::Tree;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use weft_intercept::sys::Errno;
use weft_loader::abi;
use weft_loader::calls::{self, Call as _};

macro_rules! handlers {
    (
        $($number:literal $constant:ident $name:ident($($argument:ident: $kind:ty),*):
            $by:ident $(($($what:tt)*))? $(-> $method:ident)? $(, strict $strict:ident $(($($strictly:tt)*))?)?
            $(, notify $($notify:ident)::+ $sentence:literal)? $(, note $($note:literal)+)?;)*
    ) => {
        /// The handler that a call's row names; none: its row names none.
        fn by_row(tree: &mut Tree, asked: &Asked<'_>, outside: &mut dyn Outside) -> Option<Result<Outcome, Errno>> {
            let words = calls::words_of(asked.posted.arguments);
            match asked.posted.number {
                $($($number => Some(tree.$method(asked, calls::$name::of(&words), outside)),)?)*
                _ => None,
            }
        }
    };
}

weft_loader::for_each_call!(handlers);

impl Tree {
    /// Tries a posted call: answers it in its channel, or parks the thread.
    pub(super) fn attempt(&mut self, thread: ThreadId, posted: &Posted, outside: &mut dyn Outside) {
        let arena = Arc::clone(&self.arena);
        let channel = arena.channel(thread);
        if self.real.is_some() {
            return self.attempt_real(thread, posted, channel, outside);
        }
        let outer = self.tasks.process_of(thread).ok().and_then(|id| self.tasks.processes.get(&id)).map_or(0, |one| one.outer);
        let caller = Caller::new(channel, outer);
        let outcome = self.dispatch(thread, posted, &caller, outside);
        match outcome {
            Ok(Outcome::Done(result)) => {
                self.answer(thread, result);
                if !matches!(posted.number, abi::POLL) {
                    caller.commit();
                }
                self.note_call(thread, posted, result, &caller, outside);
                self.tell(thread, posted, result, &caller.output(), outside);
            }
            Ok(Outcome::Descriptor { file, word, close_on_exec }) => {
                self.answer_with_descriptor(thread, file, word, close_on_exec);
                // What is written beside it (the address of accept) goes through the program's memory itself.
                caller.flush();
                self.tell(thread, posted, 0, &caller.output(), outside);
            }
            Ok(Outcome::Wait(wait)) => {
                // What is done of several messages.
                caller.flush();
                self.park(thread, wait);
            }
            Ok(Outcome::Prepared | Outcome::Gone) => {}
            Err(errno) => {
                self.answer(thread, -i64::from(errno.0));
                self.note_call(thread, posted, -i64::from(errno.0), &caller, outside);
                self.tell(thread, posted, -i64::from(errno.0), &[], outside);
            }
        }
    }

    pub(super) fn dispatch(
        &mut self,
        thread: ThreadId,
        posted: &Posted,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        if posted.number >= abi::HELLO {
            return self.question(thread, posted, caller, outside);
        }
        match by_row(self, &Asked { thread, posted, caller }, outside) {
            Some(outcome) => outcome,
            None => self.on_descriptor(thread, posted, caller, outside),
        }
    }

    /// A call that has no handler of its own in its row: what its descriptor is decides.
    fn on_descriptor(
        &mut self,
        thread: ThreadId,
        posted: &Posted,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        match posted.number as i64 {
            // Its arguments are the program's side's, not those of a program.
            libc::SYS_epoll_wait => self.epoll_wait(thread, posted, caller, outside),
            libc::SYS_ioctl if !self.objects.has(posted.inode()) => self.interface_ioctl(thread, posted, caller, outside),
            _ => self.socket_call(thread, posted, caller, outside),
        }
    }

    /// pause(2)
    fn pause(&mut self, _: &Asked<'_>, _: calls::Pause, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        Ok(Outcome::Wait(Wait { interrupted: abi::RESTART_NO_HANDLER, ..Wait::default() }))
    }

    /// exit(2)
    fn exit(&mut self, asked: &Asked<'_>, call: calls::Exit, outside: &mut dyn Outside) -> Result<Outcome, Errno> {
        self.ends(asked.thread, asked.posted, outside);
        // Argument 1 is the word that was cleared.
        self.thread_exits(asked.thread, call.error_code.get(), asked.posted.arguments[1]);
        Ok(Outcome::Gone)
    }

    /// exit_group(2)
    fn exit_group(&mut self, asked: &Asked<'_>, call: calls::ExitGroup, outside: &mut dyn Outside) -> Result<Outcome, Errno> {
        self.ends(asked.thread, asked.posted, outside);
        self.process_exits(asked.thread, call.error_code.get());
        Ok(Outcome::Gone)
    }

    /// A call that does not return.
    fn ends(&self, thread: ThreadId, posted: &Posted, outside: &mut dyn Outside) {
        if self.config.tell_calls {
            self.called(thread, posted.number, [posted.arguments[0], 0, 0, 0, 0], None, outside);
        }
    }

    /// How many threads wait at a semaphore: (set, for what), as they said themselves.
    fn semaphore_waiters(&self, posted: &Posted) -> i64 {
        let waits = self.tasks.threads.iter().filter(|(id, thread)| {
            let said = Posted::read(self.arena.channel(**id));
            thread.state.waits()
                && said.number == abi::BLOCKED
                && said.arguments[2] as i64 == libc::SYS_semop
                && said.arguments[4..6] == posted.arguments[..2]
        });
        waits.count() as i64
    }

    /// What the program's side asks for itself.
    fn question(&mut self, thread: ThreadId, posted: &Posted, caller: &Caller<'_>, outside: &mut dyn Outside) -> Result<Outcome, Errno> {
        match posted.number {
            abi::HELLO => self.executed(thread, posted),
            abi::CLONED => self.cloned(thread, posted),
            abi::SIGNALS => {
                if posted.arguments[0] != 0 {
                    self.now_ignored(thread, posted.arguments[0] as i32);
                }
                // What there is goes along with the answer.
                Ok(Outcome::Done(0))
            }
            abi::BLOCKED => {
                if self.tasks.threads.get(&thread).is_some_and(|one| one.held) {
                    return Ok(Outcome::Done(0));
                }
                if abi::waits_at_queue(posted.arguments[2]) {
                    self.arena.header().queue_waits.store(1, Relaxed);
                }
                // Argument 3: until when, 0 for ever.
                let clock = if abi::by_date(posted.arguments[2]) { abi::Clock::Realtime } else { abi::Clock::Monotonic };
                let deadline = (posted.arguments[3] != 0).then(|| self.at_value(clock, posted.arguments[3]));
                Ok(Outcome::Wait(Wait { native: true, deadline, ..Wait::default() }))
            }
            abi::CLOSED => Ok(self.closed(thread, posted.inode(), outside).map_or(Outcome::Done(0), Outcome::Wait)),
            abi::PREEMPTED => Ok(self.rest(thread)),
            abi::WHOSE => Ok(Outcome::Done(self.whose(posted.arguments[0]))),
            abi::FATAL => {
                let channel = self.arena.channel(thread);
                channel.answer.store(abi::DIE, Relaxed);
                channel.result.store(posted.arguments[0] as i64 & 0x7f, Relaxed);
                Ok(Outcome::Prepared)
            }
            abi::TELL | abi::GREW | abi::EXEC_FAILED => Ok(Outcome::Done(0)),
            abi::POLL => self.poll(thread, posted, outside),
            abi::LAYERS => self.lay_layers(),
            abi::SAID => self.open_proc_file(thread, posted, caller, outside),
            abi::UNSUPPORTED => {
                let errno = Errno(posted.arguments[2] as i32);
                let (number, detail) = (posted.arguments[0], posted.arguments[1]);
                let table = if number >> 32 != 0 { "i386 call" } else { "call" };
                let request = format!("{table} {} ({detail:#x})", number as u32);
                tracing::warn!(node = %self.config.name, "a program asked for {request}, which is not supported: {errno:?}");
                self.calls.unsupported(request, errno);
                Ok(Outcome::Done(0))
            }
            abi::EXEC => self.exec(thread),
            abi::RAISED => {
                let number = (posted.arguments[0] & 63) as i32;
                self.signal_thread(thread, number, pending::info_from_kernel(number));
                Ok(Outcome::Done(0))
            }
            abi::HOST_LIMIT => {
                self.host_limit(posted.arguments[0]);
                Ok(Outcome::Done(0))
            }
            abi::WAITERS => Ok(Outcome::Done(self.semaphore_waiters(posted))),
            abi::TERMINAL => self.terminal_signal(thread, posted),
            _ => Err(Errno(libc::ENOSYS)),
        }
    }
}
