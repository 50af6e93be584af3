//! Expressions about frames in the words of pcap-filter(7), and of what a capture file does not know: the group of an interface, and the code
//! point of RFC 2474.
//!
//! Pure: no program is started and no name looked up, so that simulated nodes have them as others do. What is here means what libpcap makes of it;
//! `weft-host` compares the two. A load beyond the end of a frame rejects it, as in classic BPF ([`crate::bpf`]).
//!
//! Understood: `ip ip6 arp rarp icmp icmp6 igmp tcp udp sctp ah esp pim`; `host`, `net`, `port`, `portrange` with `src`, `dst`, `src or dst`, `src
//! and dst` and a protocol in front; `proto N`, `ip proto N`, `ip6 proto N`; `ether host|src|dst MAC`, `ether proto N`; `less N`, `greater N`;
//! `PROTOCOL[OFFSET:SIZE]`, `len` and numbers with + - * / & | << >> compared; `dscp NAME`; `group N` (the interface that the frame came in by or
//! goes out by), `iifgroup N` (came in), `oifgroup N` (goes out), as nftables calls them. `and`, `or`, `not`, parentheses; `and` and `or` bind
//! equally, from left to right. Refused with the word that was not understood: everything else of libpcap (vlan, mpls, gateway, names of hosts).

mod read;
mod run;
mod tree;

pub use tree::{EXPRESSION_BYTES_MAX, ExpressionError, Framing};

use crate::frame::{Frame, InterfaceIndex};

/// An expression that was understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expression {
    text: String,
    framing: Framing,
    test: tree::Test,
}

impl Expression {
    /// Reads an expression for frames that begin as `framing` says.
    ///
    /// # Errors
    /// The word that is not understood, and what is.
    pub fn parse(text: &str, framing: Framing) -> Result<Expression, ExpressionError> {
        Ok(Expression { text: text.to_owned(), framing, test: read::read(text, framing)? })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Does a frame meet it? `group_of` knows the group of an interface, if there is one.
    pub fn accepts(&self, frame: &Frame, group_of: &mut dyn FnMut(InterfaceIndex) -> Option<u32>) -> bool {
        run::Run { frame, framing: self.framing, group_of }.test(&self.test).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests;
