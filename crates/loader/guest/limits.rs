//! Limits of resources, which belong to the node (`abi::LIMITS`); and those of the kernel that all nodes share.

use crate::abi;
use crate::arena::is_own_machine;
use crate::block::Thread;
use crate::calls::number as nr;
use crate::channel::post;
use crate::forward::Answer;
use crate::identity;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

/// Tells the limit of a process's resource at `old`, and sets what is at `new`; 0: neither.
pub fn change(t: &Thread, who: usize, resource: usize, new: usize, old: usize) -> Answer {
    // SYSCALL_DEFINE4(prlimit64): "if (copy_from_user(&new64, new_rlim, sizeof(new64))) return -EFAULT;" comes before everything else.
    let wanted = if new == 0 { None } else { Some([sys::read_u64(new)?, sys::read_u64(new + 8)?]) };
    if t.strict.on {
        return sys_limit(who, resource, wanted, old);
    }
    // One's own number is 0 for the kernel, too; others are whoever they are in the node.
    let own = who as u32 == 0 || who as u32 == t.process.pid.load(Relaxed);
    if !is_own_machine() {
        return sys_limit(if own { 0 } else { who }, resource, wanted, old);
    }
    let process = if own { t.process } else { identity::process_of(t, who as u32).ok_or(sys::ESRCH)? };
    if !own && !identity::may_limit(t, process) {
        return Err(sys::EPERM);
    }
    let limits = process.limits.get(resource).ok_or(sys::EINVAL)?;
    let was = [limits[0].load(Relaxed), limits[1].load(Relaxed)];
    if let Some([soft, hard]) = wanted {
        if soft > hard {
            return Err(sys::EINVAL);
        }
        // What the node's descriptors and memory are is not the programs' to say.
        let bounded = matches!(resource, abi::LIMIT_DATA | abi::LIMIT_DESCRIPTORS);
        if hard > was[1] && (bounded || !identity::manages_resources(t)) {
            return Err(sys::EPERM);
        }
        limits[0].store(soft, Relaxed);
        limits[1].store(hard, Relaxed);
        let who = if own { 0 } else { who };
        follow(who, resource, soft);
    }
    if old != 0 {
        sys::write_u64(old, was[0])?;
        sys::write_u64(old + 8, was[1])?;
    }
    Ok(0)
}

/// What a program has set its limit to becomes the kernel's, as far as the host allows. The hard one stays: the program's own is kept here.
fn follow(who: usize, resource: usize, soft: u64) {
    const FSIZE: usize = 1;
    const STACK: usize = 3;
    const AS: usize = 9;
    // CPU time is virtual, core files are not made, and the others count what the user has elsewhere.
    if !matches!(resource, FSIZE | abi::LIMIT_DATA | STACK | abi::LIMIT_DESCRIPTORS | AS) {
        return;
    }
    let share = abi::own_share(resource);
    let mut real = [0_u64; 2];
    if sys::call(nr::PRLIMIT64, &[who, resource, 0, real.as_mut_ptr() as usize]) == 0 {
        // RLIM_INFINITY stays.
        real[0] = soft.saturating_add(share).min(real[1]);
        sys::call(nr::PRLIMIT64, &[who, resource, real.as_ptr() as usize, 0]);
    }
}

/// The device and the inode of a process's arena, or of the file that has its number there.
fn arena_of(pid: usize) -> Option<[u64; 2]> {
    const FOLDER: &[u8] = b"/proc/";
    const FILES: &[u8] = b"/fd/";
    let mut path = [0_u8; 40];
    let mut length = FOLDER.len();
    path[..length].copy_from_slice(FOLDER);
    length += sys::decimal(pid as u32 as u64, &mut path[length..]);
    path[length..length + FILES.len()].copy_from_slice(FILES);
    length += FILES.len();
    sys::decimal(abi::DESCRIPTOR_ARENA as u64, &mut path[length..]);
    // `struct stat`
    let mut found = [0_u64; 18];
    (sys::call(nr::STAT, &[path.as_ptr() as usize, found.as_mut_ptr() as usize]) == 0).then_some([found[0], found[1]])
}

