//! Unmodified programs as an actor: the processes of one node, run by the loader (`weft_process`).

use crate::actor::{Actor, ActorContext, Next};
use crate::limits::OUTPUT_BYTES_MAX;
use crate::plan::{Action, NodePlan, Plan, ProcessPlan, ProgramPlan, Run, Watched, is_there};
use crate::report::{CallLine, CallRecord, ProgramId, Status, Stream};
use crate::ticket::Ticket;
use crate::visit::{News, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use weft_core::engine::Alert;
use weft_core::{Context, ControlError, Instant, Op, Rng};
use weft_intercept::{Lend, Stack};
use weft_process::{
    Attach, BOOT_NS, Called, Config, Disk, DiskUse, Files, Mount, OutputFile, Outside, OwnFile, Record, Spawn, StartError, ToCome, Tree,
};
pub use weft_process::{Held, OWN_FOLDERS};
use weft_socket::{SocketId, Sockets};

const SIGTERM: i32 = 15;
/// exit statuses of a shell that cannot execute what it is told to.
const STATUS_NOT_FOUND: i32 = 127;
const STATUS_NOT_EXECUTABLE: i32 = 126;
/// So far a program may run by itself, before anything else happens at its node.
const EARLY_MAX: Duration = Duration::from_millis(20);
/// Longest first line of a script (BINPRM_BUF_SIZE, include/uapi/linux/binfmts.h).
const SCRIPT_LINE_BYTES: u64 = 256;
/// Where programs are looked for, unless their environment says otherwise.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What a program finds in its environment unless it is told otherwise. Characters are UTF-8. Not by LANG: of C.UTF-8 all but LC_CTYPE is as in C, which is
/// built in, and a program that calls setlocale(3) would open a dozen files more, half of what sleep(1) does in all.
const ENVIRONMENT: [(&str, &str); 7] = [
    ("HOME", "/root"),
    ("LC_CTYPE", "C.UTF-8"),
    ("LOGNAME", "root"),
    ("PATH", PATH),
    ("SHELL", "/bin/sh"),
    ("TZ", "UTC"),
    ("USER", "root"),
];

/// Where programs look names up. There is a name server only where the scenario starts one.
const NSSWITCH: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n";

/// What is the same for all nodes.
#[derive(Debug)]
pub struct Common {
    /// The files that all nodes have.
    files: Arc<[OwnFile]>,
    /// The nodes that begin again with the disk that they had.
    restarted: BTreeSet<usize>,
    /// When something happens to each node from outside, in order; those that are not here are left alone.
    events: BTreeMap<usize, Vec<Instant>>,
}

fn hosts(plan: &Plan) -> String {
    let mut hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n".to_owned();
    for (name, address) in &plan.hosts {
        let _ = writeln!(hosts, "{address}\t{name}");
        if let Some(other) = plan.hosts_also.get(name) {
            let _ = writeln!(hosts, "{other}\t{name}");
        }
    }
    hosts
}

fn own_file((path, contents): (&str, String)) -> OwnFile {
    OwnFile { path: path.into(), contents: contents.into_bytes().into(), executable: false }
}

/// What all nodes have.
fn common_files(plan: &Plan) -> Arc<[OwnFile]> {
    let files = [
        ("/etc/nsswitch.conf", NSSWITCH.to_owned()),
        ("/etc/resolv.conf", "# no name server; /etc/hosts has the names of all nodes\n".to_owned()),
        ("/etc/hosts", hosts(plan)),
    ];
    files.map(own_file).into()
}

/// What every node has, and each another.
fn usual_files(plan: &Plan, node: &NodePlan) -> impl Iterator<Item = OwnFile> + use<> {
    let identity = xxhash_rust::xxh3::xxh3_128_with_seed(node.name.as_bytes(), plan.seed);
    let digits = format!("{identity:032x}");
    let boot = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-") + "\n";
    let files = [("/etc/hostname", format!("{}\n", node.name)), ("/etc/machine-id", format!("{digits}\n")), ("/run/weft/boot_id", boot)];
    // A machine without a network knows itself, as Debian's installer has it.
    let alone = (!plan.hosts.contains_key(&node.name)).then(|| ("/etc/hosts", format!("{}127.0.1.1\t{}\n", hosts(plan), node.name)));
    files.into_iter().chain(alone).map(own_file)
}

/// The files that every node has, and its own, for a machine that lays them over others itself.
pub fn files_of(plan: &Plan, node: &NodePlan) -> Vec<OwnFile> {
    let usual = common_files(plan).to_vec().into_iter().chain(usual_files(plan, node));
    // The scenario's last: they lie over the others.
    usual.filter(|file| file.path != Path::new("/run/weft/boot_id")).chain(node.files.own.iter().cloned()).collect()
}

/// The variables that a program finds, `NAME=value`.
pub fn environment_of(process: &ProcessPlan) -> Vec<String> {
    let mut variables: BTreeMap<&str, &str> = ENVIRONMENT.into_iter().collect();
    variables.extend(process.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    variables.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// What the first line of a script in a node (`#!`, execve(2)) names as the program that reads it, if it is there and one.
fn interpreter(root: &Path, script: &Path) -> Option<String> {
    let mut line = Vec::new();
    let file = std::fs::File::open(root.join(script.strip_prefix("/").unwrap_or(script))).ok()?;
    file.take(SCRIPT_LINE_BYTES).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    Some(String::from_utf8_lossy(word).into_owned())
}

/// Most files of a node that are told of because the host has changed them.
const CHANGED_TOLD: usize = 3;

/// A program of the node, before, while and after it runs.
#[derive(Debug)]
struct Program {
    id: ProgramId,
    plan: ProcessPlan,
    /// When it is to start; none: when it is told to, or it has started.
    start: Option<Instant>,
    /// Its number in the node while it runs.
    pid: Option<u32>,
    /// The number of its last life: whom it has started may go on.
    last: Option<u32>,
    /// Where it writes to: in all its lives, and with everybody whom it has started, who may outlive it.
    output: Option<[OutputFile; 2]>,
    /// Who is told, where somebody from outside started it.
    visitor: Option<Visitor>,
    /// Where its standard input and output lead, until it starts: nobody but the program may hold them after that, or its end would not be seen.
    outside: Option<[OwnedFd; 3]>,
    /// A debugger takes it when it has been loaded.
    attach: Option<Attach>,
    /// Its folder was not there when the node began.
    lacks_directory: bool,
}

/// The processes of a node.
#[derive(Debug)]
pub struct ProcessTree {
    tree: Tree,
    programs: Vec<Program>,
    pids: BTreeMap<u32, ProgramId>,
    /// To be told to stop in the next turn.
    stopping: Vec<ProgramId>,
    /// To be sent in the next turn.
    signals: Vec<(ProgramId, i32)>,
    /// When that was last done.
    struck: Instant,
    /// To be started in the next turn.
    starting: Vec<ProgramId>,
    turns: u32,
    /// Somebody from outside was in it.
    visited: bool,
    /// A debugger has one of them, which is to see its end.
    debugged: bool,
    /// When something happens to the node from outside, in order; and when the world ends at the latest.
    events: Vec<Instant>,
    end: Instant,
    per_call: Duration,
    /// No program has been started here.
    fresh: bool,
    /// The first program, where it has been started before its time.
    early: Option<Early>,
    /// The folder of the host's that is below its files, and those that it has beside.
    base: PathBuf,
    mounts: Vec<Mount>,
}

/// A program that runs by itself, before its time has come.
#[derive(Debug)]
struct Early {
    id: ProgramId,
    started: Result<Started, (String, i32)>,
    /// Dropped when its time has come.
    _ticket: Ticket,
}

/// Its number in the node, and where it writes to, if this is its first life.
type Started = (u32, Option<[OutputFile; 2]>);

/// Machines that are on when the world begins have been so for as long as this, at least and at most, unless the scenario says how long.
const UP_MIN: Duration = Duration::from_secs(60);
const UP_MAX: Duration = Duration::from_secs(3600);
/// A machine takes so long to boot anew, at most; at least [`BOOT_NS`].
const BOOT_MAX_NS: u64 = 2 * BOOT_NS;
/// The first number behind process 1.
const FIRST_PID: u64 = 2;
/// The first of a node's programs has one of so many numbers, from the first on that Linux uses again (RESERVED_PIDS). No two of as many nodes have the same.
const FIRST_PIDS: u64 = 2048;
const RESERVED_PIDS: u64 = 300;
/// Of two nodes after each other; odd, so that all numbers are used.
const PIDS_APART: u64 = 421;

/// What CLOCK_MONOTONIC of a node shows beyond the world's time, and the number of its first process. Both differ from node to node: programs take their
/// identities from them.
fn age(plan: &Plan, number: usize, node: &NodePlan, booted: Instant) -> (u64, u32) {
    let alike = node.boot == Some(Duration::ZERO);
    let mut rng = Rng::for_name(plan.seed, &format!("boot/{}/{}", node.name, booted.as_nanos()));
    let again = booted > Instant::ZERO;
    let up_ns = match node.boot {
        None if !again => UP_MIN.as_nanos() as u64 + rng.below((UP_MAX - UP_MIN).as_nanos() as u64),
        Some(up) if !again => BOOT_NS + u64::try_from(up.as_nanos()).unwrap_or(u64::MAX / 4),
        _ if alike => BOOT_NS,
        _ => BOOT_NS + rng.below(BOOT_MAX_NS - BOOT_NS),
    };
    let drawn = Rng::for_name(plan.seed, "pids").below(FIRST_PIDS);
    let first_pid = if alike { FIRST_PID } else { RESERVED_PIDS + (drawn + number as u64 * PIDS_APART) % FIRST_PIDS };
    (up_ns.wrapping_sub(booted.as_nanos()), first_pid as u32)
}

impl ProcessTree {
    /// What [`ProcessTree::launch`] wants to know about the world.
    pub fn common(plan: &Plan) -> Common {
        let restarted = plan.events.iter().filter_map(|event| match event.action {
            Action::Restart { node, fresh: false } => Some(node),
            _ => None,
        });
        let mut events: BTreeMap<usize, Vec<Instant>> = BTreeMap::new();
        for event in &plan.events {
            if let Some(node) = plan.node_of(&event.action) {
                events.entry(node).or_default().push(event.at);
            }
        }
        events.values_mut().for_each(|of_node| of_node.sort_unstable());
        Common { files: common_files(plan), restarted: restarted.collect(), events }
    }

    /// The actor for the unmodified programs of node `number` of the plan, of which some start by time; pinned to the processor of the thread that
    /// will run it. `common`: of this plan. `disk`: what is left of its life before. `booted`: when it began this life.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub fn launch(
        plan: &Plan,
        number: usize,
        programs: &[(ProgramId, &ProgramPlan)],
        common: &Common,
        cpu: Option<usize>,
        disk: Option<Disk>,
        booted: Instant,
    ) -> Result<ProcessTree, String> {
        let node = plan.nodes.get(number).ok_or_else(|| format!("there is no node number {number}"))?;
        let (boot_ns, first_pid) = age(plan, number, node, booted);
        let epoch_ns = node.clock.epoch_ns(plan.start, booted);
        let files = Some(Files {
            root: node.files.root.clone(),
            mounts: node.files.mounts.clone(),
            own: usual_files(plan, node).chain(node.files.own.iter().cloned()).collect(),
            common: Arc::clone(&common.files),
        });
        // For tests: nobody runs ahead, every call is trapped, and the hash is the same.
        let wanted = |name: &str| std::env::var_os(name).is_none_or(|value| value != "0");
        let (ahead, gates) = (wanted("WEFT_SIM_AHEAD"), wanted("WEFT_SIM_GATES"));
        let debugged =
            plan.debugged.as_ref().filter(|debugged| programs.iter().any(|(id, _)| debugged.what == Watched::Program(id.0 as usize)));
        let config = Config {
            limits: node.limits,
            debugged: debugged.is_some(),
            interrupt: plan.interrupt.clone(),
            // Somebody looks: nobody knows for how long.
            patience: if debugged.is_some() { Duration::MAX } else { Config::default().patience },
            ahead,
            // In a debugger people want to see the program's own text.
            gates: gates && debugged.is_none(),
            cpu,
            name: node.name.clone(),
            seed: plan.seed,
            epoch_ns,
            drift: node.clock.drift,
            drifts_from_ns: booted.as_nanos(),
            boot_ns,
            first_pid,
            files,
            disk: match disk {
                Some(disk) => DiskUse::Again(disk),
                None if common.restarted.contains(&number) => DiskUse::Keep,
                None => DiskUse::Once,
            },
            per_call: node.per_call,
            tell_calls: plan.calls,
            tell_writes: plan.log || plan.listener.is_some(),
            ..Config::default()
        };
        let tree = Tree::new(config).map_err(|error| format!("node '{}': {error}", node.name))?;
        let programs = programs.iter().filter_map(|(id, program)| match &program.run {
            Run::Process(process) => Some(Program {
                id: *id,
                plan: process.clone(),
                start: program.start,
                pid: None,
                last: None,
                output: None,
                visitor: None,
                outside: None,
                attach: debugged
                    .filter(|debugged| debugged.what == Watched::Program(id.0 as usize))
                    .map(|debugged| Attach(Arc::clone(&debugged.attach))),
                lacks_directory: !is_there(node, &process.directory),
            }),
            Run::Builtin(_) => None,
        });
        let (pids, stopping, starting) = (BTreeMap::new(), Vec::new(), Vec::new());
        Ok(ProcessTree {
            tree,
            programs: programs.collect(),
            pids,
            stopping,
            starting,
            signals: Vec::new(),
            struck: Instant::ZERO,
            turns: 0,
            visited: false,
            debugged: debugged.is_some(),
            events: common.events.get(&number).cloned().unwrap_or_default(),
            end: plan.end,
            per_call: node.per_call,
            fresh: true,
            early: None,
            base: node.files.root.clone().unwrap_or_else(|| "/".into()),
            mounts: node.files.mounts.clone(),
        })
    }

    /// If a program that starts now is the node's first and only one: how long nothing disturbs it.
    fn undisturbed(&self, program: &Program, now: Instant) -> Option<Instant> {
        if !self.fresh || self.debugged || program.outside.is_some() || !self.starting.iter().all(|id| *id == program.id) {
            return None;
        }
        let others = self.programs.iter().filter(|other| other.id != program.id).filter_map(|other| other.start).min();
        let event = self.events.iter().copied().find(|at| *at > now);
        let first = others.into_iter().chain(event).fold(self.end.min(now + EARLY_MAX), Instant::min);
        // A call that ends there is not begun.
        Some(first).filter(|at| *at > now + self.per_call).map(|at| Instant::from_nanos(at.as_nanos() - self.per_call.as_nanos() as u64))
    }

    /// Starts the first program before its time, which is `at`, on whatever processor is idle. Its time comes in the first turn.
    pub(crate) fn start_early(&mut self, at: Instant, ticket: Ticket) {
        if self.turns > 0 || !self.fresh || self.events.first().is_some_and(|event| *event <= at) {
            return;
        }
        let Some(index) = self.programs.iter().position(|program| program.start == Some(at)) else { return };
        let Some(until) = self.undisturbed(&self.programs[index], at) else { return };
        let started = self.programs[index].start_now(&mut self.tree, at, Some((until, true)));
        self.early = Some(Early { id: self.programs[index].id, started, _ticket: ticket });
    }

    /// When a program starts next.
    fn next_start(&self) -> Instant {
        self.programs.iter().filter_map(|program| program.start).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Starts the programs whose time has come, in the order in which they stand in the plan.
    fn start_due(&mut self, cx: &mut dyn ActorContext) {
        let now = cx.now();
        let is_due = |program: &Program| program.start.is_some_and(|at| at <= now) || self.starting.contains(&program.id);
        let due: Vec<usize> = (0..self.programs.len()).filter(|index| is_due(&self.programs[*index])).collect();
        for index in due {
            let until = self.undisturbed(&self.programs[index], now).filter(|_| self.programs[index].pid.is_none());
            let ProcessTree { tree, programs, pids, early, .. } = self;
            let program = &mut programs[index];
            if program.pid.is_some() {
                continue;
            }
            program.start = None;
            self.fresh = false;
            cx.started(program.id);
            let started = match early.take_if(|early| early.id == program.id) {
                Some(early) => early.started,
                None => program.start_now(tree, now, until.map(|until| (until, false))),
            };
            match started {
                Ok((pid, output)) => {
                    program.output = output.or(program.output.take());
                    (program.pid, program.last) = (Some(pid), Some(pid));
                    program.tell(News::Started(program.id.0 as usize));
                    pids.insert(pid, program.id);
                }
                Err((why, status)) => {
                    // Who comes from outside hears it there.
                    if program.visitor.is_some() {
                        program.tell(News::NotExecuted(why, status));
                    } else {
                        cx.output(program.id, Stream::Error, format!("weft: {why}\n").as_bytes());
                    }
                    cx.ended(program.id, Status::Exited(status));
                }
            }
        }
        self.starting.clear();
    }

    /// Programs that have ended, and how it came. What they wrote has been fetched ([`Outside::ended`]).
    fn take_exits(&mut self, cx: &mut dyn ActorContext) {
        for exit in self.tree.take_exits() {
            let Some(id) = self.pids.get(&exit.pid).copied() else { continue };
            let Some(program) = self.programs.iter_mut().find(|program| program.id == id && program.pid == Some(exit.pid)) else {
                continue;
            };
            program.pid = None;
            let status = match exit.status {
                weft_process::Status::Exited(status) => Status::Exited(status),
                weft_process::Status::Killed(signal) => Status::Killed(signal),
            };
            program.tell(News::Ended(status));
            cx.used(id, self.tree.usage(exit.pid));
            // Who is killed from outside ends then, and not when the tree last did something.
            cx.ended_at(id, exit.at.max(self.struck), status);
        }
    }
}

impl Program {
    /// `early`: until when it may run by itself, and whether on any processor.
    fn start_now(&mut self, tree: &mut Tree, now: Instant, early: Option<(Instant, bool)>) -> Result<Started, (String, i32)> {
        let text = |text: &str| {
            CString::new(text).map_err(|_| (format!("'{}' has a zero byte in it", text.escape_debug()), STATUS_NOT_EXECUTABLE))
        };
        let trouble = |error: io::Error| (format!("cannot make files for standard input and output: {error}"), STATUS_NOT_EXECUTABLE);
        let mut new = None;
        let [output, error] = match &self.output {
            Some(kept) => kept,
            None => {
                let file = |name| OutputFile::new(name, self.plan.output_max).map_err(trouble);
                &*new.insert([file(c"stdout")?, file(c"stderr")?])
            }
        };
        let spec = Spawn {
            arguments: self.plan.command.iter().map(|argument| text(argument)).collect::<Result<_, _>>()?,
            environment: environment_of(&self.plan).iter().map(|variable| text(variable)).collect::<Result<_, _>>()?,
            directory: self.plan.directory.clone(),
            descriptors: match self.outside.take() {
                Some(theirs) => theirs,
                None => [
                    weft_process::input(&self.plan.input).map_err(trouble)?,
                    output.descriptor().map_err(trouble)?,
                    error.descriptor().map_err(trouble)?,
                ],
            },
            attach: self.attach.clone(),
        };
        let started = match early {
            Some((until, roams)) => tree.spawn_early(now, &spec, until, roams),
            None => tree.spawn(now, &spec),
        };
        started.map(|pid| (pid, new)).map_err(|error| {
            let missing = matches!(&error, StartError::Execute { errno, .. } if errno.0 == 2);
            let name = self.plan.command.first().map_or("", String::as_str);
            if missing && self.lacks_directory {
                let folder = self.plan.directory.display();
                let what = format!("cannot start {name}: there is no folder '{folder}' (directory = …)");
                return (format!("{what}; `files` and `mounts` give a node what it lacks"), STATUS_NOT_FOUND);
            }
            let read_by = missing.then(|| interpreter(&tree.root(), &self.plan.directory.join(name))).flatten();
            let hint = match () {
                () if !missing => String::new(),
                () if read_by.is_some() => {
                    format!("; its first line (#!) names {}, and the node has no such program", read_by.unwrap_or_default())
                }
                () if OWN_FOLDERS.iter().any(|hidden| Path::new(name).starts_with(hidden)) => {
                    let [one, two, three] = OWN_FOLDERS;
                    let help = "put it beside the scenario, or write mounts = { \"/data\" = { from = \"FOLDER\" } }";
                    format!("; {one}, {two} and {three} are the node's own: {help}")
                }
                () if !name.contains('/') => {
                    let own = self.plan.environment.iter().rev().find(|(name, _)| name == "PATH");
                    let path = own.map_or(PATH, |(_, path)| path);
                    format!("; it is looked for in the PATH of the node, {path}")
                }
                () if !name.starts_with('/') => format!("; it is looked for below '{}' (directory = …)", self.plan.directory.display()),
                () => String::new(),
            };
            (format!("{error}{hint}"), if missing { STATUS_NOT_FOUND } else { STATUS_NOT_EXECUTABLE })
        })
    }

    fn tell(&self, news: News) {
        if let Some(visitor) = &self.visitor {
            // Whoever has gone does not want to know.
            let _ = visitor.news.send(news);
        }
    }

    /// Lets go of what was written behind the bytes that are wanted.
    fn spill(&mut self, cx: &mut dyn ActorContext) {
        // A kernel that makes no holes keeps it, and it is counted the next time.
        let lost: u64 = self.output.iter_mut().flatten().map(|file| file.spill().unwrap_or(0)).sum();
        if lost > 0 {
            cx.lost(self.id, lost);
        }
    }

    /// What was written since the last time. Called when the program ends, and at the end of the world: at times that are the program's. How many turns it
    /// takes to get there says how it was run, not what it did.
    fn fetch(&mut self, cx: &mut dyn ActorContext) {
        self.spill(cx);
        let Some([output, error]) = &mut self.output else { return };
        for (stream, file) in [(Stream::Output, output), (Stream::Error, error)] {
            loop {
                match file.take(OUTPUT_BYTES_MAX) {
                    Ok(bytes) if bytes.is_empty() => break,
                    Ok(bytes) => cx.output(self.id, stream, &bytes),
                    Err(error) => {
                        cx.output(self.id, Stream::Error, format!("weft: cannot read what the program wrote: {error}\n").as_bytes());
                        break;
                    }
                }
            }
        }
    }
}

impl Actor for ProcessTree {
    fn run(&mut self, cx: &mut dyn ActorContext, _: Instant) -> Next {
        let next = loop {
            self.start_due(cx);
            let stopping = std::mem::take(&mut self.stopping).into_iter().map(|id| (id, SIGTERM));
            for (id, signal) in std::mem::take(&mut self.signals).into_iter().chain(stopping) {
                if let Some(pid) = self.programs.iter().find(|program| program.id == id).and_then(|program| program.pid) {
                    self.tree.signal_all(pid, signal);
                    self.struck = cx.now();
                }
            }
            let (now, start) = (cx.now(), self.next_start());
            let next = self.tree.run(now, &mut Outer { cx, start, pids: &self.pids, programs: &mut self.programs });
            self.take_exits(cx);
            // A start before the grant: its time has come now, if nobody ran beyond.
            if start >= cx.grant() || next.at < start {
                break next;
            }
            cx.advance(start);
            if cx.now() < start {
                break next;
            }
        };
        self.turns += 1;
        Next::at(next.at.min(self.next_start()))
    }

    fn sockets_changed(&mut self, changed: &[SocketId]) {
        self.tree.sockets_changed(changed);
    }

    fn start(&mut self, program: ProgramId) {
        self.starting.push(program);
    }

    fn stop(&mut self, program: ProgramId) {
        self.stopping.push(program);
        if let Some(program) = self.programs.iter_mut().find(|known| known.id == program) {
            program.start = None;
        }
    }

    fn kill(&mut self) {
        self.tree.give_up();
    }

    fn take_disk(&mut self) -> Option<Disk> {
        let disk = self.tree.take_disk()?;
        // Nobody writes there any more.
        self.tree.give_up();
        Some(disk)
    }

    fn root(&self) -> Option<std::path::PathBuf> {
        Some(self.tree.root())
    }

    fn disturbed(&mut self) {
        self.tree.disturbed();
    }

    fn welcome(&mut self, program: ProgramId, plan: ProcessPlan, mut visitor: Visitor) {
        self.visited = true;
        self.programs.push(Program {
            id: program,
            plan,
            start: None,
            pid: None,
            last: None,
            output: None,
            outside: visitor.descriptors.take(),
            visitor: Some(visitor),
            attach: None,
            lacks_directory: false,
        });
        self.starting.push(program);
    }

    fn signal(&mut self, program: ProgramId, signal: i32) {
        self.signals.push((program, signal));
    }

    fn poke(&mut self) {
        self.tree.poke();
    }

    fn finish(&mut self, cx: &mut dyn ActorContext) {
        self.tree.finish(&mut Outer { cx, start: Instant::FAR_FUTURE, pids: &self.pids, programs: &mut self.programs });
        self.programs.iter_mut().for_each(|program| program.fetch(cx));
        for program in &self.programs {
            if let Some(pid) = program.last {
                cx.used(program.id, self.tree.usage(pid));
            }
        }
        if self.debugged {
            self.tree.give_up();
        }
    }

    fn waits(&self) -> Vec<(ProgramId, String)> {
        let mut lines: BTreeMap<ProgramId, Vec<String>> = BTreeMap::new();
        for (pid, line) in self.tree.waiting() {
            if let Some(program) = self.pids.get(&pid) {
                lines.entry(*program).or_default().push(line);
            }
        }
        lines.into_iter().map(|(program, lines)| (program, lines.join("; "))).collect()
    }

    fn not_reproducible(&self) -> Vec<String> {
        let interrupted = self.tree.preempted().iter().map(|name| format!("{name} ran on without a call and was interrupted"));
        let visited = self.visited.then(|| "somebody came in from outside (weft exec)".to_owned());
        let changed = self.tree.changed_meanwhile(&self.base, &self.mounts).into_iter().take(CHANGED_TOLD);
        let changed =
            changed.map(|path| format!("the host changed {} while the world ran, and a program had opened or executed it", path.display()));
        interrupted.chain(self.tree.doubts().iter().cloned()).chain(visited).chain(changed).collect()
    }

    fn unsupported(&self) -> Vec<weft_intercept::calls::Unsupported> {
        self.tree.calls().unsupported_rows()
    }

    fn starts_programs(&self) -> bool {
        true
    }
}

/// The world as the tree sees it.
struct Outer<'a> {
    cx: &'a mut dyn ActorContext,
    /// A program starts then.
    start: Instant,
    pids: &'a BTreeMap<u32, ProgramId>,
    programs: &'a mut [Program],
}

impl Lend for Outer<'_> {
    fn sockets<R>(&mut self, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> Option<R> {
        self.cx.call(f)
    }

    fn look<R>(&mut self, f: impl FnOnce(&mut Sockets) -> R) -> Option<R> {
        self.cx.see(f)
    }

    fn control(&mut self, op: Op) -> Result<serde_json::Value, ControlError> {
        self.cx.control(op)
    }

    fn take_alerts(&mut self) -> Vec<Alert> {
        self.cx.take_alerts()
    }
}

impl Outside for Outer<'_> {
    fn grant(&self) -> Instant {
        self.cx.grant().min(self.start)
    }

    fn next_event(&self) -> Instant {
        self.cx.next_event()
    }

    fn quiet_until(&self) -> Option<Instant> {
        self.cx.quiet_until()
    }

    fn foresee(&mut self, take: &mut dyn FnMut(ToCome<'_, '_>) -> bool) {
        self.cx.foresee(&mut |socket, at, coming| take(ToCome { socket, at, pieces: &mut coming.pieces() }));
    }

    fn forget_foreseen(&mut self) {
        self.cx.forget_foreseen();
    }

    fn advance(&mut self, to: Instant) {
        self.cx.advance(to);
    }

    fn stack(&mut self) -> &mut dyn Stack {
        self
    }

    fn take_changed(&mut self) -> Vec<SocketId> {
        self.cx.take_changed()
    }

    fn record(&mut self, record: &Record<'_>) {
        let Record { process, thread, number, result, output, .. } = *record;
        let program = self.pids.get(&record.program).copied().unwrap_or(ProgramId(u32::MAX));
        self.cx.record(&CallRecord { program, process, thread, number, result, output });
    }

    fn control(&mut self, op: Op) -> Option<serde_json::Value> {
        self.cx.control(op).ok()
    }

    fn ended(&mut self, pid: u32) {
        let Some(id) = self.pids.get(&pid) else { return };
        if let Some(program) = self.programs.iter_mut().find(|program| program.id == *id && program.pid == Some(pid)) {
            program.fetch(self.cx);
        }
    }

    fn output_grew(&mut self) {
        self.programs.iter_mut().for_each(|program| program.spill(self.cx));
    }

    fn wrote(&mut self, program: u32, at: Instant) {
        let Some(id) = self.pids.get(&program).copied() else { return };
        let Some([output, error]) = self.programs.iter_mut().find(|known| known.id == id).and_then(|known| known.output.as_mut()) else {
            return;
        };
        for (stream, file) in [(Stream::Output, output), (Stream::Error, error)] {
            // What cannot be read now is told of when it is fetched.
            self.cx.wrote(at, id, stream, &file.peek(OUTPUT_BYTES_MAX).unwrap_or_default());
        }
    }

    fn called(&mut self, call: &Called<'_>) {
        let Called { at, process, thread, text, .. } = *call;
        let program = self.pids.get(&call.program).copied().unwrap_or(ProgramId(u32::MAX));
        self.cx.called(&CallLine { at, program, process, thread, text });
    }
}
