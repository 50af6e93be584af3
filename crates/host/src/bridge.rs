//! A bridge of two interfaces with the impairments a wire has: rate, delay, loss and the rest. For tests on a bad network without netem.
//!
//! Each direction is a chain of weft's own blocks, of those that are wanted: blackhole → loss or gilbert → duplicate → corrupt → rate → delay →
//! reorder. Large frames are cut on entry, as a wire would see them. Both interfaces have Ethernet frames, or both have bare IP packets.

use crate::clock::Clock;
use crate::error::WorldError;
use crate::ground::Opened;
use crate::port::Port;
use crate::reactor::{Interest, Reactor};
use indexmap::IndexMap;
use rustix::fd::AsFd;
use std::io;
use std::time::Duration;
use weft_backend::{Backend, LinkType, OpenOptions};
use weft_core::control::{Message, Value};
use weft_core::engine::Engine;
use weft_core::offload::{self, CutChecksums};
use weft_core::{BlockId, End, Frame, InPort, InterfaceIndex, Mode, Op, Rng, Selector};
use weft_node::InterfaceSection;

const RECEIVE_FRAMES_MAX: usize = 256;

/// What the wire does to frames, the same in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Impairment {
    /// Bits per second.
    pub rate: Option<u64>,
    /// Bytes that may wait for the wire, per direction.
    pub queue_bytes: u64,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Mean length of a burst of losses, frames; none: each is lost for itself.
    pub loss_burst_frames: Option<f64>,
    /// Probability that a frame comes twice.
    pub duplicate: f64,
    /// Probability that a bit of a frame is flipped.
    pub corrupt: f64,
    /// Probability that a frame is overtaken by the next ones.
    pub reorder: f64,
    /// Longer IP packets are swallowed, bytes.
    pub blackhole_bytes: Option<u32>,
    /// Seed of the losses.
    pub seed: u64,
}

impl Impairment {
    /// The blocks of one direction, with their parameters. There is always a rate, if only one that nobody reaches.
    fn chain(&self) -> Vec<(&'static str, Vec<(&'static str, Value)>)> {
        let mut chain = Vec::new();
        if let Some(bytes) = self.blackhole_bytes {
            chain.push(("blackhole", vec![("mtu_bytes", bytes.into())]));
        }
        match self.loss_burst_frames {
            // Time in the bad state is p / (p + r), its mean length 1 / r.
            Some(burst) => {
                let r = 1.0 / burst.max(1.0);
                let p = (self.loss * r / (1.0 - self.loss)).min(1.0);
                chain.push(("gilbert", vec![("p", p.into()), ("r", r.into())]));
            }
            None => chain.push(("loss", vec![("probability", self.loss.into())])),
        }
        for (kind, probability) in [("duplicate", self.duplicate), ("corrupt", self.corrupt)] {
            if probability > 0.0 {
                chain.push((kind, vec![("probability", probability.into())]));
            }
        }
        let rate = self.rate.unwrap_or(1_000_000_000_000);
        chain.push(("rate", vec![("rate", rate.into()), ("queue_bytes_max", self.queue_bytes.into())]));
        chain.push(("delay", vec![("delay", (self.delay.as_nanos() as u64).into())]));
        if self.reorder > 0.0 {
            chain.push(("reorder", vec![("probability", self.reorder.into())]));
        }
        chain
    }
}

/// A running bridge.
pub struct Bridge {
    clock: Clock,
    engine: Engine,
    reactor: Reactor,
    ports: [Port; 2],
    /// Where frames from each port enter.
    entry: [(BlockId, InPort); 2],
    ready: Vec<(u64, u32)>,
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridge").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Bridge {
    /// Opens both interfaces and builds the two chains.
    pub fn open(urls: [&str; 2], impairment: &Impairment) -> Result<Bridge, WorldError> {
        let clock = Clock::default();
        let mut engine = Engine::new(Mode::Inline, weft_node::block_table(), Rng::for_name(impairment.seed, "bridge"));
        let fail = |interface: &str| {
            let interface = interface.to_owned();
            move |error: weft_core::ControlError| WorldError::Interface { interface, why: error.to_string() }
        };
        let mut ops = vec![add("interfaces", "interfaces", Vec::new())];
        for side in ["ab", "ba"] {
            let chain = impairment.chain();
            for (kind, parameters) in &chain {
                ops.push(add(&format!("{side}-{kind}"), kind, parameters.clone()));
            }
            for pair in chain.windows(2) {
                let [(from, _), (to, _)] = pair else { continue };
                ops.push(Op::Bind { from: End::parse(&format!("{side}-{from}:out")), to: End::parse(&format!("{side}-{to}:in")) });
            }
            if let Some((last, _)) = chain.last() {
                ops.push(Op::Bind { from: End::parse(&format!("{side}-{last}:out")), to: End::parse("interfaces:upper") });
            }
        }
        let plan = engine.prepare(&ops).map_err(fail("bridge"))?;
        engine.commit(plan);
        let reactor = Reactor::new().map_err(|why| WorldError::System { what: "epoll", why })?;
        let mut ports = Vec::new();
        for (index, url) in urls.into_iter().enumerate() {
            let backend = weft_backend::open(url, &OpenOptions { promiscuous: true, ..OpenOptions::default() })
                .map_err(|error| WorldError::Interface { interface: url.to_owned(), why: error.to_string() })?;
            let section = section(index, url);
            let number = add_interface(&mut engine, &clock, &section.name, &*backend).map_err(fail(url))?;
            let port = Port::new(number, &section, Opened { backend, keeper: None, notice: None }, None, None);
            if let Some(fd) = port.descriptor() {
                reactor.add(fd, index as u64, Interest::READ).map_err(|why| WorldError::System { what: "epoll", why })?;
            }
            ports.push(port);
        }
        let first = impairment.chain().first().map_or("rate", |(kind, _)| kind);
        let entry = ["ab", "ba"].map(|side| (engine.graph().find(&format!("{side}-{first}")).unwrap_or(BlockId(0)), InPort(0)));
        let Ok(ports) = <[Port; 2]>::try_from(ports) else { unreachable!("two urls make two ports") };
        if ports[0].link() != ports[1].link() {
            let why = format!("one of it and {} has Ethernet frames, the other bare IP packets: join two of one kind", urls[0]);
            return Err(WorldError::Interface { interface: urls[1].to_owned(), why });
        }
        Ok(Bridge { clock, engine, reactor, ports, entry, ready: Vec::new() })
    }

