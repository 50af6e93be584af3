//! A block's state as versioned bytes: what passes from an old block to the one that replaces it, and into snapshots.
//!
//! Never a Rust type across an object boundary: the bytes follow a schema with the kind and version in front. Small state is postcard of a struct
//! that the block declares ([`State::write`]); what is large or holds buffers is written by a [`Writer`], in the same encoding. Timers travel as
//! remaining time, so that they survive a change of clock. Buffers pass by reference in a table beside the bytes; [`State::to_bytes`] has them in
//! the bytes as well.

mod counters;
mod field;
mod frame;
mod leb128;

pub use field::{Damage, Field, Reader, Writer};

use crate::block::Kind;
use crate::time::Instant;
use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use xxhash_rust::xxh3::xxh3_64;

/// Exported state of one block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// Kind of the block that wrote it.
    pub kind: String,
    /// Version of that kind's schema.
    pub version: u32,
    /// The schema's bytes.
    pub bytes: Vec<u8>,
    /// Buffers that the bytes name by number: shared with the block that wrote them, not copied.
    pub buffers: Vec<Bytes>,
}

/// State with its buffers as content.
#[derive(Serialize, Deserialize)]
struct Inlined<'a> {
    #[serde(borrow)]
    kind: &'a str,
    version: u32,
    #[serde(borrow)]
    bytes: &'a [u8],
    #[serde(borrow)]
    buffers: Vec<&'a [u8]>,
}

/// Why state could not be written or read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StateError {
    /// The block keeps state but cannot export it.
    #[error("a block of kind {kind} cannot export its state")]
    NotExportable {
        /// The kind.
        kind: String,
    },
    /// The block can export its state, but not what it holds just now.
    #[error("state of {kind} cannot be exported now: {why}")]
    NotNow {
        /// The kind.
        kind: String,
        /// What is in the way.
        why: String,
    },
    /// The state belongs to another kind of block.
    #[error("state of kind {found} cannot be taken over by a block of kind {expected}")]
    WrongKind {
        /// Kind in the state.
        found: String,
        /// Kind of the block.
        expected: String,
    },
    /// The state was written by a version that this block does not read.
    #[error("state of {kind} has version {found}, this build reads {expected}")]
    WrongVersion {
        /// The kind.
        kind: String,
        /// Version in the state.
        found: u32,
        /// Version that is understood.
        expected: u32,
    },
    /// The bytes do not follow the schema.
    #[error("state of {kind} is damaged: {why}")]
    Damaged {
        /// The kind.
        kind: String,
        /// What the reader found.
        why: String,
    },
}

