//! Queues in front of the interfaces: what `tc qdisc` adds, changes and deletes, as operations on the graph that this block orders.
//!
//! A queue is a block (`netem`, `tbf`, `fifo`) in the edge that leads to `interfaces:upper`. Nothing is kept of it here: which queues there are is asked of
//! the graph each time, so that one that somebody put in by hand counts like any other. Asking is ordered, too; what follows from its answer is
//! ordered upon it, at the same frame boundary. The block of a new one is named by the number of its interface, `qdisc.2`.

use super::Interfaces;
use crate::arguments::Arguments;
use crate::qdisc::{fifo, netem, tbf};
use std::collections::{BTreeMap, VecDeque};
use weft_core::*;

/// Most queues of a node's interfaces: every frame to send passes all of them.
pub const QUEUES_MAX: u64 = 64;
/// Kinds of block that are queues.
pub const QUEUE_KINDS: [&str; 3] = [fifo::KIND.name, netem::KIND.name, tbf::KIND.name];
/// What they declare.
const KINDS: [&Kind; 3] = [&fifo::KIND, &netem::KIND, &tbf::KIND];
/// The handles that nobody chose begin here.
const HANDLE_FIRST: u64 = 0x8001;
/// The last handle that somebody may have (0xffff is that of the way in).
const HANDLE_LAST: u64 = 0xfffe;
/// Most requests whose outcome nobody has asked for; the oldest are forgotten.
const OUTCOMES_MAX: usize = 64;

/// Arguments of the procedure.
const KNOWN: &[&str] = &["event", "index", "name", "kind", "handle", "parameters"];

/// What is to become of the queue of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// A new one, in place of the one that there is.
    Put,
    /// Other parameters.
    Change,
    /// None.
    Delete,
}

/// A request, while what it needs to know of the graph is asked.
#[derive(Debug)]
struct Request {
    event: Event,
    index: u32,
    interface: String,
    kind: String,
    handle: u64,
    parameters: indexmap::IndexMap<String, Value>,
    /// What is told when it is done.
    told: Value,
    /// It has been asked which blocks there are; of these, the interface's queue.
    asked: Option<Option<Known>>,
    /// The change itself is ordered.
    changing: bool,
}

/// A queue that is there.
#[derive(Clone, Debug)]
struct Known {
    block: String,
    row: Value,
}

/// The requests of one block.
#[derive(Debug, Default)]
pub(super) struct Requests {
    serial: u64,
    open: BTreeMap<u64, Request>,
    outcomes: VecDeque<(u64, Result<Value, ControlError>)>,
    handles: u64,
}

impl Requests {
    fn handle(&mut self) -> u64 {
        let handle = HANDLE_FIRST + self.handles;
        self.handles = (self.handles + 1) % (HANDLE_LAST - HANDLE_FIRST + 1);
        handle
    }
    fn close(&mut self, serial: u64, outcome: Result<Value, ControlError>) {
        if self.outcomes.len() == OUTCOMES_MAX {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back((serial, outcome));
    }
}

impl Interfaces {
    /// The procedure `queue`: begins, and answers with the number by which the outcome is known.
    pub(super) fn queue(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "queue", value, KNOWN)?;
        let index = self.existing(&arguments)?;
        let event = match arguments.required("event")? {
            "put" => Event::Put,
            "change" => Event::Change,
            "delete" => Event::Delete,
            other => return Err(arguments.fail(format!("event: '{other}' is none of: put, change, delete"))),
        };
        if index == InterfaceIndex::LOOPBACK.0 {
            return Err(arguments.fail(Refused::unsupported("weft's lo has no queue: its packets do not come by here")));
        }
        let kind = arguments.text("kind")?.unwrap_or("").to_owned();
        if event == Event::Put && !QUEUE_KINDS.contains(&kind.as_str()) {
            return Err(arguments.fail(format!("kind: '{kind}' is none of: {}", QUEUE_KINDS.join(", "))));
        }
        let mut parameters = indexmap::IndexMap::new();
        match arguments.value("parameters") {
            Some(Value::Object(given)) => parameters.extend(given.iter().map(|(name, value)| (name.clone(), value.clone()))),
            Some(other) => return Err(arguments.fail(format!("parameters: {other} is no object"))),
            None => {}
        }
        let handle = arguments.number("handle", 1, 0xffff)?.map_or(0, u64::from);
        let interface = self.entry(index).map_or_else(String::new, |entry| entry.interface.name.clone());
        let request = Request { event, index, interface, kind, handle, parameters, told: Value::Null, asked: None, changing: false };
        self.requests.serial += 1;
        let serial = self.requests.serial;
        cx.order(serial, Op::Show(Show::Blocks))?;
        self.requests.open.insert(serial, request);
        Ok(serde_json::json!({"request": serial}))
    }

