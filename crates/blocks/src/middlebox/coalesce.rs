//! Joins adjacent TCP segments, as proxies and receiving network cards do that let go on what they have put together.

use super::segment::{Segment, Step};
use crate::tool::cut::cut_all;
use std::any::Any;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use weft_core::state::Damage;
use weft_core::*;
use weft_wire::tcp::{Flags, Seq};

const OUT: OutPort = OutPort(0);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "coalesce",
    summary: "joins adjacent TCP segments into larger ones, with the options of the first",
    doc: "Holds a segment with payload for `time` at most. One that continues it is added: the options of the first stay, those of the other are lost; \
          acknowledgment and window are the other's, and so are PSH and FIN. Anything else of the same direction of a connection lets go first what is held, and \
          so does a segment that would make it longer than bytes_max. Large frames are cut first. Segments with SYN, RST or URG, without payload, or with a \
          wrong checksum are not held. Of more than connections_max directions nothing is held. Stands in edges of Ethernet frames or IP packets, IPv4 and IPv6. \
          Drops nothing. What is held is its state, which a successor takes over.\n\
          Example: insert coalesce interfaces:upper ether:lower; set coalesce.time 5ms",
    inputs: &[Port::required("in", Carries::Any, "Ethernet frames or IP packets")],
    outputs: &[Port::required("out", Carries::Any, "the same, in fewer segments")],
    parameters: &[
        Parameter { name: "time", value: ParameterType::Duration, default: "\"1ms\"", live: true, doc: "longest that a segment is held" },
        Parameter {
            name: "bytes_max",
            value: ParameterType::Unsigned { min: 1, max: 65_000 },
            default: "1400",
            live: true,
            doc: "most payload of a segment that others were added to; more than the MTU has room for, and a router refuses it",
        },
        Parameter {
            name: "connections_max",
            value: ParameterType::Unsigned { min: 1, max: 1_000_000 },
            default: "1024",
            live: true,
            doc: "most segments that are held, one for each direction of a connection",
        },
    ],
    counters: &[
        Counter { name: "Passed", text: "segments passed on as they came" },
        Counter { name: "Joined", text: "segments that were added to another" },
        Counter { name: "NoPlace", text: "segments that passed at once, because so many were held already" },
        Counter { name: "BadChecksum", text: "segments that passed at once, because their checksum was wrong" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        Ok(Box::new(Coalesce {
            time: config.duration("time"),
            bytes_max: config.u64("bytes_max"),
            connections_max: config.u64("connections_max"),
            held: BTreeMap::new(),
            counters: [0; 4],
        }))
    },
};

/// One direction of a connection: sender, receiver.
type Key = (SocketAddr, SocketAddr);

/// A segment that waits for what follows it.
#[derive(Debug)]
struct Held {
    frame: Frame,
    /// The number that continues it.
    next: Seq,
    until: Instant,
    /// Segments that were added to it.
    joined: u64,
}

weft_core::fields!(struct Held { frame, next, until, joined });

/// The block.
#[derive(Debug)]
pub struct Coalesce {
    time: Duration,
    bytes_max: u64,
    connections_max: u64,
    held: BTreeMap<Key, Held>,
    counters: [u64; 4],
}

/// Can it be held, or added to another?
fn is_joinable(segment: &Segment) -> bool {
    let alone = segment.flags.intersects(Flags::RST | Flags::URG);
    segment.payload_bytes() > 0 && segment.step() == Step::Other && !alone
}

/// TOS or traffic class, by which congestion is told: it must be that of all.
fn class(frame: &Frame, segment: &Segment) -> Option<[u8; 2]> {
    let [first, second] = *frame.head().get(segment.network..)?.first_chunk()?;
    Some(if segment.source.is_ipv4() { [0, second] } else { [first, second & 0xf0] })
}

