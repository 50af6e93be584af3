//! State that is large or holds buffers, written and read field by field.
//!
//! [`Writer`] and [`Reader`] know what a serialiser does not: the time, so that an instant travels as its distance from it, and a table beside
//! the bytes, into which buffers go by reference. Numbers are postcard's variable-length ones; what a type declares with [`fields!`](crate::fields) is
//! written in that order, without names. A schema's version stands in its kind; whoever changes a declared type raises it.
//!
//! Reading refuses, and never panics: lengths are checked against what is left before memory is taken, a checksum stands at the end.

use super::{State, StateError, leb128};
use crate::time::{Duration, Instant};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use weft_wire::tcp::Seq;
use xxhash_rust::xxh3::xxh3_64;

/// An instant is written as this far away at most: 146 years.
const DISTANCE_NS_MAX: u64 = 1 << 62;
/// Bytes of the checksum.
const SUM_BYTES: usize = 8;

/// Why state cannot be read: what the reader found, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage(pub String);

impl Damage {
    /// What was found.
    pub fn new(why: impl Display) -> Damage {
        Damage(why.to_string())
    }
    /// As the error of a kind's state.
    pub fn of(self, kind: &str) -> StateError {
        StateError::Damaged { kind: kind.to_owned(), why: self.0 }
    }
}

/// Something that state consists of.
pub trait Field: Sized {
    /// Writes it.
    fn write(&self, out: &mut Writer);
    /// Reads it back.
    ///
    /// # Errors
    /// What does not follow the schema.
    fn read(from: &mut Reader<'_>) -> Result<Self, Damage>;
}

/// Takes state down.
#[derive(Debug)]
pub struct Writer {
    now: Instant,
    bytes: Vec<u8>,
    buffers: Vec<Bytes>,
}

impl Writer {
    /// For state as it stands at `now`.
    pub fn new(now: Instant) -> Writer {
        Writer { now, bytes: Vec::with_capacity(4096), buffers: Vec::new() }
    }
    /// Makes room for so many bytes at once: what is large need not be moved as it grows.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }
    /// The time that instants are written against.
    pub fn now(&self) -> Instant {
        self.now
    }
    /// Writes one field.
    #[inline]
    pub fn put<T: Field>(&mut self, field: &T) {
        field.write(self);
    }
    /// Writes a byte.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }
    /// Writes a number: seven bits a byte, the lowest first.
    #[inline]
    pub fn number(&mut self, number: u64) {
        if number < 0x80 {
            return self.bytes.push(number as u8);
        }
        if number >> (7 * leb128::MOST) != 0 {
            return self.long_number(number);
        }
        let (spread, length) = leb128::spread(number);
        // All eight and then cut: a copy of a known length needs no call.
        let end = self.bytes.len() + length;
        self.bytes.extend_from_slice(&spread.to_le_bytes());
        self.bytes.truncate(end);
    }
    /// One of nine bytes or ten.
    fn long_number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
    /// Writes a number that is small on both sides of zero.
    #[inline]
    pub fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63) as u64);
    }
    /// Writes bytes with their length in front.
    pub fn content(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }
    /// Writes what has a serialiser, by postcard.
    pub fn serialised<T: serde::Serialize>(&mut self, value: &T) {
        // It fails for types without a known length only, which no schema has; were there one, its reader would refuse nothing instead.
        if let Ok(bytes) = postcard::to_allocvec(value) {
            self.bytes.extend_from_slice(&bytes);
        }
    }
    /// The whole as state of a kind.
    pub fn finish(mut self, kind: &str, version: u32) -> State {
        let lengths: Vec<usize> = self.buffers.iter().map(Bytes::len).collect();
        self.number(lengths.len() as u64);
        lengths.iter().for_each(|length| self.number(*length as u64));
        let sum = xxh3_64(&self.bytes);
        self.bytes.extend_from_slice(&sum.to_le_bytes());
        State { kind: kind.to_owned(), version, bytes: self.bytes, buffers: self.buffers }
    }
}

/// Reads state.
#[derive(Debug)]
pub struct Reader<'a> {
    version: u32,
    now: Instant,
    bytes: &'a [u8],
    buffers: &'a [Bytes],
}

