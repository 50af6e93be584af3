//! A block's state as versioned bytes: what passes from an old block to the one that replaces it, and into snapshots.
//!
//! Never a Rust type across an object boundary: the bytes follow a schema (postcard of a struct that the block declares) with the kind
//! and version in front. Timers travel as remaining time, so that they survive a change of clock.

use serde::{Serialize, de::DeserializeOwned};

/// Exported state of one block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, serde::Deserialize)]
pub struct State {
    /// Kind of the block that wrote it.
    pub kind: String,
    /// Version of that kind's schema.
    pub version: u32,
    /// The schema's bytes.
    pub bytes: Vec<u8>,
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
        State { kind: kind.to_owned(), version: 0, bytes: Vec::new() }
    }
    /// Writes `value` by its schema.
    pub fn write<T: Serialize>(kind: &str, version: u32, value: &T) -> Result<State, StateError> {
        let bytes = postcard::to_allocvec(value).map_err(|error| StateError::Damaged { kind: kind.to_owned(), why: error.to_string() })?;
        Ok(State { kind: kind.to_owned(), version, bytes })
    }
    /// Reads it back, if kind and version fit.
    pub fn read<T: DeserializeOwned>(&self, kind: &str, version: u32) -> Result<T, StateError> {
        if self.kind != kind {
            return Err(StateError::WrongKind { found: self.kind.clone(), expected: kind.to_owned() });
        }
        if self.version != version {
            return Err(StateError::WrongVersion { kind: kind.to_owned(), found: self.version, expected: version });
        }
        postcard::from_bytes(&self.bytes).map_err(|error| StateError::Damaged { kind: kind.to_owned(), why: error.to_string() })
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
        let cut = State { bytes: state.bytes[..state.bytes.len() - 1].to_vec(), ..state };
        assert!(matches!(cut.read::<Vec<(u32, String)>>("arp", 2), Err(StateError::Damaged { .. })));
    }
}
