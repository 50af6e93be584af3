//! The three ways on for a call: to the kernel, to the controller, or nowhere.

use crate::abi::{self, kind};
use crate::block::Thread;
use crate::calls::{self, Call, number as nr};
use crate::channel::{Copies, exchange, own, post};
use crate::descriptor;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

/// What a call comes to: a value, or an errno as the kernel returns it.
pub type Answer = Result<isize, isize>;

/// What handlers return: an [`Answer`], or the word of it where it came from the kernel or the controller whole.
pub trait Answered {
    fn word(self) -> isize;
}

impl Answered for isize {
    fn word(self) -> isize {
        self
    }
}

impl Answered for Answer {
    fn word(self) -> isize {
        match self {
            Ok(value) | Err(value) => value,
        }
    }
}

/// The kernel answers.
pub fn kernel<C: Call>(call: &C) -> isize {
    sys::call(C::NUMBER, &call.words())
}

/// The controller answers. `word`: what the descriptor is that the call is about, 0 where there is none.
pub fn forward<C: Call>(t: &mut Thread, call: &C, word: u64) -> isize {
    forward_words(t, C::NUMBER, &call.words(), word)
}

/// The same, of a call by its words.
#[inline(never)]
pub fn forward_words(t: &mut Thread, number: usize, words: &[usize; 6], word: u64) -> isize {
    if let Err(errno) = own(t) {
        return errno;
    }
    let channel = t.channel;
    // Most calls have it first, mmap(2) does not.
    let named = calls::DESCRIPTORS.get(number).map_or(0, |named| named.trailing_zeros() as usize);
    let fd = words.get(named).copied().unwrap_or(words[0]);
    let nonblocking = descriptor::kind_of(word) == kind::VIRTUAL && descriptor::is_nonblocking(fd, word);
    channel.descriptor.store(word | if nonblocking { abi::NONBLOCKING } else { 0 }, Relaxed);
    let mut copies = Copies::new(channel);
    copies.add_pieces(calls::pieces(number), words);
    let arguments = words.map(|word| word as u64);
    let result = exchange(t, number as u64, &arguments);
    if channel.answer.load(Relaxed) == abi::DESCRIPTOR { receive_descriptor(t, result) } else { result as isize }
}

/// Takes a new descriptor from the control socket: that of the number in `result` ([`abi::DESCRIPTOR`]). Those before it were for programs that
/// have been killed.
pub fn receive_descriptor(t: &mut Thread, result: i64) -> isize {
    let fd = receive_from(abi::DESCRIPTOR_CONTROL as usize, result);
    if fd < 0 {
        t.channel.descriptor.store(kind::VIRTUAL << 56, Relaxed);
        post(t, abi::CLOSED, &[]);
        return sys::EMFILE;
    }
    let word = t.channel.descriptor.load(Relaxed) & !abi::NONBLOCKING;
    descriptor::remember(t, fd as usize, word);
    fd
}

/// Takes a descriptor from a socket of the controller's, as above; -1: none came.
pub fn receive_from(socket: usize, result: i64) -> isize {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    let flags = if result & 1 == 1 { MSG_CMSG_CLOEXEC } else { 0 };
    let mut control = [0_u32; 6];
    let came = loop {
        let mut number = 0_i64;
        let vector = [&raw mut number as usize, size_of_val(&number)];
        control = [0; 6];
        let mut message = [0, 0, vector.as_ptr() as usize, 1, control.as_mut_ptr() as usize, size_of_val(&control), 0];
        let bytes = sys::call(nr::RECVMSG, &[socket, message.as_mut_ptr() as usize, flags]);
        let came = bytes > 0 && control[0] >= 20 && control[2] == 1;
        if bytes <= 0 || number == result >> 1 {
            break came;
        }
        if came {
            sys::call(nr::CLOSE, &[control[4] as usize]);
        }
    };
    if came { control[4] as isize } else { -1 }
}

/// Nobody answers: the program gets this error, and the controller notes what it asked for. `detail` tells one kind of the call from another.
#[inline(never)]
pub fn unsupported(t: &mut Thread, number: usize, detail: usize, errno: isize) -> Answer {
    post(t, abi::UNSUPPORTED, &[number as u64, detail as u64, -errno as u64]);
    Err(errno)
}

/// As [`unsupported`], with the call's first argument for its kind.
pub fn refused<C: Call>(t: &mut Thread, call: &C, errno: isize) -> Answer {
    unsupported(t, C::NUMBER, call.words()[0], errno)
}
