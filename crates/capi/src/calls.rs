//! The socket family of calls. Each takes and gives what its Linux namesake does, with the node in front and a negative errno instead of -1.

use crate::embedded::Waiting;
use crate::{Refusal, SEND_BYTES_MAX, VECTORS_MAX, address_of, bytes, bytes_mut, give_name, node, number, plain, send_on, weft_node};
use std::ffi::{c_int, c_void};
use weft_core::Bytes;
use weft_socket::abi::{MPTCP_FULL_INFO, SOL_MPTCP};
use weft_socket::options::{bytes_asked, split_full};
use weft_socket::{Errno, Poll, Received};

/// socket(2). The descriptor belongs to the node; numbers begin at 0.
///
/// # Safety
/// As weft_now. So for every function of this kind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_socket(node: *mut weft_node, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { self::node(node) }.and_then(|node| node.socket(domain, kind, protocol)).unwrap_or_else(|errno| -errno.0)
}

/// close(2).
///
/// # Safety
/// As weft_now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_close(node: *mut weft_node, fd: c_int) -> c_int {
    // SAFETY: the caller's promise.
    plain(unsafe { self::node(node) }.and_then(|node| node.close(fd)))
}

/// bind(2).
///
/// # Safety
/// As weft_now; `address` has `length` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_bind(node: *mut weft_node, fd: c_int, address: *const libc::sockaddr, length: libc::socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    let (node, name) = (unsafe { self::node(node) }, unsafe { bytes(address.cast(), length as usize) });
    plain(node.and_then(|node| {
        let name = address_of(name?)?;
        node.on(fd, |sockets, socket, cx| sockets.bind(socket, name, cx))
    }))
}

/// connect(2). On a blocking socket WEFT_PENDING until the outcome is known.
///
/// # Safety
/// As weft_bind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_connect(node: *mut weft_node, fd: c_int, address: *const libc::sockaddr, length: libc::socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    let (node, name) = (unsafe { self::node(node) }, unsafe { bytes(address.cast(), length as usize) });
    let result = node.map_err(Refusal::from).and_then(|node| node.connect(fd, address_of(name?)?));
    number(result.map(|()| 0)) as c_int
}

/// listen(2).
///
/// # Safety
/// As weft_now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_listen(node: *mut weft_node, fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: the caller's promise.
    plain(unsafe { self::node(node) }.and_then(|node| node.on(fd, |sockets, socket, cx| sockets.listen(socket, backlog, cx))))
}

/// accept4(2). On a blocking socket WEFT_PENDING while no connection waits.
///
/// # Safety
/// As weft_now; `address` and `length` as the man page wants them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_accept(
    node: *mut weft_node,
    fd: c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let accepted = unsafe { self::node(node) }.map_err(Refusal::from).and_then(|node| {
        let (child, name) = node.accept(fd, flags)?;
        // SAFETY: the caller's promise.
        match unsafe { give_name(&name, address, length) } {
            Ok(()) => Ok(i64::from(child)),
            Err(errno) => {
                // Just made, so it can be closed.
                let _ = node.close(child);
                Err(errno.into())
            }
        }
    });
    number(accepted) as c_int
}

/// shutdown(2).
///
/// # Safety
/// As weft_now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_shutdown(node: *mut weft_node, fd: c_int, how: c_int) -> c_int {
    // SAFETY: the caller's promise.
    plain(unsafe { self::node(node) }.and_then(|node| node.on(fd, |sockets, socket, cx| sockets.shutdown(socket, how, cx))))
}

/// getsockname(2).
///
/// # Safety
/// As weft_accept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_getsockname(
    node: *mut weft_node,
    fd: c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { self::node(node) }.and_then(|node| node.on(fd, |sockets, socket, _| sockets.local_address(socket)));
    // SAFETY: the caller's promise.
    plain(name.and_then(|name| unsafe { give_name(&name, address, length) }))
}

/// getpeername(2).
///
/// # Safety
/// As weft_accept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_getpeername(
    node: *mut weft_node,
    fd: c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { self::node(node) }.and_then(|node| node.on(fd, |sockets, socket, _| sockets.peer_address(socket)));
    // SAFETY: the caller's promise.
    plain(name.and_then(|name| unsafe { give_name(&name, address, length) }))
}

