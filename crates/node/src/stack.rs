//! Stack files: a node as TOML. Reading, and errors that name file, line and what to do.
//!
//! A file describes what differs from the default graph: parameters of its blocks, more blocks and edges, and what the interfaces are.
//!
//! `weft help stack` prints [`STACK_HELP`], which is the format's documentation.

use crate::error::{StackError, locate};
use crate::schema::{self, TimeSpan};
use crate::several;
use crate::spanned::Spanned;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use toml::de::DeTable;
use weft_core::control::Value;
use weft_core::{End, Loader, Mode, nearest};

mod blocks_schema;
mod expression;
mod other;

pub use expression::Compiled;
pub use other::{kind_of, other_kind};

/// What a stack file may hold, for `weft help stack`.
pub const STACK_HELP: &str = include_str!("stack/help.txt");

/// The stack file that is used when none is given.
pub const DEFAULT_STACK: &str = include_str!("default.toml");

/// How many default stacks there are: [`Stack::numbered_default_stack`].
pub const DEFAULT_STACKS_MAX: u8 = 255;

/// A stack file, read but not yet built.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Name of the file, for messages.
    pub file: String,
    text: String,
    raw: Raw,
    places: Places,
    loader: Option<Arc<dyn Loader>>,
}

/// Where the fields of the sections stand, for messages.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Places {
    node: IndexMap<String, Spanned<toml::Value>>,
    interface: Vec<IndexMap<String, Spanned<toml::Value>>>,
    address: Vec<IndexMap<String, Spanned<toml::Value>>>,
    route: Vec<IndexMap<String, Spanned<toml::Value>>>,
}

/// A stack: what differs from the default graph, and what the interfaces are.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Raw {
    /// The node as a whole.
    #[serde(default)]
    node: NodeSection,
    /// The interfaces. Default: those of the default stack, with its addresses and routes.
    #[serde(default)]
    interface: Vec<Spanned<InterfaceSection>>,
    /// Addresses of interfaces.
    #[serde(default)]
    address: Vec<Spanned<AddressSection>>,
    /// Routes.
    #[serde(default)]
    route: Vec<Spanned<RouteSection>>,
    /// Parameters of blocks of the default graph, and further blocks.
    #[serde(default)]
    #[schemars(with = "blocks_schema::Blocks")]
    block: IndexMap<Spanned<String>, IndexMap<Spanned<String>, Spanned<toml::Value>>>,
    /// Edges between blocks.
    #[serde(default)]
    graph: GraphSection,
}

/// The JSON schema of stack files, for editors.
pub fn stack_schema() -> Value {
    schema::of::<Raw>("A stack file of weft")
}

/// The node as a whole.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSection {
    /// Its host name. Default: "weft".
    pub name: String,
    /// How its blocks take turns. Default: "inline".
    pub engine: EngineKind,
    /// The graph to start from. Default: "default".
    pub graph: Base,
    /// What a file has that says nothing of interfaces, addresses and routes. Default: "default".
    pub interfaces: Interfaces,
    /// Name servers for the programs' /etc/resolv.conf. Default: the gateway of the default route.
    pub nameservers: Vec<IpAddr>,
    /// Multipath TCP for every program; with peers that do not speak it, TCP. Default: false.
    pub mptcp: bool,
    /// How long to poll before sleeping while events come fast, at most 1ms; "0us": never. Default: "50us".
    #[serde(deserialize_with = "span")]
    #[schemars(with = "TimeSpan")]
    pub spin: Duration,
}

/// How the engine takes turns: `engine` under `[node]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// Run to completion.
    #[default]
    Inline,
    /// One thread, a queue in front of every block.
    Queued,
    /// A thread and a queue for every block: real time only.
    Threaded,
}

impl EngineKind {
    /// As an engine of `weft_core`; `None`: the world has to bring it.
    pub fn mode(self) -> Option<Mode> {
        match self {
            EngineKind::Inline => Some(Mode::Inline),
            EngineKind::Queued => Some(Mode::Queued),
            EngineKind::Threaded => None,
        }
    }
}

