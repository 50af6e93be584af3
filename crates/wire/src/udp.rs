//! UDP (RFC 768), and UDP-Lite (RFC 3828), whose third field says how much of the datagram the checksum covers.
//!
//! ```text
//! 0          2          4        6          8
//! | src port | dst port | length | checksum | payload
//! ```

use crate::Error;
use crate::bytes::{put_u16, u16_at};

mod field {
    pub const SRC_PORT: usize = 0;
    pub const DST_PORT: usize = 2;
    pub const LENGTH: usize = 4;
    pub const CHECKSUM: usize = 6;
}

/// Length of the header in bytes.
pub const LEN: usize = 8;
/// Where the checksum field is, in bytes from the start of the header.
pub const CHECKSUM_OFFSET: usize = field::CHECKSUM;

/// A UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Header {
    /// Source port; zero when no answer is wanted.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Header and payload, in bytes. Zero only in a jumbogram (RFC 2675).
    pub length: u16,
    /// The checksum as it is on the wire; zero: none was computed (IPv4 only).
    pub checksum: u16,
}

impl Header {
    /// Reads the header. Whether `length` fits the bytes is
    /// [`Header::payload_len`]'s business: a header can be read without its payload.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 8 bytes.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Header, usize), Error> {
        let h = bytes.first_chunk::<LEN>().ok_or(Error::Truncated)?;
        let header = Header {
            src_port: u16_at(h, field::SRC_PORT),
            dst_port: u16_at(h, field::DST_PORT),
            length: u16_at(h, field::LENGTH),
            checksum: u16_at(h, field::CHECKSUM),
        };
        Ok((header, LEN))
    }

    /// Length of the payload in bytes, for a datagram that occupies
    /// `datagram_len` bytes of its IP packet.
    ///
    /// # Errors
    /// [`Error::BadLength`] when `length` is below 8 or above `datagram_len`.
    #[inline]
    pub const fn payload_len(&self, datagram_len: usize) -> Result<usize, Error> {
        let length = self.length as usize;
        if length < LEN || length > datagram_len {
            return Err(Error::BadLength);
        }
        Ok(length - LEN)
    }

    /// Of UDP-Lite: how many bytes of a datagram of `datagram_len` the checksum covers, the header among them.
    ///
    /// # Errors
    /// [`Error::BadLength`]. RFC 3828 §3.1: "a UDP-Lite packet with a Checksum Coverage value of 1 to 7 MUST be discarded by the receiver", and "with
    /// a Checksum Coverage greater than the IP length MUST also be discarded".
    #[inline]
    pub const fn coverage(&self, datagram_len: usize) -> Result<usize, Error> {
        match self.length as usize {
            // "A Checksum Coverage of zero indicates that the entire UDP-Lite packet is covered by the checksum."
            0 => Ok(datagram_len),
            some if some < LEN || some > datagram_len => Err(Error::BadLength),
            some => Ok(some),
        }
    }

    /// Writes the header, `checksum` as it is given.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`LEN`].
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) {
        let bytes = &mut bytes[..LEN];
        put_u16(bytes, field::SRC_PORT, self.src_port);
        put_u16(bytes, field::DST_PORT, self.dst_port);
        put_u16(bytes, field::LENGTH, self.length);
        put_u16(bytes, field::CHECKSUM, self.checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header() {
        let bytes = [0xc3, 0x6f, 0x13, 0x89, 0x00, 0x0c, 0x1c, 0x4e, b'p', b'i', b'n', b'g'];
        let header = Header { src_port: 50031, dst_port: 5001, length: 12, checksum: 0x1c4e };
        assert_eq!(Header::parse(&bytes), Ok((header, LEN)));
        let mut out = [0xa5; LEN];
        header.emit(&mut out);
        assert_eq!(out, bytes[..LEN]);
        assert_eq!(header.payload_len(12), Ok(4));
        assert_eq!(header.payload_len(46), Ok(4));
        assert_eq!(header.payload_len(11), Err(Error::BadLength));
        assert_eq!(Header { length: 7, ..header }.payload_len(12), Err(Error::BadLength));
        assert_eq!(Header::parse(&bytes[..7]), Err(Error::Truncated));
        let covers = |length| Header { length, ..header }.coverage(20);
        assert_eq!([0, 8, 20].map(covers), [Ok(20), Ok(8), Ok(20)]);
        assert_eq!([1, 7, 21].map(covers), [Err(Error::BadLength); 3]);
    }
}
