//! Series over time: of wires and of TCP connections, as CSV and as pictures.

use super::chart::{Chart, Lines, Points, drawn};
use super::figure::Figure;
use super::table::{Column, Table};
use super::unit::Quantity;
use super::{marks, subflows};
use crate::plan::WirePlan;
use crate::world::World;
use std::collections::BTreeMap;

fn direction(world: &World, wire: (u32, u8)) -> (String, String) {
    let plan = world.plan();
    let wire_plan = &plan.wires[wire.0 as usize];
    let end = |side: usize| plan.nodes[wire_plan.ends[side].0].name.clone();
    let (from, to) = if wire.1 == 0 { (0, 1) } else { (1, 0) };
    (wire_plan.name.clone(), format!("{}>{}", end(from), end(to)))
}

/// Points of one wire: time, throughput since the sample before, frames and bytes that wait, frames lost so far.
type WirePoints = Vec<(u64, u64, usize, u64, u64)>;

fn by_wire(world: &World) -> BTreeMap<(u32, u8), WirePoints> {
    let mut before: BTreeMap<(u32, u8), (u64, u64)> = BTreeMap::new();
    let mut out: BTreeMap<(u32, u8), WirePoints> = BTreeMap::new();
    for sample in &world.wire_samples {
        let now = sample.at.as_nanos();
        let (at, bytes) = before.insert(sample.wire, (now, sample.bytes)).unwrap_or((now, sample.bytes));
        let rate = (u128::from(sample.bytes - bytes) * 8_000_000_000).checked_div(u128::from(now - at)).unwrap_or(0) as u64;
        out.entry(sample.wire).or_default().push((now, rate, sample.queue.0, sample.queue.1, sample.lost));
    }
    out
}

/// A row a wire, direction and sample.
pub(super) fn wires(world: &World) -> Table {
    let (mut times, mut names, mut ways) = (Vec::new(), Vec::new(), Vec::new());
    let mut numbers: [Vec<Option<u64>>; 4] = Default::default();
    for (wire, points) in by_wire(world) {
        let (name, way) = direction(world, wire);
        for (at, rate, frames, bytes, lost) in points {
            times.push(at);
            names.push(name.clone());
            ways.push(way.clone());
            for (column, value) in numbers.iter_mut().zip([rate, frames as u64, bytes, lost]) {
                column.push(Some(value));
            }
        }
    }
    let mut columns =
        vec![("time_s".into(), Column::Time(times)), ("wire".into(), Column::Text(names)), ("direction".into(), Column::Text(ways))];
    let named = ["throughput_bits_per_second", "queue_frames", "queue_bytes", "lost_frames"].into_iter().zip(numbers);
    columns.extend(named.map(|(name, values)| (name.into(), Column::Number(values))));
    Table { columns }
}

/// Columns of a connection, and the fields of TCP_INFO behind them.
const COLUMNS: [(&str, &str); 9] = [
    ("cwnd_segments", "snd_cwnd"),
    ("ssthresh_segments", "snd_ssthresh"),
    ("srtt_us", "rtt_us"),
    ("rttvar_us", "rttvar_us"),
    ("unacked_segments", "unacked"),
    ("retransmitted_segments", "total_retrans"),
    ("acked_bytes", "bytes_acked"),
    ("received_bytes", "bytes_received"),
    ("delivery_rate_bytes_per_second", "delivery_rate"),
];

/// A row a connection and sample.
pub(super) fn connections(world: &World) -> Table {
    let samples = &world.flow_samples;
    let text = |field: &str| Column::Text(samples.iter().map(|sample| sample.row[field].as_str().unwrap_or("").to_owned()).collect());
    let nodes = samples.iter().map(|sample| world.plan().nodes[sample.node].name.clone()).collect();
    let mut columns = vec![
        ("time_s".into(), Column::Time(samples.iter().map(|sample| sample.at.as_nanos()).collect())),
        ("node".into(), Column::Text(nodes)),
        ("local".into(), text("local")),
        ("remote".into(), text("remote")),
        ("state".into(), text("state")),
    ];
    for (column, field) in COLUMNS {
        // Before the first round trip was measured there is neither.
        let is_there = |row: &serde_json::Value| !column.ends_with("_us") || row["rtt_us"] != 0;
        let values = samples.iter().map(|sample| sample.row[field].as_u64().filter(|_| is_there(&sample.row)));
        columns.push((column.into(), Column::Number(values.collect())));
    }
    Table { columns }
}

