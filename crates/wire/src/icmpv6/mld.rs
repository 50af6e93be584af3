//! Multicast listener discovery, versions 1 (RFC 2710) and 2 (RFC 3810).
//!
//! ```text
//! query   0..4 type … | 4 max response | 6 reserved | 8 group | 24 flags | 25 interval | 26 sources n | 28 n addresses
//! report  0..4 type … | 4 reserved | 6 records m | 8 m records
//! record  0 type | 1 auxiliary length / 4 | 2 sources n | 4 group | 20 n addresses, auxiliary data
//! ```
//!
//! A query of 24 bytes is of version 1; version 2 has the fields from 24 on.

use core::net::Ipv6Addr;

use super::kind;
use crate::Error;
use crate::bytes::{array_at, put, put_u16, u16_at};

mod field {
    pub const MAX_RESPONSE: usize = 4;
    pub const RECORDS: usize = 6;
    pub const GROUP: usize = 8;
    pub const ROBUSTNESS: usize = 24;
    pub const INTERVAL: usize = 25;
    pub const SOURCES: usize = 26;
    pub const RECORD_SOURCES: usize = 2;
    pub const RECORD_GROUP: usize = 4;
}

const LEN_V1: usize = 24;
const QUERY_V2_LEN: usize = 28;
const REPORT_V2_LEN: usize = 8;
const RECORD_LEN: usize = 20;
const ADDRESS_LEN: usize = 16;
const SUPPRESS: u8 = 8;

/// A message without its lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Message {
    /// Who listens?
    Query {
        /// See [`max_response_ms`].
        max_response_code: u16,
        /// The group asked about; unspecified: all.
        group: Ipv6Addr,
        /// Present in version 2; [`sources`] follow.
        v2: Option<QueryV2>,
    },
    /// Version 1: I listen.
    Report {
        /// To this group.
        group: Ipv6Addr,
    },
    /// Version 1: I no longer listen.
    Done {
        /// To this group.
        group: Ipv6Addr,
    },
    /// Version 2: what I listen to, or what has changed; [`records`] follow.
    ReportV2 {
        /// How many.
        records: u16,
    },
}

/// What version 2 adds to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct QueryV2 {
    /// Routers shall not update their timers.
    pub suppress: bool,
    /// The querier's robustness, 0 to 7. Larger values are cut.
    pub robustness: u8,
    /// Querier's query interval code: seconds, above 127 in the floating format of
    /// IGMPv3.
    pub interval_code: u8,
    /// How many sources follow.
    pub sources: u16,
}

impl Message {
    /// Reads the header; `bytes` are the whole message, of a type that is MLD's.
    pub(super) fn parse(bytes: &[u8]) -> Result<Message, Error> {
        match bytes.first() {
            Some(&kind::LISTENER_QUERY) => Message::parse_query(bytes),
            Some(&kind::LISTENER_REPORT) => Ok(Message::Report { group: parse_group(bytes)? }),
            Some(&kind::LISTENER_DONE) => Ok(Message::Done { group: parse_group(bytes)? }),
            Some(&kind::LISTENER_REPORT_V2) => {
                let m = bytes.first_chunk::<REPORT_V2_LEN>().ok_or(Error::Truncated)?;
                Ok(Message::ReportV2 { records: u16_at(m, field::RECORDS) })
            }
            _ => Err(Error::UnknownType),
        }
    }

    fn parse_query(bytes: &[u8]) -> Result<Message, Error> {
        let m = bytes.first_chunk::<LEN_V1>().ok_or(Error::Truncated)?;
        // RFC 3810 §8.1: "MLDv1 Query: length = 24 octets; MLDv2 Query: length >=
        // 28 octets. Query messages that do not match any of the above conditions
        // … MUST be silently ignored."
        let v2 = match bytes.first_chunk::<QUERY_V2_LEN>() {
            Some(m) => Some(QueryV2 {
                suppress: m[field::ROBUSTNESS] & SUPPRESS != 0,
                robustness: m[field::ROBUSTNESS] & 7,
                interval_code: m[field::INTERVAL],
                sources: u16_at(m, field::SOURCES),
            }),
            None if bytes.len() == LEN_V1 => None,
            None => return Err(Error::BadLength),
        };
        Ok(Message::Query {
            max_response_code: u16_at(m, field::MAX_RESPONSE),
            group: array_at::<ADDRESS_LEN, LEN_V1>(m, field::GROUP).into(),
            v2,
        })
    }

    /// Length of the header in bytes; lists follow it.
    pub const fn header_len(&self) -> usize {
        match self {
            Message::Query { v2: Some(_), .. } => QUERY_V2_LEN,
            Message::ReportV2 { .. } => REPORT_V2_LEN,
            _ => LEN_V1,
        }
    }

    /// The ICMPv6 type.
    pub const fn kind(&self) -> u8 {
        match self {
            Message::Query { .. } => kind::LISTENER_QUERY,
            Message::Report { .. } => kind::LISTENER_REPORT,
            Message::Done { .. } => kind::LISTENER_DONE,
            Message::ReportV2 { .. } => kind::LISTENER_REPORT_V2,
        }
    }

    /// Writes what follows type, code and checksum into zeroed bytes.
    pub(super) fn emit_body(&self, bytes: &mut [u8]) {
        match self {
            Message::Query { max_response_code, group, v2 } => {
                put_u16(bytes, field::MAX_RESPONSE, *max_response_code);
                put(bytes, field::GROUP, &group.octets());
                if let Some(v2) = v2 {
                    bytes[field::ROBUSTNESS] = v2.robustness & 7 | if v2.suppress { SUPPRESS } else { 0 };
                    bytes[field::INTERVAL] = v2.interval_code;
                    put_u16(bytes, field::SOURCES, v2.sources);
                }
            }
            Message::Report { group } | Message::Done { group } => {
                put(bytes, field::GROUP, &group.octets());
            }
            Message::ReportV2 { records } => put_u16(bytes, field::RECORDS, *records),
        }
    }
}

