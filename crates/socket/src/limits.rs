//! Bounds and settings of all sockets together.

/// Bounds and settings, from the block's parameters.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub sockets_max: usize,
    pub backlog_max: u32,
    pub buffer_max: u32,
    pub buffer_default: u32,
    pub datagram_bytes_max: usize,
    pub ephemeral: (u16, u16),
    pub boot_time_nanos: u64,
}
