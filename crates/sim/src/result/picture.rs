//! The topology: nodes with their names, wires with their rate and delay. What most wires have is said once, below the picture.

mod labels;
mod places;

use super::figure::{FAMILY, Figure, escaped, text_width};
use super::unit::Quantity;
use crate::plan::{DirectionPlan, Loss, NodeKind, Plan, WirePlan};
use labels::{Area, Board, Point};
use places::{Graph, Side};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Beyond so many nodes, names would be too small to be read.
const NAMES_MAX: usize = 256;
/// More wires make a black area, and take minutes to draw. A fat tree of arity 18 has 4374.
const WIRES_MAX: usize = 5000;
/// Up to so many wires, each has its own text.
const WIRES_FEW: usize = 4;
/// Up to so many nodes the picture grows until every text has room; beyond, texts without room are left out.
const SMALL: usize = 64;
const STRETCHES: [f64; 4] = [1.0, 1.25, 1.6, 2.0];

const LETTERS: f64 = 12.0;
const SMALL_LETTERS: f64 = 11.0;
const LINE: f64 = 14.0;
const MARGIN: f64 = 8.0;
const RADIUS: f64 = 8.0;
/// Of nodes without names.
const DOT: f64 = 4.0;
const GAP: f64 = 3.0;
/// Wires that one shape of the SVG has.
const SHAPE_WIRES: usize = 50;

/// Lines of text, and where they are.
struct Label {
    lines: Vec<String>,
    area: Area,
    /// Of a node, and not of a wire.
    of_node: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A host with programs.
    Runs,
    /// One without.
    Idle,
    Switch,
}

/// The picture, with the origin anywhere.
struct Drawing {
    nodes: Vec<(Point, Kind)>,
    radius: f64,
    routes: Vec<Vec<Point>>,
    labels: Vec<Label>,
    /// What all wires without a text have.
    common: Option<String>,
}

/// Nodes and wires of a world that may run or not; none: there are too many wires for a picture in which anything is seen.
pub fn topology(plan: &Plan) -> Option<Figure> {
    let few = plan.wires.len() <= WIRES_MAX;
    few.then(|| Figure::of_svg(drawing(plan).svg())).flatten()
}

fn kind(plan: &Plan, node: usize) -> Kind {
    match plan.nodes[node].kind {
        NodeKind::Switch(_) => Kind::Switch,
        NodeKind::Host(_) | NodeKind::Guest(_) if plan.programs.iter().any(|program| program.node == node) => Kind::Runs,
        NodeKind::Host(_) | NodeKind::Guest(_) => Kind::Idle,
    }
}

