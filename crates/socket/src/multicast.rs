//! Groups that sockets are in, with the sources that each wants (`net/ipv4/igmp.c`: ip_mc_join_group, ip_mc_source, ip_mc_msfilter;
//! `net/ipv6/mcast.c` likewise). Every change is told to the owner of the group table, which joins the wishes of all sockets.

use crate::address_kinds::AddressKinds;
use crate::errno::Errno;
use crate::membership::Membership;
use crate::registry::Registry;
use crate::socket::SocketId;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use weft_core::table::{AddressKind, Family, Traffic};
use weft_core::{Answer, Change, Context, InterfaceIndex, Query, Table};

/// Most memberships of one socket in IPv4 groups (net.ipv4.igmp_max_memberships).
const MEMBERSHIPS_MAX: usize = 20;
/// The same for IPv6, where Linux bounds their memory (net.core.optmem_max) and not their number.
const MEMBERSHIPS_MAX_V6: usize = 1024;
/// Most sources of one membership (net.ipv4.igmp_max_msf, net.ipv6.mld_max_msf).
pub(crate) const SOURCES_MAX: usize = 10;
pub(crate) const SOURCES_MAX_V6: usize = 64;

/// Which group, and where: by interface number or, IPv4 only, by one of its addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupRequest {
    pub group: IpAddr,
    pub address: Ipv4Addr,
    pub interface: u32,
}

/// The groups in which any socket is.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// How many sockets have joined a group on an interface.
    pub members: BTreeMap<(IpAddr, u32), usize>,
}

impl Groups {
    /// Has any socket joined this group? Broadcasts and 224.0.0.1 are for everyone (RFC 1112 §7.2).
    pub(crate) fn has_member(&self, group: IpAddr, interface: u32) -> bool {
        let IpAddr::V4(group) = group else { return true };
        let all_hosts = Ipv4Addr::new(224, 0, 0, 1);
        !group.is_multicast() || group == all_hosts || self.members.contains_key(&(group.into(), interface))
    }

    /// `__ip_mc_join_group`, `__ipv6_sock_mc_join`; the interface. EINVAL, ENODEV, EADDRINUSE, ENOBUFS (ENOMEM over IPv6).
    pub(crate) fn join(
        &mut self,
        sockets: &mut Registry,
        s: SocketId,
        request: GroupRequest,
        exclude: bool,
        cx: &mut Context<'_>,
    ) -> Result<u32, Errno> {
        let group = request.group;
        if !group.is_multicast() {
            return Err(Errno::EINVAL);
        }
        // IPv6 looks for an earlier join first, and without an interface any will do.
        if group.is_ipv6() && sockets.get(s)?.options.membership_at(group, request.interface).is_some() {
            return Err(Errno::EADDRINUSE);
        }
        let interface = interface_of(&mut sockets.kinds, &request, cx)?;
        let options = &sockets.get(s)?.options;
        if options.membership_at(group, interface).is_some() {
            return Err(Errno::EADDRINUSE);
        }
        let (most, full) = if group.is_ipv6() { (MEMBERSHIPS_MAX_V6, Errno::ENOMEM) } else { (MEMBERSHIPS_MAX, Errno::ENOBUFS) };
        if options.memberships.iter().filter(|entry| entry.group.is_ipv6() == group.is_ipv6()).count() >= most {
            return Err(full);
        }
        let entry = Membership { group, interface, address: request.address, exclude, sources: None };
        sockets.get_mut(s)?.options.memberships.push(entry);
        self.count((group, interface), true);
        tell(sockets, s, group, interface, cx);
        Ok(interface)
    }

    /// `ip_mc_leave_group`, `ipv6_sock_mc_drop`: EADDRNOTAVAIL, ENODEV.
    pub(crate) fn leave(&mut self, sockets: &mut Registry, s: SocketId, request: GroupRequest, cx: &mut Context<'_>) -> Result<(), Errno> {
        let group = request.group;
        if group.is_ipv6() && !group.is_multicast() {
            return Err(Errno::EINVAL);
        }
        let found = interface_of(&mut sockets.kinds, &request, cx);
        let options = &sockets.get(s)?.options;
        let at = if group.is_ipv6() {
            options.membership_at(group, request.interface)
        } else {
            // "if (!imr->imr_ifindex && !imr->imr_address.s_addr && !in_dev) { ret = -ENODEV; goto out; }"
            if request.interface == 0 && request.address.is_unspecified() {
                found?;
            }
            let fits = |entry: &Membership| match found {
                Ok(interface) => entry.interface == interface,
                Err(_) => request.interface == 0 && entry.address == request.address,
            };
            options.memberships.iter().position(|entry| entry.group == group && fits(entry))
        };
        let at = at.ok_or(Errno::EADDRNOTAVAIL)?;
        let entry = sockets.get_mut(s)?.options.memberships.remove(at);
        self.count((group, entry.interface), false);
        tell(sockets, s, group, entry.interface, cx);
        Ok(())
    }

