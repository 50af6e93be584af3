//! Whoever makes process 1 of each node (`guest/nursery.rs` of the loader): one small process for all nodes that have the same files below their own, there
//! as long as there is one. It is in the user namespace and the empty network namespace that these nodes share, so that both are made once, and without
//! the controller's descriptors and memory.

use super::arena::memory_file;
use super::clone::clone_loader;
use super::error::{StartError, Undone};
use super::files::{Files, Layout, Next, OwnDisk, OwnFile, Steps};
use super::limits::{Limits, limits_of, widen_limits};
use super::rights::send;
use super::users::Users;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use weft_intercept::sys::{self, Errno};
use weft_loader::abi;

/// How long it may take to make a process.
const REPLY_LIMIT_MS: libc::c_int = 30_000;

/// The process, and the socket over which it is told what to do: one order at a time.
#[derive(Debug)]
pub(super) struct Nursery {
    pid: libc::pid_t,
    /// Nanoseconds since 1970 when it was made: nothing that nodes have of their own is older.
    pub born: u64,
    orders: Mutex<OwnedFd>,
    layout: Layout,
    /// It has not answered: what comes from it now would be taken for the answer to another order.
    is_dead: AtomicBool,
}

/// The folder that is its nodes' `/`, those of the host that they have besides, and the files that all of them have.
type Below = (Option<PathBuf>, Vec<PathBuf>, Arc<[OwnFile]>);

/// Those that are there.
static NURSERIES: Mutex<Vec<(Below, Weak<Nursery>)>> = Mutex::new(Vec::new());

/// A process 1 that is being made.
pub(super) struct Born {
    pub pid: libc::pid_t,
    /// What it does before it is init, and the list of that, in which the results appear.
    pub steps: Steps,
    pub list: OwnedFd,
}

impl Nursery {
    /// The one for these files that is there, or a new one.
    pub fn get(files: &Files) -> Result<Arc<Nursery>, StartError> {
        let mounts = files.mounts.iter().map(|mount| mount.from.clone()).collect::<Vec<_>>();
        let below = (files.root.clone(), mounts, Arc::clone(&files.common));
        let mut places = NURSERIES.lock().unwrap_or_else(PoisonError::into_inner);
        let there = places.iter().find(|(other, _)| *other == below);
        if let Some(nursery) = there.and_then(|(_, nursery)| nursery.upgrade()).filter(|nursery| !nursery.is_dead.load(Relaxed)) {
            return Ok(nursery);
        }
        places.retain(|(other, nursery)| nursery.strong_count() > 0 && *other != below);
        let layout = Layout::of(files.root.as_deref(), &files.common)?;
        let (orders, ordered) =
            sys::unix_pair(libc::SOCK_SEQPACKET).map_err(|errno| StartError::Step { step: "make a socket pair", errno })?;
        widen_limits();
        let users = if sys::is_root() { Users::OnlyNobody } else { Users::OnlyMe };
        let pid = clone_loader(None, None, &[(&ordered, abi::DESCRIPTOR_COMMANDS)], libc::CLONE_NEWUSER, users)?;
        let born = sys::real_nanos();
        let nursery = Arc::new(Nursery { pid, born, orders: Mutex::new(orders), layout, is_dead: AtomicBool::new(false) });
        nursery.prepare(&below.1)?;
        places.push((below, Arc::downgrade(&nursery)));
        Ok(nursery)
    }

    /// Builds what the files of all nodes are made from.
    fn prepare(&self, mounts: &[PathBuf]) -> Result<(), StartError> {
        let step = |step| move |errno| StartError::Step { step, errno };
        let is_root = sys::is_root();
        let steps = Steps::base(&self.layout, if is_root { &[] } else { mounts })?;
        let (list, steps_bytes) = written(&steps)?;
        let namespaces = (libc::CLONE_NEWNS | libc::CLONE_NEWNET) as u32;
        let order = abi::Order { what: abi::ORDER_PREPARE, namespaces, cpu: u32::MAX, steps_bytes, ..abi::Order::default() };
        let answer = self.ask(&order, &[list.as_fd(); abi::ORDER_DESCRIPTORS]);
        steps.learn(&list, &self.layout).map_err(StartError::undone)?;
        answer.map(drop).map_err(step("prepare the files of nodes"))?;
        mounts.iter().enumerate().filter(|_| is_root).try_for_each(|(number, folder)| self.share(folder, number))
    }

    /// For root, which may read what nobody may, a folder that nodes get is mounted with root's files as the nodes' own.
    fn share(&self, folder: &Path, number: usize) -> Result<(), StartError> {
        let step = |step| move |errno| StartError::Step { step, errno };
        let users = format!("/proc/{}/ns/user", self.pid);
        let mount = sys::detached_mount(folder, &users).map_err(step("take a folder that nodes are to have"))?;
        let steps = Steps::attached(number)?;
        let (list, steps_bytes) = written(&steps)?;
        let order = abi::Order { what: abi::ORDER_PREPARE, cpu: u32::MAX, steps_bytes, ..abi::Order::default() };
        let (told, mount) = (list.as_fd(), mount.as_fd());
        let answer = self.ask(&order, &[told, told, told, told, mount, mount]);
        steps.learn(&list, &self.layout).map_err(StartError::undone)?;
        answer.map(drop).map_err(step("mount a folder that nodes are to have"))
    }

