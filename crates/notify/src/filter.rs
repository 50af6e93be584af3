//! The seccomp filter: which calls of a program go to the supervisor.
//!
//! Hand-written, because a filter is a page of classic BPF and no crate knows the notify action. Rules (measured reasons in
//! docs/linux-notes/seccomp-notify.md):
//! - BPF sees numbers, not memory and not what a descriptor is. So calls whose meaning hides behind a pointer (`sendmsg`) or a descriptor
//!   (`bind`) always go to the supervisor, which lets those of foreign descriptors continue; calls that carry data by plain descriptor
//!   (`read`, `write`, `send`, `recv`) never do.
//! - `socket` passes only for families that cannot reach the host's network: AF_UNIX and AF_ALG. AF_SMC and AF_RDS, for example, ride on
//!   the host's TCP, so "everything but INET" would be a hole. `socketpair` passes for AF_UNIX.
//! - x32 calls get ENOSYS; of the i386 table the calls that make or use sockets and rings, and ioctl by the same requests, go to the
//!   supervisor, which refuses them.
//! - Whoever makes a userfaultfd is known before there is one: then a page of its program may wait for whoever answers there ([`crate::remote`]).
//! - What reaches interfaces by an ioctl's request is never left to the kernel, whatever the descriptor is: another thread could exchange
//!   it between the look and the call.

use crate::sys::{self, Errno, Instruction};
use std::os::fd::OwnedFd;
use weft_intercept::arch;
use weft_loader::calls::requests;

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const ANY_BIT: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K

/// Offset of `nr` in `struct seccomp_data`.
const NUMBER: u32 = 0;
/// Offset of `arch`.
const ARCHITECTURE: u32 = 4;

/// Offset of the low half of an argument (little endian).
const fn low(argument: u32) -> u32 {
    16 + 8 * argument
}
/// Offset of the high half.
const fn high(argument: u32) -> u32 {
    low(argument) + 4
}

/// Let the call run.
pub const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
/// Ask the supervisor.
pub const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
/// Fail with ENOSYS.
pub const NO_SUCH_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// Calls that always go to the supervisor.
pub const ALWAYS: [i64; 18] = [
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Not refused: the supervisor has to know who has one.
    libc::SYS_userfaultfd,
];

/// Flags of `sendto` that a stand-in cannot honour.
pub const SEND_FLAGS: u32 = (libc::MSG_EOR | libc::MSG_MORE | libc::MSG_OOB | libc::MSG_FASTOPEN | libc::MSG_ZEROCOPY) as u32;
/// Flags of `recvfrom` that a stand-in cannot honour (PEEK together with WAITALL is the third).
pub const RECEIVE_FLAGS: u32 = (libc::MSG_OOB | libc::MSG_TRUNC | libc::MSG_ERRQUEUE) as u32;

/// Single ioctl requests that go to the supervisor and tell something about the socket alone: FIONREAD, SIOCOUTQ, SIOCATMARK, SIOCGSTAMP and
/// SIOCGSTAMPNS in their old and 64-bit forms.
pub const IOCTLS: [u32; 7] = [0x541b, 0x5411, 0x8905, 0x8906, 0x8907, 0x8010_8906, 0x8010_8907];
/// USERFAULTFD_IOC_NEW of linux/userfaultfd.h, of /dev/userfaultfd: the other way to what userfaultfd(2) makes.
pub const USERFAULTFD_NEW: u32 = 0xaa00;

/// A place to jump to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Label(usize);

/// What a jump does when its test holds or fails.
#[derive(Clone, Copy)]
enum Go {
    Next,
    To(Label),
}

/// Assembles instructions with labels. Jumps go forward only, as classic BPF has it.
#[derive(Default)]
struct Assembler {
    code: Vec<Instruction>,
    /// Where each label is, once placed.
    places: Vec<Option<usize>>,
    /// (instruction, is the jump for a test that holds, label)
    open: Vec<(usize, bool, Label)>,
}

