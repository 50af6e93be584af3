//! Pending signals: what is told with one, and the queues in which they wait.

use std::collections::VecDeque;

/// A wait that a signal interrupts is tried once more, to say what is left (nanosleep).
pub(super) const TRY_AGAIN: i64 = -516;
/// Most real-time signals that wait for one target (RLIMIT_SIGPENDING is far more; a program that needs it is broken).
const QUEUE_MAX: usize = 4096;
/// From here on signals queue.
const SIGRTMIN: i32 = 32;
pub(super) const SI_USER: i32 = 0;
pub(super) const SI_TKILL: i32 = -6;
pub(super) const SI_TIMER: i32 = -2;
const SI_KERNEL: i32 = 0x80;
/// siginfo_t.
pub(super) type Info = [u8; 128];

pub(super) fn info(signal: i32, code: i32, words: &[(usize, i32)]) -> Info {
    let mut info = [0; 128];
    for (at, value) in [(0, signal), (8, code)].iter().chain(words) {
        if let Some(into) = info.get_mut(*at..*at + 4) {
            into.copy_from_slice(&value.to_ne_bytes());
        }
    }
    info
}

/// Sent by the kernel: SI_KERNEL.
pub(super) fn info_from_kernel(signal: i32) -> Info {
    info(signal, SI_KERNEL, &[])
}

/// Of a timer: id, overrun, value.
pub(super) fn info_of_timer(signal: i32, id: i32, overrun: i32, value: u64) -> Info {
    info(signal, SI_TIMER, &[(16, id), (20, overrun), (24, value as u32 as i32), (28, (value >> 32) as i32)])
}

/// SIGCHLD: CLD_EXITED and so on.
pub(super) fn info_of_child(signal: i32, code: i32, pid: u32, status: i32) -> Info {
    info(signal, code, &[(16, pid as i32), (24, status)])
}

/// Signals that wait for a thread or process.
#[derive(Debug, Default)]
pub(super) struct PendingSignals {
    waiting: VecDeque<(i32, Info)>,
}

impl PendingSignals {
    pub fn bits(&self) -> u64 {
        self.waiting.iter().fold(0, |bits, (signal, _)| bits | bit(*signal))
    }
    pub fn has(&self, signal: i32) -> bool {
        self.bits() & bit(signal) != 0
    }
    /// A timer has expired `times` whose signal is still here: that says how often. False: it is not here.
    pub fn overrun(&mut self, signal: i32, timer: i32, times: u64) -> bool {
        let is_it = |(one, info): &&mut (i32, Info)| *one == signal && word(info, 8) == SI_TIMER && word(info, 16) == timer;
        let Some((_, info)) = self.waiting.iter_mut().find(is_it) else { return false };
        let count = word(info, 20).saturating_add(i32::try_from(times).unwrap_or(i32::MAX));
        info[20..24].copy_from_slice(&count.to_ne_bytes());
        true
    }
    pub fn push(&mut self, signal: i32, info: Info) -> bool {
        if signal < SIGRTMIN && self.has(signal) {
            return true;
        }
        if self.waiting.len() >= QUEUE_MAX {
            return false;
        }
        self.waiting.push_back((signal, info));
        true
    }
    /// The lowest of these.
    pub fn take(&mut self, wanted: u64) -> Option<(i32, Info)> {
        let lowest = self.waiting.iter().map(|(signal, _)| *signal).filter(|signal| bit(*signal) & wanted != 0).min()?;
        let at = self.waiting.iter().position(|(signal, _)| *signal == lowest)?;
        self.waiting.remove(at)
    }
    pub fn forget(&mut self, unwanted: u64) {
        self.waiting.retain(|(signal, _)| bit(*signal) & unwanted == 0);
    }
}

pub(super) fn word(info: &Info, at: usize) -> i32 {
    info.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes)
}

pub(super) fn bit(signal: i32) -> u64 {
    if (1..=64).contains(&signal) { 1 << (signal - 1) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_signals_merge_and_real_time_ones_queue() {
        let mut queue = PendingSignals::default();
        for _ in 0..3 {
            assert!(queue.push(libc::SIGUSR1, info_from_kernel(libc::SIGUSR1)));
            assert!(queue.push(34, info_from_kernel(34)));
        }
        assert_eq!(queue.take(u64::MAX).unwrap().0, libc::SIGUSR1);
        assert_eq!((0..4).map(|_| queue.take(u64::MAX).map(|taken| taken.0)).collect::<Vec<_>>(), [Some(34), Some(34), Some(34), None]);
        for _ in 0..QUEUE_MAX {
            assert!(queue.push(40, info_from_kernel(40)));
        }
        assert!(!queue.push(40, info_from_kernel(40)), "bounded");
    }

    #[test]
    fn a_siginfo_has_its_fields_where_linux_has_them() {
        let info = info_of_child(libc::SIGCHLD, 1, 77, 3);
        // SAFETY: 128 bytes are a siginfo_t, for which every value is valid.
        let info: libc::siginfo_t = unsafe { std::mem::transmute(info) };
        // SAFETY: the fields of SIGCHLD.
        assert_eq!(unsafe { (info.si_signo, info.si_code, info.si_pid(), info.si_status()) }, (libc::SIGCHLD, 1, 77, 3));
    }
}
