//! Timed events: one action each.

use super::program::called;
use super::raw::{Event, Raw};
use super::rehearsal::Rehearsal;
use super::source::Source;
use super::wire::direction;
use crate::plan::{Action, DirectionPlan, EventPlan, NodeKind, Plan, Run};
use crate::snapshots::check_name;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use weft_core::{Instant, Op, Selector, Snapshot, command};
use weft_node::Spanned;
use weft_node::StackError;

/// What to do about a time after the end of the run.
pub(super) const LATE: &str = "make it earlier, or say duration = \"…\" at the top of the file (3600s unless it is said)";

/// Every event, with what wires are at that time.
pub(super) fn all(source: &Source<'_>, raw: &Raw, plan: &mut Plan) -> Result<(), StackError> {
    let mut events: Vec<(Instant, &Spanned<Event>)> = Vec::new();
    for event in &raw.events {
        let at = Instant::ZERO + source.duration(&event.get_ref().at)?;
        if at >= plan.end {
            let what = format!("at {at} the run is over: it lasts {}", plan.end);
            return Err(source.error(event.get_ref().at.span(), what, LATE));
        }
        events.push((at, event));
    }
    events.sort_by_key(|(at, _)| *at);
    let mut wires: Vec<[DirectionPlan; 2]> = plan.wires.iter().map(|wire| wire.directions.clone()).collect();
    let mut cut: BTreeSet<usize> = BTreeSet::new();
    let mut written: BTreeSet<String> = BTreeSet::new();
    let mut rehearsal = Rehearsal::default();
    for (at, event) in events {
        let actions = actions(source, event, plan, &mut wires, &mut cut)?;
        for action in &actions {
            if let (Action::Control { op, .. }, Some(lines)) = (action, &event.get_ref().control) {
                snapshots(source, op, lines, &mut written, plan)?;
            }
            rehearsal.act(source, plan, at, action, &told_at(event.get_ref()))?;
        }
        plan.events.extend(actions.into_iter().map(|action| EventPlan { at, action }));
    }
    Ok(())
}

/// Where it stands what a node is told: the lines of `control`, or the parameter, or block and procedure.
fn told_at(event: &Event) -> Vec<Range<usize>> {
    let lines = event.control.iter().flat_map(|lines| lines.get_ref().iter().map(Spanned::span));
    lines.chain([&event.parameter, &event.block, &event.procedure].into_iter().flatten().map(Spanned::span)).collect()
}

/// A snapshot is written into the folder of results. One that is restored is from there, if an earlier event writes it; else it lies beside the
/// scenario, and is read now.
fn snapshots(
    source: &Source<'_>,
    op: &Op,
    lines: &Spanned<Vec<Spanned<String>>>,
    written: &mut BTreeSet<String>,
    plan: &mut Plan,
) -> Result<(), StackError> {
    let span = lines.get_ref().first().map_or(lines.span(), Spanned::span);
    match op {
        Op::Snapshot { file } => {
            check_name(file).map_err(|why| source.error(span, format!("snapshot: '{file}': {why}"), WORDS))?;
            written.insert(file.clone());
        }
        Op::Restore { file } if !written.contains(file) => {
            let wrong = |why: String| {
                let help =
                    "no earlier event writes a snapshot of that name: one that `weft snapshot` wrote is looked for beside the scenario";
                source.error(span.clone(), format!("restore: '{file}': {why}"), help)
            };
            let bytes = weft_backend::snapshot::read(&source.beside(file)).map_err(wrong)?;
            Snapshot::from_bytes(&bytes).map_err(|error| wrong(error.to_string()))?;
            plan.snapshots.insert(file.clone(), bytes.into());
        }
        _ => {}
    }
    Ok(())
}

/// The wire of this name, or those that it is a pattern for.
fn wires_of(source: &Source<'_>, name: &Spanned<String>, plan: &Plan) -> Result<Vec<usize>, StackError> {
    source.find_all(name, "wire", plan.wires.iter().map(|wire| wire.name.as_str()))
}

/// The node of this name, or those that it is a pattern for.
fn nodes_of(source: &Source<'_>, name: &Spanned<String>, plan: &Plan) -> Result<Vec<usize>, StackError> {
    source.find_all(name, "node", plan.nodes.iter().map(|node| node.name.as_str()))
}

