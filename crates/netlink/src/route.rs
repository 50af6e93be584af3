//! RTM_*ROUTE: routes, and the way to an address.

use crate::errno::{EACCES, EEXIST, EHOSTUNREACH, EINVAL, ENETDOWN, ENETUNREACH, ENODEV, ENOENT, Refusal, number_of};
use crate::hops::{self, Dark, RTA_MULTIPATH};
use crate::local::{self, dump_order, network, width};
use crate::message::{Attributes, INET, INET6, IP6MR, IPMR, Message, byte, families_or_all, put, word};
use crate::packet::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Options, Reply, Request};
use crate::{Tables, interfaces};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_core::InterfaceIndex;
use weft_core::table::{
    AddressKind, Answer, Family, InterfaceRow, Query, Route, RouteAnswer, RouteKind, RouteRow, TABLE_LOCAL, TABLE_MAIN, Table, Traffic,
    Which,
};

pub(crate) const NEWROUTE: u16 = 24;
pub(crate) const DELROUTE: u16 = 25;
/// Bytes of `struct rtmsg`.
const FIXED_BYTES: usize = 12;

pub(crate) const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_IIF: u16 = 3;
pub(crate) const RTA_OIF: u16 = 4;
pub(crate) const RTA_GATEWAY: u16 = 5;
pub(crate) const RTA_PRIORITY: u16 = 6;
pub(crate) const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_TABLE: u16 = 15;
const RTA_MARK: u16 = 16;
const RTA_PREF: u16 = 20;
const RTA_UID: u16 = 25;
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;
const RTAX_MTU: u16 = 2;
/// Names of attributes for what routes here do not have.
const LACKING: [(u16, &str); 5] = [
    (18, "has no gateways of another family"),
    (22, "has no routes that encapsulate"),
    (23, "has no routes that expire"),
    (30, "has no next-hop objects"),
    (11, "has no realms"),
];
const RTNH_F_ONLINK: u32 = 4;
const RTM_F_CLONED: u32 = 0x200;
const RTM_F_FIB_MATCH: u32 = 0x2000;
const RTCF_LOCAL: u32 = 0x8000_0000;
const RTCF_BROADCAST: u32 = 0x1000_0000;
const RTCF_MULTICAST: u32 = 0x2000_0000;
const RTCF_DOREDIRECT: u32 = 0x0100_0000;
const RT_SCOPE_NOWHERE: u8 = 255;

/// The number of a kind: RTN_*.
fn kind_number(kind: RouteKind) -> u8 {
    match kind {
        RouteKind::Unicast => 1,
        RouteKind::Local => 2,
        RouteKind::Broadcast => 3,
        RouteKind::Multicast => 5,
        RouteKind::Blackhole => 6,
        RouteKind::Unreachable => 7,
        RouteKind::Prohibit => 8,
        RouteKind::Throw => 9,
    }
}

/// The word for a kind that can be set; 0 is none.
fn kind_word(number: u8) -> Result<Option<&'static str>, Refusal> {
    Ok(Some(match number {
        0 => return Ok(None),
        1 => "unicast",
        2 => "local",
        6 => "blackhole",
        7 => "unreachable",
        8 => "prohibit",
        9 => "throw",
        3..=5 => return Err(Refusal::lacking("sets no broadcast, anycast or multicast routes: they follow from addresses and groups")),
        _ => return Err(Refusal::said(EINVAL, "Invalid route type")),
    }))
}

pub(crate) fn answer(request: &Request<'_>, options: &Options, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let attributes = Attributes::of(request.body, FIXED_BYTES);
    match request.kind {
        NEWROUTE => add(request, &attributes, tables),
        DELROUTE => delete(request, &attributes, tables),
        _ if request.is_dump() => Ok(dump(request, &attributes, options, tables)),
        _ => get(request, &attributes, tables),
    }
}

