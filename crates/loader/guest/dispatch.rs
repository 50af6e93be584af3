//! The handler of system calls: who answers which.

use crate::abi::{self, kind};
use crate::ahead;
use crate::channel::{Copies, exchange, header, post};
use crate::descriptor;
use crate::elf;
use crate::futex;
use crate::identity;
use crate::layer;
use crate::local;
use crate::locks;
use crate::memory;
use crate::native;
use crate::own;
use crate::plain;
use crate::poll;
use crate::position;
use crate::sheet;
use crate::signal;
use crate::sys;
use crate::terminal;
use crate::thread::{self, Thread};
use crate::unix;
use crate::x86_64::context::*;
use crate::x86_64::gate;
use crate::x86_64::{entry, numbers as nr};
use core::sync::atomic::Ordering::Relaxed;

const SYS_SECCOMP: i32 = 1;
const SYS_USER_DISPATCH: i32 = 2;
const AF_UNIX: usize = 1;
const EFBIG: i64 = -27;
const SIGXFSZ: u64 = 25;

pub type Answer = Result<isize, isize>;

/// Handler of SIGSYS: a call of the program (Syscall User Dispatch), one through the vsyscall page (seccomp), or the controller's impatience.
pub unsafe extern "C" fn on_call(_: i32, info: *const Info, context: *mut Context) {
    crate::x86_64::entry::unaligned_again();
    // SAFETY: the kernel has built both on the thread's block.
    let (info, context) = unsafe { (&*info, &mut *context) };
    let t = thread::current();
    if info.code != SYS_USER_DISPATCH && info.code != SYS_SECCOMP {
        preempted(t, context);
        return;
    }
    let number = info.number as usize;
    if info.arch != ARCH {
        post(t, abi::UNSUPPORTED, &[number as u64 | 1 << 32, 0, -sys::ENOSYS as u64]);
        context.registers[RAX] = sys::ENOSYS as u64;
        return;
    }
    let after = context.registers[RIP];
    if number == gate::FINISH
        && let Some((number, after, result)) = t.finishing.take()
    {
        context.registers[RIP] = after;
        signal::finish(t, context, Some((number, after, result)));
        return;
    }
    if info.code == SYS_USER_DISPATCH {
        gate::seen(number, after);
        trapped(t, context, number, after);
        return;
    }
    let r = &context.registers;
    let a = [r[RDI], r[RSI], r[RDX], r[R10], r[R8], r[R9]].map(|word| word as usize);
    local::tick(t);
    context.registers[RAX] = made(t, None, number, &a) as u64;
}

/// The controller has sent a signal: this thread has run without a call for too long.
fn preempted(t: &mut Thread, context: &mut Context) {
    let running = gate::running();
    if running != t.index {
        // The kernel has chosen one of those that sleep at a gate.
        let tid = thread::by_index(running).channel.tid.load(Relaxed) as usize;
        sys::call(nr::TGKILL, &[sys::call(nr::GETPID, &[]) as usize, tid, signal::SIGSYS]);
        return;
    }
    let (text, bytes) = entry::text();
    if (context.registers[RIP] as usize).wrapping_sub(text) < bytes {
        // It makes a call right now.
        return;
    }
    post(t, abi::PREEMPTED, &[]);
    signal::finish(t, context, None);
}

/// A call of the program with the kernel's frame.
pub fn trapped(t: &mut Thread, context: &mut Context, number: usize, after: u64) {
    let r = &context.registers;
    let a = [r[RDI], r[RSI], r[RDX], r[R10], r[R8], r[R9]].map(|word| word as usize);
    local::tick(t);
    if number == nr::RT_SIGRETURN {
        signal::sigreturn(t, context);
        signal::finish(t, context, None);
        return;
    }
    // The clock that the vDSO would have told, had it not come to the grant here: how far that reaches is nothing that a program does, so it is no call.
    let result = if elf::is_of_vdso(after as usize) && local::is_shown(number, &a) {
        whichever(answer(t, Some(context), number, &a))
    } else {
        made(t, Some(context), number, &a)
    };
    signal::finish(t, context, Some((number, after, result)));
}

/// A call that came through a gate: its result. None: there is more to be done, which needs the kernel's frame; see [`gate::FINISH`].
pub fn through_gate(registers: &gate::Registers) -> Option<i64> {
    let t = thread::current();
    let number = registers.number as usize;
    let a = registers.arguments.map(|word| word as usize);
    local::tick(t);
    let result = made(t, None, number, &a);
    let again = signal::restarts(result) || t.saved_mask.is_some();
    if again || t.is_signalled() {
        t.finishing = Some((number, registers.after, result));
        return None;
    }
    Some(result)
}

pub fn whichever(answer: Answer) -> i64 {
    match answer {
        Ok(value) | Err(value) => value as i64,
    }
}

