//! For how long machines have been up, and from which number on their processes are counted.

use crate::support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use support::run;
use weft_sim::{Scenario, World};

fn scenario(text: &str) -> Result<Scenario, String> {
    Scenario::parse("boots.toml", text, &[], &|_| Err("no files here".to_owned())).map_err(|error| error.to_string())
}

/// What a program has written in all its lives.
fn output(world: &World, name: &str) -> String {
    let number = world.plan().programs.iter().position(|program| program.name == name).expect("a program");
    support::output(world, number)
}

/// What `echo $$; cat /proc/uptime` says on each node: process number, and hundredths of a second since its boot.
fn ages(head: &str, names: &[&str]) -> Vec<(u32, u64)> {
    let (mut text, mut programs) = (head.to_owned(), String::new());
    for name in names {
        if !head.contains(&format!("[nodes.{name}]")) {
            let _ = writeln!(text, "[nodes.{name}]");
        }
        let _ = writeln!(programs, "[programs.{name}]\nnode = \"{name}\"\ncommand = [\"sh\", \"-c\", \"echo $$; cat /proc/uptime\"]");
    }
    let (world, end) = run(scenario(&(text + &programs)).expect("a scenario").plan, 1);
    assert_eq!(end.failures, Vec::<String>::new());
    let age = |name: &&str| {
        let said = output(&world, name).replace('.', "");
        let mut words = said.split_whitespace();
        let pid = words.next().and_then(|word| word.parse().ok()).expect("a number");
        (pid, words.next().and_then(|word| word.parse().ok()).expect("a time"))
    };
    names.iter().map(age).collect()
}

#[test]
fn the_seed_says_for_how_long_machines_have_been_up() {
    let names = ["a", "b", "c", "d"];
    let drawn = ages("seed = 7\n", &names);
    let ups: BTreeSet<u64> = drawn.iter().map(|(_, up)| *up).collect();
    let pids: BTreeSet<u32> = drawn.iter().map(|(pid, _)| *pid).collect();
    assert_eq!((ups.len(), pids.len()), (4, 4), "{drawn:?}");
    assert!(drawn.iter().all(|(pid, up)| *pid >= 300 && (6_000..360_000).contains(up)), "{drawn:?}");
    assert_eq!(ages("seed = 7\n", &names), drawn);
    assert_ne!(ages("seed = 8\n", &names), drawn);
    // Those who come later change nobody.
    assert_eq!(ages("seed = 7\n", &names[..2]), drawn[..2]);
    assert_eq!(ages("boot = \"0s\"\n", &names), [(2, 100); 4]);
    let some = ages("boot = \"2h\"\n[nodes.b]\nboot = \"0s\"\n", &names);
    assert_eq!(some.iter().map(|(_, up)| *up).collect::<Vec<_>>(), [720_100, 100, 720_100, 720_100]);
}

/// Seconds since its boot; what says otherwise than two seconds, of what waits for so long; and the date in tens of seconds.
const WAITS: &str = r#"
import ctypes, os, select, signal, struct, threading, time
libc = ctypes.CDLL(None)
timespec = lambda seconds: struct.pack("ll", int(seconds), int(seconds % 1 * 1e9))
now = time.monotonic
timer = libc.timerfd_create(time.CLOCK_MONOTONIC, 0)
signal.signal(signal.SIGALRM, lambda *_: None)
def until(at):
    libc.timerfd_settime(timer, 1, timespec(0) + timespec(at), None)
    os.read(timer, 8)
ways = {
    "sleep": lambda: time.sleep(2),
    "clock_nanosleep": lambda: libc.clock_nanosleep(time.CLOCK_MONOTONIC, 1, timespec(now() + 2), None),
    "by the date": lambda: libc.clock_nanosleep(time.CLOCK_REALTIME, 1, timespec(time.time() + 2), None),
    "event": lambda: threading.Event().wait(2),
    "select": lambda: select.select([], [], [], 2),
    "alarm": lambda: (signal.alarm(2), signal.pause()),
    "timerfd": lambda: until(now() + 2),
    "thread": lambda: (one := threading.Thread(target=time.sleep, args=(2,))).start() or one.join(),
}
print(int(time.clock_gettime(time.CLOCK_BOOTTIME)), flush=True)
for name, wait in ways.items():
    before = now()
    wait()
    if abs(now() - before - 2) > 0.01: print(name, now() - before, flush=True)
print(time.time() // 10, int(open("/proc/stat").read().split("btime ")[1].split()[0]), flush=True)
"#;
const START: u64 = 1_893_456_000;

#[test]
fn who_boots_again_has_not_been_up_for_long() {
    for (boot, least, most) in [("", 61, 3602), ("boot = \"0s\"\n", 2, 2), ("boot = \"100s\"\n", 102, 102)] {
        let text = format!(
            "{boot}duration = \"80s\"\n[nodes.a]\n[programs.p]\nnode = \"a\"\nstart = \"1s\"\nexpect = \"any\"\n\
             command = [\"python3\", \"-c\", '''{WAITS}''']\n\
             [[events]]\nat = \"50s\"\ncrash = \"a\"\n[[events]]\nat = \"51s\"\nrestart = \"a\"\n"
        );
        let (world, end) = run(scenario(&text).expect("a scenario").plan, 1);
        assert_eq!(end.failures, Vec::<String>::new());
        let said = output(&world, "p");
        let [first, waited, again, waited_again] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
        let up: u64 = first.parse().expect("seconds");
        assert!((least..=most).contains(&up), "{said}");
        assert!(["1", "2"].contains(&again), "{said}");
        // The world's time was one second and a little more when the first said how long it was up; the time of the
        // boot is cut to seconds, as that is.
        let booted = |line: &str| line.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok()).expect("a time");
        assert!(waited.starts_with("189345601.0 ") && waited_again.starts_with("189345606.0 "), "{said}");
        assert!((START - up..=START + 1 - up).contains(&booted(waited)), "{said}");
        assert!((START + 49..=START + 50).contains(&booted(waited_again)), "{said}");
    }
}

#[test]
fn who_says_that_it_is_1970_has_booted_before() {
    let text = "start = 1970-01-01T00:00:10Z\nboot = \"1h\"\n[nodes.a]\n[programs.p]\nnode = \"a\"\ncommand = [\"grep\", \"btime\", \"/proc/stat\"]\n";
    let (world, end) = run(scenario(text).expect("a scenario").plan, 1);
    assert_eq!((end.failures, output(&world, "p").as_str()), (Vec::new(), "btime 0\n"));
}

#[test]
fn no_machine_is_up_for_longer_than_machines_are() {
    let error = |text: &str| scenario(&format!("[nodes.a]\n{text}\n[programs.p]\nnode = \"a\"\ncommand = [\"true\"]\n")).err();
    assert_eq!(error("boot = \"87600h\""), None);
    for (text, says) in [
        ("boot = \"87601h\"", "no machine is up for 87601h"),
        ("boot = \"-1s\"", "out of range"),
        ("boot = \"yesterday\"", "yesterday"),
        ("boot = 5", "boot"),
        ("kind = \"linux\"\nboot = \"1s\"", "takes no boot"),
    ] {
        let said = error(text).expect("an error");
        assert!(said.contains(says), "{text}: {said}");
    }
    // At the top it is wrong whatever the nodes are.
    let switch = "boot = \"87601h\"\n[nodes.s]\nkind = \"switch\"\n";
    assert!(scenario(switch).is_err_and(|error| error.to_string().contains("no machine is up for")));
}
