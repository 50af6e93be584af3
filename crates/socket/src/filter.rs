//! SO_ATTACH_FILTER: a program of classic BPF in front of a socket's receive queue (linux/net/core/filter.c).
//!
//! It sees what the kernel shows it: datagrams from the UDP header on, raw IPv4 packets from the IP header, raw IPv6 ones from the transport header,
//! ICMP messages of ICMP datagram sockets, and segments from the TCP header (in the tcp block). What it returns is how many bytes are kept; 0 rejects.
//!
//! How a program comes to a socket is in `options::filter`.

use weft_core::Frame;
use weft_core::bpf::{About, Shared};

/// `sk_filter_trim_cap`: "err = pkt_len ? pskb_trim(skb, max(cap, pkt_len)) : -EPERM;". Runs over the frame from `header_bytes` in front of its start
/// on, cuts what the program does not want, at least `cap` bytes being left. False: it is rejected.
pub(crate) fn passes(filter: Option<&Shared>, frame: &mut Frame, header_bytes: u16, cap: u32) -> bool {
    let about = About::of(frame);
    passes_about(filter, frame, header_bytes, cap, &about)
}

/// The same of a frame of which more is known.
pub(crate) fn passes_about(filter: Option<&Shared>, frame: &mut Frame, header_bytes: u16, cap: u32, about: &About) -> bool {
    let Some(filter) = filter else { return true };
    let start = frame.position();
    frame.rewind(start.saturating_sub(header_bytes));
    let wanted = filter.run_about(frame, about);
    frame.rewind(start);
    let kept = wanted.max(cap).saturating_sub(u32::from(header_bytes)) as usize;
    if wanted != 0 && kept < frame.len() {
        frame.truncate(kept);
    }
    wanted != 0
}
