//! MPTCP, version 1 (RFC 8684): TCP option 30.
//!
//! ```text
//! 0      1        2                3
//! | 30   | length | subtype, flags | …
//! ```
//!
//! A [`Message`] is one option without kind and length. A segment carries several
//! ([`Options::mptcp`](super::Options::mptcp)). The length decides which fields
//! are there; combinations that RFC 8684 does not define are refused, as in Linux,
//! which ignores them. Reserved bits are ignored and sent as zero. Version 0
//! (RFC 6824) is read as far as its MP_CAPABLE: [`Capable::version`] says so.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;

use crate::Error;

/// Room for an option's data, in bytes: 40 without kind and length.
pub const DATA_LEN_MAX: usize = 38;
/// Addresses in one REMOVE_ADDR, at most.
pub const REMOVE_IDS_MAX: usize = 37;
/// The version this file is about.
pub const VERSION: u8 = 1;

/// Subtypes (RFC 8684 §8.2).
pub mod subtype {
    /// MP_CAPABLE.
    pub const CAPABLE: u8 = 0;
    /// MP_JOIN.
    pub const JOIN: u8 = 1;
    /// DSS.
    pub const DSS: u8 = 2;
    /// ADD_ADDR.
    pub const ADD_ADDR: u8 = 3;
    /// REMOVE_ADDR.
    pub const REMOVE_ADDR: u8 = 4;
    /// MP_PRIO.
    pub const PRIO: u8 = 5;
    /// MP_FAIL.
    pub const FAIL: u8 = 6;
    /// MP_FASTCLOSE.
    pub const FASTCLOSE: u8 = 7;
    /// MP_TCPRST.
    pub const TCPRST: u8 = 8;
}

bitflags::bitflags! {
    /// Flags of MP_CAPABLE (RFC 8684 §3.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct CapableFlags: u8 {
        /// A: DSS carries checksums.
        const CHECKSUM = 0x80;
        /// B: extensibility; must be zero.
        const EXTENSION = 0x40;
        /// C: no subflows to the address and port of the first.
        const DENY_JOIN_ID0 = 0x20;
        /// H: HMAC-SHA256.
        const HMAC_SHA256 = 0x01;
        const _ = !0;
    }

    /// Flags of MP_TCPRST (RFC 8684 §3.6).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct ResetFlags: u8 {
        /// T: the condition is transient.
        const TRANSIENT = 0x01;
        /// W, undefined.
        const W = 0x02;
        /// V, undefined.
        const V = 0x04;
        /// U, undefined.
        const U = 0x08;
    }
}

/// Reasons of MP_TCPRST (RFC 8684 §3.6).
pub mod reset_reason {
    /// Unspecified.
    pub const UNSPECIFIED: u8 = 0;
    /// MPTCP-specific error: no token, no key, no fall-back possible …
    pub const MPTCP: u8 = 1;
    /// Lack of resources.
    pub const RESOURCES: u8 = 2;
    /// Administratively prohibited.
    pub const PROHIBITED: u8 = 3;
    /// Too much outstanding data.
    pub const OUTSTANDING_DATA: u8 = 4;
    /// Unacceptable performance.
    pub const PERFORMANCE: u8 = 5;
    /// A middlebox interferes.
    pub const MIDDLEBOX: u8 = 6;
}

/// MP_CAPABLE: begins a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Capable {
    /// Version, 0 to 15. Larger values are cut.
    pub version: u8,
    /// Flags.
    pub flags: CapableFlags,
    /// Keys, by the step of the handshake.
    pub keys: Keys,
}

/// The keys of an MP_CAPABLE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keys {
    /// SYN of version 1: none (4 bytes).
    None,
    /// SYN|ACK: the sender's (12 bytes).
    Sender(u64),
    /// ACK: both (20 bytes).
    Both {
        /// The sender's.
        sender: u64,
        /// The receiver's.
        receiver: u64,
    },
    /// The first data: both, and the mapping of that data (22 or 24 bytes).
    WithData {
        /// The sender's.
        sender: u64,
        /// The receiver's.
        receiver: u64,
        /// Length of the data in bytes.
        data_len: u16,
        /// The data's checksum, if agreed on.
        checksum: Option<u16>,
    },
}

