//! What AF_UNIX sockets do: what blocks is tried until all of it is done or its time limit is over, by the node's clock; who somebody is, and what the
//! kernel draws by chance, are the node's. Names are the kernel's here.

use super::names;
use crate::abi::kind;
use crate::arena::header;
use crate::arena::is_own_machine;
use crate::arena::{monotonic, touched};
use crate::block::Thread;
use crate::calls::number as nr;
use crate::descriptor;
use crate::identity;
use crate::limits;
use crate::native::{self, Patience, SOL_SOCKET, option};
use crate::scrub;
use crate::sys::{self, VECTORS_MAX};
use core::sync::atomic::Ordering::Relaxed;

const SO_TYPE: usize = 3;
const SO_PASSCRED: usize = 16;
const SO_PEERCRED: usize = 17;
const SO_COOKIE: usize = 57;
const SO_PEERGROUPS: usize = 59;
const SO_NETNS_COOKIE: usize = 71;
const SO_PASSPIDFD: usize = 76;
const SOCK_STREAM: u64 = 1;
const MSG_PEEK: usize = 2;
const MSG_DONTWAIT: usize = 0x40;
const MSG_WAITALL: usize = 0x100;
const MSG_NOSIGNAL: usize = 0x4000;
const MSG_WAITFORONE: usize = 0x1_0000;
const ERANGE: isize = -34;

/// Calls on a socket of the kernel's.
pub fn call(t: &mut Thread, number: usize, a: &[usize; 6]) -> isize {
    match number {
        nr::SENDTO | nr::SENDMSG => send(t, number, a),
        nr::RECVFROM | nr::RECVMSG => receive(t, number, a),
        nr::SENDMMSG => several(t, nr::SENDMSG, a),
        nr::RECVMMSG => several(t, nr::RECVMSG, a),
        nr::CONNECT | nr::ACCEPT | nr::ACCEPT4 => {
            if number == nr::CONNECT {
                name_if_needed(a[0]);
            }
            native::connection(t, number, a)
        }
        _ => {
            let result = match number {
                nr::GETSOCKOPT => get_option(t, a),
                nr::SETSOCKOPT => set_option(a),
                _ => sys::call(number, a),
            };
            touched();
            result
        }
    }
}

fn is_stream(fd: usize) -> bool {
    option(fd, SO_TYPE).is_some_and(|kind| kind[0] as u32 as u64 == SOCK_STREAM)
}

/// Which argument holds the flags.
fn flags_at(number: usize) -> usize {
    if matches!(number, nr::SENDTO | nr::RECVFROM) { 3 } else { 2 }
}

fn may_wait(number: usize, a: &[usize; 6]) -> bool {
    a[flags_at(number)] & MSG_DONTWAIT == 0 && descriptor::flags(a[0]) & descriptor::NONBLOCK == 0
}

/// The buffers of a call: how many, and each one's address and bytes.
struct Buffers {
    list: usize,
    count: usize,
    one: [usize; 2],
}

impl Buffers {
    fn of(number: usize, a: &[usize; 6]) -> Buffers {
        if matches!(number, nr::SENDTO | nr::RECVFROM) {
            return Buffers { list: 0, count: 1, one: [a[1], a[2]] };
        }
        // struct msghdr: msg_iov at 16, msg_iovlen at 24.
        let word = |offset| sys::read_u64(a[1] + offset).unwrap_or(0) as usize;
        Buffers { list: word(16), count: word(24).min(VECTORS_MAX), one: [0; 2] }
    }
    fn get(&self, index: usize) -> [usize; 2] {
        if self.list == 0 {
            return self.one;
        }
        [0, 8].map(|offset| sys::read_u64(self.list + 16 * index + offset).unwrap_or(0) as usize)
    }
    fn bytes(&self) -> usize {
        (0..self.count).fold(0, |sum: usize, index| sum.saturating_add(self.get(index)[1]))
    }
}

/// Does the rest of what a call on a stream has begun, buffer by buffer; returns how much there is in all.
fn rest(t: &mut Thread, number: usize, a: &[usize; 6], began: usize, patience: &mut Patience) -> usize {
    let writes = matches!(number, nr::SENDTO | nr::SENDMSG);
    let again = if writes { nr::SENDTO } else { nr::RECVFROM };
    let flags = a[flags_at(number)] & !MSG_WAITALL | MSG_DONTWAIT | if writes { MSG_NOSIGNAL } else { 0 };
    let buffers = Buffers::of(number, a);
    let (mut done, mut passed) = (began, 0);
    for index in 0..buffers.count {
        let [base, bytes] = buffers.get(index);
        while done < passed + bytes {
            let at = done - passed;
            let moved = sys::call(again, &[a[0], base + at, bytes - at, flags, 0, 0]);
            match moved {
                sys::EAGAIN => {
                    if patience.wait(t, a[0], number, writes).is_err() {
                        return done;
                    }
                }
                moved if moved <= 0 => return done,
                moved => {
                    touched();
                    done += moved as usize;
                }
            }
        }
        passed += bytes;
    }
    done
}