/// setsockopt(2).
///
/// # Safety
/// As weft_now; `value` has `length` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_setsockopt(
    node: *mut weft_node,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: libc::socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let (node, value) = (unsafe { self::node(node) }, unsafe { bytes(value, length as usize) });
    let program = value.and_then(|value| match (level, name) {
        // SAFETY: the caller's promise goes on to what the structure points to, as for setsockopt(2).
        (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER) => unsafe { filter_program(value) }.map(Some),
        _ => Ok(None),
    });
    plain(node.and_then(|node| {
        let value = match program? {
            Some(program) => program,
            None => value?,
        };
        node.on(fd, |sockets, socket, cx| sockets.set_option(socket, level, name, value, cx))
    }))
}

/// The instructions that a `struct sock_fprog` points to.
///
/// # Safety
/// Its pointer leads to as many readable instructions as it says.
unsafe fn filter_program(value: &[u8]) -> Result<&[u8], Errno> {
    let &[l0, l1, _, _, _, _, _, _, ref at @ ..] = value else { return Err(Errno::EINVAL) };
    let at = usize::from_ne_bytes(at.try_into().map_err(|_| Errno::EINVAL)?);
    // SAFETY: the caller's promise.
    unsafe { bytes(std::ptr::with_exposed_provenance::<c_void>(at), usize::from(u16::from_ne_bytes([l0, l1])) * 8) }
}

/// getsockopt(2); SO_GET_FILTER tells bytes here; TCP_INFO fills struct tcp_info, cut to `*length`.
///
/// # Safety
/// As weft_now; `*length` bytes of `value` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_getsockopt(
    node: *mut weft_node,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let (node, length) = (unsafe { self::node(node) }, unsafe { length.as_mut() });
    let (Ok(node), Some(length)) = (node, length) else { return -Errno::EFAULT.0 };
    if *length > i32::MAX as u32 {
        return -Errno::EINVAL.0;
    }
    // SAFETY: the caller's promise.
    let place = unsafe { bytes_mut(value, *length as usize) };
    let asked = bytes_asked(level, name, *length as i32).zip(place.as_deref().ok());
    let asked = asked.and_then(|(bytes, place)| place.get(..bytes)).unwrap_or_default().to_vec();
    let found = node.on(fd, |sockets, socket, cx| sockets.get_option_asked(socket, level, name, &asked, *length as i32, cx));
    plain(found.and_then(|found| {
        let place = place?;
        let mut found = found;
        if (level, name) == (SOL_MPTCP, MPTCP_FULL_INFO) {
            let (own, others) = split_full(&found, place.len());
            for (at, bytes) in others {
                // SAFETY: the caller's promise of what `value` points to holds for the places that it names.
                unsafe { bytes_mut(std::ptr::with_exposed_provenance_mut(at as usize), bytes.len()) }?.copy_from_slice(&bytes);
            }
            found = own;
        }
        let kept = found.len().min(place.len());
        place[..kept].copy_from_slice(&found[..kept]);
        *length = kept as libc::socklen_t;
        Ok(())
    }))
}

/// send(2). How many bytes were taken: on a blocking stream, too, that may be fewer than `length`; WEFT_PENDING when none were.
///
/// # Safety
/// As weft_now; `data` has `length` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_send(node: *mut weft_node, fd: c_int, data: *const c_void, length: usize, flags: c_int) -> i64 {
    // SAFETY: the caller's promise; there is no name.
    unsafe { weft_sendto(node, fd, data, length, flags, std::ptr::null(), 0) }
}

/// sendto(2).
///
/// # Safety
/// As weft_send; `address` is null or has `address_length` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_sendto(
    node: *mut weft_node,
    fd: c_int,
    data: *const c_void,
    length: usize,
    flags: c_int,
    address: *const libc::sockaddr,
    address_length: libc::socklen_t,
) -> i64 {
    // SAFETY: the caller's promise.
    let (node, data) = (unsafe { self::node(node) }, unsafe { bytes(data, length.min(SEND_BYTES_MAX)) });
    let name_bytes = if address.is_null() { 0 } else { address_length as usize };
    // SAFETY: the caller's promise.
    let name = unsafe { bytes(address.cast(), name_bytes) };
    match (node, data, name.and_then(address_of)) {
        (Ok(node), Ok(data), Ok(name)) => send_on(node, fd, Bytes::copy_from_slice(data), flags, (!address.is_null()).then_some(name), &[]),
        (Err(errno), ..) | (_, Err(errno), _) | (.., Err(errno)) => -i64::from(errno.0),
    }
}

/// The buffers of a message. # Safety: as sendmsg(2) and recvmsg(2) want them.
unsafe fn vectors<'a>(message: &libc::msghdr) -> Result<&'a [libc::iovec], Errno> {
    if message.msg_iovlen > VECTORS_MAX {
        return Err(Errno::EMSGSIZE);
    }
    if message.msg_iovlen == 0 {
        return Ok(&[]);
    }
    if message.msg_iov.is_null() {
        return Err(Errno::EFAULT);
    }
    // SAFETY: the caller's promise: so many there are.
    Ok(unsafe { std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) })
}

