//! Where a packet's upper layer begins: the chain of RFC 8200 §4.1's headers, walked to its end.
//!
//! ```text
//! | IPv6 header | hop-by-hop | destination | routing | fragment | … | upper layer
//! ```
//!
//! For whoever reads a packet that an error quotes, or that was checked before. The receiver of a packet looks at each header by itself.
//! Authentication, ESP and headers of the kind of mobility's end the chain: nobody here looks behind them.

use super::{Extension, Extensions, Fragment, HEADER_LEN, Header};
use crate::{Error, Protocol};

/// A packet's headers up to its upper layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    /// The fixed header.
    pub header: Header,
    /// What the upper layer is.
    pub protocol: Protocol,
    /// Where it begins, in bytes from the start of the packet.
    pub offset: usize,
    /// Where the byte is that says what the upper layer is, in bytes from the start of the packet.
    pub announced_at: usize,
    /// The fragment header on the way, if there is one. Behind a later fragment's is no upper layer but the middle of something.
    pub fragment: Option<Fragment>,
}

impl Chain {
    /// Reads the headers of a packet, of which `bytes` are the beginning (the upper layer itself need not be there).
    ///
    /// # Errors
    /// As [`Header::parse`]; [`Error::Truncated`] when the chain does not end within `bytes`, [`Error::BadHeaderLength`] when it has more than
    /// [`super::extension::EXTENSIONS_MAX`] headers.
    pub fn parse(bytes: &[u8]) -> Result<Chain, Error> {
        let (header, _) = Header::parse(bytes)?;
        let mut chain = Chain { header, protocol: header.next_header, offset: HEADER_LEN, announced_at: 6, fragment: None };
        let mut walk = Extensions::new(header.next_header, &bytes[HEADER_LEN..]);
        while is_walked(walk.next_header()) {
            // RFC 8200 §4.1: hop-by-hop options are "restricted to appear immediately after an IPv6 header only".
            if walk.next_header() == Protocol::HOP_BY_HOP && chain.offset != HEADER_LEN {
                break;
            }
            let (at, Some(extension)) = (chain.offset, walk.next()) else { break };
            if let Extension::Fragment(fragment) = extension? {
                chain.fragment = Some(fragment);
            }
            chain.announced_at = at;
            chain.offset = HEADER_LEN + walk.offset();
            chain.protocol = walk.next_header();
        }
        Ok(chain)
    }

    /// The upper layer begins here: this is no later fragment.
    pub fn has_upper_layer(&self) -> bool {
        self.fragment.is_none_or(|fragment| fragment.offset == 0)
    }
}

/// Whether a header with this number is one of RFC 8200's that a receiver walks over.
pub const fn is_walked(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::HOP_BY_HOP | Protocol::ROUTING | Protocol::FRAGMENT | Protocol::DESTINATION_OPTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(next_header: Protocol, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        Header { next_header, payload_len: rest.len() as u16, ..Header::default() }.emit(&mut bytes);
        bytes.extend_from_slice(rest);
        bytes
    }

    #[test]
    fn the_upper_layer_stands_behind_all_headers() {
        let plain = Chain::parse(&packet(Protocol::TCP, &[])).expect("a chain");
        assert_eq!((plain.protocol, plain.offset, plain.announced_at, plain.fragment), (Protocol::TCP, 40, 6, None));
        let bytes = packet(Protocol::HOP_BY_HOP, &[60, 0, 1, 4, 0, 0, 0, 0, 44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 9]);
        let chain = Chain::parse(&bytes).expect("a chain");
        assert_eq!((chain.protocol, chain.offset, chain.announced_at), (Protocol::UDP, 64, 56));
        assert_eq!(chain.fragment, Some(Fragment { offset: 0, more: true, identification: 9 }));
        assert!(chain.has_upper_layer());
        assert_eq!(Chain::parse(&bytes[..63]), Err(Error::Truncated));
    }

    #[test]
    fn a_later_fragment_has_none_and_authentication_is_one() {
        let chain = Chain::parse(&packet(Protocol::FRAGMENT, &[60, 0, 0, 8, 0, 0, 0, 9, 1, 2, 3])).expect("a chain");
        assert_eq!((chain.has_upper_layer(), chain.protocol, chain.offset), (false, Protocol::DESTINATION_OPTIONS, 48));
        let chain =
            Chain::parse(&packet(Protocol::DESTINATION_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0])).expect("a chain");
        assert_eq!((chain.protocol, chain.offset, chain.announced_at), (Protocol::HOP_BY_HOP, 48, 40), "not at its place");
        let chain = Chain::parse(&packet(Protocol::AH, &[6, 4])).expect("a chain");
        assert_eq!((chain.has_upper_layer(), chain.protocol, chain.offset), (true, Protocol::AH, 40));
    }
}
