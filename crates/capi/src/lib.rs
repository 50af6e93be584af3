//! libweft: a weft node as a C library. `include/weft.h` is made from this file; `examples/two_nodes.c` shows its use.
//!
//! The library has no thread, clock, device or descriptor of its own. Its owner feeds frames, takes frames, moves the clock and makes calls,
//! all from one thread at a time; different nodes may live on different threads. Every call answers at once: with a result, with a negative
//! Linux errno, or with [`WEFT_PENDING`] where a native call on a blocking socket would wait.

mod embedded;

use embedded::{Embedded, Refusal, Waiting};
use std::ffi::{CStr, c_char, c_int, c_void};
use weft_core::{Bytes, Instant};
use weft_socket::Errno;

/// A call on a blocking socket has to wait: make it again, with the same arguments, when `weft_changed` names the descriptor. No errno has
/// this value.
pub const WEFT_PENDING: i64 = -4096;
/// `weft_next`: nothing is due, whatever the time.
pub const WEFT_NEVER: i64 = -1;

/// A node: a machine with its own stack. Opaque.
#[allow(non_camel_case_types)]
pub struct weft_node(Embedded);

/// Longest name that is read for an address, bytes (struct sockaddr_storage).
const SOCKADDR_BYTES_MAX: usize = 128;
/// Most buffers of one message (UIO_MAXIOV).
const VECTORS_MAX: usize = 1024;
/// Most bytes of one send; more are taken by the next.
const SEND_BYTES_MAX: usize = 0x7fff_f000;

fn number(result: Result<i64, Refusal>) -> i64 {
    match result {
        Ok(value) => value,
        Err(Refusal::Errno(errno)) => -i64::from(errno.0),
        Err(Refusal::Pending) => WEFT_PENDING,
    }
}

fn plain(result: Result<(), Errno>) -> c_int {
    result.map_or_else(|errno| -errno.0, |()| 0)
}

/// # Safety
/// `node` is null or came from `weft_node_new`, and nobody else uses it now.
unsafe fn node<'a>(node: *mut weft_node) -> Result<&'a mut Embedded, Errno> {
    // SAFETY: the caller's promise.
    unsafe { node.as_mut() }.map(|node| &mut node.0).ok_or(Errno::EFAULT)
}

/// # Safety
/// `data` is null or has `length` readable bytes that nobody changes meanwhile.
unsafe fn bytes<'a>(data: *const c_void, length: usize) -> Result<&'a [u8], Errno> {
    match (data.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno::EFAULT),
        // SAFETY: the caller's promise; a length above isize::MAX would break it, and cannot belong to an object.
        (false, length) if length <= isize::MAX as usize => Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) }),
        (false, _) => Err(Errno::EINVAL),
    }
}

/// # Safety
/// As [`bytes`], writable and not looked at by anybody else meanwhile.
unsafe fn bytes_mut<'a>(data: *mut c_void, length: usize) -> Result<&'a mut [u8], Errno> {
    match (data.is_null(), length) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Errno::EFAULT),
        // SAFETY: the caller's promise.
        (false, length) if length <= isize::MAX as usize => Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), length) }),
        (false, _) => Err(Errno::EINVAL),
    }
}

/// A text of C. # Safety: null or terminated.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }).and_then(|text| text.to_str().ok())
}

/// Writes a text and its terminating zero into a buffer, shortened to fit.
///
/// # Safety
/// As [`bytes_mut`].
unsafe fn tell(message: &str, buffer: *mut c_char, length: usize) {
    // SAFETY: the caller's promise.
    if let Ok(place) = unsafe { bytes_mut(buffer.cast(), length) }
        && let Some(room) = place.len().checked_sub(1)
    {
        let kept = (0..=message.len().min(room)).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        place[..kept].copy_from_slice(&message.as_bytes()[..kept]);
        place[kept] = 0;
    }
}

