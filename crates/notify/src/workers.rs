//! Threads that read and write programs' memory where that may wait.
//!
//! A page of a program may be missing, and whoever brings it may take as long as he likes: a handler of userfaultfd(2), a FUSE server, a
//! disk. The thread that touches such a page sleeps until then, and nothing but the end of its process wakes it. So the event loop never
//! touches one: an [`Errand`] is given to a worker, and its [`Done`] comes back through a descriptor that the loop watches.
//!
//! A worker has one errand at a time, so those that wait take nothing from the others: there is a worker for each, up to
//! [`WORKERS_MAX`]. How many of them one process tree may have is the supervisor's to say.

use crate::listener::Listener;
use crate::remote::{Direct, Range, Store};
use crate::sys::{self, Errno};
use bytes::Bytes;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most workers, and so most errands at a time.
pub(crate) const WORKERS_MAX: usize = 512;
/// Workers without an errand that are kept for the next one.
const IDLE_MAX: usize = 4;
/// An errand that slept and took so long waited for somebody who answers for a page.
const SLOW: Duration = Duration::from_millis(10);
/// A worker calls the kernel and little else.
const STACK_BYTES: usize = 128 * 1024;

/// Something to fetch from, or to store into, the memory of a program that waits in a call.
#[derive(Debug)]
pub(crate) struct Errand {
    /// Names it in [`Done`].
    pub number: u64,
    /// Where the call came from, and which one. While it waits there its thread lives, and that one's number means no other. None: bytes of a
    /// stranger would do no harm.
    pub whose: Option<(Arc<Listener>, u64)>,
    /// The thread that made it.
    pub tid: u32,
    pub job: Job,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Job {
    Fetch(Range),
    Store(Vec<Store>),
}

/// How an errand ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub number: u64,
    pub result: Brought,
    /// Somebody took his time to bring a page.
    pub was_slow: bool,
}

/// What it brought.
#[derive(Debug)]
pub(crate) enum Brought {
    /// What was read, or why not.
    Fetched(Range, Result<Bytes, Errno>),
    /// All is written, or the answer of the call whose piece could not be.
    Stored(Result<(), Result<i64, Errno>>),
    /// The call did not wait any more when the worker came to it: nothing was touched.
    Gone(Job),
}

/// The threads.
#[derive(Debug)]
pub(crate) struct Workers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    more: Condvar,
    done: Mutex<Vec<Done>>,
    /// Readable when there is something in `done`.
    event: OwnedFd,
}

#[derive(Debug, Default)]
struct State {
    errands: VecDeque<Errand>,
    threads: usize,
    idle: usize,
    closed: bool,
}

/// A thread that panicked has left nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Workers {
    /// None yet.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn new() -> Result<Workers, Errno> {
        let shared = Shared { state: Mutex::default(), more: Condvar::new(), done: Mutex::default(), event: sys::event(0)? };
        Ok(Workers(Arc::new(shared)))
    }

    /// Readable when something is done.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }

    /// Gives an errand to a worker.
    ///
    /// # Errors
    /// All have one, or the system gives no thread: the errand comes back.
    pub fn send(&self, errand: Errand) -> Result<(), Errand> {
        let mut state = lock(&self.0.state);
        if state.idle > state.errands.len() {
            state.errands.push_back(errand);
            self.0.more.notify_one();
            return Ok(());
        }
        if state.threads >= WORKERS_MAX {
            return Err(errand);
        }
        let shared = Arc::clone(&self.0);
        let started = std::thread::Builder::new().name("weft-memory".into()).stack_size(STACK_BYTES).spawn(move || serve(&shared));
        if started.is_err() {
            return Err(errand);
        }
        // The new thread takes the first errand that it finds, as one that is idle would.
        state.threads += 1;
        state.idle += 1;
        state.errands.push_back(errand);
        Ok(())
    }

    /// What is done since the last call.
    pub fn take_done(&self) -> Vec<Done> {
        sys::clear_event(self.event());
        std::mem::take(&mut lock(&self.0.done))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Those that wait for a page are not waited for.
        lock(&self.0.state).closed = true;
        self.0.more.notify_all();
    }
}

fn serve(shared: &Shared) {
    let mut state = lock(&shared.state);
    loop {
        if let Some(errand) = state.errands.pop_front() {
            state.idle -= 1;
            drop(state);
            let (number, began, slept) = (errand.number, Instant::now(), sys::thread_sleeps());
            let result = errand.run();
            // One that only waited for a processor has met nobody.
            let was_slow = began.elapsed() >= SLOW && sys::thread_sleeps() > slept;
            let done = Done { number, result, was_slow };
            lock(&shared.done).push(done);
            sys::raise_event(shared.event.as_fd());
            state = lock(&shared.state);
            state.idle += 1;
        } else if state.closed || state.idle > IDLE_MAX {
            state.idle -= 1;
            state.threads -= 1;
            return;
        } else {
            state = shared.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Errand {
    fn run(self) -> Brought {
        let is_gone = || self.whose.as_ref().is_some_and(|(listener, id)| !listener.is_valid(*id));
        let memory = Direct(self.tid);
        if is_gone() {
            return Brought::Gone(self.job);
        }
        if let Job::Store(stores) = &self.job {
            // The pages first: a signal may end the call while they come, and then the memory is the program's again.
            memory.touch(stores);
            if is_gone() {
                return Brought::Gone(self.job);
            }
        }
        match self.job {
            Job::Fetch(range) => {
                let fetched = memory.fetch(&range);
                Brought::Fetched(range, fetched)
            }
            Job::Store(stores) => Brought::Stored(memory.store(&stores)),
        }
    }
}
