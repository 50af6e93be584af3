//! Reading a frame so that its payload is written once: headers into the frame's head, the rest into a block that frames share.
//!
//! A block holds several large frames; a frame keeps its part of it alive. When all frames of a block are gone it is used again, so that a
//! steady stream allocates nothing (a fresh block costs a page fault per 4 KiB, more than the copy that is saved).
//!
//! How many bytes go to the head has to be said before a frame is there, so it is guessed from the frame before. The guess saves copies and
//! decides nothing: what a frame's own headers need is moved into its head once they can be read.

use crate::link_type::LinkType;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use weft_core::Frame;
use weft_core::frame::HEAD_BYTES_INGRESS;
use weft_core::vnet;
use weft_wire::Protocol;
use weft_wire::ethernet::{EtherType, HEADER_LEN, TAGGED_HEADER_LEN};

/// Bytes of a VLAN tag that the kernel keeps apart from the frame, and that is put back in.
pub(crate) const TAG_BYTES: usize = 4;
/// The tag belongs behind both addresses.
const TAG_AT: usize = 12;
/// What is read into the head; with a tag it is full.
pub(crate) const HEAD_READ_BYTES: usize = HEAD_BYTES_INGRESS - TAG_BYTES;
/// TCP without options, and IPv4 without: no header is shorter, whatever it says of itself.
const HEADER_BYTES_MIN: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
/// The most a device hands over behind that: an IP packet of 65535 bytes with its Ethernet header fits.
const REST_BYTES_MAX: usize = 64 << 10;
/// Four large frames to a block.
const BLOCK_BYTES: usize = 4 * REST_BYTES_MAX;
/// Blocks kept to be used again; more are given back to the allocator.
const BLOCKS_MAX: usize = 32;
/// Up to here a frame gets bytes of its own, so that it does not keep a whole block alive.
const COPY_BYTES_MAX: usize = 2048;

/// How a descriptor is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A TAP or TUN device: `readv`.
    Tap,
    /// The same without a virtio header, as somebody else has opened it.
    Bare,
    /// A packet socket: `recvmsg`, for the VLAN tag in its control message.
    Packet,
}

/// Where payload is received.
pub(crate) struct Blocks {
    current: BytesMut,
    /// Used up: waiting for the frames that hold them.
    used: VecDeque<BytesMut>,
    /// What frames begin with.
    link: LinkType,
    /// A TAP device's next frame: how many bytes are read into the head. As many as the last frame's headers had: payload that shares the
    /// head with them would have to be copied out of it again. A guess: headers that are longer are moved there.
    head_bytes: usize,
}

/// Bytes of link-layer, IP and TCP header of a frame, of which `byte` gives each (0 beyond its end); what fits in a head for all that is no TCP.
fn headers_of(link: LinkType, byte: impl Fn(usize) -> u8) -> usize {
    let ether_type = |at: usize| EtherType(u16::from_be_bytes([byte(at), byte(at + 1)]));
    let network = match link {
        LinkType::Ip => 0,
        LinkType::Ethernet if ether_type(TAG_AT) == EtherType::VLAN => TAGGED_HEADER_LEN,
        LinkType::Ethernet => HEADER_LEN,
    };
    let of_ip = link == LinkType::Ip || matches!(ether_type(network - 2), EtherType::IPV4 | EtherType::IPV6);
    let transport = match (byte(network) >> 4, byte(network)) {
        (4, first) if of_ip && Protocol(byte(network + 9)) == Protocol::TCP => (usize::from(first & 0xf) * 4).max(HEADER_BYTES_MIN),
        (6, _) if of_ip && Protocol(byte(network + 6)) == Protocol::TCP => IPV6_HEADER_BYTES,
        _ => return HEAD_READ_BYTES,
    };
    let tcp = (usize::from(byte(network + transport + 12) >> 4) * 4).max(HEADER_BYTES_MIN);
    (network + transport + tcp).min(HEAD_READ_BYTES)
}

