//! Addresses of both sides, and the subflows between them.

use super::known::{Announcement, Known, PATHS_MAX};
use super::{Connection, Path, Stage};
use crate::counters::Counter;
use crate::endpoint::{Endpoint, Locals};
use crate::kind::Settings;
use crate::out::Out;
use crate::subflow::{Joins, Subflow};
use crate::word::{Down, Joinable, Say, Why};
use std::net::{IpAddr, SocketAddr};
use weft_core::table::{Family, RouteAnswer, RouteKind, Traffic};
use weft_core::{Instant, InterfaceIndex, Query, StreamCall, StreamOption};
use weft_wire::tcp::mptcp::reset_reason;

/// ADD_ADDR is said so often (ADD_ADDR_RETRANS_MAX), each time after net.mptcp.add_addr_timeout.
const ANNOUNCED_MAX: u32 = 3;
/// Addresses that a connection tells its peer of, at most, and takes of it (Linux's MPTCP_PM_ADDR_MAX).
const ADDRESSES_MAX: usize = 8;
/// Pairs of addresses that were tried, at most.
const TRIED_MAX: usize = 1024;
/// Linux's ip_local_port_range.
const PORT_FIRST: u16 = 32_768;
const PORTS: u64 = 28_232;
/// Ports that are drawn until one is no other subflow's.
const PORTS_TRIED: usize = 16;

/// One end of a subflow that is to be.
#[derive(Clone, Debug)]
pub(super) struct From {
    pub id: u8,
    pub address: IpAddr,
    pub interface: InterfaceIndex,
    pub backup: bool,
    pub everywhere: bool,
}

impl Connection {
    /// Brings subflows and announcements in line with what this node has.
    pub(crate) fn reconcile(&mut self, locals: &Locals, out: &mut Out<'_, '_>) {
        if self.stage != Stage::Open || self.fallen_back || self.remote.is_none() {
            return;
        }
        if self.manager.is_some() {
            if self.confirmed {
                self.offer(locals, out);
            }
            return;
        }
        self.leave_lost_addresses(locals, out);
        if !self.confirmed {
            return;
        }
        self.withdraw_removed(locals, out);
        self.forget_removed(locals);
        self.follow_priorities(locals, out);
        self.follow_policy(out);
        self.announce(locals, out);
        self.open_subflows(locals, out);
        self.offer(locals, out);
    }

    /// Subflows from an address that is gone.
    fn leave_lost_addresses(&mut self, locals: &Locals, out: &mut Out<'_, '_>) {
        let lost: Vec<usize> = (0..self.paths.len())
            .filter(|index| {
                let path = &self.paths[*index];
                let of = |gone: &[IpAddr]| gone.contains(&path.local.ip());
                !path.closed && !path.released && (of(&locals.lost) || path.joined && of(&locals.removed))
            })
            .collect();
        for index in lost {
            let (id, address) = (self.paths[index].local_id, self.paths[index].local.ip());
            self.drop_path(index, reset_reason::UNSPECIFIED, out);
            self.said.retain(|said| said.address != address);
            self.tried.retain(|(from, _)| *from != address);
            if let Some(other) = self.speaker() {
                out.word(self.paths[other].flow, &Down::Say(Say::Remove(vec![id])));
            }
        }
    }

    /// An address that was announced and is an endpoint no more, and no subflow has told of.
    fn withdraw_removed(&mut self, locals: &Locals, out: &mut Out<'_, '_>) {
        let gone: Vec<u8> =
            self.said.iter().filter(|said| said.times > 0 && locals.removed.contains(&said.address)).map(|said| said.id).collect();
        self.said.retain(|said| !locals.removed.contains(&said.address));
        if let Some(speaker) = self.speaker().filter(|_| !gone.is_empty()) {
            out.word(self.paths[speaker].flow, &Down::Say(Say::Remove(gone)));
        }
    }

