//! DHCP for IPv4, the client's side: interfaces get their address, their routes and what else a server tells of their network.
//!
//! Received packets come in through `lower`, before ip4 sees them: a server may answer to the very address that it offers, which is nobody's yet. What is for the
//! client's port of an interface that is served ends here; everything else goes on through `upper` as it came. What it sends are whole packets
//! that leave through `out`, as from a host without addresses. Each interface has a [`client`] of its own.
//!
//! Addresses and routes belong to ip4, which is told of them ([`Change`]) and ends their lifetimes. A lease that is renewed changes only what is another.
//!
//! It refuses: messages with malformed options; leases without an end or a server, of no time, or of an address that no host can have; routers and name
//! servers that are no hosts, domains with anything but letters, digits, dots, hyphens and underscores; more than 32 routes and 8 name servers of a lease, and
//! more than 64 interfaces. It does not look whether somebody else has the address (RFC 5227), and therefore declines none.
//!
//! Standards: RFC 2131 (client), RFC 2132, RFC 3396, RFC 3442, RFC 6842.
//! Parts: `client` (when to say what), `control` (parameters and procedures), `lease` (what a server grants), `message` (packets), `served` (what the block holds).

mod client;
mod control;
mod lease;
mod message;
mod served;

use client::{Client, Phase, Step};
use lease::Lease;
pub use message::is_host_name;
use message::{Outgoing, Received, is_from_server, take_message};
pub use served::Dhcp;
use served::{INTERFACES_MAX, Served, count};
use std::any::Any;
use std::collections::BTreeMap;
use std::net::IpAddr;
use weft_core::state::Damage;
use weft_core::table::{Family, Interface, LinkType, Which};
use weft_core::*;
use weft_wire::dhcp::MessageType;

const OUT_UPPER: OutPort = OutPort(0);
const OUT_OUT: OutPort = OutPort(1);
const TOKEN: u64 = 0;
/// Most things that one client does at one time: to lose a lease, to ask for another, and to find out that it waits.
const STEPS_MAX: usize = 4;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "dhcp",
    summary: "gets addresses, routes and name servers of IPv4 from a server (DHCP client)",
    doc: "Asks for a lease on each of its interfaces as soon as that is up, takes the first offer, and renews it: of its server from the half of \
          its time on, of every server from 7/8 on, or when the server says. The address enters ip4's table with its lifetime, the routes \
          with protocol dhcp and metric 1000 + the interface's number, as dhcpcd has them: those of option 121, else the first router of \
          option 3. A smaller MTU is set on the interface. Unanswered questions are repeated after 4, 8, 16, 32 and 64 s, each a second more or less. An \
          interface that comes up again asks whether its lease still holds. Stands between ether and ip4, and sends through arp. Interfaces \
          without Ethernet are not served. Nobody is asked whether the address is in use (no RFC 5227, no DHCPDECLINE).\n\
          Standards: RFC 2131 (client), RFC 2132, RFC 3396, RFC 3442, RFC 6842.\n\
          Example: bind dhcp:upper ip4:lower",
    inputs: &[Port::required("lower", Carries::Link, "received IPv4 packets")],
    outputs: &[
        Port::required("upper", Carries::Link, "received IPv4 packets that are not for the client"),
        Port::required("out", Carries::Link, "whole packets with messages, routed"),
    ],
    parameters: &[
        Parameter {
            name: "interfaces",
            value: ParameterType::List,
            default: "[]",
            live: true,
            doc: "names of the interfaces that are served, 64 at most; others pass. One that is taken out of the list gives its lease back",
        },
        Parameter {
            name: "host_name",
            value: ParameterType::Text,
            default: "\"\"",
            live: true,
            doc: "what servers are told as the name of this host: one label of letters, digits and hyphens; \"\": nothing",
        },
    ],
    procedures: &[
        Named {
            name: "leases",
            doc: "lists each interface with its state (RFC 2131's words) and, if it has a lease, address, server, router, name_servers, domain and seconds left",
        },
        Named { name: "renew", doc: "interface? (all): asks for more time, or for a lease where there is none" },
        Named { name: "release", doc: "interface? (all): gives leases back; nothing is asked for until `renew`" },
    ],
    alerts: &[
        Named {
            name: "bound",
            doc: "interface, index, address, server, router, name_servers, domain, seconds: there is a lease, or it is renewed",
        },
        Named { name: "lost", doc: "interface, index, address, why: a lease is over" },
    ],
    counters: &[
        Counter { name: "OutDiscovers", text: "questions for servers sent" },
        Counter { name: "OutRequests", text: "requests for a lease, or for more time, sent" },
        Counter { name: "OutReleases", text: "leases given back" },
        Counter { name: "InOffers", text: "offers taken" },
        Counter { name: "InAcks", text: "leases granted or renewed" },
        Counter { name: "InNaks", text: "requests refused by their server" },
        Counter { name: "InErrors", text: "datagrams to the client's port that are damaged or no message of a server" },
        Counter { name: "InIgnored", text: "messages for other stations, of other transactions, or that nothing waits for" },
        Counter {
            name: "InRefused",
            text: "offers, leases and refusals that were not taken: impossible, not asked for, or of another server",
        },
        Counter { name: "Lost", text: "leases that ended or were refused" },
        Counter { name: "InterfacesRefused", text: "times that an interface was not served: it has no Ethernet, or 64 others are" },
        Counter { name: "MtuRefused", text: "MTUs of leases that the interface did not take" },
    ],
    asks: &[Table::Interfaces, Table::Addresses(Family::V4), Table::Routes(Family::V4)],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let (interfaces, host_name) = (config.value("interfaces"), config.value("host_name"));
        control::check(&config.name, "interfaces", &interfaces)?;
        control::check(&config.name, "host_name", &host_name)?;
        Ok(Box::new(Dhcp {
            name: config.name.clone(),
            interfaces: control::names(&interfaces),
            host_name: host_name.as_str().unwrap_or_default().to_owned(),
            clients: BTreeMap::new(),
            counters: [0; count::ALL],
            due: None,
            orders: 0,
        }))
    },
};

