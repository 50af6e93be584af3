//! What the loader remembers of a descriptor: a word with its kind, its inode number, and what there is beside.

/// What a descriptor is, as far as the loader cares. In bits 56 to 62 of a descriptor word; below is the inode number.
pub mod kind {
    /// There is none.
    pub const NONE: u64 = 0;
    /// Never blocks: a file, a directory, /dev/null.
    pub const FILE: u64 = 1;
    /// Of the kernel, may block: a pipe, an AF_UNIX socket, a terminal, an eventfd.
    pub const NATIVE: u64 = 2;
    /// Of the controller's: a socket, an epoll, a timer, a signalfd.
    pub const VIRTUAL: u64 = 3;
    /// /dev/urandom and /dev/random.
    pub const RANDOM: u64 = 4;
    /// In real time: an epoll of the kernel's that watches sockets of the node, too; below is its number.
    pub const EPOLL: u64 = 5;
}
/// O_NONBLOCK of a descriptor word.
pub const NONBLOCKING: u64 = 1 << 63;
/// The inode number of a descriptor word.
pub const INODE: u64 = (1 << 56) - 1;
/// In a descriptor word of [`kind::NATIVE`], whose inode says nothing: it is inotify's.
pub const INOTIFY: u64 = 1 << 55;
/// The same of a terminal's end: /dev/ptmx.
pub const MASTER: u64 = 1 << 54;
/// The other end.
pub const SLAVE: u64 = 1 << 53;
/// Terminals of which it is counted what is to come.
pub const TERMINALS: usize = 64;
/// As much as a master has room for (N_TTY_BUF_SIZE); what is more is not counted.
pub const COUNTED_MAX: u32 = 4095;
/// Nobody knows how much is to come, until nothing comes any more; and whatever happens.
pub const UNKNOWN: u32 = u32::MAX - 1;
/// As [`UNKNOWN`], and nothing that happens changes it.
pub const UNCOUNTED: u32 = u32::MAX;
