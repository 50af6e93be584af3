//! Signals between processes, virtual from end to end: queued here, delivered by the program's side when its thread goes on.

use super::arena::Arena;
use super::caller::{Caller, Posted};
use super::ids::{ProcessId, ThreadId};
use super::outcome::{Asked, Outcome};
use super::outside::{Outside, Status};
use super::pending::{Info, SI_TIMER, SI_TKILL, SI_USER, TRY_AGAIN, bit, info, info_from_kernel, word};
use super::state::{State, Wait};
use super::tree::Tree;
use std::sync::atomic::Ordering::Relaxed;
use weft_intercept::memory::Memory as _;
use weft_intercept::sys::Errno;
use weft_loader::abi;
use weft_loader::calls;

const STOPPING: [i32; 4] = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
const HARMLESS: [i32; 4] = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];

/// What a signal does to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    Nothing,
    Stops,
    Kills,
    Handled,
}

/// What a program says with its signal, in place of what the kernel would.
fn read_info(caller: &Caller<'_>, at: calls::In<calls::kernel::SigInfo>, signal: calls::Signal, into: &mut Info) -> Result<(), Errno> {
    caller.read(at.0 as u64, into)?;
    into[..4].copy_from_slice(&signal.get().to_ne_bytes());
    Ok(())
}

/// What a signal would do to a process now.
fn effect(arena: &Arena, process: ProcessId, signal: i32) -> Effect {
    let handler = arena.process(process).actions.get(signal as usize).map_or(0, |action| action.handler.load(Relaxed));
    match handler {
        _ if signal == libc::SIGKILL => Effect::Kills,
        _ if signal == libc::SIGSTOP => Effect::Stops,
        1 => Effect::Nothing,
        0 if HARMLESS.contains(&signal) => Effect::Nothing,
        0 if STOPPING.contains(&signal) => Effect::Stops,
        0 => Effect::Kills,
        _ => Effect::Handled,
    }
}

/// The signals that a thread blocks.
fn mask(arena: &Arena, thread: ThreadId) -> u64 {
    arena.channel(thread).mask.load(Relaxed)
}

impl Tree {
    /// Sends a signal to a process: to the first of its threads that does not block it.
    pub(super) fn signal_process(&mut self, process: ProcessId, signal: i32, info: Info) {
        if !self.prepare_signal(process, signal) {
            return;
        }
        let Some(one) = self.tasks.processes.get_mut(&process) else { return };
        if !one.queue.push(signal, info) {
            self.calls.unsupported("signal (queue full)".to_owned(), Errno(libc::EAGAIN));
            return;
        }
        let threads = one.threads.clone();
        self.show_pending(process);
        let open = threads.iter().find(|thread| mask(&self.arena, **thread) & bit(signal) == 0).copied();
        let waits_for_it = threads.iter().find(|thread| self.tasks.waits_for_signal(**thread) & bit(signal) != 0).copied();
        if let Some(thread) = waits_for_it.or(open) {
            self.interrupt_if_signalled(thread);
        }
    }

    /// complete_signal: a signal for the process of the thread that runs is that thread's, unless it blocks it.
    pub(super) fn takes_signal(&self, process: ProcessId, signal: i32, running: ThreadId) -> Option<ThreadId> {
        let its = self.tasks.threads.get(&running).is_some_and(|one| one.process == process);
        (its && mask(&self.arena, running) & bit(signal) == 0).then_some(running)
    }

    /// Sends a signal to a thread.
    pub(super) fn signal_thread(&mut self, thread: ThreadId, signal: i32, info: Info) {
        if self.real.is_some() {
            // Goes with the answer; the thread sends it to itself.
            self.arena.channel(thread).signal.store(signal as u32, Relaxed);
            return;
        }
        let Some(process) = self.tasks.threads.get(&thread).map(|one| one.process) else { return };
        if !self.prepare_signal(process, signal) {
            return;
        }
        if let Some(one) = self.tasks.threads.get_mut(&thread) {
            one.queue.push(signal, info);
        }
        self.show_pending(process);
        self.interrupt_if_signalled(thread);
    }

