//! The controller's view of a node's arena: mapping, and the two futexes by which the processor goes back and forth.

use super::error::StartError;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;
use weft_intercept::sys::Errno;
use weft_loader::abi::{self, Channel, Header, Mirror, Process};

/// The mapped arena.
#[derive(Debug)]
pub(super) struct Arena {
    base: *mut u8,
}

// SAFETY: the mapping belongs to this value; what it hands out is atomic, or bytes behind the protocol of `abi`.
unsafe impl Send for Arena {}
// SAFETY: as above; shared references change atomics and areas only.
unsafe impl Sync for Arena {}

/// A memfd with this name.
pub(super) fn memory_file(name: &std::ffi::CStr, flags: libc::c_uint) -> Result<OwnedFd, Errno> {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    if fd < 0 {
        return Err(weft_intercept::sys::last());
    }
    // SAFETY: new, and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn not_made(errno: Errno) -> StartError {
    StartError::Step { step: "make the memory that is shared with programs", errno }
}

impl Arena {
    /// A new arena, and its memory file, which is needed only until process 1 has it.
    pub fn new() -> Result<(Arena, OwnedFd), StartError> {
        let memory = Arena::file().map_err(not_made)?;
        Ok((Arena::map(&memory).map_err(not_made)?, memory))
    }

    /// The memory file of an arena; nobody can make it smaller.
    pub fn file() -> Result<OwnedFd, Errno> {
        let memory = memory_file(c"weft-arena", libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)?;
        // SAFETY: takes no pointers.
        if unsafe {
            libc::ftruncate(memory.as_raw_fd(), abi::ARENA_BYTES as i64) < 0
                || libc::fcntl(memory.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW) < 0
        } {
            return Err(weft_intercept::sys::last());
        }
        Ok(memory)
    }

