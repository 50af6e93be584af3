//! A bench for one tool: source → tool → out of the graph.

use weft_core::*;

static END: Kind = Kind {
    name: "end",
    inputs: &[Port::optional("in", Carries::Any, "frames to let out")],
    outputs: &[Port::outside("out", Carries::Any, "frames that left")],
    ..Kind::EMPTY
};

struct End;

impl Block for End {
    fn kind(&self) -> &'static Kind {
        &END
    }
    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.forward_all(OutPort(0));
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// A graph of the tool (`tool`) and the end of the world behind it.
pub(crate) struct Bench {
    pub engine: Engine,
    pub(crate) tool: BlockId,
}

impl Bench {
    pub(crate) fn new(kind: &str, parameters: &[(&str, Value)]) -> Bench {
        Bench::build(kind, parameters, None)
    }

    /// With another block, which is bound to nothing.
    pub(crate) fn with(kind: &str, parameters: &[(&str, Value)], other: BlockRow) -> Bench {
        Bench::build(kind, parameters, Some(other))
    }

    fn build(kind: &str, parameters: &[(&str, Value)], other: Option<BlockRow>) -> Bench {
        let mut rows = crate::table::rows();
        rows.push(BlockRow { kind: &END, make: |_| Ok(Box::new(End)) });
        rows.extend(other);
        let (outputs, in_pairs) =
            rows.iter().find(|row| row.kind.name == kind).map_or((&[][..], false), |row| (row.kind.outputs, row.kind.in_pairs));
        let bind = |port: &Port| Op::Bind { from: control::End::parse(&format!("tool:{}", port.name)), to: control::End::parse("end:in") };
        let binds: Vec<Op> = outputs.iter().filter(|port| port.required || in_pairs).map(bind).collect();
        let mut engine = Engine::new(Mode::Inline, BlockTable::new(rows), Rng::for_name(1, "bench"));
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let add =
            |row: BlockRow| Op::Add { name: row.kind.name.to_owned(), kind: row.kind.name.to_owned(), parameters: Default::default() };
        let mut ops: Vec<Op> = other.map(add).into_iter().collect();
        ops.extend([
            Op::Add { name: "tool".to_owned(), kind: kind.to_owned(), parameters },
            Op::Add { name: "end".to_owned(), kind: "end".to_owned(), parameters: Default::default() },
        ]);
        ops.extend(binds);
        engine.control(Instant::ZERO, &Message { serial: 1, op: Op::All(ops) }).result.unwrap();
        let tool = engine.graph().find("tool").unwrap();
        Bench { engine, tool }
    }

    pub(crate) fn send(&mut self, now: Instant, frames: impl IntoIterator<Item = Frame>) {
        self.engine.inject(now, self.tool, InPort(0), frames);
    }

    pub(crate) fn taken(&mut self) -> Vec<Frame> {
        self.engine.take_outgoing().into_iter().map(|outgoing| outgoing.frame).collect()
    }

    /// Runs to the end; when each frame left, microseconds, and its first byte.
    pub(crate) fn left(&mut self) -> Vec<(u64, u8)> {
        let mut left = self.leaving();
        while let Some(next) = self.engine.next_timer() {
            self.engine.run(next);
            left.extend(self.leaving());
        }
        left
    }

    fn leaving(&mut self) -> Vec<(u64, u8)> {
        let now = self.engine.now().as_micros();
        self.taken().iter().map(|frame| (now, frame.head()[0])).collect()
    }

    pub(crate) fn counters(&self) -> &[u64] {
        self.engine.graph().block(self.tool).unwrap().counters()
    }

    pub(crate) fn drops(&self, reason: Reason) -> u64 {
        self.engine.graph().drops(self.tool).find(|(of, _)| *of == reason).map_or(0, |(_, count)| count)
    }

