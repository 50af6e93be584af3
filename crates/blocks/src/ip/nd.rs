//! Neighbour discovery for IPv6: resolution, unreachability detection, duplicate detection, router discovery, autoconfiguration.
//!
//! Packets that ip6 has routed come in through `upper` with `meta.next_hop`; they leave through `lower` with `meta.dst_mac`, groups by
//! rule, others by solicitation with the states of [`neighbour`]. Messages come in through `icmp`, their checksum
//! verified. What nd sends are whole packets that it builds itself.
//!
//! The table of addresses belongs to ip6, which nd asks (`Query::Addresses`) whenever it changes and tells what it found out: an address that
//! enters as tentative is detected (parts `own`), advertisements of routers become addresses and routes (part `routers`). Addresses that
//! enter as preferred, as those of a stack file do, are usable at once and not detected (`ip address add … nodad`).
//!
//! It refuses: messages with a hop limit below 255 or malformed options, all of them at once; link-layer addresses that are groups; to
//! answer for addresses that are tentative or duplicates; more than 64 routes of routers, 256 prefixes, or
//! `addresses_max` addresses an interface. It is no router: solicitations of routers are counted and not answered.
//!
//! Standards: RFC 4861 (host), RFC 4862, RFC 4191 (type C host), RFC 7527, RFC 2464, RFC 5942.
//! Parts: `message` (reading, checks, building), `neighbours` (solicitations, advertisements, redirects), `own`, `routers`.

mod message;
mod neighbours;
mod own;
mod routers;

use super::neighbour::cache::Nud;
use super::neighbour::{self, OUT_LOWER, Resolver, Step, TOKEN_OF_BLOCK, parameter, sort};
use crate::arguments::Arguments;
use crate::facts::FactsCache;
use message::Received;
use own::Own;
use routers::Routers;
use std::any::Any;
use std::net::{IpAddr, Ipv6Addr};
use weft_core::state::Damage;
use weft_core::table::{Family, LinkType};
use weft_core::*;
use weft_wire::ethernet::Mac;
use weft_wire::icmpv6::nd as wire;

const IN_UPPER: InPort = InPort(0);

/// The one timer that is not a neighbour's: detections, solicitations of routers, lifetimes.
const TOKEN_WORK: u64 = TOKEN_OF_BLOCK;

const fn flag(name: &'static str, default: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, value: ParameterType::Bool, default, live: true, doc }
}

