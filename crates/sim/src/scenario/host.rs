//! A host's stack: from its stack file, or made of what the scenario says.

use super::address::Hop;
use super::draft::{NodeDraft, WireDraft};
use super::raw::{Mounted, NextHop, OwnText, Raw};
use super::source::Source;
use super::{capture, switch};
use crate::plan::{NodeKind, NodePlan, PER_CALL_DEFAULT};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;
use weft_intercept::process::{Files, Limits, Mount, OwnFile, settings};
use weft_node::{Stack, StackError};

/// The node of a draft.
pub(super) fn plan(source: &Source<'_>, raw: &Raw, draft: &NodeDraft, wires: &[WireDraft], routes: &[Hop]) -> Result<NodePlan, StackError> {
    let kind = draft.section.kind.as_ref();
    if let (Some(kernel), false) = (&draft.section.kernel, kind.is_some_and(|kind| kind.get_ref() == "linux")) {
        return Err(source.error(kernel.span(), "only a Linux node has a kernel", "write kind = \"linux\", too"));
    }
    match kind.map(|kind| (kind.get_ref().as_str(), kind)) {
        None | Some(("host", _)) => {}
        Some(("linux", _)) => {
            known_interfaces(source, draft)?;
            return super::linux::plan(source, raw, draft, routes);
        }
        Some(("switch", _)) => return Ok(switch(draft, raw, true)),
        Some(("segment", _)) => return Ok(switch(draft, raw, false)),
        Some((other, kind)) => {
            return Err(source.error(kind.span(), format!("no node is a '{other}'"), "use host, linux, switch or segment"));
        }
    }
    known_interfaces(source, draft)?;
    let files = own_files(source, draft)?;
    let (per_call, limits) = (per_call(source, draft)?, limits(source, draft)?);
    let mut stack = match &draft.section.stack {
        Some(file) => {
            let text = (source.read)(file.get_ref())
                .map_err(|why| source.error(file.span(), format!("cannot read '{}': {why}", file.get_ref()), "name a stack file"))?;
            let mut stack = Stack::parse(file.get_ref(), &text)?;
            stack.rename(&draft.name);
            for interface in stack.interfaces_mut() {
                interface.backend = "wire:scenario".to_owned();
            }
            stack
        }
        None => Stack::parse(&format!("node {}", draft.name), &text(source, draft, wires, routes)?)?,
    };
    stack.set_loader(source.loader.clone());
    if draft.section.forward.is_some() && draft.section.stack.is_some() {
        set(source, &mut stack, &[format!("ip4.forward={}", draft.forwards())], &draft.span)?;
    }
    for (name, value) in &draft.section.sysctls {
        set(source, &mut stack, &sysctl(source, name, value)?, &name.span())?;
    }
    for (name, value) in &draft.section.parameters {
        set(source, &mut stack, &[format!("{}={}", name.get_ref(), value.get_ref())], &name.span())?;
    }
    // Everything that can be wrong with parameters and addresses is found here, with the place of the node.
    let section = &draft.section;
    let plain = section.stack.is_none() && section.parameters.is_empty() && section.sysctls.is_empty() && section.routes.is_empty();
    if plain && section.addresses.is_empty() {
        // Made of parts that fit; a thousand nodes need not be built twice.
        return Ok(NodePlan { files, per_call, limits, ..host(draft, raw, stack) });
    }
    weft_node::Node::check(&stack).map_err(|error| match draft.section.stack {
        Some(_) => error,
        None => source.error(draft.span.clone(), format!("node '{}': {}", draft.name, error.what), error.help),
    })?;
    Ok(NodePlan { files, per_call, limits, ..host(draft, raw, stack) })
}