/// Gives a name back as accept(2) and recvfrom(2) do: cut to `*length`, which then says how long it is.
///
/// # Safety
/// `address` and `length` are null or as the man page wants them.
unsafe fn give_name(name: &[u8], address: *mut libc::sockaddr, length: *mut libc::socklen_t) -> Result<(), Errno> {
    if address.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let length = unsafe { length.as_mut() }.ok_or(Errno::EFAULT)?;
    // SAFETY: the caller's promise: `*length` bytes are there.
    let place = unsafe { bytes_mut(address.cast(), *length as usize) }?;
    let kept = place.len().min(name.len());
    place[..kept].copy_from_slice(&name[..kept]);
    *length = name.len() as libc::socklen_t;
    Ok(())
}

/// Creates a node from the text of a stack file. Its interfaces must have the backend `memory:NAME` (`link = "raw"` for IP packets without
/// Ethernet header). `seed` makes its randomness: the same file, seed, frames, calls and times give the same bytes. NULL: it failed, and
/// `error` (`error_bytes` large, or NULL) says what is wrong, in which line, and what to do.
///
/// # Safety
/// `stack` is a terminated text; `error` has `error_bytes` writable bytes or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_node_new(stack: *const c_char, seed: u64, error: *mut c_char, error_bytes: usize) -> *mut weft_node {
    // SAFETY: the caller's promise.
    let made = match unsafe { text(stack) } {
        Some(text) => Embedded::new("stack", text, seed),
        None => Err("the stack file is NULL or no UTF-8".to_owned()),
    };
    match made {
        Ok(node) => Box::into_raw(Box::new(weft_node(node))),
        Err(why) => {
            // SAFETY: the caller's promise.
            unsafe { tell(&why, error, error_bytes) };
            std::ptr::null_mut()
        }
    }
}

/// As weft_node_new, from the file at `path`.
///
/// # Safety
/// As weft_node_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_node_open(path: *const c_char, seed: u64, error: *mut c_char, error_bytes: usize) -> *mut weft_node {
    // SAFETY: the caller's promise.
    let made = match unsafe { text(path) } {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read the stack file {path}: {error}"))
            .and_then(|text| Embedded::new(path, &text, seed)),
        None => Err("the path is NULL or no UTF-8".to_owned()),
    };
    match made {
        Ok(node) => Box::into_raw(Box::new(weft_node(node))),
        Err(why) => {
            // SAFETY: the caller's promise.
            unsafe { tell(&why, error, error_bytes) };
            std::ptr::null_mut()
        }
    }
}

/// Ends a node with everything in it. NULL is allowed.
///
/// # Safety
/// `node` came from weft_node_new or weft_node_open and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_node_free(node: *mut weft_node) {
    if !node.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(node) });
    }
}

/// The node's time, nanoseconds. It begins at 0.
///
/// # Safety
/// `node` is valid and not used by another thread now. So for every function below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_now(node: *mut weft_node) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { self::node(node) }.map_or_else(|errno| -i64::from(errno.0), |node| node.now().as_nanos() as i64)
}

/// When weft_advance should be called next, if nothing else happens; WEFT_NEVER: nothing is due.
///
/// # Safety
/// As weft_now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_next(node: *mut weft_node) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { self::node(node) }.ok().and_then(|node| node.next()).map_or(WEFT_NEVER, |at| i64::try_from(at.as_nanos()).unwrap_or(i64::MAX))
}

/// Moves the clock to `nanoseconds` and does what is due on the way, each at its own time. -EINVAL: that is in the past.
///
/// # Safety
/// As weft_now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_advance(node: *mut weft_node, nanoseconds: i64) -> c_int {
    let to = u64::try_from(nanoseconds).map_err(|_| Errno::EINVAL);
    // SAFETY: the caller's promise.
    plain(to.and_then(|to| unsafe { self::node(node) }?.advance(Instant::from_nanos(to))))
}

/// The number of an interface of the stack file, for the frame calls; -ENODEV: there is none of that name.
///
/// # Safety
/// As weft_now; `name` is a terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_interface(node: *mut weft_node, name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let (node, name) = (unsafe { self::node(node) }, unsafe { text(name) });
    match (node, name) {
        (Ok(node), Some(name)) => node.interface(name).map_or(-Errno::ENODEV.0, |index| index as c_int),
        _ => -Errno::EFAULT.0,
    }
}

