//! Lines over virtual time, fit for a column of a paper: a title with the unit, names above the data in as many columns as they leave room for, moments
//! below it.

use super::figure::{FAMILY, Figure, shortened, text_width};
use super::unit::{Quantity, ticks};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Series that one chart shows at most: more could not be told apart.
const SERIES_MAX: usize = 8;
/// Moments that one picture marks at most: more have no room beside the data.
const MARKS_MAX: usize = 11;
/// Points of a line at most, four to each of so many columns: more cannot be seen.
const COLUMNS: usize = 1000;
/// Time before the first point that is shown, as a part of all: before that nothing happens.
const BEFORE_PART: f64 = 0.25;

/// Okabe and Ito (2008), whose colours can be told apart by the colour-blind; their yellow is too light for lines.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x00, 0x00),
];
/// Lengths of dashes and of what is between them, of lines beyond those: tenths of pixels.
const DASHES: [(i32, i32); 3] = [(60, 40), (20, 25), (120, 30)];
const GREY: RGBColor = RGBColor(0x77, 0x77, 0x77);
const LIGHT: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

/// Lengths are tenths of pixels: plotters knows whole numbers only, and lines would have steps.
const TENTHS: f64 = 10.0;
const WIDTH: i32 = 5200;
const MARGIN: i32 = 80;
const MARGIN_RIGHT: i32 = 160;
const PLOT_HEIGHT: i32 = 1800;
/// A line of text, and how high its letters are.
const TEXT_LINE: i32 = 165;
const LETTERS: i32 = 120;
const TICK_LABELS: i32 = 200;
const KEY: i32 = 220;
const GAP: i32 = 60;
const LINE_WIDTH: u32 = 17;
const THIN: u32 = 8;

/// Seconds, and a value.
pub(crate) type Points = Vec<(f64, f64)>;
/// Lines with their names.
pub(crate) type Lines = Vec<(String, Points)>;
/// Moments, in seconds, and what happened.
pub(crate) type Marks = Vec<(f64, String)>;

/// Some lines with one axis.
pub(crate) struct Chart {
    /// What is shown.
    pub title: &'static str,
    /// What the values are of.
    pub of: Quantity,
    /// Those that are never above zero are not drawn.
    pub lines: Lines,
}

/// Charts below each other, and all with the first of these moments. None: there is nothing to be seen.
pub(crate) fn drawn(charts: Vec<Chart>, marks: &[(f64, String)]) -> Option<Figure> {
    let ready = ready(charts, marks.get(..MARKS_MAX).unwrap_or(marks));
    let svg = (!ready.parts.is_empty()).then(|| ready.svg())??;
    Figure::of_svg(svg)
}

/// A chart with what depends on the others of its picture.
struct Part {
    title: String,
    whole: bool,
    top: f64,
    /// Points in that unit, each line with the number of its style.
    lines: Vec<(usize, Points)>,
    legend: Legend,
}

/// Names in columns. Those that the chart above has told already are not told again.
#[derive(Default)]
struct Legend {
    entries: Vec<(usize, String)>,
    columns: i32,
}

struct Ready {
    parts: Vec<Part>,
    /// First and last moment, in the unit of time.
    span: (f64, f64),
    time: (f64, String),
    marks: Marks,
    told: Legend,
}

fn ready(charts: Vec<Chart>, marks: &[(f64, String)]) -> Ready {
    let charts: Vec<Chart> = charts.into_iter().filter_map(seen).collect();
    let times = || charts.iter().flat_map(|chart| &chart.lines).flat_map(|(_, points)| points).map(|(x, _)| *x);
    let end = times().chain(marks.iter().map(|(at, _)| *at)).fold(0.0, f64::max).max(1e-9);
    let begin = times().chain(marks.iter().map(|(at, _)| *at)).fold(end, f64::min);
    let time = Quantity::Time.unit(end);
    let begin = if begin > end * BEFORE_PART && begin < end { begin } else { 0.0 };
    let mut names: Vec<String> = Vec::new();
    let parts = charts.into_iter().map(|chart| part(chart, time.0, (begin, end), &mut names)).collect();
    let told =
        marks.iter().enumerate().map(|(number, (at, what))| (number, format!("{}: {}, {what}", number + 1, Quantity::Time.tell(*at))));
    Ready {
        parts,
        span: (begin / time.0, end / time.0),
        marks: marks.iter().map(|(at, what)| (at / time.0, what.clone())).collect(),
        time,
        told: Legend::of(told.collect(), 0),
    }
}

