//! The program's own mounts: an /etc/resolv.conf that works on its stack, without touching the host's files, and files of its stack's network in place of
//! those of the host's.
//!
//! The program gets a mount namespace of its own in which a file from a small tmpfs is bound over /etc/resolv.conf. With CAP_SYS_ADMIN
//! that is all. Without it, a user namespace comes with it in which the user and group keep their numbers (other owners of files show as
//! 65534, and set-uid programs gain nothing, which PR_SET_NO_NEW_PRIVS implies anyway). The alternative, trapping every openat(2) to look
//! at its path, costs every program 2 to 8 µs for each file it opens; that was rejected.
//!
//! Two more files are covered: the sockets of nscd and of systemd-resolved. Through them libc would ask a daemon on the host, which
//! resolves names on the host's network.
//!
//! /proc/sys/net and /proc/net are the host's kernel's, and weft's stack has nothing to do with them. So a file system of weft's own is mounted over the first
//! (FUSE: whoever has the other end of its descriptor answers), and has the second, too, in a folder [`NETWORK`] that no listing shows. /proc/net is a symbolic
//! link, over which one is mounted that leads there. A second one lies over /sys/class/net. Where that is not possible (no /dev/fuse, or it may not be opened), the program sees the host's settings
//! read-only: what it wrote there would change the host and not its own network.

use crate::sys::{self, Errno};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};

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
        c"/tmp/link",
        c"lowerdir=/etc,upperdir=/tmp/upper,workdir=/tmp/work",
    ),
    Paths::under(
        c"/run",
        c"/run/resolv.conf",
        c"/run/nothing",
        c"/run/upper",
        c"/run/work",
        c"/run/link",
        c"lowerdir=/etc,upperdir=/run/upper,workdir=/run/work",
    ),
    Paths::under(
        c"/mnt",
        c"/mnt/resolv.conf",
        c"/mnt/nothing",
        c"/mnt/upper",
        c"/mnt/work",
        c"/mnt/link",
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
    link: &'static CStr,
    overlay: &'static CStr,
}

impl Paths {
    const fn under(
        directory: &'static CStr,
        file: &'static CStr,
        nothing: &'static CStr,
        upper: &'static CStr,
        work: &'static CStr,
        link: &'static CStr,
        overlay: &'static CStr,
    ) -> Paths {
        Paths { directory, file, nothing, upper, work, link, overlay }
    }
}

const TARGET: &CStr = c"/etc/resolv.conf";
const SETTINGS: &CStr = c"/proc/sys/net";
const DEVICES: &CStr = c"/sys/class/net";
/// The folder of what stands in /proc/net, in the root of the file system for [`SETTINGS`].
pub const NETWORK: &str = ".proc-net";
/// Where /proc/net leads. Relative, as the kernel's own link ("self/net"): it holds for programs that see /proc elsewhere.
const LINK: &CStr = c"sys/net/.proc-net";

/// Everything that is needed between fork and exec, allocated before: there, nothing may be.
#[derive(Debug)]
pub struct Prepared {
    /// Of the file; none: the host's stays.
    content: Option<Vec<u8>>,
    uid_map: CString,
    gid_map: CString,
    /// User and group of who started it.
    owner: [u32; 2],
}