/// MP_JOIN: adds a subflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Join {
    /// SYN (12 bytes).
    Syn {
        /// Use it only if no other is left.
        backup: bool,
        /// The sender's address identifier.
        address_id: u8,
        /// Which connection.
        token: u32,
        /// Random.
        nonce: u32,
    },
    /// SYN|ACK (16 bytes).
    SynAck {
        /// Use it only if no other is left.
        backup: bool,
        /// The sender's address identifier.
        address_id: u8,
        /// The leftmost 64 bits of the HMAC.
        hmac: u64,
        /// Random.
        nonce: u32,
    },
    /// ACK (24 bytes).
    Ack {
        /// The leftmost 160 bits of the HMAC.
        hmac: [u8; 20],
    },
}

/// A number of data sequence space: of 64 bits, or the lower 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataSeq {
    /// The lower 32 bits.
    Short(u32),
    /// All 64.
    Long(u64),
}

/// DSS: acknowledges and maps data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Dss {
    /// Next data sequence number expected.
    pub ack: Option<DataSeq>,
    /// Where the segment's data belongs.
    pub mapping: Option<Mapping>,
    /// DATA_FIN: the mapping's last number is the end of the data. Only meaningful
    /// with a mapping.
    pub fin: bool,
}

/// A mapping of subflow bytes to data sequence space (RFC 8684 §3.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// The first data sequence number.
    pub seq: DataSeq,
    /// The first subflow sequence number, relative: the SYN has 0, the first byte 1.
    pub subflow_seq: u32,
    /// Length in bytes; with DATA_FIN one more. Zero: up to further notice.
    pub len: u16,
    /// Checksum of data and pseudo-header, if agreed on.
    pub checksum: Option<u16>,
}

/// ADD_ADDR: an address that may be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddAddr {
    /// The address's identifier.
    pub address_id: u8,
    /// The address.
    pub address: IpAddr,
    /// The port, if it is not that of the first subflow.
    pub port: Option<u16>,
    /// The rightmost 64 bits of the HMAC; none: an echo, which confirms receipt.
    pub hmac: Option<u64>,
}

/// An MPTCP option.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Message {
    /// MP_CAPABLE.
    Capable(Capable),
    /// MP_JOIN.
    Join(Join),
    /// DSS.
    Dss(Dss),
    /// ADD_ADDR.
    AddAddr(AddAddr),
    /// REMOVE_ADDR.
    RemoveAddr {
        /// Identifiers of addresses no longer there; one at least.
        ids: ArrayVec<u8, REMOVE_IDS_MAX>,
    },
    /// MP_PRIO: changes the subflow's priority.
    Prio {
        /// Use it only if no other is left.
        backup: bool,
    },
    /// MP_FAIL: a checksum was wrong.
    Fail {
        /// Data sequence number of the data in question.
        data_seq: u64,
    },
    /// MP_FASTCLOSE: aborts the connection.
    FastClose {
        /// The receiver's key.
        receiver_key: u64,
    },
    /// MP_TCPRST: why the subflow is reset.
    Reset {
        /// Flags.
        flags: ResetFlags,
        /// See [`reset_reason`].
        reason: u8,
    },
}

/// DSS flags (RFC 8684 §3.3).
mod dss_flag {
    pub const ACK: u8 = 0x01;
    pub const ACK_LONG: u8 = 0x02;
    pub const MAPPING: u8 = 0x04;
    pub const SEQ_LONG: u8 = 0x08;
    pub const FIN: u8 = 0x10;
}

const BACKUP: u8 = 0x01;
const ECHO: u8 = 0x01;

type Data = ArrayVec<u8, DATA_LEN_MAX>;

