//! Who a program is. Outside, all programs of a node are one user; inside they begin as root, and change who they are as programs do. Files
//! are root's, and nobody else's: what the host calls a user has no name here.

use crate::abi::{self, CAPABILITIES, Process};
use crate::block::Thread;
use crate::calls::number as nr;
use crate::sys;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Places in `Process::users` and `Process::groups`.
pub const REAL: usize = 0;
pub const EFFECTIVE: usize = 1;
pub const SAVED: usize = 2;
pub const FILES: usize = 3;
/// "Leave it".
pub const SAME: u32 = u32::MAX;
/// CAP_SETGID, CAP_SETUID.
pub const CAP_SETGID: u32 = 6;
pub const CAP_SETUID: u32 = 7;

pub fn get(words: &[AtomicU32; 4], place: usize) -> u32 {
    words[place].load(Relaxed)
}
pub fn set(words: &[AtomicU32; 4], place: usize, value: u32) {
    words[place].store(value, Relaxed);
}

pub fn may(process: &Process, capability: u32) -> bool {
    effective(process) >> capability & 1 != 0
}
pub fn effective(process: &Process) -> u64 {
    CAPABILITIES & !process.capabilities_off[0].load(Relaxed)
}

/// CAP_DAC_OVERRIDE: whose a file is does not matter.
pub fn overrides_rights(t: &Thread) -> bool {
    const CAP_DAC_OVERRIDE: u32 = 1;
    may(t.process, CAP_DAC_OVERRIDE)
}

/// CAP_SYS_RESOURCE: hard limits can be raised.
pub fn manages_resources(t: &Thread) -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    may(t.process, CAP_SYS_RESOURCE)
}

/// kernel/sys.c, check_prlimit_permission: all of the other's users and groups are the caller's real ones, or it manages resources.
pub fn may_limit(t: &Thread, other: &Process) -> bool {
    let own =
        |own: &[AtomicU32; 4], others: &[AtomicU32; 4]| [REAL, EFFECTIVE, SAVED].iter().all(|place| get(others, *place) == get(own, REAL));
    own(&t.process.users, &other.users) && own(&t.process.groups, &other.groups) || manages_resources(t)
}

/// A new image: root has everything again, others have nothing, and what was kept is kept no longer.
pub fn after_exec(p: &Process) {
    p.keep_capabilities.store(0, Relaxed);
    let root = get(&p.users, REAL) == 0 || get(&p.users, EFFECTIVE) == 0;
    let off = if root { 0 } else { CAPABILITIES };
    p.capabilities_off[1].store(off, Relaxed);
    p.capabilities_off[0].store(if get(&p.users, EFFECTIVE) == 0 { off } else { CAPABILITIES }, Relaxed);
    set(&p.users, SAVED, get(&p.users, EFFECTIVE));
    set(&p.groups, SAVED, get(&p.groups, EFFECTIVE));
}

/// The auxiliary vector's AT_UID, AT_EUID, AT_GID and AT_EGID.
pub fn of_image(t: &Thread, what: usize) -> usize {
    let (words, place) = match what {
        11 => (&t.process.users, REAL),
        12 => (&t.process.users, EFFECTIVE),
        13 => (&t.process.groups, REAL),
        _ => (&t.process.groups, EFFECTIVE),
    };
    get(words, place) as usize
}

/// PR_GET_KEEPCAPS and PR_SET_KEEPCAPS.
pub fn keep_capabilities(t: &Thread, to: Option<usize>) -> Result<isize, isize> {
    match to {
        None => Ok(t.process.keep_capabilities.load(Relaxed) as isize),
        Some(value @ (0 | 1)) => {
            t.process.keep_capabilities.store(value as u32, Relaxed);
            Ok(0)
        }
        Some(_) => Err(sys::EINVAL),
    }
}

/// A child is who its parent is.
pub fn copy(from: &Process, to: &Process) {
    for (from, to) in [(&from.users, &to.users), (&from.groups, &to.groups)] {
        (0..4).for_each(|place| set(to, place, get(from, place)));
    }
    for (from, to) in from.other_groups.iter().zip(&to.other_groups) {
        to.store(from.load(Relaxed), Relaxed);
    }
    to.group_count.store(from.group_count.load(Relaxed), Relaxed);
    to.keep_capabilities.store(from.keep_capabilities.load(Relaxed), Relaxed);
    for (from, to) in from.capabilities_off.iter().zip(&to.capabilities_off) {
        to.store(from.load(Relaxed), Relaxed);
    }
    to.inheritable.store(from.inheritable.load(Relaxed), Relaxed);
    to.nice.store(from.nice.load(Relaxed), Relaxed);
    for (from, to) in from.limits.iter().flatten().zip(to.limits.iter().flatten()) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

const AT_SYMLINK_NOFOLLOW: usize = 0x100;

/// What a process that is not root makes is its own: open(2) with O_CREAT, mkdir(2) and the like. `made` does it.
pub fn creating(t: &Thread, folder: usize, path: usize, made: &dyn Fn() -> isize) -> isize {
    let owner = [get(&t.process.users, FILES), get(&t.process.groups, FILES)];
    if owner == [0, 0] || crate::files::number_of(folder, path, AT_SYMLINK_NOFOLLOW).is_some() {
        return made();
    }
    let result = made();
    if result >= 0
        && let Some(number) = crate::files::number_of(folder, path, AT_SYMLINK_NOFOLLOW)
    {
        crate::files::give(number, owner);
    }
    result
}

/// The process of the node with a number; one that has ended as long as nobody has its place.
pub fn process_of(t: &Thread, pid: u32) -> Option<&'static Process> {
    if t.process.pid.load(Relaxed) == pid {
        return Some(t.process);
    }
    (0..abi::PROCESSES_MAX).map(crate::arena::process).find(|one| pid != 0 && one.pid.load(Relaxed) == pid)
}

