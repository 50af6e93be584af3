//! DHCP for IPv4 (RFC 2131), its options (RFC 2132), long ones (RFC 3396) and classless routes (RFC 3442).
//!
//! ```text
//! 0 op | 1 htype | 2 hlen | 3 hops | 4 xid | 8 secs | 10 flags | 12 ciaddr | 16 yiaddr | 20 siaddr | 24 giaddr
//! 28 chaddr | 44 sname | 108 file | 236 cookie | 240 options
//! option  0 code | 1 length n | 2 n bytes; padding (0) and the end (255) are one byte
//! route   0 bits of the prefix | 1 as many bytes of the destination as they fill | router
//! ```
//!
//! [`Header`] is the fixed part without `sname` and `file`, which are read for the
//! options that option 52 says are there, and written as zeroes. What stands in
//! several options of one code is one value: RFC 3396 §5.

use core::net::Ipv4Addr;

use crate::Error;
use crate::bytes::{array_at, put, put_u16, put_u32, u16_at, u32_at};

mod field {
    use core::ops::Range;
    pub const OP: usize = 0;
    pub const HARDWARE_TYPE: usize = 1;
    pub const HARDWARE_LEN: usize = 2;
    pub const HOPS: usize = 3;
    pub const XID: usize = 4;
    pub const SECS: usize = 8;
    pub const FLAGS: usize = 10;
    pub const CLIENT: usize = 12;
    pub const YOURS: usize = 16;
    pub const NEXT_SERVER: usize = 20;
    pub const RELAY: usize = 24;
    pub const HARDWARE: usize = 28;
    pub const SNAME: Range<usize> = 44..108;
    pub const FILE: Range<usize> = 108..236;
    pub const COOKIE: usize = 236;
}

/// Length of the fixed part, the cookie among it, in bytes.
pub const HEADER_LEN: usize = 240;
/// What a message is padded to: RFC 1542 §2.1, "a minimum of 300 octets".
pub const MESSAGE_LEN_MIN: usize = 300;
/// The port that servers listen at.
pub const SERVER_PORT: u16 = 67;
/// The port that clients listen at.
pub const CLIENT_PORT: u16 = 68;
/// In `flags`: answers are to go to everybody.
pub const BROADCAST: u16 = 0x8000;
/// `htype` of Ethernet (RFC 1700).
pub const ETHERNET: u8 = 1;

/// RFC 2131 §3: "99, 130, 83 and 99", in decimal.
const COOKIE: [u8; 4] = [99, 130, 83, 99];
const OPTION_LEN_MAX: usize = 255;
const HARDWARE_LEN_MAX: usize = 16;

/// Who a message is from: the field `op`.
pub mod op {
    /// A client's.
    pub const REQUEST: u8 = 1;
    /// A server's.
    pub const REPLY: u8 = 2;
}

/// Codes of options (IANA "BOOTP Vendor Extensions and DHCP Options").
pub mod code {
    /// One byte, nothing.
    pub const PADDING: u8 = 0;
    /// The network's mask.
    pub const SUBNET_MASK: u8 = 1;
    /// Routers, the best first.
    pub const ROUTERS: u8 = 3;
    /// Name servers, the best first.
    pub const NAME_SERVERS: u8 = 6;
    /// What the client is called.
    pub const HOST_NAME: u8 = 12;
    /// Where names without dots are looked for.
    pub const DOMAIN_NAME: u8 = 15;
    /// Largest IP packet of the link.
    pub const INTERFACE_MTU: u8 = 26;
    /// The network's broadcast address.
    pub const BROADCAST_ADDRESS: u8 = 28;
    /// The address that a client would like to have.
    pub const REQUESTED_ADDRESS: u8 = 50;
    /// For how long, seconds.
    pub const LEASE_TIME: u8 = 51;
    /// There are options in `file` (1), `sname` (2) or both (3).
    pub const OVERLOAD: u8 = 52;
    /// See [`MessageType`](super::MessageType).
    pub const MESSAGE_TYPE: u8 = 53;
    /// Which server.
    pub const SERVER_IDENTIFIER: u8 = 54;
    /// What a client wants to know.
    pub const PARAMETERS: u8 = 55;
    /// Largest message that a client takes.
    pub const MESSAGE_LEN_MAX: u8 = 57;
    /// When to ask the server for more time, seconds.
    pub const RENEWAL_TIME: u8 = 58;
    /// When to ask every server for more time, seconds.
    pub const REBINDING_TIME: u8 = 59;
    /// Which client.
    pub const CLIENT_IDENTIFIER: u8 = 61;
    /// Routes to prefixes of any length.
    pub const CLASSLESS_ROUTES: u8 = 121;
    /// One byte, no more options.
    pub const END: u8 = 255;
}