/// Every route of a family as the kernel lists them: table by table, the table local at the end.
fn all(family: Family, tables: &mut dyn Tables) -> Vec<RouteRow> {
    let mut routes = match tables.ask(Table::Routes(family), &Query::Routes) {
        Answer::Routes(routes) => routes,
        _ => Vec::new(),
    };
    routes.sort_by(|RouteRow { route: a, .. }, RouteRow { route: b, .. }| {
        a.table.cmp(&b.table).then(dump_order(a, b)).then(a.metric.cmp(&b.metric))
    });
    let addresses = crate::address::all(family, tables);
    let mut rows = interfaces(tables, Which::All);
    if family == Family::V6 {
        // One that has no address may have no IPv6.
        let having: BTreeSet<InterfaceIndex> = addresses.iter().map(|address| address.interface).collect();
        rows.retain(|row| having.contains(&row.interface.index) || !is_disabled(row, tables));
    }
    let dark = rows.iter().filter(|row| family == Family::V6 && !row.interface.carrier).map(|row| row.interface.index);
    let unready =
        dark.filter(|index| matches!(tables.ask(Table::Routes(family), &Query::IsReady(*index)), Answer::Wanted(false))).collect();
    // Those that somebody has set among those that follow from addresses.
    let (mut local, mut routes): (Vec<RouteRow>, Vec<RouteRow>) = routes.into_iter().partition(|row| row.route.table == TABLE_LOCAL);
    local.splice(0..0, local::routes(&addresses, &rows, &unready).into_iter().map(RouteRow::from));
    local.sort_by(|RouteRow { route: a, .. }, RouteRow { route: b, .. }| dump_order(a, b).then(a.metric.cmp(&b.metric)));
    routes.extend(local);
    routes
}

/// Is IPv6 switched off on an interface (net.ipv6.conf.NAME.disable_ipv6)?
fn is_disabled(row: &InterfaceRow, tables: &mut dyn Tables) -> bool {
    tables.exec("ip6", "interface_disable", json!({"interface": row.interface.name})).is_ok_and(|answer| answer == json!(true))
}

fn dump(request: &Request<'_>, attributes: &Attributes<'_>, options: &Options, tables: &mut dyn Tables) -> Reply {
    let body = request.body;
    let strict = options.strict;
    let table = attributes.u32(RTA_TABLE).or(Some(byte(body, 4).into())).filter(|table| strict && *table != 0);
    let interface = attributes.u32(RTA_OIF).filter(|_| strict);
    let protocol = Some(byte(body, 5)).filter(|protocol| strict && *protocol != 0);
    let kind = Some(byte(body, 7)).filter(|kind| strict && *kind != 0);
    if word(body, 8) & RTM_F_CLONED != 0 {
        // Cached routes: exceptions are not listed.
        return Reply::Dump(Vec::new(), strict);
    }
    let mut messages = Vec::new();
    // There are no multicast routes.
    let asked = if matches!(byte(body, 0), IPMR | IP6MR) { &[] } else { families_or_all(byte(body, 0)) };
    for family in asked {
        let routes = all(*family, tables);
        let dark = Dark::of(*family, tables);
        // fib_get_table, inet6_dump_fib: a table is there from its first route on, and stays.
        if let (Some(table), [family]) = (table, asked)
            && !matches!(tables.ask(Table::Routes(*family), &Query::HasTable(table)), Answer::HasTable(true))
        {
            let name = if *family == Family::V4 { "ipv4" } else { "ipv6" };
            return Reply::DumpFailed(Refusal::said(ENOENT, format!("{name}: FIB table does not exist")));
        }
        let wanted = |row: &&RouteRow| {
            let route = &row.route;
            table.is_none_or(|table| route.table == table)
                && interface.is_none_or(|interface| row.each().any(|route| device(route) == interface))
                && protocol.is_none_or(|protocol| route.protocol == protocol)
                && kind.is_none_or(|kind| kind_number(route.kind) == kind)
        };
        messages.extend(routes.iter().filter(wanted).map(|route| message(route, NEWROUTE, &dark)));
    }
    let filtered = table.is_some() || interface.is_some() || protocol.is_some() || kind.is_some();
    Reply::Dump(messages, filtered)
}