impl<'a> Reader<'a> {
    /// Reads state that a [`Writer`] has finished, on a clock that stands at `now`.
    ///
    /// # Errors
    /// Another kind, another version, or damage.
    pub fn new(state: &'a State, kind: &str, version: u32, now: Instant) -> Result<Reader<'a>, StateError> {
        state.is_of(kind, version)?;
        let damaged = |why: &str| Damage::new(why).of(kind);
        let (bytes, sum) = state.bytes.split_last_chunk::<SUM_BYTES>().ok_or_else(|| damaged("it is cut short"))?;
        if xxh3_64(bytes) != u64::from_le_bytes(*sum) {
            return Err(damaged("its checksum is another"));
        }
        Ok(Reader { version, now, bytes, buffers: &state.buffers })
    }
    /// The version of the schema that it was written by.
    pub fn version(&self) -> u32 {
        self.version
    }
    /// The time that instants are read against.
    pub fn now(&self) -> Instant {
        self.now
    }
    /// Reads one field.
    ///
    /// # Errors
    /// What does not follow the schema.
    #[inline]
    pub fn take<T: Field>(&mut self) -> Result<T, Damage> {
        T::read(self)
    }
    /// Reads a byte.
    ///
    /// # Errors
    /// There is none left.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Damage> {
        let (first, rest) = self.bytes.split_first().ok_or_else(|| Damage::new("it is cut short"))?;
        self.bytes = rest;
        Ok(*first)
    }
    /// Reads a number.
    ///
    /// # Errors
    /// Too long, or cut short.
    #[inline]
    pub fn number(&mut self) -> Result<u64, Damage> {
        let Some(first) = self.bytes.first_chunk().copied().map(u64::from_le_bytes) else { return self.long_number() };
        if first & 0x80 == 0 {
            self.bytes = &self.bytes[1..];
            return Ok(first & 0x7f);
        }
        match leb128::gather(first) {
            Some((number, length)) => {
                self.bytes = &self.bytes[length..];
                Ok(number)
            }
            None => self.long_number(),
        }
    }
    /// One of nine bytes or ten, or one near the end.
    fn long_number(&mut self) -> Result<u64, Damage> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let next = self.byte()?;
            if shift == 63 && next > 1 {
                break;
            }
            number |= u64::from(next & 0x7f) << shift;
            if next < 0x80 {
                return Ok(number);
            }
        }
        Err(Damage::new("a number has more than 64 bits"))
    }
    /// Reads a number that is small on both sides of zero.
    ///
    /// # Errors
    /// As [`Reader::number`].
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Damage> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
    /// Reads a count of things that take a byte each at least, `most` of them.
    ///
    /// # Errors
    /// More than there can be.
    pub fn count(&mut self, most: usize) -> Result<usize, Damage> {
        let count = self.number()?;
        let fits = usize::try_from(count).ok().filter(|count| *count <= most && *count <= self.bytes.len());
        fits.ok_or_else(|| Damage::new(format_args!("{count} entries where {} can be", most.min(self.bytes.len()))))
    }
    /// Reads bytes with their length in front.
    ///
    /// # Errors
    /// More than there are.
    pub fn content(&mut self) -> Result<&'a [u8], Damage> {
        let length = self.count(usize::MAX)?;
        let (content, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Ok(content)
    }
    /// Reads what was written by [`Writer::serialised`].
    ///
    /// # Errors
    /// What postcard says.
    pub fn serialised<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, Damage> {
        let (value, rest) = postcard::take_from_bytes(self.bytes).map_err(Damage::new)?;
        self.bytes = rest;
        Ok(value)
    }
    /// Everything has been read: nothing may be left, and the buffers must be those that were there.
    ///
    /// # Errors
    /// Otherwise.
    pub fn finish(mut self) -> Result<(), Damage> {
        let buffers = self.count(usize::MAX)?;
        if buffers != self.buffers.len() {
            return Err(Damage::new(format_args!("{} buffers instead of {buffers}", self.buffers.len())));
        }
        for buffer in self.buffers {
            if self.number()? != buffer.len() as u64 {
                return Err(Damage::new("a buffer has another length"));
            }
        }
        if self.bytes.is_empty() { Ok(()) } else { Err(Damage::new(format_args!("{} bytes too many", self.bytes.len()))) }
    }
}

/// Declares what of a type belongs to its state: all fields of a struct, in order (one that is left out does not compile), or the values of an
/// enum without fields.
#[macro_export]
macro_rules! fields {
    (struct $type:ty { $($field:ident),+ $(,)? }) => {
        impl $crate::state::Field for $type {
            fn write(&self, out: &mut $crate::state::Writer) {
                let Self { $($field),+ } = self;
                $(out.put($field);)+
            }
            fn read(from: &mut $crate::state::Reader<'_>) -> Result<Self, $crate::state::Damage> {
                Ok(Self { $($field: from.take()?),+ })
            }
        }
    };
    (enum $type:ty { $($variant:ident = $number:literal),+ $(,)? }) => {
        impl $crate::state::Field for $type {
            fn write(&self, out: &mut $crate::state::Writer) {
                out.byte(match self { $(Self::$variant => $number),+ });
            }
            fn read(from: &mut $crate::state::Reader<'_>) -> Result<Self, $crate::state::Damage> {
                match from.byte()? {
                    $($number => Ok(Self::$variant),)+
                    other => Err($crate::state::Damage::new(format_args!("{} has no value {other}", stringify!($type)))),
                }
            }
        }
    };
}