const fn number(name: &'static str, min: u64, max: u64, default: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, value: ParameterType::Unsigned { min, max }, default, live: true, doc }
}

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "nd",
    summary: "resolves IPv6 next hops, detects duplicates, discovers routers, autoconfigures (neighbour discovery)",
    doc: "Gives each routed packet the link-layer address of its next hop: groups by rule, others by solicitation with Linux's neighbour \
          states. Packets wait while an address is resolved (at most pending_frames_max and pending_bytes_max a neighbour, the oldest go \
          first: neighbour-pending-full) and leave through `failed` as host unreachable when nobody answers. Answers solicitations for this \
          node's addresses, on the interface that has them. Detects duplicates of addresses that enter the table of addresses as tentative; \
          those that enter as preferred, as from a stack file, are used at once. Asks for routers once an interface has a link-local \
          address, and turns their advertisements into default routes (metric 1024; 1023 and 1025 for high and low preference, 16 more \
          while the router does not answer), on-link prefixes (metric 256) and addresses. Redirects are passed on to the owner of routes.\n\
          Standards: RFC 4861 (host), RFC 4862, RFC 4191 (type C host), RFC 7527.\n\
          Example: bind ip6:lower nd:upper",
    inputs: &[
        Port::required("upper", Carries::Link, "IPv6 packets routed to meta.next_hop"),
        Port::required("icmp", Carries::Transport, "received messages of neighbour discovery, from the ICMPv6 header on"),
    ],
    outputs: &[
        Port::required("lower", Carries::Link, "packets with dst_mac"),
        Port::optional("failed", Carries::Error, "packets whose next hop did not answer"),
    ],
    parameters: &[
        parameter::REACHABLE_TIME,
        parameter::RETRANSMIT_TIME,
        parameter::DELAY_TIME,
        parameter::STALE_TIME,
        parameter::SOLICITATIONS,
        parameter::PENDING_FRAMES_MAX,
        parameter::PENDING_BYTES_MAX,
        parameter::ENTRIES_MAX,
        parameter::COLLECT_ABOVE,
        number(
            "dad_transmits",
            0,
            600,
            "1",
            "solicitations that detect a duplicate of a tentative address; 0: it is usable at once (Linux dad_transmits)",
        ),
        Parameter {
            name: "solicitation_delay",
            value: ParameterType::Duration,
            default: "\"1s\"",
            live: true,
            doc: "longest random delay before the first solicitation of a detection, or for routers (Linux router_solicitation_delay)",
        },
        number(
            "router_solicitations",
            0,
            1000,
            "3",
            "solicitations for routers, 4 s apart, before there is none (RFC 4861 says 3; Linux goes on for ever, ever more rarely)",
        ),
        flag("accept_ra", "true", "advertisements of routers are listened to (Linux accept_ra)"),
        flag("accept_default_router", "true", "routers that advertise become default routers (Linux accept_ra_defrtr)"),
        flag("autoconfigure", "true", "advertised prefixes become addresses (Linux autoconf)"),
        flag("accept_redirects", "true", "redirects are listened to (Linux accept_redirects)"),
        flag(
            "router",
            "false",
            "this node counts as a router also where ip6 does not forward: its advertisements say so, and others' are not taken",
        ),
        number("addresses_max", 0, 256, "16", "addresses made of prefixes, an interface (Linux max_addresses)"),
        number(
            "route_information_bits_max",
            0,
            128,
            "0",
            "longest prefix of a route that a router may tell (Linux accept_ra_rt_info_max_plen)",
        ),
    ],
    procedures: &[
        Named {
            name: "add",
            doc: "interface, address, mac?, state? (PERMANENT), router?, mode? (new, change): sets a neighbour, for ever unless the state is another",
        },
        Named { name: "delete", doc: "interface, address: forgets a neighbour" },
        Named { name: "flush", doc: "interface?: forgets all neighbours but permanent ones" },
    ],
    alerts: &[
        Named { name: "duplicate", doc: "interface, address: another station has this tentative address; it stays unused" },
        Named { name: "conflict", doc: "interface, address, mac: another station advertises one of this node's addresses" },
        neighbour::NEIGHBOUR_ALERT,
    ],
    counters: &[
        neighbour::count::ROWS[0],
        neighbour::count::ROWS[1],
        neighbour::count::ROWS[2],
        neighbour::count::ROWS[3],
        neighbour::count::ROWS[4],
        neighbour::count::ROWS[5],
        Counter { name: "InRouterSolicits", text: "router solicitations received" },
        Counter { name: "InRouterAdvertisements", text: "router advertisements received" },
        Counter { name: "InNeighborSolicits", text: "neighbour solicitations received" },
        Counter { name: "InNeighborAdvertisements", text: "neighbour advertisements received" },
        Counter { name: "InRedirects", text: "redirects received" },
        Counter { name: "InErrors", text: "messages that failed one of the checks of RFC 4861" },
        Counter { name: "InIgnored", text: "advertisements and redirects that are not listened to, or not from the first hop" },
        Counter { name: "OutRouterSolicits", text: "router solicitations sent" },
        Counter { name: "OutNeighborSolicits", text: "neighbour solicitations sent" },
        Counter { name: "OutNeighborAdvertisements", text: "neighbour advertisements sent" },
        Counter { name: "Duplicates", text: "tentative addresses that another station has" },
        Counter { name: "Conflicts", text: "advertisements of another station for one of our addresses" },
        Counter { name: "LoopedBack", text: "own solicitations of a detection that came back" },
        Counter { name: "Refused", text: "routers, routes, prefixes and addresses of advertisements that found no room" },
        Counter { name: "OutRedirects", text: "redirects sent" },
    ],
    owns: &[Table::Neighbours(Family::V6)],
    asks: &[Table::Interfaces, Table::Addresses(Family::V6), Table::Routes(Family::V6)],
    state_version: 2,
    ..Kind::EMPTY
};

