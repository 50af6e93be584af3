//! `struct tcp_info` (linux/include/uapi/linux/tcp.h, Linux 6.18) from what the transport reports, at any length a program asks for.

use crate::stream::StreamInfo;

/// Bytes of the whole structure on Linux 6.18.
pub const TCP_INFO_BYTES: usize = 280;

/// The structure's bytes, cut to `length`.
pub fn to_bytes(info: &StreamInfo, length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(TCP_INFO_BYTES);
    out.extend([info.state, info.ca_state, info.retransmits, info.probes, info.backoff, info.options]);
    // "__u8 tcpi_snd_wscale : 4, tcpi_rcv_wscale : 4;" then "tcpi_delivery_rate_app_limited:1, tcpi_fastopen_client_fail:2"
    out.push((info.snd_wscale & 0x0f) | (info.rcv_wscale << 4));
    out.push(u8::from(info.delivery_rate_app_limited));
    let words = [
        info.rto_us,
        info.ato_us,
        info.snd_mss,
        info.rcv_mss,
        info.unacked,
        info.sacked,
        info.lost,
        info.retrans,
        0, // tcpi_fackets, no longer filled in
        info.last_data_sent_ms,
        0, // tcpi_last_ack_sent: "Not remembered, sorry."
        info.last_data_recv_ms,
        info.last_ack_recv_ms,
        info.pmtu,
        info.rcv_ssthresh,
        info.rtt_us,
        info.rttvar_us,
        info.snd_ssthresh,
        info.snd_cwnd,
        info.advmss,
        info.reordering,
        info.rcv_rtt_us,
        info.rcv_space,
        info.total_retrans,
    ];
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    let longs = [info.pacing_rate, info.max_pacing_rate, info.bytes_acked, info.bytes_received];
    out.extend(longs.iter().flat_map(|long| long.to_ne_bytes()));
    let words = [info.segs_out, info.segs_in, info.notsent_bytes, info.min_rtt_us, info.data_segs_in, info.data_segs_out];
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    let longs = [info.delivery_rate, info.busy_time_us, info.rwnd_limited_us, info.sndbuf_limited_us];
    out.extend(longs.iter().flat_map(|long| long.to_ne_bytes()));
    out.extend([info.delivered, info.delivered_ce].iter().flat_map(|word| word.to_ne_bytes()));
    out.extend([info.bytes_sent, info.bytes_retrans].iter().flat_map(|long| long.to_ne_bytes()));
    // tcpi_rehash is zero: routes are not rehashed here.
    let words = [info.dsack_dups, info.reord_seen, info.rcv_ooopack, info.snd_wnd, info.rcv_wnd, 0];
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    // "__u16 tcpi_total_rto; __u16 tcpi_total_rto_recoveries; __u32 tcpi_total_rto_time;"
    let small = |number: u32| u16::try_from(number).unwrap_or(u16::MAX).to_ne_bytes();
    out.extend(small(info.total_rto));
    out.extend(small(info.total_rto_recoveries));
    out.extend(info.total_rto_time_ms.to_ne_bytes());
    out.resize(TCP_INFO_BYTES, 0);
    out.truncate(length);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_header_puts_them() {
        let info = StreamInfo {
            state: 1,
            snd_wscale: 7,
            rcv_wscale: 9,
            rto_us: 0x0102,
            snd_cwnd: 10,
            bytes_acked: 77,
            min_rtt_us: 55,
            bytes_sent: 99,
            snd_wnd: 66,
            total_rto: 3,
            ..StreamInfo::default()
        };
        let bytes = to_bytes(&info, 4096);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((bytes[0], bytes[6]), (1, 0x97));
        assert_eq!(word(8), 0x0102);
        // offsetof(struct tcp_info, tcpi_snd_cwnd)
        assert_eq!(word(80), 10);
        assert_eq!((word(120), word(148), word(200)), (77, 55, 99));
        assert_eq!((word(228), word(240) & 0xffff), (66, 3));
        assert_eq!(to_bytes(&info, 104), bytes[..104]);
        assert!(to_bytes(&info, 0).is_empty());
    }
}
