//! A kernel as a machine of the world: its process, its clock, its devices, its programs.

use crate::Broken;
use crate::calendar::{Calendar, NEVER, Said};
use crate::device::{Device, Event};
use crate::home::{COVERAGE, FILE_BYTES_MAX, Home};
use crate::patience::{Patience, Talk};
use crate::ring::ENTRIES_MAX;
use crate::spawn::{self, Spawn};
use crate::store::{self, Kernel};
use crate::words::Words;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::Duration;
use weft_core::{Frame, Instant};
use weft_process::processor::with_all;
use weft_process::{Held, Usage};
use weft_sim::plan::{Debugged, GuestPlan, NodeKind, NodePlan, Plan, Watched};
use weft_sim::{Boot, Guest, GuestContext, ProgramId, Status, Stream};

/// A kernel that counts has so long to write its counts; and how often it is looked whether it has.
const COUNTS_WRITTEN_MAX: Duration = Duration::from_secs(60);
/// Who has let go of its clock has so long to end.
const END_MAX: Duration = Duration::from_secs(10);
const END_LOOK_PERIOD: Duration = Duration::from_millis(5);
const KERNEL_BEGINS: &[u8] = b"Linux version ";
/// Lines of its console that are told when it cannot go on.
const LINES_TOLD: usize = 12;
/// Where they are looked for: at its end.
const WORDS_BYTES_MAX: u64 = 64 << 10;

/// Boots kernels that were built before.
#[derive(Debug, Default)]
pub struct Kernels {
    _private: (),
}

impl Kernels {
    /// Those of the user's cache.
    pub fn new() -> Kernels {
        Kernels::default()
    }
}

impl Boot for Kernels {
    fn boot(&self, plan: &Plan, node: usize, seed: u64, now: Instant, cpu: Option<usize>) -> Result<Box<dyn Guest>, String> {
        let section = plan.nodes.get(node).ok_or("there is no such node")?;
        let NodeKind::Guest(guest) = &section.kind else { return Err("it is no kernel".to_owned()) };
        let kernel = store::find(&guest.kernel)?;
        let machine = Machine::boot(plan, node, section, guest, &kernel, seed, now, cpu);
        machine.map(|machine| Box::new(machine) as Box<dyn Guest>).map_err(|error| format!("cannot start kernel {}: {error}", kernel.name))
    }
}

/// A program of the machine.
#[derive(Debug, Default)]
pub(crate) struct Program {
    name: String,
    runs: bool,
    /// Bytes of its output and its errors that were looked at.
    read: [u64; 2],
    output_max: u64,
}

impl Program {
    /// One that has not run; of its output so many bytes are kept.
    pub fn new(name: &str, output_max: u64) -> Program {
        Program { name: name.to_owned(), output_max, ..Program::default() }
    }
}

/// A kernel that runs, or has run.
struct Machine {
    home: Home,
    /// What it has said.
    console: File,
    child: Child,
    listener: Option<UnixListener>,
    calendar: Option<Calendar>,
    /// Nanoseconds since 1970 when it booted.
    start: u64,
    booted: Instant,
    devices: Vec<Device>,
    /// The device of each port of the world.
    device_of: Vec<usize>,
    port_of: Vec<Option<usize>>,
    programs: BTreeMap<ProgramId, Program>,
    /// How far `status` was read, and what stands behind its last line.
    told: u64,
    rest: String,
    /// What it is, for the hash.
    identity: Option<String>,
    patience: Patience,
    talk: Talk,
    /// It counts which of its lines are executed.
    counts: bool,
    /// Lets the debugger take it, once.
    attach: Option<Debugged>,
    /// Its file.
    binary: PathBuf,
    /// Its process 1 has said so: devices are as they will be.
    ready: bool,
    /// It is off, and nothing comes of it any more.
    off: bool,
    room: Vec<u8>,
}

