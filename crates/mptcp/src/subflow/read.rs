//! What the peer's segments say.

use super::{ARRIVED_MAX, Extent, Joins, Part, SACK_BLOCKS_FULL, Subflow};
use crate::counters::Counter;
use crate::key::{Key, address_hmac, join_hmac, leftmost_64, leftmost_160};
use crate::word::Up;
use weft_tcp::extension::{Incoming, Verdict};
use weft_wire::checksum::Sum;
use weft_wire::tcp::mptcp::{
    AddAddr, Capable, CapableFlags, DataSeq, Dss, Join, Keys, Mapping, Message, ResetFlags, VERSION, reset_reason,
};
use weft_wire::tcp::{Flags, Options, Segment};

impl Subflow {
    pub(super) fn read(&mut self, incoming: &Incoming<'_>) -> Verdict {
        let last_ack = std::mem::replace(&mut self.last_ack, incoming.segment.ack.0);
        let mut any = false;
        let mut verdict = Verdict::Continue;
        for read in incoming.segment.options.mptcp() {
            let Ok(message) = read else {
                self.count(Counter::BadOptions);
                continue;
            };
            any = true;
            if verdict == Verdict::Continue {
                verdict = self.take(&message, incoming);
            }
        }
        if verdict != Verdict::Continue || any {
            return verdict;
        }
        self.without_option(incoming, last_ack)
    }

    /// A segment of a peer that says nothing of Multipath TCP, or of a box on the way that took it out.
    fn without_option(&mut self, incoming: &Incoming<'_>, last_ack: u32) -> Verdict {
        if incoming.segment.flags.contains(Flags::SYN) {
            self.count(if self.part == Part::First { Counter::MPCapableFallbackSYNACK } else { Counter::BadOptions });
            return self.fall_back_or_reset();
        }
        // What is out of order says nothing about the handshake (check_fully_established in Linux's net/mptcp/options.c). Later, data that comes without a
        // mapping is looked at when its turn has come: an earlier segment may have said it.
        if self.confirmed || incoming.offset > self.own_early().received.into() {
            return self.bare_acknowledgment(incoming, last_ack);
        }
        if !self.opens && self.part == Part::First {
            self.count(Counter::MPCapableFallbackACK);
        }
        self.fall_back_or_reset()
    }

    /// Each acknowledgment of data says what of the connection's data has come. One that does not has lost that on its way: of what this side sends nothing
    /// will be acknowledged any more. With one subflow the connection becomes TCP, and the peer follows, for data comes to it without a mapping. With
    /// several the others carry the data.
    fn bare_acknowledgment(&mut self, incoming: &Incoming<'_>, last_ack: u32) -> Verdict {
        let Segment { flags, ack, options, .. } = incoming.segment;
        let of_data = incoming.bytes == 0 && !flags.intersects(Flags::FIN | Flags::RST) && ack.0 != last_ack && !self.sent.is_empty();
        if !of_data || options.sack.len() >= SACK_BLOCKS_FULL {
            return Verdict::Continue;
        }
        if !self.may_fall_back {
            self.hears_nothing(true);
            return Verdict::Continue;
        }
        self.count(Counter::BareAcks);
        Verdict::FallBack
    }

    /// Acknowledgments of data say nothing of the connection's, or do again.
    fn hears_nothing(&mut self, silent: bool) {
        if std::mem::replace(&mut self.silent, silent) != silent {
            self.say_up(Up::Silent(silent));
        }
    }

    fn take(&mut self, message: &Message, incoming: &Incoming<'_>) -> Verdict {
        match message {
            Message::Capable(capable) => self.take_capable(capable, incoming),
            Message::Join(join) => self.take_join(join, incoming),
            Message::Dss(dss) => self.take_dss(dss, incoming),
            Message::AddAddr(add) => self.take_address(add),
            Message::RemoveAddr { ids } => self.tell(Counter::RmAddr, Up::Removed(ids.to_vec())),
            Message::Prio { backup } => self.tell(Counter::MPPrioRx, Up::Priority { backup: *backup }),
            Message::Fail { data_seq } => {
                let distance = data_seq.wrapping_sub(self.local_first);
                self.tell(Counter::MPFailRx, Up::Failed(distance))
            }
            Message::FastClose { receiver_key } => self.take_fast_close(*receiver_key),
            // Only resets have it.
            Message::Reset { .. } => self.nonsense(),
        }
    }

