//! A world for tests: one node, or two joined by a wire with a fixed delay, each with a tree of real processes in virtual time.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;
use weft_core::{Checksum, Context, Direction, Frame, Instant, InterfaceIndex, Meta};
use weft_intercept::{Lend, SocketId, Sockets, Stack};
use weft_node::Node;
use weft_process::{Config, Exit, Outside, Record, Spawn, StartError, Status, Tree};

/// What a program left behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    pub output: String,
    pub error: String,
    /// Virtual time of its end.
    pub at: Instant,
    pub status: Status,
}

/// A node as its tree sees it.
pub struct Outer {
    node: Node,
    interface: InterfaceIndex,
    now: Instant,
    end: Instant,
    inbox: BTreeMap<(Instant, u64), Frame>,
    outbox: Vec<(Instant, Frame)>,
    pub record: Vec<String>,
    /// Grants time as if nothing were on its way to the node.
    pub rash: bool,
}

impl Outer {
    fn carry(&mut self) {
        while self.node.has_transmit() {
            for mut frame in self.node.take_transmit() {
                // The loopback interface is inside the node; this is the wire.
                let (checksum, gso, transport_at) = (frame.meta().checksum, frame.meta().gso, frame.meta().transport_at);
                let transport_at = if matches!(checksum, Checksum::Partial { .. }) { transport_at } else { 0 };
                let completion = frame.meta().completion;
                *frame.meta_mut() = Meta { direction: Direction::Ingress, checksum, gso, transport_at, ..Meta::default() };
                self.outbox.push((self.now, frame));
                if let Some(completion) = completion {
                    self.node.transmitted(self.now, completion);
                }
            }
            self.node.run(self.now);
        }
    }
    fn due(&self) -> Instant {
        let inbox = self.inbox.keys().next().map_or(Instant::FAR_FUTURE, |(at, _)| *at);
        inbox.min(self.node.next_timer().unwrap_or(Instant::FAR_FUTURE))
    }
    /// Everything that happens to the node by now, from outside.
    fn catch_up(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some(entry) = self.inbox.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let mut frame = entry.remove();
            frame.meta_mut().interface = self.interface;
            self.node.receive(self.now, [frame]);
        }
        self.node.run(self.now);
        self.carry();
    }
}

impl Lend for Outer {
    fn sockets<R>(&mut self, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> Option<R> {
        let result = self.node.sockets(self.now, f);
        self.node.run(self.now);
        self.carry();
        result
    }
}

impl Outside for Outer {
    fn grant(&self) -> Instant {
        let due = if self.rash { Instant::FAR_FUTURE } else { self.due() };
        self.end.min(due).max(self.now + Duration::from_nanos(1))
    }
    fn advance(&mut self, to: Instant) {
        self.catch_up(to);
    }
    fn stack(&mut self) -> &mut dyn Stack {
        self
    }
    fn take_changed(&mut self) -> Vec<SocketId> {
        Stack::take_changed(self)
    }
    fn quiet_until(&self) -> Option<Instant> {
        Some(self.node.next_timer().unwrap_or(Instant::FAR_FUTURE))
    }
    fn record(&mut self, r: &Record<'_>) {
        // Addresses in arguments depend on the host's kernel; results and output do not.
        if std::env::var_os("TELL").is_some() {
            eprintln!("{:?} {}/{} {} {:x?} = {}", r.at, r.process, r.thread, r.number, r.arguments, r.result);
        }
        self.record.push(format!("{:?} {}/{} {} = {} {:x?}", r.at, r.process, r.thread, r.number, r.result, r.output));
    }
}

pub struct Host {
    pub tree: Tree,
    pub outer: Outer,
    pub exits: BTreeMap<u32, Exit>,
    outputs: BTreeMap<u32, (File, File)>,
    next: Instant,
    ended: bool,
}

pub struct World {
    pub hosts: Vec<Host>,
    delay: Duration,
    sequence: u64,
}

/// The arenas and namespaces of several worlds at once are no problem, but the machine has few processors.
static ONE: Mutex<()> = Mutex::new(());

impl World {
    /// Nodes a (10.0.0.1), b (10.0.0.2).
    pub fn new(seed: u64, count: usize) -> World {
        World::tuned(seed, count, |_| ())
    }

