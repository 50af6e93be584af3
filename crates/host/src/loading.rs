//! Files with kinds of block, read beside the event loop: to read one may take a second (a module of a million functions), or for ever (a file of a
//! server that does not answer, a native object whose constructor does not end). The loop goes on meanwhile.
//!
//! Who asks for a file is not answered before it is read, and neither is what it asks behind that. The change itself is made by the loop,
//! as any other, by a [`Loader`] that has the result already.

use crate::protocol::{Ask, Request};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_core::control::{ControlError, Op};
use weft_core::{Loaded, Loader};

/// Most requests whose files are being read at a time.
pub const READERS_MAX: usize = 8;

pub(crate) type Results = BTreeMap<String, Result<Loaded, String>>;

/// Reads files in threads.
#[derive(Debug)]
pub(crate) struct Loading {
    files: Arc<dyn Loader>,
    ready: Arc<Ready>,
    shared: Arc<Shared>,
    readers: usize,
}

#[derive(Debug)]
struct Shared {
    done: Mutex<Vec<Read>>,
    event: OwnedFd,
}

/// The files of a request are read.
#[derive(Debug)]
pub(crate) struct Read {
    /// Who asks.
    pub client: u64,
    pub request: Request,
    pub results: Results,
}

/// The loader that the node has: what was read for the request that is being answered, and everything else from the files.
#[derive(Debug)]
struct Ready {
    files: Arc<dyn Loader>,
    results: Mutex<Results>,
}

impl Loader for Ready {
    fn load(&self, file: &str) -> Result<Loaded, String> {
        let found = lock(&self.results).get(file).cloned();
        found.unwrap_or_else(|| self.files.load(file))
    }
}

/// A thread that panicked has left nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Loading {
    pub fn new(files: Arc<dyn Loader>) -> io::Result<Loading> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let ready = Arc::new(Ready { files: Arc::clone(&files), results: Mutex::default() });
        Ok(Loading { files, ready, shared: Arc::new(Shared { done: Mutex::default(), event }), readers: 0 })
    }

    /// What the node loads with.
    pub fn loader(&self) -> Arc<dyn Loader> {
        Arc::clone(&self.ready) as Arc<dyn Loader>
    }

    /// Readable when something is read.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    /// Reads the files of a request.
    ///
    /// # Errors
    /// Too many are being read, or there is no thread.
    pub fn start(&mut self, client: u64, request: Request, files: Vec<String>) -> Result<(), ControlError> {
        if self.readers >= READERS_MAX {
            return Err(ControlError::Limit { what: "requests whose files are being read".to_owned(), max: READERS_MAX as u64 });
        }
        let (loader, shared) = (Arc::clone(&self.files), Arc::clone(&self.shared));
        let read = move || {
            let results = files.into_iter().map(|file| (file.clone(), load(&*loader, &file))).collect();
            lock(&shared.done).push(Read { client, request, results });
            let _ = rustix::io::write(&shared.event, &1_u64.to_ne_bytes());
        };
        let started = std::thread::Builder::new().name("weft-load".to_owned()).spawn(read);
        started.map_err(|error| ControlError::World { why: format!("no thread can read the file: {error}").into() })?;
        self.readers += 1;
        Ok(())
    }

    /// What has been read since the last call.
    pub fn take_done(&mut self) -> Vec<Read> {
        let _ = rustix::io::read(&self.shared.event, &mut [0_u8; 8]);
        let done = std::mem::take(&mut *lock(&self.shared.done));
        self.readers = self.readers.saturating_sub(done.len());
        done
    }

    /// From now on the node finds these, which were read for the request that is answered.
    pub fn have(&self, results: Results) {
        *lock(&self.ready.results) = results;
    }
}

/// A loader that panics has an answer, too: somebody waits for it, and its place is another's next.
fn load(loader: &dyn Loader, file: &str) -> Result<Loaded, String> {
    let loaded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| loader.load(file)));
    loaded.unwrap_or_else(|_| Err("reading it has failed in weft itself (a bug in weft): see its standard error".to_owned()))
}

/// The files that a request would load.
pub(crate) fn files(ask: &Ask) -> Vec<String> {
    fn of(op: &Op, into: &mut Vec<String>) {
        match op {
            Op::Load { file } => into.push(file.clone()),
            Op::All(ops) => ops.iter().for_each(|op| of(op, into)),
            _ => {}
        }
    }
    let mut files = Vec::new();
    match ask {
        Ask::Node(op) => of(op, &mut files),
        Ask::Apply { shape, .. } => files.extend(shape.files().map(str::to_owned)),
        _ => {}
    }
    files
}
