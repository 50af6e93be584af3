//! The file as it stands, before anything is understood.

use indexmap::IndexMap;
use serde::Deserialize;
use toml::Spanned;
use toml::value::Datetime;

type Text = Spanned<String>;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raw {
    pub seed: Option<u64>,
    pub duration: Option<Text>,
    pub start: Option<Spanned<Datetime>>,
    pub sample: Option<Text>,
    pub capture: Option<Chosen>,
    pub ipv6: Option<bool>,
    pub network: Option<Text>,
    #[serde(default)]
    pub nodes: IndexMap<Text, Spanned<Node>>,
    #[serde(default)]
    pub wires: IndexMap<Text, Spanned<Wire>>,
    #[serde(default)]
    pub templates: IndexMap<Text, Spanned<Template>>,
    #[serde(default)]
    pub programs: IndexMap<Text, Spanned<Program>>,
    #[serde(default)]
    pub events: Vec<Spanned<Event>>,
    #[serde(default)]
    pub expect: Vec<Spanned<Expect>>,
    #[serde(default)]
    pub twins: Vec<Twin>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Twin {
    pub name: Text,
    pub linux: Vec<Text>,
    #[serde(default)]
    pub set: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
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

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Node {
    pub kind: Option<Text>,
    pub count: Option<Spanned<u32>>,
    pub stack: Option<Text>,
    pub kernel: Option<Text>,
    pub forward: Option<bool>,
    pub large_frames: Option<bool>,
    pub mptcp: Option<Spanned<bool>>,
    pub capture: Option<Chosen>,
    pub dhcp: Option<Spanned<Chosen>>,
    #[serde(default)]
    pub addresses: IndexMap<Text, Spanned<Texts>>,
    #[serde(default)]
    pub routes: Vec<Spanned<Route>>,
    #[serde(default)]
    pub sysctls: IndexMap<Text, Spanned<toml::Value>>,
    #[serde(default)]
    pub parameters: IndexMap<Text, Spanned<toml::Value>>,
    pub root: Option<Text>,
    pub cpu: Option<Spanned<Cpu>>,
    pub memory: Option<Text>,
    pub descriptors: Option<Spanned<u32>>,
    #[serde(default)]
    pub files: IndexMap<Text, Spanned<OwnText>>,
    #[serde(default)]
    pub mounts: IndexMap<Text, Spanned<Mounted>>,
    #[serde(default)]
    pub collect: Vec<Text>,
}

/// How fast a node's programs get on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cpu {
    pub per_call: Option<Text>,
    pub factor: Option<f64>,
}

/// What is in a file: a text, or what is in another.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text, or { from = \"FILE\" }, with expand = true or without")]
pub(crate) enum OwnText {
    Text(String),
    From(From),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct From {
    // Not with its place: serde keeps none inside of an untagged choice.
    pub from: String,
    /// `{n}` and `{node}` in it are the node's number and name.
    #[serde(default)]
    pub expand: bool,
}

/// A folder of the host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mounted {
    pub from: Text,
}

/// One text or several.
#[derive(Clone, Debug, Deserialize)]
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

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    pub destination: Text,
    pub gateway: Option<Text>,
    pub interface: Option<Text>,
    #[serde(default)]
    pub metric: u32,
    #[serde(default)]
    pub nexthops: Vec<NextHop>,
}

/// One of several next hops, as in a stack file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NextHop {
    pub gateway: Option<Text>,
    pub interface: Option<Text>,
    pub weight: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wire {
    pub between: Option<Spanned<Vec<Text>>>,
    pub back: Option<Box<Spanned<Wire>>>,
    pub rate: Option<Text>,
    pub trace: Option<Text>,
    pub overhead: Option<u32>,
    pub delay: Option<Text>,
    pub jitter: Option<Text>,
    pub jitter_shape: Option<Text>,
    pub loss: Option<Spanned<f64>>,
    pub lose: Option<Vec<u64>>,
    pub gilbert: Option<Spanned<Gilbert>>,
    pub corrupt: Option<Spanned<f64>>,
    pub duplicate: Option<Spanned<f64>>,
    pub reorder: Option<Spanned<f64>>,
    pub reorder_by: Option<Text>,
    pub mtu: Option<Spanned<u32>>,
    pub queue: Option<Text>,
    pub queue_packets: Option<u32>,
    pub queue_bytes: Option<u64>,
    pub ecn: Option<bool>,
    pub target: Option<Text>,
    pub interval: Option<Text>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gilbert {
    pub to_bad: Spanned<f64>,
    pub to_good: Spanned<f64>,
    pub loss_good: Option<Spanned<f64>>,
    pub loss_bad: Option<Spanned<f64>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Template {
    pub kind: Text,
    pub count: Option<Spanned<u32>>,
    pub width: Option<Spanned<u32>>,
    pub height: Option<Spanned<u32>>,
    pub left: Option<Spanned<u32>>,
    pub right: Option<Spanned<u32>>,
    pub arity: Option<Spanned<u32>>,
    #[serde(default)]
    pub wire: Wire,
    pub bottleneck: Option<Wire>,
    #[serde(default)]
    pub node: Node,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    pub node: Text,
    pub builtin: Option<Text>,
    pub command: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    pub environment: IndexMap<String, String>,
    pub stdin: Option<Text>,
    pub directory: Option<Text>,
    pub output_max: Option<Text>,
    #[serde(default)]
    pub collect: Vec<Text>,
    pub start: Option<Text>,
    pub waits: Option<bool>,
    pub stagger: Option<Text>,
    pub expect: Option<Spanned<ProgramExpect>>,
    pub to: Option<Text>,
    pub port: Option<u16>,
    pub count: Option<u64>,
    pub interval: Option<Text>,
    pub size: Option<Spanned<u32>>,
    pub rate: Option<Text>,
    pub bytes: Option<u64>,
    pub duration: Option<Text>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected an exit status, \"running\" or \"any\"")]
pub(crate) enum ProgramExpect {
    Status(i32),
    Word(String),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    pub at: Text,
    pub wire: Option<Text>,
    pub set: Option<Spanned<Wire>>,
    pub down: Option<Text>,
    pub up: Option<Text>,
    pub partition: Option<Spanned<Vec<Vec<Text>>>>,
    pub heal: Option<bool>,
    pub crash: Option<Text>,
    pub restart: Option<Text>,
    pub fresh_disk: Option<bool>,
    pub start: Option<Text>,
    pub stop: Option<Text>,
    pub signal: Option<Text>,
    pub name: Option<Text>,
    pub node: Option<Text>,
    pub parameter: Option<Text>,
    pub value: Option<toml::Value>,
    pub block: Option<Text>,
    pub procedure: Option<Text>,
    pub arguments: Option<toml::Value>,
    pub control: Option<Spanned<Vec<Text>>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    pub program: Option<Text>,
    pub status: Option<i32>,
    pub output: Option<String>,
    pub absent: Option<String>,
    pub matches: Option<Text>,
    pub end_min: Option<Text>,
    pub end_max: Option<Text>,
    pub figure: Option<Text>,
    pub goodput_min: Option<Text>,
    pub goodput_max: Option<Text>,
    pub min: Option<Spanned<u64>>,
    pub max: Option<Spanned<u64>>,
    pub hash: Option<Text>,
}
