//! Unmodified programs on nodes of a world.

use crate::support;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Folder, gigabit, output, pair, process, run};
use weft_process::OwnFile;
use weft_sim::plan::{DirectionPlan, Expect, Listener, Plan, Said};
use weft_sim::visit::{Visit, Visitor, Visits};
use weft_sim::{Reason, Status, World};

/// python's web server on b, which fetches nothing itself, and curl on a.
fn fetch(direction: DirectionPlan) -> Plan {
    let serve = ["python3", "-m", "http.server", "8000", "--directory", "/usr/share/common-licenses"];
    let programs = vec![
        process("server", 1, 0, &serve, Expect::Running),
        process("curl", 0, 1500, &["curl", "-s", "-i", "http://10.0.0.2:8000/GPL-3"], Expect::Status(0)),
    ];
    pair(direction, programs, 60_000)
}

#[test]
fn curl_fetches_from_python_and_every_run_is_the_same() {
    let (world, end) = run(fetch(gigabit(Duration::from_millis(5))), 1);
    assert_eq!(end.reason, Reason::Programs, "{:?}\n{}\n{}", world.waits(), output(&world, 0), output(&world, 1));
    let text = output(&world, 1);
    assert!(text.starts_with("HTTP/1.0 200 OK\r\n"), "{text}");
    assert!(text.contains("Date: Tue, 01 Jan 2030 00:00:01 GMT\r\n"), "{text}");
    let body = text.split_once("\r\n\r\n").expect("a body").1;
    assert_eq!(body.as_bytes(), std::fs::read("/usr/share/common-licenses/GPL-3").expect("the file"));
    let curl = world.program(1).expect("curl");
    assert_eq!(curl.started.map(|at| at.as_nanos()), Some(1_500_000_000));
    let (at, status) = curl.ended.expect("curl's end");
    assert_eq!(status, Status::Exited(0));
    // Three round trips of 10 ms at least: connection, request, and its growing window; the server's own calls cost some more.
    assert!((1_520_000_000..1_700_000_000).contains(&at.as_nanos()), "{at}");
    let waits = world.waits();
    assert!(waits.iter().any(|(program, what)| *program == 0 && what.contains("waits for sockets")), "{waits:?}");
    for threads in [1, 2] {
        let (again, _) = run(fetch(gigabit(Duration::from_millis(5))), threads);
        assert_eq!(output(&again, 1), text);
        assert_eq!(again.program(1).and_then(|state| state.ended), Some((at, status)));
        assert_eq!(again.hash(), world.hash(), "{threads} threads");
    }
    let (other, _) = run(fetch(gigabit(Duration::from_nanos(5_000_001))), 1);
    assert_ne!(other.hash(), world.hash());
}

fn scenario(text: &str) -> weft_sim::Scenario {
    weft_sim::Scenario::parse("s.toml", text, &[], &|_| Err("no files here".to_owned())).unwrap_or_else(|error| panic!("{error}"))
}

fn text(world: &World, name: &str) -> (String, String, Option<Status>) {
    let number = world.plan().programs.iter().position(|program| program.name == name).expect("a program");
    let state = world.program(number).expect("its state");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&state.output), text(&state.error), state.ended.map(|(_, status)| status))
}

#[test]
fn a_program_gets_what_the_scenario_says_and_its_end_is_told() {
    let text_of = |body: &str| format!("[nodes.a]\n[nodes.b]\n[wires.w]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n{body}");
    let mut world = World::new(
        scenario(&text_of(
            "[programs.cat]\nnode = \"a\"\ncommand = [\"cat\"]\nstdin = \"one\\ntwo\"\n\
             [programs.shell]\nnode = \"a\"\ncommand = [\"sh\", \"-c\", \"pwd; echo $WHO $HOME; echo oops >&2; exit 3\"]\ndirectory = \"/usr\"\n\
             environment = { WHO = \"weft\" }\nexpect = 3\nstart = \"1s\"\n\
             [programs.missing]\nnode = \"b\"\ncommand = [\"no-such-program\"]\nexpect = 127\n\
             [programs.sleeper]\nnode = \"b\"\ncommand = [\"sleep\", \"1000\"]\nexpect = \"any\"\n\
             [programs.later]\nnode = \"b\"\ncommand = [\"date\", \"+%s.%N\"]\nwaits = true\n\
             [programs.told]\nnode = \"a\"\ncommand = [\"sh\", \"-c\", \"trap 'echo hup; exit 9' HUP; sleep 1000 & wait\"]\nexpect = 9\n\
             [[events]]\nat = \"2500ms\"\nsignal = \"told\"\nname = \"SIGHUP\"\n\
             [[events]]\nat = \"2s\"\nstop = \"sleeper\"\n[[events]]\nat = \"3s\"\nstart = \"later\"\n",
        ))
        .plan,
        1,
    )
    .expect("a world");
    let end = world.run(&mut |_| true);
    assert!(end.failures.is_empty(), "{:?}", end.failures);
    assert_eq!(text(&world, "cat"), ("one\ntwo".to_owned(), String::new(), Some(Status::Exited(0))));
    assert_eq!(text(&world, "shell"), ("/usr\nweft /root\n".to_owned(), "oops\n".to_owned(), Some(Status::Exited(3))));
    let (_, error, status) = text(&world, "missing");
    assert_eq!(
        (error.as_str(), status),
        (
            "weft: cannot execute no-such-program: No such file or directory (os error 2); it is looked for in the PATH of the node, \
             /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n",
            Some(Status::Exited(127))
        )
    );
    assert_eq!(text(&world, "told"), ("hup\n".to_owned(), String::new(), Some(Status::Exited(9))));
    assert_eq!(text(&world, "sleeper").2, Some(Status::Killed(15)));
    let (later, _, _) = text(&world, "later");
    let since = later.trim().strip_prefix("1893456003.").and_then(|nanos| nanos.parse::<u32>().ok()).unwrap_or_else(|| panic!("{later}"));
    assert!(since < 10_000_000, "{later}");
    assert!(world.not_reproducible().is_empty());
}

