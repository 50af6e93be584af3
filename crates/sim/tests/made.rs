//! Sections of nodes and wires that `count`, a template or a pattern makes: what of one differs.

use weft_sim::World;
use weft_sim::plan::Loss;
use weft_sim::scenario::Scenario;

fn parse(text: &str, sets: &[&str]) -> Result<Scenario, String> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Scenario::parse("s.toml", text, &sets, &|_| Err("no such file".to_owned())).map_err(|error| error.to_string())
}

/// Of a dumbbell, of `count` and of a pattern.
const MADE: &str = r#"
[templates.d]
kind = "dumbbell"
left = 2
right = 2
bottleneck = { rate = "10mbit", back = { rate = "1mbit" } }
wire = { delay = "1ms", rate = "100mbit" }
node = { parameters = { "tcp.congestion" = "reno", "tcp.mss" = 1000 } }
[templates.s]
kind = "star"
count = 2
[nodes.leaf]
count = 3
sysctls = { "net.ipv4.ip_default_ttl" = 60 }
[nodes.lan]
kind = "switch"
[wires.l]
between = ["leaf*", "lan"]
delay = "5ms"
"#;

/// What a node's parameters of TCP are.
fn parameter(scenario: &Scenario, node: &str, name: &str) -> String {
    let mut world = World::new(scenario.plan.clone(), 1).unwrap();
    let number = scenario.plan.nodes.iter().position(|known| known.name == node).unwrap();
    let op = weft_core::Op::Get { target: weft_core::Selector::Name("tcp".to_owned()), name: Some(name.to_owned()) };
    world.control(number, op).unwrap()["tcp"].to_string()
}

#[test]
fn one_of_those_that_are_made_differs() {
    let own = "[nodes.d-left2]\nparameters = { \"tcp.congestion\" = \"bbr\" }\n[nodes.leaf2]\nmemory = \"64MiB\"\n[wires.d3]\ndelay = \"9ms\"\n\
               [wires.d-bottleneck]\ndelay = \"3ms\"\nback = { delay = \"4ms\" }\n[wires.l2]\nloss = 0.5\n[nodes.s-switch]\n";
    let (plain, with) = (parse(MADE, &[]).unwrap(), parse(&format!("{MADE}{own}"), &[]).unwrap());
    let names = |scenario: &Scenario| {
        let nodes = scenario.plan.nodes.iter().map(|node| node.name.clone());
        nodes.chain(scenario.plan.wires.iter().map(|wire| wire.name.clone())).collect::<Vec<_>>()
    };
    assert_eq!(names(&plain), names(&with), "the same nodes and wires, in the same order");
    assert_eq!(plain.owners, with.owners);
    let congestion = |node| parameter(&with, node, "congestion");
    assert_eq!((congestion("d-left1"), congestion("d-left2")), ("\"reno\"".to_owned(), "\"bbr\"".to_owned()));
    assert_eq!(parameter(&with, "d-left2", "mss"), "1000", "what it does not say is the template's");
    let wire = |name: &str| &with.plan.wires.iter().find(|wire| wire.name == name).unwrap().directions;
    assert_eq!((wire("d2")[0].delay.as_millis(), wire("d3")[0].delay.as_millis(), wire("d3")[1].delay.as_millis()), (1, 9, 9));
    assert_eq!(wire("d3")[1].rate, wire("d2")[1].rate);
    let bottleneck = wire("d-bottleneck");
    assert_eq!((bottleneck[0].delay.as_millis(), bottleneck[1].delay.as_millis()), (3, 4));
    assert_eq!((bottleneck[0].rate.unwrap(), bottleneck[1].rate.unwrap()), (10_000_000, 1_000_000));
    assert_eq!((&wire("l1")[0].loss, &wire("l2")[0].loss), (&Loss::None, &Loss::Bernoulli(0.5)));
}