impl Coalesce {
    fn take(&mut self, mut frame: Frame, cx: &mut Context<'_>) {
        let Some(segment) = Segment::find(&mut frame) else { return cx.emit(OUT, frame) };
        let key = (segment.source, segment.destination);
        let joinable = is_joinable(&segment);
        let valid = joinable && offload::verify(&frame);
        if valid && self.join(&key, &mut frame, &segment, cx) {
            return;
        }
        if let Some(held) = self.held.remove(&key) {
            self.let_go(held, cx);
        }
        let ends = segment.flags.contains(Flags::FIN) || segment.payload_bytes() as u64 >= self.bytes_max;
        let full = self.held.len() as u64 >= self.connections_max;
        if !valid || ends || full {
            let at = if joinable && !valid { 3 } else { usize::from(full && valid && !ends) * 2 };
            self.counters[at] += 1;
            return cx.emit(OUT, frame);
        }
        frame.truncate(segment.end);
        self.held.insert(key, Held { frame, next: segment.next(), until: cx.now + self.time, joined: 0 });
    }

    /// Adds a segment to what is held, if it continues that.
    fn join(&mut self, key: &Key, frame: &mut Frame, segment: &Segment, cx: &mut Context<'_>) -> bool {
        let Some(held) = self.held.get_mut(key) else { return false };
        let Some(first) = Segment::find(&mut held.frame) else { return false };
        let bytes = held.frame.len() - first.payload + segment.payload_bytes();
        let same = held.frame.meta().interface == frame.meta().interface && class(&held.frame, &first) == class(frame, segment);
        if held.next != segment.seq || bytes as u64 > self.bytes_max || !same {
            return false;
        }
        segment.payload(frame).into_iter().for_each(|slice| held.frame.append(slice));
        first.take_news(&mut held.frame, segment, frame);
        // Of two frames only one can be told of later.
        frame.take_completion().into_iter().for_each(|completion| cx.complete(completion));
        first.seal(&mut held.frame);
        (held.next, held.joined) = (segment.next(), held.joined + 1);
        self.counters[1] += 1;
        if segment.flags.contains(Flags::FIN) || bytes as u64 == self.bytes_max {
            self.held.remove(key).into_iter().for_each(|held| self.let_go(held, cx));
        }
        true
    }

    fn let_go(&mut self, held: Held, cx: &mut Context<'_>) {
        self.counters[0] += u64::from(held.joined == 0);
        cx.emit(OUT, held.frame);
    }

    fn set_timer(&self, cx: &mut Context<'_>) {
        match self.held.values().map(|held| held.until).min() {
            Some(until) => cx.set_timer(0, until),
            None => cx.cancel_timer(0),
        }
    }
}