impl Message {
    /// Reads an option's data: what follows kind and length.
    ///
    /// # Errors
    /// [`Error::Truncated`] when there is not even a subtype, [`Error::UnknownType`]
    /// of an unknown subtype, [`Error::BadOptionLength`] of a length that the
    /// subtype does not have.
    pub fn parse(data: &[u8]) -> Result<Message, Error> {
        let [first, rest @ ..] = data else {
            return Err(Error::Truncated);
        };
        let (subtype, low) = (first >> 4, first & 0xf);
        let mut reader = Reader { rest };
        let message = match subtype {
            subtype::CAPABLE => Message::Capable(Capable::parse(low, &mut reader)?),
            subtype::JOIN => Message::Join(Join::parse(low, &mut reader)?),
            subtype::DSS => Message::Dss(Dss::parse(&mut reader)?),
            subtype::ADD_ADDR => Message::AddAddr(AddAddr::parse(low, &mut reader)?),
            subtype::REMOVE_ADDR => {
                let ids: ArrayVec<u8, REMOVE_IDS_MAX> = reader.take().iter().copied().take(REMOVE_IDS_MAX).collect();
                // RFC 8684 §3.4.2: one identifier at least.
                if ids.is_empty() || ids.len() + 1 != data.len() {
                    return Err(Error::BadOptionLength);
                }
                Message::RemoveAddr { ids }
            }
            subtype::PRIO => Message::Prio { backup: low & BACKUP != 0 },
            subtype::FAIL => {
                reader.array::<1>()?;
                Message::Fail { data_seq: reader.u64()? }
            }
            subtype::FASTCLOSE => {
                reader.array::<1>()?;
                Message::FastClose { receiver_key: reader.u64()? }
            }
            subtype::TCPRST => {
                let [reason] = reader.array()?;
                Message::Reset { flags: ResetFlags::from_bits_truncate(low), reason }
            }
            _ => return Err(Error::UnknownType),
        };
        if reader.rest.is_empty() { Ok(message) } else { Err(Error::BadOptionLength) }
    }

    /// The subtype.
    pub const fn subtype(&self) -> u8 {
        match self {
            Message::Capable(_) => subtype::CAPABLE,
            Message::Join(_) => subtype::JOIN,
            Message::Dss(_) => subtype::DSS,
            Message::AddAddr(_) => subtype::ADD_ADDR,
            Message::RemoveAddr { .. } => subtype::REMOVE_ADDR,
            Message::Prio { .. } => subtype::PRIO,
            Message::Fail { .. } => subtype::FAIL,
            Message::FastClose { .. } => subtype::FASTCLOSE,
            Message::Reset { .. } => subtype::TCPRST,
        }
    }

    /// The option's data: what follows kind and length.
    pub fn to_data(&self) -> ArrayVec<u8, DATA_LEN_MAX> {
        let mut data = Data::new();
        // Every variant is at most 38 bytes long: REMOVE_ADDR 1 + 37, ADD_ADDR 28,
        // DSS 26.
        data.push(self.subtype() << 4);
        match self {
            Message::Capable(capable) => capable.emit(&mut data),
            Message::Join(join) => join.emit(&mut data),
            Message::Dss(dss) => dss.emit(&mut data),
            Message::AddAddr(add) => add.emit(&mut data),
            Message::RemoveAddr { ids } => data.extend(ids.iter().copied()),
            Message::Prio { backup } => data[0] |= u8::from(*backup) * BACKUP,
            Message::Fail { data_seq: number } | Message::FastClose { receiver_key: number } => {
                data.push(0);
                data.extend(number.to_be_bytes());
            }
            Message::Reset { flags, reason } => {
                data[0] |= flags.bits();
                data.push(*reason);
            }
        }
        data
    }

    /// Length of the option in bytes, with kind and length, without padding.
    pub fn len(&self) -> usize {
        2 + self.to_data().len()
    }

    /// Never: an option has bytes.
    pub const fn is_empty(&self) -> bool {
        false
    }
}

impl Capable {
    fn parse(low: u8, reader: &mut Reader<'_>) -> Result<Capable, Error> {
        let [flags] = reader.array()?;
        // RFC 8684 §3.1, figure 4: the length tells the steps of the handshake apart,
        // and whether there is a checksum.
        let keys = match reader.rest.len() {
            0 => Keys::None,
            8 => Keys::Sender(reader.u64()?),
            16 => Keys::Both { sender: reader.u64()?, receiver: reader.u64()? },
            18 | 20 => {
                Keys::WithData { sender: reader.u64()?, receiver: reader.u64()?, data_len: reader.u16()?, checksum: reader.optional_u16()? }
            }
            _ => return Err(Error::BadOptionLength),
        };
        Ok(Capable { version: low, flags: CapableFlags::from_bits_retain(flags), keys })
    }

