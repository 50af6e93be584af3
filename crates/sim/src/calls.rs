//! `--calls`: what each program asked of the kernel, a line a call, in `DIR/programs/NAME/calls`:
//!
//! ```text
//! 0.500007000 2 openat(AT_FDCWD, "/etc/hosts", O_RDONLY|O_CLOEXEC) = 3
//! ```
//!
//! Virtual time at which it returned, process (and `/thread` where that is not its first), the call as strace would write it. The log changes
//! nothing in virtual time; it is not part of the hash, because addresses in it are the host's.

use crate::report::{CallLine, ProgramId};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

/// The logs of a node's programs.
#[derive(Debug)]
pub(crate) struct CallLog {
    files: BTreeMap<ProgramId, BufWriter<File>>,
    failed: Option<io::Error>,
}

impl CallLog {
    /// Begins files at these places.
    ///
    /// # Errors
    /// One cannot be made.
    pub fn create(places: impl IntoIterator<Item = (ProgramId, PathBuf)>) -> io::Result<CallLog> {
        let mut files = BTreeMap::new();
        for (program, folder) in places {
            std::fs::create_dir_all(&folder)?;
            files.insert(program, BufWriter::new(File::create(folder.join("calls"))?));
        }
        Ok(CallLog { files, failed: None })
    }

    pub fn add(&mut self, call: &CallLine<'_>) {
        let Some(file) = self.files.get_mut(&call.program) else { return };
        let seconds = call.at.seconds();
        let result = match call.process == call.thread {
            true => writeln!(file, "{seconds} {} {}", call.process, call.text),
            false => writeln!(file, "{seconds} {}/{} {}", call.process, call.thread, call.text),
        };
        self.failed = self.failed.take().or(result.err());
    }

    /// Everything is on its way to the disk.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn finish(mut self) -> io::Result<()> {
        for file in self.files.values_mut() {
            file.flush()?;
        }
        self.failed.map_or(Ok(()), Err)
    }
}
