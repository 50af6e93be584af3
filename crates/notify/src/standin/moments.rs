//! When the bytes came that lie in a stream's stand-in: what the model said of them as they were put there, for a recvmsg(2) that asks for times.
//!
//! There are [`MOMENTS_MAX`] at most: then what comes shares the last one, as in the model.

use std::collections::VecDeque;
use weft_intercept::face::abi::{SO_TIMESTAMP_NEW, SO_TIMESTAMPING_NEW, SO_TIMESTAMPNS_NEW};

/// Most moments that are kept apart.
const MOMENTS_MAX: usize = 256;
/// Bytes of a `struct cmsghdr`.
const HEADER_BYTES: usize = 16;

/// Options by which a program asks for times.
pub const TIMES: [i32; 6] =
    [libc::SO_TIMESTAMP, libc::SO_TIMESTAMPNS, libc::SO_TIMESTAMPING, SO_TIMESTAMP_NEW, SO_TIMESTAMPNS_NEW, SO_TIMESTAMPING_NEW];

/// The moments, in order.
#[derive(Debug, Default)]
pub struct Moments {
    /// Bytes that ever came out of the model.
    came: u64,
    /// Position behind the last byte of each, and the control messages that tell of it.
    told: VecDeque<(u64, Vec<u8>)>,
}

impl Moments {
    /// Bytes came out of the model, with these control messages.
    pub fn came(&mut self, bytes: usize, control: &[u8]) {
        self.came += bytes as u64;
        let control = times(control);
        if control.is_empty() && self.told.is_empty() {
            return;
        }
        let full = self.told.len() >= MOMENTS_MAX;
        match self.told.back_mut().filter(|(_, last)| full || *last == control) {
            Some(last) => *last = (self.came, control),
            None => self.told.push_back((self.came, control)),
        }
    }

    /// What is told of the last byte of what a read has taken, or seen with MSG_PEEK, when `left` bytes lie behind it that came out of the model.
    /// `stays`: it is to be read again.
    pub fn of_read(&mut self, left: usize, stays: usize) -> Vec<u8> {
        let end = self.came.saturating_sub(left as u64);
        let index = self.told.partition_point(|(last, _)| *last < end);
        let control = self.told.get(index).map(|(_, control)| control.clone()).unwrap_or_default();
        let begin = end.saturating_sub(stays as u64);
        while self.told.front().is_some_and(|(last, _)| *last <= begin) {
            self.told.pop_front();
        }
        control
    }
}

/// Of these control messages those of SOL_SOCKET: others tell of what is left (TCP_INQ), and that has changed.
fn times(mut control: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((header, _)) = control.split_first_chunk::<HEADER_BYTES>() {
        let [l0, l1, l2, l3, l4, l5, l6, l7, v0, v1, v2, v3, ..] = *header;
        let length = u64::from_ne_bytes([l0, l1, l2, l3, l4, l5, l6, l7]) as usize;
        let whole = length.max(HEADER_BYTES).next_multiple_of(8).min(control.len());
        let (message, rest) = control.split_at(whole);
        if i32::from_ne_bytes([v0, v1, v2, v3]) == libc::SOL_SOCKET {
            out.extend(message);
        }
        control = rest;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, value: u64) -> Vec<u8> {
        let mut out = 24_u64.to_ne_bytes().to_vec();
        [level, 29].iter().for_each(|int| out.extend(int.to_ne_bytes()));
        out.extend(value.to_ne_bytes());
        out
    }

    #[test]
    fn a_read_is_told_of_its_last_byte_and_there_is_a_bound() {
        let (early, late) = (message(libc::SOL_SOCKET, 1), message(libc::SOL_SOCKET, 2));
        let mut moments = Moments::default();
        moments.came(10, &[]);
        moments.came(3, &early);
        moments.came(4, &[early.clone(), message(libc::IPPROTO_TCP, 9)].concat());
        moments.came(5, &late);
        assert_eq!(moments.told.len(), 2);
        // Seen, then read: two bytes of the first moment, then what spans both.
        assert_eq!(moments.of_read(10, 2), early);
        assert_eq!(moments.of_read(10, 0), early);
        assert_eq!(moments.of_read(1, 0), late);
        assert_eq!(moments.of_read(0, 0), late);
        assert!(moments.told.is_empty());
        (0..1000).for_each(|value| moments.came(1, &message(libc::SOL_SOCKET, value)));
        assert_eq!((moments.told.len(), moments.of_read(0, 0)), (MOMENTS_MAX, message(libc::SOL_SOCKET, 999)));
    }
}
