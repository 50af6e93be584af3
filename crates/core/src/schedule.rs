//! Schedulers of connections over several flows that are blocks by themselves (`Table::Schedulers`): what they are asked, and what they say.
//!
//! A scheduler is a function of the [`Question`] and of four words of [`Memory`], which the asker keeps for each connection: the same question has the
//! same answer, always. What makes no sense is refused here ([`Question::choice`]), in words for whoever wrote it.

use crate::time::Duration;

/// Most subflows in a question.
pub const SUBFLOWS_MAX: usize = 64;

/// A subflow as a scheduler sees it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct View {
    /// Smoothed round trip; none: not measured yet.
    pub rtt: Option<Duration>,
    /// How much that varies: its mean deviation, smoothed.
    pub rtt_variation: Duration,
    /// What paces it or sizes its frames (tcpi_pacing_rate).
    pub pacing_rate_bytes_per_s: u64,
    /// Congestion window, bytes.
    pub cwnd_bytes: u32,
    /// Bytes that would leave at once.
    pub free_bytes: u32,
    /// Bytes in its tcp that the peer has not acknowledged, sent or not.
    pub queued_bytes: u64,
    /// Memory that these take in Linux's tcp, about (sk_wmem_queued), bytes.
    pub queued_memory_bytes: u64,
    /// Bytes that its tcp takes now.
    pub credit_bytes: u64,
    /// Segment size, bytes.
    pub mss_bytes: u32,
    /// What a mapping takes of the first segment of a piece.
    pub mapping_bytes: u32,
    /// Segments that it may be given ahead of its window, if any leave at once: one mapping is for all of them.
    pub ahead_segments: u64,
    /// It is used only if no other is left.
    pub backup: bool,
    /// The farthest data that it was given ends here: distance.
    pub next: u64,
    /// Bytes that it was given since it began.
    pub sent_bytes: u64,
    /// The number of the interface that has its address; 0: nobody has said.
    pub interface: u32,
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

    /// Bytes that it may be given so that they leave at once: whole segments, of which the last may be ahead of the window. And those that may wait, if any
    /// leave.
    pub fn room_bytes(&self) -> u64 {
        // What was lost is in no flight; what was given since tcp said how much is free is.
        let free = u64::from(self.free_bytes).max(u64::from(self.cwnd_bytes).saturating_sub(self.queued_bytes));
        match free.div_ceil(self.mss_bytes.max(1).into()) {
            0 => 0,
            segments => self.bytes_of(segments + self.ahead_segments).min(self.credit_bytes),
        }
    }

    /// Data that fills so many segments.
    pub fn bytes_of(&self, segments: u64) -> u64 {
        segments.saturating_mul(self.mss_bytes.max(1).into()).saturating_sub(self.mapping_bytes.into())
    }
}

/// A choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Index of the subflow in its connection.
    pub index: usize,
    /// It gets data from this distance on: what others have, too, where it is before [`Question::next`].
    pub from: u64,
    /// Bytes that it gets at most before the next choice.
    pub bytes: u64,
}

/// What a scheduler keeps of a connection, in words of its own; all of them 0 at first. Exported with the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory(pub [u64; 4]);

/// What is to be decided.
#[derive(Clone, PartialEq, Debug)]
pub struct Question {
    /// The subflows that may send, with their index in the connection.
    pub subflows: Vec<(usize, View)>,
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
    /// As the last answer for this connection left it.
    pub memory: Memory,
}