#[test]
fn who_cannot_be_executed_says_where_it_was_looked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    std::fs::write(&script, "#! /no/such/python3 -u\n").expect("a script");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its mode");
    let text_of = |command: &str| format!("[nodes.a]\n[programs.p]\nnode = \"a\"\ncommand = [{command:?}]\nexpect = 127\n");
    let whole = script.display().to_string();
    for (command, says) in [
        ("no-such", "; it is looked for in the PATH of the node, /usr/local/sbin:/usr/local/bin:"),
        ("./script", "; its first line (#!) names /no/such/python3, and the node has no such program"),
        (&whole, "; its first line (#!) names /no/such/python3, and the node has no such program"),
        ("./none", "; it is looked for below '/' (directory = …)"),
        ("/usr/bin/none", "(os error 2)\n"),
        ("/tmp/none", "/tmp, /root and /run are the node's own"),
    ] {
        let file = folder.path().join("s.toml").display().to_string();
        let found = weft_sim::Scenario::parse(&file, &text_of(command), &[], &|_| Err("no files here".to_owned())).expect("a scenario");
        let (world, end) = run(found.plan, 1);
        assert_eq!(end.failures, Vec::<String>::new());
        let (_, error, status) = text(&world, "p");
        assert!(error.contains(says) && status == Some(Status::Exited(127)), "{command}: {error}");
    }
}

#[test]
fn what_is_written_beyond_the_bound_is_counted_and_nobody_says_what_it_was() {
    let text_of = |script: &str, expects: &str| {
        format!(
            "[nodes.a]\n[programs.loud]\nnode = \"a\"\ncommand = [\"python3\", \"-ISc\", {script:?}]\noutput_max = \"1MiB\"\n\
             [programs.quiet]\nnode = \"a\"\ncommand = [\"echo\", \"word\"]\noutput_max = \"1MiB\"\n{expects}"
        )
    };
    // More than is looked for at a time (16 MiB), by whatever call, then a little; standard error has a bound of its own. The program itself notices nothing but how much
    // memory that takes.
    let script = "import os\npiece = b'x' * (1 << 20)\n\
        calls = [os.write, lambda fd, data: os.writev(fd, [data]), lambda fd, data: os.pwrite(fd, data, 0), lambda fd, data: os.pwritev(fd, [data], 0),\n\
        \x20   lambda fd, data: os.pwritev(fd, [data], 0, 0x20)]\n\
        def held():\n    try: return os.fstat(1).st_size - os.lseek(1, 1 << 20, os.SEEK_DATA)\n    except OSError: return 0\n\
        for n in range(40):\n    assert calls[n % 5](1, piece) == 1 << 20\n    assert held() <= 16 << 20, n\n\
        os.write(1, b'last')\nos.write(2, b'y' * 10)\nassert os.fstat(1).st_size == (40 << 20) + 4\n";
    let expects = "[[expect]]\nprogram = \"loud\"\nabsent = \"z\"\n[[expect]]\nprogram = \"loud\"\noutput = \"last\"\n\
        [[expect]]\nprogram = \"quiet\"\nabsent = \"z\"\n";
    let scenario = scenario(&text_of(script, expects));
    let (world, end) = run(scenario.plan.clone(), 1);
    let state = world.program(0).expect("the program");
    assert_eq!(state.ended.map(|(_, status)| status), Some(Status::Exited(0)), "{}", String::from_utf8_lossy(&state.error));
    assert_eq!((state.output.len(), state.error.len(), state.output_lost), (1 << 20, 10, (39 << 20) + 4));
    assert!(state.output.iter().all(|byte| *byte == b'x'));
    assert_eq!(world.program(1).map(|state| (state.output.len(), state.output_lost)), Some((5, 0)));
    let verdicts = weft_sim::scenario::judge(&world, &end, &scenario.expectations);
    let failures: Vec<Option<&str>> = verdicts.iter().skip(2).map(|verdict| verdict.failure.as_deref()).collect();
    assert_eq!((failures[0], failures[2]), (Some("nobody can say: 40894468 bytes of its output are lost"), None));
    assert!(failures[1].is_some_and(|why| why.contains("without it (40894468 bytes more are lost)")), "{failures:?}");
}

