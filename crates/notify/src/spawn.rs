//! Starting a program under the filter, and waiting for it.
//!
//! The filter must be on before the program runs and off nowhere else, so it is installed between fork and exec. After that moment the
//! child's network calls wait for a supervisor, sendmsg too, so the listener cannot be sent from there: the parent takes it with
//! pidfd_getfd(2). It may then keep it (a private stack) or pass it to a daemon over a control socket ([`send_descriptor`]).
//! A daemon must be allowed to look into the program (ptrace(2), "Ptrace access mode checking"): root may, and the same user unless
//! Yama's ptrace_scope is 1 or more and the daemon is no ancestor; then the program's calls are refused and counted as not permitted.

use crate::filter;
use crate::mounts::Prepared;
use crate::sys::{self, Errno};
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use weft_intercept::replace::Replace;

/// What to start.
#[derive(Debug, Default)]
pub struct Command {
    arguments: Vec<CString>,
    environment: Vec<CString>,
    resolv: Option<Prepared>,
    descriptors: [Option<OwnedFd>; 3],
    instead: Option<Box<dyn Replace>>,
    caretaker: Option<u32>,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The loader runs no programs here, and says why.
    #[error("{0}")]
    Loader(String),
    /// An argument or variable has a zero byte in it, or there is no program.
    #[error("the command cannot be passed to the kernel: it is empty or has a zero byte in it")]
    Command,
    /// A step failed.
    #[error("cannot {step}: {}", std::io::Error::from_raw_os_error(errno.0))]
    Step {
        /// What was tried.
        step: &'static str,
        /// Why it failed.
        errno: Errno,
    },
    /// This process is under a supervisor itself, and the kernel allows a tree of processes one.
    #[error("already under weft: a stack inside a stack is not possible")]
    Nested,
    /// The program itself could not be executed.
    #[error("cannot execute {program}: {}", std::io::Error::from_raw_os_error(errno.0))]
    Execute {
        /// Its name.
        program: String,
        /// ENOENT (exit status 127 in shells), EACCES (126), …
        errno: Errno,
    },
}

/// Where a program has a file system of weft's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// /proc/sys/net, and /proc/net in it.
    Settings,
    /// /sys/class/net.
    Devices,
}

/// A file system that a program has.
#[derive(Debug)]
pub struct Files {
    /// Where.
    pub place: Place,
    /// Whoever has this is asked what stands there: fuse(4).
    pub fuse: OwnedFd,
}

/// A program that was started.
#[derive(Debug)]
pub struct Program {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    listener: Option<OwnedFd>,
    resolv: Result<(), Errno>,
    settings: Result<(), Errno>,
    files: Result<Vec<Files>, Errno>,
    status: Option<ExitStatus>,
}

impl Command {
    /// A program (looked up in PATH when it has no slash) and its arguments, with the caller's environment.
    ///
    /// # Errors
    /// [`SpawnError::Command`].
    pub fn new<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Result<Command, SpawnError> {
        let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(|_| SpawnError::Command);
        let arguments = arguments.into_iter().map(|argument| text(argument.as_ref())).collect::<Result<Vec<_>, _>>()?;
        if arguments.is_empty() {
            return Err(SpawnError::Command);
        }
        let variable =
            |(name, value): (std::ffi::OsString, std::ffi::OsString)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok();
        Ok(Command {
            arguments,
            environment: std::env::vars_os().filter_map(variable).collect(),
            resolv: None,
            descriptors: [const { None }; 3],
            instead: None,
            caretaker: None,
        })
    }

    /// Gives the program an /etc/resolv.conf with this content; see [`crate::mounts`].
    pub fn resolv_conf(&mut self, content: &str) -> &mut Command {
        self.resolv = Some(Prepared::new(content));
        self
    }

    /// Gives the program mounts of its own, with the host's /etc/resolv.conf: where the kernel's settings of the network are read-only.
    pub fn own_mounts(&mut self) -> &mut Command {
        self.resolv = Some(Prepared::without_names());
        self
    }

    /// Sets an environment variable; a name or value with a zero byte is left out.
    pub fn variable(&mut self, name: &str, value: &str) -> &mut Command {
        let prefix = format!("{name}=");
        self.environment.retain(|one| !one.as_bytes().starts_with(prefix.as_bytes()));
        self.environment.extend(CString::new(format!("{prefix}{value}")).ok());
        self
    }