/// Where a route leads: those of IPv6 that refuse lead to `lo`.
fn device(route: &Route) -> u32 {
    if route.interface == InterfaceIndex::NONE && route.destination.is_ipv6() { InterfaceIndex::LOOPBACK.0 } else { route.interface.0 }
}

/// `struct rtmsg`.
fn fixed(family: IpAddr, bits: u8, route: &Route, flags: u32) -> Vec<u8> {
    let v6 = family.is_ipv6();
    let scope = if v6 { 0 } else { route.scope };
    let table = u8::try_from(route.table).unwrap_or(252);
    let mut fixed = vec![if v6 { INET6 } else { INET }, bits, 0, 0, table, route.protocol, scope, kind_number(route.kind)];
    fixed.extend(flags.to_ne_bytes());
    fixed
}

/// fib_dump_info, rt6_fill_node.
pub(crate) fn message(row: &RouteRow, kind: u16, dark: &Dark) -> Message {
    let RouteRow { route, hops } = row;
    let v6 = route.destination.is_ipv6();
    let alone = hops.is_empty();
    let flags = if alone { u32::from(dark.flags(route)) | if route.onlink { RTNH_F_ONLINK } else { 0 } } else { 0 };
    let mut message = Message::new(kind, &fixed(route.destination, route.prefix_bits, route, flags));
    message.u32(RTA_TABLE, route.table);
    if route.prefix_bits > 0 {
        message.address(RTA_DST, route.destination);
    }
    if v6 || route.metric != 0 {
        message.u32(RTA_PRIORITY, route.metric);
    }
    if let Some(mtu) = route.mtu {
        let mut metrics = Vec::new();
        put(&mut metrics, RTAX_MTU, &mtu.to_ne_bytes());
        message.bytes(RTA_METRICS, &metrics);
    }
    if let Some(source) = route.source {
        message.address(RTA_PREFSRC, source);
    }
    if let Some(gateway) = route.gateway.filter(|_| alone) {
        message.address(RTA_GATEWAY, gateway);
    }
    if alone && device(route) != 0 {
        message.u32(RTA_OIF, device(route));
    }
    if !alone {
        message.bytes(RTA_MULTIPATH, &hops::attribute(hops, dark));
    }
    if v6 {
        message.u8(RTA_PREF, 0);
    }
    message
}

/// Destination and family of a change.
struct Target {
    v4: bool,
    block: &'static str,
    destination: IpAddr,
    bits: u8,
    table: u32,
}

fn target(request: &Request<'_>, attributes: &Attributes<'_>) -> Result<Target, Refusal> {
    let body = request.body;
    if body.len() < FIXED_BYTES {
        return Err(Refusal::plain(EINVAL));
    }
    let v4 = match byte(body, 0) {
        INET => true,
        INET6 => false,
        family => return Err(Refusal::lacking(&format!("has no routes of family {family}"))),
    };
    let nowhere: IpAddr = if v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let destination = attributes.address(RTA_DST).unwrap_or(nowhere);
    let bits = byte(body, 1);
    if destination.is_ipv4() != v4 || bits > width(destination) {
        return Err(Refusal::said(EINVAL, "Invalid prefix length"));
    }
    if byte(body, 2) != 0 || attributes.has(RTA_SRC) {
        return Err(Refusal::lacking("routes by destination, not by source"));
    }
    if byte(body, 3) != 0 {
        return Err(Refusal::lacking("routes by destination, not by type of service"));
    }
    if let Some(what) = attributes.any(&LACKING) {
        return Err(Refusal::lacking(what));
    }
    // fib_valid_key_len; rt6_add takes what is behind the prefix away.
    if v4 && network(destination, bits) != destination {
        return Err(Refusal::said(EINVAL, "Invalid prefix for given prefix length"));
    }
    let table = attributes.u32(RTA_TABLE).unwrap_or_else(|| byte(body, 4).into());
    let table = if table == 0 { TABLE_MAIN } else { table };
    let block = if v4 { "ip4" } else { "ip6" };
    Ok(Target { v4, block, destination: network(destination, bits), bits, table })
}

