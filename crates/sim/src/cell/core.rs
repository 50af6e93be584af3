//! What all machines have: ports on wires, what is recorded of them, and their programs' results.

use super::alarm::Alarm;
use super::port::{Arrival, Handover, Load, Port, Signal};
use crate::calls::CallLog;
use crate::debug::Teller;
use crate::hash::{self, NodeHash, Way};
use crate::item::Item;
use crate::life::ProgramState;
use crate::limits::OUTPUT_BYTES_MAX;
use crate::output_log::Notes;
use crate::record::Recorder;
use crate::report::{ProgramId, Status, Stream};
use crate::wire::{Direction, FRAME_BYTES_MIN, serialisation};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;
use weft_core::offload::{self, CutChecksums};
use weft_core::{Completion, Frame, Instant, InterfaceIndex, Meta};
use weft_node::Node;

/// With more ports than this, those that have something to do are kept in order.
pub(super) const PORTS_SCANNED: usize = 4;
/// Frames that a node may send in consequence of one event: more is a loop.
const FRAMES_PER_EVENT_MAX: u32 = 1 << 20;

/// When the sender of a frame that was cut is told that it has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    /// When the last piece has.
    Once,
    /// Of each piece, its part: what has left makes room below for more, as where Linux cuts (skb_segment shares the bytes out among the pieces).
    Each,
}

/// What all machines have.
pub(crate) struct Core {
    pub name: String,
    pub now: Instant,
    pub ports: Vec<Port>,
    due: BTreeSet<(Instant, u32)>,
    pub hash: NodeHash,
    /// Everything that the hash stands for, where that is wanted.
    pub record: Option<Box<Recorder>>,
    /// Where calls are written down, where that is wanted.
    pub calls: Option<Box<CallLog>>,
    /// When programs wrote what.
    pub notes: Notes,
    /// For a debugger.
    pub teller: Teller,
    pub alarm: Option<Box<Alarm>>,
    pub out: Vec<Handover>,
    pub programs: BTreeMap<ProgramId, ProgramState>,
    /// Programs whose end is waited for.
    pub left: usize,
    pub awaited: BTreeSet<ProgramId>,
    /// Those of them that have ended.
    seen_off: BTreeSet<ProgramId>,
    pub last_end: Instant,
    pub events: u64,
    /// Frames for interfaces without a wire.
    pub unwired: u64,
    room: Vec<u8>,
    cut: Vec<Frame>,
    /// Empty: room for frames that arrive.
    pub(super) arrived: Vec<Frame>,
    dropped: Vec<Item>,
    pub(super) done: VecDeque<Completion>,
    /// Nothing leaves and nothing arrives: the machine is off.
    pub off: bool,
    /// When it booted last.
    pub booted: Instant,
    /// How often its node's interfaces had changed when they were looked at last.
    interface_changes: u64,
    /// Large frames come as far as their wire; otherwise the interface cuts them, and leaves their checksums to the wire.
    large_frames: bool,
    /// Why the machine cannot go on: the run ends.
    pub failed: Option<String>,
    /// What a guest said of its connections, and when: rows of [`crate::FlowSample`].
    pub samples: Vec<(Instant, serde_json::Value)>,
    /// Files that a guest has left for people, and how often it has ended.
    pub left_files: Vec<(PathBuf, Vec<u8>)>,
    pub(super) lives: u32,
}

impl Core {
    pub fn new(name: &str, large_frames: bool) -> Core {
        Core {
            name: name.to_owned(),
            now: Instant::ZERO,
            ports: Vec::new(),
            due: BTreeSet::new(),
            hash: NodeHash::default(),
            record: None,
            calls: None,
            notes: Notes::default(),
            teller: Teller::default(),
            alarm: None,
            out: Vec::new(),
            programs: BTreeMap::new(),
            left: 0,
            awaited: BTreeSet::new(),
            seen_off: BTreeSet::new(),
            last_end: Instant::ZERO,
            events: 0,
            unwired: 0,
            room: Vec::new(),
            cut: Vec::new(),
            arrived: Vec::new(),
            dropped: Vec::new(),
            done: VecDeque::new(),
            off: false,
            booted: Instant::ZERO,
            interface_changes: 0,
            large_frames,
            failed: None,
            samples: Vec::new(),
            left_files: Vec::new(),
            lives: 0,
        }
    }

    /// The machine's present becomes `to`.
    pub(super) fn pass(&mut self, to: Instant) {
        self.now = self.now.max(to);
        self.teller.tell(&self.name, self.now);
        if let Some(alarm) = self.alarm.take_if(|alarm| alarm.at <= to) {
            alarm.ring(&self.name, self.now);
        }
    }

