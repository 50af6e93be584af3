//! What both IP blocks read alike from the arguments of their procedures: to whom an address goes, what belongs to it, where a route is put.

use crate::arguments::Arguments;
use crate::facts::find_interface;
use crate::ip::hops::{HOPS_MAX, WEIGHT_MAX};
use crate::ip::routes::Bits;
use std::net::IpAddr;
use weft_core::table::{Address, Family, Hop, Label, Route, RouteKind, RouteRow, TABLE_LOCAL, TABLE_MAIN, Which};
use weft_core::{Answer, Context, ControlError, Duration, InterfaceIndex, Query, Refused, Table, Value};

/// Where a route goes among those with its prefix and metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ip) enum Place {
    /// There is none (NLM_F_EXCL).
    Alone,
    /// Behind them (NLM_F_APPEND).
    Last,
    /// Before them.
    First,
}

/// How a route is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ip) struct Adding {
    /// Where it goes; none: as the block always did.
    pub place: Option<Place>,
    /// The first with its prefix and metric makes room (NLM_F_REPLACE).
    pub replace: bool,
    /// Only if there is one (no NLM_F_CREATE).
    pub must_exist: bool,
}

impl Adding {
    /// The argument `place`.
    pub(in crate::ip) fn read(arguments: &Arguments<'_>) -> Result<Adding, ControlError> {
        let (place, replace, must_exist) = match arguments.text("place")? {
            None => (None, false, false),
            Some("alone") => (Some(Place::Alone), false, false),
            Some("last") => (Some(Place::Last), false, false),
            Some("first") => (Some(Place::First), false, false),
            Some("replace") => (Some(Place::First), true, false),
            Some("change") => (Some(Place::First), true, true),
            Some(other) => return Err(arguments.fail(format!("place: '{other}' is none of: alone, last, first, replace, change"))),
        };
        Ok(Adding { place, replace, must_exist })
    }
}

/// Arguments of `route_add` that are of rtnetlink.
pub(in crate::ip) const OF_ROUTE: [&str; 6] = ["table", "protocol", "scope", "onlink", "place", "nexthops"];

/// Arguments of `route_delete`.
pub(in crate::ip) const OF_DELETE: [&str; 11] =
    ["destination", "gateway", "interface", "source", "metric", "mtu", "kind", "table", "protocol", "scope", "nexthops"];

/// Fills in the fields of a route that are of rtnetlink; `scope`: where nobody says one.
pub(in crate::ip) fn complete_route(arguments: &Arguments<'_>, route: Route, scope: u8) -> Result<Route, ControlError> {
    let byte = |name: &str| Ok::<_, ControlError>(arguments.number(name, 0, 255)?.map(|number| number as u8));
    Ok(Route {
        table: arguments.number("table", 1, u32::MAX)?.unwrap_or(TABLE_MAIN),
        protocol: byte("protocol")?.unwrap_or(route.protocol),
        scope: byte("scope")?.unwrap_or(scope),
        onlink: arguments.bool("onlink")?.unwrap_or(false),
        ..route
    })
}

/// A next hop as somebody says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ip) struct AskedHop {
    pub gateway: Option<IpAddr>,
    pub interface: Option<InterfaceIndex>,
    pub weight: u16,
    pub onlink: bool,
}

impl AskedHop {
    fn read<B: Bits>(arguments: &Arguments<'_>, cx: &Context<'_>) -> Result<AskedHop, ControlError> {
        let gateway = match B::FAMILY {
            Family::V4 => arguments.address("gateway")?.map(IpAddr::V4),
            Family::V6 => arguments.address_v6("gateway")?.map(IpAddr::V6),
        };
        let interface = arguments.value("interface").map(|value| find_interface(value, cx)).transpose();
        Ok(AskedHop {
            gateway,
            interface: interface.map_err(|why| arguments.fail(why))?,
            weight: arguments.number("weight", 1, WEIGHT_MAX)?.unwrap_or(1) as u16,
            onlink: arguments.bool("onlink")?.unwrap_or(false),
        })
    }

    /// A route by this hop alone.
    pub(in crate::ip) fn of(&self, route: Route, interface: InterfaceIndex) -> Hop {
        let route = Route { gateway: self.gateway, interface, onlink: self.onlink, ..route };
        Hop { route, weight: self.weight, dead: false }
    }
}

