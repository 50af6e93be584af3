//! The file as it stands, before anything is understood. What is said of its fields here stands in the JSON schema and in weft-scenario(5).

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::value::Datetime;
use weft_node::Spanned;
use weft_node::schema::{Drift, Moment, Probability, Rate, Setting, SignedSpan, Size, TimeSpan};

type Text = Spanned<String>;

// The words that a text may be, for the schema. Those who read the text say what they mean.
const NODE_KINDS: [&str; 4] = ["host", "linux", "switch", "segment"];
const TEMPLATE_KINDS: [&str; 6] = ["chain", "ring", "star", "grid", "dumbbell", "fat-tree"];
const JITTERS: [&str; 3] = ["uniform", "normal", "pareto"];
/// How ways are found.
const WAYS: [&str; 3] = ["hops", "delay", "none"];
const QUEUES: [&str; 5] = ["drop-tail", "red", "codel", "fq-codel", "pie"];
const BUILTINS: [&str; 6] = ["ping", "udp-cbr", "udp-sink", "tcp-send", "tcp-sink", "echo"];
const ENDS: [&str; 2] = ["running", "any"];

/// A scenario: a world of nodes, wires and programs, what happens in it, and what must come of it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raw {
    /// Of all randomness. Default: 1.
    pub seed: Option<u64>,
    /// When the run ends. Default: one second after the last program that is expected to end and the last event, or after 3600s.
    #[schemars(with = "Option<TimeSpan>")]
    pub duration: Option<Text>,
    /// What the wall clock says at the beginning. Default: 2030-01-01T00:00:00Z.
    #[schemars(with = "Option<Moment>")]
    pub start: Option<Spanned<Datetime>>,
    /// For how long nodes have been up when the world begins, as in a node's section. Linux nodes boot then.
    #[schemars(with = "Option<TimeSpan>")]
    pub boot: Option<Text>,
    /// How wrong the clocks of nodes are, as in a node's section, which goes before it key by key. Not of Linux nodes.
    pub clock: Option<Spanned<Clock>>,
    /// How often series of wires, connections and subflows are sampled: 100us or more. Default: never.
    #[schemars(with = "Option<TimeSpan>")]
    pub sample: Option<Text>,
    /// Write what passes interfaces to DIR/captures: of every node, or of the interfaces with these names. Default: false.
    pub capture: Option<Chosen>,
    /// Give IPv6 addresses, too: fd77:0:0:1::1 and so on. Default: false.
    pub ipv6: Option<bool>,
    /// Give IPv4 addresses. Default: true.
    pub ipv4: Option<bool>,
    /// Which ways the first routes of nodes take: over as few wires as can be, in as little time, or none at all, so that a program sets them. Default: "hops".
    #[schemars(extend("enum" = WAYS))]
    pub routes: Option<Text>,
    /// A loaded block that fails (it traps, loops, answers nonsense) does not make the run one that failed. Default: false.
    pub blocks_may_fail: Option<bool>,
    /// The IPv4 network that addresses are taken from, with 24 bits at most. Default: "10.0.0.0/8".
    pub network: Option<Text>,
    /// The nodes by their names. Interfaces eth0, eth1 … and addresses come with the wires. A section of a node that `count` or a template makes
    /// says what of it differs.
    #[serde(default)]
    pub nodes: IndexMap<Text, Spanned<Node>>,
    /// The wires by their names. A section of a wire that a template or a pattern makes says what of it differs, without `between`.
    #[serde(default)]
    pub wires: IndexMap<Text, Spanned<Wire>>,
    /// Nodes and wires of a regular shape: n1, n2 … of the template n.
    #[serde(default)]
    pub templates: IndexMap<Text, Spanned<Template>>,
    /// The programs by their names.
    #[serde(default)]
    pub programs: IndexMap<Text, Spanned<Program>>,
    /// What happens at which time: one thing each.
    #[serde(default)]
    pub events: Vec<Spanned<Event>>,
    /// What must have come of the run.
    #[serde(default)]
    pub expect: Vec<Spanned<Expect>>,
    /// More variants for `weft twin`, which runs the scenario with weft's stack and with Linux kernels.
    #[serde(default)]
    pub twins: Vec<Twin>,
}