impl Dhcp {
    /// A packet that came in.
    fn receive(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        let interface = frame.meta().interface;
        if !self.clients.contains_key(&interface) || !is_from_server(frame) {
            return Verdict::Forward(OUT_UPPER);
        }
        if let Err(reason) = take_message(frame) {
            self.counters[count::IN_ERRORS] += 1;
            return Verdict::Drop(reason);
        }
        let _ = frame.pull_up(frame.len());
        let Some(received) = Received::read(frame.head()) else {
            self.counters[count::IN_ERRORS] += 1;
            return Verdict::Drop(Reason::BadPacket);
        };
        self.answer(interface, &received, cx);
        Verdict::Consumed
    }

    fn answer(&mut self, interface: InterfaceIndex, received: &Received<'_>, cx: &mut Context<'_>) {
        let Some(served) = self.clients.get_mut(&interface) else { return };
        let step = match received.is_for(weft_wire::ethernet::Mac(served.mac)) {
            true => served.client.received(received, cx.now, cx.rng),
            false => Step::Ignored,
        };
        match (&step, received.kind) {
            (Step::Ignored | Step::Refused, _) => {}
            (_, MessageType::Offer) => self.counters[count::IN_OFFERS] += 1,
            (_, MessageType::Ack) => self.counters[count::IN_ACKS] += 1,
            (..) => self.counters[count::IN_NAKS] += 1,
        }
        self.follow(interface, step, cx);
        self.run(interface, cx);
    }

    /// Does what is due on an interface.
    fn run(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) {
        for _ in 0..STEPS_MAX {
            let Some(served) = self.clients.get_mut(&interface).filter(|served| served.client.due().is_some_and(|due| due <= cx.now))
            else {
                return;
            };
            let step = served.client.run(cx.now, cx.rng);
            self.follow(interface, step, cx);
        }
    }

    fn follow(&mut self, interface: InterfaceIndex, step: Step, cx: &mut Context<'_>) {
        match step {
            Step::Nothing => {}
            Step::Ignored => self.counters[count::IN_IGNORED] += 1,
            Step::Refused => self.counters[count::IN_REFUSED] += 1,
            Step::Send(outgoing) => self.send(interface, &outgoing, cx),
            Step::Bound(before) => self.configure(interface, before, cx),
            Step::Lost(lease, why) => self.lose(interface, &lease, why, cx),
        }
    }

