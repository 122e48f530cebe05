//! Badges: a label and a number as SVG, as pages and READMEs show them.
//!
//! Invariant: a badge is markup of this file around escaped text, for any label and colour. The number shown is never
//! larger than the count: abbreviated numbers are cut, not rounded.
//!
//! A query becomes a [`Badge`]; the number that was read becomes its text by [`Badge::text_of`]; [`Badge::draw`] makes
//! the SVG.

use crate::query::{Query, Window};

/// The longest label, in characters: wider badges do not fit on a line.
pub const LABEL_CHARACTERS_MAX: usize = 64;

/// The text in place of the number of a counter that does not exist.
pub const NONE_YET: &str = "none yet";

/// How long browsers and image proxies may keep a badge.
pub const FRESH_SECONDS: u32 = 60;

/// Seconds of a day, which begins at midnight UTC.
const DAY_SECONDS: i64 = 86_400;

/// Seconds of a minute. The window of today ends with the current minute, so that badges of one minute ask for the same
/// window.
const MINUTE_SECONDS: i64 = 60;

const LABEL_DEFAULT: &str = "hits";
const LABEL_COLOUR: Colour = Colour(0x44, 0x44, 0x44);
const COLOUR: Colour = Colour(0x1f, 0x5f, 0xa8);

const BRIGHT_GREEN: Colour = Colour(0x44, 0xcc, 0x11);
const GREY: Colour = Colour(0x55, 0x55, 0x55);
const LIGHT_GREY: Colour = Colour(0x9f, 0x9f, 0x9f);
const ORANGE: Colour = Colour(0xfe, 0x7d, 0x37);
const RED: Colour = Colour(0xcf, 0x22, 0x2e);

/// Named colours, of a lightness on which white or black is easy to read. All names of shields.io are among them,
/// because a badge is often the address of one of theirs with another host.
/// Source: shields.io, "Static Badge", 2025.
const NAMED: [(&str, Colour); 19] = [
    ("black", Colour(0x11, 0x11, 0x11)),
    ("blue", COLOUR),
    ("blueviolet", Colour(0x82, 0x50, 0xdf)),
    ("brightgreen", BRIGHT_GREEN),
    ("critical", RED),
    ("gray", GREY),
    ("green", Colour(0x1a, 0x7f, 0x37)),
    ("grey", GREY),
    ("important", ORANGE),
    ("inactive", LIGHT_GREY),
    ("informational", COLOUR),
    ("lightgray", LIGHT_GREY),
    ("lightgrey", LIGHT_GREY),
    ("orange", ORANGE),
    ("purple", Colour(0x82, 0x50, 0xdf)),
    ("red", RED),
    ("success", BRIGHT_GREEN),
    ("yellow", Colour(0xdf, 0xb3, 0x17)),
    ("yellowgreen", Colour(0xa4, 0xa6, 0x1d)),
];

/// Units of a thousand each. Source: SI brochure, 9th edition (2022), table 7.
const UNITS: [&str; 11] = ["", "k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q"];

/// Advance widths of the characters from space to `~`, in tenths of a pixel at 11 pixels. Measured with DejaVu Sans,
/// whose widths are close to those of Verdana. With another font, `textLength` makes the text fit.
const WIDTHS: [u16; 95] = [
    35, 44, 51, 92, 70, 105, 86, 30, 43, 43, 55, 92, 35, 40, 35, 37, 70, 70, 70, 70, 70, 70, 70,
    70, 70, 70, 37, 37, 92, 92, 92, 58, 110, 75, 75, 77, 85, 70, 63, 85, 83, 32, 32, 72, 61, 95,
    82, 87, 66, 87, 76, 70, 67, 81, 75, 109, 75, 67, 75, 43, 37, 43, 92, 55, 55, 67, 70, 60, 70,
    68, 39, 70, 70, 31, 31, 64, 31, 107, 70, 67, 70, 70, 45, 57, 43, 70, 65, 90, 65, 65, 58, 70,
    37, 70, 92,
];

/// The width of any other character: that of an `n`. In scripts from U+2E80 on, such as Chinese, it is that of a
/// square.
const WIDTH_OTHER: u16 = 70;
const WIDTH_SQUARE: u16 = 110;
const SQUARE_FROM: char = '\u{2e80}';

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Colour(u8, u8, u8);

