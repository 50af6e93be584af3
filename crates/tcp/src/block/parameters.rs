//! The block's parameters: one list from which the rows, reading and writing are made.

use crate::config::Config;
use crate::congestion::hystart::Kind;
use weft_core::control::{ControlError, Value};
use weft_core::{Duration, Parameter, ParameterType};

/// Conversion between a setting and a control value.
trait Setting {
    fn read(&self) -> Value;
    fn write(&mut self, value: &Value);
}

impl Setting for bool {
    fn read(&self) -> Value {
        (*self).into()
    }
    fn write(&mut self, value: &Value) {
        *self = value.as_bool().unwrap_or(*self);
    }
}
impl Setting for u32 {
    fn read(&self) -> Value {
        (*self).into()
    }
    fn write(&mut self, value: &Value) {
        *self = value.as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or(*self);
    }
}
impl Setting for u64 {
    fn read(&self) -> Value {
        (*self).into()
    }
    fn write(&mut self, value: &Value) {
        *self = value.as_u64().unwrap_or(*self);
    }
}
impl Setting for u8 {
    fn read(&self) -> Value {
        (*self).into()
    }
    fn write(&mut self, value: &Value) {
        *self = value.as_u64().and_then(|number| u8::try_from(number).ok()).unwrap_or(*self);
    }
}
impl Setting for Duration {
    fn read(&self) -> Value {
        (self.as_nanos() as u64).into()
    }
    fn write(&mut self, value: &Value) {
        *self = value.as_u64().map_or(*self, Duration::from_nanos);
    }
}
impl Setting for String {
    fn read(&self) -> Value {
        self.as_str().into()
    }
    fn write(&mut self, value: &Value) {
        if let Some(text) = value.as_str() {
            *self = text.to_owned();
        }
    }
}

impl Setting for Kind {
    fn read(&self) -> Value {
        self.name().into()
    }
    fn write(&mut self, value: &Value) {
        *self = value.as_str().and_then(Kind::named).unwrap_or(*self);
    }
}

const fn number(min: u64, max: u64) -> ParameterType {
    ParameterType::Unsigned { min, max }
}

macro_rules! parameters {
    ($($name:literal $type:expr, $default:literal, $($field:tt).+ $(@ $index:literal)?, $doc:literal;)+) => {
        /// The rows of the block's kind.
        pub(super) const ROWS: &[Parameter] =
            &[$(Parameter { name: $name, value: $type, default: $default, live: true, doc: $doc }),+];

        /// A setting's value.
        pub(super) fn read(config: &Config, name: &str) -> Option<Value> {
            match name {
                $($name => Some(Setting::read(&config.$($field).+ $([$index])?)),)+
                _ => None,
            }
        }
        /// Changes a setting; the value was checked against its row.
        pub(super) fn write(config: &mut Config, name: &str, value: &Value) {
            match name {
                $($name => Setting::write(&mut config.$($field).+ $([$index])?, value),)+
                _ => {}
            }
        }
    };
}

const U32: ParameterType = number(0, u32::MAX as u64);
const BYTES: ParameterType = number(256, i32::MAX as u64);
const MEMORY: ParameterType = number(4096, 1 << 40);

