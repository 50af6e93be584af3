use super::*;
use crate::Scenario;

fn plan(text: &str) -> Plan {
    Scenario::parse("w.toml", text, &[], &|name| Err(format!("there is no {name}"))).unwrap().plan
}

fn template(kind: &str) -> Plan {
    plan(&format!("[templates.n]\nkind = {kind}\nwire = {{ rate = \"100mbit\", delay = \"1ms\" }}\n"))
}

const BY_HAND: &str = r#"
[nodes.client]
[nodes.wifi-router]
[nodes.lte-router]
[nodes.gateway]
[nodes.server]
[wires.wifi]
between = ["client", "wifi-router"]
rate = "20mbit"
delay = "5ms"
loss = 0.01
[wires.lte]
between = ["client", "lte-router"]
rate = "5mbit"
delay = "30ms"
back = { rate = "40mbit", delay = "25ms" }
[wires.one]
between = ["wifi-router", "gateway"]
rate = "1gbit"
[wires.other]
between = ["lte-router", "gateway"]
rate = "1gbit"
[wires.line]
between = ["gateway", "server"]
rate = "100mbit"
delay = "10ms"
[programs.sink]
node = "server"
builtin = "tcp-sink"
port = 5001
"#;

/// Names, so that failures tell which.
fn topologies() -> Vec<(&'static str, Plan)> {
    let templates = [
        ("chain", "\"chain\"\ncount = 8"),
        ("ring", "\"ring\"\ncount = 10"),
        ("star", "\"star\"\ncount = 20"),
        ("grid", "\"grid\"\nwidth = 4\nheight = 4"),
        ("dumbbell", "\"dumbbell\"\nleft = 4\nright = 4\nbottleneck = { rate = \"10mbit\", delay = \"20ms\" }"),
        ("fat-tree-4", "\"fat-tree\"\narity = 4"),
        ("fat-tree-8", "\"fat-tree\"\narity = 8"),
    ];
    templates.into_iter().map(|(name, kind)| (name, template(kind))).chain([("by-hand", plan(BY_HAND))]).collect()
}

/// The node with this name.
fn at(plan: &Plan, drawing: &Drawing, name: &str) -> Point {
    drawing.nodes[plan.nodes.iter().position(|node| node.name == name).unwrap()].0
}

#[test]
fn no_text_lies_on_another_or_on_a_node() {
    for (name, plan) in topologies() {
        let drawing = drawing(&plan);
        let nodes = drawing.nodes.iter().map(|(at, _)| Area { at: *at, size: (2.0 * drawing.radius, 2.0 * drawing.radius) });
        let areas: Vec<Area> = drawing.labels.iter().map(|label| label.area).chain(nodes).collect();
        for (number, one) in areas.iter().enumerate() {
            let touched = areas[number + 1..].iter().find(|other| one.touches(other));
            assert_eq!(touched, None, "{name}: {:?} at {one:?}", drawing.labels.get(number).map(|label| &label.lines));
        }
        // All names are there; in a fat tree of 208 nodes nearly all.
        let named = drawing.labels.iter().filter(|label| label.of_node).count();
        assert!(named == plan.nodes.len() || plan.nodes.len() > SMALL && named * 10 > plan.nodes.len() * 9, "{name}: {named}");
        assert_eq!(topology(&plan), topology(&plan), "{name}");
    }
}

#[test]
fn fat_trees_are_in_rows_with_their_hosts_below() {
    for arity in [4, 8] {
        let plan = template(&format!("\"fat-tree\"\narity = {arity}"));
        let drawing = drawing(&plan);
        let [core, aggregation, edge, host] = ["n-core1", "n-aggregation1-1", "n-edge1-1", "n1"].map(|name| at(&plan, &drawing, name).1);
        assert!(core < aggregation && aggregation < edge && edge < host, "{core} {aggregation} {edge} {host}");
        let row = |what: &str| {
            let pods = (1..=arity).flat_map(|pod| (1..=arity / 2).map(move |number| (pod, number)));
            pods.map(|(pod, number)| at(&plan, &drawing, &format!("n-{what}{pod}-{number}"))).collect::<Vec<Point>>()
        };
        for row in [row("aggregation"), row("edge")] {
            assert!(row.windows(2).all(|both| both[0].0 < both[1].0 && both[0].1 == both[1].1), "{row:?}");
        }
        assert_eq!(drawing.common.as_deref(), Some("each wire: 100 Mbit/s, 1 ms"));
    }
}

