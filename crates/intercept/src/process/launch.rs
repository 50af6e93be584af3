//! Process 1 of a node, and starting programs below it.

use super::arena::{Arena, memory_file};
use super::config::{Config, Spawn};
use super::error::StartError;
use super::nursery::Nursery;
use super::processor;
use super::root::{Next, Unlaid};
use crate::arch;
use crate::sys::{self, Errno};
use std::collections::hash_map::RandomState;
use std::ffi::{CStr, CString, OsString};
use std::hash::BuildHasher as _;
use std::io::{IoSlice, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicU32};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use weft_loader::abi;

/// How long init may take to be ready: it does a handful of calls.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Process 1 of a node.
#[derive(Debug)]
pub(super) struct Init {
    pid: libc::pid_t,
    /// Who made it, and is there for the next.
    pub nursery: Option<Arc<Nursery>>,
    /// Folders of the host's over which nothing is laid.
    unlaid: Unlaid,
    /// The other end of [`abi::DESCRIPTOR_CONTROL`].
    pub control: OwnedFd,
    /// The other end of [`abi::DESCRIPTOR_COMMANDS`].
    commands: OwnedFd,
    /// The node's layer, if it is kept.
    pub layer: Option<OwnedFd>,
}

/// What came of laying the node's own files over folders.
pub(super) struct Laid {
    /// Over so many.
    pub wanted: usize,
    /// Those that have nothing now, either, and why.
    pub missing: Vec<(OsString, Errno)>,
}

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
struct Plan {
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
    limits: Option<super::config::Limits>,
    /// errno, and what was tried.
    failed: (i32, &'static str),
}

/// RLIMIT_NOFILE that programs can raise theirs to, where the host allows as many.
const DESCRIPTORS_MAX: libc::rlim_t = 65_536;

/// What programs begin with instead of what weft was started with. Limits that count what other processes of the same user have (processes, locked memory,
/// signals) stay the host's, and the loader says what they are.
const LIMITS: [(libc::__rlimit_resource_t, libc::rlim_t); 7] = [
    (libc::RLIMIT_CPU, libc::RLIM_INFINITY),
    (libc::RLIMIT_FSIZE, libc::RLIM_INFINITY),
    (libc::RLIMIT_DATA, libc::RLIM_INFINITY),
    (libc::RLIMIT_STACK, 8 << 20),
    (libc::RLIMIT_CORE, 0),
    (libc::RLIMIT_RSS, libc::RLIM_INFINITY),
    (libc::RLIMIT_AS, libc::RLIM_INFINITY),
];

const TOO_MANY_DESCRIPTORS: &str = "allow programs so many descriptors (the host's hard limit is lower)";

/// Bytes of the stack on which [`begin`] runs.
const STACK_BYTES: usize = 64 * 1024;

extern "C" fn begin(plan: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `clone_loader` passes its plan, for a process 1 or a nursery, and waits (CLONE_VFORK) until this process has executed or ended. Only system calls here.
    unsafe {
        let plan = &mut *plan.cast::<Plan>();
        if let Some(mapping) = &plan.mapped
            && let Err(errno) = mapping.wait_and_become()
        {
            plan.failed = (errno, "become the user of a user namespace");
            return 1;
        }
        for (path, text) in &plan.maps {
            let fd = libc::open(path.as_ptr(), libc::O_WRONLY);
            if libc::write(fd, text.as_ptr().cast(), text.len()) < 0 {
                plan.failed = (*libc::__errno_location(), "write the maps of a user namespace");
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
        let usual = match plan.limits.and_then(|limits| limits.descriptors).map(libc::rlim_t::from) {
            Some(wanted) if wanted > limit.rlim_max => {
                plan.failed = (libc::EPERM, TOO_MANY_DESCRIPTORS);
                return 1;
            }
            Some(wanted) => libc::rlimit { rlim_cur: wanted, rlim_max: wanted },
            None => libc::rlimit { rlim_cur: 1024, rlim_max: most },
        };
        let wide = libc::rlimit { rlim_cur: most.max(1200).min(limit.rlim_max), rlim_max: limit.rlim_max };
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wide);
        // Out of the way first: the numbers may be each other's.
        for (from, _) in &mut plan.descriptors {
            *from = libc::fcntl(*from, libc::F_DUPFD, 1100);
            if *from < 0 {
                plan.failed = (*libc::__errno_location(), "move descriptors");
                return 1;
            }
        }
        for number in abi::DESCRIPTOR_COMMANDS..=abi::DESCRIPTOR_CONTROL {
            match plan.descriptors.iter().find(|(_, to)| *to == number) {
                Some((from, to)) => libc::dup2(*from, *to),
                None => libc::close(number),
            };
        }
        libc::syscall(libc::SYS_close_range, 3, abi::DESCRIPTOR_COMMANDS - 1, 0);
        libc::syscall(libc::SYS_close_range, abi::DESCRIPTOR_CONTROL + 1, u32::MAX, 0);
        if plan.limits.is_some() {
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const usual);
        }
        for (which, soft) in LIMITS {
            libc::getrlimit(which, &raw mut limit);
            // Where the host allows less, that is what there is.
            limit.rlim_cur = soft.min(limit.rlim_max);
            if let (libc::RLIMIT_DATA, Some(bytes)) = (which, plan.limits.and_then(|limits| limits.memory)) {
                let bytes = bytes + abi::own_share(abi::LIMIT_DATA);
                limit = libc::rlimit { rlim_cur: bytes.min(limit.rlim_max), rlim_max: bytes.min(limit.rlim_max) };
            }
            libc::setrlimit(which, &raw const limit);
        }
        libc::setsid();
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        if let Some(cpu) = plan.cpu {
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
        plan.failed = (*libc::__errno_location(), "execute the loader");
        1
    }
}

/// Makes process 1 and waits until it has executed the loader, or has failed.
fn clone_init(plan: &mut Plan, namespaces: libc::c_int) -> libc::pid_t {
    let mut stack = vec![0_u64; STACK_BYTES / 8];
    let number = plan.mapped.as_ref().map_or(std::ptr::null_mut(), |mapping| mapping.pid.as_ptr());
    let tell = if number.is_null() { 0 } else { libc::CLONE_PARENT_SETTID };
    let top = stack.len() - 2;
    // SAFETY: the stack is ours and large enough; `begin` makes system calls only, and the parent waits until it is done with the stack; the
    // number is an atomic that the plan shares.
    unsafe {
        libc::clone(
            begin,
            stack.as_mut_ptr().add(top).cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD | tell | namespaces,
            (&raw mut *plan).cast(),
            number,
        )
    }
}

/// Soft and hard limit of descriptors for the kernel, and bytes of memory; `u64::MAX`: as it is.
pub(super) fn limits_of(wanted: super::config::Limits) -> Result<([u64; 2], u64), StartError> {
    let [_, hard] = sys::limit_of(0, libc::RLIMIT_NOFILE).unwrap_or([0; 2]);
    let descriptors = match wanted.descriptors.map(u64::from) {
        Some(wanted) if wanted > hard => return Err(StartError::Step { step: TOO_MANY_DESCRIPTORS, errno: Errno(libc::EPERM) }),
        Some(wanted) => [wanted; 2],
        None => [1024.min(hard), hard],
    };
    Ok((descriptors, wanted.memory.map_or(u64::MAX, |bytes| bytes + abi::own_share(abi::LIMIT_DATA))))
}

/// What a node's programs see as their limits at first.
pub(super) fn first_limits(wanted: super::config::Limits) -> [[u64; 2]; abi::LIMITS.len()] {
    let mut limits = abi::LIMITS;
    if let Some(count) = wanted.descriptors {
        limits[abi::LIMIT_DESCRIPTORS] = [count.into(); 2];
    }
    if let Some(bytes) = wanted.memory {
        limits[abi::LIMIT_DATA] = [bytes; 2];
    }
    limits
}

/// Root's hard limits: as far as programs may raise theirs. Whoever is not root keeps what there is.
pub(super) fn widen_limits() {
    let wanted = LIMITS.map(|(which, _)| (which, libc::RLIM_INFINITY)).into_iter().chain([(libc::RLIMIT_NOFILE, abi::DESCRIPTORS_HARD)]);
    for (which, hard) in wanted {
        let Ok([soft, now]) = sys::limit_of(0, which) else { continue };
        if now < hard {
            let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
            // SAFETY: reads a limit of ours. The soft one, which holds for weft itself, stays.
            unsafe { libc::setrlimit(which, &raw const limit) };
        }
    }
}

/// Process 1 of a node without files of its own.
fn clone_alone(config: &Config, descriptors: &[(&OwnedFd, i32)]) -> Result<libc::pid_t, StartError> {
    let namespaces = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC | libc::CLONE_NEWNET;
    let (users, more) = if sys::is_root() { (Users::Ours, 0) } else { (Users::OnlyMe, libc::CLONE_NEWUSER) };
    clone_loader(config.cpu, Some(config.limits), descriptors, namespaces | more, users)
}

/// Which users a new process sees.
pub(super) enum Users {
    /// Those of the host: no user namespace.
    Ours,
    /// Whoever runs this, as root.
    OnlyMe,
    /// Nobody, as root, whoever runs this: for root, whose programs may then do with the host's files what anybody's may.
    OnlyNobody,
}

/// Executes the loader in a new process that has these namespaces and descriptors (and the loader's own image), and returns when it runs.
pub(super) fn clone_loader(
    cpu: Option<usize>,
    limits: Option<super::config::Limits>,
    descriptors: &[(&OwnedFd, i32)],
    namespaces: libc::c_int,
    users: Users,
) -> Result<libc::pid_t, StartError> {
    let step = |step| move |errno| StartError::Step { step, errno };
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
    let mut plan = Plan { descriptors, cpu, maps, mapped, limits, failed: (0, "") };
    let mapping = plan.mapped.clone();
    let pid = std::thread::scope(|scope| {
        if let Some(mapping) = &mapping {
            scope.spawn(|| mapping.serve());
        }
        let pid = clone_init(&mut plan, namespaces);
        if let Some(mapping) = &mapping {
            mapping.over();
        }
        pid
    });
    if pid < 0 {
        return Err(step("make the namespaces of a node (user namespaces must be allowed)")(sys::last()));
    }
    if plan.failed.0 != 0 {
        let _ = sys::wait(pid, 0);
        return Err(step(plan.failed.1)(Errno(plan.failed.0)));
    }
    Ok(pid)
}

/// The user and group outside that root's nodes run as.
pub(super) const NOBODY: u32 = 65_534;

/// How the maps of root's user namespace are written: by a thread, since who makes the process waits for it.
#[derive(Clone, Default)]
struct Mapping(std::sync::Arc<Turns>);

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

impl Init {
    /// In real time there is none, only its socket.
    pub fn none(control: OwnedFd) -> Result<Init, Errno> {
        sys::set_option(control.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1_i32.to_ne_bytes())?;
        let commands = control.try_clone().map_err(|_| sys::last())?;
        Ok(Init { pid: 0, nursery: None, unlaid: Unlaid::default(), control, commands, layer: None })
    }

    pub fn start(arena: &Arena, memory: &OwnedFd, config: &Config) -> Result<Init, StartError> {
        let step = |step| move |errno| StartError::Step { step, errno };
        let (control, theirs) = sys::unix_pair(libc::SOCK_SEQPACKET).map_err(step("make a socket pair"))?;
        let (commands, commanded) = sys::unix_pair(libc::SOCK_SEQPACKET).map_err(step("make a socket pair"))?;
        sys::set_option(control.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1_i32.to_ne_bytes()).map_err(step("ask for credentials"))?;
        let header = arena.header();
        header.exec_channel.store(u32::MAX, Relaxed);
        arch::tell_processor(&header.processor);
        let optional = [
            (config.tell_calls, abi::TELL_CALLS),
            (config.tell_writes, abi::TELL_WRITES),
            (config.trap_tsc, abi::TRAP_TSC),
            (config.debugged, abi::DEBUGGED),
            (config.gates, abi::GATES),
        ];
        let optional = optional.into_iter().filter(|(wanted, _)| *wanted).fold(0, |flags, (_, flag)| flags | flag);
        let proc = if config.files.is_some() { 0 } else { abi::MOUNT_PROC };
        header.flags.store(proc | abi::SET_NAME | optional, Relaxed);
        header.real_start.store(0, Relaxed);
        // Of 23 bits, and never 0: those who share a namespace have different ones, unless there were eight million nodes in between.
        static NODES: AtomicU32 = AtomicU32::new(0);
        let mark = NODES.fetch_add(1, Relaxed) % 0x7f_ffff + 1;
        header.mark.store(if config.files.is_some() { mark } else { 0 }, Relaxed);
        // Of 56 bits that are drawn: files of the host's are those of other worlds as well, and of their processes elsewhere.
        let drawn = RandomState::new().hash_one(mark) >> 8;
        let locks = (1 << 62) + drawn / abi::LOCKS_PLACE * abi::LOCKS_PLACE;
        header.locks.store(if config.files.is_some() { locks } else { 0 }, Relaxed);
        header.name.put(0, &[config.name.as_bytes(), &[0]].concat());
        let (pid, nursery, told) = match &config.files {
            Some(files) => {
                let nursery = Nursery::get(files)?;
                header.real_start.store(config.disk.before().map_or(nursery.born, |disk| disk.real_start), Relaxed);
                let born = nursery.bear(files, config, [memory.as_fd(), theirs.as_fd(), commanded.as_fd()])?;
                (born.pid, Some(nursery), Some(born))
            }
            None => (
                clone_alone(
                    config,
                    &[(memory, abi::DESCRIPTOR_ARENA), (&theirs, abi::DESCRIPTOR_CONTROL), (&commanded, abi::DESCRIPTOR_COMMANDS)],
                )?,
                None,
                None,
            ),
        };
        // Nobody but the process has them now: when it ends, its ends are closed.
        drop((theirs, commanded));
        let unlaid = told.as_ref().map(|born| born.steps.unlaid().clone()).unwrap_or_default();
        header.closed.store(unlaid.told(), Relaxed);
        let mut init = Init { pid, nursery, unlaid, control, commands, layer: None };
        if told.is_some() && config.disk.is_kept() {
            // What is wrong stands in the list.
            init.layer = super::disk::receive(&init, READY_LIMIT).ok();
        }
        let ready = init.announced(READY_LIMIT);
        if let (Some(born), Some(nursery)) = (told, &init.nursery) {
            nursery.learn(&born).map_err(StartError::undone)?;
        }
        match ready {
            Ok(_) => {
                if let Some(disk) = config.disk.before() {
                    disk.tell_owners(arena, &init);
                }
                Ok(init)
            }
            Err(errno) => Err(step("start process 1 of a node")(errno)),
        }
    }

    /// The node's files, as this process finds them.
    pub fn root(&self) -> PathBuf {
        format!("/proc/{}/root", self.pid).into()
    }

    /// The number of process 1 outside.
    pub fn outer(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Waits for a byte from a process of the node and says what number it has outside, and what came with it.
    pub fn announced(&self, limit: Duration) -> Result<(u32, Option<OwnedFd>), Errno> {
        let mut set = libc::pollfd { fd: self.control.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd of ours.
        if unsafe { libc::poll(&raw mut set, 1, limit.as_millis() as i32) } <= 0 {
            return Err(Errno(libc::ETIMEDOUT));
        }
        let mut byte = [0_u8];
        let mut vector = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut control = [0_u64; 8];
        // SAFETY: an all-zero msghdr is valid; it is then pointed at buffers of ours.
        let (received, credentials, handed) = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut vector;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control);
            let received = libc::recvmsg(self.control.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
            let (mut credentials, mut handed) = (None, None);
            let mut one = libc::CMSG_FIRSTHDR(&raw const message);
            while received > 0 && !one.is_null() {
                match (*one).cmsg_type {
                    libc::SCM_CREDENTIALS => credentials = Some(libc::CMSG_DATA(one).cast::<libc::ucred>().read_unaligned()),
                    libc::SCM_RIGHTS => handed = Some(OwnedFd::from_raw_fd(libc::CMSG_DATA(one).cast::<i32>().read_unaligned())),
                    _ => {}
                }
                one = libc::CMSG_NXTHDR(&raw const message, one);
            }
            (received, credentials, handed)
        };
        match credentials {
            Some(credentials) if received > 0 => Ok((credentials.pid as u32, handed)),
            _ => Err(Errno(libc::ESRCH)),
        }
    }

    /// Tells init to start what lies in the spawn area.
    pub fn spawn(&self, arena: &Arena, spec: &Spawn, channel: usize) -> Result<(), StartError> {
        let program = self.find_program(spec)?;
        let mut strings = Vec::new();
        let mut add = |text: &[u8]| {
            strings.extend_from_slice(text);
            strings.push(0);
        };
        let directory = spec.directory.as_os_str().as_encoded_bytes();
        add(if directory.is_empty() { b"/" } else { directory });
        add(program.as_bytes());
        spec.arguments.iter().for_each(|text| add(text.as_bytes()));
        spec.environment.iter().for_each(|text| add(text.as_bytes()));
        let counts = [spec.arguments.len(), spec.environment.len(), strings.len(), channel];
        let mut bytes: Vec<u8> = counts.into_iter().flat_map(|count| (count as u32).to_ne_bytes()).collect();
        bytes.extend(strings);
        if !arena.put_spawn(&bytes) {
            return Err(StartError::TooLong);
        }
        let descriptors = [&spec.descriptors[0], &spec.descriptors[1], &spec.descriptors[2]].map(AsFd::as_fd);
        send(self.commands.as_fd(), &[abi::COMMAND_SPAWN], &descriptors)
            .map_err(|errno| StartError::Step { step: "tell process 1 to start a program", errno })
    }

    /// execvp(3)'s search, with the program's own PATH, among the node's files.
    fn find_program(&self, spec: &Spawn) -> Result<CString, StartError> {
        let name = spec.arguments.first().ok_or(StartError::Empty)?;
        if name.as_bytes().contains(&b'/') {
            return Ok(name.clone());
        }
        let path = spec.environment.iter().find_map(|variable| variable.as_bytes().strip_prefix(b"PATH="));
        for folder in path.unwrap_or(b"/usr/local/bin:/usr/bin:/bin").split(|byte| *byte == b':') {
            let folder = if folder.is_empty() { b"." } else { folder };
            let Ok(candidate) = CString::new([folder, b"/", name.as_bytes()].concat()) else { continue };
            // The root of process 1 is the node's.
            let Ok(outside) = CString::new([format!("/proc/{}/root", self.pid).as_bytes(), candidate.as_bytes()].concat()) else {
                continue;
            };
            // SAFETY: C strings.
            if unsafe {
                libc::access(outside.as_ptr(), libc::X_OK) == 0
                    || libc::access(candidate.as_ptr(), libc::X_OK) == 0 && self.nursery.is_none()
            } {
                return Ok(candidate);
            }
        }
        Err(StartError::Execute { program: name.to_string_lossy().into_owned(), errno: Errno(libc::ENOENT) })
    }

    /// Whom it starts from now on runs on all processors that the calling thread may use, behind everybody else.
    pub fn roam(&self) {
        if self.pid != 0 {
            processor::place(self.pid, None);
            processor::slices(self.pid, processor::SLICE_LONG);
        }
    }

    /// Whom it starts from now on runs on this processor, as usual; and so does this process from now on.
    pub fn settle_down(&self, cpu: Option<usize>, started: Option<libc::pid_t>) {
        for pid in [Some(self.pid), started].into_iter().flatten().filter(|pid| *pid != 0) {
            processor::place(pid, cpu);
            processor::slices(pid, processor::SLICE_SHORT);
        }
    }

    /// What programs are told about folders of the host's over which nothing is laid.
    pub fn closed(&self) -> u32 {
        self.unlaid.told()
    }

    /// These are closed.
    #[cfg(test)]
    pub fn close(&mut self, names: &[&str]) {
        self.unlaid = Unlaid { closed: names.iter().map(OsString::from).collect(), ..Unlaid::default() };
    }

    /// Lays the node's own files over the folders that are next.
    /// On failure: what was tried, and why nothing came of it.
    pub fn lay_layers(&mut self, arena: &Arena) -> Result<Laid, (String, Errno)> {
        const TOLD: &str = "tell process 1 to lay a node's files over the host's";
        let next = self.unlaid.next();
        let Some((steps, list)) = super::nursery::layers(&next) else {
            return Err(("find a folder of the host's that has none of the node's files over it".to_owned(), Errno(libc::EROFS)));
        };
        let replaced: Vec<PathBuf> = match &next {
            Next::Layers(names) => names.iter().map(|name| self.root().join(name)).collect(),
            Next::Whole(top) => top.names().map(|name| self.root().join(name)).collect(),
        };
        let about = |path: &PathBuf| path.symlink_metadata().ok().map(|found| (found.ino(), found.dev()));
        let known = |path: &PathBuf| about(path).and_then(|(inode, device)| arena.known_file(inode, device));
        let known: Vec<_> = replaced.iter().map(known).collect();
        send(self.commands.as_fd(), &[abi::COMMAND_STEPS], &[list.as_fd()]).map_err(|errno| (TOLD.to_owned(), errno))?;
        self.announced(READY_LIMIT).map_err(|errno| (TOLD.to_owned(), errno))?;
        // They are the same to programs.
        for (path, number) in replaced.iter().zip(known) {
            if let (Some(number), Some((inode, device))) = (number, about(path))
                && arena.known_file(inode, device).is_none()
            {
                arena.is_now(number, inode, device);
            }
        }
        // With a slash at the end, or it would be the link.
        if let Some((inode, device)) = about(&self.root().join("")) {
            arena.header().root[0].store(device, Relaxed);
            arena.header().root[1].store(inode, Relaxed);
        }
        let wanted = if let Next::Layers(names) = &next { names.len() } else { 1 };
        steps.laid(&list).map(|missing| Laid { wanted, missing }).map_err(|(what, errno)| (what, Errno(errno)))
    }

    /// Kills the whole node.
    pub fn kill(&self) {
        if self.pid == 0 {
            return;
        }
        // SAFETY: our child; with process 1 the kernel kills its namespace.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        self.kill();
        if self.pid != 0 {
            let _ = sys::wait(self.pid, 0);
        }
    }
}

/// Sends bytes and up to eight descriptors.
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let vector = IoSlice::new(bytes);
    let mut control = [0_u64; 8];
    let payload = size_of_val(descriptors).min(32);
    // SAFETY: an all-zero msghdr is valid; the control buffer has room for a header and eight descriptors, and is aligned.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = (&raw const vector).cast_mut().cast();
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(payload as u32) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(payload as u32) as usize;
        for (index, fd) in descriptors.iter().take(8).enumerate() {
            libc::CMSG_DATA(header).cast::<i32>().add(index).write_unaligned(fd.as_raw_fd());
        }
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(sys::last()) } else { Ok(()) }
}
