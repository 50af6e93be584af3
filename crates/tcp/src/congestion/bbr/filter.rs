//! The largest of the values seen in the last so many round trips, in constant memory (Kathleen Nichols' algorithm, Linux's lib/minmax).

/// A value and the round trip it is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    round: u64,
    value: u64,
}
weft_core::fields!(struct Sample { round, value });

/// The best, second best and third best of the window, in the order of their time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxFilter([Sample; 3]);

impl weft_core::state::Field for MaxFilter {
    fn write(&self, out: &mut weft_core::state::Writer) {
        out.put(&self.0);
    }
    fn read(from: &mut weft_core::state::Reader<'_>) -> Result<Self, weft_core::state::Damage> {
        from.take().map(MaxFilter)
    }
}

impl MaxFilter {
    /// Are its values of round trips up to this one, the best first?
    pub(super) fn is_of(&self, round: u64) -> bool {
        let [first, second, third] = self.0;
        first.value >= second.value
            && second.value >= third.value
            && first.round <= second.round
            && second.round <= third.round
            && third.round <= round
    }

    /// The maximum; 0 before the first value.
    pub(super) fn get(&self) -> u64 {
        self.0[0].value
    }

    /// Adds a value of round trip `round`, which never decreases; what is older than `window` round trips counts no more.
    pub(super) fn update(&mut self, round: u64, window: u64, value: u64) {
        let new = Sample { round, value };
        let [first, second, third] = &mut self.0;
        if value >= first.value || round - third.round > window {
            *self = MaxFilter([new; 3]);
            return;
        }
        if value >= second.value {
            (*second, *third) = (new, new);
        } else if value >= third.value {
            *third = new;
        }
        let age = round - first.round;
        if age > window {
            // The best is too old: the others move up.
            (*first, *second, *third) = (*second, *third, new);
            if round - first.round > window {
                (*first, *second) = (*second, *third);
            }
        } else if second.round == first.round && age > window / 4 {
            // A quarter of the window without a second choice: take one from here.
            (*second, *third) = (new, new);
        } else if third.round == second.round && age > window / 2 {
            *third = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_pause_the_second_best_is_too_old_as_well() {
        let mut filter = MaxFilter::default();
        for (round, value, best) in [(0, 100, 100), (1, 90, 100), (3, 80, 100), (9, 70, 100), (15, 10, 70)] {
            filter.update(round, 10, value);
            assert_eq!(filter.get(), best, "round {round}");
        }
    }

    #[test]
    fn the_maximum_is_never_below_what_a_full_window_holds_and_never_of_outside() {
        let mut rng = weft_core::Rng::for_name(3, "max filter");
        let mut filter = MaxFilter::default();
        let mut seen: Vec<(u64, u64)> = Vec::new();
        for step in 0..5_000u64 {
            let (round, value) = (step / 3, 1 + rng.below(1000));
            filter.update(round, 10, value);
            seen.push((round, value));
            let inside = |age: u64| seen.iter().rev().take_while(move |(at, _)| round - at <= age).map(|(_, value)| *value);
            // An estimate: of the window, or a little less than its maximum right after that left.
            assert!(inside(10).any(|value| value == filter.get()), "step {step}: {} is not of the window", filter.get());
            assert!(filter.get() >= inside(2).max().unwrap(), "step {step}: below the latest");
        }
    }

    #[test]
    fn a_maximum_lives_for_its_window() {
        let mut filter = MaxFilter::default();
        filter.update(5, 10, 900);
        for round in 6..=15 {
            filter.update(round, 10, 100 + round);
            assert_eq!(filter.get(), 900, "round {round}");
        }
        filter.update(16, 10, 116);
        assert!(filter.get() <= 116, "{}", filter.get());
    }
}
