//! A guest in its place: what the world does for it, and what it sees of its machine.

use super::core::{Core, Told};
use crate::guest::{Guest, GuestContext};
use crate::report::{ProgramId, Status, Stream};
use std::path::PathBuf;
use weft_core::{BlockId, Completion, Frame, Instant};
use weft_process::Usage;

/// What is due now happens: ends of serialisation and frames of these ports, then what the guest does by itself, ahead of the world up to `end`.
pub(super) fn wake(core: &mut Core, guest: &mut dyn Guest, due: &[usize], end: Instant) {
    due.iter().for_each(|index| core.depart(*index));
    leave(core, guest, end);
    for index in due {
        let mut frames = Vec::new();
        core.receive(*index, |item| frames.push(item.frame));
        for frame in frames {
            guest.receive(&mut MachineTurn { core, end }, *index, &frame);
        }
    }
    if guest.next() <= core.now {
        guest.run(&mut MachineTurn { core, end });
    }
    leave(core, guest, end);
}

/// The world ends, or the machine does.
pub(super) fn finish(core: &mut Core, guest: &mut dyn Guest) {
    let end = core.now;
    guest.finish(&mut MachineTurn { core, end });
    core.lives += 1;
}

/// The guest learns which of its frames have left.
fn leave(core: &mut Core, guest: &mut dyn Guest, end: Instant) {
    while let Some(completion) = core.done.pop_front() {
        let (port, token) = ((completion.token >> 32) as usize, completion.token as u32);
        guest.left(&mut MachineTurn { core, end }, port, token);
    }
}

struct MachineTurn<'a> {
    core: &'a mut Core,
    end: Instant,
}

impl GuestContext for MachineTurn<'_> {
    fn now(&self) -> Instant {
        self.core.now
    }

    fn limit(&self) -> Instant {
        // What was dropped at once has left: the guest is told before it goes on.
        if self.core.done.is_empty() { self.core.next_of_ports().min(self.end) } else { self.core.now }
    }

    fn advance(&mut self, to: Instant) {
        self.core.pass(to.min(self.end));
    }

    fn send(&mut self, port: usize, mut frame: Frame, token: u32) {
        let bytes = frame.len() as u32;
        let token = (port as u64) << 32 | u64::from(token);
        frame.meta_mut().completion = Some(Completion { block: BlockId(0), token, bytes });
        if self.core.off || port >= self.core.ports.len() {
            self.core.unwired += 1;
            self.core.done.extend(frame.take_completion());
            return;
        }
        self.core.send_cut(port, frame, Told::Once);
    }

    fn started(&mut self, program: ProgramId) {
        let now = self.core.now;
        self.core.programs.entry(program).or_default().begin(now);
    }

    fn output(&mut self, program: ProgramId, stream: Stream, bytes: &[u8]) {
        self.core.output(program, stream, bytes);
    }

    fn used(&mut self, program: ProgramId, usage: Usage) {
        self.core.programs.entry(program).or_default().usage = Some(usage);
    }

    fn ended(&mut self, program: ProgramId, status: Status) {
        self.core.end_program(program, self.core.now, status);
    }

    fn sampled(&mut self, at: Instant, row: serde_json::Value) {
        self.core.samples.push((at, row));
    }

    fn leaves(&mut self, name: PathBuf, contents: Vec<u8>) {
        let life = match self.core.lives {
            0 => PathBuf::new(),
            before => PathBuf::from(format!("life-{}", before + 1)),
        };
        self.core.left_files.push((life.join(name), contents));
    }

    fn told(&mut self, text: &str) {
        self.core.told(false, text);
    }

    fn fail(&mut self, why: String) {
        self.core.failed.get_or_insert(why);
    }
}