macro_rules! unsigned {
    ($($type:ty),+) => {$(
        impl Field for $type {
            #[inline]
            fn write(&self, out: &mut Writer) {
                out.number(u64::from(*self));
            }
            #[inline]
            fn read(from: &mut Reader<'_>) -> Result<$type, Damage> {
                let number = from.number()?;
                <$type>::try_from(number).map_err(|_| Damage::new(format_args!("{number} does not fit {}", stringify!($type))))
            }
        }
    )+};
}
unsigned!(u16, u32, u64);

macro_rules! signed {
    ($($type:ty),+) => {$(
        impl Field for $type {
            #[inline]
            fn write(&self, out: &mut Writer) {
                out.signed(i64::from(*self));
            }
            #[inline]
            fn read(from: &mut Reader<'_>) -> Result<$type, Damage> {
                let number = from.signed()?;
                <$type>::try_from(number).map_err(|_| Damage::new(format_args!("{number} does not fit {}", stringify!($type))))
            }
        }
    )+};
}
signed!(i16, i32, i64);

impl Field for usize {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.number(*self as u64);
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<usize, Damage> {
        let number = from.number()?;
        usize::try_from(number).map_err(|_| Damage::new(format_args!("{number} does not fit a size")))
    }
}

impl Field for u8 {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.byte(*self);
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<u8, Damage> {
        from.byte()
    }
}

impl Field for bool {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.byte(u8::from(*self));
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<bool, Damage> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Damage::new(format_args!("{other} is neither true nor false"))),
        }
    }
}

