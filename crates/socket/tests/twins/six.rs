//! A small IPv6 below the transports: a host with nothing but `::1`, for tests of the sockets. What is sent to `::1` comes back at the same
//! instant; everything else has no route. Datagrams that nobody wants come back as errors about themselves.

use std::any::Any;
use std::net::{IpAddr, Ipv6Addr};
use weft_core::table::{AddressKind, Family, RouteAnswer, RouteKind};
use weft_core::*;
use weft_wire::Protocol;

static KIND: Kind = Kind {
    name: "six",
    inputs: &[Port::required("upper", Carries::Transport, ""), Port::required("unreachable", Carries::Error, "")],
    outputs: &[
        Port::required("tcp", Carries::Transport, ""),
        Port::required("udp", Carries::Transport, ""),
        Port::required("error", Carries::Error, ""),
    ],
    owns: &[Table::Routes(Family::V6), Table::Addresses(Family::V6)],
    ..Kind::EMPTY
};
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |_| Ok(Box::new(Six)) };

const HEADER_BYTES: usize = 40;

#[derive(Debug)]
struct Six;

/// Gives the packet a header, so that it can be quoted, and takes it off again.
fn loop_back(frame: &mut Frame) -> Verdict {
    let meta = frame.meta().clone();
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (meta.src, meta.dst) else { return Verdict::Drop(Reason::NoRoute) };
    let src = if src.is_unspecified() { Ipv6Addr::LOCALHOST } else { src };
    let ttl = if meta.ttl == 0 { 64 } else { meta.ttl };
    let transport_at = frame.position();
    let header = frame.push(HEADER_BYTES);
    header.fill(0);
    header[0] = 0x60;
    (header[6], header[7]) = (meta.protocol.0, ttl);
    header[8..24].copy_from_slice(&src.octets());
    header[24..40].copy_from_slice(&dst.octets());
    let at = frame.position();
    let _ = frame.pull(HEADER_BYTES);
    let meta = frame.meta_mut();
    (meta.direction, meta.src, meta.ttl) = (Direction::Ingress, src.into(), ttl);
    (meta.network_at, meta.transport_at, meta.interface) = (at, transport_at, InterfaceIndex::LOOPBACK);
    match meta.protocol {
        Protocol::TCP => Verdict::Forward(OutPort(0)),
        Protocol::UDP => Verdict::Forward(OutPort(1)),
        _ => Verdict::Drop(Reason::NoRoute),
    }
}

impl Block for Six {
    fn kind(&self) -> &'static Kind {
        &KIND
    }
    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        vector.each(|frame| {
            if port == InPort(1) {
                return Verdict::Forward(OutPort(2));
            }
            // Like the loopback block: the packet has left.
            if let Some(completion) = frame.take_completion() {
                cx.complete(completion);
            }
            loop_back(frame)
        });
    }
    fn query(&self, query: &Query, _: Instant) -> Answer {
        match query {
            Query::Route { destination, source, interface } => {
                let here = *destination == IpAddr::V6(Ipv6Addr::LOCALHOST);
                let through = interface.is_none_or(|interface| interface == InterfaceIndex::LOOPBACK);
                if !here || !through {
                    return Answer::None;
                }
                Answer::Route(RouteAnswer {
                    kind: RouteKind::Local,
                    interface: InterfaceIndex::LOOPBACK,
                    source: source.unwrap_or(IpAddr::V6(Ipv6Addr::LOCALHOST)),
                    next_hop: *destination,
                    mtu: 65536,
                    gso_max_bytes: 65536,
                    generation: 1,
                })
            }
            Query::AddressKind(ip) => Answer::AddressKind(match ip {
                IpAddr::V6(ip) if ip.is_unspecified() => AddressKind::Unspecified,
                IpAddr::V6(ip) if ip.is_loopback() => AddressKind::Local(InterfaceIndex::LOOPBACK),
                ip if ip.is_multicast() => AddressKind::Multicast,
                _ => AddressKind::Other,
            }),
            _ => Answer::None,
        }
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
