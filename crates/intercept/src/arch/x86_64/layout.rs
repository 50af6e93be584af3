//! Layouts of the structs that calls pass by pointer (64-bit ABI of linux/socket.h, uapi).

/// Bytes of `struct iovec`.
pub const IOVEC_BYTES: usize = 16;
/// Bytes of `struct msghdr`.
pub const MSGHDR_BYTES: usize = 56;
/// Bytes of `struct mmsghdr`: a msghdr, then `unsigned int msg_len` and padding.
pub const MMSGHDR_BYTES: usize = 64;
/// Where `msg_len` is in `struct mmsghdr`.
pub const MMSGHDR_LENGTH: usize = 56;
/// Where `msg_namelen` is in `struct msghdr`.
pub const MSGHDR_NAMELEN: usize = 8;
/// Where `msg_controllen` is in `struct msghdr`.
pub const MSGHDR_CONTROLLEN: usize = 40;
/// Where `msg_flags` is in `struct msghdr`.
pub const MSGHDR_FLAGS: usize = 48;

/// `struct msghdr` as a program passed it. Pointers are the program's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageHeader {
    /// Address, or null.
    pub name: u64,
    /// Bytes of the address.
    pub name_bytes: u32,
    /// Array of iovecs.
    pub vectors: u64,
    /// How many.
    pub vector_count: u64,
    /// Control messages, or null.
    pub control: u64,
    /// Bytes of them.
    pub control_bytes: u64,
}

impl MessageHeader {
    /// Reads the fields; no field is judged.
    pub fn parse(bytes: &[u8; MSGHDR_BYTES]) -> MessageHeader {
        MessageHeader {
            name: word(bytes, 0),
            name_bytes: word(bytes, 8) as u32,
            vectors: word(bytes, 16),
            vector_count: word(bytes, 24),
            control: word(bytes, 32),
            control_bytes: word(bytes, 40),
        }
    }
}

/// The iovecs in an array of them: (address, bytes).
pub fn vectors(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> + '_ {
    bytes.chunks_exact(IOVEC_BYTES).map(|one| (word(one, 0), word(one, 8)))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(from) = bytes.get(at..at + 8) {
        word.copy_from_slice(from);
    }
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layouts_are_those_of_libc() {
        assert_eq!(IOVEC_BYTES, size_of::<libc::iovec>());
        assert_eq!(MSGHDR_BYTES, size_of::<libc::msghdr>());
        assert_eq!(MMSGHDR_BYTES, size_of::<libc::mmsghdr>());
        assert_eq!(MMSGHDR_LENGTH, std::mem::offset_of!(libc::mmsghdr, msg_len));
        assert_eq!(MSGHDR_NAMELEN, std::mem::offset_of!(libc::msghdr, msg_namelen));
        assert_eq!(MSGHDR_CONTROLLEN, std::mem::offset_of!(libc::msghdr, msg_controllen));
        assert_eq!(MSGHDR_FLAGS, std::mem::offset_of!(libc::msghdr, msg_flags));
        let mut bytes = [0_u8; MSGHDR_BYTES];
        for (at, value) in [(0, 1_u64), (8, 2), (16, 3), (24, 4), (32, 5), (40, 6)] {
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let header = MessageHeader::parse(&bytes);
        assert_eq!(header, MessageHeader { name: 1, name_bytes: 2, vectors: 3, vector_count: 4, control: 5, control_bytes: 6 });
    }
}
