//! Solicitations, advertisements and redirects of neighbours (RFC 4861 §7.2 and §8).

use super::message::{ALL_NODES, Received, packet, solicited_node};
use super::{Nd, count};
use crate::ip::neighbour::Solicitation;
use crate::ip::neighbour::cache::Nud;
use std::net::{IpAddr, Ipv6Addr};
use weft_core::table::{AddressState, Family};
use weft_core::*;
use weft_wire::ethernet::Mac;
use weft_wire::icmpv6::nd::{self, NeighborFlags};
use weft_wire::ipv6;

impl Nd {
    /// Asks for a neighbour's address: the whole solicited-node group, or it alone when it is probed.
    pub(super) fn solicit(&mut self, solicitation: Solicitation, cx: &mut Context<'_>) {
        let Solicitation { interface, target: IpAddr::V6(target), source, only } = solicitation else { return };
        let Some(own_mac) = self.facts.get(interface, cx).map(|facts| facts.mac) else { return };
        // RFC 4861 §7.2.2: "If the source address of the packet prompting the solicitation is the same as one of the addresses assigned to
        // the outgoing interface, that address SHOULD be placed in the IP Source Address of the outgoing solicitation." Else Linux takes the
        // link-local address, and sends nothing without one; here any other address does.
        let prompting = match source {
            IpAddr::V6(source) => Some(source).filter(|source| self.own.is_usable(interface, *source)),
            IpAddr::V4(_) => None,
        };
        let any = || self.own.link_local(interface).or_else(|| self.own.usable_of(interface).next());
        let Some(source) = prompting.or_else(any) else { return };
        let to = if only.is_some() { target } else { solicited_node(target) };
        let message = nd::Message::NeighborSolicitation { target };
        let mut frame = packet(interface, source, to, message, &[nd::Opt::SourceAddress(own_mac)]);
        self.resolver.counters[count::OUT_NEIGHBOR_SOLICITS] += 1;
        frame.meta_mut().dst_mac = only.unwrap_or(Mac::from_multicast_v6(to));
        cx.emit(super::OUT_LOWER, frame);
    }

    /// RFC 4861 §7.2.3: a solicitation came in.
    pub(super) fn solicited(&mut self, received: &Received<'_>, target: Ipv6Addr, cx: &mut Context<'_>) {
        let Received { interface, from, .. } = *received;
        let Some(state) = self.own.get(interface, target).map(|address| address.state) else { return };
        match state {
            AddressState::Preferred | AddressState::Deprecated => {}
            // RFC 4862 §5.4.3: a solicitation from a unicast address resolves the target, and is silently ignored.
            AddressState::Tentative if from.is_unspecified() => {
                return self.detected_by_another((interface, target), received.options.nonce, cx);
            }
            AddressState::Tentative | AddressState::Duplicated => return,
        }
        // What comes from an address of this node's own is nobody's. One that another station has is that station's, as long as it is tentative or a duplicate here.
        let is_used_here = |state| matches!(state, AddressState::Preferred | AddressState::Deprecated);
        if self.own.get(interface, from).is_some_and(|own| is_used_here(own.state)) {
            return;
        }
        if let Some(mac) = received.options.source.filter(|_| !from.is_unspecified()) {
            self.learn_from_option(interface, from, mac, None, cx);
        }
        // RFC 4861 §4.3: the option "MUST be included in multicast solicitations". Who left it out and is not known gets no answer (Linux
        // ndisc_recv_ns: "if (neigh || !dev->header_ops)"); who solicits alone is resolved for it.
        let to_group = received.to.is_multicast();
        let known = from.is_unspecified() || self.resolver.cache.find(interface, from.into()).is_some();
        if known || !to_group {
            self.advertise(interface, target, from, to_group, cx);
        }
    }

    /// Does this node send on what comes in there? RFC 4861 §6.2.2 calls an interface on which it does "advertising"; Linux asks `forwarding`.
    pub(super) fn is_router(&self, interface: InterfaceIndex, cx: &Context<'_>) -> bool {
        self.settings.router || matches!(cx.ask(Table::Routes(Family::V6), &Query::Forwards(interface)), Answer::Forwards(true))
    }

