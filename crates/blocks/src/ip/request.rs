//! What both IP blocks read alike from the arguments of their procedures: to whom an address goes, what belongs to it, where a route is put.

use crate::arguments::Arguments;
use crate::facts::find_interface;
use std::net::IpAddr;
use weft_core::table::{Address, Label, Route, RouteKind, TABLE_MAIN, Which};
use weft_core::{Answer, Context, ControlError, Duration, InterfaceIndex, Query, Table, Value};

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
pub(in crate::ip) const OF_ROUTE: [&str; 5] = ["table", "protocol", "scope", "onlink", "place"];

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

/// Arguments of `address_add` that are of rtnetlink.
pub(in crate::ip) const OF_ADDRESS: [&str; 8] = ["broadcast", "scope", "label", "flags", "metric", "valid_lft", "preferred_lft", "replace"];

/// What is said of an address beside itself and its peer. Lifetimes are seconds.
pub(in crate::ip) fn complete_address(arguments: &Arguments<'_>, address: Address, cx: &Context<'_>) -> Result<Address, ControlError> {
    let label = match arguments.text("label")? {
        None => Label::default(),
        Some(text) => Label::new(text).ok_or_else(|| arguments.fail(format!("EINVAL: label: '{text}' has more than 15 bytes")))?,
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
        _ => Err(arguments.fail(format!("ENODEV: group {number} has no members"))),
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
    let failed = |why: String| ControlError::ExecFailed { block: block.to_owned(), procedure: procedure.to_owned(), why };
    let number = group.parse().map_err(|_| failed(format!("interface: '{group}' is no group's number")))?;
    let members = match cx.ask(Table::Interfaces, &Query::Interfaces(Which::Group(number))) {
        Answer::Interfaces(members) if !members.is_empty() => members,
        _ => return Err(failed(format!("ENODEV: group {number} has no members"))),
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
            ControlError::ExecFailed { block, procedure, why: format!("{why}: member '{name}'; none is changed") }
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

/// Is a route one that `route_delete` means? What is not said of it, or said as 0, is any (fib_table_delete, ip6_route_del).
pub(in crate::ip) fn meant(
    arguments: &Arguments<'_>,
    gateway: Option<IpAddr>,
    source: Option<IpAddr>,
    cx: &Context<'_>,
) -> Result<impl Fn(&Route) -> bool + use<>, ControlError> {
    let protocol = arguments.number("protocol", 0, 255)?.map(|number| number as u8);
    let interface = arguments.value("interface").map(|value| find_interface(value, cx)).transpose().map_err(|why| arguments.fail(why))?;
    let metric = arguments.number("metric", 0, u32::MAX)?.filter(|metric| *metric != 0);
    let kind = route_kind(arguments)?;
    Ok(move |route: &Route| {
        (gateway.is_none() || route.gateway == gateway)
            && interface.is_none_or(|interface| route.interface == interface)
            && metric.is_none_or(|metric| route.metric == metric)
            && kind.is_none_or(|kind| route.kind == kind)
            && protocol.is_none_or(|protocol| route.protocol == protocol)
            && (source.is_none() || route.source == source)
    })
}

/// The argument `kind`.
pub(in crate::ip) fn route_kind(arguments: &Arguments<'_>) -> Result<Option<RouteKind>, ControlError> {
    Ok(Some(match arguments.text("kind")? {
        None => return Ok(None),
        Some("unicast") => RouteKind::Unicast,
        Some("blackhole") => RouteKind::Blackhole,
        Some("unreachable") => RouteKind::Unreachable,
        Some("prohibit") => RouteKind::Prohibit,
        Some(other) => return Err(arguments.fail(format!("kind: '{other}' is none of: unicast, blackhole, unreachable, prohibit"))),
    }))
}
