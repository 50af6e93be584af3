//! What a scheduler sees, and says.

use weft_core::Duration;
use weft_core::state::{Damage, Field, Reader, Writer};

/// A subflow as a scheduler sees it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct View {
    /// Smoothed round trip; none: not measured yet.
    pub rtt: Option<Duration>,
    /// How much that varies: its mean deviation, smoothed.
    pub rtt_variation: Duration,
    /// Congestion window, bytes.
    pub cwnd_bytes: u32,
    /// Bytes that would leave at once.
    pub free_bytes: u32,
    /// Bytes in its tcp that the peer has not acknowledged, sent or not.
    pub queued_bytes: u64,
    /// Bytes that its tcp takes now.
    pub credit_bytes: u64,
    /// Segment size, bytes.
    pub mss_bytes: u32,
    /// What a mapping takes of the first segment of a piece.
    pub mapping_bytes: u32,
    /// It is used only if no other is left.
    pub backup: bool,
    /// The farthest data that it was given ends here: distance.
    pub next: u64,
}

impl View {
    /// What it carries, bytes a second: a window a round trip (tcp_update_pacing_rate, whose factors all subflows have alike).
    pub fn rate(&self) -> f64 {
        // "If no RTT sample is available, use 1 ms": sk_pacing_rate of tcp_init_transfer.
        let rtt = self.rtt.unwrap_or(Duration::from_millis(1)).max(Duration::from_micros(1));
        f64::from(self.cwnd_bytes.max(1)) / rtt.as_secs_f64()
    }

    /// Its round trip, seconds; what nobody has measured is short, so that it will be.
    pub fn rtt_s(&self) -> f64 {
        self.rtt.unwrap_or(Duration::ZERO).as_secs_f64()
    }

    /// Bytes that it may be given so that they leave at once: whole segments, of which the last may be ahead of the window.
    pub fn room_bytes(&self) -> u64 {
        // What was lost is in no flight; what was given since tcp said how much is free is.
        let free = u64::from(self.free_bytes).max(u64::from(self.cwnd_bytes).saturating_sub(self.queued_bytes));
        self.bytes_of(free.div_ceil(u64::from(self.mss_bytes.max(1)))).min(self.credit_bytes)
    }

    /// Data that fills so many segments.
    pub fn bytes_of(&self, segments: u64) -> u64 {
        segments.saturating_mul(self.mss_bytes.max(1).into()).saturating_sub(self.mapping_bytes.into())
    }
}

/// What is to be decided.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Asked<'a> {
    /// The subflows that may send, with their index.
    pub paths: &'a [(usize, View)],
    /// The peer has everything before this distance.
    pub una: u64,
    /// No subflow has had anything from this distance on.
    pub next: u64,
    /// What the program has written ends here.
    pub end: u64,
    /// The program has written all that it may: there is likely more.
    pub more: bool,
    /// The peer takes data up to here.
    pub edge: u64,
    /// Data that was lost with a subflow, from `next` to `end`, looks for another.
    pub again: bool,
}

impl<'a> Asked<'a> {
    /// The subflows to use: those that are no backups, if there are any.
    pub fn usable(&self) -> impl Iterator<Item = &'a (usize, View)> + Clone + use<'a> {
        let backups = self.paths.iter().all(|(_, path)| path.backup);
        self.paths.iter().filter(move |(_, path)| path.backup == backups)
    }

    /// New data for this subflow.
    pub fn give(&self, index: usize, bytes: u64) -> Option<Choice> {
        Some(Choice { index, from: self.next, bytes })
    }
}

/// A choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Index of the subflow.
    pub index: usize,
    /// It gets data from this distance on: what others have, too, where it is before [`Asked::next`].
    pub from: u64,
    /// Bytes that it gets at most before the next choice.
    pub bytes: u64,
}

/// What a scheduler keeps of a connection, in words of its own; all of them 0 at first. Exported with the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory(pub [u64; 4]);

impl Field for Memory {
    fn write(&self, out: &mut Writer) {
        self.0.iter().for_each(|word| out.put(word));
    }
    fn read(from: &mut Reader<'_>) -> Result<Memory, Damage> {
        Ok(Memory([from.take()?, from.take()?, from.take()?, from.take()?]))
    }
}

/// Chooses. The same for the same question and memory, always.
pub trait Scheduler: Sync {
    /// Which subflow gets the next data; none: wait.
    fn choose(&self, asked: &Asked<'_>, memory: &mut Memory) -> Option<Choice>;
    /// It may give a subflow what others have: it is asked even if nothing is new.
    fn repeats(&self) -> bool {
        false
    }
    /// A subflow that it leaves idle may carry what holds up the others ([NSDI'12](crate::connection)).
    fn lends(&self) -> bool {
        true
    }
}