/// How long it polls unless the file says otherwise.
const SPIN_DEFAULT: Duration = Duration::from_micros(50);
/// Longer would be a core that is never left to others.
const SPIN_MAX: Duration = Duration::from_millis(1);

/// A time span with its unit, as for the parameters of blocks.
fn span<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let span = weft_core::parameter::parse_duration(&String::deserialize(from)?).map_err(serde::de::Error::custom)?;
    if span > SPIN_MAX { Err(serde::de::Error::custom("at most 1ms")) } else { Ok(span) }
}

impl Default for NodeSection {
    fn default() -> NodeSection {
        NodeSection {
            name: "weft".to_owned(),
            engine: EngineKind::Inline,
            graph: Base::Default,
            interfaces: Interfaces::Default,
            nameservers: Vec::new(),
            mptcp: false,
            spin: SPIN_DEFAULT,
        }
    }
}

/// The graph to start from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// A host's stack: see docs/architecture/graph.md.
    Default,
    /// Nothing.
    Empty,
}

/// What a file has that says nothing of interfaces, addresses and routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Interfaces {
    /// Those of the default stack, for whoever asks for them with [`Stack::complete`].
    Default,
    /// Only the loopback.
    None,
}

/// An interface.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSection {
    /// Its name in the node, 1 to 15 bytes.
    pub name: String,
    /// What is behind it: tap:NAME, tun:NAME, packet:INTERFACE, stream:PATH, passt:, fd:NUMBER, memory:NAME, trace:URL or fault:WHAT:URL.
    pub backend: String,
    /// Its link-layer address. Default: made from the names of node and interface.
    pub mac: Option<String>,
    /// Largest IP packet, bytes. Default: 1500.
    pub mtu: Option<u32>,
    /// What frames begin with, where the backend does not decide it (memory:NAME).
    pub link: Option<Framing>,
    /// Its group: interfaces of one group are changed together. Default: 0.
    #[serde(default)]
    pub group: u32,
    /// Addresses with prefix for the host's side of tap: and tun:, one or a list.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "OneOrMany")]
    pub host_address: Vec<String>,
    /// Hand frames larger than the MTU and unfinished checksums to the backend. Default: true.
    #[serde(default = "yes")]
    pub offload: bool,
    /// Join TCP segments that are received together into large frames. Default: true.
    #[serde(default = "yes")]
    pub coalesce: bool,
    /// A DHCP server of its network gives it an IPv4 address, routes and name servers. Default: false.
    #[serde(default)]
    pub dhcp: bool,
}

/// `link` of an `[[interface]]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// Ethernet II.
    Ethernet,
    /// IP packets without a header below them.
    Raw,
}

/// A text, or a list of them.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(match OneOrMany::deserialize(from)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

fn yes() -> bool {
    true
}

/// An address of an interface.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressSection {
    /// The interface.
    pub interface: String,
    /// The address with its prefix: "10.77.0.2/24" or "fd77::2/64".
    pub address: String,
    /// Detect duplicates before it is used (IPv6). Default: false.
    #[serde(default)]
    pub dad: bool,
}

/// A route.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteSection {
    /// A network with prefix, or "default"; the gateway says which family.
    pub destination: String,
    /// The next hop.
    pub gateway: Option<String>,
    /// Where it leaves: without a gateway, or with one that is link-local.
    pub interface: Option<String>,
    /// Lower wins. IPv6: 0 is 1024, as Linux has it. Default: 0.
    #[serde(default)]
    pub metric: u32,
    /// Largest IP packet that is sent by it, bytes. Default: the interface's.
    pub mtu: Option<u32>,
    /// Several next hops in place of gateway and interface: each flow takes one, in shares of the weights.
    #[serde(default)]
    pub nexthops: Vec<NextHop>,
}

impl RouteSection {
    /// Its gateway, or the first of its next hops'.
    pub fn first_gateway(&self) -> Option<&str> {
        self.gateway.as_deref().or_else(|| self.nexthops.iter().find_map(|hop| hop.gateway.as_deref()))
    }
}

