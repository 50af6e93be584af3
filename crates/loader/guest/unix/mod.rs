//! Calls on AF_UNIX sockets, which are the kernel's: with the node's mark in abstract names, and without waiting in the kernel.

mod names;
mod sockets;

use crate::block::Thread;
use crate::calls::number as nr;
use crate::sys;
use names::{ADDRESS_BYTES, MARK_BYTES, bind_anywhere, give, mark, with_mark};

/// sizeof(struct msghdr), of struct mmsghdr, and where the length is in that.
const MESSAGE_BYTES: usize = 56;
const MANY_BYTES: usize = 64;
const MANY_MAX: usize = 1024;
/// One of a list of ours, and its name.
const EACH: usize = MANY_BYTES + ADDRESS_BYTES.next_multiple_of(8);

pub fn call(t: &mut Thread, number: usize, a: &[usize; 6]) -> isize {
    match mark() {
        Some(mark) => marked(t, mark, number, a).unwrap_or_else(|errno| errno),
        None => sockets::call(t, number, a),
    }
}

fn marked(t: &mut Thread, mark: [u8; MARK_BYTES], number: usize, a: &[usize; 6]) -> Result<isize, isize> {
    let mut address = [0; ADDRESS_BYTES];
    let mut arguments = *a;
    match number {
        nr::BIND if a[2] as u32 == 2 => return Ok(bind_anywhere(mark, a)),
        nr::BIND | nr::CONNECT | nr::SENDTO => {
            let at = if number == nr::SENDTO { 4 } else { 1 };
            if let Some(length) = with_mark(mark, a[at], a[at + 1] as u32 as usize, &mut address)? {
                arguments[at] = address.as_ptr() as usize;
                arguments[at + 1] = length;
            }
            Ok(sockets::call(t, number, &arguments))
        }
        nr::GETSOCKNAME | nr::GETPEERNAME | nr::ACCEPT | nr::ACCEPT4 | nr::RECVFROM => {
            let at = if number == nr::RECVFROM { 4 } else { 1 };
            if a[at] == 0 || a[at + 1] == 0 {
                return Ok(sockets::call(t, number, a));
            }
            let room = sys::read_u32(a[at + 1])?;
            if room as i32 <= 0 {
                // EINVAL where it is less.
                return Ok(sockets::call(t, number, a));
            }
            let mut length = ADDRESS_BYTES as u32;
            arguments[at] = address.as_mut_ptr() as usize;
            arguments[at + 1] = &raw mut length as usize;
            let result = sockets::call(t, number, &arguments);
            if result >= 0 {
                give(mark, &mut address, length as usize, a[at], room as usize, a[at + 1])?;
            }
            Ok(result)
        }
        nr::SENDMSG | nr::RECVMSG => message(t, mark, number, a),
        nr::SENDMMSG => send_many(t, mark, a),
        nr::RECVMMSG => receive_many(t, mark, a),
        _ => Ok(sockets::call(t, number, a)),
    }
}

/// sendmsg(2), recvmsg(2): with a message of ours that leads to the program's buffers.
fn message(t: &mut Thread, mark: [u8; MARK_BYTES], number: usize, a: &[usize; 6]) -> Result<isize, isize> {
    let mut own = [0_u64; MESSAGE_BYTES / 8];
    let mut address = [0; ADDRESS_BYTES];
    for (index, word) in own.iter_mut().enumerate() {
        *word = sys::read_u64(a[1] + 8 * index)?;
    }
    let (name, room) = (own[0] as usize, own[1] as u32);
    if number == nr::SENDMSG {
        let Some(length) = with_mark(mark, name, room as usize, &mut address)? else { return Ok(sockets::call(t, number, a)) };
        (own[0], own[1]) = (address.as_ptr() as u64, length as u64);
        return Ok(sockets::call(t, number, &[a[0], own.as_ptr() as usize, a[2], a[3], a[4], a[5]]));
    }
    if name == 0 || room as i32 <= 0 {
        return Ok(sockets::call(t, number, a));
    }
    (own[0], own[1]) = (address.as_mut_ptr() as u64, ADDRESS_BYTES as u64);
    let result = sockets::call(t, number, &[a[0], own.as_mut_ptr() as usize, a[2], a[3], a[4], a[5]]);
    if result >= 0 {
        // msg_controllen, msg_flags: the kernel's.
        sys::write_u64(a[1] + 40, own[5])?;
        sys::write_u32(a[1] + 48, own[6] as u32)?;
        give(mark, &mut address, own[1] as u32 as usize, name, room as usize, a[1] + 8)?;
    }
    Ok(result)
}