/// Answers a call, and notes what it came to.
fn made(t: &mut Thread, mut context: Option<&mut Context>, number: usize, a: &[usize; 6]) -> i64 {
    layer::look(t);
    layer::wanted(t, number, a);
    let mut result = whichever(answer(t, context.as_deref_mut(), number, a));
    while result < 0 && layer::was_missing(t, number, a, result) {
        result = whichever(answer(t, context.as_deref_mut(), number, a));
    }
    if result as isize == sys::EROFS && plain::wanted() {
        // Whose files they are is what forbids it: that they cannot be written at all is the host's affair.
        result = sys::EACCES as i64;
    }
    if result == EFBIG && plain::has_file_limit() {
        post(t, abi::RAISED, &[SIGXFSZ]);
    }
    if !signal::restarts(result) {
        local::fold(t, number, result);
        let wanted = header().flags.load(Relaxed) & (abi::TELL_CALLS | abi::TELL_WRITES);
        if wanted != 0 && (wanted & abi::TELL_CALLS != 0 || (matches!(number, nr::WRITE | nr::WRITEV) && matches!(a[0], 1 | 2) && result > 0)) {
            t.channel.descriptor.store(a[4] as u64, Relaxed);
            post(t, abi::TELL, &[number as u64, a[0] as u64, a[1] as u64, a[2] as u64, result as u64, a[3] as u64]);
        }
    }
    result
}

/// Hands a call to the controller. `word`: what descriptor argument 0 is.
pub fn forward(t: &mut Thread, number: usize, a: &[usize; 6], word: u64) -> isize {
    if t.strict.on
        && let Err(errno) = crate::strict::call::join(t, false)
    {
        return errno;
    }
    let channel = t.channel;
    let nonblocking = descriptor::kind_of(word) == kind::VIRTUAL && descriptor::is_nonblocking(a[0], word);
    channel.descriptor.store(word | if nonblocking { abi::NONBLOCKING } else { 0 }, Relaxed);
    let mut copies = Copies::new(channel);
    match number {
        nr::CONNECT | nr::BIND => copies.add(a[1], a[2].min(128)),
        nr::WRITE | nr::PWRITE64 => copies.add(a[1], a[2]),
        nr::SENDTO => {
            copies.add(a[4], if a[4] == 0 { 0 } else { a[5].min(128) });
            copies.add(a[1], a[2]);
        }
        nr::RECVFROM if a[4] != 0 => copies.add(a[5], 4),
        nr::GETSOCKNAME | nr::GETPEERNAME | nr::ACCEPT | nr::ACCEPT4 => copies.add(a[2], 4),
        nr::SENDMSG | nr::RECVMSG => copies.add(a[1], 56),
        nr::SETSOCKOPT => copies.add(a[3], (a[4] as u32 as usize).min(256)),
        nr::GETSOCKOPT => copies.add(a[4], 4),
        nr::EPOLL_CTL => copies.add(a[3], 12),
        nr::NANOSLEEP => copies.add(a[0], 16),
        nr::CLOCK_NANOSLEEP => copies.add(a[2], 16),
        nr::FUTEX => copies.add(a[3], 16),
        nr::SETITIMER => copies.add(a[1], 32),
        nr::TIMER_SETTIME | nr::TIMERFD_SETTIME => copies.add(a[2], 32),
        _ => {}
    }
    let arguments = a.map(|word| word as u64);
    let result = exchange(t, number as u64, &arguments);
    if channel.answer.load(Relaxed) == abi::DESCRIPTOR { receive_descriptor(t, result == 1) } else { result as isize }
}

/// Takes a new descriptor from the control socket.
pub fn receive_descriptor(t: &mut Thread, close_on_exec: bool) -> isize {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    const EMFILE: isize = -24;
    let mut byte = [0_u8];
    let vector = [byte.as_mut_ptr() as usize, 1];
    let mut control = [0_u32; 6];
    let mut message = [0, 0, vector.as_ptr() as usize, 1, control.as_mut_ptr() as usize, 24, 0];
    let flags = if close_on_exec { MSG_CMSG_CLOEXEC } else { 0 };
    let bytes = sys::call(nr::RECVMSG, &[abi::DESCRIPTOR_CONTROL as usize, message.as_mut_ptr() as usize, flags]);
    if bytes <= 0 || control[0] < 20 || control[2] != 1 {
        t.channel.descriptor.store(kind::VIRTUAL << 56, Relaxed);
        post(t, abi::CLOSED, &[]);
        return EMFILE;
    }
    let fd = control[4] as usize;
    let word = t.channel.descriptor.load(Relaxed) & !abi::NONBLOCKING;
    descriptor::remember(t, fd, word);
    fd as isize
}

pub fn unsupported(t: &mut Thread, number: usize, detail: usize, errno: isize) -> Answer {
    post(t, abi::UNSUPPORTED, &[number as u64, detail as u64, -errno as u64]);
    Err(errno)
}

fn kernel(number: usize, a: &[usize; 6]) -> Answer {
    Ok(sys::call(number, a))
}

