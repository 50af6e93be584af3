//! Twins: one body, on the host kernel (in a network namespace of its own) and on the model in memory. No difference is allowed.
//!
//! The bodies are in `twins/bodies`, their language in `twins/language.rs`. The kernel needs `unshare(CLONE_NEWNET)`: run as root, or under
//! `unshare -rn cargo test`. `cargo run --example socket-twins` prints the transcripts of whatever host it runs on.

use crate::bodies;
use crate::graph;
use crate::kernel;
use crate::language;
use crate::random;

use weft_core::Mode;

const BASE_PORT: u16 = 20000;

/// The kernel's transcript of a body, in a network namespace of its own.
fn on_kernel(body: &str) -> String {
    std::thread::scope(|scope| {
        let run = || {
            kernel::enter_namespace().unwrap_or_else(|why| panic!("{why}"));
            language::run(&mut kernel::Kernel::default(), body, BASE_PORT)
        };
        scope.spawn(run).join().expect("the kernel's run")
    })
}

/// The lines in which two transcripts differ, as text.
fn compare(kernel: &str, model: &str) -> String {
    let pairs = kernel.lines().zip(model.lines()).enumerate().filter(|(_, (kernel, model))| kernel != model);
    let mut out: String =
        pairs.map(|(line, (kernel, model))| format!("    {line}: kernel: {kernel}\n    {line}: model:  {model}\n")).collect();
    if kernel.lines().count() != model.lines().count() {
        out += "    the transcripts differ in length\n";
    }
    out
}

fn all_topics() -> impl Iterator<Item = bodies::Topic> {
    bodies::topics().into_iter().chain(bodies::topics_more()).chain(bodies::topics_6())
}

/// Runs the bodies of a topic on the kernel and on the node's graph, and shows every line that differs.
/// `TWIN=name` runs one body only.
fn twins(topic: &str) {
    let (_, bodies) = all_topics().find(|(name, _)| *name == topic).expect("a topic");
    compare_all(topic, &bodies);
}

/// The bodies of a topic in another form.
fn twins_as(topic: &str, form: impl Fn(&str) -> Option<String>, at_least: usize) {
    let (_, bodies) = all_topics().find(|(name, _)| *name == topic).expect("a topic");
    let bodies: Vec<(String, String)> = bodies.iter().filter_map(|(name, body)| Some((name.clone(), form(body)?))).collect();
    assert!(bodies.len() >= at_least, "{topic}: {}", bodies.len());
    compare_all(topic, &bodies);
}

/// How often a body runs on the kernel before a difference counts: its timers and its threads for arriving packets run in real time, and on a busy machine
/// something may come later than the body waits. The model's transcript is the same each time.
const KERNEL_RUNS: usize = 3;

/// The differences of a body; nothing, when the models' transcripts are those of one run of the kernel.
fn differences_of(name: &str, body: &str) -> String {
    let models = [Mode::Inline, Mode::Queued].map(|mode| (mode, language::run(&mut graph::model(mode), body, BASE_PORT)));
    let of_one_run = || {
        let kernel = on_kernel(body);
        let lines = models.iter().map(|(mode, model)| (mode, compare(&kernel, model))).filter(|(_, lines)| !lines.is_empty());
        lines.map(|(mode, lines)| format!("{name} ({mode:?}):\n{lines}")).collect::<String>()
    };
    let mut found = of_one_run();
    for _ in 1..KERNEL_RUNS {
        if found.is_empty() {
            break;
        }
        found = of_one_run();
    }
    found
}

fn compare_all(topic: &str, bodies: &[(String, String)]) {
    let only = std::env::var("TWIN").ok();
    let chosen = bodies.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == name));
    let differences: String = chosen.map(|(name, body)| differences_of(&format!("{topic}/{name}"), body)).collect();
    assert!(differences.is_empty(), "the model differs from the kernel:\n{differences}");
}

