//! A vector of frames and a verdict for each: what an engine hands to a block.

use crate::block::OutPort;
use crate::frame::Frame;
use crate::reason::Reason;

/// How many frames an engine puts into one vector at most.
pub const VECTOR_FRAMES_MAX: usize = 64;

/// What becomes of a frame after a block has seen it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Onward through this output port.
    Forward(OutPort),
    /// The block has kept or answered it.
    Consumed,
    /// Dropped, and counted under this reason.
    Drop(Reason),
}

/// Up to [`VECTOR_FRAMES_MAX`] frames that entered a block through one port.
///
/// As long as all verdicts are equal there is one verdict for all of them, and the engine passes the whole vector on.
#[derive(Debug)]
pub struct Vector {
    frames: Vec<Option<Frame>>,
    all: Verdict,
    /// Empty while `all` holds for every frame.
    each: Vec<Verdict>,
}

impl Default for Vector {
    fn default() -> Vector {
        Vector { frames: Vec::new(), all: Verdict::Consumed, each: Vec::new() }
    }
}

impl Vector {
    /// A vector with these frames.
    pub fn new(frames: Vec<Frame>) -> Vector {
        Vector { frames: frames.into_iter().map(Some).collect(), ..Vector::default() }
    }
    /// Frames, counting taken ones.
    pub fn len(&self) -> usize {
        self.frames.len()
    }
    /// No frames.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
    /// Adds a frame at the end.
    pub fn push(&mut self, frame: Frame) {
        self.frames.push(Some(frame));
        if !self.each.is_empty() {
            self.each.push(self.all);
        }
    }
    /// The verdict for every frame, unless [`Vector::set`] says otherwise afterwards.
    pub fn set_all(&mut self, verdict: Verdict) {
        self.all = verdict;
        self.each.clear();
    }
    /// Sends every frame onward through `port`.
    pub fn forward_all(&mut self, port: OutPort) {
        self.set_all(Verdict::Forward(port));
    }
    /// The verdict for one frame.
    pub fn set(&mut self, index: usize, verdict: Verdict) {
        if self.each.is_empty() {
            if verdict == self.all {
                return;
            }
            self.each.resize(self.frames.len(), self.all);
        }
        if let Some(place) = self.each.get_mut(index) {
            *place = verdict;
        }
    }
    /// The verdict of one frame.
    pub fn verdict(&self, index: usize) -> Verdict {
        self.each.get(index).copied().unwrap_or(self.all)
    }
    /// The one verdict of all frames, if there is one.
    pub fn uniform(&self) -> Option<Verdict> {
        self.each.is_empty().then_some(self.all)
    }
    /// The frames with their indices, to edit in place.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Frame)> {
        self.frames.iter_mut().enumerate().filter_map(|(index, slot)| slot.as_mut().map(|frame| (index, frame)))
    }
    /// The frames with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Frame)> {
        self.frames.iter().enumerate().filter_map(|(index, slot)| slot.as_ref().map(|frame| (index, frame)))
    }
    /// Edits each frame and gives its verdict: the loop that most blocks consist of.
    #[inline]
    pub fn each(&mut self, mut verdict_of: impl FnMut(&mut Frame) -> Verdict) {
        let Some(first) = self.frames.iter().position(Option::is_some) else { return };
        let Some(frame) = &mut self.frames[first] else { return };
        let verdict = verdict_of(frame);
        self.set_all(verdict);
        // As long as verdicts agree nothing is written down; the first that does not ends this loop.
        let mut differs = None;
        for (index, slot) in self.frames.iter_mut().enumerate().skip(first + 1) {
            let Some(frame) = slot else { continue };
            let other = verdict_of(frame);
            if other != verdict {
                differs = Some((index, other));
                break;
            }
        }
        let Some((index, other)) = differs else { return };
        self.set(index, other);
        for index in index + 1..self.frames.len() {
            let Some(frame) = &mut self.frames[index] else { continue };
            let verdict = verdict_of(frame);
            self.set(index, verdict);
        }
    }
    /// Takes one frame out; its verdict no longer matters.
    pub fn take(&mut self, index: usize) -> Option<Frame> {
        self.frames.get_mut(index).and_then(Option::take)
    }
    /// Takes out the frames that are picked, in order; the others stay where they are.
    pub fn take_where(&mut self, mut pick: impl FnMut(&Frame) -> bool) -> impl Iterator<Item = Frame> {
        self.frames.iter_mut().filter_map(move |slot| slot.take_if(|frame| pick(frame)))
    }
    /// Takes all frames out, in order; the vector's memory is kept for the next.
    pub fn drain(&mut self) -> impl Iterator<Item = Frame> {
        self.each.clear();
        self.all = Verdict::Consumed;
        self.frames.drain(..).flatten()
    }
}
