//! Lines over virtual time, as SVG and as PNG.

use super::canvas::Canvas;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// Series that one picture shows at most: more could not be told apart.
const SERIES_MAX: usize = 8;
/// Moments that one picture marks at most: more have no room beside the data.
const MARKS_MAX: usize = 11;
/// Of one chart, without its legend.
const SIZE: (u32, u32) = (900, 480);
const GREY: RGBColor = RGBColor(0x99, 0x99, 0x99);

/// Seconds, and a value.
pub(crate) type Points = Vec<(f64, f64)>;
/// Lines with their names.
pub(crate) type Lines = Vec<(String, Points)>;
/// Moments, in seconds, and what happened.
pub(crate) type Marks = Vec<(f64, String)>;

/// Charts below each other, each with its title, and all with the first of these moments: SVG and PNG.
pub(crate) fn drawn(charts: &[(&str, Lines)], marks: &[(f64, String)]) -> Option<(String, Vec<u8>)> {
    let marks = marks.get(..MARKS_MAX).unwrap_or(marks);
    let marked: Marks = marks.iter().enumerate().map(|(number, (at, what))| (*at, format!("{}: {at} s, {what}", number + 1))).collect();
    let names = charts.iter().flat_map(|(_, lines)| lines.iter().map(|(name, _)| name)).chain(marked.iter().map(|(_, what)| what));
    let size = (SIZE.0 + legend_width(names), SIZE.1 * u32::try_from(charts.len()).ok()?);
    let mut svg = String::new();
    stack(SVGBackend::with_string(&mut svg, size).into_drawing_area(), charts, &marked).ok()?;
    let canvas = Rc::new(RefCell::new(Canvas::new(size)?));
    stack(DrawingArea::from(&canvas), charts, &marked).ok()?;
    let png = canvas.borrow().png().ok()?;
    Some((svg, png))
}

fn stack<B: DrawingBackend>(root: Area<B>, charts: &[(&str, Lines)], marks: &Marks) -> Drawn<B> {
    for (part, (title, lines)) in root.split_evenly((charts.len(), 1)).into_iter().zip(charts) {
        chart(&part, title, lines, marks)?;
    }
    root.present()
}

/// As many as can be told apart: those that come highest.
pub(crate) fn keep_largest(lines: &mut Lines) {
    let top = |line: &(String, Points)| line.1.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    if lines.len() > SERIES_MAX {
        lines.sort_by(|a, b| top(b).total_cmp(&top(a)).then_with(|| a.0.cmp(&b.0)));
        lines.truncate(SERIES_MAX);
    }
}

/// Where the names of lines stand, in pixels.
const LEGEND_TOP: i32 = 52;
const LEGEND_LINE: i32 = 20;
const LEGEND_MARK: i32 = 18;
const LETTER_WIDTH: u32 = 8;
const LEGEND_LETTERS: RangeInclusive<usize> = 33..=60;

/// How wide the legend of the longest name is.
fn legend_width<'a>(names: impl Iterator<Item = &'a String>) -> u32 {
    let letters = names.map(|name| name.chars().count()).max().unwrap_or(0).clamp(*LEGEND_LETTERS.start(), *LEGEND_LETTERS.end());
    letters as u32 * LETTER_WIDTH + 2 * LEGEND_MARK as u32
}

/// A name that fits beside the data.
fn shortened(name: &str) -> String {
    match name.chars().count() > *LEGEND_LETTERS.end() {
        true => name.chars().take(*LEGEND_LETTERS.end() - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

type Area<B> = DrawingArea<B, Shift>;
type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

fn chart<B: DrawingBackend>(root: &Area<B>, title: &str, lines: &Lines, marks: &Marks) -> Drawn<B> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let end = points().map(|(x, _)| *x).chain(marks.iter().map(|(at, _)| *at)).fold(0.0, f64::max).max(1e-9);
    let top = points().map(|(_, y)| *y).fold(0.0, f64::max).max(1e-9) * 1.05;
    root.fill(&WHITE)?;
    let (plot, legend) = root.split_horizontally(SIZE.0);
    let mut chart = ChartBuilder::on(&plot)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart.configure_mesh().x_desc("time, s").draw()?;
    for (number, (at, _)) in marks.iter().enumerate() {
        chart.draw_series(DashedLineSeries::new([(*at, 0.0), (*at, top)], 4, 4, GREY.into()))?;
        chart.draw_series([Text::new((number + 1).to_string(), (*at, top), ("sans-serif", 13))])?;
    }
    for (number, (_, points)) in lines.iter().enumerate() {
        let colour = Palette99::pick(number).to_rgba();
        chart.draw_series(LineSeries::new(points.iter().copied(), &colour))?;
    }
    // Beside the data, and not over it.
    for (number, (name, _)) in lines.iter().enumerate() {
        let y = LEGEND_TOP + LEGEND_LINE * number as i32;
        let colour = Palette99::pick(number).to_rgba();
        legend.draw(&PathElement::new([(0, y), (LEGEND_MARK, y)], colour))?;
        legend.draw(&Text::new(shortened(name), (LEGEND_MARK + 6, y - 8), ("sans-serif", 13)))?;
    }
    for (number, (_, what)) in marks.iter().enumerate() {
        let y = LEGEND_TOP + LEGEND_LINE * (lines.len() + 1 + number) as i32;
        legend.draw(&Text::new(shortened(what), (0, y - 8), ("sans-serif", 13)))?;
    }
    Ok(())
}
