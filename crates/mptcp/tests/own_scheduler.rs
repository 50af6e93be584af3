//! A scheduler that is a block of its own: what it says is what happens, and what makes no sense is the default's affair.

use crate::support;

use indexmap::IndexMap;
use std::any::Any;
use std::cell::Cell;
use support::common::pair::{Pair, Wire};
use support::*;
use weft_core::schedule::{Memory, Question, Scheduled, Scheduler};
use weft_core::*;
use weft_mptcp::counters::Counter;

/// What it answers. From "sound" on the first words are those that make no sense.
const WORDS: &[&str] = &["far", "nobody", "no bytes", "ahead", "behind", "fails", "sound", "crumbs", "copies", "late"];

static KIND: Kind = Kind {
    name: "own",
    parameters: &[Parameter { name: "what", value: ParameterType::Choice(WORDS), default: "\"sound\"", live: true, doc: "" }],
    owns: &[Table::Schedulers],
    ..Kind::EMPTY
};

#[derive(Debug)]
struct Own {
    name: String,
    what: String,
    asked: Cell<u64>,
    told: u64,
}

impl Own {
    /// As lowest-rtt does: the place, and how much.
    fn sound(question: &Question) -> (i64, u64) {
        let free = question.subflows.iter().enumerate().filter(|(_, (_, view))| view.room_bytes() > 0);
        let best = free.min_by(|(_, (_, a)), (_, (_, b))| a.rtt_s().total_cmp(&b.rtt_s()));
        best.map_or((-1, 0), |(place, (_, view))| (place as i64, view.room_bytes()))
    }

    fn answer(&self, question: &Question) -> Result<Scheduled, String> {
        let (place, bytes) = Own::sound(question);
        let Memory([questions, ..]) = question.memory;
        let (place, from, bytes) = match self.what.as_str() {
            "sound" => (place, question.next, bytes),
            "crumbs" => (place, question.next, bytes.min(7)),
            "copies" => (place, question.una, bytes),
            "late" if questions % 3 != 0 && question.subflows.iter().any(|(_, view)| view.queued_bytes > 0) => (-1, 0, 0),
            "late" => (place, question.next, bytes),
            // What makes none begins when the connection has been going for a while.
            _ if questions < 20 => (place, question.next, bytes),
            "far" => (question.subflows.len() as i64, question.next, 1),
            "nobody" => (-1, 0, 0),
            "no bytes" => (0, question.next, 0),
            "ahead" => (0, question.next + 1, 1),
            "behind" => (0, question.una.wrapping_sub(1), 1),
            _ => return Err("it trapped".to_owned()),
        };
        Ok((question.choice(place, from, bytes)?, Memory([questions + 1, 0, 0, 0])))
    }
}

impl Block for Own {
    fn kind(&self) -> &'static Kind {
        &KIND
    }
    fn query(&self, query: &Query, _now: Instant) -> Answer {
        match query {
            Query::Scheduler => Answer::Scheduler(Box::new(Ok(Scheduler { block: self.name.clone(), repeats: false, lends: true }))),
            Query::Schedule(question) => {
                self.asked.set(self.asked.get() + 1);
                Answer::Schedule(Box::new(self.answer(question)))
            }
            _ => Answer::None,
        }
    }
    fn change(&mut self, _table: Table, change: Change, _cx: &mut Context<'_>) {
        self.told += u64::from(change == Change::TellFailure);
    }
    fn set(&mut self, _name: &str, value: Value, _cx: &mut Context<'_>) {
        self.what = value.as_str().unwrap().to_owned();
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let what = config.value("what").as_str().unwrap().to_owned();
        Ok(Box::new(Own { name: config.name.clone(), what, asked: Cell::new(0), told: 0 }))
    },
};

fn does(node: &mut support::common::Node, op: Op) -> Result<Value, String> {
    node.engine.control(node.now, &Message { serial: 5, op }).result.map_err(|error| error.to_string())
}

fn add(node: &mut support::common::Node, what: &str) {
    let parameters = IndexMap::from([("what".to_owned(), what.into())]);
    does(node, Op::Add { name: "mine".to_owned(), kind: "own".to_owned(), parameters }).unwrap();
}

/// Questions that it had, and failures that it was to tell.
fn of_own(node: &mut support::common::Node) -> (u64, u64) {
    let id = node.engine.graph().find("mine").unwrap();
    let of = |block: &mut dyn Block| block.as_any_mut().downcast_mut::<Own>().map(|own| (own.asked.get(), own.told)).unwrap();
    node.engine.with(node.now, id, |block, _| of(block)).unwrap()
}

/// Both nodes have the block, which answers so.
fn pair_with(seed: u64, what: &str, wires: [Wire; 2]) -> Pair {
    let nodes = ["client", "server"].map(|name| node_with(name, &[ROW]));
    let mut pair = two_of(nodes, seed, wires, &["10.0.1.1 subflow"], &[]);
    for node in &mut pair.nodes {
        add(node, what);
        node.tell("mptcp", "scheduler", "block:mine".into()).unwrap();
    }
    pair
}

fn wires() -> [Wire; 2] {
    [slow(2_000_000, 10), slow(1_000_000, 30)]
}