impl State {
    /// State of a block that keeps none.
    pub fn none(kind: &str) -> State {
        State { kind: kind.to_owned(), version: 0, bytes: Vec::new(), buffers: Vec::new() }
    }
    /// Writes `value` by its schema.
    pub fn write<T: Serialize>(kind: &str, version: u32, value: &T) -> Result<State, StateError> {
        let bytes = postcard::to_allocvec(value).map_err(|error| StateError::Damaged { kind: kind.to_owned(), why: error.to_string() })?;
        Ok(State { kind: kind.to_owned(), version, bytes, buffers: Vec::new() })
    }
    /// Reads it back, if kind and version fit.
    pub fn read<T: DeserializeOwned>(&self, kind: &str, version: u32) -> Result<T, StateError> {
        self.is_of(kind, version)?;
        let damaged = |why: String| StateError::Damaged { kind: kind.to_owned(), why };
        match postcard::take_from_bytes(&self.bytes).map_err(|error| damaged(error.to_string()))? {
            (value, []) => Ok(value),
            (_, rest) => Err(damaged(format!("{} bytes too many", rest.len()))),
        }
    }
    fn is_of(&self, kind: &str, version: u32) -> Result<(), StateError> {
        if self.kind != kind {
            return Err(StateError::WrongKind { found: self.kind.clone(), expected: kind.to_owned() });
        }
        if self.version != version {
            return Err(StateError::WrongVersion { kind: kind.to_owned(), found: self.version, expected: version });
        }
        Ok(())
    }
    /// What `write` writes, as state of a kind.
    pub fn written(kind: &Kind, now: Instant, write: impl FnOnce(&mut Writer)) -> State {
        let mut out = Writer::new(now);
        write(&mut out);
        out.finish(kind.name, kind.state_version)
    }
    /// Reads what [`State::written`] has, to its end: nothing is to be taken over before all of it is read.
    ///
    /// # Errors
    /// Another kind, another version, or damage.
    pub fn taken<T>(&self, kind: &Kind, now: Instant, read: impl FnOnce(&mut Reader<'_>) -> Result<T, Damage>) -> Result<T, StateError> {
        self.taken_since(kind, kind.state_version, now, read)
    }
    /// The same of state that earlier builds may have written, down to the version `oldest`: [`Reader::version`] tells which it is.
    ///
    /// # Errors
    /// Another kind, a version that is not read, or damage.
    pub fn taken_since<T>(
        &self,
        kind: &Kind,
        oldest: u32,
        now: Instant,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Damage>,
    ) -> Result<T, StateError> {
        let known = (oldest..=kind.state_version).contains(&self.version);
        let mut from = Reader::new(self, kind.name, if known { self.version } else { kind.state_version }, now)?;
        let read = read(&mut from).and_then(|read| from.finish().map(|()| read));
        read.map_err(|damage| damage.of(kind.name))
    }
    /// The whole in bytes, the buffers' content too, with a checksum: for a file, or for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let whole = Inlined {
            kind: &self.kind,
            version: self.version,
            bytes: &self.bytes,
            buffers: self.buffers.iter().map(|buffer| &buffer[..]).collect(),
        };
        // Cannot fail: every length is known.
        let mut out = postcard::to_allocvec(&whole).unwrap_or_default();
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }
    /// Reads what [`State::to_bytes`] wrote. The buffers share one piece of memory.
    ///
    /// # Errors
    /// [`StateError::Damaged`].
    pub fn from_bytes(bytes: &[u8]) -> Result<State, StateError> {
        let damaged = |why: &dyn std::fmt::Display| StateError::Damaged { kind: "?".to_owned(), why: why.to_string() };
        let (whole, sum) = bytes.split_last_chunk::<8>().ok_or_else(|| damaged(&"it is cut short"))?;
        if xxh3_64(whole) != u64::from_le_bytes(*sum) {
            return Err(damaged(&"its checksum is another"));
        }
        let shared = Bytes::copy_from_slice(whole);
        let read: Inlined<'_> = postcard::from_bytes(&shared).map_err(|error| damaged(&error))?;
        let buffers = read.buffers.iter().map(|buffer| shared.slice_ref(buffer)).collect();
        Ok(State { kind: read.kind.to_owned(), version: read.version, bytes: read.bytes.to_vec(), buffers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_round_trips_and_says_why_it_does_not() {
        let state = State::write("arp", 2, &vec![(1u32, "x".to_owned())]).unwrap();
        assert_eq!(state.read::<Vec<(u32, String)>>("arp", 2).unwrap(), [(1, "x".to_owned())]);
        assert!(matches!(state.read::<Vec<(u32, String)>>("ip4", 2), Err(StateError::WrongKind { .. })));
        assert!(matches!(state.read::<Vec<(u32, String)>>("arp", 3), Err(StateError::WrongVersion { found: 2, expected: 3, .. })));
        let cut = State { bytes: state.bytes[..state.bytes.len() - 1].to_vec(), ..state.clone() };
        assert!(matches!(cut.read::<Vec<(u32, String)>>("arp", 2), Err(StateError::Damaged { .. })));
        let long = State { bytes: [&state.bytes[..], &[0]].concat(), ..state.clone() };
        assert_eq!(long.read::<Vec<(u32, String)>>("arp", 2).unwrap_err().to_string(), "state of arp is damaged: 1 bytes too many");
    }
}