fn metrics(attributes: &Attributes<'_>) -> Result<Option<u32>, Refusal> {
    let Some(metrics) = attributes.nested(RTA_METRICS) else { return Ok(None) };
    if metrics.iter().any(|(kind, _)| kind != RTAX_MTU) {
        return Err(Refusal::lacking("has no metrics of routes but mtu"));
    }
    Ok(metrics.u32(RTAX_MTU))
}

fn add(request: &Request<'_>, attributes: &Attributes<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let Target { v4, block, destination, bits, table } = target(request, attributes)?;
    let kind = kind_word(byte(request.body, 7))?.unwrap_or("unicast");
    let place = match (request.has(NLM_F_EXCL), request.has(NLM_F_REPLACE), request.has(NLM_F_CREATE)) {
        (true, ..) => "alone",
        (_, true, true) => "replace",
        (_, true, false) => "change",
        _ if request.has(NLM_F_APPEND) => "last",
        // fib_table_insert: "if (!(cfg->fc_nlflags & NLM_F_CREATE)) err = -ENOENT"
        (.., false) => "change",
        _ => "first",
    };
    let onlink = word(request.body, 8) & RTNH_F_ONLINK != 0;
    let (said, gateway) = (attributes.u32(RTA_OIF).filter(|index| *index != 0), attributes.address(RTA_GATEWAY));
    let hops = hops::asked(attributes, v4, true, (gateway, said))?;
    let refuses = !matches!(kind, "unicast" | "local");
    if v4 && kind == "local" && gateway.is_some() {
        // fib_create_info.
        return Err(Refusal::said(EINVAL, "Route with host scope can not have a gateway"));
    }
    if v4 && refuses && (said.is_some() || gateway.is_some() || hops.is_some()) {
        // fib_create_info.
        return Err(Refusal::said(EINVAL, "Gateway, device and multipath can not be specified for this route type"));
    }
    if refuses && hops.as_ref().is_some_and(|hops| hops.len() > 1) {
        // Each hop is a route of its own, and all of them refuse alike.
        return Err(Refusal::plain(EEXIST));
    }
    let hops = hops.filter(|_| !refuses);
    let interface = said.filter(|_| !refuses && hops.is_none());
    let gateway = gateway.filter(|_| hops.is_none());
    if v4 && onlink && gateway.is_some() && interface.is_none() {
        return Err(Refusal::said(ENODEV, "Nexthop device required for onlink"));
    }
    refuse_device(v4, interface, gateway.is_some(), onlink, tables)?;
    for hop in hops.iter().flatten() {
        hops::refuse_onlink_nowhere(hop)?;
        refuse_device(v4, hop.interface, hop.gateway.is_some(), hop.onlink, tables)?;
    }
    let metric = attributes.u32(RTA_PRIORITY).unwrap_or(0);
    let mut arguments = json!({
        "destination": format!("{destination}/{bits}"),
        "kind": kind,
        "metric": metric,
        "table": table,
        "protocol": byte(request.body, 5),
        "scope": byte(request.body, 6),
        "onlink": onlink && hops.is_none(),
        "place": place,
    });
    for (name, value) in [("gateway", gateway), ("source", attributes.address(RTA_PREFSRC))] {
        if let Some(address) = value {
            arguments[name] = address.to_string().into();
        }
    }
    for (name, value) in [("interface", interface), ("mtu", metrics(attributes)?)] {
        if let Some(number) = value {
            arguments[name] = number.into();
        }
    }
    if let Some(hops) = hops {
        arguments["nexthops"] = hops.iter().map(|hop| hop.argument(true)).collect();
    }
    if v4 && table == TABLE_LOCAL && metric == 0 && request.has(NLM_F_EXCL) && follows(Family::V4, (destination, bits), tables) {
        return Err(Refusal::plain(EEXIST));
    }
    tables.exec(block, "route_add", arguments).map_err(|error| add_refusal(v4, &number_of(&error)))?;
    Ok(Reply::Done)
}

