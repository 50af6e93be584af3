//! Lines over virtual time, as SVG and as PNG.

use super::canvas::Canvas;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// Series that one picture shows at most: more could not be told apart.
const SERIES_MAX: usize = 8;
/// Of one chart.
const SIZE: (u32, u32) = (1200, 480);

/// Seconds, and a value.
pub(crate) type Points = Vec<(f64, f64)>;
/// Lines with their names.
pub(crate) type Lines = Vec<(String, Points)>;

/// Charts below each other, each with its title: SVG and PNG.
pub(crate) fn drawn(charts: &[(&str, Lines)]) -> Option<(String, Vec<u8>)> {
    let size = (SIZE.0, SIZE.1 * u32::try_from(charts.len()).ok()?);
    let mut svg = String::new();
    stack(SVGBackend::with_string(&mut svg, size).into_drawing_area(), charts).ok()?;
    let canvas = Rc::new(RefCell::new(Canvas::new(size)?));
    stack(DrawingArea::from(&canvas), charts).ok()?;
    let png = canvas.borrow().png().ok()?;
    Some((svg, png))
}

fn stack<B: DrawingBackend>(root: Area<B>, charts: &[(&str, Lines)]) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    for (part, (title, lines)) in root.split_evenly((charts.len(), 1)).into_iter().zip(charts) {
        chart(&part, title, lines)?;
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

/// Where the names of lines stand, in pixels. A letter takes 8.
const LEGEND_WIDTH: u32 = 300;
const LEGEND_TOP: i32 = 52;
const LEGEND_LINE: i32 = 20;
const LEGEND_MARK: i32 = 18;
const LEGEND_LETTERS: usize = 33;

/// A name that fits beside the data.
fn shortened(name: &str) -> String {
    match name.chars().count() > LEGEND_LETTERS {
        true => name.chars().take(LEGEND_LETTERS - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

type Area<B> = DrawingArea<B, Shift>;

fn chart<B: DrawingBackend>(root: &Area<B>, title: &str, lines: &Lines) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let end = points().map(|(x, _)| *x).fold(0.0, f64::max).max(1e-9);
    let top = points().map(|(_, y)| *y).fold(0.0, f64::max).max(1e-9) * 1.05;
    root.fill(&WHITE)?;
    let (plot, legend) = root.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let mut chart = ChartBuilder::on(&plot)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart.configure_mesh().x_desc("virtual time, s").draw()?;
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
    Ok(())
}