/// Addresses are those of interfaces that wires end at.
fn known_interfaces(source: &Source<'_>, draft: &NodeDraft) -> Result<(), StackError> {
    for (name, _) in &draft.section.addresses {
        if draft.interfaces.iter().all(|interface| interface.name != *name.get_ref()) {
            let what = format!("no wire ends at interface '{}' of node '{}'", name.get_ref(), draft.name);
            let known: Vec<&str> = draft.interfaces.iter().map(|interface| interface.name.as_str()).collect();
            return Err(source.error(name.span(), what, format!("the node has: {}", known.join(", "))));
        }
    }
    Ok(())
}

/// The folder that is its root, and the files that it has beside.
pub(super) fn own_files(source: &Source<'_>, draft: &NodeDraft) -> Result<Files, StackError> {
    let root = draft.section.root.as_ref().map(|root| {
        let folder = source.beside(root.get_ref());
        match folder.is_dir() {
            true => Ok(folder),
            false => Err(source.error(
                root.span(),
                format!("'{}' is no folder", folder.display()),
                "name one that is like /: with bin, etc, usr …",
            )),
        }
    });
    let mut files = Files { root: root.transpose()?, mounts: mounts(source, draft)?, ..Files::default() };
    for (path, file) in &draft.section.files {
        if !is_place(path.get_ref()) {
            return Err(source.error(
                path.span(),
                format!("'{}' is no place for a file", path.get_ref()),
                "write it as \"/srv/www/index.html\"",
            ));
        }
        if let Some(folder) = reserved(path.get_ref()) {
            let what = format!("nobody puts files into {folder}/");
            let help =
                "/dev, /proc, /sys and /run/weft are the node's; for /proc/sys/net there are sysctls = { \"net.ipv4.ip_forward\" = 1 }";
            return Err(source.error(path.span(), what, help));
        }
        if let Some(mount) = files.mounts.iter().find(|mount| covers(mount, Path::new(path.get_ref()))) {
            return Err(hidden(source, path, mount));
        }
        let contents = match file.get_ref() {
            OwnText::Text(text) => text.clone(),
            OwnText::From(from) => (source.read)(&from.from).map_err(|why| {
                let help = "name a file with text in it; a name that does not begin with / is looked for beside the scenario";
                source.error(file.span(), format!("cannot read '{}': {why}", from.from), help)
            })?,
        };
        let executable = contents.starts_with("#!");
        files.own.push(OwnFile { path: path.get_ref().into(), contents: contents.into_bytes().into(), executable });
    }
    Ok(files)
}

/// Folders of the host that it has beside.
fn mounts(source: &Source<'_>, draft: &NodeDraft) -> Result<Vec<Mount>, StackError> {
    let mount = |(to, from): (&Spanned<String>, &Spanned<Mounted>)| {
        let path = to.get_ref();
        if !is_place(path) || reserved(path).is_some() {
            return Err(source.error(
                to.span(),
                format!("'{path}' is no place for a folder"),
                "write it as \"/data\"; /dev, /proc and /sys are the node's",
            ));
        }
        let from = &from.get_ref().from;
        let folder = source.beside(from.get_ref());
        match folder.canonicalize() {
            Ok(folder) if folder.is_dir() => Ok(Mount { from: folder, to: path.into() }),
            _ => Err(source.error(
                from.span(),
                format!("'{}' is no folder", folder.display()),
                "name one by its path, or from the folder of the scenario on",
            )),
        }
    };
    draft.section.mounts.iter().map(mount).collect()
}

/// Would this file lie below a folder that is mounted, or that folder below the file?
pub(super) fn covers(mount: &Mount, file: &Path) -> bool {
    file.starts_with(&mount.to) || mount.to.starts_with(file)
}

/// A mount lies over everything that is there otherwise.
pub(super) fn hidden(source: &Source<'_>, path: &Spanned<String>, mount: &Mount) -> StackError {
    let what = format!("nobody would see '{}': the folder {} is mounted at '{}'", path.get_ref(), mount.from.display(), mount.to.display());
    source.error(path.span(), what, "put the file into that folder, or somewhere else")
}

