//! What the frames of a backend begin with.

/// What the frames of a backend begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkType {
    /// An Ethernet header.
    #[default]
    Ethernet,
    /// An IP header.
    Ip,
}
