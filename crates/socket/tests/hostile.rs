//! Whatever bytes a program passes, and whatever a transport says, nothing panics and nothing is left behind.

use crate::graph;
use crate::language;
use crate::model;
use crate::small;

use bytes::Bytes;
use language::Host;
use proptest::prelude::*;
use std::net::{Ipv4Addr, SocketAddr};
use weft_core::{
    DataFlags, FlowId, Frame, IcmpError, IcmpErrorKind, InPort, Instant, Message, Op, StreamError, StreamEvent, StreamMessage, Vector,
};
use weft_socket::{abi, options};

/// Calls with arbitrary bytes.
#[derive(Debug, Clone)]
enum Call {
    Bind(usize, Vec<u8>),
    Connect(usize, Vec<u8>),
    Listen(usize, i32),
    Accept(usize),
    Shutdown(usize, i32),
    Set(usize, usize, Vec<u8>),
    SetAny(usize, i32, i32, Vec<u8>),
    Get(usize, usize, usize),
    Send(usize, Vec<u8>, i32, Option<Vec<u8>>, Vec<u8>),
    Receive(usize, usize, i32),
    Ioctl(usize, u64),
    Close(usize),
    Pass(u64),
}

fn address() -> impl Strategy<Value = Vec<u8>> {
    let near = (0u8..3, 0u8..4, any::<bool>()).prop_map(|(family, port, here)| {
        let ip = if here { [127, 0, 0, 1] } else { [0; 4] };
        let mut bytes = vec![family, 0, 0, port];
        bytes.extend(ip);
        bytes.resize(16, 0);
        bytes
    });
    prop_oneof![3 => near, 1 => prop::collection::vec(any::<u8>(), 0..140)]
}

fn call() -> impl Strategy<Value = Call> {
    let s = 0..6usize;
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        (s.clone(), address()).prop_map(|(s, address)| Call::Bind(s, address)),
        (s.clone(), address()).prop_map(|(s, address)| Call::Connect(s, address)),
        (s.clone(), any::<i32>()).prop_map(|(s, backlog)| Call::Listen(s, backlog)),
        s.clone().prop_map(Call::Accept),
        (s.clone(), -1..4i32).prop_map(|(s, how)| Call::Shutdown(s, how)),
        (s.clone(), any::<usize>(), bytes()).prop_map(|(s, row, value)| Call::Set(s, row, value)),
        (s.clone(), any::<i32>(), any::<i32>(), bytes()).prop_map(|(s, level, name, value)| Call::SetAny(s, level, name, value)),
        (s.clone(), any::<usize>(), 0..300usize).prop_map(|(s, row, length)| Call::Get(s, row, length)),
        (s.clone(), bytes(), any::<i32>(), prop::option::of(address()), bytes())
            .prop_map(|(s, data, flags, to, control)| Call::Send(s, data, flags, to, control)),
        (s.clone(), bytes(), Just(0), prop::option::of(address()), Just(Vec::new()))
            .prop_map(|(s, data, flags, to, control)| Call::Send(s, data, flags, to, control)),
        (s.clone(), 0..200usize, any::<i32>()).prop_map(|(s, length, flags)| Call::Receive(s, length, flags)),
        (s.clone(), prop_oneof![any::<u64>(), Just(abi::FIONREAD), Just(abi::SIOCATMARK)]).prop_map(|(s, request)| Call::Ioctl(s, request)),
        s.prop_map(Call::Close),
        (0..100u64).prop_map(Call::Pass),
    ]
}

/// Sockets of every kind, of IPv6 where the node has it.
fn open(model: &mut model::Model, s: usize) -> usize {
    let kinds = [(2, 1, 0), (2, 2, 0), (2, 3, 200), (2, 2, 1), (10, 3, 58), (10, 2, 58)];
    let (domain, kind, protocol) = kinds[s % kinds.len()];
    model.socket(domain, kind, protocol).or_else(|_| model.socket(2, 1, 0)).expect("a socket")
}

