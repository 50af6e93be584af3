//! Files under /proc that are made when a program opens them: what the kernel says there is the host's, or is never the same twice.
//!
//! A file is a memory file with the text of that moment. Of a process: stat, statm, status and what is like them; of the node: /proc/net.

use super::caller::{Caller, Posted};
use super::ids::{ProcessId, ThreadId};
use super::launch::Laid;
use super::machine::{self, Moment};
use super::object::{Body, Written};
use super::outcome::Outcome;
use super::outside::Outside;
use super::own_files::{OwnFile, Rights};
use super::settings::There;
use super::standard_files;
use super::state::{Process, State};
use super::sys_files::{self, Opened};
use super::tree::Tree;
use super::{mib, settings};
use std::fmt::Write as _;
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering::Relaxed;
use weft_core::{Op, Show};
use weft_intercept::memory::Memory as _;
use weft_intercept::sys::{self, Errno};
use weft_loader::abi::{self, Clock, kind};

/// Longest path that is looked at; the loader sends no longer ones.
const PATH_BYTES_MAX: usize = 96;
/// Ticks of 10 ms (USER_HZ), in nanoseconds.
const TICK: u64 = 10_000_000;
/// What every process is said to have: 64 MiB of addresses, 8 MiB of memory. How much it really has depends on the host.
const PAGES: u64 = 16_384;
const PAGES_PRESENT: u64 = 2048;
const PAGE_KIB: u64 = 4;

/// Names of files of counters below /proc/net.
pub(super) const COUNTED: [&str; 3] = ["netstat", "snmp", "snmp6"];

/// /proc/net/snmp and what is like it.
pub(super) fn counted(name: &str, outside: &mut dyn Outside) -> Option<String> {
    if !COUNTED.contains(&name) {
        return None;
    }
    let all = mib::counters(&outside.control(Op::Show(Show::Counters))?);
    let forwards = settings::read("ipv4/ip_forward", &Default::default(), outside).is_some_and(|text| text.trim() == "1");
    let ttl = settings::read("ipv4/ip_default_ttl", &Default::default(), outside).and_then(|text| text.trim().parse().ok()).unwrap_or(64);
    mib::file(name, &all, forwards, ttl)
}

/// /proc/PID/fdinfo/N of a process by its number outside. `number` is what a program wrote: a number as the kernel takes it, never a path.
fn descriptor(outer: u32, number: &str) -> Option<String> {
    let number: u32 = number.parse().ok().filter(|parsed: &u32| parsed.to_string() == number)?;
    let text = std::fs::read_to_string(format!("/proc/{outer}/fdinfo/{number}")).ok()?;
    Some(machine::plain_descriptor(&text))
}

/// A file with this text.
fn shows(text: &str, close_on_exec: bool) -> Result<Outcome, Errno> {
    let file = standard_files::input(text.as_bytes()).map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
    let inode = sys::inode(file.as_fd())? & abi::INODE;
    Ok(Outcome::Descriptor { file, word: kind::FILE << 56 | inode, close_on_exec })
}