/// The argument `nexthops`: several next hops, of which none is the route's own gateway or interface. None: it is not there.
fn several_hops<B: Bits>(arguments: &Arguments<'_>, cx: &Context<'_>) -> Result<Option<Vec<AskedHop>>, ControlError> {
    let Some(value) = arguments.value("nexthops") else { return Ok(None) };
    let list = value.as_array().filter(|list| !list.is_empty() && list.iter().all(Value::is_object));
    let Some(list) = list else {
        let example = if B::FAMILY == Family::V4 { "10.0.0.2" } else { "fd00::2" };
        return Err(arguments.fail(format!("nexthops: {value} is no list such as [{{\"gateway\": \"{example}\", \"weight\": 2}}, …]")));
    };
    if list.len() > HOPS_MAX {
        return Err(ControlError::Limit { what: "next hops of one route".to_owned(), max: HOPS_MAX as u64 });
    }
    list.iter()
        .map(|one| AskedHop::read::<B>(&arguments.inside(one, &["gateway", "interface", "weight", "onlink"])?, cx))
        .collect::<Result<_, _>>()
        .map(Some)
}

/// The next hops of a route that is to be added: those of the list, or the one that `gateway` and `interface` say; whether it is the list.
pub(in crate::ip) fn next_hops<B: Bits>(
    arguments: &Arguments<'_>,
    kind: RouteKind,
    cx: &Context<'_>,
) -> Result<(Vec<AskedHop>, bool), ControlError> {
    let own = ["gateway", "interface", "onlink"].into_iter().find(|name| arguments.value(name).is_some_and(|value| value != false));
    match (several_hops::<B>(arguments, cx)?, own) {
        // ip6_route_info_create: "if ((cfg->fc_flags & RTF_REJECT) || …) { … dev = net->loopback_dev; …", and what was said of a gateway is not looked at.
        (None, _) if !matches!(kind, RouteKind::Unicast | RouteKind::Local) && B::FAMILY == Family::V6 => {
            let asked = AskedHop::read::<B>(arguments, cx)?;
            Ok((vec![AskedHop { gateway: None, onlink: false, ..asked }], false))
        }
        (None, _) => Ok((vec![AskedHop::read::<B>(arguments, cx)?], false)),
        (Some(_), Some(name)) => {
            Err(arguments.fail(Refused::invalid(format!("{name} is said of each of the next hops, not of the route that has them"))))
        }
        (Some(_), None) if kind != RouteKind::Unicast => {
            Err(arguments.fail(Refused::invalid("a route that sends nothing on has no next hops")))
        }
        (Some(hops), None) => Ok((hops, true)),
    }
}

/// Arguments of `address_add` that are of rtnetlink.
pub(in crate::ip) const OF_ADDRESS: [&str; 8] = ["broadcast", "scope", "label", "flags", "metric", "valid_lft", "preferred_lft", "replace"];

/// What is said of an address beside itself and its peer. Lifetimes are seconds.
pub(in crate::ip) fn complete_address(arguments: &Arguments<'_>, address: Address, cx: &Context<'_>) -> Result<Address, ControlError> {
    let label = match arguments.text("label")? {
        None => Label::default(),
        Some(text) => {
            Label::new(text).ok_or_else(|| arguments.fail(Refused::invalid(format!("label: '{text}' has more than 15 bytes"))))?
        }
    };
    let until = |name: &str| {
        let seconds = arguments.number(name, 0, u32::MAX)?.filter(|seconds| *seconds != u32::MAX);
        Ok::<_, ControlError>(seconds.map(|seconds| cx.now + Duration::from_secs(seconds.into())))
    };
    Ok(Address {
        scope: arguments.number("scope", 0, 255)?.map_or(address.scope, |scope| scope as u8),
        label,
        flags: arguments.number("flags", 0, u32::MAX)?.unwrap_or(0),
        metric: arguments.number("metric", 0, u32::MAX)?.unwrap_or(0),
        valid_until: until("valid_lft")?,
        preferred_until: until("preferred_lft")?,
        ..address
    })
}

