//! Names of AF_UNIX sockets. Abstract ones belong to the network namespace, and all nodes share an empty one: in the kernel a node's names begin with a
//! mark of its own, which programs do not see.

use crate::arena::{header, touched};
use crate::calls::number as nr;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

const AF_UNIX: u8 = 1;
/// sizeof(struct sockaddr_un)
pub const ADDRESS_BYTES: usize = 110;
/// Family, and the zero with which an abstract name begins.
const HEAD_BYTES: usize = 3;
pub const MARK_BYTES: usize = 3;
/// Of the mark's first byte. Names that the kernel has made up have hexadecimal digits there.
const MARKED: u8 = 0x80;
const EADDRINUSE: isize = -98;

pub type Address = [u8; ADDRESS_BYTES];

/// The bytes in front of the node's abstract names; None: it shares no namespace.
pub fn mark() -> Option<[u8; MARK_BYTES]> {
    let [a, b, c, _] = header().mark.load(Relaxed).to_le_bytes();
    ([a, b, c] != [0; 3]).then_some([c | MARKED, b, a])
}

/// An address of the program's with the mark, and its length; None: it is no abstract name, and stays as it is.
pub fn with_mark(mark: [u8; MARK_BYTES], from: usize, bytes: usize, into: &mut Address) -> Result<Option<usize>, isize> {
    if from == 0 || bytes < HEAD_BYTES || bytes > ADDRESS_BYTES {
        return Ok(None);
    }
    let mut given: Address = [0; ADDRESS_BYTES];
    sys::copy_in(from, &mut given[..bytes])?;
    if given[..HEAD_BYTES] != [AF_UNIX, 0, 0] {
        return Ok(None);
    }
    if bytes + MARK_BYTES > ADDRESS_BYTES {
        return Err(sys::EINVAL);
    }
    into[..HEAD_BYTES].copy_from_slice(&given[..HEAD_BYTES]);
    into[HEAD_BYTES..HEAD_BYTES + MARK_BYTES].copy_from_slice(&mark);
    into[HEAD_BYTES + MARK_BYTES..bytes + MARK_BYTES].copy_from_slice(&given[HEAD_BYTES..bytes]);
    Ok(Some(bytes + MARK_BYTES))
}

/// Takes the mark out of an address of the kernel's; returns its length.
fn without_mark(mark: [u8; MARK_BYTES], address: &mut [u8], length: usize) -> usize {
    let end = HEAD_BYTES + MARK_BYTES;
    if length < end || length > address.len() || address[..HEAD_BYTES] != [AF_UNIX, 0, 0] || address[HEAD_BYTES..end] != mark {
        return length;
    }
    address.copy_within(end..length, HEAD_BYTES);
    length - MARK_BYTES
}

/// Hands an address to the program, as move_addr_to_user: as much as there is room for, and how long it really is.
pub fn give(mark: [u8; MARK_BYTES], address: &mut Address, length: usize, to: usize, room: usize, length_at: usize) -> Result<(), isize> {
    let length = without_mark(mark, address, length);
    sys::copy_out(to, &address[..length.min(room).min(ADDRESS_BYTES)])?;
    sys::write_u32(length_at, length as u32)
}

/// bind(2) with a family only: "autobind", where the kernel's choice would be chance.
pub fn bind_anywhere(mark: [u8; MARK_BYTES], a: &[usize; 6]) -> isize {
    let (mut address, mut length) = ([0; ADDRESS_BYTES], ADDRESS_BYTES as u32);
    let named = sys::call(nr::GETSOCKNAME, &[a[0], address.as_mut_ptr() as usize, &raw mut length as usize]);
    let mut family = [0; 2];
    if named != 0 || length > 2 || address[0] != AF_UNIX || sys::copy_in(a[1], &mut family).is_err() || family != [AF_UNIX, 0] {
        return bind(a);
    }
    const DIGITS: usize = 5;
    const NAMES: u32 = 1 << 20;
    for _ in 0..NAMES {
        let number = header().names.fetch_add(1, Relaxed) % NAMES;
        let mut name = [AF_UNIX, 0, 0, mark[0], mark[1], mark[2], 0, 0, 0, 0, 0];
        for (place, digit) in name[HEAD_BYTES + MARK_BYTES..].iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(number >> (4 * (DIGITS - 1 - place))) as usize & 15];
        }
        let result = bind(&[a[0], name.as_ptr() as usize, name.len(), 0, 0, 0]);
        if result != EADDRINUSE {
            return result;
        }
    }
    -28 // ENOSPC
}

/// Gives a socket that has no name one, as bind(2) with a family only does.
pub fn name(fd: usize) {
    if let Some(mark) = mark() {
        let family = [AF_UNIX, 0];
        bind_anywhere(mark, &[fd, family.as_ptr() as usize, 2, 0, 0, 0]);
    }
}

fn bind(a: &[usize; 6]) -> isize {
    let result = sys::call(nr::BIND, a);
    touched();
    result
}