/// A variant for `weft twin`, in which some hosts are Linux kernels and the others have weft's stack.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Twin {
    /// Its name. There are `weft` and `linux` already.
    pub name: Text,
    /// The hosts that are Linux kernels; `*` in a name stands for any text.
    pub linux: Vec<Text>,
    /// What else is otherwise in it, as `--set` has it: "wires.access.loss=0.02".
    #[serde(default)]
    pub set: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected true, false or a list of names of interfaces")]
pub(crate) enum Chosen {
    All(bool),
    Names(Vec<String>),
}

impl Chosen {
    pub fn has(&self, name: &str) -> bool {
        match self {
            Chosen::All(all) => *all,
            Chosen::Names(names) => names.iter().any(|one| one == name),
        }
    }
}

/// A node. An empty section is a host with weft's stack.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Node {
    /// What it is: a host with weft's stack, a whole Linux kernel, a switch, or a segment on which everybody hears everything. Default: "host".
    #[schemars(extend("enum" = NODE_KINDS))]
    pub kind: Option<Text>,
    /// Make so many of it: leaf1, leaf2 …
    pub count: Option<Spanned<u32>>,
    /// A stack file that describes its stack; the interfaces' names are those of the wires' ends.
    pub stack: Option<Text>,
    /// Which Linux kernel, of a node with kind = "linux": one that `weft kernel list` shows. Default: "6.12".
    pub kernel: Option<Text>,
    /// Send packets on. Default: true when it is on several wires. With false each of its interfaces has a route of its own.
    pub forward: Option<bool>,
    /// Cut large TCP segments at the wire and not at the interface, which changes no result. Default: true; of a Linux node: false.
    pub large_frames: Option<bool>,
    /// Multipath TCP for every program, with a route by each interface; with peers that do not speak it, TCP. Of a Linux node only the routes: its
    /// programs ask for it themselves (`mptcpize run`), and its paths are `ip mptcp endpoint`'s. Default: false.
    pub mptcp: Option<Spanned<bool>>,
    /// Write what passes its interfaces to DIR/captures: all of them, or those with these names.
    pub capture: Option<Chosen>,
    /// A DHCP server gives its interfaces their IPv4 addresses, routes and name servers: all of them, or those with these names. Default: false.
    pub dhcp: Option<Spanned<Chosen>>,
    /// Addresses with prefix by interface, one or a list: { eth0 = "10.9.0.1/24" }. Default: the next free one.
    #[serde(default)]
    pub addresses: IndexMap<Text, Spanned<Texts>>,
    /// Routes, over those along the shortest paths; or how these are found, as at the top: "hops", "delay", "none".
    pub routes: Option<Spanned<Routes>>,
    /// Give its interfaces IPv4 addresses, as at the top.
    pub ipv4: Option<bool>,
    /// Settings as `sysctl -w` has them: { "net.ipv4.tcp_congestion_control" = "reno" }.
    #[serde(default)]
    #[schemars(with = "IndexMap<Text, Setting>")]
    pub sysctls: IndexMap<Text, Spanned<toml::Value>>,
    /// Parameters of blocks, BLOCK.PARAMETER each: { "tcp.congestion" = "reno" }.
    #[serde(default)]
    #[schemars(with = "IndexMap<Text, Setting>")]
    pub parameters: IndexMap<Text, Spanned<toml::Value>>,
    /// A folder that is / for its programs, in place of the host's.
    pub root: Option<Text>,
    /// For how long it has been up when the world begins: CLOCK_MONOTONIC of its programs is a second more. Default: a time from one minute to one hour
    /// that the seed draws for each node, as it does the number of the first process; with "0s" both are the same on every node.
    #[schemars(with = "Option<TimeSpan>")]
    pub boot: Option<Text>,
    /// How wrong its clock is: { offset = "250ms", drift = "40ppm" }. Its programs may set it and discipline it.
    pub clock: Option<Spanned<Clock>>,
    /// What each call of an unmodified program costs. Computing costs nothing.
    pub cpu: Option<Spanned<Cpu>>,
    /// Most private memory of each unmodified program, and what its machine is said to have; of a Linux node the kernel's (default: "96MiB").
    #[schemars(with = "Option<Size>")]
    pub memory: Option<Text>,
    /// Most descriptors of each unmodified program, 16 to 65536. Default: 1024, which programs can raise.
    pub descriptors: Option<Spanned<u32>>,
    /// Files for unmodified programs, over the host's: a text, or { from = "FILE" } with a file beside the scenario.
    #[serde(default)]
    pub files: IndexMap<Text, Spanned<OwnText>>,
    /// Folders of the host, to be read only: { "/data" = { from = "./data" } }.
    #[serde(default)]
    pub mounts: IndexMap<Text, Spanned<Mounted>>,
    /// Files that programs have written, taken into DIR/files/NODE when the node crashes and when the run ends: ["/var/log/**"].
    #[serde(default)]
    pub collect: Vec<Text>,
}