    pub(crate) fn get(&self, name: &str) -> Value {
        self.engine.graph().block(self.tool).unwrap().get(name, self.engine.now()).unwrap()
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<Value, ControlError> {
        let op = Op::Set { target: Selector::parse("tool"), name: name.to_owned(), value: value.into() };
        self.engine.control(self.engine.now(), &Message { serial: 2, op }).result
    }

    pub(crate) fn replace(&mut self, kind: &str) {
        let op = Op::Replace { name: "tool".to_owned(), kind: kind.to_owned(), parameters: Default::default(), drop_state: false };
        self.engine.control(self.engine.now(), &Message { serial: 3, op }).result.unwrap();
    }
}

/// Does the sender hear that a frame has left before it leaves a block of this kind, which holds it?
pub(crate) fn completes_at_once(kind: &str, parameters: &[(&str, Value)]) -> bool {
    let mut bench = Bench::new(kind, parameters);
    let mut frame = Frame::ingress(&[0; 60]);
    frame.meta_mut().completion = Some(Completion { block: bench.tool, token: 1, bytes: 60 });
    bench.send(Instant::ZERO, [frame]);
    while let Some(next) = bench.engine.next_timer() {
        bench.engine.run(next);
    }
    bench.taken()[0].meta().completion.is_none()
}

/// A frame that leaves, with this EtherType and payload.
pub(crate) fn ethernet(ether_type: u16, payload: &[u8]) -> Frame {
    let mut frame = Frame::egress();
    frame.extend(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame.extend(&ether_type.to_be_bytes());
    frame.extend(payload);
    frame
}

/// An IPv4 packet of `datagrams` UDP datagrams with `bytes` of payload each, uncut.
pub(crate) fn large_udp(datagrams: usize, bytes: usize) -> Frame {
    use weft_wire::{Protocol, checksum, ethernet::EtherType, ipv4, udp};
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut frame = Frame::egress();
    frame.append(vec![7u8; datagrams * bytes].into());
    let length = (udp::LEN + frame.len()) as u16;
    let sum = checksum::pseudo_v4(src, dst, Protocol::UDP.0, u32::from(length)).fold();
    udp::Header { src_port: 1, dst_port: 2, length, checksum: sum }.emit(frame.push(udp::LEN));
    let total_len = ipv4::HEADER_LEN as u16 + length;
    ipv4::Header { total_len, protocol: Protocol::UDP, src, dst, ..ipv4::Header::default() }.emit(frame.push(ipv4::HEADER_LEN));
    let network_at = frame.position();
    let meta = frame.meta_mut();
    meta.network_at = network_at;
    meta.transport_at = network_at + ipv4::HEADER_LEN as u16;
    meta.ether_type = EtherType::IPV4;
    meta.protocol = Protocol::UDP;
    meta.checksum = Checksum::Partial { offset: udp::CHECKSUM_OFFSET as u16 };
    meta.gso = Some(Gso { segment_bytes: bytes as u16, kind: GsoKind::Udp });
    frame
}

/// One block, and one that is replaced behind each frame, let the same frames go at the same times.
pub(crate) fn successors_go_on(kind: &str, parameters: &[(&str, Value)]) {
    let mut both = [(); 2].map(|()| Bench::new(kind, parameters));
    let mut left = [Vec::new(), Vec::new()];
    for at in 0..60u8 {
        for (bench, left) in both.iter_mut().zip(&mut left) {
            let now = Instant::from_millis(u64::from(at) / 3);
            bench.send(now, [Frame::ingress(&[at; 100])]);
            bench.engine.run(now);
            left.extend(bench.taken().iter().map(|frame| (now, frame.head()[0])));
        }
        both[0].replace(kind);
    }
    for (bench, left) in both.iter_mut().zip(&mut left) {
        while let Some(next) = bench.engine.next_timer() {
            bench.engine.run(next);
            left.extend(bench.taken().iter().map(|frame| (next, frame.head()[0])));
        }
    }
    assert!(!left[0].is_empty() && left[0] == left[1], "{left:?}");
    assert_eq!(both[0].counters(), both[1].counters());
}
