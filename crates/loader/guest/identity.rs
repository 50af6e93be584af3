//! Who a program is. Outside, all programs of a node are one user; inside they begin as root, and change who they are as programs do. Files
//! are root's, and nobody else's: what the host calls a user has no name here.

use crate::abi::{self, CAPABILITIES, GROUPS_MAX, Process};
use crate::channel::header;
use crate::sys;
use crate::thread::Thread;
use crate::times::{self, Places};
use crate::x86_64::numbers as nr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

const ENOSYS: isize = sys::ENOSYS;
/// Places in `Process::users` and `Process::groups`.
const REAL: usize = 0;
const EFFECTIVE: usize = 1;
const SAVED: usize = 2;
const FILES: usize = 3;
/// "Leave it".
const SAME: u32 = u32::MAX;
/// CAP_SETGID, CAP_SETUID.
const CAP_SETGID: u32 = 6;
const CAP_SETUID: u32 = 7;

fn get(words: &[AtomicU32; 4], place: usize) -> u32 {
    words[place].load(Relaxed)
}
fn set(words: &[AtomicU32; 4], place: usize, value: u32) {
    words[place].store(value, Relaxed);
}

fn may(process: &Process, capability: u32) -> bool {
    effective(process) >> capability & 1 != 0
}
fn effective(process: &Process) -> u64 {
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
    let own = |own: &[AtomicU32; 4], others: &[AtomicU32; 4]| [REAL, EFFECTIVE, SAVED].iter().all(|place| get(others, *place) == get(own, REAL));
    own(&t.process.users, &other.users) && own(&t.process.groups, &other.groups) || manages_resources(t)
}

/// Calls about users, groups and capabilities.
pub fn answer(t: &Thread, number: usize, a: &[usize; 6]) -> Result<isize, isize> {
    let p = t.process;
    let (users, groups) = (&p.users, &p.groups);
    match number {
        nr::GETUID => Ok(get(users, REAL) as isize),
        nr::GETEUID => Ok(get(users, EFFECTIVE) as isize),
        nr::GETGID => Ok(get(groups, REAL) as isize),
        nr::GETEGID => Ok(get(groups, EFFECTIVE) as isize),
        nr::GETRESUID | nr::GETRESGID => {
            let words = if number == nr::GETRESUID { users } else { groups };
            for (place, pointer) in a[..3].iter().enumerate() {
                sys::write_u32(*pointer, get(words, place))?;
            }
            Ok(0)
        }
        nr::SETUID => changing_users(p, || become_one(users, a[0] as u32, may(p, CAP_SETUID))),
        nr::SETGID => become_one(groups, a[0] as u32, may(p, CAP_SETGID)),
        nr::SETREUID => changing_users(p, || become_two(users, a[0] as u32, a[1] as u32, may(p, CAP_SETUID))),
        nr::SETREGID => become_two(groups, a[0] as u32, a[1] as u32, may(p, CAP_SETGID)),
        nr::SETRESUID => changing_users(p, || become_three(users, a, may(p, CAP_SETUID))),
        nr::SETRESGID => become_three(groups, a, may(p, CAP_SETGID)),
        nr::SETFSUID => Ok(file_identity(users, a[0] as u32, may(p, CAP_SETUID))),
        nr::SETFSGID => Ok(file_identity(groups, a[0] as u32, may(p, CAP_SETGID))),
        nr::GETGROUPS => get_groups(p, a),
        nr::SETGROUPS => set_groups(p, a),
        nr::CAPGET => get_capabilities(p, a),
        nr::CAPSET => set_capabilities(p, a),
        _ => Err(ENOSYS),
    }
}

/// setuid(2): with the right to, all of them; else the effective one becomes the real or the saved one.
fn become_one(words: &[AtomicU32; 4], id: u32, privileged: bool) -> Result<isize, isize> {
    if id == SAME {
        return Err(sys::EINVAL);
    }
    if privileged {
        (0..4).for_each(|place| set(words, place, id));
    } else if id == get(words, REAL) || id == get(words, SAVED) {
        set(words, EFFECTIVE, id);
        set(words, FILES, id);
    } else {
        return Err(sys::EPERM);
    }
    Ok(0)
}

