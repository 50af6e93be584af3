//! What programs wrote, when: one log for all of them, line by line, in the order of virtual time.
//!
//! ```text
//! 0.500007000 web@server: listening on port 80
//! 0.731000000 fetch@client! curl: (7) Failed to connect
//! ```
//!
//! Virtual time at which the line was complete, program and node, and `:` for standard output, `!` for standard error. It changes nothing, and is no part
//! of the hash: that has output in pieces, with the time at which the controller saw them.

use crate::life::ProgramState;
use crate::plan::{Listener, Plan, Said};
use crate::report::{ProgramId, Stream};
use std::collections::BTreeMap;
use std::io::{self, Write};
use weft_core::Instant;

/// Pieces of a node's programs that are noted: what comes later is in the log with the time of the last one.
const PIECES_MAX: usize = 1 << 22;

/// A piece of a program's output: so many bytes more.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: Instant,
    program: ProgramId,
    stream: Stream,
    bytes: u64,
}

/// What the programs of a node wrote, when.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    log: bool,
    listener: Option<Listener>,
    pieces: Vec<Piece>,
    /// So many bytes of each stream were noted, and came.
    counts: BTreeMap<(ProgramId, bool), (u64, u64)>,
}

impl Notes {
    pub fn new(plan: &Plan) -> Notes {
        Notes { log: plan.log, listener: plan.listener.clone(), ..Notes::default() }
    }

    /// Does anybody want to know?
    pub fn wanted(&self) -> bool {
        self.log || self.listener.is_some()
    }

    /// A program wrote this; it has not come yet.
    pub fn wrote(&mut self, at: Instant, program: ProgramId, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() || !self.wanted() {
            return;
        }
        self.counts.entry((program, stream == Stream::Error)).or_default().0 += bytes.len() as u64;
        if let Some(Listener(listener)) = &self.listener {
            listener(&Said { at, program: program.0 as usize, error: stream == Stream::Error, bytes });
        }
        if self.log && self.pieces.len() < PIECES_MAX {
            self.pieces.push(Piece { at, program, stream, bytes: bytes.len() as u64 });
        }
    }

    /// This came; what of it was not noted is now.
    pub fn came(&mut self, at: Instant, program: ProgramId, stream: Stream, bytes: &[u8]) {
        if !self.wanted() {
            return;
        }
        let (noted, came) = self.counts.entry((program, stream == Stream::Error)).or_default();
        let known = noted.saturating_sub(*came).min(bytes.len() as u64);
        *came += bytes.len() as u64;
        self.wrote(at, program, stream, bytes.get(known as usize..).unwrap_or_default());
    }
}

/// A line: when it was complete, whose it is, on standard error or not, and what it says.
struct Line<'a> {
    at: Instant,
    program: usize,
    error: bool,
    text: &'a [u8],
}

/// The lines of a node, in the order in which they became complete; none where nobody wants a log.
fn lines<'a>(notes: &Notes, programs: &'a BTreeMap<ProgramId, ProgramState>) -> Vec<Line<'a>> {
    let mut out = Vec::new();
    let Some(latest) = notes.pieces.last().map(|piece| piece.at) else { return out };
    // Where each stream's next line begins, how far its pieces have come, and when the last did. Of some there may be none: [`PIECES_MAX`].
    let all = programs.keys().flat_map(|program| [(*program, false), (*program, true)]);
    let mut streams: BTreeMap<(ProgramId, bool), (usize, usize, Instant)> = all.map(|stream| (stream, (0, 0, latest))).collect();
    let text = |program: &ProgramId, error: bool| -> &'a [u8] {
        programs.get(program).map_or(&[][..], |state| if error { &state.error[..] } else { &state.output[..] })
    };
    for piece in &notes.pieces {
        let error = piece.stream == Stream::Error;
        let whole = text(&piece.program, error);
        let (start, end, last) = streams.entry((piece.program, error)).or_insert((0, 0, piece.at));
        let from = *end;
        *end = (*end + piece.bytes as usize).min(whole.len());
        *last = piece.at;
        for at in (from..*end).filter(|at| whole[*at] == b'\n') {
            out.push(Line { at: piece.at, program: piece.program.0 as usize, error, text: &whole[*start..at] });
            *start = at + 1;
        }
    }
    // The last lines have no end.
    for ((program, error), (start, _, at)) in streams {
        let whole = text(&program, error);
        let rest = whole.get(start..).unwrap_or_default();
        let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
        for text in rest.split(|byte| *byte == b'\n').filter(|_| !rest.is_empty()) {
            out.push(Line { at, program: program.0 as usize, error, text });
        }
    }
    out
}

/// Writes the log of all nodes, which come in the order of their names.
pub(crate) fn write<'a>(
    out: &mut dyn Write,
    plan: &Plan,
    nodes: impl Iterator<Item = (&'a Notes, &'a BTreeMap<ProgramId, ProgramState>)>,
) -> io::Result<()> {
    let mut all: Vec<Line<'_>> = nodes.flat_map(|(notes, programs)| lines(notes, programs)).collect();
    // Stable: at one instant, node by node, and on each as they came.
    all.sort_by_key(|line| line.at);
    for line in all {
        let Some(program) = plan.programs.get(line.program) else { continue };
        out.write_all(head(plan, program.node, &program.name, line.at, line.error).as_bytes())?;
        out.write_all(line.text)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn head(plan: &Plan, node: usize, name: &str, at: Instant, error: bool) -> String {
    let node = plan.nodes.get(node).map_or("", |node| node.name.as_str());
    // Copies of a program are called by their nodes already.
    let name = if name.ends_with(&format!("@{node}")) { name.to_owned() } else { format!("{name}@{node}") };
    format!("{} {name}{} ", at.seconds(), if error { '!' } else { ':' })
}

/// What stands before a line of a program, in the log and where output is shown as it comes.
pub fn heading(plan: &Plan, said: &Said<'_>) -> String {
    plan.programs.get(said.program).map_or(String::new(), |program| head(plan, program.node, &program.name, said.at, said.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_noted_any_more_is_in_the_log_with_the_time_of_the_last_piece() {
        let (one, two) = (ProgramId(0), ProgramId(1));
        let state = |output: &str, error: &str| ProgramState { output: output.into(), error: error.into(), ..ProgramState::default() };
        let programs = BTreeMap::from([(one, state("a\nb\n", "")), (two, state("c\nd", "e\n"))]);
        let piece = |at: u64, bytes: u64| Piece { at: Instant::from_millis(at), program: one, stream: Stream::Output, bytes };
        let notes = Notes { log: true, pieces: vec![piece(1, 2), piece(2, 1)], ..Notes::default() };
        let found: Vec<_> = lines(&notes, &programs)
            .into_iter()
            .map(|line| (line.at.as_nanos() / 1_000_000, line.program, line.error, String::from_utf8_lossy(line.text).into_owned()))
            .collect();
        let wanted = [(1, 0, false, "a"), (2, 0, false, "b"), (2, 1, false, "c"), (2, 1, false, "d"), (2, 1, true, "e")];
        assert_eq!(found, wanted.map(|(at, program, error, text)| (at, program, error, text.to_owned())));
        assert!(lines(&Notes::default(), &programs).is_empty());
    }
}
