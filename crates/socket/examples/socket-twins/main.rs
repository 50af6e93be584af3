//! Prints the transcripts of the twin bodies on whatever host it runs on: natively the kernel's, under `weft run` those of weft's sockets
//! through the adapter. Two outputs are compared line by line.
//!
//! `socket-twins [TOPIC[/NAME]] [--base-port N] [--namespace] [--patient [--plain]] [--jobs N]`
//! - `--namespace`: every body runs in a network namespace of its own (needs privilege); without it each has ten ports of its own.
//! - `--patient`: pauses after every step, for hosts whose stack runs beside the program instead of inside its calls (see `patient.rs`).
//! - `--plain`: data goes by send(2) and recv(2) where a step needs no more, instead of sendmsg(2) and recvmsg(2).
//! - `--jobs N`: so many bodies at a time.

#[path = "../../tests/twins/bodies.rs"]
mod bodies;
#[path = "../../tests/twins/kernel.rs"]
mod kernel;
#[path = "../../tests/twins/language.rs"]
mod language;
mod patient;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
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
    jobs: usize,
}

impl Wish {
    fn parse(arguments: &[String]) -> Wish {
        let given = |name: &str| arguments.iter().any(|argument| argument == name);
        let number = |name: &str| arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1)?.parse().ok());
        Wish {
            only: arguments.first().filter(|argument| !argument.starts_with("--")).cloned(),
            base_port: number("--base-port").unwrap_or(PORTS.start),
            namespace: given("--namespace"),
            patient: given("--patient"),
            plain: given("--plain"),
            jobs: number("--jobs").map_or(1, usize::from).max(1),
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
    for (topic, bodies) in bodies::topics() {
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
    let (names, results): (Vec<String>, Vec<Receiver<String>>) = start(&wish).into_iter().unzip();
    for (name, result) in names.iter().zip(results) {
        println!("== {name}");
        match result.recv_timeout(WATCHDOG) {
            Ok(transcript) => print!("{transcript}"),
            Err(why) => {
                eprintln!("socket-twins: {name}: {why} after {} s", WATCHDOG.as_secs());
                std::process::exit(1);
            }
        }
    }
}

/// Starts the threads; gives every body's name and where its transcript will arrive.
fn start(wish: &Wish) -> Vec<(String, Receiver<String>)> {
    let mut queue = VecDeque::new();
    let mut results = Vec::new();
    for task in tasks(wish) {
        let (sender, receiver) = channel();
        results.push((task.name.clone(), receiver));
        queue.push_back((task, sender));
    }
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..wish.jobs {
        let (queue, wish) = (Arc::clone(&queue), wish.clone());
        std::thread::spawn(move || {
            loop {
                let Some((task, sender)) = queue.lock().ok().and_then(|mut queue| queue.pop_front()) else { return };
                // Nobody listens any more when the watchdog has ended the program.
                let _ = sender.send(run(&task, &wish));
            }
        });
    }
    results
}

fn run(task: &Task, wish: &Wish) -> String {
    let (body, port, patient, plain) = (task.body.clone(), task.port, wish.patient, wish.plain);
    let run = move || match patient {
        true => language::run(&mut patient::Patient::new(plain), &body, port),
        false => language::run(&mut kernel::Kernel::default(), &body, port),
    };
    if !wish.namespace {
        return run();
    }
    // The namespace ends with its thread.
    let inside = std::thread::spawn(move || {
        kernel::enter_namespace().unwrap_or_else(|why| {
            eprintln!("socket-twins: {why}");
            std::process::exit(1);
        });
        run()
    });
    inside.join().unwrap_or_else(|_| std::process::exit(1))
}