/// One of a route's `nexthops`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NextHop {
    /// The next hop.
    pub gateway: Option<String>,
    /// Where it leaves, when there is no gateway, or it is not on a connected network.
    pub interface: Option<String>,
    /// Share of the flows that take it, 1 to 256. Default: 1.
    pub weight: Option<u32>,
    /// The gateway is on the interface, whatever the addresses say. Default: false.
    #[serde(default)]
    pub onlink: bool,
}

/// Edges between blocks.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct GraphSection {
    /// Further edges: "a:out -> b:in", or "c <-> d" for both directions.
    edges: Vec<Spanned<String>>,
    /// Kinds of block from files beside this one.
    load: Vec<Spanned<String>>,
    /// Blocks to put into edges, "BLOCK FROM TO" each: "wan ether:lower interfaces:upper".
    insert: Vec<Spanned<String>>,
}

/// A stack file, read but not yet built: what its document comes to.
fn raw_of(file: &str, text: &str, document: toml::Spanned<DeTable<'_>>) -> Result<Stack, StackError> {
    let read = |document| Raw::deserialize(toml::Deserializer::from(document));
    // What was read once is read again: this cannot fail, and without it messages would only point at the whole file.
    let places = Places::deserialize(toml::Deserializer::from(document.clone())).unwrap_or_default();
    let raw = read(document).map_err(|error| misread(file, text, &error).of_shape())?;
    Ok(Stack { file: file.to_owned(), text: text.to_owned(), raw, places, loader: None })
}

/// What the TOML reader found.
fn misread(file: &str, text: &str, error: &toml::de::Error) -> StackError {
    let span = error.span().unwrap_or(0..0);
    // Of another kind of file all keys are wrong, which is one mistake.
    if let Some((what, help)) = other_kind(text, "stack") {
        return locate(file, text, span, &what, &help).at(0..0);
    }
    let (what, help) = explain(error.message(), "stack");
    locate(file, text, span, &what, &help)
}

/// A block of the file: name, kind, parameters; with the places for messages.
#[derive(Clone, Debug)]
pub(crate) struct BlockEntry {
    pub name: String,
    pub span: Range<usize>,
    pub kind: Option<String>,
    pub parameters: IndexMap<String, Value>,
    pub spans: IndexMap<String, Range<usize>>,
}

/// An `insert` of the file: the block, the edge's two ends, and the place for messages.
pub(crate) type InsertEntry = (End, End, End, Range<usize>);

impl Stack {
    /// Reads a stack file's text. `file` is its name in messages.
    pub fn parse(file: &str, text: &str) -> Result<Stack, StackError> {
        Stack::parse_checked(file, text, &|_| Ok(()))
    }

    /// Reads a stack file's text, and tells of all mistakes at once: those of its shape, and what `check` finds.
    ///
    /// # Errors
    /// The first mistake of the file, with the others behind it.
    pub fn parse_checked(file: &str, text: &str, check: &dyn Fn(&Stack) -> Result<(), StackError>) -> Result<Stack, StackError> {
        let document = several::parse(text, |error| misread(file, text, error))?;
        several::read(&document, |document| {
            let stack = raw_of(file, text, document)?;
            stack.check_names()?;
            check(&stack)?;
            Ok(stack)
        })
    }

    /// The default stack.
    pub fn default_stack() -> Stack {
        Stack::parse("the default stack", DEFAULT_STACK).unwrap_or_else(|error| unreachable!("the built-in stack file is sound: {error}"))
    }

    /// One of [`DEFAULT_STACKS_MAX`] default stacks that do not get in each other's way: number 3 is on weft3 with 10.77.3.2/24 and, where IPv6 is,
    /// fd77:0:0:3::2/64. Number 0 is [`Stack::default_stack`].
    pub fn numbered_default_stack(number: u8) -> Stack {
        if number == 0 {
            return Stack::default_stack();
        }
        let text = DEFAULT_STACK.replace("weft0", &format!("weft{number}")).replace("10.77.0.", &format!("10.77.{number}."));
        let text = text.replace("fd77::", &format!("fd77:0:0:{number:x}::"));
        Stack::parse("the default stack", &text).unwrap_or_else(|error| unreachable!("the built-in stack file is sound: {error}"))
    }

