//! A node that is a Linux kernel: its interfaces, addresses, routes and settings as data. Its stack is its own.

use super::address::Hop;
use super::draft::NodeDraft;
use super::files::own_files;
use super::raw::Raw;
use super::section::{capture, line, per_call};
use super::source::Source;
use crate::plan::{GuestInterface, GuestPlan, GuestRoute, NodeKind, NodePlan};
use std::net::IpAddr;
use weft_node::StackError;
use weft_process::Limits;

/// [`GuestPlan::kernel`] unless the scenario says otherwise.
const KERNEL_DEFAULT: &str = "6.12";
/// [`GuestPlan::memory`] unless the scenario says otherwise.
const MEMORY_DEFAULT: u64 = 96 << 20;
/// What a kernel with its network needs to boot.
const MEMORY_LEAST: u64 = 32 << 20;
const MEMORY_MOST: u64 = 16 << 30;
const MTU_DEFAULT: u32 = 1500;
/// As many devices as User Mode Linux has interrupts for.
const INTERFACES_MOST: usize = 48;

/// The node of a kernel's draft.
pub(super) fn plan(source: &Source<'_>, raw: &Raw, draft: &NodeDraft, routes: &[Hop]) -> Result<NodePlan, StackError> {
    let section = &draft.section;
    let not_its = [
        ("stack", section.stack.as_ref().map(weft_node::Spanned::span), "it has Linux's own"),
        (
            "parameters",
            section.parameters.keys().next().map(weft_node::Spanned::span),
            "it has sysctls: sysctls = { \"net.ipv4.tcp_congestion_control\" = \"bbr\" }",
        ),
        (
            "descriptors",
            section.descriptors.as_ref().map(weft_node::Spanned::span),
            "let the program set its own limit: [\"sh\", \"-c\", \"ulimit -n 100; …\"]",
        ),
        (
            "boot",
            section.boot.as_ref().map(weft_node::Spanned::span),
            "its kernel boots when the world begins; `boot` at the top is for weft's own nodes",
        ),
        (
            "clock",
            section.clock.as_ref().map(weft_node::Spanned::span),
            "its kernel has its own: let a program set it, [\"date\", \"-s\", \"…\"] or [\"adjtimex\", …]; `clock` at the top is for weft's own nodes",
        ),
        (
            "collect",
            section.collect.first().map(weft_node::Spanned::span),
            "its disk is its kernel's: let a program print what is in the file",
        ),
    ];
    if let Some((key, Some(span), help)) = not_its.into_iter().find(|(_, span, _)| span.is_some()) {
        return Err(source.error(span, format!("a node of kind = \"linux\" takes no {key}"), help));
    }
    if draft.interfaces.len() > INTERFACES_MOST {
        let what = format!("'{}' has {} interfaces: a Linux kernel takes {INTERFACES_MOST}", draft.name, draft.interfaces.len());
        let span = section.kind.as_ref().map_or(0..0, weft_node::Spanned::span);
        return Err(source.error(span, what, "join some of its neighbours by a switch, or make it one of weft's own nodes"));
    }
    let memory = match &section.memory {
        Some(text) => source.bytes(text, MEMORY_LEAST..=MEMORY_MOST)?,
        None => MEMORY_DEFAULT,
    };
    let mut sysctls = Vec::new();
    if let Some(mptcp) = &section.mptcp {
        sysctls.push(("net/mptcp/enabled".to_owned(), u8::from(*mptcp.get_ref()).to_string()));
    }
    if draft.forwards() {
        sysctls.push(("net/ipv4/ip_forward".to_owned(), "1".to_owned()));
        sysctls.push(("net/ipv6/conf/all/forwarding".to_owned(), "1".to_owned()));
    }
    for (name, value) in &section.sysctls {
        // As sysctl(8) reads names: points and slashes change places, whichever comes first.
        let path = match name.get_ref().find(['.', '/']).and_then(|at| name.get_ref().get(at..=at)) {
            Some("/") => name.get_ref().clone(),
            _ => name
                .get_ref()
                .chars()
                .map(|c| {
                    if c == '.' {
                        '/'
                    } else if c == '/' {
                        '.'
                    } else {
                        c
                    }
                })
                .collect(),
        };
        let place = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        let value = line(value.get_ref()).filter(|_| place).ok_or_else(|| {
            source.error(
                name.span(),
                format!("'{}' cannot be that", name.get_ref()),
                "write it as `sysctl -w` takes it: \"net.ipv4.tcp_rmem\" = \"4096 131072 6291456\"",
            )
        })?;
        sysctls.push((path, value));
    }
    let interfaces = draft.interfaces.iter().map(|interface| GuestInterface {
        name: interface.name.clone(),
        mac: weft_node::default_mac(&draft.name, &interface.name),
        mtu: interface.mtu.unwrap_or(MTU_DEFAULT),
        addresses: interface.addresses.clone(),
    });
    let guest = GuestPlan {
        kernel: section.kernel.as_ref().map_or(KERNEL_DEFAULT, |kernel| kernel.get_ref()).to_owned(),
        memory,
        interfaces: interfaces.collect(),
        routes: all_routes(source, draft, routes)?,
        sysctls,
    };
    Ok(NodePlan {
        name: draft.name.clone(),
        kind: NodeKind::Guest(Box::new(guest)),
        large_frames: section.large_frames.unwrap_or(false),
        capture: capture(raw, section),
        collect: Vec::new(),
        files: own_files(source, draft)?,
        per_call: per_call(source, draft)?,
        limits: Limits::default(),
        boot: None,
        clock: Default::default(),
    })
}

/// Those of the scenario, and the shortest paths to what they do not name.
fn all_routes(source: &Source<'_>, draft: &NodeDraft, found: &[Hop]) -> Result<Vec<GuestRoute>, StackError> {
    let mut routes = Vec::new();
    for route in draft.section.own_routes() {
        let route = route.get_ref();
        if !route.nexthops.is_empty() {
            let help = "let a program add it: command = [\"ip\", \"route\", \"add\", …, \"nexthop\", \"via\", …]";
            return Err(source.error(route.destination.span(), "the first routes of a Linux node have one next hop", help));
        }
        let gateway = match &route.gateway {
            None => None,
            Some(text) => Some(text.get_ref().parse::<IpAddr>().map_err(|_| {
                source.error(text.span(), format!("'{}' is no address", text.get_ref()), "write it as gateway = \"10.0.0.1\"")
            })?),
        };
        let text = route.destination.get_ref();
        let destination = match (text.as_str(), gateway) {
            ("default", Some(IpAddr::V6(_))) => Some((IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), 0)),
            ("default", _) => Some((IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0)),
            _ => super::wire::prefix(text),
        };
        let Some(destination) = destination else {
            return Err(source.error(
                route.destination.span(),
                format!("'{text}' is no network"),
                "write it as \"10.9.0.0/24\" or \"default\"",
            ));
        };
        let interface = route.interface.as_ref().map(|name| name.get_ref().clone());
        if gateway.is_none() && interface.is_none() {
            return Err(source.error(route.destination.span(), "the route leads nowhere", "give it a gateway or an interface"));
        }
        routes.push(GuestRoute { destination, gateway, interface, metric: route.metric });
    }
    let own: Vec<(IpAddr, u8)> = routes.iter().map(|route| route.destination).collect();
    let found = found.iter().filter(|hop| !own.contains(&hop.destination));
    routes.extend(found.map(|hop| GuestRoute {
        destination: hop.destination,
        gateway: Some(hop.gateway),
        interface: None,
        metric: hop.metric,
    }));
    Ok(routes)
}