/// What a message is for (RFC 2132 §9.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageType {
    /// Which servers are there?
    Discover = 1,
    /// I am, with this for you.
    Offer = 2,
    /// I want that, or go on having this.
    Request = 3,
    /// Somebody else has that address.
    Decline = 4,
    /// It is yours.
    Ack = 5,
    /// It is not.
    Nak = 6,
    /// I do not need it any more.
    Release = 7,
    /// I have an address; what else is there to know?
    Inform = 8,
}

impl TryFrom<u8> for MessageType {
    type Error = Error;

    fn try_from(value: u8) -> Result<MessageType, Error> {
        Ok(match value {
            1 => MessageType::Discover,
            2 => MessageType::Offer,
            3 => MessageType::Request,
            4 => MessageType::Decline,
            5 => MessageType::Ack,
            6 => MessageType::Nak,
            7 => MessageType::Release,
            8 => MessageType::Inform,
            _ => return Err(Error::UnknownType),
        })
    }
}

/// The fixed part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// See [`op`].
    pub op: u8,
    /// What kind of link-layer address `hardware` is; see [`ETHERNET`].
    pub hardware_type: u8,
    /// How many of its bytes count, 0 to 16.
    pub hardware_len: u8,
    /// Relays on the way.
    pub hops: u8,
    /// What answers are known by.
    pub xid: u32,
    /// For how long the client has been asking, seconds.
    pub secs: u16,
    /// See [`BROADCAST`].
    pub flags: u16,
    /// The client's address, when it has one and answers for it.
    pub client: Ipv4Addr,
    /// The address that the client gets.
    pub yours: Ipv4Addr,
    /// Where the client would boot from.
    pub next_server: Ipv4Addr,
    /// The relay.
    pub relay: Ipv4Addr,
    /// The client's link-layer address.
    pub hardware: [u8; HARDWARE_LEN_MAX],
}

impl Header {
    /// Reads the fixed part; returns it and its length in bytes. Options are
    /// [`Options::parse`]'s.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::UnknownType`] without DHCP's cookie;
    /// [`Error::BadLength`] for a link-layer address of more than 16 bytes.
    pub fn parse(bytes: &[u8]) -> Result<(Header, usize), Error> {
        let m = bytes.first_chunk::<HEADER_LEN>().ok_or(Error::Truncated)?;
        if array_at::<4, HEADER_LEN>(m, field::COOKIE) != COOKIE {
            return Err(Error::UnknownType);
        }
        if usize::from(m[field::HARDWARE_LEN]) > HARDWARE_LEN_MAX {
            return Err(Error::BadLength);
        }
        let address = |at: usize| Ipv4Addr::from(array_at::<4, HEADER_LEN>(m, at));
        let header = Header {
            op: m[field::OP],
            hardware_type: m[field::HARDWARE_TYPE],
            hardware_len: m[field::HARDWARE_LEN],
            hops: m[field::HOPS],
            xid: u32_at(m, field::XID),
            secs: u16_at(m, field::SECS),
            flags: u16_at(m, field::FLAGS),
            client: address(field::CLIENT),
            yours: address(field::YOURS),
            next_server: address(field::NEXT_SERVER),
            relay: address(field::RELAY),
            hardware: array_at(m, field::HARDWARE),
        };
        Ok((header, HEADER_LEN))
    }

