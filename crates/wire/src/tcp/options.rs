//! TCP options: MSS, window scale, SACK, timestamps, Fast Open, user timeout; all
//! others, MPTCP's included, are kept as bytes.
//!
//! # Layout
//!
//! Options are written in the order and with the padding of Linux
//! (`tcp_options_write` in net/ipv4/tcp_output.c), so that a segment of Linux is
//! written back byte for byte: MSS; SACK permitted in front of the timestamps, in
//! place of their padding; window scale; SACK; Fast Open; others, each padded to
//! four bytes. If they do not fit into 40 bytes that way, they are packed without
//! padding: whatever was read can be written.
//!
//! # What it refuses
//!
//! Nothing, in reading: like Linux it stops at a broken option and keeps what came
//! before. [`Options::validate`] says whether that happened. Of an option that
//! comes twice the last counts.

use arrayvec::ArrayVec;

use super::{Seq, mptcp};
use crate::Error;

/// Room for options, in bytes.
pub const OPTIONS_LEN_MAX: usize = 40;
/// SACK blocks that fit into a header.
pub const SACK_BLOCKS_MAX: usize = 4;

/// Option kinds (IANA "TCP Option Kind Numbers").
pub mod kind {
    /// End of the list; one byte.
    pub const END: u8 = 0;
    /// No operation; one byte.
    pub const NOP: u8 = 1;
    /// Maximum segment size (RFC 9293 §3.7.1).
    pub const MSS: u8 = 2;
    /// Window scale (RFC 7323 §2).
    pub const WINDOW_SCALE: u8 = 3;
    /// SACK permitted (RFC 2018 §2).
    pub const SACK_PERMITTED: u8 = 4;
    /// SACK (RFC 2018 §3).
    pub const SACK: u8 = 5;
    /// Timestamps (RFC 7323 §3).
    pub const TIMESTAMPS: u8 = 8;
    /// MD5 signature (RFC 2385).
    pub const MD5: u8 = 19;
    /// User timeout (RFC 5482).
    pub const USER_TIMEOUT: u8 = 28;
    /// Authentication (RFC 5925).
    pub const AUTHENTICATION: u8 = 29;
    /// MPTCP (RFC 8684).
    pub const MPTCP: u8 = 30;
    /// Fast Open (RFC 7413).
    pub const FAST_OPEN: u8 = 34;
    /// Shared by experiments (RFC 6994), among them an earlier Fast Open.
    pub const EXPERIMENTAL: u8 = 254;
}

/// RFC 6994 experiment identifier of Fast Open: TCPOPT_FASTOPEN_MAGIC in Linux.
const FAST_OPEN_MAGIC: [u8; 2] = [0xf9, 0x89];

const SACK_BLOCK_LEN: usize = 8;

/// The timestamps option (RFC 7323 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: a recent value of the other end; valid with ACK.
    pub echo: u32,
}

/// The Fast Open option (RFC 7413 §4.1.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct FastOpen {
    /// Empty to ask for a cookie, else 4 to 16 bytes, an even number.
    pub cookie: ArrayVec<u8, 16>,
    /// As kind 254 with the magic 0xf989, instead of kind 34.
    pub experimental: bool,
}

/// The user timeout option (RFC 5482 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct UserTimeout {
    /// `value` is in minutes, not in seconds.
    pub minutes: bool,
    /// How long data may stay unacknowledged, 15 bits. Larger values are cut.
    pub value: u16,
}

/// The options of a segment. They are written in the order and with the padding of
/// Linux, or without padding where that does not fit into 40 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Options {
    /// Maximum segment size, in bytes.
    pub mss: Option<u16>,
    /// Window scale shift as it is on the wire; above 14 it counts as 14.
    pub window_scale: Option<u8>,
    /// SACK may be sent to us.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// SACK blocks: first number, and number after the last.
    pub sack: ArrayVec<(Seq, Seq), SACK_BLOCKS_MAX>,
    /// Fast Open.
    pub fast_open: Option<FastOpen>,
    /// User timeout.
    pub user_timeout: Option<UserTimeout>,
    /// All others: [`Options::others`], [`Options::mptcp`], [`Options::push_other`].
    pub others: Others,
}