/// Natively, with `| cat`, it says the same.
const KEPT: &str = r#"
echo one; sh -c 'echo two' > /dev/stdout; echo three > /proc/self/fd/1; echo four >> /dev/stdout; echo five
echo oops >&2; echo again > /dev/stderr; echo more > /proc/self/fd/2
printf 'six\n' > /tmp/six; cat /tmp/six > /dev/stdout; cp /tmp/six /dev/stdout; dd if=/tmp/six of=/dev/stdout status=none
exec python3 -IS -c '
import errno, fcntl, mmap, os
def fails(what, *words):
    try: print(what(*words), flush=True)
    except OSError as error: print(errno.errorcode[error.errno], flush=True)
fails(os.ftruncate, 1, 0); fails(os.ftruncate, 1, 1 << 20); fails(os.truncate, "/dev/stdout", 0); fails(os.posix_fallocate, 1, 0, 1 << 20)
fails(mmap.mmap, 1, 1, mmap.MAP_SHARED)
fcntl.fcntl(1, fcntl.F_SETFL, 0); os.write(1, b"seven\n")
with open("/dev/stdout", "wb", buffering=0) as again: again.write(b"eight\n")
with open("/tmp/six") as six: print(os.sendfile(1, six.fileno(), 0, 100), flush=True)
open("/tmp/two", "w").write("six"); os.truncate("/tmp/two", 2); print(os.stat("/tmp/two").st_size)
'
"#;

#[test]
fn what_was_written_stays_whoever_opens_it_again() {
    let text_of = format!("[nodes.a]\n[programs.p]\nnode = \"a\"\ncommand = [\"sh\", \"-euc\", {KEPT:?}]\n");
    let (world, end) = run(scenario(&text_of).plan, 1);
    let (output, error, status) = text(&world, "p");
    assert_eq!((error.as_str(), status), ("oops\nagain\nmore\n", Some(Status::Exited(0))), "{output} {:?}", end.failures);
    assert_eq!(output, "one\ntwo\nthree\nfour\nfive\nsix\nsix\nsix\nEINVAL\nEINVAL\nEINVAL\nESPIPE\nEACCES\nseven\neight\nsix\n4\n2\n");
}

#[test]
fn reading_the_clock_is_no_call_however_far_the_grant_reaches() {
    // Past several slices: at the end of each the vDSO has to let others run.
    let calls = |reads: u32| {
        let body = format!("import time\nread = time.monotonic_ns\nfor n in range({reads}): read()\ntime.sleep(0.001)");
        let programs = vec![process("p", 0, 0, &["python3", "-ISc", &body], Expect::Status(0))];
        let (world, _) = run(pair(gigabit(Duration::from_millis(1)), programs, 60_000), 1);
        let state = world.program(0).expect("the program");
        let (at, status) = state.ended.expect("its end");
        assert_eq!(status, Status::Exited(0), "{}", String::from_utf8_lossy(&state.error));
        (state.usage.map(|usage| usage.calls), at)
    };
    let (few, many) = (calls(100), calls(90_000));
    assert!(many.1.since(few.1) > Duration::from_millis(80), "each read takes its time");
    assert_eq!(many.0, few.0);
}

