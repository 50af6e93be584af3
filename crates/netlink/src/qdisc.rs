//! RTM_*QDISC: the queues of interfaces. Each is a block in front of `interfaces` (see `weft_blocks::qdisc`), which puts it there upon order.
//!
//! Which there are is asked of the graph. What a request means when there is one already, and whether it may be, is decided here as `tc_modify_qdisc` and
//! `tc_get_qdisc` of net/sched/sch_api.c do; what its options mean is in [`options`].

mod options;

use crate::errno::{EEXIST, EINVAL, ENODEV, ENOENT, Refusal, number_of};
use crate::message::{Attributes, Message, put, word};
use crate::packet::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Reply, Request};
use crate::{Tables, interfaces};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weft_core::table::{InterfaceRow, Which};
use weft_core::{InterfaceIndex, Show};

/// RTM_NEWQDISC, and what a queue is told as.
pub(crate) const NEWQDISC: u16 = 36;
pub(crate) const DELQDISC: u16 = 37;
const GETQDISC: u16 = 38;
/// Bytes of `struct tcmsg`.
const FIXED_BYTES: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS: u16 = 3;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
/// TC_H_ROOT.
const ROOT: u32 = u32::MAX;
/// TC_H_INGRESS, which is TC_H_CLSACT too.
const INGRESS: u32 = 0xffff_fff1;

/// What can be asked of a queue and is not here.
const LACKING: [(u16, &str); 4] = [
    (5, "estimates no rates of queues"),
    (8, "has no size tables: see overhead of tbf"),
    (13, "has no filters, and shares no blocks of them"),
    (14, "has no filters, and shares no blocks of them"),
];

/// A queue that is there.
#[derive(Clone, Debug)]
pub(crate) struct Qdisc {
    /// Of which interface.
    pub index: u32,
    /// TC_H_MAJ: the number before the colon, in the upper half.
    handle: u32,
    /// The block's kind.
    kind: String,
    /// As the block shows them.
    parameters: Value,
    /// Of the block, by name.
    counters: Value,
}

impl Qdisc {
    /// From a row of [`Show::Blocks`], or what `interfaces` tells of one. None: it is no queue.
    fn read(row: &Value) -> Option<Qdisc> {
        let kind = row["kind"].as_str().filter(|kind| options::is_queue(kind))?.to_owned();
        let number = |name: &str| row["parameters"][name].as_u64().and_then(|number| u32::try_from(number).ok());
        let (index, handle) = (number("interface")?, number("handle")? << 16);
        Some(Qdisc { index, handle, kind, parameters: row["parameters"].clone(), counters: Value::Null })
    }
    /// As tc calls it.
    pub fn name(&self) -> &'static str {
        options::name(&self.kind, &self.parameters)
    }
    fn count(&self, name: &str) -> u64 {
        self.counters[name].as_u64().unwrap_or(0)
    }
}

/// The queues that there are, by interface; with what they have counted, if that is wanted.
fn queues(tables: &mut dyn Tables, counted: bool) -> BTreeMap<u32, Qdisc> {
    let blocks = tables.show(Show::Blocks);
    let named = blocks.as_array().into_iter().flatten().filter_map(|row| Some((row["name"].as_str()?, Qdisc::read(row)?)));
    let mut found: Vec<(&str, Qdisc)> = named.collect();
    if counted && !found.is_empty() {
        let counters = tables.show(Show::Counters);
        for (name, queue) in &mut found {
            let row = counters.as_array().into_iter().flatten().find(|row| row["block"] == **name);
            queue.counters = row.map_or(Value::Null, |row| row["counters"].clone());
        }
    }
    found.into_iter().map(|(_, queue)| (queue.index, queue)).collect()
}

/// The names of the queues that there are, by interface: what `ip link` shows.
pub(crate) fn names(tables: &mut dyn Tables) -> BTreeMap<u32, &'static str> {
    queues(tables, false).iter().map(|(index, queue)| (*index, queue.name())).collect()
}

