//! Running a program: on a daemon, or on a stack of its own.

use crate::control::{Client, ClientError};
use crate::place;
use crate::protocol::Ask;
use crate::world::{World, WorldError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use signal_hook::consts::{SIGHUP, SIGTERM};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use weft_core::control::{Message, Op, Value};
use weft_core::{Show, Table};
use weft_notify::spawn::{self, Command, Files, Place, Program, Signals, SpawnError};
use weft_process::{Loading, Parts, StartError};

/// Longest time that a stack of its own outlives its program, to deliver what the program left in its sockets.
const LINGER_MAX: Duration = Duration::from_secs(60);
/// How long nothing may move before the rest is given up.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// How long the processes that a program started may outlive it before its user is told why weft still runs.
const STRAGGLE_MAX: Duration = Duration::from_millis(300);

/// Why a program could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The stack did not come up.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The daemon refused or went away.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The program could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The system refuses something basic.
    #[error("{what}: {why}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        why: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(weft_intercept::Errno) -> RunError {
    move |errno| RunError::System { what, why: io::Error::from_raw_os_error(errno.0) }
}

/// The program could not be executed: what shells answer.
fn cannot_execute(error: &SpawnError) -> Option<u8> {
    let SpawnError::Execute { errno, .. } = error else { return None };
    Some(if *errno == weft_intercept::Errno::ENOENT { 127 } else { 126 })
}

/// Is this process on a weft already? The kernel allows a tree of processes one supervisor, so it is tried, where the variable that weft gives its
/// programs lets it seem so.
pub fn is_under_weft() -> bool {
    let nested = || Command::new(["true"]).and_then(|command| command.spawn());
    std::env::var_os(place::VARIABLE).is_some()
        && match nested() {
            Ok(mut program) => {
                let _ = program.wait();
                false
            }
            Err(error) => matches!(error, SpawnError::Nested),
        }
}

/// Has a program run by the loader. Returns what whoever serves it needs.
fn load(command: &mut Command) -> Result<Parts, SpawnError> {
    let (name, path) = command.program()?;
    let (loading, parts) = Loading::new(name, path).map_err(|error| match error {
        StartError::Execute { program, errno } => SpawnError::Execute { program, errno },
        StartError::Step { step, errno } => SpawnError::Step { step, errno },
        why @ StartError::Descriptors { .. } => SpawnError::Loader(why.to_string()),
        _ => SpawnError::Command,
    })?;
    command.instead(Box::new(loading));
    Ok(parts)
}

/// Whoever has the stack of a program that is started here.
trait Serves {
    /// The loader runs it: what is needed to serve it, before it starts.
    fn adopt(&mut self, parts: Parts) -> Result<(), RunError>;
    /// A file system of its ([`Program::take_files`]).
    fn answer_files(&mut self, files: Files) -> Result<(), RunError>;
}

impl Serves for World {
    fn adopt(&mut self, parts: Parts) -> Result<(), RunError> {
        self.adopt_strict(parts).map_err(io_error("taking over the program"))
    }
    fn answer_files(&mut self, files: Files) -> Result<(), RunError> {
        self.serve_files(files).map_err(io_error("answering for the program's files"))
    }
}

/// A daemon, and the program's name.
impl Serves for (&mut Client, &str) {
    fn adopt(&mut self, parts: Parts) -> Result<(), RunError> {
        self.0.ask_with(Ask::JoinStrict { program: self.1.to_owned() }, &parts.descriptors())?;
        Ok(())
    }
    fn answer_files(&mut self, files: Files) -> Result<(), RunError> {
        self.0.ask_with(Ask::Files { devices: files.place == Place::Devices }, &[files.fuse.as_fd()])?;
        Ok(())
    }
}

fn io_error(what: &'static str) -> impl Fn(io::Error) -> RunError {
    move |why| RunError::System { what, why }
}

