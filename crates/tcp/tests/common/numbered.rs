//! A block between the program and tcp that numbers the stream in a TCP option of its own, and its extension inside tcp: the smallest user of all that
//! `weft_core::stream` has for whoever stands there.
//!
//! Numbers are not those of the stream: each [`BLOCK_BYTES`] of it begin at another thousand thousands, so that a mapping ends there. The peer says how much
//! it has in the same option.

use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use weft_core::state::{State, StateError};
use weft_core::*;
use weft_tcp::extension::{Extension, ExtensionRow, Incoming, Offer, Offered, Outgoing, Verdict};
use weft_wire::tcp::{Flags, Options, Segment};

/// Bytes that are numbered without a gap.
pub const BLOCK_BYTES: u64 = 4096;
const BLOCK_STEP: u64 = 1_000_000;
const OPTION: u8 = 253;
/// What the option begins with.
const HELLO: u8 = 1;
const DATA: u8 = 2;
const ACK: u8 = 3;

/// The number of a byte, by its distance from the first of the stream.
pub fn number(offset: u64) -> u64 {
    offset / BLOCK_BYTES * BLOCK_STEP + offset % BLOCK_BYTES
}

/// What tcp is told of it.
pub static ROWS: &[ExtensionRow] =
    &[ExtensionRow { kind: "numbered", make: |state, _| Ok(Box::new(state.read::<Numbered>("numbered", 1)?)) }];

/// The extension.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Numbered {
    /// It answers for a listener.
    listens: bool,
    /// A SYN with the option has come, or its answer.
    agreed: bool,
    /// The first segment behind the handshake has been looked at.
    begun: bool,
    /// Numbers of what has come: where each piece begins, its bytes, its mapping.
    pieces: BTreeMap<u64, (u32, u64)>,
    /// How much has come, as the block says.
    said: u64,
    /// How much the peer says that it has.
    heard: u64,
    words: VecDeque<Vec<u8>>,
}

/// Words upward: what is said, and how much.
pub const HEARD: u8 = b'h';
pub const AGREED: u8 = b'a';
pub const FELL_BACK: u8 = b'f';
pub const WAS_RESET: u8 = b'r';

impl Numbered {
    pub fn of_listener() -> Numbered {
        Numbered { listens: true, ..Numbered::default() }
    }
    pub fn state(&self) -> State {
        State::write("numbered", 1, self).unwrap()
    }
    fn say(&mut self, what: u8, value: u64) {
        self.words.push_back([&[what][..], &value.to_be_bytes()].concat());
    }
}