/// tc_fill_qdisc. `references`: as tcm_info has them. Without a queue: what interfaces have unless told otherwise.
fn message(index: u32, queue: Option<&Qdisc>, kind: u16, references: u32) -> Message {
    let words = [0, index, queue.map_or(0, |queue| queue.handle), ROOT, references];
    let mut message = Message::new(kind, &words.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect::<Vec<_>>());
    message.text(TCA_KIND, queue.map_or("noqueue", Qdisc::name));
    if let Some(options) = queue.and_then(|queue| options::write(&queue.kind, &queue.parameters)) {
        message.bytes(TCA_OPTIONS, &options);
    }
    let count = |name: &str| queue.map_or(0, |queue| queue.count(name));
    let short = |name: &str| (count(name) as u32).to_ne_bytes();
    // struct gnet_stats_basic and gnet_stats_queue; struct tc_stats is what they were before.
    let basic = [&count("SentBytes").to_ne_bytes()[..], &short("Sent"), &[0; 4]].concat();
    let line = [short("QueuedFrames"), short("QueuedBytes"), short("Dropped"), short("Requeues"), short("Overlimits")].concat();
    let mut stats = Vec::new();
    put(&mut stats, TCA_STATS_BASIC, &basic);
    put(&mut stats, TCA_STATS_QUEUE, &line);
    message.bytes(TCA_STATS2, &stats);
    let rates = [0; 8];
    let old = [&basic[..12], &short("Dropped"), &short("Overlimits"), &rates, &short("QueuedFrames"), &short("QueuedBytes"), &[0; 4]];
    message.bytes(TCA_STATS, &old.concat());
    message
}

/// What `interfaces` tells of a queue, as messages.
pub(crate) fn notifications(value: &Value) -> Vec<Message> {
    let Some(index) = value["index"].as_u64().and_then(|index| u32::try_from(index).ok()) else { return Vec::new() };
    let (old, new) = (Qdisc::read(&value["old"]), Qdisc::read(&value["queue"]));
    // qdisc_notify: "if (old && …) RTM_DELQDISC; if (new && …) RTM_NEWQDISC"; who stands in no place has one reference.
    let gone = match value["event"].as_str() {
        Some("changed") => None,
        _ => Some(message(index, old.as_ref(), DELQDISC, 1)),
    };
    gone.into_iter().chain(new.as_ref().map(|queue| message(index, Some(queue), NEWQDISC, 2))).collect()
}

pub(crate) fn answer(request: &Request<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let index = word(request.body, 4);
    if request.is_dump() && request.kind == GETQDISC {
        let which = if index == 0 { Which::All } else { Which::Index(InterfaceIndex(index)) };
        let queues = queues(tables, true);
        // What is down has the kernel's noop, which it does not list.
        let rows = interfaces(tables, which).into_iter().map(|row| (row.interface.up, row.interface.index.0));
        let rows = rows.filter(|(up, index)| *up || queues.contains_key(index));
        return Ok(Reply::Dump(rows.map(|(_, index)| message(index, queues.get(&index), NEWQDISC, 2)).collect(), false));
    }
    let row = interfaces(tables, Which::Index(InterfaceIndex(index))).pop().ok_or(Refusal::plain(ENODEV))?;
    let mut queues = queues(tables, true);
    let queue = queues.remove(&index);
    let attributes = Attributes::of(request.body, FIXED_BYTES);
    match request.kind {
        NEWQDISC => modify(request, &attributes, &row, queue, tables),
        kind => {
            let queue = find(request, &attributes, queue, kind == DELQDISC)?;
            if kind == GETQDISC {
                return Ok(Reply::One(message(index, queue.as_ref(), NEWQDISC, 2)));
            }
            order(json!({"event": "delete", "index": index}), tables)
        }
    }
}

/// tc_get_qdisc: which one is meant. None: what interfaces have unless told otherwise.
fn find(request: &Request<'_>, attributes: &Attributes<'_>, queue: Option<Qdisc>, delete: bool) -> Result<Option<Qdisc>, Refusal> {
    let (handle, parent) = (word(request.body, 8), word(request.body, 12));
    let there = queue.as_ref().map_or(0, |queue| queue.handle);
    match parent {
        INGRESS => return Err(Refusal::said(ENOENT, "Cannot find specified qdisc on specified device")),
        0 if there == 0 || there != handle => return Err(Refusal::said(ENOENT, "Failed to find qdisc with specified handle")),
        0 => {}
        ROOT if handle != 0 && handle != there => return Err(Refusal::said(EINVAL, "Invalid handle")),
        ROOT => {}
        parent if there == 0 || parent & 0xffff_0000 != there => {
            return Err(Refusal::said(ENOENT, "Failed to find qdisc with specified classid"));
        }
        _ => return Err(Refusal::lacking("has queues without classes, and none below another")),
    }
    if attributes.text(TCA_KIND).is_some_and(|kind| kind != queue.as_ref().map_or("noqueue", Qdisc::name)) {
        return Err(Refusal::said(EINVAL, MISMATCH));
    }
    match (delete, parent, there) {
        (true, 0, _) => Err(Refusal::said(EINVAL, "Classid cannot be zero")),
        (true, _, 0) => Err(Refusal::said(ENOENT, "Cannot delete qdisc with handle of zero")),
        _ => Ok(queue),
    }
}

