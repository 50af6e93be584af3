//! Which addresses this node has for connections.

use crate::endpoint::{Endpoint, Locals, free_id};
use crate::kind::Settings;
use std::collections::BTreeMap;
use std::net::IpAddr;
use weft_core::table::{Address, AddressState, Family, Which};
use weft_core::{Answer, Context, InterfaceIndex, Query, Table};

/// Endpoints that nobody has named, at most.
const EVERY_MAX: usize = 64;

/// What there is now; `ids` keeps the identifiers of addresses, `before` is what there was.
/// `used`: what has gone over the interfaces of each quota.
pub(super) fn look(settings: &Settings, used: &[u64], ids: &mut BTreeMap<IpAddr, u8>, before: &Locals, cx: &Context<'_>) -> Locals {
    let interfaces = match cx.ask(Table::Interfaces, &Query::Interfaces(Which::All)) {
        Answer::Interfaces(rows) => rows,
        _ => Vec::new(),
    };
    let is_up = |index: InterfaceIndex| interfaces.iter().find(|row| row.interface.index == index).is_none_or(|row| row.interface.up);
    let named = |name: &str| interfaces.iter().find(|row| row.interface.name == name).map(|row| row.interface.index);
    let row = |address: &Address| interfaces.iter().find(|row| row.interface.index == address.interface).map(|row| &row.interface);
    let quotas_of = |address: &Address| {
        let interface = row(address);
        settings.quotas.iter().enumerate().filter(move |(_, quota)| interface.is_some_and(|interface| quota.holds(interface)))
    };
    let has_quota = |address: &Address| quotas_of(address).all(|(at, quota)| used.get(at).is_none_or(|used| *used < quota.bytes));
    let mut usable: Vec<Address> = Vec::new();
    for family in [Family::V4, Family::V6] {
        if let Answer::Addresses(list) = cx.ask(Table::Addresses(family), &Query::Addresses) {
            let good = |address: &Address| matches!(address.state, AddressState::Preferred | AddressState::Deprecated);
            usable.extend(list.into_iter().filter(|address| good(address) && is_up(address.interface)));
        }
    }
    let spent = usable.extract_if(.., |address| !has_quota(address)).map(|address| address.address).collect();
    let addresses: Vec<IpAddr> = usable.iter().map(|address| address.address).collect();
    let of_interfaces = usable.iter().map(|address| (address.address, address.interface)).collect();
    let lost = before.addresses.iter().copied().filter(|address| !addresses.contains(address)).collect();
    let every = settings.every && settings.endpoints.is_empty();
    let endpoints = match every {
        true => every_address(&usable, ids),
        false if settings.same_addresses => Vec::new(),
        false => {
            let resolved = |endpoint: &Endpoint| Endpoint {
                interface: endpoint.dev.as_deref().map_or(InterfaceIndex::NONE, |dev| named(dev).unwrap_or(InterfaceIndex(u32::MAX))),
                ..endpoint.clone()
            };
            settings.endpoints.iter().map(resolved).collect()
        }
    };
    let ranks = match settings.prefer.is_empty() {
        true => Vec::new(),
        false => usable.iter().filter_map(|at| Some((at.address, settings.prefer.rank(row(at)?)))).collect(),
    };
    let metered = usable.iter().flat_map(|at| quotas_of(at).map(|(quota, _)| (at.address, quota))).collect();
    let is_named = |address: &IpAddr| settings.endpoints.iter().any(|endpoint| endpoint.address == *address);
    let before = before.endpoints.iter().filter(|_| !before.every).map(|endpoint| endpoint.address);
    let removed = before.filter(|address| !is_named(address)).collect();
    Locals { removed, endpoints, addresses, interfaces: of_interfaces, lost, ranks, metered, spent, every }
}

/// Every address that others can reach.
fn every_address(usable: &[Address], ids: &mut BTreeMap<IpAddr, u8>) -> Vec<Endpoint> {
    let reachable = |address: &&Address| {
        let link_local = matches!(address.address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        address.scope == 0 && !address.address.is_loopback() && !link_local && address.state == AddressState::Preferred
    };
    let mut out = Vec::new();
    for address in usable.iter().filter(reachable).take(EVERY_MAX) {
        let known = ids.get(&address.address).copied();
        let Some(id) = known.or_else(|| free_id(ids.values().copied().collect::<Vec<_>>().into_iter())) else { continue };
        ids.insert(address.address, id);
        out.push(Endpoint::any(id, address.address, address.interface));
    }
    // Identifiers of addresses that are gone are free, once there is need of them.
    if ids.len() > usize::from(u8::MAX) - EVERY_MAX {
        ids.retain(|address, _| usable.iter().any(|known| known.address == *address));
    }
    out
}
