//! A program's memory, as the calls that take pointers need it. The notify supervisor reads it from outside; the controller of processes in
//! virtual time gets most of it with the call.

use crate::sys::Errno;
use bytes::{Bytes, BytesMut};
use std::time::Duration;

/// The handler of a call cannot go on before more of the program's memory has been fetched. Never an answer.
pub const LATER: Errno = Errno(i32::MIN);

/// Longest `sockaddr` that a call may pass (sizeof(struct sockaddr_storage)).
const ADDRESS_BYTES_MAX: usize = 128;

/// Memory of the program that made a call. Every error is EFAULT, unless said otherwise.
pub trait Memory {
    /// Reads all or nothing.
    fn read(&self, pointer: u64, into: &mut [u8]) -> Result<(), Errno>;
    /// Writes.
    fn write(&self, pointer: u64, from: &[u8]) -> Result<(), Errno>;
    /// Reads at most `limit` bytes out of (address, bytes) pieces, up to the first bad page.
    fn gather(&self, vectors: &[(u64, u64)], limit: usize) -> Result<BytesMut, Errno>;
    /// Writes into pieces; how many bytes fitted.
    fn scatter(&self, vectors: &[(u64, u64)], from: &Bytes) -> Result<usize, Errno>;

    /// A `sockaddr` that the program passes.
    fn read_address(&self, pointer: u64, bytes: i32) -> Result<Vec<u8>, Errno> {
        // move_addr_to_kernel: "if (ulen < 0 || ulen > sizeof(struct sockaddr_storage)) return -EINVAL; if (ulen == 0) return 0;"
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= ADDRESS_BYTES_MAX).ok_or(Errno(libc::EINVAL))?;
        let mut address = vec![0; bytes];
        self.read(pointer, &mut address)?;
        Ok(address)
    }

    /// Writes a `sockaddr` and its length, cut to the room that the program says there is.
    fn write_address(&self, address: &[u8], pointer: u64, length_pointer: u64) -> Result<(), Errno> {
        // move_addr_to_user: "if (len < 0) return -EINVAL"; the length written is the whole one.
        let room = self.read_int(length_pointer)?;
        let room = usize::try_from(room).map_err(|_| Errno(libc::EINVAL))?;
        self.write(pointer, address.get(..room).unwrap_or(address))?;
        self.write(length_pointer, &(address.len() as u32).to_ne_bytes())
    }

    /// A `sigset_t` that is said to have so many bytes. kernel/signal.c: "if (sigsetsize != sizeof(sigset_t)) return -EINVAL;".
    fn read_mask(&self, pointer: usize, bytes: usize) -> Result<u64, Errno> {
        let mut mask = [0; 8];
        if bytes != mask.len() {
            return Err(Errno(libc::EINVAL));
        }
        self.read(pointer as u64, &mut mask)?;
        Ok(u64::from_ne_bytes(mask))
    }

    /// A `struct timespec`; EINVAL when it is none.
    fn read_timespec(&self, pointer: u64) -> Result<Duration, Errno> {
        let mut bytes = [0; 16];
        self.read(pointer, &mut bytes)?;
        let word = |at: usize| bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(-1, i64::from_ne_bytes);
        let nanoseconds = u32::try_from(word(8)).ok().filter(|nanoseconds| *nanoseconds < 1_000_000_000);
        match (u64::try_from(word(0)), nanoseconds) {
            (Ok(seconds), Some(nanoseconds)) => Ok(Duration::new(seconds, nanoseconds)),
            _ => Err(Errno(libc::EINVAL)),
        }
    }
    /// Writes a `struct timespec`.
    fn write_timespec(&self, pointer: u64, value: Duration) -> Result<(), Errno> {
        let words = [value.as_secs() as i64, i64::from(value.subsec_nanos())];
        self.write(pointer, &words.map(i64::to_ne_bytes).concat())
    }
    /// Reads an int now that is asked for again when there is no way back. Whether it can be read shows then.
    ///
    /// # Errors
    /// [`LATER`] alone.
    fn read_ahead(&self, pointer: u64) -> Result<(), Errno> {
        match self.read_int(pointer) {
            Err(LATER) => Err(LATER),
            _ => Ok(()),
        }
    }
    /// An int.
    fn read_int(&self, pointer: u64) -> Result<i32, Errno> {
        let mut int = [0; 4];
        self.read(pointer, &mut int)?;
        Ok(i32::from_ne_bytes(int))
    }
}
