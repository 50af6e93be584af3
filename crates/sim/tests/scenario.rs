//! Scenario files: what they come to, and what is said about wrong ones.

mod support;

use support::{figure, output};
use weft_sim::plan::{Discipline, Loss, NodeKind};
use weft_sim::scenario::{Scenario, judge};
use weft_sim::{Reason, World, sweep};

fn parse(text: &str, sets: &[&str]) -> Result<Scenario, String> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let read = |name: &str| match name {
        "host.toml" => {
            Ok("[[interface]]\nname = \"eth0\"\nbackend = \"wire:x\"\n[[address]]\ninterface = \"eth0\"\naddress = \"10.0.0.9/24\"\n"
                .to_owned())
        }
        _ => Err("no such file".to_owned()),
    };
    Scenario::parse("s.toml", text, &sets, &read).map_err(|error| error.to_string())
}

fn run(text: &str, sets: &[&str]) -> (World, Scenario, Vec<String>) {
    let scenario = parse(text, sets).unwrap_or_else(|error| panic!("{error}"));
    let mut world = World::new(scenario.plan.clone(), 1).unwrap();
    let end = world.run(&mut |_| true);
    let verdicts = judge(&world, &end, &scenario.expectations);
    assert_ne!(end.reason, Reason::Stuck);
    let failures = verdicts.into_iter().filter_map(|verdict| Some(format!("{}: {}", verdict.name, verdict.failure?))).collect();
    (world, scenario, failures)
}

const PING: &str = r#"
[nodes.client]
[nodes.server]
[wires.ab]
between = ["client", "server"]
delay = "1ms"
[programs.ping]
node = "client"
builtin = "ping"
to = "server"
count = 2
"#;

#[test]
fn two_nodes_and_a_wire_are_enough() {
    let (world, _, failures) = run(PING, &[]);
    assert_eq!(failures, [""; 0]);
    assert_eq!(figure(&world, 0, "rtt_min_ns"), 2_000_000);
}

#[test]
fn a_pattern_stands_for_every_host_and_no_switch() {
    let text = "[templates.n]\nkind = \"star\"\ncount = 3\nwire = { delay = \"1ms\" }\n[programs.p]\nnode = \"n*\"\nbuiltin = \"ping\"\nto = \"n1\"\ncount = 1\n";
    let (world, scenario, failures) = run(text, &[]);
    assert_eq!(failures, [""; 0]);
    let names: Vec<&str> = scenario.plan.programs.iter().map(|program| program.name.as_str()).collect();
    assert_eq!(names, ["p@n1", "p@n2", "p@n3"]);
    assert_eq!(figure(&world, 0, "rtt_min_ns"), 0, "to itself");
}

#[test]
fn the_command_line_says_otherwise_than_the_file() {
    let scenario = parse(PING, &["wires.ab.loss=0.25", "wires.ab.delay=3ms", "seed=7", "programs.ping.count=1"]).unwrap();
    assert_eq!(scenario.plan.wires[0].directions[1].loss, Loss::Bernoulli(0.25));
    assert_eq!((scenario.plan.seed, scenario.plan.wires[0].directions[0].delay.as_micros()), (7, 3000));
    let error = parse(PING, &["wires.ab.los=0.25"]).unwrap_err();
    assert!(error.contains("--set") && error.contains("unknown field `los`"), "{error}");
}

