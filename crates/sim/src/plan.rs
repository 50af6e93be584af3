//! A world as plain data: what a scenario file comes to, and what a test writes down by hand.
//!
//! Names are resolved and defaults filled in; nothing here is text that still has to be understood, but for the stack files of nodes, which
//! are read already. [`crate::World::new`] checks what can only be checked together and says which part is wrong.

mod found;

pub use found::is_there;

use crate::builtin::Builtin;
use crate::guest::Guest;
use crate::trace::RateTrace;
use std::fmt::Debug;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use weft_core::{Instant, Op};
use weft_node::Stack;
pub use weft_process::Mount;
use weft_process::{Files, Held, Limits};
pub use weft_wire::ethernet::Mac;

/// 2030-01-01T00:00:00Z, in seconds since 1970: when a world begins unless it says otherwise.
pub const START_DEFAULT_SECONDS: u64 = 1_893_456_000;

/// A world.
#[derive(Clone, Debug)]
pub struct Plan {
    /// All randomness comes from it.
    pub seed: u64,
    /// Time since 1970-01-01T00:00:00Z at [`Instant::ZERO`], what CLOCK_REALTIME of programs begins with.
    pub start: Duration,
    /// When the run ends at the latest.
    pub end: Instant,
    /// The run goes on until `end` even when every program that is expected to end has ended.
    pub whole: bool,
    /// A loaded block that fails is no reason for the run to fail.
    pub blocks_may_fail: bool,
    /// Machines.
    pub nodes: Vec<NodePlan>,
    /// What joins them.
    pub wires: Vec<WirePlan>,
    /// What runs on them.
    pub programs: Vec<ProgramPlan>,
    /// What happens from outside, in any order.
    pub events: Vec<EventPlan>,
    /// Snapshots that events restore and that this world does not write, by the names that events give them.
    pub snapshots: std::collections::BTreeMap<String, Arc<[u8]>>,
    /// Where names lead, for programs.
    pub hosts: Hosts,
    /// The first address of the other family, of nodes that have one.
    pub hosts_also: Hosts,
    /// How often the series of wires and sockets are sampled; none: never.
    pub sample: Option<Duration>,
    /// Calls of unmodified programs are told as text ([`crate::World::log_calls`]). Changes no result.
    pub calls: bool,
    /// It is noted when programs write what ([`crate::World::output_log`]). Changes no result.
    pub log: bool,
    /// Told what programs write, as it comes. Changes no result.
    pub listener: Option<Listener>,
    /// The program that a debugger looks at. Changes no result.
    pub debugged: Option<Debugged>,
    /// Who boots nodes that are kernels; none: there may be none.
    pub boot: Option<Arc<dyn Boot>>,
    /// Set from outside when the run is to end: programs that make no call are not waited for then. What `watch` of [`crate::World::run`] says must follow it.
    pub interrupt: Option<Arc<AtomicBool>>,
}

/// Boots guests.
pub trait Boot: Send + Sync + Debug {
    /// Boots the machine of a node at `now` (the first time, or again after it lost power). Its ports are those of the wires that end at it, in the plan's order.
    ///
    /// # Errors
    /// It cannot, and why.
    fn boot(&self, plan: &Plan, node: usize, seed: u64, now: Instant, cpu: Option<usize>) -> Result<Box<dyn Guest>, String>;
}

/// Who hears what programs write, as they do.
#[derive(Clone)]
pub struct Listener(pub Arc<dyn Fn(&Said<'_>) + Send + Sync>);

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listener")
    }
}

/// Something that a program wrote.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// When.
    pub at: Instant,
    /// Which program, by its place in [`Plan::programs`].
    pub program: usize,
    /// To standard error, and not to standard output.
    pub error: bool,
    /// What: a piece of its output, not always whole lines.
    pub bytes: &'a [u8],
}

/// What a debugger looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watched {
    /// A program, by its place in [`Plan::programs`].
    Program(usize),
    /// The kernel of a node, by its place in [`Plan::nodes`].
    Kernel(usize),
}

/// A program or a kernel that a debugger looks at.
#[derive(Clone)]
pub struct Debugged {
    /// Which.
    pub what: Watched,
    /// Called when it is loaded and has not begun (a kernel: when it asks for the time for the first time); it goes on when that returns.
    pub attach: Arc<dyn Fn(&Held) + Send + Sync>,
}

impl std::fmt::Debug for Debugged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Debugged").field("what", &self.what).finish_non_exhaustive()
    }
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            seed: 1,
            start: Duration::from_secs(START_DEFAULT_SECONDS),
            end: Instant::from_millis(10_000),
            whole: false,
            blocks_may_fail: false,
            nodes: Vec::new(),
            wires: Vec::new(),
            programs: Vec::new(),
            events: Vec::new(),
            snapshots: Default::default(),
            hosts: Hosts::new(),
            hosts_also: Hosts::new(),
            sample: None,
            calls: false,
            log: false,
            listener: None,
            debugged: None,
            boot: None,
            interrupt: None,
        }
    }
}

