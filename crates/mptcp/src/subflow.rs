//! The extension of a connection that is a subflow: the options of each segment, and the mappings of its data.
//!
//! It decides nothing about the connection: what it reads goes up as words ([`Up`]), what it writes has come down as words ([`Down`]). It knows both
//! keys, so that data sequence numbers are here only; above, and in mappings, are distances.

mod read;
mod sums;
mod write;

pub(crate) use sums::{data_option_bytes, is_right};

use crate::counters::Counter;
use crate::key::Key;
use crate::word::{self, Asks, Down, Early, Have, Say, Up, Why};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use weft_core::{Bytes, Instant, State};
use weft_tcp::extension::{Extension, ExtensionRow, FrameRoom, Incoming, Outgoing, Verdict};
use weft_wire::tcp::mptcp::reset_reason;
use weft_wire::tcp::{Options, Segment};

/// Its name in [`State::kind`].
pub const KIND: &str = "mptcp-subflow";
const VERSION: u32 = 4;
/// How tcp makes one.
pub const ROW: ExtensionRow =
    ExtensionRow { kind: KIND, make: |state, _| Ok(Box::new(state.read::<Subflow>(KIND, VERSION)?) as Box<dyn Extension>) };

/// Mappings held of data that has come, at most: a peer could send one for each byte.
const ARRIVED_MAX: usize = 1 << 14;
/// With so many SACK blocks an acknowledgment has no room for DSS.
const SACK_BLOCKS_FULL: usize = 2;
/// Options that wait for an acknowledgment, at most.
const SAYS_MAX: usize = 16;
/// SYNs that carry MP_CAPABLE (net.mptcp.syn_retrans_before_tcp_fallback is 2): then the path is taken for one that drops them.
const SYNS_MAX: u8 = 3;

/// What the subflow is to its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Part {
    /// Its first.
    First,
    /// It joins one that is there.
    Joins(Joins),
}

/// What a handshake that joins needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Joins {
    /// The peer's token.
    pub token: u32,
    /// This side's identifier of its address.
    pub local_id: u8,
    /// This side wants it as a backup.
    pub backup: bool,
    /// This side's.
    pub local_nonce: u32,
    /// The peer's, as soon as it is known.
    pub remote_nonce: u32,
}

/// Bytes of a subflow's stream that have one mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Extent {
    /// Distance of the first from the first of the stream.
    offset: u64,
    bytes: u32,
    /// What is added to that to give the distance in the connection's data.
    mapping: u64,
    /// Checksum without its complement of the data alone.
    sum: u16,
}

impl Extent {
    fn end(&self) -> u64 {
        self.offset + u64::from(self.bytes)
    }
}

/// The extension.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Subflow {
    part: Part,
    /// This side has sent the first SYN.
    opens: bool,
    local: Key,
    local_first: u64,
    /// What the SYNs carried: it comes before the first numbers.
    early: Early,
    /// The peer's, and its first number.
    remote: Option<(Key, u64)>,
    /// DSS has checksums: asked for, then agreed on.
    checksum: bool,
    /// MP_CAPABLE says that no subflow is to come to the address of the first.
    deny_join_id0: bool,
    /// The peer has heard all of the handshake.
    confirmed: bool,
    /// It may still become plain TCP.
    may_fall_back: bool,
    /// The number of the last acknowledgment.
    last_ack: u32,
    /// That of data came without its option.
    silent: bool,
    syns: u8,
    /// Data or an acknowledgment has left: the handshake's options have been said.
    sent_to: u64,
    have: Have,
    /// Acknowledgments have 64 bits, as the peer's numbers do.
    long_acks: bool,
    /// What was told last of the peer's DATA_ACK and window; before the handshake's end, the window of its SYN.
    heard: Option<(u64, u32)>,
    /// What was sent, and may have to be sent again with the same mapping.
    sent: VecDeque<Extent>,
    /// Mappings of what has come, by where they begin.
    arrived: BTreeMap<u64, Extent>,
    end: Option<u64>,
    /// Data has no mappings any more; and the one that says so has been sent.
    infinite: Option<bool>,
    /// DATA_ACK and window that the peer was told of last, and how far new data has been sent.
    said: (u64, u64),
    sent_new: u64,
    /// The mapping of the data that was sent last.
    last_mapping: u64,
    says: VecDeque<Say>,
    reset: Option<Why>,
    words: VecDeque<Vec<u8>>,
}

