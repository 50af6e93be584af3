//! Waiting for a kernel, and counting what it says: it may compute for long, it may not hold the world up for ever, and who ends the run is heard.

use crate::Broken;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_core::Instant;

/// How often who waits for a kernel looks whether the run was interrupted.
const LOOK_PERIOD: Duration = Duration::from_millis(200);
/// So long a kernel may compute without a word and without its clock going on.
const PATIENCE: Duration = Duration::from_secs(60);
/// Words of a kernel at one instant of its clock after which it is taken for a loop.
const WORDS_MAX: u32 = 1 << 18;
/// It is looked whether the run was interrupted once in so many words.
const WORDS_PER_LOOK: u32 = 1 << 10;

/// How long somebody waits for one kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patience {
    interrupt: Option<Arc<AtomicBool>>,
    /// A debugger looks at the kernel, and nobody loses patience.
    debugged: bool,
}

impl Patience {
    pub fn new(interrupt: Option<Arc<AtomicBool>>, debugged: bool) -> Patience {
        Patience { interrupt, debugged }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Waits until one of these has something to say, and says which; none: the run was interrupted. `progress` is the kernel's clock, `has_ended` whether
    /// its process has.
    pub fn await_any(
        &self,
        sockets: &[BorrowedFd<'_>],
        progress: &dyn Fn() -> u64,
        has_ended: &mut dyn FnMut() -> std::io::Result<bool>,
    ) -> Result<Option<usize>, Broken> {
        let mut fds: Vec<PollFd<'_>> = sockets.iter().map(|socket| PollFd::from_borrowed_fd(*socket, PollFlags::IN)).collect();
        let period = Timespec { tv_sec: 0, tv_nsec: LOOK_PERIOD.subsec_nanos().into() };
        let (mut waited, mut before) = (Duration::ZERO, progress());
        loop {
            match rustix::event::poll(&mut fds, Some(&period)) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            if let Some(at) = fds.iter().position(|fd| !fd.revents().is_empty()) {
                return Ok(Some(at));
            }
            if self.is_interrupted() {
                return Ok(None);
            }
            if has_ended()? {
                return Err(Broken::new("its kernel ended"));
            }
            let now = progress();
            waited = if now == before && !self.debugged { waited + LOOK_PERIOD } else { Duration::ZERO };
            before = now;
            if waited >= PATIENCE {
                return Err(Broken::new(format!(
                    "its kernel has computed for {} s without a word, and its clock stands: a program that never calls the kernel, or a deadlock",
                    PATIENCE.as_secs()
                )));
            }
        }
    }
}

/// What a kernel has said, as long as its clock stands.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    at: Instant,
    there: u32,
    since_look: u32,
}

impl Talk {
    /// One more. False: the run was interrupted.
    pub fn count(&mut self, at: Instant, patience: &Patience) -> Result<bool, Broken> {
        if self.at != at {
            (self.at, self.there) = (at, 0);
        }
        self.again(patience)
    }

    /// One more, and its clock stands.
    pub fn again(&mut self, patience: &Patience) -> Result<bool, Broken> {
        self.there += 1;
        self.since_look += 1;
        if self.there > WORDS_MAX {
            return Err(Broken::new(format!("its kernel has said {WORDS_MAX} things, and its clock stands")));
        }
        if self.since_look < WORDS_PER_LOOK {
            return Ok(true);
        }
        self.since_look = 0;
        Ok(!patience.is_interrupted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_speaks_without_end_is_stopped_unless_time_goes_on() {
        let (mut talk, patience) = (Talk::default(), Patience::default());
        for at in 0..u64::from(WORDS_MAX) * 2 {
            assert_eq!(talk.count(Instant::from_nanos(at / 2), &patience), Ok(true));
        }
        let last = Instant::from_nanos(u64::from(WORDS_MAX));
        for _ in 0..WORDS_MAX {
            assert_eq!(talk.count(last, &patience), Ok(true));
        }
        assert!(talk.count(last, &patience).unwrap_err().0.contains("its clock stands"));
        assert!(talk.again(&patience).is_err());
        assert_eq!(talk.count(last + Duration::from_nanos(1), &patience), Ok(true));
    }

    #[test]
    fn who_ends_the_run_is_heard_while_a_kernel_speaks() {
        let flag = Arc::new(AtomicBool::new(false));
        let (mut talk, patience) = (Talk::default(), Patience::new(Some(Arc::clone(&flag)), false));
        assert_eq!(talk.again(&patience), Ok(true));
        flag.store(true, Ordering::Relaxed);
        assert_eq!((0..WORDS_PER_LOOK).filter(|_| talk.again(&patience) == Ok(false)).count(), 1);
    }
}
