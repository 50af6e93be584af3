//! FINS' two files, `stack.cfg` (modules and the links between them) and `envi.cfg` (interfaces, addresses, routes), as a stack file.
//!
//! FINS' modules are blocks of weft's default graph (`interface` is two, interfaces and ether; `switch` and `rtm` are the engine and the control socket). A link from one
//! to another is an edge that this graph has. A link that also leads to a logger puts the logger into that edge. What has no place here, and what weft's
//! stack has beside, is told, each with its file and line; what contradicts itself is refused.

mod config;

use config::{Group, Is, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

/// Why a file cannot be converted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct ImportError {
    /// The file's name.
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// A stack file, and what of the two files is not in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Imported {
    /// The stack file.
    pub stack: String,
    /// What was left out, and what weft's stack has beside: a line each, with its place.
    pub notes: Vec<String>,
}

/// FINS' modules whose output flows are known, with what each flow leads to.
const FLOWS: &[(&str, &[&str])] = &[
    ("interface", &["ipv4", "arp", "icmp", "ipv6", "icmpv6"]),
    ("arp", &["interface"]),
    ("ipv4", &["interface", "icmp", "tcp", "udp"]),
    ("icmp", &["ipv4", "tcp", "udp", "daemon"]),
    ("udp", &["ipv4", "icmp", "daemon"]),
    ("tcp", &["ipv4", "icmp", "daemon"]),
    ("daemon", &["icmp", "tcp", "udp"]),
];

/// Where frames from one module to another pass in weft's graph. Where they are no frames but calls and data of sockets, no block fits between.
const EDGES: &[(&str, &str, Option<&str>)] = &[
    ("interface", "ipv4", Some("ether:ip4 ip4:lower")),
    ("interface", "arp", Some("ether:arp arp:lower")),
    ("interface", "icmp", Some("arp:failed icmp4:error")),
    ("arp", "interface", Some("arp:lower ether:upper")),
    ("ipv4", "interface", Some("ip4:lower arp:upper")),
    ("ipv4", "icmp", Some("ip4:icmp icmp4:lower")),
    ("ipv4", "tcp", Some("ip4:tcp tcp:lower")),
    ("ipv4", "udp", Some("ip4:udp udp:lower")),
    ("icmp", "ipv4", Some("icmp4:lower ip4:upper")),
    ("icmp", "tcp", Some("icmp4:tcp tcp:error")),
    ("icmp", "udp", Some("icmp4:udp udp:error")),
    ("icmp", "daemon", Some("icmp4:other sockets:error")),
    ("udp", "ipv4", Some("udp:ip4 ip4:upper")),
    ("udp", "icmp", Some("sockets:unreachable icmp4:error")),
    ("udp", "daemon", Some("udp:upper sockets:udp")),
    ("tcp", "ipv4", Some("tcp:ip4 ip4:upper")),
    ("tcp", "icmp", None),
    ("tcp", "daemon", None),
    ("daemon", "icmp", Some("sockets:ip4 ip4:upper")),
    ("daemon", "tcp", None),
    ("daemon", "udp", Some("sockets:udp udp:upper")),
];

/// What is not a block of weft's, because weft has it otherwise.
const ADMINISTRATION: &[&str] = &["switch", "rtm"];
const LOGGERS: &[&str] = &["logger", "logger_iperf"];
/// FINS' parameters and what they are here.
const PARAMETERS: &[(&str, &str, &str)] = &[
    ("logger", "interval", "interval_ms"),
    ("logger", "repeats", "repeats"),
    ("tcp", "mss", "mss"),
    ("tcp", "fast_duplicates", "reordering"),
];

const AF_INET: i64 = 2;
const IFF_UP: i64 = 1;
const IFF_LOOPBACK: i64 = 8;
/// Most bytes of a block's name.
const NAME_BYTES_MAX: usize = 64;

