//! What sendmsg(2) and recvmsg(2) pass by pointer, read with bounds and written back.

use crate::arch::{self, MessageHeader};
use crate::memory::Memory;
use crate::sys::Errno;
use bytes::{Bytes, BytesMut};
use weft_core::Tail;

/// UIO_MAXIOV.
const VECTORS_MAX: u64 = 1024;
/// Most bytes that one call moves: MAX_RW_COUNT of linux/fs.h, with pages of 4 KiB.
const BYTES_MAX: u64 = i32::MAX as u64 & !0xfff;
/// Most bytes of control messages (net.core.optmem_max is 128 KiB; real ones are tens of bytes).
const CONTROL_BYTES_MAX: u64 = 16 * 1024;

/// Most messages of sendmmsg and recvmmsg (UIO_MAXIOV).
pub const MESSAGES_MAX: u64 = 1024;
/// The option of linux/tcp.h; the control message has the same number.
pub const TCP_INQ: i32 = 36;

/// Bytes of `struct cmsghdr`.
const CMSGHDR_BYTES: usize = 16;

/// Where a program wants received data, or has data to send.
#[derive(Debug, Default)]
pub struct Message {
    /// The iovecs: (address, bytes).
    pub vectors: Vec<(u64, u64)>,
    /// Their sum.
    pub total: u64,
    /// The header, all zero for calls that have none.
    pub header: MessageHeader,
    /// Where the header is; 0: none.
    pub at: u64,
}

impl Message {
    /// A single buffer of a call on sockets.
    ///
    /// # Errors
    /// EFAULT: no program has such addresses.
    pub fn flat(address: u64, bytes: u64) -> Result<Message, Errno> {
        // import_ubuf: "if (len > MAX_RW_COUNT) len = MAX_RW_COUNT; if (unlikely(!access_ok(buf, len))) return -EFAULT;"
        let bytes = bytes.min(BYTES_MAX);
        if !arch::may_be_a_programs(address, bytes) {
            return Err(Errno(libc::EFAULT));
        }
        Ok(Message { vectors: vec![(address, bytes)], total: bytes, ..Message::default() })
    }

    /// The buffer of read(2) and write(2), whose whole length counts. vfs_read: "if (unlikely(!access_ok(buf, count))) return -EFAULT;"
    ///
    /// # Errors
    /// EFAULT: as above.
    pub fn of_file(address: u64, bytes: u64) -> Result<Message, Errno> {
        if arch::may_be_a_programs(address, bytes) { Message::flat(address, bytes) } else { Err(Errno(libc::EFAULT)) }
    }

    /// The `struct msghdr` at an address, with its iovecs.
    ///
    /// # Errors
    /// EFAULT, EMSGSIZE (more than UIO_MAXIOV iovecs), EINVAL (a negative length, of the name, too).
    pub fn read(call: &impl Memory, at: u64) -> Result<Message, Errno> {
        let mut bytes = [0; arch::MSGHDR_BYTES];
        call.read(at, &mut bytes)?;
        let header = MessageHeader::parse(&bytes);
        // __copy_msghdr: "if (!msg->msg_name) kmsg->msg_namelen = 0; if (kmsg->msg_namelen < 0) return -EINVAL;"
        if header.name != 0 && (header.name_bytes as i32) < 0 {
            return Err(Errno(libc::EINVAL));
        }
        let (vectors, total) = vectors_at(call, header.vectors, header.vector_count, libc::EMSGSIZE)?;
        Ok(Message { vectors, total, header, at })
    }

    /// The iovecs of readv(2) and writev(2).
    ///
    /// # Errors
    /// EINVAL: more than UIO_MAXIOV, or a negative length; EFAULT.
    pub fn vectors(memory: &impl Memory, at: u64, count: u64) -> Result<Message, Errno> {
        let (vectors, total) = vectors_at(memory, at, count, libc::EINVAL)?;
        Ok(Message { vectors, total, ..Message::default() })
    }