    /// What the program gets as descriptor 0, 1 or 2 in place of the caller's.
    pub fn descriptor(&mut self, number: usize, fd: OwnedFd) -> &mut Command {
        if let Some(place) = self.descriptors.get_mut(number) {
            *place = Some(fd);
        }
        self
    }

    /// Lets that process look into the program, which only its ancestors may where Yama's ptrace_scope is 1: weft's caretaker is none.
    pub fn caretaker(&mut self, pid: u32) -> &mut Command {
        self.caretaker = Some(pid);
        self
    }

    /// The program's name, and where it is looked up when that has no slash (the variable PATH).
    ///
    /// # Errors
    /// There is no name.
    pub fn program(&self) -> Result<(&CStr, Option<&[u8]>), SpawnError> {
        let name = self.arguments.first().ok_or(SpawnError::Command)?;
        let path = self.environment.iter().find_map(|variable| variable.as_bytes().strip_prefix(b"PATH="));
        Ok((name, path))
    }

    /// Has something else executed in its place, and no filter.
    pub fn instead(&mut self, other: Box<dyn Replace>) -> &mut Command {
        self.instead = Some(other);
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// See [`SpawnError`]; no process is left behind.
    pub fn spawn(&self) -> Result<Program, SpawnError> {
        let step = |step| move |errno| SpawnError::Step { step, errno };
        let filter = filter::program();
        sys::keep_back_foreign().map_err(step("look through the descriptors"))?;
        let (reports, child_reports) = sys::pipe().map_err(step("make a pipe"))?;
        let (child_goes, goes) = sys::pipe().map_err(step("make a pipe"))?;
        let pointers = |strings: &[CString]| strings.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        // SAFETY: the child calls only async-signal-safe functions until it executes or exits; everything it needs is allocated above.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(step("fork")(sys::last()));
        }
        if pid == 0 {
            // The child's copies of the parent's ends: while it holds one, that pipe does not end.
            drop((reports, goes));
            self.child(&filter, &arguments, &environment, child_reports.as_fd(), child_goes.as_fd());
        }
        drop((child_reports, child_goes));
        let pidfd = sys::pidfd_open_process(pid as u32).map_err(step("open a pidfd"))?;
        let mut program = Program { pid, pidfd, listener: None, resolv: Ok(()), settings: Ok(()), files: Ok(Vec::new()), status: None };
        let outcome = self.follow(&mut program, reports.as_fd(), goes);
        if let Err(error) = outcome {
            program.signal(libc::SIGKILL);
            let _ = program.wait();
            return Err(error);
        }
        Ok(program)
    }

    /// Reads what the child reports until it executes.
    fn follow(&self, program: &mut Program, reports: BorrowedFd<'_>, goes: OwnedFd) -> Result<(), SpawnError> {
        while let Some((what, value)) = sys::read_report(reports) {
            let errno = Errno(value);
            match what {
                Report::LISTENER => {
                    let listener = sys::pidfd_getfd(program.pidfd.as_fd(), value);
                    program.listener = Some(listener.map_err(|errno| SpawnError::Step { step: "take the seccomp listener", errno })?);
                    // A word and not only the end of the pipe: other threads' children may hold copies of our end for a moment.
                    sys::write_report(goes.as_fd(), Report::LISTENER, 0);
                }
                Report::FILES | Report::DEVICES => {
                    let place = if what == Report::FILES { Place::Settings } else { Place::Devices };
                    match (sys::pidfd_getfd(program.pidfd.as_fd(), value), &mut program.files) {
                        (Ok(fuse), Ok(files)) => files.push(Files { place, fuse }),
                        (Err(errno), _) => program.files = Err(errno),
                        _ => {}
                    }
                    sys::write_report(goes.as_fd(), what, 0);
                }
                Report::NO_FILES => program.files = Err(errno),
                Report::RESOLV => program.resolv = Err(errno),
                Report::SETTINGS => program.settings = Err(errno),
                Report::FILTER if errno == Errno(libc::EBUSY) => return Err(SpawnError::Nested),
                Report::FILTER => return Err(SpawnError::Step { step: "install the seccomp filter", errno }),
                Report::DESCRIPTORS => return Err(SpawnError::Step { step: "pass descriptors", errno }),
                _ => {
                    let name = self.arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                    return Err(SpawnError::Execute { program: name, errno });
                }
            }
        }
        Ok(())
    }