/// Converts both files; `stack` and `environment` are names and texts.
///
/// # Errors
/// What is no libconfig, or contradicts itself, with file and line.
pub fn import(stack: (&str, &str), environment: (&str, &str)) -> Result<Imported, ImportError> {
    let mut out = Import { file: stack.0.to_owned(), stack: String::from("[node]\nname = \"fins\"\n"), notes: Vec::new() };
    let (graph, blocks) = out.graph(config::parse(stack.0, stack.1)?)?;
    out.file = environment.0.to_owned();
    out.environment(config::parse(environment.0, environment.1)?)?;
    out.stack += &blocks;
    if !graph.is_empty() {
        let _ = write!(out.stack, "\n[graph]\ninsert = [\n{graph}]\n");
    }
    Ok(Imported { stack: out.stack, notes: out.notes })
}

struct Import {
    file: String,
    stack: String,
    notes: Vec<String>,
}

struct Module {
    line: usize,
    lib: String,
    name: String,
    flows: Vec<Value>,
    params: Group,
}

struct Link {
    line: usize,
    from: i64,
    to: Vec<(usize, i64)>,
}

impl Import {
    fn wrong(&self, line: usize, what: impl Into<String>) -> ImportError {
        ImportError { file: self.file.clone(), line, what: what.into() }
    }
    fn note(&mut self, line: usize, what: impl AsRef<str>) {
        self.notes.push(format!("{}:{line}: {}", self.file, what.as_ref()));
    }

