//! The record of a run: everything that its hash stands for, whole. `--record full` writes it, [`rehash`] computes the hash from it again,
//! [`compare`] finds the first event in which two runs differ.
//!
//! `DIR/record/NODE.events` holds the events of one node in the order in which they happened, after a line that names the format; numbers are
//! little-endian:
//!
//! ```text
//! frame    1  time u64 ns  interface u32  direction u8 (0 in, 1 out)  length u32  bytes
//! call     2  time u64 ns  program u32  process u32  thread u32  number u32  result i64  length u32  bytes
//! output   3  time u64 ns  program u32  stream u8 (0 output, 1 error)  length u32  bytes
//! end      4  time u64 ns  program u32  kind u8 (0 exit, 1 signal)  status i32
//! control  5  time u64 ns  refused u8 (0 done, 1 refused)  length u32  bytes
//! ```
//!
//! `DIR/record/index.json` gives the names of nodes, interfaces and programs. It is written last: a record without it is not complete.

mod calls;
mod compare;
mod layout;
mod read;

pub use compare::{Comparison, Difference, compare};
pub use layout::{FOLDER, INDEX};
pub use read::{Event, Events, Index, NodeIndex, RecordError, Rehash, What, rehash};

use crate::hash::Way;
use crate::report::{CallRecord, ProgramId, Status, Stream};
use layout::{FORMAT, file_of};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use weft_core::{Frame, Instant, InterfaceIndex};

/// Written out when this much has gathered, bytes. Files are opened for that only: a world may have more nodes than a process descriptors.
const BUFFER_BYTES: usize = 256 << 10;

/// Writes the events of one node.
#[derive(Debug)]
pub(crate) struct Recorder {
    path: PathBuf,
    buffer: Vec<u8>,
    /// Why nothing is written any more.
    failed: Option<io::Error>,
}

impl Recorder {
    pub fn create(folder: &Path, node: &str) -> io::Result<Recorder> {
        let path = file_of(folder, node);
        File::create(&path)?.write_all(FORMAT)?;
        Ok(Recorder { path, buffer: Vec::new(), failed: None })
    }

    fn begin(&mut self, tag: u8, at: Instant) {
        if self.buffer.len() >= BUFFER_BYTES {
            self.write_out();
        }
        self.buffer.push(tag);
        self.buffer.extend(at.as_nanos().to_le_bytes());
    }

    fn number(&mut self, number: u32) {
        self.buffer.extend(number.to_le_bytes());
    }

    fn bytes<'a>(&mut self, length: usize, chunks: impl Iterator<Item = &'a [u8]>) {
        self.number(length as u32);
        chunks.for_each(|chunk| self.buffer.extend_from_slice(chunk));
    }

    pub fn frame(&mut self, at: Instant, interface: InterfaceIndex, way: Way, frame: &Frame) {
        self.begin(1, at);
        self.number(interface.0);
        self.buffer.push(u8::from(way == Way::Out));
        self.bytes(frame.len(), frame.chunks());
    }

    pub fn call(&mut self, at: Instant, call: &CallRecord<'_>) {
        self.begin(2, at);
        [call.program.0, call.process, call.thread, call.number].into_iter().for_each(|number| self.number(number));
        self.buffer.extend(call.result.to_le_bytes());
        self.bytes(call.output.len(), std::iter::once(call.output));
    }

    pub fn output(&mut self, at: Instant, program: ProgramId, stream: Stream, bytes: &[u8]) {
        self.begin(3, at);
        self.number(program.0);
        self.buffer.push(u8::from(stream == Stream::Error));
        self.bytes(bytes.len(), std::iter::once(bytes));
    }

    pub fn end(&mut self, at: Instant, program: ProgramId, status: Status) {
        self.begin(4, at);
        self.number(program.0);
        let (kind, number) = match status {
            Status::Exited(status) => (0, status),
            Status::Killed(signal) => (1, signal),
        };
        self.buffer.push(kind);
        self.buffer.extend(number.to_le_bytes());
    }

    pub fn control(&mut self, at: Instant, refused: bool, text: &[u8]) {
        self.begin(5, at);
        self.buffer.push(u8::from(refused));
        self.bytes(text.len(), std::iter::once(text));
    }

    /// The first failure is kept for [`Recorder::finish`]; the run goes on.
    fn write_out(&mut self) {
        if self.failed.is_none() {
            let written = OpenOptions::new().append(true).open(&self.path).and_then(|mut file| file.write_all(&self.buffer));
            self.failed = written.err();
        }
        self.buffer.clear();
    }

    pub fn finish(&mut self) -> io::Result<()> {
        self.write_out();
        self.failed.take().map_or(Ok(()), Err)
    }
}
