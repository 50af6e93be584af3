//! What an expression is made of.

use std::net::IpAddr;

/// Longest expression, bytes.
pub const EXPRESSION_BYTES_MAX: usize = 4096;
/// Parentheses, negations and signs inside of each other.
pub(super) const DEPTH_MAX: usize = 64;

/// What frames begin with on an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// An Ethernet header.
    Ethernet,
    /// An IP header.
    Ip,
}

impl Framing {
    /// By the word of the `link` parameter: "ip", or an Ethernet header.
    pub fn named(word: &str) -> Framing {
        if word == "ip" { Framing::Ip } else { Framing::Ethernet }
    }

    /// Where the network header begins, bytes.
    pub(super) fn network_at(self) -> u32 {
        if self == Framing::Ethernet { 14 } else { 0 }
    }
}

/// Why a text is no expression.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExpressionError {
    /// Longer than [`EXPRESSION_BYTES_MAX`].
    #[error("an expression of {0} bytes is too long: at most {EXPRESSION_BYTES_MAX}")]
    Length(usize),
    /// More than 64 parentheses or negations inside of each other.
    #[error("parentheses and negations inside of each other: at most {DEPTH_MAX}")]
    Depth,
    /// A word that has no place here.
    #[error("'{word}' (word {at}): {wanted}")]
    Word {
        /// The word.
        word: String,
        /// Which, from 1.
        at: usize,
        /// What would have a place.
        wanted: String,
    },
    /// It ends too early.
    #[error("it ends where more is needed: {0}")]
    End(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Test {
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
    Not(Box<Test>),
    /// Never true here: an Ethernet type where there is no Ethernet header.
    Never,
    EtherType(u16),
    /// Protocol number in an IP header, of these families.
    Protocol {
        v4: bool,
        v6: bool,
        number: u8,
    },
    Address(Addresses, Ends, Prefix),
    Port {
        protocols: Ports,
        ends: Ends,
        low: u16,
        high: u16,
    },
    Mac(Ends, [u8; 6]),
    LengthAtMost(u32),
    LengthAtLeast(u32),
    Dscp(u8),
    Group(Way, u32),
    Compare {
        /// What the loads of both sides need.
        needs: Vec<Test>,
        how: Relation,
        left: Sum,
        right: Sum,
    },
}

/// Which addresses are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Addresses {
    /// IP's, ARP's and RARP's.
    All,
    Ip,
    Arp,
    Rarp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Prefix {
    pub address: IpAddr,
    /// Of 128 bits, or 32: those that are compared.
    pub mask: u128,
}

/// Of a frame with two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ends {
    Source,
    Destination,
    Either,
    Both,
}

/// Whose ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ports {
    /// TCP's, UDP's and SCTP's.
    All,
    Of(u8),
}

/// The interface that a frame came in by, goes out by, or either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Either,
    In,
    Out,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    And,
    Or,
    ShiftLeft,
    ShiftRight,
}

/// Arithmetic in 32 bits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Sum {
    Number(u32),
    /// Bytes of the frame.
    Length,
    Load {
        base: Base,
        at: Box<Sum>,
        bytes: u8,
    },
    Negative(Box<Sum>),
    Two(Operation, Box<Sum>, Box<Sum>),
}

/// Where an offset counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    Frame,
    Network,
    /// Behind an IPv4 header, which says how long it is.
    Transport4,
    /// Behind a plain IPv6 header.
    Transport6,
}