impl Machine {
    #[expect(clippy::too_many_arguments, reason = "one place, and each is another thing")]
    fn boot(
        plan: &Plan,
        node: usize,
        section: &NodePlan,
        guest: &GuestPlan,
        kernel: &Kernel,
        seed: u64,
        now: Instant,
        cpu: Option<usize>,
    ) -> io::Result<Machine> {
        let home = Home::new()?;
        let root = section.files.root.as_deref().unwrap_or("/".as_ref());
        home.lead("root", root)?;
        weft_sim::files_of(plan, section).iter().try_for_each(|file| home.lay(file, root))?;
        let mut words = Words::default();
        words.record(["hostname", &section.name]);
        for (number, mount) in section.files.mounts.iter().enumerate() {
            home.lead(&format!("mount{number}"), &mount.from)?;
            home.lay_folder(&mount.to, root)?;
            words.record(["mount", &format!("mount{number}"), &mount.to.display().to_string()]);
        }
        words.network(guest);
        words.samples(plan, now);
        let programs = words.programs(plan, node, now, &home)?;
        home.write_plan(&words.0)?;
        let start = plan.start.saturating_add(Duration::from_nanos(now.as_nanos()));
        home.date(start)?;
        let listener = UnixListener::bind(home.path().join("clock"))?;
        let mut arguments = vec![
            format!("mem={}M", guest.memory >> 20),
            "hostfs=.".to_owned(),
            "uml_dir=.".to_owned(),
            "umid=uml".to_owned(),
            "con=null".to_owned(),
            // What it says from the beginning goes to standard error, and when it has a terminal (which reads nothing) through that.
            "con0=null,fd:1".to_owned(),
            "ssl=null".to_owned(),
            "stderr=1".to_owned(),
            "console=tty0".to_owned(),
            "console=stderr0".to_owned(),
            "panic=-1".to_owned(),
            // Interfaces that nobody asked for: those of a node are its wires'.
            "bonding.max_bonds=0".to_owned(),
            "dummy.numdummies=0".to_owned(),
            "ifb.numifbs=0".to_owned(),
            "fb_tunnels=none".to_owned(),
            format!("call_cost={}", section.per_call.as_nanos()),
            "time-travel=ext:0:clock".to_owned(),
        ];
        let mut devices = Vec::new();
        for (number, interface) in guest.interfaces.iter().enumerate() {
            let name = format!("net{number}");
            let mtu = u16::try_from(interface.mtu).unwrap_or(u16::MAX);
            devices.push(Device::new(UnixListener::bind(home.path().join(&name))?, interface.mac.0, mtu, section.large_frames));
            arguments.push(format!("virtio_uml.device={name}:1"));
        }
        // The ports of a machine are in the order of the plan's wires.
        let ends = plan.wires.iter().flat_map(|wire| &wire.ends).filter(|(of, _)| *of == node);
        let device_of: Vec<usize> =
            ends.filter_map(|(_, name)| guest.interfaces.iter().position(|interface| interface.name == *name)).collect();
        let port_of = (0..devices.len()).map(|device| device_of.iter().position(|of| *of == device)).collect();
        let console = home.make_console()?;
        if spawn::becomes_nobody() {
            home.give_to(spawn::NOBODY)?;
        }
        let theirs = console.try_clone()?;
        let child = spawn::start(Spawn { binary: kernel.binary(), home: home.path().to_owned(), console: theirs, arguments, seed, cpu })?;
        let debugged = plan.debugged.as_ref().filter(|debugged| debugged.what == Watched::Kernel(node));
        Ok(Machine {
            home,
            console,
            child,
            listener: Some(listener),
            calendar: None,
            start: u64::try_from(start.as_nanos()).unwrap_or(u64::MAX),
            booted: now,
            devices,
            device_of,
            port_of,
            programs,
            told: 0,
            rest: String::new(),
            identity: Some(format!("kernel {} {}", kernel.name, kernel.hash)),
            patience: Patience::new(plan.interrupt.clone(), debugged.is_some()),
            talk: Talk::default(),
            counts: kernel.counts(),
            attach: debugged.cloned(),
            binary: kernel.binary(),
            ready: false,
            off: false,
            room: Vec::new(),
        })
    }