impl Subflow {
    /// Of a connection that this side opens.
    pub fn opener(local: Key, Asks { checksum, deny_join_id0 }: Asks) -> Subflow {
        Subflow {
            part: Part::First,
            opens: true,
            local,
            local_first: local.first(),
            early: Early::default(),
            remote: None,
            checksum,
            deny_join_id0,
            confirmed: false,
            may_fall_back: true,
            last_ack: 0,
            silent: false,
            syns: 0,
            sent_to: 0,
            have: Have::default(),
            long_acks: false,
            heard: None,
            sent: VecDeque::new(),
            arrived: BTreeMap::new(),
            end: None,
            infinite: None,
            said: (0, 0),
            sent_new: 0,
            last_mapping: 0,
            says: VecDeque::new(),
            reset: None,
            words: VecDeque::new(),
        }
    }

    /// Of a connection that a listener accepts. `window_bytes`: what its SYN has announced, if that is known. The last acknowledgment of the handshake
    /// announces it once more, in units of the scale and rounded up; Linux takes no more of a connection than the SYN has said, until its first DATA_ACK
    /// (msk->rcv_wnd_sent), and throws away what came by a second subflow and ends behind it.
    /// `early_bytes` of data came with the SYN.
    pub fn accepter(local: Key, asks: Asks, window_bytes: Option<u16>, early_bytes: u32) -> Subflow {
        let heard = window_bytes.map(|bytes| (0, u32::from(bytes)));
        let early = Early { received: early_bytes, sent: 0 };
        let mut subflow = Subflow { opens: false, heard, early, ..Subflow::opener(local, asks) };
        if early_bytes > 0 {
            subflow.arrived.insert(0, Extent { offset: 0, bytes: early_bytes, mapping: 0, sum: 0 });
        }
        subflow.say_up(Up::Begun { local, early: early_bytes > 0 });
        subflow
    }

    /// Joins a connection whose keys are known.
    pub fn joins(opens: bool, joins: Joins, (local, remote): (Key, Key), checksum: bool, early: Early) -> Subflow {
        Subflow {
            part: Part::Joins(joins),
            opens,
            remote: Some((remote, early.remote_first(remote))),
            local_first: early.first(local),
            early,
            may_fall_back: false,
            ..Subflow::opener(local, Asks { checksum, ..Asks::default() })
        }
    }

    /// As state of its kind.
    pub fn state(&self) -> State {
        // Cannot fail: it is written into memory, and every length in it is known.
        State::write(KIND, VERSION, self).unwrap_or_else(|_| State::none(KIND))
    }

    /// What its own SYNs carried.
    fn own_early(&self) -> Early {
        if self.part == Part::First { self.early } else { Early::default() }
    }

    pub(crate) fn say_up(&mut self, word: Up) {
        self.words.push_back(word::write(&word).to_vec());
    }

    fn count(&mut self, counter: Counter) {
        self.say_up(Up::Count(counter));
    }

    /// The subflow will be reset, and the reset says why.
    fn reset_for(&mut self, reason: u8) -> Verdict {
        self.reset.get_or_insert(Why::Reason { transient: false, reason });
        Verdict::Reset
    }

    /// Something is not as it should be: back to plain TCP where that is possible, else a reset.
    fn fall_back_or_reset(&mut self) -> Verdict {
        if self.may_fall_back { Verdict::FallBack } else { self.reset_for(reset_reason::MPTCP) }
    }
}

impl Extension for Subflow {
    fn export(&self, _now: Instant) -> State {
        self.state()
    }

