//! The handler of system calls in real time: most are the kernel's.

use super::{BREAK, call, poll, signal, thread as strict_thread};
use crate::abi::kind;
use crate::descriptor;
use crate::dispatch::{Answer, duplicate, forward, path_of, readlink, unsupported};
use crate::memory;
use crate::position;
use crate::sys;
use crate::thread::{self, Thread};
use crate::x86_64::context::*;
use crate::x86_64::{entry, numbers as nr};

const SYS_USER_DISPATCH: i32 = 2;
const AF_UNIX: i32 = 1;
const AF_ALG: i32 = 38;

/// Handler of SIGSYS.
pub unsafe extern "C" fn on_call(_: i32, info: *const Info, context: *mut Context) {
    crate::x86_64::entry::unaligned_again();
    // SAFETY: the kernel has built both on the thread's block.
    let (info, context) = unsafe { (&*info, &mut *context) };
    if info.code != SYS_USER_DISPATCH {
        // Sent by somebody, or a filter of the program's own: no program handles it here.
        return;
    }
    let t = thread::current();
    let r = &context.registers;
    let a = [r[RDI], r[RSI], r[RDX], r[R10], r[R8], r[R9]].map(|word| word as usize);
    let number = info.number as usize;
    t.strict.mask = context.mask;
    if info.arch != ARCH {
        crate::channel::post(t, crate::abi::UNSUPPORTED, &[number as u64 | 1 << 32, 0, -sys::ENOSYS as u64]);
        context.registers[RAX] = sys::ENOSYS as u64;
        return;
    }
    let after = context.registers[RIP];
    if number == nr::RT_SIGRETURN {
        signal::sigreturn(t, context);
        return;
    }
    match answer(t, context, number, &a) {
        None => {
            t.native_return = after;
            context.registers[RIP] = entry::native().0;
            context.registers[RAX] = number as u64;
        }
        Some(Ok(result) | Err(result)) => signal::finish(t, context, number, after, result as i64),
    }
}

/// None: the kernel is to answer.
fn answer(t: &mut Thread, context: &mut Context, number: usize, a: &[usize; 6]) -> Option<Answer> {
    use nr::*;
    if descriptor::names_ours(number, a) {
        return Some(Err(sys::EBADF));
    }
    match number {
        READ | WRITE | READV | WRITEV | CONNECT | SENDTO | RECVFROM | SENDMSG | RECVMSG | SENDMMSG | RECVMMSG | SHUTDOWN | BIND | LISTEN
        | GETSOCKNAME | GETPEERNAME | SETSOCKOPT | GETSOCKOPT => socket(t, number, a),
        PREADV2 | PWRITEV2 if a[3] as isize == -1 => at_end(t, number, a),
        ACCEPT | ACCEPT4 => accept(t, number, a),
        SOCKET => make_socket(t, a),
        POLL | PPOLL | SELECT | PSELECT6 => poll::poll(t, number, a),
        EPOLL_CTL => poll::epoll_ctl(t, a),
        EPOLL_WAIT | EPOLL_PWAIT | EPOLL_PWAIT2 => Some(poll::epoll_wait(t, number, a)),
        CLOSE => close(t, a),
        DUP2 | DUP3 => Some(Ok(descriptor::duplicate_onto(t, number, a))),
        DUP => Some(duplicate(t, number, a)),
        CLOSE_RANGE => Some(Ok(descriptor::close_range(t, a))),
        FCNTL | IOCTL | SENDFILE | SPLICE | TEE => control(t, number, a),
        RT_SIGACTION => Some(signal::action(t, a)),
        RT_SIGPROCMASK => Some(signal::mask(t, context, a)),
        SIGALTSTACK => Some(crate::signal::alternate(t, context, a)),
        BRK => Some(Ok(BREAK.with(|| memory::set(a[0])))),
        MMAP | MUNMAP | MPROTECT | MREMAP | MADVISE | PKEY_MPROTECT | SHMAT => keep_off(number, a),
        FORK => Some(Ok(strict_thread::clone(t, context, [17, 0, 0, 0, 0]))),
        VFORK => Some(Ok(strict_thread::clone(t, context, [17 | thread::CLONE_VM | 0x4000, 0, 0, 0, 0]))),
        CLONE => Some(Ok(strict_thread::clone(t, context, thread::clone_arguments(context, a)))),
        CLONE3 => Some(thread::clone3_arguments(a[0], a[1]).map(|arguments| strict_thread::clone(t, context, arguments))),
        EXECVE => Some(Ok(crate::exec::execve(t, path_of(t, a[0]), a[1], a[2]))),
        EXECVEAT => Some(Ok(crate::exec::execveat(t, a))),
        EXIT => strict_thread::exit(t, a[0]),
        OPEN | OPENAT => {
            let at = usize::from(number == OPENAT);
            let path = path_of(t, a[at]);
            (path != a[at]).then(|| {
                let mut arguments = *a;
                arguments[at] = path;
                Ok(sys::call(number, &arguments))
            })
        }
        READLINK | READLINKAT => {
            let at = usize::from(number == READLINKAT);
            crate::proc::whose_executable(t, a[at]).is_some().then(|| readlink(t, number, a, at))
        }
        // What is here is a thread's own way into the loader, and its way back.
        PRCTL if a[0] == 59 || a[0] == 22 => Some(unsupported(t, number, a[0], sys::EINVAL)),
        ARCH_PRCTL if matches!(a[0], 0x1001 | 0x1004) => Some(unsupported(t, number, a[0], sys::EPERM)),
        SECCOMP => Some(unsupported(t, number, a[0], sys::EINVAL)),
        IO_URING_SETUP | IO_URING_ENTER | IO_URING_REGISTER => Some(unsupported(t, number, 0, sys::ENOSYS)),
        _ => None,
    }
}

