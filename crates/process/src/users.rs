//! As whom a node's programs run outside, and whom they see.

/// The user and group outside that root's nodes run as.
pub(super) const NOBODY: u32 = 65_534;

/// Which users a new process sees.
pub(super) enum Users {
    /// Those of the host: no user namespace.
    Ours,
    /// Whoever runs this, as root.
    OnlyMe,
    /// Nobody, as root, whoever runs this: for root, whose programs may then do with the host's files what anybody's may.
    OnlyNobody,
}
