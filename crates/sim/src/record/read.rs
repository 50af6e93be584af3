//! Reading a record.

use super::layout::{FOLDER, FORMAT, INDEX, file_of};
use crate::hash::{NodeHash, Way, fold};
use crate::report::{CallRecord, ProgramId, Status, Stream};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use weft_core::{Instant, InterfaceIndex};
use xxhash_rust::xxh3::xxh3_128;

/// The largest index that is read, bytes.
const INDEX_BYTES_MAX: u64 = 256 << 20;

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The folder has none, or none that is complete.
    #[error("{folder} holds no complete record of a run\nhelp: make one with `weft sim SCENARIO --record full --out {folder}`", folder = .0.display())]
    None(PathBuf),
    /// A file cannot be read.
    #[error("cannot read {path}: {1}", path = .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// A file is no record, or was changed.
    #[error("{path}: {what} at byte {at}\nhelp: the file was cut or changed; run the scenario again with --record full", path = path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where, bytes from its beginning.
        at: u64,
        /// What is wrong.
        what: String,
    },
}

/// Names of what a record speaks of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Index {
    /// The nodes.
    pub nodes: Vec<NodeIndex>,
    /// Names of programs, by their numbers.
    pub programs: Vec<String>,
}

/// Names of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeIndex {
    /// Its own.
    pub name: String,
    /// Its interfaces', by their numbers.
    pub interfaces: BTreeMap<u32, String>,
}

impl Index {
    /// Reads the index of a folder of results.
    ///
    /// # Errors
    /// There is none, or none that makes sense.
    pub fn read(dir: &Path) -> Result<Index, RecordError> {
        let path = dir.join(FOLDER).join(INDEX);
        let mut text = String::new();
        let file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => RecordError::None(dir.to_path_buf()),
            _ => RecordError::Io(path.clone(), error),
        })?;
        file.take(INDEX_BYTES_MAX).read_to_string(&mut text).map_err(|error| RecordError::Io(path.clone(), error))?;
        serde_json::from_str(&text).map_err(|error| RecordError::Damaged { path, at: 0, what: error.to_string() })
    }
}

/// Something that happened on a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// What.
    pub what: What,
    /// The frame; what the call gave; what the program wrote; what the node was told, and what it answered.
    pub bytes: Vec<u8>,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A frame passed an interface.
    Frame {
        /// Which.
        interface: InterfaceIndex,
        /// In or out.
        way: Way,
    },
    /// A call returned.
    Call {
        /// Of which program.
        program: ProgramId,
        /// Process in the node.
        process: u32,
        /// Thread in the node.
        thread: u32,
        /// Number of the call.
        number: u32,
        /// What it returned.
        result: i64,
    },
    /// A program wrote something.
    Output {
        /// Which.
        program: ProgramId,
        /// Where to.
        stream: Stream,
    },
    /// A program ended.
    End {
        /// Which.
        program: ProgramId,
        /// How.
        status: Status,
    },
    /// The node was told something from outside.
    Control {
        /// It refused.
        refused: bool,
    },
}

impl Event {
    fn hash(&self, hash: &mut NodeHash) {
        match self.what {
            What::Frame { interface, way } => hash.frame(self.at, interface, way, self.bytes.len() as u32, xxh3_128(&self.bytes)),
            What::Call { program, process, thread, number, result } => {
                hash.call(self.at, &CallRecord { program, process, thread, number, result, output: &self.bytes });
            }
            What::Output { program, stream } => hash.output(self.at, program, stream, &self.bytes),
            What::End { program, status } => hash.end(self.at, program, status),
            What::Control { refused } => hash.control(self.at, refused, &self.bytes),
        }
    }
}

/// The events of a node, one after the other.
#[derive(Debug)]
pub struct Events {
    path: PathBuf,
    file: BufReader<File>,
    at: u64,
}