    /// `ip_mc_source`, `ip6_mc_source`: adds a source to a membership's list, or takes it off. The list must be of this mode.
    #[allow(clippy::too_many_arguments)] // the kernel's own list: ip_mc_source(add, omode, sk, mreqs, ifindex)
    pub(crate) fn change_source(
        &mut self,
        sockets: &mut Registry,
        s: SocketId,
        request: GroupRequest,
        source: IpAddr,
        exclude: bool,
        add: bool,
        cx: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let group = request.group;
        if !group.is_multicast() {
            return Err(Errno::EINVAL);
        }
        let interface = interface_of(&mut sockets.kinds, &request, cx)?;
        let most = if group.is_ipv6() { SOURCES_MAX_V6 } else { SOURCES_MAX };
        let options = &mut sockets.get_mut(s)?.options;
        // "must have a prior join"
        let at = options.membership_at(group, if group.is_ipv6() { request.interface } else { interface }).ok_or(Errno::EINVAL)?;
        let entry = options.memberships.get_mut(at).ok_or(Errno::EINVAL)?;
        // "if a source filter was set, must be the same mode as before … allow mode switches for empty-set filters"
        if entry.sources.is_some() && entry.exclude != exclude {
            return Err(Errno::EINVAL);
        }
        entry.exclude = exclude;
        let result = match (&mut entry.sources, add) {
            (None, false) => Err(Errno::EADDRNOTAVAIL),
            (Some(sources), false) => match sources.iter().position(|known| *known == source) {
                None => Err(Errno::EADDRNOTAVAIL),
                // "special case - (INCLUDE, empty) == LEAVE_GROUP"
                Some(_) if sources.len() == 1 && !exclude => return self.leave(sockets, s, request, cx),
                Some(at) => {
                    sources.remove(at);
                    Ok(())
                }
            },
            (Some(sources), true) if sources.len() >= most => Err(Errno::ENOBUFS),
            (Some(sources), true) if sources.contains(&source) => Err(Errno::EADDRNOTAVAIL),
            (sources, true) => {
                sources.get_or_insert_default().push(source);
                Ok(())
            }
        };
        let interface = entry.interface;
        tell(sockets, s, group, interface, cx);
        result
    }

    /// `ip_mc_msfilter`, `ip6_mc_msfilter`: replaces mode and list. EINVAL without a join; an empty INCLUDE leaves the group.
    pub(crate) fn set_sources(
        &mut self,
        sockets: &mut Registry,
        s: SocketId,
        request: GroupRequest,
        exclude: bool,
        sources: Vec<IpAddr>,
        cx: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let group = request.group;
        if !group.is_multicast() {
            return Err(Errno::EINVAL);
        }
        let interface = interface_of(&mut sockets.kinds, &request, cx)?;
        if !exclude && sources.is_empty() {
            return self.leave(sockets, s, request, cx);
        }
        let options = &mut sockets.get_mut(s)?.options;
        let at = options.membership_at(group, interface).ok_or(Errno::EINVAL)?;
        let entry = options.memberships.get_mut(at).ok_or(Errno::EINVAL)?;
        (entry.exclude, entry.sources) = (exclude, Some(sources).filter(|sources| !sources.is_empty()));
        tell(sockets, s, group, interface, cx);
        Ok(())
    }

    /// `ip_mc_drop_socket`, `ipv6_sock_mc_close`.
    pub(crate) fn leave_all(&mut self, sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) {
        let Some(socket) = sockets.store.get_mut(s) else { return };
        for entry in std::mem::take(&mut socket.options.memberships) {
            self.count((entry.group, entry.interface), false);
            tell(sockets, s, entry.group, entry.interface, cx);
        }
    }

    /// Tells the owner of the groups, who may be new, everything again.
    pub(crate) fn tell_all(&self, sockets: &Registry, cx: &mut Context<'_>) {
        if self.members.is_empty() {
            return;
        }
        for (id, socket) in sockets.store.iter() {
            for entry in &socket.options.memberships {
                tell(sockets, id, entry.group, entry.interface, cx);
            }
        }
    }

    /// A socket has joined a group (+1) or left it.
    fn count(&mut self, key: (IpAddr, u32), joined: bool) {
        let members = self.members.entry(key).or_default();
        *members = if joined { *members + 1 } else { members.saturating_sub(1) };
        if *members == 0 {
            self.members.remove(&key);
        }
    }
}

/// `ip_mc_find_dev`, `ip6_mc_find_idev`: the number, the address, or the way to the group.
pub(crate) fn interface_of(kinds: &mut AddressKinds, request: &GroupRequest, cx: &Context<'_>) -> Result<u32, Errno> {
    if request.interface != 0 {
        return match cx.ask(Table::Interfaces, &Query::Interface(InterfaceIndex(request.interface))) {
            Answer::Interface(_) => Ok(request.interface),
            _ => Err(Errno::ENODEV),
        };
    }
    if !request.address.is_unspecified() {
        return match kinds.of(request.address.into(), cx) {
            AddressKind::Local(InterfaceIndex(interface)) => Ok(interface),
            _ => Err(Errno::ENODEV),
        };
    }
    let way = Query::Route { destination: request.group, source: None, interface: None, traffic: Traffic::default() };
    cx.route(&way, Family::of(request.group)).map(|route| route.interface.0).ok_or(Errno::ENODEV)
}

/// What this socket wants of a group on an interface now.
fn tell(sockets: &Registry, s: SocketId, group: IpAddr, interface: u32, cx: &mut Context<'_>) {
    let wish = |entry: &&Membership| entry.group == group && entry.interface == interface;
    let filter = sockets.store.get(s).and_then(|socket| socket.options.memberships.iter().find(wish)).map(Membership::filter);
    let change = Change::Group { interface: InterfaceIndex(interface), group, holder: s.number(), filter };
    cx.tell(Table::Groups(Family::of(group)), change);
}
