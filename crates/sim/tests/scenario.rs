//! Scenario files: what they come to. What is said about wrong ones: `make test-scenario-errors`.

use crate::support;

use support::{figure, output};
use weft_sim::plan::{Discipline, Loss, NodeKind};
use weft_sim::scenario::{Scenario, judge};
use weft_sim::{Reason, World, sweep};

fn parse(text: &str, sets: &[&str]) -> Result<Scenario, String> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let read = |name: &str| match name {
        "host.toml" => {
            Ok("[[interface]]\nname = \"eth0\"\nbackend = \"wire:x\"\n[[address]]\ninterface = \"eth0\"\naddress = \"10.0.0.9/24\"\n"
                .as_bytes()
                .to_vec())
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
        ("kind = \"star\"\ncount = 20", "n3", "n19", 2),
        ("kind = \"star\"\ncount = 300", "n3", "n290", 2),
        ("kind = \"grid\"\nwidth = 4\nheight = 3", "n1-1", "n4-3", 5),
        ("kind = \"dumbbell\"\nleft = 3\nright = 2", "n-left3", "n-right1", 3),
        ("kind = \"fat-tree\"\narity = 4", "n1", "n16", 6),
    ] {
        // Everybody on a LAN hears of everybody's addresses: 300 of them are more than a network of 254, and enough with IPv4.
        for ipv6 in if template.contains("300") { vec![false] } else { vec![false, true] } {
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
    let replies = |sets: &[&str]| {
        let (world, ..) = run(&format!("{PING}{events}"), &[&["programs.ping.count=16"], sets].concat());
        let text = output(&world, 0);
        let replies: Vec<u64> = text.lines().filter_map(|line| line.split_once("seq=")?.1.split_once(' ')?.0.parse().ok()).collect();
        (replies, text)
    };
    let (kept, text) = replies(&["wires.ab.carrier=false"]);
    assert_eq!(kept, [1, 2, 3, 4, 7, 8, 11, 12, 15, 16], "{text}");
    assert!(text.contains("seq=2 time=2.000000 ms") && text.contains("seq=3 time=10.000000 ms"), "{text}");
    // With its carrier an interface loses its neighbours, and what is sent waits for one.
    let (late, text) = replies(&[]);
    assert!(late == (1..=16).collect::<Vec<_>>() && text.contains("seq=5 time=2020.000000 ms"), "{text}");
}

/// A transfer during which the sender's graph is taken apart and put together.
const REBUILT: &str = r#"
[nodes.a]
[nodes.b]
[nodes.c]
[wires.ab]
between = ["a", "b"]
delay = "2ms"
rate = "20mbit"
[wires.bc]
between = ["b", "c"]
delay = "2ms"
[programs.sink]
node = "b"
builtin = "tcp-sink"
port = 80
[programs.send]
node = "a"
builtin = "tcp-send"
to = "b:80"
bytes = 4000000
[[events]]
at = "100ms"
node = "a"
control = ["add wan delay delay=5ms", "insert wan ether:lower interfaces:upper", "add seen counter", "insert seen tcp:ip4 ip4:upper"]
[[events]]
at = "300ms"
node = "a"
control = ["set tcp.congestion reno", "replace wan forward --drop-state", "extract seen"]
[[events]]
at = "500ms"
node = "a"
control = ["unbind ip4:lower arp:upper", "unbind tcp:ip4", "bind tcp:ip4 seen:in", "bind seen:out ip4:upper", "bind ip4:lower arp:upper"]
[[events]]
at = "700ms"
node = "a"
control = ["replace ip4 ip4 default_ttl=40", "delete wan", "bind ether:lower interfaces:upper"]
[[events]]
at = "900ms"
node = "a"
control = ["exec seen reset"]
"#;

#[test]
fn a_graph_is_taken_apart_and_put_together_during_a_transfer() {
    let (world, _, failures) = run(REBUILT, &[]);
    assert_eq!(failures, [""; 0]);
    assert_eq!((figure(&world, 1, "sent_bytes"), figure(&world, 0, "received_bytes")), (4_000_000, 4_000_000));
    let with_threads = |threads: usize| {
        let mut world = World::new(parse(REBUILT, &[]).unwrap().plan, threads).unwrap();
        assert_eq!(world.run(&mut |_| true).failures, [""; 0]);
        world
    };
    let mut two = with_threads(2);
    assert_eq!(two.hash(), world.hash());
    let shown = two.control(0, weft_core::Op::Show(weft_core::Show::Counters)).unwrap();
    let seen = shown.as_array().unwrap().iter().find(|row| row["block"] == "seen").unwrap();
    assert!(seen["frames"].as_u64() > Some(20) && seen["counters"]["OutFrames"].as_u64() < seen["frames"].as_u64(), "{seen}");
    // What is told and changes nothing else is part of the hash as well.
    let (other, ..) = run(REBUILT, &["events.5.control=[\"add idle counter\"]"]);
    assert_ne!(other.hash(), world.hash());
}

#[test]
fn a_node_goes_back_to_a_snapshot_and_the_hash_does_not_know() {
    let told = |at: &str, control: &str| format!("[[events]]\nat = \"{at}\"\nnode = \"client\"\ncontrol = [\"{control}\"]\n");
    let (plain, ..) = run(PING, &[]);
    let both = |at: &str| told(at, "snapshot a.snapshot") + &told(at, "restore a.snapshot");
    let (world, _, failures) = run(&format!("{PING}{}{}", both("1s"), both("2500us")), &[]);
    assert_eq!((world.hash(), failures), (plain.hash(), Vec::new()));
    // A node that has booted since holds other sockets, and a snapshot of another node's is none of its own.
    let rebooted = "[[events]]\nat = \"1100ms\"\nrestart = \"client\"\n".to_owned() + &told("1200ms", "restore a.snapshot");
    let scenario = parse(&format!("{PING}{}{rebooted}", told("1s", "snapshot a.snapshot")), &[]).unwrap();
    let end = World::new(scenario.plan, 1).unwrap().run(&mut |_| true);
    assert_eq!(end.failures.len(), 1, "{:?}", end.failures);
    assert!(end.failures[0].contains("restore a.snapshot: programs hold 1 socket of this node"), "{:?}", end.failures);
}

#[test]
fn what_a_node_is_told_is_checked_when_the_scenario_is_loaded() {
    let told = |commands: &str| parse(&format!("{PING}[[events]]\nat = \"1s\"\nnode = \"client\"\ncontrol = [{commands}]\n"), &[]);
    for (commands, wrong) in [
        ("\"add a counter\",\n\"isnert a tcp ip4\"", "s.toml:16: there is no command 'isnert'"),
        ("\"add a counter\",\n\"insert a tcp:ip5 ip4\"", "s.toml:16: node 'client': block 'tcp' has no output port 'ip5'"),
        ("\"exec arp flsuh\"", "s.toml:15: node 'client': block 'arp' has no procedure 'flsuh'; did you mean 'flush'?"),
        ("\"exec arp flush\", \"delete arp\"", "s.toml:15: this is no part of a change"),
        ("\"get tcp.mss\"", "s.toml:15: an event asks nothing"),
        ("\"snapshot /tmp/a.snapshot\"", "s.toml:15: snapshot: '/tmp/a.snapshot': a snapshot lies in the folder of results"),
        ("\"snapshot a.snapshot\", \"restore a.snapshot\"", "s.toml:15: this is no part of a change"),
        ("\"restore a.snapshot\"", "s.toml:15: restore: 'a.snapshot': there is no such file or folder"),
        ("", "s.toml:15: the node is told nothing"),
    ] {
        let error = told(commands).unwrap_err();
        assert!(error.starts_with(wrong), "{error}");
    }
    // Events see what earlier ones have made, whatever their order in the file; a node that boots anew is as the file says.
    let later = "[[events]]\nat = \"500ms\"\nnode = \"client\"\ncontrol = [\"add early counter\"]\n";
    let of = |between: &str| {
        parse(&format!("{PING}[[events]]\nat = \"1s\"\nnode = \"client\"\ncontrol = [\"insert early tcp:ip4 ip4\"]\n{later}{between}"), &[])
    };
    of("").unwrap();
    let error = of("[[events]]\nat = \"700ms\"\ncrash = \"client\"\n").unwrap_err();
    assert!(error.contains("no block named 'early'"), "{error}");
    // What only shows when it runs is a failure that names node and command.
    let late = format!(
        "{PING}[[events]]\nat = \"1s\"\nnode = \"client\"\ncontrol = [\"exec ip4 route_add destination=10.1.0.0/16 gateway=10.99.0.1\"]\n"
    );
    let (.., failures) = run(&late, &[]);
    assert!(failures.iter().any(|failure| failure.contains("'client' is told exec ip4 route_add")), "{failures:?}");
}

#[test]
fn who_is_alone_in_its_network_is_told() {
    let remarks = |addresses: &[&str]| {
        let mut text = "[nodes.lan]\nkind = \"switch\"\n".to_owned();
        for (number, address) in addresses.iter().enumerate() {
            text += &format!("[nodes.n{number}]\n{address}\n[wires.w{number}]\nbetween = [\"n{number}\", \"lan\"]\n");
        }
        parse(&text, &[]).unwrap().remarks
    };
    let of = |address: &str| format!("addresses = {{ eth0 = \"{address}\" }}");
    let (one, two, other, third) = (of("10.9.0.1/24"), of("10.9.0.2/24"), of("10.8.0.1/24"), of("10.8.0.2/24"));
    let told = remarks(&[&one, &other]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("s.toml:3: n0:eth0 has 10.9.0.1/24, and is joined with n1:eth0, which has 10.8.0.1/24: "), "{told:?}");
    let told = remarks(&[&one, &two, &other, &of("10.7.0.1/24")]);
    assert!(told.len() == 2 && told[0].contains("n2:eth0 has 10.8.0.1/24") && told[1].contains("n3:eth0 has 10.7.0.1/24"), "{told:?}");
    // Two networks on one switch, addresses by themselves, IPv6, and who gets what fits.
    let sound: [&[&str]; 5] = [
        &[&one, &two, &other, &third],
        &[&of("10.9.0.1/32"), &of("10.8.0.1/32")],
        &[&of("fd00::1/64"), &of("fd01::1/64")],
        &[&one, ""],
        &["addresses = { eth0 = [\"10.9.0.1/24\", \"10.8.0.9/24\"] }", &other],
    ];
    for addresses in sound {
        assert_eq!(remarks(addresses), Vec::<String>::new(), "{addresses:?}");
    }
}

#[test]
fn events_that_nothing_comes_of_are_told() {
    let text =
        "duration = \"3s\"\n[nodes.a]\n[nodes.b]\n[nodes.c]\n[wires.ab]\nbetween = [\"a\", \"b\"]\n[wires.bc]\nbetween = [\"b\", \"c\"]\n";
    let events = [
        "up = \"ab\"",
        "down = \"ab\"",
        "down = \"*b*\"",
        "up = \"*\"",
        "crash = \"a\"",
        "down = \"ab\"",
        "crash = \"*\"",
        "restart = \"*\"",
    ];
    let lines: String =
        events.iter().enumerate().map(|(number, event)| format!("[[events]]\nat = \"{}ms\"\n{event}\n", 100 + number)).collect();
    let scenario = parse(&format!("{text}{lines}"), &[]).unwrap();
    let end = World::new(scenario.plan, 1).unwrap().run(&mut |_| true);
    assert_eq!(end.failures, Vec::<String>::new());
    let told = [
        "0.100000000s: wire 'ab' goes up, and was up already",
        "0.102000000s: wire 'ab' goes down, and was down already",
        "0.106000000s: 'a' crashes, and was off already",
    ];
    assert_eq!(end.idle, told.map(|line| format!("event at {line}")));
}

#[test]
fn built_in_programs_live_from_their_time_on_and_not_when_they_are_stopped_before() {
    let text = "duration = \"3s\"\n[nodes.a]\n[nodes.b]\n[wires.ab]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n\
        [programs.sink]\nnode = \"b\"\nbuiltin = \"tcp-sink\"\nport = 80\n\
        [programs.stopped]\nnode = \"a\"\nbuiltin = \"tcp-send\"\nto = \"b:80\"\nbytes = 1000\nstart = \"1s\"\nexpect = \"any\"\n\
        [programs.sooner]\nnode = \"a\"\nbuiltin = \"ping\"\nto = \"b\"\ncount = 1\nstart = \"2s\"\n\
        [programs.late]\nnode = \"a\"\nbuiltin = \"udp-cbr\"\nto = \"b:9\"\nrate = \"1mbit\"\nstart = \"5s\"\nexpect = \"any\"\n\
        [programs.again]\nnode = \"a\"\nbuiltin = \"udp-cbr\"\nto = \"b:9\"\nrate = \"1mbit\"\nwaits = true\nexpect = \"any\"\n\
        [[events]]\nat = \"500ms\"\nstop = \"stopped\"\n[[events]]\nat = \"600ms\"\nstart = \"sooner\"\n\
        [[events]]\nat = \"700ms\"\nstop = \"sooner\"\n\
        [[events]]\nat = \"1100ms\"\nstart = \"again\"\n[[events]]\nat = \"1200ms\"\nstop = \"again\"\n\
        [[events]]\nat = \"1300ms\"\nstart = \"again\"\n[[events]]\nat = \"1400ms\"\nstop = \"again\"\n";
    let scenario = parse(text, &[]).unwrap();
    let mut world = World::new(scenario.plan.clone(), 1).unwrap();
    let end = world.run(&mut |_| true);
    assert_eq!((end.reason, &end.failures[..]), (Reason::Duration, &[][..]));
    // To stop it before its time is no event that nothing came of; to stop one that has ended is.
    assert_eq!(end.idle.len(), 1, "{:?}", end.idle);
    assert!(end.idle[0].contains("sooner is stopped: it ended at 0.604"), "{:?}", end.idle);
    let state = |name: &str| {
        let number = scenario.plan.programs.iter().position(|program| program.name == name).unwrap();
        let state = world.program(number).unwrap();
        let text = String::from_utf8_lossy(&state.output).into_owned();
        (state.started.map(|at| at.as_nanos() / 1_000_000), state.ended.map(|(at, _)| at.as_nanos() / 1_000_000), state.before.len(), text)
    };
    for name in ["stopped", "late"] {
        assert_eq!(state(name), (None, None, 0, String::new()), "{name}");
    }
    assert_eq!(figure(&world, 0, "connections"), 0, "what never started connects to nobody");
    let (started, ended, before, _) = state("sooner");
    assert_eq!((started, ended, before), (Some(600), Some(604), 0), "an event starts it before its time, and it starts once");
    let (started, ended, before, text) = state("again");
    assert_eq!((started, ended.is_some_and(|at| (1400..1420).contains(&at)), before), (Some(1300), true, 1));
    assert_eq!(text.matches("datagrams").count(), 2, "{text}");
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
    let cases: Vec<sweep::Case<'_>> = seeds.iter().map(|seed| sweep::Case { scenario: &scenario, seed: *seed }).collect();
    let all =
        sweep::run(&cases, &sweep::Options { threads: 2, until_fail: false, limit: None, broken_is_failed: false, watch: &|_, _| true })
            .unwrap();
    let first = all.values().find(|result| !result.passed()).expect("one of sixty fails").seed;
    let until =
        sweep::run(&cases, &sweep::Options { threads: 3, until_fail: true, limit: None, broken_is_failed: false, watch: &|_, _| true })
            .unwrap();
    assert_eq!(until.values().last().map(|result| (result.seed, result.passed())), Some((first, false)));
    assert!(until.values().zip(all.values()).all(|(a, b)| a.hash == b.hash));
    let statistic = sweep::statistics(all.values())["ping.requests"];
    assert_eq!((statistic.count, statistic.mean, statistic.confidence), (60, 2.0, 0.0));
}

#[test]
fn sysctls_are_those_of_linux_and_take_what_sysctl_takes() {
    let of = |sysctls: &str| parse(&format!("[nodes.a]\nsysctls = {{ {sysctls} }}\n"), &[]);
    let text = r#""net.ipv4.tcp_congestion_control" = "reno", "net.ipv4.tcp_rmem" = "4096 65536 1048576", "net.ipv4.tcp_fin_timeout" = 20,
        "net.ipv4.ip_forward" = 1, "net.ipv4.tcp_sack" = false, "net.ipv4.icmp_echo_ignore_all" = true, "net.ipv4.ip_local_port_range" = [2000, 3000]"#;
    let mut world = World::new(of(text).unwrap().plan, 1).unwrap();
    let mut get = |block: &str, name: &str| {
        let op = weft_core::Op::Get { target: weft_core::Selector::Name(block.to_owned()), name: Some(name.to_owned()) };
        world.control(0, op).unwrap()[block].to_string()
    };
    let rows = [
        ("tcp", "congestion", "\"reno\""),
        ("tcp", "rmem_min", "4096"),
        ("tcp", "rmem_max", "1048576"),
        ("ip4", "forward", "true"),
        ("tcp", "sack", "false"),
        ("icmp4", "echo", "false"),
        ("sockets", "ephemeral_last", "3000"),
    ];
    for (block, name, value) in rows {
        assert_eq!(get(block, name), value, "{block}.{name}");
    }
    assert!(get("tcp", "fin_timeout").contains("20"), "{}", get("tcp", "fin_timeout"));
    // What the parameter refuses is told at the sysctl's own line.
    let error = of("\"net.ipv4.tcp_congestion_control\" = \"vegas\"").unwrap_err();
    assert!(error.starts_with("s.toml:2:"), "{error}");
    let error = of("\"net.ipv4.ip_forward\" = \"yes\"").unwrap_err();
    assert!(error.starts_with("s.toml:2:") && error.contains("0 or 1"), "{error}");
}

#[test]
fn what_is_set_from_outside_is_named_when_it_is_wrong() {
    let wrong = |set: &str| parse(PING, &[set]).unwrap_err();
    let error = wrong("wires.abb.loss=0.1");
    assert!(error.contains("nothing called 'abb' in wires") && error.contains("did you mean 'ab'? there are: ab"), "{error}");
    // The place within the assignment is none in the file.
    let error = wrong("nodes.client.sysctls={ \"net.ipv4.x\" = 1 }");
    assert!(error.contains("--set nodes.client.sysctls") && !error.contains("s.toml"), "{error}");
    let events = format!("{PING}[[events]]\nat = \"1s\"\ndown = \"ab\"\n");
    assert_eq!(parse(&events, &["events.1.at=3s"]).unwrap().plan.events[0].at.as_millis(), 3000);
    let error = parse(&events, &["events.2.at=3s"]).unwrap_err();
    assert!(error.contains("counted from 1 to 1"), "{error}");
    // A word of a list is a value, too.
    let control = format!("{PING}[[events]]\nat = \"1s\"\nnode = \"client\"\ncontrol = [\"set tcp.congestion cubic\", \"x\"]\n");
    let of = |set: &str| parse(&control, &[set]).map(|scenario| format!("{:?}", scenario.plan.events[0].action));
    assert!(of("events.1.control.2=set tcp.congestion reno").unwrap().contains("reno"));
    assert!(
        of("events.1.control.3=set tcp.congestion reno")
            .unwrap_err()
            .contains("there is no 'control.3'\nhelp: they are counted from 1 to 2")
    );
    assert!(of("events.1.control.2.x=1").unwrap_err().contains("'control.2' is no table"));
    // A value of the wrong kind: what to write is what a shell takes.
    let error = wrong("wires.ab.delay=0.05");
    assert!(
        error.contains("--set wires.ab.delay=0.05: this is the floating point `0.05`, expected a text")
            && error.contains("write it as delay=20ms"),
        "{error}"
    );
    assert!(wrong("wires.ab.between=a").contains("write it as between=[\"client\", \"server\"]"));
}

#[test]
fn expectations_are_of_texts_patterns_ends_and_all_copies() {
    let of = |expect: &str| {
        let text = format!(
            "{}{expect}",
            PING.replace("[nodes.server]", "[nodes.server]\n[nodes.leaf]\ncount = 2\n[wires.l]\nbetween = [\"leaf*\", \"server\"]")
                .replace("node = \"client\"", "node = \"leaf*\"")
                .replace("delay", "#delay")
        );
        run(&text, &[]).2
    };
    for sound in [
        "matches = 'seq=\\d time=0\\.\\d+ ms'",
        "absent = \"unreachable\"",
        "end_min = \"1s\"\nend_max = \"2s\"",
        "output = \"seq=1\"\nstatus = 0",
    ] {
        for who in ["ping", "ping@leaf*", "p*"] {
            assert_eq!(of(&format!("[[expect]]\nprogram = \"{who}\"\n{sound}\n")), [""; 0], "{who} {sound}");
        }
    }
    let failures = of("[[expect]]\nprogram = \"ping\"\nmatches = 'seq=9'\nabsent = \"seq=1\"\nend_max = \"10ms\"\nfigure = \"rtt\"\n");
    assert_eq!(failures.len(), 8, "{failures:?}");
    for part in
        ["/seq=9/", "bytes without it: \"", "does not write \"seq=1\"", "line ", "ends by", "there are: replies, requests, rtt_max_ns"]
    {
        assert!(failures.iter().any(|failure| failure.contains(part)), "{part}: {failures:?}");
    }
}

#[test]
fn each_life_of_a_program_is_told_and_the_run_waits_for_the_last() {
    let text = &[
        PING,
        r#"
[[events]]
at = "500ms"
crash = "client"
[[events]]
at = "600ms"
stop = "ping"
[[events]]
at = "10s"
restart = "client"
[[events]]
at = "10500ms"
crash = "client"
[[events]]
at = "20s"
restart = "client"
"#,
    ]
    .concat();
    let scenario = parse(text, &[]).unwrap();
    let mut world = World::new(scenario.plan.clone(), 1).unwrap();
    let end = world.run(&mut |_| true);
    let state = world.program(0).unwrap();
    let starts: Vec<u128> = state.before.iter().map(|life| u128::from(life.started.as_millis())).collect();
    assert_eq!((starts, state.started.unwrap().as_millis()), (vec![0, 10_000], 20_000));
    // The last life ends as it should, two requests after its beginning.
    assert_eq!((state.ended.unwrap().1, end.at.as_millis() > 21_000), (weft_sim::Status::Exited(0), true));
    assert_eq!(output(&world, 0).matches("seq=1 ").count(), 3, "{}", output(&world, 0));
    assert_eq!((end.failures.len(), end.idle.len()), (0, 1), "{:?}", end.idle);
    assert!(end.idle[0].contains("it ended at") && end.idle[0].contains("500"), "{:?}", end.idle);
    // Who has no power starts nothing.
    let late = text.replace("stop = \"ping\"", "start = \"ping\"");
    let failures = run(&late, &[]).2;
    assert!(failures.iter().any(|failure| failure.contains("its node 'client' has crashed")), "{failures:?}");
}

/// Nobody compiles anything for a node in a world: what stands in events and stack files is understood where it runs.
#[test]
fn expressions_are_understood_on_simulated_nodes_and_follow_groups() {
    let events = "[[events]]\nat = \"1500ms\"\nnode = \"client\"\ncontrol = [\"add sort classify\", \"insert sort ip4:lower arp:upper\", \
                  \"add gate filter link=ip\", \"insert gate sort:out arp:upper\", \"set gate.expression 'icmp and oifgroup 7'\", \
                  \"set sort.class2 'icmp[icmptype] = icmp-echo'\"]\n\
                  [[events]]\nat = \"2500ms\"\nnode = \"client\"\ncontrol = [\"exec interfaces set index=2 group=7\"]\n";
    let (world, _, _) = run(&format!("{}{events}", PING.replace("count = 2", "count = 4")), &[]);
    let of = |block: &str| {
        let graph = world.graph(0).unwrap();
        graph.block(graph.find(block).unwrap()).unwrap().counters().to_vec()
    };
    // At 0 s and 1 s nothing is in the way; at 2 s the interface is in no group, at 3 s in group 7.
    assert_eq!(of("sort"), [0, 0, 2, 0, 0, 0, 0, 0, 0]);
    assert_eq!(of("gate"), [1, 1]);
    assert_eq!(figure(&world, 0, "replies"), 3);
    let wrong = "[[events]]\nat = \"1s\"\nnode = \"client\"\ncontrol = [\"add gate filter expression='udp prot 53'\"]\n";
    let refused = parse(&format!("{PING}{wrong}"), &[]).unwrap_err();
    assert!(refused.contains("'prot' (word 2)"), "{refused}");
}
