//! Why bytes were refused.

/// Why bytes have no meaning in a format; one variant per cause, so that a drop
/// reason can be made of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// Fewer bytes than the format's header, or than a length field promises.
    #[error("fewer bytes than the header needs")]
    Truncated,
    /// The version field of IP is another than the format's.
    #[error("wrong IP version")]
    BadVersion,
    /// The header length field is shorter than the fixed part of the header.
    #[error("header length below the minimum")]
    BadHeaderLength,
    /// The total length field is shorter than the header.
    #[error("total length shorter than the header")]
    BadTotalLength,
    /// The payload or message length field contradicts the bytes.
    #[error("length field contradicts the bytes")]
    BadLength,
    /// An option's length is below its minimum, or reaches past the options.
    #[error("option length out of range")]
    BadOptionLength,
    /// The checksum does not match.
    #[error("checksum does not match")]
    BadChecksum,
    /// An address format (ARP's hardware or protocol type, MPTCP's IP version)
    /// that is not the one expected.
    #[error("address format not supported")]
    BadAddressFormat,
    /// A type, subtype or code that the format does not define.
    #[error("unknown type")]
    UnknownType,
    /// Options or other variable parts do not fit into the header.
    #[error("no room in the header")]
    NoRoom,
    /// Text that is not a MAC address.
    #[error("not a MAC address (aa:bb:cc:dd:ee:ff)")]
    BadMacText,
}
