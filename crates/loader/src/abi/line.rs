//! How far a clock is ahead of the world's time: a straight line, until its rate changes. Integers alone, so that it is the same on all machines.
//!
//! The vDSO has this file, too.

/// A rate of 1 in [`Line::rate`]: a clock that runs twice as fast as the world.
pub const RATE_ONE: i64 = 1 << RATE_BITS;
const RATE_BITS: u32 = 60;

/// What a clock has gained on the world, by the world's time in nanoseconds. The default has gained nothing and never will.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Line {
    /// When it begins, in nanoseconds of the world.
    pub from: u64,
    /// What was gained by then, in nanoseconds.
    pub skew: i64,
    /// And how much more, in parts of a nanosecond ([`RATE_ONE`] would be a whole one).
    pub fraction: u64,
    /// What is gained a nanosecond, in the same parts. Between -RATE_ONE and RATE_ONE.
    pub rate: i64,
}

impl Line {
    /// Has nothing been gained, and never will?
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.rate == 0 && self.skew == 0 && self.fraction == 0
    }
    /// The parts of a nanosecond that were gained since `skew`.
    #[inline(always)]
    fn parts(&self, now: u64) -> i128 {
        i128::from(self.fraction) + i128::from(self.rate) * (i128::from(now) - i128::from(self.from))
    }
    /// What was gained until a time of the world, in nanoseconds, rounded down.
    #[inline(always)]
    pub fn gained(&self, now: u64) -> i64 {
        self.skew.wrapping_add((self.parts(now) >> RATE_BITS) as i64)
    }
    /// What a clock shows at a time of the world. `base`: what it shows beyond that time without having gained anything; may be negative, in two's complement.
    #[inline(always)]
    pub fn value(&self, base: u64, now: u64) -> u64 {
        base.wrapping_add(now).wrapping_add(self.gained(now) as u64)
    }
}

impl Line {
    /// The first time of the world at which a clock shows `value` or more; `base` as above.
    pub fn when(&self, base: u64, value: u64) -> u64 {
        let wanted = i128::from(value) - i128::from(base as i64) - i128::from(self.skew) - i128::from(self.from);
        let since = if self.rate == 0 && self.fraction == 0 {
            wanted
        } else {
            // since * ONE + fraction + rate * since >= wanted * ONE
            let each = i128::from(RATE_ONE) + i128::from(self.rate);
            let all = (wanted << RATE_BITS) - i128::from(self.fraction);
            all.div_euclid(each) + i128::from(all.rem_euclid(each) != 0)
        };
        (since + i128::from(self.from)).clamp(0, u64::MAX.into()) as u64
    }
    /// The line that goes on from this one at a time of the world with another rate. Nothing is lost, no part of a nanosecond either.
    pub fn turned(&self, now: u64, rate: i64) -> Line {
        if rate == self.rate {
            return *self;
        }
        let parts = self.parts(now);
        let fraction = (parts & i128::from(RATE_ONE - 1)) as u64;
        Line { from: now, skew: self.skew.wrapping_add((parts >> RATE_BITS) as i64), fraction, rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = 365 * 86_400 * 1_000_000_000;
    const PPM: i64 = RATE_ONE / 1_000_000;

    fn lines() -> impl Iterator<Item = Line> {
        let rates = [0, 1, -1, PPM, -PPM, 40 * PPM, -500 * PPM, RATE_ONE / 10, -RATE_ONE / 10, RATE_ONE / 2, -RATE_ONE / 2];
        let froms = [(0, 0, 0), (7, -3, 1), (YEAR, 1_000_000_007, RATE_ONE as u64 - 1), (3, -(YEAR as i64), RATE_ONE as u64 / 3)];
        froms.into_iter().flat_map(move |(from, skew, fraction)| rates.map(|rate| Line { from, skew, fraction, rate }))
    }

    #[test]
    fn a_clock_shows_a_value_when_it_is_said_to_and_not_before() {
        for line in lines() {
            for base in [0, 5, 1_893_456_000_000_000_000, (-77_i64) as u64] {
                for now in [YEAR, YEAR + 1, 2 * YEAR + 123_456_789, 3 * YEAR] {
                    let value = line.value(base, now);
                    if value as i64 <= 1 {
                        // No clock shows what is before its beginning.
                        continue;
                    }
                    let when = line.when(base, value);
                    assert!(when <= now && line.value(base, when) == value, "{line:?} {base} {now}: {value} at {when}");
                    assert!(line.value(base, when - 1) < value, "{line:?} {base} {now}");
                    for later in [1, 2, 999, 1_000_000_007] {
                        let when = line.when(base, value + later);
                        assert!(line.value(base, when) >= value + later && line.value(base, when - 1) < value + later, "{line:?} {later}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_clock_never_goes_back() {
        for line in lines() {
            let mut last = line.value(0, 2 * YEAR);
            for step in 1..2000 {
                let value = line.value(0, 2 * YEAR + step);
                assert!(value >= last, "{line:?}");
                last = value;
            }
        }
    }

    #[test]
    fn turning_loses_nothing() {
        for line in lines() {
            let now = YEAR + 12_345;
            for rate in [0, PPM, -RATE_ONE / 10] {
                let turned = line.turned(now, rate);
                assert_eq!(turned.value(9, now), line.value(9, now), "{line:?}");
                // Back and forth, a thousand times: the same to the part of a nanosecond.
                let (mut one, mut gained) = (line, 0_i128);
                for round in 0..1000 {
                    let (from, rate) = (now + round * 997, if round % 2 == 0 { 3 * PPM } else { -PPM });
                    one = one.turned(from, rate);
                    gained += i128::from(rate) * 997;
                }
                let end = now + 1000 * 997;
                let parts = |line: &Line, now| (i128::from(line.skew) << RATE_BITS) + line.parts(now);
                assert_eq!(parts(&one, end), parts(&line, now) + gained, "{line:?}");
            }
        }
    }

    #[test]
    fn the_world_without_gain_is_the_clock() {
        let plain = Line::default();
        assert!(plain.is_plain());
        for now in [0, 1, u64::MAX / 2, u64::MAX] {
            assert_eq!((plain.value(0, now), plain.when(0, now)), (now, now));
        }
        // What is over, or comes after the end of time.
        assert_eq!((plain.when(50, 20), plain.when(-5_i64 as u64, u64::MAX)), (0, u64::MAX));
        for line in lines() {
            assert!(line.when(u64::MAX / 2, 0) == 0 || line.skew < 0, "{line:?}");
            let _ = (line.when(0, u64::MAX), line.when(i64::MIN as u64, u64::MAX), line.value(u64::MAX, u64::MAX), line.value(0, 0));
        }
    }
}