    fn group<'a>(&self, value: &'a Value, what: &str) -> Result<&'a Group, ImportError> {
        match &value.is {
            Is::Group(group) => Ok(group),
            other => Err(self.wrong(value.line, format!("{what} is {}, not a group", other.name()))),
        }
    }
    fn list<'a>(&self, group: &'a Group, line: usize, name: &str) -> Result<&'a [Value], ImportError> {
        match group.get(name).map(|value| (value.line, &value.is)) {
            Some((_, Is::List(list))) => Ok(list),
            Some((line, other)) => Err(self.wrong(line, format!("{name} is {}, not a list", other.name()))),
            None => Err(self.wrong(line, format!("{name} is missing"))),
        }
    }
    fn number(&self, group: &Group, line: usize, name: &str) -> Result<i64, ImportError> {
        match group.get(name).map(|value| (value.line, &value.is)) {
            Some((_, Is::Number(number))) => Ok(*number),
            Some((line, other)) => Err(self.wrong(line, format!("{name} is {}, not a number", other.name()))),
            None => Err(self.wrong(line, format!("{name} is missing"))),
        }
    }
    fn text(&self, group: &Group, line: usize, name: &str) -> Result<String, ImportError> {
        match group.get(name).map(|value| (value.line, &value.is)) {
            Some((_, Is::Text(text))) => Ok(text.clone()),
            Some((line, other)) => Err(self.wrong(line, format!("{name} is {}, not a text", other.name()))),
            None => Err(self.wrong(line, format!("{name} is missing"))),
        }
    }
    /// What the group has that nobody here knows.
    fn unknown(&mut self, group: &Group, of: &str, known: &[&str]) {
        for (name, value) in group.0.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            self.note(value.line, format!("{of} has the unknown setting '{name}': left out"));
        }
    }

    /// The entries of `[graph] insert`, and the sections of blocks.
    fn graph(&mut self, file: Group) -> Result<(String, String), ImportError> {
        self.unknown(&file, "the file", &["version", "stack"]);
        let stack = file.get("stack").ok_or_else(|| self.wrong(1, "stack is missing: this is no stack.cfg"))?;
        let group = self.group(stack, "stack")?;
        self.unknown(group, "stack", &["modules", "links"]);
        let modules = self.modules(self.list(group, stack.line, "modules")?)?;
        let links = self.links(self.list(group, stack.line, "links")?, &modules)?;
        self.flows(&modules, &links)?;
        let loggers = self.logged(&modules, &links);
        let (mut inserts, mut sections) = (String::new(), String::new());
        // In the order of an edge's loggers: each behind the one before.
        let mut last: BTreeMap<&str, String> = BTreeMap::new();
        let mut placed: BTreeMap<i64, &str> = BTreeMap::new();
        for (logger, edge) in &loggers {
            let module = &modules[logger];
            if let Some(other) = placed.insert(*logger, edge) {
                self.note(module.line, format!("'{}' logs {edge} as well: weft's is put into one edge, {other}", module.name));
                placed.insert(*logger, other);
                continue;
            }
            let (from, to) = edge.split_once(' ').unwrap_or((edge, ""));
            let from = last.insert(edge, format!("{}:out", module.name)).unwrap_or_else(|| from.to_owned());
            let _ = writeln!(inserts, "    \"{} {from} {to}\",", module.name);
        }
        for (id, module) in &modules {
            sections += &self.section(module, placed.contains_key(id));
        }
        self.beside(&modules);
        Ok((inserts, sections))
    }

    fn modules(&mut self, list: &[Value]) -> Result<BTreeMap<i64, Module>, ImportError> {
        let mut modules: BTreeMap<i64, Module> = BTreeMap::new();
        for value in list {
            let group = self.group(value, "a module")?;
            self.unknown(group, "a module", &["id", "lib", "name", "flows", "params", "admin"]);
            let (id, lib, name) =
                (self.number(group, value.line, "id")?, self.text(group, value.line, "lib")?, self.text(group, value.line, "name")?);
            let flows = self.list(group, value.line, "flows")?.to_vec();
            let params = group.get("params").map_or(Ok(Group::default()), |params| self.group(params, "params").cloned())?;
            if (id == 0) != (lib == "switch") {
                return Err(self.wrong(value.line, format!("module {id} is '{lib}': id 0 is the switch's, and only its")));
            }
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
                return Err(
                    self.wrong(value.line, format!("'{name}' is no name for a block: use letters, digits, '-', '_' and '.', at most 64"))
                );
            }
            if let Some(other) = modules.values().find(|other| other.name == name) {
                return Err(self.wrong(value.line, format!("'{name}' is the name of the module in line {} already", other.line)));
            }
            let known = ADMINISTRATION.contains(&lib.as_str()) || LOGGERS.contains(&lib.as_str()) || FLOWS.iter().any(|(of, _)| *of == lib);
            if !known {
                self.note(
                    value.line,
                    format!("weft has no block that does what the module '{lib}' does: '{name}' and its links are left out"),
                );
            }
            if modules.insert(id, Module { line: value.line, lib, name, flows, params }).is_some() {
                return Err(self.wrong(value.line, format!("module {id} a second time")));
            }
        }
        Ok(modules)
    }

    fn links(&mut self, list: &[Value], modules: &BTreeMap<i64, Module>) -> Result<BTreeMap<i64, Link>, ImportError> {
        let mut links = BTreeMap::new();
        for value in list {
            let group = self.group(value, "a link")?;
            self.unknown(group, "a link", &["id", "src", "dsts"]);
            let (id, from) = (self.number(group, value.line, "id")?, self.number(group, value.line, "src")?);
            if id == 0 {
                return Err(self.wrong(value.line, "link 0: that number says that a flow has no link"));
            }
            let mut to = Vec::new();
            for destination in self.list(group, value.line, "dsts")? {
                match destination.is {
                    Is::Number(number) => to.push((destination.line, number)),
                    ref other => {
                        return Err(self.wrong(destination.line, format!("dsts names {}, not the number of a module", other.name())));
                    }
                }
            }
            if let Some(missing) = to.iter().map(|(_, id)| *id).chain([from]).find(|id| !modules.contains_key(id)) {
                return Err(self.wrong(value.line, format!("link {id} is about module {missing}, which does not exist")));
            }
            if links.insert(id, Link { line: value.line, from, to }).is_some() {
                return Err(self.wrong(value.line, format!("link {id} a second time")));
            }
        }
        Ok(links)
    }

    /// Do flows lead where weft's graph leads them?
    fn flows(&mut self, modules: &BTreeMap<i64, Module>, links: &BTreeMap<i64, Link>) -> Result<(), ImportError> {
        for (id, module) in modules {
            let expected = FLOWS.iter().find(|(lib, _)| *lib == module.lib).map_or(&[][..], |(_, flows)| flows);
            for (index, flow) in module.flows.iter().enumerate() {
                let Is::Number(number) = flow.is else {
                    return Err(
                        self.wrong(flow.line, format!("flow {index} of '{}' is {}, not a link's number", module.name, flow.is.name()))
                    );
                };
                if number == 0 {
                    continue;
                }
                let link = links.get(&number).ok_or_else(|| {
                    self.wrong(flow.line, format!("flow {index} of '{}' is link {number}, which does not exist", module.name))
                })?;
                if link.from != *id {
                    return Err(
                        self.wrong(link.line, format!("link {number} is a flow of '{}', and begins at module {}", module.name, link.from))
                    );
                }
                let Some(expected) = expected.get(index) else {
                    if !expected.is_empty() {
                        self.note(flow.line, format!("'{}' has no flow {index} in weft: left out", module.name));
                    }
                    continue;
                };
                let leads =
                    |(_, to): &(usize, i64)| modules.get(to).is_some_and(|to| to.lib == *expected || LOGGERS.contains(&to.lib.as_str()));
                for (line, to) in link.to.iter().filter(|to| !leads(to)) {
                    let to = modules.get(to).map_or("?", |to| &to.name);
                    self.note(*line, format!("flow {index} of '{}' leads to '{to}': in weft it leads to {expected}", module.name));
                }
            }
        }
        Ok(())
    }

    /// Each logger with an edge into which it is put.
    fn logged(&mut self, modules: &BTreeMap<i64, Module>, links: &BTreeMap<i64, Link>) -> Vec<(i64, &'static str)> {
        let is_logger = |id: &i64| modules.get(id).is_some_and(|module| LOGGERS.contains(&module.lib.as_str()));
        let mut out = Vec::new();
        for link in links.values() {
            let (loggers, others): (Vec<i64>, Vec<i64>) = link.to.iter().map(|(_, id)| *id).partition(is_logger);
            let edge = |to: &i64| {
                let (from, to) = (&modules.get(&link.from)?.lib, &modules.get(to)?.lib);
                EDGES.iter().find(|(a, b, _)| a == from && b == to)?.2
            };
            let edge = others.iter().find_map(edge);
            for logger in loggers {
                match edge {
                    Some(edge) => out.push((logger, edge)),
                    None => self.note(link.line, format!("'{}' logs what passes no edge of weft's graph: left out", modules[&logger].name)),
                }
            }
        }
        out
    }

    fn section(&mut self, module: &Module, is_placed: bool) -> String {
        let is_logger = LOGGERS.contains(&module.lib.as_str());
        let mut lines = String::new();
        for (name, value) in &module.params.0 {
            let row = PARAMETERS.iter().find(|(lib, of, _)| (*lib == module.lib || (is_logger && *lib == "logger")) && of == name);
            match (row, &value.is) {
                (Some((_, _, here)), Is::Number(number)) => {
                    let _ = writeln!(lines, "{here} = {number}");
                }
                _ => self.note(value.line, format!("weft has no parameter for '{name}' of '{}': left out", module.name)),
            }
        }
        if is_logger && !is_placed {
            self.note(
                module.line,
                format!("no link leads to '{}' and to another module: no frame comes to it, and it is left out", module.name),
            );
            return String::new();
        }
        match (is_logger, lines.is_empty()) {
            (true, _) => format!("\n[block.{}]\nkind = \"logger\"\n{lines}", toml_key(&module.name)),
            (false, false) => format!("\n[block.{}]\n{lines}", if module.lib == "ipv4" { "ip4" } else { &module.lib }),
            (false, true) => String::new(),
        }
    }

    /// What weft's stack has and this one has not.
    fn beside(&mut self, modules: &BTreeMap<i64, Module>) {
        let missing: Vec<&str> =
            FLOWS.iter().map(|(lib, _)| *lib).filter(|lib| !modules.values().any(|module| module.lib == *lib)).collect();
        if !missing.is_empty() {
            self.note(1, format!("there is no module {}: weft's stack has them all the same, and IPv6", missing.join(", ")));
        }
    }

    fn environment(&mut self, file: Group) -> Result<(), ImportError> {
        self.unknown(&file, "the file", &["version", "environment"]);
        let environment = file.get("environment").ok_or_else(|| self.wrong(1, "environment is missing: this is no envi.cfg"))?;
        let group = self.group(environment, "environment")?;
        self.unknown(group, "environment", &["interfaces", "main_interface", "addresses", "routes"]);
        let names = self.interfaces(self.list(group, environment.line, "interfaces")?)?;
        let main = self.number(group, environment.line, "main_interface")?;
        if !names.contains_key(&main) {
            let line = group.get("main_interface").map_or(environment.line, |value| value.line);
            return Err(self.wrong(line, format!("main_interface is {main}, and there is no interface of that number")));
        }
        let networks = self.addresses(self.list(group, environment.line, "addresses")?, &names)?;
        self.routes(self.list(group, environment.line, "routes")?, &names, &networks)
    }

    /// Interfaces by number; the loopback, and what is down, without a name.
    fn interfaces(&mut self, list: &[Value]) -> Result<BTreeMap<i64, Option<String>>, ImportError> {
        let mut names = BTreeMap::new();
        for value in list {
            let group = self.group(value, "an interface")?;
            self.unknown(group, "an interface", &["index", "name", "mac", "type", "mode", "status", "mtu", "flags"]);
            let (index, name) = (self.number(group, value.line, "index")?, self.text(group, value.line, "name")?);
            let (mac, mtu, flags) =
                (self.number(group, value.line, "mac")?, self.number(group, value.line, "mtu")?, self.number(group, value.line, "flags")?);
            let is_blank = name.is_empty();
            let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"\\/:".contains(&byte);
            if name.len() > 15 || !name.bytes().all(is_plain) {
                return Err(self.wrong(value.line, format!("'{name}' is no name of an interface")));
            }
            let is_up = flags & IFF_UP != 0;
            let is_ours = !is_blank && flags & IFF_LOOPBACK == 0 && is_up;
            if !is_blank && !is_up {
                self.note(value.line, format!("interface '{name}' is down: left out, with its addresses and routes"));
            }
            if names.insert(index, is_ours.then(|| name.clone())).is_some() {
                return Err(self.wrong(value.line, format!("interface {index} a second time")));
            }
            if !is_ours {
                continue;
            }
            let octets = mac.to_be_bytes();
            let [0, 0, octets @ ..] = octets else { return Err(self.wrong(value.line, format!("mac of '{name}' has more than 48 bits"))) };
            let mac = weft_wire::ethernet::Mac(octets);
            let _ = write!(self.stack, "\n[[interface]]\nname = \"{name}\"\nbackend = \"packet:{name}\"\nmac = \"{mac}\"\nmtu = {mtu}\n");
        }
        Ok(names)
    }

    fn octets(&self, group: &Group, line: usize, name: &str) -> Result<Ipv4Addr, ImportError> {
        let list = self.list(group, line, name)?;
        let octet = |value: &Value| match value.is {
            Is::Number(number) => u8::try_from(number).ok(),
            _ => None,
        };
        let octets: Option<Vec<u8>> = list.iter().map(octet).collect();
        let octets = octets.and_then(|octets| <[u8; 4]>::try_from(octets).ok());
        octets.map(Ipv4Addr::from).ok_or_else(|| self.wrong(line, format!("{name} is not four numbers from 0 to 255")))
    }

    fn prefix(&self, group: &Group, line: usize) -> Result<u32, ImportError> {
        let mask = self.octets(group, line, "mask")?;
        let bits = u32::from(mask);
        match bits.leading_ones() + bits.trailing_zeros().min(32 - bits.leading_ones()) {
            32 => Ok(bits.leading_ones()),
            _ => Err(self.wrong(line, format!("the mask {mask} has holes"))),
        }
    }

    /// The interface that an address or a route is about. None: nothing is to be done about it.
    fn interface(&mut self, group: &Group, line: usize, names: &BTreeMap<i64, Option<String>>) -> Result<Option<String>, ImportError> {
        let (index, family) = (self.number(group, line, "if_index")?, self.number(group, line, "family")?);
        let name =
            names.get(&index).ok_or_else(|| self.wrong(line, format!("if_index is {index}, and there is no interface of that number")))?;
        if family != AF_INET {
            self.note(line, format!("family {family}: only IPv4 (2) is converted"));
            return Ok(None);
        }
        Ok(name.clone())
    }

    /// The networks of the addresses: weft makes their routes.
    fn addresses(&mut self, list: &[Value], names: &BTreeMap<i64, Option<String>>) -> Result<Vec<(Ipv4Addr, u32)>, ImportError> {
        let mut networks = Vec::new();
        for value in list {
            let group = self.group(value, "an address")?;
            self.unknown(group, "an address", &["if_index", "family", "ip", "mask", "gw", "bdc", "dst"]);
            let Some(interface) = self.interface(group, value.line, names)? else { continue };
            let (ip, prefix) = (self.octets(group, value.line, "ip")?, self.prefix(group, value.line)?);
            networks.push((masked(ip, prefix), prefix));
            let _ = write!(self.stack, "\n[[address]]\ninterface = \"{interface}\"\naddress = \"{ip}/{prefix}\"\n");
        }
        Ok(networks)
    }

    fn routes(&mut self, list: &[Value], names: &BTreeMap<i64, Option<String>>, networks: &[(Ipv4Addr, u32)]) -> Result<(), ImportError> {
        for value in list {
            let group = self.group(value, "a route")?;
            self.unknown(group, "a route", &["if_index", "family", "dst", "mask", "gw", "metric", "timeout"]);
            // Routes through the loopback follow from the addresses.
            let Some(interface) = self.interface(group, value.line, names)? else { continue };
            let (to, prefix) = (self.octets(group, value.line, "dst")?, self.prefix(group, value.line)?);
            let (gateway, metric) = (self.octets(group, value.line, "gw")?, self.number(group, value.line, "metric")?);
            if group.get("timeout").is_some_and(|timeout| timeout.is != Is::Number(0)) {
                self.note(value.line, "a route does not time out in weft");
            }
            if masked(to, prefix) != to {
                return Err(self.wrong(value.line, format!("{to}/{prefix} has bits set behind its prefix")));
            }
            if gateway.is_unspecified() && networks.contains(&(to, prefix)) {
                continue;
            }
            let destination = if prefix == 0 { "default".to_owned() } else { format!("{to}/{prefix}") };
            let _ = write!(self.stack, "\n[[route]]\ndestination = \"{destination}\"\ninterface = \"{interface}\"\nmetric = {metric}\n");
            if !gateway.is_unspecified() {
                let _ = writeln!(self.stack, "gateway = \"{gateway}\"");
            }
        }
        Ok(())
    }
}

fn masked(ip: Ipv4Addr, prefix: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(ip) & u32::MAX.checked_shl(32 - prefix).unwrap_or(0))
}

/// Names with dots are quoted.
fn toml_key(name: &str) -> String {
    if name.contains('.') { format!("\"{name}\"") } else { name.to_owned() }
}

#[cfg(test)]
mod tests;