fn perform(model: &mut model::Model, sockets: &mut [usize], call: Call) {
    let row = |at: usize| options::rows().nth(at % options::rows().count()).expect("a row");
    match call {
        Call::Bind(s, address) => drop(model.bind(sockets[s], &address)),
        Call::Connect(s, address) => drop(model.connect(sockets[s], &address)),
        Call::Listen(s, backlog) => drop(model.listen(sockets[s], backlog)),
        Call::Accept(s) => {
            if let Ok((child, _)) = model.accept(sockets[s]) {
                let old = std::mem::replace(&mut sockets[5], child);
                model.close(old);
            }
        }
        Call::Shutdown(s, how) => drop(model.shutdown(sockets[s], how)),
        Call::Set(s, at, value) => drop(model.set(sockets[s], row(at).level, row(at).name, &value)),
        Call::SetAny(s, level, name, value) => drop(model.set(sockets[s], level, name, &value)),
        Call::Get(s, at, length) => {
            if let Ok(value) = model.get(sockets[s], row(at).level, row(at).name, length) {
                assert!(value.len() <= length, "{:?}", row(at));
            }
        }
        Call::Send(s, data, flags, to, control) => {
            if let Ok(sent) = model.send(sockets[s], &data, flags, to.as_deref(), &control) {
                assert!(sent <= data.len());
            }
        }
        Call::Receive(s, length, flags) => {
            if let Ok(got) = model.receive(sockets[s], length, flags) {
                assert!(got.data.len() <= length);
            }
        }
        Call::Ioctl(s, request) => drop(model.ioctl(sockets[s], request)),
        Call::Close(s) => {
            model.close(sockets[s]);
            sockets[s] = open(model, s);
        }
        Call::Pass(millis) => model.pass(std::time::Duration::from_millis(millis)),
    }
}

fn left(model: &mut model::Model, name: &str) -> Option<u64> {
    let target = weft_core::Selector::parse("sockets");
    let op = Op::Get { target, name: Some(name.to_owned()) };
    model.engine.control(Instant::ZERO, &Message { serial: 1, op }).result.ok()?["sockets"].as_u64()
}