    /// An endpoint that is no more counts no more, and one that comes with its address is tried (__mark_subflow_endp_available).
    fn forget_removed(&mut self, locals: &Locals) {
        self.endpoints_used.retain(|id| locals.endpoints.iter().any(|endpoint| endpoint.id == *id));
        let (first, barred) = (self.paths[0].local.ip(), &self.barred);
        self.tried.retain(|way| way.0 == first || barred.contains(way) || !locals.removed.contains(&way.0));
    }

    /// The peer hears of subflows that are used otherwise from now on (mptcp_pm_nl_mp_prio_send_ack).
    fn follow_priorities(&mut self, locals: &Locals, out: &mut Out<'_, '_>) {
        for path in self.paths.iter_mut().filter(|path| path.joined && path.may_send()) {
            let wanted = locals.endpoints.iter().find(|endpoint| endpoint.id == path.local_id && endpoint.address == path.local.ip());
            if let Some(endpoint) = wanted.filter(|endpoint| endpoint.backup != path.backup) {
                path.backup = endpoint.backup;
                out.word(path.flow, &Down::Say(Say::Priority { backup: endpoint.backup }));
            }
        }
    }

    /// A subflow is reset; what it had goes over others.
    pub(super) fn drop_path(&mut self, index: usize, reason: u8, out: &mut Out<'_, '_>) {
        let was_closed = std::mem::replace(&mut self.paths[index].closed, true);
        if reason == reset_reason::MIDDLEBOX {
            self.bar(index);
        }
        if self.has_lost(index, was_closed) {
            self.tell_path("subflow-closed", index, None, out);
        }
        let flow = self.paths[index].flow;
        out.word(flow, &Down::Reset(Why::Reason { transient: false, reason }));
        out.call(flow, StreamCall::Abort);
        self.reinject(index);
        self.push(out);
    }

    /// A box on its way changes the data: no other subflow goes that way, even if no other way is left (RFC 8684 §3.6: the condition is not transient).
    pub(super) fn bar(&mut self, index: usize) {
        let path = &self.paths[index];
        if self.barred.len() < TRIED_MAX {
            self.barred.insert((path.local.ip(), path.remote));
        }
    }

    /// A subflow that options may be said on.
    pub(super) fn speaker(&self) -> Option<usize> {
        (0..self.paths.len()).filter(|index| self.paths[*index].may_send()).min_by_key(|index| self.paths[*index].suspect)
    }

    /// Does it lead from the node to itself? All of its ways are one.
    fn is_inside(&self, locals: &Locals) -> bool {
        let remote = self.paths[0].remote.ip().to_canonical();
        remote.is_loopback() || locals.addresses.contains(&remote)
    }

    fn announce(&mut self, locals: &Locals, out: &mut Out<'_, '_>) {
        let all = !locals.every || !self.opens && !self.is_inside(locals);
        let signals = locals.endpoints.iter().filter(|endpoint| endpoint.signal && all);
        for endpoint in signals {
            let known = self.said.iter().any(|said| said.address == endpoint.address && said.port == endpoint.port);
            if !known && self.said.len() < ADDRESSES_MAX && endpoint.address != self.paths[0].local.ip() {
                let Endpoint { id, address, port, .. } = *endpoint;
                self.said.push(Announcement { id, address, port, echoed: false, times: 0, again_at: None });
            }
        }
        self.say_next_address(out);
    }

    /// One address at a time: the next when the peer has confirmed the last, or does not.
    fn say_next_address(&mut self, out: &mut Out<'_, '_>) {
        if self.said.iter().any(|said| said.again_at.is_some()) {
            return;
        }
        if let Some(next) = self.said.iter().position(|said| !said.echoed && said.times < ANNOUNCED_MAX) {
            self.say_address(next, out);
        }
    }

    /// The peer is told of one.
    pub(super) fn say_address(&mut self, index: usize, out: &mut Out<'_, '_>) {
        let Some(speaker) = self.speaker() else { return };
        let said = &mut self.said[index];
        let again = out.settings.add_addr_timeout;
        // Linux (mptcp_pm_alloc_anno_list) sets no timer then.
        said.times = if again.is_zero() { ANNOUNCED_MAX } else { said.times + 1 };
        said.again_at = (!again.is_zero()).then(|| out.now() + again);
        let say = Say::Announce { id: said.id, address: said.address, port: said.port, echo: false };
        out.word(self.paths[speaker].flow, &Down::Say(say));
    }

