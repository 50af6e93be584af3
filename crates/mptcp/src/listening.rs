//! The extension of a listener: it answers SYNs with MP_CAPABLE and MP_JOIN.

use crate::counters::Counter;
use crate::key::Key;
use crate::subflow::{Joins, Subflow};
use crate::word::{self, Asks, Down, Joinable, Up};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use weft_core::{Bytes, Instant, State};
use weft_tcp::extension::{Extension, ExtensionRow, Offer, Offered};
use weft_wire::tcp::mptcp::{Capable, CapableFlags, Join, Keys, Message, ResetFlags, VERSION, reset_reason};
use weft_wire::tcp::{Flags, Options};

/// Its name in [`State::kind`].
pub const KIND: &str = "mptcp-listener";
const VERSION_OF_STATE: u32 = 2;
/// How tcp makes one.
pub const ROW: ExtensionRow =
    ExtensionRow { kind: KIND, make: |state, _| Ok(Box::new(state.read::<Listening>(KIND, VERSION_OF_STATE)?) as Box<dyn Extension>) };

/// Connections that one listener lets others join, at most: as many as a node may have.
const JOINABLE_MAX: usize = 1 << 20;
/// Joins that were answered by a cookie, of which something is kept, at most (COOKIE_JOIN_SLOTS of Linux's net/mptcp/syncookies.c). The oldest goes.
const BY_COOKIE_MAX: usize = 1024;

/// What a join needs that was answered by a cookie: the acknowledgment that ends it has neither token nor nonces. Only whoever knows the token of a
/// connection takes a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct ByCookie {
    local: SocketAddr,
    remote: SocketAddr,
    joins: Joins,
    remote_id: u8,
    /// The peer wants it as a backup.
    backup: bool,
}

/// The extension.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listening {
    /// MP_CAPABLE is answered.
    capable: bool,
    /// Whoever does not join is refused, for nobody would take the connection.
    only_joins: bool,
    /// What MP_CAPABLE is answered with.
    asks: Asks,
    /// By token.
    joinable: BTreeMap<u32, Joinable>,
    by_cookie: VecDeque<ByCookie>,
    words: VecDeque<Vec<u8>>,
}

impl Listening {
    /// Of a listener whose connections may be Multipath TCP ones.
    pub fn new(asks: Asks) -> Listening {
        Listening { capable: true, only_joins: false, asks, joinable: BTreeMap::new(), by_cookie: VecDeque::new(), words: VecDeque::new() }
    }

    /// Of a listener that is there for an announced port: connections are joined at it, and do not begin there.
    pub fn of_joins() -> Listening {
        Listening { capable: false, only_joins: true, ..Listening::new(Asks::default()) }
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
            return self.plain();
        }
        let checksum = self.asks.checksum || capable.flags.contains(CapableFlags::CHECKSUM);
        let asks = Asks { checksum, ..self.asks };
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
        Offer::With(Box::new(Subflow::accepter(key, asks, window_bytes, offered.early_bytes)))
    }

    fn join(&mut self, join: &Join, offered: &mut Offered<'_>) -> Offer {
        let ends_cookie = offered.by_cookie && offered.syn.flags.contains(Flags::ACK);
        let (backup, address_id, token, nonce) = match *join {
            Join::Syn { backup, address_id, token, nonce } if !ends_cookie => (backup, address_id, token, nonce),
            Join::Ack { .. } if ends_cookie => return self.end_of_cookie(offered),
            _ => return self.plain(),
        };
        self.count(Counter::MPJoinSynRx);
        let Some(joinable) = self.joinable.get(&token) else {
            self.count(Counter::MPJoinNoTokenFound);
            return Listening::refuse(reset_reason::MPTCP, false);
        };
        let (room, port) = (joinable.room, joinable.port);
        // Whoever only begins a join takes no room: the connection counts those that end their handshake, and refuses what is too much.
        let local_id = joinable.id(offered.local);
        if offered.local.port() != port {
            // mptcp_pm_sport_in_anno_list.
            if !joinable.ports.contains(&offered.local.port()) {
                self.count(Counter::MismatchPortSynRx);
                return Listening::refuse(reset_reason::PROHIBITED, false);
            }
            self.count(Counter::MPJoinPortSynRx);
        }
        if room == 0 {
            self.count(Counter::MPJoinRejected);
            return Listening::refuse(reset_reason::PROHIBITED, false);
        }
        let joins = Joins { token, local_id, backup: false, local_nonce: offered.rng.u32(), remote_nonce: nonce };
        let mut cookie = ByCookie { local: offered.local, remote: offered.remote, joins, remote_id: address_id, backup };
        if offered.by_cookie {
            self.keep(&mut cookie);
        }
        self.joining(&cookie)
    }

    /// What the acknowledgment of a cookie will need. A SYN that comes again is answered with the nonce that the first answer had.
    fn keep(&mut self, new: &mut ByCookie) {
        let is_same = |known: &ByCookie| {
            (known.local, known.remote, known.joins.token, known.joins.remote_nonce)
                == (new.local, new.remote, new.joins.token, new.joins.remote_nonce)
        };
        if let Some(known) = self.by_cookie.iter().find(|known| is_same(known)) {
            new.joins.local_nonce = known.joins.local_nonce;
        }
        self.by_cookie.retain(|known| (known.local, known.remote) != (new.local, new.remote));
        if self.by_cookie.len() >= BY_COOKIE_MAX {
            self.by_cookie.pop_front();
        }
        self.by_cookie.push_back(*new);
    }

    /// The acknowledgment that ends a join by cookie: its HMAC is looked at by the subflow, as any other's is.
    fn end_of_cookie(&mut self, offered: &Offered<'_>) -> Offer {
        let at = self.by_cookie.iter().position(|known| (known.local, known.remote) == (offered.local, offered.remote));
        match at.and_then(|at| self.by_cookie.remove(at)) {
            Some(known) => self.joining(&known),
            // There were too many since, or it was never asked for.
            None => Listening::refuse(reset_reason::RESOURCES, true),
        }
    }

    /// The subflow of a join, if the connection is still there.
    fn joining(&self, join: &ByCookie) -> Offer {
        let ByCookie { joins, remote_id, backup, .. } = *join;
        let Some(joinable) = self.joinable.get(&joins.token) else { return Listening::refuse(reset_reason::MPTCP, false) };
        let mut subflow = Subflow::joins(false, joins, (joinable.local, joinable.remote), joinable.checksum, joinable.early);
        subflow.say_up(Up::Joined { token: joins.token, remote_id, local_id: joins.local_id, backup });
        Offer::With(Box::new(subflow))
    }

    /// A connection that does not join another. Where only joins are taken Linux refuses it (subflow_reset_req_endp).
    fn plain(&mut self) -> Offer {
        if !self.only_joins {
            return Offer::Plain;
        }
        self.count(Counter::MPCapableEndpAttempt);
        Listening::refuse(reset_reason::PROHIBITED, false)
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
            Some(Down::Asks(asks)) => self.asks = asks,
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
                (Ok(Message::Capable(_) | Message::Join(_)), Some(_)) => return self.plain(),
                (Ok(_), _) => {}
                (Err(_), _) => return self.plain(),
            }
        }
        match found {
            Some(Message::Capable(capable)) => self.begin(&capable, offered),
            Some(Message::Join(join)) => self.join(&join, offered),
            _ => self.plain(),
        }
    }
}