fn answer(t: &mut Thread, context: Option<&mut Context>, number: usize, a: &[usize; 6]) -> Answer {
    use nr::*;
    if descriptor::names_ours(number, a) {
        return Err(sys::EBADF);
    }
    match number {
        READ | WRITE | READV | WRITEV => data(t, number, a),
        PREAD64 | PWRITE64 | PREADV | PWRITEV | PREADV2 | PWRITEV2 => position::call(t, number, a),
        CLOCK_GETTIME => local::clock_gettime(t, a),
        CLOCK_GETRES => local::clock_getres(t, a),
        GETTIMEOFDAY => local::gettimeofday(t, a),
        TIME => local::time(t, a),
        TIMES => local::times(t, a),
        GETRUSAGE => local::getrusage(t, a),
        SYSINFO => local::sysinfo(t, a),
        UNAME => local::uname(a),
        GETCPU => local::getcpu(a),
        SCHED_GETAFFINITY => local::affinity(a),
        SCHED_SETAFFINITY => local::set_affinity(a),
        GETRANDOM => local::getrandom(t, a[0], a[1]),
        RT_SIGACTION => signal::action(t, a),
        RT_SIGPROCMASK => signal::mask(t, a),
        SIGALTSTACK | FORK | VFORK | CLONE | CLONE3 => match context {
            Some(context) => with_frame(t, context, number, a),
            None => Err(sys::ENOSYS),
        },
        RT_SIGPENDING => sys::write_u64(a[0], t.channel.pending.load(Relaxed) & t.channel.mask.load(Relaxed)).map(|()| 0),
        RT_SIGSUSPEND => {
            signal::swap_mask(t, a[0])?;
            Ok(forward(t, PAUSE, a, 0))
        }
        BRK => Ok(memory::set(a[0])),
        MMAP | MUNMAP | MPROTECT | MREMAP | MADVISE | PKEY_MPROTECT | SHMAT => memory::map(number, a),
        RSEQ => Err(sys::ENOSYS),
        SET_ROBUST_LIST => {
            // The kernel's own walk is for a process that is killed.
            let result = sys::call(number, a);
            if result == 0 {
                t.robust = a[0];
            }
            Ok(result)
        }
        SET_TID_ADDRESS => {
            t.clear_tid = a[0];
            Ok(sys::call(GETTID, &[]))
        }
        EXECVE => Ok(crate::exec::execve(t, path_of(t, a[0]), a[1], a[2])),
        EXECVEAT => Ok(crate::exec::execveat(t, a)),
        EXIT => thread::exit(t, a[0]),
        EXIT_GROUP => thread::exit_group(t, a[0]),
        FUTEX => futex::call(t, a),
        SCHED_YIELD => {
            post(t, abi::YIELD, &[1]);
            Ok(0)
        }
        WAIT4 | WAITID => wait(t, number, a),
        NANOSLEEP | CLOCK_NANOSLEEP => Ok(ahead::sleep(t, number, a).unwrap_or_else(|| forward(t, number, a, 0))),
        PAUSE | RT_SIGTIMEDWAIT | KILL | TKILL | TGKILL | RT_SIGQUEUEINFO | RT_TGSIGQUEUEINFO | ALARM
        | SETITIMER | GETITIMER | TIMER_CREATE | TIMER_SETTIME | TIMER_GETTIME | TIMER_GETOVERRUN | TIMER_DELETE | EPOLL_CREATE
        | EPOLL_CREATE1 | TIMERFD_CREATE => Ok(forward(t, number, a, 0)),
        SIGNALFD | SIGNALFD4 => {
            let word = if a[0] as i32 == -1 { 0 } else { descriptor::word(t, a[0]) };
            Ok(forward(t, number, a, word))
        }
        EPOLL_CTL => {
            // Argument 5 goes along as what the watched descriptor is.
            let watched = descriptor::word(t, a[2]);
            let word = descriptor::word(t, a[0]);
            if watched == 0 || word == 0 {
                return Err(sys::EBADF);
            }
            let mut more = *a;
            more[4] = watched as usize;
            Ok(forward(t, number, &more, word))
        }
        EPOLL_WAIT | EPOLL_PWAIT | EPOLL_PWAIT2 => poll::epoll(t, number, a),
        POLL => poll::poll(t, a),
        PPOLL => poll::ppoll(t, a),
        SELECT => poll::select(t, a),
        PSELECT6 => poll::pselect(t, a),
        SOCKET if a[0] != AF_UNIX => Ok(forward(t, number, a, 0)),
        CONNECT | ACCEPT | ACCEPT4 | SENDTO | RECVFROM | SENDMSG | RECVMSG | SENDMMSG | RECVMMSG | SHUTDOWN | BIND | LISTEN
        | GETSOCKNAME | GETPEERNAME | SETSOCKOPT | GETSOCKOPT | TIMERFD_SETTIME | TIMERFD_GETTIME => socket(t, number, a),
        IOCTL | FCNTL | FLOCK | SENDFILE | SPLICE | TEE | VMSPLICE | COPY_FILE_RANGE => control(t, number, a),
        CLOSE => Ok(descriptor::close(t, a[0])),
        DUP2 | DUP3 => Ok(descriptor::duplicate_onto(t, number, a)),
        DUP => duplicate(t, number, a),
        CLOSE_RANGE => Ok(descriptor::close_range(t, a)),
        SETSID | SETPGID => {
            let result = sys::call(number, a);
            if result >= 0 {
                post(t, number as u64, &[a[0] as u64, a[1] as u64]);
            }
            Ok(result)
        }
        _ => more(t, number, a),
    }
}