    /// The port's next event may have become another.
    fn touch(&mut self, index: usize) {
        if self.ports.len() <= PORTS_SCANNED {
            return;
        }
        let Some(port) = self.ports.get_mut(index) else { return };
        let next = Some(port.next()).filter(|at| *at != Instant::FAR_FUTURE);
        if next == port.due {
            return;
        }
        if let Some(old) = port.due.take() {
            self.due.remove(&(old, index as u32));
        }
        if let Some(at) = next {
            self.due.insert((at, index as u32));
        }
        port.due = next;
    }

    /// When a port has something to do.
    pub(super) fn next_of_ports(&self) -> Instant {
        match self.ports.len() <= PORTS_SCANNED {
            true => self.ports.iter().map(Port::next).min().unwrap_or(Instant::FAR_FUTURE),
            false => self.due.first().map_or(Instant::FAR_FUTURE, |(at, _)| *at),
        }
    }

    /// When a frame arrives next, or a carrier comes or goes.
    pub(super) fn next_arrival(&self) -> Instant {
        match self.ports.len() <= PORTS_SCANNED {
            true => self.ports.iter().map(Port::next_incoming).min().unwrap_or(Instant::FAR_FUTURE),
            // Ends of serialisation among them make it earlier than need be.
            false => self.next_of_ports(),
        }
    }