/// Without the lines in which nothing is to be seen. None: that is all of them.
fn seen(mut chart: Chart) -> Option<Chart> {
    chart.lines.retain(|(_, points)| points.iter().any(|(_, y)| *y > 0.0));
    (!chart.lines.is_empty()).then_some(chart)
}

fn highest(points: &Points) -> f64 {
    points.iter().map(|(_, y)| *y).fold(0.0, f64::max)
}

/// `names`: those of the charts above, by their styles.
fn part(mut chart: Chart, second: f64, span: (f64, f64), names: &mut Vec<String>) -> Part {
    let all = chart.lines.len();
    if all > SERIES_MAX {
        // The order of those that stay is not changed: neighbours have names that are alike.
        let mut tops: Vec<f64> = chart.lines.iter().map(|(_, points)| highest(points)).collect();
        tops.sort_by(|a, b| b.total_cmp(a));
        let mut room = SERIES_MAX;
        chart.lines.retain(|(_, points)| {
            let stays = room > 0 && highest(points) >= tops[SERIES_MAX - 1];
            room -= usize::from(stays);
            stays
        });
    }
    let top = chart.lines.iter().map(|(_, points)| highest(points)).fold(0.0, f64::max);
    let (unit, name) = chart.of.unit(top);
    let kept = if all > SERIES_MAX { format!(" (the highest {SERIES_MAX} of {all})") } else { String::new() };
    // Colours begin anew where a chart shows something else than those above it.
    if !chart.lines.iter().any(|(name, _)| names.contains(name)) {
        names.clear();
    }
    let told = names.len();
    let style = |name: String| {
        names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        })
    };
    let scaled = |points: Points| thinned(points, span).into_iter().map(|(x, y)| (x / second, y / unit)).collect();
    let mut style = style;
    let lines = chart.lines.into_iter().map(|(name, points)| (style(name), scaled(points))).collect();
    let entries = names.iter().cloned().enumerate().skip(told).collect();
    Part {
        title: format!("{}, {name}{kept}", chart.title),
        whole: matches!(chart.of, Quantity::Count(_)),
        top: top / unit,
        lines,
        legend: Legend::of(entries, KEY),
    }
}

/// No more points than can be seen: the first, lowest, highest and last ones of each column.
fn thinned(points: Points, (begin, end): (f64, f64)) -> Points {
    if points.len() <= COLUMNS * 4 {
        return points;
    }
    let column = |at: f64| ((at - begin) / (end - begin) * COLUMNS as f64) as usize;
    let of_column = |points: &[(f64, f64)]| {
        let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let mut kept: Vec<(f64, f64)> = points.first().into_iter().chain(points.iter().min_by(by_height)).copied().collect();
        kept.extend(points.iter().max_by(by_height).into_iter().chain(points.last()));
        kept.sort_by(|a, b| a.0.total_cmp(&b.0));
        kept.dedup();
        kept
    };
    points.chunk_by(|a, b| column(a.0) == column(b.0)).flat_map(of_column).collect()
}

fn tenths(text: &str) -> i32 {
    text_width(text, f64::from(LETTERS)) as i32 + 1
}

impl Legend {
    /// Before each text is so much room. Names have columns of their own; what happened may be long.
    fn of(entries: Vec<(usize, String)>, key: i32) -> Legend {
        let room = WIDTH - MARGIN - MARGIN_RIGHT;
        let short = |text: String| shortened(&text, f64::from(LETTERS), f64::from(if key > 0 { room / 2 - key - GAP } else { room - GAP }));
        let entries: Vec<(usize, String)> = entries.into_iter().map(|(number, text)| (number, short(text))).collect();
        let widest = entries.iter().map(|(_, text)| tenths(text)).max().unwrap_or(0) + key + GAP;
        let columns = (room / widest).max(1);
        // No lonely entry in the last line where fewer columns need as many lines.
        let lines = (entries.len() as i32 + columns - 1) / columns;
        Legend { columns: (entries.len() as i32 + lines - 1) / lines.max(1), entries }
    }

    fn height(&self) -> i32 {
        self.entries.len().div_ceil(self.columns.max(1) as usize) as i32 * TEXT_LINE
    }

