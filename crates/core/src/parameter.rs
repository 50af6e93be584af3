//! Values of parameters: checking them against a block's rows, bringing them into one form, and showing them to people.
//!
//! In one form means: durations are numbers of nanoseconds, rates numbers of bits per second.

use crate::block::{Config, Kind, Parameter, ParameterType, SCHEDULER_BLOCK};
use crate::control::{ControlError, Value};
use crate::rng::Rng;
use indexmap::IndexMap;
use std::time::Duration;

/// Reads a time span: `"20ms"`, `"1.5s"`, `"250us"`, `"30ns"`, `"2m"`; without a unit nanoseconds are not guessed: it is an error.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let split = text.find(char::is_alphabetic).ok_or_else(|| format!("'{text}' needs a unit: ns, us, ms, s, m or h"))?;
    let number: f64 = text[..split].trim().parse().map_err(|_| format!("'{text}' is no time span such as \"20ms\""))?;
    let nanos_each = match &text[split..] {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        unit => return Err(format!("unknown unit '{unit}': use ns, us, ms, s, m or h")),
    };
    let nanos = number * nanos_each;
    if !(0.0..9.2e18).contains(&nanos) {
        return Err(format!("'{text}' is out of range"));
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Reads a rate in bits per second: `"100mbit"`, `"1gbit"`, `"64kbit"`, `"9600bit"` (factors of 1000, as tc has them).
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let text = text.trim().to_ascii_lowercase();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(|| format!("'{text}' needs a unit: bit, kbit, mbit or gbit"))?;
    let number: f64 = text[..split].trim().parse().map_err(|_| format!("'{text}' is no rate such as \"100mbit\""))?;
    // "100mbit/s" is the same.
    let unit = text[split..].strip_suffix("/s").filter(|unit| unit.ends_with("bit")).unwrap_or(&text[split..]);
    let each = match unit {
        "bit" | "bps" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        "tbit" => 1e12,
        unit => return Err(format!("unknown unit '{unit}': use bit, kbit, mbit or gbit")),
    };
    let bits = number * each;
    if !(0.0..9.2e18).contains(&bits) {
        return Err(format!("'{text}' is out of range"));
    }
    Ok(bits.round() as u64)
}

/// Refuses a bare number where a person writes a time span or a rate: nobody knows what unit was meant. Programs may say nanoseconds and
/// bits per second to [`normalise`] as numbers.
pub fn check_unit(block: &str, row: &Parameter, value: &Value) -> Result<(), ControlError> {
    let why = match (row.value, value) {
        (ParameterType::Duration, Value::Number(number)) => {
            format!("{number} needs a unit: ns, us, ms, s, m or h, for example \"{number}ms\"")
        }
        (ParameterType::Rate, Value::Number(number)) => {
            format!("{number} needs a unit: bit, kbit, mbit or gbit, for example \"{number}mbit\"")
        }
        _ => return Ok(()),
    };
    Err(ControlError::BadValue { block: block.to_owned(), parameter: row.name.to_owned(), why })
}