impl Extension for Numbered {
    fn export(&self, _now: Instant) -> State {
        self.state()
    }
    fn option_bytes(&self) -> u32 {
        20
    }
    fn write_options(&mut self, segment: Outgoing, options: &mut Options) {
        let option = match segment {
            Outgoing::Syn => vec![HELLO],
            Outgoing::SynAck => vec![HELLO],
            // Of a large frame each segment has the same option, so it says nothing that is true of one only.
            Outgoing::Data { mapping, .. } => [&[DATA][..], &mapping.to_be_bytes(), &self.said.to_be_bytes()].concat(),
            Outgoing::Ack => [&[ACK][..], &self.said.to_be_bytes()].concat(),
            Outgoing::Reset => return,
        };
        options.push_other(OPTION, &option).unwrap();
    }
    fn on_segment(&mut self, incoming: &Incoming<'_>) -> Verdict {
        let Incoming { segment, offset, bytes, .. } = *incoming;
        let option = segment.options.others().find(|(kind, _)| *kind == OPTION).map(|(_, data)| data);
        let eight = |at: &[u8]| u64::from_be_bytes(at.try_into().unwrap());
        match option {
            Some([HELLO]) if segment.flags.contains(Flags::SYN) => {
                self.agreed = true;
                self.say(AGREED, 0);
            }
            Some([DATA, rest @ ..]) if rest.len() == 16 => {
                self.pieces.insert(offset, (bytes, eight(&rest[..8])));
                self.hear(eight(&rest[8..]));
            }
            Some([ACK, rest @ ..]) if rest.len() == 8 => self.hear(eight(rest)),
            // A peer, or something on the way, that does not know it.
            None if !self.begun || !self.agreed => return Verdict::FallBack,
            _ => return Verdict::Discard,
        }
        self.begun |= !segment.flags.contains(Flags::SYN);
        Verdict::Continue
    }
    fn mapping(&mut self, offset: u64, bytes: u32) -> Result<(u32, u64), Verdict> {
        let until = |(start, (bytes, _)): (&u64, &(u32, u64))| start + u64::from(*bytes);
        while self.pieces.first_key_value().is_some_and(|piece| until(piece) <= offset) {
            self.pieces.pop_first();
        }
        let found = self.pieces.range(..=offset).rev().find(|piece| until((piece.0, piece.1)) > offset);
        let (start, (held, mapping)) = found.unwrap_or_else(|| panic!("nobody has numbered {offset}"));
        Ok((bytes.min((start + u64::from(*held) - offset) as u32), *mapping))
    }
    fn answered(&self) -> u64 {
        self.said
    }
    fn on_word(&mut self, word: &Bytes) -> bool {
        if self.listens {
            // A listener says back what it is told.
            self.words.push_back(word.to_vec());
        } else {
            self.said = u64::from_be_bytes(word[..].try_into().unwrap());
        }
        false
    }
    fn take_word(&mut self) -> Option<Bytes> {
        self.words.pop_front().map(Bytes::from)
    }
    fn wants_room(&self) -> bool {
        true
    }
    fn on_fallback(&mut self) {
        self.say(FELL_BACK, 0);
    }
    fn on_reset(&mut self, by_peer: Option<&Segment>) {
        self.say(WAS_RESET, by_peer.is_some().into());
    }
    fn accept(&mut self, offered: &mut Offered<'_>) -> Offer {
        let speaks = offered.syn.options.others().any(|option| option == (OPTION, &[HELLO]));
        if !speaks {
            return Offer::Plain;
        }
        let mut agreed = Numbered { agreed: true, ..Numbered::default() };
        agreed.say(AGREED, 0);
        Offer::With(Box::new(agreed))
    }
}

impl Numbered {
    fn hear(&mut self, had: u64) {
        if had > self.heard {
            self.heard = had;
            self.say(HEARD, had);
        }
    }
}

/// What the block knows of a flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Lane {
    /// Both sides have the extension.
    pub agreed: bool,
    /// It has given up.
    pub fell_back: bool,
    /// Bytes handed down, and come up.
    pub sent: u64,
    pub received: u64,
    /// How much the peer says that it has.
    pub heard: u64,
    pub rooms: u64,
    pub room: Room,
    /// Whether the peer has reset it, if it was reset.
    pub reset_by_peer: Option<bool>,
    /// Data came with a number that is not its own.
    pub wrong: Vec<(u64, u64)>,
}

/// The block.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Between {
    pub lanes: BTreeMap<FlowId, Lane>,
    /// What listeners' extensions have said back.
    pub said_back: Vec<Vec<u8>>,
}

static KIND: Kind = Kind {
    name: "between",
    inputs: &[Port::required("upper", Carries::Stream, ""), Port::required("lower", Carries::Stream, "")],
    outputs: &[Port::required("upper", Carries::Stream, ""), Port::required("lower", Carries::Stream, "")],
    state_version: 1,
    ..Kind::EMPTY
};
const FROM_ABOVE: InPort = InPort(0);
const UP: OutPort = OutPort(0);
const DOWN: OutPort = OutPort(1);

pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |_| Ok(Box::new(Between::default())) };