/// Calls on sockets, and reading and writing.
fn socket(t: &mut Thread, number: usize, a: &[usize; 6]) -> Option<Answer> {
    let word = descriptor::word(t, a[0]);
    match descriptor::kind_of(word) {
        kind::VIRTUAL => Some(Ok(forward(t, number, a, word))),
        kind::NONE => Some(Err(sys::EBADF)),
        _ => None,
    }
}

fn make_socket(t: &mut Thread, a: &[usize; 6]) -> Option<Answer> {
    if matches!(a[0] as i32, AF_UNIX | AF_ALG) {
        return None;
    }
    let made = forward(t, nr::SOCKET, a, 0);
    Some(Ok(if made < 0 { made } else { call::hand(t, a[1]) }))
}

fn accept(t: &mut Thread, number: usize, a: &[usize; 6]) -> Option<Answer> {
    let word = descriptor::word(t, a[0]);
    match descriptor::kind_of(word) {
        kind::VIRTUAL => {}
        kind::NONE => return Some(Err(sys::EBADF)),
        _ => return None,
    }
    let room = call::can_open();
    if room < 0 {
        return Some(Err(room));
    }
    let taken = forward(t, number, a, word);
    if taken == sys::EFAULT {
        // Its address could not be written: the kernel closes what was accepted.
        call::drop_made(t);
    }
    let flags = if number == nr::ACCEPT4 { a[3] } else { 0 };
    Some(Ok(if taken < 0 { taken } else { call::hand(t, flags) }))
}

fn close(t: &mut Thread, a: &[usize; 6]) -> Option<Answer> {
    let fd = a[0] as u32 as usize;
    match descriptor::kind_of(descriptor::word(t, fd)) {
        kind::VIRTUAL | kind::EPOLL | kind::NONE => Some(Ok(descriptor::close(t, fd))),
        _ => {
            descriptor::forget(t, fd);
            None
        }
    }
}

/// preadv2 and pwritev2 where the descriptor stands: on a socket readv and writev, or what does not wait.
fn at_end(t: &mut Thread, number: usize, a: &[usize; 6]) -> Option<Answer> {
    let reads = number == nr::PREADV2;
    if a[5] & !position::RWF_SUPPORTED != 0 {
        // What the kernel says of the placeholder holds for a socket, too.
        return None;
    }
    if a[5] & position::RWF_NOWAIT == 0 {
        return socket(t, if reads { nr::READV } else { nr::WRITEV }, a);
    }
    let mut message = [0; 7];
    let (number, one) = position::as_message(number, a, &mut message);
    socket(t, number, &one)
}

/// ioctl, fcntl, and moving data inside the kernel.
fn control(t: &mut Thread, number: usize, a: &[usize; 6]) -> Option<Answer> {
    const F_DUPFD: usize = 0;
    const F_DUPFD_CLOEXEC: usize = 1030;
    let (fd, what) = (a[0], a[1] as u32 as usize);
    match number {
        nr::FCNTL => matches!(what, F_DUPFD | F_DUPFD_CLOEXEC).then(|| duplicate(t, number, a)),
        nr::IOCTL => {
            // FIONBIO, FIOASYNC, FIOCLEX, FIONCLEX are the descriptor's own.
            let of_descriptor = matches!(what, 0x5421 | 0x5452 | 0x5451 | 0x5450);
            let interfaces = (0x8910..0x8a00).contains(&what);
            let word = descriptor::word(t, fd);
            let ours = descriptor::kind_of(word) == kind::VIRTUAL || interfaces && descriptor::is_socket(fd);
            (ours && !of_descriptor).then(|| Ok(forward(t, number, a, word)))
        }
        nr::SENDFILE => {
            let [to, from] = [a[0], a[1]].map(|fd| descriptor::kind_of(descriptor::word(t, fd)));
            if to == kind::VIRTUAL && from == kind::FILE { Some(crate::native::send_file(t, a)) } else { poll::between(t, number, a) }
        }
        _ => poll::between(t, number, a),
    }
}

/// Memory calls, kept off what is ours.
fn keep_off(number: usize, a: &[usize; 6]) -> Option<Answer> {
    memory::touches_ours(number, a).then_some(Err(sys::EINVAL))
}
