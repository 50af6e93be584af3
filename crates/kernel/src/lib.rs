//! Linux kernels as nodes of a virtual world.
//!
//! A node of `kind = "linux"` is User Mode Linux (arch/um of the mainline kernel) with time travel: a whole kernel as an unprivileged process. Its clock is
//! [`calendar`], where weft says how far it may go; its network devices are vhost-user ones ([`device`], [`ring`]) whose other side is a wire; its files are
//! the host's, read-only, below a layer in its own memory. Process 1 (`kernel/init/init.c`) starts the programs that the scenario names. Nothing reaches the
//! machine that is not an event of the world, so a run repeats to the bit.
//!
//! Each machine has a calendar of its own and runs under the look-ahead of its wires as any other ([`weft_sim::Guest`]): serially or on several threads it
//! does the same. [`store`] knows which kernels were built, [`build`] builds them from Debian's sources,
//! [`coverage`] says what of them runs have reached.
//!
//! Sources: include/uapi/linux/um_timetravel.h and arch/um/kernel/time.c (Linux 6.12); the vhost-user protocol as arch/um/drivers/virtio_uml.c speaks it;
//! virtio 1.2, 2.7 (split virtqueues) and 5.1 (network device). Measured facts: docs/linux-notes/kernel-nodes.md.

pub mod build;
mod calendar;
pub mod coverage;
mod device;
mod held;
mod home;
mod machine;
mod memory;
mod patience;
mod ring;
mod sockets;
mod spawn;
pub mod store;
mod words;

pub use machine::Kernels;

/// What is wrong with a kernel that runs: the run ends, and names its node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

impl Broken {
    fn new(what: impl Into<String>) -> Broken {
        Broken(what.into())
    }
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Broken {
        Broken(format!("its sockets: {error}"))
    }
}

impl From<rustix::io::Errno> for Broken {
    fn from(errno: rustix::io::Errno) -> Broken {
        std::io::Error::from(errno).into()
    }
}