/// A machine.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Unique.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Large frames are cut, and their checksums made, on entry to their wire; otherwise the interface cuts them. Changes no result of
    /// a host; of a Linux kernel it says whether its devices complete checksums and cut (offloads), which its own TCP can see.
    pub large_frames: bool,
    /// Interfaces whose frames are captured; all or those named.
    pub capture: Capture,
    /// What its unmodified programs see as files, beside what every node has.
    pub files: Files,
    /// Files that are taken out of it when it ends: absolute paths with wildcards.
    pub collect: Vec<String>,
    /// Virtual time that each call of its unmodified programs costs. Not zero: a program that waits by looking at the clock would never end.
    pub per_call: Duration,
    /// What each of its unmodified programs may have at most.
    pub limits: Limits,
    /// For how long it has been on when the world begins, beside the second in which it booted: CLOCK_MONOTONIC of its programs. None: drawn from the seed.
    pub boot: Option<Duration>,
    /// What is wrong with its clock.
    pub clock: ClockPlan,
}

/// What is wrong with the clock of a node, by the world's.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClockPlan {
    /// By how much CLOCK_REALTIME is ahead when the world begins, nanoseconds.
    pub offset_ns: i64,
    /// How much faster its crystal is, in parts of [`weft_process::RATE_ONE`].
    pub drift: i64,
}

impl ClockPlan {
    /// CLOCK_REALTIME of a node that boots at `booted`, less the world's time, in nanoseconds since 1970. The battery keeps a machine's clock while it is
    /// off: it is wrong by the offset and by what the drift has come to since the world began. What programs have set is lost.
    pub fn epoch_ns(&self, start: Duration, booted: Instant) -> u64 {
        let gained = i128::from(self.drift) * i128::from(booted.as_nanos());
        let gained = gained.div_euclid(weft_process::RATE_ONE.into());
        let epoch = start.as_nanos() as i128 + i128::from(self.offset_ns) + gained;
        epoch.clamp(0, i64::MAX.into()) as u64
    }
}

/// [`NodePlan::per_call`] unless the scenario says otherwise.
pub const PER_CALL_DEFAULT: Duration = Duration::from_micros(1);

impl NodePlan {
    /// A host with this stack file.
    pub fn host(stack: Stack) -> NodePlan {
        NodePlan {
            name: stack.node().name.clone(),
            kind: NodeKind::Host(Box::new(stack)),
            large_frames: true,
            capture: Capture::None,
            files: Files::default(),
            collect: Vec::new(),
            per_call: PER_CALL_DEFAULT,
            limits: Limits::default(),
            boot: None,
            clock: ClockPlan::default(),
        }
    }
}

/// What a machine is.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// A stack, with programs.
    Host(Box<Stack>),
    /// A learning switch: it has ports and no stack.
    Switch(SwitchPlan),
    /// A Linux kernel of its own, with programs: [`Plan::boot`] boots it.
    Guest(Box<GuestPlan>),
}

/// A Linux kernel as a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuestPlan {
    /// Which: a version, as `weft kernel list` shows it.
    pub kernel: String,
    /// Its memory, bytes.
    pub memory: u64,
    /// Those that wires end at.
    pub interfaces: Vec<GuestInterface>,
    /// Its first routes.
    pub routes: Vec<GuestRoute>,
    /// Paths below /proc/sys, and what is written there before the interfaces go up.
    pub sysctls: Vec<(String, String)>,
}

/// An interface of a Linux kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuestInterface {
    /// Its name in the node.
    pub name: String,
    /// Its address on the wire.
    pub mac: Mac,
    /// Largest packet, bytes.
    pub mtu: u32,
    /// Its addresses, each with the bits of its network.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// A route of a Linux kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuestRoute {
    /// Network and its bits.
    pub destination: (IpAddr, u8),
    /// Through whom; none: directly.
    pub gateway: Option<IpAddr>,
    /// Through which interface; none: where the gateway is.
    pub interface: Option<String>,
    /// Lower wins; 0: the kernel's own.
    pub metric: u32,
}

/// A learning switch, or a segment that everybody hears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchPlan {
    /// Learns where stations are; otherwise every frame goes out through every other port, as on a shared segment.
    pub learns: bool,
    /// How many stations it remembers.
    pub stations_max: usize,
    /// After how long without a frame from it a station is forgotten.
    pub age: Duration,
}

