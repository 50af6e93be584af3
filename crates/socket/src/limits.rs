//! Bounds and settings of all sockets together.

use crate::ports::Reuse;

/// Buffers of sockets without a transport of their own, bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffer {
    /// What a new datagram socket has.
    pub default: u32,
    /// The most that a program without privilege may ask for, before doubling.
    pub max: u32,
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