    /// A time of the world as the kernel's.
    fn own(&self, at: Instant) -> u64 {
        at.as_nanos().saturating_sub(self.booted.as_nanos()).min(NEVER - 1)
    }

    fn of_world(&self, own: u64) -> Instant {
        if own >= NEVER { Instant::FAR_FUTURE } else { self.booted + Duration::from_nanos(own) }
    }

    /// Waits until one of these is ready, and says which.
    fn await_any(&mut self, sockets: &[BorrowedFd<'_>], progress: &dyn Fn() -> u64) -> Result<Option<usize>, Broken> {
        self.patience.await_any(sockets, progress, &mut || Ok(self.child.try_wait()?.is_some()))
    }

    /// Meets the kernel when it comes to ask for the time.
    fn meet(&mut self) -> Result<bool, Broken> {
        let Some(listener) = self.listener.take() else { return Ok(true) };
        let ready = self.await_any(&[listener.as_fd()], &|| 0)?;
        if ready.is_none() {
            self.listener = Some(listener);
            return Ok(false);
        }
        let (socket, _) = listener.accept()?;
        if self.await_any(&[socket.as_fd()], &|| 0)?.is_none() {
            return Ok(false);
        }
        self.calendar = Some(Calendar::new(socket, self.start, self.patience.clone())?);
        Ok(true)
    }

    /// Serves the kernel while it runs. False: the run was interrupted.
    fn serve(&mut self, cx: &mut dyn GuestContext) -> Result<bool, Broken> {
        let looks = self.ready && self.devices.iter().all(Device::shares);
        loop {
            let at = self.present(cx)?;
            if !self.talk.count(at, &self.patience)? {
                return Ok(false);
            }
            if let Some(calendar) = self.calendar.as_mut().filter(|calendar| looks && calendar.shares())
                && let Some(said) = calendar.hear()?
            {
                if let Some(served) = self.heard(said, cx)? {
                    return Ok(served);
                }
                continue;
            }
            let Some(calendar) = self.calendar.take() else { return Ok(false) };
            let devices = std::mem::take(&mut self.devices);
            let mut sockets = vec![calendar.socket()];
            sockets.extend(devices.iter().map(Device::socket));
            let ready = self.await_any(&sockets, &|| calendar.now());
            drop(sockets);
            (self.calendar, self.devices) = (Some(calendar), devices);
            let Some(ready) = ready? else { return Ok(false) };
            let Some(calendar) = &mut self.calendar else { return Ok(false) };
            match ready.checked_sub(1) {
                None => {
                    let said = calendar.serve()?;
                    if let Some(served) = self.heard(said, cx)? {
                        return Ok(served);
                    }
                }
                Some(number) => {
                    cx.advance(self.present(cx)?);
                    self.serve_device(number, cx)?;
                }
            }
        }
    }

    /// The kernel's present, which is none that it was not allowed.
    fn present(&self, cx: &dyn GuestContext) -> Result<Instant, Broken> {
        let now = self.calendar.as_ref().map_or(0, Calendar::now);
        let at = self.booted + Duration::from_nanos(now.min(NEVER));
        if at > cx.limit().max(cx.now()) {
            return Err(Broken::new(format!("its clock went on to {now} ns, which nobody has allowed")));
        }
        Ok(at)
    }

    /// Its clock has said something. None: the kernel runs on.
    fn heard(&mut self, said: Said, cx: &mut dyn GuestContext) -> Result<Option<bool>, Broken> {
        let at = self.present(cx)?;
        match said {
            Said::Time => Ok(None),
            Said::Waits | Said::Gone => {
                cx.advance(at);
                (0..self.devices.len()).try_for_each(|number| self.send_all(number, cx))?;
                if said == Said::Gone { self.ended().map(|()| Some(true)) } else { Ok(Some(true)) }
            }
        }
    }

    /// What a device has to send goes to the wire.
    fn send_all(&mut self, number: usize, cx: &mut dyn GuestContext) -> Result<(), Broken> {
        let port = self.port_of.get(number).copied().flatten();
        let Some(device) = self.devices.get_mut(number) else { return Ok(()) };
        let mut wanted = false;
        // No queue holds more, and who fills it again meanwhile does not stand still as it should.
        for _ in 0..ENTRIES_MAX {
            let Some((frame, token)) = device.take(&mut self.room)? else { break };
            match port {
                Some(port) => cx.send(port, frame, token),
                // There is no wire for it to be on.
                None => wanted |= device.left(token)?,
            }
        }
        // A kernel that waits for an answer to its kick hears nothing else.
        if wanted && device.shares() { self.call(number, true) } else { Ok(()) }
    }

    fn serve_device(&mut self, number: usize, cx: &mut dyn GuestContext) -> Result<(), Broken> {
        let Some(device) = self.devices.get_mut(number) else { return Ok(()) };
        match device.serve()? {
            Event::Handled => return Ok(()),
            Event::Gone => {
                // Whether this is heard before the end of its clock must not matter.
                if device.shares() {
                    self.send_all(number, cx)?;
                }
                self.devices.get_mut(number).into_iter().for_each(Device::forget);
                return Ok(());
            }
            Event::Kicked => self.send_all(number, cx)?,
        }
        // Before the kernel goes on: the end of what it sent may be nearer than it was told.
        let limit = self.own(cx.limit());
        if let Some(calendar) = self.calendar.as_mut().filter(|calendar| calendar.runs()) {
            calendar.shorten(limit)?;
        }
        self.devices.get_mut(number).map_or(Ok(()), Device::answer_kick)
    }

    /// Tells the kernel that a device has something for it. It does not run: it notes it, and asks for time.
    fn call(&mut self, number: usize, sent: bool) -> Result<(), Broken> {
        if let Some(calendar) = self.calendar.as_mut().filter(|_| self.devices.get(number).is_some_and(Device::shares)) {
            // It looks when it runs.
            calendar.ask(calendar.now());
            return Ok(());
        }
        let Some(mut calendar) = self.calendar.take() else { return Ok(()) };
        let mut devices = std::mem::take(&mut self.devices);
        let result = self.call_device(&mut calendar, devices.get_mut(number), sent);
        (self.calendar, self.devices) = (Some(calendar), devices);
        result
    }

    fn call_device(&mut self, calendar: &mut Calendar, device: Option<&mut Device>, sent: bool) -> Result<(), Broken> {
        let Some(device) = device else { return Ok(()) };
        device.call(sent)?;
        while let Some(calls) = device.calls() {
            match self.await_any(&[calls, calendar.socket()], &|| 0)? {
                None => return Ok(()),
                Some(0) if device.called()? => {
                    calendar.look();
                    return Ok(());
                }
                Some(0) => break,
                Some(_) if calendar.serve()? == Said::Gone => break,
                Some(_) if self.talk.again(&self.patience)? => {}
                Some(_) => return Ok(()),
            }
        }
        if device.calls().is_none() { Ok(()) } else { Err(Broken::new("its kernel ended")) }
    }

    /// The kernel's process has let go of its clock.
    fn ended(&mut self) -> Result<(), Broken> {
        self.off = true;
        self.calendar = None;
        let status = self.end_within(END_MAX)?;
        let status =
            status.ok_or_else(|| Broken::new(format!("its kernel has let go of its clock, and runs on after {} s", END_MAX.as_secs())))?;
        if status.success() {
            // Somebody in it has switched it off.
            return Ok(());
        }
        let how =
            status.signal().map_or_else(|| format!("with status {}", status.code().unwrap_or(-1)), |signal| format!("by signal {signal}"));
        Err(Broken::new(format!("its kernel ended {how}")))
    }

    /// What came of its process, when it ends within so long.
    fn end_within(&mut self, most: Duration) -> io::Result<Option<ExitStatus>> {
        for _ in 0..most.as_millis() / END_LOOK_PERIOD.as_millis() {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(END_LOOK_PERIOD);
        }
        Ok(None)
    }

    /// What it said, from a byte of its console on.
    fn said(&self, from: u64) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        read_from(&self.console, from, FILE_BYTES_MAX, &mut text)?;
        Ok(text)
    }