/// Options without a field of their own, as bytes: each with kind and length, no
/// padding between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Others(ArrayVec<u8, OPTIONS_LEN_MAX>);

impl Options {
    /// Reads options. It cannot fail: like Linux it stops at a broken option and
    /// keeps what came before; [`Options::validate`] says whether that happened. Of
    /// an option that comes twice the last counts; a known one with a length that is
    /// not its own is kept in [`Options::others`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Options {
        // Almost every segment of an established connection; Linux's
        // tcp_parse_aligned_timestamp does the same.
        if let &[1, 1, 8, 10, a, b, c, d, e, f, g, h] = bytes {
            return Options {
                timestamps: Some(Timestamps { value: u32::from_be_bytes([a, b, c, d]), echo: u32::from_be_bytes([e, f, g, h]) }),
                ..Options::default()
            };
        }
        let mut options = Options::default();
        if !bytes.is_empty() {
            for (kind, data) in RawOptions::new(bytes).map_while(Result::ok) {
                options.read(kind, data);
            }
        }
        options
    }

    /// Whether every option's length stays within `bytes`.
    ///
    /// # Errors
    /// [`Error::BadOptionLength`] where [`Options::parse`] would have stopped.
    pub fn validate(bytes: &[u8]) -> Result<(), Error> {
        RawOptions::new(bytes).try_for_each(|option| option.map(|_| ()))
    }

    fn read(&mut self, kind: u8, data: &[u8]) {
        match (kind, data) {
            (kind::MSS, &[high, low]) => self.mss = Some(u16::from_be_bytes([high, low])),
            (kind::WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift),
            (kind::SACK_PERMITTED, []) => self.sack_permitted = true,
            (kind::TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                self.timestamps = Some(Timestamps { value: u32::from_be_bytes([a, b, c, d]), echo: u32::from_be_bytes([e, f, g, h]) });
            }
            (kind::SACK, blocks) if !blocks.is_empty() && blocks.len() % SACK_BLOCK_LEN == 0 => {
                self.sack.clear();
                for &[a, b, c, d, e, f, g, h] in blocks.as_chunks::<SACK_BLOCK_LEN>().0 {
                    let start = Seq(u32::from_be_bytes([a, b, c, d]));
                    let end = Seq(u32::from_be_bytes([e, f, g, h]));
                    // Four blocks at most: a fifth is past 40 bytes.
                    let _ = self.sack.try_push((start, end));
                }
            }
            (kind::USER_TIMEOUT, &[high, low]) => {
                let field = u16::from_be_bytes([high, low]);
                self.user_timeout = Some(UserTimeout { minutes: field & 0x8000 != 0, value: field & 0x7fff });
            }
            // tcp_parse_fastopen_option: "if (… len >= TCP_FASTOPEN_COOKIE_MIN && len <= TCP_FASTOPEN_COOKIE_MAX) … else if (len != 0) foc->len = -1",
            // and cookies of odd length are none.
            (kind::FAST_OPEN, cookie) if is_cookie(cookie) => {
                self.fast_open = Some(FastOpen::new(cookie, false));
            }
            (kind::EXPERIMENTAL, &[0xf9, 0x89, ref cookie @ ..]) if is_cookie(cookie) => {
                self.fast_open = Some(FastOpen::new(cookie, true));
            }
            // Also a known kind with a length that is not its own: Linux ignores it.
            (kind, data) => {
                // It came from 40 bytes, so it fits.
                let _ = self.push_other(kind, data);
            }
        }
    }

    /// Adds an option that has no field of its own. One that has is read back as
    /// that field.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when the others exceed 40 bytes.
    pub fn push_other(&mut self, kind: u8, data: &[u8]) -> Result<(), Error> {
        let Others(bytes) = &mut self.others;
        let len = data.len() + 2;
        if len > bytes.remaining_capacity() {
            return Err(Error::NoRoom);
        }
        // At most 40, so it fits into a byte.
        bytes.extend([kind, len as u8]);
        bytes.try_extend_from_slice(data).map_err(|_| Error::NoRoom)
    }

    /// The options without a field of their own: kind and data, in their order.
    pub fn others(&self) -> impl Iterator<Item = (u8, &[u8])> {
        RawOptions::new(&self.others.0).map_while(Result::ok)
    }

    /// The MPTCP options. One that cannot be read is an error, after which the next
    /// follows.
    pub fn mptcp(&self) -> impl Iterator<Item = Result<mptcp::Message, Error>> {
        self.others().filter(|(kind, _)| *kind == kind::MPTCP).map(|(_, data)| mptcp::Message::parse(data))
    }

    /// Adds an MPTCP option.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when the others exceed 40 bytes. Whether all options
    /// together fit is [`Options::fits`]'s.
    pub fn push_mptcp(&mut self, message: &mptcp::Message) -> Result<(), Error> {
        self.push_other(kind::MPTCP, &message.to_data())
    }

    /// Whether there are options without a field of their own.
    #[inline]
    pub fn has_others(&self) -> bool {
        !self.others.0.is_empty()
    }

    /// Whether all options fit into a header. What was parsed always does.
    pub fn fits(&self) -> bool {
        self.write(Layout::Packed).complete
    }

    /// Length on the wire in bytes with padding, 0 to 40. Options that do not
    /// [fit](Options::fits) are left out.
    #[inline]
    pub fn wire_len(&self) -> usize {
        match self.plain() {
            Some(None) => 0,
            Some(Some(_)) => ALIGNED_TIMESTAMPS_LEN,
            None => self.encode().len(),
        }
    }

    /// Writes the options to the start of `bytes`; returns [`Options::wire_len`].
    ///
    /// # Panics
    /// When `bytes` is shorter than that.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        match self.plain() {
            Some(None) => 0,
            Some(Some(timestamps)) => {
                bytes[..ALIGNED_TIMESTAMPS_LEN].copy_from_slice(&timestamps.aligned());
                ALIGNED_TIMESTAMPS_LEN
            }
            None => {
                let encoded = self.encode();
                bytes[..encoded.len()].copy_from_slice(&encoded);
                encoded.len()
            }
        }
    }

    /// With no options but perhaps timestamps, those.
    #[inline]
    fn plain(&self) -> Option<Option<Timestamps>> {
        let plain = self.others.0.is_empty()
            && self.sack.is_empty()
            && self.mss.is_none()
            && self.window_scale.is_none()
            && !self.sack_permitted
            && self.fast_open.is_none()
            && self.user_timeout.is_none();
        plain.then_some(self.timestamps)
    }

    /// The bytes on the wire, padded to a multiple of four.
    fn encode(&self) -> ArrayVec<u8, OPTIONS_LEN_MAX> {
        let mut writer = self.write(Layout::Aligned);
        if !writer.complete {
            writer = self.write(Layout::Packed);
        }
        // RFC 9293 §3.1: "the content of the header beyond the End of Option List
        // Option MUST be header padding of zeros". 40 is a multiple of four, so
        // there is room.
        while writer.bytes.len() % 4 != 0 {
            writer.bytes.push(kind::END);
        }
        writer.bytes
    }

    /// In the order of Linux's tcp_options_write; user timeout, which Linux does
    /// not send, in front of the others.
    fn write(&self, layout: Layout) -> Writer {
        let mut writer = Writer { bytes: ArrayVec::new(), complete: true, layout };
        if let Some(mss) = self.mss {
            writer.option(kind::MSS, &mss.to_be_bytes());
        }
        match self.timestamps {
            // SACK permitted takes the place of the padding.
            Some(timestamps) if self.sack_permitted => {
                writer.bare_option(kind::SACK_PERMITTED, &[]);
                writer.bare_option(kind::TIMESTAMPS, &timestamps.to_bytes());
            }
            Some(timestamps) => writer.padded_option(kind::TIMESTAMPS, &timestamps.to_bytes()),
            None if self.sack_permitted => writer.padded_option(kind::SACK_PERMITTED, &[]),
            None => {}
        }
        if let Some(shift) = self.window_scale {
            writer.padded_option(kind::WINDOW_SCALE, &[shift]);
        }
        if !self.sack.is_empty() {
            let mut blocks = ArrayVec::<u8, 32>::new();
            for (start, end) in &self.sack {
                // Four blocks are 32 bytes.
                blocks.extend(start.0.to_be_bytes());
                blocks.extend(end.0.to_be_bytes());
            }
            writer.padded_option(kind::SACK, &blocks);
        }
        if let Some(fast_open) = &self.fast_open {
            let mut data = ArrayVec::<u8, 18>::new();
            if fast_open.experimental {
                data.extend(FAST_OPEN_MAGIC);
            }
            data.extend(fast_open.cookie.iter().copied());
            let kind = if fast_open.experimental { kind::EXPERIMENTAL } else { kind::FAST_OPEN };
            writer.option(kind, &data);
        }
        if let Some(timeout) = self.user_timeout {
            let granularity = if timeout.minutes { 0x8000 } else { 0 };
            let field = granularity | timeout.value & 0x7fff;
            writer.option(kind::USER_TIMEOUT, &field.to_be_bytes());
        }
        for (kind, data) in self.others() {
            writer.option(kind, data);
        }
        writer
    }
}