    /// The procedure `queue_outcome`: what came of a request, once.
    pub(super) fn queue_outcome(&mut self, value: &Value) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "queue_outcome", value, &["request"])?;
        let serial = arguments.value("request").and_then(Value::as_u64).ok_or_else(|| arguments.fail("request is missing"))?;
        let at = self.requests.outcomes.iter().position(|(of, _)| *of == serial);
        let outcome = at.and_then(|at| self.requests.outcomes.remove(at));
        outcome.map_or_else(|| Err(arguments.fail(format!("request: nothing is known of {serial}"))), |(_, outcome)| outcome)
    }

    /// An answer to one of the orders of a request.
    pub(super) fn queue_answered(&mut self, serial: u64, result: Result<Value, ControlError>, cx: &mut Context<'_>) {
        let Some(mut request) = self.requests.open.remove(&serial) else { return };
        let next = match result {
            Ok(answer) if request.changing => {
                if request.event != Event::Change {
                    self.counters[if request.event == Event::Put { 6 } else { 7 }] += 1;
                }
                cx.alert("queue", request.told);
                self.requests.close(serial, Ok(answer));
                return;
            }
            Ok(answer) => self.proceed(&mut request, &answer),
            Err(error) => Err(error),
        };
        match next.and_then(|op| cx.order(serial, op)) {
            Ok(()) => drop(self.requests.open.insert(serial, request)),
            Err(error) => {
                self.counters[8] += 1;
                self.requests.close(serial, Err(error));
            }
        }
    }

    fn proceed(&mut self, request: &mut Request, answer: &Value) -> Result<Op, ControlError> {
        let failed = |why: Refused| ControlError::ExecFailed { block: self.name.clone(), procedure: "queue".to_owned(), why };
        let rows = answer.as_array().map(Vec::as_slice).unwrap_or_default();
        let found = match request.asked.take() {
            Some(found) if request.event == Event::Delete => return Ok(remove(request, found, rows)),
            Some(found) => return self.insert(request, found, rows),
            None => rows.iter().filter(|row| row["kind"].as_str().is_some_and(|kind| QUEUE_KINDS.contains(&kind))),
        };
        let of_it = |row: &&Value| row["parameters"]["interface"].as_u64() == Some(request.index.into());
        let (count, known) = (found.clone().count() as u64, found.clone().find(of_it));
        let known = known.map(|row| Known { block: row["name"].as_str().unwrap_or("").to_owned(), row: row.clone() });
        match (request.event, known) {
            (Event::Put, None) if count >= QUEUES_MAX => {
                Err(ControlError::Limit { what: "queues of interfaces".to_owned(), max: QUEUES_MAX })
            }
            (Event::Change | Event::Delete, None) => Err(failed(Refused::not_found("the interface has no queue"))),
            (Event::Put | Event::Delete, known) => {
                request.asked = Some(known);
                Ok(Op::Show(Show::Edges))
            }
            (Event::Change, Some(known)) => {
                let set = |(name, value): (&String, &Value)| Op::Set {
                    target: Selector::Name(known.block.clone()),
                    name: name.clone(),
                    value: value.clone(),
                };
                let ops = request.parameters.iter().map(set).collect();
                let mut row = known.row.clone();
                for (name, value) in &request.parameters {
                    row["parameters"][name.as_str()] = value.clone();
                }
                request.told =
                    serde_json::json!({"event": "changed", "index": request.index, "interface": request.interface, "queue": row});
                request.changing = true;
                Ok(Op::All(ops))
            }
        }
    }

    /// The change that puts a queue in front of the interface.
    fn insert(&mut self, request: &mut Request, old: Option<Known>, edges: &[Value]) -> Result<Op, ControlError> {
        let handle = if request.handle == 0 { self.requests.handle() } else { request.handle };
        let kind = request.kind.clone();
        // qdisc_create: what is not said is as of a new one, whatever the queue before it had.
        let declared = KINDS.iter().find(|known| known.name == kind).into_iter().flat_map(|known| known.parameters);
        for parameter in declared {
            let usual = || serde_json::from_str(parameter.default).unwrap_or(Value::Null);
            request.parameters.entry(parameter.name.to_owned()).or_insert_with(usual);
        }
        request.parameters.insert("interface".to_owned(), request.index.into());
        request.parameters.insert("handle".to_owned(), handle.into());
        let parameters = request.parameters.clone();
        let row = serde_json::json!({"kind": kind, "parameters": parameters});
        request.told = serde_json::json!({"event": "put", "index": request.index, "interface": request.interface, "queue": row});
        request.changing = true;
        let mut ops = Vec::new();
        if let Some(old) = old {
            request.told["old"] = old.row;
            if is_bound(&old.block, edges) {
                // What waits in it ends with it, as when qdisc_graft resets the old one.
                return Ok(Op::Replace { name: old.block, kind, parameters, drop_state: true });
            }
            // Somebody took it out of its edge.
            ops.push(Op::Delete { name: old.block });
        }
        let leads_here = |row: &&Value| row["to"].as_str() == Some(&self.name) && row["input"].as_str() == Some("upper");
        let mut before = edges.iter().filter(leads_here);
        let (Some(edge), None) = (before.next(), before.next()) else {
            let why = Refused::unsupported(format!("not one edge alone leads to {}:upper: put the block in by hand", self.name));
            return Err(ControlError::ExecFailed { block: self.name.clone(), procedure: "queue".to_owned(), why });
        };
        let end =
            |block: &Value, port: &Value| End { block: block.as_str().unwrap_or("").to_owned(), port: port.as_str().map(str::to_owned) };
        let name = format!("qdisc.{}", request.index);
        let (block, from, to) =
            (End { block: name.clone(), port: None }, end(&edge["from"], &edge["output"]), end(&edge["to"], &edge["input"]));
        ops.extend([Op::Add { name, kind, parameters }, Op::Insert { block, from, to }]);
        Ok(Op::All(ops))
    }
}

/// Does anything come to this block?
fn is_bound(block: &str, edges: &[Value]) -> bool {
    edges.iter().any(|row| row["to"].as_str() == Some(block))
}

/// The change that takes a queue away.
fn remove(request: &mut Request, old: Option<Known>, edges: &[Value]) -> Op {
    let Known { block, row } = old.unwrap_or_else(|| Known { block: String::new(), row: Value::Null });
    request.told = serde_json::json!({"event": "deleted", "index": request.index, "interface": request.interface, "old": row});
    request.changing = true;
    let extract = is_bound(&block, edges).then(|| Op::Extract { block: block.clone() });
    Op::All(extract.into_iter().chain([Op::Delete { name: block }]).collect())
}
