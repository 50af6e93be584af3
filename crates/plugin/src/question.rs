//! How a scheduler's question crosses the border: `weft_question` and `weft_subflow` of weft-block.h, without padding, so that native code and
//! WebAssembly have the same bytes.

use weft_core::schedule::{Memory, Question, View};

/// `weft_subflow`: rtt_ns, rtt_variation_ns, queued_bytes, credit_bytes, room_bytes, next, sent_bytes; then index, cwnd_bytes, free_bytes, mss_bytes,
/// mapping_bytes, interface, backup, and nothing.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Subflow {
    wide: [u64; 7],
    narrow: [u32; 8],
}

/// `weft_question`: una, next, end, edge, memory, from, bytes; then more, again.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Asked {
    wide: [u64; ASKED_WIDE],
    narrow: [u32; 2],
}

const ASKED_WIDE: usize = 10;
/// Bytes of a `weft_subflow`.
pub(crate) const SUBFLOW_BYTES: usize = 7 * 8 + 8 * 4;
/// Bytes of a `weft_question`.
pub(crate) const QUESTION_BYTES: usize = ASKED_WIDE * 8 + 2 * 4;
const _: () = assert!(size_of::<Subflow>() == SUBFLOW_BYTES && size_of::<Asked>() == QUESTION_BYTES);

/// An answer as it came back, which nobody has looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Raw {
    /// Place among the subflows of the question; negative: nothing now.
    pub place: i64,
    /// It gets data from this distance on.
    pub from: u64,
    /// So many bytes at most.
    pub bytes: u64,
    /// What is to be remembered.
    pub memory: Memory,
}

impl Subflow {
    pub(crate) fn of(&(index, ref view): &(usize, View)) -> Subflow {
        let nanos = |span: weft_core::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let rtt = view.rtt.map_or(0, nanos);
        Subflow {
            wide: [rtt, nanos(view.rtt_variation), view.queued_bytes, view.credit_bytes, view.room_bytes(), view.next, view.sent_bytes],
            narrow: [
                index as u32,
                view.cwnd_bytes,
                view.free_bytes,
                view.mss_bytes,
                view.mapping_bytes,
                view.interface,
                view.backup.into(),
                0,
            ],
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write(&self.wide, &self.narrow, out);
    }
}

impl Asked {
    /// The answer's fields begin as new data for whoever is chosen, and none of it.
    pub(crate) fn of(question: &Question) -> Asked {
        let Question { una, next, end, edge, more, again, memory: Memory([a, b, c, d]), .. } = *question;
        Asked { wide: [una, next, end, edge, a, b, c, d, next, 0], narrow: [more.into(), again.into()] }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write(&self.wide, &self.narrow, out);
    }

    pub(crate) fn read(bytes: &[u8; QUESTION_BYTES]) -> Asked {
        let mut wide = [0; ASKED_WIDE];
        for (word, bytes) in wide.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Asked { wide, narrow: [0; 2] }
    }

    pub(crate) fn raw(&self, place: i32) -> Raw {
        let [.., a, b, c, d, from, bytes] = self.wide;
        Raw { place: place.into(), from, bytes, memory: Memory([a, b, c, d]) }
    }
}

fn write(wide: &[u64], narrow: &[u32], out: &mut Vec<u8>) {
    wide.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    narrow.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}
