//! What is left to do when weft ends without being able to do it: killed (SIGKILL), or by a fault of its own.
//!
//! Two things do not end by themselves. A setting of the host's kernel belongs to no process (`--nat` switches forwarding on). And a unix socket whose
//! other end is closed shows its reader the end of a file, so that half of a download looks like all of it. So weft has a *caretaker*: a process that
//! it clones while it is one thread, which sleeps until weft is no more, does both, and ends. It shares weft's table of descriptors (CLONE_FILES), so a
//! socket costs nothing more than before, and everything that weft held stays open for the moment in which the caretaker works:
//!
//! 1. What leads out is closed ([`table`]): standard streams, devices, the control socket; connections of the host's kernel with a reset.
//! 2. The will is carried out: words that weft wrote into memory that both share ([`ledger`]), which the caller of [`Caretaker::start`] understands.
//!    Then nftables' rules go.
//! 3. Programs are told ([`programs`]): their streams end in ECONNRESET, calls that weft held fail, and who waits wakes.
//! 4. Their further calls are answered ([`answers`]), until the last of them has ended.
//!
//! The first three take [`SECONDS_MAX`] at most, whatever they meet, and then everything is closed in any case. It is in a session of its own, so that
//! what ends weft's process group does not end it. An orderly end needs it for the fourth only: weft tells its programs itself, by the same code
//! ([`Supervisor::end`](crate::Supervisor::end)), and dismisses it last if no program is left.
//!
//! Rejected: a caretaker with copies of descriptors (a message and a switch of processes for each socket), an unread byte kept in each of weft's ends
//! (it pins what it came with, so that a program's send buffer never looks empty), and a parent of weft's that waits for it (`kill` would hit the
//! parent, and the descriptors would be gone).

pub(crate) mod answers;
pub mod ledger;
pub(crate) mod programs;
mod table;

use crate::listener::Listener;
use crate::sys::{self, Errno};
use ledger::Ledger;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So long the caretaker works, at most. It needs some milliseconds, and on a machine that is very busy with other things some seconds.
const SECONDS_MAX: u32 = 20;
/// How often who waits for one looks.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// What `ps` shows, so that who looks for weft does not find two.
const NAME: &std::ffi::CStr = c"weft-caretaker";
/// And what it shows when all is done but to answer: nobody waits for it.
const NAME_LATER: &std::ffi::CStr = c"weft-lost";
/// What the kernel sends the caretaker when weft is no more.
const WEFT_IS_GONE: i32 = libc::SIGUSR1;

/// A caretaker. Dismissed when dropped.
#[derive(Debug)]
pub struct Caretaker {
    pid: libc::pid_t,
    ledger: Arc<Ledger>,
}

impl Caretaker {
    /// Clones the caretaker. `carry_out` is what it does with the will when weft has gone without dismissing it.
    ///
    /// # Errors
    /// EBUSY: this process has several threads already, whose locks nobody would open in the clone. Others: no memory, no process.
    pub fn start(carry_out: impl FnOnce(&[u8])) -> Result<Caretaker, Errno> {
        if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
            return Err(Errno(libc::EBUSY));
        }
        let ledger = Arc::new(Ledger::new()?);
        let weft = std::process::id();
        let mask = block_all_signals();
        let pid = clone_with_descriptors();
        if pid == Ok(0) {
            wait_for_the_end(weft, &ledger);
            work(weft, &ledger, carry_out);
            // SAFETY: ends this process; what weft would do at its exit is not this one's to do.
            unsafe { libc::_exit(0) }
        }
        set_signals(&mask);
        Ok(Caretaker { pid: pid?, ledger })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// What it reads at weft's end.
    pub fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.ledger)
    }
}

impl Drop for Caretaker {
    fn drop(&mut self) {
        if self.ledger.is_over() {
            // This process may go on for a while, without a stack: it answers from now on.
            // SAFETY: takes no pointers.
            unsafe { libc::kill(self.pid, WEFT_IS_GONE) };
            return;
        }
        // SAFETY: takes no pointers. The number is the caretaker's until it is waited for.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        // It tells nobody of its end (no exit signal), which is what __WALL is for.
        let _ = sys::wait(self.pid, libc::__WALL);
    }
}