    /// RFC 4861 §8.2: tells the source of a packet of a better first hop. ip6 has decided that, and how often.
    pub(super) fn send_redirect(
        &mut self,
        interface: InterfaceIndex,
        source: Ipv6Addr,
        message: nd::Message,
        redirected: &[u8],
        cx: &mut Context<'_>,
    ) {
        let nd::Message::Redirect { target, .. } = message else { return };
        // §4.5: "Source Address MUST be the link-local address assigned to the interface from which this message is sent": without one there is none.
        let Some(own) = self.own.link_local(interface) else { return };
        let known = self.resolver.cache.find(interface, target.into()).and_then(|slot| self.resolver.cache.get_mut(slot));
        let mac = known.filter(|neighbour| neighbour.has_mac()).map(|neighbour| neighbour.mac);
        let address = mac.map(nd::Opt::TargetAddress);
        // "as much of the forwarded packet as can fit without the redirect packet exceeding the minimum MTU required to support IPv6", in units of
        // 8 bytes.
        let used = ipv6::HEADER_LEN + message.header_len() + 8 + if address.is_some() { 8 } else { 0 };
        let room = ipv6::MTU_MIN - used;
        let quoted = &redirected[..redirected.len().min(room) & !7];
        let options: Vec<nd::Opt<'_>> = address.into_iter().chain([nd::Opt::Redirected(quoted)]).collect();
        let frame = packet(interface, own, source, message, &options);
        self.resolver.counters[count::OUT_REDIRECTS] += 1;
        self.transmit(frame, cx);
    }

    /// RFC 4861 §7.2.4: answers `from`; if that is unspecified, all nodes.
    fn advertise(&mut self, interface: InterfaceIndex, target: Ipv6Addr, from: Ipv6Addr, to_group: bool, cx: &mut Context<'_>) {
        let Some(mac) = self.facts.get(interface, cx).map(|facts| facts.mac) else { return };
        // "If the source of the solicitation is the unspecified address, the node MUST set the Solicited flag to zero and multicast the
        // advertisement to the all-nodes address. Otherwise, the node MUST set the Solicited flag to one and unicast the advertisement".
        let (to, mut flags) = match from.is_unspecified() {
            true => (ALL_NODES, NeighborFlags::empty()),
            false => (from, NeighborFlags::SOLICITED),
        };
        // "If … the Target Link-Layer Address option is not included, the Override flag SHOULD be set to zero. Otherwise, the Override flag SHOULD
        // be set to one."
        flags.set(NeighborFlags::OVERRIDE, to_group);
        flags.set(NeighborFlags::ROUTER, self.is_router(interface, cx));
        let message = nd::Message::NeighborAdvertisement { flags, target };
        // "If the solicitation's IP Destination Address is not a multicast address, the Target Link-Layer Address option MAY be omitted", as Linux
        // does: who asked had it to ask.
        let option = nd::Opt::TargetAddress(mac);
        let frame = packet(interface, target, to, message, if to_group { std::slice::from_ref(&option) } else { &[] });
        self.resolver.counters[count::OUT_NEIGHBOR_ADVERTISEMENTS] += 1;
        self.transmit(frame, cx);
    }

    /// A source or target link-layer address option told where a neighbour is: a new or changed address is STALE until it is confirmed
    /// (RFC 4861 §7.2.3, §6.2.6, §6.3.4, §8.3).
    pub(super) fn learn_from_option(
        &mut self,
        interface: InterfaceIndex,
        neighbour: Ipv6Addr,
        mac: Mac,
        router: Option<bool>,
        cx: &mut Context<'_>,
    ) {
        let Some(slot) = self.resolver.find_or_insert(interface, neighbour.into(), cx) else { return };
        let Some(entry) = self.resolver.cache.get_mut(slot) else { return };
        entry.router = router.unwrap_or(entry.router);
        if !entry.has_mac() || entry.mac != mac {
            self.resolver.learn(slot, mac, false, cx);
        }
    }

