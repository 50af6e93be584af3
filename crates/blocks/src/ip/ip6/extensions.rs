//! Extension headers of received packets (RFC 8200 §4): options with their action bits, routing, fragment; and what they lead to.
//!
//! Limits, as Linux has them: 8 options that are no padding in one header, 7 bytes of padding in a row, and 16 headers.

use super::*;
use weft_wire::Error;
use weft_wire::ipv6::extension::{EXTENSIONS_MAX, FRAGMENT_LEN, Unknown, option_kind};
use weft_wire::ipv6::{Fragment, HEADER_LEN, Header};

/// Linux IP6_DEFAULT_MAX_DST_OPTS_CNT and IP6_DEFAULT_MAX_HBH_OPTS_CNT.
const OPTIONS_MAX: usize = 8;
/// Linux ip6_parse_tlv: "RFC 2460 states that the purpose of PadN is to align the containing header to multiples of 8. 7 is therefore the highest
/// valid value."
const PADDING_BYTES_MAX: usize = 7;
/// The next-header field of the IPv6 header.
const NEXT_HEADER_AT: usize = 6;

/// How far the chain of headers was walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Upper {
    /// What stands there.
    pub protocol: Protocol,
    /// Where it stands, in bytes from the start of the packet.
    pub offset: usize,
    /// Where the byte is that announces it, likewise.
    pub announced_at: usize,
    pub headers: usize,
}

impl Upper {
    pub(super) fn new(header: &Header) -> Upper {
        Upper { protocol: header.next_header, offset: HEADER_LEN, announced_at: NEXT_HEADER_AT, headers: 0 }
    }

    /// The walk of a packet that was checked, up to the header at `offset`; none: the chain does not lead there.
    pub(super) fn at(bytes: &[u8], offset: usize) -> Option<Upper> {
        let (header, _) = Header::parse(bytes).ok()?;
        let mut upper = Upper::new(&header);
        while upper.offset < offset {
            let [next, units] = *bytes.get(upper.offset..)?.first_chunk()?;
            upper.step(Protocol(next), (usize::from(units) + 1) * 8);
        }
        (upper.offset == offset).then_some(upper)
    }

    fn step(&mut self, next: Protocol, length: usize) {
        *self = Upper { protocol: next, offset: self.offset + length, announced_at: self.offset, headers: self.headers + 1 };
    }
}

/// What is wrong with the options of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Objection {
    /// To be dropped without a word.
    Silent,
    /// To be reported: the option that nobody knows, in bytes from the start of its header.
    Unknown(usize),
}

/// Reads the options of one header (`bytes` is all of it).
fn check_options(bytes: &[u8], to_group: bool) -> Result<(), Objection> {
    let (mut at, mut padding, mut options) = (2, 0, 0);
    while let Some(kind) = bytes.get(at).copied() {
        if kind == option_kind::PAD_1 {
            (at, padding) = (at + 1, padding + 1);
            if padding > PADDING_BYTES_MAX {
                return Err(Objection::Silent);
            }
            continue;
        }
        let length = bytes.get(at + 1).map(|length| usize::from(*length) + 2).ok_or(Objection::Silent)?;
        let data = bytes.get(at + 2..at + length).ok_or(Objection::Silent)?;
        if kind == option_kind::PAD_N {
            padding += length;
            // Linux: "RFC 4942 recommends receiving hosts to actively check PadN payload contains only zeroes."
            if padding > PADDING_BYTES_MAX || data.iter().any(|byte| *byte != 0) {
                return Err(Objection::Silent);
            }
        } else {
            (padding, options) = (0, options + 1);
            if options > OPTIONS_MAX {
                return Err(Objection::Silent);
            }
            if kind != option_kind::ROUTER_ALERT {
                judge_unknown(kind, at, to_group)?;
            }
        }
        at += length;
    }
    Ok(())
}

/// RFC 8200 §4.2: "The Option Type identifiers are internally encoded such that their highest-order 2 bits specify the action that must be taken
/// if the processing IPv6 node does not recognize the Option Type".
fn judge_unknown(kind: u8, at: usize, to_group: bool) -> Result<(), Objection> {
    match Unknown::of(kind) {
        Unknown::Skip => Ok(()),
        Unknown::Discard => Err(Objection::Silent),
        Unknown::ReportUnlessMulticast if to_group => Err(Objection::Silent),
        Unknown::Report | Unknown::ReportUnlessMulticast => Err(Objection::Unknown(at)),
    }
}

impl Ip6 {
    /// Makes the header at the end of the walk contiguous; its length.
    fn gather(&mut self, frame: &mut Frame, upper: &Upper) -> Result<usize, Verdict> {
        let at = upper.offset;
        if upper.headers >= EXTENSIONS_MAX {
            return Err(self.bad_header(Error::BadHeaderLength));
        }
        if frame.pull_up(at + 8).is_err() {
            return Err(self.bad_header(Error::Truncated));
        }
        let length = match upper.protocol {
            Protocol::FRAGMENT => FRAGMENT_LEN,
            _ => (usize::from(frame.head()[at + 1]) + 1) * 8,
        };
        if frame.pull_up(at + length).is_err() {
            return Err(self.bad_header(Error::Truncated));
        }
        Ok(length)
    }

    /// The hop-by-hop options right behind the IPv6 header.
    pub(super) fn hop_by_hop(&mut self, frame: &mut Frame, upper: &mut Upper) -> Result<(), Verdict> {
        let length = self.gather(frame, upper)?;
        self.options(frame, upper, length)
    }

