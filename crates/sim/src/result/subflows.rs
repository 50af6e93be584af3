//! Multipath TCP over time: what each subflow carries, and how far its connection is.
//!
//! Hosts of weft's stack are asked for their connections at each sample; a Linux kernel tells of its subflows only as of other TCP connections, and so they are
//! in the series `connections` alone.

use super::chart::{Chart, Lines, Points, drawn};
use super::figure::Figure;
use super::marks;
use super::table::{Column, Table};
use super::unit::Quantity;
use crate::world::World;
use serde_json::Value;
use std::collections::BTreeMap;
use weft_core::Instant;

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

/// A connection at one time, as a node tells of it (`show mptcp`).
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// When, since the beginning.
    pub at: Instant,
    /// The node's name.
    pub node: &'a str,
    /// What it tells.
    pub row: &'a Value,
}

impl<'a> Sample<'a> {
    fn paths(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.row["paths"].as_array().into_iter().flatten()
    }

    fn token(&self) -> String {
        format!("{:08x}", self.row["token"].as_u64().unwrap_or(0))
    }
}

/// Those of a world.
fn of_world(world: &World) -> Vec<Sample<'_>> {
    let nodes = &world.plan().nodes;
    world.multipath_samples.iter().map(|sample| Sample { at: sample.at, node: &nodes[sample.node].name, row: &sample.row }).collect()
}

/// The series `subflows` as CSV, and the picture, of a stack that ran in real time; none: no connection carried data. `marks`: what happened
/// to its paths, in seconds from the beginning.
pub fn of_samples(samples: &[Sample<'_>], marks: &[(f64, String)]) -> Option<(String, Figure)> {
    Some((table_of(samples)?.csv().ok()?, picture_of(samples, marks)?))
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or("")
}

/// A row a subflow and sample; none: there was no connection.
pub(super) fn table(world: &World) -> Option<Table> {
    table_of(&of_world(world))
}

fn table_of(samples: &[Sample<'_>]) -> Option<Table> {
    let rows: Vec<(&Sample<'_>, &Value)> = samples.iter().flat_map(|sample| sample.paths().map(move |path| (sample, path))).collect();
    let of_path = |field: &str| Column::Text(rows.iter().map(|(_, path)| text(path, field).to_owned()).collect());
    let mut columns = vec![
        ("time_s".into(), Column::Time(rows.iter().map(|(sample, _)| sample.at.as_nanos()).collect())),
        ("node".into(), Column::Text(rows.iter().map(|(sample, _)| sample.node.to_owned()).collect())),
        ("connection".into(), Column::Text(rows.iter().map(|(sample, _)| sample.token()).collect())),
        ("local".into(), of_path("local")),
        ("remote".into(), of_path("remote")),
        ("use".into(), of_path("use")),
    ];
    columns.extend(
        OF_SUBFLOW.map(|(column, field)| (column.into(), Column::Number(rows.iter().map(|(_, path)| path[field].as_u64()).collect()))),
    );
    columns.extend(
        OF_CONNECTION
            .map(|(column, field)| (column.into(), Column::Number(rows.iter().map(|(sample, _)| sample.row[field].as_u64()).collect()))),
    );
    (!rows.is_empty()).then_some(Table { columns })
}

/// Bytes of subflows and the progress of connections, with what happened to their paths; none: there was no connection.
pub(super) fn picture(world: &World) -> Option<Figure> {
    picture_of(&of_world(world), &marks::of(world))
}

fn picture_of(samples: &[Sample<'_>], marks: &[(f64, String)]) -> Option<Figure> {
    let charts = [("data that subflows have carried", carried(samples)), ("data of connections", progress(samples))];
    drawn(charts.map(|(title, lines)| Chart { title, of: Quantity::Bytes, lines }).into(), marks)
}

fn add(lines: &mut BTreeMap<(String, String), Points>, ends: (&str, &str), at: Instant, bytes: Option<u64>) {
    let Some(bytes) = bytes else { return };
    lines.entry((ends.0.to_owned(), ends.1.to_owned())).or_default().push((at.as_nanos() as f64 / 1e9, bytes as f64));
}

/// Lines that can be seen beside the highest, with their names.
fn named(all: BTreeMap<(String, String), Points>, name: impl Fn(&str, &str) -> String) -> Lines {
    let top = |points: &Points| points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    let highest = all.values().map(top).fold(0.0, f64::max);
    let high = all.into_iter().filter(|(_, points)| top(points) > highest * DRAWN_PART);
    high.map(|((one, other), points)| (name(&one, &other), points)).collect()
}

/// What went from one end of a subflow to the other: as its sender says, or else its receiver.
fn carried(samples: &[Sample<'_>]) -> Lines {
    let (mut sent, mut received) = (BTreeMap::new(), BTreeMap::new());
    for sample in samples {
        for path in sample.paths() {
            let (local, remote) = (text(path, "local"), text(path, "remote"));
            add(&mut sent, (local, remote), sample.at, path["sent_bytes"].as_u64());
            add(&mut received, (remote, local), sample.at, path["received_bytes"].as_u64());
        }
    }
    received.extend(sent);
    named(received, |from, to| format!("{from} > {to}"))
}

/// How far connections are, in bytes from their first one, as both ends say.
fn progress(samples: &[Sample<'_>]) -> Lines {
    let mut lines = BTreeMap::new();
    for sample in samples {
        let place = format!("{} {}", sample.node, sample.token()).trim_start().to_owned();
        for (field, what) in [("sent_bytes", "sent"), ("acknowledged_bytes", "acknowledged"), ("received_bytes", "received in order")] {
            add(&mut lines, (&place, what), sample.at, sample.row[field].as_u64());
        }
    }
    named(lines, |place, what| format!("{place} {what}"))
}