impl Assembler {
    fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }
    fn place(&mut self, label: Label) {
        self.places[label.0] = Some(self.code.len());
    }
    fn push(&mut self, code: u16, k: u32) {
        self.code.push(Instruction { code, jt: 0, jf: 0, k });
    }
    fn load(&mut self, offset: u32) {
        self.push(LOAD, offset);
    }
    fn and(&mut self, mask: u32) {
        self.push(AND, mask);
    }
    fn finish_with(&mut self, action: u32) {
        self.push(RETURN, action);
    }
    fn jump(&mut self, test: u16, k: u32, holds: Go, fails: Go) {
        let at = self.code.len();
        for (is_holds, go) in [(true, holds), (false, fails)] {
            if let Go::To(label) = go {
                self.open.push((at, is_holds, label));
            }
        }
        self.push(test, k);
    }
    /// What follows for ioctl; falls through for requests that pass.
    fn ioctl(&mut self, here: Label, notify: Label) {
        // ioctl(fd, request, argument): the kernel looks at the low half of the request.
        self.place(here);
        self.load(low(1));
        for request in IOCTLS {
            self.jump(EQUAL, request, Go::To(notify), Go::Next);
        }
        self.interface_ioctl(notify);
    }
    /// For the requests of [`requests`], [`requests::makes_interfaces`] and [`USERFAULTFD_NEW`], with the request loaded; falls through for others.
    fn interface_ioctl(&mut self, notify: Label) {
        self.jump(EQUAL, requests::PPPIOCNEWUNIT, Go::To(notify), Go::Next);
        self.jump(EQUAL, USERFAULTFD_NEW, Go::To(notify), Go::Next);
        for range in [requests::INTERFACES, requests::WIRELESS] {
            self.range(range, notify);
        }
        self.and(0xffff);
        self.range(requests::IOCTL_TUN, notify);
    }
    fn range(&mut self, range: std::ops::Range<u32>, notify: Label) {
        let inside = self.label();
        let after = self.label();
        self.jump(AT_LEAST, range.start, Go::To(inside), Go::To(after));
        self.place(inside);
        self.jump(AT_LEAST, range.end, Go::To(after), Go::To(notify));
        self.place(after);
    }
    /// The i386 table: all of it, with returns of its own, because jumps are short.
    fn compat(&mut self, here: Label) {
        use Go::{Next, To};
        let (rest, notify) = (self.label(), self.label());
        self.place(here);
        self.load(NUMBER);
        for (number, _) in arch::COMPAT_REFUSED {
            self.jump(EQUAL, number, To(notify), Next);
        }
        self.jump(EQUAL, arch::COMPAT_USERFAULTFD, To(notify), Next);
        self.jump(EQUAL, arch::COMPAT_IOCTL, Next, To(rest));
        self.load(low(1));
        self.interface_ioctl(notify);
        self.place(rest);
        self.finish_with(ALLOW);
        self.place(notify);
        self.finish_with(NOTIFY);
    }
    /// Fills in the distances.
    ///
    /// # Panics
    /// When a label was not placed or is too far: the filter is a constant, so its test finds that.
    fn finish(mut self) -> Vec<Instruction> {
        for (at, is_holds, label) in self.open {
            let place = self.places[label.0].expect("every label of the filter is placed");
            let distance = u8::try_from(place - at - 1).expect("every jump of the filter is short");
            if is_holds {
                self.code[at].jt = distance;
            } else {
                self.code[at].jf = distance;
            }
        }
        self.code
    }
}

