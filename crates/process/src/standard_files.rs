//! Files in memory: what programs read as standard input, and write as standard output and error.

use super::arena::memory_file;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use weft_intercept::sys::Errno;
use weft_loader::abi;

fn error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.0)
}

/// Something to read for a program, from its beginning. It cannot be written.
///
/// # Errors
/// No memory, or no descriptor.
pub fn input(contents: &[u8]) -> io::Result<OwnedFd> {
    let memory = memory_file(c"stdin", libc::MFD_CLOEXEC).map_err(error)?;
    let mut file = File::from(memory);
    file.write_all(contents)?;
    // Opened again: read-only, and with an offset of its own.
    Ok(File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?.into())
}

/// A file that programs append to, and that is read from outside without their noticing. It cannot be made shorter, and programs cannot write over what they have written
/// (the loader's `guest/output_file.rs`).
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    read: u64,
    /// So much was told by [`OutputFile::peek`].
    seen: u64,
    /// So many bytes are held; those behind are counted, and let go.
    bytes_max: u64,
    /// Up to here it is known what was let go.
    spilled: u64,
}

impl OutputFile {
    /// An empty one, named in /proc/PID/fd as `name`, which holds `bytes_max` bytes. What [`OutputFile::descriptor`] gives out is to be written.
    ///
    /// # Errors
    /// No memory, or no descriptor.
    pub fn new(name: &std::ffi::CStr, bytes_max: u64) -> io::Result<OutputFile> {
        let memory = memory_file(name, libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING).map_err(error)?;
        // Programs that share it (fork, dup) append; for those that open /dev/stdout anew the loader sees to that. O_TRUNC is not to empty it.
        for (what, value) in [(libc::F_SETFL, libc::O_APPEND), (libc::F_ADD_SEALS, abi::OUTPUT_FILE_SEALS)] {
            // SAFETY: takes no pointers.
            if unsafe { libc::fcntl(memory.as_raw_fd(), what, value) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(OutputFile { file: File::from(memory), read: 0, seen: 0, bytes_max, spilled: bytes_max })
    }

    /// For a program: every write goes to the end.
    ///
    /// # Errors
    /// No descriptor.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.file.try_clone().map(OwnedFd::from)
    }

    /// How many bytes were written that are held, and nobody has taken.
    ///
    /// # Errors
    /// The file cannot be asked, or is shorter than what was read of it.
    pub fn unread(&self) -> io::Result<u64> {
        let length = self.file.metadata()?.len();
        let read = length.min(self.bytes_max).checked_sub(self.read);
        read.ok_or_else(|| io::Error::other(format!("it has {length} bytes, and had {} before", self.read)))
    }

    /// What has been written since the last call, at most `limit` bytes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take(&mut self, limit: usize) -> io::Result<Vec<u8>> {
        let new = usize::try_from(self.unread()?).unwrap_or(usize::MAX).min(limit);
        let mut bytes = vec![0; new];
        if new > 0 {
            self.file.read_exact_at(&mut bytes, self.read)?;
            self.read += new as u64;
        }
        Ok(bytes)
    }

    /// Lets go of what was written behind the bytes that are held, and says how much that is since the last call. The program does not notice, unless it
    /// reads what it has written: there are zeros then.
    ///
    /// # Errors
    /// The kernel's.
    pub fn spill(&mut self) -> io::Result<u64> {
        let length = self.file.metadata()?.len();
        let lost = length.saturating_sub(self.spilled);
        if lost > 0 {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            let range = i64::try_from(self.spilled).ok().zip(i64::try_from(lost).ok());
            let (from, bytes) = range.ok_or(io::ErrorKind::FileTooLarge)?;
            // SAFETY: takes no pointers.
            if unsafe { libc::fallocate(self.file.as_raw_fd(), mode, from, bytes) } < 0 {
                return Err(io::Error::last_os_error());
            }
            self.spilled = length;
        }
        Ok(lost)
    }

