//! Attributes: `struct nlattr` and what stands behind it, written and read.

use std::net::IpAddr;

/// NLA_TYPE_MASK: without the bits for nesting and byte order.
const TYPE_MASK: u16 = 0x3fff;
/// Most attributes of one message that are looked at.
const ATTRIBUTES_MAX: usize = 64;

/// A message without its header: fixed part, then attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    /// nlmsg_type.
    pub kind: u16,
    /// What stands behind `struct nlmsghdr`.
    pub body: Vec<u8>,
}

impl Message {
    /// With a fixed part.
    pub fn new(kind: u16, fixed: &[u8]) -> Message {
        let mut body = Vec::with_capacity(512);
        body.extend_from_slice(fixed);
        body.resize(fixed.len().next_multiple_of(4), 0);
        Message { kind, body }
    }
    /// Appends an attribute.
    pub fn bytes(&mut self, kind: u16, value: &[u8]) {
        put(&mut self.body, kind, value);
    }
    pub fn u8(&mut self, kind: u16, value: u8) {
        self.bytes(kind, &[value]);
    }
    pub fn u32(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_ne_bytes());
    }
    pub fn text(&mut self, kind: u16, value: &str) {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat());
    }
    pub fn address(&mut self, kind: u16, value: IpAddr) {
        match value {
            IpAddr::V4(value) => self.bytes(kind, &value.octets()),
            IpAddr::V6(value) => self.bytes(kind, &value.octets()),
        }
    }
}

/// Appends an attribute, and what brings the next to a multiple of four.
pub(crate) fn put(into: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let value = &value[..usize::from(length) - 4];
    into.extend_from_slice(&length.to_ne_bytes());
    into.extend_from_slice(&kind.to_ne_bytes());
    into.extend_from_slice(value);
    into.resize(into.len().next_multiple_of(4), 0);
}

/// The attributes of a request.
#[derive(Clone, Debug)]
pub(crate) struct Attributes<'a>(Vec<(u16, &'a [u8])>);

impl<'a> Attributes<'a> {
    /// Those after a fixed part. Lengths that make no sense end them.
    pub fn of(body: &'a [u8], fixed: usize) -> Attributes<'a> {
        let mut found = Vec::new();
        let mut rest = body.get(fixed.next_multiple_of(4)..).unwrap_or_default();
        while rest.len() >= 4 && found.len() < ATTRIBUTES_MAX {
            let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
            if length < 4 || length > rest.len() {
                break;
            }
            found.push((u16::from_ne_bytes([rest[2], rest[3]]) & TYPE_MASK, &rest[4..length]));
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Attributes(found)
    }
    /// The last of a kind, as the kernel's table keeps it.
    pub fn get(&self, kind: u16) -> Option<&'a [u8]> {
        self.0.iter().rev().find(|(other, _)| *other == kind).map(|(_, value)| *value)
    }
    pub fn has(&self, kind: u16) -> bool {
        self.get(kind).is_some()
    }
    /// The first of these kinds that is there.
    pub fn any(&self, kinds: &[(u16, &'static str)]) -> Option<&'static str> {
        kinds.iter().find(|(kind, _)| self.has(*kind)).map(|(_, name)| *name)
    }
    pub fn u32(&self, kind: u16) -> Option<u32> {
        self.get(kind)?.get(..4)?.try_into().ok().map(u32::from_ne_bytes)
    }
    /// Up to the first zero.
    pub fn text(&self, kind: u16) -> Option<&'a str> {
        let bytes = self.get(kind)?;
        std::str::from_utf8(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).ok()
    }
    /// Four bytes or sixteen.
    pub fn address(&self, kind: u16) -> Option<IpAddr> {
        let bytes = self.get(kind)?;
        let v4 = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
        v4.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
    }
    /// What is inside a nested one.
    pub fn nested(&self, kind: u16) -> Option<Attributes<'a>> {
        self.get(kind).map(|value| Attributes::of(value, 0))
    }
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &'a [u8])> {
        self.0.iter().copied()
    }
}

/// A 32-bit field of a fixed part; 0 where it ends before.
pub(crate) fn word(body: &[u8], at: usize) -> u32 {
    body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// A byte of a fixed part.
pub(crate) fn byte(body: &[u8], at: usize) -> u8 {
    body.get(at).copied().unwrap_or(0)
}

/// Messages of generic netlink are of a family's number: GENL_ID_CTRL, and what mptcp_pm has.
pub(crate) const CONTROL: u16 = 16;
pub(crate) const MPTCP_PM: u16 = 28;

/// AF_UNSPEC, AF_INET, AF_INET6.
pub(crate) const UNSPEC: u8 = 0;
pub(crate) const INET: u8 = 2;
pub(crate) const INET6: u8 = 10;
/// RTNL_FAMILY_IPMR and RTNL_FAMILY_IP6MR.
pub(crate) const IPMR: u8 = 128;
pub(crate) const IP6MR: u8 = 129;

/// Which families a dump is about, by its first byte.
pub(crate) fn families(family: u8) -> &'static [weft_core::table::Family] {
    use weft_core::table::Family::{V4, V6};
    match family {
        UNSPEC => &[V4, V6],
        INET => &[V4],
        INET6 => &[V6],
        _ => &[],
    }
}

/// The same for what another family has not at all: rtnetlink_rcv_msg then asks all ("if (!link || !link->dumpit) { family = PF_UNSPEC; …").
pub(crate) fn families_or_all(family: u8) -> &'static [weft_core::table::Family] {
    families(if matches!(family, INET | INET6) { family } else { UNSPEC })
}

/// A MAC address as blocks read it.
pub(crate) fn mac_text(mac: &[u8]) -> String {
    mac.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}