    /// It is counted and goes up.
    fn tell(&mut self, counter: Counter, word: Up) -> Verdict {
        self.count(counter);
        self.say_up(word);
        Verdict::Continue
    }

    /// An option that has no place here is ignored (RFC 8684 §3: "…MUST be ignored").
    fn nonsense(&mut self) -> Verdict {
        self.count(Counter::BadOptions);
        Verdict::Continue
    }

    /// MP_CAPABLE: the answer to this side's SYN, or the acknowledgment that ends the handshake.
    fn take_capable(&mut self, capable: &Capable, incoming: &Incoming<'_>) -> Verdict {
        let syn = incoming.segment.flags.contains(Flags::SYN);
        let checksum = self.checksum || capable.flags.contains(CapableFlags::CHECKSUM);
        let deny_join_id0 = capable.flags.contains(CapableFlags::DENY_JOIN_ID0);
        match (self.part, capable.keys) {
            (Part::First, Keys::Sender(key)) if self.opens && syn && self.remote.is_none() => {
                // RFC 8684 §3.1: "if none of these flags are set, the MP_CAPABLE option MUST be treated as invalid and ignored".
                let known = capable.flags.contains(CapableFlags::HMAC_SHA256) && !capable.flags.contains(CapableFlags::EXTENSION);
                // The peer answers with a version that it speaks; of those only one is spoken here.
                if !known || capable.version != VERSION {
                    self.count(Counter::MPCapableFallbackSYNACK);
                    return self.fall_back_or_reset();
                }
                self.count(Counter::MPCapableSYNACKRX);
                self.early.sent = incoming.early_bytes;
                self.local_first = self.early.first(self.local);
                self.agree(Key(key), checksum, deny_join_id0);
                self.hear(self.early.sent.into(), incoming.window_bytes);
            }
            (Part::First, Keys::Both { sender, receiver }) if !self.opens && !syn => {
                return self.end_handshake((sender, receiver), checksum, deny_join_id0, incoming.window_bytes);
            }
            (Part::First, Keys::WithData { sender, receiver, data_len, checksum: sum }) if !self.opens && !syn => {
                let verdict = self.end_handshake((sender, receiver), checksum, deny_join_id0, incoming.window_bytes);
                if verdict == Verdict::Continue && data_len > 0 {
                    // RFC 8684 §3.1: the mapping of the connection's first bytes.
                    let offset = self.early.received.into();
                    self.keep(Extent { offset, bytes: data_len.into(), mapping: 0, sum: sum.unwrap_or(0) }, incoming);
                }
                return verdict;
            }
            // Those that are sent again.
            (Part::First, Keys::Sender(key)) if self.remote.is_some_and(|(known, _)| known == Key(key)) => {}
            _ => return self.nonsense(),
        }
        Verdict::Continue
    }

    fn agree(&mut self, remote: Key, checksum: bool, deny_join_id0: bool) {
        self.remote = Some((remote, self.early.remote_first(remote)));
        self.checksum = checksum;
        self.say_up(Up::Agreed { remote, checksum, deny_join_id0, early: self.early });
    }

    /// The peer has everything before `ack`, and takes so much more.
    fn hear(&mut self, ack: u64, window_bytes: u32) {
        if self.heard != Some((ack, window_bytes)) {
            self.heard = Some((ack, window_bytes));
            self.say_up(Up::Heard { ack, window_bytes });
        }
    }

    fn confirm(&mut self) {
        if !std::mem::replace(&mut self.confirmed, true) {
            self.say_up(Up::Confirmed);
        }
    }