#[test]
fn one_of_those_that_are_made_is_set_on_the_command_line() {
    let set = |sets: &[&str]| parse(MADE, sets).unwrap_or_else(|error| panic!("{error}"));
    let one = set(&["nodes.d-left2.parameters.tcp.congestion=bbr", "wires.d3.delay=9ms", "wires.l2.loss=0.5", "nodes.leaf3.memory=64MiB"]);
    assert_eq!(parameter(&one, "d-left1", "congestion"), "\"reno\"");
    assert_eq!(parameter(&one, "d-left2", "congestion"), "\"bbr\"");
    let delay = |scenario: &Scenario, name: &str| {
        scenario.plan.wires.iter().find(|wire| wire.name == name).unwrap().directions[0].delay.as_millis()
    };
    assert_eq!((delay(&one, "d2"), delay(&one, "d3")), (1, 9));
    // Every host, and no switch.
    let all = set(&["nodes.*.parameters.tcp.congestion=cubic", "wires.*.delay=7ms"]);
    for node in ["d-left1", "d-router-left", "leaf1", "leaf3", "s2"] {
        assert_eq!(parameter(&all, node, "congestion"), "\"cubic\"", "{node}");
    }
    assert!(all.plan.wires.iter().all(|wire| wire.directions[0].delay.as_millis() == 7));
    // A pattern for made ones only leaves out switches that are made, too.
    let switches = format!("{MADE}[nodes.sw]\nkind = \"switch\"\ncount = 2\n");
    let odd = parse(&switches, &["nodes.*1.parameters.tcp.congestion=cubic"]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((parameter(&odd, "leaf1", "congestion"), parameter(&odd, "d-left2", "congestion")), ("\"cubic\"".into(), "\"reno\"".into()));
    // As many as the command line says that there are.
    let more = set(&["templates.d.left=5", "nodes.d-left5.parameters.tcp.congestion=bbr"]);
    assert_eq!(parameter(&more, "d-left5", "congestion"), "\"bbr\"");
    for (wrong, says) in [
        ("nodes.d-left3.forward=true", "there is nothing called 'd-left3' in nodes"),
        ("wires.l4.delay=1ms", "there is nothing called 'l4' in wires"),
        ("wires.d3.dely=1ms", "unknown field `dely`"),
        ("nodes.d-left2.parameters.tcp.congestion=fast", "fast"),
    ] {
        let error = parse(MADE, &[wrong]).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn what_is_wrong_with_one_of_those_that_are_made_is_told() {
    for (more, says) in [
        ("[wires.d9]\ndelay = \"1ms\"\n", "the wire 'd9' does not say where it ends"),
        ("[wires.d3]\nbetween = [\"leaf1\", \"leaf2\"]\n", "there is a wire 'd3' already"),
        ("[nodes.d-left2]\nforwad = true\n", "unknown field `forwad`"),
        ("[templates.d-left]\nkind = \"chain\"\ncount = 2\n", "there is a node 'd-left1' already"),
        ("[nodes.leaf2]\ncount = 2\n[nodes.leaf21]\nforward = \"yes\"\n", "boolean"),
    ] {
        let error = parse(&format!("{MADE}{more}"), &[]).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn shapes_that_no_world_holds_are_refused_before_they_are_made() {
    let grid = "[templates.g]\nkind = \"grid\"\nwidth = 100000\nheight = 100000\n";
    let tree = "[templates.t]\nkind = \"fat-tree\"\narity = 99999\n";
    let large = "[templates.t]\nkind = \"fat-tree\"\narity = 4\n[nodes.n]\ncount = 4000000000\n";
    let many: String = (0..40).map(|number| format!("[nodes.n{number}-]\ncount = 100000\n")).collect();
    let ends = "[nodes.n]\ncount = 300\n[wires.w]\nbetween = [\"*\", \"*\", \"*\", \"*\", \"*\", \"*\", \"*\", \"*\", \"*\"]\n";
    let nodes = "more than 100000 nodes";
    for (text, says) in [
        (grid, nodes),
        (tree, "no fat-tree is of switches with 99999 ports"),
        (large, nodes),
        (&many, nodes),
        (ends, "a wire has two ends"),
    ] {
        for sets in [&[][..], &["nodes.x.forward=true"], &["wires.w.delay=1ms"]] {
            let error = parse(text, sets).unwrap_err();
            assert!(error.contains(says) || !sets.is_empty(), "{error}");
        }
    }
}

#[test]
fn events_of_a_pattern_are_those_of_each_name() {
    let events = |lines: &[&str]| -> String { lines.iter().map(|line| format!("[[events]]\nat = \"1s\"\n{line}\n")).collect() };
    let each =
        |line: &str, name: &str, count: usize| (1..=count).map(|number| line.replace('N', &format!("{name}{number}"))).collect::<Vec<_>>();
    let cases: [(&str, Vec<String>); 8] = [
        (
            "wire = \"l*\"\nset = { delay = \"9ms\", back = { loss = 0.5 } }",
            each("wire = \"N\"\nset = { delay = \"9ms\", back = { loss = 0.5 } }", "l", 3),
        ),
        ("down = \"l*\"", each("down = \"N\"", "l", 3)),
        ("up = \"leaf*:eth0\"", each("up = \"N:eth0\"", "leaf", 3)),
        ("crash = \"leaf*\"", each("crash = \"N\"", "leaf", 3)),
        (
            "node = \"leaf*\"\nparameter = \"tcp.congestion\"\nvalue = \"bbr\"",
            each("node = \"N\"\nparameter = \"tcp.congestion\"\nvalue = \"bbr\"", "leaf", 3),
        ),
        // Switches are no machines.
        ("crash = \"s*\"", each("crash = \"N\"", "s", 2)),
        ("node = \"*\"\nblock = \"arp\"\nprocedure = \"flush\"", {
            let names = ["leaf1", "leaf2", "leaf3", "d-left1", "d-left2", "d-right1", "d-right2"];
            let mut lines: Vec<String> = Vec::new();
            for node in parse(MADE, &[]).unwrap().plan.nodes {
                if !node.name.ends_with("switch") && node.name != "lan" {
                    lines.push(format!("node = \"{}\"\nblock = \"arp\"\nprocedure = \"flush\"", node.name));
                }
            }
            assert!(names.iter().all(|name| lines.iter().any(|line| line.contains(&format!("\"{name}\"")))));
            lines
        }),
        ("partition = [[\"leaf*\"], [\"l*n\"]]", vec!["partition = [[\"leaf1\", \"leaf2\", \"leaf3\"], [\"lan\"]]".to_owned()]),
    ];
    for (pattern, written) in cases {
        let written: Vec<&str> = written.iter().map(String::as_str).collect();
        let of = |lines: &[&str]| {
            parse(&format!("duration = \"9s\"\n{MADE}{}", events(lines)), &[]).map(|scenario| format!("{:?}", scenario.plan.events))
        };
        assert_eq!(of(&[pattern]).unwrap(), of(&written).unwrap(), "{pattern}");
    }
}

#[test]
fn a_pattern_of_an_event_stands_for_something() {
    let refused = |event: &str| parse(&format!("duration = \"9s\"\n{MADE}[[events]]\nat = \"1s\"\n{event}\n"), &[]).unwrap_err();
    for (event, says) in [
        ("down = \"x*\"", "there is no wire 'x*'"),
        ("down = \"x*:eth0\"", "there is no node 'x*'"),
        ("crash = \"lea\"", "there is no node 'lea'"),
        ("crash = \"s-s*\"", "'s-s*' stands for switches only"),
        ("partition = [[\"leaf*\"], [\"lan\", \"leaf1\"]]", "node 'leaf1' is on two sides"),
        ("node = \"leaf*\"\ncontrol = [\"snapshot x.snapshot\"]", "3 nodes would write one snapshot"),
    ] {
        let error = refused(event);
        assert!(error.contains(says), "{event}: {error}");
    }
}
