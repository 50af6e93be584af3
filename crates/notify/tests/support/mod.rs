//! A host in small for tests: one node with the real sockets on a small loopback, one event loop, programs under the supervisor.
#![allow(dead_code)] // not every test file uses all of it

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use weft_core::{Context, ControlError, Message, Op, Value};
use weft_intercept::{Lend, Sockets};
use weft_notify::spawn::{Command, Program, exit_code};
use weft_notify::{Epoll, Readiness, Supervisor};

/// A test that takes longer than this has hung.
const PATIENCE: Duration = Duration::from_secs(30);

/// The node: weft's whole stack, with an interface that leads nowhere.
pub struct Node {
    pub node: weft_node::Node,
    start: Instant,
}

impl Node {
    fn new() -> Node {
        let node = weft_node::Node::check(&weft_node::Stack::default_stack()).unwrap_or_else(|error| panic!("{error}"));
        Node { node, start: Instant::now() }
    }

    fn now(&self) -> weft_core::Instant {
        weft_core::Instant::from_nanos(self.start.elapsed().as_nanos() as u64 + 1_000_000_000)
    }
}

impl Lend for Node {
    fn sockets<R>(&mut self, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> Option<R> {
        let now = self.now();
        self.node.sockets(now, f)
    }

    fn control(&mut self, op: Op) -> Result<Value, ControlError> {
        let now = self.now();
        self.node.control(now, &Message { serial: 0, op }).result
    }
}

/// A program under test.
pub struct Running {
    program: Program,
    output: File,
    name: String,
}

/// How a program ended.
pub struct Ended {
    pub code: i32,
    pub output: String,
}

/// The host.
pub struct Host {
    pub node: Node,
    pub supervisor: Supervisor,
    epoll: OwnedFd,
}

impl Host {
    pub fn new() -> Host {
        // SAFETY: takes no pointers; the descriptor is ours.
        let epoll = unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) };
        let supervisor = Supervisor::new(7, &mut Epoll(epoll.as_fd())).expect("a supervisor");
        Host { node: Node::new(), supervisor, epoll }
    }

    /// Starts a program; standard output and error are kept.
    pub fn start(&mut self, arguments: &[&str]) -> Running {
        self.start_with(arguments, |_| {})
    }

    pub fn start_with(&mut self, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Running {
        // SAFETY: a NUL-terminated name; the descriptor is ours.
        let output = unsafe { File::from_raw_fd(libc::memfd_create(c"output".as_ptr(), libc::MFD_CLOEXEC)) };
        let mut command = Command::new(arguments).expect("a command");
        command.descriptor(1, output.try_clone().expect("a duplicate").into());
        command.descriptor(2, output.try_clone().expect("a duplicate").into());
        command.variable("PYTHONUNBUFFERED", "1");
        change(&mut command);
        let mut program = command.spawn().unwrap_or_else(|error| panic!("{error}"));
        let listener = program.take_listener().expect("a listener");
        self.supervisor.add_tree(listener, &mut Epoll(self.epoll.as_fd())).expect("a tree");
        Running { program, output, name: arguments.join(" ") }
    }

    /// One turn of the event loop.
    pub fn turn(&mut self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let now = self.node.now();
        let wait = self
            .node
            .node
            .next_timer()
            .map_or(20, |next| ((next.as_nanos().saturating_sub(now.as_nanos()) / 1_000_000) as i32 + 1).min(20));
        // SAFETY: `events` has room for 64.
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), 64, wait) };
        for event in events.iter().take(count.max(0) as usize) {
            let (token, bits) = (event.u64, event.events);
            assert!(self.supervisor.owns(token));
            self.supervisor.on_event(token, Readiness::from_epoll(bits), &mut self.node, &mut Epoll(self.epoll.as_fd()));
        }
        let now = self.node.now();
        self.node.node.run(now);
        self.supervisor.after_stack_ran(&mut self.node, &mut Epoll(self.epoll.as_fd()));
    }

    /// Runs until something holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Host) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < PATIENCE, "waited in vain: {what}\ncalls: {:#?}", self.supervisor.calls());
            self.turn();
        }
    }

    /// Runs until a program has written this.
    pub fn until_output(&mut self, running: &mut Running, text: &str) {
        self.until(&format!("{:?} from {}", text, running.name), |_| running.output().contains(text) || running.ended());
        let output = running.output();
        assert!(output.contains(text), "{} ended: {output}", running.name);
    }

    /// Runs until a program has ended.
    pub fn finish(&mut self, mut running: Running) -> Ended {
        let name = running.name.clone();
        let start = Instant::now();
        while !running.ended() {
            if start.elapsed() > PATIENCE {
                panic!("{name} does not end: {}\n{:#?}", running.output(), self.supervisor.calls());
            }
            self.turn();
        }
        let code = exit_code(running.program.wait().expect("a status"));
        let output = running.output();
        // What its end set in motion.
        for _ in 0..5 {
            self.turn();
        }
        Ended { code, output }
    }

    /// Runs a program from start to end.
    pub fn run(&mut self, arguments: &[&str]) -> Ended {
        let running = self.start(arguments);
        self.finish(running)
    }

    /// Runs a Python program that must end with status 0; returns its output.
    pub fn python(&mut self, script: &str) -> String {
        let ended = self.run(&["python3", "-c", script]);
        assert_eq!(ended.code, 0, "{}", ended.output);
        ended.output
    }
}

impl Running {
    pub fn output(&mut self) -> String {
        let mut text = String::new();
        let mut file = &self.output;
        let end = file.seek(SeekFrom::End(0)).expect("seek");
        // The program shares the offset: read by position and leave it at the end.
        let mut bytes = vec![0; end as usize];
        let read = std::os::unix::fs::FileExt::read_at(file, &mut bytes, 0).expect("read");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        text
    }
    pub fn ended(&mut self) -> bool {
        self.program.try_wait().expect("a status").is_some()
    }
    pub fn kill(&self, signal: i32) {
        self.program.signal(signal);
    }
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }
    pub fn resolv_conf(&self) -> Result<(), weft_intercept::Errno> {
        self.program.resolv_conf()
    }
}

/// A C program, compiled for one test; removed when it is dropped.
pub struct Compiled(String);

impl Compiled {
    pub fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Compiles a C program, with the compiler that links Rust's programs too.
pub fn compile(name: &str, source: &str) -> Compiled {
    let path = std::env::temp_dir().join(format!("weft-{name}-{}", std::process::id()));
    let path = path.to_str().expect("a path in UTF-8").to_owned();
    let arguments = ["-x", "c", "-O1", "-Wall", "-pthread", "-o", &path, "-"];
    let mut compiler = std::process::Command::new("cc").args(arguments).stdin(std::process::Stdio::piped()).spawn().expect("a C compiler");
    std::io::Write::write_all(&mut compiler.stdin.take().expect("a pipe"), source.as_bytes()).expect("the compiler reads");
    assert!(compiler.wait().expect("a status").success(), "{name} does not compile");
    Compiled(path)
}
