//! Bounds and settings of all sockets together.

use crate::ports::Reuse;

/// Buffers of sockets without a transport of their own, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// What a new socket has.
    pub default: u32,
    /// The most that a program without privilege may ask for, before doubling.
    pub max: u32,
}

/// Both buffers of such a socket: net.core.wmem_default and wmem_max, rmem_default and rmem_max.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffers {
    /// SO_SNDBUF.
    pub send: Buffer,
    /// SO_RCVBUF.
    pub receive: Buffer,
}

/// As the parameters of `sockets` are when nobody has set them.
impl Default for Buffers {
    fn default() -> Buffers {
        let buffer = Buffer { default: 212_992, max: 4 << 20 };
        Buffers { send: buffer, receive: buffer }
    }
}

/// Bounds and settings, from the block's parameters.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub sockets_max: usize,
    pub backlog_max: u32,
    pub send_buffer: Buffer,
    pub receive_buffer: Buffer,
    pub datagram_bytes_max: usize,
    pub ephemeral: (u16, u16),
    /// What connect(2) may take over of old connections.
    pub reuse: Reuse,
    pub boot_time_nanos: u64,
}