/// Has a process the loader in it, as this one has?
fn has_loader(who: usize) -> bool {
    let own = sys::call(nr::GETPID, &[]) as usize;
    who as u32 == 0 || who as u32 == own as u32 || arena_of(who).is_some_and(|theirs| arena_of(own) == Some(theirs))
}

/// The kernel's own limits, less what the loader takes.
fn sys_limit(who: usize, resource: usize, wanted: Option<[u64; 2]>, old: usize) -> Answer {
    let share = match abi::own_share(resource) {
        0 => 0,
        share if has_loader(who) => share,
        _ => 0,
    };
    // RLIM_INFINITY stays.
    let new = wanted.map(|limits| limits.map(|limit| limit.saturating_add(share)));
    let given = new.as_ref().map_or(0, |limits| limits.as_ptr() as usize);
    let mut found = [0_u64; 2];
    let result = sys::call(nr::PRLIMIT64, &[who, resource, given, found.as_mut_ptr() as usize]);
    if result < 0 {
        return Err(result);
    }
    if old != 0 {
        for (index, word) in found.into_iter().enumerate() {
            sys::write_u64(old + 8 * index, if word == u64::MAX { word } else { word.saturating_sub(share) })?;
        }
    }
    Ok(result)
}

/// A call has found no number left. Where the program's own limit allows more, the host's is lower, and that is told to the controller.
pub fn no_number_left(t: &mut Thread) {
    let own = t.process.limits[abi::LIMIT_DESCRIPTORS][0].load(Relaxed);
    let mut real = [0_u64; 2];
    sys::call(nr::PRLIMIT64, &[0, abi::LIMIT_DESCRIPTORS, 0, real.as_mut_ptr() as usize]);
    if real[0] < own {
        post(t, abi::HOST_LIMIT, &[abi::HOST_LIMIT_DESCRIPTORS]);
    }
}

/// RLIMIT_NOFILE, as the program sees it.
pub fn descriptors(t: &Thread) -> u64 {
    if !t.strict.on {
        return t.process.limits[abi::LIMIT_DESCRIPTORS][0].load(Relaxed);
    }
    let mut limit = [0_u64; 2];
    sys::call(nr::PRLIMIT64, &[0, abi::LIMIT_DESCRIPTORS, 0, limit.as_mut_ptr() as usize]);
    limit[0]
}

/// The kernel counts some things by user, and all nodes are one. A program that was answered otherwise than it would have been alone is told to the controller.
pub fn shared_limit(t: &mut Thread, number: usize, result: isize) {
    const ENOSPC: isize = -28;
    const ETOOMANYREFS: isize = -109;
    // EMFILE of one's own: there is no number left.
    let has_room = || {
        let fd = sys::call(nr::EVENTFD2, &[0, 0]);
        if fd >= 0 {
            sys::call(nr::CLOSE, &[fd as usize]);
        }
        fd >= 0
    };
    let which = match (number, result) {
        (nr::INOTIFY_INIT | nr::INOTIFY_INIT1, sys::EMFILE) if has_room() => abi::HOST_LIMIT_INOTIFY,
        (nr::INOTIFY_ADD_WATCH, ENOSPC) => abi::HOST_LIMIT_WATCH,
        (nr::SENDMSG, ETOOMANYREFS) => abi::HOST_LIMIT_SENDMSG,
        (nr::MQ_OPEN, sys::EMFILE) if has_room() => abi::HOST_LIMIT_QUEUES,
        _ => return,
    };
    if is_own_machine() {
        post(t, abi::HOST_LIMIT, &[which]);
    }
}

/// Is the size of files limited (RLIMIT_FSIZE)?
pub fn has_file_limit() -> bool {
    const FILE_SIZE: usize = 1;
    let mut limit = [u64::MAX; 2];
    sys::call(nr::PRLIMIT64, &[0, FILE_SIZE, 0, limit.as_mut_ptr() as usize]);
    limit[0] != u64::MAX
}