/// Those of them that are machines: a pattern stands for no switch.
fn machines_of(source: &Source<'_>, name: &Spanned<String>, plan: &Plan) -> Result<Vec<usize>, StackError> {
    let mut found = nodes_of(source, name, plan)?;
    if name.get_ref().contains('*') {
        found.retain(|node| plan.nodes.get(*node).is_some_and(|node| !matches!(node.kind, NodeKind::Switch(_))));
    }
    match found.is_empty() {
        true => Err(source.error(name.span(), format!("'{}' stands for switches only", name.get_ref()), "name the nodes that are meant")),
        false => Ok(found),
    }
}

fn actions(
    source: &Source<'_>,
    spanned: &Spanned<Event>,
    plan: &Plan,
    wires: &mut [[DirectionPlan; 2]],
    cut: &mut BTreeSet<usize>,
) -> Result<Vec<Action>, StackError> {
    let event = spanned.get_ref();
    let given = [
        event.set.is_some(),
        event.down.is_some(),
        event.up.is_some(),
        event.partition.is_some(),
        event.heal.is_some(),
        event.crash.is_some(),
        event.restart.is_some(),
        event.start.is_some(),
        event.stop.is_some(),
        event.signal.is_some(),
        event.node.is_some(),
    ];
    if given.iter().filter(|given| **given).count() != 1 {
        let help = "write one of set (with wire), down, up, partition, heal, crash, restart, start, stop, signal and node";
        return Err(source.error(event.at.span(), "an event does one thing", help));
    }
    if let (Some(_), None) = (event.fresh_disk, &event.restart) {
        return Err(source.error(event.at.span(), "only a node that restarts has a fresh disk", "write restart = \"NODE\" with it"));
    }
    if let Some(set) = &event.set {
        let name = event.wire.as_ref().ok_or_else(|| source.error(set.span(), "which wire?", "write wire = \"NAME\""))?;
        let changed = set.get_ref();
        if let Some(between) = &changed.between {
            return Err(source.error(between.span(), "a wire stays between its nodes", "use down and up of several wires"));
        }
        let mut actions = Vec::new();
        for index in wires_of(source, name, plan)? {
            let [forth, back] = wires[index].clone();
            let forth = direction(source, changed, forth)?;
            let back = direction(source, changed, back)?;
            let back = changed.back.as_ref().map_or(Ok(back.clone()), |only| direction(source, only.get_ref(), back))?;
            wires[index] = [forth.clone(), back.clone()];
            actions.push(Action::Wire { wire: index, directions: [Some(Box::new(forth)), Some(Box::new(back))] });
        }
        return Ok(actions);
    }
    for (name, up) in [(&event.down, false), (&event.up, true)] {
        let Some(name) = name else { continue };
        return match name.get_ref().split_once(':') {
            Some((of, interface)) => interfaces(source, name.span(), of, interface, up, plan),
            None => Ok(wires_of(source, name, plan)?.into_iter().map(|wire| Action::Carrier { wire, up }).collect()),
        };
    }
    if let Some(sides) = &event.partition {
        let between = partition(source, sides, plan)?;
        cut.extend(&between);
        return Ok(between.into_iter().map(|wire| Action::Carrier { wire, up: false }).collect());
    }
    if event.heal == Some(false) {
        return Err(source.error(event.at.span(), "heal = false does nothing", "write heal = true, or another event"));
    }
    if event.heal.is_some() {
        return Ok(std::mem::take(cut).into_iter().map(|wire| Action::Carrier { wire, up: true }).collect());
    }
    let one = |name: &Option<Spanned<String>>| name.clone();
    if let Some(name) = one(&event.crash) {
        return Ok(machines_of(source, &name, plan)?.into_iter().map(|node| Action::Crash { node }).collect());
    }
    if let Some(name) = one(&event.restart) {
        let fresh = event.fresh_disk.unwrap_or(false);
        return Ok(machines_of(source, &name, plan)?.into_iter().map(|node| Action::Restart { node, fresh }).collect());
    }
    if let Some(name) = one(&event.start) {
        return Ok(called(source, &name, plan)?.into_iter().map(|program| Action::Start { program }).collect());
    }
    if let Some(name) = one(&event.stop) {
        return Ok(called(source, &name, plan)?.into_iter().map(|program| Action::Stop { program }).collect());
    }
    if let Some(name) = &event.signal {
        return signal(source, event, name, plan);
    }
    control(source, event, plan)
}

