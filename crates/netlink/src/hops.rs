//! RTA_MULTIPATH: the next hops of a route, one `struct rtnexthop` with attributes of its own behind the other.

use crate::errno::{EINVAL, ENODEV, Refusal};
use crate::message::{Attributes, byte, put, word};
use crate::{Tables, interfaces};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;
use weft_core::InterfaceIndex;
use weft_core::table::{Answer, Family, Hop, Query, Route, RouteKind, Table, Which};

pub(crate) const RTA_MULTIPATH: u16 = 9;
const RTA_GATEWAY: u16 = 5;
/// Bytes of `struct rtnexthop`: length, flags, weight less one, interface.
const FIXED_BYTES: usize = 8;
const DEAD: u8 = 1;
pub(crate) const ONLINK: u8 = 4;
const LINKDOWN: u8 = 16;
/// Names of attributes for what hops here do not have.
const LACKING: [(u16, &str); 4] = [
    (18, "has no gateways of another family"),
    (22, "has no routes that encapsulate"),
    (21, "has no routes that encapsulate"),
    (11, "has no realms"),
];

/// A next hop that somebody asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    pub gateway: Option<IpAddr>,
    pub interface: Option<u32>,
    /// 1 to 256.
    weight: u16,
    pub onlink: bool,
}

impl Asked {
    /// As an argument of `route_add` and `route_delete`.
    pub fn argument(&self, adding: bool) -> Value {
        let mut one = json!({});
        if let Some(gateway) = self.gateway {
            one["gateway"] = gateway.to_string().into();
        }
        if let Some(interface) = self.interface {
            one["interface"] = interface.into();
        }
        if adding {
            one["weight"] = self.weight.into();
            one["onlink"] = self.onlink.into();
        }
        one
    }
}