    /// What a signal does at once, whoever blocks it. False: nothing is left to deliver.
    fn prepare_signal(&mut self, process: ProcessId, signal: i32) -> bool {
        let Some(one) = self.tasks.processes.get_mut(&process).filter(|one| one.status.is_none()) else { return false };
        let threads = one.threads.clone();
        if signal == libc::SIGKILL {
            self.kill(process);
            return false;
        }
        if signal == libc::SIGCONT {
            // prepare_signal: "Remove all stop signals from all queues, wake all threads."
            let stops = STOPPING.iter().fold(0, |bits, signal| bits | bit(*signal));
            self.forget_signals(process, stops);
            self.go_on(process);
        } else if STOPPING.contains(&signal) {
            self.forget_signals(process, bit(libc::SIGCONT));
        }
        let blocked = threads.iter().all(|thread| mask(&self.arena, *thread) & bit(signal) != 0);
        let wanted = threads.iter().any(|thread| self.tasks.waits_for_signal(*thread) & bit(signal) != 0);
        // sig_ignored: "Blocked signals are never ignored".
        blocked || wanted || effect(&self.arena, process, signal) != Effect::Nothing
    }

    fn forget_signals(&mut self, process: ProcessId, unwanted: u64) {
        let Some(one) = self.tasks.processes.get_mut(&process) else { return };
        one.queue.forget(unwanted);
        for thread in one.threads.clone() {
            if let Some(thread) = self.tasks.threads.get_mut(&thread) {
                thread.queue.forget(unwanted);
            }
        }
        self.show_pending(process);
    }

    /// Tells each thread what waits for it.
    pub(super) fn show_pending(&mut self, process: ProcessId) {
        let Some(one) = self.tasks.processes.get(&process) else { return };
        let shared = one.queue.bits();
        for thread in &one.threads {
            let own = self.tasks.threads.get(thread).map_or(0, |thread| thread.queue.bits());
            self.arena.channel(*thread).pending.store(shared | own, Relaxed);
        }
    }

    /// Ends the wait of a thread for which there is a signal.
    pub(super) fn interrupt_if_signalled(&mut self, thread: ThreadId) {
        let pending = self.arena.channel(thread).pending.load(Relaxed);
        let open = pending & !mask(&self.arena, thread);
        let Some(one) = self.tasks.threads.get_mut(&thread) else { return };
        let process = one.process;
        let State::Waiting(wait) = &one.state else { return };
        if wait.signals & pending != 0 {
            // rt_sigtimedwait or signalfd: the call takes it.
            self.signal_waits.push(thread);
            return;
        }
        let interrupted = wait.interrupted;
        // One that is on its way already came before the call.
        let comes = self.real.is_none() && self.arena.channel(thread).signal.load(Relaxed) != 0;
        let of = |is_it: &dyn Fn(Effect) -> bool| {
            (1..=64)
                .filter(|signal| open & bit(*signal) != 0 && is_it(effect(&self.arena, process, *signal)))
                .fold(0, |bits, one| bits | bit(one))
        };
        let (stops, acts) = (of(&|effect| effect == Effect::Stops), of(&|effect| matches!(effect, Effect::Kills | Effect::Handled)));
        let does_something = comes || stops | acts != 0;
        let Some(one) = self.tasks.threads.get(&thread) else { return };
        let State::Waiting(wait) = &one.state else { return };
        if !does_something || wait.uninterruptible {
            return;
        }
        // The kernel's restart_syscall: who is stopped and goes on notices nothing, with the time that was left.
        let goes_on = matches!(interrupted, abi::RESTART | abi::RESTART_ALWAYS | abi::RESTART_NO_HANDLER | TRY_AGAIN);
        if goes_on && acts == 0 && !comes {
            if let Some((signal, _)) = self.take_signal(thread, stops) {
                self.stop(process, signal);
            }
            return;
        }
        if interrupted == TRY_AGAIN {
            self.signal_waits.push(thread);
            return;
        }
        self.answer(thread, interrupted);
        self.make_runnable(thread);
    }

