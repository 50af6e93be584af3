//! A connection whose paths are the business of a program (net.mptcp.pm_type = 1): what the commands of a path manager in user space come to.
//!
//! Nothing is opened or announced by itself then, and limits do not hold. Facts are those of net/mptcp/pm_userspace.c and of Linux 6.18.

use super::addresses::{From, has_route};
use super::known::{Announcement, PATHS_MAX};
use super::{Connection, Stage};
use crate::counters::Counter;
use crate::out::Out;
use crate::word::{Down, Say};
use std::net::{IpAddr, SocketAddr};
use weft_core::table::{Family, RouteKind, Traffic};
use weft_core::{ErrorKind, InterfaceIndex, Query, Refused};
use weft_wire::tcp::mptcp::reset_reason;

/// MPTCP_PM_ADDR_FLAG_*.
const SIGNAL: u32 = 1;
const SUBFLOW: u32 = 2;
const BACKUP: u32 = 4;
const IMPLICIT: u32 = 16;
/// Those that are kept.
const FLAGS: u32 = 63;

/// Addresses that are announced at a time, at most: one of each identifier.
const ANNOUNCED_MAX: usize = u8::MAX as usize;

/// An address of this side that the connection knows. There is one of each identifier, at most.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub id: u8,
    pub address: IpAddr,
    /// 0: none.
    pub port: u16,
    pub flags: u32,
    /// 0: none.
    pub interface: u32,
}
weft_core::fields!(struct Entry { id, address, port, flags, interface });

/// What such a connection has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manager {
    pub entries: Vec<Entry>,
    /// How often the peer was told of an address, less those taken back.
    pub announced: u8,
    /// Addresses that came, less those whose subflows a command ended.
    pub used: u8,
}
weft_core::fields!(struct Manager { entries, announced, used });

impl Manager {
    /// mptcp_userspace_pm_append_new_local_addr: what has neither address nor identifier of another is added; what has both of one is there.
    fn append(&mut self, entry: Entry) -> bool {
        let is_at = |known: &Entry| (known.address, known.port) == (entry.address, entry.port);
        match self.entries.iter().find(|known| is_at(known) || known.id == entry.id) {
            Some(known) => is_at(known) && known.id == entry.id,
            None => {
                self.used = self.used.saturating_add(1);
                self.entries.push(entry);
                true
            }
        }
    }

    /// The first with an address, whatever its port.
    fn at(&self, address: IpAddr) -> Option<usize> {
        self.entries.iter().position(|entry| entry.address == address)
    }

    /// mptcp_userspace_pm_delete_local_addr.
    fn delete(&mut self, address: IpAddr) {
        if let Some(at) = self.at(address) {
            self.entries.remove(at);
            self.used = self.used.saturating_sub(1);
        }
    }

    /// Identifiers of this side's addresses, for peers that join there: those that were named, and free ones for the others.
    pub(super) fn ids(&self, own: IpAddr, addresses: &[IpAddr]) -> Vec<(IpAddr, u8)> {
        let mut ids: Vec<(IpAddr, u8)> = self.entries.iter().map(|entry| (entry.address, entry.id)).collect();
        for address in addresses.iter().filter(|address| **address != own) {
            if ids.iter().all(|(known, _)| known != address) {
                let free = (1..=u8::MAX).find(|id| ids.iter().all(|(_, known)| known != id));
                ids.extend(free.map(|id| (*address, id)));
            }
        }
        ids.retain(|(address, _)| *address != own);
        ids
    }
}

fn invalid(why: impl Into<String>) -> Refused {
    Refused::new(ErrorKind::Invalid, why)
}

impl Connection {
    /// Its addresses, if a program manages it.
    pub(crate) fn managed(&mut self) -> Result<&mut Manager, Refused> {
        self.manager.as_mut().ok_or_else(|| invalid("userspace PM not selected"))
    }

    fn append(&mut self, entry: Entry) -> Result<(), Refused> {
        let entry = Entry { flags: entry.flags & FLAGS, ..entry };
        if self.managed()?.append(entry) { Ok(()) } else { Err(invalid("did not match address and id")) }
    }