/// How wrong a node's clock is, by the world's.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clock {
    /// By how much CLOCK_REALTIME is ahead when the world begins: "250ms", or "-2s" for one that is behind; ten years at most. Default: "0s".
    #[schemars(with = "Option<SignedSpan>")]
    pub offset: Option<Text>,
    /// How much too fast its crystal is, and with it all its clocks but those of CPU time: "40ppm", or "-1.5ppm" for one that is too slow; "5ppb"; 100000ppm
    /// at most. Default: "0ppm".
    #[schemars(with = "Option<Drift>")]
    pub drift: Option<Text>,
}

/// How fast a node's programs get on: a call costs per_call times factor, 1ns to 1s.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cpu {
    /// What a call costs. Default: "1us".
    #[schemars(with = "Option<TimeSpan>")]
    pub per_call: Option<Text>,
    /// How many times that. Default: 1.0.
    pub factor: Option<f64>,
}

/// What is in a file: a text, or what is in another.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a text, or { from = \"FILE\" }, with expand = true or without")]
pub(crate) enum OwnText {
    Text(String),
    From(From),
}

/// What is in another file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct From {
    // Not with its place: serde keeps none inside of an untagged choice.
    /// The file, beside the scenario; `{n}` and `{node}` in its name are the node's number and name.
    pub from: String,
    /// Replace `{n}` and `{node}` in what it contains, too. Default: false.
    #[serde(default)]
    pub expand: bool,
}

/// A folder of the host.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mounted {
    /// The folder; one that does not begin with / lies beside the scenario.
    pub from: Text,
}

/// One text or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub(crate) enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Texts {
    pub fn all(&self) -> &[String] {
        match self {
            Texts::One(one) => std::slice::from_ref(one),
            Texts::Many(many) => many,
        }
    }
}

/// Routes of a node, or how they are found.
#[derive(Clone, Debug, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Routes {
    Own(Vec<Spanned<Route>>),
    #[schemars(extend("enum" = WAYS))]
    Found(String),
}

impl Node {
    /// The routes that are written down.
    pub fn own_routes(&self) -> &[Spanned<Route>] {
        match self.routes.as_ref().map(Spanned::get_ref) {
            Some(Routes::Own(own)) => own,
            _ => &[],
        }
    }
    /// How others are found, if it says so.
    pub fn ways(&self) -> Option<Text> {
        let routes = self.routes.as_ref()?;
        match routes.get_ref() {
            Routes::Own(_) => None,
            Routes::Found(word) => Some(Spanned::new(routes.span(), word.clone())),
        }
    }
}

impl<'de> Deserialize<'de> for Routes {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Routes, D::Error> {
        // The kind is told by the value itself: serde keeps no places inside of an untagged choice.
        struct Kind;
        impl<'de> serde::de::Visitor<'de> for Kind {
            type Value = Routes;
            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("a list of routes, or \"hops\", \"delay\" or \"none\"")
            }
            fn visit_str<E>(self, word: &str) -> Result<Routes, E> {
                Ok(Routes::Found(word.to_owned()))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, list: A) -> Result<Routes, A::Error> {
                Vec::deserialize(serde::de::value::SeqAccessDeserializer::new(list)).map(Routes::Own)
            }
        }
        from.deserialize_any(Kind)
    }
}

