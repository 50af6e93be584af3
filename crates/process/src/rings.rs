//! Rings of packet sockets in memory of programs: a file in memory, which the program maps in place of its socket (mmap(2)).

use super::arena::{Arena, memory_file};
use super::object::Body;
use super::outcome::{Asked, Outcome};
use super::outside::Outside;
use super::tree::Tree;
use std::any::Any;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use weft_intercept::face::RingMemory;
use weft_intercept::sys::{self, Errno};
use weft_loader::abi::{self, Clock, kind};
use weft_loader::calls;

const PAGE_BYTES: u64 = 4096;

/// Memory of rings. It is read and written as a file: what programs have mapped is never trusted, and weft has no need to map it.
#[derive(Debug)]
struct RingFile {
    file: File,
    /// The clock of the node's programs, and the date of its beginning; none: the host's.
    clock: Option<(Arc<Arena>, u64)>,
}

impl RingFile {
    fn new(bytes: u64, clock: Option<(Arc<Arena>, u64)>) -> Result<RingFile, Errno> {
        let file = File::from(memory_file(c"packet-ring", libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)?);
        file.set_len(bytes).map_err(|_| Errno(libc::ENOMEM))?;
        // Nobody makes it shorter or longer: who has it mapped would fault.
        seal(&file, libc::F_SEAL_GROW | libc::F_SEAL_SHRINK)?;
        Ok(RingFile { file, clock })
    }
}

fn seal(file: &File, seals: i32) -> Result<(), Errno> {
    // SAFETY: takes no pointers.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 { Err(sys::last()) } else { Ok(()) }
}

impl RingMemory for RingFile {
    fn read(&self, at: u64, into: &mut [u8]) {
        // Where it cannot be read, it is as empty.
        let _ = self.file.read_exact_at(into, at);
    }
    fn write(&self, at: u64, bytes: &[u8]) {
        // Without memory the host ends programs, and them too that would look for it.
        let _ = self.file.write_all_at(bytes, at);
    }
    fn publish(&self, at: u64, word: u32) {
        // The kernel may copy four bytes one after the other. A program that looks meanwhile sees its bit of the status last.
        let [first, rest @ ..] = word.to_ne_bytes();
        self.write(at + 1, &rest);
        self.write(at, &[first]);
    }
    fn date(&self, nanos: u64) -> u64 {
        match &self.clock {
            Some((arena, epoch)) => arena.header().clocks.shows(Clock::Realtime, nanos.wrapping_sub(*epoch)),
            None => nanos,
        }
    }
    fn is_left(&self) -> bool {
        // memfd_create(2), F_ADD_SEALS: EBUSY where somebody has it mapped so that it could be written.
        seal(&self.file, libc::F_SEAL_WRITE).is_ok()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Tree {
    /// mmap(2) of an object of the controller's: the file that is to be mapped in its place.
    pub(super) fn mmap(&mut self, asked: &Asked<'_>, call: calls::Mmap, outside: &mut dyn Outside) -> Result<Outcome, Errno> {
        let Some(Body::Socket(socket)) = self.objects.body(asked.posted.inode()) else { return Err(Errno(libc::ENODEV)) };
        let socket = *socket;
        // ksys_mmap_pgoff: "if (off & ~PAGE_MASK) return -EINVAL;"; do_mmap: "if (!len) return -EINVAL;"; packet_mmap: "if (vma->vm_pgoff) return -EINVAL;"
        let bytes = (call.len.0 as u64).checked_next_multiple_of(PAGE_BYTES).filter(|bytes| *bytes > 0).ok_or(Errno(libc::EINVAL))?;
        let clock = self.real.is_none().then(|| (Arc::clone(&self.arena), self.config.epoch_ns));
        let mut make = |bytes: u64| -> Result<Arc<dyn RingMemory>, Errno> { Ok(Arc::new(RingFile::new(bytes, clock.clone())?)) };
        // Other sockets have no memory whatever the place.
        let memory = outside.stack().map_ring(socket, if call.off.get() == 0 { bytes } else { 0 }, &mut make)?;
        let file = memory.as_any().downcast_ref::<RingFile>().ok_or(Errno(libc::ENODEV))?;
        let file = file.file.try_clone().map_err(|_| Errno(libc::ENFILE))?;
        self.maps_rings = true;
        let inode = sys::inode(file.as_fd())? & abi::INODE;
        Ok(Outcome::Descriptor { file: file.into(), word: kind::FILE << 56 | inode, close_on_exec: true })
    }

    /// Does a program have the ring of a socket mapped, which keeps the socket open (`vma->vm_file`)?
    pub(super) fn is_mapped(&self, inode: u64, outside: &mut dyn Outside) -> bool {
        match self.objects.body(inode) {
            Some(Body::Socket(socket)) if self.maps_rings => outside.stack().ring_memory(*socket).is_some_and(|memory| !memory.is_left()),
            _ => false,
        }
    }
}
