//! What /proc says about the machine: every node is the same one, whose clock is the virtual one. What is not listed here is empty (files that tell how the
//! host is doing) or the kernel's (settings of the system).

use super::own_files::{OwnFile, OwnFiles};
use std::fmt::Write as _;

/// What the files may depend on.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Nanoseconds of CLOCK_BOOTTIME.
    pub up_ns: u64,
    /// Nanoseconds since 1970 at the node's boot (CLOCK_BOOTTIME 0).
    pub booted_ns: u64,
    /// CPU time of all processes so far.
    pub cpu_ns: u64,
    /// Threads that could run.
    pub runnable: usize,
    /// The number that was given out last.
    pub last_pid: u32,
    /// Bytes that it has, half of them free: what sysinfo(2) says too.
    pub memory: u64,
    /// The node's name.
    pub name: &'a str,
}

/// As uname(2).
pub const RELEASE: &str = "6.1.0-weft";
/// Of x86-64-v2: scripts look here for what every processor since 2009 has.
const CPU: &str = "processor\t: 0\nvendor_id\t: weft\ncpu family\t: 6\nmodel\t\t: 0\nmodel name\t: weft\nstepping\t: 0\ncpu MHz\t\t: 1000.000\ncache size\t: 1024 KB\nphysical id\t: 0\nsiblings\t: 1\ncore id\t\t: 0\ncpu cores\t: 1\napicid\t\t: 0\nfpu\t\t: yes\nfpu_exception\t: yes\ncpuid level\t: 13\nwp\t\t: yes\nflags\t\t: fpu tsc cx8 cmov mmx fxsr sse sse2 syscall nx lm pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm\nbogomips\t: 2000.00\nclflush size\t: 64\naddress sizes\t: 48 bits physical, 48 bits virtual\n\n";
const PAGING: &str = "nr_free_pages 131072\npgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\n";
/// Files whose text is always the same.
const SAME: [(&str, &str); 26] = [
    ("loadavg", "0.00 0.00 0.00 1/1 1\n"),
    ("cpuinfo", CPU),
    ("vmstat", PAGING),
    ("cmdline", "weft\n"),
    ("swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
    ("partitions", "major minor  #blocks  name\n\n"),
    ("interrupts", "           CPU0       \n"),
    ("softirqs", "                    CPU0       \n"),
    ("filesystems", "nodev\tproc\nnodev\ttmpfs\n\tweft\n"),
    ("pressure/cpu", PRESSURE),
    ("pressure/io", PRESSURE),
    ("pressure/memory", PRESSURE),
    ("sys/kernel/osrelease", "6.1.0-weft\n"),
    ("sys/kernel/ostype", "Linux\n"),
    ("sys/kernel/version", "#1 weft\n"),
    ("sys/kernel/random/entropy_avail", "256\n"),
    ("sys/kernel/random/poolsize", "256\n"),
    ("sys/kernel/pty/nr", "0\n"),
    ("sys/kernel/threads-max", "8192\n"),
    ("sys/kernel/pid_max", "32768\n"),
    ("sys/fs/file-nr", "0\t0\t9223372036854775807\n"),
    ("sys/fs/file-max", "9223372036854775807\n"),
    ("sys/fs/inode-nr", "1\t0\n"),
    ("sys/fs/inode-state", "1\t0\t0\t0\t0\t0\t0\n"),
    ("sys/fs/dentry-state", "1\t0\t45\t0\t0\t0\n"),
    ("sys/fs/aio-nr", "0\n"),
];
const PRESSURE: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
/// What the limits of a process are called, and in what they are counted (fs/proc/base.c, lnames), by their numbers.
pub const LIMITS: [(&str, &str); 16] = [
    ("Max cpu time", "seconds"),
    ("Max file size", "bytes"),
    ("Max data size", "bytes"),
    ("Max stack size", "bytes"),
    ("Max core file size", "bytes"),
    ("Max resident set", "bytes"),
    ("Max processes", "processes"),
    ("Max open files", "files"),
    ("Max locked memory", "bytes"),
    ("Max address space", "bytes"),
    ("Max file locks", "locks"),
    ("Max pending signals", "signals"),
    ("Max msgqueue size", "bytes"),
    ("Max nice priority", ""),
    ("Max realtime priority", ""),
    ("Max realtime timeout", "us"),
];

/// The text of a file by its path below /proc; None: it is the kernel's. `there`: the kernel has such a file, and lets it be read.
pub fn file(path: &str, moment: &Moment<'_>, there: bool) -> Option<String> {
    if let Some((_, text)) = SAME.iter().find(|(name, _)| *name == path) {
        return Some((*text).to_owned());
    }
    let hundredths = |ns: u64| format!("{}.{:02}", ns / 1_000_000_000, ns % 1_000_000_000 / 10_000_000);
    match path {
        // The one processor computes, or is idle.
        "uptime" => Some(format!("{} {}\n", hundredths(moment.up_ns), hundredths(moment.up_ns.saturating_sub(moment.cpu_ns)))),
        "stat" => {
            let ticks = |ns: u64| ns / 10_000_000;
            let cpu = format!("{} 0 0 {} 0 0 0 0 0 0", ticks(moment.cpu_ns), ticks(moment.up_ns.saturating_sub(moment.cpu_ns)));
            let mut text = format!("cpu  {cpu}\ncpu0 {cpu}\nintr 0\nctxt 0\nbtime {}\n", moment.booted_ns / 1_000_000_000);
            let _ = write!(
                text,
                "processes {}\nprocs_running {}\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n",
                moment.last_pid,
                moment.runnable.max(1)
            );
            Some(text)
        }
        "meminfo" => Some(memory(moment.memory)),
        "version" => Some(format!("Linux version {RELEASE} (weft) #1 weft\n")),
        "sys/kernel/hostname" => Some(format!("{}\n", moment.name)),
        "sys/kernel/ns_last_pid" => Some(format!("{}\n", moment.last_pid)),
        // Settings that the kernel changes by itself.
        "sys/kernel/perf_event_max_sample_rate" => there.then(|| "100000\n".to_owned()),
        "sys/kernel/hung_task_warnings" => there.then(|| "10\n".to_owned()),
        "sys/kernel/tainted" | "sys/kernel/hung_task_detect_count" => there.then(|| "0\n".to_owned()),
        // A setting of the system, or a list of what there is: both are named by what begins their path.
        _ if path.starts_with("sys/") => None,
        // The node's own (a namespace), whose times the loader makes plain.
        "sysvipc/shm" | "sysvipc/sem" | "sysvipc/msg" => None,
        _ => there.then(String::new),
    }
}

fn memory(bytes: u64) -> String {
    let (all, free) = (bytes >> 10, bytes >> 11);
    let rows =
        [("MemTotal", all), ("MemFree", free), ("MemAvailable", free), ("Buffers", 0), ("Cached", 0), ("SwapCached", 0), ("Active", 0)];
    let more = [("Inactive", 0), ("SwapTotal", 0), ("SwapFree", 0), ("Shmem", 0), ("SReclaimable", 0)];
    rows.iter().chain(&more).map(|(name, value)| format!("{:<15} {value:8} kB\n", format!("{name}:"))).collect()
}

/// /proc/1: what starts programs.
pub fn first_process(rest: &str) -> Option<String> {
    Some(match rest {
        "stat" => format!("1 (init) S 0 1 1 0 -1 {}100 4096 1 18446744073709551615{}\n", "0 ".repeat(13), " 0".repeat(27)),
        "statm" => "1 1 0 0 0 0 0\n".to_owned(),
        "status" => "Name:\tinit\nState:\tS (sleeping)\nTgid:\t1\nPid:\t1\nPPid:\t0\nTracerPid:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nThreads:\t1\n".to_owned(),
        "comm" => "init\n".to_owned(),
        "cmdline" => "weft-init\0".to_owned(),
        "environ" | "maps" | "smaps" | "smaps_rollup" | "numa_maps" | "sched" | "schedstat" | "io" | "limits" | "auxv" => String::new(),
        _ => return None,
    })
}

/// Files of any process that say what weft was started with, or the host's numbers of users.
pub fn of_any_process(rest: &str) -> Option<String> {
    Some(match rest {
        "oom_score" => "0\n".to_owned(),
        // Nobody has logged in.
        "sessionid" => u32::MAX.to_string(),
        "uid_map" | "gid_map" | "projid_map" => "         0          0 4294967295\n".to_owned(),
        "setgroups" => "allow\n".to_owned(),
        "personality" => "00040000\n".to_owned(),
        "autogroup" => "/autogroup-1 nice 0\n".to_owned(),
        "wchan" => "0".to_owned(),
        // Numbers of mounts and devices are the host's.
        "cgroup" => "0::/\n".to_owned(),
        "mountinfo" => {
            "1 0 0:1 / / rw,relatime - weft weft rw\n2 1 0:2 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n".to_owned()
        }
        "mounts" | "mountstats" => "weft / weft rw,relatime 0 0\nproc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n".to_owned(),
        "smaps" | "smaps_rollup" | "numa_maps" | "arch_status" | "ksm_stat" | "latency" | "patch_state" | "timens_offsets" | "cpuset"
        | "cpu_resctrl_groups" | "syscall" | "stack" | "pagemap" => String::new(),
        name => return OwnFile::named(name).map(|file| OwnFiles::default().text(file)),
    })
}

/// /proc/PID/maps as the kernel has it, without the host's numbers of devices and files.
pub fn plain_maps(text: &str) -> String {
    let mut known: Vec<&str> = Vec::new();
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        // address perms offset dev inode pathname
        let mut fields = line.splitn(6, ' ');
        let [Some(address), Some(permissions), Some(offset), Some(device), Some(rest), path] = std::array::from_fn(|_| fields.next())
        else {
            continue;
        };
        let path = path.unwrap_or("").trim_start();
        let number = match rest {
            "0" => 0,
            inode => {
                let key = inode;
                known.iter().position(|one| *one == key).unwrap_or_else(|| {
                    known.push(key);
                    known.len() - 1
                }) + 1
            }
        };
        let device = if number == 0 { device } else { "00:01" };
        let _ = match path {
            "" => writeln!(plain, "{address} {permissions} {offset} {device} {number} "),
            path => writeln!(plain, "{:<72} {path}", format!("{address} {permissions} {offset} {device} {number}")),
        };
    }
    plain
}

