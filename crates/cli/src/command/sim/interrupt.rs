//! Ctrl-C, SIGTERM and SIGHUP: the run ends there with complete results, and the command as if the signal had killed it: 128 + signal.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What is told to stop.
pub(in crate::command) struct Interrupt {
    /// Set when it is, by whomever.
    pub flag: Arc<AtomicBool>,
    /// By which signal; 0: none.
    signal: Arc<AtomicUsize>,
    /// Something that had not ended by itself has ended because of it.
    cut: AtomicBool,
}

impl Interrupt {
    /// From now on. Ctrl-C at a terminal that a debugger has is the debugger's.
    pub fn catch(is_debugged: bool) -> io::Result<Interrupt> {
        let (flag, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for number in [SIGTERM, SIGHUP, SIGINT] {
            match number {
                SIGHUP if is_ignored(SIGHUP) => continue,
                SIGINT if is_debugged => drop(signal_hook::flag::register(SIGINT, Arc::default())?),
                number => {
                    // Whoever sees the flag knows the signal.
                    signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)?;
                    signal_hook::flag::register(number, Arc::clone(&flag))?;
                }
            }
        }
        Ok(Interrupt { flag, signal, cut: AtomicBool::new(false) })
    }

    /// Is it over?
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Something was interrupted, or left out.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// The command's, if a signal has cut anything short.
    pub fn status(&self) -> Option<ExitCode> {
        let signal = u8::try_from(self.signal.load(Ordering::Relaxed)).ok().filter(|signal| *signal != 0)?;
        self.cut.load(Ordering::Relaxed).then(|| ExitCode::from(128 + signal))
    }
}

/// As nohup(1) has SIGHUP: its bit in a mask in hexadecimal digits.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0) & 1 << (signal - 1) != 0
}
