//! Calls about who a program is: users, groups and capabilities; and whose files are.

use crate::abi::{CAPABILITIES, GROUPS_MAX, Process};
use crate::block::Thread;
use crate::calls::*;
use crate::forward::Answer;
use crate::identity::{CAP_SETGID, CAP_SETUID, EFFECTIVE, FILES, REAL, SAME, SAVED, effective, get, may, set};
use crate::sys;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// getuid(2)
pub fn getuid(t: &mut Thread, _: Getuid) -> isize {
    get(&t.process.users, REAL) as isize
}

/// geteuid(2)
pub fn geteuid(t: &mut Thread, _: Geteuid) -> isize {
    get(&t.process.users, EFFECTIVE) as isize
}

/// getgid(2)
pub fn getgid(t: &mut Thread, _: Getgid) -> isize {
    get(&t.process.groups, REAL) as isize
}

/// getegid(2)
pub fn getegid(t: &mut Thread, _: Getegid) -> isize {
    get(&t.process.groups, EFFECTIVE) as isize
}

/// getresuid(2)
pub fn getresuid(t: &mut Thread, call: Getresuid) -> Answer {
    tell(&t.process.users, [call.ruid, call.euid, call.suid])
}

/// getresgid(2)
pub fn getresgid(t: &mut Thread, call: Getresgid) -> Answer {
    tell(&t.process.groups, [call.rgid, call.egid, call.sgid])
}

fn tell(words: &[AtomicU32; 4], to: [Out<u32>; 3]) -> Answer {
    for (place, pointer) in to.iter().enumerate() {
        sys::write_u32(pointer.0, get(words, place))?;
    }
    Ok(0)
}

/// setuid(2)
pub fn setuid(t: &mut Thread, call: Setuid) -> Answer {
    let p = t.process;
    changing_users(p, || become_one(&p.users, call.uid.get(), may(p, CAP_SETUID)))
}

/// setgid(2)
pub fn setgid(t: &mut Thread, call: Setgid) -> Answer {
    become_one(&t.process.groups, call.gid.get(), may(t.process, CAP_SETGID))
}

/// setreuid(2)
pub fn setreuid(t: &mut Thread, call: Setreuid) -> Answer {
    let p = t.process;
    changing_users(p, || become_two(&p.users, call.ruid.get(), call.euid.get(), may(p, CAP_SETUID)))
}

/// setregid(2)
pub fn setregid(t: &mut Thread, call: Setregid) -> Answer {
    become_two(&t.process.groups, call.rgid.get(), call.egid.get(), may(t.process, CAP_SETGID))
}

/// setresuid(2)
pub fn setresuid(t: &mut Thread, call: Setresuid) -> Answer {
    let p = t.process;
    changing_users(p, || become_three(&p.users, [call.ruid, call.euid, call.suid], may(p, CAP_SETUID)))
}

/// setresgid(2)
pub fn setresgid(t: &mut Thread, call: Setresgid) -> Answer {
    become_three(&t.process.groups, [call.rgid, call.egid, call.sgid], may(t.process, CAP_SETGID))
}

/// setfsuid(2)
pub fn setfsuid(t: &mut Thread, call: Setfsuid) -> isize {
    file_identity(&t.process.users, call.uid.get(), may(t.process, CAP_SETUID))
}

/// setfsgid(2)
pub fn setfsgid(t: &mut Thread, call: Setfsgid) -> isize {
    file_identity(&t.process.groups, call.gid.get(), may(t.process, CAP_SETGID))
}

/// setuid(2): with the right to, all of them; else the effective one becomes the real or the saved one.
fn become_one(words: &[AtomicU32; 4], id: u32, privileged: bool) -> Answer {
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
fn become_two(words: &[AtomicU32; 4], real: u32, effective: u32, privileged: bool) -> Answer {
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
fn become_three(words: &[AtomicU32; 4], ids: [Id; 3], privileged: bool) -> Answer {
    let old = [get(words, REAL), get(words, EFFECTIVE), get(words, SAVED)];
    if !privileged && ids.iter().any(|id| id.get() != SAME && !old.contains(&id.get())) {
        return Err(sys::EPERM);
    }
    for (place, id) in ids.iter().enumerate() {
        if id.get() != SAME {
            set(words, place, id.get());
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
fn changing_users(p: &Process, change: impl FnOnce() -> Answer) -> Answer {
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

/// getgroups(2)
pub fn getgroups(t: &mut Thread, call: Getgroups) -> Answer {
    let p = t.process;
    let room = call.gidsetsize.get();
    let count = p.group_count.load(Relaxed) as usize;
    if room == 0 {
        return Ok(count as isize);
    }
    if room < count as i32 {
        return Err(sys::EINVAL);
    }
    for (index, group) in p.other_groups.iter().take(count).enumerate() {
        sys::write_u32(call.grouplist.0 + 4 * index, group.load(Relaxed))?;
    }
    Ok(count as isize)
}

/// setgroups(2)
pub fn setgroups(t: &mut Thread, call: Setgroups) -> Answer {
    let p = t.process;
    let count = call.gidsetsize.0;
    if !may(p, CAP_SETGID) {
        return Err(sys::EPERM);
    }
    if count > GROUPS_MAX {
        return Err(sys::EINVAL);
    }
    for (index, group) in p.other_groups.iter().take(count).enumerate() {
        group.store(sys::read_u32(call.grouplist.0 + 4 * index)?, Relaxed);
    }
    p.group_count.store(count as u32, Relaxed);
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

/// capget(2)
pub fn capget(t: &mut Thread, call: Capget) -> Answer {
    let p = t.process;
    let at = call.data.0;
    let words = match version(call.header.0) {
        Err(sys::EINVAL) if at == 0 => return Ok(0),
        other => other?,
    };
    if at == 0 {
        return Ok(0);
    }
    let inheritable = p.inheritable.load(Relaxed);
    let sets = [effective(p), CAPABILITIES & !p.capabilities_off[1].load(Relaxed), inheritable];
    for word in 0..words {
        for (index, set) in sets.into_iter().enumerate() {
            sys::write_u32(at + 12 * word + 4 * index, (set >> (32 * word)) as u32)?;
        }
    }
    Ok(0)
}

/// capset(2)
pub fn capset(t: &mut Thread, call: Capset) -> Answer {
    let p = t.process;
    let at = call.data.0;
    let words = version(call.header.0)?;
    let mut sets = [0_u64; 3];
    for word in 0..words {
        for (index, set) in sets.iter_mut().enumerate() {
            *set |= u64::from(sys::read_u32(at + 12 * word + 4 * index)?) << (32 * word);
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
