//! Boxes that stand between two hosts and change what they say to each other, as firewalls, address translators, proxies and network cards do: for tests of
//! what a transport does about them, and to show how they work.
//!
//! # Contract
//!
//! * They stand in edges of Ethernet frames or of IP packets. In a router, every forwarded packet passes `interfaces:upper -> ether:lower` once, whichever way
//!   it goes: there one block sees both directions of a connection.
//! * What is no TCP segment passes as it is, and so do fragments, and segments whose lengths contradict each other: their receiver judges.
//! * Headers are changed so that a right checksum stays right, a wrong one wrong, and one that is not computed yet is right when it is. Who changes payload looks at
//!   the checksum first, and leaves a segment alone whose checksum is wrong.
//! * Large frames stay large where headers are changed; where payload is, they are cut first.
//! * Tables of connections have a bound ([`connections`]); what finds no place passes as it is, and is counted.

mod aging;
mod connections;
#[cfg(test)]
mod hostile;
mod options;
mod segment;
#[cfg(test)]
mod testing;

pub mod alter_payload;
pub mod coalesce;
pub mod drop_options;
pub mod inject_reset;
pub mod nat;
pub mod shift_sequence;
pub mod split;
pub mod strip_options;
