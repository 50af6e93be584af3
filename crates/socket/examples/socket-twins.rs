//! Prints the transcripts of the twin bodies on whatever host it runs on: natively the kernel's, under `weft run` those of weft's sockets
//! through the adapter. Two outputs are compared line by line.
//!
//! `socket-twins [TOPIC[/NAME]] [--base-port N] [--namespace]`: with `--namespace` every body runs in a network namespace of its own (needs
//! privilege); without it each body uses ten ports of its own from the base on.

#[path = "../tests/twins/bodies.rs"]
mod bodies;
#[path = "../tests/twins/kernel.rs"]
mod kernel;
#[path = "../tests/twins/language.rs"]
mod language;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let namespace = arguments.iter().any(|argument| argument == "--namespace");
    let base = arguments.iter().position(|argument| argument == "--base-port").and_then(|at| arguments.get(at + 1)?.parse().ok());
    let mut base_port: u16 = base.unwrap_or(20000);
    let wanted = arguments.first().filter(|argument| !argument.starts_with("--"));
    for (topic, bodies) in bodies::topics() {
        for (name, body) in bodies {
            let full = format!("{topic}/{name}");
            if wanted.is_some_and(|wanted| full != *wanted && topic != *wanted) {
                continue;
            }
            println!("== {full}");
            let port = base_port;
            // Below the ephemeral range, so that a port chosen by the host never looks like one of the body's own.
            base_port = if base_port >= 32_000 { base.unwrap_or(20000) } else { base_port + 10 };
            print!("{}", if namespace { in_namespace(body, port) } else { language::run(&mut kernel::Kernel::default(), &body, port) });
        }
    }
}

fn in_namespace(body: String, port: u16) -> String {
    let run = move || match kernel::enter_namespace() {
        Ok(()) => language::run(&mut kernel::Kernel::default(), &body, port),
        Err(why) => {
            eprintln!("socket-twins: {why}");
            std::process::exit(1);
        }
    };
    match std::thread::spawn(run).join() {
        Ok(transcript) => transcript,
        Err(_) => std::process::exit(1),
    }
}