/// Rate, delay and loss, those that there are.
fn of_direction(direction: &DirectionPlan) -> String {
    let rate = direction.rate.map(|rate| Quantity::Rate.tell(rate as f64)).or(direction.trace.as_ref().map(|_| "trace".to_owned()));
    let delay = (!direction.delay.is_zero()).then(|| Quantity::Time.tell(direction.delay.as_nanos() as f64 / 1e9));
    let loss = match direction.loss {
        Loss::None | Loss::Listed(_) => None,
        Loss::Bernoulli(part) => Some(format!("{} % loss", Quantity::Count("").tell(part * 100.0).trim_end())),
        Loss::Gilbert { .. } => Some("loss in bursts".to_owned()),
    };
    [rate, delay, loss].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Both directions; two lines where they differ.
fn told(wire: &WirePlan, right: bool) -> Vec<String> {
    let [forth, back] = wire.directions.each_ref().map(of_direction);
    let (to, fro) = if right { ('→', '←') } else { ('←', '→') };
    match forth == back {
        true if forth.is_empty() => Vec::new(),
        true => vec![forth],
        false => [(to, forth), (fro, back)].into_iter().map(|(arrow, text)| format!("{arrow} {text}").trim_end().to_owned()).collect(),
    }
}

/// Of each wire; and what those without a text have.
fn texts(plan: &Plan) -> (Vec<Vec<String>>, Option<String>) {
    let texts: Vec<Vec<String>> = plan.wires.iter().map(|wire| told(wire, true)).collect();
    let mut counts: BTreeMap<&[String], usize> = BTreeMap::new();
    texts.iter().for_each(|text| *counts.entry(text).or_default() += 1);
    let most = counts.into_iter().max_by_key(|(_, count)| *count).filter(|(text, count)| text.len() <= 1 && 2 * count > texts.len());
    let Some((most, count)) = most.filter(|_| texts.len() > WIRES_FEW) else { return (texts, None) };
    let common = most.first().map(|text| format!("{}: {text}", if count == texts.len() { "each wire" } else { "other wires" }));
    let most = most.to_vec();
    (texts.into_iter().map(|text| if text == most { Vec::new() } else { text }).collect(), common)
}

fn size(lines: &[String], letters: f64) -> Point {
    let width = lines.iter().map(|line| text_width(line, letters)).fold(0.0, f64::max);
    if lines.is_empty() { (0.0, 0.0) } else { (width + 2.0, lines.len() as f64 * LINE) }
}

/// Places for the name of a node, the best first.
fn beside(at: Point, radius: f64, size: Point, side: Side) -> impl Iterator<Item = Area> {
    let (x, y) = (radius + GAP + size.0 / 2.0, radius + GAP / 2.0 + size.1 / 2.0);
    let (corner_x, corner_y) = (radius + GAP + size.0 / 2.0, GAP + size.1 / 2.0);
    let [below, above, right, left] = [(0.0, y), (0.0, -y), (x, 0.0), (-x, 0.0)];
    let corners = [(corner_x, corner_y), (corner_x, -corner_y), (-corner_x, corner_y), (-corner_x, -corner_y)];
    let order = match side {
        Side::Below => [below, above, right, left],
        Side::Above => [above, below, right, left],
        Side::Right => [right, above, below, left],
        Side::Left => [left, above, below, right],
        Side::Corner => [corners[0], below, above, right],
    };
    order.into_iter().chain(corners).map(move |off| Area { at: (at.0 + off.0, at.1 + off.1), size })
}

/// A part of the way along a route, and the way there.
fn along(route: &[Point], part: f64) -> Option<(Point, Point)> {
    let pieces = route.len().checked_sub(1).filter(|pieces| *pieces > 0)?;
    let place = part * pieces as f64;
    let piece = (place as usize).min(pieces - 1);
    let ((from, to), rest) = ((route[piece], route[piece + 1]), place - piece as f64);
    let way = (to.0 - from.0, to.1 - from.1);
    Some(((from.0 + way.0 * rest, from.1 + way.1 * rest), way))
}

/// Places for the text of a wire: above one that is level, to the right of one that is steep, and otherwise on it.
fn near(route: &[Point], size: Point) -> impl Iterator<Item = Area> {
    let parts = [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74];
    let place = move |part: f64| {
        let (at, way) = along(route, part)?;
        let (x, y) = ((size.0 / 2.0 + 4.0) * way.1.abs(), (size.1 / 2.0 + 2.0) * way.0.abs());
        // As far from the line as the text's corner needs.
        let length = (way.0 * way.0 + way.1 * way.1).sqrt().max(1e-9);
        let off = (x + y) / length;
        let normal = if way.0 * way.0 >= way.1 * way.1 { (way.1, -way.0) } else { (way.1.abs(), -way.0 * way.1.signum()) };
        let turn = if normal.1 > 0.0 && way.0 * way.0 >= way.1 * way.1 { -1.0 } else { 1.0 };
        let out = (turn * normal.0 / length * off, turn * normal.1 / length * off);
        let off = [(out.0, out.1), (-out.0, -out.1), (0.0, 0.0)];
        Some(off.map(|off| Area { at: (at.0 + off.0, at.1 + off.1), size }))
    };
    parts.into_iter().filter_map(place).flatten()
}

fn drawing(plan: &Plan) -> Drawing {
    let named = plan.nodes.len() <= NAMES_MAX;
    let (texts, common) = if plan.wires.len() <= 2 * NAMES_MAX { texts(plan) } else { (vec![Vec::new(); plan.wires.len()], None) };
    let graph = Graph {
        names: plan.nodes.iter().map(|node| if named { text_width(&node.name, LETTERS) } else { 0.0 }).collect(),
        wires: plan.wires.iter().zip(&texts).map(|(wire, text)| ([wire.ends[0].0, wire.ends[1].0], size(text, SMALL_LETTERS))).collect(),
        radius: if named { RADIUS } else { DOT },
    };
    let layout = places::layout(&graph);
    let texts: Vec<Vec<String>> = (plan.wires.iter().zip(texts))
        .map(|(wire, text)| match text.len() > 1 {
            // Arrows as the picture shows the wire.
            true => told(wire, layout.nodes[wire.ends[0].0].0.0 <= layout.nodes[wire.ends[1].0].0.0),
            false => text,
        })
        .collect();
    let mut best: Option<Drawing> = None;
    for stretch in STRETCHES {
        let larger = |at: &Point| (at.0 * stretch, at.1 * stretch);
        let mut drawing = Drawing {
            nodes: layout.nodes.iter().enumerate().map(|(node, (at, _))| (larger(at), kind(plan, node))).collect(),
            radius: graph.radius,
            routes: layout.routes.iter().map(|route| route.iter().map(larger).collect()).collect(),
            labels: Vec::new(),
            common: common.clone(),
        };
        let sides: Vec<Side> = layout.nodes.iter().map(|(_, side)| *side).collect();
        let all = !named || drawing.label(plan, &sides, &texts);
        let more = best.as_ref().is_none_or(|best| best.labels.len() < drawing.labels.len());
        best = if more { Some(drawing) } else { best };
        if all || plan.nodes.len() > SMALL {
            break;
        }
    }
    best.unwrap_or(Drawing { nodes: Vec::new(), radius: RADIUS, routes: Vec::new(), labels: Vec::new(), common: None })
}

impl Drawing {
    /// Writes names and texts; returns whether all had room.
    fn label(&mut self, plan: &Plan, sides: &[Side], texts: &[Vec<String>]) -> bool {
        let mut board = Board::default();
        let across = 2.0 * self.radius + GAP;
        self.nodes.iter().for_each(|(at, _)| board.take(Area { at: *at, size: (across, across) }));
        self.routes.iter().enumerate().for_each(|(wire, route)| board.wire(wire, route));
        let mut all = true;
        for (node, (at, _)) in self.nodes.iter().enumerate() {
            let lines = vec![plan.nodes[node].name.clone()];
            let area = board.place(beside(*at, self.radius, size(&lines, LETTERS), sides[node]), None);
            all &= area.is_some();
            self.labels.extend(area.map(|area| Label { lines, area, of_node: true }));
        }
        for (wire, lines) in texts.iter().enumerate().filter(|(_, lines)| !lines.is_empty()) {
            let area = board.place(near(&self.routes[wire], size(lines, SMALL_LETTERS)), Some(wire));
            all &= area.is_some();
            self.labels.extend(area.map(|area| Label { lines: lines.clone(), area, of_node: false }));
        }
        all
    }

    /// Upper left and lower right corner of all that is in it.
    fn corners(&self) -> [Point; 2] {
        let across = 2.0 * self.radius + 2.0;
        let nodes = self.nodes.iter().map(|(at, _)| Area { at: *at, size: (across, across) });
        let routes = self.routes.iter().flatten().map(|at| Area { at: *at, size: (2.0, 2.0) });
        let areas = nodes.chain(routes).chain(self.labels.iter().map(|label| label.area));
        let both = areas
            .map(|area| area.corners())
            .reduce(|all, next| [(all[0].0.min(next[0].0), all[0].1.min(next[0].1)), (all[1].0.max(next[1].0), all[1].1.max(next[1].1))]);
        both.unwrap_or_default()
    }

    /// What kinds of nodes mean, where there are several, and what is common to wires.
    fn key(&self) -> Vec<(Option<Kind>, String)> {
        let mut kinds: Vec<Kind> = self.nodes.iter().map(|(_, kind)| *kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let meaning = |kind: Kind| match kind {
            Kind::Runs => "runs programs",
            Kind::Idle => "runs none",
            Kind::Switch => "switch",
        };
        let kinds = if kinds.len() > 1 { kinds } else { Vec::new() };
        let kinds = kinds.into_iter().map(|kind| (Some(kind), meaning(kind).to_owned()));
        kinds.chain(self.common.iter().map(|text| (None, text.clone()))).collect()
    }

    fn svg(&self) -> String {
        let [low, high] = self.corners();
        let key = self.key();
        let width_of =
            |(kind, text): &(Option<Kind>, String)| text_width(text, SMALL_LETTERS) + if kind.is_some() { 2.5 * RADIUS } else { 0.0 };
        let key_width = key.iter().map(width_of).sum::<f64>() + 2.0 * RADIUS * key.len().saturating_sub(1) as f64;
        let (inner, key_height) = ((high.0 - low.0).max(key_width), if key.is_empty() { 0.0 } else { LINE + MARGIN });
        let (width, height) = (inner + 2.0 * MARGIN, high.1 - low.1 + key_height + 2.0 * MARGIN);
        let moved = ((width - (high.0 - low.0)) / 2.0 - low.0, MARGIN - low.1);
        let mut out = String::new();
        let begin = "<svg xmlns=\"http://www.w3.org/2000/svg\"";
        let _ = writeln!(out, "{begin} width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"{FAMILY}\">");
        let _ = writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>");
        self.wires(&mut out, moved);
        for (at, kind) in &self.nodes {
            node(&mut out, (at.0 + moved.0, at.1 + moved.1), *kind, self.radius);
        }
        self.write(&mut out, moved);
        let mut x = (width - key_width) / 2.0;
        for entry in &key {
            let y = height - MARGIN - LINE / 2.0;
            let text = if entry.0.is_some() { x + 2.5 * RADIUS } else { x };
            if let (Some(kind), _) = entry {
                node(&mut out, (x + RADIUS, y), *kind, RADIUS * 0.75);
            }
            let _ = writeln!(out, "<text x=\"{text:.1}\" y=\"{:.1}\" font-size=\"{SMALL_LETTERS}\">{}</text>", y + 4.0, escaped(&entry.1));
            x += width_of(entry) + 2.0 * RADIUS;
        }
        out + "</svg>\n"
    }

    fn wires(&self, out: &mut String, moved: Point) {
        let width = if self.radius < RADIUS { 0.6 } else { 1.5 };
        // Some in one shape: a large network has hundreds of thousands. Not all, which takes the renderer the square of their number.
        for routes in self.routes.chunks(SHAPE_WIRES) {
            let mut shape = String::new();
            for route in routes {
                for (corner, at) in route.iter().enumerate() {
                    let _ = write!(shape, "{}{:.1} {:.1}", if corner == 0 { 'M' } else { 'L' }, at.0 + moved.0, at.1 + moved.1);
                }
            }
            let _ = writeln!(out, "<path d=\"{shape}\" fill=\"none\" stroke=\"#777\" stroke-width=\"{width}\" stroke-linejoin=\"round\"/>");
        }
    }

    fn write(&self, out: &mut String, moved: Point) {
        for Label { lines, area, of_node } in &self.labels {
            let (letters, colour) = if *of_node { (LETTERS, "#000") } else { (SMALL_LETTERS, "#444") };
            let top = area.at.1 + moved.1 - area.size.1 / 2.0;
            if !of_node {
                // What lies on a wire would look struck out.
                let (left, high) = (area.at.0 + moved.0 - area.size.0 / 2.0, area.size.1 - 2.0);
                let _ = writeln!(
                    out,
                    "<path d=\"M{left:.1} {:.1}h{:.1}v{high:.1}h-{:.1}z\" fill=\"#fff\"/>",
                    top + 1.0,
                    area.size.0,
                    area.size.0
                );
            }
            for (number, line) in lines.iter().enumerate() {
                // A white edge keeps what it lies on out of its letters.
                let edge = "stroke=\"#fff\" stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\"";
                let (x, y) = (area.at.0 + moved.0, top + LINE * (number as f64 + 0.5) + letters * 0.35);
                let text = escaped(line);
                let _ = writeln!(
                    out,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"{letters}\" fill=\"{colour}\" {edge}>{text}</text>"
                );
            }
        }
    }
}

fn node(out: &mut String, (x, y): Point, kind: Kind, radius: f64) {
    let fill = match kind {
        Kind::Runs => "#8fcdf2",
        Kind::Idle => "#fff",
        Kind::Switch => "#ddd",
    };
    let line = if radius < RADIUS / 1.5 { 0.6 } else { 1.2 };
    let shape = match kind {
        Kind::Switch => {
            let half = radius * 0.9;
            format!("M{:.1} {:.1}h{:.1}v{:.1}h-{:.1}z", x - half, y - half, 2.0 * half, 2.0 * half, 2.0 * half)
        }
        // A circle of four curves: an arc would be reckoned with sines, which are not the same everywhere.
        Kind::Runs | Kind::Idle => {
            let (r, k) = (radius, radius * 0.552_284_75);
            format!(
                "M{:.2} {:.2}c0 {k:.2} -{:.2} {r:.2} -{r:.2} {r:.2}s-{r:.2} -{:.2} -{r:.2} -{r:.2}s{:.2} -{r:.2} {r:.2} -{r:.2}s{r:.2} {:.2} {r:.2} {r:.2}z",
                x + r,
                y,
                r - k,
                r - k,
                r - k,
                r - k
            )
        }
    };
    let _ = writeln!(out, "<path d=\"{shape}\" fill=\"{fill}\" stroke=\"#333\" stroke-width=\"{line}\"/>");
}

#[cfg(test)]
mod tests;
