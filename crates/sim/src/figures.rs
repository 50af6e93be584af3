//! What programs tell in numbers, and how built-in ones write times.

use std::time::Duration;
use weft_core::Instant;
use weft_process::Traffic;

/// The figure of what a program received, over the time between its first and its last byte.
pub(crate) const GOODPUT: &str = "goodput_bits_per_second";

/// What unmodified programs with sockets are told by: `received_bytes`, `sent_bytes`, and [`GOODPUT`] where some time passed between two bytes.
pub(crate) fn figures_of(traffic: Traffic) -> impl Iterator<Item = (&'static str, u64)> {
    let Traffic { sent_bytes, received_bytes, received } = traffic;
    let goodput = received.and_then(|(first, last)| bits_per_second(received_bytes, first, last));
    [("sent_bytes", sent_bytes), ("received_bytes", received_bytes)].into_iter().chain(goodput.map(|goodput| (GOODPUT, goodput)))
}

/// Bits per second, rounded down. None: no time has passed, so nobody can say.
pub(crate) fn bits_per_second(bytes: u64, from: Instant, to: Instant) -> Option<u64> {
    let nanos = to.since(from).as_nanos();
    (u128::from(bytes) * 8_000_000_000).checked_div(nanos).map(|rate| u64::try_from(rate).unwrap_or(u64::MAX))
}

/// `12.345678901 s`
pub(crate) fn seconds(span: Duration) -> String {
    format!("{}.{:09} s", span.as_secs(), span.subsec_nanos())
}

/// `12.345678 ms`
pub(crate) fn millis(span: Duration) -> String {
    format!("{}.{:06} ms", span.as_millis(), span.as_nanos() % 1_000_000)
}
