//! Disjoint ranges of positions: what was sacked by the peer, and what was received out of order.

use std::collections::BTreeMap;

/// Ranges that do not touch each other, by their start.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
    /// Adds a range and returns the one that it has become a part of.
    pub(crate) fn add(&mut self, mut start: u64, mut end: u64) -> (u64, u64) {
        if let Some((&before, &its_end)) = self.0.range(..=start).next_back()
            && its_end >= start
        {
            start = before;
            end = end.max(its_end);
        }
        while let Some((&next, &its_end)) = self.0.range(start..).next() {
            if next > end {
                break;
            }
            end = end.max(its_end);
            self.0.remove(&next);
        }
        self.0.insert(start, end);
        (start, end)
    }
    /// The first part of `start..end` that no range covers.
    pub(crate) fn gap(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let mut at = start;
        if let Some((_, &covered)) = self.0.range(..=at).next_back() {
            at = at.max(covered);
        }
        if at >= end {
            return None;
        }
        // Ranges do not touch, so the one that begins next leaves a gap in front of it.
        let next = self.0.range(at..end).next().map_or(end, |(start, _)| *start);
        Some((at, next))
    }
    /// The first part of `start..end` that some range covers.
    pub(crate) fn overlap(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        if start >= end {
            return None;
        }
        let before = self.0.range(..=start).next_back().filter(|(_, its_end)| **its_end > start);
        let (&from, &to) = before.or_else(|| self.0.range(start..end).next())?;
        Some((from.max(start), to.min(end))).filter(|(from, to)| from < to)
    }
    /// The range that holds `position`.
    pub(crate) fn covering(&self, position: u64) -> Option<(u64, u64)> {
        self.0.range(..=position).next_back().map(|(start, end)| (*start, *end)).filter(|(_, end)| *end > position)
    }
    /// Removes what lies in front of `until`.
    pub(crate) fn remove_until(&mut self, until: u64) {
        while let Some((&start, &end)) = self.0.first_key_value() {
            if start >= until {
                break;
            }
            self.0.remove(&start);
            if end > until {
                self.0.insert(until, end);
                break;
            }
        }
    }
    /// End of the last range.
    pub(crate) fn last_end(&self) -> Option<u64> {
        self.0.last_key_value().map(|(_, end)| *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_agree_with_a_set_of_numbers() {
        let mut rng = weft_core::Rng::for_name(1, "ranges");
        let mut ranges = Ranges::default();
        let mut model = std::collections::BTreeSet::new();
        for round in 0..2000u64 {
            let start = rng.below(300);
            let end = start + 1 + rng.below(12);
            ranges.add(start, end);
            model.extend(start..end);
            if round % 50 == 49 {
                let until = rng.below(300);
                ranges.remove_until(until);
                model.retain(|at| *at >= until);
            }
            let (from, to) = (rng.below(300), rng.below(320));
            let expected = (from..to).find(|at| !model.contains(at)).map(|at| (at, (at..to).find(|at| model.contains(at)).unwrap_or(to)));
            assert_eq!(ranges.gap(from, to), expected, "{from}..{to}");
            let known = (from..to).find(|at| model.contains(at)).map(|at| (at, (at..to).find(|at| !model.contains(at)).unwrap_or(to)));
            assert_eq!(ranges.overlap(from, to), known, "{from}..{to}");
            assert_eq!(ranges.covering(from).is_some(), model.contains(&from));
            assert_eq!(ranges.last_end(), model.last().map(|at| at + 1));
        }
    }
}
