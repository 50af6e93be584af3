//! A picture in the formats of papers and of browsers. It is described once, as SVG; PNG and PDF are made from that. Every machine draws the same to the bit:
//! letters come from a font that is part of the program (Arimo), not from what is installed, and no shape needs a sine. Only the SVG leaves its letters to
//! the viewer: with Arial, Helvetica or Liberation Sans they are as wide as ours.

use super::pdf;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};
use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, MetadataProvider as _};
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// Latin and Greek letters, figures, arrows and signs of arithmetic; where it comes from says README.md beside it.
static FONT: &[u8] = include_bytes!("font/Arimo.ttf");
/// What an SVG asks its viewer for.
pub(super) const FAMILY: &str = "Arimo, Liberation Sans, Arial, Helvetica, sans-serif";
/// Pixels of a PNG to each of the SVG: an inch of paper, 96 pixels, has 288 then.
const ZOOM: f32 = 3.0;
/// Most pixels of a PNG; a larger picture has fewer to each of its own.
const PIXELS_MAX: f32 = (1 << 23) as f32;

/// A picture, in each format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figure {
    /// For browsers.
    pub svg: String,
    /// For slides.
    pub png: Vec<u8>,
    /// For papers.
    pub pdf: Vec<u8>,
}

impl Figure {
    /// From its SVG; none: that is none, or the picture has no size.
    pub(super) fn of_svg(svg: String) -> Option<Figure> {
        static FONTS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
            let mut fonts = fontdb::Database::new();
            fonts.load_font_data(FONT.to_vec());
            Arc::new(fonts)
        });
        let tree = Tree::from_str(&svg, &Options { fontdb: FONTS.clone(), ..Options::default() }).ok()?;
        Some(Figure { png: png(&tree)?, pdf: pdf::of_tree(&tree), svg })
    }

    /// Endings of names, and what files with these contain.
    pub fn files(&self) -> [(&'static str, &[u8]); 3] {
        [("svg", self.svg.as_bytes()), ("png", &self.png), ("pdf", &self.pdf)]
    }

    /// Writes FOLDER/NAME.svg, .png and .pdf.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> io::Result<()> {
        self.files().into_iter().try_for_each(|(ending, bytes)| std::fs::write(folder.join(format!("{name}.{ending}")), bytes))
    }
}

fn png(tree: &Tree) -> Option<Vec<u8>> {
    let size = tree.size();
    let zoom = (PIXELS_MAX / (size.width() * size.height())).sqrt().min(ZOOM);
    // A figure of hundreds of thousands of nodes still is a pixel high.
    let (width, height) = ((size.width() * zoom).max(1.0) as u32, (size.height() * zoom).max(1.0) as u32);
    let mut pixels = Pixmap::new(width, height)?;
    resvg::render(tree, Transform::from_scale(zoom, zoom), &mut pixels.as_mut());
    // Pictures begin with a white sheet: nothing shines through.
    let rgb: Vec<u8> = pixels.data().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(&rgb).ok()?;
    writer.finish().ok()?;
    Some(out)
}

/// How wide a text is whose letters are so high, pixels.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let Ok(font) = FontRef::new(FONT) else { return 0.0 };
    let (letters, widths) = (font.charmap(), font.glyph_metrics(Size::new(size as f32), LocationRef::default()));
    text.chars().map(|letter| widths.advance_width(letters.map(letter).unwrap_or_default()).map_or(0.0, f64::from)).sum()
}

/// A text that is no wider than this; what is left out of its middle is a sign.
pub(super) fn shortened(text: &str, size: f64, width_max: f64) -> String {
    let letters: Vec<char> = text.chars().collect();
    let with = |kept: usize| {
        let (head, tail) = (kept.div_ceil(2), letters.len() - kept / 2);
        letters[..head].iter().chain(['…'].iter()).chain(&letters[tail..]).collect::<String>()
    };
    if text_width(text, size) <= width_max {
        return text.to_owned();
    }
    (1..letters.len()).rev().map(with).find(|text| text_width(text, size) <= width_max).unwrap_or_default()
}

/// As text of an SVG.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(inside: &str) -> Figure {
        let svg = format!(
            "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='30'><rect width='40' height='30' fill='white'/>{inside}</svg>"
        );
        Figure::of_svg(svg).unwrap()
    }

    fn pixels(figure: &Figure) -> (u32, Vec<u8>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(&figure.png)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!(info.color_type, png::ColorType::Rgb);
        (info.width, pixels)
    }

    #[test]
    fn what_is_drawn_comes_back_from_the_files() {
        let text = |family: &str| format!("<rect width='9' height='9' fill='#f00'/><text x='20' y='20' font-family='{family}'>ab</text>");
        let figure = square(&text(FAMILY));
        let (width, pixels) = pixels(&figure);
        assert_eq!((width, &pixels[..3], &pixels[119 * 3..120 * 3]), (120, &[255, 0, 0][..], &[255; 3][..]));
        let dark = pixels.chunks(3).filter(|pixel| pixel.iter().all(|value| *value < 100)).count();
        assert!((100..1000).contains(&dark), "two letters have {dark} dark pixels");
        assert!(figure.pdf.starts_with(b"%PDF-1.7") && figure.pdf.trim_ascii_end().ends_with(b"%%EOF"));
        assert_eq!(figure, square(&text(FAMILY)));
        // The letters are in the PDF, too.
        assert!(figure.pdf.len() > square("").pdf.len() + 100);
        assert!(Figure::of_svg("no picture".to_owned()).is_none());
    }

    #[test]
    fn texts_are_as_wide_as_their_letters_and_lose_their_middle() {
        // Arimo's figures are 1139 of 2048 units wide.
        assert!((text_width("00", 20.48) - 22.78).abs() < 0.05, "{}", text_width("00", 20.48));
        assert_eq!(shortened("client", 12.0, 100.0), "client");
        let short = shortened("a client with a long name > a server", 12.0, 100.0);
        assert!(short.starts_with("a client") && short.ends_with("server") && text_width(&short, 12.0) <= 100.0, "{short}");
        assert_eq!(shortened("client", 12.0, 1.0), "");
    }
}
