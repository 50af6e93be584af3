//! DSS: its room in a segment, and its checksum.

use weft_wire::checksum::Sum;

/// What DSS takes of a data segment, with its padding: kind, length, subtype and flags; DATA_ACK of 4 bytes, or of 8 to a peer whose mappings have 8; a
/// mapping, which has the same room with a checksum as without. MP_CAPABLE with data is no longer.
pub(crate) const fn data_option_bytes(long_acks: bool) -> u32 {
    4 + if long_acks { 8 } else { 4 } + 16
}

/// The checksum of DSS (RFC 8684 §3.3.1): of the data, and of data sequence number, subflow sequence number, length and zeros in front of it.
pub(super) fn sum_of(seq: u64, subflow_seq: u32, len: u16, data: u16) -> u16 {
    let pseudo = Sum::default().add_u32((seq >> 32) as u32).add_u32(seq as u32).add_u32(subflow_seq).add_u16(len);
    pseudo.add_u16(data).finish()
}

/// Does data agree with the checksum that came with it?
pub(crate) fn is_right(seq: u64, subflow_seq: u32, len: u16, data: u16, checksum: u16) -> bool {
    Sum::from_folded(!sum_of(seq, subflow_seq, len, data)).add_u16(checksum).fold() == 0xffff
}