    /// Writes the fixed part, with nothing in `sname` and `file`.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`HEADER_LEN`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let bytes = &mut bytes[..HEADER_LEN];
        bytes.fill(0);
        bytes[field::OP] = self.op;
        bytes[field::HARDWARE_TYPE] = self.hardware_type;
        bytes[field::HARDWARE_LEN] = self.hardware_len;
        bytes[field::HOPS] = self.hops;
        put_u32(bytes, field::XID, self.xid);
        put_u16(bytes, field::SECS, self.secs);
        put_u16(bytes, field::FLAGS, self.flags);
        let addresses =
            [(field::CLIENT, self.client), (field::YOURS, self.yours), (field::NEXT_SERVER, self.next_server), (field::RELAY, self.relay)];
        for (at, address) in addresses {
            put(bytes, at, &address.octets());
        }
        put(bytes, field::HARDWARE, &self.hardware);
        put(bytes, field::COOKIE, &COOKIE);
    }

    /// The client's link-layer address, as long as it is.
    pub fn hardware(&self) -> &[u8] {
        &self.hardware[..usize::from(self.hardware_len).min(HARDWARE_LEN_MAX)]
    }
}

/// The options of a message, wherever in it they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options<'a> {
    /// Those behind the cookie, those in `file`, those in `sname`: RFC 3396 §5 has them in this order.
    parts: [&'a [u8]; 3],
}

impl<'a> Options<'a> {
    /// The options of a whole message whose header was read.
    ///
    /// # Errors
    /// [`Error::Truncated`] without a header; [`Error::BadOptionLength`] for an
    /// option that reaches past its part, and for an option 52 that is not one byte;
    /// [`Error::UnknownType`] for one that names no part.
    pub fn parse(message: &'a [u8]) -> Result<Options<'a>, Error> {
        let (header, options) = message.split_at_checked(HEADER_LEN).ok_or(Error::Truncated)?;
        let mut overload = 0;
        for option in Part(options) {
            match option? {
                (code::OVERLOAD, &[value @ 1..=3]) => overload |= value,
                (code::OVERLOAD, &[_]) => return Err(Error::UnknownType),
                (code::OVERLOAD, _) => return Err(Error::BadOptionLength),
                _ => {}
            }
        }
        let more = |bit: u8, at: core::ops::Range<usize>| if overload & bit == 0 { &[][..] } else { &header[at] };
        let parts = [options, more(1, field::FILE), more(2, field::SNAME)];
        for option in parts[1..].iter().flat_map(|part| Part(part)) {
            option?;
        }
        Ok(Options { parts })
    }

    /// Each option with its value, as it stands in the message.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> {
        self.parts.into_iter().flat_map(Part).filter_map(Result::ok)
    }

    /// What an option says: all that stands under its code, joined in `buffer`.
    /// `None`: nothing does.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when it is longer than `buffer`.
    pub fn value<'b>(&self, code: u8, buffer: &'b mut [u8]) -> Result<Option<&'b [u8]>, Error> {
        let (mut len, mut found) = (0, false);
        for (_, part) in self.iter().filter(|(found, _)| *found == code) {
            let room = buffer.get_mut(len..len + part.len()).ok_or(Error::NoRoom)?;
            room.copy_from_slice(part);
            len += part.len();
            found = true;
        }
        Ok(found.then(|| &buffer[..len]))
    }

    /// An option of a fixed length. `None`: it is not there, or of another.
    pub fn fixed<const N: usize>(&self, code: u8) -> Option<[u8; N]> {
        let mut buffer = [0; N];
        let len = self.value(code, &mut buffer).ok()??.len();
        (len == N).then_some(buffer)
    }
}

/// Options up to the end of their part, or an error.
#[derive(Clone)]
struct Part<'a>(&'a [u8]);

