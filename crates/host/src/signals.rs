//! Signals as descriptors.

use rustix::fd::{AsFd, BorrowedFd};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::os::unix::net::UnixStream;

/// Becomes readable when the process is asked to end (SIGTERM, SIGINT, SIGHUP).
#[derive(Debug)]
pub struct Termination {
    reader: UnixStream,
}

impl Termination {
    /// Catches the signals from now on.
    pub fn catch() -> io::Result<Termination> {
        Termination::catch_these(&[SIGTERM, SIGINT, SIGHUP])
    }

    /// Catches only SIGTERM and SIGHUP; SIGINT is taken and ignored, because a terminal sends it to the program, too.
    pub fn catch_beside_program() -> io::Result<Termination> {
        let (_, ignored) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(SIGINT, ignored)?;
        Termination::catch_these(&[SIGTERM, SIGHUP])
    }

    fn catch_these(signals: &[i32]) -> io::Result<Termination> {
        let (reader, writer) = UnixStream::pair()?;
        for signal in signals {
            signal_hook::low_level::pipe::register(*signal, writer.try_clone()?)?;
        }
        Ok(Termination { reader })
    }
}

impl AsFd for Termination {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
