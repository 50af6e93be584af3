//! What the block and its extensions inside tcp say to each other ([`weft_core::StreamMessage::Word`]).
//!
//! Data sequence numbers travel as *distances*: bytes since the side's first one. Only an extension knows where on the wire that is.

use crate::key::Key;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::net::{IpAddr, SocketAddr};
use weft_core::Bytes;

/// From the block to an extension.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Down {
    /// How far the connection's data has come.
    Have(Have),
    /// The stream ends here: say so once (DATA_FIN).
    End(u64),
    /// Say this once.
    Say(Say),
    /// What a reset will say.
    Reset(Why),
    /// The connection can no longer become plain TCP.
    Firm,
    /// Plain TCP from the next data on, which says so by an infinite mapping.
    Infinite,
    /// To a listener's: MP_CAPABLE is answered, or not.
    Capable(bool),
    /// To a listener's: connections that may be joined here.
    Offer(Box<Joinable>),
    /// To a listener's: the connection of this token may no longer be joined.
    Withdraw(u32),
    /// To a listener's: what MP_CAPABLE says from now on.
    Asks(Asks),
}

/// What this side asks for with MP_CAPABLE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Asks {
    /// Flag A: DSS has checksums.
    pub checksum: bool,
    /// Flag C: no subflows to the address of the first.
    pub deny_join_id0: bool,
}

/// How far the connection's data has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Have {
    /// DATA_ACK: everything before this distance is here.
    pub ack: u64,
    /// The peer may send up to this distance.
    pub edge: u64,
    /// So many bytes of this subflow have been looked at.
    pub answered: u64,
    /// It is to be said at once.
    pub now: bool,
}

/// An option that goes once with an acknowledgment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Say {
    /// ADD_ADDR; with `echo` that of the peer.
    Announce {
        /// Address identifier.
        id: u8,
        /// The address.
        address: IpAddr,
        /// Where it is not the first subflow's.
        port: Option<u16>,
        /// Confirms the peer's.
        echo: bool,
    },
    /// REMOVE_ADDR.
    Remove(Vec<u8>),
    /// MP_PRIO.
    Priority {
        /// Use the subflow only if no other is left.
        backup: bool,
    },
    /// MP_FAIL, of data at this distance.
    Fail(u64),
}

/// Why a subflow is reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Why {
    /// MP_TCPRST.
    Reason {
        /// The condition is transient.
        transient: bool,
        /// `weft_wire::tcp::mptcp::reset_reason`.
        reason: u8,
    },
    /// MP_FASTCLOSE: all of the connection.
    FastClose,
}

/// A connection that a listener lets others join.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Joinable {
    /// Its key here.
    pub local: Key,
    /// The peer's.
    pub remote: Key,
    /// DSS has checksums.
    pub checksum: bool,
    /// Subflows that it may still get.
    pub room: u8,
    /// Identifiers of this side's addresses; others have 0. One with a port holds there only.
    pub ids: Vec<(IpAddr, Option<u16>, u8)>,
    /// The port of this side's first subflow, and others that the peer was told of.
    pub port: u16,
    /// See `port`.
    pub ports: Vec<u16>,
    /// What the SYNs carried.
    pub early: Early,
}

/// Bytes of data that the connection's SYNs carried (RFC 7413), this side's and the peer's. They come before the first data sequence number, and have no
/// mapping (RFC 8684, appendix B).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Early {
    /// This side's that the peer has taken.
    pub sent: u32,
    /// The peer's.
    pub received: u32,
}
weft_core::fields!(struct Early { sent, received });

impl Early {
    /// The number of this side's first byte.
    pub fn first(self, local: Key) -> u64 {
        local.first().wrapping_sub(self.sent.into())
    }
    /// Of the peer's.
    pub fn remote_first(self, remote: Key) -> u64 {
        remote.first().wrapping_sub(self.received.into())
    }
}

impl Joinable {
    /// The identifier of an address at a port.
    pub fn id(&self, at: SocketAddr) -> u8 {
        let is_there = |port: &Option<u16>| port.is_none_or(|port| port == at.port());
        self.ids.iter().find(|(address, port, _)| *address == at.ip() && is_there(port)).map_or(0, |(_, _, id)| *id)
    }
}

/// From an extension to the block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Up {
    /// The first word of an accepted connection.
    Begun {
        /// This side's key.
        local: Key,
        /// Its SYN carried data, and its handshake has not ended.
        early: bool,
    },
    /// The first word of an accepted connection that joins another.
    Joined {
        /// Of that one.
        token: u32,
        /// The peer's identifier of its address.
        remote_id: u8,
        /// This side's.
        local_id: u8,
        /// The peer wants it as a backup.
        backup: bool,
    },
    /// The peer's key is known.
    Agreed {
        /// It.
        remote: Key,
        /// DSS has checksums.
        checksum: bool,
        /// No subflows to the address of the first.
        deny_join_id0: bool,
        /// What the SYNs carried.
        early: Early,
    },
    /// A subflow that joined: the peer's answer.
    Answered {
        /// Its identifier of its address.
        remote_id: u8,
        /// It wants it as a backup.
        backup: bool,
    },
    /// The handshake has ended on both sides: the peer has heard all of it.
    Confirmed,
    /// DSS: the peer has everything before this distance, and takes so many bytes more.
    Heard {
        /// Distance.
        ack: u64,
        /// Bytes.
        window_bytes: u32,
    },
    /// DATA_FIN: the peer's stream ends at this distance.
    End(u64),
    /// A mapping with a checksum: data from `offset` of the subflow on.
    Summed {
        /// Of the subflow's stream.
        offset: u64,
        /// Bytes.
        bytes: u32,
        /// What the data and its mapping are to come to.
        sum: u16,
    },
    /// ADD_ADDR, whose HMAC is right; or its echo.
    Announced {
        /// Address identifier.
        id: u8,
        /// The address.
        address: IpAddr,
        /// Where it is not the first subflow's.
        port: Option<u16>,
        /// It confirms this side's.
        echo: bool,
    },
    /// REMOVE_ADDR.
    Removed(Vec<u8>),
    /// MP_PRIO.
    Priority {
        /// Use the subflow only if no other is left.
        backup: bool,
    },
    /// MP_FAIL, of data at this distance.
    Failed(u64),
    /// MP_FASTCLOSE with the right key.
    FastClosed,
    /// MP_TCPRST.
    Reset {
        /// The condition is transient.
        transient: bool,
        /// Why.
        reason: u8,
    },
    /// The subflow is plain TCP from now on.
    FellBack,
    /// Acknowledgments of data say nothing of the connection's, though it has several subflows; or do again.
    Silent(bool),
    /// The subflow is over by a reset.
    Gone {
        /// The peer's.
        by_peer: bool,
    },
    /// Count this.
    Count(crate::counters::Counter),
    /// The third segment of a handshake that joins has come again: the fourth was lost.
    ThirdAgain,
}

/// A word as bytes.
pub fn write(word: &impl Serialize) -> Bytes {
    // Cannot fail: it is written into memory, and no word has a length of its own that is not known.
    Bytes::from(postcard::to_allocvec(word).unwrap_or_default())
}

/// Bytes as a word; none: they are no word of ours.
pub fn read<W: DeserializeOwned>(bytes: &[u8]) -> Option<W> {
    postcard::from_bytes(bytes).ok()
}