impl Question {
    /// An answer in its raw form, looked at: `place` among [`Question::subflows`], negative for "nothing now".
    ///
    /// # Errors
    /// Why it makes no sense, as what the scheduler did.
    pub fn choice(&self, place: i64, from: u64, bytes: u64) -> Result<Option<Choice>, String> {
        if place < 0 {
            return self.nothing();
        }
        let count = self.subflows.len();
        let subflow = usize::try_from(place).ok().and_then(|place| self.subflows.get(place));
        let Some((index, view)) = subflow else { return Err(format!("chose subflow {place}, and there are {count} (from 0)")) };
        if bytes == 0 {
            return Err(format!("gave 0 bytes to subflow {place}; who gives nothing chooses none"));
        }
        if from < self.una || from > self.next {
            return Err(format!("gave data from {from} on, outside of {} (una) to {} (next)", self.una, self.next));
        }
        // Whose tcp takes nothing is waited for: it will say when it does.
        if view.credit_bytes == 0 {
            return Ok(None);
        }
        Ok(Some(Choice { index: *index, from, bytes }))
    }

    /// "Nothing now" is an answer while something will happen after which there is another question: an acknowledgment, or the first word of a subflow's
    /// tcp about its window.
    fn nothing(&self) -> Result<Option<Choice>, String> {
        let waits = self.end.min(self.edge) > self.next;
        let idle = self.subflows.iter().all(|(_, view)| view.queued_bytes == 0);
        match waits && idle && self.subflows.iter().any(|(_, view)| view.room_bytes() > 0) {
            true => Err("gave nothing to anybody while data waits and nothing is in flight: nothing would ever happen".to_owned()),
            false => Ok(None),
        }
    }
}

/// Who answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scheduler {
    /// The block's name.
    pub block: String,
    /// It may give a subflow what others have: it is asked even if nothing is new.
    pub repeats: bool,
    /// A subflow that it leaves idle may carry what holds up the others.
    pub lends: bool,
}

/// What it says: a choice, or nothing now; and what it remembers.
pub type Scheduled = (Option<Choice>, Memory);

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        let view = View { credit_bytes: 1000, queued_bytes: 10, cwnd_bytes: 5000, mss_bytes: 500, ..View::default() };
        Question {
            subflows: vec![(3, view), (5, View { credit_bytes: 0, ..view })],
            una: 100,
            next: 200,
            end: 300,
            more: false,
            edge: 1000,
            again: false,
            memory: Memory::default(),
        }
    }

    #[test]
    fn answers_that_make_sense_are_taken() {
        let asked = question();
        assert_eq!(asked.choice(0, 200, u64::MAX), Ok(Some(Choice { index: 3, from: 200, bytes: u64::MAX })));
        assert_eq!(asked.choice(0, 100, 1), Ok(Some(Choice { index: 3, from: 100, bytes: 1 })));
        assert_eq!(asked.choice(-1, 0, 0), Ok(None));
        assert_eq!(asked.choice(1, 200, 1), Ok(None), "it is waited for");
    }

    #[test]
    fn nonsense_is_told() {
        let asked = question();
        let why = |place, from, bytes| asked.choice(place, from, bytes).unwrap_err();
        assert!(why(2, 200, 1).contains("chose subflow 2, and there are 2"));
        assert!(why(i64::from(i32::MAX), 200, 1).contains("chose subflow"));
        assert!(why(0, 200, 0).contains("0 bytes"));
        assert!(why(0, 99, 1).contains("from 99 on, outside of 100 (una) to 200 (next)"));
        assert!(why(0, 201, 1).contains("from 201 on"));
    }

    #[test]
    fn nothing_is_no_answer_where_nothing_would_ever_happen() {
        let mut asked = question();
        asked.subflows.iter_mut().for_each(|(_, view)| view.queued_bytes = 0);
        assert!(asked.choice(-1, 0, 0).unwrap_err().contains("nothing would ever happen"));
        // Nothing may go, or nothing is there to go.
        assert_eq!(Question { edge: 200, ..asked.clone() }.choice(-1, 0, 0), Ok(None));
        assert_eq!(Question { end: 200, ..asked.clone() }.choice(-1, 0, 0), Ok(None));
        asked.subflows[0].1.cwnd_bytes = 0;
        assert_eq!(asked.choice(-1, 0, 0), Ok(None), "its tcp has yet to say how large its window is");
    }
}
