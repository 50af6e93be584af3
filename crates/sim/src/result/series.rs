//! Series over time: of wires and of TCP connections, as CSV and as pictures.

use super::chart::{Lines, Points, drawn, keep_largest};
use super::subflows;
use super::table::{Column, Table};
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
        columns.push((column.into(), Column::Number(samples.iter().map(|sample| sample.row[field].as_u64()).collect())));
    }
    Table { columns }
}

/// The pictures of the series: name, SVG and PNG.
pub(super) fn pictures(world: &World) -> Vec<(&'static str, String, Vec<u8>)> {
    let at = |nanos: u64| nanos as f64 / 1e9;
    let wires = by_wire(world);
    let line = |value: fn(&(u64, u64, usize, u64, u64)) -> f64| -> Lines {
        let mut lines: Lines = wires
            .iter()
            .map(|(wire, points)| (direction(world, *wire).1, points.iter().map(|point| (at(point.0), value(point))).collect()))
            .collect();
        keep_largest(&mut lines);
        lines
    };
    let mut connections: BTreeMap<String, (Points, Points)> = BTreeMap::new();
    for sample in &world.flow_samples {
        let number = |field: &str| sample.row.get(field).and_then(serde_json::Value::as_u64);
        let (Some(cwnd), Some(srtt), Some(local)) =
            (number("snd_cwnd"), number("rtt_us"), sample.row.get("local").and_then(|text| text.as_str()))
        else {
            continue;
        };
        let entry = connections.entry(format!("{} {local}", world.plan().nodes[sample.node].name)).or_default();
        entry.0.push((at(sample.at.as_nanos()), cwnd as f64));
        entry.1.push((at(sample.at.as_nanos()), srtt as f64 / 1000.0));
    }
    let (mut cwnd, mut srtt): (Lines, Lines) = (Vec::new(), Vec::new());
    for (name, (of_cwnd, of_srtt)) in connections {
        cwnd.push((name.clone(), of_cwnd));
        srtt.push((name, of_srtt));
    }
    keep_largest(&mut cwnd);
    keep_largest(&mut srtt);
    let all = [
        ("throughput", "throughput, Mbit/s", line(|point| point.1 as f64 / 1e6)),
        ("queue", "frames that wait", line(|point| point.2 as f64)),
        ("cwnd", "congestion window, segments", cwnd),
        ("srtt", "smoothed round-trip time, ms", srtt),
    ];
    let of_series = all.into_iter().filter_map(|(name, title, lines)| {
        let (svg, png) = drawn(&[(title, lines)], &[])?;
        Some((name, svg, png))
    });
    of_series.chain(subflows::picture(world).map(|(svg, png)| ("mptcp", svg, png))).collect()
}
