//! Large frames for tools that act on every frame of a wire.

use weft_core::offload::{CutChecksums, cut};
use weft_core::{Frame, Vector};

/// Takes the frames of a vector out and cuts the large ones. `None`, and nothing taken: there are no large ones.
pub(crate) fn cut_all(vector: &mut Vector) -> Option<Vec<Frame>> {
    if vector.iter().all(|(_, frame)| frame.meta().gso.is_none()) {
        return None;
    }
    let mut frames = Vec::new();
    for frame in vector.drain() {
        cut(frame, CutChecksums::Partial, &mut frames);
    }
    Some(frames)
}