    pub(super) fn address_timer(&mut self, out: &mut Out<'_, '_>) {
        for said in self.said.iter_mut().filter(|said| said.again_at.is_some_and(|at| at <= out.now())) {
            said.again_at = None;
        }
        self.say_next_address(out);
    }

    pub(super) fn next_announcement(&self) -> Option<Instant> {
        self.said.iter().filter_map(|said| said.again_at).min()
    }

    /// ADD_ADDR of the peer's, or its echo.
    pub(super) fn announced(&mut self, index: usize, (id, address, port): (u8, IpAddr, Option<u16>), echo: bool, out: &mut Out<'_, '_>) {
        if echo {
            for said in self.said.iter_mut().filter(|said| said.id == id && said.address == address) {
                (said.echoed, said.again_at) = (true, None);
            }
            return self.say_next_address(out);
        }
        out.word(self.paths[index].flow, &Down::Say(Say::Announce { id, address, port, echo: true }));
        let address = match address {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
            IpAddr::V4(_) => address,
        };
        let at = SocketAddr::new(address, port.unwrap_or(self.paths[0].remote.port()));
        self.tell_announced(id, at, out);
        if self.manager.is_some() {
            // Which of them are used is the program's business.
            return;
        }
        if self.known.contains(&Known { id, at }) {
            // The echo was lost, or late: Linux from 6.18 on says it again after one RTO.
            return;
        }
        let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
        let usable = !address.is_unspecified() && !address.is_multicast() && !address.is_loopback() && !broadcast && at.port() != 0;
        let most = out.settings.add_addr_accepted.min(ADDRESSES_MAX);
        if !usable || self.known.iter().any(|known| known.id == id || known.at == at) || self.known.len() >= most {
            return out.count(Counter::AddAddrDrop);
        }
        self.known.push(Known { id, at });
        let locals = out.locals;
        self.open_subflows(locals, out);
    }

    /// REMOVE_ADDR.
    pub(super) fn removed(&mut self, ids: &[u8], out: &mut Out<'_, '_>) {
        for id in ids {
            self.tell_removed(*id, out);
            self.known.retain(|known| known.id != *id);
            let gone: Vec<usize> = (0..self.paths.len()).filter(|at| self.paths[*at].remote_id == *id && !self.paths[*at].closed).collect();
            for index in gone {
                // The last one stays: whoever still says something on it is there.
                if self.paths.iter().filter(|path| path.may_send()).count() > 1 {
                    out.count(Counter::RmSubflow);
                    self.drop_path(index, reset_reason::UNSPECIFIED, out);
                }
            }
        }
    }

    /// How many subflows there are beside the first.
    pub(super) fn further(&self) -> usize {
        self.paths.iter().skip(1).filter(|path| !path.closed && !path.released).count()
    }

    /// The last one is gone: the next is no further one.
    fn has_none(&self) -> bool {
        self.paths.iter().all(|path| path.closed || path.released)
    }

