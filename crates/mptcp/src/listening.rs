//! The extension of a listener: it answers SYNs with MP_CAPABLE and MP_JOIN.

use crate::counters::Counter;
use crate::key::Key;
use crate::subflow::{Joins, Subflow};
use crate::word::{self, Down, Joinable, Up};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use weft_core::{Bytes, Instant, State};
use weft_tcp::extension::{Extension, ExtensionRow, Offer, Offered};
use weft_wire::tcp::mptcp::{Capable, CapableFlags, Join, Keys, Message, ResetFlags, VERSION, reset_reason};
use weft_wire::tcp::{Flags, Options};

/// Its name in [`State::kind`].
pub const KIND: &str = "mptcp-listener";
const VERSION_OF_STATE: u32 = 1;
/// How tcp makes one.
pub const ROW: ExtensionRow =
    ExtensionRow { kind: KIND, make: |state, _| Ok(Box::new(state.read::<Listening>(KIND, VERSION_OF_STATE)?) as Box<dyn Extension>) };

/// Connections that one listener lets others join, at most: as many as a node may have.
const JOINABLE_MAX: usize = 1 << 20;

/// The extension.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listening {
    /// MP_CAPABLE is answered.
    capable: bool,
    /// DSS will have checksums.
    checksum: bool,
    /// By token.
    joinable: BTreeMap<u32, Joinable>,
    words: VecDeque<Vec<u8>>,
}

impl Listening {
    /// Of a listener whose connections may be Multipath TCP ones (`capable`), or of one for MP_JOINs only.
    pub fn new(capable: bool, checksum: bool) -> Listening {
        Listening { capable, checksum, joinable: BTreeMap::new(), words: VecDeque::new() }
    }

    /// As state of its kind.
    pub fn state(&self) -> State {
        // Cannot fail: it is written into memory, and every length in it is known.
        State::write(KIND, VERSION_OF_STATE, self).unwrap_or_else(|_| State::none(KIND))
    }

    fn count(&mut self, counter: Counter) {
        self.words.push_back(word::write(&Up::Count(counter)).to_vec());
    }

    fn refuse(reason: u8, transient: bool) -> Offer {
        let mut options = Options::default();
        let flags = if transient { ResetFlags::TRANSIENT } else { ResetFlags::empty() };
        // Cannot fail: nothing else is there.
        let _ = options.push_mptcp(&Message::Reset { flags, reason });
        Offer::Refuse(options)
    }

    fn begin(&mut self, capable: &Capable, offered: &mut Offered<'_>) -> Offer {
        // RFC 8684 §3.1: "if … version … the receiver of this SYN SHOULD … a version that it supports": a later one is answered by this; flags as there.
        let speaks = capable.version >= VERSION
            && capable.flags.contains(CapableFlags::HMAC_SHA256)
            && !capable.flags.contains(CapableFlags::EXTENSION);
        if !self.capable || !speaks {
            return Offer::Plain;
        }
        let checksum = self.checksum || capable.flags.contains(CapableFlags::CHECKSUM);
        let ends_cookie = offered.by_cookie && offered.syn.flags.contains(Flags::ACK);
        let key = match capable.keys {
            Keys::None if !ends_cookie => Key(offered.rng.u64()),
            // Of the SYN nothing was kept: the key is the one that the answer had, if the peer says so.
            Keys::Both { receiver, .. } | Keys::WithData { receiver, .. } if ends_cookie => Key(receiver),
            _ => return Offer::Plain,
        };
        self.count(Counter::MPCapableSYNRX);
        // That of an acknowledgment is scaled, by what nobody has kept.
        let window_bytes = (!ends_cookie).then_some(offered.syn.window);
        Offer::With(Box::new(Subflow::accepter(key, checksum, window_bytes)))
    }

    fn join(&mut self, join: &Join, offered: &mut Offered<'_>) -> Offer {
        let Join::Syn { backup, address_id, token, nonce } = *join else { return Offer::Plain };
        self.count(Counter::MPJoinSynRx);
        if offered.by_cookie {
            return Listening::refuse(reset_reason::RESOURCES, true);
        }
        let Some(joinable) = self.joinable.get(&token) else {
            self.count(Counter::MPJoinNoTokenFound);
            return Listening::refuse(reset_reason::MPTCP, false);
        };
        if joinable.room == 0 {
            self.count(Counter::MPJoinRejected);
            return Listening::refuse(reset_reason::PROHIBITED, false);
        }
        // Whoever only begins a join takes no room: the connection counts those that end their handshake, and refuses what is too much.
        let local_id = joinable.ids.iter().find(|(address, _)| *address == offered.local.ip()).map_or(0, |(_, id)| *id);
        let joins = Joins { token, local_id, backup: false, local_nonce: offered.rng.u32(), remote_nonce: nonce };
        let mut subflow = Subflow::joins(false, joins, (joinable.local, joinable.remote), joinable.checksum);
        subflow.say_up(Up::Joined { token, remote_id: address_id, local_id, backup });
        Offer::With(Box::new(subflow))
    }
}

impl Extension for Listening {
    fn export(&self, _now: Instant) -> State {
        self.state()
    }

    fn on_word(&mut self, word: &Bytes) -> bool {
        match word::read(word) {
            Some(Down::Offer(joinable)) => {
                if self.joinable.len() < JOINABLE_MAX {
                    self.joinable.insert(joinable.local.token(), *joinable);
                }
            }
            Some(Down::Capable(capable)) => self.capable = capable,
            Some(Down::Withdraw(token)) => drop(self.joinable.remove(&token)),
            _ => self.count(Counter::WordsUnread),
        }
        false
    }

    fn take_word(&mut self) -> Option<Bytes> {
        self.words.pop_front().map(Bytes::from)
    }

    fn accept(&mut self, offered: &mut Offered<'_>) -> Offer {
        let mut found = None;
        for read in offered.syn.options.mptcp() {
            match (read, &found) {
                (Ok(message @ (Message::Capable(_) | Message::Join(_))), None) => found = Some(message),
                // Both, or twice: Linux takes neither (subflow_check_req).
                (Ok(Message::Capable(_) | Message::Join(_)), Some(_)) => return Offer::Plain,
                (Ok(_), _) => {}
                (Err(_), _) => return Offer::Plain,
            }
        }
        match found {
            Some(Message::Capable(capable)) => self.begin(&capable, offered),
            Some(Message::Join(join)) => self.join(&join, offered),
            _ => Offer::Plain,
        }
    }
}
