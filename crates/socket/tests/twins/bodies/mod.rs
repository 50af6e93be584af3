//! The bodies by topic: name and text.

pub mod connection;
pub mod datagram;
pub mod options;
pub mod ports;
pub mod states;
pub mod transfer;

/// A topic's name and its bodies.
pub type Topic = (&'static str, &'static [(&'static str, &'static str)]);

/// All topics.
pub const TOPICS: &[Topic] = &[
    ("states", states::BODIES),
    ("connection", connection::BODIES),
    ("ports", ports::BODIES),
    ("transfer", transfer::BODIES),
    ("datagram", datagram::BODIES),
    ("options", options::BODIES),
];