    /// RFC 4861 §7.2.5: an advertisement came in.
    pub(super) fn advertised(&mut self, received: &Received<'_>, target: Ipv6Addr, flags: NeighborFlags, cx: &mut Context<'_>) {
        let interface = received.interface;
        if let Some(state) = self.own.get(interface, target).map(|address| address.state) {
            return self.own_advertised(received, target, state, cx);
        }
        // "If no entry exists, the advertisement SHOULD be silently discarded."
        let Some(slot) = self.resolver.cache.find(interface, target.into()) else { return };
        let Some(entry) = self.resolver.cache.get_mut(slot) else { return };
        entry.expire(cx.now);
        let told = received.options.target;
        let solicited = flags.contains(NeighborFlags::SOLICITED);
        match entry.state {
            // Linux: "if (READ_ONCE(neigh->nud_state) & NUD_FAILED) goto out" — nobody waits for it any more.
            Nud::Permanent | Nud::Failed => return,
            // "If the neighbor's Neighbor Cache entry is in the INCOMPLETE state when the advertisement is received … If the link layer has
            // addresses and no Target Link-Layer Address option is included, the receiving node SHOULD silently discard".
            Nud::Incomplete => match told {
                Some(mac) => self.resolver.learn(slot, mac, solicited, cx),
                None => return,
            },
            Nud::Reachable | Nud::Stale | Nud::Delay | Nud::Probe => {
                let different = told.is_some_and(|mac| mac != entry.mac);
                if different && !flags.contains(NeighborFlags::OVERRIDE) {
                    // "If the state of the entry is REACHABLE, set it to STALE, but do not update the entry in any other way. Otherwise, the
                    // received advertisement should be ignored".
                    if entry.state == Nud::Reachable {
                        entry.state = Nud::Stale;
                    }
                    return;
                }
                let mac = told.unwrap_or(entry.mac);
                // "If the Solicited flag is set, the state of the entry MUST be set to REACHABLE. If the Solicited flag is zero and the link-
                // layer address was updated with a different address, the state MUST be set to STALE. Otherwise, the entry's state remains
                // unchanged."
                if solicited || different {
                    self.resolver.learn(slot, mac, solicited, cx);
                }
            }
        }
        let Some(entry) = self.resolver.cache.get_mut(slot) else { return };
        let was_router = std::mem::replace(&mut entry.router, flags.contains(NeighborFlags::ROUTER));
        // "In those cases where the IsRouter flag changes from TRUE to FALSE as a result of this update, the node MUST remove that router
        // from the Default Router List".
        if was_router && !flags.contains(NeighborFlags::ROUTER) {
            self.router_is_host(interface, target, cx);
        } else if solicited {
            self.router_answers(interface, target, cx);
        }
    }

    /// Somebody advertises an address that is ours.
    fn own_advertised(&mut self, received: &Received<'_>, target: Ipv6Addr, state: AddressState, cx: &mut Context<'_>) {
        if self.facts.is_own(received.from_mac) {
            return;
        }
        match state {
            // RFC 4862 §5.4.4: a target that is tentative is a duplicate.
            AddressState::Tentative => self.duplicate((received.interface, target), cx),
            // "If the target address matches a unicast address assigned to the receiving interface, it would possibly indicate that the
            // address is a duplicate" which the RFC leaves open; Linux logs it, and so is it here.
            AddressState::Preferred | AddressState::Deprecated => {
                self.resolver.counters[count::CONFLICTS] += 1;
                let mac = received.from_mac.to_string();
                cx.alert("conflict", serde_json::json!({"interface": received.interface.0, "address": target.to_string(), "mac": mac}));
            }
            AddressState::Duplicated => {}
        }
    }

    /// RFC 4861 §8.3: a router told of a better first hop.
    pub(super) fn redirected(&mut self, received: &Received<'_>, target: Ipv6Addr, destination: Ipv6Addr, cx: &mut Context<'_>) -> bool {
        let Received { interface, from, .. } = *received;
        let query = Query::Route {
            destination: destination.into(),
            source: None,
            interface: Some(interface),
            traffic: weft_core::table::Traffic::default(),
        };
        // §8.1: "The IP source address of the Redirect is the same as the current first-hop router for the specified ICMP Destination
        // Address."
        let first_hop = cx.route(&query, Family::V6).map(|route| route.next_hop);
        if !self.settings.accept_redirects || first_hop != Some(IpAddr::V6(from)) || self.own.get(interface, target).is_some() {
            return false;
        }
        if let Some(mac) = received.options.target {
            // §8.3: a target that is not the destination is a router; one that is may be either.
            self.learn_from_option(interface, target, mac, (target != destination).then_some(true), cx);
        }
        let change = Change::Redirect { destination: destination.into(), gateway: target.into(), interface, from: from.into() };
        cx.tell(Table::Routes(Family::V6), change);
        true
    }
}