/// fib_check_nh_nongw, fib_check_nh_v4_gw, ip6_route_info_create: the interface of a next hop is there and up.
fn refuse_device(v4: bool, interface: Option<u32>, has_gateway: bool, onlink: bool, tables: &mut dyn Tables) -> Result<(), Refusal> {
    let Some(interface) = interface else { return Ok(()) };
    let Some(row) = interfaces(tables, Which::Index(InterfaceIndex(interface))).pop() else { return Err(Refusal::plain(ENODEV)) };
    if row.interface.up {
        return Ok(());
    }
    Err(match (v4, has_gateway, onlink) {
        (true, false, _) => Refusal::said(ENETDOWN, "Device for nexthop is not up"),
        (true, true, true) | (false, ..) => Refusal::said(ENETDOWN, "Nexthop device is not up"),
        (true, true, false) => Refusal::said(ENETUNREACH, "Nexthop has invalid gateway"),
    })
}

fn add_refusal(v4: bool, (errno, why): &(i32, String)) -> Refusal {
    let text = match (*errno, v4) {
        (EEXIST, _) | (ENODEV, _) | (EHOSTUNREACH, false) | (ENOENT, true) => return Refusal::plain(*errno),
        (ENOENT, false) => "Can not replace route - no match found",
        (EACCES, false) => "IPv6 is disabled on nexthop device",
        (ENETUNREACH, true) => "Nexthop has invalid gateway",
        (EINVAL, true) if why.contains("broadcast address") => "Nexthop has invalid gateway",
        (EINVAL, true) if why.contains("bits set") => "Invalid prefix for given prefix length",
        (EINVAL, true) if why.contains("the source") => "Invalid prefsrc address",
        (EINVAL, false) if why.contains("the source") => "Invalid source address",
        (EINVAL, false) if why.contains("on which interface") => "Egress device not specified",
        (EINVAL, false) if why.contains("or a group's") && why.starts_with("ff") => "Invalid gateway address",
        (EINVAL, false) if why.contains("cannot be a gateway") => "Gateway can not be a local address",
        _ => return Refusal::said(*errno, format!("weft: {why}")),
    };
    Refusal::said(*errno, text)
}

fn delete(request: &Request<'_>, attributes: &Attributes<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let Target { v4, block, destination, bits, table } = target(request, attributes)?;
    let (protocol, scope) = (byte(request.body, 5), byte(request.body, 6));
    let mut arguments = json!({"destination": format!("{destination}/{bits}"), "table": table});
    if let Some(kind) = kind_word(byte(request.body, 7))? {
        arguments["kind"] = kind.into();
    }
    if protocol != 0 {
        arguments["protocol"] = protocol.into();
    }
    if v4 && scope != RT_SCOPE_NOWHERE {
        arguments["scope"] = scope.into();
    }
    for (name, kind) in [("gateway", RTA_GATEWAY), ("source", RTA_PREFSRC)] {
        if let Some(address) = attributes.address(kind) {
            arguments[name] = address.to_string().into();
        }
    }
    if let Some(metric) = attributes.u32(RTA_PRIORITY).filter(|metric| *metric != 0) {
        arguments["metric"] = metric.into();
    }
    if let Some(hops) = hops::asked(attributes, v4, false, (None, None))? {
        arguments["nexthops"] = hops.iter().map(|hop| hop.argument(false)).collect();
    }
    // Routes of IPv6 that refuse are listed as leading to `lo`.
    if let Some(interface) = attributes.u32(RTA_OIF).filter(|index| v4 || *index != InterfaceIndex::LOOPBACK.0) {
        arguments["interface"] = if interfaces(tables, Which::Index(InterfaceIndex(interface))).is_empty() {
            return Err(Refusal::plain(if v4 { crate::errno::ESRCH } else { ENODEV }));
        } else {
            interface.into()
        };
    }
    let family = if v4 { Family::V4 } else { Family::V6 };
    if !matches!(tables.ask(Table::Routes(family), &Query::HasTable(table)), Answer::HasTable(true)) {
        // inet_rtm_delroute, ip6_route_del.
        return Err(Refusal::said(crate::errno::ESRCH, "FIB table does not exist"));
    }
    tables.exec(block, "route_delete", arguments).map_err(|error| match number_of(&error).0 {
        crate::errno::ESRCH if table == TABLE_LOCAL && follows(family, (destination, bits), tables) => {
            Refusal::lacking("keeps routes of the table local as long as the addresses that they follow from")
        }
        errno => Refusal::plain(errno),
    })?;
    Ok(Reply::Done)
}

