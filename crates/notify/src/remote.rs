//! The memory of a program that waits in a call, as the supervisor reads and writes it from outside, without ever waiting for a page.
//!
//! - **A look before each access.** /proc/PID/pagemap (proc_pid_pagemap(5)) says of each page whether it is there, and whether a write to
//!   it can wait (write-protected by userfaultfd, or of a file). Where nothing can wait, the access is made at once.
//! - **Otherwise it is [`LATER`]**: the handler of the call gives up with this errno, which no program sees; a worker touches the pages
//!   ([`crate::workers`]); and the handler runs again from its beginning, where it finds what was fetched. So a handler reads all that
//!   it needs before it changes anything.
//! - **What a call writes is kept until its handler has ended**, and written before the answer goes out, all of it in one system call; by a worker
//!   where that may wait. So nothing has to be undone, and a bad address is found where Linux finds it: after the effect.
//! - **A program that has a userfaultfd is never touched but by workers** (`by_workers`): another of its threads can take a page away between
//!   look and access. The filter traps the calls that make one, so that is known before there is one. Neither is one whose pages came late once
//!   (a FUSE server's): what a hostile thread would have to hit is the moment between look and access, and that before any page came late.

use crate::sys::{self, Errno};
use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_intercept::memory::{LATER, Memory};

/// Pieces of one access that are looked at; one with more goes to a worker.
const LOOKS_MAX: usize = 64;
/// Pages of one look.
const PAGES: usize = 64;
/// Pages that are remembered until the call is answered.
const LOOKED_AT_MAX: usize = 8;
const PAGE_BYTES: u64 = 4096;
/// Where a user's half of the addresses ends at the latest (57 bits of them).
const ADDRESS_MAX: u64 = 1 << 56;

/// Bits of a page's word in pagemap.
const PRESENT: u64 = 1 << 63;
const OF_A_FILE: u64 = 1 << 61;
const WRITE_PROTECTED: u64 = 1 << 57;

/// What is read with one access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Range {
    /// All of it or nothing.
    Whole(u64, usize),
    /// Pieces, at most so many bytes, up to the first bad page.
    Pieces(Vec<(u64, u64)>, usize),
}

impl Range {
    /// Does what was fetched for this one serve that one? Another limit on the same pieces means fewer bytes, or as many as there are.
    fn serves(&self, other: &Range) -> bool {
        match (self, other) {
            (Range::Pieces(one, _), Range::Pieces(other, _)) => one == other,
            _ => self == other,
        }
    }
}

/// Bytes for a program's memory.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    address: u64,
    bytes: Piece,
    /// What the call comes to when they cannot be written.
    otherwise: Result<i64, Errno>,
}

#[derive(Clone, Debug)]
enum Piece {
    Small(SmallVec<[u8; 32]>),
    Shared(Bytes),
}

impl Store {
    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Piece::Small(bytes) => bytes,
            Piece::Shared(bytes) => bytes,
        }
    }
}

/// How far what is kept could be written now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stored {
    All,
    /// A piece could not: what the call comes to instead.
    Failed(Result<i64, Errno>),
    /// It may wait: a worker's.
    Later,
}

/// What a page's word says of it: whether it is there, and whether a write to it waits for nothing, either.
fn is_there(word: u64, writing: bool) -> bool {
    word & PRESENT != 0 && (!writing || word & (OF_A_FILE | WRITE_PROTECTED) == 0)
}

/// What /proc has of a thread, kept open. Descriptors there mean this thread for ever: of a number that was given out again they say nothing.
#[derive(Debug)]
pub(crate) struct Window {
    tid: u32,
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    pagemap: Option<File>,
    descriptors: Option<OwnedFd>,
}

impl Window {
    pub fn new(tid: u32) -> Window {
        Window { tid, files: Mutex::default() }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`sys::socket_inode`].
    pub fn socket_inode(&self, fd: i32) -> Result<Option<u64>, Errno> {
        let mut files = self.files();
        if files.descriptors.is_none() {
            files.descriptors = sys::open_path(&format!("/proc/{}/fd", self.tid)).ok();
        }
        match files.descriptors.as_ref().map(|folder| sys::socket_inode_in(folder.as_fd(), fd)) {
            Some(Ok(inode)) => Ok(inode),
            // Another thread may have this number by now.
            Some(Err(_)) | None => {
                files.descriptors = None;
                sys::socket_inode(self.tid, fd)
            }
        }
    }

    /// The words of pages from one on; as many as there are at once.
    fn look<'a>(&self, page: u64, words: &'a mut [u64]) -> Option<&'a [u64]> {
        let mut files = self.files();
        for _ in 0..2 {
            if files.pagemap.is_none() {
                files.pagemap = Some(File::open(format!("/proc/{}/pagemap", self.tid)).ok()?);
            }
            let read = files.pagemap.as_ref().and_then(|file| sys::read_words(file.as_fd(), page * 8, words).ok());
            if let Some(count @ 1..) = read {
                return words.get(..count);
            }
            // The memory that it was opened for is gone: the process has executed another program.
            files.pagemap = None;
        }
        None
    }
}

