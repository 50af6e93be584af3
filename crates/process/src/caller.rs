//! The memory of the program that made a call.

use super::brought::Brought;
pub(super) use super::posted::Posted;
use bytes::{Bytes, BytesMut};
use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::Relaxed;
use weft_intercept::memory::Memory;
use weft_intercept::sys::{self, Errno};
use weft_loader::abi::{self, Area, Channel};

/// Where copies of a program's memory are.
enum Copies<'a> {
    /// With the call, and more can be read from the program.
    Channel(&'a Channel),
    /// In the log; the program has gone on since. Address, bytes, and where behind the beginning they are.
    Log(&'a Area<{ abi::LOG_BYTES }>, usize, [[u64; 3]; 2]),
}

/// In real time a longer write is made in portions, each of which fits the channel.
const PORTION_BYTES: usize = abi::DATA_BYTES / 2;

/// Puts writes into a channel, as many as fit; returns the others.
pub(super) fn commit<'a>(channel: &Channel, writes: &'a [u8]) -> &'a [u8] {
    let (mut end, mut count) = (0, 0);
    while let Some(length) = writes.get(end + 8..end + 16).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes) {
        let next = end + 16 + (length as usize).next_multiple_of(8);
        if next > abi::DATA_BYTES {
            break;
        }
        (end, count) = (next, count + 1);
    }
    let (fit, rest) = writes.split_at(end.min(writes.len()));
    channel.data.put(0, fit);
    channel.writes.store(count, Relaxed);
    rest
}

/// The memory of a program whose thread sleeps in a channel.
pub(super) struct Caller<'a> {
    copies: Copies<'a>,
    /// Its number outside.
    outer: u32,
    /// What is to be copied into the program with the answer: address, length, bytes.
    writes: RefCell<Vec<u8>>,
    count: Cell<u32>,
    /// In real time: what its thread brings. None: memory is read from outside.
    brought: Option<RefCell<Brought>>,
}

impl<'a> Caller<'a> {
    pub fn new(channel: &'a Channel, outer: u32) -> Caller<'a> {
        Caller { copies: Copies::Channel(channel), outer, writes: RefCell::new(Vec::new()), count: Cell::new(0), brought: None }
    }
    /// The same in real time.
    pub fn real(channel: &'a Channel, brought: Brought) -> Caller<'a> {
        Caller { brought: Some(RefCell::new(brought)), ..Caller::new(channel, 0) }
    }
    /// What its thread has brought, and what was written.
    pub fn into_parts(self) -> (Brought, Vec<u8>) {
        (self.brought.map(RefCell::into_inner).unwrap_or_default(), self.writes.into_inner())
    }
    /// The memory as it was when the call that lies there in the log was made. What is written comes to nothing but [`Caller::output`].
    pub fn logged(log: &'a Area<{ abi::LOG_BYTES }>, at: usize, copies: [[u64; 3]; 2]) -> Caller<'a> {
        Caller { copies: Copies::Log(log, at, copies), outer: 0, writes: RefCell::new(Vec::new()), count: Cell::new(0), brought: None }
    }

    /// Puts what was written into the channel, to be copied by the program's side. Returns what does not fit.
    pub fn commit(&self) -> Vec<u8> {
        let Copies::Channel(channel) = &self.copies else { return Vec::new() };
        commit(channel, &self.writes.borrow()).to_vec()
    }
    /// Writes what was written straight into the program.
    pub fn flush(&self) {
        let writes = self.writes.take();
        let word = |at: usize| writes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
        let mut at = 0;
        for _ in 0..self.count.take() {
            let (address, bytes) = (word(at), word(at + 8) as usize);
            if let Some(from) = writes.get(at + 16..at + 16 + bytes) {
                let _ = sys::write_memory(self.outer, address, from);
            }
            at += 16 + bytes.next_multiple_of(8);
        }
    }
    /// What was written, without addresses and lengths.
    pub fn output(&self) -> std::cell::Ref<'_, [u8]> {
        std::cell::Ref::map(self.writes.borrow(), Vec::as_slice)
    }
}

impl Caller<'_> {
    /// Reads what was copied with the call. None: that was not; false: it cannot be read any more.
    fn read_copied(&self, pointer: u64, into: &mut [u8]) -> Option<bool> {
        let channel = match &self.copies {
            Copies::Channel(channel) => channel,
            Copies::Log(log, at, copies) => {
                let of = |[address, bytes, offset]: &[u64; 3]| {
                    let inside = pointer >= *address && pointer.saturating_add(into.len() as u64) <= address.saturating_add(*bytes);
                    inside.then(|| at.saturating_add(*offset as usize).saturating_add((pointer - address) as usize))
                };
                let from = copies.iter().filter(|[address, ..]| *address != 0).find_map(of);
                return Some(from.is_some_and(|from| log.get(from, into) == into.len()));
            }
        };
        for copy in &channel.copies {
            let (address, bytes) = (copy.address.load(Relaxed), u64::from(copy.bytes.load(Relaxed)));
            if address != 0 && pointer >= address && pointer.saturating_add(into.len() as u64) <= address.saturating_add(bytes) {
                let at = copy.at.load(Relaxed) as usize + (pointer - address) as usize;
                if channel.data.get(at, into) == into.len() {
                    return Some(true);
                }
            }
        }
        None
    }
}

impl Memory for Caller<'_> {
    fn read(&self, pointer: u64, into: &mut [u8]) -> Result<(), Errno> {
        match (self.read_copied(pointer, into), &self.brought) {
            (Some(true), _) => Ok(()),
            (Some(false), _) => Err(Errno(libc::EFAULT)),
            (None, Some(brought)) if !into.is_empty() => brought.borrow_mut().read(pointer, into),
            (None, _) => sys::read_memory(self.outer, pointer, into),
        }
    }