/// As distance from now, so that it survives a change of clock; never stays never.
impl Field for Instant {
    #[inline]
    fn write(&self, out: &mut Writer) {
        match *self {
            Instant::FAR_FUTURE => out.byte(0),
            at => {
                // Zigzag as in `signed`, and one more for what stands for never.
                let (at, now) = (at.as_nanos(), out.now.as_nanos());
                let twice = at.abs_diff(now).min(DISTANCE_NS_MAX) << 1;
                out.number(if at < now { twice } else { twice + 1 });
            }
        }
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Instant, Damage> {
        let Some(number) = from.number()?.checked_sub(1) else { return Ok(Instant::FAR_FUTURE) };
        let distance = (number >> 1) as i64 ^ -((number & 1) as i64);
        let now = from.now.as_nanos();
        // What was before this clock began was at its beginning.
        Ok(Instant::from_nanos(now.saturating_add_signed(distance).min(u64::MAX - 1)))
    }
}

/// In nanoseconds: up to 584 years.
impl Field for Duration {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.number(u64::try_from(self.as_nanos()).unwrap_or(u64::MAX));
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Duration, Damage> {
        from.number().map(Duration::from_nanos)
    }
}

/// By reference: its place in the table of buffers.
impl Field for Bytes {
    #[inline]
    fn write(&self, out: &mut Writer) {
        if self.is_empty() {
            return out.number(0);
        }
        out.buffers.push(self.clone());
        out.number(out.buffers.len() as u64);
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Bytes, Damage> {
        let Some(index) = from.number()?.checked_sub(1) else { return Ok(Bytes::new()) };
        let found = usize::try_from(index).ok().and_then(|index| from.buffers.get(index));
        found.cloned().ok_or_else(|| Damage::new(format_args!("there is no buffer {index}")))
    }
}

impl Field for String {
    fn write(&self, out: &mut Writer) {
        out.content(self.as_bytes());
    }
    fn read(from: &mut Reader<'_>) -> Result<String, Damage> {
        std::str::from_utf8(from.content()?).map(str::to_owned).map_err(Damage::new)
    }
}

impl<T: Field> Field for Option<T> {
    #[inline]
    fn write(&self, out: &mut Writer) {
        match self {
            None => out.byte(0),
            Some(value) => {
                out.byte(1);
                value.write(out);
            }
        }
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Option<T>, Damage> {
        if bool::read(from)? { T::read(from).map(Some) } else { Ok(None) }
    }
}

macro_rules! lists {
    ($($list:ident $push:ident),+) => {$(
        impl<T: Field> Field for $list<T> {
            fn write(&self, out: &mut Writer) {
                out.number(self.len() as u64);
                self.iter().for_each(|value| value.write(out));
            }
            fn read(from: &mut Reader<'_>) -> Result<$list<T>, Damage> {
                let count = from.count(usize::MAX)?;
                // An entry may be much larger in memory than a byte: not all is taken on a promise.
                let mut list = $list::with_capacity(count.min(1024));
                for _ in 0..count {
                    list.$push(T::read(from)?);
                }
                Ok(list)
            }
        }
    )+};
}
lists!(Vec push, VecDeque push_back);

impl<K: Field + Ord, V: Field> Field for BTreeMap<K, V> {
    fn write(&self, out: &mut Writer) {
        out.number(self.len() as u64);
        for (key, value) in self {
            key.write(out);
            value.write(out);
        }
    }
    fn read(from: &mut Reader<'_>) -> Result<BTreeMap<K, V>, Damage> {
        let mut map = BTreeMap::new();
        for _ in 0..from.count(usize::MAX)? {
            let key = K::read(from)?;
            if map.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err(Damage::new("a map is out of order"));
            }
            map.insert(key, V::read(from)?);
        }
        Ok(map)
    }
}

impl<K: Field + Ord> Field for BTreeSet<K> {
    fn write(&self, out: &mut Writer) {
        out.number(self.len() as u64);
        self.iter().for_each(|key| key.write(out));
    }
    fn read(from: &mut Reader<'_>) -> Result<BTreeSet<K>, Damage> {
        let mut set = BTreeSet::new();
        for _ in 0..from.count(usize::MAX)? {
            let key = K::read(from)?;
            if set.last().is_some_and(|last| *last >= key) {
                return Err(Damage::new("a set is out of order"));
            }
            set.insert(key);
        }
        Ok(set)
    }
}

impl<T: Field + Copy, const N: usize> Field for [T; N] {
    #[inline]
    fn write(&self, out: &mut Writer) {
        self.iter().for_each(|value| value.write(out));
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<[T; N], Damage> {
        let mut all = [T::read(from)?; N];
        for next in all.iter_mut().skip(1) {
            *next = T::read(from)?;
        }
        Ok(all)
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),+)),+) => {$(
        impl<$($name: Field),+> Field for ($($name,)+) {
            #[inline]
            fn write(&self, out: &mut Writer) {
                $(self.$at.write(out);)+
            }
            #[inline]
            fn read(from: &mut Reader<'_>) -> Result<($($name,)+), Damage> {
                Ok(($($name::read(from)?,)+))
            }
        }
    )+};
}
tuples!((A 0, B 1), (A 0, B 1, C 2));

impl Field for Ipv4Addr {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.put(&self.octets());
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Ipv4Addr, Damage> {
        from.take().map(<[u8; 4]>::into)
    }
}

impl Field for Ipv6Addr {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.put(&self.octets());
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Ipv6Addr, Damage> {
        from.take().map(<[u8; 16]>::into)
    }
}

impl Field for IpAddr {
    #[inline]
    fn write(&self, out: &mut Writer) {
        match self {
            IpAddr::V4(ip) => {
                out.byte(4);
                out.bytes.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.byte(6);
                out.bytes.extend_from_slice(&ip.octets());
            }
        }
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<IpAddr, Damage> {
        match from.byte()? {
            4 => <[u8; 4]>::read(from).map(|octets| Ipv4Addr::from(octets).into()),
            6 => <[u8; 16]>::read(from).map(|octets| Ipv6Addr::from(octets).into()),
            other => Err(Damage::new(format_args!("no address family has the number {other}"))),
        }
    }
}

impl Field for SocketAddr {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.put(&self.ip());
        out.put(&self.port());
        if let SocketAddr::V6(address) = self {
            out.put(&address.flowinfo());
            out.put(&address.scope_id());
        }
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<SocketAddr, Damage> {
        let (ip, port) = (from.take()?, from.take()?);
        Ok(match ip {
            IpAddr::V4(ip) => (ip, port).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, from.take()?, from.take()?).into(),
        })
    }
}

/// In four bytes: a sequence number is as often large as small.
impl Field for Seq {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.bytes.extend_from_slice(&self.0.to_le_bytes());
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Seq, Damage> {
        let (number, rest) = from.bytes.split_first_chunk::<4>().ok_or_else(|| Damage::new("it is cut short"))?;
        from.bytes = rest;
        Ok(Seq(u32::from_le_bytes(*number)))
    }
}