/// The filter's instructions.
pub fn program() -> Vec<Instruction> {
    use Go::{Next, To};
    let mut a = Assembler::default();
    let (native, allow, notify, refuse) = (a.label(), a.label(), a.label(), a.label());
    let (socket, pair, send_to, receive_from, ioctl) = (a.label(), a.label(), a.label(), a.label(), a.label());

    a.load(ARCHITECTURE);
    a.jump(EQUAL, arch::AUDIT_ARCH, To(native), Next);
    let compat = a.label();
    a.jump(EQUAL, arch::AUDIT_ARCH_COMPAT, To(compat), To(refuse));
    a.compat(compat);

    a.place(native);
    a.load(NUMBER);
    a.jump(AT_LEAST, arch::X32_BIT, To(refuse), Next);
    let number = |call: i64| u32::try_from(call).unwrap_or(u32::MAX);
    for call in ALWAYS {
        a.jump(EQUAL, number(call), To(notify), Next);
    }
    a.jump(EQUAL, number(libc::SYS_ioctl), To(ioctl), Next);
    a.jump(EQUAL, number(libc::SYS_sendto), To(send_to), Next);
    a.jump(EQUAL, number(libc::SYS_recvfrom), To(receive_from), Next);
    a.jump(EQUAL, number(libc::SYS_socketpair), To(pair), Next);
    a.jump(EQUAL, number(libc::SYS_socket), To(socket), To(allow));

    // socket(domain, type, protocol): the domain is an int, so only its low half counts.
    a.place(socket);
    a.load(low(0));
    a.jump(EQUAL, libc::AF_UNIX as u32, To(allow), Next);
    a.jump(EQUAL, libc::AF_ALG as u32, To(allow), To(notify));

    // socketpair(domain, type, protocol, pair)
    a.place(pair);
    a.load(low(0));
    a.jump(EQUAL, libc::AF_UNIX as u32, To(allow), To(notify));

    // sendto(fd, buffer, length, flags, address, length)
    a.place(send_to);
    a.load(low(4));
    a.jump(EQUAL, 0, Next, To(notify));
    a.load(high(4));
    a.jump(EQUAL, 0, Next, To(notify));
    a.load(low(3));
    a.jump(ANY_BIT, SEND_FLAGS, To(notify), To(allow));

    // recvfrom(fd, buffer, length, flags, address, length pointer)
    a.place(receive_from);
    a.load(low(4));
    a.jump(EQUAL, 0, Next, To(notify));
    a.load(high(4));
    a.jump(EQUAL, 0, Next, To(notify));
    a.load(low(3));
    a.jump(ANY_BIT, RECEIVE_FLAGS, To(notify), Next);
    let both = (libc::MSG_PEEK | libc::MSG_WAITALL) as u32;
    a.and(both);
    a.jump(EQUAL, both, To(notify), To(allow));

    a.ioctl(ioctl, notify);

    a.place(allow);
    a.finish_with(ALLOW);
    a.place(notify);
    a.finish_with(NOTIFY);
    a.place(refuse);
    a.finish_with(NO_SUCH_CALL);
    a.finish()
}