impl Prepared {
    /// A resolv.conf with this content.
    pub fn new(content: &str) -> Prepared {
        // SAFETY: these take no pointers and cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        let map = |id: u32| CString::new(format!("{id} {id} 1\n")).unwrap_or_default();
        Prepared { content: Some(content.as_bytes().to_vec()), uid_map: map(uid), gid_map: map(gid), owner: [uid, gid] }
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
            Ok(()) => {
                let files = self.mount_files(SETTINGS).and_then(|files| {
                    lead_network().inspect_err(|_| {
                        // SAFETY: a NUL-terminated path.
                        unsafe { libc::umount2(SETTINGS.as_ptr(), libc::MNT_DETACH) };
                    })?;
                    Ok(files)
                });
                let devices = files.as_ref().map_err(|errno| *errno).and_then(|_| self.mount_files(DEVICES));
                let settings = if files.is_ok() { Ok(()) } else { protect_settings() };
                Entered { files, devices, settings, names: self.cover_names() }
            }
            Err(errno) => Entered {
                files: Err(errno),
                devices: Err(errno),
                settings: Err(errno),
                names: if self.content.is_some() { Err(errno) } else { Ok(()) },
            },
        }
    }

    /// Mounts a file system of weft's over a folder.
    fn mount_files(&self, folder: &CStr) -> Result<OwnedFd, Errno> {
        // SAFETY: a NUL-terminated path.
        let fuse = sys::owned(i64::from(unsafe { libc::open(c"/dev/fuse".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) }))?;
        let mut options = Text::default();
        options.put(b"fd=").number(fuse.as_raw_fd() as u32, 10);
        options.put(b",rootmode=").number(libc::S_IFDIR | 0o555, 8);
        options.put(b",user_id=").number(self.owner[0], 10).put(b",group_id=").number(self.owner[1], 10).put(b",allow_other");
        mount(Some(c"weft"), folder, Some(c"fuse"), libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC, Some(options.as_c_str()))?;
        Ok(fuse)
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
#[derive(Debug)]
pub struct Entered {
    /// The file system for /proc/sys/net and /proc/net: who has this descriptor is asked what stands there (fuse(4)).
    pub files: Result<OwnedFd, Errno>,
    /// The same for /sys/class/net, where there is a /sys.
    pub devices: Result<OwnedFd, Errno>,
    /// The resolv.conf, if one was asked for; when it failed nothing is covered.
    pub names: Result<(), Errno>,
    /// The read-only settings.
    pub settings: Result<(), Errno>,
}

/// Has large pieces of memory taken and given back by themselves. Each file system has a buffer of 16 MiB, of which hardly anything is used; out of the heap, where
/// malloc(3) puts such pieces as soon as one was given back, all of it would be written with zeros.
pub fn keep_large_memory_apart() {
    const BYTES: libc::c_int = 4 << 20;
    // SAFETY: takes no pointers.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, BYTES) };
}

/// Mounts a link over /proc/net, which is one. mount(2) would follow that, so it needs Linux 5.2.
fn lead_network() -> Result<(), Errno> {
    for paths in &WORK {
        if mount(Some(c"weft"), paths.directory, Some(c"tmpfs"), libc::MS_NOSUID | libc::MS_NODEV, Some(c"mode=755,size=1m")).is_ok() {
            // SAFETY: NUL-terminated paths. What is bound from the tmpfs keeps it alive.
            let result = unsafe {
                match libc::symlink(LINK.as_ptr(), paths.link.as_ptr()) {
                    0 => bind_link(paths.link),
                    _ => Err(sys::last()),
                }
            };
            // SAFETY: as above.
            unsafe { libc::umount2(paths.directory.as_ptr(), libc::MNT_DETACH) };
            return result;
        }
    }
    Err(Errno::ENOENT)
}

fn bind_link(link: &CStr) -> Result<(), Errno> {
    const OPEN_TREE_CLONE: libc::c_uint = 1;
    const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC as libc::c_uint | libc::AT_SYMLINK_NOFOLLOW as libc::c_uint;
    // SAFETY: NUL-terminated paths.
    unsafe {
        let tree = sys::owned(libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, link.as_ptr(), flags))?;
        let target = c"/proc/net".as_ptr();
        sys::check(libc::syscall(libc::SYS_move_mount, tree.as_raw_fd(), c"".as_ptr(), libc::AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH))?;
    }
    Ok(())
}

/// Text that is put together without memory being taken.
struct Text {
    bytes: [u8; 128],
    length: usize,
}

impl Default for Text {
    fn default() -> Text {
        Text { bytes: [0; 128], length: 0 }
    }
}

impl Text {
    /// What does not fit is left out; a zero byte stays behind it.
    fn put(&mut self, text: &[u8]) -> &mut Text {
        for byte in text {
            if self.length + 1 < self.bytes.len() {
                self.bytes[self.length] = *byte;
                self.length += 1;
            }
        }
        self
    }
    fn number(&mut self, number: u32, base: u32) -> &mut Text {
        let mut digits = [0_u8; 12];
        let (mut at, mut rest) = (digits.len(), number);
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % base) as u8;
            rest /= base;
            if rest == 0 {
                return self.put(&digits[at..]);
            }
        }
    }
    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_put_together_and_ends() {
        let mut text = Text::default();
        text.put(b"fd=").number(0, 10).put(b",mode=").number(0o40555, 8).put(b",").number(u32::MAX, 10);
        assert_eq!(text.as_c_str(), c"fd=0,mode=40555,4294967295");
        text.put(&[b'x'; 200]);
        assert_eq!(text.as_c_str().to_bytes().len(), 127);
    }
}
