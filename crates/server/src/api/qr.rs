//! QR codes: the squares come from the `qrcode` crate, the pictures are drawn here.
//!
//! Error correction is level M: what a scratched sticker needs, without making the squares too small. A square is a whole
//! number of pixels wide, so that edges are sharp; what is left over becomes margin.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use qrcode::{Color, EcLevel, QrCode};
use rlinks_core::redirect::public_pages::escape;

/// Widths and heights of a picture in pixels.
pub const SIZE_RANGE_PIXELS: RangeInclusive<u32> = 64..=2048;
/// The size when none is named.
pub const DEFAULT_SIZE_PIXELS: u32 = 256;
/// Empty squares around the code.
pub const MARGIN_RANGE_SQUARES: RangeInclusive<u32> = 0..=16;
/// The margin when none is named; readers are promised four.
pub const DEFAULT_MARGIN_SQUARES: u32 = 4;

/// Why there is no picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QrError {
    /// A size nobody draws.
    #[error("size must be between {} and {} pixels", SIZE_RANGE_PIXELS.start(), SIZE_RANGE_PIXELS.end())]
    Size,
    /// A margin nobody draws.
    #[error("margin must be between {} and {} squares", MARGIN_RANGE_SQUARES.start(), MARGIN_RANGE_SQUARES.end())]
    Margin,
    /// More text than the largest code of level M holds.
    #[error("this text is too long for a QR code")]
    TooLong,
    /// A square would be smaller than a pixel.
    #[error("this code needs a size of at least {at_least} pixels, or a smaller margin")]
    TooSmall {
        /// The smallest size that fits with this margin.
        at_least: u32,
    },
}

/// The code of a text as an SVG document. Black on white whatever is around it: a dark page would make it unreadable.
pub fn svg(text: &str, size: u32, margin: u32) -> Result<String, QrError> {
    let squares = Squares::encode(text, size, margin)?;
    let (label, across) = (escape(&legible(text)), squares.across());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{size}\" height=\"{size}\" viewBox=\"0 0 {across} {across}\" \
         role=\"img\" aria-label=\"QR code for {label}\" shape-rendering=\"crispEdges\"><title>QR code for {label}</title>\
         <rect width=\"{across}\" height=\"{across}\" fill=\"#fff\"/><path fill=\"#000\" d=\""
    );
    for y in 0..squares.width {
        for (x, length) in squares.runs(y) {
            let _ = write!(svg, "M{} {}h{length}v1h-{length}z", x + margin, y + margin);
        }
    }
    svg.push_str("\"/></svg>\n");
    Ok(svg)
}

/// The code of a text as a PNG of one bit a pixel.
pub fn png(text: &str, size: u32, margin: u32) -> Result<Vec<u8>, QrError> {
    let squares = Squares::encode(text, size, margin)?;
    let scale = size / squares.across();
    if scale == 0 {
        return Err(QrError::TooSmall { at_least: squares.across() });
    }
    let start = (size - squares.width * scale) / 2;
    let row_bytes = size.div_ceil(8) as usize;
    let mut pixels = vec![0xff; row_bytes * size as usize];
    for y in 0..squares.width {
        let first = (start + y * scale) as usize;
        let (row, below) = pixels[first * row_bytes..].split_at_mut(row_bytes);
        for (x, length) in squares.runs(y) {
            for pixel in start + x * scale..start + (x + length) * scale {
                row[(pixel / 8) as usize] &= !(0x80 >> (pixel % 8));
            }
        }
        for copy in below.chunks_exact_mut(row_bytes).take(scale as usize - 1) {
            copy.copy_from_slice(row);
        }
    }
    Ok(encode(size, &pixels))
}

fn encode(size: u32, pixels: &[u8]) -> Vec<u8> {
    const NEVER: &str = "writing to memory does not fail, and the rows are as long as the header says";
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, size, size);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::One);
    encoder.set_filter(png::Filter::NoFilter);
    let mut writer = encoder.write_header().expect(NEVER);
    writer.write_image_data(pixels).expect(NEVER);
    writer.finish().expect(NEVER);
    file
}

/// XML has no way to write some characters at all.
fn legible(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}'), "\u{fffd}")
}

/// The squares of a code, row by row.
struct Squares {
    colors: Vec<Color>,
    width: u32,
    margin: u32,
}

impl Squares {
    fn encode(text: &str, size: u32, margin: u32) -> Result<Self, QrError> {
        if !SIZE_RANGE_PIXELS.contains(&size) {
            return Err(QrError::Size);
        }
        if !MARGIN_RANGE_SQUARES.contains(&margin) {
            return Err(QrError::Margin);
        }
        let code =
            QrCode::with_error_correction_level(text, EcLevel::M).map_err(|_too_long| QrError::TooLong)?;
        let width = u32::try_from(code.width()).expect("a code has at most 177 squares a side");
        Ok(Self { colors: code.into_colors(), width, margin })
    }

    /// Squares a side, margins included.
    const fn across(&self) -> u32 {
        self.width + 2 * self.margin
    }