    fn emit(&self, data: &mut Data) {
        data[0] |= self.version & 0xf;
        data.push(self.flags.bits());
        match self.keys {
            Keys::None => {}
            Keys::Sender(sender) => data.extend(sender.to_be_bytes()),
            Keys::Both { sender, receiver } => {
                data.extend(sender.to_be_bytes());
                data.extend(receiver.to_be_bytes());
            }
            Keys::WithData { sender, receiver, data_len, checksum } => {
                data.extend(sender.to_be_bytes());
                data.extend(receiver.to_be_bytes());
                data.extend(data_len.to_be_bytes());
                data.extend(checksum.into_iter().flat_map(u16::to_be_bytes));
            }
        }
    }
}

impl Join {
    fn parse(low: u8, reader: &mut Reader<'_>) -> Result<Join, Error> {
        let [address_id] = reader.array()?;
        let backup = low & BACKUP != 0;
        match reader.rest.len() {
            8 => Ok(Join::Syn { backup, address_id, token: reader.u32()?, nonce: reader.u32()? }),
            12 => Ok(Join::SynAck { backup, address_id, hmac: reader.u64()?, nonce: reader.u32()? }),
            20 => Ok(Join::Ack { hmac: reader.array()? }),
            _ => Err(Error::BadOptionLength),
        }
    }

    fn emit(&self, data: &mut Data) {
        match *self {
            Join::Syn { backup, address_id, token, nonce } => {
                data[0] |= u8::from(backup) * BACKUP;
                data.push(address_id);
                data.extend(token.to_be_bytes());
                data.extend(nonce.to_be_bytes());
            }
            Join::SynAck { backup, address_id, hmac, nonce } => {
                data[0] |= u8::from(backup) * BACKUP;
                data.push(address_id);
                data.extend(hmac.to_be_bytes());
                data.extend(nonce.to_be_bytes());
            }
            Join::Ack { hmac } => {
                data.push(0);
                data.extend(hmac);
            }
        }
    }
}

impl DataSeq {
    fn parse(long: bool, reader: &mut Reader<'_>) -> Result<DataSeq, Error> {
        if long { reader.u64().map(DataSeq::Long) } else { reader.u32().map(DataSeq::Short) }
    }

    fn emit(self, data: &mut Data) {
        match self {
            DataSeq::Short(number) => data.extend(number.to_be_bytes()),
            DataSeq::Long(number) => data.extend(number.to_be_bytes()),
        }
    }

    const fn is_long(self) -> bool {
        matches!(self, DataSeq::Long(_))
    }
}

impl Dss {
    fn parse(reader: &mut Reader<'_>) -> Result<Dss, Error> {
        let [flags] = reader.array()?;
        let mut dss = Dss { fin: flags & dss_flag::FIN != 0, ..Dss::default() };
        if flags & dss_flag::ACK != 0 {
            dss.ack = Some(DataSeq::parse(flags & dss_flag::ACK_LONG != 0, reader)?);
        }
        if flags & dss_flag::MAPPING != 0 {
            dss.mapping = Some(Mapping {
                seq: DataSeq::parse(flags & dss_flag::SEQ_LONG != 0, reader)?,
                subflow_seq: reader.u32()?,
                len: reader.u16()?,
                // RFC 8684 §3.3: the length tells whether there is one.
                checksum: reader.optional_u16()?,
            });
        }
        Ok(dss)
    }

    fn emit(&self, data: &mut Data) {
        let mut flags = if self.fin { dss_flag::FIN } else { 0 };
        if let Some(ack) = self.ack {
            flags |= dss_flag::ACK | if ack.is_long() { dss_flag::ACK_LONG } else { 0 };
        }
        if let Some(mapping) = self.mapping {
            flags |= dss_flag::MAPPING | if mapping.seq.is_long() { dss_flag::SEQ_LONG } else { 0 };
        }
        data.push(flags);
        if let Some(ack) = self.ack {
            ack.emit(data);
        }
        if let Some(mapping) = self.mapping {
            mapping.seq.emit(data);
            data.extend(mapping.subflow_seq.to_be_bytes());
            data.extend(mapping.len.to_be_bytes());
            data.extend(mapping.checksum.into_iter().flat_map(u16::to_be_bytes));
        }
    }
}

impl AddAddr {
    /// It confirms receipt of an ADD_ADDR.
    pub const fn is_echo(&self) -> bool {
        self.hmac.is_none()
    }

