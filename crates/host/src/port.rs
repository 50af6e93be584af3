//! An interface's side of the world: its backend and the frames that wait for it.

use crate::error::WorldError;
use crate::ground::{Keeper, Opened};
use crate::reactor::{Interest, Reactor};
use rustix::fd::BorrowedFd;
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;
use weft_backend::coalesce::Coalesce;
use weft_backend::guard::Guard;
use weft_backend::pcapng::{Capture, CaptureFile};
use weft_backend::{Backend, LinkType};
use weft_core::control::Value;
use weft_core::{Completion, Frame, Instant, InterfaceIndex};
use weft_node::InterfaceSection;
use weft_wire::ethernet::Mac;

/// Most frames that wait for a backend that cannot take them; further ones are dropped and counted (Linux's txqueuelen).
pub const PENDING_FRAMES_MAX: usize = 1000;

/// One interface of the node and what is behind it.
pub struct Port {
    index: InterfaceIndex,
    name: String,
    backend: Box<dyn Backend>,
    pending: VecDeque<Frame>,
    lost: Vec<Completion>,
    blocked: bool,
    watched: bool,
    dropped: u64,
    failed: Option<String>,
    /// What was said of it.
    section: InterfaceSection,
    /// What keeps the host's kernel from answering in the node's place.
    guard: Option<Guard>,
    /// Kept for its end: with it go the namespaces under the interface.
    _keeper: Option<Keeper>,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port")
            .field("name", &self.name)
            .field("pending", &self.pending.len())
            .field("dropped", &self.dropped)
            .finish_non_exhaustive()
    }
}

impl Port {
    /// A port for an interface that the node knows as `index`. Its frames go to the capture, too, if there is one, before received segments are
    /// joined (`coalesce`).
    pub fn new(
        index: InterfaceIndex,
        section: &InterfaceSection,
        opened: Opened,
        guard: Option<Guard>,
        capture: Option<&CaptureFile>,
    ) -> Port {
        let backend: Box<dyn Backend> = match capture {
            Some(file) => Box::new(Capture::new(opened.backend, file)),
            None => opened.backend,
        };
        let backend: Box<dyn Backend> = if section.coalesce { Box::new(Coalesce::new(backend)) } else { backend };
        Port {
            index,
            name: section.name.clone(),
            backend,
            pending: VecDeque::new(),
            lost: Vec::new(),
            blocked: false,
            watched: false,
            dropped: 0,
            failed: None,
            section: section.clone(),
            guard,
            _keeper: opened.keeper,
        }
    }
    /// What was said of it when it was opened.
    pub fn section(&self) -> &InterfaceSection {
        &self.section
    }
    /// What keeps the host's kernel from answering in the node's place, if anything does.
    pub fn guard(&mut self) -> Option<&mut Guard> {
        self.guard.as_mut()
    }
    /// Closes it: its device, its guard and its namespaces go. What waited for the device is lost, and its completions are given back.
    pub fn close(mut self) -> Vec<Completion> {
        let mut lost = std::mem::take(&mut self.lost);
        lost.extend(self.pending.drain(..).filter_map(|mut frame| frame.take_completion()));
        lost
    }
    /// Its number in the node.
    pub fn index(&self) -> InterfaceIndex {
        self.index
    }
    /// Its name in the node.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Frames that were lost because the backend could not take them.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
    /// What its frames begin with.
    pub fn link(&self) -> LinkType {
        self.backend.features().link
    }
    /// The Ethernet address of the node's side.
    pub fn mac(&self) -> Mac {
        let own = self.section.mac.as_deref().and_then(|text| text.parse().ok());
        own.unwrap_or(self.backend.features().mac)
    }
    /// When the backend wants to be asked for frames even if its descriptor is silent.
    pub fn next_timer(&self) -> Option<Instant> {
        self.backend.next_timer().filter(|_| self.failed.is_none())
    }
    /// Frames lost below the node, as rows of `weft show drops`.
    pub fn drop_rows(&mut self) -> Vec<Value> {
        let mut rows = self.backend.drops();
        rows.push(("the backend does not keep up, or is gone", self.dropped));
        let row = |(text, count): (&'static str, u64)| serde_json::json!({"block": format!("{} (backend)", self.name), "reason": "backend", "frames": count, "text": text});
        rows.into_iter().filter(|(_, count)| *count > 0).map(row).collect()
    }
    /// Readable when [`Port::receive`] has something.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.backend.descriptor()
    }
    /// Gives back memory that a burst of frames needed.
    pub fn give_back_memory(&mut self) {
        self.pending.shrink_to_fit();
        self.lost.shrink_to_fit();
        self.backend.give_back_memory();
    }
    /// Takes in frames. False when the backend has failed.
    pub fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> bool {
        let before = frames.len();
        let received = self.backend.receive(now, frames, limit);
        // The node says which number the interface has when its backend is open already.
        frames[before..].iter_mut().for_each(|frame| frame.meta_mut().interface = self.index);
        match received {
            Ok(_) => true,
            Err(error) => {
                self.fail(&error);
                !frames.is_empty()
            }
        }
    }

    fn fail(&mut self, error: &std::io::Error) {
        if self.failed.is_none() {
            tracing::warn!("interface {} is gone: {error}; the stack goes on without it", self.name);
            self.failed = Some(error.to_string());
        }
    }

    /// Has the backend failed (its device is gone)? Nothing comes from it any more, and what is sent is lost.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Queues a frame.
    pub fn enqueue(&mut self, mut frame: Frame) {
        if self.failed.is_some() || self.pending.len() >= PENDING_FRAMES_MAX {
            self.dropped += 1;
            self.lost.extend(frame.take_completion());
            return;
        }
        self.pending.push_back(frame);
    }

    /// Gives the backend what it takes. True when any frame left; completions of those that did (or were lost) go to `done`.
    pub fn flush(&mut self, now: Instant, done: &mut Vec<Completion>) -> bool {
        let before = done.len();
        done.append(&mut self.lost);
        if self.pending.is_empty() {
            self.blocked = false;
            return done.len() > before;
        }
        let waiting = self.pending.len();
        if let Err(error) = self.backend.transmit(now, &mut self.pending, done) {
            self.fail(&error);
            done.extend(self.pending.drain(..).filter_map(|mut frame| frame.take_completion()));
        }
        self.blocked = !self.pending.is_empty();
        self.pending.len() < waiting
    }

    /// Waits for room when frames are stuck, and stops waiting when they are not.
    pub fn watch(&mut self, reactor: &Reactor, token: u64) {
        if self.blocked == self.watched {
            return;
        }
        if let Some(fd) = self.backend.descriptor() {
            let interest = if self.blocked { Interest::BOTH } else { Interest::READ };
            if reactor.modify(fd, token, interest).is_ok() {
                self.watched = self.blocked;
            }
        }
    }
}

/// Creates a capture file; `epoch_nanos` is the node's boot since 1970.
pub fn capture_file(path: &Path, epoch_nanos: u64) -> Result<CaptureFile, WorldError> {
    CaptureFile::create(path, Duration::from_nanos(epoch_nanos))
        .map_err(|why| WorldError::Interface { interface: format!("capture {}", path.display()), why: why.to_string() })
}