/// 1: frames of this interface begin with an Ethernet header; 0: with an IP header; -ENODEV.
///
/// # Safety
/// As weft_now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_interface_is_ethernet(node: *mut weft_node, interface: u32) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { self::node(node) } {
        Ok(node) => node.is_ethernet(interface).map_or(-Errno::ENODEV.0, c_int::from),
        Err(errno) => -errno.0,
    }
}

/// A frame arrives at an interface. What it causes happens before this returns. 0, or -ENODEV.
///
/// # Safety
/// As weft_now; `frame` has `length` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_input(node: *mut weft_node, interface: u32, frame: *const c_void, length: usize) -> c_int {
    // SAFETY: the caller's promise.
    let (node, frame) = (unsafe { self::node(node) }, unsafe { bytes(frame, length) });
    plain(node.and_then(|node| node.input(interface, frame?)))
}

/// Takes the next frame that is to leave: its length, with its interface in `*interface` (unless NULL); 0: there is none. -EMSGSIZE: it is longer
/// than `length`, and stays; no frame is longer than the interface's MTU and 18 bytes.
///
/// # Safety
/// As weft_now; `buffer` has `length` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_output(node: *mut weft_node, interface: *mut u32, buffer: *mut c_void, length: usize) -> i64 {
    // SAFETY: the caller's promise.
    let (node, place) = (unsafe { self::node(node) }, unsafe { bytes_mut(buffer, length) });
    let taken = node.and_then(|node| {
        let place = place?;
        let Some((index, frame)) = node.output() else { return Ok(0) };
        if frame.len() > place.len() {
            return Err(Errno::EMSGSIZE);
        }
        let mut at = 0;
        for chunk in frame.chunks() {
            place[at..at + chunk.len()].copy_from_slice(chunk);
            at += chunk.len();
        }
        // SAFETY: the caller's promise: null, or to be written.
        if let Some(interface) = unsafe { interface.as_mut() } {
            *interface = index;
        }
        node.output_taken();
        Ok(at as i64)
    });
    number(taken.map_err(Refusal::from))
}

/// Frames that were lost because nobody took them with weft_output (65,536 wait at most).
///
/// # Safety
/// As weft_now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_output_lost(node: *mut weft_node) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { self::node(node) }.map_or(0, |node| node.output_lost())
}

/// Sends a control message, JSON as on the control socket of `weft up` (for example {"list":"Sockets"}), and writes the answer, JSON too, to
/// `answer`. Returns its length, -EINVAL with a message in `answer` when it was refused, -EMSGSIZE when `answer` is too small.
///
/// # Safety
/// As weft_now; `request` is a terminated text, `answer` has `length` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_control(node: *mut weft_node, request: *const c_char, answer: *mut c_char, length: usize) -> i64 {
    // SAFETY: the caller's promise.
    let (Ok(node), Some(request)) = (unsafe { self::node(node) }, unsafe { text(request) }) else { return -i64::from(Errno::EFAULT.0) };
    let (result, said) = match node.control(request) {
        Ok(said) => (said.len() as i64, said),
        Err(why) => (-i64::from(Errno::EINVAL.0), why),
    };
    // SAFETY: the caller's promise.
    unsafe { tell(&said, answer, length) };
    if result >= 0 && said.len() >= length { -i64::from(Errno::EMSGSIZE.0) } else { result }
}

/// A descriptor of whose socket something changed since it was last named here, or whose pending call ran out of time: make pending calls again,
/// poll it. Lowest first; -1: none.
///
/// # Safety
/// As weft_now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_changed(node: *mut weft_node) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { self::node(node) }.ok().and_then(|node| node.take_changed()).unwrap_or(-1)
}

mod calls;
pub use calls::*;

fn address_of(name: &[u8]) -> Result<&[u8], Errno> {
    if name.len() > SOCKADDR_BYTES_MAX { Err(Errno::EINVAL) } else { Ok(name) }
}

fn send_on(node: &mut Embedded, fd: c_int, data: Bytes, flags: c_int, to: Option<&[u8]>, control: &[u8]) -> i64 {
    let sent = node.on(fd, |sockets, socket, cx| sockets.send(socket, data, flags, to, control, cx));
    number(node.waits(fd, Waiting::Send, flags, sent).map(|bytes| bytes as i64))
}
