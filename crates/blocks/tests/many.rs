//! What many addresses and interfaces cost: as many steps for each as for the first. Steps are counted, not timed: every question that a block asks
//! of a table's owner, and every row of the answer.

use std::any::Any;
use std::cell::Cell;
use weft_blocks::{ip, link};
use weft_core::control::End;
use weft_core::table::{Family, Row};
use weft_core::*;

thread_local! {
    /// Questions and rows of answers. Every test runs on a thread of its own.
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// A block that counts what it is asked.
struct Asked(Box<dyn Block>);

impl Block for Asked {
    fn kind(&self) -> &'static Kind {
        self.0.kind()
    }
    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        self.0.process(port, vector, cx);
    }
    fn timer(&mut self, token: u64, cx: &mut Context<'_>) {
        self.0.timer(token, cx);
    }
    fn started(&mut self, cx: &mut Context<'_>) {
        self.0.started(cx);
    }
    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        self.0.table_changed(table, cx);
    }
    fn row_changed(&mut self, table: Table, row: Row, cx: &mut Context<'_>) {
        self.0.row_changed(table, row, cx);
    }
    fn change(&mut self, table: Table, change: Change, cx: &mut Context<'_>) {
        self.0.change(table, change, cx);
    }
    fn query(&self, query: &Query, now: Instant) -> Answer {
        let answer = self.0.query(query, now);
        let rows = match &answer {
            Answer::List(rows) => rows.len(),
            Answer::Addresses(rows) => rows.len(),
            _ => 0,
        };
        STEPS.set(STEPS.get() + 1 + rows as u64);
        answer
    }
    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        self.0.exec(procedure, arguments, cx)
    }
    fn counters(&self) -> &[u64] {
        self.0.counters()
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn asked(row: BlockRow, config: &mut Config) -> Result<Box<dyn Block>, ControlError> {
    Ok(Box::new(Asked((row.make)(config)?)))
}

fn node() -> Engine {
    let table = BlockTable::new([
        BlockRow { kind: &link::interfaces::KIND, make: |config| asked(link::interfaces::ROW, config) },
        BlockRow { kind: &ip::ip4::KIND, make: |config| asked(ip::ip4::ROW, config) },
        BlockRow { kind: &ip::ip6::KIND, make: |config| asked(ip::ip6::ROW, config) },
        BlockRow { kind: &ip::nd::KIND, make: |config| asked(ip::nd::ROW, config) },
        link::ether::ROW,
        ip::arp::ROW,
        ip::igmp::ROW,
        ip::mld::ROW,
        weft_blocks::tool::drop::ROW,
    ]);
    let mut engine = Engine::new(Mode::Inline, table, Rng::for_name(1, "many"));
    let add = |name: &str| Op::Add { name: name.to_owned(), kind: name.to_owned(), parameters: Default::default() };
    let mut ops: Vec<Op> = ["interfaces", "ip4", "ip6", "nd", "ether", "arp", "igmp", "mld", "drop"].into_iter().map(add).collect();
    let edges = [
        ("interfaces:upper", "ether:lower"),
        ("ether:lower", "interfaces:upper"),
        ("ether:ip4", "ip4:lower"),
        ("ether:ip6", "ip6:lower"),
        ("ether:arp", "arp:lower"),
        ("ip4:lower", "arp:upper"),
        ("arp:lower", "ether:upper"),
        ("ip6:lower", "nd:upper"),
        ("nd:lower", "ether:upper"),
        ("igmp:lower", "arp:upper"),
        ("mld:lower", "nd:upper"),
        ("ip4:loopback", "drop:in"),
        ("ip6:loopback", "drop:in"),
    ];
    ops.extend(edges.iter().map(|(from, to)| Op::Bind { from: End::parse(from), to: End::parse(to) }));
    engine.control(Instant::ZERO, &Message { serial: 1, op: Op::All(ops) }).result.unwrap();
    engine
}

fn exec(engine: &mut Engine, block: &str, procedure: &str, arguments: Value) {
    let op = Op::Exec { target: Selector::Name(block.to_owned()), procedure: procedure.to_owned(), arguments };
    engine.control(engine.now(), &Message { serial: 2, op }).result.unwrap();
    let _ = engine.take_outgoing();
}

/// Lets `seconds` pass.
fn pass(engine: &mut Engine, seconds: u64) {
    let end = engine.now() + Duration::from_secs(seconds);
    while let Some(at) = engine.next_timer().filter(|at| *at <= end) {
        engine.run(at);
        let _ = engine.take_outgoing();
    }
    engine.run(end);
}

/// Steps that `one` takes for each of `COUNT` rows, in the first and in the last quarter.
fn quarters(engine: &mut Engine, mut one: impl FnMut(&mut Engine, u32)) -> (u64, u64) {
    let before = STEPS.get();
    (0..COUNT / 4).for_each(|number| one(engine, number));
    let first = STEPS.get() - before;
    (COUNT / 4..COUNT * 3 / 4).for_each(|number| one(engine, number));
    let before = STEPS.get();
    (COUNT * 3 / 4..COUNT).for_each(|number| one(engine, number));
    (first, STEPS.get() - before)
}

const COUNT: u32 = 1000;
/// Most steps that one row may cost.
const STEPS_MAX: u64 = 40;

#[track_caller]
fn check(what: &str, (first, last): (u64, u64)) {
    assert!(first > 0, "{what}: something is asked");
    assert!(last <= first + first / 4, "{what}: {first} steps for the first quarter, {last} for the last");
    assert!(last / u64::from(COUNT / 4) <= STEPS_MAX, "{what}: {last} steps for a quarter");
}

fn count(engine: &mut Engine, table: Table) -> usize {
    let reply = engine.control(engine.now(), &Message { serial: 3, op: Op::List(table) });
    reply.result.unwrap().as_array().unwrap().len()
}

#[test]
fn the_last_address_costs_what_the_first_one_did() {
    let mut node = node();
    exec(&mut node, "interfaces", "add", serde_json::json!({"name": "eth0"}));
    pass(&mut node, 5);
    let v4 = |number: u32| serde_json::json!({"interface": "eth0", "address": format!("10.{}.{}.1/24", number / 256, number % 256)});
    let v6 = |number: u32| serde_json::json!({"interface": "eth0", "address": format!("fd77:{number:x}::1/64")});
    check("adding IPv4", quarters(&mut node, |node, number| exec(node, "ip4", "address_add", v4(number))));
    check("adding IPv6", quarters(&mut node, |node, number| exec(node, "ip6", "address_add", v6(number))));
    // 1000 detections of duplicates end.
    let before = STEPS.get();
    pass(&mut node, 5);
    assert!((STEPS.get() - before) / u64::from(COUNT) <= STEPS_MAX, "detecting: {} steps", STEPS.get() - before);
    let all = [Family::V4, Family::V6].map(|family| count(&mut node, Table::Addresses(family)));
    assert_eq!(all, [COUNT as usize + 1, COUNT as usize + 2], "with lo's and the link-local one");
    assert_eq!(count(&mut node, Table::Routes(Family::V4)), COUNT as usize * 3 + 2, "each with its network, itself and the broadcast");
    check("removing IPv4", quarters(&mut node, |node, number| exec(node, "ip4", "address_delete", v4(number))));
    check("removing IPv6", quarters(&mut node, |node, number| exec(node, "ip6", "address_delete", v6(number))));
    let all = [Family::V4, Family::V6].map(|family| count(&mut node, Table::Addresses(family)));
    assert_eq!(all, [1, 2]);
}

#[test]
fn the_last_interface_costs_what_the_first_one_did() {
    let mut node = node();
    let name = |number: u32| format!("eth{number}");
    check("adding", quarters(&mut node, |node, number| exec(node, "interfaces", "add", serde_json::json!({"name": name(number)}))));
    let same = |number: u32| serde_json::json!({"interface": name(number), "address": format!("10.0.0.{}/24", number % 200 + 1)});
    check("an address on each", quarters(&mut node, |node, number| exec(node, "ip4", "address_add", same(number))));
    pass(&mut node, 5);
    assert_eq!(count(&mut node, Table::Interfaces), COUNT as usize + 1);
    assert_eq!(count(&mut node, Table::Addresses(Family::V6)), COUNT as usize + 1, "a link-local address each");
    let up = |number: u32, up: bool| serde_json::json!({"name": name(number), "up": up});
    check("down", quarters(&mut node, |node, number| exec(node, "interfaces", "set", up(number, false))));
    assert_eq!(count(&mut node, Table::Addresses(Family::V6)), 1, "what the node made itself is gone");
    check("up", quarters(&mut node, |node, number| exec(node, "interfaces", "set", up(number, true))));
    pass(&mut node, 5);
    assert_eq!(count(&mut node, Table::Addresses(Family::V6)), COUNT as usize + 1);
    check("removing", quarters(&mut node, |node, number| exec(node, "interfaces", "remove", serde_json::json!({"name": name(number)}))));
    let all = [Table::Addresses(Family::V4), Table::Addresses(Family::V6), Table::Interfaces].map(|table| count(&mut node, table));
    assert_eq!(all, [1, 1, 1], "lo's");
}