/// `down` and `up` of an interface, of a node or of those that a pattern stands for.
fn interfaces(
    source: &Source<'_>,
    span: Range<usize>,
    of: &str,
    interface: &str,
    up: bool,
    plan: &Plan,
) -> Result<Vec<Action>, StackError> {
    let mut actions = Vec::new();
    for node in machines_of(source, &Spanned::new(span.clone(), of.to_owned()), plan)? {
        let name = &plan.nodes[node].name;
        if matches!(plan.nodes[node].kind, NodeKind::Guest(_)) {
            let word = if up { "up" } else { "down" };
            let help = format!(
                "let a program do it: command = [\"ip\", \"link\", \"set\", \"{interface}\", \"{word}\"]; or write {word} = \"WIRE\""
            );
            return Err(source.error(span, format!("'{name}' is a Linux kernel, whose interfaces are its own"), help));
        }
        let mut ends = plan.wires.iter().flat_map(|wire| &wire.ends).filter(|(of, _)| *of == node).map(|(_, interface)| interface.as_str());
        if interface != "lo" && !ends.any(|end| end == interface) {
            let what = format!("no wire ends at interface '{interface}' of node '{name}'");
            source.remark(span.clone(), &what, "unless a program has made it by then, the event fails");
        }
        actions.push(Action::Interface { node, interface: interface.to_owned(), up });
    }
    Ok(actions)
}

/// Signals that people send, by their names.
const SIGNALS: [(&str, i32); 10] =
    [("HUP", 1), ("INT", 2), ("QUIT", 3), ("KILL", 9), ("USR1", 10), ("USR2", 12), ("ALRM", 14), ("TERM", 15), ("CONT", 18), ("STOP", 19)];

/// `signal` with `name`.
fn signal(source: &Source<'_>, event: &Event, of: &Spanned<String>, plan: &Plan) -> Result<Vec<Action>, StackError> {
    let programs = called(source, of, plan)?;
    let unmodified = |program: &usize| matches!(plan.programs.get(*program).map(|program| &program.run), Some(Run::Process(_)));
    if !programs.iter().all(unmodified) {
        return Err(source.error(of.span(), "a built-in program takes no signals", "use stop = \"NAME\""));
    }
    let Some(name) = &event.name else {
        return Err(source.error(of.span(), "which signal?", "write name = \"SIGHUP\""));
    };
    let short = name.get_ref().strip_prefix("SIG").unwrap_or(name.get_ref());
    match SIGNALS.iter().find(|(known, _)| *known == short) {
        Some((_, number)) => Ok(programs.into_iter().map(|program| Action::Signal { program, signal: *number }).collect()),
        None => {
            let known: Vec<String> = SIGNALS.iter().map(|(name, _)| format!("SIG{name}")).collect();
            Err(source.error(name.span(), format!("no signal is '{}'", name.get_ref()), format!("use one of {}", known.join(", "))))
        }
    }
}

/// Wires whose ends are on different sides.
fn partition(source: &Source<'_>, sides: &Spanned<Vec<Vec<Spanned<String>>>>, plan: &Plan) -> Result<Vec<usize>, StackError> {
    let mut side_of = vec![None; plan.nodes.len()];
    for (side, names) in sides.get_ref().iter().enumerate() {
        for name in names {
            for node in nodes_of(source, name, plan)? {
                if side_of[node].is_some_and(|other| other != side) {
                    let what = format!("node '{}' is on two sides", plan.nodes[node].name);
                    return Err(source.error(name.span(), what, "name each node once; a pattern may stand for it, too"));
                }
                side_of[node] = Some(side);
            }
        }
    }
    let apart = |a: usize, b: usize| matches!((side_of[a], side_of[b]), (Some(a), Some(b)) if a != b);
    let between: Vec<usize> =
        plan.wires.iter().enumerate().filter(|(_, wire)| apart(wire.ends[0].0, wire.ends[1].0)).map(|(index, _)| index).collect();
    match between.is_empty() {
        false => Ok(between),
        true => Err(source.error(sides.span(), "no wire joins the sides", through_switch(plan, &side_of))),
    }
}

