//! A subflow, as its connection sees it.

use crate::scheduler::View;
use crate::subflow::data_option_bytes;
use std::collections::VecDeque;
use std::net::SocketAddr;
use weft_core::{Bytes, Duration, FlowId, Instant, Room, Sibling, StreamError};

/// Mappings with checksums that wait for their data, at most: as many as the extension holds.
const SUMMED_MAX: usize = 1 << 14;

/// The third segment of a handshake is said again after so long, where no round trip has been measured (TCP_TIMEOUT_INIT), and at last.
const THIRD_AGAIN: Duration = Duration::from_secs(1);
const THIRD_AGAIN_MAX: Duration = Duration::from_secs(120);

/// What a buffer of Linux's takes beside its data (SKB_TRUESIZE of MAX_TCP_HEADER), bytes.
const BUFFER_OVERHEAD_BYTES: u64 = 880;

/// The number of a connection's first subflow.
pub(crate) const FIRST_NUMBER: u32 = 1;

/// A subflow.
#[derive(Debug)]
pub struct Path {
    /// Its flow below.
    pub(crate) flow: FlowId,
    /// Its number in its connection, which no other gets (mptcp_subflow_info.id).
    pub(crate) number: u32,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) local_id: u8,
    pub(crate) remote_id: u8,
    /// It is not the first.
    pub(crate) joined: bool,
    /// This side has opened it, if it joined.
    pub(crate) opened: bool,
    /// The interface that it is bound to; 0: none.
    pub(crate) interface: u32,
    /// Its handshake has ended here.
    pub(crate) up: bool,
    /// And the peer has heard so: it may send.
    pub(crate) confirmed: bool,
    /// Its SYN brought data: it is up before its handshake has ended.
    pub(crate) early: bool,
    /// When the third segment of a handshake that joins was said last, and how often again.
    pub(crate) third: Option<(Instant, u32)>,
    pub(crate) backup: bool,
    pub(crate) backup_by_peer: bool,
    /// A preferred interface has one that works: this is a backup, too.
    pub(crate) stands_by: bool,
    /// Bytes that tcp takes of it now.
    pub(crate) credit: u64,
    /// Bytes handed down since the first.
    pub(crate) sent: u64,
    /// Bytes of these that another had had, or it itself.
    pub(crate) again: u64,
    /// The farthest data that was handed to it ends here: distance.
    pub(crate) next: u64,
    /// Bytes that have come up since the first.
    pub(crate) received: u64,
    /// By how much its data has opened the window.
    pub(crate) opened_bytes: u64,
    pub(crate) room: Room,
    /// Data that was handed to it and the peer has not acknowledged: distances.
    pub(crate) maps: VecDeque<(u64, u64)>,
    /// From here on a faster one has sent what is at its end, too.
    pub(crate) lent: u64,
    /// Its tcp has heard nothing for a retransmission timeout, and others are there.
    pub(crate) suspect: bool,
    /// The peer acknowledges its data, and no longer says of the connection's what it has.
    pub(crate) silent: bool,
    /// What its congestion control was told of the others.
    pub(crate) told: Vec<Sibling>,
    /// And whether the program waits for room.
    pub(crate) told_waits: bool,
    /// When its window was halved because it held up the others.
    pub(crate) halved_at: Option<Instant>,
    /// How it has failed.
    pub(crate) error: Option<StreamError>,
    /// What the reset said that ended it (MP_TCPRST): transient, reason.
    pub(crate) reset: Option<(bool, u8)>,
    /// Its end: the peer sends no more, this side has closed it, only TIME-WAIT is left, nothing is.
    pub(crate) half_closed: bool,
    pub(crate) closed: bool,
    pub(crate) time_wait: bool,
    pub(crate) released: bool,
    /// Mappings with checksums whose data has not come whole: offset, bytes, checksum; and the data of the first.
    pub(crate) summed: VecDeque<(u64, u32, u16)>,
    pub(crate) held: VecDeque<Bytes>,
}
weft_core::fields!(struct Path {
    flow, number, local, remote, local_id, remote_id, joined, opened, interface, up, confirmed, early, third, backup, backup_by_peer, stands_by, credit, sent, again, next, received, opened_bytes, room, maps, lent, suspect, silent, told, told_waits, halved_at, error, reset, half_closed, closed, time_wait,
    released, summed, held,
});

impl Path {
    pub(crate) fn new(flow: FlowId, local: SocketAddr, remote: SocketAddr) -> Path {
        Path {
            flow,
            number: FIRST_NUMBER,
            local,
            remote,
            local_id: 0,
            remote_id: 0,
            joined: false,
            opened: false,
            interface: 0,
            up: false,
            confirmed: false,
            early: false,
            third: None,
            backup: false,
            backup_by_peer: false,
            stands_by: false,
            credit: 0,
            sent: 0,
            again: 0,
            next: 0,
            received: 0,
            opened_bytes: 0,
            room: Room::default(),
            maps: VecDeque::new(),
            lent: u64::MAX,
            suspect: false,
            silent: false,
            told: Vec::new(),
            told_waits: false,
            halved_at: None,
            error: None,
            reset: None,
            half_closed: false,
            closed: false,
            time_wait: false,
            released: false,
            summed: VecDeque::new(),
            held: VecDeque::new(),
        }
    }