#[test]
fn every_template_is_connected_by_addresses_and_routes() {
    for (template, from, to, hops) in [
        ("kind = \"chain\"\ncount = 9", "n1", "n9", 8),
        ("kind = \"ring\"\ncount = 7", "n1", "n4", 3),
        ("kind = \"star\"\ncount = 300", "n3", "n290", 2),
        ("kind = \"grid\"\nwidth = 4\nheight = 3", "n1-1", "n4-3", 5),
        ("kind = \"dumbbell\"\nleft = 3\nright = 2", "n-left3", "n-right1", 3),
        ("kind = \"fat-tree\"\narity = 4", "n1", "n16", 6),
    ] {
        for ipv6 in [false, true] {
            let text = format!(
                "ipv6 = {ipv6}\n[templates.n]\n{template}\nwire = {{ delay = \"1ms\" }}\n[programs.ping]\nnode = \"{from}\"\nbuiltin = \"ping\"\nto = \"{to}\"\n"
            );
            let (world, scenario, failures) = run(&text, &[]);
            assert_eq!(failures, [""; 0], "{template}");
            assert_eq!(figure(&world, 0, "rtt_min_ns"), hops * 2_000_000, "{template}");
            if ipv6 {
                let NodeKind::Host(stack) = &scenario.plan.nodes.iter().find(|node| node.name == to).unwrap().kind else { panic!() };
                let address = stack.addresses().map(|section| section.address.clone()).find(|address| address.contains(':')).unwrap();
                let (address, _) = address.split_once('/').unwrap();
                let (world, _, failures) = run(&text, &[&format!("programs.ping.to={address}")]);
                assert_eq!((failures.len(), figure(&world, 0, "rtt_min_ns")), (0, hops * 2_000_000), "{template} {address}");
            }
        }
    }
}

#[test]
fn events_change_the_world_at_their_time() {
    let events = r#"
[[events]]
at = "1500ms"
wire = "ab"
set = { delay = "5ms" }
[[events]]
at = "3500ms"
down = "ab"
[[events]]
at = "5500ms"
up = "ab"
[[events]]
at = "7500ms"
partition = [["client"], ["server"]]
[[events]]
at = "9500ms"
heal = true
[[events]]
at = "11500ms"
down = "server:eth0"
[[events]]
at = "13500ms"
up = "server:eth0"
"#;
    let (world, ..) = run(&format!("{PING}{events}"), &["programs.ping.count=16"]);
    let text = output(&world, 0);
    let replies: Vec<u64> = text.lines().filter_map(|line| line.split_once("seq=")?.1.split_once(' ')?.0.parse().ok()).collect();
    assert_eq!(replies, [1, 2, 3, 4, 7, 8, 11, 12, 15, 16], "{text}");
    assert!(text.contains("seq=2 time=2.000000 ms") && text.contains("seq=3 time=10.000000 ms"), "{text}");
}

#[test]
fn a_node_that_crashes_loses_its_programs_and_starts_them_again() {
    let text = r#"
duration = "20s"
[nodes.client]
[nodes.server]
[wires.ab]
between = ["client", "server"]
delay = "1ms"
[programs.sink]
node = "server"
builtin = "tcp-sink"
port = 5001
expect = "any"
[programs.late]
node = "client"
builtin = "tcp-send"
to = "server:5001"
bytes = 1000
waits = true
[[events]]
at = "1s"
crash = "server"
[[events]]
at = "2s"
restart = "server"
[[events]]
at = "10s"
start = "late"
[[expect]]
program = "sink"
figure = "received_bytes"
min = 1000
max = 1000
"#;
    let (world, _, failures) = run(text, &[]);
    assert_eq!(failures, [""; 0], "{}", output(&world, 1));
    assert_eq!(world.program(0).unwrap().started.unwrap().as_millis(), 2000);
}

#[test]
fn stack_files_queues_and_parameters_reach_the_world() {
    let text = r#"
[nodes.client]
sysctls = { "net.ipv4.ip_forward" = true }
parameters = { "tcp.congestion" = "reno" }
[nodes.server]
stack = "host.toml"
[wires.ab]
between = ["client", "server"]
rate = "10mbit"
delay = "1ms"
queue = "codel"
back = { loss = 0.5, queue = "fq-codel" }
[programs.ping]
node = "client"
builtin = "ping"
to = "10.0.0.9"
count = 1
expect = "any"
"#;
    let scenario = parse(text, &[]).unwrap();
    let directions = &scenario.plan.wires[0].directions;
    assert!(matches!(directions[0].queue.discipline, Discipline::CoDel { .. }) && directions[0].loss == Loss::None);
    assert!(matches!(directions[1].queue.discipline, Discipline::FqCoDel { ecn: true, .. }) && directions[1].rate == Some(10_000_000));
    let mut world = World::new(scenario.plan, 1).unwrap();
    for (name, value) in [("tcp", "\"reno\""), ("ip4", "true")] {
        let parameter = if name == "tcp" { "congestion" } else { "forward" };
        let op = weft_core::Op::Get { target: weft_core::Selector::Name(name.to_owned()), name: Some(parameter.to_owned()) };
        assert_eq!(world.control(0, op).unwrap()[name].to_string(), value);
    }
}

