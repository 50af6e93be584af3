//! SO_ATTACH_FILTER and SO_DETACH_FILTER (linux/net/core/filter.c). What a program does to packets is in `crate::filter`.
//!
//! eBPF has no rows here.

use super::row::Access;
use crate::errno::Errno;
use weft_core::StreamOption;
use weft_core::bpf::{Program, Shared};

/// `sk_attach_filter`: "if (sock_flag(sk, SOCK_FILTER_LOCKED)) return ERR_PTR(-EPERM); if (!bpf_check_basics_ok(…)) return ERR_PTR(-EINVAL);"
pub(super) fn attach(a: &mut Access<'_, '_>, program: &[u8]) -> Result<(), Errno> {
    if a.options()?.filter_locked {
        return Err(Errno::EPERM);
    }
    let program = Program::from_bytes(program).map_err(|_| Errno::EINVAL)?;
    put(a, Some(program.into()))
}

/// `sk_detach_filter`: "int ret = -ENOENT; if (sock_flag(sk, SOCK_FILTER_LOCKED)) return -EPERM;"
pub(super) fn detach(a: &mut Access<'_, '_>) -> Result<(), Errno> {
    let options = a.options()?;
    if options.filter_locked {
        return Err(Errno::EPERM);
    }
    if options.filter.is_none() {
        return Err(Errno::ENOENT);
    }
    put(a, None)
}

fn put(a: &mut Access<'_, '_>, filter: Option<Shared>) -> Result<(), Errno> {
    a.options()?.filter.clone_from(&filter);
    a.transport(StreamOption::Filter(filter))
}
