//! Visits from outside: a program that somebody starts in a node of a world while it runs (`weft exec`), whose standard input and output are outside, and
//! words of command for a node (`weft set … --node NAME`).
//!
//! Whoever is outside puts [`Visit`]s into [`Visits`]; the world looks there between two windows, and says what becomes of them through a channel.
//! Visits come when their people come: a run that had one cannot be repeated, and says so. Who only asks changes nothing.

use crate::report::Status;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use weft_core::control::{ControlError, Op, Value};
use weft_node::{Shape, Wiring};

/// Most visits that wait to be looked at: the world looks many times a second.
const WAITING_MAX: usize = 1024;

/// Something from outside.
#[derive(Debug)]
pub enum Visit {
    /// A program is to start.
    Start(Visitor),
    /// A signal for a visiting program, by the number that [`News::Started`] told.
    Signal(usize, i32),
    /// There may be something to read or room to write at a visiting program's descriptors.
    Poke(usize),
    /// Something for a node's stack.
    Tell(Telling),
}

/// Something that a node's stack is to do, or to say.
#[derive(Debug)]
pub enum Wish {
    /// A control operation.
    Op(Op),
    /// Its graph is to get a shape, in one step.
    Apply {
        /// Which.
        shape: Shape,
        /// The interfaces of the file that it was made of, if it says something of them.
        wiring: Option<Wiring>,
        /// Only say what would be done.
        dry_run: bool,
    },
}

/// A wish of somebody outside.
#[derive(Debug)]
pub struct Telling {
    /// Its name; none: that of the only node with a stack.
    pub node: Option<String>,
    /// What is wished.
    pub wish: Wish,
    /// Who wants to know. When it is dropped without an answer, the world has ended.
    pub answer: Sender<Result<Value, ControlError>>,
}

/// A program that somebody wants to start.
#[derive(Debug)]
pub struct Visitor {
    /// Name of the node.
    pub node: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Over the usual.
    pub environment: Vec<(String, String)>,
    /// Standard input, output and error; taken when the program is made ready.
    pub descriptors: Option<[OwnedFd; 3]>,
    /// Who wants to know. When it is dropped without an end, the world has ended.
    pub news: Sender<News>,
}

/// What becomes of a visit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// It is program number so much.
    Started(usize),
    /// It cannot be started: why.
    Refused(String),
    /// It cannot be executed: why, and a shell's exit status for that.
    NotExecuted(String, i32),
    /// It has ended.
    Ended(Status),
}

/// Where visits wait.
#[derive(Debug, Default)]
pub struct Visits {
    waiting: Mutex<Vec<Visit>>,
    pending: AtomicBool,
    changed: Condvar,
}

impl Visits {
    /// Somebody comes. False: too many wait.
    pub fn push(&self, visit: Visit) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= WAITING_MAX {
            return false;
        }
        waiting.push(visit);
        self.pending.store(true, Ordering::Release);
        self.changed.notify_all();
        true
    }

    /// Does anybody wait?
    pub fn pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Everybody who waits.
    pub(crate) fn take(&self) -> Vec<Visit> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.pending.store(false, Ordering::Release);
        std::mem::take(&mut waiting)
    }

    /// Sleeps until somebody comes, or for so long.
    pub fn wait(&self, at_most: Duration) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_empty() {
            drop(self.changed.wait_timeout(waiting, at_most));
        }
    }
}

/// Somebody who knows what time it is outside.
pub trait Pacer: Send + Sync {
    /// Returns when it is `until` outside, too, or earlier when somebody waits to come in.
    fn wait(&self, until: weft_core::Instant);
    /// The virtual time that it is outside.
    fn now(&self) -> weft_core::Instant;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_are_bounded_and_taken_once() {
        let visits = Visits::default();
        assert!(!visits.pending());
        for number in 0..WAITING_MAX {
            assert!(visits.push(Visit::Poke(number)));
        }
        assert!(!visits.push(Visit::Poke(0)) && visits.pending());
        assert_eq!(visits.take().len(), WAITING_MAX);
        assert!(!visits.pending() && visits.take().is_empty());
        visits.push(Visit::Poke(1));
        visits.wait(Duration::from_secs(3600));
    }
}