/// sendmsg(2), with control messages.
///
/// # Safety
/// As weft_now; `message` is as the man page wants it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_sendmsg(node: *mut weft_node, fd: c_int, message: *const libc::msghdr, flags: c_int) -> i64 {
    // SAFETY: the caller's promise.
    let (node, message) = (unsafe { self::node(node) }, unsafe { message.as_ref() });
    let (Ok(node), Some(message)) = (node, message) else { return -i64::from(Errno::EFAULT.0) };
    let gathered = || -> Result<_, Errno> {
        let mut data = Vec::new();
        // SAFETY: the caller's promise.
        for vector in unsafe { vectors(message) }? {
            let room = SEND_BYTES_MAX - data.len();
            // SAFETY: the caller's promise.
            data.extend_from_slice(unsafe { bytes(vector.iov_base, vector.iov_len.min(room)) }?);
        }
        let name_bytes = if message.msg_name.is_null() { 0 } else { message.msg_namelen as usize };
        // SAFETY: the caller's promise.
        let name = address_of(unsafe { bytes(message.msg_name, name_bytes) }?)?;
        let control_bytes = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
        // SAFETY: the caller's promise.
        let control = unsafe { bytes(message.msg_control, control_bytes) }?;
        Ok((data, name, control))
    };
    match gathered() {
        Ok((data, name, control)) => send_on(node, fd, data.into(), flags, (!message.msg_name.is_null()).then_some(name), control),
        Err(errno) => -i64::from(errno.0),
    }
}

/// recv(2). WEFT_PENDING while there is nothing, on a blocking socket. MSG_WAITALL does not wait: what is there is returned.
///
/// # Safety
/// As weft_now; `buffer` has `length` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_recv(node: *mut weft_node, fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> i64 {
    // SAFETY: the caller's promise; no name is wanted.
    unsafe { weft_recvfrom(node, fd, buffer, length, flags, std::ptr::null_mut(), std::ptr::null_mut()) }
}

/// What was received: into the buffers, in order. The bytes written.
fn scatter<'a>(received: &Received, places: impl Iterator<Item = &'a mut [u8]>) -> usize {
    let mut chunks = received.data.iter().map(|chunk| chunk.as_ref()).filter(|chunk: &&[u8]| !chunk.is_empty());
    let mut rest: &[u8] = &[];
    let mut written = 0;
    for mut place in places {
        while !place.is_empty() {
            if rest.is_empty() {
                let Some(next) = chunks.next() else { return written };
                rest = next;
            }
            let bytes = rest.len().min(place.len());
            let (head, tail) = place.split_at_mut(bytes);
            head.copy_from_slice(&rest[..bytes]);
            (place, rest) = (tail, &rest[bytes..]);
            written += bytes;
        }
    }
    written
}

/// With MSG_TRUNC the whole length of a datagram, or of what was taken off a stream.
fn length_told(received: &Received, written: usize, flags: c_int) -> i64 {
    if flags & libc::MSG_TRUNC != 0 { received.datagram_bytes as i64 } else { written as i64 }
}

/// recvfrom(2).
///
/// # Safety
/// As weft_recv; `address` and `address_length` as the man page wants them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_recvfrom(
    node: *mut weft_node,
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
    address: *mut libc::sockaddr,
    address_length: *mut libc::socklen_t,
) -> i64 {
    // SAFETY: the caller's promise.
    let (node, place) = (unsafe { self::node(node) }, unsafe { bytes_mut(buffer, length) });
    let (node, place) = match (node, place) {
        (Ok(node), Ok(place)) => (node, place),
        (Err(errno), _) | (_, Err(errno)) => return -i64::from(errno.0),
    };
    let received = node.on(fd, |sockets, socket, cx| sockets.receive(socket, place.len(), flags, cx));
    let taken = node.waits(fd, Waiting::Receive, flags, received).and_then(|received| {
        let written = scatter(&received, std::iter::once(place));
        if !received.from.is_empty() {
            // SAFETY: the caller's promise.
            unsafe { give_name(&received.from, address, address_length) }?;
        }
        Ok(length_told(&received, written, flags))
    });
    number(taken)
}

