//! Why a node's programs could not be started.

use weft_intercept::sys::Errno;
use weft_loader::abi;

/// What could not be done, and errno.
pub(super) type Undone = (String, i32);

/// Why a node's programs could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A step failed.
    #[error("cannot {step}: {}", std::io::Error::from_raw_os_error(errno.0))]
    Step {
        /// What was tried.
        step: &'static str,
        /// Why it failed.
        errno: Errno,
    },
    /// A node's files could not be made.
    #[error("cannot {what}: {}", std::io::Error::from_raw_os_error(errno.0))]
    Files {
        /// What was tried, and of which file.
        what: String,
        /// Why it failed.
        errno: Errno,
    },
    /// The program itself could not be executed.
    #[error("cannot execute {program}: {}", std::io::Error::from_raw_os_error(errno.0))]
    Execute {
        /// Its name.
        program: String,
        /// ENOENT, EACCES, …
        errno: Errno,
    },
    /// The loader's descriptors have numbers up to 1023.
    #[error("the hard limit of descriptors is {most}, and `--strict` wants {}: raise it (ulimit -Hn), or run without --strict", abi::DESCRIPTOR_CONTROL + 1)]
    Descriptors {
        /// RLIMIT_NOFILE, the hard one.
        most: u64,
    },
    /// The same, of a node.
    #[error(
        "the hard limit of descriptors is {most}, and a node with programs wants {}: raise it (ulimit -Hn 65536 as root; \
         LimitNOFILE=65536 in the unit; --ulimit nofile=65536 of docker run)",
        abi::DESCRIPTOR_CONTROL + 1
    )]
    FewDescriptors {
        /// RLIMIT_NOFILE, the hard one.
        most: u64,
    },
    /// No program was named.
    #[error("there is no program to start: name one")]
    Empty,
    /// Arguments and environment are larger than [`abi::SPAWN_BYTES`].
    #[error("arguments and environment are longer than {} bytes together: pass them in a file", abi::SPAWN_BYTES)]
    TooLong,
    /// The node has as many processes or threads as it can have.
    #[error("the node has {} processes or {} threads, which is the most there can be", abi::PROCESSES_MAX, abi::CHANNELS_MAX)]
    Full,
}

impl StartError {
    /// What could not be done of a list of steps.
    pub(super) fn undone((what, errno): Undone) -> StartError {
        StartError::Files { what, errno: Errno(errno) }
    }
}
