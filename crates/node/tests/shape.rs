//! Graphs that are brought to another shape: from any to any other, in one step, and what is in both stays.

use weft_core::{BlockId, Instant, Message, Op, Rng, Selector, command};
use weft_node::{Node, Shape, Stack};

/// Edges of the default graph into which blocks are put, with what their frames begin with.
const PLACES: [(&str, &str); 5] = [
    ("ether:lower", "interfaces:upper"),
    ("interfaces:upper", "ether:lower"),
    ("tcp:ip4", "ip4:upper"),
    ("ip4:udp", "udp:lower"),
    ("icmp6:lower", "ip6:upper"),
];
/// Kinds of block that go into any edge, with parameters that some of them get.
const KINDS: [(&str, &str); 7] = [
    ("counter", ""),
    ("delay", "delay = \"20ms\""),
    ("loss", "probability = 0.5"),
    ("rate", "rate = \"5mbit\""),
    ("forward", ""),
    ("filter", "link = \"ip\""),
    ("blackhole", ""),
];
/// What else a file may say.
const SETTINGS: [&str; 4] =
    ["congestion = \"reno\"\nsack = false\n", "[block.ip4]\nforward = true\n", "[block.arp]\nreachable_time = \"7s\"\n", ""];

/// A stack file that nobody else has.
fn file(number: u64) -> String {
    let mut rng = Rng::for_name(number, "file");
    let mut below = |bound: usize| rng.below(bound as u64) as usize;
    if number % 7 == 3 {
        let kind = KINDS[number as usize / 7].0;
        return format!(
            "[node]\ngraph = \"empty\"\n[block.a]\nkind = \"counter\"\n[block.b]\nkind = \"{kind}\"\n\
             [graph]\nedges = [\"a:out -> b:in\", \"b:out -> a:in\"]\n"
        );
    }
    let mut text = format!("[block.tcp]\nmss = {}\n{}", 500 + number, SETTINGS[below(SETTINGS.len())]);
    let mut inserts = Vec::new();
    let mut places: Vec<(String, String)> = PLACES.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
    for block in 0..below(6) {
        let (kind, parameters) = KINDS[below(KINDS.len())];
        let parameters = if below(2) == 0 { parameters } else { "" };
        text += &format!("[block.t{block}]\nkind = \"{kind}\"\n{parameters}\n");
        let at = below(places.len());
        let (from, to) = places[at].clone();
        inserts.push(format!("\"t{block} {from} {to}\""));
        places[at] = (from, format!("t{block}:in"));
        places.push((format!("t{block}:out"), to));
    }
    text + &format!("[graph]\ninsert = [{}]\n", inserts.join(", "))
}