    /// Threads whose calls take a signal, or say what is left of their time.
    pub(super) fn finish_signal_waits(&mut self, outside: &mut dyn super::outside::Outside) {
        for thread in std::mem::take(&mut self.signal_waits) {
            self.attempt_again(thread, outside);
        }
    }

    /// Puts the next signal of a thread that is about to go on into its channel.
    pub(super) fn attach_signal(&mut self, thread: ThreadId) {
        let arena = std::sync::Arc::clone(&self.arena);
        let channel = arena.channel(thread);
        if channel.signal.load(Relaxed) != 0 {
            return;
        }
        loop {
            let open = !mask(&self.arena, thread);
            let Some(one) = self.tasks.threads.get_mut(&thread) else { return };
            let process = one.process;
            let taken = match one.queue.take(open) {
                Some(taken) => Some(taken),
                None => self.tasks.processes.get_mut(&process).and_then(|one| one.queue.take(open)),
            };
            let Some((signal, info)) = taken else { return };
            self.show_pending(process);
            self.timer_delivered(process, &info);
            match effect(&self.arena, process, signal) {
                Effect::Nothing => {}
                Effect::Stops => {
                    self.stop(process, signal);
                    return;
                }
                Effect::Kills => {
                    channel.answer.store(abi::DIE, Relaxed);
                    channel.result.store(i64::from(signal), Relaxed);
                    return;
                }
                Effect::Handled => {
                    channel.info.put(0, &info);
                    channel.signal.store(signal as u32, Relaxed);
                    return;
                }
            }
        }
    }

    /// A fault, or a signal that the program's side delivers by death: the process is about to end itself.
    pub(super) fn died_of_signal(&mut self, thread: ThreadId) {
        let signal = self.arena.channel(thread).result.load(Relaxed) as i32;
        if let Some(process) = self.tasks.threads.get(&thread).map(|one| one.process) {
            self.wait_for_death(process);
            self.ended(process, Status::Killed(signal));
        }
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self, process: ProcessId) {
        self.look_at_locks(process);
        if let Some(pidfd) = self.tasks.processes.get(&process).and_then(|one| one.pidfd.as_ref()) {
            let _ = weft_intercept::sys::pidfd_signal(std::os::fd::AsFd::as_fd(pidfd), libc::SIGKILL);
            self.wait_for_death(process);
        }
        self.ended(process, Status::Killed(libc::SIGKILL));
    }

    fn stop(&mut self, process: ProcessId, signal: i32) {
        let Some(one) = self.tasks.processes.get_mut(&process) else { return };
        one.stopped = Some((signal, false));
        one.continued = false;
        for thread in one.threads.clone() {
            if let Some(one) = self.tasks.threads.get_mut(&thread)
                && !matches!(one.state, State::Stopped(_))
            {
                let state = std::mem::replace(&mut one.state, State::Runnable);
                one.state = State::Stopped(Box::new(state));
                // It has the processor no longer.
                one.rests = None;
            }
            self.tasks.queue.retain(|other| *other != thread);
        }
        const CLD_STOPPED: i32 = 5;
        self.tell_parent(process, CLD_STOPPED, signal);
    }