/// A number as JSON, or as text.
fn number<T: std::str::FromStr>(value: &Value) -> Option<T> {
    match value {
        Value::Number(number) => number.to_string().parse().ok(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Brings a value into the one form of its row, or says what is wrong with it.
pub fn normalise(block: &str, row: &Parameter, value: &Value) -> Result<Value, ControlError> {
    let bad = |why: String| ControlError::BadValue { block: block.to_owned(), parameter: row.name.to_owned(), why };
    match row.value {
        ParameterType::Bool => match value {
            Value::Bool(_) => Ok(value.clone()),
            Value::String(text) if matches!(text.as_str(), "true" | "on" | "yes" | "1") => Ok(true.into()),
            Value::String(text) if matches!(text.as_str(), "false" | "off" | "no" | "0") => Ok(false.into()),
            other => Err(bad(format!("{other} is neither true nor false"))),
        },
        ParameterType::Unsigned { min, max } => match number::<i128>(value) {
            Some(number) => match u64::try_from(number) {
                Ok(number) if (min..=max).contains(&number) => Ok(number.into()),
                _ => Err(bad(format!("{number} is out of range: {min} to {max}"))),
            },
            None => Err(bad(format!("{value} is no whole number from {min} to {max}"))),
        },
        ParameterType::Float { min, max } => match number::<f64>(value) {
            Some(number) if (min..=max).contains(&number) => Ok(number.into()),
            Some(number) => Err(bad(format!("{number} is out of range: {min} to {max}"))),
            None => Err(bad(format!("{value} is no number from {min} to {max}"))),
        },
        ParameterType::Duration => match value {
            Value::Number(_) if value.as_u64().is_some() => Ok(value.clone()),
            Value::String(text) => parse_duration(text).map(|span| (span.as_nanos() as u64).into()).map_err(bad),
            other => Err(bad(format!("{other} is no time span such as \"20ms\""))),
        },
        ParameterType::Rate => match value {
            Value::Number(_) if value.as_u64().is_some() => Ok(value.clone()),
            Value::String(text) => parse_rate(text).map(Into::into).map_err(bad),
            other => Err(bad(format!("{other} is no rate such as \"100mbit\""))),
        },
        ParameterType::Text | ParameterType::Interface => match value {
            Value::String(_) => Ok(value.clone()),
            other => Err(bad(format!("{other} is no text"))),
        },
        ParameterType::Choice(words) => match value.as_str() {
            Some(word) if words.contains(&word) => Ok(value.clone()),
            _ => Err(bad(format!("{value} is none of: {}", words.join(", ")))),
        },
        ParameterType::Scheduler(words) => match value.as_str() {
            Some(word) if words.contains(&word) || word.strip_prefix(SCHEDULER_BLOCK).is_some_and(|name| !name.is_empty()) => {
                Ok(value.clone())
            }
            _ => Err(bad(format!("{value} is none of: {}, {SCHEDULER_BLOCK}NAME (a block of the graph)", words.join(", ")))),
        },
        ParameterType::List => match value {
            Value::Array(_) => Ok(value.clone()),
            other => Err(bad(format!("{other} is no list: write [{other}]"))),
        },
    }
}

/// Turns the one form back into what a person writes.
pub fn show(row: &Parameter, value: Value) -> Value {
    match (row.value, value.as_u64()) {
        (ParameterType::Duration, Some(nanos)) => {
            show_scaled(nanos, &[("h", 3_600_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)])
        }
        (ParameterType::Rate, Some(bits)) => {
            show_scaled(bits, &[("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)])
        }
        _ => value,
    }
}

fn show_scaled(number: u64, units: &[(&str, u64)]) -> Value {
    let (last, _) = units[units.len() - 1];
    let (unit, each) = units.iter().copied().find(|(_, each)| number != 0 && number.is_multiple_of(*each)).unwrap_or((last, 1));
    format!("{}{unit}", number / each).into()
}

/// All parameters of a kind: those given, checked, and defaults for the rest.
pub fn complete(name: &str, kind: &'static Kind, given: &IndexMap<String, Value>, rng: Rng) -> Result<Config, ControlError> {
    if let Some(unknown) = given.keys().find(|key| kind.parameter(key).is_none()) {
        return Err(no_parameter(name, kind, unknown));
    }
    let mut parameters = IndexMap::new();
    for row in kind.parameters {
        let value = match given.get(row.name) {
            Some(value) => normalise(name, row, value)?,
            None => {
                let default = serde_json::from_str(row.default).unwrap_or(Value::Null);
                normalise(name, row, &default)?
            }
        };
        parameters.insert(row.name.to_owned(), value);
    }
    Ok(Config { name: name.to_owned(), parameters, rng })
}

pub(crate) fn no_parameter(block: &str, kind: &Kind, parameter: &str) -> ControlError {
    let known = kind.parameters.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    ControlError::NoParameter { block: block.to_owned(), parameter: parameter.to_owned(), known }
}

/// Typed reading of a completed [`Config`]; a name that the kind does not declare reads as zero, false, empty.
impl Config {
    /// A parameter's value.
    pub fn value(&self, name: &str) -> Value {
        self.parameters.get(name).cloned().unwrap_or(Value::Null)
    }
    /// An unsigned number or rate.
    pub fn u64(&self, name: &str) -> u64 {
        self.value(name).as_u64().unwrap_or(0)
    }
    /// A number.
    pub fn f64(&self, name: &str) -> f64 {
        self.value(name).as_f64().unwrap_or(0.0)
    }
    /// true or false.
    pub fn bool(&self, name: &str) -> bool {
        self.value(name).as_bool().unwrap_or(false)
    }
    /// A time span.
    pub fn duration(&self, name: &str) -> Duration {
        Duration::from_nanos(self.u64(name))
    }
    /// A text or chosen word.
    pub fn text(&self, name: &str) -> String {
        self.value(name).as_str().unwrap_or("").to_owned()
    }
    /// An error about one of the parameters.
    pub fn bad(&self, parameter: &str, why: impl Into<String>) -> ControlError {
        ControlError::BadValue { block: self.name.clone(), parameter: parameter.to_owned(), why: why.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_rates_are_read_and_shown() {
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("20 ms"), Ok(Duration::from_millis(20)));
        assert_eq!(parse_duration("250µs"), parse_duration("250us"));
        assert!(parse_duration("20").unwrap_err().contains("unit"));
        assert!(parse_duration("-1s").is_err() && parse_duration("1e300h").is_err() && parse_duration("xs").is_err());
        assert_eq!(parse_rate("100mbit"), Ok(100_000_000));
        assert!(parse_rate("100").is_err() && parse_rate("5parsec").is_err());
        let row = Parameter { name: "delay", value: ParameterType::Duration, default: "\"0ns\"", live: true, doc: "" };
        for (nanos, text) in [(20_000_000u64, "20ms"), (1_500_000_000, "1500ms"), (0, "0ns"), (1, "1ns")] {
            assert_eq!(show(&row, nanos.into()), text);
            assert_eq!(normalise("b", &row, &text.into()).unwrap(), nanos);
        }
    }

    #[test]
    fn wrong_values_are_refused_with_the_range() {
        let row = Parameter { name: "n", value: ParameterType::Unsigned { min: 1, max: 9 }, default: "1", live: true, doc: "" };
        assert_eq!(normalise("b", &row, &"3".into()).unwrap(), 3);
        let error = normalise("b", &row, &10.into()).unwrap_err().to_string();
        assert_eq!(error, "b.n: 10 is out of range: 1 to 9");
        for minus in [(-1).into(), "-1".into()] {
            assert_eq!(normalise("b", &row, &minus).unwrap_err().to_string(), "b.n: -1 is out of range: 1 to 9");
        }
        assert!(normalise("b", &row, &"x".into()).unwrap_err().to_string().contains("no whole number"));
        assert!(normalise("b", &row, &1.5.into()).unwrap_err().to_string().contains("no whole number"));
    }

    #[test]
    fn a_person_must_write_units_and_a_program_need_not() {
        for (value, unit) in [(ParameterType::Duration, "ms"), (ParameterType::Rate, "mbit")] {
            let row = Parameter { name: "p", value, default: "\"\"", live: true, doc: "" };
            let error = check_unit("b", &row, &20.into()).unwrap_err().to_string();
            assert!(error.starts_with("b.p: 20 needs a unit") && error.contains(&format!("\"20{unit}\"")), "{error}");
            check_unit("b", &row, &format!("20{unit}").into()).unwrap();
            assert!(normalise("b", &row, &"20".into()).unwrap_err().to_string().contains("needs a unit"));
            assert_eq!(normalise("b", &row, &20.into()).unwrap(), 20);
        }
    }

    #[test]
    fn types_are_told_in_words() {
        let words = [
            (ParameterType::Bool, "true or false"),
            (ParameterType::Unsigned { min: 0, max: 65_535 }, "0 to 65535"),
            (ParameterType::Unsigned { min: 1, max: u64::MAX }, "1 or more"),
            (ParameterType::Float { min: 0.0, max: 1.0 }, "number from 0 to 1"),
            (ParameterType::Choice(&["reno", "cubic"]), "one of reno, cubic"),
        ];
        for (value, word) in words {
            assert_eq!(value.to_string(), word);
        }
    }
}