/// What to write where the sides are joined: mostly there is a switch between them, which is on neither.
fn through_switch(plan: &Plan, side_of: &[Option<usize>]) -> String {
    let usual = "name the nodes at both ends of the wires to cut, on different sides";
    let is_switch = |node: usize| plan.nodes.get(node).is_some_and(|node| matches!(node.kind, NodeKind::Switch(_)));
    let mut reached: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for wire in &plan.wires {
        let [a, b] = [wire.ends[0].0, wire.ends[1].0];
        for (switch, other) in [(a, b), (b, a)] {
            if let (true, None, Some(side)) = (is_switch(switch), side_of[switch], side_of[other]) {
                reached.entry(switch).or_default().insert(side);
            }
        }
    }
    match reached.iter().find(|(_, sides)| sides.len() > 1) {
        Some((switch, _)) => {
            let name = &plan.nodes[*switch].name;
            format!("they are joined by the switch '{name}', whose wires are what can be cut: put \"{name}\" on one of the sides")
        }
        None => usual.to_owned(),
    }
}

/// `node`, with `control`, with `parameter` and `value`, or with `block`, `procedure` and `arguments`.
fn control(source: &Source<'_>, event: &Event, plan: &Plan) -> Result<Vec<Action>, StackError> {
    let Some(name) = &event.node else { return Err(source.error(event.at.span(), "an event does one thing", "")) };
    let nodes = machines_of(source, name, plan)?;
    let json = |value: &toml::Value| serde_json::to_value(value).unwrap_or_default();
    let op = match (&event.control, &event.parameter, &event.value, &event.block, &event.procedure) {
        (Some(lines), None, None, None, None) => commands(source, lines)?,
        (None, Some(parameter), Some(value), None, None) => {
            let Some((block, parameter)) = parameter.get_ref().split_once('.') else {
                let what = format!("'{}' names no block and parameter", parameter.get_ref());
                return Err(source.error(parameter.span(), what, "write it as parameter = \"tcp.congestion\""));
            };
            Op::Set { target: Selector::Name(block.to_owned()), name: parameter.to_owned(), value: json(value) }
        }
        (None, None, None, Some(block), Some(procedure)) => {
            let arguments = event.arguments.as_ref().map_or(serde_json::json!({}), json);
            Op::Exec { target: Selector::Name(block.get_ref().clone()), procedure: procedure.get_ref().clone(), arguments }
        }
        _ => {
            let help = "write parameter = \"tcp.congestion\" and value = \"reno\", or block = \"arp\" and procedure = \"flush\", or control = [\"add c counter\", \"insert c tcp:ip4 ip4:upper\"]";
            return Err(source.error(name.span(), "what is the node told?", help));
        }
    };
    if matches!(op, Op::Snapshot { .. }) && nodes.len() > 1 {
        let help = "write an event for each node, with a file of its own";
        return Err(source.error(name.span(), format!("{} nodes would write one snapshot", nodes.len()), help));
    }
    Ok(nodes.into_iter().map(|node| Action::Control { node, op: op.clone() }).collect())
}

/// What to do about words that are no operation.
const WORDS: &str = "`weft help scenario` shows what a node can be told";

/// Commands, a line each: all of them at once, or none.
fn commands(source: &Source<'_>, lines: &Spanned<Vec<Spanned<String>>>) -> Result<Op, StackError> {
    let mut ops = Vec::new();
    for line in lines.get_ref() {
        let wrong = |what: String, help: &str| source.error(line.span(), what, help);
        let op = command::parse(line.get_ref()).map_err(|error| wrong(error.to_string(), WORDS))?;
        let op = op.ok_or_else(|| wrong("a command is empty".to_owned(), WORDS))?;
        if op.is_question() {
            return Err(wrong(
                "an event asks nothing: nobody hears the answer".to_owned(),
                "`weft help scenario` tells where figures come from",
            ));
        }
        if !op.is_change() && lines.get_ref().len() > 1 {
            let help = "make it an event of its own, at the same time";
            return Err(wrong("this is no part of a change that happens as a whole or not at all".to_owned(), help));
        }
        ops.push(op);
    }
    match ops.len() {
        0 => Err(source.error(lines.span(), "the node is told nothing", WORDS)),
        1 => Ok(ops.remove(0)),
        _ => Ok(Op::All(ops)),
    }
}