/// A program's memory, touched at once, however long that takes: for workers, and after a look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direct(pub u32);

impl Direct {
    pub fn fetch(self, range: &Range) -> Result<Bytes, Errno> {
        match range {
            Range::Whole(address, bytes) => {
                let mut into = BytesMut::zeroed(*bytes);
                sys::read_memory(self.0, *address, &mut into).map(|()| into.freeze())
            }
            Range::Pieces(pieces, limit) => sys::read_vectors(self.0, pieces, *limit).map(BytesMut::freeze),
        }
    }

    /// Waits for every page that is to be written. What has none shows when it is written.
    pub fn touch(self, stores: &[Store]) {
        for store in stores {
            let last = store.address.saturating_add(store.bytes().len() as u64 - 1);
            let pages = (store.address / PAGE_BYTES..=last / PAGE_BYTES).map(|page| (page * PAGE_BYTES).max(store.address));
            for address in pages {
                let _ = sys::read_memory(self.0, address, &mut [0]);
            }
        }
    }

    /// Writes all, or says what the call comes to instead.
    pub fn store(self, stores: &[Store]) -> Result<(), Result<i64, Errno>> {
        let mut rest = stores;
        while !rest.is_empty() {
            let pieces: SmallVec<[(u64, &[u8]); 8]> =
                rest.iter().take(sys::VECTORS_MAX).map(|store| (store.address, store.bytes())).collect();
            let mut written = sys::write_pieces(self.0, &pieces).unwrap_or(0);
            for store in &rest[..pieces.len()] {
                written = written.checked_sub(store.bytes().len()).ok_or(store.otherwise)?;
            }
            rest = &rest[pieces.len()..];
        }
        Ok(())
    }
}

/// The memory of one call's program.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    window: Arc<Window>,
    /// Only workers touch it.
    by_workers: Cell<bool>,
    /// Pages that were looked at for this call, just now: nothing waits there.
    looked_at: RefCell<SmallVec<[u64; LOOKED_AT_MAX]>>,
    fetched: RefCell<Vec<(Range, Result<Bytes, Errno>)>>,
    wanted: RefCell<Option<Range>>,
    stores: RefCell<Vec<Store>>,
    otherwise: Cell<Result<i64, Errno>>,
}

impl Remote {
    /// Memory that is looked at, and touched where nothing can wait; or that only workers touch.
    pub fn new(window: Arc<Window>, by_workers: bool) -> Remote {
        Remote {
            window,
            by_workers: Cell::new(by_workers),
            looked_at: RefCell::default(),
            fetched: RefCell::default(),
            wanted: RefCell::default(),
            stores: RefCell::default(),
            otherwise: Cell::new(Err(Errno(libc::EFAULT))),
        }
    }

    fn tid(&self) -> u32 {
        self.window.tid
    }
    /// What a descriptor of the program is: see [`sys::socket_inode`].
    pub fn socket_inode(&self, fd: i32) -> Result<Option<u64>, Errno> {
        self.window.socket_inode(fd)
    }
    /// The call waits from now on: what was looked at may be another thing by then.
    pub fn forget_looks(&self) {
        self.looked_at.borrow_mut().clear();
    }

    /// Is every page of these pieces there, so that reading them (or writing them) waits for nothing?
    fn is_there(&self, pieces: &mut dyn Iterator<Item = (u64, u64)>, writing: bool) -> bool {
        !self.by_workers.get()
            && pieces
                .enumerate()
                .all(|(count, (address, bytes))| bytes == 0 || count < LOOKS_MAX && self.look(address, bytes, writing).unwrap_or(false))
    }

    fn look(&self, address: u64, bytes: u64, writing: bool) -> Option<bool> {
        let end = address.checked_add(bytes).filter(|end| *end <= ADDRESS_MAX)?;
        let (mut page, last) = (address / PAGE_BYTES, (end - 1) / PAGE_BYTES);
        let mut looked_at = self.looked_at.borrow_mut();
        if page == last && looked_at.contains(&page) {
            return Some(true);
        }
        while page <= last {
            let mut words = [0_u64; PAGES];
            let wanted = usize::try_from(last - page + 1).unwrap_or(PAGES).min(PAGES);
            let words = self.window.look(page, &mut words[..wanted])?;
            if !words.iter().all(|word| is_there(*word, writing)) {
                return Some(false);
            }
            for (page, word) in (page..).zip(words) {
                if looked_at.len() < LOOKED_AT_MAX && is_there(*word, true) {
                    looked_at.push(page);
                }
            }
            page += words.len() as u64;
        }
        Some(true)
    }

