//! The program's own mounts: an /etc/resolv.conf that works on its stack, without touching the host's files, and settings of the host's network
//! that it cannot change.
//!
//! The program gets a mount namespace of its own in which a file from a small tmpfs is bound over /etc/resolv.conf. With CAP_SYS_ADMIN
//! that is all. Without it, a user namespace comes with it in which the user and group keep their numbers (other owners of files show as
//! 65534, and set-uid programs gain nothing, which PR_SET_NO_NEW_PRIVS implies anyway). The alternative, trapping every openat(2) to look
//! at its path, costs every program 2 to 8 µs for each file it opens; that was rejected.
//!
//! Two more files are covered: the sockets of nscd and of systemd-resolved. Through them libc would ask a daemon on the host, which
//! resolves names on the host's network.

//!
//! /proc/sys/net is the host's kernel's, and weft's stack has nothing to do with it. A program that writes there (as root: others may not) would
//! change the host and not its own network, so the program sees it read-only.

use crate::sys::Errno;
use std::ffi::{CStr, CString};

/// Sockets through which libc would resolve names outside the stack.
const COVERED: [&CStr; 4] = [
    c"/run/nscd/socket",
    c"/var/run/nscd/socket",
    c"/run/systemd/resolve/io.systemd.Resolve",
    c"/run/systemd/resolve/io.systemd.Resolve.Monitor",
];

/// Directories that exist nearly everywhere; one is covered by the tmpfs for a moment, in the program's namespace only.
const WORK: [Paths; 3] = [
    Paths::under(
        c"/tmp",
        c"/tmp/resolv.conf",
        c"/tmp/nothing",
        c"/tmp/upper",
        c"/tmp/work",
        c"lowerdir=/etc,upperdir=/tmp/upper,workdir=/tmp/work",
    ),
    Paths::under(
        c"/run",
        c"/run/resolv.conf",
        c"/run/nothing",
        c"/run/upper",
        c"/run/work",
        c"lowerdir=/etc,upperdir=/run/upper,workdir=/run/work",
    ),
    Paths::under(
        c"/mnt",
        c"/mnt/resolv.conf",
        c"/mnt/nothing",
        c"/mnt/upper",
        c"/mnt/work",
        c"lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work",
    ),
];

#[derive(Debug)]
struct Paths {
    directory: &'static CStr,
    file: &'static CStr,
    nothing: &'static CStr,
    upper: &'static CStr,
    work: &'static CStr,
    overlay: &'static CStr,
}

impl Paths {
    const fn under(
        directory: &'static CStr,
        file: &'static CStr,
        nothing: &'static CStr,
        upper: &'static CStr,
        work: &'static CStr,
        overlay: &'static CStr,
    ) -> Paths {
        Paths { directory, file, nothing, upper, work, overlay }
    }
}

const TARGET: &CStr = c"/etc/resolv.conf";
const SETTINGS: &CStr = c"/proc/sys/net";

/// Everything that is needed between fork and exec, allocated before: there, nothing may be.
#[derive(Debug)]
pub struct Prepared {
    /// Of the file; none: the host's stays.
    content: Option<Vec<u8>>,
    uid_map: CString,
    gid_map: CString,
}

impl Prepared {
    /// A resolv.conf with this content.
    pub fn new(content: &str) -> Prepared {
        // SAFETY: these take no pointers and cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        let map = |id: u32| CString::new(format!("{id} {id} 1\n")).unwrap_or_default();
        Prepared { content: Some(content.as_bytes().to_vec()), uid_map: map(uid), gid_map: map(gid) }
    }

    /// Own mounts with the host's resolv.conf.
    pub fn without_names() -> Prepared {
        Prepared { content: None, ..Prepared::new("") }
    }

    /// Puts both in place for the calling process and everything it starts. Async-signal-safe.
    pub fn enter(&self) -> Entered {
        let separate = || -> Result<(), Errno> {
            self.unshare()?;
            // Mounts made here stay here; the host's later ones still arrive.
            mount(None, c"/", None, libc::MS_REC | libc::MS_SLAVE, None)
        };
        match separate() {
            Ok(()) => Entered { settings: protect_settings(), names: self.cover_names() },
            Err(errno) => Entered { settings: Err(errno), names: if self.content.is_some() { Err(errno) } else { Ok(()) } },
        }
    }

