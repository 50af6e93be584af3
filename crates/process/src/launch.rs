//! Process 1 of a node, and starting programs below it.

use super::arena::Arena;
use super::clone::clone_loader;
use super::config::{Config, Spawn};
use super::disk::{self, Disk};
use super::error::StartError;
use super::files::{Next, OF_SYS, Steps, Unlaid};
use super::nursery::{self, Nursery};
use super::processor;
use super::rights::send;
use super::users::Users;
use std::collections::hash_map::RandomState;
use std::ffi::{CString, OsString};
use std::hash::BuildHasher as _;
use std::os::fd::{AsFd, AsRawFd, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weft_intercept::arch;
use weft_intercept::sys::{self, Errno};
use weft_loader::abi;

/// How long init may take to be ready: it does a handful of calls.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Process 1 of a node.
#[derive(Debug)]
pub(super) struct Init {
    pid: libc::pid_t,
    /// Who made it, and is there for the next.
    nursery: Option<Arc<Nursery>>,
    /// Folders of the host's over which nothing is laid.
    unlaid: Unlaid,
    /// The other end of [`abi::DESCRIPTOR_CONTROL`].
    pub control: OwnedFd,
    /// The other end of [`abi::DESCRIPTOR_COMMANDS`].
    commands: OwnedFd,
    /// The node's layer, if it is kept.
    layer: Option<OwnedFd>,
}

/// What came of laying the node's own files over folders.
pub(super) struct Laid {
    /// Over so many.
    pub wanted: usize,
    /// Those that have nothing now, either, and why.
    pub missing: Vec<(OsString, Errno)>,
}

/// Process 1 of a node without files of its own.
fn clone_alone(config: &Config, descriptors: &[(&OwnedFd, i32)]) -> Result<libc::pid_t, StartError> {
    let namespaces = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC | libc::CLONE_NEWNET;
    let (users, more) = if sys::is_root() { (Users::Ours, 0) } else { (Users::OnlyMe, libc::CLONE_NEWUSER) };
    clone_loader(config.cpu, Some(config.limits), descriptors, namespaces | more, users)
}

impl Init {
    /// In real time there is none, only its socket.
    pub fn none(control: OwnedFd) -> Result<Init, Errno> {
        sys::set_option(control.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1_i32.to_ne_bytes())?;
        let commands = control.try_clone().map_err(|_| sys::last())?;
        Ok(Init { pid: 0, nursery: None, unlaid: Unlaid::default(), control, commands, layer: None })
    }

    pub fn start(arena: &Arena, memory: &OwnedFd, config: &Config) -> Result<Init, StartError> {
        let step = |step| move |errno| StartError::Step { step, errno };
        let (control, theirs) = sys::unix_pair(libc::SOCK_SEQPACKET).map_err(step("make a socket pair"))?;
        let (commands, commanded) = sys::unix_pair(libc::SOCK_SEQPACKET).map_err(step("make a socket pair"))?;
        sys::set_option(control.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1_i32.to_ne_bytes()).map_err(step("ask for credentials"))?;
        let header = arena.header();
        header.exec_channel.store(u32::MAX, Relaxed);
        arch::tell_processor(&header.processor);
        let optional = [
            (config.tell_calls, abi::TELL_CALLS),
            (config.tell_writes, abi::TELL_WRITES),
            (config.trap_tsc, abi::TRAP_TSC),
            (config.debugged, abi::DEBUGGED),
            (config.gates, abi::GATES),
        ];
        let optional = optional.into_iter().filter(|(wanted, _)| *wanted).fold(0, |flags, (_, flag)| flags | flag);
        let proc = if config.files.is_some() { 0 } else { abi::MOUNT_PROC };
        header.flags.store(proc | abi::SET_NAME | optional, Relaxed);
        header.real_start.store(0, Relaxed);
        // Of 23 bits, and never 0: those who share a namespace have different ones, unless there were eight million nodes in between.
        static NODES: AtomicU32 = AtomicU32::new(0);
        let mark = NODES.fetch_add(1, Relaxed) % 0x7f_ffff + 1;
        header.mark.store(if config.files.is_some() { mark } else { 0 }, Relaxed);
        // Of 56 bits that are drawn: files of the host's are those of other worlds as well, and of their processes elsewhere.
        let drawn = RandomState::new().hash_one(mark) >> 8;
        let locks = (1 << 62) + drawn / abi::LOCKS_PLACE * abi::LOCKS_PLACE;
        header.locks.store(if config.files.is_some() { locks } else { 0 }, Relaxed);
        header.name.put(0, &[config.name.as_bytes(), &[0]].concat());
        let (pid, nursery, told) = match &config.files {
            Some(files) => {
                let nursery = Nursery::get(files)?;
                header.real_start.store(config.disk.before().map_or(nursery.born, |disk| disk.real_start), Relaxed);
                let handed = [memory.as_fd(), theirs.as_fd(), commanded.as_fd()];
                let born = nursery.bear(files, config.limits, config.cpu, config.disk.own(), handed)?;
                (born.pid, Some(nursery), Some(born))
            }
            None => (
                clone_alone(
                    config,
                    &[(memory, abi::DESCRIPTOR_ARENA), (&theirs, abi::DESCRIPTOR_CONTROL), (&commanded, abi::DESCRIPTOR_COMMANDS)],
                )?,
                None,
                None,
            ),
        };
        // Nobody but the process has them now: when it ends, its ends are closed.
        drop((theirs, commanded));
        let unlaid = told.as_ref().map(|born| born.steps.unlaid().clone()).unwrap_or_default();
        header.closed.store(unlaid.told(), Relaxed);
        let mut init = Init { pid, nursery, unlaid, control, commands, layer: None };
        if told.is_some() && config.disk.is_kept() {
            // What is wrong stands in the list.
            init.layer = init.receive_layer().ok();
        }
        let ready = init.announced(READY_LIMIT);
        if let (Some(born), Some(nursery)) = (told, &init.nursery) {
            nursery.learn(&born).map_err(StartError::undone)?;
        }
        match ready {
            Ok(_) => {
                if let Some(disk) = config.disk.before() {
                    disk.tell_owners(arena, &init.root());
                }
                Ok(init)
            }
            Err(errno) => Err(step("start process 1 of a node")(errno)),
        }
    }

    /// The node's files, as this process finds them.
    pub fn root(&self) -> PathBuf {
        format!("/proc/{}/root", self.pid).into()
    }

    /// The number of process 1 outside.
    pub fn outer(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Takes the node's layer from process 1, which sends it before it says that it is ready.
    fn receive_layer(&self) -> Result<OwnedFd, Errno> {
        self.announced(READY_LIMIT)?.1.ok_or(Errno(libc::EBADF))
    }

    /// What programs have written, for the node's next life. None: it was not to be kept, or has been taken.
    pub fn take_disk(&mut self, arena: &Arena) -> Option<Disk> {
        let layer = self.layer.take()?;
        Some(disk::take(layer, arena, &self.root(), self.nursery.clone()))
    }

    /// Waits for a byte from a process of the node and says what number it has outside, and what came with it.
    pub fn announced(&self, limit: Duration) -> Result<(u32, Option<OwnedFd>), Errno> {
        sys::wait_readable(self.control.as_fd(), Some(limit))?;
        let mut byte = [0_u8];
        let mut vector = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut control = [0_u64; 8];
        // SAFETY: an all-zero msghdr is valid; it is then pointed at buffers of ours.
        let (received, credentials, handed) = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut vector;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control);
            let received = libc::recvmsg(self.control.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
            let (mut credentials, mut handed) = (None, None);
            let mut one = libc::CMSG_FIRSTHDR(&raw const message);
            while received > 0 && !one.is_null() {
                match (*one).cmsg_type {
                    libc::SCM_CREDENTIALS => credentials = Some(libc::CMSG_DATA(one).cast::<libc::ucred>().read_unaligned()),
                    libc::SCM_RIGHTS => handed = Some(OwnedFd::from_raw_fd(libc::CMSG_DATA(one).cast::<i32>().read_unaligned())),
                    _ => {}
                }
                one = libc::CMSG_NXTHDR(&raw const message, one);
            }
            (received, credentials, handed)
        };
        match credentials {
            Some(credentials) if received > 0 => Ok((credentials.pid as u32, handed)),
            _ => Err(Errno(libc::ESRCH)),
        }
    }

    /// Tells init to start what lies in the spawn area.
    pub fn spawn(&self, arena: &Arena, spec: &Spawn, channel: usize) -> Result<(), StartError> {
        let program = self.find_program(spec)?;
        let mut strings = Vec::new();
        let mut add = |text: &[u8]| {
            strings.extend_from_slice(text);
            strings.push(0);
        };
        let directory = spec.directory.as_os_str().as_encoded_bytes();
        add(if directory.is_empty() { b"/" } else { directory });
        add(program.as_bytes());
        spec.arguments.iter().for_each(|text| add(text.as_bytes()));
        spec.environment.iter().for_each(|text| add(text.as_bytes()));
        let counts = [spec.arguments.len(), spec.environment.len(), strings.len(), channel];
        let mut bytes: Vec<u8> = counts.into_iter().flat_map(|count| (count as u32).to_ne_bytes()).collect();
        bytes.extend(strings);
        if !arena.put_spawn(&bytes) {
            return Err(StartError::TooLong);
        }
        let descriptors = [&spec.descriptors[0], &spec.descriptors[1], &spec.descriptors[2]].map(AsFd::as_fd);
        send(self.commands.as_fd(), &[abi::COMMAND_SPAWN], &descriptors)
            .map_err(|errno| StartError::Step { step: "tell process 1 to start a program", errno })
    }

    /// execvp(3)'s search, with the program's own PATH, among the node's files.
    fn find_program(&self, spec: &Spawn) -> Result<CString, StartError> {
        let name = spec.arguments.first().ok_or(StartError::Empty)?;
        if name.as_bytes().contains(&b'/') {
            return Ok(name.clone());
        }
        let path = spec.environment.iter().find_map(|variable| variable.as_bytes().strip_prefix(b"PATH="));
        for folder in path.unwrap_or(b"/usr/local/bin:/usr/bin:/bin").split(|byte| *byte == b':') {
            let folder = if folder.is_empty() { b"." } else { folder };
            let Ok(candidate) = CString::new([folder, b"/", name.as_bytes()].concat()) else { continue };
            // The root of process 1 is the node's.
            let Ok(outside) = CString::new([format!("/proc/{}/root", self.pid).as_bytes(), candidate.as_bytes()].concat()) else {
                continue;
            };
            // SAFETY: C strings.
            if unsafe {
                libc::access(outside.as_ptr(), libc::X_OK) == 0
                    || libc::access(candidate.as_ptr(), libc::X_OK) == 0 && self.nursery.is_none()
            } {
                return Ok(candidate);
            }
        }
        Err(StartError::Execute { program: name.to_string_lossy().into_owned(), errno: Errno(libc::ENOENT) })
    }

    /// Whom it starts from now on runs on all processors that the calling thread may use, behind everybody else.
    pub fn roam(&self) {
        if self.pid != 0 {
            processor::place(self.pid, None);
            processor::slices(self.pid, processor::SLICE_LONG);
        }
    }

    /// Whom it starts from now on runs on this processor, as usual; and so does this process from now on.
    pub fn settle_down(&self, cpu: Option<usize>, started: Option<libc::pid_t>) {
        for pid in [Some(self.pid), started].into_iter().flatten().filter(|pid| *pid != 0) {
            processor::place(pid, cpu);
            processor::slices(pid, processor::SLICE_SHORT);
        }
    }

    /// What programs are told about folders of the host's over which nothing is laid.
    pub fn closed(&self) -> u32 {
        self.unlaid.told()
    }

    /// These are closed.
    #[cfg(test)]
    pub fn close(&mut self, names: &[&str]) {
        self.unlaid = Unlaid { closed: names.iter().map(OsString::from).collect(), ..Unlaid::default() };
    }

    /// Lays the node's own files over the folders that are next.
    /// On failure: what was tried, and why nothing came of it.
    pub fn lay_layers(&mut self, arena: &Arena) -> Result<Laid, (String, Errno)> {
        const TOLD: &str = "tell process 1 to lay a node's files over the host's";
        let next = self.unlaid.next();
        let Some((steps, list)) = nursery::layers(&next) else {
            return Err(("find a folder of the host's that has none of the node's files over it".to_owned(), Errno(libc::EROFS)));
        };
        let replaced: Vec<PathBuf> = match &next {
            Next::Layers(names) => names.iter().map(|name| self.root().join(name)).collect(),
            Next::Whole(top) => top.names().map(|name| self.root().join(name)).collect(),
        };
        let about = |path: &PathBuf| path.symlink_metadata().ok().map(|found| (found.ino(), found.dev()));
        let known = |path: &PathBuf| about(path).and_then(|(inode, device)| arena.known_file(inode, device));
        let known: Vec<_> = replaced.iter().map(known).collect();
        send(self.commands.as_fd(), &[abi::COMMAND_STEPS], &[list.as_fd()]).map_err(|errno| (TOLD.to_owned(), errno))?;
        self.announced(READY_LIMIT).map_err(|errno| (TOLD.to_owned(), errno))?;
        // They are the same to programs.
        for (path, number) in replaced.iter().zip(known) {
            if let (Some(number), Some((inode, device))) = (number, about(path))
                && arena.known_file(inode, device).is_none()
            {
                arena.is_now(number, inode, device);
            }
        }
        // With a slash at the end, or it would be the link.
        if let Some((inode, device)) = about(&self.root().join("")) {
            arena.header().root[0].store(device, Relaxed);
            arena.header().root[1].store(inode, Relaxed);
        }
        let wanted = if let Next::Layers(names) = &next { names.len() } else { 1 };
        steps.laid(&list).map(|missing| Laid { wanted, missing }).map_err(|(what, errno)| (what, Errno(errno)))
    }

    /// Makes what is below /sys/class/net anew. `again`: there is one before.
    pub fn lay_sys(&self, names: &[String], again: bool, arena: &Arena) -> Result<(), (String, Errno)> {
        const TOLD: &str = "tell process 1 to make the files of /sys/class/net";
        let (steps, list) = Steps::of_sys(names, again).ok().and_then(nursery::listed).ok_or((TOLD.to_owned(), Errno(libc::ENOMEM)))?;
        send(self.commands.as_fd(), &[abi::COMMAND_STEPS], &[list.as_fd()]).map_err(|errno| (TOLD.to_owned(), errno))?;
        self.announced(READY_LIMIT).map_err(|errno| (TOLD.to_owned(), errno))?;
        steps.laid(&list).map_err(|(what, errno)| (what, Errno(errno)))?;
        let device = self.root().join(OF_SYS.trim_start_matches('/')).metadata().map_or(0, |found| found.dev());
        arena.header().sys_device.store(device, Relaxed);
        Ok(())
    }

    /// Kills the whole node.
    pub fn kill(&self) {
        if self.pid == 0 {
            return;
        }
        // SAFETY: our child; with process 1 the kernel kills its namespace.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        self.kill();
        if self.pid != 0 {
            let _ = sys::wait(self.pid, 0);
        }
    }
}
