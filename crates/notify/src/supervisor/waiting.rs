//! Whether a program is about to look for an error, told from outside: by what its threads wait for, and by how long they have computed.

use crate::sys;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An error is shown when the program has made no call on the socket while it computed for so long: it may look with a poll that does not wait. Its own
/// processor time counts, as one that others keep off the processors may be about to write.
const ERROR_WAITS_MAX: Duration = Duration::from_millis(5);
/// And when so much time has passed: it may wait for something else.
const ERROR_WAITS_IN_ALL_MAX: Duration = Duration::from_millis(500);

/// Calls in which a thread waits for readiness, data or time.
const WAITING: [i64; 13] = [
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
];

/// Most threads of a process that are looked at, beside the one that made the last call. A program with more may wait in another; then time decides.
const THREADS_MAX: usize = 32;

/// Does a thread of a process wait for something (proc_pid_syscall(5))?
pub(super) fn is_waiting(tid: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{tid}/task")) else { return true };
    any_waits(Path::new(&format!("/proc/{tid}")), tasks.flatten().map(|task| task.path()))
}

fn any_waits(first: &Path, others: impl Iterator<Item = PathBuf>) -> bool {
    let waits = |thread: &Path| {
        let call = std::fs::read_to_string(thread.join("syscall")).unwrap_or_default();
        call.split(' ').next().and_then(|number| number.parse().ok()).is_some_and(|number: i64| WAITING.contains(&number))
    };
    waits(first) || others.take(THREADS_MAX).any(|thread| waits(&thread))
}

/// Since when an error has waited to be shown, and how long the program had computed by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    since: Instant,
    computed: Duration,
}

impl Waiting {
    pub fn begin(tid: u32) -> Waiting {
        Waiting { since: Instant::now(), computed: computed(tid) }
    }
    pub fn is_over(self, tid: u32) -> bool {
        computed(tid).saturating_sub(self.computed) >= ERROR_WAITS_MAX || self.since.elapsed() >= ERROR_WAITS_IN_ALL_MAX
    }
}

/// How long the threads of a process have computed: one look, however many they are.
fn computed(tid: u32) -> Duration {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    process.and_then(sys::process_time).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_threads_some_are_looked_at() {
        let looked_at = std::cell::Cell::new(0);
        let threads = (0..1000).map(|_| {
            looked_at.set(looked_at.get() + 1);
            std::path::PathBuf::from("/proc/self/nobody")
        });
        assert!(!any_waits(Path::new("/proc/self/nobody"), threads));
        assert_eq!(looked_at.get(), THREADS_MAX);
    }

    #[test]
    fn a_program_that_others_keep_off_the_processors_has_not_computed() {
        let mut sleeps = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tid = sleeps.id();
        while !is_waiting(tid) {
            std::thread::yield_now();
        }
        let waiting = Waiting::begin(tid);
        assert!(!waiting.is_over(tid), "it sleeps");
        assert!(Waiting { since: Instant::now() - ERROR_WAITS_IN_ALL_MAX, ..waiting }.is_over(tid), "not for ever");
        sleeps.kill().unwrap();
        sleeps.wait().unwrap();
        assert!(waiting.is_over(tid), "it has gone");
        let own = Waiting::begin(std::process::id());
        while !own.is_over(std::process::id()) {
            std::hint::spin_loop();
        }
        assert!(computed(std::process::id()) >= own.computed + ERROR_WAITS_MAX || own.since.elapsed() >= ERROR_WAITS_IN_ALL_MAX);
    }
}