/// Is there a route in the table local to this prefix?
fn follows(family: Family, (destination, bits): (IpAddr, u8), tables: &mut dyn Tables) -> bool {
    let of_prefix =
        |RouteRow { route, .. }: &RouteRow| (route.table, route.destination, route.prefix_bits) == (TABLE_LOCAL, destination, bits);
    all(family, tables).iter().any(of_prefix)
}

/// RTM_GETROUTE without NLM_F_DUMP: the way to an address.
fn get(request: &Request<'_>, attributes: &Attributes<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let family = if byte(request.body, 0) == INET6 { Family::V6 } else { Family::V4 };
    let nowhere: IpAddr = if family == Family::V4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let destination = attributes.address(RTA_DST).unwrap_or(nowhere);
    let source = attributes.address(RTA_SRC).filter(|source| !source.is_unspecified());
    if destination.is_ipv4() != nowhere.is_ipv4() || source.is_some_and(|source| source.is_ipv4() != nowhere.is_ipv4()) {
        return Err(Refusal::plain(EINVAL));
    }
    let bound = attributes.u32(RTA_OIF).filter(|index| *index != 0).map(InterfaceIndex);
    if bound.is_some_and(|bound| interfaces(tables, Which::Index(bound)).is_empty()) {
        return Err(Refusal::plain(ENODEV));
    }
    let traffic = traffic(request.body, attributes);
    let came_in = traffic.input != InterfaceIndex::NONE;
    if came_in {
        if interfaces(tables, Which::Index(traffic.input)).is_empty() {
            return Err(Refusal::plain(ENODEV));
        }
        refuse_martian(family, source, tables)?;
    }
    let (way, asked) = way(destination, source, bound, traffic, tables)?;
    match way.kind {
        RouteKind::Blackhole => return Err(Refusal::plain(EINVAL)),
        RouteKind::Unreachable => return Err(Refusal::plain(EHOSTUNREACH)),
        RouteKind::Prohibit => return Err(Refusal::plain(EACCES)),
        _ => {}
    }
    let inside = matches!(way.kind, RouteKind::Local | RouteKind::Broadcast);
    let followed = Query::RouteFollowed { destination, source: asked.or(source), interface: bound, traffic };
    let matched = match tables.ask(Table::Routes(family), &followed) {
        Answer::Routes(routes) if !inside => routes.into_iter().next().filter(|row| row.route.interface == way.interface),
        _ => None,
    };
    let matched = matched.or_else(|| matching(destination, &way, &all(family, tables)));
    if word(request.body, 8) & RTM_F_FIB_MATCH != 0 {
        let mut row = matched.ok_or(Refusal::plain(EHOSTUNREACH))?;
        if family == Family::V4 && row.route.table == TABLE_LOCAL && crate::rule::are_usual(tables) {
            // fib_trie_unmerge: until there is another rule, local is a part of main.
            row.route.table = TABLE_MAIN;
        }
        if family == Family::V6 {
            // rt6_fill_node: the sibling that the packet takes, then those behind it.
            let chosen = row.hops.iter().position(|hop| hop.route == row.route).unwrap_or(0);
            row.hops.rotate_left(chosen);
        }
        return Ok(Reply::One(message(&row, NEWROUTE, &Dark::of(family, tables))));
    }
    Ok(Reply::One(match family {
        Family::V4 => {
            let table = match matched {
                Some(row) if row.route.table != TABLE_LOCAL || !crate::rule::are_usual(tables) => row.route.table,
                _ => TABLE_MAIN,
            };
            way_v4(destination, source, traffic, &way, table)
        }
        Family::V6 => way_v6(destination, source, traffic, &way, matched.map(|row| row.route), &Dark::of(family, tables)),
    }))
}

