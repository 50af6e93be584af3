//! What a stream's transport knew when a byte came to one of its moments (SOF_TIMESTAMPING_OPT_STATS): `tcp_get_timestamping_opt_stats`, attributes as
//! netlink writes them.

use weft_core::StreamInfo;

/// Attributes: a length and a kind of two bytes each, the value, padded to four bytes.
struct Attributes(Vec<u8>);

impl Attributes {
    fn put(&mut self, kind: u16, value: &[u8]) {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
    fn byte(&mut self, kind: u16, value: u8) {
        self.put(kind, &[value]);
    }
    fn int(&mut self, kind: u16, value: u32) {
        self.put(kind, &value.to_ne_bytes());
    }
    fn long(&mut self, kind: u16, value: u64) {
        self.put(kind, &value.to_ne_bytes());
    }
}

/// The numbers are linux/tcp.h's: TCP_NLA_BUSY is 1, TCP_NLA_REHASH 27. `departure_nanos`: when it left; `hops`: of the segment that acknowledged it.
pub(crate) fn statistics(info: &StreamInfo, departure_nanos: u64, hops: Option<u8>) -> Vec<u8> {
    let mut out = Attributes(Vec::with_capacity(256));
    out.long(1, info.busy_time_us);
    out.long(2, info.rwnd_limited_us);
    out.long(3, info.sndbuf_limited_us);
    out.long(4, info.data_segs_out.into());
    out.long(5, info.total_retrans.into());
    out.long(6, info.pacing_rate);
    out.long(7, info.delivery_rate);
    out.int(8, info.snd_cwnd);
    out.int(9, info.reordering);
    out.int(10, info.min_rtt_us);
    out.byte(11, info.retransmits);
    out.byte(12, info.delivery_rate_app_limited.into());
    out.int(15, info.snd_ssthresh);
    out.int(16, info.delivered);
    out.int(17, info.delivered_ce);
    out.int(13, info.send_queue_bytes);
    out.byte(14, info.ca_state);
    out.long(18, info.bytes_sent);
    out.long(19, info.bytes_retrans);
    out.int(20, info.dsack_dups);
    out.int(21, info.reord_seen);
    out.int(22, info.rtt_us);
    // Nobody chooses another path for a connection that times out.
    out.put(23, &0_u16.to_ne_bytes());
    out.int(24, info.notsent_bytes);
    out.long(25, departure_nanos);
    if let Some(hops) = hops {
        out.byte(26, hops);
    }
    out.int(27, 0);
    out.0
}
