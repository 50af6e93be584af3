//! What a subflow's segments say.

use super::sums::sum_of;
use super::{Extent, Joins, Part, SYNS_MAX, Subflow};
use crate::counters::Counter;
use crate::key::{address_hmac, join_hmac, leftmost_64, leftmost_160};
use crate::word::{Say, Why};
use weft_wire::tcp::mptcp::{AddAddr, Capable, CapableFlags, DataSeq, Dss, Join, Keys, Mapping, Message, ResetFlags, VERSION};
use weft_wire::tcp::{Options, mptcp};

impl Subflow {
    fn capable(&self, keys: Keys) -> Message {
        let mut flags = CapableFlags::HMAC_SHA256;
        flags.set(CapableFlags::CHECKSUM, self.checksum);
        flags.set(CapableFlags::DENY_JOIN_ID0, self.deny_join_id0);
        Message::Capable(Capable { version: VERSION, flags, keys })
    }

    pub(super) fn write_syn(&mut self, options: &mut Options) {
        self.syns = self.syns.saturating_add(1);
        let message = match self.part {
            Part::First if self.syns > SYNS_MAX => return,
            Part::First => self.capable(Keys::None),
            Part::Joins(Joins { token, local_id, backup, local_nonce, .. }) => {
                Message::Join(Join::Syn { backup, address_id: local_id, token, nonce: local_nonce })
            }
        };
        self.count(if self.part == Part::First { Counter::MPCapableSYNTX } else { Counter::MPJoinSynTx });
        push(options, &message);
    }

    pub(super) fn write_syn_ack(&mut self, options: &mut Options) {
        let message = match (self.part, self.remote) {
            (Part::Joins(Joins { local_id, backup, local_nonce, remote_nonce, .. }), Some((remote, _))) => {
                let hmac = leftmost_64(&join_hmac(self.local, remote, local_nonce, remote_nonce));
                Message::Join(Join::SynAck { backup, address_id: local_id, hmac, nonce: local_nonce })
            }
            _ => self.capable(Keys::Sender(self.local.0)),
        };
        push(options, &message);
    }

    /// Data, new or again.
    pub(super) fn write_data(&mut self, given: Extent, ahead: u32, options: &mut Options) {
        let Some((remote, _)) = self.remote else { return };
        // FIN alone.
        if given.bytes == 0 {
            if self.infinite != Some(true) {
                self.write_dss(None, options);
            }
            return;
        }
        if let Some(said) = self.infinite {
            return self.write_infinite(said, &given, options);
        }
        self.last_mapping = given.mapping;
        let new = given.end() > self.sent_new;
        self.sent_new = self.sent_new.max(given.end());
        let extent = match self.sent_extent(given.offset) {
            // RFC 8684 §3.3.1: a mapping may be for several segments. Data arrives in order, and so behind the first of them: that has it, as often as it
            // is sent; another only where something is to be said.
            Some(extent) if extent.offset != given.offset && self.says_once() && !(new && self.has_news()) => return,
            // Whatever of it goes again has the mapping that all of it had.
            Some(extent) => extent,
            None => {
                // The connection's first mapping is of all that follows, too: each of its segments says MP_CAPABLE, as Linux's do, and whichever of them
                // comes ends the handshake. With checksums it is of a frame: what a box changes is found before there are joins.
                let whole = self.says_once() || self.says_handshake() && !self.checksum;
                let extent = Extent { bytes: if whole { ahead.max(given.bytes) } else { given.bytes }, ..given };
                self.sent.push_back(extent);
                extent
            }
        };
        self.sent_to = self.sent_to.max(extent.end());
        if self.says_handshake() && extent.offset == u64::from(self.own_early().sent) {
            let checksum = self.checksum.then(|| self.checksum_of(&extent));
            let keys = Keys::WithData { sender: self.local.0, receiver: remote.0, data_len: extent.bytes as u16, checksum };
            push(options, &self.capable(keys));
            return;
        }
        self.write_dss(Some(self.mapping_of(&extent)), options);
    }

    /// RFC 8684 §3.7: "an infinite mapping": a length of 0, once; then TCP without options.
    fn write_infinite(&mut self, said: bool, given: &Extent, options: &mut Options) {
        let known = self.sent.iter().find(|extent| extent.offset <= given.offset && given.offset < extent.end()).copied();
        match known {
            // What was sent before goes as it went.
            Some(extent) => self.write_dss(Some(self.mapping_of(&extent)), options),
            None if !said => {
                let extent = Extent { mapping: self.last_mapping, sum: 0, ..*given };
                let mapping = Mapping { len: 0, checksum: self.checksum.then_some(0), ..self.mapping_of(&extent) };
                self.write_dss(Some(mapping), options);
                self.infinite = Some(true);
                self.count(Counter::InfiniteMapTx);
            }
            None => {}
        }
    }

    pub(super) fn write_ack(&mut self, options: &mut Options) {
        let Some((remote, _)) = self.remote.filter(|_| self.infinite != Some(true)) else { return };
        if self.says_handshake() && self.sent_to == 0 {
            let message = match self.part {
                Part::First => self.capable(Keys::Both { sender: self.local.0, receiver: remote.0 }),
                Part::Joins(Joins { local_nonce, remote_nonce, .. }) => {
                    let hmac = leftmost_160(&join_hmac(self.local, remote, local_nonce, remote_nonce));
                    Message::Join(Join::Ack { hmac })
                }
            };
            push(options, &message);
            return;
        }
        self.write_say(options);
        // Once for each word: every one of them is answered, and the block says it again in time.
        let end = self.end.take().map(|end| Mapping {
            seq: DataSeq::Long(self.local_first.wrapping_add(end)),
            // RFC 8684 §3.3.3: "If there is no data, … the Subflow Sequence Number of 0 and a Data-Level Length of 1".
            subflow_seq: 0,
            len: 1,
            checksum: self.checksum.then(|| sum_of(self.local_first.wrapping_add(end), 0, 1, 0)),
        });
        self.write_dss(end, options);
    }