/// The hops of a request; none: it has no RTA_MULTIPATH. `route`: RTA_GATEWAY and RTA_OIF of the route itself.
pub(crate) fn asked(
    attributes: &Attributes<'_>,
    v4: bool,
    adding: bool,
    route: (Option<IpAddr>, Option<u32>),
) -> Result<Option<Vec<Asked>>, Refusal> {
    let Some(mut rest) = attributes.get(RTA_MULTIPATH) else { return Ok(None) };
    let mut hops = Vec::new();
    // rtnh_ok: "remaining >= (int)sizeof(*rtnh) && rtnh->rtnh_len >= sizeof(*rtnh) && rtnh->rtnh_len <= remaining".
    while rest.len() >= FIXED_BYTES {
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        if length < FIXED_BYTES || length > rest.len() {
            break;
        }
        hops.push(one(&rest[..length], v4, route)?);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    // fib_count_nexthops.
    if v4 && !rest.is_empty() {
        return Err(Refusal::said(EINVAL, "Invalid nexthop configuration - extra data after nexthops"));
    }
    if hops.is_empty() {
        let text = (!v4).then_some("Invalid nexthop configuration - no valid nexthops");
        return Err(text.map_or(Refusal::plain(EINVAL), |text| Refusal::said(EINVAL, text)));
    }
    if v4 && adding {
        fits_route(&hops[0], route)?;
    }
    if !v4 && adding && hops.iter().any(|hop| hop.gateway.is_none()) {
        return Err(Refusal::said(EINVAL, "Device only routes can not be added for IPv6 using the multipath API."));
    }
    Ok(Some(hops))
}

fn one(bytes: &[u8], v4: bool, route: (Option<IpAddr>, Option<u32>)) -> Result<Asked, Refusal> {
    let (flags, weight, interface) = (byte(bytes, 2), u16::from(byte(bytes, 3)) + 1, word(bytes, 4));
    let attributes = Attributes::of(bytes, FIXED_BYTES);
    if v4 && flags & (DEAD | LINKDOWN) != 0 {
        return Err(Refusal::said(EINVAL, "Invalid flags for nexthop - can not contain DEAD or LINKDOWN"));
    }
    if let Some(what) = attributes.any(&LACKING) {
        return Err(Refusal::lacking(what));
    }
    let gateway = match attributes.get(RTA_GATEWAY).map(|bytes| address(bytes, v4)) {
        Some(None) => {
            let family = if v4 { "IPv4" } else { "IPv6" };
            return Err(Refusal::said(EINVAL, format!("Invalid {family} address in RTA_GATEWAY")));
        }
        Some(given) => given,
        // ip6_route_multipath_add copies what is said of the route.
        None => route.0.filter(|_| !v4),
    };
    let interface = Some(interface).filter(|index| *index != 0).or(route.1.filter(|_| !v4));
    // fib_gw_from_attr: "if (cfg->fc_gw4) cfg->fc_gw_family = AF_INET": 0.0.0.0 is none.
    let gateway = gateway.filter(|gateway| !v4 || !gateway.is_unspecified());
    Ok(Asked { gateway, interface, weight, onlink: flags & ONLINK != 0 })
}

/// An address of the family, which may have more behind it.
fn address(bytes: &[u8], v4: bool) -> Option<IpAddr> {
    match v4 {
        true => bytes.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
        false => bytes.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
    }
}

/// fib_get_nhs: what is said of a route beside its hops is said of the first of them.
fn fits_route(first: &Asked, (gateway, interface): (Option<IpAddr>, Option<u32>)) -> Result<(), Refusal> {
    if interface.is_some_and(|interface| first.interface != Some(interface)) {
        return Err(Refusal::said(EINVAL, "Nexthop device index does not match RTA_OIF"));
    }
    if gateway.is_some() && first.gateway != gateway {
        return Err(Refusal::said(EINVAL, "Nexthop gateway does not match RTA_GATEWAY or RTA_VIA"));
    }
    Ok(())
}

/// fib_get_nhs, fib_check_nh: interfaces that hops name are there, and gateways that nobody looks for are on one.
pub(crate) fn refuse_onlink_nowhere(hop: &Asked) -> Result<(), Refusal> {
    match hop.onlink && hop.gateway.is_some() && hop.interface.is_none() {
        true => Err(Refusal::said(ENODEV, "Nexthop device required for onlink")),
        false => Ok(()),
    }
}

/// The interfaces without carrier, through which routes are marked (RTNH_F_LINKDOWN).
#[derive(Default, Debug)]
pub(crate) struct Dark {
    pub interfaces: BTreeSet<InterfaceIndex>,
    /// They are passed over, too (ignore_routes_with_linkdown).
    pub ignored: bool,
}

impl Dark {
    pub fn of(family: Family, tables: &mut dyn Tables) -> Dark {
        let rows = interfaces(tables, Which::All).into_iter();
        let interfaces: BTreeSet<_> =
            rows.filter(|row| row.interface.up && !row.interface.carrier).map(|row| row.interface.index).collect();
        let asks = !interfaces.is_empty();
        let ignored = asks && matches!(tables.ask(Table::Routes(family), &Query::IgnoresLinkdown), Answer::Wanted(true));
        Dark { interfaces, ignored }
    }

    /// fib_nexthop_info. What is local stays so: fib_sync_down_dev passes RT_SCOPE_NOWHERE over.
    pub fn flags(&self, route: &Route) -> u8 {
        match route.kind != RouteKind::Local && self.interfaces.contains(&route.interface) {
            true if self.ignored => LINKDOWN | DEAD,
            true => LINKDOWN,
            false => 0,
        }
    }
}

/// fib_add_nexthop: RTA_MULTIPATH of these hops.
pub(crate) fn attribute(hops: &[Hop], dark: &Dark) -> Vec<u8> {
    let mut all = Vec::with_capacity(hops.len() * 32);
    for hop in hops {
        let at = all.len();
        let flags = if hop.route.onlink { ONLINK } else { 0 } | if hop.dead { DEAD | LINKDOWN } else { dark.flags(&hop.route) };
        all.extend([0, 0, flags, u8::try_from(hop.weight.saturating_sub(1)).unwrap_or(u8::MAX)]);
        all.extend(hop.route.interface.0.to_ne_bytes());
        match hop.route.gateway {
            Some(IpAddr::V4(gateway)) => put(&mut all, RTA_GATEWAY, &gateway.octets()),
            Some(IpAddr::V6(gateway)) => put(&mut all, RTA_GATEWAY, &gateway.octets()),
            None => {}
        }
        let length = u16::try_from(all.len() - at).unwrap_or(u16::MAX);
        all[at..at + 2].copy_from_slice(&length.to_ne_bytes());
    }
    all
}

/// The hops of an alert's row, as those of a route; none: it has one.
pub(crate) fn of_row(row: &Value, route: Route) -> Vec<Hop> {
    let hop = |one: &Value| {
        let number = |field: &str| one.get(field).and_then(Value::as_u64);
        let is = |field: &str| one.get(field).and_then(Value::as_bool).unwrap_or(false);
        let gateway = one.get("gateway").and_then(Value::as_str).and_then(|text| text.parse().ok());
        let interface = InterfaceIndex(number("interface").and_then(|index| u32::try_from(index).ok()).unwrap_or(0));
        let weight = number("weight").and_then(|weight| u16::try_from(weight).ok()).unwrap_or(1);
        Hop { route: Route { gateway, interface, onlink: is("onlink"), ..route }, weight, dead: is("dead") }
    };
    row.get("nexthops").and_then(Value::as_array).into_iter().flatten().map(hop).collect()
}