impl Blocks {
    pub(crate) fn new(link: LinkType) -> Blocks {
        Blocks { current: BytesMut::with_capacity(BLOCK_BYTES), used: VecDeque::new(), link, head_bytes: HEAD_READ_BYTES }
    }

    /// Makes room for one more frame in the current block.
    fn make_room(&mut self) {
        debug_assert!(self.current.is_empty());
        if self.current.capacity() >= REST_BYTES_MAX || self.current.try_reclaim(BLOCK_BYTES) {
            return;
        }
        // The oldest is the likeliest to be free; when it is not, the others are worth a look before new memory is.
        let free = self.used.iter_mut().position(|block| block.try_reclaim(BLOCK_BYTES));
        let next = free.and_then(|at| self.used.remove(at)).unwrap_or_else(|| BytesMut::with_capacity(BLOCK_BYTES));
        if self.used.len() >= BLOCKS_MAX {
            // Held the longest: whoever holds it frees it.
            self.used.pop_front();
        }
        self.used.push_back(std::mem::replace(&mut self.current, next));
    }

    /// Gives back the blocks that are free, and those that are not as soon as they are. The new one costs nothing before the next frame comes.
    pub(crate) fn give_back_memory(&mut self) {
        *self = Blocks { head_bytes: self.head_bytes, ..Blocks::new(self.link) };
    }

    /// Reads one frame with its virtio header. Interrupted reads are done again.
    ///
    /// # Errors
    /// What the system call says; `WouldBlock` when there is no frame.
    pub(crate) fn read(&mut self, fd: BorrowedFd<'_>, source: Source) -> io::Result<Frame> {
        self.make_room();
        let mut header: vnet::Header = [0; vnet::HEADER_BYTES];
        // Room for a tag in front: the addresses move there when one is put in.
        let mut head = [0; TAG_BYTES + HEAD_READ_BYTES];
        let head_bytes = if source == Source::Packet { HEAD_READ_BYTES } else { self.head_bytes };
        let header_bytes = if source == Source::Bare { 0 } else { vnet::HEADER_BYTES };
        let (bytes, tag) = loop {
            match read_parts(fd, source, &mut header[..header_bytes], &mut head[TAG_BYTES..TAG_BYTES + head_bytes], &mut self.current) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        let bytes = bytes.saturating_sub(header_bytes);
        let was_read = bytes.min(head_bytes);
        let byte = |at: usize| match at.checked_sub(was_read) {
            None => head[TAG_BYTES + at],
            Some(behind) => self.current.get(behind).copied().unwrap_or(0),
        };
        self.head_bytes = headers_of(self.link, byte);
        let moved = self.head_bytes.min(bytes).saturating_sub(was_read);
        let in_head = was_read + moved;
        head[TAG_BYTES + was_read..TAG_BYTES + in_head].copy_from_slice(&self.current[..moved]);
        Ok(frame_with_tag(&header, &mut head, in_head, tag, self.take_rest(moved)))
    }

    /// What was read behind the head but for the first `moved` bytes: a slice of its own, or one of the block.
    fn take_rest(&mut self, moved: usize) -> Bytes {
        if self.current.len() > COPY_BYTES_MAX {
            let mut shared = self.current.split().freeze();
            shared.advance(moved);
            return shared;
        }
        let copy = Bytes::copy_from_slice(&self.current[moved..]);
        self.current.clear();
        copy
    }
}

/// Puts a frame together: its first `in_head` bytes are in `head` behind room for a tag, which is put where it was on the wire.
pub(crate) fn frame_with_tag(
    header: &vnet::Header,
    head: &mut [u8; TAG_BYTES + HEAD_READ_BYTES],
    in_head: usize,
    tag: Option<[u8; TAG_BYTES]>,
    rest: Bytes,
) -> Frame {
    let mut start = TAG_BYTES;
    if let Some(tag) = tag.filter(|_| in_head >= TAG_AT) {
        head.copy_within(TAG_BYTES..TAG_BYTES + TAG_AT, 0);
        head[TAG_AT..TAG_AT + TAG_BYTES].copy_from_slice(&tag);
        start = 0;
    }
    let mut frame = Frame::ingress_parts(&head[start..TAG_BYTES + in_head], rest);
    vnet::decode(header, (TAG_BYTES - start) as u16, &mut frame);
    frame
}

/// Room for the one control message that is asked for (PACKET_AUXDATA), aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Reads a frame into three parts, of which the header may have no bytes; `rest` must be empty and is filled with what does not fit into `head`. Returns how many bytes came and the
/// VLAN tag that the kernel has taken out.
fn read_parts(
    fd: BorrowedFd<'_>,
    source: Source,
    header: &mut [u8],
    head: &mut [u8],
    rest: &mut BytesMut,
) -> io::Result<(usize, Option<[u8; TAG_BYTES]>)> {
    let before_rest = header.len() + head.len();
    let spare = rest.spare_capacity_mut();
    let mut parts = [
        libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() },
        libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: head.len() },
        libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len() },
    ];
    let mut tag = None;
    let got = match source {
        // SAFETY: the three parts point to memory that is borrowed mutably here, with its length; the kernel only writes to it.
        Source::Tap | Source::Bare => unsafe { libc::readv(fd.as_raw_fd(), parts.as_ptr(), parts.len() as libc::c_int) },
        Source::Packet => {
            let mut control = Control([0; 64]);
            // SAFETY: msghdr is plain data.
            let mut message: libc::msghdr = unsafe { zeroed() };
            message.msg_iov = parts.as_mut_ptr();
            message.msg_iovlen = parts.len() as _;
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = control.0.len() as _;
            // SAFETY: as above, and `control` is memory of the length given, written by the kernel.
            let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, 0) };
            if got >= 0 {
                tag = tag_of(&message);
            }
            got
        }
    };
    let bytes = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: parts are filled in order (readv(2)), so the bytes beyond the first two parts have been written to the start of the spare
    // capacity, and there are no more of them than it has.
    unsafe { rest.set_len(bytes.saturating_sub(before_rest)) };
    Ok((bytes, tag))
}

