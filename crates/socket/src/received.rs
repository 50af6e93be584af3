//! What a call that receives gives to the program.

use bytes::Bytes;
use weft_core::Tail;

/// What [`crate::Sockets::receive`] gives.
#[derive(Debug, Default, Clone)]
pub struct Received {
    /// The bytes.
    pub data: Tail,
    /// `sockaddr` of the sender; empty for streams.
    pub from: Vec<u8>,
    /// MSG_TRUNC, MSG_OOB, MSG_ERRQUEUE as recvmsg(2) reports them in `msg_flags`.
    pub flags: i32,
    /// Control messages, each a `struct cmsghdr` with its data, aligned.
    pub control: Vec<u8>,
    /// The whole length of the datagram, or the bytes taken off a stream (with MSG_TRUNC more than `data` holds): the call's return value
    /// when the program passed MSG_TRUNC.
    pub datagram_bytes: usize,
}

impl Received {
    /// Bytes of data.
    pub fn len(&self) -> usize {
        self.data.iter().map(Bytes::len).sum()
    }
    /// No data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
