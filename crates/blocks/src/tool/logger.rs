//! Reports what passes: every `interval_ms` an alert `update` with counts and rates, `repeats` times (0: for ever). The logger of FINS.

use std::any::Any;
use weft_core::*;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "logger",
    summary: "reports what passes as alerts",
    doc: "Passes every frame on. Every interval_ms from its start it raises the alert `update`: frames and bytes since the last one, in all, \
          and per second, and one line of text. After `repeats` alerts it is silent; setting interval_ms or repeats starts it again.\n\
          Example: insert logger tcp:ip4 ip4:upper; subscribe logger",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "the same frames")],
    parameters: &[
        Parameter {
            name: "interval_ms",
            value: ParameterType::Unsigned { min: 1, max: 86_400_000 },
            default: "1000",
            live: true,
            doc: "milliseconds between two alerts",
        },
        Parameter {
            name: "repeats",
            value: ParameterType::Unsigned { min: 0, max: u64::MAX },
            default: "0",
            live: true,
            doc: "alerts before it is silent; 0: no end",
        },
    ],
    alerts: &[Named {
        name: "update",
        doc: "packets, bytes: since the last; total_packets, total_bytes; packets_per_second, bits_per_second; number: which alert; text",
    }],
    counters: &[
        Counter { name: "Packets", text: "frames that passed; a large one counts once" },
        Counter { name: "Bytes", text: "their bytes" },
        Counter { name: "Updates", text: "alerts raised" },
    ],
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        Ok(Box::new(Logger {
            name: config.name.clone(),
            interval_ms: config.u64("interval_ms"),
            repeats: config.u64("repeats"),
            left: config.u64("repeats"),
            ..Logger::default()
        }))
    },
};

/// The block.
#[derive(Debug, Default)]
pub struct Logger {
    name: String,
    interval_ms: u64,
    repeats: u64,
    /// Alerts still to come, when `repeats` is not 0.
    left: u64,
    since: Option<Instant>,
    before: [u64; 2],
    counters: [u64; 3],
}

impl Logger {
    fn begin(&mut self, cx: &mut Context<'_>) {
        self.since = Some(cx.now);
        self.left = self.repeats;
        self.before = [self.counters[0], self.counters[1]];
        cx.set_timer(0, cx.now + Duration::from_millis(self.interval_ms));
    }
}

impl Block for Logger {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        for (_, frame) in vector.iter() {
            self.counters[0] += 1;
            self.counters[1] += frame.len() as u64;
        }
        vector.forward_all(OutPort(0));
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        // Also called when edges change: that is no new start.
        if self.since.is_none() {
            self.begin(cx);
        }
    }

    fn timer(&mut self, _token: u64, cx: &mut Context<'_>) {
        let nanos = cx.now.since(self.since.unwrap_or(cx.now)).as_nanos().max(1);
        let (packets, bytes) = (self.counters[0] - self.before[0], self.counters[1] - self.before[1]);
        let per_second = |count: u64| (u128::from(count) * 1_000_000_000 / nanos) as u64;
        let (packet_rate, bit_rate) = (per_second(packets), per_second(bytes.saturating_mul(8)));
        self.counters[2] += 1;
        let text = format!(
            "{}: {packets} packets, {bytes} bytes ({packet_rate} packet/s, {bit_rate} bit/s), {} packets in all",
            self.name, self.counters[0]
        );
        let fields = serde_json::json!({
            "packets": packets, "bytes": bytes, "total_packets": self.counters[0], "total_bytes": self.counters[1],
            "packets_per_second": packet_rate, "bits_per_second": bit_rate, "number": self.counters[2], "text": text,
        });
        cx.alert("update", fields);
        self.before = [self.counters[0], self.counters[1]];
        self.since = Some(cx.now);
        self.left = self.left.saturating_sub(1);
        if self.repeats == 0 || self.left > 0 {
            cx.set_timer(0, cx.now + Duration::from_millis(self.interval_ms));
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "interval_ms" => Some(self.interval_ms.into()),
            "repeats" => Some(self.repeats.into()),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: Value, cx: &mut Context<'_>) {
        match (name, value.as_u64()) {
            ("interval_ms", Some(number)) => self.interval_ms = number,
            ("repeats", Some(number)) => self.repeats = number,
            _ => return,
        }
        self.begin(cx);
    }

    fn counters(&self) -> &[u64] {
        &self.counters
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
    fn it_reports_every_interval_as_often_as_told() {
        let mut bench = Bench::new("logger", &[("interval_ms", 500.into()), ("repeats", 2.into())]);
        bench.send(Instant::from_millis(100), [Frame::ingress(&[0; 250]), Frame::ingress(&[0; 250])]);
        assert_eq!(bench.taken().len(), 2);
        for half_second in 1..=6u64 {
            bench.engine.run(Instant::from_millis(500 * half_second));
        }
        let alerts = bench.engine.take_alerts();
        assert_eq!(alerts.len(), 2);
        assert_eq!((alerts[0].name, alerts[0].at), ("update", Instant::from_millis(500)));
        assert_eq!(alerts[0].value["packets"], 2);
        assert_eq!(alerts[0].value["bits_per_second"], 8000);
        assert_eq!(alerts[0].value["text"], "tool: 2 packets, 500 bytes (4 packet/s, 8000 bit/s), 2 packets in all");
        assert_eq!((&alerts[1].value["packets"], &alerts[1].value["total_packets"]), (&0.into(), &2.into()));
        bench.set("repeats", "1").unwrap();
        bench.engine.run(Instant::from_millis(10_000));
        assert_eq!(bench.engine.take_alerts().len(), 1, "a new number of repeats starts it again");
    }
}
