//! Drops TCP segments that carry options which it does not like, or does not know, as some firewalls do.

use super::connections::{CONNECTIONS_MAX, DIRECTION};
use super::options::{Chosen, OPTIONS, OTHERS, SYN, SYN_ACK, Selection, walk};
use super::segment::each;
use crate::counted;
use std::any::Any;
use weft_core::*;
use weft_wire::tcp::kind;

const OUT: OutPort = OutPort(0);
/// What a firewall knew at the end of the last century (RFC 793, 1323, 2018, 2385), beside padding.
const KNOWN: &[u8] = &[kind::MSS, kind::WINDOW_SCALE, kind::SACK_PERMITTED, kind::SACK, kind::TIMESTAMPS, kind::MD5];

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "drop_options",
    summary: "drops TCP segments that carry options of given or unknown kinds",
    doc: "Drops (filtered) a segment that carries an option of the given kinds. With unknown also one that carries any but MSS, window scale, SACK permitted, \
          SACK, timestamps and MD5, or an option of an impossible length. Which segments it looks at is said by syn, syn_ack and others, and by direction; a \
          connection whose SYN was not seen has no direction. Stands in edges of Ethernet frames or IP packets, IPv4 and IPv6. Large frames are dropped whole. \
          Its state is the connections whose direction it knows.\n\
          Example: insert drop_options interfaces:upper ether:lower; set drop_options.options mptcp; set drop_options.others false",
    inputs: &[Port::required("in", Carries::Any, "Ethernet frames or IP packets")],
    outputs: &[Port::required("out", Carries::Any, "the same, but for what is dropped")],
    parameters: &[
        OPTIONS,
        Parameter {
            name: "unknown",
            value: ParameterType::Bool,
            default: "false",
            live: true,
            doc: "segments with options that it does not know are dropped, too",
        },
        SYN,
        SYN_ACK,
        OTHERS,
        DIRECTION,
        CONNECTIONS_MAX,
    ],
    counters: &[
        Counter { name: "Passed", text: "segments passed on" },
        Counter { name: "Dropped", text: "segments dropped" },
        Counter { name: "NoPlace", text: "SYNs that passed, because the table of connections was full" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let selection = Selection::new(config).map_err(|why| config.bad("options", why))?;
        Ok(Box::new(DropOptions { name: config.name.clone(), selection, unknown: config.bool("unknown"), counters: [0; 3] }))
    },
};

/// The block.
#[derive(Debug)]
pub struct DropOptions {
    name: String,
    selection: Selection,
    unknown: bool,
    counters: [u64; 3],
}

impl DropOptions {
    fn dislikes(&self, options: &[u8]) -> bool {
        walk(options).any(|option| match option {
            Ok((_, kind)) => self.selection.kinds.has(kind) || self.unknown && !KNOWN.contains(&kind),
            Err(()) => self.unknown,
        })
    }
}

impl Block for DropOptions {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        each(vector, |frame, segment| {
            let chosen = self.selection.chooses(cx.now, segment);
            let dropped = chosen == Chosen::Yes && self.dislikes(segment.options(frame));
            self.counters[usize::from(dropped)] += 1;
            self.counters[2] += u64::from(chosen == Chosen::NoPlace);
            if dropped { Verdict::Drop(Reason::Filtered) } else { Verdict::Forward(OUT) }
        });
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        if name == "unknown" { Some(self.unknown.into()) } else { self.selection.get(name) }
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        let bad = |why| ControlError::BadValue { block: self.name.clone(), parameter: name.to_owned(), why };
        Selection::check(name, value).map_err(bad)
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        match (name, value.as_bool()) {
            ("unknown", Some(unknown)) => self.unknown = unknown,
            _ => self.selection.set(name, &value),
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(counted::export_with(&KIND, &self.counters, now, |out| self.selection.export(out)))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let read = counted::import_with(&KIND, state, now, |from| self.selection.import(from))?;
        self.selection.take_over(read.0);
        self.counters = read.1;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Tcp, mptcp_options};
    use super::*;
    use crate::tool::testing::Bench;
    use weft_wire::tcp::{Flags, Options};

    #[test]
    fn what_carries_an_option_of_the_list_is_dropped_in_the_chosen_segments() {
        let mut bench = Bench::new("drop_options", &[("options", "mptcp".into()), ("others", false.into())]);
        for tcp in (Tcp { options: mptcp_options(), ..Tcp::default() }).everywhere() {
            let syn = Tcp { flags: Flags::SYN, ..tcp.clone() };
            let plain = Tcp { flags: Flags::SYN, options: Options::default(), ..tcp.clone() };
            bench.send(Instant::ZERO, [tcp, syn, plain].iter().map(Tcp::frame));
        }
        assert_eq!((bench.taken().len(), bench.drops(Reason::Filtered), bench.counters()), (8, 4, &[8, 4, 0][..]));
    }

    #[test]
    fn what_is_not_known_or_broken_is_dropped_when_asked() {
        let mut bench = Bench::new("drop_options", &[]);
        let known = Options { mss: Some(1460), window_scale: Some(7), sack_permitted: true, ..mptcp_options() };
        let known = Tcp { options: Options { others: Default::default(), ..known }, flags: Flags::SYN, ..Tcp::default() }.frame();
        let unknown = Tcp { options: mptcp_options(), ..Tcp::default() }.frame();
        let mut broken = known.clone();
        broken.head_mut()[41] = 1;
        let frames = [known, unknown, broken];
        bench.send(Instant::ZERO, frames.clone());
        assert_eq!(bench.taken().len(), 3, "nothing is asked for");
        bench.set("unknown", "true").unwrap();
        bench.send(Instant::ZERO, frames.clone());
        assert_eq!(bench.taken().len(), 1);
        bench.set("direction", "to_opener").unwrap();
        bench.replace("drop_options");
        bench.send(Instant::ZERO, frames);
        assert_eq!((bench.taken().len(), bench.counters()[1]), (3, 2), "the other direction");
    }
}
