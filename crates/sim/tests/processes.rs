//! Unmodified programs on nodes of a world.

mod support;

use std::time::Duration;
use support::{gigabit, output, pair, process, run};
use weft_sim::plan::{DirectionPlan, Expect, Plan};
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
        ("weft: cannot execute no-such-program: No such file or directory (os error 2)\n", Some(Status::Exited(127)))
    );
    assert_eq!(text(&world, "sleeper").2, Some(Status::Killed(15)));
    let (later, _, _) = text(&world, "later");
    let since = later.trim().strip_prefix("1893456003.").and_then(|nanos| nanos.parse::<u32>().ok()).unwrap_or_else(|| panic!("{later}"));
    assert!(since < 10_000_000, "{later}");
    assert!(world.not_reproducible().is_empty());
}
