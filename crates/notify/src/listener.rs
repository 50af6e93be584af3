//! The listener of a process tree: notifications in, answers and descriptors out (seccomp_unotify(2)).

use crate::sys::{self, Errno};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Most calls held at once (one a thread).
pub const HELD_MAX: usize = 1 << 16;

/// A notification: a thread of the program waits in this call.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    /// Names this very attempt of the call; a restarted call has another.
    pub id: u64,
    /// The thread, as this process's pid namespace numbers it; 0 when it is not visible there.
    pub tid: u32,
    /// Audit architecture of the call table.
    pub architecture: u32,
    /// Call number.
    pub number: i32,
    /// Arguments as registers.
    pub arguments: [u64; 6],
    /// Where the call was made.
    pub instruction: u64,
}

/// Where the kernel writes a notification (`struct seccomp_notif`).
#[repr(C)]
#[derive(Debug, Default)]
pub struct Place([AtomicU64; size_of::<libc::seccomp_notif>() / size_of::<u64>()]);

const _: () = assert!(size_of::<Place>() == size_of::<libc::seccomp_notif>() && align_of::<Place>() >= align_of::<libc::seccomp_notif>());

impl Place {
    /// The kernel demands zeroed memory.
    pub fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// What is there; none: nothing came since it was cleared.
    pub fn read(&self) -> Option<Notification> {
        // A loop: `map` of so long an array stays a call of its own, with a call for each word (measured).
        let mut words = [0; size_of::<Place>() / size_of::<u64>()];
        for (word, place) in words.iter_mut().zip(&self.0) {
            *word = place.load(Relaxed);
        }
        // SAFETY: this structure is integers alone, so that any bytes make one; the sizes are equal (above).
        let raw: libc::seccomp_notif = unsafe { std::mem::transmute(words) };
        let (architecture, number, arguments) = (raw.data.arch, raw.data.nr, raw.data.args);
        let instruction = raw.data.instruction_pointer;
        (raw.id != 0).then_some(Notification { id: raw.id, tid: raw.pid, architecture, number, arguments, instruction })
    }
}

/// The supervisor's end of a filter.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Listener {
    /// Takes a listener over. Asks the kernel to wake the program on the supervisor's processor (Linux 6.6; measured: 1.6 µs a call
    /// instead of 7.6 and more); older kernels refuse, which changes nothing but speed.
    pub fn new(fd: OwnedFd) -> Listener {
        const SYNC_WAKE_UP: libc::c_ulong = 1;
        // SAFETY: this request takes the flags by value.
        let _ = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
        Listener(fd)
    }

    /// Is this a listener at all? It may have come from anybody.
    pub fn is_one(fd: BorrowedFd<'_>) -> bool {
        let id = 0_u64;
        // SAFETY: the request reads one u64. A listener knows no call 0; other descriptors do not know the request.
        let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) };
        result == 0 || sys::last() == Errno(libc::ENOENT)
    }

    /// The next notification; none when nothing waits. Polls first: RECV would block. `place` has it, too, from the moment in which the kernel takes
    /// the call to be received, so that it is known whatever happens to this process.
    ///
    /// # Errors
    /// What the kernel says; ENOENT (the call was cancelled between poll and RECV) is turned into "try again".
    pub fn receive(&self, place: &Place) -> Result<Option<Notification>, Errno> {
        loop {
            if sys::poll_now(self.as_fd(), libc::POLLIN) & libc::POLLIN == 0 {
                return Ok(None);
            }
            place.clear();
            // SAFETY: a place has the size that the request encodes, and atomics may be written while they are lent.
            if unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, place.0.as_ptr()) } == 0 {
                return Ok(place.read());
            }
            match sys::last() {
                Errno(libc::ENOENT | libc::EINTR) => {}
                other => return Err(other),
            }
        }
    }

    /// Does the thread still wait in this call? When it does, its pid was not reused meanwhile.
    pub fn is_valid(&self, id: u64) -> bool {
        // SAFETY: the request reads one u64.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
    }

    fn send(&self, mut answer: libc::seccomp_notif_resp) -> Result<(), Errno> {
        // SAFETY: `answer` has the size that the request encodes.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) } == 0 {
            Ok(())
        } else {
            Err(sys::last())
        }
    }

    /// The call returns this value.
    ///
    /// # Errors
    /// ENOENT: a signal has cancelled the call.
    pub fn answer(&self, id: u64, value: i64) -> Result<(), Errno> {
        self.send(libc::seccomp_notif_resp { id, val: value, error: 0, flags: 0 })
    }

    /// The call fails.
    ///
    /// # Errors
    /// As [`Listener::answer`].
    pub fn refuse(&self, id: u64, errno: Errno) -> Result<(), Errno> {
        self.send(libc::seccomp_notif_resp { id, val: 0, error: -errno.0.abs(), flags: 0 })
    }

    /// The kernel runs the call.
    ///
    /// # Errors
    /// As [`Listener::answer`].
    pub fn proceed(&self, id: u64) -> Result<(), Errno> {
        self.send(libc::seccomp_notif_resp { id, val: 0, error: 0, flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 })
    }

    /// Puts a descriptor into the program and lets the call return its number, in one step.
    ///
    /// # Errors
    /// ENOENT: cancelled, and the program has got nothing. EMFILE: the program's table is full.
    pub fn hand_over(&self, id: u64, fd: BorrowedFd<'_>, close_on_exec: bool) -> Result<i32, Errno> {
        self.add(id, fd, libc::SECCOMP_ADDFD_FLAG_SEND as u32, 0, close_on_exec)
    }

    /// Puts a descriptor into the program at a number that it has, in place of what is there.
    ///
    /// # Errors
    /// As [`Listener::hand_over`].
    pub fn replace(&self, id: u64, fd: BorrowedFd<'_>, at: i32, close_on_exec: bool) -> Result<i32, Errno> {
        self.add(id, fd, libc::SECCOMP_ADDFD_FLAG_SETFD as u32, at as u32, close_on_exec)
    }

    fn add(&self, id: u64, fd: BorrowedFd<'_>, flags: u32, newfd: u32, close_on_exec: bool) -> Result<i32, Errno> {
        let newfd_flags = if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 };
        let add = libc::seccomp_notif_addfd { id, flags, srcfd: fd.as_raw_fd() as u32, newfd, newfd_flags };
        // SAFETY: `add` has the size that the request encodes.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const add) };
        if result >= 0 {
            return Ok(result);
        }
        match sys::last() {
            // A signal came first: the thread was on its way out (ESRCH; nothing was put in), or out of this call (EINPROGRESS).
            Errno(libc::ESRCH | libc::EINPROGRESS) => Err(Errno(libc::ENOENT)),
            other => Err(other),
        }
    }
}