    /// A descriptor whose becoming readable ends [`Bridge::run`].
    pub fn wake_on(&self, fd: impl AsFd) -> io::Result<()> {
        self.reactor.add(fd, u64::MAX, Interest::READ)
    }

    /// Carries frames until woken.
    pub fn run(&mut self) -> io::Result<()> {
        loop {
            let now = self.clock.now();
            let wait = self.engine.next_timer().map(|at| at.since(now));
            let mut ready = std::mem::take(&mut self.ready);
            ready.clear();
            self.reactor.wait(wait, &mut ready)?;
            if ready.iter().any(|(token, _)| *token == u64::MAX) {
                return Ok(());
            }
            for (token, _) in &ready {
                self.receive(*token as usize);
            }
            self.ready = ready;
            self.engine.run(self.clock.now());
            self.transmit();
        }
    }

    fn receive(&mut self, index: usize) {
        let now = self.clock.now();
        let mut frames = Vec::new();
        let Some(port) = self.ports.get_mut(index) else { return };
        port.receive(now, &mut frames, RECEIVE_FRAMES_MAX);
        let other = self.ports[1 - index].index();
        let mut cut: Vec<Frame> = Vec::with_capacity(frames.len());
        for frame in frames {
            offload::cut(frame, CutChecksums::Complete, &mut cut);
        }
        for frame in &mut cut {
            offload::complete_checksum(frame);
            frame.meta_mut().interface = other;
        }
        let (block, port) = self.entry[index];
        self.engine.inject(now, block, port, cut);
    }

    fn transmit(&mut self) {
        for outgoing in self.engine.take_outgoing() {
            let index = outgoing.frame.meta().interface;
            if let Some(port) = self.ports.iter_mut().find(|port| port.index() == index) {
                port.enqueue(outgoing.frame);
            }
        }
        let now = self.clock.now();
        for (index, port) in self.ports.iter_mut().enumerate() {
            port.flush(now, &mut Vec::new());
            port.watch(&self.reactor, index as u64);
        }
    }
}

fn add(name: &str, kind: &str, parameters: Vec<(&str, Value)>) -> Op {
    let parameters: IndexMap<String, Value> = parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Op::Add { name: name.to_owned(), kind: kind.to_owned(), parameters }
}

fn section(index: usize, url: &str) -> InterfaceSection {
    InterfaceSection {
        name: ["a", "b"][index].to_owned(),
        backend: url.to_owned(),
        mac: None,
        mtu: None,
        link: None,
        group: 0,
        host_address: Vec::new(),
        offload: true,
        coalesce: false,
        dhcp: false,
    }
}

fn add_interface(engine: &mut Engine, clock: &Clock, name: &str, backend: &dyn Backend) -> Result<InterfaceIndex, weft_core::ControlError> {
    let features = backend.features();
    let link = match features.link {
        LinkType::Ethernet => "ethernet",
        LinkType::Ip => "raw",
    };
    let arguments = serde_json::json!({"name": name, "mac": features.mac.to_string(), "mtu": features.mtu, "link": link});
    let op = Op::Exec { target: Selector::parse("interfaces"), procedure: "add".to_owned(), arguments };
    let value = engine.control(clock.now(), &Message { serial: 0, op }).result?;
    Ok(InterfaceIndex(value["interfaces"]["index"].as_u64().unwrap_or(0) as u32))
}