/// `NOP NOP kind length value echo`.
const ALIGNED_TIMESTAMPS_LEN: usize = 12;

impl Timestamps {
    fn to_bytes(self) -> [u8; 8] {
        let [a, b, c, d] = self.value.to_be_bytes();
        let [e, f, g, h] = self.echo.to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }

    #[inline]
    fn aligned(self) -> [u8; ALIGNED_TIMESTAMPS_LEN] {
        let [a, b, c, d, e, f, g, h] = self.to_bytes();
        [kind::NOP, kind::NOP, kind::TIMESTAMPS, 10, a, b, c, d, e, f, g, h]
    }
}

/// A cookie of Fast Open (RFC 7413 §4.1.1: "4 to 16 bytes", an even number), or nothing, which asks for one.
fn is_cookie(bytes: &[u8]) -> bool {
    bytes.is_empty() || (4..=16).contains(&bytes.len()) && bytes.len().is_multiple_of(2)
}

impl FastOpen {
    /// The option with a cookie, of which 16 bytes are kept.
    pub fn new(cookie: &[u8], experimental: bool) -> FastOpen {
        FastOpen { cookie: cookie.iter().copied().take(16).collect(), experimental }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Linux's, with padding.
    Aligned,
    /// Without.
    Packed,
}

struct Writer {
    bytes: ArrayVec<u8, OPTIONS_LEN_MAX>,
    /// Everything had room.
    complete: bool,
    layout: Layout,
}

impl Writer {
    /// Appends all of `bytes`, or nothing.
    fn raw(&mut self, bytes: &[u8]) {
        if self.bytes.try_extend_from_slice(bytes).is_err() {
            self.complete = false;
        }
    }

