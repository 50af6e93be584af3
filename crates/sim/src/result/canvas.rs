//! Pictures as PNG. Every machine draws the same to the bit: letters come from a font that is part of the program (Noto Sans Mono, pre-rasterised),
//! not from what is installed, and lines from integer and simple floating-point arithmetic.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind};
use std::convert::Infallible;

const WHITE: u8 = 255;
const FONT: (FontWeight, RasterHeight) = (FontWeight::Regular, RasterHeight::Size16);
/// Larger texts than this many pixels are drawn twice as large.
const LARGE_TEXT: f64 = 18.0;
/// Most pixels of a picture: 16 million are 48 MB.
const PIXELS_MAX: u64 = 1 << 24;

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// A picture in memory.
pub(super) struct Canvas {
    size: (u32, u32),
    /// Red, green, blue.
    pixels: Vec<u8>,
}

impl Canvas {
    /// A white picture; none: it would be too large.
    pub fn new(size: (u32, u32)) -> Option<Canvas> {
        let count = u64::from(size.0) * u64::from(size.1);
        (1..=PIXELS_MAX).contains(&count).then(|| Canvas { size, pixels: vec![WHITE; count as usize * 3] })
    }

    /// As a file.
    pub fn png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, self.size.0, self.size.1);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels)?;
        writer.finish()?;
        Ok(out)
    }

    fn blend(&mut self, (x, y): BackendCoord, (red, green, blue): (u8, u8, u8), alpha: f64) {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
        if x >= self.size.0 || y >= self.size.1 {
            return;
        }
        // In 256ths: no rounding that could differ.
        let alpha = (alpha.clamp(0.0, 1.0) * 256.0) as u32;
        let at = (y as usize * self.size.0 as usize + x as usize) * 3;
        for (pixel, colour) in self.pixels.iter_mut().skip(at).take(3).zip([red, green, blue]) {
            *pixel = ((u32::from(*pixel) * (256 - alpha) + u32::from(colour) * alpha) >> 8) as u8;
        }
    }

    /// Writes a text whose upper left corner is here, `scale` times as large.
    fn write(&mut self, text: &str, at: BackendCoord, scale: u32, colour: BackendColor) {
        let (weight, height) = FONT;
        let mut left = at.0;
        for letter in text.chars() {
            if let Some(raster) = get_raster(letter, weight, height).or_else(|| get_raster('?', weight, height)) {
                for (row, line) in raster.rows().enumerate() {
                    for (column, ink) in line.iter().enumerate().filter(|(_, ink)| **ink > 0) {
                        for (dx, dy) in (0..scale).flat_map(|dx| (0..scale).map(move |dy| (dx, dy))) {
                            let x = left + (column as u32 * scale + dx) as i32;
                            let y = at.1 + (row as u32 * scale + dy) as i32;
                            self.blend((x, y), colour.rgb, colour.alpha * f64::from(*ink) / 255.0);
                        }
                    }
                }
            }
            left += (get_raster_width(weight, height) as u32 * scale) as i32;
        }
    }
}

/// How much larger than the font a text is.
fn scale(size: f64) -> u32 {
    if size > LARGE_TEXT { 2 } else { 1 }
}

fn extent(text: &str, scale: u32) -> (u32, u32) {
    let (weight, height) = FONT;
    (text.chars().count() as u32 * get_raster_width(weight, height) as u32 * scale, height.val() as u32 * scale)
}

impl DrawingBackend for Canvas {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }
    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }
    fn present(&mut self) -> Drawn {
        Ok(())
    }
    fn draw_pixel(&mut self, point: BackendCoord, colour: BackendColor) -> Drawn {
        self.blend(point, colour.rgb, colour.alpha);
        Ok(())
    }
    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Drawn {
        let scale = scale(style.size());
        let (width, height) = extent(text, scale);
        let anchor = style.anchor();
        let x = match anchor.h_pos {
            HPos::Left => at.0,
            HPos::Center => at.0 - width as i32 / 2,
            HPos::Right => at.0 - width as i32,
        };
        let y = match anchor.v_pos {
            VPos::Top => at.1,
            VPos::Center => at.1 - height as i32 / 2,
            VPos::Bottom => at.1 - height as i32,
        };
        self.write(text, (x, y), scale, style.color());
        Ok(())
    }
    fn estimate_text_size<S: BackendTextStyle>(&self, text: &str, style: &S) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        Ok(extent(text, scale(style.size())))
    }
}

/// A colour and the width of lines, for shapes that are drawn by hand.
pub(super) struct Ink(pub (u8, u8, u8));

impl BackendStyle for Ink {
    fn color(&self) -> BackendColor {
        BackendColor { alpha: 1.0, rgb: self.0 }
    }
}

impl Canvas {
    /// A text in the middle of `at`, its baseline a little below.
    pub fn label(&mut self, text: &str, at: (f64, f64), rgb: (u8, u8, u8)) {
        let (width, height) = extent(text, 1);
        let place = (at.0 as i32 - width as i32 / 2, at.1 as i32 - height as i32 * 3 / 4);
        self.write(text, place, 1, BackendColor { alpha: 1.0, rgb });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_comes_back_from_the_file() {
        let mut canvas = Canvas::new((40, 30)).unwrap();
        canvas.draw_rect((0, 0), (9, 9), &Ink((255, 0, 0)), true).unwrap();
        canvas.label("ab", (25.0, 20.0), (0, 0, 0));
        let file = canvas.png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height, info.color_type), (40, 30, png::ColorType::Rgb));
        assert_eq!(&pixels[..3], [255, 0, 0]);
        assert_eq!(&pixels[39 * 3..40 * 3], [255; 3]);
        let dark = pixels.chunks(3).filter(|pixel| pixel.iter().all(|value| *value < 100)).count();
        assert!((10..200).contains(&dark), "two letters have {dark} dark pixels");
        // Outside of the picture nothing happens.
        canvas.label("outside", (-500.0, 1e9), (0, 0, 0));
        assert!(Canvas::new((0, 5)).is_none() && Canvas::new((1 << 20, 1 << 20)).is_none());
    }
}