#[test]
fn a_sweep_finds_the_first_seed_that_fails_and_gives_intervals() {
    let text = format!("{PING}\n[[expect]]\nprogram = \"ping\"\nfigure = \"replies\"\nmin = 2\n");
    let scenario = parse(&text, &["wires.ab.loss=0.05"]).unwrap();
    let seeds: Vec<u64> = (1..=60).collect();
    let all = sweep::run(&scenario, &seeds, &sweep::Options { threads: 2, until_fail: false, watch: &|_| true }).unwrap();
    let first = all.iter().find(|result| !result.passed()).expect("one of sixty fails").seed;
    let until = sweep::run(&scenario, &seeds, &sweep::Options { threads: 3, until_fail: true, watch: &|_| true }).unwrap();
    assert_eq!(until.last().map(|result| (result.seed, result.passed())), Some((first, false)));
    assert!(until.iter().zip(&all).all(|(a, b)| a.hash == b.hash));
    let statistic = sweep::statistics(&all)["ping.requests"];
    assert_eq!((statistic.count, statistic.mean, statistic.confidence), (60, 2.0, 0.0));
}

#[test]
fn wrong_files_are_told_where_and_what_to_do() {
    let base = "[nodes.a]\n[nodes.b]\n[wires.w]\nbetween = [\"a\", \"b\"]\n";
    for (text, line, what, help) in [
        ("seed = \"x\"", 1, "invalid type", "weft help scenario"),
        ("sed = 1", 1, "unknown field `sed`", "spelling"),
        ("duration = \"10\"", 1, "needs a unit", "20ms"),
        ("network = \"10.0.0.0/30\"", 1, "no IPv4 network", "24 bits"),
        ("[nodes.\"a b\"]", 1, "no name of a node", "letters"),
        ("[nodes.a]\nkind = \"router\"", 2, "no node is a 'router'", "host, switch"),
        ("[nodes.a]\n[wires.w]\n", 2, "does not say where it ends", "between"),
        ("[nodes.a]\n[wires.w]\nbetween = [\"a\"]", 3, "two ends", "switch"),
        ("[nodes.a]\n[wires.w]\nbetween = [\"a\", \"c\"]", 3, "no node 'c'", "the scenario has: a"),
        ("@delay = \"fast\"", 5, "no time span", "20ms"),
        ("@rate = \"0mbit\"", 5, "rate of zero", "down"),
        ("@rate = \"100\"", 5, "unit", "100mbit"),
        ("@loss = 2.0", 5, "no probability", "0 to 1"),
        ("@loss = 0.1\nlose = [1]", 5, "two ways", "one of"),
        ("@mtu = 20", 5, "MTU of 20", "68"),
        ("@queue = \"sfq\"", 5, "no queue is 'sfq'", "codel"),
        ("@jitter = \"1ms\"\njitter_shape = \"odd\"", 6, "no jitter is 'odd'", "pareto"),
        ("@los = 0.1", 5, "unknown field `los`", "spelling"),
        ("[templates.t]\nkind = \"tree\"", 2, "no template 'tree'", "chain, ring"),
        ("[templates.t]\nkind = \"ring\"\ncount = 2", 3, "at least 3", "example"),
        ("[templates.t]\nkind = \"grid\"\nwidth = 2", 2, "needs height", "height = "),
        ("[templates.t]\nkind = \"fat-tree\"", 2, "needs arity", "arity = 4"),
        ("[templates.t]\nkind = \"fat-tree\"\narity = 5", 3, "with 5 ports", "even number"),
        ("@trace = \"none\"", 5, "cannot read 'none'", "Mahimahi"),
        ("@trace = \"none\"\nrate = \"1mbit\"", 5, "two rates", "one of"),
        ("[nodes.a]\ncpu = { per_call = \"0ns\" }", 2, "a call would cost 0 s", "1ns to 1s"),
        ("[nodes.a]\ncpu = { factor = -1.0 }", 2, "a call would cost", "1ns to 1s"),
        ("@[programs.p]\nnode = \"z\"\nbuiltin = \"echo\"\nport = 1", 6, "no node 'z'", "a, b"),
        ("@[programs.p]\nnode = \"a\"", 5, "one of builtin and command", "builtin ="),
        ("@[programs.p]\nnode = \"a\"\nbuiltin = \"echo\"\nport = 7\nstdin = \"x\"", 9, "stdin is for commands", "command ="),
        ("@[programs.p]\nnode = \"a\"\ncommand = [\"true\"]\ndirectory = \"x\"", 8, "'x' depends on", "/srv/www"),
        ("@[programs.p]\nnode = \"a\"\nbuiltin = \"curl\"", 7, "no built-in program 'curl'", "tcp-send"),
        ("@[programs.p]\nnode = \"a\"\nbuiltin = \"echo\"", 5, "needs a port", "port ="),
        ("@[programs.p]\nnode = \"a\"\nbuiltin = \"ping\"", 5, "needs to", "to ="),
        ("@[programs.p]\nnode = \"a\"\nbuiltin = \"ping\"\nto = \"q\"", 8, "no node with an address 'q'", "a, b"),
        ("@[programs.p]\nnode = \"a\"\nbuiltin = \"tcp-send\"\nto = \"b:x\"\nbytes = 1", 8, "'x' is no port", "server:5001"),
        ("@[programs.p]\nnode = \"a\"\nbuiltin = \"tcp-send\"\nto = \"b:1\"", 5, "bytes or duration", "duration ="),
        ("@[programs.p]\nnode = \"a\"\nbuiltin = \"echo\"\nport = 1\nexpect = \"well\"", 9, "nothing ends as 'well'", "running"),
        ("@[[events]]\nat = \"1s\"", 6, "one thing", "down, up"),
        ("@[[events]]\nat = \"1s\"\ndown = \"x\"", 7, "no wire 'x'", "the scenario has: w"),
        ("@[[events]]\nat = \"1s\"\nset = { loss = 0.1 }", 7, "which wire", "wire ="),
        ("@[[events]]\nat = \"1s\"\npartition = [[\"a\", \"b\"]]", 7, "no wire joins", "different sides"),
        ("@[[events]]\nat = \"1s\"\nstart = \"p\"", 7, "no program 'p'", "has no programs"),
        ("@[programs.p]\nnode = \"a\"\ncommand = [\"sh\"]\n[[events]]\nat = \"1s\"\nsignal = \"p\"", 10, "which signal", "SIGHUP"),
        (
            "@[programs.p]\nnode = \"a\"\ncommand = [\"sh\"]\n[[events]]\nat = \"1s\"\nsignal = \"p\"\nname = \"SIGX\"",
            11,
            "no signal is 'SIGX'",
            "SIGUSR1",
        ),
        (
            "@[programs.p]\nnode = \"a\"\nbuiltin = \"echo\"\nport = 7\n[[events]]\nat = \"1s\"\nsignal = \"p\"",
            11,
            "takes no signals",
            "stop =",
        ),
        ("@[[expect]]\nstatus = 0", 5, "of whom", "program"),
        ("@[[expect]]\nhash = \"xyz\"", 6, "no hash", "summary.json"),
        ("[nodes.a]\nstack = \"none.toml\"", 2, "cannot read 'none.toml'", "stack file"),
        ("[nodes.a]\nparameters = { \"tcp.congestion\" = \"none\" }", 1, "node 'a'", "weft help block"),
        ("[nodes.a]\nsysctls = { \"net.ipv4.nonsense\" = 1 }", 2, "no parameter stands for", "parameters"),
        ("[nodes.a]\naddresses = { eth7 = \"10.0.0.1/24\" }", 2, "no wire ends at interface 'eth7'", "the node has"),
        ("@[wires.v]\nbetween = [\"a:eth0\", \"b\"]", 6, "on another wire already", "switch"),
    ] {
        let text = text.strip_prefix('@').map_or(text.to_owned(), |rest| format!("{base}{rest}"));
        let error = parse(&text, &[]).expect_err(&text);
        assert!(error.starts_with(&format!("s.toml:{line}: ")), "{text}\n{error}");
        assert!(error.contains(what), "{text}\nmisses {what}\n{error}");
        assert!(error.contains("\nhelp: ") && error.contains(help), "{text}\nmisses {help}\n{error}");
    }
}