    /// The padding of an option that ends `len` bytes further.
    fn padding(&self, len: usize) -> &'static [u8] {
        let nops = &[kind::NOP; 3];
        match self.layout {
            Layout::Aligned => &nops[..(self.bytes.len() + len).next_multiple_of(4) - self.bytes.len() - len],
            Layout::Packed => &[],
        }
    }

    /// An option with its padding in front.
    fn padded_option(&mut self, kind: u8, data: &[u8]) {
        let padding = self.padding(data.len() + 2);
        self.raw(padding);
        self.bare_option(kind, data);
    }

    /// An option with its padding behind.
    fn option(&mut self, kind: u8, data: &[u8]) {
        self.bare_option(kind, data);
        let padding = self.padding(0);
        self.raw(padding);
    }

    fn bare_option(&mut self, kind: u8, data: &[u8]) {
        if data.len() + 2 > self.bytes.remaining_capacity() {
            self.complete = false;
            return;
        }
        // data is at most 38 bytes here.
        self.raw(&[kind, data.len() as u8 + 2]);
        self.raw(data);
    }
}

/// Iterator over options as kind and data; ends with the list or an error.
#[derive(Clone)]
struct RawOptions<'a> {
    rest: &'a [u8],
}

impl<'a> RawOptions<'a> {
    fn new(rest: &'a [u8]) -> RawOptions<'a> {
        RawOptions { rest }
    }
}

impl<'a> Iterator for RawOptions<'a> {
    type Item = Result<(u8, &'a [u8]), Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.rest {
                [] | [kind::END, ..] => return None,
                [kind::NOP, rest @ ..] => self.rest = rest,
                &[kind, len, ..] => {
                    // A length below 2 makes the range empty or backwards: None.
                    let Some(data) = self.rest.get(2..usize::from(len)) else {
                        break;
                    };
                    self.rest = &self.rest[usize::from(len)..];
                    return Some(Ok((kind, data)));
                }
                [_] => break,
            }
        }
        self.rest = &[];
        Some(Err(Error::BadOptionLength))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(options: &Options) -> Vec<u8> {
        let mut bytes = vec![0xa5; options.wire_len()];
        assert_eq!(options.emit(&mut bytes), bytes.len());
        bytes
    }