/// The interface that is named, or the members of the group that is.
pub(in crate::ip) fn interfaces(arguments: &Arguments<'_>, cx: &Context<'_>) -> Result<Vec<InterfaceIndex>, ControlError> {
    let value = arguments.value("interface").ok_or_else(|| arguments.fail("interface is missing"))?;
    let Some(group) = value.as_str().and_then(|text| text.strip_prefix("group:")) else {
        return find_interface(value, cx).map(|one| vec![one]).map_err(|why| arguments.fail(why));
    };
    let number = group.parse().map_err(|_| arguments.fail(format!("interface: '{group}' is no group's number")))?;
    match cx.ask(Table::Interfaces, &Query::Interfaces(Which::Group(number))) {
        Answer::Interfaces(members) if !members.is_empty() => Ok(members.iter().map(|member| member.interface.index).collect()),
        _ => Err(arguments.fail(Refused::no_device(format!("group {number} has no members")))),
    }
}

/// Which member of a group cannot be changed; of one interface nobody need be told.
pub(in crate::ip) fn culprit(arguments: &Arguments<'_>, interface: InterfaceIndex, cx: &Context<'_>) -> String {
    let group = arguments.value("interface").and_then(|value| value.as_str()).and_then(|text| text.strip_prefix("group:"));
    match (group, cx.ask(Table::Interfaces, &Query::Interface(interface))) {
        (Some(group), Answer::Interface(found)) => format!(": member '{}' of group {group}; none is changed", found.name),
        _ => String::new(),
    }
}

/// The arguments of `route_add` for each member of the group that they name as interface, with its name. None: they name no group.
pub(in crate::ip) fn of_members(
    block: &str,
    procedure: &str,
    value: &Value,
    cx: &Context<'_>,
) -> Result<Option<Vec<(String, Value)>>, ControlError> {
    let Some(group) = value.get("interface").and_then(Value::as_str).and_then(|text| text.strip_prefix("group:")) else { return Ok(None) };
    let failed = |why: Refused| ControlError::ExecFailed { block: block.to_owned(), procedure: procedure.to_owned(), why };
    let number = group.parse().map_err(|_| failed(format!("interface: '{group}' is no group's number").into()))?;
    let members = match cx.ask(Table::Interfaces, &Query::Interfaces(Which::Group(number))) {
        Answer::Interfaces(members) if !members.is_empty() => members,
        _ => return Err(failed(Refused::no_device(format!("group {number} has no members")))),
    };
    let metric = value.get("metric").and_then(Value::as_u64).unwrap_or(0);
    let each = members.into_iter().zip(metric..).map(|(member, metric)| {
        let mut one = value.clone();
        one["interface"] = member.interface.index.0.into();
        one["metric"] = metric.into();
        (member.interface.name, one)
    });
    Ok(Some(each.collect()))
}

/// The refusal of one member, as that of the whole.
pub(in crate::ip) fn of_member(error: ControlError, name: &str) -> ControlError {
    match error {
        ControlError::ExecFailed { block, procedure, why } => {
            ControlError::ExecFailed { block, procedure, why: why.and(&format!(": member '{name}'; none is changed")) }
        }
        other => other,
    }
}

/// The arguments that delete what these have added.
pub(in crate::ip) fn without_place(added: &Value) -> Value {
    let mut arguments = added.clone();
    if let Value::Object(fields) = &mut arguments {
        fields.retain(|name, _| !matches!(name.as_str(), "place" | "onlink" | "mtu"));
    }
    arguments
}

/// "default", an address, or a prefix, as `ip route` has it.
pub(in crate::ip) fn prefix_text(destination: IpAddr, bits: u8) -> String {
    match (bits, destination.is_ipv4()) {
        (0, _) => "default".to_owned(),
        (32, true) | (128, false) => destination.to_string(),
        (bits, _) => format!("{destination}/{bits}"),
    }
}

/// What `route_delete` means by its arguments.
pub(in crate::ip) struct Meant {
    /// One hop, or the first of several: gateway and interface.
    hop: (Option<IpAddr>, Option<InterfaceIndex>),
    /// Its hops, in order.
    pub several: Option<Vec<AskedHop>>,
    source: Option<IpAddr>,
    metric: Option<u32>,
    kind: Option<RouteKind>,
    protocol: Option<u8>,
}