/// Calls that need the registers of the kernel's frame.
fn with_frame(t: &mut Thread, context: &mut Context, number: usize, a: &[usize; 6]) -> Answer {
    match number {
        nr::SIGALTSTACK => signal::alternate(t, context, a),
        nr::FORK => Ok(thread::fork(t, context)),
        nr::VFORK => Ok(thread::vfork(t, context)),
        nr::CLONE3 => Ok(thread::clone3(t, context, a[0], a[1])),
        _ => {
            let arguments = thread::clone_arguments(context, a);
            Ok(thread::clone(t, context, arguments))
        }
    }
}

/// Calls that the kernel answers, perhaps with a change, and those that are refused.
fn more(t: &mut Thread, number: usize, a: &[usize; 6]) -> Answer {
    use nr::*;
    match number {
        OPEN => open(t, number, a, 0),
        // O_WRONLY, O_CREAT, O_TRUNC: creat(2) of a named pipe waits as open(2) does.
        CREAT => open(t, OPEN, &[a[0], 0o1101, a[1], 0, 0, 0], 0),
        OPENAT => open(t, number, a, 1),
        READLINK => readlink(t, number, a, 0),
        READLINKAT => readlink(t, number, a, 1),
        PRCTL => prctl(t, a),
        FSTAT | NEWFSTATAT | STATX if descriptor::is_ours(a[0] as i32) => Err(sys::EBADF),
        STAT | FSTAT | LSTAT | NEWFSTATAT | STATX => identity::stat(number, &of_executable(t, number, a)),
        GETUID | GETGID | GETEUID | GETEGID | SETUID | SETGID | SETREUID | SETREGID | GETGROUPS | SETGROUPS | SETRESUID | GETRESUID
        | SETRESGID | GETRESGID | SETFSUID | SETFSGID | CAPGET | CAPSET => identity::answer(t, number, a),
        STATFS | FSTATFS | GETDENTS | GETDENTS64 => {
            let result = sys::call(number, a);
            if result < 0 || header().real_start.load(Relaxed) == 0 {
                return Ok(result);
            }
            match number {
                STATFS | FSTATFS => crate::files::plain_statfs(a[1])?,
                _ => crate::files::plain_entries(a[0], a[1], result as usize)?,
            }
            Ok(result)
        }
        MKDIR | MKNOD => Ok(identity::creating(t, sys::AT_FDCWD, a[0], || sys::call(number, a))),
        MKDIRAT | MKNODAT => Ok(identity::creating(t, a[0], a[1], || sys::call(number, a))),
        SYMLINK => Ok(identity::creating(t, sys::AT_FDCWD, a[1], || sys::call(number, a))),
        SYMLINKAT => Ok(identity::creating(t, a[1], a[2], || sys::call(number, a))),
        CHOWN | FCHOWN | LCHOWN | FCHOWNAT => Ok(identity::change_owner(t, number, a)),
        TRUNCATE if sheet::is_at(sys::AT_FDCWD, a[0]) => Err(sys::EINVAL),
        RENAME | LINK | CHMOD | TRUNCATE => {
            let follow = !matches!(number, RENAME | LINK);
            Ok(own::changing(t, sys::AT_FDCWD, a[0], follow, || sys::call(number, a)))
        }
        RENAMEAT | RENAMEAT2 | LINKAT | FCHMODAT | FCHMODAT2 => {
            let follow = !matches!(number, RENAMEAT | RENAMEAT2 | LINKAT);
            Ok(own::changing(t, a[0], a[1], follow, || sys::call(number, a)))
        }
        FCHMOD => Ok(own::changing_open(t, a[0], || sys::call(number, a), |path| sys::call(CHMOD, &[path, a[1]]))),
        UTIME | UTIMES | FUTIMESAT | UTIMENSAT => Ok(dates(t, number, a)),
        PIPE | PIPE2 => Ok(plain::pipe(t, number, a)),
        SHMCTL => plain::shared_memory(a),
        GETRLIMIT | SETRLIMIT | PRLIMIT64 => plain::limit(t, number, a),
        KCMP => plain::compare(a),
        GETPRIORITY | SETPRIORITY => plain::priority(t, number, a),
        SCHED_GETPARAM | SCHED_GETSCHEDULER | SCHED_GETATTR => plain::scheduler(t, number, a),
        // "none": nobody sets one.
        IOPRIO_GET if plain::wanted() => Ok(0),
        IOPRIO_GET => kernel(number, a),
        MINCORE => mincore(number, a),
        PIDFD_SEND_SIGNAL => send_by_descriptor(t, a),
        // Handles hold the host's numbers.
        NAME_TO_HANDLE_AT if plain::wanted() => unsupported(t, number, 0, sys::EOPNOTSUPP),
        NAME_TO_HANDLE_AT => kernel(number, a),
        ARCH_PRCTL if matches!(a[0], 0x1011 | 0x1012) => Err(sys::ENODEV),
        // ARCH_MAP_VDSO_X32, _32, _64: the kernel's, which would tell the time.
        ARCH_PRCTL if matches!(a[0], 0x2001..=0x2003) => Err(sys::EINVAL),
        // The node's settings are files, too.
        LSEEK if descriptor::kind_of(descriptor::word(t, a[0])) == kind::VIRTUAL => {
            let word = descriptor::word(t, a[0]);
            Ok(forward(t, number, a, word))
        }
        FTRUNCATE if sheet::is(a[0]) => Err(sys::EINVAL),
        FALLOCATE if sheet::is(a[0]) => Err(position::ESPIPE),
        // Without news for others: memory, names, numbers, files.
        LSEEK
        | ACCESS
        | MSYNC
        | SHMGET
        | SHMDT
        | GETPID
        | GETTID
        | FSYNC
        | FDATASYNC
        | FTRUNCATE
        | GETCWD
        | CHDIR
        | FCHDIR
        | RMDIR
        | UNLINK
        | UNLINKAT
        | UMASK
        | GETPGID
        | GETPGRP
        | GETSID
        | GETPPID
        | SCHED_GET_PRIORITY_MAX
        | SCHED_GET_PRIORITY_MIN
        | MLOCK
        | MLOCK2
        | MUNLOCK
        | MLOCKALL
        | MUNLOCKALL
        | ARCH_PRCTL
        | CHROOT
        | SYNC
        | SYNCFS
        | SYNC_FILE_RANGE
        | READAHEAD
        | SETXATTR
        | LSETXATTR
        | FSETXATTR
        | GETXATTR
        | LGETXATTR
        | FGETXATTR
        | LISTXATTR
        | LLISTXATTR
        | FLISTXATTR
        | REMOVEXATTR
        | LREMOVEXATTR
        | FREMOVEXATTR
        | FADVISE64
        | FALLOCATE
        | FACCESSAT
        | FACCESSAT2
        | MBIND
        | SET_MEMPOLICY
        | GET_MEMPOLICY
        | IOPRIO_SET
        | GET_ROBUST_LIST
        | MEMFD_CREATE
        | MEMBARRIER
        | PIDFD_OPEN
        | PROCESS_VM_READV
        | PROCESS_VM_WRITEV
        | INOTIFY_RM_WATCH
        | EVENTFD
        | EVENTFD2
        | SOCKETPAIR
        | SOCKET
        | PKEY_ALLOC
        | PKEY_FREE
        | PERSONALITY => kernel(number, a),
        INOTIFY_INIT | INOTIFY_INIT1 | INOTIFY_ADD_WATCH => {
            let mut arguments = *a;
            if number == INOTIFY_ADD_WATCH && plain::wanted() && layer::is_device(a[1]) {
                // Who opens the host's devices is not the node's business. The kernel's own of this file is opened by nobody (see `proc::said`).
                arguments[1] = c"/proc/version".as_ptr() as usize;
            }
            let result = sys::call(number, &arguments);
            plain::shared_limit(t, number, result);
            Ok(result)
        }
        // It would change how the host runs this process, and with it when others run.
        SCHED_SETPARAM | SCHED_SETSCHEDULER | SCHED_SETATTR => Ok(0),
        SCHED_RR_GET_INTERVAL => Err(sys::ENOSYS),
        IO_URING_SETUP | IO_URING_ENTER | IO_URING_REGISTER | OPENAT2 | FUTEX_WAITV => unsupported(t, number, 0, sys::ENOSYS),
        PTRACE | BPF | MOUNT | UMOUNT2 | SETNS | UNSHARE | SETHOSTNAME | CLOCK_SETTIME | CLOCK_ADJTIME | PIDFD_GETFD | USERFAULTFD => {
            unsupported(t, number, a[0], sys::EPERM)
        }
        SECCOMP => unsupported(t, number, a[0], sys::EINVAL),
        _ => unsupported(t, number, a[0], sys::ENOSYS),
    }
}

