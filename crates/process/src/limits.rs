//! What programs of a node may have at most, as it is told to the kernel and to them.

use super::error::StartError;
use weft_intercept::sys::{self, Errno};
use weft_loader::abi;

/// What each program of a node may have at most. Beyond it calls fail as they do on Linux (ENOMEM, EMFILE).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Bytes of private writable memory (RLIMIT_DATA); also what the machine is said to have. None: as much as the host gives; 1 GiB is said.
    pub memory: Option<u64>,
    /// Descriptors (RLIMIT_NOFILE). None: 1024, which programs can raise.
    pub descriptors: Option<u32>,
}

/// What a machine is said to have where nothing limits it.
pub(super) const MEMORY_BYTES: u64 = 1 << 30;

/// RLIMIT_NOFILE that programs can raise theirs to, where the host allows as many.
pub(super) const DESCRIPTORS_MAX: libc::rlim_t = 65_536;

/// What programs begin with instead of what weft was started with. Limits that count what other processes of the same user have (processes, locked memory,
/// signals) stay the host's, and the loader says what they are.
pub(super) const LIMITS: [(libc::__rlimit_resource_t, libc::rlim_t); 7] = [
    (libc::RLIMIT_CPU, libc::RLIM_INFINITY),
    (libc::RLIMIT_FSIZE, libc::RLIM_INFINITY),
    (libc::RLIMIT_DATA, libc::RLIM_INFINITY),
    (libc::RLIMIT_STACK, 8 << 20),
    (libc::RLIMIT_CORE, 0),
    (libc::RLIMIT_RSS, libc::RLIM_INFINITY),
    (libc::RLIMIT_AS, libc::RLIM_INFINITY),
];

pub(super) const TOO_MANY_DESCRIPTORS: &str = "allow programs so many descriptors (the host's hard limit is lower)";

/// Soft and hard limit of descriptors for the kernel, and bytes of memory; `u64::MAX`: as it is.
pub(super) fn limits_of(wanted: Limits) -> Result<([u64; 2], u64), StartError> {
    let [_, hard] = sys::limit_of(0, libc::RLIMIT_NOFILE).unwrap_or([0; 2]);
    let descriptors = match wanted.descriptors.map(u64::from) {
        Some(wanted) if wanted > hard => return Err(StartError::Step { step: TOO_MANY_DESCRIPTORS, errno: Errno(libc::EPERM) }),
        Some(wanted) => [wanted; 2],
        None => [1024.min(hard), hard],
    };
    Ok((descriptors, wanted.memory.map_or(u64::MAX, |bytes| bytes + abi::own_share(abi::LIMIT_DATA))))
}

/// What a node's programs see as their limits at first.
pub(super) fn first_limits(wanted: Limits) -> [[u64; 2]; abi::LIMITS.len()] {
    let mut limits = abi::LIMITS;
    if let Some(count) = wanted.descriptors {
        limits[abi::LIMIT_DESCRIPTORS] = [count.into(); 2];
    }
    if let Some(bytes) = wanted.memory {
        limits[abi::LIMIT_DATA] = [bytes; 2];
    }
    limits
}

fn set(which: libc::__rlimit_resource_t, soft: u64, hard: u64) {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: reads a limit of ours.
    unsafe { libc::setrlimit(which, &raw const limit) };
}

/// Root's hard limits: as far as programs may raise theirs. Whoever is not root keeps what there is. weft itself may have as many descriptors as it can:
/// it has one for each socket of a program.
pub(super) fn widen_limits() {
    let wanted = LIMITS.map(|(which, _)| (which, libc::RLIM_INFINITY)).into_iter().chain([(libc::RLIMIT_NOFILE, abi::DESCRIPTORS_HARD)]);
    for (which, hard) in wanted {
        let Ok([soft, now]) = sys::limit_of(0, which) else { continue };
        if now < hard {
            set(which, soft, hard);
        }
        if which == libc::RLIMIT_NOFILE {
            let hard = sys::limit_of(0, which).map_or(now, |[_, hard]| hard);
            set(which, hard.min(abi::DESCRIPTORS_HARD), hard);
        }
    }
}
