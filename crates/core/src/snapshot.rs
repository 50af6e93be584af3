//! A node's state as the bytes of a file: the exported state of every block, taken at one frame boundary, in one container.
//!
//! ```text
//! magic           8 bytes   a byte that is no text, "weft", a carriage return and line feeds: what a transfer as text damages is noticed
//! format          4 bytes   [`FORMAT`], little-endian
//! length          8 bytes   of the whole, little-endian
//! body            postcard  the weft that wrote it, node, clock and time, and of each block name and state (kind, version, bytes, buffers, checksum)
//! checksum       16 bytes   xxh3-128 of everything before
//! ```
//! Time and names are for people: state holds instants as distances from the time of the snapshot, so a timer that had three seconds to go has three
//! seconds to go when it is restored, on whatever clock. What does not follow the format is refused, and nothing panics.

use crate::block::Kind;
use crate::graph::Slots;
use crate::state::{State, StateError};
use crate::time::Instant;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

/// What every snapshot begins with.
pub const MAGIC: [u8; 8] = *b"\x8bweft\r\n\n";
/// Version of the container. That of each block's state is the block's ([`Kind::state_version`]).
pub const FORMAT: u32 = 1;
/// Largest snapshot, bytes: ten thousand connections with 64 KiB in flight are 640 MiB.
pub const SNAPSHOT_BYTES_MAX: usize = 1 << 30;

const FORMAT_AT: usize = MAGIC.len();
const LENGTH_AT: usize = FORMAT_AT + 4;
const BODY_AT: usize = LENGTH_AT + 8;
const SUM_BYTES: usize = 16;

/// Which clock a time is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TimeKind {
    /// A world's.
    Virtual,
    /// The host's, since the stack came up.
    Real,
}

/// The state of a node's blocks at one frame boundary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Version of the weft that wrote it, for information.
    pub weft: String,
    /// The node, for information.
    pub node: String,
    /// Whose clock `at` is of.
    pub time: TimeKind,
    /// When it was taken.
    pub at: Instant,
    /// When the node had booted, nanoseconds since 1970-01-01T00:00:00Z; 0: nobody said.
    pub boot_epoch_ns: u64,
    /// Name and state of each block, in the order of names.
    pub blocks: Vec<(String, State)>,
}

#[derive(Serialize, Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    weft: &'a str,
    #[serde(borrow)]
    node: &'a str,
    time: TimeKind,
    at_ns: u64,
    boot_epoch_ns: u64,
    #[serde(borrow)]
    blocks: Vec<(&'a str, &'a [u8])>,
}

/// Why there is no snapshot, or why one is not restored. The node goes on as it was.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Something else.
    #[error("this is no snapshot of weft's: it begins with other bytes; `weft snapshot FILE` writes one")]
    NotOne,
    /// Another version of the container.
    #[error("it has format {found}, this weft reads format {expected}: restore it with the weft that wrote it")]
    Format {
        /// Version in the file.
        found: u32,
        /// Version that is understood.
        expected: u32,
    },
    /// A part is missing.
    #[error("it is cut short: {found} of {expected} bytes are there")]
    Short {
        /// Bytes there.
        found: u64,
        /// Bytes that there should be.
        expected: u64,
    },
    /// More than belongs to it.
    #[error("{0} bytes too many follow it")]
    Long(u64),
    /// It is not what was written.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// Too much.
    #[error("{bytes} bytes are more than the {max} that a snapshot may have")]
    TooLarge {
        /// Bytes that there are.
        bytes: u64,
        /// The bound.
        max: u64,
    },
    /// A block cannot write its state, or does not read this one.
    #[error("block '{block}': {error}")]
    State {
        /// The block.
        block: String,
        /// Why.
        error: StateError,
    },
    /// The blocks of the snapshot are not those of the node.
    #[error("block '{block}' {why}: bring the graph to the shape that it had (`weft apply`)")]
    OtherShape {
        /// The first block that differs.
        block: String,
        /// How.
        why: String,
    },
    /// A block cannot be made anew.
    #[error("block '{block}' cannot be made anew: {why}")]
    NotMade {
        /// The block.
        block: String,
        /// Why.
        why: String,
    },
    /// Programs hold sockets that the snapshot does not fit.
    #[error("{0}")]
    Sockets(String),
}

