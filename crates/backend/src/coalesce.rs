//! Around another backend: joins consecutive TCP segments that were received together into large frames, as Linux's GRO does
//! ([`weft_core::offload::coalesce`] has the rules). Captures and traces belong inside of it: they show what the device handed over.
//!
//! Only what one call received is joined: no frame waits for others.

use crate::interface::{Backend, Features};
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use weft_core::{Completion, Frame, Instant, offload};

/// See the module.
#[derive(Debug)]
pub struct Coalesce<B> {
    inner: B,
}

impl<B: Backend> Coalesce<B> {
    /// Joins what `inner` receives.
    pub fn new(inner: B) -> Coalesce<B> {
        Coalesce { inner }
    }
}

impl<B: Backend> Backend for Coalesce<B> {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize> {
        let before = frames.len();
        let result = self.inner.receive(now, frames, limit);
        let fewer = offload::coalesce(frames, before);
        result.map(|count| count - fewer.min(count))
    }
    fn transmit(&mut self, now: Instant, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize> {
        self.inner.transmit(now, frames, done)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn drops(&mut self) -> Vec<(&'static str, u64)> {
        self.inner.drops()
    }
    fn next_timer(&self) -> Option<Instant> {
        self.inner.next_timer()
    }
    fn give_back_memory(&mut self) {
        self.inner.give_back_memory();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::OpenOptions;
    use crate::memory;

    /// Plain segments of one connection.
    fn segments(count: u32) -> VecDeque<Frame> {
        let segment = |n: u32| {
            let header = etherparse::Ipv4Header {
                identification: n as u16,
                ..etherparse::Ipv4Header::new(0, 64, etherparse::IpNumber::TCP, [1; 4], [2; 4]).unwrap()
            };
            let mut bytes = Vec::new();
            let ip = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ip(etherparse::IpHeaders::Ipv4(header, Default::default()));
            ip.tcp(1, 2, 1000 + n * 100, 400).ack(7).write(&mut bytes, &[n as u8; 100]).unwrap();
            Frame::ingress(&bytes)
        };
        (0..count).map(segment).collect()
    }

    #[test]
    fn what_is_received_together_is_joined_and_what_is_not_is_not() {
        let (mut one, other) = memory::pair(&OpenOptions { offload: false, ..OpenOptions::default() });
        let mut other = Coalesce::new(other);
        let (mut frames, mut done) = (Vec::new(), Vec::new());
        assert_eq!(one.transmit(Instant::ZERO, &mut segments(6), &mut done).unwrap(), 6);
        // Two calls: the second's frames do not go into the first's.
        assert_eq!(other.receive(Instant::ZERO, &mut frames, 4).unwrap(), 1);
        assert_eq!(other.receive(Instant::ZERO, &mut frames, 4).unwrap(), 1);
        assert_eq!(other.receive(Instant::ZERO, &mut frames, 4).unwrap(), 0);
        assert_eq!(frames.iter().map(|frame| frame.len() - 54).collect::<Vec<_>>(), [400, 200]);
        assert!(frames.iter().all(|frame| frame.meta().gso.is_some_and(|gso| gso.segment_bytes == 100)));
    }
}