    fn go_on(&mut self, process: ProcessId) {
        let Some(one) = self.tasks.processes.get_mut(&process) else { return };
        if one.stopped.take().is_none() {
            return;
        }
        one.continued = true;
        for thread in one.threads.clone() {
            let Some(one) = self.tasks.threads.get_mut(&thread) else { continue };
            if let State::Stopped(inner) = &mut one.state {
                one.state = std::mem::replace(inner, State::Runnable);
                if matches!(one.state, State::Runnable) {
                    self.tasks.queue.push_back(thread);
                }
            }
            self.look_after_stop(thread);
        }
        const CLD_CONTINUED: i32 = 6;
        self.tell_parent(process, CLD_CONTINUED, libc::SIGCONT);
    }

    /// A stopped thread goes on: what it waited for may have come meanwhile.
    fn look_after_stop(&mut self, thread: ThreadId) {
        let now = self.clock;
        let Some(one) = self.tasks.threads.get_mut(&thread) else { return };
        let State::Waiting(wait) = &one.state else { return };
        let mut again = one.expired || !wait.sockets.is_empty() || !wait.objects.is_empty() || wait.children || wait.signals != 0;
        if wait.deadline.is_some_and(|deadline| deadline.at <= now) {
            one.expired = true;
            again = true;
        }
        if wait.native {
            // Whatever has happened, those who wait at descriptors of the kernel's look.
            self.activity = self.activity.wrapping_sub(1);
        }
        if again {
            self.signal_waits.push(thread);
        }
        self.interrupt_if_signalled(thread);
    }

    /// A terminal sends a signal to a group, as the kernel would.
    pub(super) fn terminal_signal(&mut self, thread: ThreadId, posted: &Posted) -> Result<Outcome, Errno> {
        let (group, signal, spares_orphans) = (posted.arguments[0] as u32, (posted.arguments[1] & 63) as i32, posted.arguments[2] != 0);
        let sender = self.tasks.process_of(thread)?;
        let members: Vec<ProcessId> = self.tasks.processes.iter().filter(|(_, one)| one.group == group).map(|(id, _)| *id).collect();
        // will_become_orphaned_pgrp: nobody in it has a parent elsewhere in the session.
        let has_keeper = members.iter().filter_map(|id| self.tasks.processes.get(id)).any(|one| {
            let parent = one.parent.and_then(|parent| self.tasks.processes.get(&parent));
            parent.is_some_and(|parent| parent.group != group && parent.session == one.session && parent.status.is_none())
        });
        if spares_orphans && !has_keeper {
            return Ok(Outcome::Done(-1));
        }
        for process in members.iter().filter(|id| **id != sender).chain(members.iter().filter(|id| **id == sender)) {
            // get_signal: "If it's an orphaned process group, then ignore" what only stops.
            let stops = STOPPING.contains(&signal) && effect(&self.arena, *process, signal) == Effect::Stops;
            if has_keeper || !stops {
                self.signal_process(*process, signal, info_from_kernel(signal));
            }
        }
        Ok(Outcome::Done(0))
    }

    /// RLIMIT_CPU, in virtual time: SIGXCPU each second from the soft limit on, SIGKILL at the hard one.
    pub(super) fn limit_cpu(&mut self, process: ProcessId) {
        const SECOND: u64 = 1_000_000_000;
        let arena = std::sync::Arc::clone(&self.arena);
        let [soft, hard] = &arena.process(process).limits[libc::RLIMIT_CPU as usize];
        let [soft_seconds, hard_seconds] = [soft, hard].map(|word| word.load(Relaxed).max(1));
        let Some(used) = self.tasks.processes.get(&process).filter(|one| one.status.is_none()).map(|one| one.cpu / SECOND) else { return };
        if used >= hard_seconds {
            self.kill(process);
        } else if used >= soft_seconds {
            soft.store(soft_seconds + 1, Relaxed);
            self.signal_process(process, libc::SIGXCPU, info_from_kernel(libc::SIGXCPU));
        }
    }