    /// The number of each entry, its text and place from the upper left corner.
    fn places(&self, key: i32) -> impl Iterator<Item = (usize, &str, (i32, i32))> {
        let width = self.entries.iter().map(|(_, text)| tenths(text)).max().unwrap_or(0) + key + 2 * GAP;
        let step = width.min((WIDTH - MARGIN - MARGIN_RIGHT) / self.columns.max(1));
        self.entries.iter().enumerate().map(move |(place, (number, text))| {
            let (row, column) = (place as i32 / self.columns.max(1), place as i32 % self.columns.max(1));
            (*number, text.as_str(), (column * step, row * TEXT_LINE + TEXT_LINE / 2))
        })
    }
}

impl Part {
    fn height(&self) -> i32 {
        TEXT_LINE + self.legend.height() + GAP + PLOT_HEIGHT + TICK_LABELS + GAP
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Option<()>;

fn text(anchor: (HPos, VPos), colour: &'static RGBColor) -> TextStyle<'static> {
    // plotters writes sizes into an SVG that are smaller by this.
    TextStyle::from((FAMILY, f64::from(LETTERS) * 1.24).into_font()).pos(Pos::new(anchor.0, anchor.1)).color(colour)
}

fn write(area: &Area<'_>, what: &str, at: (i32, i32), anchor: HPos, colour: &'static RGBColor) -> Drawn {
    area.draw(&Text::new(what.to_owned(), at, text((anchor, VPos::Center), colour))).ok()
}

/// An axis with our marks: plotters' own have more places behind the point than they need.
struct Axis {
    from: f64,
    to: f64,
    marks: Vec<(f64, String)>,
}

impl Axis {
    fn new((from, to): (f64, f64), whole: bool) -> Axis {
        Axis { from, to, marks: ticks(from, to, whole) }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (f64::from(limit.1 - limit.0) * (value - self.from) / (self.to - self.from)).round() as i32
    }
    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.iter().map(|(at, _)| *at).collect()
    }
    fn range(&self) -> std::ops::Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        value.to_string()
    }
    fn format_ext(&self, value: &f64) -> String {
        self.marks.iter().find(|(at, _)| at == value).map_or(String::new(), |(_, text)| text.clone())
    }
}

impl Ready {
    fn height(&self) -> i32 {
        let marks = if self.marks.is_empty() { 0 } else { TEXT_LINE * self.parts.len() as i32 + GAP + self.told.height() };
        self.parts.iter().map(Part::height).sum::<i32>() + TEXT_LINE + marks + 2 * MARGIN
    }

    fn svg(&self) -> Option<String> {
        let size = (WIDTH as u32, self.height() as u32);
        let mut svg = String::new();
        self.draw(&SVGBackend::with_string(&mut svg, size).into_drawing_area())?;
        // As many pixels as there are tenths of them, says plotters.
        let told = format!("width=\"{}\" height=\"{}\" viewBox", size.0, size.1);
        let (width, height) = (f64::from(size.0) / TENTHS, f64::from(size.1) / TENTHS);
        Some(svg.replacen(&told, &format!("width=\"{width}\" height=\"{height}\" stroke-linejoin=\"round\" viewBox"), 1))
    }

    fn draw(&self, root: &Area<'_>) -> Drawn {
        root.fill(&WHITE).ok()?;
        // All axes begin at one place.
        let labels = self.parts.iter().flat_map(|part| ticks(0.0, part.top * 1.05, part.whole)).map(|(_, text)| tenths(&text));
        let left = MARGIN + labels.max().unwrap_or(0) + 2 * GAP;
        let mut y = MARGIN;
        for part in &self.parts {
            y = self.part(root, part, left, y)?;
        }
        write(root, &format!("time, {}", self.time.1), ((left + WIDTH - MARGIN_RIGHT) / 2, y + TEXT_LINE / 2 - GAP), HPos::Center, &BLACK)?;
        for (_, told, at) in self.told.places(0) {
            write(root, told, (MARGIN + at.0, y + TEXT_LINE + GAP + at.1), HPos::Left, &BLACK)?;
        }
        root.present().ok()
    }