const MISMATCH: &str = "Invalid qdisc name: must match existing qdisc";

/// tc_modify_qdisc.
fn modify(
    request: &Request<'_>,
    attributes: &Attributes<'_>,
    row: &InterfaceRow,
    queue: Option<Qdisc>,
    tables: &mut dyn Tables,
) -> Result<Reply, Refusal> {
    let (handle, parent) = (word(request.body, 8), word(request.body, 12));
    let kind = attributes.text(TCA_KIND).unwrap_or("");
    let there = queue.as_ref().map_or(0, |queue| queue.handle);
    if let Some(what) = attributes.any(&LACKING) {
        return Err(Refusal::lacking(what));
    }
    let other_kind = queue.as_ref().is_some_and(|queue| !kind.is_empty() && queue.name() != kind);
    match parent {
        INGRESS => return Err(Refusal::lacking("has no queue on the way in: see the blocks `filter` and `rate`")),
        ROOT if queue.is_none() || (handle != 0 && handle != there) => {
            if handle != 0 {
                if queue.is_some() && !request.has(NLM_F_REPLACE) {
                    return Err(Refusal::said(EEXIST, "NLM_F_REPLACE needed to override"));
                }
                if handle & 0xffff != 0 {
                    return Err(Refusal::said(EINVAL, "Invalid minor handle"));
                }
            }
            return create(request, attributes, row, handle, false, tables);
        }
        // "This magic test requires explanation": another kind is another queue, for `change` too, which says neither create nor replace.
        ROOT if handle == 0 && other_kind && (!request.has(NLM_F_CREATE) || request.has(NLM_F_REPLACE) || request.has(NLM_F_EXCL)) => {
            return create(request, attributes, row, 0, true, tables);
        }
        ROOT => {}
        0 if handle == 0 => return Err(Refusal::said(EINVAL, "Handle cannot be zero")),
        0 if handle != there => return Err(Refusal::said(ENOENT, "Specified qdisc not found")),
        0 => {}
        parent if there == 0 || parent & 0xffff_0000 != there => return Err(Refusal::said(ENOENT, "Failed to find specified qdisc")),
        _ => return Err(Refusal::lacking("has queues without classes, and none below another")),
    }
    let Some(queue) = queue else { return Err(Refusal::said(ENOENT, "Specified qdisc not found")) };
    if request.has(NLM_F_EXCL) {
        return Err(Refusal::said(EEXIST, "Exclusivity flag on, cannot modify"));
    }
    if other_kind {
        return Err(Refusal::said(EINVAL, MISMATCH));
    }
    // qdisc_change: without options nothing is another.
    let parameters = match attributes.get(TCA_OPTIONS) {
        Some(options) => options::read(queue.name(), options)?,
        None => json!({}),
    };
    order(json!({"event": "change", "index": row.interface.index.0, "parameters": parameters}), tables)
}

/// qdisc_create.
fn create(
    request: &Request<'_>,
    attributes: &Attributes<'_>,
    row: &InterfaceRow,
    handle: u32,
    replaces: bool,
    tables: &mut dyn Tables,
) -> Result<Reply, Refusal> {
    if !replaces && !request.has(NLM_F_CREATE) {
        return Err(Refusal::said(ENOENT, "Qdisc not found. To create specify NLM_F_CREATE flag"));
    }
    let kind = attributes.text(TCA_KIND).unwrap_or("");
    if kind == "noqueue" {
        return Err(Refusal::lacking("has no queue where nobody asks for one: delete the one that there is"));
    }
    let block = options::block(kind).ok_or_else(|| Refusal::said(ENOENT, "Specified qdisc kind is unknown"))?;
    let mut parameters = match attributes.get(TCA_OPTIONS) {
        Some(options) => options::read(kind, options)?,
        None => options::without(kind, row)?,
    };
    if block == "fifo" {
        parameters["unit"] = if kind == "bfifo" { "bytes" } else { "packets" }.into();
    }
    let mut arguments = json!({"event": "put", "index": row.interface.index.0, "kind": block, "parameters": parameters});
    if handle != 0 {
        arguments["handle"] = (handle >> 16).into();
    }
    order(arguments, tables)
}

/// `interfaces` orders what is to be done; it is done when the question for the outcome comes.
fn order(arguments: Value, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let refusal = |error| {
        let (errno, text) = number_of(&error);
        Refusal::said(errno, text)
    };
    let request = tables.exec("interfaces", "queue", arguments).map_err(refusal)?;
    tables.exec("interfaces", "queue_outcome", request).map_err(refusal)?;
    Ok(Reply::Done)
}