/// setreuid(2)
fn become_two(words: &[AtomicU32; 4], real: u32, effective: u32, privileged: bool) -> Result<isize, isize> {
    let old = [get(words, REAL), get(words, EFFECTIVE), get(words, SAVED)];
    if !privileged && (real != SAME && !old[..2].contains(&real) || effective != SAME && !old.contains(&effective)) {
        return Err(sys::EPERM);
    }
    if real != SAME {
        set(words, REAL, real);
    }
    if effective != SAME {
        set(words, EFFECTIVE, effective);
    }
    if real != SAME || effective != SAME && effective != old[0] {
        set(words, SAVED, get(words, EFFECTIVE));
    }
    set(words, FILES, get(words, EFFECTIVE));
    Ok(0)
}

/// setresuid(2)
fn become_three(words: &[AtomicU32; 4], a: &[usize; 6], privileged: bool) -> Result<isize, isize> {
    let old = [get(words, REAL), get(words, EFFECTIVE), get(words, SAVED)];
    if !privileged && a[..3].iter().any(|id| *id as u32 != SAME && !old.contains(&(*id as u32))) {
        return Err(sys::EPERM);
    }
    for (place, id) in a[..3].iter().enumerate() {
        if *id as u32 != SAME {
            set(words, place, *id as u32);
        }
    }
    set(words, FILES, get(words, EFFECTIVE));
    Ok(0)
}

/// setfsuid(2): the old one, whether it became another or not.
fn file_identity(words: &[AtomicU32; 4], id: u32, privileged: bool) -> isize {
    let old = get(words, FILES);
    if id != SAME && (privileged || (0..4).any(|place| get(words, place) == id)) {
        set(words, FILES, id);
    }
    old as isize
}