    fn open_subflows(&mut self, locals: &Locals, out: &mut Out<'_, '_>) {
        let ends = (self.closed || self.send.end_said) && self.bare.is_none();
        if ends || locals.every && (!self.opens || self.is_inside(locals)) || self.manager.is_some() {
            return;
        }
        let first = &self.paths[0];
        // By another interface it would be what another address's subflow is.
        let interface = if locals.every { locals.interface(first.local.ip()) } else { InterfaceIndex::NONE };
        let own = From { id: 0, address: first.local.ip(), interface, backup: false, everywhere: locals.every };
        let first_remote = (0, first.remote);
        let initial = own.address;
        let endpoints = locals.endpoints.iter().filter(|endpoint| endpoint.subflow && endpoint.address != initial);
        let from = endpoints.map(|endpoint| From {
            id: endpoint.id,
            address: endpoint.address,
            interface: endpoint.interface,
            backup: endpoint.backup,
            everywhere: endpoint.fullmesh,
        });
        let from: Vec<From> = std::iter::once(own).chain(from).collect();
        let no_mesh = !from.iter().skip(1).any(|from| from.everywhere) && !locals.every;
        // Of a node that nobody has named endpoints of each address gets its share: subflows that leave by one interface are in each other's way.
        let locals_of = |family: bool| from.iter().filter(|from| from.address.is_ipv4() == family).count().max(1);
        let remotes_of = |family: bool| self.known.iter().filter(|known| known.at.is_ipv4() == family).count() + 1;
        let share = [false, true].map(|family| remotes_of(family).div_ceil(locals_of(family)));
        for (at, from) in from.iter().enumerate() {
            let most = if locals.every { share[usize::from(from.address.is_ipv4())] } else { usize::MAX };
            // Linux asks neither whether there is a way, nor what becomes of it.
            let to_any = !self.deny_join_id0 || from.everywhere && !self.known.is_empty();
            if at > 0 && to_any && self.further() < out.settings.subflows && self.policy_lets(from.address, out) {
                self.endpoints_used.insert(from.id);
            }
            // The first subflow's own address is used again when that is gone, as long as the node has it: by whoever opened the
            // connection. At the other end's port of it nobody listens.
            let again = at == 0 && self.opens && self.subflows_from(from.address) == 0 && locals.addresses.contains(&from.address);
            if (at > 0 || again) && !self.deny_join_id0 && self.subflows_from(from.address) < most {
                self.open_subflow(from, first_remote, out);
            }
            // Linux takes an endpoint with fullmesh, else the address that the routes say.
            if from.everywhere || at == 0 && no_mesh {
                let known: Vec<(u8, SocketAddr)> = self.known.iter().map(|known| (known.id, known.at)).collect();
                for to in known {
                    let chosen = if from.everywhere { from.clone() } else { by_routes(from, to.1, locals, out) };
                    if self.subflows_from(chosen.address) < most {
                        self.open_subflow(&chosen, to, out);
                    }
                }
            }
        }
        self.open_from_other_ports(&from[0], first_remote, out);
    }

    /// Between the addresses of the first subflow, as mptcp_ndiffports.c of the implementation outside of Linux's tree: by whoever opened the connection,
    /// "if (num_subflows > iter && num_subflows > mptcp_subflow_count(mpcb))", each once.
    fn open_from_other_ports(&mut self, from: &From, to: (u8, SocketAddr), out: &mut Out<'_, '_>) {
        if !out.settings.same_addresses || !self.opens || self.deny_join_id0 || !out.locals.addresses.contains(&from.address) {
            return;
        }
        while (self.ports_tried as usize) + 1 < out.settings.ndiffports && self.subflows_from(from.address) < out.settings.ndiffports {
            if self.further() >= out.settings.subflows || !self.may_leave(from, to.1, out) {
                return;
            }
            self.ports_tried += 1;
            self.begin_subflow(from, to, None, out);
        }
    }

    /// Is there a way, and does the policy let it be taken?
    fn may_leave(&self, from: &From, to: SocketAddr, out: &Out<'_, '_>) -> bool {
        self.policy_lets(from.address, out) && has_route(from, to, out)
    }

    fn policy_lets(&self, address: IpAddr, out: &Out<'_, '_>) -> bool {
        !out.locals.spent.contains(&address) && self.may_open_from(address, out.locals, out)
    }

    /// How many subflows an address has.
    fn subflows_from(&self, address: IpAddr) -> usize {
        self.paths.iter().filter(|path| path.local.ip() == address && !path.closed && !path.released).count()
    }

    /// A subflow is gone: another way may be tried.
    pub(super) fn open_others(&mut self, out: &mut Out<'_, '_>) {
        if self.stage == Stage::Open && self.confirmed && !self.fallen_back && self.remote.is_some() {
            let locals = out.locals;
            self.open_subflows(locals, out);
        }
    }