/// No twin: the kernel lets half the peer's window in at once, the model what there was room for when the buffer was larger. But both can write
/// again when the peer has read it.
#[test]
fn a_smaller_send_buffer_is_what_writability_is_measured_by() {
    let body = "
        L = socket stream
        bind L 127.0.0.1:p1
        listen L 5
        S = socket stream
        connect S 127.0.0.1:p1
        settle
        A = accept L
        set S SO_SNDBUF 4096
        send S 40000*q
        settle
        poll S
        recv A 40000
        settle
        recv A 40000
        settle
        poll S
    ";
    let body: String = body.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect();
    for mode in [Mode::Inline, Mode::Queued] {
        let said = language::run(&mut graph::model(mode), &body, BASE_PORT);
        let polls: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("poll S -> ")).collect();
        assert_eq!(polls.last(), Some(&"OUT|WRNORM"), "{mode:?}: {said}");
    }
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
fn ending() {
    twins("ending");
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
fn filters() {
    twins("filters");
}

#[test]
fn reuse() {
    twins("reuse");
}

#[test]
fn segments() {
    twins("segments");
}

#[test]
fn tuning() {
    twins("tuning");
}

#[test]
fn dual() {
    twins("dual");
}

#[test]
fn options6() {
    twins("options6");
}

/// Every body of IPv4 that makes sense, once more over IPv6, and with IPv4-mapped addresses.
macro_rules! families {
    ($($topic:ident $at_least:literal $mapped_at_least:literal),+ $(,)?) => {
        mod over_ipv6 {
            $(#[test] fn $topic() { super::twins_as(stringify!($topic), super::bodies::over_ipv6, $at_least); })+
        }
        mod mapped {
            $(#[test] fn $topic() { super::twins_as(stringify!($topic), super::bodies::mapped, $mapped_at_least); })+
        }
    };
}
families!(
    states 10 10, connection 15 15, ending 10 10, ports 8 20, transfer 10 10, datagram 20 30, options 5 30, reuse 6 10, segments 3 5, tuning 3 5, filters 5 5,
);

#[test]
fn raw() {
    twins("raw");
}

#[test]
fn raw6() {
    twins("raw6");
}

#[test]
fn ping6() {
    twins("ping6");
}

#[test]
fn multicast6() {
    twins("multicast6");
}

#[test]
fn records6() {
    twins("records6");
}

#[test]
fn multicast() {
    twins("multicast");
}

#[test]
fn records() {
    twins("records");
}

#[test]
fn headers() {
    twins("headers");
}

#[test]
fn headers6() {
    twins("headers6");
}

#[test]
fn loopback() {
    twins("loopback");
}

#[test]
fn loopback6() {
    twins("loopback6");
}

#[test]
fn ping() {
    twins("ping");
}

#[test]
fn there_are_enough_bodies_and_no_name_twice() {
    let topics = bodies::topics();
    let names: Vec<(&str, &String)> =
        topics.iter().flat_map(|(topic, bodies)| bodies.iter().map(move |(name, _)| (*topic, name))).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len());
    assert!(names.len() >= 120, "{}", names.len());
}

/// Programs that nobody wrote: random steps over a few sockets and ports, from fixed seeds. `TWIN_SEEDS=a..b` runs others.
fn random(program: fn(u64) -> String) {
    let seeds = std::env::var("TWIN_SEEDS").ok().and_then(|range| {
        let (first, last) = range.split_once("..")?;
        Some(first.parse().ok()?..last.parse().ok()?)
    });
    let mut differences = String::new();
    for seed in seeds.unwrap_or(0..60u64) {
        let body = program(seed);
        let model = language::run(&mut graph::model(Mode::Inline), &body, BASE_PORT);
        let differs = |kernel: &str| kernel.lines().zip(model.lines()).any(|(kernel, model)| kernel != model);
        // A port that the kernel draws may be one that it has drawn before, which another run's is not.
        let mut kernel = on_kernel(&body);
        for _ in 1..KERNEL_RUNS {
            if !differs(&kernel) {
                break;
            }
            kernel = on_kernel(&body);
        }
        if let Some(line) = kernel.lines().zip(model.lines()).position(|(kernel, model)| kernel != model) {
            let before: String =
                kernel.lines().take(line).filter(|line| *line != "settle -> ok").map(|line| format!("      {line}\n")).collect();
            let first: String = compare(&kernel, &model).lines().take(2).map(|line| format!("{line}\n")).collect();
            differences += &format!("seed {seed}:\n{before}{first}");
        }
    }
    assert!(differences.is_empty(), "the model differs from the kernel:\n{differences}");
}

#[test]
fn random_programs() {
    random(random::program);
}

#[test]
fn random_programs_of_both_families() {
    random(random::program_of_both_families);
}
