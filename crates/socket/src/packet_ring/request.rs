//! `struct tpacket_req` and `struct tpacket_req3`: what a ring is to be, and what packet_set_ring refuses.

use crate::errno::Errno;

/// Bytes of a page: blocks are made of these.
const PAGE_BYTES: u32 = 4096;
/// TPACKET_ALIGNMENT
const ALIGNMENT: u32 = 16;
/// Most bytes of a ring; Linux has no bound but its memory (ENOMEM).
const RING_BYTES_MAX: u64 = 1 << 30;
/// Bytes of `struct tpacket_req` and `struct tpacket_req3`.
pub(crate) const REQUEST_BYTES: usize = 16;
pub(crate) const REQUEST3_BYTES: usize = 28;
/// Bytes of `struct tpacket_block_desc`, which are a multiple of V3_ALIGNMENT.
pub(crate) const BLOCK_HEAD_BYTES: u64 = 48;
/// Bytes of `struct sockaddr_ll`.
const SOCKADDR_LL_BYTES: u32 = 20;

/// PACKET_VERSION.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub(crate) enum Version {
    #[default]
    V1,
    V2,
    V3,
}
weft_core::fields!(
    enum Version {
        V1 = 0,
        V2 = 1,
        V3 = 2,
    }
);

impl Version {
    pub fn named(number: i32) -> Option<Version> {
        [Version::V1, Version::V2, Version::V3].into_iter().find(|version| version.number() == number)
    }
    pub const fn number(self) -> i32 {
        self as i32
    }
    /// Bytes of `struct tpacket_hdr`, `tpacket2_hdr` or `tpacket3_hdr`, which are multiples of TPACKET_ALIGNMENT.
    pub const fn header_bytes(self) -> u32 {
        match self {
            Version::V1 | Version::V2 => 32,
            Version::V3 => 48,
        }
    }
    /// TPACKET_HDRLEN and its kind: a header, and an address behind it.
    pub const fn head_bytes(self) -> u32 {
        self.header_bytes() + SOCKADDR_LL_BYTES
    }
    /// Bytes of the request for a ring.
    pub const fn request_bytes(self) -> usize {
        match self {
            Version::V1 | Version::V2 => REQUEST_BYTES,
            Version::V3 => REQUEST3_BYTES,
        }
    }
}

/// What a program asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Request {
    pub block_bytes: u32,
    pub blocks: u32,
    pub frame_bytes: u32,
    pub frames: u32,
    pub retire_ms: u32,
    pub private_bytes: u32,
    pub features: u32,
}

impl Request {
    /// "if (optlen < len) ret = -EINVAL".
    pub fn parse(value: &[u8], version: Version) -> Result<Request, Errno> {
        let value = value.get(..version.request_bytes()).ok_or(Errno::EINVAL)?;
        let word = |index: usize| value.get(4 * index..4 * index + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes);
        Ok(Request {
            block_bytes: word(0),
            blocks: word(1),
            frame_bytes: word(2),
            frames: word(3),
            retire_ms: word(4),
            private_bytes: word(5),
            features: word(6),
        })
    }
}

/// How the frames of a ring lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub block_bytes: u32,
    pub blocks: u32,
    pub frame_bytes: u32,
    pub frames: u32,
    per_block: u32,
}

