//! Prints the transcripts of the twin bodies on whatever host it runs on: natively the kernel's, under `weft run` those of weft's sockets
//! through the adapter. Two outputs are compared line by line.
//!
//! `socket-twins [TOPIC[/NAME]] [--base-port N] [--namespace] [--patient] [--plain] [--everything] [--links] [--slice K/N]`
//! - `--namespace`: every body runs in a network namespace of its own (needs privilege); without it each has ten ports of its own.
//! - `--patient`: pauses after every step, for hosts whose stack runs beside the program instead of inside its calls (see `patient.rs`).
//! - `--plain`: data goes by send(2) and recv(2) where a step needs no more, instead of sendmsg(2) and recvmsg(2).
//! - `--everything`: the bodies over IPv6 and with mapped addresses too, and those of IPv6 alone.
//! - `--links`: only the bodies for a host with the second interface `weft9` (`kernel::add_link`), which `--namespace` makes.
//! - `--slice K/N`: every Nth body from the Kth on (from 0), so that N hosts share the work.

#[path = "../../tests/twins/bodies.rs"]
mod bodies;
#[path = "../../tests/twins/kernel.rs"]
mod kernel;
#[path = "../../tests/twins/language.rs"]
mod language;
mod patient;

use std::sync::mpsc::channel;
use std::time::Duration;

/// No body waits for anything but its own pauses: one that takes longer than this hangs, in a call that nobody answers.
const WATCHDOG: Duration = Duration::from_secs(30);

/// First port of the bodies, and the end of their range: below the ephemeral ports, so that one chosen by the host never looks like a
/// body's own.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// What the command line asks for.
#[derive(Clone)]
struct Wish {
    only: Option<String>,
    base_port: u16,
    namespace: bool,
    patient: bool,
    plain: bool,
    /// IPv6, mapped addresses and the newer topics too.
    everything: bool,
    /// The topic of links alone.
    links: bool,
    /// Which bodies: this one of so many parts.
    slice: (usize, usize),
}

impl Wish {
    fn parse(arguments: &[String]) -> Wish {
        let given = |name: &str| arguments.iter().any(|argument| argument == name);
        let number = |name: &str| arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1)?.parse().ok());
        let slice = arguments.iter().position(|argument| argument == "--slice").map(|at| {
            let parts = arguments.get(at + 1).and_then(|text| text.split_once('/'));
            let numbers = parts.and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
            numbers.filter(|(part, of)| part < of).expect("--slice K/N with K below N")
        });
        Wish {
            only: arguments.first().filter(|argument| !argument.starts_with("--")).cloned(),
            base_port: number("--base-port").unwrap_or(PORTS.start),
            namespace: given("--namespace"),
            patient: given("--patient"),
            plain: given("--plain"),
            everything: given("--everything"),
            links: given("--links"),
            slice: slice.unwrap_or((0, 1)),
        }
    }
}

/// A body to run.
struct Task {
    name: String,
    body: String,
    port: u16,
}

fn tasks(wish: &Wish) -> Vec<Task> {
    let mut port = wish.base_port;
    let mut tasks = Vec::new();
    let topics = match (wish.links, wish.everything) {
        (true, _) => vec![("links".to_owned(), bodies::topic_of_links())],
        (false, true) => bodies::everything(),
        (false, false) => {
            bodies::topics().into_iter().chain(bodies::topics_more()).map(|(topic, bodies)| (topic.to_owned(), bodies)).collect()
        }
    };
    for (topic, bodies) in topics {
        for (name, body) in bodies {
            let name = format!("{topic}/{name}");
            if wish.only.as_deref().is_none_or(|only| name == only || topic == only) {
                tasks.push(Task { name, body, port });
                port = if port + 10 >= PORTS.end { wish.base_port } else { port + 10 };
            }
        }
    }
    tasks
}

fn main() {
    let wish = Wish::parse(&std::env::args().skip(1).collect::<Vec<_>>());
    for task in tasks(&wish).into_iter().skip(wish.slice.0).step_by(wish.slice.1) {
        println!("== {}", task.name);
        let (sender, result) = channel();
        let (name, wish) = (task.name.clone(), wish.clone());
        std::thread::spawn(move || sender.send(run(&task, &wish)));
        match result.recv_timeout(WATCHDOG) {
            Ok(transcript) => print!("{transcript}"),
            Err(why) => {
                eprintln!("socket-twins: {name}: {why} (watchdog: {} s)", WATCHDOG.as_secs());
                std::process::exit(1);
            }
        }
    }
}

fn run(task: &Task, wish: &Wish) -> String {
    let (body, port, links, patient, plain) = (task.body.clone(), task.port, wish.links, wish.patient, wish.plain);
    let run = move || match patient || plain {
        true => language::run(&mut patient::Patient::new(patient, plain), &body, port),
        false => language::run(&mut kernel::Kernel::default(), &body, port),
    };
    if !wish.namespace {
        return run();
    }
    // The namespace ends with its thread.
    let inside = std::thread::spawn(move || {
        let second = || if links { kernel::add_link() } else { Ok(()) };
        kernel::enter_namespace().and_then(|()| second()).unwrap_or_else(|why| {
            eprintln!("socket-twins: {why}");
            std::process::exit(1);
        });
        run()
    });
    inside.join().unwrap_or_else(|_| std::process::exit(1))
}
