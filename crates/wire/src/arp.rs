//! ARP for IPv4 over Ethernet (RFC 826).
//!
//! ```text
//! 0       2       4    5    6           8            14          18           24
//! | hw 1  | 0x800 | 6  | 4  | operation | sender mac | sender ip | target mac | target ip |
//! ```
//!
//! Other hardware or protocol addresses are refused: no node has them.

use core::net::Ipv4Addr;

use crate::Error;
use crate::bytes::{array_at, put, put_u16, u16_at};
use crate::ethernet::{EtherType, Mac};

mod field {
    pub const HARDWARE: usize = 0;
    pub const PROTOCOL: usize = 2;
    pub const HARDWARE_LEN: usize = 4;
    pub const PROTOCOL_LEN: usize = 5;
    pub const OPERATION: usize = 6;
    pub const SENDER_MAC: usize = 8;
    pub const SENDER_IP: usize = 14;
    pub const TARGET_MAC: usize = 18;
    pub const TARGET_IP: usize = 24;
}

/// Length of a packet in bytes. Frames are padded behind it.
pub const LEN: usize = 28;

const HARDWARE_ETHERNET: u16 = 1;

/// What a packet asks or says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Who has the target address? (1)
    Request,
    /// The sender has the sender address. (2)
    Reply,
    /// Any other number. `Other(1)` and `Other(2)` are read back as the above.
    Other(u16),
}

impl From<u16> for Operation {
    fn from(number: u16) -> Operation {
        match number {
            1 => Operation::Request,
            2 => Operation::Reply,
            other => Operation::Other(other),
        }
    }
}

impl From<Operation> for u16 {
    fn from(operation: Operation) -> u16 {
        match operation {
            Operation::Request => 1,
            Operation::Reply => 2,
            Operation::Other(number) => number,
        }
    }
}

/// An ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Request or reply.
    pub operation: Operation,
    /// Who sends it.
    pub sender_mac: Mac,
    /// The sender's address; unspecified in a probe (RFC 5227).
    pub sender_ip: Ipv4Addr,
    /// Whom it is for; zero in a request.
    pub target_mac: Mac,
    /// The address asked for.
    pub target_ip: Ipv4Addr,
}

impl Packet {
    /// Reads a packet; bytes behind it (padding) are ignored.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::BadAddressFormat`] when it is not about IPv4
    /// over Ethernet.
    pub fn parse(bytes: &[u8]) -> Result<Packet, Error> {
        let p = bytes.first_chunk::<LEN>().ok_or(Error::Truncated)?;
        // RFC 826: "?Do I have the hardware type in ar$hrd? … ?Do I speak the
        // protocol in ar$pro?" with the optional checks of the lengths.
        if u16_at(p, field::HARDWARE) != HARDWARE_ETHERNET
            || u16_at(p, field::PROTOCOL) != EtherType::IPV4.0
            || p[field::HARDWARE_LEN] != 6
            || p[field::PROTOCOL_LEN] != 4
        {
            return Err(Error::BadAddressFormat);
        }
        Ok(Packet {
            operation: u16_at(p, field::OPERATION).into(),
            sender_mac: Mac(array_at(p, field::SENDER_MAC)),
            sender_ip: array_at::<4, LEN>(p, field::SENDER_IP).into(),
            target_mac: Mac(array_at(p, field::TARGET_MAC)),
            target_ip: array_at::<4, LEN>(p, field::TARGET_IP).into(),
        })
    }

    /// Writes the packet to the first [`LEN`] bytes.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`LEN`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let bytes = &mut bytes[..LEN];
        put_u16(bytes, field::HARDWARE, HARDWARE_ETHERNET);
        put_u16(bytes, field::PROTOCOL, EtherType::IPV4.0);
        bytes[field::HARDWARE_LEN] = 6;
        bytes[field::PROTOCOL_LEN] = 4;
        put_u16(bytes, field::OPERATION, self.operation.into());
        put(bytes, field::SENDER_MAC, &self.sender_mac.0);
        put(bytes, field::SENDER_IP, &self.sender_ip.octets());
        put(bytes, field::TARGET_MAC, &self.target_mac.0);
        put(bytes, field::TARGET_IP, &self.target_ip.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From arp-icmpv4.pcap, without its Ethernet header.
    const REQUEST: [u8; LEN] = [
        0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x0a, 0x00, 0x01, 0x0a, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x0a, 0x00, 0x01, 0x01,
    ];

    #[test]
    fn a_request_of_linux() {
        let packet = Packet {
            operation: Operation::Request,
            sender_mac: Mac([2, 0, 0, 0, 0, 10]),
            sender_ip: Ipv4Addr::new(10, 0, 1, 10),
            target_mac: Mac::ZERO,
            target_ip: Ipv4Addr::new(10, 0, 1, 1),
        };
        assert_eq!(Packet::parse(&REQUEST), Ok(packet));
        let mut out = [0xa5; LEN];
        packet.emit(&mut out);
        assert_eq!(out, REQUEST);
    }

    #[test]
    fn other_address_formats_are_refused() {
        for at in [0, 1, 2, 3, 4, 5] {
            let mut bytes = REQUEST;
            bytes[at] ^= 0x40;
            assert_eq!(Packet::parse(&bytes), Err(Error::BadAddressFormat), "byte {at}");
        }
        assert_eq!(Packet::parse(&REQUEST[..27]), Err(Error::Truncated));
    }
}
