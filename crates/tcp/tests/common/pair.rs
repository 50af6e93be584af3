//! Two nodes joined by a wire with rate, delay, loss, reordering and duplication, in virtual time.

use super::{App, Node, OnWire, cut, encode};
use std::collections::BTreeMap;
use weft_core::*;

/// What the wire does in one direction.
#[derive(Clone, Debug)]
pub struct Wire {
    pub delay: Duration,
    /// Bits per second; 0: infinitely fast.
    pub rate: u64,
    /// Bytes that the queue in front of it holds.
    pub queue: u64,
    pub loss: f64,
    pub duplicate: f64,
    /// This share of segments takes `late` longer.
    pub reorder: f64,
    pub late: Duration,
    /// Mark ECN-capable segments when the queue is longer than this, bytes.
    pub mark_above: u64,
    pub free_at: Instant,
    pub lost: u64,
    pub carried: u64,
}

impl Default for Wire {
    fn default() -> Wire {
        Wire {
            delay: Duration::from_millis(10),
            rate: 0,
            queue: 1 << 40,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            late: Duration::ZERO,
            mark_above: u64::MAX,
            free_at: Instant::ZERO,
            lost: 0,
            carried: 0,
        }
    }
}

/// Which wire leads to an address.
fn wire_of(address: std::net::IpAddr) -> usize {
    match address {
        std::net::IpAddr::V4(v4) => v4.octets()[2].into(),
        std::net::IpAddr::V6(_) => 0,
    }
}

/// Says of a segment whether it is carried.
pub type Filter = Box<dyn FnMut(usize, &OnWire) -> bool>;

/// Changes a segment: its header and payload; its bytes are made anew.
pub type Alter = Box<dyn FnMut(usize, &mut OnWire)>;

pub struct Pair {
    pub nodes: [Node; 2],
    pub wires: [Wire; 2],
    /// Further wires: the one at 0 is for segments that have an address in 10.0.1.0/24, and so on.
    pub more: Vec<[Wire; 2]>,
    pub now: Instant,
    /// One for each direction: what is drawn for data does not depend on how many acknowledgments there are.
    rngs: [Rng; 2],
    /// Arrivals: time, order, direction.
    flying: BTreeMap<(Instant, u64), (usize, OnWire)>,
    sent: u64,
    /// Everything that entered a wire, when recording.
    pub log: Option<Vec<(Instant, usize, OnWire)>>,
    /// Decides about each segment beside chance: false loses it.
    pub filter: Option<Filter>,
    /// A box on the way: changes segments.
    pub alter: Option<Alter>,
}

impl Pair {
    pub fn new(seed: u64, wire: Wire, parameters: &[(&str, Value)]) -> Pair {
        Pair::of([Node::new("client", parameters), Node::new("server", parameters)], seed, wire)
    }
    pub fn of(nodes: [Node; 2], seed: u64, wire: Wire) -> Pair {
        let now = nodes[0].now;
        let rngs = ["there", "back"].map(|way| Rng::for_name(seed, way));
        Pair {
            nodes,
            wires: [wire.clone(), wire],
            more: Vec::new(),
            now,
            rngs,
            flying: BTreeMap::new(),
            sent: 0,
            log: None,
            filter: None,
            alter: None,
        }
    }
    pub fn app<R>(&mut self, node: usize, f: impl FnOnce(&mut App, &mut Context<'_>) -> R) -> R {
        self.nodes[node].app(f)
    }
    fn collect(&mut self) {
        for from in 0..2 {
            for frame in self.nodes[from].take_frames() {
                for on_wire in cut(&frame) {
                    self.transmit(from, on_wire);
                }
            }
        }
    }
    fn transmit(&mut self, from: usize, mut on_wire: OnWire) {
        if let Some(log) = &mut self.log {
            log.push((self.now, from, on_wire.clone()));
        }
        if let Some(alter) = &mut self.alter {
            alter(from, &mut on_wire);
            on_wire.bytes = encode(&on_wire.segment, &on_wire.payload, on_wire.src, on_wire.dst);
        }
        let kept = self.filter.as_mut().is_none_or(|filter| filter(from, &on_wire));
        let number = [on_wire.src.ip(), on_wire.dst.ip()].into_iter().map(wire_of).max().unwrap_or(0);
        let wire = if number == 0 { &mut self.wires[from] } else { &mut self.more[number - 1][from] };
        let rng = &mut self.rngs[from];
        wire.carried += 1;
        if !kept || rng.chance(wire.loss) {
            wire.lost += 1;
            return;
        }
        let size = on_wire.bytes.len() as u64 + 34;
        let start = wire.free_at.max(self.now);
        if wire.rate > 0 {
            let waiting = (start - self.now).as_nanos() as u64 * wire.rate / 8 / 1_000_000_000;
            if waiting + size > wire.queue {
                wire.lost += 1;
                return;
            }
            if waiting > wire.mark_above && on_wire.tos & 3 != 0 {
                on_wire.tos |= 3;
            }
            wire.free_at = start + Duration::from_nanos(size * 8 * 1_000_000_000 / wire.rate);
        }
        let mut at = if wire.rate > 0 { wire.free_at } else { self.now } + wire.delay;
        if rng.chance(wire.reorder) {
            at += wire.late;
        }
        let copies = 1 + usize::from(rng.chance(wire.duplicate));
        for _ in 0..copies {
            self.sent += 1;
            self.flying.insert((at, self.sent), (1 - from, on_wire.clone()));
        }
    }
    /// Runs until nothing happens any more, `until` is reached, or `done` says so. Returns whether it did.
    pub fn run(&mut self, until: Instant, mut done: impl FnMut(&mut Pair) -> bool) -> bool {
        loop {
            self.collect();
            if done(self) {
                return true;
            }
            let arrival = self.flying.first_key_value().map(|(key, _)| key.0);
            let timers = self.nodes.iter().filter_map(|node| node.engine.next_timer());
            let Some(next) = timers.chain(arrival).min() else { return false };
            if next > until {
                self.set_now(until);
                return false;
            }
            self.set_now(next.max(self.now));
            for node in &mut self.nodes {
                node.advance(self.now);
            }
            while let Some(entry) = self.flying.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let (to, on_wire) = entry.remove();
                self.nodes[to].inject(&on_wire);
            }
        }
    }
    fn set_now(&mut self, now: Instant) {
        self.now = now;
        for node in &mut self.nodes {
            node.now = now;
        }
    }
    pub fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        self.run(until, |_| false);
        self.set_now(until);
    }
    /// Client connects to port 80 of the server.
    pub fn connect(&mut self, options: StreamOptions) {
        self.nodes[1].listen(1, "10.0.0.2:80", 16, options.clone());
        self.nodes[0].connect(1, "10.0.0.1:1234", "10.0.0.2:80", options);
    }
    pub fn accepted(&mut self) -> Option<FlowId> {
        self.nodes[1].app(|app, _| app.accepted.first().copied())
    }
}