/// capabilities(7): "If one or more of the real, effective, or saved set user IDs was previously 0, and as a result of the UID changes all of these
/// IDs have a nonzero value, then all capabilities are cleared"; "If the effective user ID is changed from 0 to nonzero", the effective ones; and back.
fn changing_users(p: &Process, change: impl FnOnce() -> Result<isize, isize>) -> Result<isize, isize> {
    let root = |p: &Process| (0..3).any(|place| get(&p.users, place) == 0);
    let (was_root, was_effective) = (root(p), get(&p.users, EFFECTIVE) == 0);
    let result = change()?;
    let [effective, permitted, _] = &p.capabilities_off;
    let is_effective = get(&p.users, EFFECTIVE) == 0;
    if was_root && !root(p) && p.keep_capabilities.load(Relaxed) == 0 {
        permitted.store(CAPABILITIES, Relaxed);
    }
    if was_effective && !is_effective {
        effective.store(CAPABILITIES, Relaxed);
    } else if !was_effective && is_effective {
        effective.store(permitted.load(Relaxed), Relaxed);
    }
    Ok(result)
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

fn get_groups(p: &Process, a: &[usize; 6]) -> Result<isize, isize> {
    let count = p.group_count.load(Relaxed) as usize;
    if a[0] as i32 == 0 {
        return Ok(count as isize);
    }
    if (a[0] as i32) < count as i32 {
        return Err(sys::EINVAL);
    }
    for (index, group) in p.other_groups.iter().take(count).enumerate() {
        sys::write_u32(a[1] + 4 * index, group.load(Relaxed))?;
    }
    Ok(count as isize)
}

fn set_groups(p: &Process, a: &[usize; 6]) -> Result<isize, isize> {
    if !may(p, CAP_SETGID) {
        return Err(sys::EPERM);
    }
    if a[0] > GROUPS_MAX {
        return Err(sys::EINVAL);
    }
    for (index, group) in p.other_groups.iter().take(a[0]).enumerate() {
        group.store(sys::read_u32(a[1] + 4 * index)?, Relaxed);
    }
    p.group_count.store(a[0] as u32, Relaxed);
    Ok(0)
}

const VERSION_1: u32 = 0x1998_0330;
const VERSION_2: u32 = 0x2007_1026;
const VERSION_3: u32 = 0x2008_0522;

/// How many words each set has; an unknown version is answered with the one that is preferred.
fn version(at: usize) -> Result<usize, isize> {
    match sys::read_u32(at)? {
        VERSION_1 => Ok(1),
        VERSION_2 | VERSION_3 => Ok(2),
        _ => {
            sys::write_u32(at, VERSION_3)?;
            Err(sys::EINVAL)
        }
    }
}

fn get_capabilities(p: &Process, a: &[usize; 6]) -> Result<isize, isize> {
    let words = match version(a[0]) {
        Err(sys::EINVAL) if a[1] == 0 => return Ok(0),
        other => other?,
    };
    if a[1] == 0 {
        return Ok(0);
    }
    let inheritable = p.inheritable.load(Relaxed);
    let sets = [effective(p), CAPABILITIES & !p.capabilities_off[1].load(Relaxed), inheritable];
    for word in 0..words {
        for (index, set) in sets.into_iter().enumerate() {
            sys::write_u32(a[1] + 12 * word + 4 * index, (set >> (32 * word)) as u32)?;
        }
    }
    Ok(0)
}

fn set_capabilities(p: &Process, a: &[usize; 6]) -> Result<isize, isize> {
    let words = version(a[0])?;
    let mut sets = [0_u64; 3];
    for word in 0..words {
        for (index, set) in sets.iter_mut().enumerate() {
            *set |= u64::from(sys::read_u32(a[1] + 12 * word + 4 * index)?) << (32 * word);
        }
    }
    let permitted = CAPABILITIES & !p.capabilities_off[1].load(Relaxed);
    let [effective, new, inheritable] = sets.map(|set| set & CAPABILITIES);
    if new & !permitted != 0 || effective & !new != 0 {
        return Err(sys::EPERM);
    }
    p.capabilities_off[0].store(CAPABILITIES & !effective, Relaxed);
    p.capabilities_off[1].store(CAPABILITIES & !new, Relaxed);
    p.inheritable.store(inheritable, Relaxed);
    Ok(0)
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
const AT_EMPTY_PATH: usize = 0x1000;

/// chown(2) and its kind: checked as far as the kernel does without anything becoming somebody else's; whose it is now is our own knowledge.
pub fn change_owner(t: &Thread, number: usize, a: &[usize; 6]) -> isize {
    let mut arguments = *a;
    let at = if number == nr::FCHOWNAT { 2 } else { 1 };
    arguments[at] = SAME as usize;
    arguments[at + 1] = SAME as usize;
    let (folder, path, flags) = match number {
        nr::FCHOWNAT => (a[0], a[1], a[4]),
        nr::FCHOWN => (a[0], c"".as_ptr() as usize, AT_EMPTY_PATH),
        nr::LCHOWN => (sys::AT_FDCWD, a[0], AT_SYMLINK_NOFOLLOW),
        _ => (sys::AT_FDCWD, a[0], 0),
    };
    let call = || sys::call(number, &arguments);
    let result = if flags & AT_EMPTY_PATH != 0 {
        crate::own::changing_open(t, folder, call, |path| sys::call(nr::LCHOWN, &[path, SAME as usize, SAME as usize]))
    } else {
        crate::own::changing(t, folder, path, flags & AT_SYMLINK_NOFOLLOW == 0, call)
    };
    if result < 0 {
        return result;
    }
    if let Some(number) = crate::files::number_of(folder, path, flags) {
        crate::files::give(number, [a[at] as u32, a[at + 1] as u32]);
    }
    result
}

/// What a process that is not root makes is its own: open(2) with O_CREAT, mkdir(2) and the like. `made` does it.
pub fn creating(t: &Thread, folder: usize, path: usize, made: impl FnOnce() -> isize) -> isize {
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

/// What `struct stat` and `struct statx` say that depends on the host: whose a file is, and when it was written (see `times`).
pub fn stat(number: usize, a: &[usize; 6]) -> Result<isize, isize> {
    let result = sys::call(number, a);
    if result < 0 || header().real_start.load(Relaxed) == 0 {
        return Ok(result);
    }
    if number == nr::STATX {
        // atime, btime, ctime, mtime
        crate::files::plain_statx(a[4])?;
        let places = Places { accessed: a[4] + 0x40, written: a[4] + 0x70, changed: a[4] + 0x60, made: a[4] + 0x50 };
        return times::show(&places, sys::read_u32(a[4] + 28)?).map(|()| result);
    }
    let at = if number == nr::NEWFSTATAT { a[2] } else { a[1] };
    // atime, mtime, ctime
    crate::files::plain_stat(at)?;
    let places = Places { accessed: at + 72, written: at + 88, changed: at + 104, made: 0 };
    times::show(&places, sys::read_u32(at + 24)?).map(|()| result)
}

/// The process of the node with a number; one that has ended as long as nobody has its place.
pub fn process_of(t: &Thread, pid: u32) -> Option<&'static Process> {
    if t.process.pid.load(Relaxed) == pid {
        return Some(t.process);
    }
    (0..abi::PROCESSES_MAX).map(crate::channel::process).find(|one| pid != 0 && one.pid.load(Relaxed) == pid)
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
        if control == 0 || bytes < 28 || !crate::plain::wanted() {
            return Ok(None);
        }
        if bytes > CONTROL_BYTES {
            return crate::dispatch::unsupported(t, nr::SENDMSG, bytes, ENOBUFS).map(|_| None);
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