fn stack(text: &str) -> Stack {
    Stack::parse("shape.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn graph(node: &mut Node) -> Shape {
    node.shape(Instant::ZERO).unwrap()
}

#[test]
fn any_graph_becomes_any_other_in_one_step_and_what_is_in_both_stays() {
    let files: Vec<String> = (0..20).map(file).collect();
    let shapes: Vec<Shape> = files.iter().map(|text| Shape::of(&stack(text)).unwrap()).collect();
    assert!(shapes.iter().enumerate().all(|(at, shape)| !shapes[..at].contains(shape)), "each is another");
    for (from, now) in files.iter().zip(&shapes) {
        for then in &shapes {
            let mut node = Node::new(&stack(from), 1).unwrap();
            node.set_boot_time(Instant::ZERO, 5);
            let ids = |node: &Node| -> Vec<(String, BlockId)> {
                let graph = node.engine().graph();
                graph.ids().map(|id| (graph.name(id).to_owned(), id)).collect()
            };
            let before = ids(&node);
            let (planned, nothing) = node.apply(Instant::ZERO, then, true).unwrap();
            assert_eq!((nothing, ids(&node)), (serde_json::json!([]), before.clone()), "only looked at");
            let (ops, _) = node.apply(Instant::ZERO, then, false).unwrap_or_else(|error| panic!("{error}\nfrom {from}\nto {then:?}"));
            assert_eq!((&graph(&mut node), &planned), (then, &ops));
            assert!(node.apply(Instant::ZERO, then, false).unwrap().0.is_empty());
            let after = ids(&node);
            for (name, id) in before {
                if let (Some(was), Some(is)) = (now.blocks.get(&name), then.blocks.get(&name)) {
                    assert_eq!(was.kind == is.kind, after.contains(&(name, id)), "it stays when its kind does");
                }
            }
            // The words come to the same.
            let mut again = Node::new(&stack(from), 1).unwrap();
            let lines: Vec<Op> = ops.iter().map(|op| command::parse(&command::write(op).unwrap()).unwrap().unwrap()).collect();
            again.control(Instant::ZERO, &Message { serial: 1, op: Op::All(lines) }).result.unwrap();
            assert_eq!(&graph(&mut again), then);
        }
    }
}

#[test]
fn a_difference_is_as_small_as_it_can_be() {
    let to = |from: &str, to: &str| -> Vec<String> {
        let (from, to) = (Shape::of(&stack(from)).unwrap(), Shape::of(&stack(to)).unwrap());
        from.to(&to).iter().map(|op| command::write(op).unwrap()).collect()
    };
    let wan = "[block.wan]\nkind = \"delay\"\ndelay = \"20ms\"\n[graph]\ninsert = [\"wan ether:lower interfaces:upper\"]\n";
    assert_eq!(
        to("", wan),
        ["unbind ether:lower interfaces:upper", "add wan delay delay=20ms", "bind ether:lower wan:in", "bind wan:out interfaces:upper"]
    );
    assert_eq!(to(wan, ""), ["delete wan", "bind ether:lower interfaces:upper"]);
    assert_eq!(to(wan, &wan.replace("20ms", "30ms")), ["set wan.delay 30ms"]);
    assert_eq!(to("", "[block.tcp]\ncongestion = \"reno\"\nmss = 536\n").len(), 2);
    let filter = wan.replace("delay\"\ndelay = \"20ms\"", "filter\"\nlink = \"LINK\"");
    let link = |name: &str| filter.replace("LINK", name);
    assert_eq!(to(&link("ip"), &link("ethernet")), ["replace wan filter link=ethernet"], "what only a new block can be told");
    assert_eq!(to(wan, wan), [""; 0]);
}

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing_behind() {
    let mut node = Node::new(&stack(""), 1).unwrap();
    let before = graph(&mut node);
    let mut wrong = before.clone();
    wrong.blocks.remove("sockets");
    let error = node.apply(Instant::ZERO, &wrong, false).unwrap_err().to_string();
    assert!(error.contains("no block named 'sockets'"), "its edges are there still: {error}");
    let mut wrong = before.clone();
    wrong.blocks.get_mut("tcp").unwrap().parameters.insert("mss".to_owned(), "much".into());
    for only_check in [true, false] {
        let error = node.apply(Instant::ZERO, &wrong, only_check).unwrap_err().to_string();
        assert!(error.starts_with("tcp.mss: "), "{error}");
    }
    assert_eq!(graph(&mut node), before);
}

#[test]
fn blocks_that_are_made_later_know_when_the_node_booted() {
    let mut node = Node::new(&stack(""), 1).unwrap();
    node.set_boot_time(Instant::ZERO, 77);
    let ask = |node: &mut Node, op: Op| node.control(Instant::ZERO, &Message { serial: 1, op }).result.unwrap();
    let shape = graph(&mut node);
    ask(&mut node, Op::Delete { name: "icmp4".to_owned() });
    node.apply(Instant::ZERO, &shape, false).unwrap();
    let value = ask(&mut node, Op::Get { target: Selector::parse("icmp4"), name: Some("boot_time".to_owned()) });
    assert_eq!(value["icmp4"], 77);
}