impl<'a> Iterator for Part<'a> {
    type Item = Result<(u8, &'a [u8]), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let padding = self.0.iter().take_while(|byte| **byte == code::PADDING).count();
        let (code, rest) = self.0.get(padding..)?.split_first().filter(|(code, _)| **code != code::END)?;
        let value = rest.split_first().and_then(|(len, rest)| rest.split_at_checked(usize::from(*len)));
        let Some((value, rest)) = value else {
            self.0 = &[];
            return Some(Err(Error::BadOptionLength));
        };
        self.0 = rest;
        Some(Ok((*code, value)))
    }
}

/// Writes options one after the other.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Writes to the start of `bytes`, which are what follows a header.
    ///
    /// # Panics
    /// When there are none: the end of the options takes one.
    pub fn new(bytes: &'a mut [u8]) -> Writer<'a> {
        assert!(!bytes.is_empty(), "the end of the options takes a byte");
        Writer { bytes, at: 0 }
    }

    /// Writes an option, in several parts if it is longer than 255 bytes.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; nothing is written.
    pub fn put(&mut self, code: u8, value: &[u8]) -> Result<(), Error> {
        let parts = value.len().div_ceil(OPTION_LEN_MAX).max(1);
        if self.at + parts * 2 + value.len() >= self.bytes.len() {
            return Err(Error::NoRoom);
        }
        // An option without a value is one, too.
        let (first, rest) = value.split_at(value.len().min(OPTION_LEN_MAX));
        for part in core::iter::once(first).chain(rest.chunks(OPTION_LEN_MAX)) {
            self.bytes[self.at] = code;
            self.bytes[self.at + 1] = part.len() as u8;
            put(self.bytes, self.at + 2, part);
            self.at += 2 + part.len();
        }
        Ok(())
    }

    /// Ends the options, with zeroes behind them; returns their length.
    pub fn end(self) -> usize {
        self.bytes[self.at] = code::END;
        self.bytes[self.at + 1..].fill(0);
        self.at + 1
    }
}

/// The addresses that an option holds.
///
/// # Errors
/// [`Error::BadOptionLength`] when it holds none, or a part of one.
pub fn addresses(value: &[u8]) -> Result<impl ExactSizeIterator<Item = Ipv4Addr> + '_, Error> {
    match value.as_chunks::<4>() {
        (addresses @ [_, ..], []) => Ok(addresses.iter().map(|octets| Ipv4Addr::from(*octets))),
        _ => Err(Error::BadOptionLength),
    }
}

/// A route of option 121 (RFC 3442).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Route {
    /// Where to; bits behind the prefix are zero.
    pub destination: Ipv4Addr,
    /// Its length in bits, 0 to 32.
    pub prefix_bits: u8,
    /// By whom; 0.0.0.0: it is on the link.
    pub router: Ipv4Addr,
}

impl Route {
    /// Reads a route at the start of `bytes`; returns it and its length in bytes.
    ///
    /// # Errors
    /// [`Error::BadOptionLength`].
    pub fn parse(bytes: &[u8]) -> Result<(Route, usize), Error> {
        let (bits, rest) = bytes.split_first().filter(|(bits, _)| **bits <= 32).ok_or(Error::BadOptionLength)?;
        let significant = usize::from(bits.div_ceil(8));
        let (told, rest) = rest.split_at_checked(significant).ok_or(Error::BadOptionLength)?;
        let router = rest.first_chunk::<4>().ok_or(Error::BadOptionLength)?;
        let mut destination = [0; 4];
        destination[..significant].copy_from_slice(told);
        let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
        let destination = Ipv4Addr::from_bits(u32::from_be_bytes(destination) & mask);
        let route = Route { destination, prefix_bits: *bits, router: (*router).into() };
        Ok((route, route.len()))
    }

    /// Length on the wire in bytes.
    pub const fn len(&self) -> usize {
        1 + self.prefix_bits.div_ceil(8) as usize + 4
    }

    /// Never: a route has bytes.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the route.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Route::len`], or the prefix longer than 32 bits.
    pub fn emit(&self, bytes: &mut [u8]) {
        let significant = usize::from(self.prefix_bits.div_ceil(8));
        bytes[0] = self.prefix_bits;
        put(bytes, 1, &self.destination.octets()[..significant]);
        put(bytes, 1 + significant, &self.router.octets());
    }
}

