//! Bounds of sizes, windows and times: what the node and the socket say of them, together.

use crate::Config;
use crate::rtt::RtoBounds;
use std::net::SocketAddr;
use weft_core::{Duration, StreamOptions};

/// RFC 9293 §3.7.1: "If an MSS Option is not received at connection setup, TCP implementations MUST assume a default send MSS of 536".
pub(crate) const MSS_DEFAULT_V4: u32 = 536;
/// The same for IPv6: 1280 - 40 - 20.
pub(crate) const MSS_DEFAULT_V6: u32 = 1220;
/// RFC 7323 §2.3: "the shift count … MUST be limited to 14".
pub(crate) const SCALE_MAX: u8 = 14;

/// The kernel's tick (CONFIG_HZ=250).
const TICK: Duration = Duration::from_millis(4);

/// Bytes of the timestamps option with its padding.
pub(super) const TIMESTAMPS_BYTES: u32 = 12;

/// Bounds of the retransmission timeout: the socket's (TCP_RTO_MIN_US, TCP_RTO_MAX_MS), else the node's.
pub(super) fn rto_bounds(config: &Config, options: &StreamOptions) -> RtoBounds {
    RtoBounds {
        min: options.rto_min.unwrap_or(config.rto_min),
        max: options.rto_max.unwrap_or(config.rto_max),
        initial: config.rto_initial.min(options.rto_max.unwrap_or(config.rto_initial)),
    }
}

/// The longest delay of an acknowledgment. tcp_delack_max: "u32 delack_from_rto_min = max(tcp_rto_min(sk), 2) - 1; return
/// min(READ_ONCE(inet_csk(sk)->icsk_delack_max), delack_from_rto_min);", in ticks of 4 ms.
pub(super) fn delayed_ack_max(config: &Config, options: &StreamOptions) -> Duration {
    let asked = options.delayed_ack_max.unwrap_or(config.delayed_ack_max);
    match options.rto_min {
        Some(least) => asked.min(least.max(TICK * 2) - TICK),
        None => asked,
    }
}

/// TCP_WINDOW_CLAMP; `u32::MAX`: none.
pub(super) fn wanted_clamp(options: &StreamOptions) -> u32 {
    if options.window_clamp > 0 { options.window_clamp } else { u32::MAX }
}

/// The buffer that a connection begins with: what the program has fixed, else the node's, with room for SO_RCVLOWAT (tcp_set_rcvlowat).
pub(super) fn receive_buffer(config: &Config, options: &StreamOptions) -> u32 {
    let [least, default, most] = config.receive_buffer;
    options.receive_buffer.unwrap_or_else(|| default.max(least).max(buffer_for(options.receive_low_water, most)))
}

/// tcp_space_from_win: the buffer whose window is so large, `most` at most.
pub(super) fn buffer_for(window: u32, most: u32) -> u32 {
    window.saturating_mul(2).min(most)
}

/// The largest window that the program allows: by TCP_WINDOW_CLAMP, and by a buffer that it has fixed (tcp_openreq_init_rwin, tcp_connect_init).
fn allowed_window(options: &StreamOptions) -> u32 {
    let clamp = wanted_clamp(options);
    options.receive_buffer.map_or(clamp, |buffer| clamp.min(buffer / 2))
}

/// The shift that lets a window of the largest buffer be announced (tcp_select_initial_window).
pub(crate) fn window_shift(config: &Config, options: &StreamOptions) -> u8 {
    let buffer = receive_buffer(config, options);
    let space = (buffer / 2).max(config.receive_buffer[2]).min(allowed_window(options));
    (space.max(1).ilog2() as u8).saturating_sub(15).min(SCALE_MAX)
}

/// The first window: half of the buffer, in whole segments (tcp_select_initial_window). A SYN says of it what fits its field.
pub(crate) fn initial_receive_window(config: &Config, options: &StreamOptions, mss: u32) -> u32 {
    let buffer = receive_buffer(config, options);
    let space = (buffer / 2).min(allowed_window(options));
    if space > mss { space - space % mss.max(1) } else { space }
}

/// RFC 9293 §3.7.1 and RFC 6691: the MSS announced counts neither IP nor TCP options.
pub(crate) fn announced_mss(config: &Config, options: &StreamOptions, mtu: u32, remote: SocketAddr) -> u32 {
    let mut mss = mtu.saturating_sub(header_bytes(remote)).max(config.mss_min);
    for limit in [config.mss, options.mss_max] {
        if limit > 0 {
            mss = mss.min(limit.max(config.mss_min));
        }
    }
    mss.min(u32::from(u16::MAX))
}

/// IP and TCP header without options.
pub(crate) fn header_bytes(remote: SocketAddr) -> u32 {
    if remote.is_ipv4() { 40 } else { 60 }
}