/// Nodes that a wire joins, whichever end is first.
fn joined(wire: &WirePlan) -> (usize, usize) {
    let [one, other] = wire.ends.each_ref().map(|(node, _)| *node);
    (one.min(other), one.max(other))
}

fn counts<T: Ord>(all: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts
}

/// Names of the directions of wires: their nodes, and where several wires join these the wire's own, too.
fn line_names(world: &World) -> impl Fn((u32, u8)) -> String {
    let alike = counts(world.plan().wires.iter().map(joined));
    move |wire| {
        let (name, way) = direction(world, wire);
        if alike.get(&joined(&world.plan().wires[wire.0 as usize])).is_some_and(|count| *count > 1) {
            format!("{name}: {way}")
        } else {
            way
        }
    }
}

/// The pictures of the series, with their names.
pub(super) fn pictures(world: &World) -> Vec<(&'static str, Figure)> {
    let at = |nanos: u64| nanos as f64 / 1e9;
    let (wires, name) = (by_wire(world), line_names(world));
    let line = |value: fn(&(u64, u64, usize, u64, u64)) -> f64| -> Lines {
        let points = |points: &WirePoints| points.iter().map(|point| (at(point.0), value(point))).collect();
        wires.iter().map(|(wire, of_wire)| (name(*wire), points(of_wire))).collect()
    };
    let mut connections: BTreeMap<(String, String), (Points, Points)> = BTreeMap::new();
    for sample in &world.flow_samples {
        let number = |field: &str| sample.row.get(field).and_then(serde_json::Value::as_u64);
        let (Some(cwnd), Some(srtt), Some(local)) =
            (number("snd_cwnd"), number("rtt_us"), sample.row.get("local").and_then(|text| text.as_str()))
        else {
            continue;
        };
        let remote = sample.row.get("remote").and_then(|text| text.as_str()).unwrap_or("");
        let place = format!("{} {local}", world.plan().nodes[sample.node].name);
        let entry = connections.entry((place, remote.to_owned())).or_default();
        entry.0.push((at(sample.at.as_nanos()), cwnd as f64));
        if srtt > 0 {
            entry.1.push((at(sample.at.as_nanos()), srtt as f64 / 1e6));
        }
    }
    // Who only receives has the window that it began with.
    let moves = |points: &Points| points.windows(2).any(|pair| pair[0].1 != pair[1].1);
    if connections.values().any(|(cwnd, _)| moves(cwnd)) {
        connections.retain(|_, (cwnd, _)| moves(cwnd));
    }
    let (mut cwnd, mut srtt): (Lines, Lines) = (Vec::new(), Vec::new());
    let alike = counts(connections.keys().map(|(place, _)| place.clone()));
    for ((place, remote), (of_cwnd, of_srtt)) in connections {
        // A server has one address and port for all of its clients.
        let name = if alike.get(&place).is_some_and(|count| *count > 1) { format!("{place} > {remote}") } else { place };
        cwnd.push((name.clone(), of_cwnd));
        srtt.push((name, of_srtt));
    }
    let all = [
        ("throughput", "throughput", Quantity::Rate, line(|point| point.1 as f64)),
        ("queue", "queue", Quantity::Count("frames"), line(|point| point.2 as f64)),
        ("cwnd", "congestion window", Quantity::Count("segments"), cwnd),
        ("srtt", "smoothed round-trip time", Quantity::Time, srtt),
    ];
    let marks = marks::of(world);
    let of_series = all.into_iter().filter_map(|(name, title, of, lines)| Some((name, drawn(vec![Chart { title, of, lines }], &marks)?)));
    of_series.chain(subflows::picture(world).map(|figure| ("mptcp", figure))).collect()
}