/// The routes of option 121, up to an error.
pub fn routes(value: &[u8]) -> impl Iterator<Item = Result<Route, Error>> + '_ {
    let mut rest = value;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let read = Route::parse(rest);
        rest = read.as_ref().map_or(&[][..], |(_, len)| &rest[*len..]);
        Some(read.map(|(route, _)| route))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let mut hardware = [0; 16];
        hardware[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        Header {
            op: op::REPLY,
            hardware_type: ETHERNET,
            hardware_len: 6,
            hops: 0,
            xid: 0x1234,
            secs: 7,
            flags: BROADCAST,
            client: Ipv4Addr::UNSPECIFIED,
            yours: Ipv4Addr::new(10, 77, 0, 2),
            next_server: Ipv4Addr::UNSPECIFIED,
            relay: Ipv4Addr::UNSPECIFIED,
            hardware,
        }
    }

    /// A message with these options, and these in `file` and `sname`.
    fn message(options: &[u8], file: &[u8], sname: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        header().emit(&mut bytes);
        bytes.extend(options);
        put(&mut bytes, field::FILE.start, file);
        put(&mut bytes, field::SNAME.start, sname);
        bytes
    }

    #[test]
    fn an_offer_of_passt() {
        let options = [
            0x01, 4, 255, 255, 255, 0, 0x03, 4, 10, 77, 0, 1, 0x06, 4, 10, 255, 255, 53, 0x1a, 2, 5, 0xdc, 0x33, 4, 255, 255, 255, 255,
            0x35, 1, 2, 0x36, 4, 10, 77, 0, 1, 255, 0, 0,
        ];
        let bytes = message(&options, &[], &[]);
        assert_eq!(Header::parse(&bytes), Ok((header(), HEADER_LEN)));
        assert_eq!(header().hardware(), [2, 0, 0, 0, 0, 1]);
        let read = Options::parse(&bytes).unwrap();
        assert_eq!(read.fixed(code::MESSAGE_TYPE).map(|[kind]| MessageType::try_from(kind)), Some(Ok(MessageType::Offer)));
        assert_eq!(read.fixed(code::SUBNET_MASK), Some([255, 255, 255, 0]));
        assert_eq!(read.fixed::<2>(code::INTERFACE_MTU).map(u16::from_be_bytes), Some(1500));
        assert_eq!((read.fixed::<4>(code::RENEWAL_TIME), read.fixed::<2>(code::LEASE_TIME)), (None, None));
        let mut out = vec![0xa5; options.len()];
        let mut writer = Writer::new(&mut out);
        for (code, value) in read.iter() {
            assert_eq!(writer.put(code, value), Ok(()));
        }
        assert_eq!((writer.end(), &out[..]), (38, &options[..]));
        assert_eq!(Header::parse(&bytes[..239]), Err(Error::Truncated));
        assert_eq!(Header::parse(&[0; 240]), Err(Error::UnknownType));
    }

    #[test]
    fn options_stand_in_three_parts_and_in_pieces() {
        // RFC 3396 §5: what stands behind the cookie comes first, then `file`, then `sname`.
        let options = [code::OVERLOAD, 1, 3, code::DOMAIN_NAME, 2, b'a', b'.', code::END, code::DOMAIN_NAME, 1, b'-'];
        let bytes = message(&options, &[0, code::DOMAIN_NAME, 1, b'b', code::END], &[code::DOMAIN_NAME, 2, b'.', b'c', code::END]);
        let read = Options::parse(&bytes).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(read.value(code::DOMAIN_NAME, &mut buffer), Ok(Some(&b"a.b.c"[..])));
        assert_eq!(read.value(code::DOMAIN_NAME, &mut buffer[..4]), Err(Error::NoRoom));
        assert_eq!(read.value(code::ROUTERS, &mut buffer), Ok(None));
        // Without option 52 the two parts hold something else.
        let bytes = message(&options[3..], &[1, 200], &[1, 200]);
        assert_eq!(Options::parse(&bytes).map(|read| read.iter().count()), Ok(1));
    }

    #[test]
    fn options_that_lie() {
        let read = |options: &[u8], file: &[u8]| Options::parse(&message(options, file, &[])).map(|read| read.iter().count());
        assert_eq!(read(&[], &[]), Ok(0));
        assert_eq!(read(&[0, 0, 0], &[]), Ok(0));
        assert_eq!(read(&[1, 4, 255, 255, 255], &[]), Err(Error::BadOptionLength));
        assert_eq!(read(&[1], &[]), Err(Error::BadOptionLength));
        assert_eq!(read(&[code::OVERLOAD, 1, 4, code::END], &[]), Err(Error::UnknownType));
        assert_eq!(read(&[code::OVERLOAD, 2, 1, 1, code::END], &[]), Err(Error::BadOptionLength));
        assert_eq!(read(&[code::OVERLOAD, 1, 1, code::END], &[1, 200]), Err(Error::BadOptionLength));
        // What is said in `file` about parts is not listened to.
        assert_eq!(read(&[code::OVERLOAD, 1, 1, code::END], &[code::OVERLOAD, 1, 2, code::END]), Ok(2));
        assert_eq!(Options::parse(&[0; 239]), Err(Error::Truncated));
    }

    #[test]
    fn long_values_are_split() {
        let value: Vec<u8> = (0..600).map(|at| at as u8).collect();
        let mut out = vec![0xa5; 700];
        let mut writer = Writer::new(&mut out);
        assert_eq!(writer.put(code::NAME_SERVERS, &value), Ok(()));
        assert_eq!(writer.put(code::ROUTERS, &[0; 92]), Err(Error::NoRoom));
        assert_eq!(writer.put(code::ROUTERS, &[]), Ok(()));
        assert_eq!(writer.end(), 600 + 3 * 2 + 2 + 1);
        let bytes = message(&out, &[], &[]);
        let mut buffer = [0; 600];
        assert_eq!(Options::parse(&bytes).unwrap().value(code::NAME_SERVERS, &mut buffer), Ok(Some(&value[..])));
    }

    #[test]
    fn lists_of_addresses() {
        let all = |value: &[u8]| addresses(value).map(|all| all.map(|address| address.octets()[3]).collect::<Vec<_>>());
        assert_eq!(all(&[10, 0, 0, 1, 10, 0, 0, 2]), Ok(vec![1, 2]));
        assert_eq!([all(&[]), all(&[10, 0, 0, 1, 10])], [Err(Error::BadOptionLength), Err(Error::BadOptionLength)]);
    }

    #[test]
    fn classless_routes_of_the_rfc() {
        // RFC 3442: "10.0.0.0 255.0.0.0 becomes 8.10", "10.17.0.0 255.255.0.0 16.10.17", "0 0: 0"; bits behind the prefix do not count.
        let value = [8, 10, 10, 0, 0, 1, 16, 10, 17, 0, 0, 0, 0, 0, 10, 0, 0, 2, 20, 10, 27, 129, 10, 0, 0, 3];
        let text = |route: Route| format!("{}/{} {}", route.destination, route.prefix_bits, route.router);
        let read: Vec<Result<String, Error>> = routes(&value).map(|route| route.map(text)).collect();
        let right = ["10.0.0.0/8 10.0.0.1", "10.17.0.0/16 0.0.0.0", "0.0.0.0/0 10.0.0.2", "10.27.128.0/20 10.0.0.3"];
        assert_eq!(read, right.map(|text| Ok(text.to_owned())));
        for bad in [&[33, 1, 2, 3, 4, 5, 1, 1, 1, 1][..], &[8, 10, 10, 0, 0], &[24, 10]] {
            assert_eq!(routes(bad).collect::<Vec<_>>(), [Err(Error::BadOptionLength)]);
        }
    }
}