impl Colour {
    /// A name of [`NAMED`], or 3 or 6 hexadecimal digits with or without `#`.
    fn parse(text: &str) -> Option<Self> {
        if let Some((_, colour)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Some(*colour);
        }
        let digits = text.strip_prefix('#').unwrap_or(text);
        let number = u32::from_str_radix(digits, 16).ok()?;
        // `from_str_radix` would accept a sign.
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let part = |shift: u32, mask: u32| u8::try_from((number >> shift) & mask).ok();
        match digits.len() {
            3 => Some(Self(
                part(8, 0xf)? * 17,
                part(4, 0xf)? * 17,
                part(0, 0xf)? * 17,
            )),
            6 => Some(Self(part(16, 0xff)?, part(8, 0xff)?, part(0, 0xff)?)),
            _ => None,
        }
    }

    /// The colour of text on it: white or near black, whichever has the greater contrast. Both are equal at a luminance
    /// of 0.179. Luminance is computed as `0.305 v³ + 0.682 v² + 0.013 v` in whole numbers, within 0.003 of sRGB.
    /// Source: WCAG 2.2, "contrast ratio" and "relative luminance".
    fn of_text(self) -> &'static str {
        const FULL: u64 = 255;
        let part = |value: u8, weight: u64| {
            let value = u64::from(value);
            weight * value * (value * (value * 305 + 682 * FULL) + 13 * FULL * FULL)
        };
        let luminance = part(self.0, 2_126) + part(self.1, 7_152) + part(self.2, 722);
        if luminance < 179 * 10_000 * FULL * FULL * FULL {
            "#fff"
        } else {
            "#111"
        }
    }
}

impl std::fmt::Display for Colour {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Flat,
    FlatSquare,
    ForTheBadge,
}

/// The look and the content of a badge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Badge {
    label: String,
    colour: Colour,
    label_colour: Colour,
    style: Style,
    is_of_today: bool,
    is_short: bool,
}

/// Returns whether XML can hold the character and a line of text shows it. Source: XML 1.0 (fifth edition), production
/// 2.
fn is_drawable(character: char) -> bool {
    !character.is_control() && !matches!(character, '\u{fffe}' | '\u{ffff}')
}

impl Badge {
    /// Reads the query of a badge: `label` (`hits`; empty for none), `color` or `colour`, `label_color` or
    /// `label_colour` or shields.io's `labelColor` (a name or hexadecimal digits), `style` (`flat`, `flat-square`,
    /// `for-the-badge`; `plastic` and `social` are drawn flat), `show` (`total`, `today`) and `format` (`short`,
    /// `full`). A parameter with another value counts as left out, because a refusal is a broken image.
    pub fn parse(query: &str) -> Self {
        let query = Query::of_image(
            query,
            &[
                "label",
                "color",
                "colour",
                "label_color",
                "label_colour",
                "labelColor",
                "style",
                "show",
                "format",
            ],
        );
        let is_shown = |label: &&str| {
            label.chars().count() <= LABEL_CHARACTERS_MAX && label.chars().all(is_drawable)
        };
        let label = query.get("label").filter(is_shown);
        let style = match query.get("style") {
            Some("flat-square") => Style::FlatSquare,
            Some("for-the-badge") => Style::ForTheBadge,
            _ => Style::Flat,
        };
        let colour = |names: &[&str]| {
            let named = |name: &&str| query.get(name).and_then(Colour::parse);
            names.iter().find_map(named)
        };
        Self {
            label: label.unwrap_or(LABEL_DEFAULT).to_owned(),
            colour: colour(&["color", "colour"]).unwrap_or(COLOUR),
            label_colour: colour(&["label_color", "label_colour", "labelColor"])
                .unwrap_or(LABEL_COLOUR),
            style,
            is_of_today: query.get("show") == Some("today"),
            is_short: query.get("format") != Some("full"),
        }
    }