#[test]
fn what_happens_before_a_program_starts_happens_to_nobody() {
    // Processors that are idle start programs before their time: these must not be among them.
    let (world, end) = run(
        scenario(
            "duration = \"3s\"\nboot = \"0s\"\n[nodes.a]\n[nodes.b]\n[nodes.c]\n[nodes.d]\n\
             [wires.w]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n[wires.x]\nbetween = [\"c\", \"d\"]\ndelay = \"1ms\"\n\
             [programs.stopped]\nnode = \"a\"\ncommand = [\"echo\", \"here\"]\nstart = \"1s\"\nexpect = \"any\"\n\
             [programs.again]\nnode = \"b\"\ncommand = [\"sh\", \"-c\", \"echo $$\"]\nstart = \"1s\"\n\
             [programs.late]\nnode = \"c\"\ncommand = [\"echo\", \"too late\"]\nstart = \"5s\"\nexpect = \"any\"\n\
             [programs.usual]\nnode = \"d\"\ncommand = [\"sh\", \"-c\", \"echo $$\"]\nstart = \"1s\"\n\
             [[events]]\nat = \"500ms\"\nstop = \"stopped\"\n[[events]]\nat = \"200ms\"\ncrash = \"b\"\n[[events]]\nat = \"400ms\"\nrestart = \"b\"\n",
        )
        .plan,
        1,
    );
    assert_eq!(end.failures, Vec::<String>::new());
    // To stop it before its time was what the event was for.
    assert_eq!(end.idle, Vec::<String>::new());
    for name in ["stopped", "late"] {
        let number = world.plan().programs.iter().position(|program| program.name == name).expect("a program");
        assert_eq!(world.program(number).and_then(|state| state.started), None, "{name}");
        assert_eq!(text(&world, name), (String::new(), String::new(), None));
    }
    assert_eq!(text(&world, "again"), ("2\n".to_owned(), String::new(), Some(Status::Exited(0))));
    assert_eq!(text(&world, "usual"), ("2\n".to_owned(), String::new(), Some(Status::Exited(0))));
    assert!(world.waits().is_empty(), "{:?}", world.waits());
}

#[test]
fn what_a_life_left_behind_writes_into_the_output_of_the_next() {
    // Its children outlive it: one writes before it starts again, one after that.
    let body = "echo begin; (sleep 2; echo before) & (sleep 6; echo after; echo error >&2) &";
    let text_of = format!(
        "duration = \"20s\"\n[nodes.a]\n[programs.p]\nnode = \"a\"\ncommand = [\"sh\", \"-c\", \"{body}\"]\n\
         [[events]]\nat = \"4s\"\nstart = \"p\"\n"
    );
    let (world, _) = run(scenario(&text_of).plan, 1);
    let (output, error, status) = text(&world, "p");
    assert_eq!(output, "begin\nbefore\nbegin\nbefore\nafter\nafter\n");
    assert_eq!((error.as_str(), status), ("error\nerror\n", Some(Status::Exited(0))));
}