    fn write(&self, pointer: u64, from: &[u8]) -> Result<(), Errno> {
        if self.brought.is_some() && from.len() > PORTION_BYTES {
            let mut portions = from.chunks(PORTION_BYTES).enumerate();
            return portions.try_for_each(|(at, from)| self.write(pointer.wrapping_add((at * PORTION_BYTES) as u64), from));
        }
        let mut writes = self.writes.borrow_mut();
        let padded = from.len().next_multiple_of(8);
        if writes.len() + 16 + padded > abi::DATA_BYTES && matches!(self.copies, Copies::Channel(_)) && self.brought.is_none() {
            return sys::write_memory(self.outer, pointer, from);
        }
        if !from.is_empty() {
            // One allocation for the one write of most calls.
            writes.reserve(16 + padded);
            writes.extend_from_slice(&pointer.to_ne_bytes());
            writes.extend_from_slice(&(from.len() as u64).to_ne_bytes());
            writes.extend_from_slice(from);
            let end = writes.len() + padded - from.len();
            writes.resize(end, 0);
            self.count.set(self.count.get() + 1);
        }
        Ok(())
    }

    fn gather(&self, vectors: &[(u64, u64)], limit: usize) -> Result<BytesMut, Errno> {
        if let [(address, bytes)] = vectors {
            let mut into = BytesMut::zeroed(usize::try_from(*bytes).unwrap_or(usize::MAX).min(limit));
            match self.read_copied(*address, &mut into) {
                Some(true) => return Ok(into),
                None if self.brought.is_none() && self.read(*address, &mut into).is_ok() => return Ok(into),
                _ => {}
            }
        }
        match (&self.copies, &self.brought) {
            (Copies::Channel(_), Some(brought)) => brought.borrow_mut().gather(vectors, limit),
            (Copies::Channel(_), None) => sys::read_vectors(self.outer, vectors, limit),
            (Copies::Log(..), _) => Err(Errno(libc::EFAULT)),
        }
    }

    fn scatter(&self, vectors: &[(u64, u64)], from: &Bytes) -> Result<usize, Errno> {
        let mut done = 0;
        for (address, bytes) in vectors {
            let count = usize::try_from(*bytes).unwrap_or(usize::MAX).min(from.len() - done);
            self.write(*address, &from[done..done + count])?;
            done += count;
            if done == from.len() {
                break;
            }
        }
        Ok(done)
    }
}