/// The alerts about schedulers: which, and why.
fn alerts(node: &mut support::common::Node) -> Vec<(String, String)> {
    let alerts = node.engine.take_alerts();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    alerts
        .iter()
        .filter(|alert| alert.name == "scheduler")
        .map(|alert| (text(&alert.value["scheduler"]), text(&alert.value["why"])))
        .collect()
}

/// Which scheduler the first connection of a node has.
fn shown(node: &mut support::common::Node) -> String {
    connections(node)[0]["scheduler"].as_str().unwrap().to_owned()
}

#[test]
fn the_same_answers_are_the_same_connection() {
    let traffic = |pair: &Pair| -> Vec<String> { pair.log.iter().flatten().map(|row| format!("{row:?}")).collect() };
    let mut own = pair_with(1, "sound", wires());
    exchange(&mut own);
    let mut built_in = pair_with(1, "sound", wires());
    built_in.nodes.iter_mut().for_each(|node| drop(node.tell("mptcp", "scheduler", "lowest-rtt".into()).unwrap()));
    exchange(&mut built_in);
    assert!(own.nodes.iter_mut().all(|node| of_own(node).0 > 20) && built_in.nodes.iter_mut().all(|node| of_own(node).0 == 0));
    assert_eq!(traffic(&own), traffic(&built_in));
}

#[test]
fn whatever_it_says_all_of_the_data_comes() {
    for (seed, what) in WORDS.iter().enumerate() {
        let mut pair = pair_with(seed as u64, what, wires());
        exchange(&mut pair);
        no_errors(&mut pair);
        let sound = WORDS.iter().position(|word| *word == "sound").unwrap() <= seed;
        for node in &mut pair.nodes {
            let failed = counter(node, Counter::SchedulersFailed);
            let alerts = alerts(node);
            assert_eq!((failed, alerts.len(), of_own(node).1), if sound { (0, 0, 0) } else { (1, 1, 1) }, "{what} {alerts:?}");
            assert!(alerts.iter().all(|(scheduler, why)| scheduler == "block:mine" && !why.is_empty()));
            // It is not asked again; who says nothing is asked until nothing is in flight.
            assert!(sound || *what == "nobody" || of_own(node).0 <= 40, "{what}");
        }
    }
}

#[test]
fn what_is_used_is_shown_and_another_one_is_tried_anew() {
    let mut pair = pair_with(3, "far", wires());
    let mut seen = Vec::new();
    let mut number = 0;
    let began = pair.now;
    exchange_and(&mut pair, |pair| {
        let node = &mut pair.nodes[0];
        if connections(node).is_empty() {
            return;
        }
        let now = shown(node);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        // Replaced, removed, put back, set anew.
        let at = (node.now - began).as_millis() as u64 / 70;
        if at > number {
            number = at;
            let named = |name: &str| Op::Delete { name: name.to_owned() };
            let parameters = IndexMap::from([("what".to_owned(), "sound".into())]);
            match at {
                2 => {
                    let op = Op::Replace { name: "mine".to_owned(), kind: "own".to_owned(), parameters, drop_state: false };
                    drop(does(node, op).unwrap());
                }
                4 => drop(does(node, named("mine")).unwrap()),
                6 => add(node, "late"),
                8 => drop(node.tell("mptcp", "scheduler", "ecf".into()).unwrap()),
                9 => drop(node.tell("mptcp", "scheduler", "block:mine".into()).unwrap()),
                _ => {}
            }
        }
    });
    no_errors(&mut pair);
    assert_eq!(seen, ["block:mine", "default", "block:mine", "default", "block:mine", "ecf", "block:mine"]);
    let node = &mut pair.nodes[0];
    assert_eq!(counter(node, Counter::SchedulersFailed), 2);
    let whys: Vec<String> = alerts(node).into_iter().map(|(_, why)| why).collect();
    assert!(whys[0].contains("chose subflow") && whys[1] == "it is gone", "{whys:?}");
}

#[test]
fn a_failure_is_part_of_the_state() {
    let mut pair = pair_with(4, "fails", wires());
    let mut turns = 0;
    exchange_and(&mut pair, |pair| {
        for node in &mut pair.nodes {
            turns += 1;
            let (id, now) = (node.engine.graph().find("mptcp").unwrap(), node.now);
            let state = node.engine.graph().block(id).unwrap().export(now).unwrap();
            let read = State::from_bytes(&state.to_bytes()).unwrap();
            node.engine.with(now, id, |block, cx| block.import(&read, now).map(|()| block.started(cx)).unwrap()).unwrap();
        }
    });
    no_errors(&mut pair);
    assert!(turns > 100);
    pair.nodes.iter_mut().for_each(|node| assert_eq!(counter(node, Counter::SchedulersFailed), 1));
}

#[test]
fn a_block_that_is_none_is_refused() {
    let mut node = node_with("client", &[ROW]);
    node.insert("mptcp");
    let why = |node: &mut support::common::Node, value: &str| node.tell("mptcp", "scheduler", value.into()).unwrap_err().to_string();
    assert!(why(&mut node, "block:mine").contains("mptcp.scheduler") && why(&mut node, "block:mine").contains("there is no block 'mine'"));
    assert!(why(&mut node, "block:tcp").contains("is no scheduler"));
    assert!(why(&mut node, "mine").contains("block:NAME"));
    assert_eq!(counter(&mut node, Counter::SchedulersFailed), 0);
}