    /// mptcp_pm_nl_announce_doit: the peer hears of an address.
    pub(crate) fn announce_managed(&mut self, entry: Entry, out: &mut Out<'_, '_>) -> Result<(), Refused> {
        self.managed()?;
        if entry.id == 0 {
            return Err(invalid("invalid addr id"));
        }
        if entry.flags & SIGNAL == 0 {
            return Err(invalid("invalid addr flags"));
        }
        let (id, address, port) = (entry.id, entry.address, Some(entry.port).filter(|port| *port > 0));
        // A subflow that is ended takes its address along, and not what was said of it.
        if self.said.len() >= ANNOUNCED_MAX {
            return Err(Refused::new(ErrorKind::NoSpace, format!("a connection announces {ANNOUNCED_MAX} addresses: take some back")));
        }
        self.append(entry)?;
        let manager = self.managed()?;
        manager.announced = manager.announced.saturating_add(1);
        // Whoever says it again is heard again.
        self.said.retain(|said| (said.address, said.port) != (address, port));
        self.said.push(Announcement { id, address, port, echoed: false, times: 0, again_at: None });
        self.say_address(self.said.len() - 1, out);
        self.offer_again(out);
        Ok(())
    }

    /// mptcp_pm_nl_remove_doit: the peer hears that an address is no more. What it has by it the peer ends.
    pub(crate) fn remove_managed(&mut self, id: u8, out: &mut Out<'_, '_>) -> Result<(), Refused> {
        let manager = self.managed()?;
        if id > 0 {
            let at = manager.entries.iter().position(|entry| entry.id == id);
            let at = at.ok_or_else(|| invalid(format!("address with id {id} not found")))?;
            let entry = manager.entries.remove(at);
            let before = self.said.len();
            let port = Some(entry.port).filter(|port| *port > 0);
            self.said.retain(|said| (said.address, said.port) != (entry.address, port));
            let announced = self.said.len() < before;
            if announced {
                let manager = self.managed()?;
                manager.announced = manager.announced.saturating_sub(1);
            }
            self.offer_again(out);
            // mptcp_pm_remove_addrs: "only delete if either announced or matching a subflow".
            if !announced && !self.paths.iter().any(|path| !path.closed && path.local.ip() == entry.address) {
                return Ok(());
            }
        }
        let speakers = (0..self.paths.len()).filter(|index| self.paths[*index].may_send());
        if let Some(speaker) = speakers.min_by_key(|index| (self.paths[*index].local_id == id, self.paths[*index].suspect)) {
            out.word(self.paths[speaker].flow, &Down::Say(Say::Remove(vec![id])));
        }
        Ok(())
    }

    /// mptcp_pm_nl_subflow_create_doit.
    pub(crate) fn create_managed(
        &mut self,
        entry: Entry,
        (remote_id, remote): (u8, SocketAddr),
        out: &mut Out<'_, '_>,
    ) -> Result<(), Refused> {
        self.managed()?;
        if entry.flags & SIGNAL != 0 {
            return Err(invalid("invalid addr flags"));
        }
        let v4 = entry.address.is_ipv4();
        // mptcp_pm_addr_families_match: a connection of IPv6 may have subflows of IPv4, and not the other way.
        if v4 != remote.is_ipv4() || self.paths[0].local.is_ipv4() && !v4 {
            return Err(invalid("families mismatch"));
        }
        self.append(Entry { flags: entry.flags | SUBFLOW, ..entry.clone() })?;
        let done = self.begin_managed(&entry, (remote_id, remote), out);
        if done.is_err() {
            self.managed()?.delete(entry.address);
        }
        self.offer_again(out);
        done
    }

    /// __mptcp_subflow_connect, as far as it fails at once.
    fn begin_managed(&mut self, entry: &Entry, (remote_id, mut remote): (u8, SocketAddr), out: &mut Out<'_, '_>) -> Result<(), Refused> {
        let failed = |kind: ErrorKind| Refused::new(kind, format!("connect error: -{}", kind.errno()));
        if self.stage != Stage::Open || self.remote.is_none() || !self.confirmed || self.fallen_back {
            return Err(failed(ErrorKind::NotConnected));
        }
        if self.further() >= PATHS_MAX {
            return Err(failed(ErrorKind::NoSpace));
        }
        if entry.interface != 0 && !out.locals.interfaces.iter().any(|(_, index)| index.0 == entry.interface) {
            return Err(failed(ErrorKind::NoDevice));
        }
        let mut from = From {
            id: entry.id,
            address: entry.address,
            interface: InterfaceIndex(entry.interface),
            backup: entry.flags & BACKUP != 0,
            everywhere: false,
        };
        if from.address.is_unspecified() {
            from = self.chosen(from, remote, out).ok_or_else(|| failed(ErrorKind::NetworkUnreachable))?;
        } else if !is_own(from.address, out) {
            return Err(failed(ErrorKind::AddressNotAvailable));
        }
        if remote.ip().is_unspecified() {
            // ip_route_output_key_hash_rcu: "if (!fl4->daddr) { fl4->daddr = fl4->saddr; …": oneself.
            remote.set_ip(from.address);
        }
        if !has_route(&from, remote, out) {
            return Err(failed(ErrorKind::NetworkUnreachable));
        }
        self.begin_subflow(&from, (remote_id, remote), Some(entry.port).filter(|port| *port > 0), out);
        Ok(())
    }