    /// The window whose count is shown: from midnight UTC to the end of this minute. `None` where the value is shown.
    pub fn window(&self, now: i64) -> Option<Window> {
        self.is_of_today.then(|| {
            let midnight = now.div_euclid(DAY_SECONDS) * DAY_SECONDS;
            let ends = (now.div_euclid(MINUTE_SECONDS) + 1) * MINUTE_SECONDS - 1;
            Window {
                seconds: (ends + 1).abs_diff(midnight),
                at: ends,
                now,
            }
        })
    }

    /// A number as the badge shows it. `decimal` is digits, after a minus where negative.
    pub fn text_of(&self, decimal: &str) -> String {
        if self.is_short {
            abbreviated(decimal)
        } else {
            decimal.to_owned()
        }
    }

    /// The SVG. The whole text of its element with class `value` is `value`.
    pub fn draw(&self, value: &str) -> String {
        let (height, padding, baseline) = match self.style {
            Style::Flat | Style::FlatSquare => (20, 6, 14),
            Style::ForTheBadge => (28, 10, 18),
        };
        let label = match self.style {
            Style::ForTheBadge => self.label.to_uppercase(),
            Style::Flat | Style::FlatSquare => self.label.clone(),
        };
        let radius = if self.style == Style::Flat { 3 } else { 0 };
        let box_of = |text: &str| match width(text) {
            0 => (0, 0),
            text => (text, text + 2 * padding),
        };
        let ((label_text, label_box), (value_text, value_box)) = (box_of(&label), box_of(value));
        let all = label_box + value_box;
        let (label, value) = (escaped(&label), escaped(value));
        let name = if label.is_empty() {
            value.clone()
        } else {
            format!("{label}: {value}")
        };
        let (label_fill, fill) = (self.label_colour, self.colour);
        let text = |class: &str, x: u32, on: Colour, length: u32, text: &str| {
            let fill = on.of_text();
            format!(
                r#"<text class="{class}" x="{x}" y="{baseline}" fill="{fill}" textLength="{length}">{text}</text>"#
            )
        };
        let label = if label.is_empty() {
            String::new()
        } else {
            text("label", padding, label_fill, label_text, &label)
        };
        let value = text("value", label_box + padding, fill, value_text, &value);
        format!(
            concat!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" width="{all}" height="{height}" role="img" aria-label="{name}"><title>{name}</title>"#,
                r#"<clipPath id="shape"><rect width="{all}" height="{height}" rx="{radius}"/></clipPath>"#,
                r#"<g clip-path="url(#shape)"><rect width="{label_box}" height="{height}" fill="{label_fill}"/>"#,
                r#"<rect x="{label_box}" width="{value_box}" height="{height}" fill="{fill}"/></g>"#,
                r#"<g font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">{label}{value}</g></svg>"#,
            ),
            all = all,
            height = height,
            name = name,
            radius = radius,
            label_box = label_box,
            label_fill = label_fill,
            value_box = value_box,
            fill = fill,
            label = label,
            value = value,
        )
    }
}

/// The width of a text at 11 pixels, in whole pixels, rounded up.
fn width(text: &str) -> u32 {
    let tenths: u32 = text
        .chars()
        .map(|character| {
            let index = u32::from(character)
                .checked_sub(u32::from(' '))
                .and_then(|index| usize::try_from(index).ok());
            let known = index.and_then(|index| WIDTHS.get(index));
            let other = if character < SQUARE_FROM {
                WIDTH_OTHER
            } else {
                WIDTH_SQUARE
            };
            u32::from(*known.unwrap_or(&other))
        })
        .sum();
    tenths.div_ceil(10)
}

/// Text as XML holds it, between tags and in attributes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A whole number in at most three digits and a unit, cut towards zero: 999, 1.2k, 34k, 567k, 1M. Above the last unit,
/// 10^33, it has more digits.
fn abbreviated(decimal: &str) -> String {
    let (sign, digits) = match decimal.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", decimal),
    };
    let unit = (digits.len().saturating_sub(1) / 3).min(UNITS.len() - 1);
    let Some(name) = UNITS.get(unit).filter(|_| unit > 0) else {
        return decimal.to_owned();
    };
    let (whole, rest) = digits.split_at(digits.len() - 3 * unit);
    match rest.get(..1) {
        Some(tenth) if whole.len() == 1 && tenth != "0" => format!("{sign}{whole}.{tenth}{name}"),
        _ => format!("{sign}{whole}{name}"),
    }
}
