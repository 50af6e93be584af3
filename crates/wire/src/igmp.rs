//! IGMP, versions 1 (RFC 1112), 2 (RFC 2236) and 3 (RFC 3376).
//!
//! ```text
//! query   0 type | 1 max response | 2 checksum | 4 group | 8 flags | 9 interval | 10 sources n | 12 n addresses
//! v1, v2  0 type | 1 max response | 2 checksum | 4 group
//! report  0 type | 1 reserved     | 2 checksum | 4 reserved | 6 records m | 8 m records
//! record  0 type | 1 auxiliary length / 4 | 2 sources n | 4 group | 8 n addresses, auxiliary data
//! ```
//!
//! A query of 8 bytes is of version 1 if its max response is zero, else of version
//! 2; version 3 has the fields from 8 on. Lists stay outside, behind
//! [`Message::header_len`]. What a record says is the same as in MLD.

use core::net::Ipv4Addr;

use crate::Error;
use crate::bytes::{array_at, put, put_u16, u16_at};
use crate::checksum;
pub use crate::icmpv6::mld::RecordKind;

mod field {
    pub const TYPE: usize = 0;
    pub const MAX_RESPONSE: usize = 1;
    pub const CHECKSUM: usize = 2;
    pub const GROUP: usize = 4;
    pub const RECORDS: usize = 6;
    pub const ROBUSTNESS: usize = 8;
    pub const INTERVAL: usize = 9;
    pub const SOURCES: usize = 10;
    pub const RECORD_SOURCES: usize = 2;
    pub const RECORD_GROUP: usize = 4;
}

/// Length of all headers but version 3's query, in bytes.
pub const HEADER_LEN: usize = 8;
/// Length of the header of version 3's query, in bytes.
pub const QUERY_V3_LEN: usize = 12;

const RECORD_LEN: usize = 8;
const ADDRESS_LEN: usize = 4;
const SUPPRESS: u8 = 8;

/// Message types (IANA "IGMP Type Numbers").
pub mod kind {
    /// Who listens?
    pub const QUERY: u8 = 0x11;
    /// Version 1: I do.
    pub const REPORT_V1: u8 = 0x12;
    /// Version 2: I do.
    pub const REPORT_V2: u8 = 0x16;
    /// Version 2: I no longer do.
    pub const LEAVE: u8 = 0x17;
    /// Version 3 report.
    pub const REPORT_V3: u8 = 0x22;
}

/// A message without its lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Message {
    /// Who listens?
    Query {
        /// Version 1: zero; version 2: in tenths of a second; version 3: see
        /// [`max_response_ms`].
        max_response_code: u8,
        /// The group asked about; unspecified: all.
        group: Ipv4Addr,
        /// Present in version 3; [`sources`] follow.
        v3: Option<QueryV3>,
    },
    /// Version 1: I listen.
    ReportV1 {
        /// To this group.
        group: Ipv4Addr,
    },
    /// Version 2: I listen.
    ReportV2 {
        /// To this group.
        group: Ipv4Addr,
    },
    /// Version 2: I no longer listen.
    Leave {
        /// To this group.
        group: Ipv4Addr,
    },
    /// Version 3: what I listen to, or what has changed; [`records`] follow.
    ReportV3 {
        /// How many.
        records: u16,
    },
    /// Any other (DVMRP, PIM version 1). With a type of the above it is read back
    /// as that.
    Other {
        /// The type.
        kind: u8,
        /// Byte 1.
        code: u8,
        /// Bytes 4 to 7.
        rest: [u8; 4],
    },
}

/// What version 3 adds to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct QueryV3 {
    /// Routers shall not update their timers.
    pub suppress: bool,
    /// The querier's robustness, 0 to 7. Larger values are cut.
    pub robustness: u8,
    /// Querier's query interval code: seconds, above 127 as in [`max_response_ms`].
    pub interval_code: u8,
    /// How many sources follow.
    pub sources: u16,
}

impl Message {
    /// Reads the header of a whole message (the versions are told apart by its
    /// length); returns it and its length in bytes. The checksum is
    /// [`verify_checksum`]'s.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::BadLength`] for a query whose length is that
    /// of no version.
    pub fn parse(bytes: &[u8]) -> Result<(Message, usize), Error> {
        let m = bytes.first_chunk::<HEADER_LEN>().ok_or(Error::Truncated)?;
        let group = Ipv4Addr::from(array_at::<4, HEADER_LEN>(m, field::GROUP));
        let message = match m[field::TYPE] {
            kind::QUERY => Message::Query { max_response_code: m[field::MAX_RESPONSE], group, v3: QueryV3::parse(bytes)? },
            kind::REPORT_V1 => Message::ReportV1 { group },
            kind::REPORT_V2 => Message::ReportV2 { group },
            kind::LEAVE => Message::Leave { group },
            kind::REPORT_V3 => Message::ReportV3 { records: u16_at(m, field::RECORDS) },
            kind => Message::Other { kind, code: m[field::MAX_RESPONSE], rest: array_at(m, field::GROUP) },
        };
        Ok((message, message.header_len()))
    }

