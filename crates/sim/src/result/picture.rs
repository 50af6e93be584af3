//! The topology as SVG: nodes on a line when they are one, else on a circle by distance from the middle of the network.

use crate::plan::{NodeKind, Plan};
use std::collections::VecDeque;
use std::fmt::Write as _;

const NODE_PIXELS: f64 = 110.0;
const MARGIN: f64 = 70.0;
/// Beyond so many nodes, names would lie on each other.
const NAMES_MAX: usize = 200;

/// Where the nodes are: `(x, y)` in units of [`NODE_PIXELS`].
fn places(plan: &Plan) -> Vec<(f64, f64)> {
    let mut joined = vec![Vec::new(); plan.nodes.len()];
    for wire in &plan.wires {
        let (a, b) = (wire.ends[0].0, wire.ends[1].0);
        joined[a].push(b);
        joined[b].push(a);
    }
    // The column of a node is its distance from one end of the network: the node that is farthest from the first.
    let mut columns: Vec<Option<usize>> = vec![None; plan.nodes.len()];
    let mut next_column = 0;
    for first in 0..plan.nodes.len() {
        if columns[first].is_some() {
            continue;
        }
        let far = distances(first, &joined);
        let start = far
            .iter()
            .enumerate()
            .filter_map(|(node, far)| Some((far.as_ref()?, node)))
            .max_by_key(|(far, node)| (**far, usize::MAX - *node));
        let from_end = distances(start.map_or(first, |(_, node)| node), &joined);
        let mut last = 0;
        for (column, distance) in columns.iter_mut().zip(&from_end) {
            if let Some(distance) = distance {
                *column = Some(next_column + distance);
                last = last.max(*distance);
            }
        }
        next_column += last + 2;
    }
    let mut height = vec![0usize; next_column + 1];
    let rows: Vec<usize> = columns
        .iter()
        .map(|column| {
            let place = &mut height[column.unwrap_or(0)];
            *place += 1;
            *place - 1
        })
        .collect();
    let tallest = height.iter().copied().max().unwrap_or(1) as f64;
    let at = |(column, row): (&Option<usize>, &usize)| {
        let column = column.unwrap_or(0);
        let spare = tallest - height[column] as f64;
        (column as f64, *row as f64 + spare / 2.0)
    };
    columns.iter().zip(&rows).map(at).collect()
}

fn distances(from: usize, joined: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut out = vec![None; joined.len()];
    let mut queue = VecDeque::from([from]);
    out[from] = Some(0);
    while let Some(node) = queue.pop_front() {
        for next in &joined[node] {
            if out[*next].is_none() {
                out[*next] = out[node].map(|far: usize| far + 1);
                queue.push_back(*next);
            }
        }
    }
    out
}

/// The picture.
pub(super) fn topology(plan: &Plan) -> String {
    let places = places(plan);
    let pixel = |place: (f64, f64)| (MARGIN + place.0 * NODE_PIXELS, MARGIN + place.1 * NODE_PIXELS * 0.6);
    let (width, height) =
        places.iter().map(|place| pixel(*place)).fold((0.0, 0.0), |most: (f64, f64), at| (most.0.max(at.0), most.1.max(at.1)));
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" height=\"{:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>",
        width + MARGIN,
        height + MARGIN
    );
    let named = plan.nodes.len() <= NAMES_MAX;
    for wire in &plan.wires {
        let ((ax, ay), (bx, by)) = (pixel(places[wire.ends[0].0]), pixel(places[wire.ends[1].0]));
        let _ = writeln!(out, "<line x1=\"{ax:.1}\" y1=\"{ay:.1}\" x2=\"{bx:.1}\" y2=\"{by:.1}\" stroke=\"#888\"/>");
        if named && plan.wires.len() <= NAMES_MAX / 4 {
            let (x, y) = ((ax + bx) / 2.0, (ay + by) / 2.0 - 4.0);
            let _ =
                writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#666\" font-size=\"10\">{}</text>", wire.name);
        }
    }
    for (node, place) in plan.nodes.iter().zip(&places) {
        let (x, y) = pixel(*place);
        let programs = plan.programs.iter().any(|program| plan.nodes[program.node].name == node.name);
        let fill = if programs { "#cfe8cf" } else { "#dde6f5" };
        let _ = match node.kind {
            NodeKind::Host(_) => writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"12\" fill=\"{fill}\" stroke=\"#333\"/>"),
            NodeKind::Switch(_) => {
                writeln!(out, "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"24\" height=\"18\" fill=\"#eee\" stroke=\"#333\"/>", x - 12.0, y - 9.0)
            }
        };
        if named {
            let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>", y + 26.0, node.name);
        }
    }
    out + "</svg>\n"
}