    /// What is left of its data after so many bytes.
    pub fn behind(&self, bytes: u64) -> Message {
        let mut left = bytes;
        let mut vectors = Vec::with_capacity(self.vectors.len());
        for (address, bytes) in &self.vectors {
            let cut = left.min(*bytes);
            left -= cut;
            if cut < *bytes || *bytes == 0 {
                vectors.push((address.wrapping_add(cut), bytes - cut));
            }
        }
        Message { vectors, total: self.total.saturating_sub(bytes), ..Message::default() }
    }

    /// The address to send to, if there is one.
    pub fn name(&self, call: &impl Memory) -> Result<Option<Vec<u8>>, Errno> {
        if self.header.name == 0 || self.header.name_bytes == 0 {
            return Ok(None);
        }
        // __copy_msghdr: "if (msg->msg_namelen > sizeof(struct sockaddr_storage)) msg->msg_namelen = sizeof(…)"
        let bytes = self.header.name_bytes.min(128) as i32;
        call.read_address(self.header.name, bytes).map(Some)
    }

    /// The control messages to send.
    pub fn control(&self, call: &impl Memory) -> Result<Vec<u8>, Errno> {
        // ____sys_sendmsg looks at the length alone: messages at no address are EFAULT.
        if self.header.control_bytes > CONTROL_BYTES_MAX {
            return Err(Errno(libc::ENOBUFS));
        }
        let mut control = vec![0; self.header.control_bytes as usize];
        call.read(self.header.control, &mut control)?;
        Ok(control)
    }

    /// The data to send, at most `limit` bytes.
    pub fn gather(&self, call: &impl Memory, limit: usize) -> Result<BytesMut, Errno> {
        call.gather(&self.vectors, limit)
    }

    /// Writes back what was received; returns the call's value.
    pub fn deliver(&self, call: &impl Memory, taken: &Taken, flags: i32) -> Result<i64, Errno> {
        let copied = call.scatter(&self.vectors, &taken.data)?;
        if copied < taken.data.len() && copied as u64 != self.total {
            return Err(Errno(libc::EFAULT));
        }
        // A stream says it of the urgent byte that there is no room for; that a read leaves more of it is no truncation.
        let mut out_flags = taken.flags;
        if !taken.stream && taken.length > copied {
            out_flags |= libc::MSG_TRUNC;
        }
        if self.at != 0 {
            if self.header.name != 0 {
                let room = self.header.name_bytes as usize;
                call.write(self.header.name, taken.from.get(..room).unwrap_or(&taken.from))?;
                call.write(self.at + arch::MSGHDR_NAMELEN as u64, &(taken.from.len() as u32).to_ne_bytes())?;
            }
            let room = if self.header.control == 0 { 0 } else { usize::try_from(self.header.control_bytes).unwrap_or(usize::MAX) };
            let (control, cut) = fitting(&taken.control, room);
            if cut {
                out_flags |= libc::MSG_CTRUNC;
            }
            call.write(self.header.control, &control)?;
            call.write(self.at + arch::MSGHDR_CONTROLLEN as u64, &(control.len() as u64).to_ne_bytes())?;
            call.write(self.at + arch::MSGHDR_FLAGS as u64, &out_flags.to_ne_bytes())?;
        }
        Ok(if flags & libc::MSG_TRUNC != 0 { taken.length as i64 } else { copied as i64 })
    }
}