    #[test]
    fn a_syn_ack_of_linux_with_fast_open() {
        // From tcp-fast-open.pcap.
        let bytes: [u8; 32] = [
            0x02, 0x04, 0x04, 0xd8, 0x04, 0x02, 0x08, 0x0a, 0xd1, 0xe6, 0x2c, 0x58, 0xb1, 0xd8, 0x1c, 0x3d, 0x01, 0x03, 0x03, 0x0a, 0x22,
            0x0a, 0x37, 0x07, 0xda, 0x58, 0xe3, 0x8e, 0xeb, 0xe6, 0x01, 0x01,
        ];
        let options = Options {
            mss: Some(1240),
            window_scale: Some(10),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 0xd1e6_2c58, echo: 0xb1d8_1c3d }),
            fast_open: Some(FastOpen::new(&[0x37, 0x07, 0xda, 0x58, 0xe3, 0x8e, 0xeb, 0xe6], false)),
            ..Options::default()
        };
        assert_eq!(Options::parse(&bytes), options);
        assert_eq!(wire(&options), bytes);
    }

    #[test]
    fn layouts_without_timestamps() {
        let options = Options { mss: Some(1460), sack_permitted: true, window_scale: Some(7), ..Options::default() };
        // As tcpdump says of Linux: mss 1460,nop,nop,sackOK,nop,wscale 7.
        assert_eq!(wire(&options), [2, 4, 5, 0xb4, 1, 1, 4, 2, 1, 3, 3, 7]);
        assert_eq!(wire(&Options::default()), []);
    }

    #[test]
    fn the_experimental_fast_open() {
        let options = Options { fast_open: Some(FastOpen::new(&[1, 2, 3, 4], true)), ..Options::default() };
        assert_eq!(wire(&options), [254, 8, 0xf9, 0x89, 1, 2, 3, 4]);
        assert_eq!(Options::parse(&wire(&options)), options);
        // Another experiment is kept as it is.
        let other = Options::parse(&[254, 4, 0xf9, 0x88]);
        assert_eq!(other.fast_open, None);
        assert_eq!(other.others().collect::<Vec<_>>(), [(254, &[0xf9, 0x88][..])]);
    }

    #[test]
    fn user_timeout_has_two_units() {
        let timeout = Some(UserTimeout { minutes: true, value: 5 });
        let options = Options { user_timeout: timeout, ..Options::default() };
        assert_eq!(wire(&options), [28, 4, 0x80, 5]);
        assert_eq!(Options::parse(&[28, 4, 0x80, 5]), options);
    }

    #[test]
    fn reading_stops_where_linux_stops() {
        let mss = Options { mss: Some(1460), ..Options::default() };
        for tail in [
            // Lengths of 0 and 1, one past the end, no length at all.
            &[8, 0, 0, 0][..],
            &[8, 1, 0, 0],
            &[8, 10, 0, 0],
            &[1, 1, 1, 8],
        ] {
            let bytes = [&[2, 4, 5, 0xb4], tail].concat();
            assert_eq!(Options::parse(&bytes), mss, "{tail:?}");
            assert_eq!(Options::validate(&bytes), Err(Error::BadOptionLength));
        }
        let ended = [2, 4, 5, 0xb4, 0, 0xff, 0xff, 0xff];
        assert_eq!(Options::parse(&ended), mss);
        assert_eq!(Options::validate(&ended), Ok(()));
    }

    #[test]
    fn a_known_kind_with_a_foreign_length_is_kept_as_bytes() {
        for bytes in [&[2, 3, 5, 1][..], &[3, 4, 1, 1], &[5, 4, 1, 1], &[8, 4, 1, 1]] {
            let options = Options::parse(bytes);
            assert_eq!(options.others().count(), 1, "{bytes:?}");
            assert_eq!(wire(&options), bytes);
        }
    }

    #[test]
    fn the_last_of_two_counts() {
        let options = Options::parse(&[2, 4, 0, 1, 2, 4, 0, 2]);
        assert_eq!(options, Options { mss: Some(2), ..Options::default() });
    }

    #[test]
    fn tight_options_lose_their_padding() {
        // Read from 40 bytes without padding; Linux's layout would need 44.
        let bytes: [u8; 40] = [
            0x02, 0x04, 0x05, 0xb4, 0x03, 0x03, 0x0a, 0x04, 0x02, 0x08, 0x0a, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x02, 0x1e, 0x14,
            0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x01,
        ];
        let options = Options::parse(&bytes);
        assert!(options.fits());
        let again = wire(&options);
        assert_eq!(again.len(), 40);
        assert_eq!(Options::parse(&again), options);
    }

    #[test]
    fn too_many_options_are_left_out_not_cut() {
        let mut options =
            Options { timestamps: Some(Timestamps::default()), sack: (0..4).map(|i| (Seq(i), Seq(i + 1))).collect(), ..Options::default() };
        assert!(!options.fits());
        let again = Options::parse(&wire(&options));
        assert_eq!((again.timestamps, again.sack.len()), (options.timestamps, 0));
        options.sack.pop();
        assert!(options.fits());
        assert_eq!(Options::parse(&wire(&options)), options);
        assert_eq!(options.push_other(77, &[0; 38]), Ok(()));
        assert_eq!(options.push_other(78, &[]), Err(Error::NoRoom));
    }

    #[test]
    fn mptcp_in_front_of_an_unknown_option() {
        let mut options = Options::default();
        let prio = mptcp::Message::Prio { backup: true };
        assert_eq!(options.push_mptcp(&prio), Ok(()));
        assert_eq!(options.push_other(77, &[9]), Ok(()));
        assert_eq!(options.push_other(kind::MPTCP, &[0xf0]), Ok(()));
        assert_eq!(wire(&options), [30, 3, 0x51, 1, 77, 3, 9, 1, 30, 3, 0xf0, 1]);
        let read: Vec<_> = options.mptcp().collect();
        assert_eq!(read, [Ok(prio), Err(Error::UnknownType)]);
    }
}