/// utimensat(2) and its kind.
fn dates(t: &Thread, number: usize, a: &[usize; 6]) -> isize {
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    let set = |arguments: &[usize; 6]| match crate::times::set(number, arguments) {
        Ok(result) | Err(result) => result,
    };
    match number {
        nr::UTIMENSAT if a[1] == 0 => own::changing_open(t, a[0], || set(a), |path| set(&[sys::AT_FDCWD, path, a[2], 0, 0, 0])),
        nr::UTIMENSAT => own::changing(t, a[0], a[1], a[3] & AT_SYMLINK_NOFOLLOW == 0, || set(a)),
        nr::FUTIMESAT => own::changing(t, a[0], a[1], true, || set(a)),
        _ => own::changing(t, sys::AT_FDCWD, a[0], true, || set(a)),
    }
}

/// pidfd_send_signal(2): as kill(2) or rt_sigqueueinfo(2) of the process that the descriptor names.
fn send_by_descriptor(t: &mut Thread, a: &[usize; 6]) -> Answer {
    if a[3] != 0 {
        return Err(sys::EINVAL);
    }
    if descriptor::word(t, a[0]) == 0 {
        return Err(sys::EBADF);
    }
    let pid = plain::process_of(a[0])?;
    let (number, arguments) = if a[2] == 0 { (nr::KILL, [pid, a[1], 0, 0, 0, 0]) } else { (nr::RT_SIGQUEUEINFO, [pid, a[1], a[2], 0, 0, 0]) };
    Ok(forward(t, number, &arguments, 0))
}