    fn open_subflow(&mut self, from: &From, (remote_id, to): (u8, SocketAddr), out: &mut Out<'_, '_>) {
        let fits = from.address.is_ipv4() == to.is_ipv4() && (self.further() < out.settings.subflows || self.has_none());
        // While its interface is down an address may have a way by another one, over which the answers would not come. An endpoint that
        // somebody has named is taken as it is, as by Linux.
        let fits = fits && (!out.locals.every || out.locals.addresses.contains(&from.address));
        if fits && !self.tried.contains(&(from.address, to)) && self.tried.len() < TRIED_MAX && self.may_leave(from, to, out) {
            self.begin_subflow(from, (remote_id, to), None, out);
        }
    }

    /// `port`: the one that it has here; None: any.
    pub(super) fn begin_subflow(&mut self, from: &From, (remote_id, to): (u8, SocketAddr), port: Option<u16>, out: &mut Out<'_, '_>) {
        let Some(remote) = self.remote else { return };
        if self.manager.is_none() {
            self.tried.insert((from.address, to));
        }
        let mut ports = std::iter::repeat_with(|| PORT_FIRST + out.rng.below(PORTS) as u16).take(PORTS_TRIED);
        let taken = |port: &u16| self.paths.iter().any(|path| path.local.port() == *port);
        let Some(port) = port.or_else(|| ports.find(|port| !taken(port))) else { return };
        let local = SocketAddr::new(from.address, port);
        let flow = out.new_flow();
        let joins = Joins { token: remote.token(), local_id: from.id, backup: from.backup, local_nonce: out.rng.u32(), remote_nonce: 0 };
        let extension = Subflow::joins(true, joins, (self.local, remote), self.checksum, self.early).state();
        let interface = from.interface.0;
        let path =
            Path { local_id: from.id, remote_id, backup: from.backup, joined: true, opened: true, interface, ..Path::new(flow, local, to) };
        self.add_path(path);
        let mut options = Box::new(self.options.clone());
        if options.congestion.is_none() {
            options.congestion.clone_from(&out.settings.congestion);
        }
        if from.interface != InterfaceIndex::NONE {
            options.interface = interface;
        }
        out.call(flow, StreamCall::Connect { local, remote: to, options, extension: Some(Box::new(extension)) });
    }

    /// One more subflow, with the next number (__mptcp_subflow_connect, __mptcp_finish_join).
    fn add_path(&mut self, path: Path) {
        self.paths.push(Path { number: self.next_number, ..path });
        self.next_number = self.next_number.wrapping_add(1);
    }

    /// A subflow of the peer's has joined.
    pub(crate) fn joined(&mut self, path: Path, out: &mut Out<'_, '_>) -> bool {
        if !matches!(self.stage, Stage::Open | Stage::Ending) || self.fallen_back || self.room(out.settings) == 0 {
            return false;
        }
        self.choose_control(path.flow, out);
        let path = leaving_where_it_came(path, out);
        self.is_bare_no_more(out);
        self.took(path.local.ip(), path.local_id);
        if path.local.port() != self.paths[0].local.port() {
            out.count(Counter::MPJoinPortAckRx);
        }
        self.add_path(path);
        let index = self.paths.len() - 1;
        self.have(index, false, out);
        if self.stage == Stage::Ending {
            // The peer has lost its last subflow before it heard that all is over.
            self.have(index, true, out);
            self.end_path(index, out);
        }
        self.tell_path("subflow-established", index, None, out);
        true
    }

    /// It can no longer become plain TCP: there are two subflows.
    pub(super) fn make_firm(&mut self, out: &mut Out<'_, '_>) {
        self.firm = true;
        for path in self.paths.iter().filter(|path| !path.released) {
            out.word(path.flow, &Down::Firm);
        }
    }

