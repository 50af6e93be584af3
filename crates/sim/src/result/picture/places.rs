//! Where nodes are, from the wires between them alone: grids as grids, chains as lines, rings and stars round, what has layers above its hosts in rows (fat
//! trees), and everything else in columns by the distance from one end. Parts that no wire joins stand beside each other. All of it is sums, products and
//! square roots, which every machine rounds alike; what has a sine in it is rounded to tenths of pixels.

use super::labels::Point;
use std::collections::{BTreeMap, VecDeque};

/// On which side of a node its name stands if there is room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Above,
    Below,
    Left,
    Right,
    /// Below and to the right: where wires leave to all four sides.
    Corner,
}

/// Nodes and wires.
pub(super) struct Graph {
    /// How wide the name of each node is, pixels.
    pub names: Vec<f64>,
    /// Nodes that each wire joins, and how wide and high its text is, pixels.
    pub wires: Vec<([usize; 2], Point)>,
    /// Half of a node's size, pixels.
    pub radius: f64,
}

/// Places, in pixels; the origin is anywhere.
pub(super) struct Layout {
    /// Of nodes.
    pub nodes: Vec<(Point, Side)>,
    /// Of wires: from corner to corner.
    pub routes: Vec<Vec<Point>>,
}

/// Rows of a picture whose parts do not fit beside each other are about so wide.
const WIDTH: f64 = 1200.0;
const ROOM: f64 = 24.0;
/// A line of text with the room around it.
const NAME: f64 = 18.0;
/// More leaves than this stand below each other, behind their switch.
const LEAVES_MAX: usize = 40;
/// Fewer leaves than this look well in columns.
const STAR_MIN: usize = 5;
/// Rows of hosts have so many.
const LAYER_MIN: usize = 4;
/// Longer chains go to and fro.
const CHAIN_MAX: usize = 16;
/// Ways around nodes, in widths of two nodes, and up to how many nodes they are looked for.
const DETOURS: [f64; 7] = [0.0, 1.0, -1.0, 1.7, -1.7, 2.5, -2.5];
const AROUND_MAX: usize = 256;
/// Pieces of a bent wire.
const PIECES: usize = 12;

/// The neighbours of each node, each once, in the order of wires.
fn joined(graph: &Graph) -> Vec<Vec<usize>> {
    let mut joined = vec![Vec::new(); graph.names.len()];
    for ([one, other], _) in &graph.wires {
        for (from, to) in [(*one, *other), (*other, *one)] {
            if !joined[from].contains(&to) {
                joined[from].push(to);
            }
        }
    }
    joined
}