/// sendto(2), sendmsg(2)
fn send(t: &mut Thread, number: usize, a: &[usize; 6]) -> isize {
    let flags = flags_at(number);
    name_if_needed(a[0]);
    let mut arguments = *a;
    arguments[flags] |= MSG_DONTWAIT;
    let mut room = None;
    if number == nr::SENDMSG {
        match identity::Credentials::rewrite(&mut room, t, a[1]) {
            Ok(Some(message)) => arguments[1] = message,
            Ok(None) => {}
            Err(errno) => return errno,
        }
    }
    let mut patience = Patience::default();
    loop {
        let result = sys::call(number, &arguments);
        if result == sys::EAGAIN && may_wait(number, a) {
            if let Err(errno) = patience.wait(t, a[0], number, true) {
                return errno;
            }
            continue;
        }
        touched();
        limits::shared_limit(t, number, result);
        if number == nr::SENDMSG && result >= 0 && header().sends_objects.load(Relaxed) == 0 && sends_objects(t, a[1]) {
            header().sends_objects.store(1, Relaxed);
        }
        if result > 0 && (result as usize) < Buffers::of(number, a).bytes() && may_wait(number, a) && is_stream(a[0]) {
            return rest(t, number, a, result as usize, &mut patience) as isize;
        }
        return if a[flags] & MSG_NOSIGNAL == 0 { native::after(t, result, true) } else { result };
    }
}

/// Does a message send descriptors of the node's objects?
fn sends_objects(t: &mut Thread, message: usize) -> bool {
    const SCM_RIGHTS: u32 = 1;
    // struct msghdr: msg_control at 32, msg_controllen at 40; struct cmsghdr: length, level, kind.
    let word = |at| sys::read_u64(at).unwrap_or(0) as usize;
    let (mut at, mut left) = (word(message + 32), word(message + 40));
    while at != 0 && left >= 16 {
        let length = word(at).min(left);
        let what = [8, 12].map(|offset| sys::read_u32(at + offset).unwrap_or(0));
        if what == [SOL_SOCKET as u32, SCM_RIGHTS] {
            let mut fds = (16..length.saturating_sub(3)).step_by(4).map(|offset| sys::read_u32(at + offset).unwrap_or(u32::MAX) as usize);
            if fds.any(|fd| descriptor::kind_of(descriptor::word(t, fd)) == kind::VIRTUAL) {
                return true;
            }
        }
        let step = length.next_multiple_of(8).max(16);
        (at, left) = (at + step, left.saturating_sub(step));
    }
    false
}

/// May a message that was received have lost descriptors that came with it?
fn throws_away(number: usize, message: usize) -> bool {
    const MSG_CTRUNC: u32 = 8;
    // struct msghdr: msg_control at 32, msg_controllen at 40 (what was received), msg_flags at 48.
    number == nr::RECVFROM
        || sys::read_u64(message + 32).unwrap_or(0) == 0
        || sys::read_u32(message + 48).unwrap_or(0) & MSG_CTRUNC != 0
}

/// recvfrom(2), recvmsg(2)
fn receive(t: &mut Thread, number: usize, a: &[usize; 6]) -> isize {
    let flags = flags_at(number);
    let mut arguments = *a;
    arguments[flags] |= MSG_DONTWAIT;
    let mut patience = Patience::default();
    loop {
        let mut result = sys::call(number, &arguments);
        if result == sys::EAGAIN && may_wait(number, a) {
            if !native::is_shut(a[0]) {
                if let Err(errno) = patience.wait(t, a[0], number, false) {
                    return errno;
                }
                continue;
            }
            result = sys::call(number, a);
        }
        if result != sys::EAGAIN {
            touched();
        }
        if number == nr::RECVMSG && result >= 0 {
            // Whoever gave a bad address was told so by the kernel.
            let _ = scrub::control(a[1]);
        }
        if result >= 0 && header().sends_objects.load(Relaxed) != 0 && a[flags] & MSG_PEEK == 0 && throws_away(number, a[1]) {
            descriptor::look_for_closed(t);
        }
        let whole = a[flags] & (MSG_WAITALL | MSG_PEEK) == MSG_WAITALL;
        if whole && result > 0 && (result as usize) < Buffers::of(number, a).bytes() && may_wait(number, a) && is_stream(a[0]) {
            return rest(t, number, a, result as usize, &mut patience) as isize;
        }
        return result;
    }
}