impl Tree {
    /// A program opens a file under /proc: (path, O_CLOEXEC, whether the kernel has opened it, O_ACCMODE). 0: it is the kernel's. Or it asks whether the
    /// node has a setting of that name ([`abi::ASKS`]): 0, [`abi::IS_FILE`] or [`abi::IS_FOLDER`].
    ///
    /// # Errors
    /// EACCES: a setting of the node's may not be written, or not by this user; EFAULT.
    pub(super) fn open_proc_file(
        &mut self,
        thread: ThreadId,
        posted: &Posted,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let mut path = vec![0; (posted.arguments[1] as usize).min(PATH_BYTES_MAX)];
        caller.read(posted.arguments[0], &mut path)?;
        let (close_on_exec, there) = (posted.arguments[2] != 0, posted.arguments[3] != 0);
        let reads = posted.arguments[4] != libc::O_WRONLY as u64;
        if let Ok(path) = std::str::from_utf8(&path) {
            if posted.arguments[4] == abi::ASKS && sys_files::is_asked(path) {
                self.look_at_sys(outside);
                return Ok(Outcome::Done(0));
            }
            if let Some(file) = sys_files::file_of(path) {
                let how = (posted.arguments[4] != 0, reads, close_on_exec);
                return match self.open_sys_file(thread, file, how, outside)? {
                    Opened::Is(outcome) => Ok(outcome),
                    Opened::Shows(text) => shows(&text, close_on_exec),
                };
            }
        }
        let setting = std::str::from_utf8(&path).ok().and_then(|path| path.strip_prefix("/proc/sys/net/"));
        if posted.arguments[4] == abi::ASKS {
            if let Some(threads) = std::str::from_utf8(&path).ok().and_then(|path| self.threads_below(thread, path)) {
                return Ok(Outcome::Done(abi::HAS_THREADS + threads as i64));
            }
            let found = setting.and_then(|name| settings::is_there(name, outside));
            return Ok(Outcome::Done(match found {
                None => 0,
                Some(There::File) => abi::IS_FILE,
                Some(There::Folder) => abi::IS_FOLDER,
            }));
        }
        if let Some(name) = setting
            && posted.arguments[4] != 0
        {
            let name = &settings::known_as(name, outside);
            let Some(writable) = settings::is_writable(name, there || settings::is_there(name, outside).is_some()) else {
                return Ok(Outcome::Done(0));
            };
            if !writable || !self.manages_network(thread) {
                return Err(Errno(libc::EACCES));
            }
            return self.new_object(thread, Body::Setting { of: Written::Node(name.to_owned()), position: 0, reads }, false, close_on_exec);
        }
        if there
            && posted.arguments[4] != 0
            && let Some((pid, file)) = std::str::from_utf8(&path).ok().and_then(|path| self.own_file(thread, path))
        {
            return self.new_object(thread, Body::Setting { of: Written::Process(pid, file), position: 0, reads }, false, close_on_exec);
        }
        let text = std::str::from_utf8(&path).ok().and_then(|path| self.text_of(thread, path, there, outside));
        text.map_or(Ok(Outcome::Done(0)), |text| shows(&text, close_on_exec))
    }

    /// A file of a process that programs write, by its path.
    fn own_file(&self, thread: ThreadId, path: &str) -> Option<(u32, OwnFile)> {
        let (whose, name) = path.strip_prefix("/proc/")?.rsplit_once('/')?;
        let (first, task) = whose.split_once("/task/").map_or((whose, None), |(first, task)| (first, Some(task)));
        let process = match first {
            "self" | "thread-self" => self.tasks.process_of(thread).ok()?,
            number => self.tasks.process_by_pid(number.parse().ok()?)?,
        };
        if let Some(task) = task {
            let number: u32 = task.parse().ok()?;
            self.tasks.threads.values().find(|one| one.process == process && one.tid == number)?;
        }
        Some((self.tasks.processes.get(&process)?.pid, OwnFile::named(name)?))
    }

    /// What the process of a thread may write there.
    pub(super) fn rights_of(&self, thread: ThreadId) -> Rights {
        const CAP_SYS_RESOURCE: u32 = 24;
        const CAP_AUDIT_CONTROL: u32 = 30;
        let process = self.tasks.process_of(thread);
        let has = |capability: u32| process.as_ref().is_ok_and(|process| self.arena.may(*process, capability));
        Rights { resources: has(CAP_SYS_RESOURCE), audit: has(CAP_AUDIT_CONTROL) }
    }

    /// How many folders /proc/PID/task has, if a path is that. The kernel's own count lags behind threads that have just ended.
    fn threads_below(&self, thread: ThreadId, path: &str) -> Option<usize> {
        let (process, rest) = path.strip_prefix("/proc/")?.split_once('/')?;
        let process = match process {
            "self" | "thread-self" => self.tasks.process_of(thread).ok()?,
            number => self.tasks.process_by_pid(number.parse().ok()?)?,
        };
        (rest.trim_end_matches('/') == "task").then(|| self.tasks.processes.get(&process).map(|one| one.threads.len()))?
    }

    /// net/sysctl_net.c, net_ctl_permissions: "Allow network administrator to have same access as root." Everybody else may only read.
    pub(super) fn manages_network(&self, thread: ThreadId) -> bool {
        const CAP_NET_ADMIN: u32 = 12;
        self.may(thread, CAP_NET_ADMIN)
    }

    /// May it send and receive packets as a whole?
    pub(super) fn sends_raw(&self, thread: ThreadId) -> bool {
        const CAP_NET_RAW: u32 = 13;
        self.may(thread, CAP_NET_RAW)
    }

    fn may(&self, thread: ThreadId, capability: u32) -> bool {
        const EFFECTIVE: usize = 1;
        self.tasks
            .process_of(thread)
            .is_ok_and(|process| self.arena.process(process).users[EFFECTIVE].load(Relaxed) == 0 || self.arena.may(process, capability))
    }

