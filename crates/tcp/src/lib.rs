//! TCP as a pure state machine: time, segments and calls come in as arguments, segments and events go out as results.
#![forbid(unsafe_code)]

pub mod congestion;
pub mod pacing;
pub mod prr;
pub mod rtt;