/// sendmmsg(2), recvmmsg(2): one after the other. `number`: what each is.
fn several(t: &mut Thread, number: usize, a: &[usize; 6]) -> isize {
    let mut until = u64::MAX;
    if number == nr::RECVMSG && a[4] != 0 {
        let (Ok(seconds), Ok(nanos)) = (sys::read_u64(a[4]), sys::read_u64(a[4] + 8)) else { return sys::EFAULT };
        if seconds > i64::MAX as u64 || nanos >= 1_000_000_000 {
            return sys::EINVAL;
        }
        until = monotonic().saturating_add(seconds.saturating_mul(1_000_000_000)).saturating_add(nanos);
    }
    let mut flags = a[3] & !MSG_WAITFORONE;
    for index in 0..a[2].min(VECTORS_MAX) {
        // struct mmsghdr: a msghdr of 56 bytes and a length.
        let message = a[1] + 64 * index;
        let one = [a[0], message, flags, 0, 0, 0];
        let result = if number == nr::SENDMSG { send(t, number, &one) } else { receive(t, number, &one) };
        if result < 0 {
            return if index == 0 { result } else { index as isize };
        }
        if sys::write_u32(message + 56, result as u32).is_err() {
            return if index == 0 { sys::EFAULT } else { index as isize };
        }
        if a[3] & MSG_WAITFORONE != 0 {
            flags |= MSG_DONTWAIT;
        }
        // recvmmsg(2): "The timeout is checked only after the receipt of each datagram".
        if monotonic() >= until {
            return index as isize + 1;
        }
    }
    a[2].min(VECTORS_MAX) as isize
}

/// unix(7): a socket with SO_PASSCRED that has no name gets one when it connects or sends.
fn name_if_needed(fd: usize) {
    if header().passes_credentials.load(Relaxed) == 0 {
        return;
    }
    let passes = |name| option(fd, name).is_some_and(|value| value[0] as u32 != 0);
    if passes(SO_PASSCRED) || passes(SO_PASSPIDFD) {
        names::name(fd);
    }
}

fn set_option(a: &[usize; 6]) -> isize {
    if a[1] == SOL_SOCKET && matches!(a[2], SO_PASSCRED | SO_PASSPIDFD) && is_own_machine() {
        header().passes_credentials.store(1, Relaxed);
    }
    sys::call(nr::SETSOCKOPT, a)
}

/// getsockopt(2): numbers of the host's, and who the other end is.
fn get_option(t: &Thread, a: &[usize; 6]) -> isize {
    if a[1] != SOL_SOCKET || !is_own_machine() {
        return sys::call(nr::GETSOCKOPT, a);
    }
    if a[2] == SO_PEERGROUPS {
        return peer_groups(t, a);
    }
    let result = sys::call(nr::GETSOCKOPT, a);
    if result < 0 {
        return result;
    }
    let patched = match a[2] {
        SO_COOKIE => crate::files::number_of(a[0], c"".as_ptr() as usize, 0x1000).map_or(Ok(()), |number| sys::write_u64(a[3], number)),
        SO_NETNS_COOKIE => sys::write_u64(a[3], 1),
        SO_PEERCRED => peer(t, a),
        _ => Ok(()),
    };
    patched.map_or_else(|errno| errno, |()| result)
}

/// struct ucred: pid, uid, gid, as many bytes as were asked for. The kernel remembers who called connect or listen; who that process is now is said.
fn peer(t: &Thread, a: &[usize; 6]) -> Result<(), isize> {
    let length = sys::read_u32(a[4])?;
    let Some([user, group]) = identity::effective_of(t, sys::read_u32(a[3])?) else { return Ok(()) };
    if length >= 8 {
        sys::write_u32(a[3] + 4, user)?;
    }
    if length >= 12 {
        sys::write_u32(a[3] + 8, group)?;
    }
    Ok(())
}

fn peer_groups(t: &Thread, a: &[usize; 6]) -> isize {
    const ENODATA: isize = -61;
    let Some(found) = option(a[0], SO_PEERCRED) else { return sys::call(nr::GETSOCKOPT, a) };
    let Some(process) = identity::process_of(t, found[0] as u32) else { return ENODATA };
    let count = process.group_count.load(Relaxed) as usize;
    let Ok(room) = sys::read_u32(a[4]) else { return sys::EFAULT };
    if sys::write_u32(a[4], 4 * count as u32).is_err() {
        return sys::EFAULT;
    }
    if (room as usize) < 4 * count {
        return ERANGE;
    }
    for (index, group) in process.other_groups.iter().take(count).enumerate() {
        if sys::write_u32(a[3] + 4 * index, group.load(Relaxed)).is_err() {
            return sys::EFAULT;
        }
    }
    0
}