    /// Maps what [`Arena::file`] has made, here or elsewhere.
    pub fn map(memory: &OwnedFd) -> Result<Arena, Errno> {
        // SAFETY: an all-zero stat is valid, and ours; the other takes no pointers.
        let (size, seals) = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            libc::fstat(memory.as_raw_fd(), &raw mut stat);
            (stat.st_size, libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS))
        };
        // A file that somebody makes smaller would end whoever has mapped it.
        if size != abi::ARENA_BYTES as i64 || seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: a new mapping wherever there is room.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                abi::ARENA_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                memory.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(weft_intercept::sys::last());
        }
        let arena = Arena { base: base.cast() };
        arena.header().magic.store(abi::MAGIC, Relaxed);
        Ok(arena)
    }

    pub fn header(&self) -> &Header {
        // SAFETY: the first page of the mapping, which lives as long as `self`; all fields are atomic or areas.
        unsafe { &*self.base.cast() }
    }
    pub fn process(&self, index: usize) -> &Process {
        // SAFETY: inside the mapping, aligned to a page; as in `header`.
        unsafe { &*self.base.add(abi::process_at(index % abi::PROCESSES_MAX)).cast() }
    }
    pub fn channel(&self, index: usize) -> &Channel {
        // SAFETY: as in `process`.
        unsafe { &*self.base.add(abi::channel_at(index % abi::CHANNELS_MAX)).cast() }
    }
    pub fn mirror(&self, index: usize) -> &Mirror {
        // SAFETY: as in `process`.
        unsafe { &*self.base.add(abi::mirror_at(index % abi::MIRRORS)).cast() }
    }
    /// Writes what a program is started with; false when it does not fit.
    pub fn put_spawn(&self, bytes: &[u8]) -> bool {
        if bytes.len() > abi::SPAWN_BYTES {
            return false;
        }
        // SAFETY: inside the mapping; init reads it when it is told to.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(abi::spawn_at()), bytes.len()) };
        true
    }

    /// Forgets who used a channel before.
    pub fn clear_channel(&self, index: usize, process: usize) {
        let channel = self.channel(index);
        channel.word.store(abi::RUNNING, Relaxed);
        for word in [
            &channel.alive,
            &channel.sleeps,
            &channel.tid,
            &channel.signal,
            &channel.writes,
            &channel.answer,
            &channel.logged,
            &channel.log_bytes,
        ] {
            word.store(0, Relaxed);
        }
        for word in [&channel.mask, &channel.pending, &channel.cpu, &channel.resumed] {
            word.store(0, Relaxed);
        }
        channel.process.store(process as u32, Relaxed);
    }
    /// Forgets who used a process's slot before.
    pub fn clear_process(&self, index: usize, key: [u64; 4], limits: &[[u64; 2]; abi::LIMITS.len()]) {
        let slot = self.process(index);
        slot.pid.store(0, Relaxed);
        slot.cpu.store(0, Relaxed);
        slot.nice.store(0, Relaxed);
        slot.random_used.store(0, Relaxed);
        for (word, value) in slot.random_key.iter().zip(key) {
            word.store(value, Relaxed);
        }
        // Root, with all rights.
        let words = slot.users.iter().chain(&slot.groups).chain([&slot.group_count, &slot.keep_capabilities]);
        words.for_each(|word| word.store(0, Relaxed));
        slot.capabilities_off.iter().chain([&slot.inheritable]).for_each(|word| word.store(0, Relaxed));
        for (word, value) in slot.limits.iter().flatten().zip(limits.iter().flatten()) {
            word.store(*value, Relaxed);
        }
        for action in &slot.actions {
            for word in [&action.handler, &action.flags, &action.restorer, &action.mask] {
                word.store(0, Relaxed);
            }
        }
    }

    /// Files and folders that programs have opened, by their paths in the node.
    pub fn seen(&self) -> Vec<std::path::PathBuf> {
        // SAFETY: inside the mapping, aligned, and made of atomics only.
        let seen = unsafe { &*self.base.add(abi::seen_at()).cast::<abi::Seen>() };
        let used = (seen.used.load(Relaxed) as usize).min(abi::SEEN_BYTES);
        let names: Vec<u8> = seen.names[..used].iter().map(|byte| byte.load(Relaxed)).collect();
        let paths = names.split(|byte| *byte == 0).filter(|path| path.first() == Some(&b'/'));
        paths.map(|path| std::ffi::OsStr::from_bytes(path).into()).collect()
    }

    fn files(&self) -> &abi::Files {
        // SAFETY: inside the mapping, aligned, and made of atomics only.
        unsafe { &*self.base.add(abi::files_at()).cast::<abi::Files>() }
    }
    /// Has a process this capability, by its number (linux/capability.h)?
    pub fn may(&self, process: usize, capability: u32) -> bool {
        self.process(process).capabilities_off[0].load(Relaxed) & 1 << capability == 0
    }

    /// Whose a file is, by what the host calls it: user and group.
    pub fn owner_of(&self, inode: u64, device: u64) -> [u32; 2] {
        self.files().number(inode, device).map_or([0, 0], |number| self.files().owner(number))
    }
    /// Says whose a file is.
    pub fn give_file(&self, inode: u64, device: u64, owner: [u32; 2]) {
        if let Some(number) = self.files().number(inode, device) {
            self.files().give(number, owner);
        }
    }

    /// The number that programs know a file by, if they know it.
    pub fn known_file(&self, inode: u64, device: u64) -> Option<u64> {
        self.files().known(inode, device)
    }
    /// What programs know by this number is another file now, which they have not seen.
    pub fn is_now(&self, number: u64, inode: u64, device: u64) {
        self.files().is_now(number, inode, device);
    }

    /// Lets a thread go on with the answer in its channel.
    pub fn release(&self, index: usize) {
        let channel = self.channel(index);
        channel.word.store(abi::ANSWERED, SeqCst);
        // As in the other direction: who sleeps says so first.
        if channel.sleeps.load(SeqCst) != 0 {
            futex_wake(&channel.word);
        }
    }
    /// Says how a thread's call is doing, in real time.
    pub fn say(&self, index: usize, state: u32) {
        let word = &self.channel(index).word;
        word.store(state, Release);
        futex_wake(word);
    }
    /// Has the thread posted a call?
    pub fn has_posted(&self, index: usize) -> bool {
        self.channel(index).word.load(Acquire) == abi::POSTED
    }
    /// Waits until a thread has posted a call, at most so long. True: it has.
    pub fn wait_posted(&self, index: usize, limit: Duration) -> bool {
        let controller = &self.header().controller;
        let seen = controller.load(SeqCst);
        if self.has_posted(index) {
            return true;
        }
        self.header().controller_sleeps.store(1, SeqCst);
        futex_wait(controller, seen, limit);
        self.header().controller_sleeps.store(0, Relaxed);
        self.has_posted(index)
    }
    /// Waits until the kernel has cleared a thread's word: it is gone. False: it is still there after `limit`.
    pub fn wait_gone(&self, index: usize, limit: Duration) -> bool {
        let alive = &self.channel(index).alive;
        let seen = alive.load(Acquire);
        if seen != 0 {
            futex_wait(alive, seen, limit);
        }
        alive.load(Acquire) == 0
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; no reference outlives `self`.
        unsafe { libc::munmap(self.base.cast(), abi::ARENA_BYTES) };
    }
}

fn futex_wake(word: &std::sync::atomic::AtomicU32) {
    // SAFETY: the word is mapped; waking reads nothing.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1, 0, 0, 0) };
}

fn futex_wait(word: &std::sync::atomic::AtomicU32, seen: u32, limit: Duration) {
    let limit = libc::timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    // SAFETY: the word is mapped and the time is ours.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, &raw const limit, 0, 0) };
}