impl Snapshot {
    /// Takes down the state of every block of a graph that is at a frame boundary.
    ///
    /// # Errors
    /// A block that cannot export what it holds.
    pub fn states(graph: &Slots, now: Instant) -> Result<Vec<(String, State)>, SnapshotError> {
        let state = |id| {
            let name = graph.name(id).to_owned();
            let Some(block) = graph.block(id) else { return Ok((name, State::none("?"))) };
            block.export(now).map(|state| (name.clone(), state)).map_err(|error| SnapshotError::State { block: name, error })
        };
        graph.ids().map(state).collect()
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// More than [`SNAPSHOT_BYTES_MAX`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, SnapshotError> {
        let states: Vec<Vec<u8>> = self.blocks.iter().map(|(_, state)| state.to_bytes()).collect();
        let bytes = states.iter().map(|state| state.len() as u64).sum::<u64>();
        let too_large = |bytes: u64| SnapshotError::TooLarge { bytes, max: SNAPSHOT_BYTES_MAX as u64 };
        if bytes > SNAPSHOT_BYTES_MAX as u64 {
            return Err(too_large(bytes));
        }
        let body = Body {
            weft: &self.weft,
            node: &self.node,
            time: self.time,
            at_ns: self.at.as_nanos(),
            boot_epoch_ns: self.boot_epoch_ns,
            blocks: self.blocks.iter().zip(&states).map(|((name, _), state)| (name.as_str(), state.as_slice())).collect(),
        };
        let mut out = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default() + 4096);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        let mut out = postcard::to_extend(&body, out).map_err(|error| SnapshotError::Damaged(error.to_string()))?;
        let length = (out.len() + SUM_BYTES) as u64;
        if length > SNAPSHOT_BYTES_MAX as u64 {
            return Err(too_large(length));
        }
        out[LENGTH_AT..BODY_AT].copy_from_slice(&length.to_le_bytes());
        let sum = xxh3_128(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        Ok(out)
    }

    /// Reads what [`Snapshot::to_bytes`] wrote.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Snapshot, SnapshotError> {
        check_frame(bytes)?;
        let damaged = |why: &dyn std::fmt::Display| SnapshotError::Damaged(why.to_string());
        let end = bytes.len() - SUM_BYTES;
        if xxh3_128(&bytes[..end]) != digest(bytes) {
            return Err(damaged(&"its checksum is another"));
        }
        let (body, rest): (Body<'_>, _) = postcard::take_from_bytes(&bytes[BODY_AT..end]).map_err(|error| damaged(&error))?;
        if !rest.is_empty() {
            return Err(damaged(&format_args!("{} bytes follow its blocks", rest.len())));
        }
        let mut blocks: Vec<(String, State)> = Vec::new();
        for (name, state) in body.blocks {
            if blocks.last().is_some_and(|(before, _)| before.as_str() >= name) {
                return Err(damaged(&format_args!("block '{name}' is out of order")));
            }
            let state = State::from_bytes(state).map_err(|error| SnapshotError::State { block: name.to_owned(), error })?;
            blocks.push((name.to_owned(), state));
        }
        Ok(Snapshot {
            weft: body.weft.to_owned(),
            node: body.node.to_owned(),
            time: body.time,
            at: Instant::from_nanos(body.at_ns),
            boot_epoch_ns: body.boot_epoch_ns,
            blocks,
        })
    }
}

/// What tells a snapshot from every other: its checksum. Of bytes that are none: of those that stand in its place.
pub fn digest(bytes: &[u8]) -> u128 {
    bytes.last_chunk::<SUM_BYTES>().map_or(0, |sum| u128::from_le_bytes(*sum))
}

/// Magic, format and length.
fn check_frame(bytes: &[u8]) -> Result<(), SnapshotError> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err(SnapshotError::NotOne);
    }
    let short = |expected: u64| SnapshotError::Short { found: bytes.len() as u64, expected };
    let least = (BODY_AT + SUM_BYTES) as u64;
    let format = bytes.get(FORMAT_AT..LENGTH_AT).and_then(|found| found.try_into().ok()).map(u32::from_le_bytes);
    let found = format.ok_or_else(|| short(least))?;
    if found != FORMAT {
        return Err(SnapshotError::Format { found, expected: FORMAT });
    }
    let length = bytes.get(LENGTH_AT..BODY_AT).and_then(|found| found.try_into().ok()).map(u64::from_le_bytes);
    let expected = length.ok_or_else(|| short(least))?;
    match expected {
        _ if expected > SNAPSHOT_BYTES_MAX as u64 => Err(SnapshotError::TooLarge { bytes: expected, max: SNAPSHOT_BYTES_MAX as u64 }),
        _ if expected < least => Err(SnapshotError::Damaged(format!("it says that it has {expected} bytes"))),
        _ if (bytes.len() as u64) < expected => Err(short(expected)),
        _ if bytes.len() as u64 > expected => Err(SnapshotError::Long(bytes.len() as u64 - expected)),
        _ => Ok(()),
    }
}