    fn option_bytes(&self) -> u32 {
        // A checksum is one of a frame, and so is its mapping.
        if self.checksum { data_option_bytes(self.long_acks) } else { 0 }
    }

    fn frame(&self, offset: u64) -> Option<FrameRoom> {
        let rest = self.sent_extent(offset).map_or(u64::MAX, |extent| extent.end() - offset);
        match self.infinite {
            Some(true) => None,
            _ if self.checksum => None,
            // Its mapping has been said, and there is no news.
            None if rest != u64::MAX && self.says_once() && !self.has_news() => Some(FrameRoom { option_bytes: 0, bytes: rest }),
            _ => Some(FrameRoom { option_bytes: data_option_bytes(self.long_acks), bytes: rest }),
        }
    }

    fn write_options(&mut self, segment: Outgoing, options: &mut Options) {
        match segment {
            Outgoing::Syn => self.write_syn(options),
            Outgoing::SynAck => self.write_syn_ack(options),
            Outgoing::Data { mapping, offset, bytes, ahead, sum } => {
                self.write_data(Extent { offset, bytes, mapping, sum }, ahead, options)
            }
            Outgoing::Ack => self.write_ack(options),
            Outgoing::Reset => self.write_reset(options),
        }
    }

    fn on_segment(&mut self, incoming: &Incoming<'_>) -> Verdict {
        self.read(incoming)
    }

    fn on_acknowledged(&mut self, offset: u64) {
        while self.sent.front().is_some_and(|extent| extent.end() <= offset) {
            self.sent.pop_front();
        }
    }

    fn wants_sum(&self) -> bool {
        self.checksum
    }

    fn mapping(&mut self, offset: u64, bytes: u32) -> Result<(u32, u64), Verdict> {
        while self.arrived.first_key_value().is_some_and(|(_, extent)| extent.end() <= offset) {
            self.arrived.pop_first();
        }
        match self.covering(offset) {
            Some(extent) => Ok((bytes.min((extent.end() - offset) as u32), extent.mapping)),
            None => {
                self.count(Counter::DSSNoMatchTCP);
                Err(self.fall_back_or_reset())
            }
        }
    }

    fn answered(&self) -> u64 {
        self.have.answered
    }

    fn on_word(&mut self, word: &Bytes) -> bool {
        match word::read(word) {
            Some(Down::Have(have)) => {
                self.have = have;
                have.now
            }
            Some(Down::End(end)) => {
                self.end = Some(end);
                true
            }
            Some(Down::Say(say)) => {
                if self.says.len() < SAYS_MAX {
                    self.says.push_back(say);
                }
                true
            }
            Some(Down::Reset(why)) => {
                self.reset = Some(why);
                false
            }
            Some(Down::Firm) => {
                self.may_fall_back = false;
                false
            }
            Some(Down::Infinite) => {
                self.infinite = Some(false);
                false
            }
            Some(Down::Offer(_) | Down::Withdraw(_) | Down::Capable(_) | Down::Asks(_)) | None => {
                self.count(Counter::WordsUnread);
                false
            }
        }
    }

    fn take_word(&mut self) -> Option<Bytes> {
        self.words.pop_front().map(Bytes::from)
    }

    fn wants_room(&self) -> bool {
        true
    }

    fn receive_window(&self, own: u32) -> u32 {
        // Nobody has said anything yet, or there is no memory.
        if self.have == Have::default() || own == 0 {
            return own;
        }
        // RFC 8684 §3.3.4: the window is the connection's, whatever the subflow has carried so far.
        u32::try_from(self.have.edge.saturating_sub(self.have.ack)).unwrap_or(u32::MAX)
    }

    fn on_fallback(&mut self) {
        self.say_up(Up::FellBack);
    }

    fn on_reset(&mut self, by_peer: Option<&Segment>) {
        if let Some(reset) = by_peer {
            self.read_reset(&reset.options);
        }
        self.say_up(Up::Gone { by_peer: by_peer.is_some() });
    }
}