    /// Length of the header in bytes; lists follow it.
    pub const fn header_len(&self) -> usize {
        match self {
            Message::Query { v3: Some(_), .. } => QUERY_V3_LEN,
            _ => HEADER_LEN,
        }
    }

    /// The type field.
    pub const fn kind(&self) -> u8 {
        match self {
            Message::Query { .. } => kind::QUERY,
            Message::ReportV1 { .. } => kind::REPORT_V1,
            Message::ReportV2 { .. } => kind::REPORT_V2,
            Message::Leave { .. } => kind::LEAVE,
            Message::ReportV3 { .. } => kind::REPORT_V3,
            Message::Other { kind, .. } => *kind,
        }
    }

    /// Writes the header to the start of `bytes`, whose rest are the lists already
    /// in place, and the checksum over all of it.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Message::header_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[..self.header_len()].fill(0);
        bytes[field::TYPE] = self.kind();
        match self {
            Message::Query { max_response_code, group, v3 } => {
                bytes[field::MAX_RESPONSE] = *max_response_code;
                put(bytes, field::GROUP, &group.octets());
                if let Some(v3) = v3 {
                    bytes[field::ROBUSTNESS] = v3.robustness & 7 | if v3.suppress { SUPPRESS } else { 0 };
                    bytes[field::INTERVAL] = v3.interval_code;
                    put_u16(bytes, field::SOURCES, v3.sources);
                }
            }
            Message::ReportV1 { group } | Message::ReportV2 { group } | Message::Leave { group } => {
                put(bytes, field::GROUP, &group.octets());
            }
            Message::ReportV3 { records } => put_u16(bytes, field::RECORDS, *records),
            Message::Other { code, rest, .. } => {
                bytes[field::MAX_RESPONSE] = *code;
                put(bytes, field::GROUP, rest);
            }
        }
        // RFC 3376 §4.1.2: "the 16-bit one's complement of the one's complement sum
        // of the whole IGMP message (the entire IP payload)"
        let checksum = checksum::of(bytes);
        put_u16(bytes, field::CHECKSUM, checksum);
    }
}

impl QueryV3 {
    fn parse(bytes: &[u8]) -> Result<Option<QueryV3>, Error> {
        // RFC 3376 §7.1: "IGMPv3 Query: length >= 12 octets. Query messages that do
        // not match any of the above conditions (e.g., a Query of length 10 octets)
        // MUST be silently ignored."
        let Some(m) = bytes.first_chunk::<QUERY_V3_LEN>() else {
            return if bytes.len() == HEADER_LEN { Ok(None) } else { Err(Error::BadLength) };
        };
        Ok(Some(QueryV3 {
            suppress: m[field::ROBUSTNESS] & SUPPRESS != 0,
            robustness: m[field::ROBUSTNESS] & 7,
            interval_code: m[field::INTERVAL],
            sources: u16_at(m, field::SOURCES),
        }))
    }
}

/// Whether the checksum over a whole message matches.
pub fn verify_checksum(message: &[u8]) -> bool {
    message.len() >= HEADER_LEN && checksum::of(message) == 0
}

/// The time within which a query of version 3 is answered, in milliseconds
/// (RFC 3376 §4.1.1).
pub const fn max_response_ms(code: u8) -> u32 {
    let code = code as u32;
    if code < 0x80 {
        return code * 100;
    }
    // "Max Resp Time = (mant | 0x10) << (exp + 3)"
    ((code & 0xf | 0x10) << ((code >> 4 & 7) + 3)) * 100
}

/// The addresses at the start of `bytes`.
///
/// # Errors
/// [`Error::Truncated`] when they are not all there.
pub fn sources(bytes: &[u8], count: u16) -> Result<Sources<'_>, Error> {
    let len = usize::from(count) * ADDRESS_LEN;
    Ok(Sources(bytes.get(..len).ok_or(Error::Truncated)?))
}

/// A list of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sources<'a>(&'a [u8]);

impl<'a> Sources<'a> {
    /// A list from addresses as bytes; an incomplete last one is left out.
    pub fn from_bytes(bytes: &'a [u8]) -> Sources<'a> {
        Sources(bytes.as_chunks::<ADDRESS_LEN>().0.as_flattened())
    }

    /// How many. A list from the wire has at most 65535.
    pub const fn len(&self) -> usize {
        self.0.len() / ADDRESS_LEN
    }

    /// There are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The addresses.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Ipv4Addr> + 'a {
        self.0.as_chunks::<ADDRESS_LEN>().0.iter().map(|octets| Ipv4Addr::from(*octets))
    }
}

