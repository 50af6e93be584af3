//! The commands, one file each, and what they share.

pub mod apply;
pub mod bridge;
pub mod change;
pub mod check;
pub mod console;
pub mod diff;
pub mod doctor;
pub mod down;
pub mod exec;
pub mod generate;
pub mod get;
pub mod hash;
pub mod help;
pub mod import;
pub mod kernel;
pub mod new;
pub mod record;
pub mod root;
pub mod run;
pub mod scenario;
pub mod set;
pub mod show;
pub mod sim;
pub mod subscribe;
pub mod test;
pub mod trace;
pub mod twin;
pub mod up;
pub mod worlds;

use crate::{complete, output};
use anyhow::Context as _;
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use weft_core::control::Value;
use weft_core::{Op, command};
use weft_host::control::Client;
use weft_host::outside::Caretaker;
use weft_host::publish::Publish;
use weft_host::world::{Control, Options, World, WorldError};
use weft_node::{EngineKind, Node, Stack, StackError};

/// Which stack a command talks to.
#[derive(clap::Args, Debug)]
pub struct Socket {
    /// Control socket of the stack: a path, or the name of one in weft's own directory, as run-PID for the stack of `weft run` with that
    /// process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for
    /// root and /tmp/weft-UID/control for others]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
}

impl Socket {
    /// Connects to the daemon.
    pub fn connect(&self) -> anyhow::Result<Client> {
        Ok(Client::connect(&self.control.clone().unwrap_or_else(weft_host::place::default_path))?)
    }
}

/// Which node a command talks to: that of a stack, or one of a world.
#[derive(clap::Args, Debug)]
pub struct Target {
    #[command(flatten)]
    socket: Socket,
    /// A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world's socket then [default: the only world's]
    #[arg(long, value_name = "NAME", add = complete::of_nodes())]
    pub node: Option<String>,
}

impl std::ops::Deref for Target {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        &self.socket
    }
}

impl Target {
    /// Connects to the daemon.
    pub fn connect(&self) -> anyhow::Result<Client> {
        let Some(node) = &self.node else { return self.socket.connect() };
        let path = self.control.clone().map_or_else(worlds::only, Ok)?;
        Ok(Client::connect(&path)?.of_node(Some(node.clone())))
    }
}