/// Positions in [`KIND`]'s counters, behind those of every resolving block.
mod count {
    use crate::ip::neighbour::count::BLOCK;
    pub const IN_ROUTER_SOLICITS: usize = BLOCK;
    pub const IN_ROUTER_ADVERTISEMENTS: usize = BLOCK + 1;
    pub const IN_NEIGHBOR_SOLICITS: usize = BLOCK + 2;
    pub const IN_NEIGHBOR_ADVERTISEMENTS: usize = BLOCK + 3;
    pub const IN_REDIRECTS: usize = BLOCK + 4;
    pub const IN_ERRORS: usize = BLOCK + 5;
    pub const IN_IGNORED: usize = BLOCK + 6;
    pub const OUT_ROUTER_SOLICITS: usize = BLOCK + 7;
    pub const OUT_NEIGHBOR_SOLICITS: usize = BLOCK + 8;
    pub const OUT_NEIGHBOR_ADVERTISEMENTS: usize = BLOCK + 9;
    pub const DUPLICATES: usize = BLOCK + 10;
    pub const CONFLICTS: usize = BLOCK + 11;
    pub const LOOPED_BACK: usize = BLOCK + 12;
    pub const REFUSED: usize = BLOCK + 13;
    pub const OUT_REDIRECTS: usize = BLOCK + 14;
    pub const ALL: usize = BLOCK + 15;
}

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |config| Ok(Box::new(Nd::new(config))) };

/// Parameters but those of the resolver.
#[derive(Clone, Debug)]
struct Settings {
    dad_transmits: u32,
    solicitation_delay: Duration,
    router_solicitations: u32,
    accept_ra: bool,
    accept_default_router: bool,
    autoconfigure: bool,
    accept_redirects: bool,
    router: bool,
    addresses_max: usize,
    route_information_bits_max: u8,
}

/// The block.
#[derive(Debug)]
pub struct Nd {
    name: String,
    settings: Settings,
    resolver: Resolver,
    facts: FactsCache,
    own: Own,
    routers: Routers,
    /// When [`TOKEN_WORK`] is due.
    work_at: Option<Instant>,
    /// State was taken over: timers are still to be set.
    resumed: bool,
}

impl Nd {
    /// An empty cache.
    pub fn new(config: &mut Config) -> Nd {
        let flag = |name: &str| config.value(name).as_bool().unwrap_or_default();
        let settings = Settings {
            dad_transmits: config.u64("dad_transmits") as u32,
            solicitation_delay: config.duration("solicitation_delay"),
            router_solicitations: config.u64("router_solicitations") as u32,
            accept_ra: flag("accept_ra"),
            accept_default_router: flag("accept_default_router"),
            autoconfigure: flag("autoconfigure"),
            accept_redirects: flag("accept_redirects"),
            router: flag("router"),
            addresses_max: config.u64("addresses_max") as usize,
            route_information_bits_max: config.u64("route_information_bits_max") as u8,
        };
        Nd {
            name: config.name.clone(),
            settings,
            resolver: Resolver::new(config, count::ALL),
            facts: FactsCache::default(),
            own: Own::default(),
            routers: Routers::default(),
            work_at: None,
            resumed: false,
        }
    }

