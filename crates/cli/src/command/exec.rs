//! `weft exec`: a procedure of a block, or a program in a node of a virtual world.

use super::{Socket, Target, worlds};
use crate::{complete, output};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use std::io::{self, BufRead as _, BufReader, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_core::control::ControlError;
use weft_core::{Op, Show, command};
use weft_host::control::ClientError;

/// Signals that go on to the program.
const SIGNALS: [i32; 5] = [
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGTERM,
    signal_hook::consts::SIGHUP,
    signal_hook::consts::SIGQUIT,
    signal_hook::consts::SIGUSR1,
];

/// Run a procedure of a block (`weft exec arp flush`), or a program in a node of a world that runs (`weft exec NODE -- PROGRAM`).
///
/// A procedure of a block of the stack: arguments as KEY=VALUE; `weft help block KIND` lists the procedures. What it answers is printed.
/// `weft exec interfaces add name=lab0 backend=tap:lab0 host_address=10.9.0.1/24` opens an interface of a stack that runs, with the settings
/// that an [[interface]] of a stack file has; `weft exec interfaces remove name=lab0` closes it.
///
/// A program in a node of a virtual world (`weft sim --pace 1.0`, or `--control`), for example a shell: its standard input, output and error are those of this command; its time, files, names and network are the node's. In a world that is not paced, time
/// goes on as fast as it can while the program waits for you. Exit status: the program's, or 128 and the signal that killed it; 127 where there is no such program, 126 where it cannot be executed
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Control socket. Procedures: of the stack, as for other commands. Programs: of the world, a path or sim-PID [default: that of the
    /// only world that runs]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// For a procedure: a node of a world that runs
    #[arg(long, value_name = "NAME", add = complete::of_nodes())]
    node: Option<String>,
    /// Print what a procedure answers as JSON
    #[arg(long)]
    json: bool,
    /// The block; or the node
    #[arg(value_name = "BLOCK|NODE", add = complete::of_blocks_and_nodes())]
    name: String,
    /// The procedure
    #[arg(add = complete::of_console())]
    procedure: Option<String>,
    /// Its arguments
    #[arg(value_name = "KEY=VALUE")]
    arguments: Vec<String>,
    /// Program and arguments [default: sh]
    #[arg(last = true)]
    command: Vec<String>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Some(procedure) = args.procedure.clone() else {
        return match without_procedure(&args) {
            Some(error) => Err(error),
            None => program(&args),
        };
    };
    anyhow::ensure!(
        args.command.is_empty(),
        "both a procedure and a program: write weft exec BLOCK PROCEDURE, or weft exec NODE -- PROGRAM"
    );
    let words: Vec<String> = ["exec".to_owned(), args.name.clone(), procedure].into_iter().chain(args.arguments.clone()).collect();
    let target = Target { socket: Socket { control: args.control.clone(), json: args.json }, node: args.node.clone() };
    // What is meant as a program may have arguments that are no KEY=VALUE, and there may be no stack.
    let meant = |error: anyhow::Error| if is_node(&args) { no_dashes(&words) } else { error };
    let op = command::read(&crate::groups::numbered(&words)).map_err(|error| meant(error.into()))?;
    let value = target.connect().map_err(meant)?.node(op).map_err(|error| match error {
        ClientError::Refused(ControlError::NoBlock { .. }) => {
            meant(anyhow::anyhow!("{error}\nhelp: a program in a node of a world that runs: weft exec NODE -- PROGRAM"))
        }
        error => error.into(),
    })?;
    match target.json {
        true => output::json(&value),
        false => answered(&value),
    }
    Ok(ExitCode::SUCCESS)
}

/// Is its name that of a node of a world that runs?
fn is_node(args: &Args) -> bool {
    let worlds = args.control.clone().map_or_else(worlds::all, |path| vec![path]);
    args.node.is_none() && worlds.into_iter().any(|path| complete::nodes_of(path).contains(&args.name))
}

/// The words of `exec`, where a program was meant.
fn no_dashes(words: &[String]) -> anyhow::Error {
    let (node, program) = (words.get(1).map_or("", String::as_str), words.get(2..).unwrap_or_default().join(" "));
    anyhow::anyhow!("'{node}' is a node of a world that runs: write -- before the program\nhelp: weft exec {node} -- {program}")
}

/// What is to be said where the name alone is that of a block, and of no node.
fn without_procedure(args: &Args) -> Option<anyhow::Error> {
    if !args.command.is_empty() || is_node(args) {
        return None;
    }
    let target = Target { socket: Socket { control: args.control.clone(), json: args.json }, node: args.node.clone() };
    let blocks = target.connect().ok()?.node(Op::Show(Show::Blocks)).ok()?;
    let row = blocks.as_array()?.iter().find(|row| row["name"] == args.name.as_str())?;
    let kind = row["kind"].as_str()?;
    // Of a kind that was loaded the stack knows more than this command.
    let procedures = weft_node::block_table().get(kind).map(|row| row.kind.procedures.iter().map(|row| row.name).collect::<Vec<_>>());
    let name = &args.name;
    Some(match procedures.as_deref() {
        None => anyhow::anyhow!("'{name}' is a block: name the procedure behind it\nhelp: weft exec {name} PROCEDURE [KEY=VALUE…]"),
        Some([]) => anyhow::anyhow!("'{name}' is a block, and its kind ({kind}) has no procedures"),
        Some(names) => anyhow::anyhow!(
            "'{name}' is a block: name the procedure behind it; there are: {}\nhelp: weft help block {kind}",
            names.join(", ")
        ),
    })
}

/// What the procedures of blocks answered, those that said anything.
pub fn answered(value: &Value) {
    for (block, said) in value.as_object().into_iter().flatten().filter(|(_, said)| !said.is_null()) {
        output::line(&format!("{block}: {}", output::text(said)));
    }
}

fn program(args: &Args) -> anyhow::Result<ExitCode> {
    let default = ["sh".to_owned()];
    let command = if args.command.is_empty() { &default[..] } else { &args.command[..] };
    let path = match &args.control {
        Some(path) => weft_host::place::resolve(path),
        None => worlds::only()?,
    };
    let stream = UnixStream::connect(&path).map_err(|error| {
        anyhow::anyhow!(
            "no world answers at {}: {error}\nhelp: start one with `weft sim FILE --pace 1.0`, or with --control PATH",
            path.display()
        )
    })?;
    let environment: serde_json::Map<String, Value> =
        ["TERM", "COLUMNS", "LINES"].iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?.into()))).collect();
    request(&stream, &json!({"node": args.name, "command": command, "environment": environment}))?;
    let mut signals = signal_hook::iterator::Signals::new(SIGNALS)?;
    let mut out = stream.try_clone()?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if out.write_all(format!("{}\n", json!({"signal": signal})).as_bytes()).is_err() {
                return;
            }
        }
    });
    for line in BufReader::new(stream).lines() {
        let said: Value = serde_json::from_str(&line?)?;
        match (said["refused"].as_str(), said["status"].as_i64()) {
            (Some(why), Some(status)) => {
                tell!("weft: {why}");
                return Ok(ExitCode::from(status as u8));
            }
            (Some(why), None) => anyhow::bail!("{why}"),
            (None, _) => {}
        }
        if said.get("answer").is_some() {
            anyhow::bail!(
                "{} is the socket of a stack, and of no world\nhelp: weft run --control PATH PROGRAM starts a program on it",
                path.display()
            );
        }
        if let Some(status) = said["exited"].as_i64() {
            return Ok(ExitCode::from(status as u8));
        }
        if let Some(signal) = said["killed"].as_i64() {
            return Ok(ExitCode::from((128 + signal) as u8));
        }
    }
    tell!("weft: the world has ended");
    Ok(ExitCode::from(1))
}

/// Sends the request with our standard input, output and error.
fn request(stream: &UnixStream, value: &Value) -> io::Result<()> {
    let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
    let descriptors = [input.as_fd(), output.as_fd(), error.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let text = format!("{value}\n");
    let sent = sendmsg(stream, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    let mut stream = stream;
    stream.write_all(text.as_bytes().get(sent..).unwrap_or_default())
}