    /// The third segment of the handshake, with both keys.
    fn end_handshake(&mut self, (sender, receiver): (u64, u64), checksum: bool, deny_join_id0: bool, window_bytes: u32) -> Verdict {
        if receiver != self.local.0 || self.remote.is_some_and(|(known, _)| known != Key(sender)) {
            self.count(Counter::BadOptions);
            return self.fall_back_or_reset();
        }
        if self.remote.is_none() {
            self.count(Counter::MPCapableACKRX);
            self.agree(Key(sender), checksum, deny_join_id0);
            let most = self.heard.take().map_or(u32::MAX, |(_, bytes)| bytes);
            self.hear(0, window_bytes.min(most));
            self.confirm();
        }
        Verdict::Continue
    }

    fn take_join(&mut self, join: &Join, incoming: &Incoming<'_>) -> Verdict {
        let (Part::Joins(joins), Some((remote, _))) = (self.part, self.remote) else { return self.nonsense() };
        match *join {
            Join::SynAck { backup, address_id, hmac, nonce } if self.opens && incoming.segment.flags.contains(Flags::SYN) => {
                self.count(Counter::MPJoinSynAckRx);
                if hmac != leftmost_64(&join_hmac(remote, self.local, nonce, joins.local_nonce)) {
                    self.count(Counter::MPJoinSynAckHMacFailure);
                    return self.reset_for(reset_reason::MPTCP);
                }
                self.part = Part::Joins(Joins { remote_nonce: nonce, ..joins });
                self.say_up(Up::Answered { remote_id: address_id, backup });
            }
            Join::Ack { hmac } if !self.opens => {
                if hmac != leftmost_160(&join_hmac(remote, self.local, joins.remote_nonce, joins.local_nonce)) {
                    self.count(Counter::MPJoinAckHMacFailure);
                    return self.reset_for(reset_reason::MPTCP);
                }
                if self.confirmed {
                    // check_fully_established: the fourth is said again.
                    self.say_up(Up::ThirdAgain);
                } else {
                    self.count(Counter::MPJoinAckRx);
                }
                self.confirm();
            }
            _ => return self.nonsense(),
        }
        Verdict::Continue
    }

    fn take_dss(&mut self, dss: &Dss, incoming: &Incoming<'_>) -> Verdict {
        if incoming.segment.flags.contains(Flags::SYN) {
            return self.nonsense();
        }
        if let Some(ack) = dss.ack {
            self.hears_nothing(false);
            if self.opens {
                // RFC 8684 §3.1: the acknowledgment of data level tells that the peer has both keys; §3.2: the fourth segment of a handshake that joins.
                self.confirm();
            }
            let near = self.local_first.wrapping_add(self.heard.map_or(0, |(ack, _)| ack));
            self.hear(expand(ack, near).wrapping_sub(self.local_first), incoming.window_bytes);
        }
        let Some(mapping) = dss.mapping else { return Verdict::Continue };
        let Some((_, first)) = self.remote.filter(|_| self.confirmed || self.opens) else {
            // The handshake's last segment, which says the key that this follows from, was overtaken: the data will come again.
            return Verdict::Discard;
        };
        self.long_acks = matches!(mapping.seq, DataSeq::Long(_));
        let seq = expand(mapping.seq, first.wrapping_add(self.have.ack)).wrapping_sub(first);
        self.take_mapping(&mapping, seq, dss.fin, incoming)
    }

    fn take_mapping(&mut self, mapping: &Mapping, seq: u64, fin: bool, incoming: &Incoming<'_>) -> Verdict {
        let (mut bytes, mut checksum) = (u32::from(mapping.len), mapping.checksum);
        if bytes == 0 {
            // RFC 8684 §3.7: "an infinite mapping".
            self.count(Counter::InfiniteMapRx);
            return self.fall_back_or_reset();
        }
        if fin {
            // RFC 8684 §3.3.3: "the DATA_FIN … occupies 1 octet (the final octet) of data sequence space".
            bytes -= 1;
            // The checksum is about the length with DATA_FIN; taken up by itself it is about the data's.
            checksum = checksum.map(|sum| Sum::from_folded(sum).add_u16(1).fold());
            self.say_up(Up::End(seq.wrapping_add(bytes.into())));
        }
        if bytes > 0 {
            // Its subflow sequence number, which has 32 bits, is near this segment's.
            let offset = mapping.subflow_seq.wrapping_sub(1).wrapping_add(self.own_early().received);
            let distance = offset.wrapping_sub(incoming.offset as u32) as i32;
            let Some(offset) = incoming.offset.checked_add_signed(distance.into()) else { return self.nonsense() };
            let extent = Extent { offset, bytes, mapping: seq.wrapping_sub(offset), sum: checksum.unwrap_or(0) };
            self.keep(extent, incoming);
        }
        Verdict::Continue
    }