    /// What becomes of a packet to send; an error names the neighbour at which it waits.
    fn resolve(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Result<Verdict, u32> {
        let meta = frame.meta();
        let next_hop = meta.next_hop.unwrap_or(meta.dst);
        let (interface, source) = (meta.interface, meta.src);
        let IpAddr::V6(address) = next_hop else { return Ok(Verdict::Drop(Reason::BadPacket)) };
        if let Some(mac) = self.resolver.same_as_last(interface, next_hop, cx.now) {
            frame.meta_mut().dst_mac = mac;
            return Ok(Verdict::Forward(OUT_LOWER));
        }
        self.resolver.counters[neighbour::count::LOOKUPS] += 1;
        let Some(facts) = self.facts.get(interface, cx) else { return Ok(Verdict::Drop(Reason::UnknownInterface)) };
        if facts.link != LinkType::Ethernet {
            return Ok(Verdict::Forward(OUT_LOWER));
        }
        // RFC 2464 §7 for groups.
        let step = match address.is_multicast() {
            true => Step::Send(Mac::from_multicast_v6(address)),
            false => self.resolver.resolve(interface, next_hop, source, cx),
        };
        match step {
            Step::Send(mac) => {
                frame.meta_mut().dst_mac = mac;
                Ok(Verdict::Forward(OUT_LOWER))
            }
            Step::Full => Ok(Verdict::Drop(Reason::TableFull)),
            Step::Wait(slot) => Err(slot),
            Step::Ask(slot) => {
                if let Some(solicitation) = self.resolver.solicitation(slot, cx) {
                    self.solicit(solicitation, cx);
                }
                Err(slot)
            }
        }
    }

    /// Sends a packet of this block's own, as if it had come in through `upper`.
    fn transmit(&mut self, mut frame: Frame, cx: &mut Context<'_>) {
        match self.resolve(&mut frame, cx) {
            Ok(Verdict::Forward(port)) => cx.emit(port, frame),
            Ok(Verdict::Drop(reason)) => cx.drop(frame, reason),
            Ok(Verdict::Consumed) => {}
            Err(slot) => self.resolver.wait(slot, frame, cx),
        }
    }

    /// A received message.
    fn receive(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        let _ = frame.pull_up(frame.len());
        let interface = frame.meta().interface;
        let Some(link) = self.facts.get(interface, cx).map(|facts| facts.link) else {
            return Verdict::Drop(Reason::UnknownInterface);
        };
        let Some(received) = Received::read(frame).filter(|_| link == LinkType::Ethernet) else {
            self.resolver.counters[count::IN_ERRORS] += 1;
            return Verdict::Drop(Reason::BadPacket);
        };
        let (counter, listened) = match received.message {
            wire::Message::RouterSolicitation => (count::IN_ROUTER_SOLICITS, true),
            wire::Message::RouterAdvertisement { .. } => (count::IN_ROUTER_ADVERTISEMENTS, self.router_advertised(&received, cx)),
            wire::Message::NeighborSolicitation { target } => {
                self.solicited(&received, target, cx);
                (count::IN_NEIGHBOR_SOLICITS, true)
            }
            wire::Message::NeighborAdvertisement { flags, target } => {
                self.advertised(&received, target, flags, cx);
                (count::IN_NEIGHBOR_ADVERTISEMENTS, true)
            }
            wire::Message::Redirect { target, destination } => (count::IN_REDIRECTS, self.redirected(&received, target, destination, cx)),
        };
        self.resolver.counters[counter] += 1;
        self.resolver.counters[count::IN_IGNORED] += u64::from(!listened);
        Verdict::Consumed
    }

    /// Sets the timer for whatever of this block's own work is due next.
    fn schedule(&mut self, cx: &mut Context<'_>) {
        let due = [self.own.due(), self.routers.due()].into_iter().flatten().min();
        if due == self.work_at {
            return;
        }
        self.work_at = due;
        match due {
            Some(at) => cx.set_timer(TOKEN_WORK, at),
            None => cx.cancel_timer(TOKEN_WORK),
        }
    }
}

fn parse_address(arguments: &Arguments<'_>, name: &str) -> Result<Option<IpAddr>, ControlError> {
    let Some(text) = arguments.text(name)? else { return Ok(None) };
    let read: Option<Ipv6Addr> = text.parse().ok();
    read.map(|ip| Some(ip.into())).ok_or_else(|| arguments.fail(format!("{name}: '{text}' is no IPv6 address such as \"2001:db8::1\"")))
}

impl Block for Nd {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        if port != IN_UPPER {
            vector.each(|frame| self.receive(frame, cx));
            return self.schedule(cx);
        }
        for (slot, frame) in sort(vector, |frame| self.resolve(frame, cx)) {
            self.resolver.wait(slot, frame, cx);
        }
    }

    fn timer(&mut self, token: u64, cx: &mut Context<'_>) {
        if token == TOKEN_WORK {
            self.work_at = None;
            self.run_detections(cx);
            self.run_routers(cx);
            return self.schedule(cx);
        }
        let slot = token as u32;
        if let Some(solicitation) = self.resolver.timer(slot, cx) {
            return self.solicit(solicitation, cx);
        }
        // RFC 4861 §7.3.3: when a router has failed, another is chosen.
        let failed = self.resolver.cache.get_mut(slot).filter(|entry| entry.state == Nud::Failed);
        if let Some((interface, IpAddr::V6(address))) = failed.map(|entry| (entry.interface, entry.address)) {
            self.router_fails(interface, address, cx);
        }
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        if std::mem::take(&mut self.resumed) {
            self.resolver.resume(cx);
        }
        self.look_at_addresses(cx);
        self.look_at_interfaces(cx);
        self.schedule(cx);
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        match table {
            Table::Interfaces => {
                self.look_at_interfaces(cx);
                for interface in self.resolver.cache.interfaces() {
                    self.facts.get(interface, cx);
                }
                let facts = &self.facts;
                self.resolver.forget_interfaces(|interface| facts.peek(interface).is_none_or(|facts| !facts.up), cx);
                self.resolver.forget_learnt(|interface| facts.peek(interface).is_some_and(|facts| !facts.carrier), cx);
            }
            Table::Addresses(Family::V6) => self.look_at_addresses(cx),
            _ => return,
        }
        self.schedule(cx);
    }