/// Are the blocks of a snapshot those of a graph, by name and kind?
///
/// # Errors
/// The first that is not.
pub fn check_shape(graph: &Slots, blocks: &[(String, State)]) -> Result<(), SnapshotError> {
    let other = |block: &str, why: String| Err(SnapshotError::OtherShape { block: block.to_owned(), why });
    let kind = |name: &str| graph.find(name).and_then(|id| graph.kind(id));
    for (name, state) in blocks {
        match kind(name) {
            None => return other(name, format!("(kind {}) is in the snapshot, and the node has none of that name", state.kind)),
            Some(Kind { name: found, .. }) if *found != state.kind => {
                return other(name, format!("is of kind {} in the snapshot, and of kind {found} in the node", state.kind));
            }
            Some(_) => {}
        }
    }
    let known = |name: &str| blocks.binary_search_by(|(of, _)| of.as_str().cmp(name)).is_ok();
    match graph.ids().map(|id| graph.name(id)).find(|name| !known(name)) {
        Some(name) => other(name, format!("(kind {}) is in the node, and not in the snapshot", kind(name).map_or("?", |kind| kind.name))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn snapshot() -> Snapshot {
        let blocks = ["arp", "ip4", "tcp"].map(|name| (name.to_owned(), State::write(name, 2, &vec![7u32; 100]).unwrap()));
        let at = Instant::from_millis(1500);
        Snapshot { weft: "0.1.0".to_owned(), node: "a".to_owned(), time: TimeKind::Virtual, at, boot_epoch_ns: 5, blocks: blocks.into() }
    }

    /// With a checksum that fits.
    fn forged(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.truncate(bytes.len() - SUM_BYTES);
        let sum = xxh3_128(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = snapshot().to_bytes().unwrap();
        assert_eq!(Snapshot::from_bytes(&bytes), Ok(snapshot()));
        assert_eq!(snapshot().to_bytes().unwrap(), bytes);
        assert_ne!(digest(&bytes), 0);
    }

    #[test]
    fn every_length_but_its_own_is_refused() {
        let bytes = snapshot().to_bytes().unwrap();
        for length in 0..bytes.len() {
            let refused = Snapshot::from_bytes(&bytes[..length]).unwrap_err();
            assert!(matches!(refused, SnapshotError::Short { found, .. } if found == length as u64), "{length}: {refused}");
        }
        assert_eq!(Snapshot::from_bytes(&[&bytes[..], b"x"].concat()), Err(SnapshotError::Long(1)));
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let bytes = snapshot().to_bytes().unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(Snapshot::from_bytes(&other).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        let bytes = snapshot().to_bytes().unwrap();
        let said = |bytes: &[u8]| Snapshot::from_bytes(bytes).unwrap_err().to_string();
        assert!(said(b"[node]\nname = \"a\"\n").starts_with("this is no snapshot of weft's"));
        let mut other = bytes.clone();
        other[FORMAT_AT] = 2;
        assert_eq!(said(&forged(other)), "it has format 2, this weft reads format 1: restore it with the weft that wrote it");
        let mut other = bytes.clone();
        other[LENGTH_AT..BODY_AT].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(said(&forged(other)).contains("more than the 1073741824"));
        let mut twice = snapshot();
        twice.blocks[1].0 = "arp".to_owned();
        assert_eq!(said(&twice.to_bytes().unwrap()), "it is damaged: block 'arp' is out of order");
    }

    /// Under a good checksum: read, or refused, and never worse.
    #[test]
    fn forged_bytes_do_no_harm() {
        let (bytes, mut rng) = (snapshot().to_bytes().unwrap(), Rng::for_name(1, "forged"));
        let (mut refused, mut read) = (0, 0);
        for _ in 0..20_000 {
            let mut other = bytes.clone();
            for _ in 0..=rng.below(3) {
                let at = BODY_AT + rng.below((bytes.len() - BODY_AT - SUM_BYTES) as u64) as usize;
                other[at] = rng.u32() as u8;
            }
            match Snapshot::from_bytes(&forged(other)) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 10_000 && read > 0, "{refused} refused, {read} read");
    }
}
