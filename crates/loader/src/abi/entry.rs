//! What programs and the controller tell each other of a poll set.

/// An entry of a poll set, as it goes through `Channel::data`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The program's descriptor; negative ones are passed over.
    pub fd: i32,
    /// Wanted.
    pub events: u32,
    /// Found. For native ones by the loader.
    pub found: u32,
    /// To 8 bytes.
    pub reserved: u32,
    /// Descriptor word without O_NONBLOCK.
    pub descriptor: u64,
}
/// In [`Entry::events`]: nothing else is told, as select(2) looks at a set; poll(2) tells POLLERR and POLLHUP to everybody.
pub const EXACT: u32 = 1 << 31;

impl Entry {
    /// What of all that a descriptor shows is told.
    pub fn told(&self, shown: u32) -> u32 {
        const POLLERR: u32 = 8;
        const POLLHUP: u32 = 0x10;
        const POLLNVAL: u32 = 0x20;
        let always = if self.events & EXACT != 0 { POLLNVAL } else { POLLERR | POLLHUP | POLLNVAL };
        shown & (self.events | always) & !EXACT
    }
}
