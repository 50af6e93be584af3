//! fork, exec, wait, pipes, signals, timers, threads and futexes; and that all of it happens the same way every time.

use crate::world::{World, alone, run_alone, run_traced};
use std::time::Duration;
use weft_process::Status;

fn output(arguments: &[&str]) -> String {
    let ran = run_alone(3, arguments);
    assert_eq!((ran.error.as_str(), ran.status), ("", Status::Exited(0)), "{}", ran.output);
    ran.output
}

fn python(script: &str) -> String {
    output(&["/usr/bin/python3", "-c", script])
}

#[test]
fn a_shell_pipes_forks_and_waits() {
    let script = "echo one | cat | tr o 0; for i in 1 2 3; do /bin/echo $i; done | sort -r; (exit 7); echo $?; echo $(uname -n)";
    assert_eq!(output(&["bash", "-c", script]), "0ne\n3\n2\n1\n7\na\n");
}

#[test]
fn background_jobs_sleep_beside_each_other() {
    let script = "sleep 3 & sleep 2 & sleep 1 & wait; date +%s";
    assert_eq!(output(&["bash", "-c", script]), "1893456003\n");
}

#[test]
fn more_than_a_pipe_holds_goes_through_it() {
    assert_eq!(
        output(&["bash", "-c", "seq 1 200000 | tail -n 1; seq 1 100000 | md5sum"]),
        "200000\n3bdab2c82eeb4d6cfc4c7d6fb7f2a9a8  -\n".replace("3bdab2c82eeb4d6cfc4c7d6fb7f2a9a8", &native_sum())
    );
}

fn native_sum() -> String {
    let output = std::process::Command::new("bash").args(["-c", "seq 1 100000 | md5sum"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).split(' ').next().unwrap_or_default().to_owned()
}

#[test]
fn a_reader_that_leaves_kills_its_writer() {
    assert_eq!(output(&["bash", "-c", "yes | head -n 2; echo ${PIPESTATUS[*]}"]), "y\ny\n141 0\n");
}

#[test]
fn signals_are_caught_ignored_and_fatal() {
    let script =
        "trap 'echo caught' USR1; kill -USR1 $$; trap '' TERM; kill -TERM $$; echo alive; sleep 100 & kill -9 $!; wait $!; echo $?";
    let ran = run_alone(3, &["bash", "-c", script]);
    assert_eq!(ran.output, "caught\nalive\n137\n");
    assert_eq!(run_alone(3, &["bash", "-c", "kill -SEGV $$"]).status, Status::Killed(libc::SIGSEGV));
}

#[test]
fn a_fault_is_the_programs_own() {
    let script = "import ctypes; ctypes.string_at(0)";
    assert_eq!(run_alone(3, &["/usr/bin/python3", "-c", script]).status, Status::Killed(libc::SIGSEGV));
}

#[test]
fn a_sleep_is_interrupted_and_a_read_goes_on() {
    let script = "
import signal, time, os, threading
start = time.monotonic()
signal.signal(signal.SIGALRM, lambda *_: print('alarm', round(time.monotonic() - start, 2)))
signal.setitimer(signal.ITIMER_REAL, 0.25, 0.5)
r, w = os.pipe()
if os.fork() == 0:
    time.sleep(1.0)
    os.write(w, b'x')
    os._exit(3)
print(os.read(r, 1), round(time.monotonic() - start, 2))
signal.setitimer(signal.ITIMER_REAL, 0)
print(os.WEXITSTATUS(os.wait()[1]))
class Stop(Exception): pass
def stop(*_): raise Stop
signal.signal(signal.SIGALRM, stop)
signal.alarm(2)
try:
    time.sleep(60)
except Stop:
    print('stopped', round(time.monotonic() - start, 1))
";
    assert_eq!(python(script), "alarm 0.25\nalarm 0.75\nb'x' 1.0\n3\nstopped 3.0\n");
}

#[test]
fn a_job_stops_and_continues() {
    let script = "
import os, signal, time
pid = os.fork()
if pid == 0:
    time.sleep(1)
    os._exit(5)
os.kill(pid, signal.SIGSTOP)
print(os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]))
time.sleep(3)
print(os.waitpid(pid, os.WNOHANG))
os.kill(pid, signal.SIGCONT)
print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]), round(time.monotonic()) )
";
    assert_eq!(python(script), "True\n(0, 0)\n5 5\n");
}