#[test]
fn chains_are_lines_grids_grids_and_stars_round() {
    let places = |kind: &str| drawing(&template(kind)).nodes.into_iter().map(|(at, _)| at).collect::<Vec<Point>>();
    let chain = places("\"chain\"\ncount = 8");
    assert!(chain.windows(2).all(|both| both[0].0 < both[1].0 && both[0].1 == both[1].1), "{chain:?}");
    let grid = places("\"grid\"\nwidth = 4\nheight = 3");
    assert!((0..12).all(|node| grid[node].0 == grid[node % 4].0 && grid[node].1 == grid[node / 4 * 4].1), "{grid:?}");
    let star = places("\"star\"\ncount = 20");
    let far = |at: &Point| ((at.0 - star[0].0).powi(2) + (at.1 - star[0].1).powi(2)).sqrt();
    assert!(star[1..].iter().all(|leaf| (far(leaf) - far(&star[1])).abs() < 0.2), "{star:?}");
}

#[test]
fn both_sides_of_a_dumbbell_are_on_their_side() {
    let (_, plan) = topologies().swap_remove(4);
    let drawing = drawing(&plan);
    let x = |name: &str| at(&plan, &drawing, name).0;
    assert!(
        (1..=4).all(|number| x(&format!("n-left{number}")) < x("n-router-left") && x(&format!("n-right{number}")) > x("n-router-right"))
    );
    assert!(x("n-router-left") < x("n-router-right"));
    let texts: Vec<&[String]> = drawing.labels.iter().filter(|label| !label.of_node).map(|label| &label.lines[..]).collect();
    assert_eq!((texts, drawing.common.as_deref()), (vec![&["10 Mbit/s, 20 ms".to_owned()][..]], Some("other wires: 100 Mbit/s, 1 ms")));
}

#[test]
fn wires_tell_their_rates_delays_and_losses() {
    let svg = topology(&plan(BY_HAND)).unwrap().svg;
    for text in [
        "20 Mbit/s, 5 ms, 1 % loss",
        "→ 5 Mbit/s, 30 ms",
        "← 40 Mbit/s, 25 ms",
        "1 Gbit/s",
        "100 Mbit/s, 10 ms",
        "runs programs",
        "wifi-router",
    ] {
        assert!(svg.contains(text), "{text} is not in {svg}");
    }
    // Two wires between the same nodes do not lie on each other, and a node that no wire joins is there.
    let two = plan("[nodes.a]\n[nodes.b]\n[nodes.c]\n[wires.one]\nbetween = [\"a\", \"b\"]\n[wires.two]\nbetween = [\"b\", \"a\"]\n");
    let drawing = drawing(&two);
    let middle = |wire: usize| along(&drawing.routes[wire], 0.5).unwrap().0;
    assert!((middle(0).1 - middle(1).1).abs() > 20.0 && drawing.nodes.len() == 3);
}

#[test]
fn hundreds_of_nodes_are_points_without_names() {
    let drawing = drawing(&template("\"grid\"\nwidth = 20\nheight = 20"));
    let [low, high] = drawing.corners();
    assert!(drawing.labels.is_empty() && high.0 - low.0 < 500.0 && high.1 - low.1 < 500.0, "{low:?} {high:?}");
    // Of thousands there is no picture.
    let mut many = template("\"chain\"\ncount = 2");
    many.wires = vec![many.wires[0].clone(); WIRES_MAX + 1];
    assert_eq!(topology(&many), None);
}