    fn send(&mut self, interface: InterfaceIndex, outgoing: &Outgoing, cx: &mut Context<'_>) {
        let Some(served) = self.clients.get(&interface) else { return };
        let counter = match outgoing.kind {
            MessageType::Discover => count::OUT_DISCOVERS,
            MessageType::Release => count::OUT_RELEASES,
            _ => count::OUT_REQUESTS,
        };
        self.counters[counter] += 1;
        let frame = outgoing.packet(interface, weft_wire::ethernet::Mac(served.mac), served.mtu, &self.host_name, cx);
        cx.emit(OUT_OUT, frame);
    }

    /// Gives ip4 the lease's address and routes, and takes from it what an earlier one had and this has not.
    fn configure(&mut self, interface: InterfaceIndex, before: Option<Lease>, cx: &mut Context<'_>) {
        let Some(served) = self.clients.get(&interface) else { return };
        let Some(lease) = &served.client.lease else { return };
        if let Some(before) = &before {
            if (before.address, before.prefix_bits) != (lease.address, lease.prefix_bits) {
                withdraw(interface, before, cx);
            } else {
                let now: Vec<_> = lease.routes_on(interface).collect();
                let gone = before.routes_on(interface).filter(|route| !now.contains(route));
                gone.for_each(|route| cx.tell(Table::Routes(Family::V4), Change::DeleteRoute(route)));
            }
        }
        cx.tell(Table::Addresses(Family::V4), Change::AddAddress(lease.address_on(interface)));
        for route in lease.routes_on(interface) {
            cx.tell(Table::Routes(Family::V4), Change::AddRoute(route));
        }
        let mut told = lease.row(cx.now);
        (told["interface"], told["index"]) = (served.name.as_str().into(), interface.0.into());
        cx.alert("bound", told);
        // What Debian's dhclient does; a larger one is beyond what the interface can send.
        if let Some(mtu) = lease.mtu.map(u32::from).filter(|mtu| *mtu < served.mtu) {
            let target = Selector::Name("interfaces".to_owned());
            let arguments = serde_json::json!({"name": served.name, "mtu": mtu});
            self.orders += 1;
            if cx.order(self.orders, Op::Exec { target, procedure: "set".to_owned(), arguments }).is_err() {
                self.counters[count::MTU_REFUSED] += 1;
            }
        }
    }

    fn lose(&mut self, interface: InterfaceIndex, lease: &Lease, why: &str, cx: &mut Context<'_>) {
        self.counters[count::LOST] += 1;
        withdraw(interface, lease, cx);
        let name = self.clients.get(&interface).map(|served| served.name.as_str());
        cx.alert("lost", serde_json::json!({"interface": name, "index": interface.0, "address": lease.address.to_string(), "why": why}));
    }

    /// Looks which interfaces there are.
    fn look_at_interfaces(&mut self, cx: &mut Context<'_>) {
        let Answer::Interfaces(rows) = cx.ask(Table::Interfaces, &Query::Interfaces(Which::All)) else { return };
        self.clients.retain(|index, _| rows.iter().any(|row| row.interface.index == *index));
        for row in rows {
            self.look_at(&row.interface, cx);
        }
    }

    /// One interface came, or has changed.
    fn look_at(&mut self, interface: &Interface, cx: &mut Context<'_>) {
        let wanted = self.interfaces.contains(&interface.name);
        if !wanted {
            if self.clients.contains_key(&interface.index) {
                self.release(interface.index, cx);
                self.clients.remove(&interface.index);
            }
            return;
        }
        let known = self.clients.contains_key(&interface.index);
        if interface.link != LinkType::Ethernet || (!known && self.clients.len() >= INTERFACES_MAX) {
            self.counters[count::INTERFACES_REFUSED] += 1;
            return;
        }
        let new = || Served { name: String::new(), mac: [0; 6], mtu: 0, client: Client::default() };
        let served = self.clients.entry(interface.index).or_insert_with(new);
        (served.mac, served.mtu) = (interface.mac, interface.mtu);
        served.name.clone_from(&interface.name);
        match (interface.up, served.client.phase) {
            (true, Phase::Down) => {
                served.client.begin(cx.now, cx.rng);
                // Until a server says otherwise it holds: what went with the interface comes again.
                if served.client.lease.is_some() {
                    self.configure(interface.index, None, cx);
                }
            }
            (false, Phase::Down) | (true, _) => {}
            (false, _) => served.client.stop(),
        }
        self.run(interface.index, cx);
    }