/// A route.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    /// A network with prefix, or "default".
    pub destination: Text,
    /// The next hop.
    pub gateway: Option<Text>,
    /// Where it leaves.
    pub interface: Option<Text>,
    /// Lower wins. Default: 0.
    #[serde(default)]
    pub metric: u32,
    /// Several next hops in place of gateway and interface: each flow takes one.
    #[serde(default)]
    pub nexthops: Vec<NextHop>,
}

/// One of several next hops, as in a stack file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NextHop {
    /// The next hop.
    pub gateway: Option<Text>,
    /// Where it leaves.
    pub interface: Option<Text>,
    /// Share of the flows that take it, 1 to 256. Default: 1.
    pub weight: Option<u32>,
}

/// A wire, or what of one is otherwise.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wire {
    /// Its two ends: nodes, or "router:eth1" for an interface; "leaf*" makes a wire for each, numbered from 1.
    pub between: Option<Spanned<Vec<Text>>>,
    /// What differs from the second end to the first.
    pub back: Option<Box<Spanned<Wire>>>,
    /// Bits per second. Default: no serialisation.
    #[schemars(with = "Option<Rate>")]
    pub rate: Option<Text>,
    /// In place of a rate: a file in Mahimahi's format, which says when packets can leave.
    pub trace: Option<Text>,
    /// Bytes that a frame takes beside its own; Ethernet: 24. Default: 0.
    pub overhead: Option<u32>,
    /// How long a frame travels. Default: "0ns".
    #[schemars(with = "Option<TimeSpan>")]
    pub delay: Option<Text>,
    /// How much the delay varies.
    #[schemars(with = "Option<TimeSpan>")]
    pub jitter: Option<Text>,
    /// How it varies. Default: "uniform".
    #[schemars(extend("enum" = JITTERS))]
    pub jitter_shape: Option<Text>,
    /// Probability that a frame is lost, 0 to 1.
    #[schemars(with = "Option<Probability>")]
    pub loss: Option<Spanned<f64>>,
    /// The frames that are lost, by number from 1.
    pub lose: Option<Vec<u64>>,
    /// Losses in bursts (Gilbert-Elliott).
    pub gilbert: Option<Spanned<Gilbert>>,
    /// Probability that one bit of a frame is flipped.
    #[schemars(with = "Option<Probability>")]
    pub corrupt: Option<Spanned<f64>>,
    /// Probability that a frame comes twice.
    #[schemars(with = "Option<Probability>")]
    pub duplicate: Option<Spanned<f64>>,
    /// Probability that a frame is held back by `reorder_by`.
    #[schemars(with = "Option<Probability>")]
    pub reorder: Option<Spanned<f64>>,
    /// How long such a frame is held back.
    #[schemars(with = "Option<TimeSpan>")]
    pub reorder_by: Option<Text>,
    /// Whether its ends notice that it is cut, or that the other end is down, and after what time: true, false, or { delay = "50ms" }. Default: true.
    pub carrier: Option<Spanned<Carrier>>,
    /// Largest IP packet, 68 to 65535 bytes. Default: 1500.
    pub mtu: Option<Spanned<u32>>,
    /// What happens to frames that wait. Default: "drop-tail".
    #[schemars(extend("enum" = QUEUES))]
    pub queue: Option<Text>,
    /// Frames that may wait. Default: 1000.
    pub queue_packets: Option<u32>,
    /// Bytes that may wait, in place of frames.
    pub queue_bytes: Option<u64>,
    /// Mark frames in place of dropping them. Default: false; of fq-codel: true.
    pub ecn: Option<bool>,
    /// How long frames should wait at most, of codel, fq-codel and pie. Default: "5ms"; of pie: "15ms".
    #[schemars(with = "Option<TimeSpan>")]
    pub target: Option<Text>,
    /// How long codel and fq-codel look before they act. Default: "100ms".
    #[schemars(with = "Option<TimeSpan>")]
    pub interval: Option<Text>,
}

