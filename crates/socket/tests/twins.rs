//! Twins: one body, on the host kernel (in a network namespace of its own) and on the model in memory. No difference is allowed.
//!
//! The bodies are in `twins/bodies`, their language in `twins/language.rs`. The kernel needs `unshare(CLONE_NEWNET)`: run as root, or under
//! `unshare -rn cargo test`. `cargo run --example socket-twins` prints the transcripts of whatever host it runs on.

#[path = "twins/below.rs"]
mod below;
#[path = "twins/bodies/mod.rs"]
mod bodies;
#[path = "twins/graph.rs"]
mod graph;
#[path = "twins/kernel.rs"]
mod kernel;
#[path = "twins/language.rs"]
mod language;
#[path = "twins/model.rs"]
mod model;

const BASE_PORT: u16 = 20000;

/// Runs the bodies of a topic on both and shows every line that differs.
fn twins(topic: &str) {
    let (_, bodies) = bodies::TOPICS.iter().find(|(name, _)| *name == topic).expect("a topic");
    let mut differences = String::new();
    let only = std::env::var("TWIN").ok();
    for (name, body) in bodies.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)) {
        let on_kernel = std::thread::scope(|scope| {
            let run = || {
                kernel::enter_namespace().unwrap_or_else(|why| panic!("{why}"));
                language::run(&mut kernel::Kernel::default(), body, BASE_PORT)
            };
            scope.spawn(run).join().expect("the kernel's run")
        });
        let small = std::env::var_os("TWIN_SMALL").is_some();
        let mut host = if small { model::Model::on_small_loopback(&[]) } else { graph::model() };
        let on_model = language::run(&mut host, body, BASE_PORT);
        let mut lines = String::new();
        for (kernel, model) in on_kernel.lines().zip(on_model.lines()) {
            if kernel != model {
                lines += &format!("    kernel: {kernel}\n    model:  {model}\n");
            }
        }
        assert_eq!(on_kernel.lines().count(), on_model.lines().count());
        if !lines.is_empty() {
            differences += &format!("{topic}/{name}:\n{lines}");
        }
    }
    assert!(differences.is_empty(), "the model differs from the kernel:\n{differences}");
}

#[test]
fn states() {
    twins("states");
}

#[test]
fn connection() {
    twins("connection");
}

#[test]
fn ports() {
    twins("ports");
}

#[test]
fn transfer() {
    twins("transfer");
}

#[test]
fn datagram() {
    twins("datagram");
}

#[test]
fn options() {
    twins("options");
}

#[test]
fn there_are_enough_bodies_and_no_name_twice() {
    let names: Vec<(&str, &str)> =
        bodies::TOPICS.iter().flat_map(|(topic, bodies)| bodies.iter().map(move |(name, _)| (*topic, *name))).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len());
    assert!(names.len() >= 120, "{}", names.len());
}