/// Puts the filter on the calling thread and everything it starts; returns the descriptor from which the supervisor reads.
///
/// Tries without `PR_SET_NO_NEW_PRIVS` first, so that set-uid programs keep working where weft is privileged (CAP_SYS_ADMIN); otherwise
/// sets it, and set-uid programs run without their extra rights. Async-signal-safe: `program` is built beforehand.
///
/// # Errors
/// EBUSY when this thread already has a filter with a listener (one supervisor per process tree); EINVAL on kernels without notification.
pub fn install(program: &[Instruction]) -> Result<OwnedFd, Errno> {
    match sys::install_filter(program) {
        Err(Errno(libc::EACCES)) => {
            sys::no_new_privileges()?;
            sys::install_filter(program)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct seccomp_data`.
    #[derive(Clone, Copy)]
    struct Data {
        number: u32,
        architecture: u32,
        arguments: [u64; 6],
    }

    impl Data {
        fn word(&self, offset: u32) -> u32 {
            match offset {
                NUMBER => self.number,
                ARCHITECTURE => self.architecture,
                8 | 12 => 0,
                _ => {
                    let index = (offset as usize - 16) / 8;
                    let shift = if (offset - 16).is_multiple_of(8) { 0 } else { 32 };
                    (self.arguments[index] >> shift) as u32
                }
            }
        }
    }

    /// Interprets a filter as the kernel does.
    fn run(program: &[Instruction], data: &Data) -> u32 {
        let (mut at, mut accumulator) = (0_usize, 0_u32);
        for _ in 0..program.len() {
            let instruction = program[at];
            at += 1;
            let holds = match instruction.code {
                LOAD => {
                    accumulator = data.word(instruction.k);
                    continue;
                }
                AND => {
                    accumulator &= instruction.k;
                    continue;
                }
                RETURN => return instruction.k,
                EQUAL => accumulator == instruction.k,
                AT_LEAST => accumulator >= instruction.k,
                ANY_BIT => accumulator & instruction.k != 0,
                other => panic!("unknown instruction {other:#x}"),
            };
            at += usize::from(if holds { instruction.jt } else { instruction.jf });
        }
        panic!("the filter ran off its end");
    }

    fn native(number: i64, arguments: [u64; 6]) -> u32 {
        run(&program(), &Data { number: number as u32, architecture: arch::AUDIT_ARCH, arguments })
    }

    #[test]
    fn calls_that_carry_plain_data_pass() {
        for call in [libc::SYS_read, libc::SYS_write, libc::SYS_close, libc::SYS_epoll_wait, libc::SYS_openat, libc::SYS_sendfile] {
            assert_eq!(native(call, [u64::MAX; 6]), ALLOW, "call {call}");
        }
    }

    #[test]
    fn calls_that_bpf_cannot_judge_always_ask() {
        for call in ALWAYS {
            assert_eq!(native(call, [0; 6]), NOTIFY, "call {call}");
        }
    }

    #[test]
    fn sockets_of_every_family_that_could_reach_the_network_ask() {
        for family in 0..64 {
            let expected = if family == libc::AF_UNIX as u64 || family == libc::AF_ALG as u64 { ALLOW } else { NOTIFY };
            assert_eq!(native(libc::SYS_socket, [family, 1, 0, 0, 0, 0]), expected, "family {family}");
        }
        // The kernel takes an int: the upper half does not turn AF_INET into something else, nor AF_UNIX into a trap.
        assert_eq!(native(libc::SYS_socket, [2 | 1 << 32, 1, 0, 0, 0, 0]), NOTIFY);
        assert_eq!(native(libc::SYS_socket, [1 | 1 << 32, 1, 0, 0, 0, 0]), ALLOW);
        for family in 0..64 {
            let expected = if family == libc::AF_UNIX as u64 { ALLOW } else { NOTIFY };
            assert_eq!(native(libc::SYS_socketpair, [family, 1, 0, 4096, 0, 0]), expected, "pair of family {family}");
        }
    }

    #[test]
    fn sendto_and_recvfrom_ask_for_addresses_and_for_flags_that_a_stand_in_cannot_honour() {
        for call in [libc::SYS_sendto, libc::SYS_recvfrom] {
            assert_eq!(native(call, [3, 4096, 10, libc::MSG_NOSIGNAL as u64, 0, 0]), ALLOW);
            assert_eq!(native(call, [3, 4096, 10, 0, 4096, 16]), NOTIFY);
            assert_eq!(native(call, [3, 4096, 10, 0, 1 << 32, 16]), NOTIFY, "an address whose low half is zero");
        }
        for flag in [libc::MSG_EOR, libc::MSG_MORE, libc::MSG_OOB, libc::MSG_FASTOPEN, libc::MSG_ZEROCOPY] {
            assert_eq!(native(libc::SYS_sendto, [3, 4096, 10, flag as u64, 0, 0]), NOTIFY);
        }
        for flag in [libc::MSG_OOB, libc::MSG_TRUNC, libc::MSG_ERRQUEUE, libc::MSG_PEEK | libc::MSG_WAITALL] {
            assert_eq!(native(libc::SYS_recvfrom, [3, 4096, 10, flag as u64, 0, 0]), NOTIFY);
        }
        for flag in [libc::MSG_PEEK, libc::MSG_WAITALL, libc::MSG_DONTWAIT] {
            assert_eq!(native(libc::SYS_recvfrom, [3, 4096, 10, flag as u64, 0, 0]), ALLOW);
        }
    }

    #[test]
    fn ioctls_ask_by_request() {
        let compat = |request: u32| {
            let arguments = [3, u64::from(request), 0, 0, 0, 0];
            run(&program(), &Data { number: arch::COMPAT_IOCTL, architecture: arch::AUDIT_ARCH_COMPAT, arguments })
        };
        // TUNSETIFF, TUNSETQUEUE, TUNGETIFF and PPPIOCNEWUNIT at the end.
        let interfaces =
            [0x8910, 0x8912, 0x8922, 0x8927, 0x894b, 0x8946, 0x890b, 0x89ff, 0x8b01, 0x4004_54ca, 0x4004_54d9, 0x8004_54d2, 0xc004_743e];
        for request in interfaces {
            assert_eq!((native(libc::SYS_ioctl, [3, request, 0, 0, 0, 0]), compat(request as u32)), (NOTIFY, NOTIFY), "{request:#x}");
            assert_eq!(native(libc::SYS_ioctl, [3, request | 1 << 32, 0, 0, 0, 0]), NOTIFY, "the kernel takes an unsigned int");
            let request = request as u32;
            let interfaces = requests::is_about_interfaces(request) || requests::makes_interfaces(request);
            assert_eq!(interfaces, request != requests::SIOCOUTQNSD, "{request:#x}");
        }
        let arguments = [3, USERFAULTFD_NEW.into(), 0, 0, 0, 0];
        assert_eq!((native(libc::SYS_ioctl, arguments), compat(USERFAULTFD_NEW)), (NOTIFY, NOTIFY));
        for request in IOCTLS {
            assert_eq!((native(libc::SYS_ioctl, [3, request.into(), 0, 0, 0, 0]), compat(request)), (NOTIFY, ALLOW), "{request:#x}");
            assert!(!requests::is_about_interfaces(request));
        }
        for request in [0x5401_u32, 0x5413, 0x5421, 0x5451, 0x54c7, 0x54e4, 0x8904, 0x8a00, 0x8aff, 0x8c00, 0] {
            assert_eq!((native(libc::SYS_ioctl, [3, request.into(), 0, 0, 0, 0]), compat(request)), (ALLOW, ALLOW), "{request:#x}");
        }
    }

    #[test]
    fn other_call_tables_cannot_make_or_use_sockets() {
        let program = program();
        let foreign = |architecture, number| run(&program, &Data { number, architecture, arguments: [2, 1, 0, 0, 0, 0] });
        assert_eq!(foreign(arch::AUDIT_ARCH, arch::X32_BIT | 41), NO_SUCH_CALL);
        for (number, _) in arch::COMPAT_REFUSED {
            assert_eq!(foreign(arch::AUDIT_ARCH_COMPAT, number), NOTIFY);
        }
        assert_eq!(foreign(arch::AUDIT_ARCH_COMPAT, arch::COMPAT_USERFAULTFD), NOTIFY);
        assert_eq!(foreign(arch::AUDIT_ARCH_COMPAT, 3), ALLOW, "read of the i386 table");
        assert_eq!(foreign(0xdead_beef, 0), NO_SUCH_CALL);
    }

    #[test]
    fn every_path_ends() {
        let program = program();
        for (at, instruction) in program.iter().enumerate() {
            if matches!(instruction.code, EQUAL | AT_LEAST | ANY_BIT) {
                assert!(at + 1 + usize::from(instruction.jt.max(instruction.jf)) < program.len());
            }
        }
        assert_eq!(program.last().map(|last| last.code), Some(RETURN));
        for number in 0..512 {
            for arguments in [[0; 6], [u64::MAX; 6]] {
                native(number, arguments);
            }
        }
    }
}