    /// Has process 1 of a node made, with its files, arena, control and command socket.
    pub fn bear(
        &self,
        files: &Files,
        limits: Limits,
        cpu: Option<usize>,
        disk: OwnDisk<'_>,
        handed: [BorrowedFd<'_>; 3],
    ) -> Result<Born, StartError> {
        let step = |step| move |errno| StartError::Step { step, errno };
        let (descriptors, memory) = limits_of(limits)?;
        let steps = Steps::new(files, &self.layout, disk)?;
        let (list, steps_bytes) = written(&steps)?;
        let order = abi::Order {
            what: abi::ORDER_BEAR,
            reserved: 0,
            namespaces: (libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC) as u32,
            cpu: cpu.map_or(u32::MAX, |cpu| cpu as u32),
            descriptors,
            memory,
            steps_bytes,
        };
        let [arena, control, commands] = handed;
        let layer = disk.before.unwrap_or(list.as_fd());
        let pid = self.ask(&order, &[arena, control, commands, list.as_fd(), layer, layer]).map_err(step("make process 1 of a node"))?;
        Ok(Born { pid, steps, list })
    }

    /// Looks at what became of a process 1: what was tried, and errno.
    pub fn learn(&self, born: &Born) -> Result<(), Undone> {
        born.steps.learn(&born.list, &self.layout)
    }

    fn ask(&self, order: &abi::Order, descriptors: &[BorrowedFd<'_>]) -> Result<libc::pid_t, Errno> {
        self.ask_within(REPLY_LIMIT_MS, order, descriptors)
    }

    /// The number of what was made, or 0. Who does not answer in time is killed, and asked nothing any more.
    fn ask_within(&self, limit_ms: libc::c_int, order: &abi::Order, descriptors: &[BorrowedFd<'_>]) -> Result<libc::pid_t, Errno> {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_dead.load(Relaxed) {
            return Err(Errno(libc::ESRCH));
        }
        let longs = [order.steps_bytes, order.descriptors[0], order.descriptors[1], order.memory];
        let words = [order.what, order.reserved, order.namespaces, order.cpu];
        let bytes = [&words.map(u32::to_ne_bytes).concat()[..], &longs.map(u64::to_ne_bytes).concat()].concat();
        let reply = send(orders.as_fd(), &bytes, descriptors).and_then(|()| answer(orders.as_fd(), limit_ms));
        if reply.is_err() {
            self.is_dead.store(true, Relaxed);
            // SAFETY: our child, which is waited for in `drop` only.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
        match reply? {
            errno @ ..0 => Err(Errno(-errno as i32)),
            pid => Ok(pid as libc::pid_t),
        }
    }
}

/// Waits for eight bytes. ETIMEDOUT: they do not come; ESRCH: nobody is there any more.
fn answer(orders: BorrowedFd<'_>, limit_ms: libc::c_int) -> Result<i64, Errno> {
    let limit = u64::try_from(limit_ms).ok().map(Duration::from_millis);
    sys::wait_readable(orders, limit)?;
    let mut reply = [0_u8; 8];
    // SAFETY: a buffer of ours.
    match unsafe { libc::recv(orders.as_raw_fd(), reply.as_mut_ptr().cast(), reply.len(), 0) } {
        8 => Ok(i64::from_ne_bytes(reply)),
        _ => Err(Errno(libc::ESRCH)),
    }
}

/// What [`Init::lay_layers`](super::launch::Init::lay_layers) has done, and the list of that; None: nothing, or it cannot be made.
pub(super) fn layers(next: &Next) -> Option<(Steps, OwnedFd)> {
    let steps = match next {
        Next::Layers(closed) if closed.is_empty() => return None,
        Next::Layers(closed) => Steps::layers(closed).ok()?,
        Next::Whole(top) => Steps::whole(top).ok()?,
    };
    listed(steps)
}

/// Steps with the list of them.
pub(super) fn listed(steps: Steps) -> Option<(Steps, OwnedFd)> {
    let (list, _) = written(&steps).ok()?;
    Some((steps, list))
}

/// A list of steps, and its length.
fn written(steps: &Steps) -> Result<(OwnedFd, u64), StartError> {
    let step = |step| move |errno| StartError::Step { step, errno };
    let bytes = steps.encode();
    let list = memory_file(c"weft-steps", libc::MFD_CLOEXEC).map_err(step("make the list of a node's files"))?;
    let written = list.try_clone().and_then(|list| std::fs::File::from(list).write_all(&bytes));
    written.map_err(|error| step("write the list of a node's files")(Errno(error.raw_os_error().unwrap_or(libc::EIO))))?;
    Ok((list, bytes.len() as u64))
}

impl Drop for Nursery {
    fn drop(&mut self) {
        // SAFETY: our child.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        let _ = sys::wait(self.pid, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_is_nobodys() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let (orders, theirs) = sys::unix_pair(libc::SOCK_SEQPACKET).unwrap();
        let layout = Layout::of(None, &[]).unwrap();
        let pid = child.id() as libc::pid_t;
        let nursery = Nursery { pid, born: 0, orders: Mutex::new(orders), layout, is_dead: AtomicBool::new(false) };
        let order = abi::Order::default();
        assert_eq!(nursery.ask_within(1, &order, &[]), Err(Errno(libc::ETIMEDOUT)));
        send(theirs.as_fd(), &4711_i64.to_ne_bytes(), &[]).unwrap();
        assert_eq!(nursery.ask_within(10_000, &order, &[]), Err(Errno(libc::ESRCH)));
        drop(nursery);
        assert_eq!(child.wait().unwrap_err().raw_os_error(), Some(libc::ECHILD), "it was killed, and waited for");
    }
}