parameters! {
    "congestion" ParameterType::Choice(crate::congestion::NAMES), "\"cubic\"", congestion, "congestion control of sockets that chose none";
    "hystart" ParameterType::Choice(Kind::NAMES), "\"hystart\"", hystart, "how cubic leaves slow start before a loss: as Linux, by RFC 9406, or not";
    "mss" number(0, 65_535), "0", mss, "largest segment to announce in SYN and to send, bytes without options; 0: what the path allows";
    "sack" ParameterType::Bool, "true", sack, "offer and accept selective acknowledgments (RFC 2018)";
    "dsack" ParameterType::Bool, "true", dsack, "report duplicates by SACK (RFC 2883)";
    "timestamps" ParameterType::Bool, "true", timestamps, "offer and accept timestamps (RFC 7323)";
    "window_scaling" ParameterType::Bool, "true", window_scaling, "offer and accept window scaling (RFC 7323)";
    "ecn" number(0, 2), "2", ecn, "0: no ECN; 1: ask for it and accept it; 2: accept it (RFC 3168)";
    "keepalive_time" ParameterType::Duration, "\"7200s\"", keepalive_time, "silence before the first keepalive probe";
    "keepalive_interval" ParameterType::Duration, "\"75s\"", keepalive_interval, "time between keepalive probes";
    "keepalive_probes" number(1, 127), "9", keepalive_probes, "unanswered keepalive probes that end a connection";
    "fin_timeout" ParameterType::Duration, "\"60s\"", fin_timeout, "time in FIN-WAIT-2 without a program";
    "time_wait" ParameterType::Duration, "\"60s\"", time_wait, "time in TIME-WAIT (2 MSL)";
    "syn_retries" number(0, 127), "6", syn_retries, "SYNs repeated with growing intervals";
    "syn_linear_timeouts" number(0, 127), "4", syn_linear_timeouts, "SYNs repeated at the first interval before that";
    "synack_retries" number(0, 127), "5", synack_retries, "SYN|ACKs repeated";
    "retries1" number(1, 255), "3", retries1, "retransmissions after which the way to the peer is asked for again";
    "retries2" number(1, 255), "15", retries2, "retransmissions, as the time they take with doubling, that end a connection";
    "orphan_retries" number(0, 255), "0", orphan_retries, "the same for connections without a program; 0: 8";
    "initial_window" number(1, 1000), "10", initial_window, "first congestion window, segments (RFC 6928)";
    "rmem_min" BYTES, "4096", receive_buffer @ 0, "least receive buffer, bytes; half of a buffer is window";
    "rmem_default" BYTES, "131072", receive_buffer @ 1, "first receive buffer, bytes";
    "rmem_max" BYTES, "33554432", receive_buffer @ 2, "largest receive buffer that auto-tuning gives, bytes";
    "wmem_min" BYTES, "4096", send_buffer @ 0, "least send buffer, bytes";
    "wmem_default" BYTES, "16384", send_buffer @ 1, "first send buffer, bytes";
    "wmem_max" BYTES, "4194304", send_buffer @ 2, "largest send buffer that auto-tuning gives, bytes";
    "mem_low" MEMORY, "402653184", memory @ 0, "memory of all connections together at which pressure ends, bytes (tcp_mem, there in pages)";
    "mem_pressure" MEMORY, "536870912", memory @ 1, "above it windows and buffers stop growing, bytes";
    "mem_max" MEMORY, "805306368", memory @ 2, "above it data is dropped and sockets take next to nothing, bytes";
    "tsq_bytes" BYTES, "4194304", tsq_bytes, "bytes of a connection that may wait below at most (the working limit is about 1 ms of its rate)";
    "pacing" ParameterType::Bool, "false", pacing, "pace every connection, not only those with a rate limit or a control that needs it";
    "syn_backlog" number(1, 1 << 20), "2048", syn_backlog, "half-open connections of a listener at most";
    "syncookies" number(0, 2), "1", syncookies, "0: no SYN cookies; 1: when a listener has no room for half-open connections; 2: always (RFC 4987)";
    "fastopen" number(0, 0xffff), "1", fastopen, "Fast Open (RFC 7413), sum of 1: clients, 2: listeners, 4: no cookie of clients, 512: nor of listeners, 1024: all listeners";
    "mtu_probing" number(0, 2), "1", mtu_probing, "0: routers tell the path MTU; 1: searched for once long packets vanish; 2: always (RFC 4821; Linux has 0)";
    "base_mss" number(48, 1460), "1024", base_mss, "segment size that the search begins with, bytes";
    "mtu_probe_floor" number(48, 1460), "48", mtu_probe_floor, "smallest segment that the search goes down to, bytes";
    "time_wait_max" U32, "131072", time_wait_max, "connections in TIME-WAIT at most";
    "connections_max" number(1, 1 << 24), "262144", connections_max, "connections at most";
    "challenge_ack_limit" U32, "2147483647", challenge_ack_limit, "challenge ACKs of the node in a second at most (RFC 5961)";
    "reset_limit" U32, "10000", reset_limit, "resets in answer to segments to nowhere, in a second at most";
    "rto_min" ParameterType::Duration, "\"200ms\"", rto_min, "shortest retransmission timeout";
    "rto_max" ParameterType::Duration, "\"120s\"", rto_max, "longest retransmission timeout";
    "rto_initial" ParameterType::Duration, "\"1s\"", rto_initial, "retransmission timeout before a round trip was measured";
    "delayed_ack_min" ParameterType::Duration, "\"40ms\"", delayed_ack_min, "shortest delay of an acknowledgment";
    "delayed_ack_max" ParameterType::Duration, "\"200ms\"", delayed_ack_max, "longest delay of an acknowledgment";
    "compressed_acks_max" number(0, 255), "44", compressed_acks_max, "acknowledgments of out-of-order data that may leave as one";
    "compressed_ack_delay_max" ParameterType::Duration, "\"1ms\"", compressed_ack_delay_max, "how long they may wait for that at most; a twentieth of the round trip otherwise";
    "slow_start_after_idle" ParameterType::Bool, "true", slow_start_after_idle, "shrink the window of a connection that was idle";
    "moderate_rcvbuf" ParameterType::Bool, "true", moderate_receive_buffer, "let receive buffers follow the program";
    "rfc1337" ParameterType::Bool, "false", rfc1337, "ignore RST in TIME-WAIT";
    "invalid_ratelimit" ParameterType::Duration, "\"500ms\"", invalid_ratelimit, "least time between answers to unacceptable segments of a connection";
    "tail_loss_probe" ParameterType::Bool, "true", tail_loss_probe, "send tail loss probes (RFC 8985)";
    "notsent_lowat" U32, "4294967295", unsent_low_water, "unsent bytes above which a program may not write, of sockets that chose none with TCP_NOTSENT_LOWAT";
    "reordering" number(1, 300), "3", reordering, "duplicates that count as loss until reordering was seen";
    "mss_min" number(48, 1460), "48", mss_min, "least segment size that a peer or a router can force on us, bytes";
    "frto" ParameterType::Bool, "true", frto, "detect spurious timeouts (RFC 5682)";
}