    /// The last that it said.
    fn last_words(&self) -> String {
        let end = self.console.metadata().map_or(0, |about| about.len());
        let text = self.said(end.saturating_sub(WORDS_BYTES_MAX)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n  ")
    }

    /// What its process 1 has written down since the last time.
    fn look(&mut self, cx: &mut dyn GuestContext) -> Result<(), Broken> {
        let mut text = Vec::new();
        read_from(self.home.status(), self.told, FILE_BYTES_MAX, &mut text)?;
        if text.is_empty() {
            return Ok(());
        }
        self.told += text.len() as u64;
        if self.told > FILE_BYTES_MAX {
            return Err(Broken::new(format!("its process 1 has said more than {} MiB", FILE_BYTES_MAX >> 20)));
        }
        let mut said = std::mem::take(&mut self.rest);
        said.push_str(&String::from_utf8_lossy(&text));
        let (lines, rest) = said.rsplit_once('\n').map_or((None, &said[..]), |(lines, rest)| (Some(lines), rest));
        self.rest = rest.to_owned();
        lines.into_iter().flat_map(|lines| lines.split('\n')).try_for_each(|line| self.told(line, cx))
    }

    fn told(&mut self, line: &str, cx: &mut dyn GuestContext) -> Result<(), Broken> {
        let words: Vec<&str> = line.split(' ').collect();
        let strange = || Broken::new(format!("its process 1 says '{}', which means nothing", line.escape_debug()));
        // Whoever is root in the guest can write what it says: about programs of its own.
        let known = &self.programs;
        let id = |text: &str| text.parse().map(ProgramId).ok().filter(|id| known.contains_key(id)).ok_or_else(strange);
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        match words.as_slice() {
            ["ready"] => self.ready = true,
            ["start", program] => {
                let program = id(program)?;
                self.programs.entry(program).or_default().runs = true;
                cx.started(program);
            }
            ["end", program, how, code, user_us, system_us, _] => {
                let program = id(program)?;
                self.collect(program, cx)?;
                self.programs.entry(program).or_default().runs = false;
                let cpu = Duration::from_micros(number(user_us).saturating_add(number(system_us)));
                cx.used(program, Usage { cpu, ..Usage::default() });
                let code = number(code) as i32;
                cx.ended(program, if *how == "kill" { Status::Killed(code) } else { Status::Exited(code) });
            }
            ["lost", program, why @ ..] => {
                let name = self.programs.get(&id(program)?).map_or("?", |program| program.name.as_str());
                return Err(Broken::new(format!("program '{name}' cannot start: {}", why.join(" "))));
            }
            ["refused", kind, "no", "such", "record"] => {
                let kind = kind.trim_end_matches(':');
                return Err(Broken::new(format!(
                    "its kernel is older than this weft and does not know '{kind}': `weft kernel build` makes a new one"
                )));
            }
            ["refused" | "failed", ..] => return Err(Broken::new(line.replacen("refused", "its kernel refused", 1))),
            _ => return Err(strange()),
        }
        Ok(())
    }

    /// What its process 1 has seen of TCP connections.
    fn tell_samples(&self, cx: &mut dyn GuestContext) -> Result<(), Broken> {
        let Some(file) = self.home.samples().map_err(in_files)? else { return Ok(()) };
        let mut text = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
        for line in String::from_utf8_lossy(&text).lines() {
            let (at, row) = sample(line).ok_or_else(|| Broken::new(format!("its process 1 has seen '{line}'")))?;
            cx.sampled(self.booted + Duration::from_nanos(at), row);
        }
        Ok(())
    }

    /// What a program has written since the last time.
    fn collect(&mut self, id: ProgramId, cx: &mut dyn GuestContext) -> Result<(), Broken> {
        let Some(program) = self.programs.get_mut(&id) else { return Ok(()) };
        for (place, (name, stream)) in [("output", Stream::Output), ("error", Stream::Error)].into_iter().enumerate() {
            let Some(mut file) = self.home.open(&format!("{name}.{}", id.0)).map_err(in_files)? else { continue };
            file.seek(io::SeekFrom::Start(program.read[place]))?;
            let mut bytes = Vec::new();
            let left = program.output_max.saturating_sub(program.read[place]);
            program.read[place] += file.take(left).read_to_end(&mut bytes)? as u64;
            if !bytes.is_empty() {
                cx.output(id, stream, &bytes);
            }
        }
        Ok(())
    }

    fn try_run(&mut self, cx: &mut dyn GuestContext) -> Result<(), Broken> {
        if let Some(identity) = self.identity.take() {
            cx.told(&identity);
        }
        if self.listener.is_some() {
            let met = self.meet()?;
            if let Some(debugged) = self.attach.take_if(|_| met) {
                let held = Held { pid: self.child.id(), executable: self.binary.clone(), base: 0 };
                with_all(|| (debugged.attach)(&held));
            }
            if met && self.serve(cx)? {
                self.look(cx)?;
            }
            return Ok(());
        }
        while !self.off {
            let (now, limit) = (self.own(cx.now()), self.own(cx.limit()));
            let Some(calendar) = &mut self.calendar else { return Ok(()) };
            let wanted = calendar.wanted().max(now);
            if wanted >= limit {
                return Ok(());
            }
            calendar.set_now(wanted);
            let at = self.of_world(wanted);
            cx.advance(at);
            if let Some(calendar) = &mut self.calendar {
                calendar.run(limit)?;
            }
            let went_on = self.serve(cx)?;
            self.look(cx)?;
            if !went_on {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Files for people: what it said, and what it counted.
    fn leave(&mut self, cx: &mut dyn GuestContext) -> Result<(), Broken> {
        let console = self.said(0)?;
        // What its process says before the kernel begins is about the host.
        let begins = console.windows(KERNEL_BEGINS.len()).position(|some| some == KERNEL_BEGINS).unwrap_or(0);
        cx.leaves("console".into(), console.get(begins..).unwrap_or_default().to_vec());
        if !self.counts {
            return Ok(());
        }
        self.end_in_order()?;
        for (name, contents) in self.home.counted()? {
            cx.leaves(Path::new(COVERAGE).join(name), contents);
        }
        Ok(())
    }

    /// A kernel that counts writes its counts when it is told to end.
    fn end_in_order(&mut self) -> Result<(), Broken> {
        self.off = true;
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::TERM)?;
        let late = || Broken::new(format!("its kernel has not written within {} s what it counted", COUNTS_WRITTEN_MAX.as_secs()));
        self.end_within(COUNTS_WRITTEN_MAX)?.ok_or_else(late).map(drop)
    }

    /// It cannot go on: the world is told, with the last that it said.
    fn or_fail(&mut self, result: Result<(), Broken>, cx: &mut dyn GuestContext) {
        let Err(Broken(why)) = result else { return };
        self.off = true;
        self.calendar = None;
        let words = self.last_words();
        cx.fail(readable(&if words.is_empty() { why } else { format!("{why}; the last of its console:\n  {words}") }));
    }

    fn waits_for(&self) -> &'static str {
        if self.off { "its kernel is off" } else { "runs on a Linux kernel" }
    }
}

/// For a terminal: what comes from a guest may not move anything there.
fn readable(text: &str) -> String {
    text.chars().fold(String::new(), |mut said, letter| {
        match letter {
            '\n' => said.push(letter),
            '\t' => said.push(' '),
            _ if letter.is_control() => said.extend(letter.escape_default()),
            _ => said.push(letter),
        }
        said
    })
}

/// What stands in a file from a byte on, so much at most (and up to a chunk more).
fn read_from(file: &File, from: u64, bytes_max: u64, text: &mut Vec<u8>) -> io::Result<()> {
    let mut room = [0; 4096];
    while (text.len() as u64) < bytes_max {
        match file.read_at(&mut room, from + text.len() as u64)? {
            0 => break,
            some => text.extend_from_slice(&room[..some]),
        }
    }
    Ok(())
}

/// What is wrong with a file that is read as it runs.
fn in_files(error: io::Error) -> Broken {
    Broken::new(error.to_string())
}

/// Numbers of a connection in the order in which process 1 writes them, by the names of TCP_INFO.
const SAMPLED: [&str; 9] =
    ["snd_cwnd", "snd_ssthresh", "rtt_us", "rttvar_us", "unacked", "total_retrans", "bytes_acked", "bytes_received", "delivery_rate"];

/// A line of process 1's about a TCP connection: its time, and a row.
fn sample(line: &str) -> Option<(u64, serde_json::Value)> {
    let mut words = line.split(' ');
    let mut word = || words.next();
    let at = word()?.parse().ok()?;
    let end =
        |address: &str, port: &str| Some(SocketAddr::new(address.parse::<IpAddr>().ok()?.to_canonical(), port.parse().ok()?).to_string());
    let (local, remote) = (end(word()?, word()?)?, end(word()?, word()?)?);
    let mut row = serde_json::json!({"local": local, "remote": remote, "state": word()?});
    for name in SAMPLED {
        row[name] = word()?.parse::<u64>().ok()?.into();
    }
    Some((at, row))
}

impl Guest for Machine {
    fn next(&self) -> Instant {
        match &self.calendar {
            _ if self.off => Instant::FAR_FUTURE,
            Some(calendar) => self.of_world(calendar.wanted()),
            None => self.booted,
        }
    }

    fn receive(&mut self, cx: &mut dyn GuestContext, port: usize, frame: &Frame) {
        let Some(number) = self.device_of.get(port).copied().filter(|_| !self.off && self.calendar.is_some()) else { return };
        let now = self.own(cx.now());
        if let Some(calendar) = &mut self.calendar {
            calendar.set_now(now);
        }
        let Some(device) = self.devices.get_mut(number) else { return };
        let result = device.receive(frame, &mut self.room).and_then(|wanted| if wanted { self.call(number, false) } else { Ok(()) });
        self.or_fail(result, cx);
    }

    fn left(&mut self, cx: &mut dyn GuestContext, port: usize, token: u32) {
        let Some(number) = self.device_of.get(port).copied().filter(|_| !self.off && self.calendar.is_some()) else { return };
        let now = self.own(cx.now());
        if let Some(calendar) = &mut self.calendar {
            calendar.set_now(now);
        }
        let Some(device) = self.devices.get_mut(number) else { return };
        let result = device.left(token).and_then(|wanted| if wanted { self.call(number, true) } else { Ok(()) });
        self.or_fail(result, cx);
    }

    fn run(&mut self, cx: &mut dyn GuestContext) {
        let result = self.try_run(cx);
        self.or_fail(result, cx);
    }

    fn finish(&mut self, cx: &mut dyn GuestContext) {
        let ids: Vec<ProgramId> = self.programs.iter().filter(|(_, program)| program.runs).map(|(id, _)| *id).collect();
        let result =
            ids.into_iter().try_for_each(|id| self.collect(id, cx)).and_then(|()| self.tell_samples(cx)).and_then(|()| self.leave(cx));
        self.or_fail(result, cx);
    }

    fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
    }

    fn waits(&self) -> Vec<(ProgramId, String)> {
        let running = self.programs.iter().filter(|(_, program)| program.runs);
        running.map(|(id, _)| (*id, self.waits_for().to_owned())).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        if let Err(error) = self.child.wait() {
            tracing::warn!("cannot wait for a kernel: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_says_moves_nothing_on_a_terminal() {
        assert_eq!(readable("über\n\tit\u{1b}[31m\u{7}\u{9b}"), "über\n it\\u{1b}[31m\\u{7}\\u{9b}");
    }
}