/// The VLAN tag in a received message's PACKET_AUXDATA.
fn tag_of(message: &libc::msghdr) -> Option<[u8; TAG_BYTES]> {
    // SAFETY: `message` has come back from recvmsg with its control buffer alive and its length set by the kernel, which is what CMSG_FIRSTHDR
    // wants; the data is read unaligned, after its length has been checked.
    let auxiliary: libc::tpacket_auxdata = unsafe {
        let first = libc::CMSG_FIRSTHDR(message);
        if first.is_null() {
            return None;
        }
        let wanted = libc::CMSG_LEN(size_of::<libc::tpacket_auxdata>() as libc::c_uint) as usize;
        let header = first.read_unaligned();
        if (header.cmsg_level, header.cmsg_type) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) || (header.cmsg_len as usize) < wanted {
            return None;
        }
        libc::CMSG_DATA(first).cast::<libc::tpacket_auxdata>().read_unaligned()
    };
    if auxiliary.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = if auxiliary.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { auxiliary.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), auxiliary.tp_vlan_tci.to_be_bytes());
    Some([a, b, c, d])
}

#[cfg(test)]
mod any_order;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::AsFd;

    /// A datagram socket keeps boundaries as a device does.
    fn read_back(blocks: &mut Blocks, payload: &[u8]) -> Frame {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::NONBLOCK, None).unwrap();
        let message = [&[0u8; vnet::HEADER_BYTES], payload].concat();
        assert_eq!(rustix::io::write(&theirs, &message).unwrap(), message.len());
        let frame = blocks.read(ours.as_fd(), Source::Tap).unwrap();
        assert_eq!(blocks.read(ours.as_fd(), Source::Tap).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        frame
    }

    #[test]
    fn frames_of_every_size_arrive_whole() {
        let mut blocks = Blocks::new(LinkType::Ethernet);
        let all: Vec<u8> = (0..=250).cycle().take(65_549).collect();
        let mut kept = Vec::new();
        for bytes in [0, 1, 13, 14, 60, 219, 220, 221, 1514, 2268, 2269, 9014, 65_549] {
            kept.push((read_back(&mut blocks, &all[..bytes]), bytes));
        }
        for (frame, bytes) in kept {
            assert_eq!(frame.to_vec(), all[..bytes]);
        }
    }

    #[test]
    fn blocks_that_are_given_back_stay_with_the_frames_that_hold_them() {
        let mut blocks = Blocks::new(LinkType::Ethernet);
        let all: Vec<u8> = (0..=250).cycle().take(65_000).collect();
        let kept: Vec<Frame> = (0..20).map(|_| read_back(&mut blocks, &all)).collect();
        assert!(blocks.used.len() >= 4);
        blocks.give_back_memory();
        assert!(blocks.used.is_empty());
        assert!(kept.iter().all(|frame| frame.to_vec() == all) && read_back(&mut blocks, &all).to_vec() == all);
    }

    #[test]
    fn the_payload_of_a_second_tcp_segment_lies_in_one_piece_and_frames_of_other_kinds_arrive_whole() {
        let tcp = |builder: etherparse::PacketBuilderStep<etherparse::TcpHeader>, bytes: usize| {
            let mut frame = Vec::new();
            builder.options_raw(&[1; 12]).unwrap().write(&mut frame, &vec![7; bytes]).unwrap();
            frame
        };
        let link = || etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]);
        let mut other = Vec::new();
        link().ipv4([1; 4], [2; 4], 9).udp(1, 2).write(&mut other, &[8; 300]).unwrap();
        for (kind, first, headers) in [
            (LinkType::Ethernet, tcp(link().ipv4([1; 4], [2; 4], 9).tcp(1, 2, 3, 4), 1448), 66),
            (LinkType::Ethernet, tcp(link().ipv6([1; 16], [2; 16], 9).tcp(1, 2, 3, 4), 1428), 86),
            (LinkType::Ip, tcp(etherparse::PacketBuilder::ipv4([1; 4], [2; 4], 9).tcp(1, 2, 3, 4), 1448), 52),
        ] {
            let mut blocks = Blocks::new(kind);
            assert_eq!(read_back(&mut blocks, &first).to_vec(), first);
            let second = read_back(&mut blocks, &first);
            assert_eq!((second.head().len(), second.tail().len(), second.to_vec()), (headers, 1, first));
            assert_eq!(read_back(&mut blocks, &other).to_vec(), other);
            assert_eq!(read_back(&mut blocks, &other).head().len(), HEAD_READ_BYTES);
        }
    }

    #[test]
    fn blocks_are_used_again_and_small_frames_keep_none() {
        let mut blocks = Blocks::new(LinkType::Ethernet);
        let payload = vec![5; 60_000];
        let mut addresses = std::collections::BTreeSet::new();
        for _ in 0..100 {
            addresses.insert(read_back(&mut blocks, &payload).tail()[0].as_ptr() as usize / BLOCK_BYTES);
        }
        assert!(addresses.len() <= 4, "{} places for frames that lived one after the other", addresses.len());
        let small = read_back(&mut blocks, &payload[..1000]);
        let capacity = blocks.current.capacity();
        assert_eq!(small.len(), 1000);
        drop(read_back(&mut blocks, &payload[..1500]));
        assert_eq!(blocks.current.capacity(), capacity);
        let held: Vec<Frame> = (0..4 * BLOCKS_MAX + 40).map(|_| read_back(&mut blocks, &payload)).collect();
        assert!(blocks.used.len() <= BLOCKS_MAX);
        assert!(held.iter().all(|frame| frame.len() == payload.len()));
    }
}