/// read, write, readv, writev
pub fn data(t: &mut Thread, number: usize, a: &[usize; 6]) -> Answer {
    let word = descriptor::word(t, a[0]);
    match descriptor::kind_of(word) {
        kind::VIRTUAL => Ok(ahead::socket(t, number, a, word).unwrap_or_else(|| forward(t, number, a, word))),
        kind::RANDOM if number == nr::READ => local::getrandom(t, a[1], a[2]),
        kind::RANDOM if number == nr::READV => position::random_vectors(t, a[1], a[2]),
        what => {
            let result = if what == kind::NATIVE {
                terminal::data(t, number, a, word)
            } else if what == kind::NONE {
                sys::EBADF
            } else {
                sys::call(number, a)
            };
            plain::after_read(word, number, a, result)?;
            if what == kind::FILE && matches!(number, nr::WRITE | nr::WRITEV) && result > 0 {
                local::count_written(t, result as usize);
            }
            if number == nr::WRITE && result > 0 {
                local::fold_bytes(a[1], result as usize);
            }
            Ok(result)
        }
    }
}

/// Calls on sockets: the controller's, or the kernel's AF_UNIX.
fn socket(t: &mut Thread, number: usize, a: &[usize; 6]) -> Answer {
    let word = descriptor::word(t, a[0]);
    match descriptor::kind_of(word) {
        kind::NONE => Err(sys::EBADF),
        kind::VIRTUAL => Ok(ahead::socket(t, number, a, word).unwrap_or_else(|| forward(t, number, a, word))),
        kind::NATIVE if number == nr::SENDMSG && descriptor::hands_on_ours(a[1]) => Err(sys::EBADF),
        // struct mmsghdr: a msghdr of 56 bytes and a length.
        kind::NATIVE if number == nr::SENDMMSG && (0..a[2].min(1024)).any(|index| descriptor::hands_on_ours(a[1] + 64 * index)) => {
            Err(sys::EBADF)
        }
        kind::NATIVE => Ok(unix::call(t, number, a)),
        _ => kernel(number, a),
    }
}

pub fn duplicate(t: &mut Thread, number: usize, a: &[usize; 6]) -> Answer {
    let word = descriptor::word(t, a[0]);
    let result = sys::call(number, a);
    if result >= 0 {
        descriptor::remember(t, result as usize, word);
    }
    Ok(result)
}

/// ioctl, fcntl, locks, and moving data inside the kernel
fn control(t: &mut Thread, number: usize, a: &[usize; 6]) -> Answer {
    const F_DUPFD: usize = 0;
    const F_SETFL: usize = 4;
    const FIONBIO: usize = 0x5421;
    const FIOASYNC: usize = 0x5452;
    const F_SETSIG: usize = 10;
    const F_NOTIFY: usize = 1026;
    const O_ASYNC: usize = 0o20000;
    const F_DUPFD_CLOEXEC: usize = 1030;
    const F_SETLEASE: usize = 1024;
    const NS_GET_OWNER_UID: usize = 0xb704;
    const F_GETLK: usize = 5;
    const F_SETLK: usize = 6;
    const F_SETLKW: usize = 7;
    const F_OFD_GETLK: usize = 36;
    const F_OFD_SETLK: usize = 37;
    const F_OFD_SETLKW: usize = 38;
    let (fd, what) = (a[0], a[1] as u32 as usize);
    if matches!((number, what), (nr::FCNTL, F_SETFL) | (nr::IOCTL, FIONBIO)) {
        descriptor::flags_changed(descriptor::word(t, fd));
    }
    match number {
        nr::FCNTL if what == F_SETFL && descriptor::kind_of(descriptor::word(t, fd)) == kind::FILE && sheet::is(fd) => Ok(sheet::set_flags(fd, a[2])),
        nr::FCNTL if what == F_DUPFD || what == F_DUPFD_CLOEXEC => duplicate(t, number, a),
        // Signals of the kernel's would come at no virtual time.
        nr::FCNTL if matches!(what, F_NOTIFY | F_SETSIG) && (what == F_NOTIFY || a[2] != 0) => unsupported(t, number, what, sys::EINVAL),
        nr::FCNTL if what == F_SETFL && a[2] & O_ASYNC != 0 && !descriptor::is_socket(fd) => {
            unsupported(t, number, what, sys::EINVAL)
        }
        // An open(2) elsewhere would wait in the kernel for the holder of the lease, whom only a signal of the kernel's tells.
        nr::FCNTL if what == F_SETLEASE => unsupported(t, number, what, sys::EINVAL),
        nr::FCNTL if what == F_SETLKW || what == F_OFD_SETLKW => {
            let attempt = if what == F_SETLKW { F_SETLK } else { F_OFD_SETLK };
            Ok(locks::lock(t, fd, if what == F_SETLKW { a[2] } else { 0 }, || sys::call(nr::FCNTL, &[fd, attempt, a[2]])))
        }
        nr::FCNTL if matches!(what, F_GETLK | F_OFD_GETLK) => Ok(locks::look(fd, what, a[2])),
        nr::FLOCK => Ok(locks::flock(t, fd, what)),
        nr::IOCTL => {
            // FIONBIO, FIOASYNC, FIOCLEX, FIONCLEX are the descriptor's own.
            let of_descriptor = matches!(what, 0x5421 | 0x5452 | 0x5451 | 0x5450);
            let word = descriptor::word(t, fd);
            let interfaces = (0x8900..0x8a00).contains(&what) && descriptor::kind_of(word) == kind::NATIVE;
            if word == 0 {
                Err(sys::EBADF)
            } else if plain::hides(what) && matches!(descriptor::kind_of(word), kind::FILE | kind::NATIVE) {
                Err(sys::ENOTTY)
            } else if what == NS_GET_OWNER_UID && plain::wanted() && descriptor::kind_of(word) == kind::FILE {
                let result = sys::call(number, a);
                // All namespaces that can be seen are root's.
                if result == 0 { sys::write_u32(a[2], 0).map(|()| 0) } else { Ok(result) }
            } else if !of_descriptor && (descriptor::kind_of(word) == kind::VIRTUAL || interfaces) {
                Ok(forward(t, number, a, word))
            } else if descriptor::kind_of(word) == kind::NATIVE && word & (abi::MASTER | abi::SLAVE) != 0 && word & abi::INOTIFY == 0 {
                Ok(terminal::control(t, a, word))
            } else if what == FIOASYNC && sys::read_u32(a[2]) != Ok(0) && !descriptor::is_socket(fd) {
                unsupported(t, number, what, sys::EINVAL)
            } else {
                kernel(number, a)
            }
        }
        // The kernel has none to a file that is appended to.
        nr::SENDFILE
            if descriptor::kind_of(descriptor::word(t, a[1])) == kind::FILE
                && (descriptor::kind_of(descriptor::word(t, a[0])) == kind::VIRTUAL || sheet::is(a[0])) =>
        {
            native::send_file(t, a)
        }
        nr::SENDFILE | nr::SPLICE | nr::TEE | nr::VMSPLICE => {
            let from = if number == nr::SENDFILE { a[1] } else { a[0] };
            if matches!(number, nr::SENDFILE | nr::SPLICE) && descriptor::kind_of(descriptor::word(t, from)) == kind::RANDOM {
                return position::send_random(t, number, a);
            }
            if native::ends(number, a).any(|fd| descriptor::kind_of(descriptor::word(t, fd)) == kind::VIRTUAL) && number != nr::VMSPLICE {
                return unsupported(t, number, 0, sys::EINVAL);
            }
            Ok(native::between(t, number, a))
        }
        _ => {
            let result = sys::call(number, a);
            native::touched();
            Ok(result)
        }
    }
}