impl Field for weft_wire::tcp::FastOpen {
    fn write(&self, out: &mut Writer) {
        out.content(&self.cookie);
        out.put(&self.experimental);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self, Damage> {
        let mut option = weft_wire::tcp::FastOpen::default();
        let cookie = from.content()?;
        if cookie.len() > option.cookie.capacity() {
            return Err(Damage::new("a Fast Open cookie is too long"));
        }
        option.cookie.extend(cookie.iter().copied());
        option.experimental = from.take()?;
        Ok(option)
    }
}

impl Field for crate::FlowId {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.number(self.0);
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Self, Damage> {
        from.number().map(crate::FlowId)
    }
}

impl Field for crate::InterfaceIndex {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.number(self.0.into());
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Self, Damage> {
        from.take().map(crate::InterfaceIndex)
    }
}

impl Field for crate::Tail {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.number(self.len() as u64);
        self.iter().for_each(|bytes| out.put(bytes));
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Self, Damage> {
        (0..from.count(usize::MAX)?).map(|_| from.take()).collect()
    }
}

impl Field for Box<[u8]> {
    fn write(&self, out: &mut Writer) {
        out.content(self);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self, Damage> {
        from.content().map(Into::into)
    }
}

macro_rules! serialised {
    ($($type:ty),+) => {$(
        impl Field for $type {
            fn write(&self, out: &mut Writer) {
                out.serialised(self);
            }
            fn read(from: &mut Reader<'_>) -> Result<Self, Damage> {
                from.serialised()
            }
        }
    )+};
}
serialised!(crate::StreamError, crate::bpf::Shared, crate::Attached, crate::table::Family);

/// As the program gave them.
impl Field for weft_wire::ipv4::Prepared {
    fn write(&self, out: &mut Writer) {
        out.content(&self.given());
        out.put(&self.first_hop());
    }
    fn read(from: &mut Reader<'_>) -> Result<Self, Damage> {
        let (given, hop): (_, Option<Ipv4Addr>) = (from.content()?, from.take()?);
        // Which addresses of a strict route are this node's own was asked when they were set.
        let fits = |own: bool| weft_wire::ipv4::Prepared::new(given, |_| own).filter(|prepared| prepared.first_hop() == hop);
        fits(false).or_else(|| fits(true)).ok_or_else(|| Damage::new("IP options that cannot be"))
    }
}

/// Most are as they begin, and take one byte then.
impl Field for crate::StreamOptions {
    #[inline]
    fn write(&self, out: &mut Writer) {
        let usual = *self == crate::StreamOptions::default();
        out.put(&!usual);
        if !usual {
            out.serialised(self);
        }
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Self, Damage> {
        if bool::read(from)? { from.serialised() } else { Ok(crate::StreamOptions::default()) }
    }
}

/// Where its stream stands.
impl Field for crate::Rng {
    fn write(&self, out: &mut Writer) {
        let (seed, position) = self.position();
        out.put(&seed);
        out.put(&((position >> 64) as u64));
        out.put(&(position as u64));
    }
    fn read(from: &mut Reader<'_>) -> Result<Self, Damage> {
        let (seed, high, low): ([u8; 32], u64, u64) = (from.take()?, from.take()?, from.take()?);
        Ok(crate::Rng::at(seed, u128::from(high) << 64 | u128::from(low)))
    }
}

/// With the slots that are free: keys that were given out mean the same, and those that will be given out are the same.
impl<T: Field> Field for crate::Slab<T> {
    fn write(&self, out: &mut Writer) {
        let (first, slots, free) = self.parts();
        out.put(&first);
        out.number(slots.len() as u64);
        for (generation, value) in slots {
            out.put(generation);
            out.put(value);
        }
        out.put(free);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self, Damage> {
        let (first, slots, free) = (from.take()?, from.take()?, from.take()?);
        crate::Slab::of_parts(first, slots, free).ok_or_else(|| Damage::new("a table whose free slots are not free"))
    }
}

/// State within state: of a part that only its own kind can read.
impl Field for super::State {
    fn write(&self, out: &mut Writer) {
        let super::State { kind, version, bytes, buffers } = self;
        out.put(kind);
        out.put(version);
        out.content(bytes);
        out.put(buffers);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self, Damage> {
        Ok(super::State { kind: from.take()?, version: from.take()?, bytes: from.content()?.to_vec(), buffers: from.take()? })
    }
}

/// Boxed.
impl<T: Field> Field for Box<T> {
    #[inline]
    fn write(&self, out: &mut Writer) {
        T::write(self, out);
    }
    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Box<T>, Damage> {
        T::read(from).map(Box::new)
    }
}

#[cfg(test)]
mod tests;
