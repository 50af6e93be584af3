//! Finding a descriptor that has moved: passed on, renumbered, or inherited by a process that has made no call yet.
//!
//! Only processes under a filter are looked into, those that used a socket of ours and their descendants first; a walk over all processes
//! (their status only) happens at most once in [`liveness::PERIOD`].

use super::pidfds::Pidfds;
use crate::standin::{StandIn, liveness};
use crate::sys::{self, Errno};
use slab::Slab;
use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// Most processes looked into in one search.
const PROCESSES_MAX: usize = 4096;

/// When all processes were looked at last.
#[derive(Debug, Default)]
pub(super) struct Search {
    walked_at: Option<Instant>,
}

impl Search {
    /// Looks for a stand-in's end in the processes of the trees.
    ///
    /// # Errors
    /// EBADF: nobody there has it. ENFILE: this process has no descriptor left to look with.
    pub fn find(&mut self, inode: u64, stand_ins: &Slab<StandIn>, pidfds: &mut Pidfds) -> Result<OwnedFd, Errno> {
        let users: BTreeSet<u32> = stand_ins.iter().map(|(_, one)| one.place.0).filter(|tid| *tid != 0).collect();
        let mut looked_at = BTreeSet::new();
        let mut next: VecDeque<u32> = users.into_iter().collect();
        while let Some(pid) = next.pop_front().filter(|_| looked_at.len() < PROCESSES_MAX) {
            if looked_at.insert(pid) {
                if let Some(end) = search_in(pid, inode, pidfds)? {
                    return Ok(end);
                }
                next.extend(children(pid));
            }
        }
        // An orphan: its parent is gone, so nobody's child here.
        let now = Instant::now();
        if self.walked_at.is_some_and(|at| now.duration_since(at) < liveness::PERIOD) {
            return Err(Errno(libc::EBADF));
        }
        self.walked_at = Some(now);
        for process in std::fs::read_dir("/proc").map_err(|error| without_room(&error).unwrap_or(Errno(libc::EBADF)))?.flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            if pid != std::process::id()
                && !looked_at.contains(&pid)
                && is_filtered(pid)
                && let Some(end) = search_in(pid, inode, pidfds)?
            {
                return Ok(end);
            }
        }
        Err(Errno(libc::EBADF))
    }
}

fn search_in(pid: u32, inode: u64, pidfds: &mut Pidfds) -> Result<Option<OwnedFd>, Errno> {
    let wanted = format!("socket:[{inode}]");
    let descriptors = match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(descriptors) => descriptors,
        Err(error) => return without_room(&error).map_or(Ok(None), Err),
    };
    for descriptor in descriptors.flatten() {
        let matches = std::fs::read_link(descriptor.path()).is_ok_and(|target| target.as_os_str() == wanted.as_str());
        let (true, Some(fd)) = (matches, descriptor.file_name().to_str().and_then(|name| name.parse().ok())) else { continue };
        match pidfds.borrow(pid, fd) {
            Ok(end) if sys::inode(end.as_fd()) == Ok(inode) => return Ok(Some(end)),
            Err(Errno(libc::EMFILE | libc::ENFILE)) => return Err(Errno(libc::ENFILE)),
            _ => {}
        }
    }
    Ok(None)
}

/// ENFILE, where this process has no descriptor left: who could not look may not say that nobody is there.
fn without_room(error: &std::io::Error) -> Option<Errno> {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)).then_some(Errno(libc::ENFILE))
}

/// The processes that any thread of a process has started.
fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

/// Does a process run under a seccomp filter (proc_pid_status(5): Seccomp 2)?
pub(crate) fn is_filtered(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/status"))
        .is_ok_and(|status| status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_any_thread_are_found_and_this_process_is_not_filtered() {
        let child = std::thread::spawn(|| std::process::Command::new("sleep").arg("60").spawn().unwrap()).join();
        let mut child = child.unwrap();
        // A child of a thread that has ended belongs to another thread of its process.
        assert!(children(std::process::id()).contains(&child.id()));
        let _ = child.kill();
        let _ = child.wait();
        assert!(!is_filtered(0));
    }
}
