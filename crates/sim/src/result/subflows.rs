//! Multipath TCP over time: what each subflow carries, and how far its connection is.
//!
//! Hosts of weft's stack are asked for their connections at each sample; a Linux kernel tells of its subflows only as of other TCP connections, and so they are
//! in the series `connections` alone.

use super::chart::{Lines, Marks, Points, drawn, keep_largest};
use super::table::{Column, Table};
use crate::plan::{Action, Plan};
use crate::world::{FlowSample, World};
use serde_json::Value;
use std::collections::BTreeMap;
use weft_core::{Instant, command};

/// A line that comes less high than this part of the highest is not drawn: what the receiver asks for, for example.
const DRAWN_PART: f64 = 0.01;

/// Columns of a subflow, and the fields of its row behind them.
const OF_SUBFLOW: [(&str, &str); 6] = [
    ("sent_bytes", "sent_bytes"),
    ("sent_again_bytes", "sent_again_bytes"),
    ("received_bytes", "received_bytes"),
    ("cwnd_bytes", "cwnd_bytes"),
    ("in_flight_bytes", "in_flight_bytes"),
    ("srtt_us", "rtt_us"),
];
/// And of its connection, by distances from its first byte.
const OF_CONNECTION: [(&str, &str); 3] = [
    ("connection_sent_bytes", "sent_bytes"),
    ("connection_acked_bytes", "acknowledged_bytes"),
    ("connection_received_bytes", "received_bytes"),
];

/// The subflows of a sample.
fn paths(sample: &FlowSample) -> impl Iterator<Item = &Value> {
    sample.row["paths"].as_array().into_iter().flatten()
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or("")
}

/// A row a subflow and sample; none: there was no connection.
pub(super) fn table(world: &World) -> Option<Table> {
    let rows: Vec<(&FlowSample, &Value)> =
        world.multipath_samples.iter().flat_map(|sample| paths(sample).map(move |path| (sample, path))).collect();
    let of_path = |field: &str| Column::Text(rows.iter().map(|(_, path)| text(path, field).to_owned()).collect());
    let token = |sample: &FlowSample| format!("{:08x}", sample.row["token"].as_u64().unwrap_or(0));
    let mut columns = vec![
        ("time_s", Column::Time(rows.iter().map(|(sample, _)| sample.at.as_nanos()).collect())),
        ("node", Column::Text(rows.iter().map(|(sample, _)| world.plan().nodes[sample.node].name.clone()).collect())),
        ("connection", Column::Text(rows.iter().map(|(sample, _)| token(sample)).collect())),
        ("local", of_path("local")),
        ("remote", of_path("remote")),
        ("use", of_path("use")),
    ];
    columns.extend(OF_SUBFLOW.map(|(column, field)| (column, Column::Number(rows.iter().map(|(_, path)| path[field].as_u64()).collect()))));
    columns.extend(
        OF_CONNECTION.map(|(column, field)| (column, Column::Number(rows.iter().map(|(sample, _)| sample.row[field].as_u64()).collect()))),
    );
    (!rows.is_empty()).then_some(Table { columns })
}

/// Bytes of subflows and the progress of connections, with what happened to their paths: SVG and PNG; none: there was no connection.
pub(super) fn picture(world: &World) -> Option<(String, Vec<u8>)> {
    let charts = [("data that subflows have carried, MB", carried(world)), ("data of connections, MB", progress(world))];
    if charts.iter().all(|(_, lines)| lines.is_empty()) {
        return None;
    }
    drawn(&charts, &marks(world.plan()))
}

fn add(lines: &mut BTreeMap<(String, String), Points>, ends: (&str, &str), at: Instant, bytes: Option<u64>) {
    let Some(bytes) = bytes else { return };
    lines.entry((ends.0.to_owned(), ends.1.to_owned())).or_default().push((at.as_nanos() as f64 / 1e9, bytes as f64 / 1e6));
}

/// The highest lines, with their names.
fn named(all: BTreeMap<(String, String), Points>, name: impl Fn(&str, &str) -> String) -> Lines {
    let top = |points: &Points| points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    let highest = all.values().map(top).fold(0.0, f64::max);
    let high = all.into_iter().filter(|(_, points)| top(points) > highest * DRAWN_PART);
    let mut lines: Lines = high.map(|((one, other), points)| (name(&one, &other), points)).collect();
    keep_largest(&mut lines);
    lines
}

/// What went from one end of a subflow to the other: as its sender says, or else its receiver.
fn carried(world: &World) -> Lines {
    let (mut sent, mut received) = (BTreeMap::new(), BTreeMap::new());
    for sample in &world.multipath_samples {
        for path in paths(sample) {
            let (local, remote) = (text(path, "local"), text(path, "remote"));
            add(&mut sent, (local, remote), sample.at, path["sent_bytes"].as_u64());
            add(&mut received, (remote, local), sample.at, path["received_bytes"].as_u64());
        }
    }
    received.extend(sent);
    named(received, |from, to| format!("{from} > {to}"))
}

/// How far connections are, in bytes from their first one, as both ends say.
fn progress(world: &World) -> Lines {
    let mut lines = BTreeMap::new();
    for sample in &world.multipath_samples {
        let place = format!("{} {:08x}", world.plan().nodes[sample.node].name, sample.row["token"].as_u64().unwrap_or(0));
        for (field, what) in [("sent_bytes", "sent"), ("acknowledged_bytes", "acknowledged"), ("received_bytes", "received in order")] {
            add(&mut lines, (&place, what), sample.at, sample.row[field].as_u64());
        }
    }
    named(lines, |place, what| format!("{place} {what}"))
}

/// What happened to wires, interfaces and nodes after the beginning.
fn marks(plan: &Plan) -> Marks {
    let later = plan.events.iter().filter(|event| event.at > Instant::ZERO);
    let mut marks: Marks = later.filter_map(|event| Some((event.at.as_nanos() as f64 / 1e9, told(plan, &event.action)?))).collect();
    marks.sort_by(|one, other| one.0.total_cmp(&other.0));
    marks
}

/// In a few words; none: it is nothing of paths.
fn told(plan: &Plan, action: &Action) -> Option<String> {
    let node = |node: &usize| plan.nodes[*node].name.as_str();
    let wire = |wire: &usize| plan.wires[*wire].name.as_str();
    let way = |up: &bool| if *up { "up" } else { "down" };
    Some(match action {
        Action::Carrier { wire: which, up } => format!("wire {} {}", wire(which), way(up)),
        Action::Wire { wire: which, .. } => format!("wire {} changes", wire(which)),
        Action::Interface { node: which, interface, up } => format!("{}:{interface} {}", node(which), way(up)),
        Action::Control { node: which, op } => format!("{}: {}", node(which), command::write(op)?.replace('\n', "; ")),
        Action::Crash { node: which } => format!("{} crashes", node(which)),
        Action::Restart { node: which, .. } => format!("{} restarts", node(which)),
        Action::Start { .. } | Action::Signal { .. } | Action::Stop { .. } => return None,
    })
}
