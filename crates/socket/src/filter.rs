//! SO_ATTACH_FILTER: a program of classic BPF in front of a socket's receive queue (linux/net/core/filter.c).
//!
//! It sees what the kernel shows it: datagrams from the UDP header on, raw IPv4 packets from the IP header, raw IPv6 ones from the transport header,
//! ICMP messages of ICMP datagram sockets, and segments from the TCP header (in the tcp block). What it returns is how many bytes are kept; 0 rejects.
//!
//! It refuses programs that load Linux's ancillary data, with EINVAL; and eBPF has no rows here.

use crate::errno::Errno;
use crate::options::Access;
use weft_core::bpf::{Program, Shared};
use weft_core::{Frame, StreamOption};

/// `sk_attach_filter`: "if (sock_flag(sk, SOCK_FILTER_LOCKED)) return ERR_PTR(-EPERM); if (!bpf_check_basics_ok(…)) return ERR_PTR(-EINVAL);"
pub(crate) fn attach(a: &mut Access<'_, '_>, program: &[u8]) -> Result<(), Errno> {
    if a.options()?.filter_locked {
        return Err(Errno::EPERM);
    }
    let program = Program::from_bytes(program).map_err(|_| Errno::EINVAL)?;
    put(a, Some(program.into()))
}

/// `sk_detach_filter`: "int ret = -ENOENT; if (sock_flag(sk, SOCK_FILTER_LOCKED)) return -EPERM;"
pub(crate) fn detach(a: &mut Access<'_, '_>) -> Result<(), Errno> {
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

/// `sk_filter_trim_cap`: "err = pkt_len ? pskb_trim(skb, max(cap, pkt_len)) : -EPERM;". Runs over the frame from `header_bytes` in front of its start
/// on, cuts what the program does not want, at least `cap` bytes being left. False: it is rejected.
pub(crate) fn passes(filter: Option<&Shared>, frame: &mut Frame, header_bytes: u16, cap: u32) -> bool {
    let Some(filter) = filter else { return true };
    let start = frame.position();
    frame.rewind(start.saturating_sub(header_bytes));
    let wanted = filter.run(frame);
    frame.rewind(start);
    let kept = wanted.max(cap).saturating_sub(u32::from(header_bytes)) as usize;
    if wanted != 0 && kept < frame.len() {
        frame.truncate(kept);
    }
    wanted != 0
}