impl Default for SwitchPlan {
    fn default() -> SwitchPlan {
        // IEEE 802.1D: "Recommended default value 300.0 seconds".
        SwitchPlan { learns: true, stations_max: 8192, age: Duration::from_secs(300) }
    }
}

/// Which interfaces of a node are captured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Capture {
    /// None.
    #[default]
    None,
    /// All that a wire is on.
    All,
    /// Those of these names.
    Named(Vec<String>),
}

/// A wire between two interfaces.
#[derive(Clone, Debug)]
pub struct WirePlan {
    /// Unique.
    pub name: String,
    /// Node (its place in [`Plan::nodes`]) and interface at both ends.
    pub ends: [(usize, String); 2],
    /// What frames meet from the first end to the second, and back.
    pub directions: [DirectionPlan; 2],
}

/// One direction of a wire.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectionPlan {
    /// Bits per second; none: no serialisation.
    pub rate: Option<u64>,
    /// When frames can leave, in place of a rate.
    pub trace: Option<Arc<RateTrace>>,
    /// Bytes that each frame takes on the wire beside its own: 24 for Ethernet's preamble, checksum and gap.
    pub overhead: u32,
    /// Propagation.
    pub delay: Duration,
    /// What the delay varies by.
    pub jitter: Jitter,
    /// Which frames are lost.
    pub loss: Loss,
    /// Probability that one bit of a frame is flipped.
    pub corrupt: f64,
    /// Probability that a frame arrives twice, the copy right behind it.
    pub duplicate: f64,
    /// Probability that a frame is held back.
    pub reorder: f64,
    /// For how long: those that come later overtake it.
    pub reorder_by: Duration,
    /// Largest frame without its Ethernet header, bytes; larger ones are lost and counted. None: any.
    pub mtu: Option<u32>,
    /// What waits while the wire is busy.
    pub queue: QueuePlan,
    /// How long it takes until the end to which this leads notices that the wire is cut, or the other end down; none: it does not.
    pub carrier: Option<Duration>,
}

impl Default for DirectionPlan {
    fn default() -> DirectionPlan {
        DirectionPlan {
            rate: None,
            trace: None,
            overhead: 0,
            delay: Duration::ZERO,
            jitter: Jitter::None,
            loss: Loss::None,
            corrupt: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_by: Duration::from_millis(1),
            mtu: None,
            queue: QueuePlan::default(),
            carrier: Some(Duration::ZERO),
        }
    }
}

/// What a delay varies by. Frames keep their order: one that would overtake arrives right behind the one before it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Jitter {
    /// Nothing.
    None,
    /// Evenly by up to so much, up and down (but never below zero).
    Uniform(Duration),
    /// Normally with this standard deviation, at most four of them.
    Normal(Duration),
    /// Longer by a Pareto distribution (shape 3) with this mean, at most twenty times that.
    Pareto(Duration),
}

/// Which frames are lost.
#[derive(Clone, PartialEq, Debug)]
pub enum Loss {
    /// None.
    None,
    /// Each with this probability.
    Bernoulli(f64),
    /// In bursts (Gilbert 1960, Elliott 1963): a good and a bad state.
    Gilbert {
        /// Probability, a frame, of going from good to bad.
        to_bad: f64,
        /// Probability, a frame, of going back.
        to_good: f64,
        /// Probability of loss while good.
        loss_good: f64,
        /// Probability of loss while bad.
        loss_bad: f64,
    },
    /// Those with these numbers, counted from 1 in this direction; sorted.
    Listed(Vec<u64>),
}

/// A queue in front of a wire.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QueuePlan {
    /// Most frames; the one that is being sent does not count.
    pub packets_max: u32,
    /// Most bytes.
    pub bytes_max: u64,
    /// Who is dropped, and when.
    pub discipline: Discipline,
}

impl Default for QueuePlan {
    fn default() -> QueuePlan {
        // Linux's txqueuelen.
        QueuePlan { packets_max: 1000, bytes_max: u64::MAX, discipline: Discipline::DropTail }
    }
}

/// How a queue decides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Discipline {
    /// What does not fit is dropped.
    DropTail,
    /// Random early detection (Floyd and Jacobson 1993), gentle, in bytes.
    Red {
        /// Average below which nothing is dropped, bytes.
        min: u64,
        /// Average from which on it gets serious, bytes.
        max: u64,
        /// Probability at `max`.
        probability: f64,
        /// Mark instead of drop where the packet is ECN-capable.
        ecn: bool,
    },
    /// CoDel (RFC 8289).
    CoDel {
        /// Acceptable standing delay.
        target: Duration,
        /// Within which a minimum below the target must be seen.
        interval: Duration,
        /// Mark instead of drop.
        ecn: bool,
    },
    /// FQ-CoDel (RFC 8290).
    FqCoDel {
        /// As CoDel's.
        target: Duration,
        /// As CoDel's.
        interval: Duration,
        /// Mark instead of drop.
        ecn: bool,
        /// Number of flow queues.
        flows: u32,
        /// Bytes a flow may send in its turn.
        quantum: u32,
    },
    /// PIE (RFC 8033).
    Pie {
        /// Delay to aim at.
        target: Duration,
        /// How often the probability is computed.
        update: Duration,
        /// Mark instead of drop, while the probability is below 10 %.
        ecn: bool,
    },
}

