//! What calls of a program in virtual time cost in wall time: one that the loader passes on or answers, and one that goes to the controller
//! and back. Prints a JSON list like the other benchmarks. Run as `process-cost`; inside the node it runs itself as `process-cost guest KIND`.

use serde_json::json;
use std::ffi::CString;
use std::time::{Duration, Instant as Wall};
use weft_core::{Context, Instant};
use weft_intercept::{Lend, SocketId, Sockets, Stack};
use weft_node::Node;
use weft_process::{Config, Outside, Record, Spawn, Tree};

const CALLS: u32 = 200_000;

struct Alone {
    node: Node,
    now: Instant,
}

impl Lend for Alone {
    fn sockets<R>(&mut self, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> Option<R> {
        let result = self.node.sockets(self.now, f);
        self.node.run(self.now);
        result
    }
}

impl Outside for Alone {
    fn grant(&self) -> Instant {
        self.node.next_timer().unwrap_or(Instant::FAR_FUTURE).max(self.now + Duration::from_nanos(1))
    }
    fn advance(&mut self, to: Instant) {
        self.now = self.now.max(to);
        self.node.run(self.now);
    }
    fn stack(&mut self) -> &mut dyn Stack {
        self
    }
    fn take_changed(&mut self) -> Vec<SocketId> {
        Stack::take_changed(self)
    }
    fn record(&mut self, _: &Record<'_>) {}
}

/// The loops, inside the node.
fn guest(kind: &str) {
    for _ in 0..CALLS {
        // SAFETY: calls without pointers, or with one to a local.
        unsafe {
            match kind {
                "native" => {
                    libc::syscall(libc::SYS_getppid);
                }
                "answered" => {
                    let mut time: libc::timespec = std::mem::zeroed();
                    libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time);
                }
                "clock" => {
                    let mut time: libc::timespec = std::mem::zeroed();
                    libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
                }
                "controller" => {
                    libc::kill(libc::getpid(), 0);
                }
                "yield" => {
                    libc::sched_yield();
                }
                _ => {}
            }
        }
    }
}

/// Nanoseconds a call, start and end of the program taken off.
fn measure(kind: &str, cpu: usize, trap_tsc: bool) -> f64 {
    let stack = weft_node::Stack::parse("cost.toml", "[node]\nname = \"a\"\n").expect("a stack file");
    let mut outside = Alone { node: Node::new(&stack, 1).expect("a node"), now: Instant::ZERO };
    let mut tree =
        Tree::new(Config { cpu: Some(cpu), trap_tsc, slice: Duration::from_secs(1000), ..Config::default() }).expect("process 1");
    let own = std::env::current_exe().expect("own name");
    let words = [own.to_str().unwrap_or_default(), "guest", kind];
    let null = || std::fs::File::open("/dev/null").expect("/dev/null").into();
    let spawn = Spawn {
        arguments: words.iter().map(|word| CString::new(*word).expect("a word")).collect(),
        environment: Vec::new(),
        directory: "/".into(),
        descriptors: [null(), null(), null()],
        attach: None,
    };
    tree.spawn(Instant::ZERO, &spawn).expect("a program");
    let began = Wall::now();
    while !tree.is_empty() {
        let next = tree.run(outside.now, &mut outside);
        if !next.ended {
            outside.advance(next.at);
        }
    }
    began.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, kind] = arguments.as_slice()
        && word == "guest"
    {
        return guest(kind);
    }
    let cpu = 0;
    // SAFETY: an all-zero set is empty; the set is ours.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
    let nothing = measure("nothing", cpu, true);
    let rows: Vec<_> = [
        ("native", true, "passed on to the kernel (getppid)"),
        ("answered", true, "answered in the process, by a call (clock_gettime)"),
        ("clock", true, "answered by the vDSO (clock_gettime)"),
        ("controller", true, "to the controller and back (kill with signal 0, and getpid)"),
        ("yield", true, "to the controller, through the queue, and back (sched_yield)"),
        ("yield", false, "the same, with RDTSC left alone"),
    ]
    .into_iter()
    .map(|(kind, trap, name)| json!({"name": name, "value": (measure(kind, cpu, trap) - nothing).round(), "unit": "ns"}))
    .collect();
    println!("{}", serde_json::Value::Array(rows));
}