    /// A program wants to write where nothing of the node's is yet. The other programs are told, and follow. What cannot be done is a row of calls: the program
    /// sees only that it may not write.
    ///
    /// # Errors
    /// EROFS: it may not write anywhere where it could not before.
    pub(super) fn lay_layers(&mut self) -> Result<Outcome, Errno> {
        let arena = std::sync::Arc::clone(&self.arena);
        let header = arena.header();
        loop {
            let missing = self.init.lay_layers(&arena);
            header.closed.store(self.init.closed(), Relaxed);
            let (laid, told) = match missing {
                Ok(Laid { wanted, missing }) => {
                    let laid = missing.len() < wanted;
                    (laid, missing.into_iter().map(|(name, errno)| (format!("writing below /{}", name.display()), errno)).collect())
                }
                Err((what, errno)) => (false, vec![(format!("writing in folders of the host's (cannot {what})"), errno)]),
            };
            for (request, errno) in told {
                tracing::warn!(node = %self.config.name, "{request} is not possible: the kernel lays no files of the node's over the host's: {errno:?}");
                self.calls.unsupported(request, errno);
            }
            if laid {
                header.layers.fetch_add(1, Relaxed);
                return Ok(Outcome::Done(0));
            }
            if self.init.closed() == 0 {
                return Err(Errno(libc::EROFS));
            }
        }
    }

    /// The text of a file; None: it is the kernel's.
    fn text_of(&self, thread: ThreadId, path: &str, there: bool, outside: &mut dyn Outside) -> Option<String> {
        let whole = path.strip_prefix("/proc/")?;
        // What is not the node's is empty: the kernel would show a namespace that nothing goes through.
        let net = |name: &str, outside: &mut dyn Outside| {
            weft_intercept::proc_net::file(name, outside.stack()).or_else(|| counted(name, outside)).or_else(|| there.then(String::new))
        };
        if let Some(name) = whole.strip_prefix("sys/net/") {
            return settings::read(&settings::known_as(name, outside), &self.settings_written, outside);
        }
        let machine = || machine::file(whole, &self.moment(), there);
        let Some((first, rest)) = whole.split_once('/') else { return machine() };
        if first == "net" {
            return net(rest, outside);
        }
        let mut named = None;
        let process = match first {
            "self" => self.tasks.process_of(thread).ok()?,
            "thread-self" => {
                named = self.tasks.threads.get(&thread).map(|one| one.tid);
                self.tasks.process_of(thread).ok()?
            }
            "1" => {
                let rest = rest.strip_prefix("task/1/").unwrap_or(rest);
                if let Some(name) = rest.strip_prefix("net/") {
                    return net(name, outside);
                }
                if let Some(number) = rest.strip_prefix("fdinfo/") {
                    return descriptor(self.init.outer(), number);
                }
                return machine::first_process(rest).or_else(|| machine::of_any_process(rest).filter(|_| there));
            }
            number => match number.parse() {
                // Threads have folders, too, which no listing shows.
                Ok(number) => match self.tasks.process_by_pid(number) {
                    Some(process) => process,
                    None => {
                        named = Some(number);
                        self.tasks.threads.values().find(|one| one.tid == number)?.process
                    }
                },
                Err(_) => return machine(),
            },
        };
        if let Some(name) = rest.strip_prefix("net/") {
            return net(name, outside);
        }
        let (task, rest) = match rest.strip_prefix("task/").map(|rest| rest.split_once('/')) {
            Some(Some((task, rest))) => (Some(task.parse().ok()?), rest),
            Some(None) => return None,
            None => (named, rest),
        };
        let one = self.tasks.processes.get(&process)?;
        match rest {
            "stat" => Some(self.stat_of(one, task)),
            "statm" => Some(format!("{PAGES} {PAGES_PRESENT} {} 1 0 {} 0\n", PAGES_PRESENT / 2, PAGES / 2)),
            "status" => Some(self.status_of(process, one, task)),
            "io" => Some("rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n".to_owned()),
            "schedstat" => Some(format!("{} 0 1\n", one.cpu)),
            "sched" => Some(format!("{} ({}, #threads: {})\n", self.comm(one, task), task.unwrap_or(one.pid), one.threads.len())),
            "maps" => Some(machine::plain_maps(&std::fs::read_to_string(format!("/proc/{}/maps", one.outer)).ok()?)),
            "limits" => Some(self.limits_of(process)),
            name if let Some(file) = OwnFile::named(name) => there.then(|| one.own_files.text(file)),
            _ => match rest.strip_prefix("fdinfo/") {
                Some(number) => descriptor(one.outer, number),
                None => machine::of_any_process(rest).filter(|_| there),
            },
        }
    }