fn run(mut model: model::Model, calls: Vec<Call>) -> Result<(), TestCaseError> {
    let mut sockets: Vec<usize> = (0..6).map(|s| open(&mut model, s)).collect();
    for call in calls {
        perform(&mut model, &mut sockets, call);
        for s in &sockets {
            model.poll(*s);
            let id = model.id(*s);
            model.face(|sockets, _| sockets.state(id)).expect("it is open");
        }
    }
    for s in sockets {
        model.close(s);
    }
    // Longer than TIME-WAIT, and than any connection goes on without its program.
    model.pass(std::time::Duration::from_secs(3600));
    prop_assert_eq!(left(&mut model, "sockets"), Some(0));
    prop_assert_eq!(left(&mut model, "flows"), Some(0));
    prop_assert_eq!(left(&mut model, "ports"), Some(0));
    prop_assert_eq!(left(&mut model, "memberships"), Some(0));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_call_panics_and_closing_everything_leaves_nothing(calls in prop::collection::vec(call(), 1..80)) {
        run(small::model(&[("sockets_max", 12)]), calls)?;
    }

    #[test]
    fn nor_on_the_graph_of_a_node(calls in prop::collection::vec(call(), 1..80)) {
        run(graph::model(weft_core::Mode::Inline), calls)?;
    }

    #[test]
    fn no_frame_panics(bytes in prop::collection::vec(any::<u8>(), 0..120), port in 0u8..5, header in any::<bool>(), kind in 0u8..3) {
        let mut model = small::model(&[]);
        let s = model.socket(2, 2, 0).expect("a socket");
        let bound = SocketAddr::from((Ipv4Addr::LOCALHOST, 4660));
        model.bind(s, &weft_socket::address::to_bytes(bound)).expect("bind");
        model.set(s, abi::SOL_IP, abi::IP_RECVERR, &[1]).expect("IP_RECVERR");
        let raw = model.socket(2, 3, 17).expect("a raw socket");
        let ping = model.socket(2, 2, 1).expect("an ICMP socket");
        model.set(raw, abi::SOL_IP, abi::IP_RECVERR, &[1]).expect("IP_RECVERR");
        model.set(ping, abi::SOL_IP, abi::IP_RECVERR, &[1]).expect("IP_RECVERR");
        let mut bytes = bytes;
        if header && bytes.len() > 28 {
            // A quoted packet of that socket, with anything behind.
            bytes[0] = 0x45;
            bytes[9] = 17;
            bytes[12..16].copy_from_slice(&[127, 0, 0, 1]);
            bytes[20..22].copy_from_slice(&4660u16.to_be_bytes());
        }
        let mut frame = Frame::ingress(&bytes);
        frame.meta_mut().protocol = weft_wire::Protocol(17);
        let kinds = [None, Some(IcmpErrorKind::PortUnreachable), Some(IcmpErrorKind::TooBig { mtu: 576 })];
        frame.meta_mut().error = kinds[usize::from(kind)].map(|kind| IcmpError { kind, from: Ipv4Addr::LOCALHOST.into() });
        let id = model.engine.graph().find("sockets").expect("the block");
        model.engine.with(Instant::ZERO, id, |block, cx| block.process(InPort(port), &mut Vector::new(vec![frame]), cx));
        for other in [raw, ping] {
            let _ = (model.receive(other, 200, abi::MSG_ERRQUEUE), model.receive(other, 200, 0));
        }
        let reported = model.receive(s, 200, abi::MSG_ERRQUEUE).is_ok();
        prop_assert_eq!(reported, header && bytes.len() > 28 && port == 2 && kind != 0);
    }

    #[test]
    fn no_message_of_a_transport_panics(steps in prop::collection::vec((0u8..11, 0u64..4, any::<u32>()), 0..60)) {
        let mut model = small::model(&[]);
        let sockets: Vec<usize> = (0..3).map(|_| model.socket(2, 1, 0).expect("a socket")).collect();
        let name = weft_socket::address::to_bytes(SocketAddr::from((Ipv4Addr::LOCALHOST, 5000)));
        model.bind(sockets[0], &name).expect("bind");
        model.listen(sockets[0], 3).expect("listen");
        let _ = model.connect(sockets[1], &name);
        let end = SocketAddr::from((Ipv4Addr::LOCALHOST, 5000));
        for (what, flow, number) in steps {
            let id = FlowId(if flow == 3 { FlowId::ACCEPTED | 1 } else { flow });
            let event = |event| StreamMessage::Event { flow: id, event: Box::new(event) };
            let message = match what {
                0 => event(StreamEvent::Established { local: end, remote: end }),
                1 => event(StreamEvent::Accepted { child: FlowId(u64::from(number)), local: end, remote: end, extended: false }),
                2 => event(StreamEvent::HalfClosed),
                3 => event(StreamEvent::Failed(StreamError::Reset)),
                4 => event(StreamEvent::Soft(StreamError::HostUnreachable)),
                5 => event(StreamEvent::Urgent { ahead: number }),
                6 => event(StreamEvent::TimeWait),
                7 => event(StreamEvent::Released),
                8 => StreamMessage::Credit { flow: id, bytes: number, enough: number },
                9 => StreamMessage::Reply { id: weft_core::CallId(0), flow: id, result: Err(StreamError::Invalid) },
                _ => StreamMessage::Data { flow: id, bytes: Bytes::from(vec![1; number as usize % 50]), mapping: number.into(), flags: DataFlags { urgent: number % 3 == 0, ..DataFlags::default() } },
            };
            let block = model.engine.graph().find("sockets").expect("the block");
            model.engine.with(Instant::ZERO, block, |block, cx| block.stream(InPort(0), message, cx));
            for s in &sockets {
                let _ = model.receive(*s, number as usize % 20, if number % 5 == 0 { abi::MSG_OOB } else { 0 });
                let _ = model.ioctl(*s, abi::FIONREAD);
                model.poll(*s);
            }
        }
    }
}