    /// Between fork and exec. Does not return.
    fn child(
        &self,
        filter: &[sys::Instruction],
        arguments: &[*const libc::c_char],
        environment: &[*const libc::c_char],
        reports: BorrowedFd<'_>,
        goes: BorrowedFd<'_>,
    ) -> ! {
        // SAFETY: async-signal-safe calls on descriptors and arrays that were made before the fork; `arguments` and `environment` end in
        // null. Rust's runtime ignores SIGPIPE, which programs would inherit.
        unsafe {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            for (number, fd) in self.descriptors.iter().enumerate() {
                if let Some(fd) = fd
                    && libc::dup2(fd.as_raw_fd(), number as i32) < 0
                {
                    sys::write_report(reports, Report::DESCRIPTORS, sys::last().0);
                    libc::_exit(126);
                }
            }
            sys::restore_descriptor_limit();
            if let Some(pid) = self.caretaker {
                // A kernel without Yama says EINVAL, and needs no permission.
                libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(pid), 0, 0, 0);
            }
            if let Some(resolv) = &self.resolv {
                let entered = resolv.enter();
                if let Err(errno) = &entered.files {
                    sys::write_report(reports, Report::NO_FILES, errno.0);
                }
                for (what, fuse) in [(Report::FILES, entered.files), (Report::DEVICES, entered.devices)] {
                    if let Ok(fuse) = fuse {
                        sys::write_report(reports, what, fuse.as_raw_fd());
                        sys::wait_for_word(goes);
                        drop(fuse);
                    }
                }
                if let Err(errno) = entered.names {
                    sys::write_report(reports, Report::RESOLV, errno.0);
                }
                if let Err(errno) = entered.settings {
                    sys::write_report(reports, Report::SETTINGS, errno.0);
                }
            }
            if let Some(instead) = &self.instead {
                let errno = instead.execute(arguments.as_ptr(), environment.as_ptr());
                sys::write_report(reports, Report::EXECUTE, errno.0);
                libc::_exit(126);
            }
            match filter::install(filter) {
                Ok(listener) => {
                    sys::write_report(reports, Report::LISTENER, listener.as_raw_fd());
                    sys::wait_for_word(goes);
                    drop(listener);
                }
                Err(errno) => {
                    sys::write_report(reports, Report::FILTER, errno.0);
                    libc::_exit(126);
                }
            }
            libc::execvpe(arguments[0], arguments.as_ptr(), environment.as_ptr());
            sys::write_report(reports, Report::EXECUTE, sys::last().0);
            libc::_exit(127)
        }
    }
}

/// Kinds of report from the child: a kind and a number, eight bytes.
struct Report;

impl Report {
    const LISTENER: i32 = 1;
    const RESOLV: i32 = 2;
    const FILTER: i32 = 3;
    const DESCRIPTORS: i32 = 4;
    const EXECUTE: i32 = 5;
    const SETTINGS: i32 = 6;
    const FILES: i32 = 7;
    const NO_FILES: i32 = 8;
    const DEVICES: i32 = 9;
}

impl Program {
    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.pid as u32
    }
    /// Readable when it has ended; for the host's event loop.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
    /// The listener of its filter, once: for `Supervisor::add_tree`, here or in a daemon. When nobody has it, the program's network calls
    /// fail with ENOSYS.
    pub fn take_listener(&mut self) -> Option<OwnedFd> {
        self.listener.take()
    }
    /// The file systems that it has for files of its network, once: to be answered here or in a daemon. None: it has no mounts of its own.
    ///
    /// # Errors
    /// Why there is none, and it sees the host's.
    pub fn take_files(&mut self) -> Result<Vec<Files>, Errno> {
        std::mem::replace(&mut self.files, Ok(Vec::new()))
    }
    /// Whether its /etc/resolv.conf is the one that was asked for; if not, it has the host's.
    ///
    /// # Errors
    /// The errno of the step that failed.
    pub fn resolv_conf(&self) -> Result<(), Errno> {
        self.resolv
    }
    /// Whether the kernel's settings of the network are read-only for it, where that was asked for; if not, what it writes to /proc/sys/net changes
    /// the host.
    ///
    /// # Errors
    /// The errno of the step that failed.
    pub fn settings(&self) -> Result<(), Errno> {
        self.settings
    }
    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        let _ = sys::pidfd_signal(self.pidfd.as_fd(), signal);
    }
    /// Its status, if it has ended.
    ///
    /// # Errors
    /// Those of waitpid(2).
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Errno> {
        self.reap(libc::WNOHANG)
    }
    /// Waits for it to end.
    ///
    /// # Errors
    /// Those of waitpid(2).
    pub fn wait(&mut self) -> Result<ExitStatus, Errno> {
        loop {
            if let Some(status) = self.reap(0)? {
                return Ok(status);
            }
        }
    }
    fn reap(&mut self, flags: i32) -> Result<Option<ExitStatus>, Errno> {
        if self.status.is_none() {
            self.status = sys::wait(self.pid, flags)?.map(ExitStatus::from_raw);
        }
        Ok(self.status)
    }

    /// Waits for it to end and passes on the signals that others send to this process meanwhile. Signals of the terminal reach the whole
    /// foreground group by themselves and are not passed on twice. For a process that has nothing else to do (`weft run --control`).
    ///
    /// # Errors
    /// Those of waitpid(2) and signalfd(2).
    pub fn wait_forwarding(&mut self) -> Result<ExitStatus, Errno> {
        let signals = Signals::block()?;
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            sys::poll_each(&[self.pidfd.as_fd(), signals.as_fd()]);
            while let Some(signal) = signals.next() {
                self.signal(signal);
            }
        }
    }
}