/// `strict`: the loader runs it.
fn start(
    arguments: &[OsString],
    resolv_conf: &str,
    control: Option<&Path>,
    caretaker: Option<u32>,
    strict: bool,
    stack: &mut dyn Serves,
) -> Result<Result<Program, u8>, RunError> {
    let mut command = Command::new(arguments)?;
    if let Some(pid) = caretaker {
        command.caretaker(pid);
    }
    if strict {
        match load(&mut command) {
            Ok(parts) => stack.adopt(parts)?,
            Err(error) => {
                let Some(status) = cannot_execute(&error) else { return Err(error.into()) };
                let _ = writeln!(std::io::stderr(), "weft: {error}");
                return Ok(Err(status));
            }
        }
    }
    match resolv_conf {
        "" => command.own_mounts(),
        content => command.resolv_conf(content),
    };
    if let Some(control) = control {
        command.variable(place::VARIABLE, &control.to_string_lossy());
    }
    match command.spawn() {
        Ok(mut program) => {
            match program.take_files() {
                Ok(files) => files.into_iter().try_for_each(|files| stack.answer_files(files))?,
                Err(errno) => {
                    let why = io::Error::from_raw_os_error(errno.0);
                    let advice = "it needs /dev/fuse that its user may open: `modprobe fuse`, or --device /dev/fuse of a container";
                    tracing::info!("the program sees the host's /proc/net and /proc/sys/net, and not its stack's ({why}): {advice}");
                }
            }
            if let (Err(errno), true) = (program.settings(), rustix::process::geteuid().is_root()) {
                let why = io::Error::from_raw_os_error(errno.0);
                tracing::warn!("what the program writes to /proc/sys/net changes the host's kernel: it cannot be made read-only ({why})");
            }
            if let Err(errno) = program.resolv_conf() {
                tracing::info!("the program has the host's /etc/resolv.conf ({})", io::Error::from_raw_os_error(errno.0));
            }
            Ok(Ok(program))
        }
        Err(error) => match cannot_execute(&error) {
            Some(status) => {
                let _ = writeln!(std::io::stderr(), "weft: {error}");
                Ok(Err(status))
            }
            None => Err(error.into()),
        },
    }
}

/// Runs a program on the daemon behind `client`. Returns its exit status as a shell shows it. `strict`: as for [`alone`].
pub fn join(mut client: Client, arguments: &[OsString], strict: bool) -> Result<u8, RunError> {
    let hello = client.ask(Ask::Hello)?;
    let resolv_conf = hello["resolv_conf"].as_str().unwrap_or_default().to_owned();
    let name = arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let path = client.path().to_owned();
    let mut program = match start(arguments, &resolv_conf, Some(&path), None, strict, &mut (&mut client, &*name))? {
        Ok(program) => program,
        Err(status) => return Ok(status),
    };
    let listener = program.take_listener();
    let listeners: Vec<_> = listener.as_ref().map(AsFd::as_fd).into_iter().collect();
    if !strict && let Err(error) = client.ask_with(Ask::Join { program: name.clone() }, &listeners) {
        program.signal(9);
        return Err(error.into());
    }
    // From now on the daemon alone holds the listener: when it ends, calls fail instead of waiting for ever.
    drop(listener);
    let signals = Signals::block().map_err(system(WAITING))?;
    let status = wait(&mut program, &signals, Some(&client), base(&name))?;
    Ok(spawn::exit_code(status) as u8)
}

/// A program's name without the folders.
fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

const WAITING: &str = "waiting for the program";

fn tell_end(name: &str) {
    let _ = writeln!(std::io::stderr(), "weft: the stack has ended: sockets of {name} are dead");
}