    /// The address that the routes choose, with its identifier.
    fn chosen(&mut self, from: From, to: SocketAddr, out: &Out<'_, '_>) -> Option<From> {
        let traffic = Traffic { protocol: weft_wire::Protocol::TCP.0, ports: (0, to.port()), ..Traffic::default() };
        let query = Query::Route { destination: to.ip(), source: None, interface: None, traffic };
        let address = out.cx.route(&query, Family::of(to.ip()))?.source;
        let own = self.paths[0].local.ip();
        let ids = self.manager.as_ref()?.ids(own, &[address]);
        let id = ids.iter().find(|(known, _)| *known == address).map_or(0, |(_, id)| *id);
        self.took(address, id);
        Some(From { id, address, ..from })
    }

    /// A subflow has an address that nobody has named (mptcp_userspace_pm_get_local_id).
    pub(super) fn took(&mut self, address: IpAddr, id: u8) {
        let own = self.paths[0].local.ip();
        if let Some(manager) = self.manager.as_mut().filter(|manager| id > 0 && address != own && manager.at(address).is_none()) {
            manager.append(Entry { id, address, port: 0, flags: IMPLICIT, interface: 0 });
        }
    }

    /// mptcp_pm_nl_subflow_destroy_doit: what is on its way by it arrives.
    pub(crate) fn destroy_managed(&mut self, local: SocketAddr, remote: SocketAddr, out: &mut Out<'_, '_>) -> Result<(), Refused> {
        self.managed()?;
        let is_it = |index: &usize| {
            let path = &self.paths[*index];
            (path.local, path.remote) == (local, remote) && !path.closed && !path.released
        };
        let found = (0..self.paths.len()).find(is_it).ok_or_else(|| Refused::new(ErrorKind::NoMatch, "subflow not found"))?;
        self.managed()?.delete(local.ip());
        out.count(Counter::RmSubflow);
        if self.stage != Stage::Open || !self.paths[found].up {
            self.drop_path(found, reset_reason::UNSPECIFIED, out);
        } else {
            self.end_path(found, out);
            self.tell_path("subflow-closed", found, None, out);
            self.push(out);
        }
        self.offer_again(out);
        Ok(())
    }

    /// mptcp_userspace_pm_set_flags: the peer hears whether a subflow is a backup. A port of 0 is any.
    pub(crate) fn change_managed(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        backup: bool,
        out: &mut Out<'_, '_>,
    ) -> Result<(), Refused> {
        let manager = self.managed()?;
        if let Some(at) = manager.at(local.ip()) {
            let entry = &mut manager.entries[at];
            entry.flags = entry.flags & !BACKUP | if backup { BACKUP } else { 0 };
        }
        let fits = |have: SocketAddr, wanted: SocketAddr| have.ip() == wanted.ip() && (wanted.port() == 0 || have.port() == wanted.port());
        let found = self.paths.iter_mut().find(|path| path.may_send() && fits(path.local, local) && fits(path.remote, remote));
        let path = found.ok_or_else(|| invalid("subflow not found"))?;
        path.backup = backup;
        out.word(path.flow, &Down::Say(Say::Priority { backup }));
        self.push(out);
        Ok(())
    }
}

/// May a socket be bound to this address?
fn is_own(address: IpAddr, out: &Out<'_, '_>) -> bool {
    let query = Query::Route { destination: address, source: None, interface: None, traffic: Traffic::default() };
    out.locals.addresses.contains(&address) || out.cx.route(&query, Family::of(address)).is_some_and(|route| route.kind == RouteKind::Local)
}