/// /proc/PID/fdinfo/N: only what is the program's own affair.
pub fn plain_descriptor(text: &str) -> String {
    let own = |line: &&str| ["pos:", "flags:", "eventfd-count:"].iter().any(|name| line.starts_with(name));
    let mut plain = String::new();
    for line in text.lines() {
        // Of a pidfd: "Pid" is the host's number, and the last of "NSpid" the node's.
        if let Some(number) = line.strip_prefix("NSpid:").and_then(|numbers| numbers.split_whitespace().next_back()) {
            let _ = writeln!(plain, "Pid:\t{number}\nNSpid:\t{number}");
        }
        if !own(&line) {
            continue;
        }
        let _ = writeln!(plain, "{line}");
        if line.starts_with("flags:") {
            plain.push_str("mnt_id:\t1\n");
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Moment<'_> = Moment {
        up_ns: 1_250_000_000,
        booted_ns: 1_893_455_999_000_000_000,
        cpu_ns: 10_000_000,
        runnable: 1,
        last_pid: 7,
        memory: 1 << 30,
        name: "a",
    };

    #[test]
    fn the_machine_shows_virtual_time() {
        assert_eq!(file("uptime", &MOMENT, true).unwrap(), "1.25 1.24\n");
        assert!(file("stat", &MOMENT, true).unwrap().starts_with("cpu  1 0 0 124 0 0 0 0 0 0\n"));
        assert!(file("stat", &MOMENT, true).unwrap().contains("\nbtime 1893455999\n"));
        assert_eq!(file("sys/kernel/hostname", &MOMENT, true).unwrap(), "a\n");
    }

    #[test]
    fn what_nobody_knows_is_empty_if_it_is_there() {
        assert_eq!(file("zoneinfo", &MOMENT, true).as_deref(), Some(""));
        assert_eq!(file("zoneinfo", &MOMENT, false), None);
        assert_eq!(file("sys/kernel/panic", &MOMENT, true), None);
        assert_eq!(file("sys/kernel/tainted", &MOMENT, true).as_deref(), Some("0\n"));
        assert_eq!(file("sys/kernel/tainted", &MOMENT, false), None);
    }

    #[test]
    fn maps_lose_the_hosts_numbers() {
        let text = "560000000000-560000003000 r--p 00000000 00:48 3366914                    /bin/true\n7ffff0000000-7ffff0001000 rw-p 00000000 00:00 0 \n\
                    7fff00000000-7fff00001000 r-xp 00001000 08:01 77 /lib/x y\n560000003000-560000004000 r-xp 00003000 00:48 3366914 /bin/true\n";
        let plain = plain_maps(text);
        let lines: Vec<&str> = plain.lines().collect();
        assert!(lines[0].starts_with("560000000000-560000003000 r--p 00000000 00:01 1 ") && lines[0].ends_with(" /bin/true"), "{plain}");
        assert_eq!(lines[1], "7ffff0000000-7ffff0001000 rw-p 00000000 00:00 0 ");
        assert!(lines[2].contains(" 00:01 2 ") && lines[2].ends_with(" /lib/x y"), "{plain}");
        assert!(lines[3].contains(" 00:01 1 "), "{plain}");
        assert_eq!(plain_maps("garbage\n"), "");
    }

    #[test]
    fn descriptors_keep_what_is_their_own() {
        assert_eq!(plain_descriptor("pos:\t5\nflags:\t02\nmnt_id:\t77\nino:\t99\ntfd: 3\n"), "pos:\t5\nflags:\t02\nmnt_id:\t1\n");
        assert_eq!(plain_descriptor("pos:\t0\nPid:\t4711\nNSpid:\t4711\t12\t3\n"), "pos:\t0\nPid:\t3\nNSpid:\t3\n");
    }
}