    /// Has the file the default graph, and says nothing of interfaces, addresses and routes?
    pub fn is_incomplete(&self) -> bool {
        let Raw { node, interface, address, route, .. } = &self.raw;
        let silent = interface.is_empty() && address.is_empty() && route.is_empty();
        silent && node.graph == Base::Default && node.interfaces == Interfaces::Default
    }

    /// Gives a file that [`Stack::is_incomplete`] the interfaces, addresses and routes of a numbered default stack; others stay as they are.
    pub fn complete(&mut self, number: u8) {
        if !self.is_incomplete() {
            return;
        }
        let Raw { interface, address, route, .. } = Stack::numbered_default_stack(number).raw;
        // They stand nowhere in this file.
        fn nowhere<T>(sections: Vec<Spanned<T>>) -> Vec<Spanned<T>> {
            sections.into_iter().map(|section| Spanned::new(usize::MAX..usize::MAX, section.into_inner())).collect()
        }
        (self.raw.interface, self.raw.address, self.raw.route) = (nowhere(interface), nowhere(address), nowhere(route));
    }

    /// Who reads the files of `[graph] load`, and those that the node is told to load later.
    pub fn set_loader(&mut self, loader: Arc<dyn Loader>) {
        self.loader = Some(loader);
    }
    /// Who reads files, if anybody does.
    pub fn loader(&self) -> Option<Arc<dyn Loader>> {
        self.loader.clone()
    }
    /// `[graph] load`
    pub(crate) fn load_files(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        self.raw.graph.load.iter().map(|file| (file.get_ref().as_str(), file.span()))
    }
    /// `[node]`
    pub fn node(&self) -> &NodeSection {
        &self.raw.node
    }
    /// Gives the node another name: one file may serve several nodes.
    pub fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.raw.node.name);
    }
    /// `[[interface]]`, in order.
    pub fn interfaces(&self) -> impl Iterator<Item = &InterfaceSection> + Clone {
        self.raw.interface.iter().map(Spanned::get_ref)
    }
    /// The names of the interfaces that ask a DHCP server.
    pub fn by_dhcp(&self) -> impl Iterator<Item = &str> {
        self.interfaces().filter(|interface| interface.dhcp).map(|interface| interface.name.as_str())
    }
    /// Name servers for programs: those of the file, else the gateway of its first default route.
    pub fn nameservers(&self) -> impl Iterator<Item = IpAddr> {
        let default = self.routes().filter(|route| self.raw.node.nameservers.is_empty() && route.destination == "default");
        let gateways = default.filter_map(|route| route.first_gateway()?.parse().ok()).take(1);
        self.raw.node.nameservers.iter().copied().chain(gateways)
    }
    /// Another engine than the file says (`--engine`).
    pub fn set_engine(&mut self, engine: EngineKind) {
        self.raw.node.engine = engine;
    }
    /// Multipath TCP whether the file says so or not (`--mptcp`).
    pub fn set_mptcp(&mut self, mptcp: bool) {
        self.raw.node.mptcp = mptcp;
    }
    /// To change what the file says about interfaces (`--tap`, the fall-back to a veth pair).
    pub fn interfaces_mut(&mut self) -> impl Iterator<Item = &mut InterfaceSection> {
        self.raw.interface.iter_mut().map(Spanned::get_mut)
    }
    /// `[[address]]`, in order.
    pub fn addresses(&self) -> impl Iterator<Item = &AddressSection> {
        self.raw.address.iter().map(Spanned::get_ref)
    }
    /// `[[route]]`, in order.
    pub fn routes(&self) -> impl Iterator<Item = &RouteSection> {
        self.raw.route.iter().map(Spanned::get_ref)
    }

    /// Sets a parameter over what the file says: `block.parameter=value` (`--set`).
    pub fn set(&mut self, assignment: &str) -> Result<(), StackError> {
        let help = "write it as block.parameter=value, for example tcp.congestion=reno";
        let bad = |why: &str| StackError::nowhere("--set", &format!("'{assignment}' {why}"), help);
        let (path, value) = assignment.split_once('=').ok_or_else(|| bad("has no '='"))?;
        let (block, parameter) = path.split_once('.').ok_or_else(|| bad("has no '.' between block and parameter"))?;
        if block.is_empty() || parameter.is_empty() {
            return Err(bad("names no block or no parameter"));
        }
        let value = format!("v = {value}")
            .parse::<toml::Table>()
            .ok()
            .and_then(|mut table| table.remove("v"))
            .unwrap_or_else(|| toml::Value::String(value.to_owned()));
        let at = self.text.len()..self.text.len();
        self.raw
            .block
            .entry(Spanned::new(at.clone(), block.to_owned()))
            .or_default()
            .insert(Spanned::new(at.clone(), parameter.to_owned()), Spanned::new(at, value));
        Ok(())
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockEntry> {
        self.raw.block.iter().map(|(name, fields)| {
            let mut entry = BlockEntry {
                name: name.get_ref().clone(),
                span: name.span(),
                kind: None,
                parameters: IndexMap::new(),
                spans: IndexMap::new(),
            };
            for (key, value) in fields {
                let json = serde_json::to_value(value.get_ref()).unwrap_or(Value::Null);
                match (key.get_ref().as_str(), json.as_str()) {
                    ("kind", Some(kind)) => entry.kind = Some(kind.to_owned()),
                    (name, _) => {
                        entry.parameters.insert(name.to_owned(), json);
                        entry.spans.insert(name.to_owned(), value.span());
                    }
                }
            }
            entry
        })
    }

    /// `[graph] edges`: `a:out -> b:in`, or `a <-> b` for both directions.
    pub(crate) fn edges(&self) -> Result<Vec<(End, End, Range<usize>)>, StackError> {
        let mut out = Vec::new();
        for edge in &self.raw.graph.edges {
            let text = edge.get_ref();
            if let Some((a, b)) = text.split_once("<->") {
                out.push((End::parse(a.trim()), End::parse(b.trim()), edge.span()));
                out.push((End::parse(b.trim()), End::parse(a.trim()), edge.span()));
            } else if let Some((a, b)) = text.split_once("->") {
                out.push((End::parse(a.trim()), End::parse(b.trim()), edge.span()));
            } else {
                return Err(self.error(edge.span(), &format!("'{text}' is no edge"), "write it as \"a:output -> b:input\" or \"a <-> b\""));
            }
        }
        Ok(out)
    }

    /// `[graph] insert`: `block from to`.
    pub(crate) fn inserts(&self) -> Result<Vec<InsertEntry>, StackError> {
        let parse = |item: &Spanned<String>| match item.get_ref().split_whitespace().collect::<Vec<_>>()[..] {
            [block, from, to] => Ok((End::parse(block), End::parse(from), End::parse(to), item.span())),
            _ => Err(self.error(
                item.span(),
                &format!("'{}' names no block and edge", item.get_ref()),
                "write it as \"block from:output to:input\"",
            )),
        };
        self.raw.graph.insert.iter().map(parse).collect()
    }

    /// An error at a place of this file.
    pub(crate) fn error(&self, span: Range<usize>, what: &str, help: &str) -> StackError {
        if span.start >= self.text.len() && !self.text.is_empty() {
            return StackError::nowhere(&self.file, what, help);
        }
        locate(&self.file, &self.text, span, what, help)
    }
    /// An error about the engine.
    pub fn engine_error(&self, what: &str, help: &str) -> StackError {
        self.error(self.places.node.get("engine").map_or(usize::MAX..usize::MAX, Spanned::span), what, help)
    }
    /// An error about a field of the n-th `[[interface]]`; where it is left out, about the section.
    pub fn interface_error(&self, index: usize, field: &str, what: &str, help: &str) -> StackError {
        let section = self.raw.interface.get(index).map_or(0..0, Spanned::span);
        self.error(place(&self.places.interface, index, field).unwrap_or(section), what, help)
    }
    pub(crate) fn address_error(&self, index: usize, field: &str, what: &str, help: &str) -> StackError {
        let section = self.raw.address.get(index).map_or(0..0, Spanned::span);
        self.error(place(&self.places.address, index, field).unwrap_or(section), what, help)
    }
    pub(crate) fn route_error(&self, index: usize, field: &str, what: &str, help: &str) -> StackError {
        let section = self.raw.route.get(index).map_or(0..0, Spanned::span);
        self.error(place(&self.places.route, index, field).unwrap_or(section), what, help)
    }

    fn check_names(&self) -> Result<(), StackError> {
        if let (Interfaces::None, Some(first)) = (self.raw.node.interfaces, self.raw.interface.first()) {
            let help = "take interfaces = \"none\" away, or the [[interface]]";
            return Err(self.error(first.span(), "the file says interfaces = \"none\" and has an interface", help));
        }
        let mut seen: Vec<&str> = vec!["lo"];
        for (index, interface) in self.interfaces().enumerate() {
            let name = interface.name.as_str();
            if name.is_empty() || name.len() > 15 || name.contains(['/', ' ', ':']) {
                return Err(self.interface_error(
                    index,
                    "name",
                    &format!("'{name}' is no interface name"),
                    "use 1 to 15 bytes without '/', ':' and spaces",
                ));
            }
            if seen.contains(&name) {
                return Err(self.interface_error(
                    index,
                    "name",
                    &format!("there is an interface '{name}' already"),
                    "give each interface a name of its own ('lo' is the loopback interface)",
                ));
            }
            seen.push(name);
        }
        let absent = |name: &str| (!seen.contains(&name)).then(|| format!("there is no interface '{name}'"));
        let known = format!("the file has: {}", seen.join(", "));
        for (index, address) in self.addresses().enumerate() {
            if let Some(what) = absent(&address.interface) {
                return Err(self.address_error(index, "interface", &what, &known));
            }
        }
        for (index, route) in self.routes().enumerate() {
            if let Some(what) = route.interface.as_deref().and_then(absent) {
                return Err(self.route_error(index, "interface", &what, &known));
            }
            if let Some(what) = route.nexthops.iter().filter_map(|hop| hop.interface.as_deref()).find_map(absent) {
                return Err(self.route_error(index, "nexthops", &what, &known));
            }
        }
        Ok(())
    }
}