    /// kernel/signal.c, check_kill_permission: a process may signal itself, whom it shares a user with, and with SIGCONT its session.
    fn may_signal(&self, sender: ProcessId, target: ProcessId, signal: i32) -> bool {
        let session = |id| self.tasks.processes.get(&id).map(|one| one.session);
        let users = &self.arena.process(target).users;
        sender == target
            || signal == libc::SIGCONT && session(sender) == session(target)
            || self.may_signal_users(sender, [users[0].load(Relaxed), users[2].load(Relaxed)])
    }

    /// May a process signal one with this real and saved user? "uid_eq(cred->euid, tcred->suid) || uid_eq(cred->euid, tcred->uid) || uid_eq(cred->uid, …"
    fn may_signal_users(&self, sender: ProcessId, target: [u32; 2]) -> bool {
        const CAP_KILL: u32 = 5;
        let slot = self.arena.process(sender);
        let own = [slot.users[0].load(Relaxed), slot.users[1].load(Relaxed)];
        self.arena.may(sender, CAP_KILL) || own.iter().any(|user| target.contains(user))
    }

    /// kill(2)
    pub(super) fn kill_process(&mut self, asked: &Asked<'_>, call: calls::Kill, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let (sender, what) = self.said_by(asked.thread, call.sig, SI_USER)?;
        self.signal_processes(sender, call.pid.get(), call.sig.get(), what)
    }

    /// tkill(2)
    pub(super) fn tkill(&mut self, asked: &Asked<'_>, call: calls::Tkill, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let (sender, what) = self.said_by(asked.thread, call.sig, SI_TKILL)?;
        self.signal_by_tid(sender, call.pid.get() as u32, call.sig.get(), what)
    }

    /// tgkill(2)
    pub(super) fn tgkill(&mut self, asked: &Asked<'_>, call: calls::Tgkill, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let (sender, what) = self.said_by(asked.thread, call.sig, SI_TKILL)?;
        self.signal_by_tid(sender, call.pid.get() as u32, call.sig.get(), what)
    }

    /// rt_sigqueueinfo(2)
    pub(super) fn rt_sigqueueinfo(
        &mut self,
        asked: &Asked<'_>,
        call: calls::RtSigqueueinfo,
        _: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let (sender, mut what) = self.said_by(asked.thread, call.sig, SI_USER)?;
        read_info(asked.caller, call.uinfo, call.sig, &mut what)?;
        self.signal_processes(sender, call.pid.get(), call.sig.get(), what)
    }

    /// rt_tgsigqueueinfo(2)
    pub(super) fn rt_tgsigqueueinfo(
        &mut self,
        asked: &Asked<'_>,
        call: calls::RtTgsigqueueinfo,
        _: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let (sender, mut what) = self.said_by(asked.thread, call.sig, SI_TKILL)?;
        read_info(asked.caller, call.uinfo, call.sig, &mut what)?;
        self.signal_by_tid(sender, call.pid.get() as u32, call.sig.get(), what)
    }

    /// Who sends a signal, and what is said with it.
    fn said_by(&self, thread: ThreadId, signal: calls::Signal, code: i32) -> Result<(ProcessId, Info), Errno> {
        let sender = self.tasks.process_of(thread)?;
        let own = self.tasks.processes.get(&sender).map_or(0, |one| one.pid);
        if !(0..=64).contains(&signal.get()) {
            return Err(Errno(libc::EINVAL));
        }
        Ok((sender, info(signal.get(), code, &[(16, own as i32)])))
    }

    fn signal_by_tid(&mut self, sender: ProcessId, tid: u32, signal: i32, what: Info) -> Result<Outcome, Errno> {
        let target = self.tasks.threads.iter().find(|(_, one)| one.tid == tid).map(|(id, _)| *id).ok_or(Errno(libc::ESRCH))?;
        if !self.may_signal(sender, self.tasks.process_of(target)?, signal) {
            return Err(Errno(libc::EPERM));
        }
        if signal != 0 {
            self.signal_thread(target, signal, what);
        }
        Ok(Outcome::Done(0))
    }