/// recvmsg(2), with control messages; what of them does not fit is cut off, and MSG_CTRUNC set.
///
/// # Safety
/// As weft_now; `message` is as the man page wants it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_recvmsg(node: *mut weft_node, fd: c_int, message: *mut libc::msghdr, flags: c_int) -> i64 {
    // SAFETY: the caller's promise.
    let (node, message) = (unsafe { self::node(node) }, unsafe { message.as_mut() });
    let (Ok(node), Some(message)) = (node, message) else { return -i64::from(Errno::EFAULT.0) };
    // SAFETY: the caller's promise.
    let places: Result<Vec<&mut [u8]>, Errno> = unsafe { vectors(message) }
        .and_then(|vectors| vectors.iter().map(|vector| unsafe { bytes_mut(vector.iov_base, vector.iov_len) }).collect());
    let places = match places {
        Ok(places) => places,
        Err(errno) => return -i64::from(errno.0),
    };
    let length = places.iter().map(|place| place.len()).sum();
    let received = node.on(fd, |sockets, socket, cx| sockets.receive(socket, length, flags, cx));
    let taken = node.waits(fd, Waiting::Receive, flags, received).and_then(|received| {
        let written = scatter(&received, places.into_iter());
        message.msg_flags = received.flags;
        if !message.msg_name.is_null() {
            let mut name_length = message.msg_namelen;
            // SAFETY: the caller's promise.
            unsafe { give_name(&received.from, message.msg_name.cast(), &mut name_length) }?;
            message.msg_namelen = name_length;
        }
        let room = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
        // SAFETY: the caller's promise.
        let place = unsafe { bytes_mut(message.msg_control, room) }?;
        let kept = received.control.len().min(place.len());
        place[..kept].copy_from_slice(&received.control[..kept]);
        message.msg_controllen = kept;
        if kept < received.control.len() {
            message.msg_flags |= libc::MSG_CTRUNC;
        }
        Ok(length_told(&received, written, flags))
    });
    number(taken)
}

/// ioctl(2) for FIONREAD, SIOCOUTQ and the others that sockets have: `argument` is read and written, `length` bytes. FIONBIO sets O_NONBLOCK.
///
/// # Safety
/// As weft_now; `argument` has `length` readable and writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ioctl(node: *mut weft_node, fd: c_int, request: u64, argument: *mut c_void, length: usize) -> c_int {
    // SAFETY: the caller's promise.
    let (node, place) = (unsafe { self::node(node) }, unsafe { bytes_mut(argument, length) });
    plain(node.and_then(|node| {
        let place = place?;
        if request == libc::FIONBIO {
            let on = place.first_chunk::<4>().ok_or(Errno::EFAULT)?;
            return node.set_nonblocking(fd, i32::from_ne_bytes(*on) != 0);
        }
        let answer = node.on(fd, |sockets, socket, cx| sockets.ioctl(socket, request, place, cx))?;
        let kept = answer.len().min(place.len());
        place[..kept].copy_from_slice(&answer[..kept]);
        Ok(())
    }))
}

/// fcntl(2) for F_GETFL and F_SETFL with O_NONBLOCK; other commands give -EINVAL.
///
/// # Safety
/// As weft_now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_fcntl(node: *mut weft_node, fd: c_int, command: c_int, argument: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let done = unsafe { self::node(node) }.and_then(|node| match command {
        libc::F_GETFL => Ok(libc::O_RDWR | if node.nonblocking(fd)? { libc::O_NONBLOCK } else { 0 }),
        libc::F_SETFL => node.set_nonblocking(fd, argument & libc::O_NONBLOCK != 0).map(|()| 0),
        _ => Err(Errno::EINVAL),
    });
    done.unwrap_or_else(|errno| -errno.0)
}

/// poll(2) without waiting: fills in `revents` and returns how many are not 0. To wait, advance the clock and feed frames until weft_changed names
/// one of them.
///
/// # Safety
/// As weft_now; there are `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_poll(node: *mut weft_node, entries: *mut libc::pollfd, count: usize) -> c_int {
    // SAFETY: the caller's promise.
    let Ok(node) = (unsafe { self::node(node) }) else { return -Errno::EFAULT.0 };
    if count == 0 {
        return 0;
    }
    if entries.is_null() || count > i32::MAX as usize {
        return -Errno::EFAULT.0;
    }
    // SAFETY: the caller's promise.
    let entries = unsafe { std::slice::from_raw_parts_mut(entries, count) };
    let mut ready = 0;
    for entry in entries {
        entry.revents = match (entry.fd, node.readiness(entry.fd)) {
            (..0, _) => 0,
            (_, None) => libc::POLLNVAL,
            // POLLERR and POLLHUP are told whether asked for or not.
            (_, Some(Poll(mask))) => mask as i16 & (entry.events | libc::POLLERR | libc::POLLHUP),
        };
        ready += c_int::from(entry.revents != 0);
    }
    ready
}