fn place(sections: &[IndexMap<String, Spanned<toml::Value>>], index: usize, field: &str) -> Option<Range<usize>> {
    sections.get(index)?.get(field).map(Spanned::span)
}

/// Says what the TOML reader found in words that help; `topic` is what `weft help` knows about this kind of file.
pub fn explain(message: &str, topic: &str) -> (String, String) {
    let message = message.trim().replace('\n', ", ");
    let message = with_nearest(&message).unwrap_or(message);
    let help = match () {
        () if message.starts_with("unknown field") => match elsewhere(&message).filter(|_| topic == "scenario") {
            Some(here) => format!("elsewhere it is called so; here it is {here}"),
            None => format!("check the spelling; `weft help {topic}` lists what a {topic} file may hold"),
        },
        () if message.starts_with("missing field") => format!("add it; `weft help {topic}` shows an example"),
        () if message.starts_with("invalid type") => format!("give a value of the right type; `weft help {topic}` shows an example"),
        () => format!("see `weft help {topic}` for an example"),
    };
    (message, help)
}

/// What Shadow, Mininet and ns-3 call what a scenario calls otherwise.
const ELSEWHERE: [(&[&str], &str); 18] = [
    (&["general", "experimental", "simulation"], "the keys at the top of the file (duration, seed, start), or an option of `weft sim`"),
    (&["latency", "link_delay", "propagation_delay"], "`delay` of a wire, one way"),
    (&["packet_loss", "packet_loss_rate", "loss_rate"], "`loss` of a wire, from 0 to 1"),
    (
        &["bandwidth", "bandwidth_down", "bandwidth_up", "host_bandwidth_down", "host_bandwidth_up", "bw", "data_rate", "datarate"],
        "`rate` of a wire, and `back = { rate = … }` where the other direction has another",
    ),
    (&["max_queue_size", "queue_size", "interface_buffer"], "`queue_packets` or `queue_bytes` of a wire"),
    (&["stop_time", "simulation_time", "stoptime"], "`duration`"),
    (&["start_time", "starttime"], "`start` of a program"),
    (&["shutdown_time", "shutdown_signal"], "an event: [[events]] at = \"5s\", stop = \"PROGRAM\""),
    (&["expected_final_state", "exit_code"], "`expect` of a program: a status (143: killed by SIGTERM), \"running\" or \"any\""),
    (&["hosts", "host", "switches"], "[nodes.NAME] (a switch: kind = \"switch\"), and `node` of a program"),
    (&["links", "edges", "edge", "link", "graph", "network"], "[wires.NAME] with between = [\"a\", \"b\"]"),
    (&["processes", "process", "applications"], "[programs.NAME] with node and command"),
    (&["path", "args", "binary", "exe", "cmd"], "`command` of a program: [\"curl\", \"-s\", \"http://server/\"]"),
    (&["env"], "`environment` of a program"),
    (&["ip", "ip_addr", "ip_address"], "`addresses` of a node, by interface: { eth0 = \"10.0.0.1/24\" }"),
    (&["quantity", "n"], "`count` of a node"),
    (&["pcap_enabled", "pcap", "pcap_directory"], "`capture` of a node, and --out DIR"),
    (&["parallelism", "threads", "strace_logging_mode", "strace"], "an option of `weft sim`: --threads, --calls"),
];

