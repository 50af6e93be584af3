//! Starting a program in real time: what the loader finds at fixed numbers.

use super::super::error::StartError;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use weft_intercept::replace::Replace;
use weft_intercept::sys::{self, Errno};
use weft_loader::abi::{self, strict};

/// The controller's part of a tree in real time, which may be in another process than the one that starts the program.
#[derive(Debug)]
pub struct Parts {
    pub(super) arena: OwnedFd,
    pub(super) control: OwnedFd,
    pub(super) bell: OwnedFd,
}

impl Parts {
    /// To send them.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [self.arena.as_fd(), self.control.as_fd(), self.bell.as_fd()]
    }
    /// When they were sent.
    pub fn from_descriptors([arena, control, bell]: [OwnedFd; 3]) -> Parts {
        Parts { arena, control, bell }
    }
}

/// What is needed between fork and exec to execute the loader in a program's place.
#[derive(Debug)]
pub struct Loading {
    arena: OwnedFd,
    control: OwnedFd,
    bell: OwnedFd,
    image: BorrowedFd<'static>,
    next: OwnedFd,
}

impl Loading {
    /// For a program that is looked up in `path` (the variable PATH) when it has no slash, and the controller's part, for [`Tree::real`].
    ///
    /// # Errors
    /// [`StartError::Execute`]: there is no such program. Others when there is no memory, or no descriptor.
    ///
    /// [`Tree::real`]: super::Tree::real
    pub fn new(name: &CStr, path: Option<&[u8]>) -> Result<(Loading, Parts), StartError> {
        let failed = |step| move |errno| StartError::Step { step, errno };
        let program = find(name, path)?;
        let [_, most] = sys::limit_of(0, libc::RLIMIT_NOFILE).map_err(failed("look at the limit of descriptors"))?;
        if most <= abi::DESCRIPTOR_CONTROL as u64 {
            return Err(StartError::Descriptors { most });
        }
        let image = crate::clone::loader().map_err(failed("make the loader's memory file"))?.as_fd();
        let next = next(&program).map_err(failed("make a memory file"))?;
        let arena = crate::arena::Arena::file().map_err(failed("make the memory that is shared with programs"))?;
        let (control, theirs) = sys::unix_pair(libc::SOCK_SEQPACKET).map_err(failed("make a socket pair"))?;
        let bell = sys::event(0).map_err(failed("make an eventfd"))?;
        let copy =
            |fd: &OwnedFd| fd.try_clone().map_err(|error| failed("copy a descriptor")(Errno(error.raw_os_error().unwrap_or(libc::EMFILE))));
        let parts = Parts { arena: copy(&arena)?, control, bell: copy(&bell)? };
        Ok((Loading { arena, control: theirs, bell, image, next }, parts))
    }
}

/// execvp(3)'s search.
fn find(name: &CStr, path: Option<&[u8]>) -> Result<CString, StartError> {
    let failed = |errno| StartError::Execute { program: name.to_string_lossy().into_owned(), errno };
    // SAFETY: a C string.
    let allowed = |path: &CStr| if unsafe { libc::access(path.as_ptr(), libc::X_OK) } == 0 { Ok(()) } else { Err(sys::last()) };
    if name.to_bytes().contains(&b'/') {
        return allowed(name).map(|()| name.to_owned()).map_err(failed);
    }
    let mut best = Errno(libc::ENOENT);
    for folder in path.unwrap_or(b"/usr/local/bin:/usr/bin:/bin").split(|byte| *byte == b':') {
        let folder = if folder.is_empty() { b"." } else { folder };
        let Ok(candidate) = CString::new([folder, b"/", name.to_bytes()].concat()) else { continue };
        match allowed(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(Errno(libc::EACCES)) => best = Errno(libc::EACCES),
            Err(_) => {}
        }
    }
    Err(failed(best))
}

/// Tells the loader what to execute, as `abi::strict::Next` has it.
fn next(program: &CStr) -> Result<OwnedFd, Errno> {
    use std::os::unix::fs::FileExt as _;
    let memory = crate::arena::memory_file(c"weft-next", libc::MFD_CLOEXEC)?;
    let mut bytes = vec![0; size_of::<strict::Next>()];
    bytes[..8].copy_from_slice(&strict::NEXT_MAGIC.to_ne_bytes());
    let at = std::mem::offset_of!(strict::Next, target);
    let name = program.to_bytes();
    if name.len() >= abi::PATH_BYTES {
        return Err(Errno(libc::ENAMETOOLONG));
    }
    bytes[at..at + name.len()].copy_from_slice(name);
    let file = std::fs::File::from(memory);
    file.write_all_at(&bytes, 0).map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
    Ok(file.into())
}

/// What the loader takes of the limits of memory comes on top of them. A hard limit that may not be raised is what there is for both.
fn make_room() {
    let more = |limit: u64, share: u64| if limit == libc::RLIM_INFINITY { limit } else { limit.saturating_add(share) };
    for (which, share) in abi::OWN_SHARE {
        let which = which as libc::__rlimit_resource_t;
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: system calls with pointers to locals.
        unsafe {
            libc::getrlimit(which, &raw mut limit);
            let [soft, hard] = [limit.rlim_cur, limit.rlim_max].map(|limit| more(limit, share));
            if libc::setrlimit(which, &libc::rlimit { rlim_cur: soft, rlim_max: hard }) != 0 {
                limit.rlim_cur = soft.min(limit.rlim_max);
                libc::setrlimit(which, &raw const limit);
            }
        }
    }
}

// SAFETY: system calls alone, on what was opened before.
unsafe impl Replace for Loading {
    /// Puts everything in its place and executes the loader.
    unsafe fn execute(&self, arguments: *const *const libc::c_char, environment: *const *const libc::c_char) -> Errno {
        let places = [
            (self.next.as_raw_fd(), abi::DESCRIPTOR_NEXT),
            (self.bell.as_raw_fd(), abi::DESCRIPTOR_BELL),
            (self.image.as_raw_fd(), abi::DESCRIPTOR_LOADER),
            (self.arena.as_raw_fd(), abi::DESCRIPTOR_ARENA),
            (self.control.as_raw_fd(), abi::DESCRIPTOR_CONTROL),
        ];
        // SAFETY: system calls with pointers to locals, and what the caller promises.
        unsafe {
            let mut limit: libc::rlimit = std::mem::zeroed();
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
            let wide = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wide);
            // Out of the way first: the numbers may be each other's. The limit may leave none above the places.
            let mut moved = places;
            for (from, _) in &mut moved {
                *from = libc::fcntl(*from, libc::F_DUPFD_CLOEXEC, 3);
                if *from < 0 {
                    return sys::last();
                }
            }
            for (from, to) in moved {
                if libc::dup2(from, to) < 0 {
                    return sys::last();
                }
            }
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
            make_room();
            // The places of the loader and of programs are fixed (`guest/elf.rs`).
            let persona = libc::personality(0xffff_ffff);
            libc::personality((persona | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong);
            libc::syscall(libc::SYS_execveat, abi::DESCRIPTOR_LOADER, c"".as_ptr(), arguments, environment, libc::AT_EMPTY_PATH);
            sys::last()
        }
    }
}