/// sendmmsg(2): where a name is abstract, with a list of ours.
fn send_many(t: &mut Thread, mark: [u8; MARK_BYTES], a: &[usize; 6]) -> Result<isize, isize> {
    let count = (a[2] as u32 as usize).min(MANY_MAX);
    let mut address = [0; ADDRESS_BYTES];
    let mut any = false;
    for index in 0..count {
        let at = a[1] + MANY_BYTES * index;
        any |= with_mark(mark, sys::read_u64(at)? as usize, sys::read_u32(at + 8)? as usize, &mut address)?.is_some();
    }
    if !any {
        return Ok(sockets::call(t, nr::SENDMMSG, a));
    }
    let list = sys::map(count * EACH).ok_or(sys::ENOMEM)?;
    let names = list + count * MANY_BYTES;
    let mut filled = || -> Result<(), isize> {
        copy_list(a[1], list, count)?;
        for index in 0..count {
            let (from, to) = (a[1] + MANY_BYTES * index, list + MANY_BYTES * index);
            if let Some(length) = with_mark(mark, sys::read_u64(from)? as usize, sys::read_u32(from + 8)? as usize, &mut address)? {
                let name = names + index * (EACH - MANY_BYTES);
                sys::copy_out(name, &address[..length])?;
                sys::write_u64(to, name as u64)?;
                sys::write_u32(to + 8, length as u32)?;
            }
        }
        Ok(())
    };
    let result = match filled() {
        Ok(()) => sockets::call(t, nr::SENDMMSG, &[a[0], list, count, a[3], a[4], a[5]]),
        Err(errno) => errno,
    };
    // msg_len of each that was sent.
    let lengths = (0..result.max(0) as usize).map(|index| MANY_BYTES * index + MESSAGE_BYTES);
    let told = { lengths }.try_for_each(|at| sys::write_u32(a[1] + at, sys::read_u32(list + at)?));
    sys::unmap(list, count * EACH);
    told.map(|()| result)
}

/// recvmmsg(2): with a list of ours that leads to the program's buffers, but for names.
fn receive_many(t: &mut Thread, mark: [u8; MARK_BYTES], a: &[usize; 6]) -> Result<isize, isize> {
    let count = (a[2] as u32 as usize).min(MANY_MAX);
    let bytes = count * EACH;
    if bytes == 0 {
        return Ok(sockets::call(t, nr::RECVMMSG, a));
    }
    let list = sys::map(bytes).ok_or(sys::ENOMEM)?;
    let name_of = |index: usize| list + count * MANY_BYTES + index * (EACH - MANY_BYTES);
    let ready = || -> Result<(), isize> {
        copy_list(a[1], list, count)?;
        for index in 0..count {
            let at = list + MANY_BYTES * index;
            if sys::read_u64(at)? != 0 && sys::read_u32(at + 8)? as i32 > 0 {
                sys::write_u64(at, name_of(index) as u64)?;
                sys::write_u32(at + 8, ADDRESS_BYTES as u32)?;
            }
        }
        Ok(())
    };
    let mut result = match ready() {
        Ok(()) => sockets::call(t, nr::RECVMMSG, &[a[0], list, count, a[3], a[4], a[5]]),
        Err(errno) => errno,
    };
    for index in 0..result.max(0) as usize {
        if let Err(errno) = give_message(mark, list + MANY_BYTES * index, a[1] + MANY_BYTES * index, name_of(index)) {
            result = errno;
            break;
        }
    }
    sys::unmap(list, bytes);
    Ok(result)
}

fn copy_list(from: usize, to: usize, count: usize) -> Result<(), isize> {
    (0..count * MANY_BYTES).step_by(8).try_for_each(|word| sys::write_u64(to + word, sys::read_u64(from + word)?))
}

/// What the kernel has said about one message of a list: msg_controllen, msg_flags, msg_len, and the name.
fn give_message(mark: [u8; MARK_BYTES], from: usize, to: usize, name: usize) -> Result<(), isize> {
    sys::write_u64(to + 40, sys::read_u64(from + 40)?)?;
    sys::write_u32(to + 48, sys::read_u32(from + 48)?)?;
    sys::write_u32(to + MESSAGE_BYTES, sys::read_u32(from + MESSAGE_BYTES)?)?;
    if sys::read_u64(from)? as usize != name {
        return sys::write_u32(to + 8, sys::read_u32(from + 8)?);
    }
    let mut address = [0; ADDRESS_BYTES];
    sys::copy_in(name, &mut address)?;
    let (length, room) = (sys::read_u32(from + 8)? as usize, sys::read_u32(to + 8)? as usize);
    give(mark, &mut address, length, sys::read_u64(to)? as usize, room, to + 8)
}
