//! A ring of blocks, TPACKET_V3: frames lie one behind the other in a block, which the program gets when it is full, or when its time is over.

use super::arrival::{Arrival, Clock, Place, Put, split, tell_address};
use super::memory::Area;
use super::request::{BLOCK_HEAD_BYTES, Layout, Request, Version};
use crate::abi::*;
use std::time::Duration;
use weft_core::Instant;

/// V3_ALIGNMENT
const ALIGNMENT: u32 = 8;
/// Where `struct tpacket_hdr_v1` has its fields, from the start of a block.
const STATUS_AT: u64 = 8;
const COUNTS_AT: u64 = 12;
const SEQUENCE_AT: u64 = 24;
const FIRST_AT: u64 = 32;
const LAST_AT: u64 = 40;

/// A receive ring of blocks (`struct tpacket_kbdq_core`).
#[derive(Debug)]
pub(crate) struct Blocks {
    pub area: Area,
    pub layout: Layout,
    /// BLK_PLUS_PRIV: where the first frame of a block begins.
    first: u32,
    retire: Duration,
    features: u32,
    /// The block that is filled (`kactive_blk_num`), and which one that was when the timer was last begun.
    active: u32,
    timed: u32,
    sequence: u64,
    /// Where the next frame goes in the block, where the last one began, and how many there are.
    next: u32,
    last: u32,
    frames: u32,
    last_date: (u32, u32),
    /// The program still has the block that comes next (`reset_pending_on_curr_blk`).
    frozen: bool,
    /// `tp_freeze_q_cnt`
    pub freezes: u32,
    /// When the timer was last begun.
    begun: Instant,
}

impl Blocks {
    pub fn new(layout: Layout, request: &Request, retire: Duration, clock: Clock) -> Blocks {
        let first = BLOCK_HEAD_BYTES as u32 + request.private_bytes.next_multiple_of(ALIGNMENT);
        let mut blocks = Blocks {
            area: Area::new(layout.bytes()),
            layout,
            first,
            retire,
            features: request.features,
            active: 0,
            timed: 0,
            sequence: 1,
            next: 0,
            last: 0,
            frames: 0,
            last_date: (0, 0),
            frozen: false,
            freezes: 0,
            begun: clock.now,
        };
        blocks.open(clock);
        blocks
    }

    fn status(&self, block: u32) -> u32 {
        self.area.word(self.layout.block_at(block) + STATUS_AT)
    }

    fn is_in_use(&self) -> bool {
        self.status(self.active) & TP_STATUS_USER != 0
    }

    /// `packet_poll`: the block before the present one is the program's.
    pub fn is_readable(&self) -> bool {
        let before = self.active.checked_sub(1).unwrap_or(self.layout.blocks.saturating_sub(1));
        self.status(before) != TP_STATUS_KERNEL
    }

    /// `__tpacket_v3_has_room`
    pub fn has_room(&self, behind: u32) -> bool {
        let at = self.active.saturating_add(behind);
        self.status(if at >= self.layout.blocks { at - self.layout.blocks } else { at }) == TP_STATUS_KERNEL
    }