/// An array of iovecs, and the sum of their lengths. `too_many`: what more than UIO_MAXIOV of them are.
fn vectors_at(memory: &impl Memory, at: u64, count: u64, too_many: i32) -> Result<(Vec<(u64, u64)>, u64), Errno> {
    if count > VECTORS_MAX {
        return Err(Errno(too_many));
    }
    let mut array = vec![0; count as usize * arch::IOVEC_BYTES];
    memory.read(at, &mut array)?;
    let mut vectors: Vec<(u64, u64)> = arch::vectors(&array).collect();
    // copy_iovec_from_user: "if (len < 0) { ret = -EINVAL; goto uaccess_end; }"
    if vectors.iter().any(|(_, bytes)| i64::try_from(*bytes).is_err()) {
        return Err(Errno(libc::EINVAL));
    }
    // __import_iovec: "if (nr_segs == 1) return __import_iovec_ubuf(…); … if (!access_ok(iov[seg].iov_base, len)) { … return -EFAULT; }", of what is
    // not yet cut, but for a single one.
    let of_one = vectors.len() == 1;
    let reaches = |bytes: u64| if of_one { bytes.min(BYTES_MAX) } else { bytes };
    if !vectors.iter().all(|(address, bytes)| arch::may_be_a_programs(*address, reaches(*bytes))) {
        return Err(Errno(libc::EFAULT));
    }
    // __import_iovec: "if (len > MAX_RW_COUNT - total_len) { len = MAX_RW_COUNT - total_len; iov[seg].iov_len = len; }"
    let mut total = 0;
    for (_, bytes) in &mut vectors {
        *bytes = (*bytes).min(BYTES_MAX - total);
        total += *bytes;
    }
    Ok((vectors, total))
}

/// What was taken for a program.
#[derive(Debug, Default)]
pub struct Taken {
    /// The bytes, at most as many as there is room for.
    pub data: Bytes,
    /// The whole length.
    pub length: usize,
    /// Sender.
    pub from: Vec<u8>,
    /// Control messages.
    pub control: Vec<u8>,
    /// msg_flags.
    pub flags: i32,
    /// It is a piece of a stream: nothing is cut off.
    pub stream: bool,
}

/// What a socket gave, as one slice: the one that came, mostly.
pub fn joined(mut pieces: Tail) -> Bytes {
    match pieces.len() {
        0 | 1 => pieces.pop().unwrap_or_default(),
        _ => pieces.concat().into(),
    }
}