impl Block for Coalesce {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        let frames = cut_all(vector).unwrap_or_else(|| vector.drain().collect());
        for frame in frames {
            self.take(frame, cx);
        }
        self.set_timer(cx);
    }

    fn timer(&mut self, _token: u64, cx: &mut Context<'_>) {
        let now = cx.now;
        let mut due: Vec<(Instant, Key)> =
            self.held.iter().filter(|(_, held)| held.until <= now).map(|(key, held)| (held.until, *key)).collect();
        due.sort_unstable();
        for (_, key) in due {
            self.held.remove(&key).into_iter().for_each(|held| self.let_go(held, cx));
        }
        self.set_timer(cx);
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        Some(match name {
            "time" => (self.time.as_nanos() as u64).into(),
            "bytes_max" => self.bytes_max.into(),
            "connections_max" => self.connections_max.into(),
            "held_segments" => self.held.len().into(),
            _ => return None,
        })
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        match (name, value.as_u64()) {
            ("time", Some(nanos)) => self.time = Duration::from_nanos(nanos),
            ("bytes_max", Some(bytes)) => self.bytes_max = bytes,
            ("connections_max", Some(most)) => self.connections_max = most,
            _ => {}
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(State::written(&KIND, now, |out| {
            out.put(&self.held);
            out.put(&self.counters);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let (held, counters) = state.taken(&KIND, now, |from| Ok((from.take::<BTreeMap<Key, Held>>()?, from.take()?)))?;
        if held.len() as u64 > self.connections_max {
            return Err(Damage::new("more segments than are held").of(KIND.name));
        }
        (self.held, self.counters) = (held, counters);
        Ok(())
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.set_timer(cx);
    }

    fn give_up(&mut self) -> Vec<Frame> {
        std::mem::take(&mut self.held).into_values().map(|held| held.frame).collect()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Read, Tcp, mptcp_options, read};
    use super::*;
    use crate::tool::testing::Bench;

    fn data(shape: &Tcp, seq: u32, bytes: usize) -> Tcp {
        Tcp { seq, payload: (0..bytes).map(|at| (seq as usize + at) as u8).collect(), ..shape.clone() }
    }

    fn taken(bench: &mut Bench) -> Vec<Read> {
        bench.taken().into_iter().map(read).collect()
    }

    fn places(taken: &[Read]) -> Vec<(u32, usize)> {
        taken.iter().map(|read| (read.header.seq.0, read.payload.len())).collect()
    }

    #[test]
    fn what_continues_is_added_and_leaves_in_time_with_the_first_options() {
        for shape in Tcp::default().everywhere() {
            let mut bench = Bench::new("coalesce", &[]);
            let first = Tcp { options: mptcp_options(), ..data(&shape, 1000, 100) };
            bench.send(Instant::ZERO, [first.frame(), data(&shape, 1100, 200).frame()]);
            let mut last = data(&shape, 1300, 7);
            last.flags |= Flags::PSH;
            bench.send(Instant::from_micros(500), [last.frame()]);
            bench.replace("coalesce");
            assert_eq!((taken(&mut bench).len(), bench.get("held_segments")), (0, 1.into()));
            bench.engine.run(Instant::from_millis(1));
            let [joined] = <[_; 1]>::try_from(taken(&mut bench)).unwrap();
            assert_eq!(
                (joined.header.seq, joined.header.flags, joined.header.options),
                (Seq(1000), Flags::ACK | Flags::PSH, mptcp_options())
            );
            assert_eq!(joined.payload, data(&shape, 1000, 307).payload);
            assert_eq!((bench.counters(), bench.get("held_segments")), (&[0, 2, 0, 0][..], 0.into()));
        }
    }

    #[test]
    fn what_does_not_continue_lets_go_first_what_is_held() {
        let shape = Tcp::default();
        let mut bench = Bench::new("coalesce", &[("bytes_max", 300.into())]);
        let frames = [data(&shape, 1000, 100), data(&shape, 1200, 100), data(&shape, 1300, 201), Tcp { seq: 1501, ..shape.clone() }];
        bench.send(Instant::ZERO, frames.iter().map(Tcp::frame));
        assert_eq!(places(&taken(&mut bench)), [(1000, 100), (1200, 100), (1300, 201), (1501, 0)], "a hole, too long, and no payload");
        let end = Tcp { flags: Flags::ACK | Flags::FIN, ..data(&shape, 1550, 10) };
        bench.send(Instant::ZERO, [data(&shape, 1501, 49), end].iter().map(Tcp::frame));
        assert_eq!(places(&taken(&mut bench)), [(1501, 59)], "a FIN is not held");
        bench.send(Instant::ZERO, [data(&shape, 2000, 250), data(&shape, 2250, 50)].iter().map(Tcp::frame));
        assert_eq!(places(&taken(&mut bench)), [(2000, 300)], "nor what is full");
        let large = Tcp { gso: Some(100), ..data(&shape, 3000, 500) };
        bench.send(Instant::ZERO, [large.frame()]);
        bench.engine.run(Instant::from_millis(1));
        assert_eq!(places(&taken(&mut bench)), [(3000, 300), (3300, 200)], "large frames are cut, and joined otherwise");
    }

    #[test]
    fn what_is_held_is_bounded_and_damage_stays_alone() {
        let mut bench = Bench::new("coalesce", &[("connections_max", 1.into())]);
        let mut damaged = data(&Tcp::default(), 1100, 100).frame();
        damaged.pull_up(60).unwrap();
        damaged.head_mut()[55] ^= 1;
        damaged.meta_mut().checksum = Checksum::Unknown;
        let other = Tcp { src_port: 7, ..data(&Tcp::default(), 1, 9) };
        bench.send(Instant::ZERO, [data(&Tcp::default(), 1000, 100).frame(), other.frame(), damaged]);
        let left = bench.taken();
        assert_eq!(left.iter().map(offload::verify).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(bench.counters(), [1, 0, 1, 1]);
        bench.send(Instant::ZERO, [data(&Tcp::default(), 1000, 100).frame()]);
        assert_eq!(bench.engine.graph().block(bench.tool).unwrap().get("held_segments", Instant::ZERO), Some(1.into()));
    }
}
