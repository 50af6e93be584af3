//! Units and marks of axes, chosen by the size of the values.

/// What values are of; and how they are given: bits a second, seconds, bytes, or a number of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quantity {
    Rate,
    Time,
    Bytes,
    Count(&'static str),
}

const RATES: [(f64, &str); 4] = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];
const TIMES: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
const BYTES: [(f64, &str); 4] = [(1e9, "GB"), (1e6, "MB"), (1024.0, "KiB"), (1.0, "B")];
/// From so many on, they are counted in thousands.
const COUNT_MAX: f64 = 20_000.0;

impl Quantity {
    /// The largest unit of which there is one at least, and its name.
    pub fn unit(self, largest: f64) -> (f64, String) {
        let units = match self {
            Quantity::Rate => RATES,
            Quantity::Time => TIMES,
            Quantity::Bytes => BYTES,
            Quantity::Count(what) if largest < COUNT_MAX => return (1.0, what.to_owned()),
            Quantity::Count(what) => return (1e3, format!("thousand {what}")),
        };
        let (size, name) = units.into_iter().find(|(size, _)| largest >= *size).unwrap_or(units[3]);
        (size, name.to_owned())
    }

    /// A value with its unit: `10 Mbit/s`, `2.5 ms`.
    pub fn tell(self, value: f64) -> String {
        let (size, name) = self.unit(value);
        format!("{} {name}", rounded(value / size))
    }
}

/// A figure as people read it: its name without the unit that stands at its end, how many of that are one of the unit in which values up to `largest`
/// are told, and that unit. `s.duration_ns` is `s.duration` in ms.
pub fn of_figure(name: &str, largest: f64) -> (&str, f64, String) {
    let kinds = [("_bits_per_second", Quantity::Rate, 1.0), ("_bytes", Quantity::Bytes, 1.0), ("_ns", Quantity::Time, 1e-9)];
    for (ending, quantity, base) in kinds {
        if let Some(name) = name.strip_suffix(ending) {
            let (size, unit) = quantity.unit(largest * base);
            return (name, size / base, unit);
        }
    }
    (name, 1.0, String::new())
}

/// Two places behind the point, where they are not zero.
fn rounded(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Most parts that marks divide an axis into.
const PARTS_MAX: f64 = 7.0;

/// The marks of an axis, with their texts: multiples of 1, 2 or 5 times a power of ten, all with as many places behind the point.
pub(super) fn ticks(from: f64, to: f64, whole: bool) -> Vec<(f64, String)> {
    let (step, places) = step((to - from) / PARTS_MAX, whole);
    let (first, last) = ((from / step - 1e-9).ceil() as i64, (to / step + 1e-9).floor() as i64);
    (first..=last).map(|number| (number as f64 * step, format!("{:.places$}", number as f64 * step))).collect()
}

/// The next 1, 2 or 5 times a power of ten, and how many places behind the point that takes.
fn step(least: f64, whole: bool) -> (f64, usize) {
    // Small ones first; a whole number is no part of one.
    let places = if whole { 0 } else { 9 };
    for exponent in -places..=15i32 {
        for digit in [1.0, 2.0, 5.0] {
            let power = (0..exponent.unsigned_abs()).fold(1.0, |power: f64, _| power * 10.0);
            let step = if exponent < 0 { digit / power } else { digit * power };
            if step >= least {
                return (step, exponent.min(0).unsigned_abs() as usize);
            }
        }
    }
    (least.max(1.0), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_size_of_values() {
        let units = |quantity: Quantity, largest: &[f64]| largest.iter().map(|largest| quantity.unit(*largest).1).collect::<Vec<_>>();
        assert_eq!(units(Quantity::Rate, &[0.0, 64e3, 9.7e6, 1e9]), ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]);
        assert_eq!(units(Quantity::Time, &[4e-5, 0.02, 1.0, 600.0]), ["µs", "ms", "s", "s"]);
        assert_eq!(units(Quantity::Bytes, &[900.0, 65536.0, 2e6, 3e9]), ["B", "KiB", "MB", "GB"]);
        assert_eq!(units(Quantity::Count("frames"), &[3.0, 19_999.0, 20_000.0]), ["frames", "frames", "thousand frames"]);
        assert_eq!(
            [Quantity::Rate.tell(1e7), Quantity::Rate.tell(2.5e9), Quantity::Time.tell(15e-6)],
            ["10 Mbit/s", "2.5 Gbit/s", "15 µs"]
        );
    }

    #[test]
    fn marks_are_round_and_have_no_more_places_than_they_need() {
        let texts = |from, to, whole| ticks(from, to, whole).into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ");
        assert_eq!(texts(0.0, 525.0, false), "0 100 200 300 400 500");
        assert_eq!(texts(0.0, 1.0, false), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(texts(0.0, 2.1, true), "0 1 2");
        assert_eq!(texts(7.0, 10.2, false), "7.0 7.5 8.0 8.5 9.0 9.5 10.0");
        assert_eq!(texts(0.0, 0.012, false), "0.000 0.002 0.004 0.006 0.008 0.010 0.012");
    }
}