#[test]
fn who_listens_hears_each_byte_once() {
    // Writes to descriptors other than 1 and 2 are not told: they come when output is fetched, which is so many turns later.
    let body = "import os, time\nos.write(os.dup(1), b'untold\\n')\nfor n in range(200): time.sleep(0.01)\n\
                os.write(1, b'told\\n')\ntime.sleep(1)\nos.write(1, b'end\\n')";
    let programs = vec![process("p", 0, 0, &["python3", "-ISc", body], Expect::Status(0))];
    let mut plan = pair(gigabit(Duration::from_millis(1)), programs, 60_000);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    plan.listener = Some(Listener(Arc::new(move |said: &Said<'_>| ear.lock().unwrap().extend_from_slice(said.bytes))));
    let (world, _) = run(plan, 1);
    assert_eq!(output(&world, 0), "untold\ntold\nend\n");
    assert_eq!(String::from_utf8_lossy(&heard.lock().unwrap()), "untold\ntold\nend\n");
}

#[test]
fn what_visitors_write_outlives_a_crash() {
    // Nobody but visitors runs programs on node a; b's ping makes the time pass in which they are let in.
    let text_of = "duration = \"12s\"\n[nodes.a]\n[nodes.b]\n[wires.w]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n\
         [programs.ping]\nnode = \"b\"\nbuiltin = \"ping\"\nto = \"a\"\ncount = 5000\ninterval = \"2ms\"\n\
         [[events]]\nat = \"3s\"\ncrash = \"a\"\n[[events]]\nat = \"4s\"\nrestart = \"a\"\n\
         [[events]]\nat = \"7s\"\ncrash = \"a\"\n[[events]]\nat = \"8s\"\nrestart = \"a\"\n";
    let mut world = World::new(scenario(text_of).plan, 1).expect("a world");
    let visits = Arc::new(Visits::default());
    world.open(Arc::clone(&visits));
    let (news, _told) = std::sync::mpsc::channel();
    let mut comes = [(1, "echo kept > /var/tmp/x"), (5, "cat /var/tmp/x"), (9, "cat /var/tmp/x")].into_iter().peekable();
    let end = world.run(&mut |now| {
        if let Some((_, body)) = comes.next_if(|(at, _)| now >= weft_core::Instant::from_millis(at * 1000)) {
            let command = ["sh", "-c", body].map(str::to_owned).to_vec();
            let visitor = Visitor { node: "a".to_owned(), command, environment: Vec::new(), descriptors: None, news: news.clone() };
            assert!(visits.push(Visit::Start(visitor)));
        }
        true
    });
    assert_eq!(end.failures, Vec::<String>::new());
    assert_eq!([1, 2, 3].map(|number| output(&world, number)), ["", "kept\n", "kept\n"]);
}

#[test]
fn what_lies_beside_the_scenario_is_copied_once_and_only_if_it_can_be() {
    // In /tmp itself, where a node has what its programs' commands name.
    let named = |what: &str| PathBuf::from(format!("/tmp/weft-sim-{}-{what}", std::process::id()));
    let files = ["script", "pipe", "large"].map(named);
    let [script, pipe, large] = &files;
    let program =
        |(number, file): (usize, &PathBuf)| format!("[programs.p{number}]\nnode = \"n*\"\ncommand = [\"sh\", \"{}\"]\n", file.display());
    let text = format!("[nodes.n]\ncount = 3\n{}", files.iter().enumerate().map(program).collect::<String>());
    std::fs::write(script, "echo hello\n").expect("a file");
    std::fs::File::create(large).expect("a file").set_len(65 << 20).expect("a length");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().expect("mkfifo").success());
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || drop(done.send(weft_sim::Scenario::parse("/tmp/s.toml", &text, &[], &|_| Err("no files here".to_owned())))));
    // A watchdog: who reads a FIFO to which nobody writes waits for ever.
    let result = is_done.recv_timeout(Duration::from_secs(60));
    files.iter().for_each(|file| std::fs::remove_file(file).expect("the file"));
    let plan = result.expect("it ends").unwrap_or_else(|error| panic!("{error}")).plan;
    let of = |node: usize| plan.nodes[node].files.own.iter().map(|own| (own.path.clone(), Arc::clone(&own.contents))).collect::<Vec<_>>();
    assert_eq!(of(0), [(script.clone(), Arc::from(&b"echo hello\n"[..]))]);
    assert!((1..3).all(|node| Arc::ptr_eq(&of(node)[0].1, &of(0)[0].1)));
}

/// What a shell on node a finds, and leaves. Nothing in it depends on who runs the test.
const LOOK: &str = r#"
exec 2>&1
id; hostname; uname -n; cat /etc/hosts /etc/hostname /etc/resolv.conf; getent hosts b
cat /srv/www/x; stat -c '%n %U:%G %a %y' /srv/www/x /etc/hosts /tmp /root /; stat -c %U:%G /usr/bin/env
echo mine > /tmp/mine; echo more > /etc/new; echo log > /var/log/weft.log; ls -a /tmp /root /run /sys; cat /etc/new
stat -c '%U %y' /tmp/mine; touch -d @2000000000 /tmp/mine; stat -c %Y /tmp/mine
cd /proc && echo [0-9]*; cat /proc/1/comm /proc/uptime; head -c 8 /dev/zero | od -An -tx1; test -e /dev/stdout && echo stdout
mkfifo /tmp/pipe; (echo through > /tmp/pipe) & cat /tmp/pipe; wait; chown 33:33 /tmp/mine && echo chown; umask; own
cat /proc/self/mountinfo /proc/self/cgroup; wc -c < /proc/sys/kernel/random/uuid; head -c 9 /proc/sys/kernel/random/boot_id; echo
python3 -c 'import os; os.setgroups([7]); os.setgid(33); os.setuid(33); print(os.getresuid(), os.getresgid(), os.getgroups(), flush=True)
try: os.setuid(0)
except OSError as error: print(error, flush=True)
os.execvp("id", ["id", "-u"])'
"#;

const FOUND: &str = "\
uid=0(root) gid=0(root) groups=0(root)
a
a
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
10.0.0.1\ta
10.0.0.2\tb
a
# no name server; /etc/hosts has the names of all nodes
10.0.0.2        b
hello
/srv/www/x root:root 644 2030-01-01 00:00:00.000000000 +0000
/etc/hosts root:root 644 2030-01-01 00:00:00.000000000 +0000
/tmp root:root 1777 2030-01-01 00:00:00.000000000 +0000
/root root:root 700 2030-01-01 00:00:00.000000000 +0000
/ root:root 755 2030-01-01 00:00:00.000000000 +0000
root:root
/root:
.
..

/run:
.
..
lock
weft

/sys:
.
..
class
devices

/tmp:
.
..
mine
more
root 2030-01-01 00:00:00.000000000 +0000
2000000000
1 2
init
1.00 1.00
 00 00 00 00 00 00 00 00
stdout
through
chown
0022
own
1 0 0:1 / / rw,relatime - weft weft rw
2 1 0:2 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
0::/
37
fdd9b77f-
(33, 33, 33) (33, 33, 33) [7]
[Errno 1] Operation not permitted
33
";

/// The test runs itself again as nobody, and says what it printed there after `hash `. None: this is that run, or there is only one user here.
fn as_user(test: &str) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65534;
    if std::fs::metadata("/proc/self").expect("/proc").uid() != 0 {
        return None;
    }
    // The target folder need not be readable for others: run a copy. Another process makes it: what this one has open for
    // writing, the child of another test has open too until it executes, and it is ETXTBSY until then.
    let folder = Folder::new(test);
    let copy = folder.0.join("copy");
    assert!(std::process::Command::new("cp").arg(std::env::current_exe().expect("a path")).arg(&copy).status().expect("cp").success());
    let mut command = std::process::Command::new(&copy);
    command
        .args(["--exact", &format!("processes::{test}"), "--nocapture"])
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY);
    let output = command.output().expect("the copy runs");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    let hash = text.lines().find_map(|line| line.split_once("hash ")).unwrap_or_else(|| panic!("{text}")).1;
    Some(hash.to_owned())
}