/// Nothing of the scenario's can be there.
const RESERVED: [&str; 4] = ["/dev", "/proc", "/sys", "/run/weft"];

/// In which of these it would be.
fn reserved(path: &str) -> Option<&'static str> {
    RESERVED.into_iter().find(|reserved| Path::new(path).starts_with(reserved))
}

/// Can something of the scenario's be there: an absolute path in its shortest form?
fn is_place(path: &str) -> bool {
    path.strip_prefix('/').is_some_and(|below| below.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

fn host(draft: &NodeDraft, raw: &Raw, stack: Stack) -> NodePlan {
    let large_frames = draft.section.large_frames.unwrap_or(true);
    let kind = NodeKind::Host(Box::new(stack));
    let (capture, files) = (capture(raw, &draft.section), Files::default());
    NodePlan { name: draft.name.clone(), kind, large_frames, capture, files, per_call: PER_CALL_DEFAULT, limits: Limits::default() }
}

/// What a call costs on this node.
pub(super) fn per_call(source: &Source<'_>, draft: &NodeDraft) -> Result<Duration, StackError> {
    let Some(cpu) = &draft.section.cpu else { return Ok(PER_CALL_DEFAULT) };
    let base = match &cpu.get_ref().per_call {
        Some(text) => source.duration(text)?,
        None => PER_CALL_DEFAULT,
    };
    let factor = cpu.get_ref().factor.unwrap_or(1.0);
    let cost = base.as_secs_f64() * factor;
    if !(PER_CALL_LEAST.as_secs_f64()..=PER_CALL_MOST.as_secs_f64()).contains(&cost) {
        let what = format!("a call would cost {} s", cost);
        return Err(source.error(
            cpu.span(),
            what,
            "make per_call times factor 1ns to 1s: programs that wait by looking at the clock have to end",
        ));
    }
    Ok(base.mul_f64(factor))
}

/// What its programs may have at most.
fn limits(source: &Source<'_>, draft: &NodeDraft) -> Result<Limits, StackError> {
    let memory = match &draft.section.memory {
        Some(text) => Some(source.bytes(text, MEMORY_LEAST..=MEMORY_MOST)?),
        None => None,
    };
    let descriptors = match &draft.section.descriptors {
        Some(count) if !(DESCRIPTORS_LEAST..=DESCRIPTORS_MOST).contains(count.get_ref()) => {
            let what = format!("{} descriptors", count.get_ref());
            return Err(source.error(count.span(), what, format!("allow {DESCRIPTORS_LEAST} to {DESCRIPTORS_MOST}")));
        }
        other => other.as_ref().map(|count| *count.get_ref()),
    };
    Ok(Limits { memory, descriptors })
}

/// What a small program with its libraries, and what loads it, needs.
const MEMORY_LEAST: u64 = 4 << 20;
const MEMORY_MOST: u64 = 1 << 40;
/// Standard input, output and error, and a few more: what starts programs needs some itself.
const DESCRIPTORS_LEAST: u32 = 16;
const DESCRIPTORS_MOST: u32 = 65_536;

const PER_CALL_LEAST: Duration = Duration::from_nanos(1);
const PER_CALL_MOST: Duration = Duration::from_secs(1);

/// The assignments to parameters that a sysctl stands for: the table is that of /proc/sys/net inside of nodes.
fn sysctl(source: &Source<'_>, name: &Spanned<String>, value: &Spanned<toml::Value>) -> Result<Vec<String>, StackError> {
    let unknown = || {
        let known: Vec<String> = settings::names().map(|known| format!("net.{}", known.replace('/', "."))).collect();
        let help = format!("there are: {}; the rest are parameters of blocks: `weft help block tcp`", known.join(", "));
        source.error(name.span(), format!("a node has no sysctl '{}'", name.get_ref()), help)
    };
    let path = name.get_ref().replace('.', "/");
    let row = path.strip_prefix("net/").and_then(settings::find).ok_or_else(unknown)?;
    let line = line(value.get_ref());
    let assignments = line.as_ref().and_then(|line| row.assignments(line));
    assignments.ok_or_else(|| {
        let what = format!("'{}' cannot be {}", name.get_ref(), value.get_ref());
        source.error(value.span(), what, format!("write it as `sysctl -w` takes it: {}", row.takes()))
    })
}

/// A value as `sysctl -w` takes it; None: nothing that a sysctl could be.
pub(super) fn line(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(is) => Some(u8::from(*is).to_string()),
        toml::Value::Array(several) => several.iter().map(line).collect::<Option<Vec<_>>>().map(|words| words.join(" ")),
        _ => None,
    }
}

/// Assignments, `tcp.sack=false`; what is wrong with them stands at their place and not at the node's.
fn set(source: &Source<'_>, stack: &mut Stack, assignments: &[String], span: &Range<usize>) -> Result<(), StackError> {
    let at = |error: StackError| source.error(span.clone(), error.what, error.help);
    assignments.iter().try_for_each(|assignment| stack.set(assignment)).map_err(at)?;
    weft_node::Node::check(stack).map(drop).map_err(at)
}

/// A stack file for a host that has none.
fn text(source: &Source<'_>, draft: &NodeDraft, wires: &[WireDraft], routes: &[Hop]) -> Result<String, StackError> {
    let mut text = format!("[node]\nname = \"{}\"\n", draft.name);
    for interface in &draft.interfaces {
        let wire = &wires[interface.wire].plan.name;
        let _ = write!(text, "[[interface]]\nname = \"{}\"\nbackend = \"wire:{wire}\"\n", interface.name);
        if let Some(mtu) = interface.mtu {
            let _ = writeln!(text, "mtu = {mtu}");
        }
        for (address, bits) in &interface.addresses {
            let _ = write!(text, "[[address]]\ninterface = \"{}\"\naddress = \"{address}/{bits}\"\n", interface.name);
        }
    }
    for route in &draft.section.routes {
        let route = route.get_ref();
        let _ = writeln!(text, "[[route]]\ndestination = {}", quoted(route.destination.get_ref()));
        for (field, value) in [("gateway", &route.gateway), ("interface", &route.interface)] {
            if let Some(value) = value {
                let _ = writeln!(text, "{field} = {}", quoted(value.get_ref()));
            }
        }
        if !route.nexthops.is_empty() {
            let hops: Vec<String> = route.nexthops.iter().map(hop_text).collect();
            let _ = writeln!(text, "nexthops = [{}]", hops.join(", "));
        }
        if route.gateway.is_none() && route.interface.is_none() && route.nexthops.is_empty() {
            return Err(source.error(route.destination.span(), "the route leads nowhere", "give it a gateway, an interface or nexthops"));
        }
    }
    let own: Vec<&str> = draft.section.routes.iter().map(|route| route.get_ref().destination.get_ref().as_str()).collect();
    for ((network, bits), gateway) in routes {
        let destination = if *bits == 0 { "default".to_owned() } else { format!("{network}/{bits}") };
        let _ = match own.contains(&destination.as_str()) {
            true => Ok(()),
            false => write!(text, "[[route]]\ndestination = \"{destination}\"\ngateway = \"{gateway}\"\n"),
        };
    }
    if draft.forwards() {
        text += "[block.ip4]\nforward = true\n[block.ip6]\nforward = true\n";
    }
    Ok(text)
}

fn hop_text(hop: &NextHop) -> String {
    let named = [("gateway", &hop.gateway), ("interface", &hop.interface)];
    let fields = named.into_iter().filter_map(|(name, value)| Some(format!("{name} = {}", quoted(value.as_ref()?.get_ref()))));
    let weight = hop.weight.map(|weight| format!("weight = {weight}"));
    format!("{{ {} }}", fields.chain(weight).collect::<Vec<_>>().join(", "))
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