    /// With so much patience with programs that make no call, and wires with this delay, which is how far ahead programs run.
    pub fn with(seed: u64, count: usize, patience: Duration, delay: Duration) -> World {
        World { delay, ..World::tuned(seed, count, |config| config.patience = patience) }
    }

    /// With other settings.
    pub fn tuned(seed: u64, count: usize, tune: impl Fn(&mut Config)) -> World {
        let hosts = (0..count)
            .map(|index| {
                let name = ["a", "b"][index];
                let text = format!(
                    "[node]\nname = \"{name}\"\n[[interface]]\nname = \"eth0\"\nbackend = \"memory:x\"\n\
                     [[address]]\ninterface = \"eth0\"\naddress = \"10.0.0.{}/24\"\n",
                    index + 1
                );
                let stack = weft_node::Stack::parse("test.toml", &text).expect("a stack file");
                let mut node = Node::new(&stack, seed).expect("a node");
                let section = stack.interfaces().next().expect("an interface");
                let described = node.describe(&stack, 0, section).expect("a description");
                let interface = node.add_interface(Instant::ZERO, &described).expect("an interface");
                node.configure(Instant::ZERO, &stack).expect("addresses");
                let mut config =
                    Config { name: name.to_owned(), seed, tell_calls: std::env::var_os("TELL").is_some(), ..Config::default() };
                tune(&mut config);
                let tree = Tree::new(config).expect("process 1");
                let outer = Outer {
                    node,
                    interface,
                    now: Instant::ZERO,
                    end: Instant::ZERO,
                    inbox: BTreeMap::new(),
                    outbox: Vec::new(),
                    record: Vec::new(),
                    rash: false,
                };
                Host { tree, outer, exits: BTreeMap::new(), outputs: BTreeMap::new(), next: Instant::ZERO, ended: true }
            })
            .collect();
        World { hosts, delay: Duration::from_millis(1), sequence: 0 }
    }

    pub fn start(&mut self, host: usize, at: Instant, arguments: &[&str]) -> u32 {
        self.begin(host, at, arguments, |tree, spawn| tree.spawn(at, spawn))
    }

    /// Starts a program that runs by itself until then at most.
    pub fn start_early(&mut self, host: usize, at: Instant, arguments: &[&str], until: Instant, roams: bool) -> u32 {
        self.begin(host, at, arguments, |tree, spawn| tree.spawn_early(at, spawn, until, roams))
    }