    fn fetched(&self, range: &Range) -> Option<Result<Bytes, Errno>> {
        let fetched = self.fetched.borrow();
        fetched.iter().find(|(of, _)| of.serves(range)).map(|(_, bytes)| bytes.clone())
    }
    /// A worker has been there.
    pub fn keep_fetched(&self, range: Range, bytes: Result<Bytes, Errno>) {
        self.fetched.borrow_mut().push((range, bytes));
    }
    fn later<T>(&self, range: Range) -> Result<T, Errno> {
        *self.wanted.borrow_mut() = Some(range);
        Err(LATER)
    }
    /// What the handler gave up for.
    pub fn take_wanted(&self) -> Option<Range> {
        self.wanted.take()
    }

    /// Reads an int now that is asked for again when there is no way back. Whether it can be read shows then.
    pub fn read_ahead(&self, pointer: u64) -> Result<(), Errno> {
        let range = Range::Whole(pointer, 4);
        if self.fetched(&range).is_some() {
            return Ok(());
        }
        if !self.is_there(&mut std::iter::once((pointer, 4)), false) {
            return self.later(range);
        }
        let bytes = Direct(self.tid()).fetch(&range);
        self.keep_fetched(range, bytes);
        Ok(())
    }

    /// From now on only workers touch it.
    pub fn leave_to_workers(&self) {
        self.by_workers.set(true);
    }

    /// What the call comes to when something that is written from now on cannot be.
    pub fn otherwise(&self, answer: Result<i64, Errno>) {
        self.otherwise.set(answer);
    }
    fn keep(&self, address: u64, bytes: Piece) {
        let store = Store { address, bytes, otherwise: self.otherwise.get() };
        if !store.bytes().is_empty() {
            self.stores.borrow_mut().push(store);
        }
    }
    /// Writes what is kept, if that waits for nothing.
    pub fn store(&self) -> Stored {
        let mut stores = self.stores.borrow_mut();
        if stores.is_empty() {
            return Stored::All;
        }
        if !self.is_there(&mut stores.iter().map(|store| (store.address, store.bytes().len() as u64)), true) {
            return Stored::Later;
        }
        match Direct(self.tid()).store(&std::mem::take(&mut *stores)) {
            Ok(()) => Stored::All,
            Err(otherwise) => Stored::Failed(otherwise),
        }
    }
    /// What is kept, for a worker.
    pub fn take_stores(&self) -> Vec<Store> {
        self.stores.take()
    }
}

impl Memory for Remote {
    fn read(&self, pointer: u64, into: &mut [u8]) -> Result<(), Errno> {
        if into.is_empty() {
            return Ok(());
        }
        if !self.fetched.borrow().is_empty()
            && let Some(bytes) = self.fetched(&Range::Whole(pointer, into.len()))
        {
            into.copy_from_slice(&bytes?);
            return Ok(());
        }
        if self.is_there(&mut std::iter::once((pointer, into.len() as u64)), false) {
            return sys::read_memory(self.tid(), pointer, into);
        }
        self.later(Range::Whole(pointer, into.len()))
    }

    fn write(&self, pointer: u64, from: &[u8]) -> Result<(), Errno> {
        self.keep(pointer, Piece::Small(SmallVec::from_slice(from)));
        Ok(())
    }

    fn gather(&self, vectors: &[(u64, u64)], limit: usize) -> Result<BytesMut, Errno> {
        if vectors.iter().all(|(_, bytes)| *bytes == 0) || limit == 0 {
            return Ok(BytesMut::new());
        }
        if !self.fetched.borrow().is_empty()
            && let Some(bytes) = self.fetched(&Range::Pieces(vectors.to_vec(), limit))
        {
            let mut bytes = BytesMut::from(bytes?);
            bytes.truncate(limit);
            return Ok(bytes);
        }
        let mut left = limit as u64;
        let mut within = vectors.iter().map(|(address, bytes)| {
            let bytes = (*bytes).min(left);
            left -= bytes;
            (*address, bytes)
        });
        if self.is_there(&mut within, false) {
            return sys::read_vectors(self.tid(), vectors, limit);
        }
        self.later(Range::Pieces(vectors.to_vec(), limit))
    }

    fn scatter(&self, vectors: &[(u64, u64)], from: &Bytes) -> Result<usize, Errno> {
        let mut done = 0;
        for (address, bytes) in vectors {
            let count = usize::try_from(*bytes).unwrap_or(usize::MAX).min(from.len() - done);
            self.keep(*address, Piece::Shared(from.slice(done..done + count)));
            done += count;
            if done == from.len() {
                break;
            }
        }
        Ok(done)
    }
}