/// Carries out a change that was written in words and prints what changed.
fn told(target: &Target, words: impl IntoIterator<Item = String>) -> anyhow::Result<ExitCode> {
    let words: Vec<String> = crate::groups::numbered(&words.into_iter().collect::<Vec<_>>());
    let op = from_here(command::read(&words)?)?;
    let mut client = target.connect()?;
    let op = weft_host::expression::in_changes(op, &mut client)?;
    let summary = client.node(op)?;
    match target.json {
        true => output::json(&summary),
        false => {
            summary.as_array().into_iter().flatten().for_each(|line| output::line(&output::text(line)));
            // Of a group: who changed.
            let changed = summary.pointer("/interfaces/changed").and_then(Value::as_array);
            if changed.is_some_and(Vec::is_empty) && words.iter().any(|word| word.starts_with("group:")) {
                output::line("(the group has no members that this would change)");
            }
            changed.into_iter().flatten().for_each(|name| output::line(&output::text(name)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Files that a person names lie where the person is, not where the daemon is.
pub fn from_here(op: Op) -> anyhow::Result<Op> {
    let absolute = |file: String| std::path::absolute(&file).map(|path| path.display().to_string()).context("the current folder");
    Ok(match op {
        Op::Load { file } => Op::Load { file: absolute(file)? },
        Op::Snapshot { file } => Op::Snapshot { file: absolute(file)? },
        Op::Restore { file } => Op::Restore { file: absolute(file)? },
        other => other,
    })
}

/// `--engine`
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Engine {
    /// Run to completion; the default.
    #[value(help = "Run to completion [default]")]
    Inline,
    /// One thread, a queue in front of each block
    Queued,
    /// A thread and a queue for each block
    Threaded,
}

impl From<Engine> for EngineKind {
    fn from(engine: Engine) -> EngineKind {
        match engine {
            Engine::Inline => EngineKind::Inline,
            Engine::Queued => EngineKind::Queued,
            Engine::Threaded => EngineKind::Threaded,
        }
    }
}

/// Which stack to bring up.
#[derive(clap::Args, Debug)]
pub struct StackArgs {
    /// Stack file (TOML) [default: TAP weft0, 10.77.0.2/24 and fd77::2/64, default routes of both families to the host side; where that is
    /// taken weft1 with 10.77.1.2/24, and so on]
    #[arg(long, value_name = "FILE", add = complete::of_toml_files())]
    pub stack: Option<PathBuf>,
    /// Set a parameter over the stack file's: block.parameter=value
    #[arg(long, value_name = "BLOCK.PARAMETER=VALUE", add = complete::of_default_graph())]
    pub set: Vec<String>,
    /// How the stack's blocks take turns, over the stack file's: inline, queued, or threaded (a thread and a queue for each block; for
    /// comparison: slower)
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<Engine>,
    /// Multipath TCP for every program, over the paths that the stack has; with peers that do not speak it, TCP
    #[arg(long)]
    pub mptcp: bool,
    /// Name of the TAP device instead of the stack file's first, or of weft0
    #[arg(long, value_name = "NAME")]
    pub tap: Option<String>,
    /// Seed of the node's randomness [default: from the system]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Write all frames of all interfaces to this pcapng file
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Let the stack's network out through the host, with the host's addresses (masquerading). Needs root. Ends with weft, also after
    /// kill -9, and so does forwarding that had to be switched on
    #[arg(long)]
    pub nat: bool,
    /// Let the stack's traffic out through passt: as any user, with no TAP and no privilege. Names are resolved as the host resolves them; the host's
    /// own servers are at 10.77.0.1 and fd77::1. passt is started, and ends with weft
    #[arg(long, conflicts_with_all = ["nat", "tap"])]
    pub internet: bool,
    /// Ports of the host that lead to ports of the stack.
    #[arg(
        long,
        help = "Carry connections to a port of the host to a port of the stack: 8080:80, 127.0.0.1:8080:80, [::1]:5353:53/udp. Needs no privilege. \
                May be given several times"
    )]
    #[arg(value_name = "[HOST_ADDRESS:]HOST_PORT:PORT[/udp]")]
    pub publish: Vec<Publish>,
}

impl StackArgs {
    /// Was anything asked for that makes a stack of one's own necessary?
    pub fn is_given(&self) -> bool {
        let file = self.stack.is_some() || !self.set.is_empty() || self.engine.is_some() || self.mptcp || self.tap.is_some();
        file || self.seed.is_some() || self.capture.is_some() || self.nat || self.internet || !self.publish.is_empty()
    }

    /// What else the world needs to know.
    fn options(&self, control: Control, caretaker: Arc<Caretaker>) -> Options {
        let seed = self.seed.unwrap_or_else(weft_host::random_seed);
        let (capture, publish) = (self.capture.clone(), self.publish.clone());
        Options { seed, control, capture, nat: self.nat, publish, caretaker: Some(caretaker) }
    }

    /// Brings the stack up. Where its file leaves TAP and network to weft it moves out of the way of another weft's, and its user is told.
    pub fn bring_up(&self, control: &Control) -> anyhow::Result<World> {
        let caretaker = Arc::new(weft_host::outside::caretaker()?);
        let mut first = None;
        for number in 0..weft_node::DEFAULT_STACKS_MAX {
            let (stack, is_free) = self.read(number)?;
            let place = describe(&stack);
            let what = match World::new(stack, self.options(control.clone(), Arc::clone(&caretaker))) {
                Ok(mut world) => {
                    world.await_lease()?;
                    first.into_iter().for_each(|what: String| tell!("weft: {what}; this stack is on {place}"));
                    return Ok(world);
                }
                Err(WorldError::Network { what, .. }) if is_free => what,
                Err(WorldError::Busy { what, .. }) if is_free && self.tap.is_none() => what,
                Err(error) => return Err(error.into()),
            };
            first.get_or_insert(what);
        }
        anyhow::bail!(
            "{} networks of weft's are in use on this host: give the stack another one with --stack FILE",
            weft_node::DEFAULT_STACKS_MAX
        )
    }

    /// Reads the stack file, lets the default stack of this number complete it, and applies the options. True: TAP and network are weft's choice.
    fn read(&self, number: u8) -> anyhow::Result<(Stack, bool)> {
        let (mut stack, is_free) = match &self.stack {
            Some(path) => {
                let set = |stack: &mut Stack| {
                    self.apply(stack)?;
                    weft_host::ground::check(stack)
                };
                let mut stack = read_stack(path, &set)?;
                let is_free = stack.is_incomplete();
                stack.complete(number);
                (stack, is_free)
            }
            None => (Stack::numbered_default_stack(number), true),
        };
        if self.internet {
            anyhow::ensure!(weft_host::outside::through_passt(&mut stack), "--internet: the stack file has no interface");
        }
        self.apply(&mut stack)?;
        if let Some(tap) = &self.tap {
            anyhow::ensure!((1..=15).contains(&tap.len()), "--tap: '{tap}' is no name of an interface: use 1 to 15 bytes");
            let first = stack.interfaces_mut().next().context("--tap: the stack file has no interface")?;
            first.backend = format!("tap:{tap}");
        }
        stack.compile_filters(crate::groups::compile)?;
        Ok((stack, is_free))
    }

    /// What options say of the node, over its file: a file is right or wrong with them.
    fn apply(&self, stack: &mut Stack) -> Result<(), StackError> {
        self.set.iter().try_for_each(|assignment| stack.set(assignment))?;
        if let Some(engine) = self.engine {
            stack.set_engine(engine.into());
        }
        if self.mptcp {
            stack.set_mptcp(true);
        }
        Ok(())
    }
}

/// Where a stack is: its first TAP, its address on it, and the host's side.
fn describe(stack: &Stack) -> String {
    let Some((one, address)) = stack.interfaces().next().zip(stack.addresses().next()) else { return String::new() };
    let host = if one.host_address.is_empty() { "-".to_owned() } else { one.host_address.join(", ") };
    let device = one.backend.rsplit(':').next().unwrap_or(&one.name);
    format!("{device} with {}, the host's side {host}", address.address)
}

/// The largest stack or scenario file, bytes. The largest that makes sense, with thousands of routes, is far below.
const STACK_FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads and parses a stack file. All that can be known to be wrong before it is brought up is told at once; `first` does what is to be done before that.
pub fn read_stack(path: &Path, first: &dyn Fn(&mut Stack) -> Result<(), StackError>) -> anyhow::Result<Stack> {
    let loader = Arc::new(weft_plugin::Files::beside(path));
    let check = |stack: &Stack| {
        let mut stack = stack.clone();
        stack.set_loader(loader.clone());
        first(&mut stack)?;
        stack.complete(0);
        stack.compile_filters(crate::groups::compile)?;
        Node::check(&stack).map(drop)
    };
    let mut stack = Stack::parse_checked(&path.display().to_string(), &read_text(path, "stack")?, &check)?;
    stack.set_loader(loader);
    Ok(stack)
}

/// What is wrong with a file, for programs: every mistake that is told.
pub fn mistakes(error: &StackError) -> Value {
    let all = error.all().map(|one| json!({"file": one.file, "line": one.line, "what": one.what, "help": one.help}));
    json!({"errors": all.collect::<Vec<_>>(), "left_out": error.left_out()})
}

/// With --json, what is wrong with a file is told on standard output, too.
fn tell_mistakes(as_json: bool, error: &anyhow::Error) {
    if let Some(wrong) = error.downcast_ref::<StackError>().filter(|_| as_json) {
        output::json(&mistakes(wrong));
    }
}

/// Reads a file of this kind ("stack", "scenario") that a person wrote.
pub fn read_text(path: &Path, kind: &str) -> anyhow::Result<String> {
    let file = path.display();
    let cannot = |error: std::io::Error| {
        let help = format!("name an existing TOML file; `weft help {kind}` shows what to write into one");
        anyhow::anyhow!("cannot read the {kind} file {file}: {error}\nhelp: {help}")
    };
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|open| open.take(STACK_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(cannot)?;
    if bytes.len() as u64 > STACK_FILE_BYTES_MAX {
        let help = format!("a {kind} file is TOML of some lines; is this another kind of file?");
        anyhow::bail!("{file}: larger than {STACK_FILE_BYTES_MAX} bytes, which is no {kind} file\nhelp: {help}");
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() + 1;
        let byte = error.as_bytes()[good];
        anyhow::anyhow!(
            "{file}:{line}: the byte 0x{byte:02x} is no text (UTF-8)\nhelp: a {kind} file is TOML; is this another kind of file?"
        )
    })
}
