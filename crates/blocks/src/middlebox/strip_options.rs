//! Takes TCP options away, as firewalls do that let through only what they know.

use super::connections::{CONNECTIONS_MAX, DIRECTION};
use super::options::{Chosen, OPTIONS, OTHERS, SYN, SYN_ACK, Selection, walk};
use super::segment::each;
use crate::counted;
use std::any::Any;
use weft_core::*;
use weft_wire::tcp::{HEADER_LEN, kind};

const OUT: OutPort = OutPort(0);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "strip_options",
    summary: "takes options of given kinds away from TCP segments",
    doc: "Writes NOP over each option of the given kinds, as Linux's TCPOPTSTRIP does: lengths stay. In which segments is said by syn, syn_ack and others, and \
          by direction; a connection whose SYN was not seen has no direction. Bytes behind an option of an impossible length stay as they are. Stands in edges \
          of Ethernet frames or IP packets, IPv4 and IPv6; behind `filter` for one interface only. Large frames stay large. Drops nothing. Its state is the \
          connections whose direction it knows.\n\
          Example: insert strip_options interfaces:upper ether:lower; set strip_options.options mptcp; set strip_options.syn_ack false",
    inputs: &[Port::required("in", Carries::Any, "Ethernet frames or IP packets")],
    outputs: &[Port::required("out", Carries::Any, "the same, without the options")],
    parameters: &[OPTIONS, SYN, SYN_ACK, OTHERS, DIRECTION, CONNECTIONS_MAX],
    counters: &[
        Counter { name: "Passed", text: "segments passed on as they came" },
        Counter { name: "Stripped", text: "segments that lost an option" },
        Counter { name: "Options", text: "options taken away" },
        Counter { name: "NoPlace", text: "SYNs that passed as they came, because the table of connections was full" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let selection = Selection::new(config).map_err(|why| config.bad("options", why))?;
        Ok(Box::new(StripOptions { name: config.name.clone(), selection, counters: [0; 4] }))
    },
};

/// The block.
#[derive(Debug)]
pub struct StripOptions {
    name: String,
    selection: Selection,
    counters: [u64; 4],
}

impl Block for StripOptions {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        each(vector, |frame, segment| {
            let chosen = self.selection.chooses(cx.now, segment);
            let is_of_kind = |(_, kind): &(_, u8)| self.selection.kinds.has(*kind);
            let found: Vec<_> = match chosen {
                Chosen::Yes => walk(segment.options(frame)).map_while(Result::ok).filter(is_of_kind).collect(),
                Chosen::No | Chosen::NoPlace => Vec::new(),
            };
            self.counters[3] += u64::from(chosen == Chosen::NoPlace);
            self.counters[usize::from(!found.is_empty())] += 1;
            self.counters[2] += found.len() as u64;
            if !found.is_empty() {
                segment.change_header(frame, |header| {
                    let options = &mut header[HEADER_LEN..];
                    found.into_iter().for_each(|(place, _)| options[place].fill(kind::NOP));
                });
            }
            Verdict::Forward(OUT)
        });
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        self.selection.get(name)
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        let bad = |why| ControlError::BadValue { block: self.name.clone(), parameter: name.to_owned(), why };
        Selection::check(name, value).map_err(bad)
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        self.selection.set(name, &value);
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
    use super::super::testing::{Tcp, mptcp_options, read};
    use super::*;
    use crate::tool::testing::Bench;
    use weft_wire::tcp::Flags;

    #[test]
    fn chosen_options_become_padding_and_all_else_stays_in_both_families() {
        let mut bench = Bench::new("strip_options", &[("options", "mptcp".into())]);
        for gso in [None, Some(100)] {
            for tcp in (Tcp { options: mptcp_options(), payload: vec![7; 1000], gso, ..Tcp::default() }).everywhere() {
                bench.send(Instant::ZERO, [tcp.frame()]);
                let [frame] = <[_; 1]>::try_from(bench.taken()).unwrap();
                assert_eq!(frame.meta().gso.is_some(), gso.is_some());
                let (before, after) = (read(tcp.frame()), read(frame));
                assert!(before.header.options.mptcp().count() == 1 && after.header.options.mptcp().count() == 0);
                assert_eq!(after.header.options.timestamps, before.header.options.timestamps);
                assert_eq!((after.options.len(), after.payload), (before.options.len(), before.payload));
            }
        }
        assert_eq!(bench.counters(), [0, 8, 8, 0]);
    }

    #[test]
    fn segments_are_chosen_by_step_and_direction() {
        let step = |flags| Tcp { options: mptcp_options(), flags, ..Tcp::default() };
        let (syn, syn_ack, data) = (step(Flags::SYN), step(Flags::SYN | Flags::ACK).back(), step(Flags::ACK));
        let traffic = [&syn, &syn_ack, &data, &data.clone().back()].map(Clone::clone);
        let lost = |parameters: &[(&str, &str)]| {
            let mut bench = Bench::new("strip_options", &[("options", "30".into())]);
            parameters.iter().for_each(|(name, value)| drop(bench.set(name, value).unwrap()));
            bench.send(Instant::ZERO, traffic.iter().map(Tcp::frame));
            bench.taken().into_iter().map(|frame| read(frame).header.options.mptcp().count() == 0).collect::<Vec<_>>()
        };
        assert_eq!(lost(&[]), [true; 4]);
        assert_eq!(lost(&[("syn", "false")]), [false, true, true, true]);
        assert_eq!(lost(&[("syn_ack", "false"), ("others", "false")]), [true, false, false, false]);
        assert_eq!(lost(&[("direction", "from_opener")]), [true, false, true, false]);
        assert_eq!(lost(&[("direction", "to_opener")]), [false, true, false, true]);
        assert_eq!(lost(&[("direction", "to_opener"), ("syn_ack", "false")]), [false, false, false, true]);
    }

    #[test]
    fn a_wrong_checksum_stays_wrong_and_what_is_no_segment_passes() {
        let mut bench = Bench::new("strip_options", &[("options", "30".into())]);
        let mut damaged = Tcp { options: mptcp_options(), payload: vec![1; 100], ..Tcp::default() }.frame();
        offload::complete_checksum(&mut damaged);
        damaged.pull_up(150).unwrap();
        damaged.head_mut()[140] ^= 4;
        damaged.meta_mut().checksum = Checksum::Unknown;
        bench.send(Instant::ZERO, [damaged, Frame::ingress(&[0x45; 30]), Frame::ingress(&[]), crate::tool::testing::large_udp(2, 9)]);
        let left = bench.taken();
        assert_eq!((left.len(), offload::verify(&left[0])), (4, false));
        assert_eq!(bench.counters(), [0, 1, 1, 0]);
    }

    #[test]
    fn a_successor_knows_the_connections() {
        let mut bench = Bench::new("strip_options", &[("options", "30".into()), ("direction", "to_opener".into())]);
        bench.send(Instant::ZERO, [Tcp { flags: Flags::SYN, ..Tcp::default() }.frame()]);
        bench.replace("strip_options");
        bench.send(Instant::ZERO, [Tcp { options: mptcp_options(), ..Tcp::default() }.back().frame()]);
        assert_eq!((bench.counters(), bench.get("connections")), (&[1, 1, 1, 0][..], 1.into()));
        bench.set("connections_max", "1").unwrap();
        bench.send(Instant::ZERO, [Tcp { flags: Flags::SYN, src_port: 9, ..Tcp::default() }.frame()]);
        assert_eq!(bench.counters(), [2, 1, 1, 1]);
        assert!(bench.set("options", "x").unwrap_err().to_string().contains("is no kind of option"));
    }
}