    fn signal_processes(&mut self, sender: ProcessId, pid: i32, signal: i32, what: Info) -> Result<Outcome, Errno> {
        let group = self.tasks.processes.get(&sender).map_or(0, |one| one.group);
        let chosen: Vec<ProcessId> = self
            .tasks
            .processes
            .iter()
            .filter(|(id, one)| match pid {
                0 => one.group == group,
                -1 => **id != sender,
                pid if pid < 0 => one.group == pid.unsigned_abs(),
                pid => one.pid == pid as u32,
            })
            .map(|(id, _)| *id)
            .collect();
        if chosen.is_empty() && pid != 1 {
            return Err(Errno(libc::ESRCH));
        }
        // Process 1 is root's.
        if pid == 1 && !self.may_signal_users(sender, [0, 0]) {
            return Err(Errno(libc::EPERM));
        }
        let (chosen, refused): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|target| self.may_signal(sender, *target, signal));
        if chosen.is_empty() && !refused.is_empty() {
            return Err(Errno(libc::EPERM));
        }
        // Whoever sends to itself comes last: the answer must find it alive.
        for process in chosen.iter().filter(|id| **id != sender).chain(chosen.iter().filter(|id| **id == sender)) {
            if signal != 0 {
                self.signal_process(*process, signal, what);
            }
        }
        Ok(Outcome::Done(0))
    }

    /// rt_sigtimedwait(2)
    pub(super) fn rt_sigtimedwait(
        &mut self,
        asked: &Asked<'_>,
        call: calls::RtSigtimedwait,
        _: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let Asked { thread, caller, .. } = *asked;
        let wanted = caller.read_mask(call.uthese.0, call.sigsetsize.0)?;
        let limit = match call.uts.0 {
            0 => None,
            at => Some(caller.read_timespec(at as u64)?),
        };
        if let Some((signal, info)) = self.take_signal(thread, wanted) {
            if call.uinfo.0 != 0 {
                caller.write(call.uinfo.0 as u64, &info)?;
            }
            return Ok(Outcome::Done(i64::from(signal)));
        }
        let expired = self.tasks.threads.get(&thread).is_some_and(|one| one.expired);
        if expired {
            return Err(Errno(libc::EAGAIN));
        }
        let deadline = limit.map(|limit| self.after(limit));
        if deadline.is_some_and(|deadline| deadline.at <= self.clock) {
            return Err(Errno(libc::EAGAIN));
        }
        let interrupted = -i64::from(libc::EINTR);
        Ok(Outcome::Wait(Wait { signals: wanted, deadline, interrupted, ..Wait::default() }))
    }

    /// The signal of a POSIX timer has come: how often it expired meanwhile is what timer_getoverrun(2) says from now on.
    fn timer_delivered(&mut self, process: ProcessId, info: &Info) {
        if word(info, 8) == SI_TIMER {
            self.posix_delivered(process, word(info, 16), word(info, 20));
        }
    }

    /// Takes a signal that waits for a thread, of its own or its process's.
    pub(super) fn take_signal(&mut self, thread: ThreadId, wanted: u64) -> Option<(i32, Info)> {
        let process = self.tasks.threads.get(&thread)?.process;
        let taken = match self.tasks.threads.get_mut(&thread)?.queue.take(wanted) {
            Some(taken) => Some(taken),
            None => self.tasks.processes.get_mut(&process)?.queue.take(wanted),
        };
        self.show_pending(process);
        if let Some((_, info)) = &taken {
            self.timer_delivered(process, info);
        }
        taken
    }

    /// A program set a signal to be ignored: those that wait are gone.
    pub(super) fn now_ignored(&mut self, thread: ThreadId, signal: i32) {
        if let Ok(process) = self.tasks.process_of(thread)
            && effect(&self.arena, process, signal) == Effect::Nothing
        {
            self.forget_signals(process, bit(signal));
        }
    }
}