impl Between {
    fn down(&mut self, mut message: StreamMessage, cx: &mut Context<'_>) {
        match &mut message {
            StreamMessage::Call { flow, op, .. } => match &mut **op {
                StreamCall::Connect { extension, .. } | StreamCall::ConnectWith { extension, .. } => {
                    *extension = Some(Box::new(Numbered::default().state()));
                    self.lanes.insert(*flow, Lane::default());
                }
                StreamCall::Listen { extension, .. } => *extension = Some(Box::new(Numbered::of_listener().state())),
                _ => {}
            },
            StreamMessage::Data { flow, bytes, flags, .. } => return self.data_down(*flow, std::mem::take(bytes), *flags, cx),
            _ => {}
        }
        cx.send(DOWN, message);
    }
    fn data_down(&mut self, flow: FlowId, mut bytes: Bytes, flags: DataFlags, cx: &mut Context<'_>) {
        let Some(lane) = self.lanes.get_mut(&flow).filter(|lane| lane.agreed) else {
            return cx.send(DOWN, StreamMessage::Data { flow, bytes, flags, mapping: 0 });
        };
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min((BLOCK_BYTES - lane.sent % BLOCK_BYTES) as usize));
            let mapping = number(lane.sent).wrapping_sub(lane.sent);
            lane.sent += piece.len() as u64;
            cx.send(DOWN, StreamMessage::Data { flow, bytes: piece, flags, mapping });
        }
    }
    fn up(&mut self, mut message: StreamMessage, cx: &mut Context<'_>) {
        match &mut message {
            StreamMessage::Event { event, .. } => {
                if let StreamEvent::Accepted { child, extended, .. } = &mut **event {
                    // It is answered here.
                    *extended = false;
                    // Whether it has an extension is told by the words that follow.
                    self.lanes.insert(*child, Lane::default());
                }
            }
            StreamMessage::Word { flow, bytes } => return self.word(*flow, bytes),
            StreamMessage::Room { flow, room } => {
                let lane = self.lanes.entry(*flow).or_default();
                (lane.room, lane.rooms) = (**room, lane.rooms + 1);
                return;
            }
            StreamMessage::Data { flow, bytes, mapping, .. } => {
                if let Some(lane) = self.lanes.get_mut(flow).filter(|lane| lane.agreed) {
                    let (first, last) = (lane.received, lane.received + bytes.len() as u64 - 1);
                    for offset in [first, last] {
                        if mapping.wrapping_add(offset) != number(offset) {
                            lane.wrong.push((offset, mapping.wrapping_add(offset)));
                        }
                    }
                    lane.received += bytes.len() as u64;
                    let word = Bytes::copy_from_slice(&lane.received.to_be_bytes());
                    cx.send(DOWN, StreamMessage::Word { flow: *flow, bytes: word });
                }
            }
            _ => {}
        }
        cx.send(UP, message);
    }
    fn word(&mut self, flow: FlowId, word: &Bytes) {
        let Some(lane) = self.lanes.get_mut(&flow) else { return self.said_back.push(word.to_vec()) };
        let value = u64::from_be_bytes(word[1..].try_into().unwrap());
        match word[0] {
            HEARD => lane.heard = value,
            AGREED => lane.agreed = true,
            FELL_BACK => (lane.agreed, lane.fell_back) = (false, true),
            WAS_RESET => lane.reset_by_peer = Some(value == 1),
            other => panic!("a word {other}"),
        }
    }
}

impl Block for Between {
    fn kind(&self) -> &'static Kind {
        &KIND
    }
    fn stream(&mut self, port: InPort, message: StreamMessage, cx: &mut Context<'_>) {
        if port == FROM_ABOVE { self.down(message, cx) } else { self.up(message, cx) }
    }
    fn export(&self, _now: Instant) -> Result<State, StateError> {
        State::write("between", 1, self)
    }
    fn import(&mut self, state: &State, _now: Instant) -> Result<(), StateError> {
        *self = state.read("between", 1)?;
        Ok(())
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