    /// The dark runs of a row: where each begins, and how many squares it has.
    fn runs(&self, y: u32) -> impl Iterator<Item = (u32, u32)> {
        let start = (y * self.width) as usize;
        let mut x = 0;
        self.colors[start..start + self.width as usize].chunk_by(|a, b| a == b).filter_map(move |run| {
            let length = u32::try_from(run.len()).expect("a run is no longer than its row");
            x += length;
            (run[0] == Color::Dark).then_some((x - length, length))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_MARGIN_SQUARES, DEFAULT_SIZE_PIXELS, QrError};

    const SHORT: &str = "https://rmax.to/grüße?<&>\"'";

    /// What a reader sees: rows of grey values.
    struct Picture {
        width: usize,
        grey: Vec<u8>,
    }

    impl Picture {
        /// On white paper: codes without a margin are read from something, too.
        fn read(&self) -> String {
            let (frame, side) = (16, self.width + 32);
            let grey = |x: usize, y: usize| match (x.checked_sub(frame), y.checked_sub(frame)) {
                (Some(x), Some(y)) if x < self.width && y < self.width => self.grey[y * self.width + x],
                _ => 255,
            };
            let mut image = rqrr::PreparedImage::prepare_from_greyscale(side, side, grey);
            let grids = image.detect_grids();
            assert_eq!(grids.len(), 1, "one code in the picture");
            let (meta, content) = grids[0].decode().unwrap();
            assert_eq!(meta.ecc_level, 0, "level M");
            content
        }

        fn from_png(file: &[u8]) -> Self {
            let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
            let (width, height, row_bytes) =
                (reader.info().width as usize, reader.info().height, reader.info().raw_row_length() - 1);
            assert_eq!(reader.info().color_type, png::ColorType::Grayscale);
            assert_eq!(reader.info().bit_depth, png::BitDepth::One);
            assert_eq!(height as usize, width);
            let mut packed = vec![0; reader.output_buffer_size().unwrap()];
            reader.next_frame(&mut packed).unwrap();
            let pixel =
                |at: usize| packed[at / width * row_bytes + at % width / 8] << (at % width % 8) & 0x80;
            Self { width, grey: (0..width * width).map(|at| if pixel(at) == 0 { 0 } else { 255 }).collect() }
        }

        /// Draws the path as a browser would, four pixels a square.
        fn from_svg(svg: &str) -> Self {
            let attribute =
                |name: &str| svg.split_once(&format!(" {name}=\"")).unwrap().1.split_once('"').unwrap().0;
            let across: usize = attribute("viewBox").rsplit_once(' ').unwrap().1.parse().unwrap();
            let width = across * 4;
            let mut grey = vec![255; width * width];
            for run in attribute("d").split_terminator('z') {
                let numbers: Vec<usize> =
                    run.split(['M', ' ', 'h', 'v', '-']).filter_map(|number| number.parse().ok()).collect();
                let [x, y, length, 1, back] = numbers[..] else { panic!("{run}") };
                assert_eq!(length, back);
                for row in y * 4..y * 4 + 4 {
                    grey[row * width + x * 4..row * width + (x + length) * 4].fill(0);
                }
            }
            Self { width, grey }
        }
    }

    #[track_caller]
    fn check(text: &str, size: u32, margin: u32) {
        let picture = Picture::from_png(&super::png(text, size, margin).unwrap());
        assert_eq!(picture.width, size as usize);
        assert_eq!(picture.read(), text, "{size} {margin}");
    }

    #[test]
    fn decoded_picture_gives_the_text() {
        for text in [SHORT, "https://go.example.com/a1B2c3D4e5", "1", &"https://".repeat(25)] {
            for (size, margin) in [(DEFAULT_SIZE_PIXELS, DEFAULT_MARGIN_SQUARES), (64, 1), (97, 0), (500, 16)]
            {
                check(text, size, margin);
            }
            assert_eq!(Picture::from_svg(&super::svg(text, 64, 4).unwrap()).read(), text);
        }
        check(SHORT, 2048, 4);
    }

    #[test]
    fn two_thousand_characters_fit() {
        let text: String = (0_u32..2000).map(|n| char::from_u32(0x61 + n * 7 % 26).unwrap()).collect();
        check(&text, 400, 4);
        check(&text, 1000, 4);
        assert_eq!(Picture::from_svg(&super::svg(&text, 64, 4).unwrap()).read(), text);
    }

    #[test]
    fn impossible_sizes_are_rejected_with_a_hint() {
        let long = "x".repeat(2000);
        assert_eq!(super::png(&long, 64, 4), Err(QrError::TooSmall { at_least: 177 }));
        assert!(super::png(&long, 177, 4).is_ok());
        assert!(super::svg(&long, 64, 4).is_ok(), "lines have no pixels");
        assert_eq!(super::svg(&"x".repeat(2332), 2048, 4), Err(QrError::TooLong));
        for (size, margin, error) in
            [(63, 4, QrError::Size), (2049, 4, QrError::Size), (64, 17, QrError::Margin)]
        {
            assert_eq!(super::svg("x", size, margin), Err(error));
            assert_eq!(super::png("x", size, margin), Err(error));
        }
        assert_eq!(QrError::Size.to_string(), "size must be between 64 and 2048 pixels");
    }

    #[test]
    fn svg_has_a_title_with_escaped_text() {
        let svg = super::svg("https://a/?<script>&\"\u{1}", 256, 4).unwrap();
        let name = "QR code for https://a/?&lt;script&gt;&amp;&quot;\u{fffd}";
        assert!(svg.contains(&format!("<title>{name}</title>")), "{svg}");
        assert!(svg.contains(&format!("role=\"img\" aria-label=\"{name}\"")), "{svg}");
        assert!(svg.contains(" width=\"256\" height=\"256\" viewBox=\"0 0 33 33\""), "{svg}");
        assert_eq!(svg.matches("<path").count(), 1);
    }

    #[test]
    fn modules_are_whole_pixels_and_the_code_is_centred() {
        let picture = Picture::from_png(&super::png("x", 256, 4).unwrap());
        let dark: Vec<usize> =
            (0..256).filter(|x| (0..256).any(|y| picture.grey[y * 256 + x] == 0)).collect();
        let (first, last) = (dark[0], dark[dark.len() - 1]);
        assert_eq!((first, 255 - last), (44, 44), "21 squares of 8 pixels, 29 with the margin");
    }
}