impl Meant {
    /// What is not said of a route, or said as 0, is any (fib_table_delete, ip6_route_del).
    pub(in crate::ip) fn read<B: Bits>(arguments: &Arguments<'_>, source: Option<IpAddr>, cx: &Context<'_>) -> Result<Meant, ControlError> {
        let hop = AskedHop::read::<B>(arguments, cx)?;
        Ok(Meant {
            hop: (hop.gateway, hop.interface),
            several: several_hops::<B>(arguments, cx)?,
            source,
            metric: arguments.number("metric", 0, u32::MAX)?.filter(|metric| *metric != 0),
            kind: route_kind(arguments)?,
            protocol: arguments.number("protocol", 0, 255)?.map(|number| number as u8),
        })
    }

    /// Is it said by which gateway?
    pub(in crate::ip) fn by_gateway(&self) -> bool {
        self.hop.0.is_some()
    }

    /// The same by one of the hops that were said.
    pub(in crate::ip) fn by(&self, hop: &AskedHop) -> Meant {
        Meant { hop: (hop.gateway, hop.interface), ..self.by_itself() }
    }

    /// Without the hops that were said.
    pub(in crate::ip) fn by_itself(&self) -> Meant {
        Meant { several: None, ..*self }
    }

    /// Is a route meant that leads one way, or with this one of its hops?
    pub(in crate::ip) fn fits(&self, route: &Route) -> bool {
        let (gateway, interface) = self.hop;
        (gateway.is_none() || route.gateway == gateway)
            && interface.is_none_or(|interface| route.interface == interface)
            && self.metric.is_none_or(|metric| route.metric == metric)
            && self.kind.is_none_or(|kind| route.kind == kind)
            && self.protocol.is_none_or(|protocol| route.protocol == protocol)
            && (self.source.is_none() || route.source == self.source)
    }

    /// fib_nh_match: the first hop is the one that is said, or each hop the one of its place in the list.
    pub(in crate::ip) fn fits_whole(&self, row: &RouteRow) -> bool {
        let listed = self.several.as_ref().is_none_or(|asked| {
            let routes: Vec<&Route> = row.each().collect();
            asked.len() >= routes.len() && routes.iter().zip(asked).all(|(route, hop)| self.by(hop).fits(route))
        });
        self.fits(&row.route) && listed
    }
}

/// The argument `kind`.
pub(in crate::ip) fn route_kind(arguments: &Arguments<'_>) -> Result<Option<RouteKind>, ControlError> {
    Ok(Some(match arguments.text("kind")? {
        None => return Ok(None),
        Some("unicast") => RouteKind::Unicast,
        Some("blackhole") => RouteKind::Blackhole,
        Some("unreachable") => RouteKind::Unreachable,
        Some("prohibit") => RouteKind::Prohibit,
        Some("throw") => RouteKind::Throw,
        Some("local") => RouteKind::Local,
        Some(other) => {
            return Err(arguments.fail(format!("kind: '{other}' is none of: unicast, local, blackhole, unreachable, prohibit, throw")));
        }
    }))
}

/// Refuses routes of kind local outside of the table local or by another interface than `lo`, and others in that table: a route that is left makes a prefix
/// the node's own.
pub(in crate::ip) fn local_route(arguments: &Arguments<'_>, kind: RouteKind, table: u32, hop: &AskedHop) -> Result<(), ControlError> {
    if kind != RouteKind::Local && table != TABLE_LOCAL {
        return Ok(());
    }
    // fib_create_info, ip6_route_info_create: "dev = dev_get_by_index(net, cfg->fc_oif)", or ENODEV.
    let why = match (kind, table, hop.gateway, hop.interface) {
        (RouteKind::Local, TABLE_LOCAL, None, Some(InterfaceIndex::LOOPBACK)) => return Ok(()),
        (RouteKind::Local, TABLE_LOCAL, None, None) => Refused::no_device("a local route needs an interface"),
        (RouteKind::Local, TABLE_LOCAL, ..) => Refused::unsupported("local routes lead by lo alone"),
        (RouteKind::Local, ..) => Refused::unsupported("local routes are in the table local alone"),
        _ => Refused::unsupported("the table local has routes of kind local alone"),
    };
    Err(arguments.fail(why))
}