/// What a field that others have is called here.
fn elsewhere(message: &str) -> Option<&'static str> {
    let field = message.split('`').nth(1)?.to_lowercase();
    ELSEWHERE.iter().find(|(names, _)| names.contains(&field.as_str())).map(|(_, here)| *here)
}

/// "unknown field `sed`; did you mean 'seed'? expected one of …"; None: the message is another, or nothing is spelled nearly so.
fn with_nearest(message: &str) -> Option<String> {
    let (before, known) = message.split_once(", expected ").filter(|(before, _)| before.starts_with("unknown "))?;
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).collect::<Vec<_>>().join(", ");
    let hint = nearest::hint(&quoted(before), &quoted(known));
    (!hint.is_empty()).then(|| format!("{before}; {hint}expected {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_stack_is_sound() {
        let stack = Stack::default_stack();
        assert_eq!(stack.interfaces().map(|interface| interface.backend.as_str()).collect::<Vec<_>>(), ["tap:weft0"]);
    }

    #[test]
    fn a_file_without_interfaces_is_completed_and_no_other() {
        let completed = |text: &str| {
            let mut stack = Stack::parse("a.toml", text).unwrap();
            assert_eq!((stack.interfaces().count(), stack.addresses().count()), (text.matches("[[interface]]").count(), 0));
            stack.complete(3);
            stack.interfaces().map(|one| one.backend.clone()).chain(stack.addresses().map(|one| one.address.clone())).collect::<Vec<_>>()
        };
        let wan = "[block.wan]\nkind = \"delay\"\n[graph]\ninsert = [\"wan ether:lower interfaces:upper\"]\n";
        for text in ["", wan, "[node]\ninterfaces = \"default\"\n"] {
            assert_eq!(completed(text), ["tap:weft3", "10.77.3.2/24", "fd77:0:0:3::2/64"]);
        }
        for text in [
            "[node]\ninterfaces = \"none\"\n",
            "[node]\ngraph = \"empty\"\n",
            "[[route]]\ndestination = \"10.0.0.0/8\"\ninterface = \"lo\"\n",
        ] {
            assert_eq!(completed(text), [""; 0], "{text}");
        }
        assert_eq!(completed("[[interface]]\nname = \"a\"\nbackend = \"memory:a\"\n"), ["memory:a"]);
        let error =
            Stack::parse("a.toml", "[node]\ninterfaces = \"none\"\n[[interface]]\nname = \"a\"\nbackend = \"memory:a\"\n").unwrap_err();
        assert_eq!((error.line, error.what.as_str()), (3, "the file says interfaces = \"none\" and has an interface"));
    }

    #[test]
    fn numbered_default_stacks_do_not_meet() {
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..DEFAULT_STACKS_MAX {
            let stack = Stack::numbered_default_stack(number);
            let interface = stack.interfaces().next().unwrap();
            assert_eq!((interface.name.as_str(), interface.backend.as_str()), (&*format!("weft{number}"), &*format!("tap:weft{number}")));
            assert!(interface.host_address.len() == 2 && interface.host_address.iter().all(|address| seen.insert(address.clone())));
            assert!(stack.addresses().all(|address| address.interface == interface.name && seen.insert(address.address.clone())));
        }
    }

    #[test]
    fn spinning_and_coalescing_are_on_unless_the_file_says_otherwise() {
        let text = "[node]\nSPIN\n[[interface]]\nname = \"a\"\nbackend = \"memory:a\"\nCOALESCE\n";
        let parse = |spin: &str, coalesce: &str| Stack::parse("f.toml", &text.replace("SPIN", spin).replace("COALESCE", coalesce));
        let of = |stack: Stack| (stack.node().spin, stack.interfaces().all(|interface| interface.coalesce));
        assert_eq!(of(parse("", "").unwrap()), (SPIN_DEFAULT, true));
        assert_eq!(of(parse("spin = \"0us\"", "coalesce = false").unwrap()), (Duration::ZERO, false));
        for (spin, why) in [("spin = \"2ms\"", "at most 1ms"), ("spin = \"50\"", "needs a unit"), ("spin = 50", "expected a string")] {
            let error = parse(spin, "").unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("f.toml:2"), "{error}");
        }
    }

    #[test]
    fn errors_name_file_line_and_what_to_do() {
        for (text, line, what, help) in [
            ("[node]\nnme = \"x\"\n", 2, "unknown field `nme`", "spelling"),
            ("[[interface]]\nname = \"a\"\n", 1, "missing field `backend`", "add it"),
            ("[node]\nname = 5\n", 2, "invalid type", "right type"),
            ("[node\n", 1, "", "example"),
            ("[[interface]]\nname = \"waytoolongforaninterface\"\nbackend = \"memory:x\"\n", 2, "is no interface name", "15 bytes"),
            ("[[interface]]\nname = \"lo\"\nbackend = \"memory:x\"\n", 2, "already", "name of its own"),
            ("\n[[address]]\ninterface = \"nope\"\naddress = \"1.2.3.4/8\"\n", 3, "no interface 'nope'", "lo"),
            ("[[route]]\ndestination = \"default\"\ninterface = \"eth9\"\n", 3, "no interface 'eth9'", "lo"),
        ] {
            let error = Stack::parse("a.toml", text).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.what.contains(what), "{error}");
            assert!(error.help.contains(help), "{error}");
            assert!(error.to_string().starts_with(&format!("a.toml:{line}: ")), "{error}");
        }
    }

    #[test]
    fn assignments_are_read_as_toml_values_or_text() {
        let mut stack = Stack::default_stack();
        stack.set("tcp.mss=536").unwrap();
        stack.set("tcp.congestion=reno").unwrap();
        stack.set("tcp.mss=537").unwrap();
        let tcp = stack.blocks().find(|block| block.name == "tcp").unwrap();
        assert_eq!(tcp.parameters["mss"], 537);
        assert_eq!(tcp.parameters["congestion"], "reno");
        assert!(stack.set("tcp").unwrap_err().to_string().contains("'='"));
        assert!(stack.set("tcp=1").unwrap_err().to_string().contains("'.'"));
    }
}