    /// May data be handed to it?
    pub(crate) fn may_send(&self) -> bool {
        // RFC 8684 §3.2: on a subflow that joins "data … MUST NOT be sent until" the fourth segment has come. And after early data nothing is sent before the
        // third: a mapping without DATA_ACK, as erratum 6609 has it, makes Linux's client fall back (MPCapableDataFallback), and Linux's server waits, too.
        self.up && (self.confirmed || !self.joined && !self.early) && !self.closed && !self.released
    }

    /// When its third segment is said again, for the fourth has not come: twice the round trip later, as Linux (schedule_3rdack_retransmission), each time
    /// twice as late.
    pub(crate) fn third_again_at(&self) -> Option<Instant> {
        let (said_at, again) = self.third.filter(|_| !self.confirmed && !self.closed && !self.released)?;
        let first = self.room.rtt.map_or(THIRD_AGAIN, |rtt| 2 * rtt);
        Some(said_at + first.saturating_mul(1 << again.min(31)).min(THIRD_AGAIN_MAX))
    }

    /// Is it to be used only if no other is left?
    pub(crate) fn is_backup(&self) -> bool {
        self.backup || self.backup_by_peer || self.stands_by
    }

    /// A mapping with a checksum has come, whose data comes in its turn. Of two that begin at the same byte the later counts, as in the extension.
    pub(crate) fn sum(&mut self, summed: (u64, u32, u16)) {
        let place = self.summed.partition_point(|known| known.0 < summed.0);
        let known = self.summed.get(place).is_some_and(|known| known.0 == summed.0);
        if known {
            self.summed[place] = summed;
        } else if self.summed.len() < SUMMED_MAX {
            self.summed.insert(place, summed);
        }
    }

    /// Data goes to it.
    pub(crate) fn map(&mut self, start: u64, end: u64) {
        self.next = self.next.max(end);
        self.lent = u64::MAX;
        match self.maps.back_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.maps.push_back((start, end)),
        }
    }

    /// The peer has everything before this.
    pub(crate) fn unmap(&mut self, una: u64) {
        self.maps.retain(|(_, end)| *end > una);
    }

    /// Its tcp has delivered the byte at this distance, which it had last; none: it did not have it. It may say so late, where later data of it has been
    /// acknowledged by another.
    pub(crate) fn has_delivered(&self, at: u64) -> Option<bool> {
        let place = self.maps.iter().rposition(|(start, end)| (*start..*end).contains(&at))?;
        let behind = self.maps[place].1 - at + self.maps.range(place + 1..).map(|(start, end)| end - start).sum::<u64>();
        Some(self.room.acknowledged_bytes + behind > self.sent)
    }

    /// As a scheduler sees it.
    pub(crate) fn view(&self, checksum: bool) -> View {
        let queued = self.sent.saturating_sub(self.room.acknowledged_bytes);
        View {
            rtt: self.room.rtt,
            rtt_variation: self.room.rtt_variation,
            pacing_rate_bytes_per_s: self.room.pacing_rate_bytes_per_s,
            cwnd_bytes: self.room.cwnd_bytes,
            free_bytes: u32::try_from(u64::from(self.room.free_bytes).saturating_sub(self.room.unsent_bytes)).unwrap_or(u32::MAX),
            queued_bytes: queued,
            queued_memory_bytes: queued + self.overhead_bytes(queued),
            credit_bytes: self.credit,
            mss_bytes: self.room.mss_bytes,
            // With checksums every segment has one, and is as much smaller.
            mapping_bytes: if checksum { 0 } else { data_option_bytes(false) },
            ahead_segments: 0,
            backup: self.is_backup(),
            next: self.next,
            sent_bytes: self.sent,
            interface: 0,
        }
    }

    /// What tcp's buffers take beside the data: what has been sent lies in buffers of two segments each, and the rest in large ones.
    fn overhead_bytes(&self, queued: u64) -> u64 {
        let sent = queued.saturating_sub(self.room.unsent_bytes);
        sent.div_ceil(2 * u64::from(self.room.mss_bytes.max(1))) * BUFFER_OVERHEAD_BYTES
    }

    /// Bytes that its tcp could hold in all.
    pub(crate) fn send_buffer(&self) -> u64 {
        self.credit + self.sent.saturating_sub(self.room.acknowledged_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_held_once_for_each_place_and_not_without_a_bound() {
        let end = SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), 1);
        let mut path = Path::new(FlowId(1), end, end);
        for bytes in 1..100 {
            path.sum((500, bytes, 7));
        }
        assert_eq!(path.summed, [(500, 99, 7)]);
        for at in 0..2 * SUMMED_MAX as u64 {
            path.sum((1000 + at, 1, 0));
        }
        assert_eq!(path.summed.len(), SUMMED_MAX);
        assert!(path.summed.iter().is_sorted());
    }
}