impl Events {
    /// Opens the events of a node in a folder of results.
    ///
    /// # Errors
    /// There are none, or the file is something else.
    pub fn open(dir: &Path, node: &str) -> Result<Events, RecordError> {
        let path = file_of(&dir.join(FOLDER), node);
        let file = File::open(&path).map_err(|error| RecordError::Io(path.clone(), error))?;
        let mut events = Events { path, file: BufReader::with_capacity(1 << 16, file), at: 0 };
        match events.bytes(FORMAT.len() as u32)? == FORMAT {
            true => Ok(events),
            false => Err(events.damaged("no record of this version of weft")),
        }
    }

    fn damaged(&self, what: &str) -> RecordError {
        RecordError::Damaged { path: self.path.clone(), at: self.at, what: what.to_owned() }
    }

    /// So many bytes; what the file does not have is never made room for.
    fn bytes(&mut self, length: u32) -> Result<Vec<u8>, RecordError> {
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(u64::from(length)).read_to_end(&mut bytes);
        let read = read.map_err(|error| RecordError::Io(self.path.clone(), error))?;
        self.at += read as u64;
        match read == length as usize {
            true => Ok(bytes),
            false => Err(self.damaged("the file ends within an event")),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let bytes = self.bytes(N as u32)?;
        Ok(bytes.try_into().unwrap_or([0; N]))
    }

    fn number(&mut self) -> Result<u32, RecordError> {
        self.array().map(u32::from_le_bytes)
    }

    fn choice<T>(&mut self, first: T, second: T) -> Result<T, RecordError> {
        match self.array()? {
            [0] => Ok(first),
            [1] => Ok(second),
            _ => Err(self.damaged("there is no such choice")),
        }
    }

    fn what(&mut self, tag: u8) -> Result<What, RecordError> {
        Ok(match tag {
            1 => What::Frame { interface: InterfaceIndex(self.number()?), way: self.choice(Way::In, Way::Out)? },
            2 => What::Call {
                program: ProgramId(self.number()?),
                process: self.number()?,
                thread: self.number()?,
                number: self.number()?,
                result: i64::from_le_bytes(self.array()?),
            },
            3 => What::Output { program: ProgramId(self.number()?), stream: self.choice(Stream::Output, Stream::Error)? },
            4 => {
                let (program, exited) = (ProgramId(self.number()?), self.choice(true, false)?);
                let number = i32::from_le_bytes(self.array()?);
                What::End { program, status: if exited { Status::Exited(number) } else { Status::Killed(number) } }
            }
            5 => What::Control { refused: self.choice(false, true)? },
            _ => return Err(self.damaged("there is no such event")),
        })
    }

    fn event(&mut self) -> Result<Option<Event>, RecordError> {
        let mut tag = [0];
        match self.file.read(&mut tag) {
            Ok(0) => return Ok(None),
            Ok(_) => self.at += 1,
            Err(error) => return Err(RecordError::Io(self.path.clone(), error)),
        }
        let at = Instant::from_nanos(u64::from_le_bytes(self.array()?));
        let what = self.what(tag[0])?;
        let bytes = match what {
            What::End { .. } => Vec::new(),
            _ => {
                let length = self.number()?;
                self.bytes(length)?
            }
        };
        Ok(Some(Event { at, what, bytes }))
    }
}

impl Iterator for Events {
    type Item = Result<Event, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.event().transpose()
    }
}

/// What a record comes to.
#[derive(Clone, Debug)]
pub struct Rehash {
    /// The run's hash.
    pub hash: u128,
    /// Each node's name and hash.
    pub nodes: Vec<(String, u128)>,
    /// Events in all.
    pub events: u64,
}

/// Computes the hash of a recorded run again, from everything that it stands for.
///
/// # Errors
/// The folder holds no complete record, or one that is damaged.
pub fn rehash(dir: &Path) -> Result<Rehash, RecordError> {
    let index = Index::read(dir)?;
    let (mut nodes, mut count) = (Vec::new(), 0);
    for node in index.nodes {
        let mut hash = NodeHash::default();
        for event in Events::open(dir, &node.name)? {
            event?.hash(&mut hash);
        }
        count += hash.records();
        nodes.push((node.name, hash.digest()));
    }
    let hash = fold(nodes.iter().map(|(name, hash)| (name.as_str(), *hash)));
    Ok(Rehash { hash, nodes, events: count })
}