    fn cover_names(&self) -> Result<(), Errno> {
        let Some(content) = &self.content else { return Ok(()) };
        let mut result = Err(Errno::ENOENT);
        for paths in &WORK {
            if mount(Some(c"weft"), paths.directory, Some(c"tmpfs"), libc::MS_NOSUID | libc::MS_NODEV, Some(c"mode=755,size=1m")).is_ok() {
                result = self.cover(paths, content);
                // SAFETY: a NUL-terminated path. What is bound from the tmpfs keeps it alive.
                unsafe { libc::umount2(paths.directory.as_ptr(), libc::MNT_DETACH) };
                break;
            }
        }
        result
    }

    fn unshare(&self) -> Result<(), Errno> {
        // SAFETY: takes no pointers.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0 {
            return Ok(());
        }
        // Only for names a user namespace is worth it: without privileges nobody changes settings.
        if self.content.is_none() {
            return Err(crate::sys::last());
        }
        // SAFETY: takes no pointers.
        if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } != 0 {
            return Err(crate::sys::last());
        }
        // user_namespaces(7): an unprivileged process may map its own group only after giving up setgroups(2).
        write_file(c"/proc/self/setgroups", b"deny", false)?;
        write_file(c"/proc/self/uid_map", self.uid_map.as_bytes(), false)?;
        write_file(c"/proc/self/gid_map", self.gid_map.as_bytes(), false)
    }

    fn cover(&self, paths: &Paths, content: &[u8]) -> Result<(), Errno> {
        write_file(paths.file, content, true)?;
        write_file(paths.nothing, b"", true)?;
        for socket in COVERED {
            // Most machines have none of them.
            let _ = mount(Some(paths.nothing), socket, None, libc::MS_BIND, None);
        }
        match mount(Some(paths.file), TARGET, None, libc::MS_BIND, None) {
            Err(Errno::ENOENT) => self.overlay(paths, content),
            other => other,
        }
    }

    /// There is no file to bind over (or a dangling link): lay a writable layer over /etc and make one.
    fn overlay(&self, paths: &Paths, content: &[u8]) -> Result<(), Errno> {
        // SAFETY: NUL-terminated paths.
        if unsafe { libc::mkdir(paths.upper.as_ptr(), 0o755) } != 0 || unsafe { libc::mkdir(paths.work.as_ptr(), 0o755) } != 0 {
            return Err(crate::sys::last());
        }
        mount(Some(c"weft"), c"/etc", Some(c"overlay"), 0, Some(paths.overlay))?;
        // SAFETY: a NUL-terminated path, in the layer that was just mounted.
        unsafe { libc::unlink(TARGET.as_ptr()) };
        write_file(TARGET, content, true)
    }
}

/// What is in place after [`Prepared::enter`], each with the errno of the first step that failed.
#[derive(Clone, Copy, Debug)]
pub struct Entered {
    /// The resolv.conf, if one was asked for; when it failed nothing is covered.
    pub names: Result<(), Errno>,
    /// The read-only settings.
    pub settings: Result<(), Errno>,
}

/// Makes /proc/sys/net read-only.
fn protect_settings() -> Result<(), Errno> {
    match mount(Some(SETTINGS), SETTINGS, None, libc::MS_BIND | libc::MS_REC, None) {
        // No /proc, or a kernel without these settings.
        Err(Errno::ENOENT) => return Ok(()),
        other => other?,
    }
    // In a user namespace of one's own the flags that /proc has may not be taken away.
    let kept = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(None, SETTINGS, None, libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY | kept, None)
}

fn mount(source: Option<&CStr>, target: &CStr, kind: Option<&CStr>, flags: libc::c_ulong, data: Option<&CStr>) -> Result<(), Errno> {
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: every pointer is null or a NUL-terminated string.
    let result = unsafe { libc::mount(pointer(source), target.as_ptr(), pointer(kind), flags, pointer(data).cast()) };
    if result == 0 { Ok(()) } else { Err(crate::sys::last()) }
}

fn write_file(path: &CStr, content: &[u8], create: bool) -> Result<(), Errno> {
    let flags = libc::O_WRONLY | libc::O_CLOEXEC | if create { libc::O_CREAT | libc::O_TRUNC } else { 0 };
    // SAFETY: a NUL-terminated path.
    let fd = unsafe { libc::open(path.as_ptr(), flags, 0o644) };
    if fd < 0 {
        return Err(crate::sys::last());
    }
    // SAFETY: `content` is read only.
    let written = unsafe { libc::write(fd, content.as_ptr().cast(), content.len()) };
    let result = if written == content.len() as isize { Ok(()) } else { Err(crate::sys::last()) };
    // SAFETY: our own descriptor, used no more.
    unsafe { libc::close(fd) };
    result
}
