//! What a call that sends hands over.

use bytes::Bytes;

/// One sendmsg(2).
#[derive(Debug)]
pub(crate) struct Sending<'a> {
    pub data: Bytes,
    /// MSG_*.
    pub flags: i32,
    /// `sockaddr`, where the program named one.
    pub to: Option<&'a [u8]>,
    /// Control messages.
    pub control: &'a [u8],
}
