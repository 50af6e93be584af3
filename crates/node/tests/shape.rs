//! Graphs that are brought to another shape: from any to any other, in one step, and what is in both stays.

use std::sync::{Arc, Mutex};
use weft_core::{Block, BlockId, Instant, Kind, Loaded, Loader, Message, Op, Rng, Selector, Show, command};
use weft_node::{Node, Shape, Stack, block_table};

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
        from.to(&to, &block_table()).iter().map(|op| command::write(op).unwrap()).collect()
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

/// A block that no crate has.
struct Tally(&'static Kind);

impl Block for Tally {
    fn kind(&self) -> &'static Kind {
        self.0
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// A shelf of one file, which has a build of this version in it; and how often that was read.
#[derive(Debug, Default)]
struct Shelf(Mutex<(&'static str, usize)>);

impl Shelf {
    fn put(&self, version: &'static str) {
        *self.0.lock().unwrap() = (version, 0);
    }
    fn reads(&self) -> usize {
        self.0.lock().unwrap().1
    }
}

impl Loader for Shelf {
    fn load(&self, file: &str) -> Result<Loaded, String> {
        let mut shelf = self.0.lock().unwrap();
        shelf.1 += 1;
        if file != "tally.wasm" {
            return Err("there is no such file".to_owned());
        }
        let table = block_table();
        let counter = table.get("counter").unwrap().kind;
        let (inputs, outputs) = (counter.inputs, counter.outputs);
        let kind: &'static Kind = Box::leak(Box::new(Kind { name: "tally", version: shelf.0, inputs, outputs, ..Kind::EMPTY }));
        Ok(Loaded { kind, make: Arc::new(move |_| Ok(Box::new(Tally(kind)))) })
    }
}

const TALLY: &str = "[block.t]\nkind = \"tally\"\n[graph]\nload = [\"tally.wasm\"]\ninsert = [\"t ether:lower interfaces:upper\"]\n";

#[test]
fn kinds_from_files_are_loaded_in_the_same_step_and_once_a_build() {
    let shelf = Arc::new(Shelf::default());
    shelf.put("1.0.0+a");
    let on_shelf = |text: &str| {
        let mut stack = stack(text);
        stack.set_loader(shelf.clone());
        stack
    };
    let mut node = Node::new(&on_shelf(""), 1).unwrap();
    let words = |ops: &[Op]| ops.iter().map(|op| command::write(op).unwrap()).collect::<Vec<_>>();
    let loaded = |node: &Node| node.engine().kinds().loaded().map(|kind| kind.version).collect::<Vec<_>>();
    let (plain, tally) = (graph(&mut node), Shape::of(&on_shelf(TALLY)).unwrap());

    let (ops, _) = node.apply(Instant::ZERO, &tally, true).unwrap();
    assert_eq!(words(&ops)[..3], ["load tally.wasm", "unbind ether:lower interfaces:upper", "add t tally"]);
    assert_eq!((loaded(&node), &graph(&mut node)), (vec![], &plain), "it was only looked at");
    // A change that cannot be leaves no kind behind either.
    let mut wrong = tally.clone();
    wrong.blocks.get_mut("tcp").unwrap().parameters.insert("mss".to_owned(), "much".into());
    assert!(node.apply(Instant::ZERO, &wrong, false).unwrap_err().to_string().starts_with("tcp.mss: "));
    assert_eq!((loaded(&node), &graph(&mut node)), (vec![], &plain));

    assert_eq!(node.apply(Instant::ZERO, &tally, false).unwrap().0, ops);
    assert_eq!((loaded(&node), &graph(&mut node).blocks), (vec!["1.0.0+a"], &tally.blocks));
    // The same build again: nothing is read, and what the file leaves out goes without the kind, which may be of use to others.
    shelf.put("1.0.0+a");
    assert!(node.apply(Instant::ZERO, &tally, false).unwrap().0.is_empty());
    assert_eq!(words(&node.apply(Instant::ZERO, &plain, false).unwrap().0), ["delete t", "bind ether:lower interfaces:upper"]);
    assert_eq!(words(&node.apply(Instant::ZERO, &tally, false).unwrap().0)[1], "add t tally");
    assert_eq!(shelf.reads(), 0);

    // Another build takes over, where the file is known by it. A shape that names none is content with what there is.
    let mut any = tally.clone();
    any.loads.clear();
    any.blocks.get_mut("t").unwrap().build = None;
    shelf.put("1.1.0+b");
    assert!(node.apply(Instant::ZERO, &any, false).unwrap().0.is_empty());
    let next = Shape::of(&on_shelf(TALLY)).unwrap();
    assert_eq!(words(&node.apply(Instant::ZERO, &next, false).unwrap().0), ["load tally.wasm", "replace t tally"]);
    let rows = node.control(Instant::ZERO, &Message { serial: 1, op: Op::Show(Show::Blocks) }).result.unwrap();
    let versions: Vec<_> = rows.as_array().unwrap().iter().filter(|row| row["name"] == "t").map(|row| row["version"].clone()).collect();
    assert_eq!(versions, ["1.1.0+b"]);

    // The file became another between the question and the change; or is not there for the node.
    shelf.put("1.2.0+c");
    assert_eq!(
        node.apply(Instant::ZERO, &tally, true).unwrap_err().to_string(),
        "cannot load 'tally.wasm': it was tally 1.0.0+a when the change was worked out, and is tally 1.2.0+c now: try again"
    );
    let mut nowhere = tally;
    nowhere.loads.get_mut("tally").unwrap().file = "none.wasm".to_owned();
    assert_eq!(node.apply(Instant::ZERO, &nowhere, false).unwrap_err().to_string(), "cannot load 'none.wasm': there is no such file");
    assert_eq!(graph(&mut node).blocks, next.blocks);
}
