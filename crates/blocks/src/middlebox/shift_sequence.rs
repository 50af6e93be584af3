//! Gives connections other sequence numbers, as firewalls do that do not trust those that hosts choose.

use super::connections::{CONNECTIONS_MAX, Connections};
use super::options::change_sack;
use super::segment::{Segment, Step, each};
use crate::counted;
use std::any::Any;
use weft_core::*;
use weft_wire::tcp::{Flags, HEADER_LEN, Seq};

const OUT: OutPort = OutPort(0);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "shift_sequence",
    summary: "gives TCP connections other sequence numbers",
    doc: "Draws two numbers for a connection whose SYN it sees, one for each end. What an end sends has its number added to the sequence number; what it gets \
          has it taken off the acknowledgment number and SACK's blocks. So it must see both directions: in a router interfaces:upper -> ether:lower. A \
          connection whose SYN it did not see, or that finds no place in the table, keeps its numbers. ICMP errors stay as they are: what they quote has other \
          numbers, and hosts do not believe them, as behind many a firewall. IPv4 and IPv6. Large frames stay large. Drops nothing. An edge that has it has no \
          alter_payload and no inject_reset: each would see one direction as the other has made it. Its state is the connections: without them they break.\n\
          Example: insert shift_sequence interfaces:upper ether:lower",
    inputs: &[Port::required("in", Carries::Any, "Ethernet frames or IP packets, of both directions")],
    outputs: &[Port::required("out", Carries::Any, "the same, with other numbers")],
    parameters: &[CONNECTIONS_MAX],
    counters: &[
        Counter { name: "Passed", text: "segments passed on with their numbers" },
        Counter { name: "Shifted", text: "segments passed on with others" },
        Counter { name: "Connections", text: "connections for which numbers were drawn" },
        Counter { name: "NoPlace", text: "SYNs that found the table of connections full" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        Ok(Box::new(ShiftSequence {
            rng: config.rng.clone(),
            connections: Connections::new(config.u64("connections_max")),
            counters: [0; 4],
        }))
    },
};

/// The block.
#[derive(Debug)]
pub struct ShiftSequence {
    rng: Rng,
    /// What is added to the numbers of each end.
    connections: Connections<[u32; 2]>,
    counters: [u64; 4],
}

impl ShiftSequence {
    fn shift(&mut self, frame: &mut Frame, segment: &Segment, now: Instant) {
        let (begins, rng, drawn) = (segment.step() == Step::Syn, &mut self.rng, &mut self.counters[2]);
        let found = self.connections.follow(now, segment, || {
            begins.then(|| {
                *drawn += 1;
                [rng.u32(), rng.u32()]
            })
        });
        let Some(found) = found else {
            self.counters[0] += 1;
            self.counters[3] += u64::from(begins);
            return;
        };
        let (own, other) = (found.rest[found.side], found.rest[1 - found.side]);
        self.counters[1] += 1;
        let back = |seq: Seq| Seq(seq.0.wrapping_sub(other));
        segment.set_numbers(frame, Seq(segment.seq.0.wrapping_add(own)), back(segment.ack));
        if segment.flags.contains(Flags::ACK) && segment.payload > segment.transport + HEADER_LEN {
            segment.change_header(frame, |header| change_sack(&mut header[HEADER_LEN..], back, back));
        }
    }
}

impl Block for ShiftSequence {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        each(vector, |frame, segment| {
            self.shift(frame, segment, cx.now);
            Verdict::Forward(OUT)
        });
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "connections_max" => Some(self.connections.most().into()),
            "connections" => Some(self.connections.len().into()),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        if let ("connections_max", Some(most)) = (name, value.as_u64()) {
            self.connections.set_most(most);
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(counted::export_with(&KIND, &self.counters, now, |out| {
            out.put(&self.rng);
            self.connections.export(out);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let most = self.connections.most();
        let read = |from: &mut state::Reader<'_>| Ok((from.take()?, Connections::import(most, from)?));
        ((self.rng, self.connections), self.counters) = counted::import_with(&KIND, state, now, read)?;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Read, Tcp, read};
    use super::*;
    use crate::tool::testing::Bench;
    use weft_wire::tcp::{Options, Timestamps};

    fn one(bench: &mut Bench, tcp: &Tcp) -> Read {
        bench.send(Instant::ZERO, [tcp.frame()]);
        let [frame] = <[_; 1]>::try_from(bench.taken()).unwrap();
        assert_eq!(frame.meta().gso.is_some(), tcp.gso.is_some());
        read(frame)
    }

    #[test]
    fn each_direction_sees_what_fits_together() {
        for shape in Tcp::default().everywhere() {
            let mut bench = Bench::new("shift_sequence", &[]);
            // -> SYN seq 1000
            let syn = one(&mut bench, &Tcp { flags: Flags::SYN, ack: 0, ..shape.clone() });
            let there = syn.header.seq.0.wrapping_sub(1000);
            assert!(there != 0 && syn.header.ack == Seq(0), "no acknowledgment, nothing to change");
            // <- SYN|ACK seq 7000 ack
            let answer = Tcp { flags: Flags::SYN | Flags::ACK, seq: 7000, ack: syn.header.seq.0.wrapping_add(1), ..shape.clone() }.back();
            let syn_ack = one(&mut bench, &answer);
            let back = syn_ack.header.seq.0.wrapping_sub(7000);
            assert!(back != 0 && back != there && syn_ack.header.ack == Seq(1001));
            // -> 3 * 500 bytes in a large frame
            let data = Tcp { seq: 1001, ack: 7001u32.wrapping_add(back), payload: vec![9; 1500], gso: Some(500), ..shape.clone() };
            let data = one(&mut bench, &data);
            assert_eq!((data.header.seq, data.header.ack), (Seq(1001u32.wrapping_add(there)), Seq(7001)));
            assert_eq!(data.payload, [9; 1500]);
            // <- ack 1001, SACK 1501-2001
            let far = |number: u32| Seq(number.wrapping_add(there));
            let sack = [(far(1501), far(2001))].into_iter().collect();
            let options = Options { timestamps: Some(Timestamps { value: 1, echo: 2 }), sack, ..Options::default() };
            let lost = one(&mut bench, &Tcp { seq: 7001, ack: far(1001).0, options, ..shape.clone() }.back());
            assert_eq!((lost.header.ack, &lost.header.options.sack[..]), (Seq(1001), &[(Seq(1501), Seq(2001))][..]));
            bench.replace("shift_sequence");
            // -> SYN once more, to a successor
            assert_eq!(one(&mut bench, &Tcp { flags: Flags::SYN, ack: 0, ..shape.clone() }).header.seq, syn.header.seq);
            assert_eq!(bench.counters(), [0, 5, 1, 0]);
        }
    }

    #[test]
    fn connections_whose_syn_was_not_seen_or_found_no_place_keep_their_numbers() {
        let mut bench = Bench::new("shift_sequence", &[("connections_max", 1.into())]);
        assert_eq!(one(&mut bench, &Tcp::default()).header.seq, Seq(1000));
        let syn = Tcp { flags: Flags::SYN, ..Tcp::default() };
        assert_ne!(one(&mut bench, &syn).header.seq, Seq(1000));
        let other = Tcp { src_port: 9, ..syn };
        assert_eq!(one(&mut bench, &other).header.seq, Seq(1000));
        assert_eq!(one(&mut bench, &Tcp { flags: Flags::ACK, ..other }).header.seq, Seq(1000));
        assert_eq!((bench.counters(), bench.get("connections")), (&[3, 1, 1, 1][..], 1.into()));
    }
}