    fn begin(
        &mut self,
        host: usize,
        at: Instant,
        arguments: &[&str],
        begin: impl FnOnce(&mut Tree, &Spawn) -> Result<u32, StartError>,
    ) -> u32 {
        let host = &mut self.hosts[host];
        let memory = || {
            // SAFETY: a C string.
            let fd = unsafe { libc::memfd_create(c"output".as_ptr(), libc::MFD_CLOEXEC) };
            assert!(fd >= 0);
            // SAFETY: new, and ours.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            let file = File::from(fd.try_clone().unwrap());
            // SAFETY: takes no pointers.
            unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) };
            (fd, file)
        };
        let ((out, output), (err, error)) = (memory(), memory());
        let environment = ["PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=/tmp", "TZ=UTC", "PYTHONDONTWRITEBYTECODE=1"];
        let text = |text: &&str| CString::new(*text).unwrap();
        let spawn = Spawn {
            arguments: arguments.iter().map(text).collect(),
            environment: environment.iter().map(text).collect(),
            // Python lists the directory it is started in, and /tmp is everybody's.
            directory: empty_directory(),
            descriptors: [File::open("/dev/null").unwrap().into(), out, err],
            attach: None,
        };
        let pid = begin(&mut host.tree, &spawn).expect("a program");
        host.outputs.insert(pid, (output, error));
        host.next = host.next.min(at);
        host.ended = false;
        pid
    }

    /// Runs until these programs have ended, at most so long in virtual time.
    pub fn run(&mut self, until: &[(usize, u32)], limit: Duration) {
        let end = Instant::ZERO + limit;
        while !until.iter().all(|(host, pid)| self.hosts[*host].exits.contains_key(pid)) {
            let start = self.hosts.iter().map(|host| host.next.min(host.outer.due())).min().unwrap_or(Instant::FAR_FUTURE);
            if start >= end {
                for host in &self.hosts {
                    println!("waiting: {:?}; unsupported: {:?}", host.tree.waiting(), host.tree.calls().unsupported_rows());
                }
                for (host, pid) in until {
                    println!("{:?}", self.hosts[*host].read(*pid));
                }
                panic!("nothing more happens, or the time is up at {start}");
            }
            let window = start + self.delay;
            for host in &mut self.hosts {
                host.window(window);
            }
            self.exchange();
        }
    }

    /// Runs until this time, which programs may outlive.
    pub fn run_to(&mut self, end: Instant) {
        loop {
            let start = self.hosts.iter().map(|host| host.next.min(host.outer.due())).min().unwrap_or(Instant::FAR_FUTURE);
            if start >= end {
                return;
            }
            let window = end.min(start + self.delay);
            for host in &mut self.hosts {
                host.window(window);
            }
            self.exchange();
        }
    }

    /// What a program has written so far.
    pub fn output(&mut self, host: usize, pid: u32) -> String {
        self.hosts[host].read(pid).0
    }

    fn exchange(&mut self) {
        for from in 0..self.hosts.len() {
            for (at, frame) in std::mem::take(&mut self.hosts[from].outer.outbox) {
                self.sequence += 1;
                let key = (at + self.delay, self.sequence);
                if let Some(other) = self.hosts.get_mut(from ^ 1) {
                    other.outer.inbox.insert(key, frame);
                }
            }
        }
    }

    pub fn ran(&mut self, host: usize, pid: u32) -> Ran {
        let (output, error) = self.hosts[host].read(pid);
        let exit = self.hosts[host].exits[&pid];
        Ran { output, error, at: exit.at, status: exit.status }
    }
}

impl Host {
    fn window(&mut self, end: Instant) {
        self.outer.end = end;
        loop {
            let at = self.next.min(self.outer.due());
            if at >= end {
                break;
            }
            self.outer.catch_up(at);
            let changed = Stack::take_changed(&mut self.outer);
            self.tree.sockets_changed(&changed);
            if !self.ended {
                let next = self.tree.run(self.outer.now, &mut self.outer);
                (self.next, self.ended) = (next.at, next.ended);
            } else {
                self.next = Instant::FAR_FUTURE;
            }
            for exit in self.tree.take_exits() {
                self.exits.insert(exit.pid, exit);
            }
        }
    }

    fn read(&mut self, pid: u32) -> (String, String) {
        let text = |file: &mut File| {
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (output, error) = self.outputs.get_mut(&pid).expect("a program");
        (text(output), text(error))
    }
}

fn empty_directory() -> std::path::PathBuf {
    let directory = std::env::temp_dir().join("weft-virtual-empty");
    std::fs::create_dir_all(&directory).expect("a directory");
    directory
}

/// Runs one program alone on a node.
pub fn run_alone(seed: u64, arguments: &[&str]) -> Ran {
    run_traced(seed, arguments).0
}

/// The same, with the trace of all calls.
pub fn run_traced(seed: u64, arguments: &[&str]) -> (Ran, u64, Vec<String>) {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut world = World::new(seed, 1);
    let pid = world.start(0, Instant::ZERO, arguments);
    world.run(&[(0, pid)], Duration::from_secs(100_000));
    let ran = world.ran(0, pid);
    let host = &mut world.hosts[0];
    assert!(host.tree.preempted().is_empty(), "{:?}", host.tree.preempted());
    (ran, host.tree.trace(), std::mem::take(&mut host.outer.record))
}

/// One world at a time.
pub fn alone<R>(f: impl FnOnce() -> R) -> R {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    f()
}