/// Waits for a program whose stack is not here, passes signals on to it, and tells its user when the daemon goes first.
fn wait(program: &mut Program, signals: &Signals, mut daemon: Option<&Client>, name: &str) -> Result<ExitStatus, RunError> {
    loop {
        if let Some(status) = program.try_wait().map_err(system(WAITING))? {
            return Ok(status);
        }
        let pidfd = program.pidfd();
        let mut waited = vec![PollFd::new(&pidfd, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        waited.extend(daemon.map(|client| PollFd::new(client, PollFlags::IN)));
        match poll(&mut waited, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(RunError::System { what: WAITING, why: errno.into() }),
        }
        // The daemon sends nothing unasked: this is its end.
        let ended = waited.get(2).is_some_and(|daemon| !daemon.revents().is_empty());
        drop(waited);
        while let Some(signal) = signals.next() {
            program.signal(signal);
        }
        if ended {
            daemon = None;
            if program.try_wait().map_err(system(WAITING))?.is_none() {
                tell_end(name);
            }
        }
    }
}

/// Runs a program on a stack that lives as long as it and the processes it has left behind do, and until what they sent has arrived; `weft down`
/// ends it before.
///
/// `strict`: the loader runs it, as in virtual time, and its sockets are the model's own.
pub fn alone(mut world: World, arguments: &[OsString], strict: bool) -> Result<u8, RunError> {
    for notice in world.notices() {
        let _ = writeln!(std::io::stderr(), "weft: {notice}");
    }
    let signals = Signals::block().map_err(system("signalfd"))?;
    let (resolv_conf, control) = (world.resolv_conf(), world.control().map(Path::to_owned));
    let caretaker = world.caretaker();
    let mut program = match start(arguments, &resolv_conf, control.as_deref(), caretaker, strict, &mut world)? {
        Ok(program) => program,
        Err(status) => return Ok(status),
    };
    if let Some(listener) = program.take_listener() {
        world.adopt(listener).map_err(io_error("taking over the program"))?;
    }
    world.wake_on(program.pidfd()).map_err(io_error("epoll"))?;
    world.wake_on(&signals).map_err(io_error("epoll"))?;
    let name = arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut is_to_end = false;
    let status = loop {
        if world.is_stopping() {
            drop(world);
            tell_end(base(&name));
            let status = wait(&mut program, &signals, None, base(&name))?;
            return Ok(spawn::exit_code(status) as u8);
        }
        if world.turn(Duration::from_secs(3600)).map_err(io_error("waiting"))? {
            while let Some(signal) = signals.next() {
                is_to_end |= matches!(signal, SIGTERM | SIGHUP);
                program.signal(signal);
            }
            if let Some(status) = program.try_wait().map_err(system(WAITING))? {
                break status;
            }
        }
    };
    world.unwake(program.pidfd());
    // Whoever is told to end ends once: timeout(1) and those who run tests send no second signal.
    if is_to_end {
        world.turn(Duration::ZERO).map_err(io_error("waiting"))?;
        if world.programs.trees() > 0 {
            let _ = writeln!(
                std::io::stderr(),
                "weft: {} has left processes behind, whose stack ends with it (use weft up for servers)",
                base(&name)
            );
        }
    } else if outlive_descendants(&mut world, &signals, &name).map_err(io_error("waiting"))? {
        deliver_rest(&mut world, &signals).map_err(io_error("waiting"))?;
    }
    Ok(spawn::exit_code(status) as u8)
}

/// Keeps the stack running until the processes that a program has left behind (a server that goes to the background) are gone. False: a
/// signal came first, and the stack is to end at once.
fn outlive_descendants(world: &mut World, signals: &Signals, name: &str) -> io::Result<bool> {
    let start = Instant::now();
    let mut told = false;
    // The filter's listener hangs up with the last process that is under the filter; the first turn learns of a hang-up that is there already.
    let mut woken = world.turn(Duration::ZERO)?;
    while world.programs.trees() > 0 {
        if world.is_stopping() || (woken && signals.next().is_some()) {
            return Ok(false);
        }
        let left = STRAGGLE_MAX.saturating_sub(start.elapsed());
        if left.is_zero() && !told {
            let _ = writeln!(
                std::io::stderr(),
                "weft: {} has left processes behind; the stack stays until they end (use weft up for servers)",
                base(name)
            );
            told = true;
        }
        woken = world.turn(if told { Duration::from_secs(3600) } else { left })?;
    }
    Ok(true)
}

/// As a kernel would, delivers what ended programs have left in their sockets; a signal, or long silence, ends it.
fn deliver_rest(world: &mut World, signals: &Signals) -> io::Result<()> {
    let start = Instant::now();
    let mut moved = (start, 0);
    while start.elapsed() < LINGER_MAX && moved.0.elapsed() < IDLE_MAX && world.is_sending() {
        if world.turn(Duration::from_millis(20))? && signals.next().is_some() {
            break;
        }
        let frames = world.frames_moved();
        if frames != moved.1 {
            moved = (Instant::now(), frames);
        }
    }
    Ok(())
}

impl World {
    /// Is there a program that still holds a socket, or a connection with data or FIN that the peer has not acknowledged?
    fn is_sending(&mut self) -> bool {
        let list = Message { serial: 0, op: Op::List(Table::Flows) };
        let now = self.clock.now();
        let Ok(Value::Array(flows)) = self.node.control(now, &list).result else { return false };
        let done = ["LISTEN", "TIME-WAIT", "FIN-WAIT-2", "CLOSED", "CLOSE"];
        flows.iter().any(|flow| {
            let state = flow["state"].as_str().unwrap_or("").to_ascii_uppercase().replace('_', "-");
            !done.contains(&state.as_str())
        })
    }

    /// Frames that entered any block: a measure of whether anything happens.
    fn frames_moved(&mut self) -> u64 {
        let show = Message { serial: 0, op: Op::Show(Show::Counters) };
        let Ok(Value::Array(blocks)) = self.node.control(self.clock.now(), &show).result else { return 0 };
        blocks.iter().filter_map(|block| block["frames"].as_u64()).sum()
    }
}