    /// The mapping of what was sent, or will be, from `offset` on.
    pub(super) fn sent_extent(&self, offset: u64) -> Option<Extent> {
        let at = self.sent.partition_point(|extent| extent.end() <= offset);
        self.sent.get(at).filter(|extent| extent.offset <= offset).copied()
    }

    /// A mapping goes with its first segment only. Not before the peer has heard all of the handshake: a segment without options would end it there.
    pub(super) fn says_once(&self) -> bool {
        self.confirmed && !self.checksum && self.infinite.is_none()
    }

    /// Is there anything of the other direction that the peer has not been told of?
    pub(super) fn has_news(&self) -> bool {
        self.said != (self.have.ack, self.have.edge)
    }

    /// Is it the client's turn to say both keys, or its HMAC?
    fn says_handshake(&self) -> bool {
        self.opens && !self.confirmed
    }

    fn mapping_of(&self, extent: &Extent) -> Mapping {
        Mapping {
            seq: DataSeq::Long(self.local_first.wrapping_add(extent.mapping.wrapping_add(extent.offset))),
            subflow_seq: self.subflow_seq(extent),
            // No frame is longer.
            len: extent.bytes as u16,
            checksum: self.checksum.then(|| self.checksum_of(extent)),
        }
    }

    /// Of its first byte: 1 is the first behind what the SYN carried (RFC 8684, appendix B.3).
    fn subflow_seq(&self, extent: &Extent) -> u32 {
        (extent.offset as u32).wrapping_sub(self.own_early().sent).wrapping_add(1)
    }

    fn checksum_of(&self, extent: &Extent) -> u16 {
        let seq = self.local_first.wrapping_add(extent.mapping.wrapping_add(extent.offset));
        sum_of(seq, self.subflow_seq(extent), extent.bytes as u16, extent.sum)
    }

    /// DSS: DATA_ACK, and a mapping if there is one.
    fn write_dss(&mut self, mapping: Option<Mapping>, options: &mut Options) {
        let Some((_, first)) = self.remote else { return };
        self.said = (self.have.ack, self.have.edge);
        let ack = first.wrapping_add(self.have.ack);
        let ack = Some(if self.long_acks { DataSeq::Long(ack) } else { DataSeq::Short(ack as u32) });
        let fin = mapping.is_some_and(|mapping| mapping.subflow_seq == 0);
        push(options, &Message::Dss(Dss { ack, mapping, fin }));
    }

    /// The next of what is to be said once, if there is room.
    fn write_say(&mut self, options: &mut Options) {
        let (Some((remote, _)), Some(say)) = (self.remote, self.says.front()) else { return };
        let (message, counter) = match say {
            Say::Announce { id, address, port, echo } => {
                let hmac = (!echo).then(|| address_hmac(self.local, remote, *id, *address, *port));
                let message = Message::AddAddr(AddAddr { address_id: *id, address: *address, port: *port, hmac });
                (message, if *echo { Counter::EchoAddTx } else { Counter::AddAddrTx })
            }
            Say::Remove(ids) => (Message::RemoveAddr { ids: ids.iter().copied().take(mptcp::REMOVE_IDS_MAX).collect() }, Counter::RmAddrTx),
            Say::Priority { backup } => (Message::Prio { backup: *backup }, Counter::MPPrioTx),
            Say::Fail(distance) => (Message::Fail { data_seq: self.remote_seq(*distance) }, Counter::MPFailTx),
        };
        if push(options, &message) {
            self.says.pop_front();
            self.count(counter);
        }
    }

    fn remote_seq(&self, distance: u64) -> u64 {
        self.remote.map_or(0, |(_, first)| first.wrapping_add(distance))
    }

    pub(super) fn write_reset(&mut self, options: &mut Options) {
        // RFC 8684 §3.7: with several subflows the one that fails is closed by "a RST … with an MP_FAIL option".
        let failed = self.says.iter().find_map(|say| if let Say::Fail(distance) = say { Some(*distance) } else { None });
        if let Some(distance) = failed {
            push(options, &Message::Fail { data_seq: self.remote_seq(distance) });
            self.count(Counter::MPFailTx);
        }
        let (message, counter) = match (self.reset, self.remote) {
            (Some(Why::FastClose), Some((remote, _))) => (Message::FastClose { receiver_key: remote.0 }, Counter::MPFastcloseTx),
            (Some(Why::Reason { transient, reason }), _) => {
                let flags = if transient { ResetFlags::TRANSIENT } else { ResetFlags::empty() };
                (Message::Reset { flags, reason }, Counter::MPRstTx)
            }
            _ => return,
        };
        push(options, &message);
        self.count(counter);
    }
}

/// Adds an option, if all of them fit then. Returns whether they do.
fn push(options: &mut Options, message: &Message) -> bool {
    let before = options.others.clone();
    let fits = options.push_mptcp(message).is_ok() && options.fits();
    if !fits {
        options.others = before;
    }
    fits
}