/// Whether the ends of a wire notice that nothing answers, and when.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected true, false or { delay = \"50ms\" }")]
pub(crate) enum Carrier {
    Noticed(bool),
    After(After),
}

/// How long something takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct After {
    // Not with its place: serde keeps none inside of an untagged choice.
    /// How long it takes until it is noticed.
    #[schemars(with = "TimeSpan")]
    pub delay: String,
}

/// A wire that is good or bad, frame by frame.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gilbert {
    /// Probability, before each frame, that a good one turns bad.
    #[schemars(with = "Probability")]
    pub to_bad: Spanned<f64>,
    /// Probability that a bad one turns good.
    #[schemars(with = "Probability")]
    pub to_good: Spanned<f64>,
    /// Probability that a frame is lost while it is good. Default: 0.
    #[schemars(with = "Option<Probability>")]
    pub loss_good: Option<Spanned<f64>>,
    /// Probability that a frame is lost while it is bad. Default: 1.
    #[schemars(with = "Option<Probability>")]
    pub loss_bad: Option<Spanned<f64>>,
}

/// Nodes and wires of a regular shape.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Template {
    /// The shape: chain, ring and star with count, grid with width and height, dumbbell with left and right, fat-tree with arity.
    #[schemars(extend("enum" = TEMPLATE_KINDS))]
    pub kind: Text,
    /// Nodes of a chain, ring or star.
    pub count: Option<Spanned<u32>>,
    /// Columns of a grid.
    pub width: Option<Spanned<u32>>,
    /// Rows of a grid.
    pub height: Option<Spanned<u32>>,
    /// Hosts at the left of a dumbbell.
    pub left: Option<Spanned<u32>>,
    /// Hosts at the right of a dumbbell.
    pub right: Option<Spanned<u32>>,
    /// Ports of the switches of a fat tree, an even number up to 64; it has arity³ / 4 hosts.
    pub arity: Option<Spanned<u32>>,
    /// What each of its wires is like.
    #[serde(default)]
    pub wire: Wire,
    /// What the wire in the middle of a dumbbell is like. Default: as the others.
    pub bottleneck: Option<Wire>,
    /// What each of its nodes is like.
    #[serde(default)]
    pub node: Node,
}

/// A program: a built-in one, or an unmodified one with its command.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    /// The node that it runs on; "leaf*": one for each, called load@leaf1.
    pub node: Text,
    /// One of the built-in programs.
    #[schemars(extend("enum" = BUILTINS))]
    pub builtin: Option<Text>,
    /// An unmodified program and its arguments; `{n}` counts the nodes that it runs on, `{node}` is the name of each.
    pub command: Option<Spanned<Vec<String>>>,
    /// Variables over the usual: HOME, LC_CTYPE, LOGNAME, PATH, SHELL, TZ, USER.
    #[serde(default)]
    pub environment: IndexMap<String, String>,
    /// What a command reads. Default: nothing.
    pub stdin: Option<Text>,
    /// Where a command starts. Default: "/", or "/scenario" where the command names something beside the scenario.
    pub directory: Option<Text>,
    /// Bytes of each of standard output and error of a command that go into hash and records. Default: "1GiB".
    #[schemars(with = "Option<Size>")]
    pub output_max: Option<Text>,
    /// Files that it has written, taken into DIR/files/NODE: ["/out.xml"].
    #[serde(default)]
    pub collect: Vec<Text>,
    /// When it starts. Default: "0s".
    #[schemars(with = "Option<TimeSpan>")]
    pub start: Option<Text>,
    /// It starts when an event starts it. Default: false.
    pub waits: Option<bool>,
    /// On several nodes: each starts so much later than the one before.
    #[schemars(with = "Option<TimeSpan>")]
    pub stagger: Option<Text>,
    /// Its exit status, for whose end the run waits; "running" until the run ends; or "any". Default: 0, of built-in servers "running".
    pub expect: Option<Spanned<ProgramExpect>>,
    /// Whom a built-in program sends to: a node's name, node.eth1 or an address, with a port: "server:5001".
    pub to: Option<Text>,
    /// The port of a built-in program.
    pub port: Option<u16>,
    /// How many datagrams or requests a built-in program sends. Default of ping: 4.
    pub count: Option<u64>,
    /// How long ping waits between requests. Default: "1s".
    #[schemars(with = "Option<TimeSpan>")]
    pub interval: Option<Text>,
    /// Bytes of a datagram or request, up to 65507. Default: 1470; of ping: 56.
    pub size: Option<Spanned<u32>>,
    /// How fast udp-cbr sends.
    #[schemars(with = "Option<Rate>")]
    pub rate: Option<Text>,
    /// How many bytes tcp-send sends.
    pub bytes: Option<u64>,
    /// How long udp-cbr or tcp-send sends.
    #[schemars(with = "Option<TimeSpan>")]
    pub duration: Option<Text>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected an exit status, \"running\" or \"any\"")]
