//! Whoever makes process 1 of each node (`guest/nursery.rs` of the loader): one small process for all nodes that have the same files below their own, there
//! as long as there is one. It is in the user namespace and the empty network namespace that these nodes share, so that both are made once, and without
//! the controller's descriptors and memory.

use super::arena::memory_file;
use super::launch::{Users, clone_loader, limits_of};
use super::root::{Layout, Steps};
use super::{Config, Files, StartError};
use crate::sys::{self, Errno};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use weft_loader::abi;

/// Descriptors that come with an order, as `guest/nursery.rs` says.
const HANDED: usize = 6;
/// How long it may take to make a process.
const REPLY_LIMIT_MS: libc::c_int = 30_000;

/// The process, and the socket over which it is told what to do: one order at a time.
#[derive(Debug)]
pub(super) struct Nursery {
    pid: libc::pid_t,
    /// Seconds since 1970 when it was made: nothing that nodes have of their own is older.
    pub born: u64,
    orders: Mutex<OwnedFd>,
    layout: Layout,
}

/// The folder that is its nodes' `/`, and those of the host that they have besides.
type Below = (Option<PathBuf>, Vec<PathBuf>);

/// Those that are there.
static NURSERIES: Mutex<BTreeMap<Below, Weak<Nursery>>> = Mutex::new(BTreeMap::new());

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
        let below = (files.root.clone(), files.mounts.iter().map(|mount| mount.from.clone()).collect::<Vec<_>>());
        let mut places = NURSERIES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(nursery) = places.get(&below).and_then(Weak::upgrade) {
            return Ok(nursery);
        }
        places.retain(|_, nursery| nursery.strong_count() > 0);
        let layout = Layout::of(files.root.as_deref())?;
        let (orders, ordered) =
            sys::unix_pair(libc::SOCK_SEQPACKET).map_err(|errno| StartError::Step { step: "make a socket pair", errno })?;
        super::launch::widen_limits();
        // SAFETY: takes no pointers.
        let users = if unsafe { libc::geteuid() } == 0 { Users::OnlyNobody } else { Users::OnlyMe };
        let pid = clone_loader(None, None, &[(&ordered, abi::DESCRIPTOR_COMMANDS)], libc::CLONE_NEWUSER, users)?;
        let born = sys::real_seconds();
        let nursery = Arc::new(Nursery { pid, born, orders: Mutex::new(orders), layout });
        nursery.prepare(&below.1)?;
        places.insert(below, Arc::downgrade(&nursery));
        Ok(nursery)
    }

    /// Builds what the files of all nodes are made from.
    fn prepare(&self, mounts: &[PathBuf]) -> Result<(), StartError> {
        let step = |step| move |errno| StartError::Step { step, errno };
        // SAFETY: takes no pointers.
        let is_root = unsafe { libc::geteuid() } == 0;
        let steps = Steps::base(&self.layout, if is_root { &[] } else { mounts })?;
        let (list, steps_bytes) = written(&steps)?;
        let namespaces = (libc::CLONE_NEWNS | libc::CLONE_NEWNET) as u32;
        let order = abi::Order { what: abi::ORDER_PREPARE, namespaces, cpu: u32::MAX, steps_bytes, ..abi::Order::default() };
        let answer = self.ask(&order, &[list.as_fd(); HANDED]);
        steps.learn(&list, &self.layout).map_err(|(what, errno)| step(what)(Errno(errno)))?;
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
        steps.learn(&list, &self.layout).map_err(|(what, errno)| step(what)(Errno(errno)))?;
        answer.map(drop).map_err(step("mount a folder that nodes are to have"))
    }

    /// Has process 1 of a node made, with its files, arena, control and command socket.
    pub fn bear(&self, files: &Files, config: &Config, handed: [BorrowedFd<'_>; 3]) -> Result<Born, StartError> {
        let step = |step| move |errno| StartError::Step { step, errno };
        let (descriptors, memory) = limits_of(config.limits)?;
        let steps = Steps::new(files, &self.layout, &config.disk)?;
        let (list, steps_bytes) = written(&steps)?;
        let order = abi::Order {
            what: abi::ORDER_BEAR,
            reserved: 0,
            namespaces: (libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC) as u32,
            cpu: config.cpu.map_or(u32::MAX, |cpu| cpu as u32),
            descriptors,
            memory,
            steps_bytes,
        };
        let [arena, control, commands] = handed;
        let layer = config.disk.before().map_or(list.as_fd(), |disk| disk.tree.as_fd());
        let pid = self.ask(&order, &[arena, control, commands, list.as_fd(), layer, layer]).map_err(step("make process 1 of a node"))?;
        Ok(Born { pid, steps, list })
    }

    /// Looks at what became of a process 1: what was tried, and errno.
    pub fn learn(&self, born: &Born) -> Result<(), (&'static str, i32)> {
        born.steps.learn(&born.list, &self.layout)
    }

    fn ask(&self, order: &abi::Order, descriptors: &[BorrowedFd<'_>]) -> Result<libc::pid_t, Errno> {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let longs = [order.steps_bytes, order.descriptors[0], order.descriptors[1], order.memory];
        let words = [order.what, order.reserved, order.namespaces, order.cpu];
        let bytes = [&words.map(u32::to_ne_bytes).concat()[..], &longs.map(u64::to_ne_bytes).concat()].concat();
        super::launch::send(orders.as_fd(), &bytes, descriptors)?;
        let mut set = libc::pollfd { fd: orders.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd of ours.
        if unsafe { libc::poll(&raw mut set, 1, REPLY_LIMIT_MS) } <= 0 {
            return Err(Errno(libc::ETIMEDOUT));
        }
        let mut reply = [0_u8; 8];
        // SAFETY: a buffer of ours.
        if unsafe { libc::recv(orders.as_raw_fd(), reply.as_mut_ptr().cast(), reply.len(), 0) } != 8 {
            return Err(Errno(libc::ESRCH));
        }
        match i64::from_ne_bytes(reply) {
            errno @ ..0 => Err(Errno(-errno as i32)),
            pid => Ok(pid as libc::pid_t),
        }
    }
}

/// What [`Init::lay_layers`](super::launch::Init::lay_layers) has done, as a list; None: nothing, or it cannot be made.
pub(super) fn layers(closed: &[OsString]) -> Option<OwnedFd> {
    if closed.is_empty() {
        return None;
    }
    Steps::layers(closed).and_then(|steps| written(&steps)).ok().map(|(list, _)| list)
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