/// What a request says that rules look at.
fn traffic(body: &[u8], attributes: &Attributes<'_>) -> Traffic {
    // Big endian, unlike anything else here.
    let port = |kind: u16| attributes.get(kind).map_or(0, |port| u16::from_be_bytes([byte(port, 0), byte(port, 1)]));
    let input = InterfaceIndex(attributes.u32(RTA_IIF).unwrap_or(0));
    let protocol = attributes.get(RTA_IP_PROTO).map_or(0, |protocol| byte(protocol, 0));
    Traffic {
        input,
        mark: attributes.u32(RTA_MARK).unwrap_or(0),
        tos: byte(body, 3),
        protocol,
        ports: (port(RTA_SPORT), port(RTA_DPORT)),
        ..Traffic::default()
    }
}

/// ip_route_input_slow: nobody sends from this node's own address, or from none.
fn refuse_martian(family: Family, source: Option<IpAddr>, tables: &mut dyn Tables) -> Result<(), Refusal> {
    if family == Family::V6 {
        return Ok(());
    }
    let source = source.ok_or(Refusal::plain(EINVAL))?;
    match tables.ask(Table::Addresses(family), &Query::AddressKind(source)) {
        Answer::AddressKind(AddressKind::Other) => Ok(()),
        _ => Err(Refusal::plain(EINVAL)),
    }
}

/// The way of a packet, and the source with which it was asked for.
fn way(
    destination: IpAddr,
    source: Option<IpAddr>,
    bound: Option<InterfaceIndex>,
    traffic: Traffic,
    tables: &mut dyn Tables,
) -> Result<(RouteAnswer, Option<IpAddr>), Refusal> {
    let family = Family::of(destination);
    let came_in = traffic.input != InterfaceIndex::NONE;
    let mut own = |source: &IpAddr| {
        let kind = tables.ask(Table::Addresses(family), &Query::AddressKind(*source));
        matches!(kind, Answer::AddressKind(AddressKind::Local(_)))
    };
    // inet6_rtm_getroute asks for whatever source.
    let asked = source.filter(|source| family == Family::V4 || came_in || own(source));
    let query = Query::Route { destination, source: asked, interface: bound, traffic };
    let Answer::Route(way) = tables.ask(Table::Routes(family), &query) else {
        let forwards = !came_in || matches!(tables.ask(Table::Routes(family), &Query::Forwards(traffic.input)), Answer::Forwards(true));
        return Err(Refusal::plain(if forwards || family == Family::V6 { ENETUNREACH } else { EHOSTUNREACH }));
    };
    // rt6_fill_node asks ipv6_dev_get_saddr for a source, whatever the request's is: as of a packet that came in through lo, where this node's come
    // from.
    let outward = family == Family::V6 && asked.is_some() && !came_in && way.kind == RouteKind::Unicast;
    let here =
        Query::Route { destination, source: asked, interface: bound, traffic: Traffic { input: InterfaceIndex::LOOPBACK, ..traffic } };
    match outward.then(|| tables.ask(Table::Routes(family), &here)) {
        Some(Answer::Route(other)) => Ok((RouteAnswer { source: other.source, ..way }, asked)),
        _ => Ok((way, asked)),
    }
}