#[test]
fn a_node_has_files_names_and_users_of_its_own_whoever_runs_it() {
    let text_of = format!(
        "[nodes.a]\nboot = \"0s\"\nfiles = {{ \"/srv/www/x\" = \"hello\\n\", \"/usr/local/bin/own\" = \"#!/bin/sh\\necho own\\n\" }}\n\
         [nodes.b]\n[wires.w]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n\
         [programs.look]\nnode = \"a\"\ncommand = [\"sh\", \"-c\", '''{LOOK}''']\nexpect = \"any\"\n"
    );
    let run = || {
        let mut world = World::new(scenario(&text_of).plan, 1).unwrap_or_else(|error| panic!("{error}"));
        world.run(&mut |_| true);
        let (output, error, status) = text(&world, "look");
        assert_eq!((error.as_str(), status), ("", Some(Status::Exited(0))), "{output}");
        (output, format!("{:032x}", world.hash()))
    };
    let (output, hash) = run();
    assert_eq!(output, FOUND);
    assert_eq!(run(), (output, hash.clone()));
    assert!(!std::path::Path::new("/etc/new").exists() && !std::path::Path::new("/var/log/weft.log").exists());
    println!("hash {hash}");
    if let Some(as_user) = as_user("a_node_has_files_names_and_users_of_its_own_whoever_runs_it") {
        assert_eq!(as_user, hash);
    }
}

#[test]
fn a_fetch_with_loss_has_one_hash_for_root_and_for_a_user() {
    let lossy = || DirectionPlan { loss: weft_sim::plan::Loss::Bernoulli(0.05), ..gigabit(Duration::from_millis(5)) };
    let (world, end) = run(fetch(lossy()), 1);
    assert_eq!(end.reason, Reason::Programs, "{:?}\n{}", world.waits(), output(&world, 1));
    println!("hash {:032x}", world.hash());
    if let Some(as_user) = as_user("a_fetch_with_loss_has_one_hash_for_root_and_for_a_user") {
        assert_eq!(as_user, format!("{:032x}", world.hash()));
    }
}

#[test]
fn a_folder_can_be_the_root() {
    let folder = Folder::new("root");
    let root = folder.0.clone();
    std::fs::create_dir_all(root.join("bin")).expect("a folder");
    std::fs::create_dir_all(root.join("etc")).expect("a folder");
    // By other processes: see above, ETXTBSY.
    let copy = |from: &str, to: &std::path::Path| {
        assert!(std::process::Command::new("cp").args(["-L", from]).arg(to).status().expect("cp").success(), "{from}");
    };
    copy("/bin/dash", &root.join("bin/sh"));
    let libraries = std::process::Command::new("ldd").arg("/bin/dash").output().expect("ldd");
    for library in String::from_utf8_lossy(&libraries.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(&library[1..]);
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        copy(library, &to);
    }
    let text_of = format!(
        "[nodes.a]\nroot = \"{}\"\n[nodes.b]\n[wires.w]\nbetween = [\"a\", \"b\"]\n\
         [programs.shell]\nnode = \"a\"\ncommand = [\"sh\", \"-c\", \"echo /*; echo /etc/*; echo x > /bin/new && echo /bin/*\"]\n",
        root.display()
    );
    let mut world = World::new(scenario(&text_of).plan, 1).unwrap_or_else(|error| panic!("{error}"));
    world.run(&mut |_| true);
    let (output, error, status) = text(&world, "shell");
    let kept = root.join("bin/new").exists();
    // As long as there is a node, others with its root need no look at the folder.
    drop(world);
    if std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        std::fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("mode");
        let refused = World::new(scenario(&text_of).plan, 1).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("chmod o+x"), "{refused}");
    }
    assert_eq!((error.as_str(), status, kept), ("", Some(Status::Exited(0)), false), "{output}");
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines[0].starts_with("/bin /dev /etc ") && !lines[0].contains("/home"), "{output}");
    assert_eq!(lines[1..], ["/etc/hostname /etc/hosts /etc/machine-id /etc/nsswitch.conf /etc/resolv.conf", "/bin/new /bin/sh"]);
}

/// Uses abstract names in every way there is, and says what it sees.
const ABSTRACT: &str = r#"
import ctypes, socket, time
def show(*what): print(*what, flush=True)
def made(kind, name=None):
    one = socket.socket(socket.AF_UNIX, kind)
    if name is not None: one.bind(name)
    return one
