//! Counts frames and bytes in each direction, and their rates.
//!
//! A rate is that of the last whole `interval` that had traffic in or before it; an idle block sets no timer, so it wakes nobody.

use serde::{Deserialize, Serialize};
use std::any::Any;
use weft_core::*;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "counter",
    summary: "counts frames and bytes in each direction, and their rates",
    doc: "Passes every frame on and counts it by its direction. `get` knows, besides the parameters, `rates`: frames and bits per second in \
          each direction over the last whole interval. Counts survive a replacement.\nExample: insert counter ip4:lower arp:upper",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "the same frames")],
    parameters: &[Parameter {
        name: "interval",
        value: ParameterType::Duration,
        default: "\"1s\"",
        live: true,
        doc: "over which rates are taken, at least 1ms",
    }],
    procedures: &[Named { name: "reset", doc: "sets all counts to zero" }],
    counters: &[
        Counter { name: "InFrames", text: "frames from interfaces to programs; a large one counts once" },
        Counter { name: "InBytes", text: "their bytes" },
        Counter { name: "OutFrames", text: "frames from programs to interfaces; a large one counts once" },
        Counter { name: "OutBytes", text: "their bytes" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let interval = config.duration("interval");
        check_interval(&config.name, interval)?;
        Ok(Box::new(CounterBlock { name: config.name.clone(), interval, ..CounterBlock::default() }))
    },
};

const INTERVAL_MIN: Duration = Duration::from_millis(1);

fn check_interval(block: &str, interval: Duration) -> Result<(), ControlError> {
    match interval < INTERVAL_MIN {
        true => Err(ControlError::BadValue {
            block: block.to_owned(),
            parameter: "interval".to_owned(),
            why: format!("{interval:?} is too short: at least {INTERVAL_MIN:?}"),
        }),
        false => Ok(()),
    }
}

/// The block.
#[derive(Debug, Default)]
pub struct CounterBlock {
    name: String,
    interval: Duration,
    counters: [u64; 4],
    /// Counts at the beginning of the running interval.
    before: [u64; 4],
    /// Counts per second in the last whole interval.
    rates: [u64; 4],
    began: Option<Instant>,
}

#[derive(Serialize, Deserialize)]
struct Exported {
    counters: [u64; 4],
}

impl Block for CounterBlock {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        if self.began.is_none() {
            self.began = Some(cx.now);
            cx.set_timer(0, cx.now + self.interval);
        }
        for (_, frame) in vector.iter() {
            let at = if frame.meta().direction == Direction::Ingress { 0 } else { 2 };
            self.counters[at] += 1;
            self.counters[at + 1] += frame.len() as u64;
        }
        vector.forward_all(OutPort(0));
    }

    fn timer(&mut self, _token: u64, cx: &mut Context<'_>) {
        let Some(began) = self.began.take() else { return };
        let nanos = cx.now.since(began).as_nanos().max(1);
        for (rate, (now, before)) in self.rates.iter_mut().zip(self.counters.iter().zip(&self.before)) {
            *rate = (u128::from(now - before) * 1_000_000_000 / nanos) as u64;
        }
        self.before = self.counters;
        if self.rates.iter().any(|rate| *rate > 0) {
            // Once more, so that the rate falls to zero when traffic has ended.
            self.began = Some(cx.now);
            cx.set_timer(0, cx.now + self.interval);
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "interval" => Some((self.interval.as_nanos() as u64).into()),
            "rates" => Some(serde_json::json!({
                "in_frames_per_second": self.rates[0], "in_bits_per_second": self.rates[1].saturating_mul(8),
                "out_frames_per_second": self.rates[2], "out_bits_per_second": self.rates[3].saturating_mul(8),
            })),
            _ => None,
        }
    }

    fn check(&self, _name: &str, value: &Value) -> Result<(), ControlError> {
        check_interval(&self.name, Duration::from_nanos(value.as_u64().unwrap_or(0)))
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        if let ("interval", Some(nanos)) = (name, value.as_u64()) {
            self.interval = Duration::from_nanos(nanos);
        }
    }

    fn exec(&mut self, procedure: &str, _arguments: &Value, _cx: &mut Context<'_>) -> Result<Value, ControlError> {
        if procedure != "reset" {
            return Err(self.kind().no_procedure(&self.name, procedure));
        }
        (self.counters, self.before, self.rates) = ([0; 4], [0; 4], [0; 4]);
        Ok(Value::Null)
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, _now: Instant) -> Result<State, StateError> {
        State::write(KIND.name, KIND.state_version, &Exported { counters: self.counters })
    }

    fn import(&mut self, state: &State, _now: Instant) -> Result<(), StateError> {
        self.counters = state.read::<Exported>(KIND.name, KIND.state_version)?.counters;
        self.before = self.counters;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::Bench;

    #[test]
    fn frames_are_counted_by_direction_and_rates_fall_to_zero() {
        let mut bench = Bench::new("counter", &[("interval", "100ms".into())]);
        let mut out = Frame::egress();
        out.extend(&[0; 50]);
        bench.send(Instant::ZERO, [Frame::ingress(&[0; 100]), Frame::ingress(&[0; 20]), out]);
        assert_eq!(bench.taken().len(), 3);
        assert_eq!(bench.counters(), [2, 120, 1, 50]);
        bench.engine.run(Instant::from_millis(100));
        assert_eq!(bench.get("rates")["in_frames_per_second"], 20);
        assert_eq!(bench.get("rates")["out_bits_per_second"], 4000);
        bench.engine.run(Instant::from_millis(200));
        assert_eq!(bench.get("rates")["in_frames_per_second"], 0);
        assert_eq!(bench.engine.next_timer(), None, "an idle counter wakes nobody");
        bench.replace("counter");
        assert_eq!(bench.counters(), [2, 120, 1, 50]);
        assert!(bench.set("interval", "1us").unwrap_err().to_string().contains("too short"));
    }
}
