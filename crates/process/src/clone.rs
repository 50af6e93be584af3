//! A new process that executes the loader: process 1 of a node, or a nursery.

use super::arena::memory_file;
use super::error::StartError;
use super::limits::{DESCRIPTORS_MAX, LIMITS, Limits, TOO_MANY_DESCRIPTORS};
use super::users::{NOBODY, Users};
use std::ffi::CStr;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicU32};
use std::sync::{Arc, OnceLock};
use weft_intercept::sys::{self, Errno};
use weft_loader::abi;

/// The loader, sealed, for all nodes.
pub(super) fn loader() -> Result<&'static OwnedFd, Errno> {
    static LOADER: OnceLock<Result<OwnedFd, Errno>> = OnceLock::new();
    let made = LOADER.get_or_init(|| {
        let memory = memory_file(c"weft-loader", libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)?;
        let mut file = std::fs::File::from(memory.try_clone().map_err(|_| sys::last())?);
        file.write_all(weft_loader::IMAGE).map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
        let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
        // SAFETY: takes no pointers.
        unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_ADD_SEALS, seals) };
        Ok(memory)
    });
    made.as_ref().map_err(|errno| *errno)
}

/// What the new process does before it executes the loader. It shares our memory and has a stack of its own.
struct NewProcess {
    /// Which get which number: some of the four from [`abi::DESCRIPTOR_COMMANDS`] on.
    descriptors: Vec<(i32, i32)>,
    cpu: Option<usize>,
    /// Files under /proc/self and what is written there, for a user namespace. Before the loader is executed: execve takes all rights from
    /// a user that has no number in the namespace.
    maps: Vec<(&'static CStr, Vec<u8>)>,
    /// Instead of that, root's maps are written from outside; then this process becomes the user of the namespace. Its number outside is
    /// there before it runs, and it says here that it waits.
    mapped: Option<Mapping>,
    /// Of programs; none: this process makes others, which get theirs then.
    limits: Option<Limits>,
    /// errno, and what was tried.
    failed: (i32, &'static str),
}

/// Bytes of the stack on which [`begin`] runs.
const STACK_BYTES: usize = 64 * 1024;

extern "C" fn begin(new: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `clone_loader` passes its `NewProcess`, for a process 1 or a nursery, and waits (CLONE_VFORK) until this process has executed or ended. Only system calls here.
    unsafe {
        let new = &mut *new.cast::<NewProcess>();
        if let Some(mapping) = &new.mapped
            && let Err(errno) = mapping.wait_and_become()
        {
            new.failed = (errno, "become the user of a user namespace");
            return 1;
        }
        for (path, text) in &new.maps {
            let fd = libc::open(path.as_ptr(), libc::O_WRONLY);
            if libc::write(fd, text.as_ptr().cast(), text.len()) < 0 {
                new.failed = (*libc::__errno_location(), "write the maps of a user namespace");
                return 1;
            }
            libc::close(fd);
        }
        // /proc/1/map_files shows where the loader lies.
        libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        // The host's own limit must not show.
        let most = limit.rlim_max.min(DESCRIPTORS_MAX);
        let usual = match new.limits.and_then(|limits| limits.descriptors).map(libc::rlim_t::from) {
            Some(wanted) if wanted > limit.rlim_max => {
                new.failed = (libc::EPERM, TOO_MANY_DESCRIPTORS);
                return 1;
            }
            Some(wanted) => libc::rlimit { rlim_cur: wanted, rlim_max: wanted },
            None => libc::rlimit { rlim_cur: 1024, rlim_max: most },
        };
        let wide = libc::rlimit { rlim_cur: most.max(1200).min(limit.rlim_max), rlim_max: limit.rlim_max };
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wide);
        // Out of the way first: the numbers may be each other's.
        for (from, _) in &mut new.descriptors {
            let above = libc::fcntl(*from, libc::F_DUPFD, abi::DESCRIPTOR_CONTROL + 1);
            // Where the limit lets none be above, there is room below.
            *from = if above >= 0 { above } else { libc::fcntl(*from, libc::F_DUPFD, 3) };
            if *from < 0 || (abi::DESCRIPTOR_COMMANDS..=abi::DESCRIPTOR_CONTROL).contains(from) {
                new.failed = (libc::EMFILE, "move descriptors");
                return 1;
            }
        }
        for number in abi::DESCRIPTOR_COMMANDS..=abi::DESCRIPTOR_CONTROL {
            match new.descriptors.iter().find(|(_, to)| *to == number) {
                Some((from, to)) => libc::dup2(*from, *to),
                None => libc::close(number),
            };
        }
        libc::syscall(libc::SYS_close_range, 3, abi::DESCRIPTOR_COMMANDS - 1, 0);
        libc::syscall(libc::SYS_close_range, abi::DESCRIPTOR_CONTROL + 1, u32::MAX, 0);
        if new.limits.is_some() {
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const usual);
        }
        for (which, soft) in LIMITS {
            libc::getrlimit(which, &raw mut limit);
            // Where the host allows less, that is what there is.
            limit.rlim_cur = soft.min(limit.rlim_max);
            if let (libc::RLIMIT_DATA, Some(bytes)) = (which, new.limits.and_then(|limits| limits.memory)) {
                let bytes = bytes + abi::own_share(abi::LIMIT_DATA);
                limit = libc::rlimit { rlim_cur: bytes.min(limit.rlim_max), rlim_max: bytes.min(limit.rlim_max) };
            }
            libc::setrlimit(which, &raw const limit);
        }
        libc::setsid();
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        if let Some(cpu) = new.cpu {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
        let arguments = [c"weft-init".as_ptr(), std::ptr::null()];
        let environment: [*const libc::c_char; 1] = [std::ptr::null()];
        libc::syscall(
            libc::SYS_execveat,
            abi::DESCRIPTOR_LOADER,
            c"".as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
        new.failed = (*libc::__errno_location(), "execute the loader");
        1
    }
}

/// Makes process 1 and waits until it has executed the loader, or has failed.
fn clone_init(new: &mut NewProcess, namespaces: libc::c_int) -> libc::pid_t {
    let mut stack = vec![0_u64; STACK_BYTES / 8];
    let number = new.mapped.as_ref().map_or(std::ptr::null_mut(), |mapping| mapping.pid.as_ptr());
    let tell = if number.is_null() { 0 } else { libc::CLONE_PARENT_SETTID };
    let top = stack.len() - 2;
    // SAFETY: the stack is ours and large enough; `begin` makes system calls only, and the parent waits until it is done with the stack; the
    // number is an atomic that `new` shares.
    unsafe {
        libc::clone(
            begin,
            stack.as_mut_ptr().add(top).cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD | tell | namespaces,
            (&raw mut *new).cast(),
            number,
        )
    }
}

/// Executes the loader in a new process that has these namespaces and descriptors (and the loader's own image), and returns when it runs.
pub(super) fn clone_loader(
    cpu: Option<usize>,
    limits: Option<Limits>,
    descriptors: &[(&OwnedFd, i32)],
    namespaces: libc::c_int,
    users: Users,
) -> Result<libc::pid_t, StartError> {
    let step = |step| move |errno| StartError::Step { step, errno };
    let [_, most] = sys::limit_of(0, libc::RLIMIT_NOFILE).unwrap_or([u64::MAX; 2]);
    if most <= abi::DESCRIPTOR_CONTROL as u64 {
        return Err(StartError::FewDescriptors { most });
    }
    let image = loader().map_err(step("make the loader's memory file"))?;
    // SAFETY: takes no pointers.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let maps = match users {
        Users::OnlyMe => vec![
            (c"/proc/self/setgroups", b"deny".to_vec()),
            (c"/proc/self/uid_map", format!("0 {user} 1").into_bytes()),
            (c"/proc/self/gid_map", format!("0 {group} 1").into_bytes()),
        ],
        Users::Ours | Users::OnlyNobody => Vec::new(),
    };
    let mapped = matches!(users, Users::OnlyNobody).then(Mapping::default);
    let descriptors = descriptors.iter().map(|(fd, number)| (fd.as_raw_fd(), *number));
    let descriptors = descriptors.chain([(image.as_raw_fd(), abi::DESCRIPTOR_LOADER)]).collect();
    let mut new = NewProcess { descriptors, cpu, maps, mapped, limits, failed: (0, "") };
    let mapping = new.mapped.clone();
    let pid = std::thread::scope(|scope| {
        if let Some(mapping) = &mapping {
            scope.spawn(|| mapping.serve());
        }
        let pid = clone_init(&mut new, namespaces);
        if let Some(mapping) = &mapping {
            mapping.over();
        }
        pid
    });
    if pid < 0 {
        return Err(step("make the namespaces of a node (user namespaces must be allowed)")(sys::last()));
    }
    if new.failed.0 != 0 {
        let _ = sys::wait(pid, 0);
        return Err(step(new.failed.1)(Errno(new.failed.0)));
    }
    Ok(pid)
}

/// How the maps of root's user namespace are written: by a thread, since who makes the process waits for it.
#[derive(Clone, Default)]
struct Mapping(Arc<Turns>);

#[derive(Default)]
struct Turns {
    pid: AtomicI32,
    /// 0: nobody waits; 1: the process does; 2: the maps are written; 3: they could not be, or are not needed any more.
    state: AtomicU32,
    errno: AtomicI32,
}

impl std::ops::Deref for Mapping {
    type Target = Turns;
    fn deref(&self) -> &Turns {
        &self.0
    }
}

impl Turns {
    fn say(&self, state: u32) {
        self.state.store(state, SeqCst);
        // SAFETY: a word of ours. Not a private futex: the other side may be another process.
        unsafe { libc::syscall(libc::SYS_futex, self.state.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }
    fn wait_while(&self, old: u32) -> u32 {
        loop {
            let state = self.state.load(SeqCst);
            if state != old {
                return state;
            }
            // SAFETY: a word of ours.
            unsafe { libc::syscall(libc::SYS_futex, self.state.as_ptr(), libc::FUTEX_WAIT, old, std::ptr::null::<libc::timespec>()) };
        }
    }
    /// In the new process: only system calls.
    fn wait_and_become(&self) -> Result<(), i32> {
        self.say(1);
        if self.wait_while(1) != 2 {
            return Err(self.errno.load(SeqCst));
        }
        // SAFETY: they take no pointers but an empty list. The calls themselves: libc's would have all threads of the controller follow.
        let failed = unsafe {
            libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) != 0
                || libc::syscall(libc::SYS_setresgid, 0, 0, 0) != 0
                || libc::syscall(libc::SYS_setresuid, 0, 0, 0) != 0
        };
        if failed { Err(sys::last().0) } else { Ok(()) }
    }
    /// In a thread beside.
    fn serve(&self) {
        if self.wait_while(0) != 1 {
            return;
        }
        let pid = self.pid.load(SeqCst);
        let map = format!("0 {NOBODY} 1");
        let written = ["uid_map", "gid_map"].iter().try_for_each(|name| std::fs::write(format!("/proc/{pid}/{name}"), &map));
        if let Err(error) = &written {
            self.errno.store(error.raw_os_error().unwrap_or(libc::EIO), SeqCst);
        }
        self.say(if written.is_ok() { 2 } else { 3 });
    }
    /// The process runs, or there is none.
    fn over(&self) {
        if self.state.load(SeqCst) == 0 {
            self.say(3);
        }
    }
}