    fn parse(low: u8, reader: &mut Reader<'_>) -> Result<AddAddr, Error> {
        let [address_id] = reader.array()?;
        // RFC 8684 §3.4.1: the address's family and the port follow from the length;
        // an echo carries no HMAC.
        let hmac_len = if low & ECHO != 0 { 0 } else { 8 };
        let Some(address_len) = reader.rest.len().checked_sub(hmac_len) else {
            return Err(Error::BadOptionLength);
        };
        let (address, port) = match address_len {
            4 | 6 => {
                let address = Ipv4Addr::from(reader.array::<4>()?);
                (IpAddr::V4(address), address_len == 6)
            }
            16 | 18 => {
                let address = Ipv6Addr::from(reader.array::<16>()?);
                (IpAddr::V6(address), address_len == 18)
            }
            _ => return Err(Error::BadOptionLength),
        };
        let port = if port { Some(reader.u16()?) } else { None };
        let hmac = if hmac_len == 0 { None } else { Some(reader.u64()?) };
        Ok(AddAddr { address_id, address, port, hmac })
    }

    fn emit(&self, data: &mut Data) {
        data[0] |= u8::from(self.is_echo()) * ECHO;
        data.push(self.address_id);
        match self.address {
            IpAddr::V4(address) => data.extend(address.octets()),
            IpAddr::V6(address) => data.extend(address.octets()),
        }
        data.extend(self.port.into_iter().flat_map(u16::to_be_bytes));
        data.extend(self.hmac.into_iter().flat_map(u64::to_be_bytes));
    }
}