/// Checks that need more than one setting.
pub(super) fn check(config: &Config, name: &str, value: &Value) -> Result<(), ControlError> {
    let mut changed = config.clone();
    write(&mut changed, name, value);
    let bad = |why: &str| Err(ControlError::BadValue { block: "tcp".to_owned(), parameter: name.to_owned(), why: why.to_owned() });
    if changed.rto_min > changed.rto_max || changed.rto_min.is_zero() {
        return bad("rto_min must be above zero and not above rto_max");
    }
    if changed.delayed_ack_min > changed.delayed_ack_max || changed.delayed_ack_max > Duration::from_millis(500) {
        return bad("delayed_ack_min must not be above delayed_ack_max, which must not be above 500ms (RFC 9293 §3.8.6.3)");
    }
    let [low, pressure, most] = changed.memory;
    if low > pressure || pressure > most {
        return bad("the three bounds of memory must not decrease: mem_low, mem_pressure, mem_max");
    }
    for buffer in [changed.receive_buffer, changed.send_buffer] {
        if buffer[0] > buffer[1] || buffer[1] > buffer[2] {
            return bad("the three sizes of a buffer must not decrease: min, default, max");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_that_of_the_config() {
        let config = Config::default();
        for row in ROWS {
            let default = serde_json::from_str(row.default).unwrap();
            let value = weft_core::parameter::normalise("tcp", row, &default).unwrap();
            assert_eq!(read(&config, row.name), Some(value), "{}", row.name);
        }
    }

    #[test]
    fn sizes_and_times_are_checked_against_each_other() {
        let config = Config::default();
        assert!(check(&config, "rto_min", &1_000_000_u64.into()).is_ok());
        assert!(check(&config, "rto_min", &200_000_000_000_u64.into()).is_err());
        assert!(check(&config, "wmem_default", &8_000_000_u64.into()).is_err());
        assert!(check(&config, "mem_low", &600_000_000_u64.into()).is_err());
        assert!(check(&config, "mem_max", &500_000_000_u64.into()).is_err());
        assert!(check(&config, "delayed_ack_max", &600_000_000_u64.into()).is_err());
    }
}