pub(crate) enum ProgramExpect {
    Status(i32),
    #[schemars(extend("enum" = ENDS))]
    Word(String),
}

/// What happens at a time: one thing.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    /// When.
    #[schemars(with = "TimeSpan")]
    pub at: Text,
    /// The wire that is otherwise from then on, as `set` says.
    pub wire: Option<Text>,
    /// What is otherwise.
    pub set: Option<Spanned<Wire>>,
    /// The wire, or the interface "router:eth1", that is cut.
    pub down: Option<Text>,
    /// The wire or interface that is there again.
    pub up: Option<Text>,
    /// Sides, lists of nodes each: the wires between them are cut.
    pub partition: Option<Spanned<Vec<Vec<Text>>>>,
    /// The partition ends.
    pub heal: Option<bool>,
    /// The node that stops at once.
    pub crash: Option<Text>,
    /// The node that boots again; its disk is there.
    pub restart: Option<Text>,
    /// With restart: its disk is not there. Default: false.
    pub fresh_disk: Option<bool>,
    /// The program that starts.
    pub start: Option<Text>,
    /// The program that ends: SIGTERM, for all that it has started, too.
    pub stop: Option<Text>,
    /// The unmodified program that gets the signal `name`.
    pub signal: Option<Text>,
    /// The signal: "SIGHUP".
    pub name: Option<Text>,
    /// The node that is told something: with control, with parameter and value, or with block, procedure and arguments.
    pub node: Option<Text>,
    /// The parameter that becomes `value`: "tcp.congestion".
    pub parameter: Option<Text>,
    /// What it becomes.
    #[schemars(with = "Option<Setting>")]
    pub value: Option<toml::Value>,
    /// The block whose `procedure` is called.
    pub block: Option<Text>,
    /// The procedure.
    pub procedure: Option<Text>,
    /// Its arguments.
    #[schemars(with = "Option<Setting>")]
    pub arguments: Option<toml::Value>,
    /// A change of its graph in the words of the command line, all of it or nothing.
    pub control: Option<Spanned<Vec<Text>>>,
}

/// What must have come of the run.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    /// Of which program: "sink"; "load" for all copies; or a pattern: "load@leaf*".
    pub program: Option<Text>,
    /// Its exit status.
    pub status: Option<i32>,
    /// A text that is in what it printed.
    pub output: Option<String>,
    /// A text that is not in what it printed.
    pub absent: Option<String>,
    /// A regular expression that fits somewhere in what it printed.
    pub matches: Option<Text>,
    /// It ends at this time or later.
    #[schemars(with = "Option<TimeSpan>")]
    pub end_min: Option<Text>,
    /// It ends by this time.
    #[schemars(with = "Option<TimeSpan>")]
    pub end_max: Option<Text>,
    /// A number that it reports, with min and max: "received_bytes". `weft help scenario` lists them.
    pub figure: Option<Text>,
    /// It receives so much at least.
    #[schemars(with = "Option<Rate>")]
    pub goodput_min: Option<Text>,
    /// It receives so much at most.
    #[schemars(with = "Option<Rate>")]
    pub goodput_max: Option<Text>,
    /// The least that the figure may be.
    pub min: Option<Spanned<u64>>,
    /// The most that the figure may be.
    pub max: Option<Spanned<u64>>,
    /// The hash of the run: 32 digits of summary.json.
    pub hash: Option<Text>,
}