/// The signals that a program's parent passes on, taken out of normal delivery and made readable.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Signals {
    /// INT, QUIT, TERM, HUP, USR1, USR2: blocked in the calling thread from now on (call it before other threads are started).
    ///
    /// # Errors
    /// Those of signalfd(2).
    pub fn block() -> Result<Signals, Errno> {
        sys::signal_descriptor(&[libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2]).map(Signals)
    }
    /// The next signal to pass on; none when no more wait now.
    pub fn next(&self) -> Option<i32> {
        loop {
            let (signal, from_process) = sys::read_signal(self.0.as_fd())?;
            if from_process {
                return Some(signal);
            }
        }
    }
}

/// The exit status that a shell would show: the program's, or 128 and the signal that ended it.
pub fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Sends a descriptor over a unix socket, with one byte of data to carry it.
///
/// # Errors
/// Those of sendmsg(2).
pub fn send_descriptor(socket: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut control = [0_u64; 3];
    let mut byte = [0_u8];
    let mut vector = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: an all-zero msghdr is valid; `control` has room for one descriptor (CMSG_SPACE(4) is 24) and is aligned for a cmsghdr.
    let sent = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        (*message).cmsg_level = libc::SOL_SOCKET;
        (*message).cmsg_type = libc::SCM_RIGHTS;
        (*message).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(message).cast::<i32>().write_unaligned(fd.as_raw_fd());
        libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL)
    };
    if sent == 1 { Ok(()) } else { Err(sys::last()) }
}

/// Receives what [`send_descriptor`] sent; EBADMSG when there was no descriptor, ECONNRESET at the end of the stream.
///
/// # Errors
/// Those of recvmsg(2).
pub fn receive_descriptor(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut control = [0_u64; 3];
    let mut byte = [0_u8];
    let mut vector = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: as in `send_descriptor`; a descriptor that the kernel has put into the control buffer is ours alone.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(4) as usize;
        match libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) {
            0 => return Err(Errno::ECONNRESET),
            received if received < 0 => return Err(sys::last()),
            _ => {}
        }
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        if message.is_null() || (*message).cmsg_level != libc::SOL_SOCKET || (*message).cmsg_type != libc::SCM_RIGHTS {
            return Err(Errno(libc::EBADMSG));
        }
        Ok(OwnedFd::from_raw_fd(libc::CMSG_DATA(message).cast::<i32>().read_unaligned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_travels_over_a_unix_socket() {
        let (a, b) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let (reader, _writer) = sys::pipe().unwrap();
        send_descriptor(a.as_fd(), reader.as_fd()).unwrap();
        let received = receive_descriptor(b.as_fd()).unwrap();
        assert_eq!(sys::inode(received.as_fd()), sys::inode(reader.as_fd()));
        sys::send_vectors(a.as_fd(), &[b"x"], 0).unwrap();
        assert_eq!(receive_descriptor(b.as_fd()).map(drop), Err(Errno(libc::EBADMSG)));
        drop(a);
        assert_eq!(receive_descriptor(b.as_fd()).map(drop), Err(Errno::ECONNRESET));
    }

    #[test]
    fn exit_statuses_are_those_of_shells() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(libc::SIGTERM)), 128 + libc::SIGTERM);
    }
}
