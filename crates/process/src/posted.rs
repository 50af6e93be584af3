//! A call as a program has posted it.

use std::sync::atomic::Ordering::Relaxed;
use weft_loader::abi::{self, Channel};

/// A call, read once: the other side may change its channel at any time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub number: u64,
    pub arguments: [u64; 6],
    /// What descriptor argument 0 is; see `abi::Channel::descriptor`.
    pub descriptor: u64,
}

impl Posted {
    pub fn read(channel: &Channel) -> Posted {
        let mut arguments = [0; 6];
        for (into, from) in arguments.iter_mut().zip(&channel.arguments) {
            *into = from.load(Relaxed);
        }
        Posted { number: channel.number.load(Relaxed), arguments, descriptor: channel.descriptor.load(Relaxed) }
    }
    pub fn int(&self, index: usize) -> i32 {
        self.arguments[index % 6] as i32
    }
    pub fn inode(&self) -> u64 {
        self.descriptor & abi::INODE
    }
    pub fn nonblocking(&self) -> bool {
        self.descriptor & abi::NONBLOCKING != 0
    }
}