long = "\0" + "x" * 104
a = made(socket.SOCK_STREAM, "\0same"); a.listen(1)
b = made(socket.SOCK_STREAM, long); b.connect("\0same")
c, who = a.accept()
show(a.getsockname(), b.getpeername(), who == long.encode(), c.getpeername() == who, b.getsockname() == who)
d, e = made(socket.SOCK_DGRAM, "\0d"), made(socket.SOCK_DGRAM, "")
show(e.getsockname(), made(socket.SOCK_DGRAM, "").getsockname(), made(socket.SOCK_DGRAM).getsockname())
e.sendto(b"1", "\0d"); show(d.recvfrom(9))
e.sendmsg([b"2"], [], 0, "\0d"); show(d.recvmsg(9))
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]
class Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("room", ctypes.c_uint), ("vectors", ctypes.POINTER(Vector)), ("count", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("control_bytes", ctypes.c_size_t), ("flags", ctypes.c_int), ("pad", ctypes.c_int), ("done", ctypes.c_uint)]
def messages(names):
    list = (Message * len(names))()
    for one, name in zip(list, names):
        one.text, one.address = ctypes.create_string_buffer(b"many", 9), ctypes.create_string_buffer(name, 110)
        one.name, one.room, one.vectors, one.count = ctypes.addressof(one.address), len(name), ctypes.pointer(Vector(ctypes.addressof(one.text), 4)), 1
        keep.append(one)
    return list
keep, libc = [], ctypes.CDLL(None, use_errno=True)
some = messages([b"\1\0\0d", b"\1\0\0d"])
show(libc.sendmmsg(e.fileno(), some, 2, 0), [one.done for one in some])
some = messages([b" " * 110, b" " * 4])
show(libc.recvmmsg(d.fileno(), some, 2, 0, None), [(one.done, one.room, ctypes.string_at(one.name, 9)) for one in some])
for name in ("\0" + "y" * 105, "\0d"):
    try: made(socket.SOCK_DGRAM, name)
    except OSError as error: show(error.strerror)
made(socket.SOCK_STREAM, "/tmp/plain"); show(socket.socketpair()[0].getpeername() == "", open("/proc/net/unix").read() == "")
time.sleep(1)
"#;

/// All nodes share one network namespace.
#[test]
fn abstract_unix_names_are_each_nodes_own() {
    let programs = (0..2).map(|node| process(["one", "two"][node], node, 0, &["python3", "-c", ABSTRACT], Expect::Status(0))).collect();
    let (world, _) = run(pair(gigabit(Duration::from_millis(1)), programs, 60_000), 2);
    let wanted = "b'\\x00same' b'\\x00same' True True True\n\
        b'\\x0000000' b'\\x0000001' \n\
        (b'1', b'\\x0000000')\n\
        (b'2', [], 0, b'\\x0000000')\n\
        2 [4, 4]\n\
        2 [(4, 8, b'\\x01\\x00\\x0000000 '), (4, 8, b'\\x01\\x00\\x000\\x00\\x00\\x00\\x00\\x00')]\n\
        Invalid argument\nAddress already in use\nTrue True\n";
    for number in 0..2 {
        assert_eq!(output(&world, number), wanted);
    }
}

/// Writes at the top of a folder of the host's over which nothing lies, with folders open and a working directory in it. Nobody but root has a /usr.
const LAYERS: &str = r#"
cd /usr
test -w /usr && echo writable
sh -c 'echo one > file; cat /usr/file'
cat file
mkdir folder && cd folder && pwd -P
rm /usr/file
(cd /usr && ls -d file folder; mkdir bin/new share)
python3 -c '
import os
top = os.open("/usr", os.O_RDONLY)
os.mkdir("other", dir_fd=top)
print("other" in os.listdir(top), "bin" in os.listdir(top), os.listdir("/usr/other"))'
"#;
/// Its parent has the folder open before its child has the layer laid.
const FOLLOWS: &str = r#"
import os, subprocess
top = os.open("/usr", os.O_RDONLY)
os.chdir("/usr")
subprocess.run(["mkdir", "/usr/made"])
print("made" in os.listdir(top), "made" in os.listdir("."), "share" in os.listdir(top), os.open("/usr", os.O_RDONLY) == top + 1)
"#;