/// Where a path argument is, or where what it names really is.
pub fn path_of(t: &Thread, at: usize) -> usize {
    crate::proc::instead(t, at).unwrap_or(at)
}

/// A call of stat(2) and its kind, of what a process executes where it names that.
fn of_executable(t: &Thread, number: usize, a: &[usize; 6]) -> [usize; 6] {
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    let at = match number {
        nr::STAT => 0,
        nr::NEWFSTATAT if a[3] & AT_SYMLINK_NOFOLLOW == 0 => 1,
        nr::STATX if a[2] & AT_SYMLINK_NOFOLLOW == 0 => 1,
        _ => return *a,
    };
    let mut arguments = *a;
    if let Some(process) = crate::proc::whose_executable(t, a[at]) {
        arguments[at] = process.executable.pointer() as usize;
    }
    arguments
}

/// mincore(2): what of a file is in memory is the host's affair; what is mapped is there.
fn mincore(number: usize, a: &[usize; 6]) -> Answer {
    const PAGE_BYTES: usize = 4096;
    let result = sys::call(number, a);
    if result == 0 && plain::wanted() {
        let pages = a[1].div_ceil(PAGE_BYTES);
        for at in (0..pages).step_by(64) {
            sys::copy_out(a[2] + at, &[1; 64][..(pages - at).min(64)])?;
        }
    }
    Ok(result)
}