/// A record of a report (RFC 3376 §4.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Record<'a> {
    /// What it says.
    pub kind: RecordKind,
    /// About this group.
    pub group: Ipv4Addr,
    /// And these sources.
    pub sources: Sources<'a>,
    /// Auxiliary data; nobody sends any. A multiple of 4 bytes.
    pub auxiliary: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads a record at the start of `bytes`; returns it and its length.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &'a [u8]) -> Result<(Record<'a>, usize), Error> {
        let (head, rest) = bytes.split_first_chunk::<RECORD_LEN>().ok_or(Error::Truncated)?;
        let sources = sources(rest, u16_at(head, field::RECORD_SOURCES))?;
        let auxiliary_end = sources.0.len() + usize::from(head[1]) * 4;
        let record = Record {
            kind: head[0].into(),
            group: array_at::<ADDRESS_LEN, RECORD_LEN>(head, field::RECORD_GROUP).into(),
            sources,
            auxiliary: rest.get(sources.0.len()..auxiliary_end).ok_or(Error::Truncated)?,
        };
        Ok((record, RECORD_LEN + auxiliary_end))
    }

    /// Length on the wire in bytes.
    pub const fn len(&self) -> usize {
        RECORD_LEN + self.sources.0.len() + self.auxiliary.len().next_multiple_of(4)
    }

    /// Never: a record has bytes.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the record.
    ///
    /// # Errors
    /// [`Error::NoRoom`] above 65535 sources or 1020 bytes of auxiliary data;
    /// nothing is written.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Record::len`].
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let count = u16::try_from(self.sources.len()).map_err(|_| Error::NoRoom)?;
        let auxiliary_units = u8::try_from(self.auxiliary.len().div_ceil(4)).map_err(|_| Error::NoRoom)?;
        let bytes = &mut bytes[..self.len()];
        bytes.fill(0);
        bytes[0] = self.kind.into();
        bytes[1] = auxiliary_units;
        put_u16(bytes, field::RECORD_SOURCES, count);
        put(bytes, field::RECORD_GROUP, &self.group.octets());
        put(bytes, RECORD_LEN, self.sources.0);
        put(bytes, RECORD_LEN + self.sources.0.len(), self.auxiliary);
        Ok(())
    }
}

/// Reads the `count` records behind a report's header, up to an error.
pub fn records(bytes: &[u8], count: u16) -> Records<'_> {
    Records { rest: bytes, left: count }
}

/// Iterator over records.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        match Record::parse(self.rest) {
            Ok((record, len)) => {
                self.rest = &self.rest[len..];
                Some(Ok(record))
            }
            Err(error) => {
                self.left = 0;
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_linux() {
        // From igmp.pcap.
        let bytes: [u8; 32] = [
            0x22, 0x00, 0xda, 0x2b, 0x00, 0x00, 0x00, 0x02, 0x05, 0x00, 0x00, 0x02, 0xef, 0x01, 0x02, 0x04, 0x0a, 0x00, 0x02, 0x63, 0x0a,
            0x00, 0x02, 0x62, 0x04, 0x00, 0x00, 0x00, 0xef, 0x01, 0x02, 0x03,
        ];
        let message = Message::ReportV3 { records: 2 };
        assert!(verify_checksum(&bytes));
        assert_eq!(Message::parse(&bytes), Ok((message, 8)));
        let read: Vec<Record<'_>> = records(&bytes[8..], 2).map_while(Result::ok).collect();
        assert_eq!(read[0].kind, RecordKind::Allow);
        assert_eq!(read[0].group, Ipv4Addr::new(239, 1, 2, 4));
        let sources: Vec<Ipv4Addr> = read[0].sources.iter().collect();
        assert_eq!(sources, [Ipv4Addr::new(10, 0, 2, 99), Ipv4Addr::new(10, 0, 2, 98)]);
        assert_eq!((read[1].kind, read[1].sources.len()), (RecordKind::ToExclude, 0));
        let mut out = [0xa5; 32];
        let mut at = 8;
        for record in read {
            assert_eq!(record.emit(&mut out[at..]), Ok(()));
            at += record.len();
        }
        message.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(records(&bytes[8..31], 2).last(), Some(Err(Error::Truncated)));
    }

    #[test]
    fn versions_of_a_query_go_by_length() {
        let mut bytes = [0; 12];
        bytes[..2].copy_from_slice(&[kind::QUERY, 100]);
        bytes[8..].copy_from_slice(&[0x0a, 125, 0, 1]);
        let v3 = QueryV3 { suppress: true, robustness: 2, interval_code: 125, sources: 1 };
        let query = |v3| Message::Query { max_response_code: 100, group: Ipv4Addr::UNSPECIFIED, v3 };
        assert_eq!(Message::parse(&bytes[..7]), Err(Error::Truncated));
        assert_eq!(Message::parse(&bytes[..8]), Ok((query(None), 8)));
        assert_eq!(Message::parse(&bytes[..10]), Err(Error::BadLength));
        assert_eq!(Message::parse(&bytes), Ok((query(Some(v3)), 12)));
    }

    #[test]
    fn response_times() {
        assert_eq!(max_response_ms(100), 10_000);
        assert_eq!(max_response_ms(127), 12_700);
        assert_eq!(max_response_ms(128), 12_800);
        // RFC 3376 §4.1.1: the largest is 31744 tenths of a second.
        assert_eq!(max_response_ms(255), 3_174_400);
    }
}
