//! Rates that were measured: a file in Mahimahi's format says when a wire can carry something.
//!
//! Each line is a time in milliseconds at which one packet may leave; a time that stands there twice is two packets. The file begins anew at
//! its last time (Netravali et al. 2015, `mm-link(1)`). Packets are counted as there, in bytes of 1504: an IP packet of 1500 with four bytes of
//! a header; smaller ones share an opportunity when they wait together. An opportunity at which nothing waits is lost.

use std::time::Duration;
use weft_core::Instant;

/// What one opportunity carries, as Mahimahi's `PACKET_SIZE`.
pub const OPPORTUNITY_BYTES: u32 = 1504;
/// Beside an IP packet.
const HEADER_BYTES: u32 = 4;
const ETHERNET_BYTES: u32 = 14;
/// Lines of a file: a week of 12 Mbit/s.
const LINES_MAX: usize = 1 << 26;

/// When a wire can carry something.
#[derive(Clone, PartialEq, Eq)]
pub struct RateTrace {
    name: String,
    /// Milliseconds from the beginning of each round, ascending; not empty, the last is not zero.
    opportunities: Vec<u32>,
}

impl std::fmt::Debug for RateTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RateTrace({}, {} opportunities in {} ms)", self.name, self.opportunities.len(), self.period_ms())
    }
}

impl RateTrace {
    /// Reads a file.
    ///
    /// # Errors
    /// Its name, line, what is wrong and what to do.
    pub fn parse(name: &str, text: &str) -> Result<RateTrace, String> {
        let mut opportunities: Vec<u32> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let words = line.split('#').next().unwrap_or("").trim();
            if words.is_empty() {
                continue;
            }
            let at = |why: &str| format!("{name}:{}: {why}", number + 1);
            let time = words.parse::<u32>().map_err(|_| at(&format!("'{words}' is no time in whole milliseconds")))?;
            if opportunities.last().is_some_and(|last| *last > time) {
                return Err(at(&format!("{time} ms comes before the line above")));
            }
            if opportunities.len() >= LINES_MAX {
                return Err(at(&format!("more than {LINES_MAX} lines")));
            }
            opportunities.push(time);
        }
        match opportunities.last() {
            Some(last) if *last > 0 => Ok(RateTrace { name: name.to_owned(), opportunities }),
            Some(_) => Err(format!("{name}: everything is at 0 ms: the file lasts no time")),
            None => Err(format!("{name}: there is no line in it")),
        }
    }

    fn period_ms(&self) -> u64 {
        self.opportunities.last().map_or(1, |last| u64::from(*last))
    }

    /// The opportunity with this number, counted from 0 over all rounds.
    fn at(&self, number: u64) -> Instant {
        let count = self.opportunities.len() as u64;
        let within = self.opportunities.get((number % count) as usize).map_or(0, |ms| u64::from(*ms));
        Instant::ZERO + Duration::from_millis((number / count).saturating_mul(self.period_ms()).saturating_add(within))
    }

    /// The first opportunity that is not before `now`.
    fn first_from(&self, now: Instant) -> u64 {
        let count = self.opportunities.len() as u64;
        // A time between two milliseconds misses the earlier.
        let ms = now.as_nanos().div_ceil(1_000_000);
        // The last time of a round is the time 0 of the next: a round holds times 0 to period, both included.
        let round = ms.saturating_sub(1) / self.period_ms();
        let within = ms - round * self.period_ms();
        let found = self.opportunities.partition_point(|at| u64::from(*at) < within) as u64;
        round * count + found
    }
}

/// How far a wire has used its trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// The next opportunity that is not used.
    next: u64,
    /// Bytes that are left of the one before, and when that was.
    spare: (u32, Instant),
}

impl Cursor {
    /// A frame of so many bytes (with its Ethernet header) begins to wait at the head: when it leaves.
    pub fn leave(&mut self, trace: &RateTrace, now: Instant, bytes: u32) -> Instant {
        let mut need = bytes.saturating_sub(ETHERNET_BYTES) + HEADER_BYTES;
        let mut leaves = now;
        if self.spare.1 == now {
            let taken = need.min(self.spare.0);
            self.spare.0 -= taken;
            need -= taken;
        }
        while need > 0 {
            let number = self.next.max(trace.first_from(now));
            self.next = number + 1;
            leaves = trace.at(number);
            let taken = need.min(OPPORTUNITY_BYTES);
            self.spare = (OPPORTUNITY_BYTES - taken, leaves);
            need -= taken;
        }
        leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn packets_leave_at_the_times_of_the_file_which_begins_anew() {
        let trace = RateTrace::parse("t", "1\n1\n4\n").unwrap();
        let mut cursor = Cursor::default();
        let leave: Vec<_> = (0..7).map(|_| cursor.leave(&trace, Instant::ZERO, 1514)).collect();
        assert_eq!(leave, [1, 1, 4, 5, 5, 8, 9].map(millis));
        // What nobody used is lost, and a time between two milliseconds is late for the first.
        assert_eq!(cursor.leave(&trace, Instant::from_nanos(20_000_001), 1514), millis(21));
        assert_eq!(cursor.leave(&trace, millis(1000), 1514), millis(1000));
        let zero = RateTrace::parse("t", "0\n2\n").unwrap();
        let mut cursor = Cursor::default();
        assert_eq!((0..5).map(|_| cursor.leave(&zero, Instant::ZERO, 1514)).collect::<Vec<_>>(), [0, 2, 2, 4, 4].map(millis));
    }

    #[test]
    fn small_packets_share_an_opportunity_while_they_wait() {
        let trace = RateTrace::parse("t", "5\n10\n").unwrap();
        let mut cursor = Cursor::default();
        // 486 + 14 bytes: 490 with Mahimahi's header, three in 1504 and a part of the fourth.
        let mut now = Instant::ZERO;
        let mut leave = Vec::new();
        for _ in 0..5 {
            now = cursor.leave(&trace, now, 500);
            leave.push(now);
        }
        assert_eq!(leave, [5, 5, 5, 10, 10].map(millis));
        // Nobody waited at 15.
        assert_eq!(cursor.leave(&trace, Instant::from_nanos(15_000_001), 500), millis(20));
    }

    #[test]
    fn what_is_no_trace_is_told_with_its_line() {
        for (text, why) in
            [("", "no line"), ("0\n0\n", "lasts no time"), ("1\nx\n", "t:2: 'x'"), ("5\n4\n", "t:2: 4 ms comes before"), ("-1", "t:1")]
        {
            let told = RateTrace::parse("t", text).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        assert!(RateTrace::parse("t", "# measured in a train\n3\n\n7\n").is_ok());
    }
}