/// The control messages as they fit into `room`, and whether something was cut off.
///
/// put_cmsg: "if (!msg->msg_control || msg->msg_controllen < sizeof(*cm)) { msg->msg_flags |= MSG_CTRUNC; return 0; }
/// if (msg->msg_controllen < cmlen) { msg->msg_flags |= MSG_CTRUNC; cmlen = msg->msg_controllen; }"
fn fitting(control: &[u8], room: usize) -> (Vec<u8>, bool) {
    let mut fits = Vec::new();
    let mut rest = control;
    while let Some(length) = rest.get(..8).and_then(|bytes| bytes.try_into().ok()).map(usize::from_ne_bytes) {
        if !(CMSGHDR_BYTES..=rest.len()).contains(&length) {
            break;
        }
        let left = room.saturating_sub(fits.len());
        if left < CMSGHDR_BYTES {
            return (fits, true);
        }
        let cut = length.min(left);
        fits.extend(cut.to_ne_bytes());
        fits.extend(&rest[8..cut]);
        if cut < length {
            return (fits, true);
        }
        // "cmlen = min(CMSG_SPACE(len), msg->msg_controllen)": the padding counts as far as there is room for it.
        fits.resize(fits.len() + (length.next_multiple_of(8) - length).min(left - length), 0);
        rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
    }
    (fits, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Memory from address 0 on.
    struct Plain(RefCell<Vec<u8>>);

    impl Memory for Plain {
        fn read(&self, pointer: u64, into: &mut [u8]) -> Result<(), Errno> {
            let memory = self.0.borrow();
            let from = memory.get(pointer as usize..pointer as usize + into.len()).ok_or(Errno(libc::EFAULT))?;
            into.copy_from_slice(from);
            Ok(())
        }
        fn write(&self, pointer: u64, from: &[u8]) -> Result<(), Errno> {
            self.0.borrow_mut()[pointer as usize..][..from.len()].copy_from_slice(from);
            Ok(())
        }
        fn gather(&self, _: &[(u64, u64)], _: usize) -> Result<BytesMut, Errno> {
            Ok(BytesMut::new())
        }
        fn scatter(&self, _: &[(u64, u64)], _: &Bytes) -> Result<usize, Errno> {
            Ok(0)
        }
    }

    /// Iovecs and their sum, or an errno.
    type Looked = Result<(Vec<(u64, u64)>, u64), i32>;

    /// What readv and recvmsg say of these iovecs.
    fn both(vectors: &[(u64, u64)], count: u64) -> [Looked; 2] {
        let mut bytes = vec![0; arch::MSGHDR_BYTES];
        // msg_iov and msg_iovlen
        bytes[16..24].copy_from_slice(&(arch::MSGHDR_BYTES as u64).to_ne_bytes());
        bytes[24..32].copy_from_slice(&count.to_ne_bytes());
        bytes.extend(vectors.iter().flat_map(|(address, bytes)| [address.to_ne_bytes(), bytes.to_ne_bytes()].concat()));
        let memory = Plain(RefCell::new(bytes));
        let parts = |message: Message| (message.vectors, message.total);
        [Message::vectors(&memory, arch::MSGHDR_BYTES as u64, count), Message::read(&memory, 0)]
            .map(|message| message.map(parts).map_err(|errno| errno.0))
    }

    #[test]
    fn iovecs_are_looked_at_as_import_iovec_looks() {
        let two = vec![(4096, 10), (8192, 20)];
        assert_eq!(both(&two, 2), [(); 2].map(|()| Ok((two.clone(), 30))));
        assert_eq!(both(&[], 0), [(); 2].map(|()| Ok((vec![], 0))));
        assert_eq!(both(&[(4096, 10), (8192, -1_i64 as u64)], 2), [(); 2].map(|()| Err(libc::EINVAL)), "a negative length");
        let most = 0x7fff_f000;
        assert_eq!(both(&[(1, 5), (2, most), (3, 7)], 3), [(); 2].map(|()| Ok((vec![(1, 5), (2, most - 5), (3, 0)], most))), "shortened");
        assert_eq!(both(&two, 3), [(); 2].map(|()| Err(libc::EFAULT)));
        assert_eq!(both(&[], 1025), [Err(libc::EINVAL), Err(libc::EMSGSIZE)], "each says it with its own errno");
    }

    #[test]
    fn what_is_left_of_a_message_wraps_with_its_addresses() {
        let message = Message { vectors: vec![(1, 2), (u64::MAX, 4)], total: 6, ..Message::default() };
        let left = message.behind(3);
        assert_eq!((left.vectors, left.total), (vec![(0, 3)], 3));
    }

    #[test]
    fn control_messages_are_cut_as_put_cmsg_cuts_them() {
        let mut control = Vec::new();
        for (length, fill) in [(20_usize, 1), (16, 0), (24, 2)] {
            control.extend(length.to_ne_bytes());
            control.extend([0; 8]);
            control.resize(control.len() + length - 16, fill);
            control.resize(control.len().next_multiple_of(8), 0);
        }
        assert_eq!(control.len(), 64);
        assert_eq!(fitting(&control, 100), (control.clone(), false));
        assert_eq!(fitting(&control, 64), (control.clone(), false));
        let (cut, is_cut) = fitting(&control, 60);
        assert_eq!(
            (cut.len(), is_cut, &cut[40..48]),
            (60, true, 20_usize.to_ne_bytes().as_slice()),
            "the last one says how much of it there is"
        );
        assert_eq!(fitting(&control, 50), (control[..40].to_vec(), true), "no header fits");
        assert_eq!(fitting(&control[..24], 22), (control[..22].to_vec(), false), "padding may be missing at the end");
        assert_eq!(fitting(&control, 15), (Vec::new(), true));
        assert_eq!(fitting(&[], 100), (Vec::new(), false));
        assert_eq!(fitting(&[0xff; 24], 100), (Vec::new(), false), "a length that makes no sense");
    }
}