/// The route that a way follows: the table local first, then the longest prefix, then the lowest metric.
fn matching(destination: IpAddr, way: &RouteAnswer, routes: &[RouteRow]) -> Option<RouteRow> {
    let fits = |RouteRow { route, .. }: &&RouteRow| {
        let local = route.table == TABLE_LOCAL && route.kind != RouteKind::Multicast;
        let inside = local::covers(route.destination, route.prefix_bits, destination);
        let leads = route.interface == way.interface || route.interface == InterfaceIndex::NONE;
        inside && (local && route.kind == way.kind || route.table == TABLE_MAIN && leads)
    };
    let order = |RouteRow { route, .. }: &&RouteRow| (route.table != TABLE_LOCAL, std::cmp::Reverse(route.prefix_bits), route.metric);
    routes.iter().filter(fits).min_by_key(order).cloned()
}

/// rt_fill_info.
fn way_v4(destination: IpAddr, source: Option<IpAddr>, traffic: Traffic, way: &RouteAnswer, table: u32) -> Message {
    let came_in = traffic.input != InterfaceIndex::NONE;
    let flags = RTM_F_CLONED
        | match way.kind {
            RouteKind::Local => RTCF_LOCAL,
            RouteKind::Broadcast => RTCF_LOCAL | RTCF_BROADCAST,
            RouteKind::Multicast => RTCF_LOCAL | RTCF_MULTICAST,
            // __mkroute_input: back where it came from.
            _ if came_in && way.interface == traffic.input => RTCF_DOREDIRECT,
            // __mkroute_output: "if (dev_out->flags & IFF_LOOPBACK) flags |= RTCF_LOCAL;"
            _ if !came_in && way.interface == InterfaceIndex::LOOPBACK => RTCF_LOCAL,
            _ => 0,
        };
    let route = Route { kind: way.kind, protocol: 0, table, ..Route::PLAIN };
    let mut head = fixed(destination, 32, &route, flags);
    if source.is_some() {
        head[2] = 32;
    }
    let mut message = Message::new(NEWROUTE, &head);
    message.u32(RTA_TABLE, table);
    message.address(RTA_DST, destination);
    if let Some(source) = source {
        message.address(RTA_SRC, source);
    }
    message.u32(RTA_OIF, way.interface.0);
    if source.is_none() {
        message.address(RTA_PREFSRC, way.source);
    }
    // Only a route has a gateway: to 0.0.0.0 there is none, ip_route_output_key_hash_rcu puts an own address in its place.
    if way.next_hop != destination && way.kind != RouteKind::Local {
        message.address(RTA_GATEWAY, way.next_hop);
    }
    if traffic.mark != 0 {
        message.u32(RTA_MARK, traffic.mark);
    }
    match came_in {
        true => message.u32(RTA_IIF, traffic.input.0),
        false => message.u32(RTA_UID, 0),
    }
    message
}

/// rt6_fill_node.
fn way_v6(
    destination: IpAddr,
    source: Option<IpAddr>,
    traffic: Traffic,
    way: &RouteAnswer,
    matched: Option<Route>,
    dark: &Dark,
) -> Message {
    let came_in = traffic.input != InterfaceIndex::NONE;
    let local = way.kind == RouteKind::Local;
    let usual = Route { protocol: 2, table: if local { TABLE_LOCAL } else { TABLE_MAIN }, ..Route::PLAIN };
    let route = Route { kind: way.kind, ..matched.unwrap_or(usual) };
    let flags = u32::from(dark.flags(&Route { interface: way.interface, ..route }));
    let mut head = fixed(destination, 128, &route, flags | if route.onlink { RTNH_F_ONLINK } else { 0 });
    head[2] = 128;
    let mut message = Message::new(NEWROUTE, &head);
    message.address(RTA_DST, destination);
    message.address(RTA_SRC, source.unwrap_or(Ipv6Addr::UNSPECIFIED.into()));
    message.u32(RTA_TABLE, route.table);
    message.u32(RTA_OIF, way.interface.0);
    match came_in {
        true => message.u32(RTA_IIF, traffic.input.0),
        false => message.address(RTA_PREFSRC, way.source),
    }
    if way.next_hop != destination {
        message.address(RTA_GATEWAY, way.next_hop);
    }
    message.u32(RTA_PRIORITY, route.metric);
    message.u8(RTA_PREF, 0);
    message
}