/// Effective user and group of a process: what SO_PEERCRED tells.
pub fn effective_of(t: &Thread, pid: u32) -> Option<[u32; 2]> {
    process_of(t, pid).map(|one| [get(&one.users, EFFECTIVE), get(&one.groups, EFFECTIVE)])
}

/// Real user and group of a process: what SCM_CREDENTIALS tells.
pub fn real_of(t: &Thread, pid: u32) -> Option<[u32; 2]> {
    process_of(t, pid).map(|one| [get(&one.users, REAL), get(&one.groups, REAL)])
}

const SOL_SOCKET: u32 = 1;
const SCM_CREDENTIALS: u32 = 2;
/// SCM_MAX_FD descriptors and credentials are about half of it.
const CONTROL_BYTES: usize = 2048;

/// A message that names who sends it, as the kernel lets it pass: there all are one user.
pub struct Credentials {
    message: [usize; 7],
    control: [u8; CONTROL_BYTES],
}

impl Credentials {
    /// The message to send instead of the one at `at`, which lies in `room`; None: that one, which names nobody.
    pub fn rewrite(room: &mut Option<Credentials>, t: &mut Thread, at: usize) -> Result<Option<usize>, isize> {
        const ENOBUFS: isize = -105;
        // struct msghdr: msg_control at 32, msg_controllen at 40.
        let (control, bytes) = (sys::read_u64(at + 32)? as usize, sys::read_u64(at + 40)? as usize);
        if control == 0 || bytes < 28 || !crate::arena::is_own_machine() {
            return Ok(None);
        }
        if bytes > CONTROL_BYTES {
            return crate::forward::unsupported(t, nr::SENDMSG, bytes, ENOBUFS).map(|_| None);
        }
        room.insert(Credentials { message: [0; 7], control: [0; CONTROL_BYTES] }).checked(t, at, control, bytes)
    }

    fn checked(&mut self, t: &Thread, at: usize, control: usize, bytes: usize) -> Result<Option<usize>, isize> {
        const CAP_SYS_ADMIN: u32 = 21;
        sys::copy_in(control, &mut self.control[..bytes])?;
        let word = |control: &[u8], at: usize| u32::from_ne_bytes([control[at], control[at + 1], control[at + 2], control[at + 3]]);
        let (mut offset, mut found) = (0, false);
        while offset + 16 <= bytes {
            let length = word(&self.control, offset) as usize;
            if length < 16 || offset + length > bytes {
                break;
            }
            if [8, 12].map(|at| word(&self.control, offset + at)) == [SOL_SOCKET, SCM_CREDENTIALS] && length == 28 {
                let [pid, user, group] = [16, 20, 24].map(|at| word(&self.control, offset + at));
                let p = t.process;
                // net/core/scm.c, scm_check_creds
                let is = |words: &[AtomicU32; 4], id: u32| (0..3).any(|place| get(words, place) == id);
                let allowed = (pid == p.pid.load(Relaxed) || may(p, CAP_SYS_ADMIN))
                    && (is(&p.users, user) || may(p, CAP_SETUID))
                    && (is(&p.groups, group) || may(p, CAP_SETGID));
                if !allowed {
                    return Err(sys::EPERM);
                }
                let kernels = [nr::GETUID, nr::GETGID].map(|number| sys::call(number, &[]) as u32);
                for (id, at) in kernels.into_iter().zip([20, 24]) {
                    self.control[offset + at..offset + at + 4].copy_from_slice(&id.to_ne_bytes());
                }
                found = true;
            }
            offset += length.next_multiple_of(8);
        }
        if !found {
            return Ok(None);
        }
        for (index, word) in self.message.iter_mut().enumerate() {
            *word = sys::read_u64(at + 8 * index)? as usize;
        }
        self.message[4] = self.control.as_ptr() as usize;
        Ok(Some(self.message.as_ptr() as usize))
    }
}