    /// When the timer is due next, if it would change anything then: it goes off again and again from when it was begun.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        (self.frames > 0 || self.frozen).then(|| {
            let step = self.retire.as_nanos().max(1) as u64;
            let passed = now.since(self.begun).as_nanos() as u64 / step;
            self.begun + Duration::from_nanos(step.saturating_mul(passed + 1))
        })
    }

    /// What is told of the present block when nothing is in it yet, once dates are those of the program.
    pub fn tell_opening(&mut self, clock: Clock) {
        if self.frames == 0 && !self.frozen {
            self.tell_date(FIRST_AT, split(clock.date(&self.area)));
        }
    }

    fn tell_date(&mut self, at: u64, (seconds, nanos): (u32, u32)) {
        let at = self.layout.block_at(self.active) + at;
        self.area.write(at, &[seconds.to_ne_bytes(), nanos.to_ne_bytes()].concat());
    }

    fn tell_counts(&mut self) {
        let at = self.layout.block_at(self.active) + COUNTS_AT;
        self.area.write(at, &[self.frames, self.first, self.next].map(u32::to_ne_bytes).concat());
    }

    /// `prb_open_block`
    fn open(&mut self, clock: Clock) {
        let at = self.layout.block_at(self.active);
        (self.next, self.last, self.frames, self.frozen) = (self.first, self.first, 0, false);
        self.area.write(at, &[Version::V3.number() as u32, BLOCK_HEAD_BYTES as u32].map(u32::to_ne_bytes).concat());
        self.tell_counts();
        self.area.write(at + SEQUENCE_AT, &self.sequence.to_ne_bytes());
        self.sequence += 1;
        self.tell_date(FIRST_AT, split(clock.date(&self.area)));
        self.begin_timer(clock.now);
    }

    fn begin_timer(&mut self, now: Instant) {
        (self.begun, self.timed) = (now, self.active);
    }

    /// `prb_retire_current_block`, `prb_close_block`. True: who waits is woken.
    fn close(&mut self, status: u32, losing: bool, clock: Clock) -> bool {
        // "if (likely(TP_STATUS_KERNEL == BLOCK_STATUS(pbd)))"
        if self.status(self.active) != TP_STATUS_KERNEL {
            return false;
        }
        let at = self.layout.block_at(self.active);
        // "last_pkt->tp_next_offset = 0;"
        self.area.write(at + u64::from(self.last), &[0; 4]);
        let last = if self.frames > 0 { self.last_date } else { split(clock.date(&self.area)) };
        self.tell_date(LAST_AT, last);
        self.area.publish(at + STATUS_AT, TP_STATUS_USER | status | if losing { TP_STATUS_LOSING } else { 0 });
        self.active = if self.active + 1 >= self.layout.blocks { 0 } else { self.active + 1 };
        self.frames = 0;
        true
    }

    /// `prb_dispatch_next_block`. False: the program has it still, and nothing is received until it gives it back.
    fn go_on(&mut self, clock: Clock) -> bool {
        if self.is_in_use() {
            self.frozen = true;
            self.freezes = self.freezes.saturating_add(1);
            return false;
        }
        self.open(clock);
        true
    }

    /// `prb_retire_rx_blk_timer_expired`. True: who waits is woken.
    pub fn expire(&mut self, losing: bool, clock: Clock) -> bool {
        let mut woken = false;
        if self.timed == self.active {
            if !self.frozen {
                if self.frames > 0 {
                    woken = self.close(TP_STATUS_BLK_TMO, losing, clock);
                    if self.go_on(clock) {
                        return woken;
                    }
                }
            } else if !self.is_in_use() {
                self.open(clock);
                return woken;
            }
        }
        self.begin_timer(clock.now);
        woken
    }

    /// `tpacket_rcv` and `__packet_lookup_frame_in_block`.
    pub fn put(&mut self, arrival: &Arrival<'_>) -> Put {
        if !self.has_room(self.layout.blocks >> 2) && !self.has_room(0) {
            return Put::Lost { wakes: false };
        }
        let Some(Place { mut mac, net }) = arrival.place(Version::V3.head_bytes()) else { return Put::Lost { wakes: false } };
        // "p1->max_frame_len = p1->kblk_size - BLK_PLUS_PRIV(p1->blk_sizeof_priv);"
        let most = self.layout.block_bytes.saturating_sub(self.first);
        let mut kept = arrival.kept;
        if u64::from(mac) + u64::from(kept) > u64::from(most) {
            kept = most.saturating_sub(mac);
            mac = mac.min(most);
        }
        let length = (mac + kept).next_multiple_of(ALIGNMENT);
        if self.frozen {
            if self.is_in_use() {
                return Put::Lost { wakes: true };
            }
            self.open(arrival.clock);
        }
        let mut wakes = false;
        // "if (curr+TOTAL_PKT_LEN_INCL_ALIGN(len) < end)"
        if u64::from(self.next) + u64::from(length) >= u64::from(self.layout.block_bytes) {
            wakes = self.close(0, arrival.losing, arrival.clock);
            if !self.go_on(arrival.clock) {
                return Put::Lost { wakes: true };
            }
        }
        self.write(arrival, kept, Place { mac, net }, length);
        Put::Kept { wakes, copied: false }
    }

    fn write(&mut self, arrival: &Arrival<'_>, kept: u32, Place { mac, net }: Place, length: u32) {
        let at = self.layout.block_at(self.active) + u64::from(self.next);
        (self.last, self.next, self.frames) = (self.next, self.next + length, self.frames.saturating_add(1));
        self.tell_counts();
        arrival.write_data(&mut self.area, at + u64::from(mac), kept, mac < length);
        let (seconds, nanos) = arrival.date(&self.area);
        self.last_date = (seconds, nanos);
        let link = arrival.link;
        let (tag, of) = link.tag.unwrap_or_default();
        let tagged = if link.tag.is_some() { TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID } else { 0 };
        let hash = if self.features & TP_FT_REQ_FILL_RXHASH != 0 { arrival.hash() } else { 0 };
        // struct tpacket3_hdr: tp_next_offset, tp_sec, tp_nsec, tp_snaplen, tp_len, tp_status, tp_mac, tp_net, hv1, tp_padding.
        let mut head = Vec::with_capacity(48);
        for word in [length, seconds, nanos, kept, link.whole_bytes, link.status | TP_STATUS_USER | tagged] {
            head.extend(word.to_ne_bytes());
        }
        head.extend([mac as u16, net as u16].map(u16::to_ne_bytes).concat());
        head.extend([hash, u32::from(tag)].map(u32::to_ne_bytes).concat());
        head.extend([of, 0].map(u16::to_ne_bytes).concat());
        head.extend([0; 8]);
        self.area.write(at, &head);
        tell_address(&mut self.area, at + u64::from(Version::V3.header_bytes()), link);
    }
}