    fn options(&mut self, frame: &mut Frame, upper: &mut Upper, length: usize) -> Result<(), Verdict> {
        let to_group = frame.meta().dst.is_multicast();
        let bytes = &frame.head()[upper.offset..upper.offset + length];
        let next = Protocol(bytes[0]);
        match check_options(bytes, to_group) {
            Ok(()) => {
                upper.step(next, length);
                Ok(())
            }
            Err(Objection::Silent) => Err(self.bad_header(Error::BadOptionLength)),
            Err(Objection::Unknown(at)) => Err(self.problem(frame, upper.offset + at)),
        }
    }

    /// Tells the source which byte of its packet is the problem.
    pub(super) fn problem(&mut self, frame: &mut Frame, pointer: usize) -> Verdict {
        self.complain_of(frame, pointer, Reason::BadOption)
    }

    pub(super) fn complain_of(&mut self, frame: &mut Frame, pointer: usize, reason: Reason) -> Verdict {
        self.counters[count::IN_HDR_ERRORS] += 1;
        let from = frame.meta().dst;
        self.complain(frame, IcmpErrorKind::ParameterProblem { pointer: pointer as u32 }, from, reason)
    }

    /// Walks to the upper layer of a packet for this node.
    pub(super) fn walk(&mut self, frame: &mut Frame, upper: &mut Upper, cx: &mut Context<'_>) -> Result<(), Verdict> {
        loop {
            match upper.protocol {
                Protocol::DESTINATION_OPTIONS => {
                    let length = self.gather(frame, upper)?;
                    self.options(frame, upper, length)?;
                }
                Protocol::ROUTING => {
                    let length = self.gather(frame, upper)?;
                    self.routing(frame, upper, length)?;
                }
                Protocol::FRAGMENT => {
                    self.gather(frame, upper)?;
                    self.fragment(frame, upper, cx)?;
                }
                // RFC 8200 §4.1: hop-by-hop options are "restricted to appear immediately after an IPv6 header only"; §4: elsewhere they are
                // an unrecognized next header, and so nobody's here.
                _ => return Ok(()),
            }
        }
    }

    /// RFC 5095 §3: "An IPv6 node that receives a packet with a destination address assigned to it and that contains an RH0 extension header MUST
    /// NOT execute the algorithm specified in the latter part of Section 4.4 of [RFC2460] for RH0." It is like any type that nobody knows.
    fn routing(&mut self, frame: &mut Frame, upper: &mut Upper, length: usize) -> Result<(), Verdict> {
        let bytes = &frame.head()[upper.offset..];
        let (next, segments_left) = (Protocol(bytes[0]), bytes[3]);
        // RFC 8200 §4.4: "If Segments Left is zero, the node must ignore the Routing header and proceed to process the next header in the
        // packet"; otherwise "the node must discard the packet and send an ICMP Parameter Problem, Code 0, message to the packet's Source
        // Address, pointing to the unrecognized Routing Type."
        if segments_left != 0 {
            return Err(self.problem(frame, upper.offset + 2));
        }
        upper.step(next, length);
        Ok(())
    }

    fn fragment(&mut self, frame: &mut Frame, upper: &mut Upper, cx: &mut Context<'_>) -> Result<(), Verdict> {
        let [next, _, high, low, a, b, c, d] = match frame.head().get(upper.offset..).and_then(|bytes| bytes.first_chunk::<FRAGMENT_LEN>())
        {
            Some(bytes) => *bytes,
            None => return Err(self.bad_header(Error::Truncated)),
        };
        let place = u16::from_be_bytes([high, low]);
        let place = Fragment { offset: place & !7, more: place & 1 != 0, identification: u32::from_be_bytes([a, b, c, d]) };
        // RFC 6946 §4: "A host that receives an IPv6 packet that includes a Fragment Header with the 'Fragment Offset' equal to 0 and the 'M' flag
        // equal to 0 MUST process that packet in isolation from any other packets/fragments".
        if place.is_atomic() {
            upper.step(Protocol(next), FRAGMENT_LEN);
            return Ok(());
        }
        self.reassemble(frame, upper, place, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_judged_by_their_upper_bits() {
        let header = |options: &[u8]| [&[59, 0][..], options].concat();
        for (options, to_group, expected) in [
            (&[5, 2, 0, 0, 1, 0][..], false, Ok(())),
            (&[0, 0, 0, 0, 0, 0], false, Ok(())),
            (&[1, 4, 0, 0, 0, 0], false, Ok(())),
            (&[1, 4, 0, 9, 0, 0], false, Err(Objection::Silent)),
            (&[0x1e, 2, 7, 7, 1, 0], false, Ok(())),
            (&[0x5e, 2, 7, 7, 1, 0], false, Err(Objection::Silent)),
            (&[0, 0, 0x9e, 2, 7, 7], false, Err(Objection::Unknown(4))),
            (&[0, 0, 0x9e, 2, 7, 7], true, Err(Objection::Unknown(4))),
            (&[0xde, 2, 7, 7, 1, 0], false, Err(Objection::Unknown(2))),
            (&[0xde, 2, 7, 7, 1, 0], true, Err(Objection::Silent)),
            // A jumbo payload is nothing that we know.
            (&[0xc2, 4, 0, 1, 0, 0], false, Err(Objection::Unknown(2))),
            (&[0x1e, 9, 7, 7, 1, 0], false, Err(Objection::Silent)),
            (&[1, 3, 0, 0, 0, 0x1e], false, Err(Objection::Silent)),
            (&[0; 14], false, Err(Objection::Silent)),
            (&[1, 6, 0, 0, 0, 0, 0, 0, 0x1e, 0, 1, 2, 0, 0], false, Err(Objection::Silent)),
            (&[0x1e, 0].repeat(7), false, Ok(())),
            (&[0x1e, 0].repeat(11), false, Err(Objection::Silent)),
        ] {
            assert_eq!(check_options(&header(options), to_group), expected, "{options:x?}, to a group: {to_group}");
        }
    }
}