/// Takes fields off the front of an option.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Error::BadOptionLength)?;
        self.rest = rest;
        Ok(*array)
    }

    fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_be_bytes)
    }

    fn optional_u16(&mut self) -> Result<Option<u16>, Error> {
        if self.rest.is_empty() { Ok(None) } else { self.u16().map(Some) }
    }

    fn take(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line of RFC 8684's figures: data without kind and length, and its meaning.
    fn golden() -> Vec<(Vec<u8>, Message)> {
        let flags = CapableFlags::HMAC_SHA256 | CapableFlags::CHECKSUM;
        let capable = |keys| Message::Capable(Capable { version: VERSION, flags, keys });
        let (sender, receiver) = (0x0102_0304_0506_0708, 0x1112_1314_1516_1718);
        let both = [1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
        let with_data = |checksum| Keys::WithData { sender, receiver, data_len: 140, checksum };
        let hmac = [9; 20];
        let v4 = IpAddr::from([10, 0, 2, 12]);
        let v6 = IpAddr::from([0xfd00, 2, 0, 0, 0, 0, 0, 0x11]);
        let add = |address, port, hmac| Message::AddAddr(AddAddr { address_id: 9, address, port, hmac });
        let key = &both[..8];
        vec![
            (vec![0x01, 0x81], capable(Keys::None)),
            ([&[0x01, 0x81], key].concat(), capable(Keys::Sender(sender))),
            ([&[0x01, 0x81], &both[..]].concat(), capable(Keys::Both { sender, receiver })),
            ([&[0x01, 0x81], &both[..], &[0, 140]].concat(), capable(with_data(None))),
            ([&[0x01, 0x81], &both[..], &[0, 140, 0xab, 0xcd]].concat(), capable(with_data(Some(0xabcd)))),
            (
                vec![0x11, 5, 1, 2, 3, 4, 5, 6, 7, 8],
                Message::Join(Join::Syn { backup: true, address_id: 5, token: 0x0102_0304, nonce: 0x0506_0708 }),
            ),
            (
                [&[0x10, 6], key, &[0, 0, 0, 7]].concat(),
                Message::Join(Join::SynAck { backup: false, address_id: 6, hmac: sender, nonce: 7 }),
            ),
            ([&[0x10, 0], &hmac[..]].concat(), Message::Join(Join::Ack { hmac })),
            ([&[0x30, 9, 10, 0, 2, 12], key].concat(), add(v4, None, Some(sender))),
            ([&[0x30, 9, 10, 0, 2, 12, 0x17, 0x70], key].concat(), add(v4, Some(6000), Some(sender))),
            (vec![0x31, 9, 10, 0, 2, 12], add(v4, None, None)),
            (vec![0x31, 9, 10, 0, 2, 12, 0x17, 0x70], add(v4, Some(6000), None)),
            ([&[0x31, 9, 0xfd, 0, 0, 2], &[0; 11][..], &[0x11]].concat(), add(v6, None, None)),
            ([&[0x30, 9, 0xfd, 0, 0, 2], &[0; 11][..], &[0x11, 0x17, 0x70], key].concat(), add(v6, Some(6000), Some(sender))),
            (vec![0x40, 5, 6], Message::RemoveAddr { ids: [5, 6].into_iter().collect() }),
            (vec![0x51], Message::Prio { backup: true }),
            (vec![0x50], Message::Prio { backup: false }),
            ([&[0x60, 0], key].concat(), Message::Fail { data_seq: sender }),
            ([&[0x70, 0], key].concat(), Message::FastClose { receiver_key: sender }),
            (vec![0x81, 2], Message::Reset { flags: ResetFlags::TRANSIENT, reason: reset_reason::RESOURCES }),
        ]
    }

    #[test]
    fn every_subtype_and_length() {
        for (data, message) in golden() {
            assert_eq!(Message::parse(&data), Ok(message.clone()), "{data:x?}");
            assert_eq!(message.to_data()[..], data, "{message:?}");
            assert_eq!(message.len(), data.len() + 2);
            assert_eq!(message.subtype(), data[0] >> 4);
        }
    }

    #[test]
    fn lengths_between_are_refused() {
        let lengths: Vec<(u8, usize)> = golden().iter().map(|(data, _)| (data[0], data.len())).collect();
        for (first, _) in &lengths {
            // REMOVE_ADDR has any length.
            for len in (1..=DATA_LEN_MAX).filter(|_| first >> 4 != subtype::REMOVE_ADDR) {
                let mut data = vec![0; len];
                data[0] = *first;
                let known = lengths.contains(&(*first, len))
                    // The figures show these two with one of the two first bytes.
                    || matches!((*first, len), (0x10, 10) | (0x11, 14 | 22))
                    || matches!((*first, len), (0x30, 26) | (0x31, 20));
                let read = Message::parse(&data);
                assert_eq!(read.is_ok(), known, "{first:#x} {len} {read:?}");
                assert!(known || read == Err(Error::BadOptionLength));
            }
        }
        assert_eq!(Message::parse(&[]), Err(Error::Truncated));
        assert_eq!(Message::parse(&[0x40]), Err(Error::BadOptionLength));
        for unknown in 9..16 {
            assert_eq!(Message::parse(&[unknown << 4, 0]), Err(Error::UnknownType));
        }
    }

    #[test]
    fn every_form_of_dss() {
        let seqs = [DataSeq::Short(0x0102_0304), DataSeq::Long(0x0102_0304_0506_0708)];
        let acks = [None, Some(seqs[0]), Some(seqs[1])];
        let mut lengths = Vec::new();
        for ack in acks {
            lengths.push(Dss { ack, mapping: None, fin: false });
            for (seq, checksum) in seqs.iter().flat_map(|s| [(*s, None), (*s, Some(0xabcd))]) {
                let mapping = Some(Mapping { seq, subflow_seq: 1, len: 140, checksum });
                lengths.push(Dss { ack, mapping, fin: true });
            }
        }
        let lengths: Vec<usize> = lengths
            .into_iter()
            .map(|dss| {
                let message = Message::Dss(dss);
                let data = message.to_data();
                assert_eq!(Message::parse(&data), Ok(message.clone()));
                assert_eq!(Message::parse(&data[..data.len() - 1]).ok(), None, "{message:?}");
                message.len()
            })
            .collect();
        // 4, plus 4 or 8 for an acknowledgement, 10 or 14 for a mapping, 2 for a checksum.
        assert_eq!(lengths, [4, 14, 16, 18, 20, 8, 18, 20, 22, 24, 12, 22, 24, 26, 28]);
    }

    #[test]
    fn the_bytes_of_a_dss() {
        let dss = Dss {
            ack: Some(DataSeq::Short(0x2122_2324)),
            mapping: Some(Mapping { seq: DataSeq::Long(0x0102_0304_0506_0708), subflow_seq: 0x3132_3334, len: 0x4142, checksum: None }),
            fin: true,
        };
        let data = [0x20, 0x1d, 0x21, 0x22, 0x23, 0x24, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x31, 0x32, 0x33, 0x34, 0x41, 0x42];
        assert_eq!(Message::Dss(dss).to_data()[..], data);
    }
}
