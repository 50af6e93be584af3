//! What a queued message counts against a buffer.

/// What a datagram of this many payload bytes counts against a buffer: the kernel's allocation (a power of two above 512, then pages) with
/// its headers and `struct skb_shared_info`, plus `struct sk_buff`.
pub(crate) fn truesize(payload_bytes: usize) -> usize {
    const HEADERS_AND_SHARED_INFO: usize = 16 + 20 + 8 + 320;
    const SK_BUFF: usize = 256;
    let data = payload_bytes + HEADERS_AND_SHARED_INFO;
    let data = if data <= 8192 { data.next_power_of_two().max(512) } else { data.div_ceil(4096) * 4096 };
    data + SK_BUFF
}