/// A program on a node.
#[derive(Clone, Debug)]
pub struct ProgramPlan {
    /// Unique.
    pub name: String,
    /// Place of its node in [`Plan::nodes`].
    pub node: usize,
    /// What it does.
    pub run: Run,
    /// When it starts; none: when an event starts it.
    pub start: Option<Instant>,
    /// How it is to end.
    pub expect: Expect,
}

/// What a program does.
#[derive(Clone, Debug)]
pub enum Run {
    /// Traffic made by weft itself.
    Builtin(Builtin),
    /// An unmodified program.
    Process(ProcessPlan),
}

/// An unmodified program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessPlan {
    /// Program (looked up in PATH when it has no slash) and arguments.
    pub command: Vec<String>,
    /// Names and values, over the usual ones.
    pub environment: Vec<(String, String)>,
    /// What it reads from standard input.
    pub input: Vec<u8>,
    /// Where it starts.
    pub directory: PathBuf,
    /// Bytes of each of standard output and error that are looked at; what it writes behind them is counted, and lost.
    pub output_max: u64,
}

/// [`ProcessPlan::output_max`] unless the scenario says otherwise.
pub const OUTPUT_MAX_DEFAULT: u64 = 1 << 30;

impl ProcessPlan {
    /// A command in the usual environment, without input.
    pub fn new<'a>(command: impl IntoIterator<Item = &'a str>) -> ProcessPlan {
        let command = command.into_iter().map(str::to_owned).collect();
        ProcessPlan { command, environment: Vec::new(), input: Vec::new(), directory: PathBuf::from("/"), output_max: OUTPUT_MAX_DEFAULT }
    }
}

/// How a program is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// With this exit status.
    Status(i32),
    /// Not at all: it runs until the world ends, or ends with status 0.
    Running,
    /// However it likes.
    Any,
}

/// Something that happens from outside.
#[derive(Clone, Debug)]
pub struct EventPlan {
    /// When.
    pub at: Instant,
    /// What.
    pub action: Action,
}

/// What can happen from outside. Indices are places in the plan's lists.
#[derive(Clone, Debug)]
pub enum Action {
    /// A control message to a node; when it is refused, the run fails.
    Control {
        /// Which node.
        node: usize,
        /// What it is told.
        op: Op,
    },
    /// A wire's directions become others.
    Wire {
        /// Which wire.
        wire: usize,
        /// What they become, by direction; none: stays.
        directions: [Option<Box<DirectionPlan>>; 2],
    },
    /// A wire is cut (what is on it is lost), or joined again.
    Carrier {
        /// Which wire.
        wire: usize,
        /// Joined?
        up: bool,
    },
    /// An interface is taken up or down.
    Interface {
        /// Which node.
        node: usize,
        /// Which interface.
        interface: String,
        /// Up?
        up: bool,
    },
    /// The machine loses power: programs, connections and what its wires' queues hold are gone.
    Crash {
        /// Which node.
        node: usize,
    },
    /// It boots anew: programs that start by time start again.
    Restart {
        /// Which node.
        node: usize,
        /// Without what its programs had written: otherwise only /dev, /run and /tmp are empty.
        fresh: bool,
    },
    /// A program starts.
    Start {
        /// Which program.
        program: usize,
    },
    /// A signal for an unmodified program and all that it has started.
    Signal {
        /// Which program.
        program: usize,
        /// Number of the signal.
        signal: i32,
    },
    /// A program is told to stop.
    Stop {
        /// Which program.
        program: usize,
    },
}

impl Plan {
    /// The one node that an event is about; none: it is about a wire.
    pub fn node_of(&self, action: &Action) -> Option<usize> {
        match action {
            Action::Control { node, .. } | Action::Interface { node, .. } | Action::Crash { node } | Action::Restart { node, .. } => {
                Some(*node)
            }
            Action::Start { program } | Action::Signal { program, .. } | Action::Stop { program } => {
                self.programs.get(*program).map(|program| program.node)
            }
            Action::Wire { .. } | Action::Carrier { .. } => None,
        }
    }
}

/// Where names lead: node name and its first address, for programs.
pub type Hosts = indexmap::IndexMap<String, IpAddr>;