    fn moment(&self) -> Moment<'_> {
        let header = self.arena.header();
        let (epoch, boot) = (header.clocks.epoch.load(Relaxed), header.clocks.boot.load(Relaxed));
        Moment {
            up_ns: header.present(Clock::Monotonic),
            // Who says that it is 1970 has booted before.
            booted_ns: (epoch as i64).saturating_sub(boot as i64).max(0) as u64,
            cpu_ns: self.tasks.processes.values().map(|one| one.cpu).sum(),
            runnable: self.tasks.queue.len() + 1,
            last_pid: self.last_pid,
            memory: header.memory.load(Relaxed),
            name: &self.config.name,
        }
    }

    /// As in fs/proc/base.c, proc_pid_limits.
    fn limits_of(&self, process: ProcessId) -> String {
        let mut text = format!("{:<25} {:<20} {:<20} {:<10}\n", "Limit", "Soft Limit", "Hard Limit", "Units");
        let word = |value: u64| if value == libc::RLIM_INFINITY { "unlimited".to_owned() } else { value.to_string() };
        for ((name, unit), limit) in machine::LIMITS.iter().zip(&self.arena.process(process).limits) {
            let [soft, hard] = [&limit[0], &limit[1]].map(|value| word(value.load(Relaxed)));
            let _ = writeln!(text, "{name:<25} {soft:<20} {hard:<20} {unit:<10}");
        }
        text
    }

    /// The name of a process, or of a thread of it, as ps shows it; they can change it.
    fn comm(&self, one: &Process, task: Option<u32>) -> String {
        let path = match task.filter(|task| *task != one.pid) {
            // What threads are called outside nobody knows but the kernel; in the node's /proc they have the node's numbers.
            Some(task) => format!("/proc/{}/root/proc/{}/task/{task}/comm", self.init.outer(), one.pid),
            None => format!("/proc/{}/comm", one.outer),
        };
        let name = std::fs::read_to_string(path).unwrap_or_else(|_| one.name.clone());
        name.trim_end().to_owned()
    }

    /// The state of a thread, the first one's without a number.
    fn letter(&self, one: &Process, task: Option<u32>) -> &'static str {
        let tid = task.unwrap_or(one.pid);
        let threads = one.threads.iter().filter_map(|thread| self.tasks.threads.get(thread));
        match threads.filter(|thread| thread.tid == tid).map(|thread| &thread.state).next() {
            _ if one.status.is_some() => "Z",
            _ if one.stopped.is_some() => "T",
            Some(State::Runnable | State::Starting) => "R",
            Some(_) => "S",
            // It has ended before the others.
            None => "Z",
        }
    }

    fn parent_of(&self, one: &Process) -> u32 {
        one.parent.and_then(|id| self.tasks.processes.get(&id)).map_or(1, |parent| parent.pid)
    }

    /// proc_pid_stat(5)
    fn stat_of(&self, one: &Process, task: Option<u32>) -> String {
        let cpu = match task {
            Some(tid) => self.tasks.threads.values().find(|thread| thread.tid == tid).map_or(0, |thread| thread.cpu),
            None => one.cpu,
        };
        let bytes = PAGES * PAGE_KIB * 1024;
        let mut line = format!("{} ({}) {} ", task.unwrap_or(one.pid), self.comm(one, task), self.letter(one, task));
        // ppid pgrp session tty_nr tpgid flags; faults; utime stime cutime cstime; priority nice threads itrealvalue starttime vsize rss rsslim
        let _ = write!(
            line,
            "{} {} {} 0 -1 0 0 0 0 0 {} 0 0 0 20 0 {} 0 ",
            self.parent_of(one),
            one.group,
            one.session,
            cpu / TICK,
            one.threads.len()
        );
        let _ = writeln!(
            line,
            "{} {bytes} {PAGES_PRESENT} 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 {} 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
            one.began_up_ns / TICK,
            one.exit_signal
        );
        line
    }

    /// proc_pid_status(5)
    fn status_of(&self, process: ProcessId, one: &Process, task: Option<u32>) -> String {
        let slot = self.arena.process(process);
        let four =
            |words: &[std::sync::atomic::AtomicU32; 4]| words.iter().map(|word| format!("\t{}", word.load(Relaxed))).collect::<String>();
        let groups: Vec<String> =
            slot.other_groups.iter().take(slot.group_count.load(Relaxed) as usize).map(|group| group.load(Relaxed).to_string()).collect();
        let thread =
            one.threads.iter().find(|thread| task.is_none_or(|tid| self.tasks.threads.get(thread).is_some_and(|one| one.tid == tid)));
        let (blocked, own) = thread.map_or((0, 0), |thread| {
            (self.arena.channel(*thread).mask.load(Relaxed), self.tasks.threads.get(thread).map_or(0, |one| one.queue.bits()))
        });
        let signals = |wanted: &dyn Fn(u64) -> bool| {
            let is = |signal: usize| slot.actions.get(signal).is_some_and(|action| wanted(action.handler.load(Relaxed)));
            (1..=64).filter(|signal| is(*signal)).fold(0_u64, |bits, signal| bits | 1 << (signal - 1))
        };
        let capabilities = |at: usize| abi::CAPABILITIES & !slot.capabilities_off.get(at).map_or(0, |word| word.load(Relaxed));
        let state = match self.letter(one, task) {
            "Z" => "Z (zombie)",
            "T" => "T (stopped)",
            "R" => "R (running)",
            _ => "S (sleeping)",
        };
        let kernel = std::fs::read_to_string(format!("/proc/{}/status", one.outer)).unwrap_or_default();
        let umask = kernel.lines().find_map(|line| line.strip_prefix("Umask:")).map(str::trim);
        let mut text = String::new();
        let _ = write!(
            text,
            "Name:\t{}\nUmask:\t{}\nState:\t{state}\nTgid:\t{pid}\nNgid:\t0\nPid:\t{}\nPPid:\t{}\nTracerPid:\t0\nUid:{}\nGid:{}\nFDSize:\t64\nGroups:\t{} \n",
            self.comm(one, task),
            umask.unwrap_or("0022"),
            task.unwrap_or(one.pid),
            self.parent_of(one),
            four(&slot.users),
            four(&slot.groups),
            groups.join(" "),
            pid = one.pid,
        );
        let (size, present) = (PAGES * PAGE_KIB, PAGES_PRESENT * PAGE_KIB);
        let _ = write!(
            text,
            "VmPeak:\t{size:8} kB\nVmSize:\t{size:8} kB\nVmLck:\t       0 kB\nVmPin:\t       0 kB\nVmHWM:\t{present:8} kB\nVmRSS:\t{present:8} kB\nVmSwap:\t       0 kB\nThreads:\t{}\n",
            one.threads.len()
        );
        let _ = write!(
            text,
            "SigQ:\t0/4096\nSigPnd:\t{own:016x}\nShdPnd:\t{:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t{:016x}\nSigCgt:\t{:016x}\n",
            one.queue.bits(),
            signals(&|handler| handler == 1),
            signals(&|handler| handler > 1)
        );
        let _ = write!(
            text,
            "CapInh:\t{:016x}\nCapPrm:\t{:016x}\nCapEff:\t{:016x}\nCapBnd:\t{:016x}\nCapAmb:\t0000000000000000\nNoNewPrivs:\t0\nSeccomp:\t0\n",
            slot.inheritable.load(Relaxed),
            capabilities(1),
            capabilities(0),
            abi::CAPABILITIES
        );
        text + "Cpus_allowed:\t1\nCpus_allowed_list:\t0\nMems_allowed_list:\t0\nvoluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0\n"
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Files};
    use super::*;

    fn node(closed: &[&str]) -> Tree {
        let mut tree = Tree::new(Config { files: Some(Files::default()), ..Config::default() }).expect("a node");
        tree.init.close(closed);
        tree
    }

    #[test]
    fn a_layer_that_cannot_be_is_told() {
        let mut tree = node(&["there is no such folder"]);
        assert_eq!(tree.lay_layers().map(|_| ()), Err(Errno(libc::EROFS)));
        let rows = tree.calls().unsupported_rows();
        assert!(matches!(&rows[..], [row] if row.request == "writing below /there is no such folder"), "{rows:?}");

        let mut tree = node(&["usr", "there is no such folder"]);
        assert_eq!(tree.lay_layers().map(|_| ()), Ok(()));
        assert_eq!(tree.calls().unsupported_rows().len(), 1);

        let mut tree = node(&["usr"]);
        assert_eq!(tree.lay_layers().map(|_| ()), Ok(()));
        assert!(tree.calls().unsupported_rows().is_empty(), "{:?}", tree.calls().unsupported_rows());
    }
}