/// /var gets its layer when somebody writes there, /usr does not get one by that; who watches a folder sees what is made in it, and nobody sees that it could not be
/// written before.
const LATE: &str = r#"
import ctypes, os, stat, subprocess
libc = ctypes.CDLL(None, use_errno=True)
spool, mode = os.stat("/var/spool"), oct(stat.S_IMODE(os.stat("/var").st_mode))
print(mode, spool.st_uid, os.statvfs("/var").f_flag & os.ST_RDONLY, os.path.exists("/var/spool/made"))
os.chdir("/var/spool")
watch = libc.inotify_init()
assert libc.inotify_add_watch(watch, b"/var/spool", 0x100) == 1
subprocess.run(["sh", "-c", "echo one > /var/spool/made; mkdir /var/tmp/folder; test -w /var/lib && echo writable"])
print(os.read(watch, 4096)[16:].rstrip(b"\0"), open("made").read(), os.listdir("/var/tmp/folder"))
now = os.stat("/var/spool")
print(now.st_uid == spool.st_uid, now.st_mode == spool.st_mode, oct(stat.S_IMODE(os.stat("/var").st_mode)) == mode)
os.unlink("made"), os.rmdir("/var/tmp/folder")
"#;

#[test]
fn what_programs_may_write_in_gets_its_layer_when_one_does() {
    let programs = vec![
        process("python", 0, 0, &["python3", "-c", LATE], Expect::Status(0)),
        process(
            "other",
            1,
            0,
            &["sh", "-c", "cd /var/spool; echo two > made; cat made; test -e /var/tmp/folder || echo none"],
            Expect::Status(0),
        ),
    ];
    let (world, _) = run(pair(gigabit(Duration::from_millis(1)), programs, 60_000), 2);
    assert_eq!(output(&world, 0), "writable\n0o755 0 0 False\nb'made' one\n []\nTrue True True\n");
    assert_eq!(output(&world, 1), "two\nnone\n");
    assert!(!std::path::Path::new("/var/spool/made").exists());
}

/// `/` and /dev are one for all nodes until somebody writes there; who is there already sees it, and that they are others now is nobody's business.
const TOP: &str = r#"
import os, time
top = os.open("/", os.O_RDONLY)
os.chdir("/sys")
numbers = lambda: [os.lstat(path).st_ino for path in ("/", ".", "/dev", "/dev/fd", "/dev/null", "/dev/shm", "/proc", "/tmp", "/etc")]
before = numbers()
print(os.statvfs("/").f_flag & os.ST_RDONLY, os.path.exists("/made"), os.listdir("/dev/shm"))
time.sleep(1)
print("made" in os.listdir(top), sorted(os.listdir(".")), os.getcwd(), open("/dev/new").read(), os.listdir("/dev/shm"), numbers() == before)
os.rmdir("/made"), os.unlink("/dev/new"), os.unlink("x")
print(open("/dev/null", "w").write("lost"), len(open("/dev/urandom", "rb").read(9)), os.path.exists("/proc/self/status"), os.path.exists("/usr/bin"))
"#;

#[test]
fn what_is_at_the_top_is_a_nodes_own_when_somebody_writes_there() {
    const WRITE: &str = "sleep .5; echo mine > /dev/shm/x; test -w / && mkdir /made && echo one > /dev/new && touch /sys/x";
    let look = &["sh", "-c", "sleep 1; cat /dev/shm/x /made /dev/new /sys/x 2> /dev/null || echo none; ls /given"];
    let programs = vec![
        process("python", 0, 0, &["python3", "-c", TOP], Expect::Status(0)),
        process("shell", 0, 0, &["sh", "-c", WRITE], Expect::Status(0)),
        process("other", 1, 0, look, Expect::Status(0)),
    ];
    let mut plan = pair(gigabit(Duration::from_millis(1)), programs, 60_000);
    // One that has its own from the beginning.
    plan.nodes[1].files.own.push(OwnFile { path: "/given/x".into(), contents: Arc::from(&b"given"[..]), executable: false });
    let (world, _) = run(plan, 2);
    let python = "0 False []\nTrue ['class', 'devices', 'x'] /sys one\n ['x'] True\n4 9 True True\n";
    assert_eq!(output(&world, 0), python);
    assert_eq!(output(&world, 2), "none\nx\n");
    assert!(!std::path::Path::new("/made").exists() && !std::path::Path::new("/given").exists());
}

#[test]
fn a_folder_of_the_hosts_gets_a_layer_when_somebody_writes_there() {
    let programs = vec![
        process("shell", 0, 0, &["sh", "-c", LAYERS], Expect::Status(0)),
        process("python", 1, 0, &["python3", "-c", FOLLOWS], Expect::Status(0)),
    ];
    let before = std::fs::read_dir("/usr").expect("/usr").count();
    let (world, _) = run(pair(gigabit(Duration::from_millis(1)), programs, 60_000), 2);
    assert_eq!(std::fs::read_dir("/usr").expect("/usr").count(), before);
    let shell = "writable\none\none\n/usr/folder\nfolder\nTrue True []\n\
        ls: cannot access 'file': No such file or directory\n\
        mkdir: cannot create directory ‘bin/new’: Permission denied\nmkdir: cannot create directory ‘share’: File exists\n";
    assert_eq!(output(&world, 0), shell);
    assert_eq!(output(&world, 1), "True True True True\n");
}