    /// Draws a chart whose upper edge is here; returns where its lower one is.
    fn part(&self, root: &Area<'_>, part: &Part, left: i32, mut y: i32) -> Option<i32> {
        write(root, &part.title, (MARGIN, y + TEXT_LINE / 2), HPos::Left, &BLACK)?;
        y += TEXT_LINE;
        for (style, name, at) in part.legend.places(KEY) {
            let at = (MARGIN + at.0, y + at.1);
            write(root, name, (at.0 + KEY, at.1), HPos::Left, &BLACK)?;
            stroke(root, &[at, (at.0 + KEY - GAP, at.1)], style)?;
        }
        y += part.legend.height() + GAP;
        if !self.marks.is_empty() {
            y += TEXT_LINE;
        }
        let corner = (0, y);
        let (_, lower) = root.split_vertically(corner.1);
        let (area, _) = lower.split_vertically(PLOT_HEIGHT + TICK_LABELS);
        let (area, _) = area.split_horizontally(WIDTH - MARGIN_RIGHT);
        let top = part.top * 1.05;
        let mut chart = ChartBuilder::on(&area)
            .set_label_area_size(LabelAreaPosition::Left, left)
            .set_label_area_size(LabelAreaPosition::Bottom, TICK_LABELS)
            .build_cartesian_2d(Axis::new(self.span, false), Axis::new((0.0, top), part.whole))
            .ok()?;
        chart
            .configure_mesh()
            .max_light_lines(0)
            .bold_line_style(LIGHT.stroke_width(THIN))
            .axis_style(GREY.stroke_width(THIN))
            .set_all_tick_mark_size(GAP / 2)
            .label_style(text((HPos::Center, VPos::Center), &BLACK))
            .draw()
            .ok()?;
        for (at, _) in &self.marks {
            let line = DashedLineSeries::new([(*at, 0.0), (*at, top)], 40, 40, GREY.stroke_width(THIN));
            chart.draw_series(line).ok()?;
        }
        for (style, points) in &part.lines {
            let colour = COLOURS[style % COLOURS.len()].stroke_width(LINE_WIDTH);
            match dashes(*style) {
                None => chart.draw_series(LineSeries::new(points.iter().copied(), colour)).map(drop).ok()?,
                Some((on, off)) => {
                    chart.draw_series(DashedLineSeries::new(points.iter().copied(), on, off, colour)).map(drop).ok()?;
                }
            }
        }
        let across = f64::from(WIDTH - MARGIN_RIGHT - left) / (self.span.1 - self.span.0);
        for (number, x) in apart(self.marks.iter().map(|(at, _)| left + ((at - self.span.0) * across) as i32)).into_iter().enumerate() {
            write(root, &(number + 1).to_string(), (x, y - TEXT_LINE / 2), HPos::Center, &GREY)?;
        }
        Some(y + PLOT_HEIGHT + TICK_LABELS + GAP)
    }
}

/// Places of the numbers of marks, moved so that they do not touch each other.
fn apart(places: impl Iterator<Item = i32>) -> Vec<i32> {
    let width = tenths("10") + GAP / 2;
    let mut places: Vec<i32> = places.collect();
    for place in 1..places.len() {
        places[place] = places[place].max(places[place - 1] + width);
    }
    let mut right = WIDTH - width / 2;
    for place in places.iter_mut().rev() {
        *place = (*place).min(right);
        right = *place - width;
    }
    places
}

/// How the line of a style is dashed; none: it is not.
fn dashes(style: usize) -> Option<(i32, i32)> {
    (style / COLOURS.len()).checked_sub(1).map(|beyond| DASHES[beyond % DASHES.len()])
}

fn stroke(area: &Area<'_>, line: &[(i32, i32)], style: usize) -> Drawn {
    let colour = COLOURS[style % COLOURS.len()].stroke_width(LINE_WIDTH);
    match dashes(style) {
        None => area.draw(&PathElement::new(line, colour)).ok(),
        Some((on, off)) => area.draw(&DashedPathElement::new(line.iter().copied(), on, off, colour)).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(of: Quantity, lines: impl IntoIterator<Item = (String, Points)>) -> Chart {
        Chart { title: "throughput", of, lines: lines.into_iter().collect() }
    }

    fn line(number: usize) -> (String, Points) {
        let points = (0..100).map(|at| (f64::from(at) * 0.1, 1e6 * (number + 1) as f64)).collect();
        (format!("client-{number} 10.0.{number}.1:49152 > server-with-a-name 10.1.0.1:5001"), points)
    }

    #[test]
    fn the_unit_is_that_of_the_values_and_the_files_are_the_same_every_time() {
        let draw = || drawn(vec![chart(Quantity::Rate, [("a>b".to_owned(), line(0).1)])], &[(2.5, "wire ab down".to_owned())]).unwrap();
        let figure = draw();
        for text in ["throughput, Mbit/s", "a&gt;b", "time, s", "1: 2.5 s, wire ab down", ">\n0.2\n<"] {
            assert!(figure.svg.contains(text), "{text} is not in {}", figure.svg);
        }
        assert!(figure.pdf.starts_with(b"%PDF") && figure == draw());
    }

    #[test]
    fn lines_in_which_nothing_is_to_be_seen_are_left_out() {
        let flat = ("flat".to_owned(), vec![(0.0, 0.0), (9.0, 0.0)]);
        let empty = || ("empty".to_owned(), Points::new());
        let figure = drawn(vec![chart(Quantity::Rate, [flat.clone(), line(0), empty()]), chart(Quantity::Time, [empty()])], &[]).unwrap();
        assert!(!figure.svg.contains("flat") && !figure.svg.contains("empty") && figure.svg.matches("throughput").count() == 1);
        assert_eq!(drawn(vec![chart(Quantity::Rate, [flat, empty()])], &[]), None);
    }

    #[test]
    fn the_highest_lines_are_kept_and_the_title_says_so() {
        let ready = ready(vec![chart(Quantity::Rate, (0..12).map(line))], &[]);
        let part = &ready.parts[0];
        assert_eq!(part.title, "throughput, Mbit/s (the highest 8 of 12)");
        assert_eq!(
            part.lines.iter().map(|(style, points)| (*style, points[0].1 as u32)).collect::<Vec<_>>(),
            (0..8).map(|style| (style, style as u32 + 5)).collect::<Vec<_>>()
        );
        // No two of them look alike.
        let looks: std::collections::BTreeSet<_> = (0..SERIES_MAX * 3).map(|style| (style % COLOURS.len(), dashes(style))).collect();
        assert_eq!(looks.len(), SERIES_MAX * 3);
    }

    #[test]
    fn the_legend_takes_a_quarter_at_most_and_its_names_do_not_touch() {
        for count in [1, 3, 8] {
            let ready = ready(vec![chart(Quantity::Rate, (0..count).map(line))], &[]);
            let legend = &ready.parts[0].legend;
            assert!(legend.height() * 4 <= ready.height(), "{count} lines: {} of {}", legend.height(), ready.height());
            let ends: Vec<(i32, i32, i32)> = legend.places(KEY).map(|(_, name, at)| (at.1, at.0, at.0 + KEY + tenths(name))).collect();
            for (one, other) in ends.iter().zip(&ends[1..]) {
                assert!(other.0 > one.0 || other.1 > one.2, "{ends:?}");
            }
            assert!(ends.iter().all(|(_, _, right)| MARGIN + right <= WIDTH), "{ends:?}");
        }
        // What a chart above has told is not told again.
        let ready = ready(vec![chart(Quantity::Rate, [line(0), line(1)]), chart(Quantity::Bytes, [line(1)])], &[]);
        assert_eq!((ready.parts[1].legend.height(), ready.parts[1].lines[0].0), (0, 1));
    }

    #[test]
    fn numbers_of_marks_are_apart_and_inside() {
        let places = apart([100, 110, 120, WIDTH - 10, WIDTH].into_iter());
        assert!(places.windows(2).all(|both| both[1] - both[0] >= tenths("10")) && places[4] < WIDTH, "{places:?}");
    }

    #[test]
    fn a_line_keeps_its_extremes_when_it_has_too_many_points() {
        let points: Points = (0..100_000).map(|at| (f64::from(at), if at == 54_321 { 9.0 } else { f64::from(at % 3) })).collect();
        let kept = thinned(points, (0.0, 99_999.0));
        assert!(kept.len() <= 4 * (COLUMNS + 1) && kept.contains(&(54_321.0, 9.0)), "{}", kept.len());
        assert!(kept.windows(2).all(|both| both[0].0 < both[1].0) && kept.last().unwrap().0 == 99_999.0);
    }
}
