//! Rate limits for ICMP errors of both families: token buckets in whole nanoseconds, so that two runs agree to the bit.

use std::net::IpAddr;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{Duration, Instant, KeyedHasher, Map};

/// A bucket of `burst` tokens that gains one every `interval`.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Time saved up, at most `burst` intervals.
    credit: Duration,
    at: Instant,
}

weft_core::fields!(struct Bucket { credit, at });

impl Bucket {
    fn full(interval: Duration, burst: u32, now: Instant) -> Bucket {
        Bucket { credit: interval * burst, at: now }
    }

    fn refill(&mut self, interval: Duration, burst: u32, now: Instant) {
        self.credit = (self.credit + now.since(self.at)).min(interval * burst);
        self.at = now;
    }

    fn has_one(&self, interval: Duration) -> bool {
        self.credit >= interval
    }
}

/// Which limit said no.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Limited {
    Global,
    Target,
}

/// Most targets that are remembered; the one added first makes room.
const TARGETS_MAX: usize = 1024;
/// Linux XRLIM_BURST_FACTOR: errors in a row to one target.
const TARGET_BURST: u32 = 6;

/// What was taken of a limit's buckets.
#[derive(Debug)]
pub(super) struct Taken {
    all: Option<Bucket>,
    targets: Vec<(IpAddr, Bucket)>,
}

impl Field for Taken {
    fn write(&self, out: &mut Writer) {
        out.put(&self.all);
        out.put(&self.targets);
    }
    fn read(from: &mut Reader<'_>) -> Result<Taken, Damage> {
        let (all, targets): (Option<Bucket>, Vec<(IpAddr, Bucket)>) = (from.take()?, from.take()?);
        match targets.len() <= TARGETS_MAX {
            true => Ok(Taken { all, targets }),
            false => Err(Damage::new("more targets of errors than are remembered")),
        }
    }
}

/// The limit of all errors together, and of those to one target.
#[derive(Debug)]
pub(super) struct Limit {
    pub per_second: u32,
    pub burst: u32,
    /// Between two errors to one target, in the long run; zero: no limit.
    pub target_interval: Duration,
    all: Option<Bucket>,
    targets: Map<IpAddr, Bucket>,
}

impl Limit {
    pub(super) fn new(per_second: u32, burst: u32, target_interval: Duration, hasher: KeyedHasher) -> Limit {
        Limit { per_second, burst, target_interval, all: None, targets: Map::with_hasher(hasher) }
    }

    /// What is taken, for a successor whose limits may be others.
    pub(super) fn write(&self, out: &mut Writer) {
        out.put(&self.all);
        out.number(self.targets.len() as u64);
        for (target, bucket) in &self.targets {
            out.put(target);
            out.put(bucket);
        }
    }

    /// Goes on from what a predecessor has taken.
    pub(super) fn resume(&mut self, taken: Taken) {
        self.all = taken.all;
        self.targets.clear();
        self.targets.extend(taken.targets);
    }

    /// Takes a token of both buckets, or says which has none. Linux too asks the global one first and takes from it only if both agree.
    pub(super) fn take(&mut self, target: IpAddr, now: Instant) -> Result<(), Limited> {
        let interval = Duration::from_secs(1) / self.per_second.max(1);
        let mut all = self.all.unwrap_or(Bucket::full(interval, self.burst, now));
        all.refill(interval, self.burst, now);
        if self.per_second > 0 && !all.has_one(interval) {
            self.all = Some(all);
            return Err(Limited::Global);
        }
        if !self.target_interval.is_zero() {
            if self.targets.len() >= TARGETS_MAX && !self.targets.contains_key(&target) {
                self.targets.swap_remove_index(0);
            }
            let each = self.target_interval;
            let bucket = self.targets.entry(target).or_insert(Bucket::full(each, TARGET_BURST, now));
            bucket.refill(each, TARGET_BURST, now);
            if !bucket.has_one(each) {
                self.all = Some(all);
                return Err(Limited::Target);
            }
            bucket.credit -= each;
        }
        all.credit = all.credit.saturating_sub(interval);
        self.all = Some(all);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn six_errors_in_a_row_to_one_target_then_one_a_second() {
        let mut limit = Limit::new(1000, 50, Duration::from_secs(1), KeyedHasher::default());
        let target = Ipv4Addr::new(10, 0, 0, 2).into();
        let allowed = (0..20).filter(|_| limit.take(target, Instant::ZERO).is_ok()).count();
        assert_eq!(allowed, 6);
        assert_eq!(limit.take(target, Instant::from_millis(999)), Err(Limited::Target));
        assert_eq!(limit.take(target, Instant::from_millis(1000)), Ok(()));
        assert_eq!(limit.take(target, Instant::from_millis(1001)), Err(Limited::Target));
    }

    #[test]
    fn fifty_errors_in_a_row_to_anyone_then_a_thousand_a_second() {
        let mut limit = Limit::new(1000, 50, Duration::from_secs(1), KeyedHasher::default());
        let mut target = 0u32;
        let mut count = |limit: &mut Limit, now| {
            (0..200)
                .filter(|_| {
                    target += 1;
                    limit.take(Ipv4Addr::from_bits(target).into(), now).is_ok()
                })
                .count()
        };
        assert_eq!(count(&mut limit, Instant::ZERO), 50);
        assert_eq!(count(&mut limit, Instant::from_millis(10)), 10);
        assert_eq!(limit.take(Ipv4Addr::from_bits(1).into(), Instant::from_millis(10)), Err(Limited::Global));
    }
}