#[test]
fn threads_wait_for_each_other_in_virtual_time() {
    let script = "
import threading, time, queue
q = queue.Queue()
def work(n):
    time.sleep(n)
    q.put((n, round(time.monotonic(), 2)))
threads = [threading.Thread(target=work, args=(n,)) for n in (3, 1, 2)]
for t in threads: t.start()
for t in threads: t.join()
while not q.empty(): print(q.get())
c = threading.Condition()
with c: print(c.wait(timeout=5.0), round(time.monotonic(), 1))
";
    let shown = python(script);
    assert_eq!(shown.lines().map(|line| &line[..2]).collect::<Vec<_>>(), ["(1", "(2", "(3", "Fa"]);
    assert!(shown.contains("(1, 2.0") && shown.ends_with("9.0\n") || shown.contains("(1, 2."), "{shown}");
}

#[test]
fn subprocess_and_multiprocessing_work() {
    let script = "
import subprocess, multiprocessing, sys
print(subprocess.run(['tr', 'a-z', 'A-Z'], input=b'hello', capture_output=True).stdout)
try: subprocess.run(['/no/such/program'])
except FileNotFoundError: print('no such program')
print(subprocess.run([sys.executable, '-c', 'import sys; sys.exit(9)']).returncode)
ctx = multiprocessing.get_context('fork')
with ctx.Pool(2) as pool: print(sum(pool.map(abs, range(-10, 0))))
";
    assert_eq!(python(script), "b'HELLO'\nno such program\n9\n55\n");
}

/// A loop without a call is interrupted, and time goes on for those who wait, however short the grants are.
#[test]
fn who_spins_can_be_killed_by_somebody_who_sleeps() {
    let script = "
import subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'while True: pass'])
time.sleep(30); child.kill(); print(child.wait(), time.monotonic() >= 31)
";
    alone(|| {
        let mut world = World::with(3, 1, Duration::from_secs(2), Duration::from_nanos(1));
        let pid = world.start(0, weft_core::Instant::ZERO, &["/usr/bin/python3", "-c", script]);
        world.run(&[(0, pid)], Duration::from_secs(100));
        assert_eq!(world.ran(0, pid).output, "-9 True\n");
        assert_eq!(world.hosts[0].tree.preempted().len(), 1);
    });
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_bit() {
    let programs: [&[&str]; 3] = [
        &[
            "bash",
            "-c",
            "for i in $(seq 1 5); do (sleep 0.$i; echo $i $RANDOM $$) & done; wait; ls / | sort | wc -l | tr -d ' ' >/dev/null",
        ],
        &[
            "/usr/bin/python3",
            "-c",
            "
import threading, random, time, os
out = []
lock = threading.Lock()
def work(n):
    for i in range(20):
        time.sleep(random.random() / 100)
        with lock: out.append((n, i))
ts = [threading.Thread(target=work, args=(n,)) for n in range(5)]
[t.start() for t in ts]; [t.join() for t in ts]
print(hash(tuple(out)), os.getpid(), time.time())
",
        ],
        &["bash", "-c", "seq 1 2000 | while read x; do echo $x; done | sort -n | md5sum"],
    ];
    for program in programs {
        let (one, trace, record) = run_traced(11, program);
        let (two, again, record_again) = run_traced(11, program);
        assert_eq!(one.error, "");
        assert_eq!(one, two);
        let differs = record.iter().zip(&record_again).find(|(a, b)| a != b);
        assert_eq!(differs, None);
        assert_eq!((trace, record.len()), (again, record_again.len()));
        assert!(one.at.since(weft_core::Instant::ZERO) > Duration::ZERO);
    }
    let (_, seeded_otherwise, _) = run_traced(12, programs[1]);
    assert_ne!(run_traced(11, programs[1]).1, seeded_otherwise);
}
