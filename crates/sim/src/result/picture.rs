//! The topology: nodes in columns by their distance from one end of the network, from left to right as the scenario names them; those of a star on a circle
//! around its middle.

use super::canvas::{Canvas, Ink};
use crate::plan::{NodeKind, Plan};
use plotters_backend::DrawingBackend as _;
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
    if let Some(places) = around(&joined) {
        return places;
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
        let last = from_end.iter().flatten().copied().max().unwrap_or(0);
        // Who is named first is on the left: where numbers grow to the left, everything is turned round.
        let grows = from_end.iter().enumerate().filter_map(|(node, far)| Some((2 * (*far)? as i64 - last as i64) * node as i64));
        let turned = grows.sum::<i64>() < 0;
        for (column, distance) in columns.iter_mut().zip(&from_end) {
            if let Some(distance) = distance {
                *column = Some(next_column + if turned { last - distance } else { *distance });
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

/// Fewer leaves than this look well in columns.
const LEAVES_MIN: usize = 8;

/// The places of a star's nodes; None: it is none.
fn around(joined: &[Vec<usize>]) -> Option<Vec<(f64, f64)>> {
    let leaves = joined.len().checked_sub(1).filter(|leaves| *leaves >= LEAVES_MIN)?;
    let middle = joined.iter().position(|others| others.len() == leaves)?;
    if joined.iter().enumerate().any(|(node, others)| node != middle && *others != [middle]) {
        return None;
    }
    // Neighbours are a place apart; a place is not as high as it is wide.
    let radius = (leaves as f64 / std::f64::consts::TAU).max(1.5) * 0.8;
    let mut number = 0;
    let place = |node: usize| {
        if node == middle {
            return (radius, radius / 0.6);
        }
        let angle = std::f64::consts::TAU * f64::from(number) / leaves as f64;
        number += 1;
        // From the top, clockwise. In whole hundredths: sine and cosine may differ in the last bit from machine to machine.
        let hundredths = |value: f64| (value * 100.0).round() / 100.0;
        (hundredths(radius * (1.0 + angle.sin())), hundredths(radius * (1.0 - angle.cos()) / 0.6))
    };
    Some((0..joined.len()).map(place).collect())
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

/// Something in the picture.
enum Mark {
    Line {
        from: (f64, f64),
        to: (f64, f64),
    },
    Host {
        at: (f64, f64),
        runs: bool,
    },
    Switch {
        at: (f64, f64),
    },
    /// In the middle of a place: of a node, or, smaller and grey, of a wire.
    Name {
        at: (f64, f64),
        text: String,
        of_node: bool,
    },
}

/// A picture, not yet of any format.
pub(super) struct Picture {
    size: (f64, f64),
    marks: Vec<Mark>,
}

const NODE_RADIUS: f64 = 12.0;
const SWITCH: (f64, f64) = (24.0, 18.0);
const RUNS: (u8, u8, u8) = (0xcf, 0xe8, 0xcf);
const IDLE: (u8, u8, u8) = (0xdd, 0xe6, 0xf5);
const DARK: (u8, u8, u8) = (0x33, 0x33, 0x33);

/// The picture.
pub(super) fn topology(plan: &Plan) -> Picture {
    let places = places(plan);
    let pixel = |place: (f64, f64)| (MARGIN + place.0 * NODE_PIXELS, MARGIN + place.1 * NODE_PIXELS * 0.6);
    let (width, height) =
        places.iter().map(|place| pixel(*place)).fold((0.0, 0.0), |most: (f64, f64), at| (most.0.max(at.0), most.1.max(at.1)));
    let named = plan.nodes.len() <= NAMES_MAX;
    let mut marks = Vec::new();
    for wire in &plan.wires {
        let (from, to) = (pixel(places[wire.ends[0].0]), pixel(places[wire.ends[1].0]));
        marks.push(Mark::Line { from, to });
        if named && plan.wires.len() <= NAMES_MAX / 4 {
            let at = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0 - 4.0);
            marks.push(Mark::Name { at, text: wire.name.clone(), of_node: false });
        }
    }
    for (number, (node, place)) in plan.nodes.iter().zip(&places).enumerate() {
        let at = pixel(*place);
        marks.push(match node.kind {
            NodeKind::Host(_) | NodeKind::Guest(_) => Mark::Host { at, runs: plan.programs.iter().any(|program| program.node == number) },
            NodeKind::Switch(_) => Mark::Switch { at },
        });
        if named {
            marks.push(Mark::Name { at: (at.0, at.1 + 26.0), text: node.name.clone(), of_node: true });
        }
    }
    Picture { size: (width + MARGIN, height + MARGIN), marks }
}

impl Picture {
    /// As SVG.
    pub fn svg(&self) -> String {
        let hex = |(red, green, blue): (u8, u8, u8)| format!("#{red:02x}{green:02x}{blue:02x}");
        let mut out = String::new();
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" height=\"{:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>",
            self.size.0, self.size.1
        );
        for mark in &self.marks {
            let _ = match mark {
                Mark::Line { from: (ax, ay), to: (bx, by) } => {
                    writeln!(out, "<line x1=\"{ax:.1}\" y1=\"{ay:.1}\" x2=\"{bx:.1}\" y2=\"{by:.1}\" stroke=\"#888\"/>")
                }
                Mark::Host { at: (x, y), runs } => {
                    let fill = hex(if *runs { RUNS } else { IDLE });
                    writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{NODE_RADIUS}\" fill=\"{fill}\" stroke=\"#333\"/>")
                }
                Mark::Switch { at: (x, y) } => {
                    let (left, top, (width, height)) = (x - SWITCH.0 / 2.0, y - SWITCH.1 / 2.0, SWITCH);
                    writeln!(
                        out,
                        "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width}\" height=\"{height}\" fill=\"#eee\" stroke=\"#333\"/>"
                    )
                }
                Mark::Name { at: (x, y), text, of_node: true } => {
                    writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>")
                }
                Mark::Name { at: (x, y), text, of_node: false } => {
                    writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#666\" font-size=\"10\">{text}</text>")
                }
            };
        }
        out + "</svg>\n"
    }

    /// As PNG; none: it is too large for one.
    pub fn png(&self) -> Option<Vec<u8>> {
        let mut canvas = Canvas::new((self.size.0 as u32, self.size.1 as u32))?;
        let whole = |at: (f64, f64)| (at.0 as i32, at.1 as i32);
        for mark in &self.marks {
            match mark {
                Mark::Line { from, to } => canvas.draw_line(whole(*from), whole(*to), &Ink((0x88, 0x88, 0x88))).ok()?,
                Mark::Host { at, runs } => {
                    canvas.draw_circle(whole(*at), NODE_RADIUS as u32, &Ink(if *runs { RUNS } else { IDLE }), true).ok()?;
                    canvas.draw_circle(whole(*at), NODE_RADIUS as u32, &Ink(DARK), false).ok()?;
                }
                Mark::Switch { at } => {
                    let half = (SWITCH.0 / 2.0, SWITCH.1 / 2.0);
                    let (corner, other) = (whole((at.0 - half.0, at.1 - half.1)), whole((at.0 + half.0, at.1 + half.1)));
                    canvas.draw_rect(corner, other, &Ink((0xee, 0xee, 0xee)), true).ok()?;
                    canvas.draw_rect(corner, other, &Ink(DARK), false).ok()?;
                }
                Mark::Name { at, text, of_node } => canvas.label(text, *at, if *of_node { (0, 0, 0) } else { (0x66, 0x66, 0x66) }),
            }
        }
        canvas.png().ok()
    }
}