    fn row_changed(&mut self, table: Table, row: Row, cx: &mut Context<'_>) {
        match (table, row) {
            (_, Row::Interface(interface)) => {
                self.look_at_interface(interface, cx);
                match self.facts.get(interface, cx) {
                    Some(facts) if facts.up && facts.carrier => {}
                    Some(facts) if facts.up => self.resolver.forget_learnt(|other| other == interface, cx),
                    _ => self.resolver.forget_interfaces(|other| other == interface, cx),
                }
            }
            (Table::Addresses(Family::V6), Row::Address(interface, IpAddr::V6(ip))) => self.look_at_address((interface, ip), cx),
            _ => return,
        }
        self.schedule(cx);
    }

    fn change(&mut self, _table: Table, change: Change, cx: &mut Context<'_>) {
        match change {
            Change::Confirm { interface, neighbour } => self.resolver.confirm(interface, neighbour, cx),
            Change::SendRedirect {
                interface,
                source: IpAddr::V6(source),
                target: IpAddr::V6(target),
                destination: IpAddr::V6(destination),
                packet,
            } => self.send_redirect(interface, source, weft_wire::icmpv6::nd::Message::Redirect { target, destination }, &packet, cx),
            _ => {}
        }
    }

    fn query(&self, query: &Query, now: Instant) -> Answer {
        match query {
            Query::List(Table::Neighbours(Family::V6)) => Answer::List(self.resolver.cache.rows(now)),
            _ => Answer::None,
        }
    }

    fn get(&self, name: &str, now: Instant) -> Option<Value> {
        let settings = &self.settings;
        match name {
            "dad_transmits" => Some(settings.dad_transmits.into()),
            "solicitation_delay" => Some(Value::from(settings.solicitation_delay.as_nanos() as u64)),
            "router_solicitations" => Some(settings.router_solicitations.into()),
            "accept_ra" => Some(settings.accept_ra.into()),
            "accept_default_router" => Some(settings.accept_default_router.into()),
            "autoconfigure" => Some(settings.autoconfigure.into()),
            "accept_redirects" => Some(settings.accept_redirects.into()),
            "router" => Some(settings.router.into()),
            "addresses_max" => Some(settings.addresses_max.into()),
            "route_information_bits_max" => Some(settings.route_information_bits_max.into()),
            "routers" => Some(self.routers.rows(now)),
            _ => self.resolver.limits.get(name),
        }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        let settings = &mut self.settings;
        if let Some(flag) = value.as_bool() {
            match name {
                "accept_ra" => settings.accept_ra = flag,
                "accept_default_router" => settings.accept_default_router = flag,
                "autoconfigure" => settings.autoconfigure = flag,
                "accept_redirects" => settings.accept_redirects = flag,
                "router" => settings.router = flag,
                _ => {}
            }
        }
        let Some(number) = value.as_u64() else { return };
        match name {
            "dad_transmits" => settings.dad_transmits = number as u32,
            "solicitation_delay" => settings.solicitation_delay = Duration::from_nanos(number),
            "router_solicitations" => settings.router_solicitations = number as u32,
            "addresses_max" => settings.addresses_max = number as usize,
            "route_information_bits_max" => settings.route_information_bits_max = number as u8,
            _ => self.resolver.limits.set(name, number),
        }
    }

    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        match procedure {
            "add" => self.resolver.add(&self.name, arguments, parse_address, cx),
            "delete" => self.resolver.delete(&self.name, arguments, parse_address, cx),
            "flush" => self.resolver.flush(&self.name, arguments, cx),
            _ => Err(self.kind().no_procedure(&self.name, procedure)),
        }
    }

    fn counters(&self) -> &[u64] {
        &self.resolver.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        let Nd { name: _, settings: _, facts: _, work_at: _, resumed: _, resolver, own, routers } = self;
        Ok(State::written(&KIND, now, |out| {
            resolver.export(out);
            out.put(own);
            out.put(routers);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let (resolver, own, routers) =
            state.taken(&KIND, now, |from| Ok((self.resolver.read(from)?, from.take::<Own>()?, from.take::<Routers>()?)))?;
        if !routers.is_sound() {
            return Err(Damage::new("routers that cannot have told that").of(KIND.name));
        }
        self.resolver.take_over(resolver);
        (self.own, self.routers, self.resumed) = (own, routers, true);
        Ok(())
    }

    fn give_up(&mut self) -> Vec<Frame> {
        self.resolver.cache.give_up()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