impl Layout {
    /// packet_set_ring. ENOMEM: more than there is room for.
    pub fn of(request: &Request, version: Version, reserve: u32, sends: bool) -> Result<Layout, Errno> {
        let Request { block_bytes, blocks, frame_bytes, frames, .. } = *request;
        let least = version.head_bytes().wrapping_add(reserve);
        let private = u64::from(request.private_bytes).next_multiple_of(8);
        // "if (unlikely((int)req->tp_block_size <= 0)) … if (unlikely(!PAGE_ALIGNED(req->tp_block_size)))"
        let bad_block = block_bytes as i32 <= 0 || !block_bytes.is_multiple_of(PAGE_BYTES);
        // "if (po->tp_version >= TPACKET_V3 && req->tp_block_size < BLK_PLUS_PRIV((u64)req_u->req3.tp_sizeof_priv) + min_frame_size)"
        let small_block = version == Version::V3 && u64::from(block_bytes) < BLOCK_HEAD_BYTES + private + u64::from(least);
        // "if (unlikely(req->tp_frame_size < min_frame_size)) … if (unlikely(req->tp_frame_size & (TPACKET_ALIGNMENT - 1)))"
        let bad_frame = frame_bytes < least || !frame_bytes.is_multiple_of(ALIGNMENT);
        if bad_block || small_block || bad_frame {
            return Err(Errno::EINVAL);
        }
        let per_block = block_bytes.checked_div(frame_bytes).filter(|count| *count > 0).ok_or(Errno::EINVAL)?;
        if per_block.checked_mul(blocks) != Some(frames) {
            return Err(Errno::EINVAL);
        }
        let layout = Layout { block_bytes, blocks, frame_bytes, frames, per_block };
        if layout.bytes() > RING_BYTES_MAX {
            return Err(Errno::ENOMEM);
        }
        // "Block transmit is not supported yet".
        if sends && (request.retire_ms, request.private_bytes, request.features) != (0, 0, 0) && version == Version::V3 {
            return Err(Errno::EINVAL);
        }
        Ok(layout)
    }

    pub fn bytes(&self) -> u64 {
        u64::from(self.block_bytes) * u64::from(self.blocks)
    }

    /// Where a frame begins.
    pub fn frame_at(&self, position: u32) -> u64 {
        let (block, frame) = (position / self.per_block.max(1), position % self.per_block.max(1));
        u64::from(block) * u64::from(self.block_bytes) + u64::from(frame) * u64::from(self.frame_bytes)
    }

    /// Where a block begins.
    pub fn block_at(&self, block: u32) -> u64 {
        u64::from(block) * u64::from(self.block_bytes)
    }

    /// The position behind another one.
    pub fn behind(&self, position: u32) -> u32 {
        if position + 1 >= self.frames { 0 } else { position + 1 }
    }

    /// The position before another one.
    pub fn before(&self, position: u32) -> u32 {
        position.checked_sub(1).unwrap_or(self.frames.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(block_bytes: u32, blocks: u32, frame_bytes: u32, frames: u32) -> Request {
        Request { block_bytes, blocks, frame_bytes, frames, ..Request::default() }
    }

    #[test]
    fn sizes_are_linux_s() {
        assert!(Layout::of(&asked(4096, 4, 2048, 8), Version::V2, 0, false).is_ok());
        for (block, blocks, frame, frames) in [
            (0, 4, 2048, 8),
            (1 << 31, 1, 2048, 1 << 20),
            (4095, 4, 2048, 8),
            (4096, 4, 48, 340),
            (4096, 4, 2040, 8),
            (4096, 4, 8192, 0),
            (4096, 4, 2048, 9),
            (4096, u32::MAX, 2048, u32::MAX - 1),
        ] {
            assert_eq!(Layout::of(&asked(block, blocks, frame, frames), Version::V2, 0, false), Err(Errno::EINVAL), "{block} {blocks}");
        }
        assert_eq!(Layout::of(&asked(1 << 30, 2, 2048, 1 << 20), Version::V2, 0, false), Err(Errno::ENOMEM));
        assert_eq!(Layout::of(&asked(4096, 4, 2048, 8), Version::V2, 2000, false), Err(Errno::EINVAL));
        let private = Request { private_bytes: 4000, ..asked(4096, 1, 4096, 1) };
        assert_eq!(Layout::of(&private, Version::V3, 0, false), Err(Errno::EINVAL));
        let retires = Request { retire_ms: 1, ..asked(4096, 1, 4096, 1) };
        assert_eq!(Layout::of(&retires, Version::V3, 0, true), Err(Errno::EINVAL));
        assert!(Layout::of(&retires, Version::V3, 0, false).is_ok());
    }

    #[test]
    fn frames_do_not_cross_blocks() {
        let layout = Layout::of(&asked(4096, 3, 1600, 6), Version::V2, 0, false).unwrap();
        assert_eq!([0, 1, 2, 5].map(|position| layout.frame_at(position)), [0, 1600, 4096, 9792]);
        assert_eq!((layout.behind(5), layout.before(0), layout.before(5)), (0, 5, 4));
    }
}