    /// Listeners learn that it may be joined, and by how many more. Any of them may be asked: others may share the port (SO_REUSEPORT), and an announced
    /// port has one of its own.
    fn offer(&mut self, locals: &Locals, out: &mut Out<'_, '_>) {
        let Some(remote) = self.remote else { return };
        let own = self.paths[0].local;
        let ids = match &self.manager {
            Some(manager) => manager.ids(own.ip(), &locals.addresses).into_iter().map(|(address, id)| (address, None, id)).collect(),
            None => {
                let all = locals.endpoints.iter().map(|endpoint| (endpoint.address, endpoint.port, endpoint.id));
                all.filter(|(address, port, _)| port.is_some() || *address != own.ip()).collect()
            }
        };
        let ports = self.said.iter().filter_map(|said| said.port).collect();
        let (local, checksum, room) = (self.local, self.checksum, self.room(out.settings));
        let joinable = Box::new(Joinable { local, remote, checksum, room, ids, port: own.port(), ports, early: self.early });
        if self.offered.as_ref() != Some(&joinable) {
            let word = Down::Offer(joinable.clone());
            self.offered = Some(joinable);
            out.listeners.keys().for_each(|listener| out.word(*listener, &word));
        }
    }

    /// How many more subflows it may have.
    fn room(&self, settings: &Settings) -> u8 {
        let most = if self.manager.is_some() { PATHS_MAX } else { settings.subflows.max(usize::from(self.has_none())) };
        most.saturating_sub(self.further()).min(u8::MAX.into()) as u8
    }

    /// The same, after subflows have come or gone.
    pub(super) fn offer_again(&mut self, out: &mut Out<'_, '_>) {
        if self.stage == Stage::Open && self.confirmed && !self.fallen_back {
            let locals = out.locals;
            self.offer(locals, out);
        }
    }
}

/// A subflow that has joined at an address of a node that nobody has named endpoints of: where its peer is behind a gateway, what it sends leaves by the
/// interface of that address, if there is one there, too. By the routes alone it might be the first subflow's.
fn leaving_where_it_came(path: Path, out: &mut Out<'_, '_>) -> Path {
    let (interface, to) = (out.locals.interface(path.local.ip()), path.remote);
    if !out.locals.every || interface == InterfaceIndex::NONE {
        return path;
    }
    let from = |interface| From { id: path.local_id, address: path.local.ip(), interface, backup: false, everywhere: false };
    // A peer on the link is asked for there by whoever is bound to an interface, whether a route says so or not.
    let by_gateway = |route: &RouteAnswer| route.kind == RouteKind::Unicast && route.next_hop != to.ip();
    let gateway = |interface| route(&from(interface), to, out).filter(by_gateway).map(|route| route.interface);
    if gateway(InterfaceIndex::NONE).is_none_or(|chosen| chosen == interface) || gateway(interface).is_none() {
        return path;
    }
    out.call(path.flow, StreamCall::Set(StreamOption::Interface(interface.0)));
    Path { interface: interface.0, ..path }
}

/// This end, with the address that the routes choose for that destination.
fn by_routes(from: &From, to: SocketAddr, locals: &Locals, out: &Out<'_, '_>) -> From {
    let traffic = Traffic { protocol: weft_wire::Protocol::TCP.0, ports: (0, to.port()), ..Traffic::default() };
    let query = Query::Route { destination: to.ip(), source: None, interface: None, traffic };
    let source = out.cx.route(&query, Family::of(to.ip())).map(|route| route.source).filter(|source| locals.addresses.contains(source));
    match source {
        Some(address) if address != from.address => {
            let id = locals.endpoints.iter().find(|endpoint| endpoint.address == address).map_or(u8::MAX, |endpoint| endpoint.id);
            From { id, address, ..from.clone() }
        }
        _ => from.clone(),
    }
}

/// Is there a way from this address to that one?
pub(super) fn has_route(from: &From, to: SocketAddr, out: &Out<'_, '_>) -> bool {
    route(from, to, out).is_some_and(|route| matches!(route.kind, RouteKind::Unicast | RouteKind::Local))
}

fn route(from: &From, to: SocketAddr, out: &Out<'_, '_>) -> Option<RouteAnswer> {
    let interface = (from.interface != InterfaceIndex::NONE).then_some(from.interface);
    let traffic = Traffic { protocol: weft_wire::Protocol::TCP.0, ports: (0, to.port()), ..Traffic::default() };
    let query = Query::Route { destination: to.ip(), source: Some(from.address), interface, traffic };
    out.cx.route(&query, Family::of(to.ip()))
}