    /// What has been written that neither this nor [`OutputFile::take`] has given, at most `limit` bytes; [`OutputFile::take`] gives it all the same.
    ///
    /// # Errors
    /// The kernel's.
    pub fn peek(&mut self, limit: usize) -> io::Result<Vec<u8>> {
        let from = self.seen.max(self.read);
        let read = std::mem::replace(&mut self.read, from);
        let bytes = self.take(limit);
        self.seen = std::mem::replace(&mut self.read, read);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn what_is_written_is_taken_once_and_in_order() {
        let mut output = OutputFile::new(c"stdout", 1 << 20).expect("a file");
        let mut one = File::from(output.descriptor().expect("a descriptor"));
        let mut other = File::from(output.descriptor().expect("a descriptor"));
        one.write_all(b"one ").expect("room");
        other.write_all(b"two ").expect("room");
        assert_eq!(output.take(6).expect("bytes"), b"one tw");
        one.write_all(b"three").expect("room");
        assert_eq!(output.take(100).expect("bytes"), b"o three");
        assert_eq!(output.take(100).expect("bytes"), b"");
    }

    #[test]
    fn nobody_makes_it_shorter_or_it_is_noticed() {
        let mut output = OutputFile::new(c"stdout", 1 << 20).expect("a file");
        let mut file = File::from(output.descriptor().expect("a descriptor"));
        file.write_all(b"kept").expect("room");
        assert_eq!(file.set_len(0).map_err(|error| error.raw_os_error()), Err(Some(libc::EPERM)));
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        assert!(File::create(path).is_err(), "O_TRUNC");
        assert_eq!(output.take(100).expect("bytes"), b"kept");
        // One without the seal.
        let memory = memory_file(c"stdout", libc::MFD_CLOEXEC).expect("a file");
        let mut output = OutputFile { file: File::from(memory), read: 0, seen: 0, bytes_max: 1 << 20, spilled: 1 << 20 };
        let mut file = File::from(output.descriptor().expect("a descriptor"));
        file.write_all(b"lost").expect("room");
        assert_eq!(output.take(100).expect("bytes"), b"lost");
        file.set_len(1).expect("shorter");
        assert!(output.take(100).is_err_and(|error| error.to_string().contains("1 bytes, and had 4")));
    }

    #[test]
    fn what_was_taken_before_anybody_peeked_is_not_seen_again() {
        let mut output = OutputFile::new(c"stdout", 1 << 20).expect("a file");
        let mut file = File::from(output.descriptor().expect("a descriptor"));
        file.write_all(b"untold ").expect("room");
        assert_eq!(output.take(100).expect("bytes"), b"untold ");
        file.write_all(b"told ").expect("room");
        assert_eq!(output.peek(100).expect("bytes"), b"told ");
        file.write_all(b"more").expect("room");
        assert_eq!(output.peek(100).expect("bytes"), b"more");
        assert_eq!(output.take(100).expect("bytes"), b"told more");
        assert_eq!(output.peek(100).expect("bytes"), b"");
    }

    #[test]
    fn what_is_behind_the_bound_is_counted_and_takes_no_memory() {
        use std::os::unix::fs::MetadataExt as _;
        let mut output = OutputFile::new(c"stdout", 1 << 20).expect("a file");
        let mut file = File::from(output.descriptor().expect("a descriptor"));
        let held = |file: &File| file.metadata().expect("the file").blocks() * 512;
        file.write_all(&vec![b'a'; 1 << 20]).expect("room");
        assert_eq!((output.spill().expect("a hole"), held(&file)), (0, 1 << 20));
        for round in 1..=4_u64 {
            file.write_all(&vec![b'b'; 3 << 20]).expect("room");
            assert_eq!(held(&file), 4 << 20);
            assert_eq!((output.spill().expect("a hole"), output.spill().expect("no hole")), (3 << 20, 0));
            let metadata = file.metadata().expect("the file");
            assert_eq!((held(&file), metadata.len()), (1 << 20, (1 << 20) + round * (3 << 20)), "the program does not notice");
        }
        assert_eq!(output.take(usize::MAX).expect("bytes"), vec![b'a'; 1 << 20]);
        assert_eq!(output.take(usize::MAX).expect("bytes"), b"");
    }

    #[test]
    fn input_is_read_from_its_beginning_and_cannot_be_written() {
        let mut file = File::from(input(b"hello").expect("a file"));
        let mut text = String::new();
        file.read_to_string(&mut text).expect("text");
        assert_eq!(text, "hello");
        assert!(file.write_all(b"x").is_err());
    }
}