fn distances(from: &[usize], joined: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut out = vec![None; joined.len()];
    let mut queue: VecDeque<usize> = from.iter().copied().collect();
    from.iter().for_each(|node| out[*node] = Some(0));
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

/// Everything.
pub(super) fn layout(graph: &Graph) -> Layout {
    let joined = joined(graph);
    let mut of_part = vec![usize::MAX; joined.len()];
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for first in 0..joined.len() {
        if of_part[first] == usize::MAX {
            let far = distances(&[first], &joined);
            let members: Vec<usize> = (first..joined.len()).filter(|node| far[*node].is_some()).collect();
            members.iter().for_each(|node| of_part[*node] = parts.len());
            parts.push(members);
        }
    }
    let mut layout = Layout { nodes: vec![((0.0, 0.0), Side::Below); joined.len()], routes: vec![Vec::new(); graph.wires.len()] };
    // Where the next part begins, and where the next row does.
    let (mut corner, mut below) = ((0.0, 0.0), 0.0f64);
    for members in parts {
        let is_member = |node: &usize| members.binary_search(node).is_ok();
        let wires: Vec<usize> = (0..graph.wires.len()).filter(|wire| is_member(&graph.wires[*wire].0[0])).collect();
        let place = |node: usize| members.binary_search(&node).unwrap_or(0);
        let part = Graph {
            names: members.iter().map(|node| graph.names[*node]).collect(),
            wires: wires.iter().map(|wire| (graph.wires[*wire].0.map(place), graph.wires[*wire].1)).collect(),
            radius: graph.radius,
        };
        let placed = of_part_alone(&part);
        let room = part.names.iter().copied().fold(0.0, f64::max) / 2.0 + ROOM;
        let points = || placed.nodes.iter().map(|(at, _)| at).chain(placed.routes.iter().flatten());
        let low = points().fold((f64::MAX, f64::MAX), |low, at| (low.0.min(at.0), low.1.min(at.1)));
        let high = points().fold((f64::MIN, f64::MIN), |high, at| (high.0.max(at.0), high.1.max(at.1)));
        if corner.0 > 0.0 && corner.0 + high.0 - low.0 > WIDTH {
            corner = (0.0, below);
        }
        let moved = |at: Point| (corner.0 + room + at.0 - low.0, corner.1 + at.1 - low.1);
        members.iter().zip(&placed.nodes).for_each(|(node, (at, side))| layout.nodes[*node] = (moved(*at), *side));
        wires.iter().zip(placed.routes).for_each(|(wire, route)| layout.routes[*wire] = route.into_iter().map(moved).collect());
        corner.0 += high.0 - low.0 + 2.0 * room;
        below = below.max(corner.1 + high.1 - low.1 + 3.0 * NAME);
    }
    layout
}

/// A part whose nodes are all joined.
fn of_part_alone(graph: &Graph) -> Layout {
    let joined = joined(graph);
    if let Some(layout) = stacked(graph, &joined) {
        return layout;
    }
    let nodes = grid(graph)
        .or_else(|| chain(graph, &joined))
        .or_else(|| ring(graph, &joined))
        .or_else(|| star(graph, &joined))
        .or_else(|| rows(graph, &joined))
        .unwrap_or_else(|| columns(graph, &joined));
    let routes = routes(graph, &nodes);
    Layout { nodes, routes }
}

fn widest(graph: &Graph) -> f64 {
    graph.names.iter().copied().fold(2.0 * graph.radius, f64::max)
}

/// The largest text of a wire.
fn text(graph: &Graph) -> Point {
    graph.wires.iter().fold((0.0, 0.0), |most: Point, (_, size)| (most.0.max(size.0), most.1.max(size.1)))
}

/// How far nodes that a level wire joins are apart, so that its text and their names have room.
fn apart(graph: &Graph) -> f64 {
    let text = text(graph).0;
    let text = if text > 0.0 { text + 2.0 * graph.radius + ROOM } else { 0.0 };
    (widest(graph) + ROOM / 2.0).max(text).max(5.0 * graph.radius)
}

/// A grid whose nodes are named row by row.
fn grid(graph: &Graph) -> Option<Vec<(Point, Side)>> {
    let count = graph.names.len();
    let steps: Vec<usize> = graph.wires.iter().map(|([one, other], _)| one.abs_diff(*other)).collect();
    let width = *steps.iter().max()?;
    if width < 2 || !count.is_multiple_of(width) || count / width < 2 {
        return None;
    }
    let height = count / width;
    let down = steps.iter().filter(|step| **step == width).count();
    let right = graph.wires.iter().filter(|([one, other], _)| one.abs_diff(*other) == 1 && one / width == other / width).count();
    if (down, right) != ((height - 1) * width, (width - 1) * height) || down + right != steps.len() {
        return None;
    }
    let names = graph.names.iter().copied().fold(0.0, f64::max);
    let named = if names > 0.0 { 2.0 * NAME } else { 0.0 };
    let step = (apart(graph).max(names + 2.0 * graph.radius + ROOM / 2.0), 4.0 * graph.radius + named + text(graph).1);
    let at = |node: usize| (((node % width) as f64 * step.0, (node / width) as f64 * step.1), Side::Corner);
    Some((0..count).map(at).collect())
}

/// The nodes from an end on, where each has one before and one behind it.
fn walked(from: usize, joined: &[Vec<usize>]) -> Vec<usize> {
    let (mut order, mut last, mut node) = (vec![from], usize::MAX, from);
    while let Some(next) = joined[node].iter().copied().find(|next| *next != last && *next != from) {
        (last, node) = (node, next);
        order.push(node);
    }
    order
}

fn chain(graph: &Graph, joined: &[Vec<usize>]) -> Option<Vec<(Point, Side)>> {
    let count = joined.len();
    let first = joined.iter().position(|others| others.len() < 2)?;
    if joined.iter().any(|others| others.len() > 2) {
        return None;
    }
    let row = if count <= CHAIN_MAX { count } else { (2.5 * count as f64).sqrt() as usize };
    let (across, down) = (apart(graph), 2.0 * graph.radius + 2.0 * NAME + text(graph).1);
    let mut nodes = vec![((0.0, 0.0), Side::Below); count];
    for (place, node) in walked(first, joined).into_iter().enumerate() {
        let (y, x) = (place / row, place % row);
        let x = if y % 2 == 0 { x } else { row - 1 - x };
        nodes[node].0 = (x as f64 * across, y as f64 * down);
    }
    Some(nodes)
}

/// A place on a circle, so many parts of it from the top, clockwise; and the side that is outside.
fn on_circle(part: f64, radius: f64) -> (Point, Side) {
    let tenths = |value: f64| (value * 10.0).round() / 10.0;
    let angle = std::f64::consts::TAU * part;
    let at = (tenths(radius * angle.sin()), tenths(-radius * angle.cos()));
    let side = match at {
        (x, y) if x.abs() * 3.0 < y.abs() => {
            if y < 0.0 {
                Side::Above
            } else {
                Side::Below
            }
        }
        (x, _) if x < 0.0 => Side::Left,
        _ => Side::Right,
    };
    (at, side)
}

/// The circle on which so many nodes have room.
fn radius(graph: &Graph, count: usize) -> f64 {
    // Names stand beside nodes on most of the circle, and below each other; only at the top they need their width.
    let step = (widest(graph) * 0.6).max(NAME + 4.0).max(3.5 * graph.radius);
    (count as f64 * step / std::f64::consts::TAU).max(5.0 * graph.radius)
}

fn ring(graph: &Graph, joined: &[Vec<usize>]) -> Option<Vec<(Point, Side)>> {
    if joined.len() < 3 || joined.iter().any(|others| others.len() != 2) {
        return None;
    }
    let count = joined.len() as f64;
    let radius = radius(graph, joined.len()).max(text(graph).0 * count / std::f64::consts::TAU);
    let mut nodes = vec![((0.0, 0.0), Side::Below); joined.len()];
    for (place, node) in walked(0, joined).into_iter().enumerate() {
        nodes[node] = on_circle(place as f64 / count, radius);
    }
    Some(nodes)
}

fn star(graph: &Graph, joined: &[Vec<usize>]) -> Option<Vec<(Point, Side)>> {
    let leaves = joined.len().checked_sub(1).filter(|leaves| *leaves >= STAR_MIN)?;
    let middle = joined.iter().position(|others| others.len() == leaves)?;
    if joined.iter().enumerate().any(|(node, others)| node != middle && *others != [middle]) {
        return None;
    }
    let radius = radius(graph, leaves).max(text(graph).0 + 4.0 * graph.radius).max(4.0 * NAME);
    let leaf = |node: usize| node - usize::from(node > middle);
    let at = |node: usize| match node == middle {
        true => ((0.0, 0.0), Side::Below),
        false => on_circle(leaf(node) as f64 / leaves as f64, radius),
    };
    Some((0..joined.len()).map(at).collect())
}

/// The nodes of each layer, hosts first: so far they are from the next leaf. None: a wire joins two of one layer, or there are fewer than three, or few leaves.
fn layers(joined: &[Vec<usize>]) -> Option<Vec<Vec<usize>>> {
    let leaves: Vec<usize> = (0..joined.len()).filter(|node| joined[*node].len() == 1).collect();
    let heights: Vec<usize> = distances(&leaves, joined).into_iter().collect::<Option<_>>()?;
    let between = |node: usize| joined[node].iter().all(|other| heights[node].abs_diff(heights[*other]) == 1);
    let top = heights.iter().copied().max()?;
    if top < 2 || leaves.len() < LAYER_MIN || !(0..joined.len()).all(between) {
        return None;
    }
    let mut layers: Vec<Vec<usize>> = vec![Vec::new(); top + 1];
    heights.iter().enumerate().for_each(|(node, height)| layers[*height].push(node));
    // Leaves of one switch are neighbours, and so are switches of one pod: first each layer follows the one above it, and then the one below.
    let mut place = vec![0.0; joined.len()];
    let passes = (0..=top).rev().map(|height| (height, height + 1)).chain((0..=top).map(|height| (height, height.wrapping_sub(1))));
    for (height, beside) in passes {
        let key = |node: usize| {
            let others: Vec<f64> = joined[node].iter().filter(|other| heights[**other] == beside).map(|other| place[*other]).collect();
            others.iter().sum::<f64>() / others.len().max(1) as f64
        };
        let mut order: Vec<(f64, usize)> = layers[height].iter().map(|node| (key(*node), *node)).collect();
        if layers.get(beside).is_some() {
            order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        }
        layers[height] = order.into_iter().map(|(_, node)| node).collect();
        let count = layers[height].len() as f64;
        layers[height].iter().enumerate().for_each(|(at, node)| place[*node] = (at as f64 + 0.5) / count);
    }
    Some(layers)
}

/// How far rows are apart in a picture that is so wide: flat wires cannot be told apart.
fn row_height(graph: &Graph, width: f64) -> f64 {
    (width / 9.0).clamp(2.0 * graph.radius + 2.5 * NAME, 160.0)
}

/// The width that the widest row needs for its names.
fn row_width(graph: &Graph, layers: &[Vec<usize>]) -> f64 {
    let name = |layer: &Vec<usize>| layer.iter().map(|node| graph.names[*node]).fold(2.0 * graph.radius, f64::max) + ROOM / 2.0;
    let width = |layer: &Vec<usize>| layer.len() as f64 * name(layer);
    layers.iter().map(width).fold(0.0, f64::max)
}

/// Places of layers above the lowest, whose places are known.
fn raise(layers: &[Vec<usize>], joined: &[Vec<usize>], width: f64, step: f64, nodes: &mut [(Point, Side)]) {
    let mut height_of = vec![usize::MAX; joined.len()];
    layers.iter().enumerate().for_each(|(height, layer)| layer.iter().for_each(|node| height_of[*node] = height));
    let parents = |node: usize, height: usize| joined[node].iter().filter(|other| height_of[**other] == height).count();
    for height in 1..layers.len() {
        let (layer, below) = (&layers[height], &layers[height - 1]);
        // In a tree a node is above the middle of its own; where several share these, all of a row are equally far apart.
        let is_tree = below.iter().all(|node| parents(*node, height) == 1);
        for (place, node) in layer.iter().enumerate() {
            let own: Vec<f64> =
                joined[*node].iter().filter(|other| height_of[**other] == height - 1).map(|other| nodes[*other].0.0).collect();
            let (first, last) = (own.iter().copied().fold(f64::MAX, f64::min), own.iter().copied().fold(f64::MIN, f64::max));
            let x = if is_tree { (first + last) / 2.0 } else { (place as f64 + 0.5) * width / layer.len() as f64 };
            let side = if height + 1 == layers.len() { Side::Above } else { Side::Right };
            nodes[*node] = ((x, -(height as f64) * step), side);
        }
    }
}

fn rows(graph: &Graph, joined: &[Vec<usize>]) -> Option<Vec<(Point, Side)>> {
    let layers = layers(joined)?;
    let width = row_width(graph, &layers);
    let mut nodes = vec![((0.0, 0.0), Side::Below); joined.len()];
    let step = width / layers[0].len() as f64;
    layers[0].iter().enumerate().for_each(|(place, node)| nodes[*node].0.0 = (place as f64 + 0.5) * step);
    raise(&layers, joined, width, row_height(graph, width), &mut nodes);
    Some(nodes)
}

/// Rows of which the lowest would be too wide: its nodes stand below each other, and their wires have a corner.
fn stacked(graph: &Graph, joined: &[Vec<usize>]) -> Option<Layout> {
    let layers = layers(joined).filter(|layers| layers[0].len() > LEAVES_MAX)?;
    let name = layers[0].iter().map(|node| graph.names[*node]).fold(0.0, f64::max);
    let (indent, line) = (2.0 * graph.radius, (2.0 * graph.radius + 4.0).max(if name > 0.0 { NAME - 2.0 } else { 0.0 }));
    let step = indent + 2.0 * graph.radius + name + ROOM / 2.0;
    let mut nodes = vec![((0.0, 0.0), Side::Right); joined.len()];
    let width = layers[1].len() as f64 * step;
    for (place, above) in layers[1].iter().enumerate() {
        let leaves = joined[*above].iter().filter(|other| joined[**other].len() == 1);
        for (number, leaf) in leaves.enumerate() {
            nodes[*leaf].0 = ((place as f64 + 0.5) * step + indent, number as f64 * line);
        }
        nodes[*above] = (((place as f64 + 0.5) * step, 0.0), Side::Above);
    }
    raise(&layers[1..], joined, width, row_height(graph, width), &mut nodes);
    layers[1..].iter().flatten().for_each(|node| nodes[*node].0.1 -= line + NAME);
    let route = |([one, other], _): &([usize; 2], Point)| {
        let (from, to) = (nodes[*one].0, nodes[*other].0);
        let (leaf, above) = if joined[*one].len() == 1 { (from, to) } else { (to, from) };
        if joined[*one].len() == 1 || joined[*other].len() == 1 { vec![leaf, (above.0, leaf.1), above] } else { vec![from, to] }
    };
    Some(Layout { routes: graph.wires.iter().map(route).collect(), nodes })
}

/// The column of each node: its distance from one end of the network. Leaves are outside of the nodes that they hang on: in a dumbbell, hosts of one side are on
/// one side. Who is named first is on the left.
fn column_numbers(joined: &[Vec<usize>]) -> Vec<usize> {
    let is_leaf = |node: usize| joined[node].len() < 2;
    let inner =
        |far: Vec<Option<usize>>| (0..joined.len()).filter(|node| !is_leaf(*node)).max_by_key(|node| (far[*node], usize::MAX - *node));
    let first = (0..joined.len()).find(|node| !is_leaf(*node)).unwrap_or(0);
    let start = inner(distances(&[first], joined)).unwrap_or(0);
    let far: Vec<usize> = distances(&[start], joined).into_iter().map(Option::unwrap_or_default).collect();
    let last = (0..joined.len()).filter(|node| !is_leaf(*node)).map(|node| far[node]).max().unwrap_or(0);
    let mut leaves = (0..joined.len()).filter(|node| is_leaf(*node)).count().div_ceil(2);
    let column = |node: usize| match (is_leaf(node), joined[node].first().map(|other| far[*other])) {
        // Those of a single node are on both sides of it.
        (true, Some(0)) if last > 0 || leaves > 0 => {
            leaves = leaves.saturating_sub(1);
            0
        }
        _ => far[node] + 1,
    };
    let columns: Vec<usize> = (0..joined.len()).map(column).collect();
    // Where numbers grow to the left, everything is turned round.
    let last = columns.iter().copied().max().unwrap_or(0);
    let turned = columns.iter().enumerate().map(|(node, column)| (2 * *column as i64 - last as i64) * node as i64).sum::<i64>() < 0;
    let columns: Vec<usize> = columns.into_iter().map(|column| if turned { last - column } else { column }).collect();
    let least = columns.iter().copied().min().unwrap_or(0);
    columns.into_iter().map(|column| column - least).collect()
}

/// Columns of nodes, of which each is joined to the next one's.
fn columns(graph: &Graph, joined: &[Vec<usize>]) -> Vec<(Point, Side)> {
    let column_of = column_numbers(joined);
    let last = column_of.iter().copied().max().unwrap_or(0);
    let mut columns: Vec<Vec<usize>> = vec![Vec::new(); last + 1];
    column_of.iter().enumerate().for_each(|(node, column)| columns[*column].push(node));
    let mut nodes = vec![((0.0, 0.0), Side::Below); joined.len()];
    let text = text(graph);
    // At both ends names stand beside their nodes.
    let down = |number: usize| match number == 0 || number == last {
        true => (2.0 * graph.radius + NAME / 2.0).max(1.5 * text.1 + NAME),
        false => 2.0 * graph.radius + 2.0 * NAME + text.1,
    };
    let mut x = 0.0;
    for number in 0..columns.len() {
        if number > 0 {
            // The order in which the fewest wires cross: by the mean height of the neighbours on the left.
            let height = |node: &usize| {
                let left = joined[*node].iter().filter(|other| column_of[**other] + 1 == number);
                let left: Vec<f64> = left.map(|other| nodes[*other].0.1).collect();
                left.iter().sum::<f64>() / left.len().max(1) as f64
            };
            let mut order: Vec<(f64, usize)> = columns[number].iter().map(|node| (height(node), *node)).collect();
            order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            columns[number] = order.into_iter().map(|(_, node)| node).collect();
            let name = |column: usize| columns[column].iter().map(|node| graph.names[*node]).fold(0.0, f64::max);
            let names =
                if number == 1 || number == last { name(number - 1).min(name(number)) } else { (name(number - 1) + name(number)) / 2.0 };
            // What fans out needs room for its angles.
            let fan = columns[number].len().abs_diff(columns[number - 1].len()) as f64 * down(number).min(down(number - 1)) / 4.0;
            let own = if text.0 > 0.0 { text.0 + 2.0 * graph.radius + ROOM } else { 0.0 };
            x += own.max(names + ROOM).max(7.0 * graph.radius).max(fan);
        }
        let side = match number {
            0 if last > 0 => Side::Left,
            _ if number == last => Side::Right,
            _ => Side::Below,
        };
        let middle = (columns[number].len() as f64 - 1.0) / 2.0;
        columns[number].iter().enumerate().for_each(|(row, node)| nodes[*node] = ((x, (row as f64 - middle) * down(number)), side));
    }
    nodes
}

/// Wires between the same nodes lie side by side; one that would go through another node goes around it.
fn routes(graph: &Graph, nodes: &[(Point, Side)]) -> Vec<Vec<Point>> {
    let pair = |ends: &[usize; 2]| (ends[0].min(ends[1]), ends[0].max(ends[1]));
    let beside = (text(graph).1 + NAME).max(4.0 * graph.radius);
    let mut alike: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    graph.wires.iter().enumerate().for_each(|(wire, (ends, _))| alike.entry(pair(ends)).or_default().push(wire));
    let route = |wire: usize| {
        let (ends, _) = &graph.wires[wire];
        let alike = alike.get(&pair(ends)).map_or(&[][..], Vec::as_slice);
        let place = alike.iter().position(|other| *other == wire).unwrap_or(0) as f64;
        let (from, to) = (nodes[pair(ends).0].0, nodes[pair(ends).1].0);
        let bends = (place - (alike.len() as f64 - 1.0) / 2.0) * beside;
        let around = |times: f64| bend(from, to, bends + times * 4.0 * graph.radius);
        let is_free = |route: &Vec<Point>| !meets(route, nodes, pair(ends), graph.radius + 3.0);
        // Of many nodes each is so small that it does not matter.
        let free = if nodes.len() > AROUND_MAX { None } else { DETOURS.into_iter().map(around).find(is_free) };
        let mut route = free.unwrap_or_else(|| around(0.0));
        if ends[0] > ends[1] {
            route.reverse();
        }
        route
    };
    (0..graph.wires.len()).map(route).collect()
}

/// From one place to another, in the middle so far beside the straight line.
fn bend(from: Point, to: Point, by: f64) -> Vec<Point> {
    let way = (to.0 - from.0, to.1 - from.1);
    let length = (way.0 * way.0 + way.1 * way.1).sqrt();
    if by == 0.0 || length == 0.0 {
        return vec![from, to];
    }
    let at = |piece: usize| {
        let part = piece as f64 / PIECES as f64;
        // A parabola; by the middle it is as far out as it is told.
        let out = 4.0 * part * (1.0 - part) * by / length;
        (from.0 + way.0 * part - way.1 * out, from.1 + way.1 * part + way.0 * out)
    };
    (0..=PIECES).map(at).collect()
}

fn meets(route: &[Point], nodes: &[(Point, Side)], ends: (usize, usize), distance: f64) -> bool {
    let near = |at: Point, (from, to): (Point, Point)| {
        let (way, there) = ((to.0 - from.0, to.1 - from.1), (at.0 - from.0, at.1 - from.1));
        let part = ((there.0 * way.0 + there.1 * way.1) / (way.0 * way.0 + way.1 * way.1)).clamp(0.0, 1.0);
        let off = (there.0 - way.0 * part, there.1 - way.1 * part);
        off.0 * off.0 + off.1 * off.1 < distance * distance
    };
    let others = nodes.iter().enumerate().filter(|(node, _)| *node != ends.0 && *node != ends.1);
    others.into_iter().any(|(_, (at, _))| route.windows(2).any(|piece| near(*at, (piece[0], piece[1]))))
}