    fn schedule(&mut self, cx: &mut Context<'_>) {
        let due = self.clients.values().filter_map(|served| served.client.due()).min();
        if due != self.due {
            self.due = due;
            match due {
                Some(at) => cx.set_timer(TOKEN, at),
                None => cx.cancel_timer(TOKEN),
            }
        }
    }
}

/// Takes from ip4 what a lease gave it. An address whose time is over may be gone already, with its routes.
fn withdraw(interface: InterfaceIndex, lease: &Lease, cx: &mut Context<'_>) {
    let address = IpAddr::V4(lease.address);
    let there = cx.ask(Table::Addresses(Family::V4), &Query::Address(interface, address));
    if !matches!(there, Answer::Addresses(list) if !list.is_empty()) {
        return;
    }
    for route in lease.routes_on(interface) {
        cx.tell(Table::Routes(Family::V4), Change::DeleteRoute(route));
    }
    cx.tell(Table::Addresses(Family::V4), Change::DeleteAddress { interface, address });
}

impl Block for Dhcp {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        if self.clients.is_empty() {
            return vector.forward_all(OUT_UPPER);
        }
        let mut heard = false;
        vector.each(|frame| {
            let verdict = self.receive(frame, cx);
            heard |= verdict == Verdict::Consumed;
            verdict
        });
        if heard {
            self.schedule(cx);
        }
    }

    fn timer(&mut self, _token: u64, cx: &mut Context<'_>) {
        self.due = None;
        let all: Vec<InterfaceIndex> = self.clients.keys().copied().collect();
        for interface in all {
            self.run(interface, cx);
        }
        self.schedule(cx);
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.look_at_interfaces(cx);
        self.schedule(cx);
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Interfaces {
            self.look_at_interfaces(cx);
            self.schedule(cx);
        }
    }

    fn row_changed(&mut self, _table: Table, row: Row, cx: &mut Context<'_>) {
        let Row::Interface(index) = row else { return };
        match cx.ask(Table::Interfaces, &Query::Interface(index)) {
            Answer::Interface(interface) => self.look_at(&interface, cx),
            // Its address and routes went with it.
            _ => drop(self.clients.remove(&index)),
        }
        self.schedule(cx);
    }

    fn answered(&mut self, _serial: u64, result: Result<Value, ControlError>, _cx: &mut Context<'_>) {
        self.counters[count::MTU_REFUSED] += u64::from(result.is_err());
    }

    fn get(&self, name: &str, now: Instant) -> Option<Value> {
        self.shown(name, now)
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        control::check(&self.name, name, value)
    }

    fn set(&mut self, name: &str, value: Value, cx: &mut Context<'_>) {
        self.change(name, &value, cx);
    }

    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        self.ordered(procedure, arguments, cx)
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        let Dhcp { name: _, interfaces: _, host_name: _, due: _, clients, counters, orders } = self;
        Ok(crate::counted::export_with(&KIND, counters, now, |out| {
            out.put(clients);
            out.put(orders);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let ((clients, orders), counters) =
            crate::counted::import_with(&KIND, state, now, |from| Ok((from.take::<BTreeMap<InterfaceIndex, Served>>()?, from.take()?)))?;
        if clients.len() > INTERFACES_MAX || !clients.values().all(|served| served.client.is_sound()) {
            return Err(Damage::new("leases that no server can have granted").of(KIND.name));
        }
        (self.clients, self.orders, self.counters) = (clients, orders, counters);
        Ok(())
    }

    /// Others may have the addresses by now: servers are asked, as after a boot.
    fn went_back(&mut self, cx: &mut Context<'_>) {
        for served in self.clients.values_mut().filter(|served| !matches!(served.client.phase, Phase::Down | Phase::Released)) {
            served.client.begin(cx.now, cx.rng);
        }
        self.schedule(cx);
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