    /// A mapping of data that has come, or comes.
    fn keep(&mut self, extent: Extent, incoming: &Incoming<'_>) {
        let end = incoming.offset + u64::from(incoming.bytes);
        // What was looked at comes again where its acknowledgment is lost, or not sent yet: its mapping is forgotten. What has a mapping keeps it.
        if incoming.bytes == 0 || end <= self.have.answered || self.covering(incoming.offset).is_some_and(|known| known.end() >= end) {
            return;
        }
        let clashes = self.arrived.get(&extent.offset).is_some_and(|known| known.bytes >= extent.bytes);
        if clashes || self.arrived.len() >= ARRIVED_MAX || extent.end() <= self.have.answered {
            self.count(Counter::DSSNotMatching);
            return;
        }
        if self.checksum {
            self.say_up(Up::Summed { offset: extent.offset, bytes: extent.bytes, sum: extent.sum });
        }
        self.arrived.insert(extent.offset, extent);
    }

    /// The mapping of a byte of the subflow.
    pub(super) fn covering(&self, offset: u64) -> Option<Extent> {
        self.arrived.range(..=offset).next_back().map(|(_, extent)| *extent).filter(|extent| extent.end() > offset)
    }

    fn take_address(&mut self, add: &AddAddr) -> Verdict {
        let Some((remote, _)) = self.remote else { return self.nonsense() };
        if self.opens {
            // Linux takes it for an answer to the handshake, too.
            self.confirm();
        }
        let echo = add.is_echo();
        if add.hmac.is_some_and(|hmac| hmac != address_hmac(remote, self.local, add.address_id, add.address, add.port)) {
            self.count(Counter::AddAddrDrop);
            return Verdict::Continue;
        }
        let word = Up::Announced { id: add.address_id, address: add.address, port: add.port, echo };
        self.tell(if echo { Counter::EchoAdd } else { Counter::AddAddr }, word)
    }

    fn take_fast_close(&mut self, key: u64) -> Verdict {
        if key != self.local.0 {
            return self.nonsense();
        }
        self.tell(Counter::MPFastcloseRx, Up::FastClosed)
    }

    /// What a reset of the peer's says.
    pub(super) fn read_reset(&mut self, options: &Options) {
        for message in options.mptcp().flatten() {
            match message {
                Message::FastClose { receiver_key } => drop(self.take_fast_close(receiver_key)),
                Message::Reset { flags, reason } => {
                    let transient = flags.contains(ResetFlags::TRANSIENT);
                    self.tell(Counter::MPRstRx, Up::Reset { transient, reason });
                }
                // The subflow is gone, and its data goes by others.
                Message::Fail { .. } => self.count(Counter::MPFailRx),
                _ => {}
            }
        }
    }
}

/// A number with all its bits: that which is nearest.
fn expand(seq: DataSeq, near: u64) -> u64 {
    match seq {
        DataSeq::Long(seq) => seq,
        DataSeq::Short(low) => near.wrapping_add_signed(i64::from(low.wrapping_sub(near as u32) as i32)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_are_those_nearest_to_the_last() {
        assert_eq!(expand(DataSeq::Short(3), 0x1_ffff_ffff), 0x2_0000_0003);
        assert_eq!(expand(DataSeq::Short(0xffff_fffe), 0x2_0000_0003), 0x1_ffff_fffe);
        assert_eq!(expand(DataSeq::Short(2), u64::MAX), 2);
        assert_eq!(expand(DataSeq::Long(7), 1 << 40), 7);
    }
}