/// Waits for caretakers at work: a weft was killed a moment ago, and its devices and ports are about to be free again. Who waited for that weft's
/// end need not know of its caretaker.
pub fn wait_for_those_at_work() {
    let deadline = Instant::now() + Duration::from_secs(SECONDS_MAX.into()) + LOOK_AGAIN;
    while Instant::now() < deadline && is_any_at_work() {
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Is there a caretaker whose weft is gone? While weft is there it is the caretaker's parent, and was started with the same words. Anybody may call a
/// process so: only this user's and root's count.
fn is_any_at_work() -> bool {
    // SAFETY: takes no pointers.
    let own = unsafe { libc::getuid() };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let read = |pid: &str, file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    processes.filter_map(|process| process.file_name().into_string().ok()).any(|pid| {
        if read(&pid, "comm").trim_ascii_end() != NAME.to_bytes() {
            return false;
        }
        let status = String::from_utf8_lossy(&read(&pid, "status")).into_owned();
        let user = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_ascii_whitespace().next()?.parse::<u32>().ok());
        if user.is_none_or(|user| user != 0 && user != own) {
            return false;
        }
        // proc_pid_stat(5): the name in brackets, the state, the parent.
        let stat = String::from_utf8_lossy(&read(&pid, "stat")).into_owned();
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
        let (state, parent) = (fields.next(), fields.next().unwrap_or_default().to_owned());
        !matches!(state, None | Some("Z" | "X")) && read(&pid, "cmdline") != read(&parent, "cmdline")
    })
}

/// clone(2) with the table of descriptors shared and the memory copied when it is written to. 0: this is the clone.
fn clone_with_descriptors() -> Result<libc::pid_t, Errno> {
    // SAFETY: as fork(2), in a process of one thread: the child goes on in its own copy of this stack. No exit signal: nobody who waits for any child
    // of weft's finds it.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_FILES, 0, 0, 0, 0) };
    if pid < 0 { Err(sys::last()) } else { Ok(pid as libc::pid_t) }
}

fn block_all_signals() -> libc::sigset_t {
    // SAFETY: both sets are ours.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

fn set_signals(mask: &libc::sigset_t) {
    // SAFETY: the set is ours; the old one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// Sleeps until weft is no more, or has ended its stack. All signals stay blocked: what ends weft's terminal, or asks all of its processes to end, must not end this one before.
fn wait_for_the_end(weft: u32, ledger: &Ledger) {
    // SAFETY: constants and sets of ours.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        libc::prctl(libc::PR_SET_PDEATHSIG, WEFT_IS_GONE);
        let mut gone: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut gone);
        libc::sigaddset(&raw mut gone, WEFT_IS_GONE);
        // weft may have ended before the kernel was asked to say so, and anybody may send the signal.
        while libc::getppid() as u32 == weft && !ledger.is_over() {
            libc::sigwaitinfo(&raw const gone, std::ptr::null_mut());
        }
    }
}

fn work(weft: u32, ledger: &Ledger, carry_out: impl FnOnce(&[u8])) {
    // SAFETY: a set of ours; a signal whose default is the end of this process.
    unsafe {
        let mut alarm: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut alarm);
        libc::sigaddset(&raw mut alarm, libc::SIGALRM);
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const alarm, std::ptr::null_mut());
        libc::alarm(SECONDS_MAX);
    }
    if ledger.is_over() {
        // weft may still be there, and its descriptors are its own.
        // SAFETY: takes no pointers.
        unsafe { libc::unshare(libc::CLONE_FILES) };
    }
    let kept = table::close_ways_out();
    // SAFETY: weft's, which is no more, so they are this process's alone.
    let listeners: Vec<Listener> = kept.listeners.iter().map(|fd| Listener::new(unsafe { OwnedFd::from_raw_fd(*fd) })).collect();
    if ledger.is_over() {
        table::close(&kept.rules);
        table::close(&kept.ends);
    } else {
        let will = ledger.will();
        if !will.is_empty() {
            carry_out(&will);
        }
        table::close(&kept.rules);
        programs::after_weft(weft, &kept.ends, &listeners, ledger);
    }
    // SAFETY: a name; nothing ends this process from now on.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, NAME_LATER.as_ptr());
        libc::alarm(0);
    }
    answers::until_nobody_asks(weft, listeners);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;

    #[test]
    fn a_strangers_process_of_that_name_is_not_waited_for() {
        // SAFETY: takes no pointers.
        if unsafe { libc::getuid() } != 0 {
            return;
        }
        const NOBODY: u32 = 65534;
        let mut stranger = std::process::Command::new("bash");
        // It says so when it is called so.
        stranger.args(["-c", "printf weft-caretaker > /proc/self/comm; echo; read"]).uid(NOBODY);
        let mut stranger = stranger.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(stranger.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        assert_eq!(std::fs::read_to_string(format!("/proc/{}/comm", stranger.id())).unwrap(), "weft-caretaker\n");
        // Others of this machine's may be at work, for a moment.
        let deadline = Instant::now() + Duration::from_secs(60);
        while is_any_at_work() {
            assert!(Instant::now() < deadline, "it is taken for one");
            std::thread::sleep(LOOK_AGAIN);
        }
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
