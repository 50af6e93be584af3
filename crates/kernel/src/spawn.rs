//! The process of a kernel: without address randomisation, with nothing of the host's that it could write, and gone when weft is.

use crate::home::COVERAGE;
use crate::store::BINARY;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What a kernel is started with.
pub(crate) struct Spawn {
    pub binary: PathBuf,
    /// Where it runs, and the one folder that it may write.
    pub home: PathBuf,
    pub console: File,
    pub arguments: Vec<String>,
    pub seed: u64,
    pub cpu: Option<usize>,
}

/// Whom a kernel of root's runs as: nobody. What it sees of the host's files is then what it sees for any other user, and two runs are alike.
pub(crate) const NOBODY: u32 = 65534;

/// Root can become nobody, but in a user namespace that has no such user: there its files are those of the one whom it stands for.
pub(crate) fn becomes_nobody() -> bool {
    let maps = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_nobodys = |line: &str| {
        let mut fields = line.split_whitespace().map(|field| field.parse::<u64>().ok());
        let (from, count) = (fields.next().flatten(), fields.nth(1).flatten());
        from.zip(count).is_some_and(|(from, count)| from <= u64::from(NOBODY) && u64::from(NOBODY) - from < count)
    };
    rustix::process::geteuid().is_root() && maps.lines().any(is_nobodys)
}

/// What the child needs of memory that was made before the fork: it may not allocate.
struct Prepared {
    home: CString,
    /// The kernel, and where it is seen.
    binary: [CString; 2],
    uid_map: CString,
    gid_map: CString,
    is_root: bool,
    cpu: Option<usize>,
    parent: libc::pid_t,
}

type Job = Box<dyn FnOnce() + Send>;

/// Starts a kernel. It is killed when the thread ends that it was started by: that is one which never does before weft.
pub(crate) fn start(spawn: Spawn) -> io::Result<Child> {
    static JOBS: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let jobs = JOBS.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        std::thread::spawn(move || jobs.into_iter().for_each(|job| job()));
        Mutex::new(sender)
    });
    let (sender, answer) = channel();
    let job: Job = Box::new(move || drop(sender.send(spawn.start())));
    let gone = || io::Error::other("the thread that starts kernels has ended");
    jobs.lock().unwrap_or_else(PoisonError::into_inner).send(job).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

impl Spawn {
    fn start(self) -> io::Result<Child> {
        let text = |text: String| CString::new(text).map_err(io::Error::other);
        // SAFETY: calls that only return numbers.
        let (uid, gid, parent) = unsafe { (libc::geteuid(), libc::getegid(), libc::getpid()) };
        // In its own folder: it need not lie where nobody may look.
        let shown = self.home.join(BINARY);
        std::fs::write(&shown, "")?;
        let prepared = Prepared {
            home: text(self.home.display().to_string())?,
            binary: [text(self.binary.display().to_string())?, text(shown.display().to_string())?],
            uid_map: text(format!("0 {uid} 1\n"))?,
            gid_map: text(format!("0 {gid} 1\n"))?,
            is_root: becomes_nobody(),
            cpu: self.cpu,
            parent,
        };
        let mut command = Command::new(&shown);
        command
            .args(self.arguments)
            .env_clear()
            .env("WEFT_SEED", self.seed.to_string())
            // Where its memory is made: a file that is removed at once.
            .env("TMPDIR", &self.home)
            .env("HOME", &self.home)
            .env("GCOV_PREFIX", self.home.join(COVERAGE))
            .current_dir(&self.home)
            .stdin(Stdio::null())
            .stdout(self.console.try_clone()?)
            .stderr(self.console)
            .process_group(0);
        // SAFETY: between fork and execve only calls into the kernel with what was prepared before.
        unsafe { command.pre_exec(move || prepared.enter()) };
        command.spawn()
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Prepared {
    /// Of the child.
    fn enter(&self) -> io::Result<()> {
        // SAFETY: plain calls; all pointers are to memory that was made before the fork.
        unsafe {
            checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
            if libc::getppid() != self.parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            checked(libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong))?;
            // Whoever starts weft has his own, and two runs are to be alike.
            libc::umask(0o022);
            for resource in [libc::RLIMIT_NOFILE, libc::RLIMIT_FSIZE] {
                let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                checked(libc::getrlimit(resource, &raw mut limit))?;
                limit.rlim_cur = limit.rlim_max;
                checked(libc::setrlimit(resource, &raw const limit))?;
            }
            if let Some(cpu) = self.cpu {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpu, &mut set);
                checked(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set))?;
            }
            self.lock_files()?;
            if self.is_root {
                checked(libc::setgroups(0, std::ptr::null()))?;
                checked(libc::setresgid(NOBODY, NOBODY, NOBODY))?;
                checked(libc::setresuid(NOBODY, NOBODY, NOBODY))?;
                // Who becomes another survives his parent, unless he says so again.
                checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
                if libc::getppid() != self.parent {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
            }
            Ok(())
        }
    }

    /// All that is mounted becomes read-only, but for the kernel's own folder: its root user can mount anything of the host's as if it could be written.
    unsafe fn lock_files(&self) -> io::Result<()> {
        // SAFETY: as for `enter`, who calls this.
        unsafe {
            checked(libc::unshare(if self.is_root { libc::CLONE_NEWNS } else { libc::CLONE_NEWNS | libc::CLONE_NEWUSER }))?;
            if !self.is_root {
                write_to(c"/proc/self/setgroups", c"deny")?;
                write_to(c"/proc/self/gid_map", &self.gid_map)?;
                write_to(c"/proc/self/uid_map", &self.uid_map)?;
            }
            let (none, private) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
            checked(libc::mount(none, c"/".as_ptr(), none, private, std::ptr::null()))?;
            checked(libc::mount(self.home.as_ptr(), self.home.as_ptr(), none, libc::MS_BIND, std::ptr::null()))?;
            let read_only = libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
            set_attributes(c"/", libc::AT_RECURSIVE, &read_only)?;
            let writable = libc::mount_attr { attr_set: 0, attr_clr: libc::MOUNT_ATTR_RDONLY, propagation: 0, userns_fd: 0 };
            set_attributes(&self.home, 0, &writable)?;
            let [binary, shown] = &self.binary;
            checked(libc::mount(binary.as_ptr(), shown.as_ptr(), none, libc::MS_BIND, std::ptr::null()))?;
            set_attributes(shown, 0, &read_only)?;
            // What it is in was looked up before the new mount lay over it.
            checked(libc::chdir(self.home.as_ptr()))
        }
    }
}

/// mount_setattr(2)
unsafe fn set_attributes(path: &std::ffi::CStr, flags: libc::c_int, attributes: &libc::mount_attr) -> io::Result<()> {
    let bytes = size_of::<libc::mount_attr>();
    // SAFETY: the caller's path and attributes live through the call.
    let result = unsafe { libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, path.as_ptr(), flags, attributes as *const _, bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

unsafe fn write_to(path: &std::ffi::CStr, text: &std::ffi::CStr) -> io::Result<()> {
    // SAFETY: the caller's strings live through the calls.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        checked(file)?;
        let written = libc::write(file, text.as_ptr().cast(), text.count_bytes());
        let result = if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        libc::close(file);
        result
    }
}