fn open(t: &mut Thread, number: usize, a: &[usize; 6], at: usize) -> Answer {
    const O_NONBLOCK: usize = 0o4000;
    const O_PATH: usize = 0o10_000_000;
    const O_ACCMODE: usize = 3;
    if crate::proc::is_uuid(a[at]) {
        return crate::proc::uuid(t);
    }
    if let Some(fd) = crate::proc::said(t, a[at], a[at + 1]) {
        return Ok(fd);
    }
    let mut arguments = *a;
    arguments[at] = path_of(t, a[at]);
    // Opening a named pipe waits for the other side.
    let directory = if at == 1 { a[0] } else { sys::AT_FDCWD };
    let mut stat = [0_u32; 36];
    let found = a[at + 1] & O_PATH == 0 && sys::call(nr::NEWFSTATAT, &[directory, arguments[at], stat.as_mut_ptr() as usize, 0]) == 0;
    if found
        && sheet::may_be_on(u64::from(stat[1]) << 32 | u64::from(stat[0]))
        && let Some(fd) = sheet::open(number, &arguments, at + 1)
    {
        return Ok(fd);
    }
    let fifo = found && a[at + 1] & O_NONBLOCK == 0 && stat[6] & 0o170_000 == 0o010_000;
    if !fifo {
        const O_CREAT: usize = 0o100;
        let fd = if a[at + 1] & (O_CREAT | O_ACCMODE) == 0 {
            sys::call(number, &arguments)
        } else {
            let make = || identity::creating(t, directory, arguments[at], || sys::call(number, &arguments));
            own::changing(t, directory, arguments[at], true, make)
        };
        let whole = fd >= 0 && a[at + 1] & O_PATH == 0;
        if whole {
            terminal::opened(fd as usize);
        }
        return Ok(if whole { crate::proc::opened(t, fd as usize, a[at + 1]) } else { fd });
    }
    native::touched();
    arguments[at + 1] |= O_NONBLOCK;
    const ENXIO: isize = -6;
    loop {
        let fd = sys::call(number, &arguments);
        if fd >= 0 {
            while a[at + 1] & O_ACCMODE == 0 && !has_writer(fd as usize) {
                if post(t, abi::BLOCKED, &[u64::MAX, 0, number as u64]) < 0 {
                    sys::call(nr::CLOSE, &[fd as usize]);
                    return Ok(abi::RESTART as isize);
                }
            }
            descriptor::set_flags(fd as usize, descriptor::flags(fd as usize) & !descriptor::NONBLOCK);
        }
        if fd != ENXIO {
            return Ok(fd);
        }
        if post(t, abi::BLOCKED, &[u64::MAX, 0, number as u64]) < 0 {
            return Ok(abi::RESTART as isize);
        }
    }
}

/// Has a named pipe that was opened with O_NONBLOCK for reading a writer, or had it one since?
fn has_writer(fd: usize) -> bool {
    // struct pollfd: events POLLIN. A pipe whose writer has gone again says POLLHUP, one that never had one says nothing.
    let mut set = [fd as u32, 1];
    if sys::call(nr::POLL, &[set.as_mut_ptr() as usize, 1, 0]) > 0 {
        return true;
    }
    // Without a writer it is at its end; with one there is nothing to read yet.
    let mut byte = [0_u8];
    sys::call(nr::READ, &[fd, byte.as_mut_ptr() as usize, 1]) == sys::EAGAIN
}

pub fn readlink(t: &Thread, number: usize, a: &[usize; 6], at: usize) -> Answer {
    let Some(process) = crate::proc::whose_executable(t, a[at]) else {
        let result = sys::call(number, a);
        return if result > 0 { crate::proc::plain_link(number, a, at, result as usize).map(|length| length as isize) } else { Ok(result) };
    };
    let mut name = [0_u8; abi::PATH_BYTES];
    process.executable.get(0, &mut name);
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(0).min(a[at + 2]);
    sys::copy_out(a[at + 1], &name[..length])?;
    Ok(length as isize)
}

fn wait(t: &mut Thread, number: usize, a: &[usize; 6]) -> Answer {
    const WNOHANG_WALL: usize = 0x4000_0001;
    const P_PID: usize = 1;
    const P_PIDFD: usize = 3;
    const ECHILD: isize = -10;
    let mut named = *a;
    if number == nr::WAITID && a[0] as u32 as usize == P_PIDFD {
        if descriptor::word(t, a[1]) == 0 {
            return Err(sys::EBADF);
        }
        // It has been waited for.
        let pid = plain::process_of(a[1]).map_err(|errno| if errno == sys::ESRCH { ECHILD } else { errno })?;
        (named[0], named[1]) = (P_PID, pid);
    }
    let result = forward(t, number, &named, 0);
    // The kernel's zombie goes with the program's.
    let reaped = t.channel.arguments[0].load(Relaxed) as usize;
    if result >= 0 && t.channel.arguments[5].load(Relaxed) == 1 && reaped != 0 {
        sys::call(nr::WAIT4, &[reaped, 0, WNOHANG_WALL, 0]);
    }
    Ok(result)
}

fn prctl(t: &mut Thread, a: &[usize; 6]) -> Answer {
    match a[0] {
        // PR_SET_PDEATHSIG, PR_GET_PDEATHSIG
        1 | 2 => Ok(forward(t, nr::PRCTL, a, 0)),
        // PR_SET_DUMPABLE: the controller must be able to read our memory.
        4 => Ok(0),
        // PR_GET_TSC: it can be read.
        25 => sys::write_u32(a[1], 1).map(|()| 0),
        7 => identity::keep_capabilities(t, None),
        8 => identity::keep_capabilities(t, Some(a[1])),
        // Names, capabilities, THP, no_new_privs, timer slack, MCE, securebits, VMA names, MM (refused by the kernel anyway).
        3 | 5 | 6 | 9 | 15 | 16 | 23 | 24 | 27 | 28 | 29 | 30 | 33 | 34 | 37..=42 | 47 | 65 | 0x5356_4d41 => kernel(nr::PRCTL, a),
        // Among them SET_SECCOMP, SET_TSC, SET_CHILD_SUBREAPER, SET_SYSCALL_USER_DISPATCH.
        what => unsupported(t, nr::PRCTL, what, sys::EINVAL),
    }
}
