//! What `weft show calls` shows: for each intercepted call how often it was seen and how it ended, and what was asked for that weft does
//! not have. Bounded: a program that tries everything fills a table, not the memory.

use crate::face::Errno;
use std::collections::BTreeMap;

/// Most different unsupported requests that are told apart; more are counted under one name.
pub const UNSUPPORTED_MAX: usize = 256;

/// Counters of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Counts {
    /// Times a program made it.
    pub seen: u64,
    /// Answered with a value, or with EINPROGRESS or EAGAIN.
    pub answered: u64,
    /// Left to the kernel: the descriptor is not one of ours, or the kernel does it right on the stand-in.
    pub continued: u64,
    /// Answered with another errno.
    pub refused: u64,
    /// Times it had to wait.
    pub held: u64,
    /// Cancelled by a signal or by the program's death.
    pub cancelled: u64,
}

/// A row of the table of calls.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct CallCounts {
    /// Name of the call.
    pub call: String,
    /// Its counters.
    #[serde(flatten)]
    pub counts: Counts,
}

/// A row of what is not supported.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Unsupported {
    /// What was asked for.
    pub request: String,
    /// The errno it got.
    pub errno: i32,
    /// How often.
    pub count: u64,
}

/// All counters of a supervisor.
#[derive(Debug, Default)]
pub struct Calls {
    counts: BTreeMap<&'static str, Counts>,
    unsupported: BTreeMap<(String, i32), u64>,
    /// Descriptors could not be made because the supervisor or the system has too many.
    pub out_of_descriptors: u64,
    /// Programs whose memory or descriptors the supervisor may not look into.
    pub not_permitted: u64,
    /// Datagrams that a program wrote and the model refused after the kernel had taken them.
    pub late_refusals: u64,
}

impl Calls {
    /// The counters of a call.
    pub fn of(&mut self, name: &'static str) -> &mut Counts {
        self.counts.entry(name).or_default()
    }
    /// Counts something that is not supported. True: for the first time.
    pub fn unsupported(&mut self, request: String, errno: Errno) -> bool {
        let key = if self.unsupported.len() < UNSUPPORTED_MAX || self.unsupported.contains_key(&(request.clone(), errno.0)) {
            (request, errno.0)
        } else {
            ("(more)".to_owned(), 0)
        };
        let count = self.unsupported.entry(key).or_default();
        *count += 1;
        *count == 1
    }
    /// Adds what another has counted.
    pub fn absorb(&mut self, other: &Calls) {
        for (name, counts) in &other.counts {
            let into = self.counts.entry(name).or_default();
            into.seen += counts.seen;
            into.answered += counts.answered;
            into.continued += counts.continued;
            into.refused += counts.refused;
            into.held += counts.held;
            into.cancelled += counts.cancelled;
        }
        for ((request, errno), count) in &other.unsupported {
            let key = (request.clone(), *errno);
            let known = self.unsupported.len() < UNSUPPORTED_MAX || self.unsupported.contains_key(&key);
            *self.unsupported.entry(if known { key } else { ("(more)".to_owned(), 0) }).or_default() += count;
        }
    }
    /// The counters, by name of the call.
    pub fn rows(&self) -> Vec<CallCounts> {
        self.counts.iter().map(|(call, counts)| CallCounts { call: (*call).to_owned(), counts: *counts }).collect()
    }
    /// What programs asked for in vain.
    pub fn unsupported_rows(&self) -> Vec<Unsupported> {
        self.unsupported
            .iter()
            .map(|((request, errno), count)| Unsupported { request: request.clone(), errno: *errno, count: *count })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_unsupported_requests_is_bounded() {
        let mut calls = Calls::default();
        for name in 0..UNSUPPORTED_MAX * 2 {
            calls.unsupported(format!("setsockopt level 1 name {name}"), Errno(libc::ENOPROTOOPT));
        }
        calls.unsupported("setsockopt level 1 name 0".to_owned(), Errno(libc::ENOPROTOOPT));
        let rows = calls.unsupported_rows();
        assert_eq!(rows.len(), UNSUPPORTED_MAX + 1);
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 2 * UNSUPPORTED_MAX as u64 + 1);
        assert!(rows.iter().any(|row| row.request == "setsockopt level 1 name 0" && row.count == 2));
    }
}