    /// When a serialisation ends next.
    pub(super) fn next_departure(&self) -> Instant {
        self.ports.iter().filter_map(|port| port.out.next()).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// The ports that have something to do by now, in their order.
    pub(super) fn due_ports(&self, due: &mut Vec<usize>) {
        due.clear();
        if self.ports.len() <= PORTS_SCANNED {
            due.extend(self.ports.iter().enumerate().filter(|(_, port)| port.next() <= self.now).map(|(index, _)| index));
        } else {
            due.extend(self.due.range(..=(self.now, u32::MAX)).map(|(_, index)| *index as usize));
            due.sort_unstable();
        }
    }

    pub fn deliver(&mut self, port: u32, load: Load) {
        let index = port as usize;
        match (self.ports.get_mut(index), load) {
            (Some(port), Load::Frame(arrival)) => port.deliver(arrival),
            (Some(port), Load::Signal(signal)) => port.line.deliver(signal),
            (None, _) => {}
        }
        self.touch(index);
    }

    /// The machine at the other end of a port's wire has power, or has lost it.
    pub fn set_power_there(&mut self, index: usize, on: bool) {
        if let Some(port) = self.ports.get_mut(index) {
            port.line.set_power(on);
        }
    }

    /// From now on it takes this long until the carrier of a port is noticed.
    pub fn set_noticed(&mut self, index: usize, noticed: Option<Duration>) {
        if let Some(port) = self.ports.get_mut(index) {
            port.line.set_noticed(noticed);
        }
    }

    /// The carriers of ports that the machine learns of now; `take` gets each, with the name of its interface.
    pub(super) fn see_lines(&mut self, index: usize, mut take: impl FnMut(&str, bool)) {
        let Some(port) = self.ports.get_mut(index) else { return };
        loop {
            let seen = port.line.see(self.now);
            if let Some(carrier) = port.line.settle(self.now, port.out.is_up()) {
                take(&port.name, carrier);
            }
            if !seen {
                break;
            }
        }
        self.touch(index);
    }

    /// The interface of a port went up or down: the other end sees it as soon as the smallest frame could be there.
    fn signal(&mut self, index: usize, up: bool) {
        let Some(port) = self.ports.get_mut(index).filter(|port| port.line.told_up != up) else { return };
        port.line.told_up = up;
        port.sequence += 1;
        let plan = port.out.plan();
        let at = self.now + plan.delay + serialisation(plan, FRAME_BYTES_MIN);
        let signal = Signal { at, sequence: port.sequence, up };
        self.out.push(Handover { to: port.to, port: port.to_port, load: Load::Signal(signal) });
    }

    /// A frame of the stack enters the wire of its interface.
    fn send(&mut self, mut frame: Frame) {
        let interface = frame.meta().interface;
        let Some(index) = self.ports.iter().position(|port| port.interface == interface).filter(|_| !self.off) else {
            self.unwired += 1;
            self.done.extend(frame.take_completion());
            return;
        };
        self.send_cut(index, frame, Told::Each);
    }

    /// A frame enters the wire of a port: cut, with complete checksums.
    pub(super) fn send_cut(&mut self, index: usize, mut frame: Frame, told: Told) {
        if frame.meta().gso.is_none() {
            offload::complete_checksum(&mut frame);
            return self.send_whole(index, frame);
        }
        let mut cut = std::mem::take(&mut self.cut);
        let checksums = if self.large_frames { CutChecksums::Complete } else { CutChecksums::Partial };
        let mut whole = if told == Told::Each { frame.take_completion() } else { None };
        offload::cut(frame, checksums, &mut cut);
        let count = cut.len();
        for (number, mut frame) in cut.drain(..).enumerate() {
            if let Some(left) = &mut whole {
                let bytes = left.bytes / (count - number) as u32;
                left.bytes -= bytes;
                frame.meta_mut().completion = Some(Completion { bytes, ..*left });
            }
            offload::complete_checksum(&mut frame);
            self.send_whole(index, frame);
        }
        self.cut = cut;
    }

    fn send_whole(&mut self, index: usize, frame: Frame) {
        let digest = hash::of_frame(&frame, &mut self.room);
        let bytes = frame.len() as u32;
        self.send_item(index, Item { frame, digest, bytes });
    }

    /// A frame that is as wires carry it enters the wire of a port.
    pub fn send_item(&mut self, index: usize, item: Item) {
        let Some(port) = self.ports.get_mut(index) else { return };
        if let Some(item) = port.out.offer(self.now, item, &mut self.dropped) {
            self.begin(index, item);
        }
        self.drop_all();
        self.touch(index);
    }

    /// The senders of dropped frames learn that they have left.
    pub fn drop_all(&mut self) {
        for mut item in self.dropped.drain(..) {
            self.done.extend(item.frame.take_completion());
        }
    }

    /// A serialisation begins.
    fn begin(&mut self, index: usize, item: Item) {
        let Some(port) = self.ports.get_mut(index) else { return };
        for sink in &mut port.sinks {
            sink.frame(self.now, Way::Out, &item.frame);
        }
        if let Some(record) = &mut self.record {
            record.frame(self.now, port.interface, Way::Out, &item.frame);
        }
        let departure = port.out.begin(self.now, item, &mut self.room);
        self.hash.frame(self.now, port.interface, Way::Out, departure.bytes, departure.digest);
        for (at, item) in [departure.first, departure.second].into_iter().flatten() {
            port.sequence += 1;
            let arrival = Arrival { at, sequence: port.sequence, item };
            self.out.push(Handover { to: port.to, port: port.to_port, load: Load::Frame(arrival) });
        }
    }

    /// The ends of serialisation of a port that are due.
    pub(super) fn depart(&mut self, index: usize) {
        while let Some(port) = self.ports.get_mut(index)
            && port.out.next().is_some_and(|at| at <= self.now)
        {
            let (completion, next) = port.out.depart(self.now, &mut self.dropped);
            self.done.extend(completion);
            if let Some(item) = next {
                self.begin(index, item);
            }
            self.drop_all();
        }
        self.touch(index);
    }

    /// The frames that a port receives now; `take` gets each.
    pub(super) fn receive(&mut self, index: usize, mut take: impl FnMut(Item)) {
        let (now, off) = (self.now, self.off);
        let Some(port) = self.ports.get_mut(index) else { return };
        while port.inbox.front().is_some_and(|arrival| arrival.at <= now) {
            let Some(arrival) = port.inbox.pop_front() else { break };
            if off {
                continue;
            }
            for sink in &mut port.sinks {
                sink.frame(now, Way::In, &arrival.item.frame);
            }
            if let Some(record) = &mut self.record {
                record.frame(now, port.interface, Way::In, &arrival.item.frame);
            }
            self.hash.frame(now, port.interface, Way::In, arrival.item.bytes, arrival.item.digest);
            take(arrival.item);
        }
        self.touch(index);
    }

    /// The same, as the stack sees them.
    pub(super) fn receive_frames(&mut self, index: usize, frames: &mut Vec<Frame>) {
        let interface = self.ports.get(index).map_or(InterfaceIndex::NONE, |port| port.interface);
        let received = self.now;
        self.receive(index, |item| frames.push(incoming(item.frame, interface, received)));
    }

    /// What is on the wire to this port is lost. Returns how many frames.
    pub fn lose_inbox(&mut self, index: usize) -> u64 {
        let lost = self.ports.get_mut(index).map_or(0, |port| port.inbox.drain(..).len());
        self.touch(index);
        lost as u64
    }

    /// Changes a port's wire.
    pub fn with_wire(&mut self, index: usize, f: impl FnOnce(&mut Direction, &mut Vec<Item>)) {
        if let Some(port) = self.ports.get_mut(index) {
            f(&mut port.out, &mut self.dropped);
        }
        self.drop_all();
        self.touch(index);
    }

    /// The machine boots: the names of the interfaces that have no carrier.
    pub fn boot_lines(&mut self) -> BTreeSet<String> {
        self.interface_changes = 0;
        self.ports.iter_mut().for_each(|port| port.line.boot(port.out.is_up()));
        self.ports.iter().filter(|port| !port.line.carrier).map(|port| port.name.clone()).collect()
    }

    /// The node may be another: interfaces and what it knows of their carriers.
    pub fn lines_now(&mut self) -> Vec<(String, bool)> {
        self.interface_changes = u64::MAX;
        self.ports.iter().map(|port| (port.name.clone(), port.line.carrier)).collect()
    }

    /// What a machine without power has said of its interfaces, and nobody has seen, nobody sees any more.
    pub fn forget_signals(&mut self) {
        self.out.retain(|handover| matches!(handover.load, Load::Frame(_)));
    }

    /// Nobody is there any more to be told of frames that leave.
    pub fn forget_completions(&mut self) {
        self.done.clear();
    }

    /// The node was told something from outside: in what words, and what it answered.
    pub fn told(&mut self, refused: bool, text: &str) {
        self.hash.control(self.now, refused, text.as_bytes());
        if let Some(record) = &mut self.record {
            record.control(self.now, refused, text.as_bytes());
        }
    }

    /// A program wrote something.
    pub(super) fn output(&mut self, program: ProgramId, stream: Stream, bytes: &[u8]) {
        self.hash.output(self.now, program, stream, bytes);
        if let Some(record) = &mut self.record {
            record.output(self.now, program, stream, bytes);
        }
        self.notes.came(self.now, program, stream, bytes);
        let state = self.programs.entry(program).or_default();
        let kept = if stream == Stream::Output { &mut state.output } else { &mut state.error };
        let take = bytes.len().min(OUTPUT_BYTES_MAX.saturating_sub(kept.len()));
        kept.extend_from_slice(bytes.get(..take).unwrap_or_default());
        state.output_lost += (bytes.len() - take) as u64;
    }

    /// A program has ended.
    pub fn end_program(&mut self, program: ProgramId, at: Instant, status: Status) {
        let state = self.programs.entry(program).or_default();
        if state.ended.is_some() {
            return;
        }
        state.ended = Some((at, status));
        self.hash.end(at, program, status);
        if let Some(record) = &mut self.record {
            record.end(at, program, status);
        }
        self.last_end = self.last_end.max(at);
        if self.awaited.remove(&program) {
            self.left = self.left.saturating_sub(1);
            self.seen_off.insert(program);
        }
    }

    /// A program starts again: who waited for its end waits for the next one.
    pub fn await_again(&mut self, program: ProgramId) {
        if self.seen_off.remove(&program) {
            self.awaited.insert(program);
            self.left += 1;
        }
    }
}

/// A frame as the receiving stack sees it: nothing that the sender knew goes along but the state of the checksum.
fn incoming(mut frame: Frame, interface: InterfaceIndex, received: Instant) -> Frame {
    let checksum = frame.meta().checksum;
    *frame.meta_mut() = Meta { interface, received, checksum, ..Meta::default() };
    frame
}

/// Puts what the node gave out on its wires, and tells it of frames that have left, until neither makes anything new.
pub(super) fn carry_on(core: &mut Core, node: &mut Node) {
    carry_frames(core, node);
    let changes = node.engine().interface_changes();
    if std::mem::replace(&mut core.interface_changes, changes) != changes {
        for index in 0..core.ports.len() {
            core.signal(index, node.is_interface_up(core.ports[index].interface));
        }
    }
}

fn carry_frames(core: &mut Core, node: &mut Node) {
    let mut frames = 0u32;
    loop {
        // What blocks have ordered is told like an event, in its place among the frames.
        for obeyed in node.take_obeyed().iter().filter(|obeyed| !obeyed.op.is_question()) {
            core.told(obeyed.result.is_err(), &obeyed.words());
        }
        while node.has_transmit() {
            for frame in node.take_transmit() {
                frames += 1;
                core.send(frame);
            }
        }
        let Some(completion) = core.done.pop_front() else { return };
        // A loop that never ends would otherwise hang the world; the frames are counted as unwired.
        if frames < FRAMES_PER_EVENT_MAX {
            node.transmitted(core.now, completion);
        }
    }
}