fn parse_group(bytes: &[u8]) -> Result<Ipv6Addr, Error> {
    let m = bytes.first_chunk::<LEN_V1>().ok_or(Error::Truncated)?;
    Ok(array_at::<ADDRESS_LEN, LEN_V1>(m, field::GROUP).into())
}

/// The time within which a query is answered, in milliseconds (RFC 3810 §5.1.3).
pub const fn max_response_ms(code: u16) -> u32 {
    if code < 0x8000 {
        return code as u32;
    }
    // "Maximum Response Delay = (mant | 0x1000) << (exp+3)"
    let (exponent, mantissa) = (code >> 12 & 7, code as u32 & 0xfff);
    (mantissa | 0x1000) << (exponent + 3)
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
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Ipv6Addr> + 'a {
        self.0.as_chunks::<ADDRESS_LEN>().0.iter().map(|octets| Ipv6Addr::from(*octets))
    }
}

/// What a record of a report says (RFC 3810 §5.2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// 1: listens to the sources only.
    IsInclude,
    /// 2: listens to all but the sources.
    IsExclude,
    /// 3: changed to [`RecordKind::IsInclude`].
    ToInclude,
    /// 4: changed to [`RecordKind::IsExclude`].
    ToExclude,
    /// 5: also listens to the sources now.
    Allow,
    /// 6: no longer listens to the sources.
    Block,
    /// Any other. With a number of the above it is read back as that.
    Other(u8),
}

impl From<u8> for RecordKind {
    fn from(number: u8) -> RecordKind {
        match number {
            1 => RecordKind::IsInclude,
            2 => RecordKind::IsExclude,
            3 => RecordKind::ToInclude,
            4 => RecordKind::ToExclude,
            5 => RecordKind::Allow,
            6 => RecordKind::Block,
            other => RecordKind::Other(other),
        }
    }
}

impl From<RecordKind> for u8 {
    fn from(kind: RecordKind) -> u8 {
        match kind {
            RecordKind::IsInclude => 1,
            RecordKind::IsExclude => 2,
            RecordKind::ToInclude => 3,
            RecordKind::ToExclude => 4,
            RecordKind::Allow => 5,
            RecordKind::Block => 6,
            RecordKind::Other(number) => number,
        }
    }
}

/// A record of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Record<'a> {
    /// What it says.
    pub kind: RecordKind,
    /// About this group.
    pub group: Ipv6Addr,
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
    use crate::icmpv6;

    #[test]
    fn a_report_of_linux() {
        // From nd-mld.pcap: two groups are joined.
        let bytes: [u8; 48] = [
            0x8f, 0x00, 0x6d, 0x56, 0x00, 0x00, 0x00, 0x02, 0x04, 0x00, 0x00, 0x00, 0xff, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x01, 0xff, 0x00, 0x00, 0x10, 0x04, 0x00, 0x00, 0x00, 0xff, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x01, 0xff, 0x00, 0x00, 0x0a,
        ];
        let (message, len) = icmpv6::Message::parse(&bytes).expect("a report");
        assert_eq!(message, icmpv6::Message::Mld(Message::ReportV2 { records: 2 }));
        let groups: Vec<_> =
            records(&bytes[len..], 2).map(|record| record.map(|r| (r.kind, r.group.to_string(), r.sources.len()))).collect();
        assert_eq!(
            groups,
            [Ok((RecordKind::ToExclude, "ff02::1:ff00:10".to_owned(), 0)), Ok((RecordKind::ToExclude, "ff02::1:ff00:a".to_owned(), 0)),]
        );
        // One more is promised than there is.
        assert_eq!(records(&bytes[len..], 3).last(), Some(Err(Error::Truncated)));
        assert_eq!(records(&bytes[len..], 9).count(), 3);
    }

    #[test]
    fn versions_of_a_query_go_by_length() {
        let mut bytes = [0; 60];
        bytes[0] = kind::LISTENER_QUERY;
        bytes[24..28].copy_from_slice(&[0x0a, 125, 0, 2]);
        let parse = |len: usize| icmpv6::Message::parse(&bytes[..len]).map(|(_, len)| len);
        assert_eq!(parse(23), Err(Error::Truncated));
        assert_eq!(parse(24), Ok(24));
        assert_eq!(parse(25), Err(Error::BadLength));
        assert_eq!(parse(27), Err(Error::BadLength));
        assert_eq!(parse(28), Ok(28));
        let Ok((icmpv6::Message::Mld(Message::Query { v2: Some(v2), .. }), _)) = icmpv6::Message::parse(&bytes) else {
            panic!("no query");
        };
        let expected = QueryV2 { suppress: true, robustness: 2, interval_code: 125, sources: 2 };
        assert_eq!(v2, expected);
        assert_eq!(sources(&bytes[28..], 2).map(|s| s.len()), Ok(2));
        assert_eq!(sources(&bytes[28..59], 2), Err(Error::Truncated));
    }

    #[test]
    fn response_times() {
        assert_eq!(max_response_ms(10_000), 10_000);
        assert_eq!(max_response_ms(0x7fff), 0x7fff);
        assert_eq!(max_response_ms(0x8000), 0x8000);
        assert_eq!(max_response_ms(0xffff), 0x1fff << 10);
    }
}
