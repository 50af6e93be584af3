//! Pictures as PDF. What is there of it is what our pictures are made of: filled and stroked shapes of one colour each. Letters are shapes, too, so that no
//! reader lacks a font. Whole renderers of SVG for PDF bring decoders of images along, and a second machinery for fonts (krilla-svg), or have no one who
//! keeps them (svg2pdf); clips, gradients and images are refused by leaving them out.

use pdf_writer::types::{LineCapStyle, LineJoinStyle};
use pdf_writer::{Content, Filter, Finish as _, Pdf, Rect, Ref};
use resvg::tiny_skia::PathSegment;
use resvg::usvg::{Group, LineCap, LineJoin, Node, Paint, PaintOrder, Path, Stroke, Tree};

/// Of a pixel, of which an inch has 96.
const POINTS: f32 = 0.75;
/// zlib's default.
const COMPRESSION: u8 = 6;

/// A page as large as the picture.
pub(super) fn of_tree(tree: &Tree) -> Vec<u8> {
    let (width, height) = (tree.size().width() * POINTS, tree.size().height() * POINTS);
    let mut content = Content::new();
    // A page's origin is below, and y grows upwards.
    content.transform([POINTS, 0.0, 0.0, -POINTS, 0.0, height]);
    group(&mut content, tree.root());
    let [catalog, pages, page, contents] = [1, 2, 3, 4].map(Ref::new);
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(pages);
    pdf.pages(pages).kids([page]).count(1);
    let mut sheet = pdf.page(page);
    sheet.parent(pages).media_box(Rect::new(0.0, 0.0, width, height)).contents(contents);
    sheet.resources();
    sheet.finish();
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(content.finish().as_slice(), COMPRESSION);
    pdf.stream(contents, &packed).filter(Filter::FlateDecode);
    pdf.finish()
}

fn group(content: &mut Content, of: &Group) {
    for node in of.children() {
        match node {
            Node::Group(inner) => group(content, inner),
            Node::Path(path) if path.is_visible() => shape(content, path),
            Node::Text(text) => group(content, text.flattened()),
            Node::Path(_) | Node::Image(_) => {}
        }
    }
}

fn shape(content: &mut Content, path: &Path) {
    let at = path.abs_transform();
    content.save_state();
    content.transform([at.sx, at.ky, at.kx, at.sy, at.tx, at.ty]);
    let fill = path.fill().and_then(|fill| rgb(fill.paint()));
    let stroke = path.stroke().and_then(|stroke| Some((stroke, rgb(stroke.paint())?)));
    let inside = |content: &mut Content| {
        if let Some([red, green, blue]) = fill {
            content.set_fill_rgb(red, green, blue);
            outline(content, path);
            content.fill_nonzero();
        }
    };
    if path.paint_order() == PaintOrder::FillAndStroke {
        inside(content);
    }
    if let Some((stroke, [red, green, blue])) = stroke {
        content.set_stroke_rgb(red, green, blue);
        pen(content, stroke);
        outline(content, path);
        content.stroke();
    }
    if path.paint_order() == PaintOrder::StrokeAndFill {
        inside(content);
    }
    content.restore_state();
}

fn rgb(paint: &Paint) -> Option<[f32; 3]> {
    let Paint::Color(colour) = paint else { return None };
    Some([colour.red, colour.green, colour.blue].map(|part| f32::from(part) / 255.0))
}

fn pen(content: &mut Content, stroke: &Stroke) {
    content.set_line_width(stroke.width().get());
    content.set_line_cap(match stroke.linecap() {
        LineCap::Butt => LineCapStyle::ButtCap,
        LineCap::Round => LineCapStyle::RoundCap,
        LineCap::Square => LineCapStyle::ProjectingSquareCap,
    });
    content.set_line_join(match stroke.linejoin() {
        LineJoin::Miter | LineJoin::MiterClip => LineJoinStyle::MiterJoin,
        LineJoin::Round => LineJoinStyle::RoundJoin,
        LineJoin::Bevel => LineJoinStyle::BevelJoin,
    });
    content.set_miter_limit(stroke.miterlimit().get());
    if let Some(dashes) = stroke.dasharray() {
        content.set_dash_pattern(dashes.iter().copied(), stroke.dashoffset());
    }
}

fn outline(content: &mut Content, path: &Path) {
    let mut last = (0.0, 0.0);
    for segment in path.data().segments() {
        match segment {
            PathSegment::MoveTo(to) => drop(content.move_to(to.x, to.y)),
            PathSegment::LineTo(to) => drop(content.line_to(to.x, to.y)),
            PathSegment::QuadTo(by, to) => {
                // PDF has cubic curves only: the same one has its handles at two thirds of the way to the one handle.
                let handle = |end: (f32, f32)| (end.0 + (by.x - end.0) * 2.0 / 3.0, end.1 + (by.y - end.1) * 2.0 / 3.0);
                let (one, other) = (handle(last), handle((to.x, to.y)));
                content.cubic_to(one.0, one.1, other.0, other.1, to.x, to.y);
            }
            PathSegment::CubicTo(one, other, to) => drop(content.cubic_to(one.x, one.y, other.x, other.y, to.x, to.y)),
            PathSegment::Close => drop(content.close_path()),
        }
        if let PathSegment::MoveTo(to) | PathSegment::LineTo(to) | PathSegment::QuadTo(_, to) | PathSegment::CubicTo(_, _, to) = segment {
            last = (to.x, to.y);
        }
    }
}
