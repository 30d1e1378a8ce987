//! The part of CSS that decides whether a text is visible: declarations in `style` attributes, and rules of `<style>`
//! elements for one type, class or id. Rules with combinators, conditions (`@media`) or pseudo-classes are not applied:
//! what they select depends on the whole page or on the reader's screen.

use std::collections::HashMap;

/// Most bytes of a declaration block that are read.
const BLOCK_BYTES_MAX: usize = 4 * 1024;
/// Most bytes of all `<style>` elements of a page together.
pub(super) const SHEET_BYTES_MAX: usize = 64 * 1024;
/// Most classes of an element that are looked up.
pub(super) const CLASSES_MAX: usize = 16;
/// Most selectors whose rules are kept.
const RULES_MAX: usize = 1_000;

/// The paint that a box is painted on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Paint {
    /// Red, green, blue.
    Plain([u8; 3]),
    /// Nothing: what is behind shows.
    Clear,
    /// An image or a notation that is not read.
    Unknown,
}

/// The height of letters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FontSize {
    Pixels(f32),
    /// Times that of the element around.
    Factor(f32),
}

/// The content of declarations; `None` where they say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StyleDeclarations {
    /// Not shown in a way that no element within can undo: not displayed, transparent, moved off the page.
    pub(super) gone: bool,
    pub(super) displayed: Option<bool>,
    pub(super) visible: Option<bool>,
    pub(super) color: Option<Paint>,
    pub(super) background: Option<Paint>,
    pub(super) size: Option<FontSize>,
    /// Width or height of nothing, which hides what overflows only if that is cut off.
    pub(super) no_extent: Option<bool>,
    pub(super) overflow_cut: Option<bool>,
    /// Both sides of at most a pixel, as `<img>` of counters have.
    pub(super) width: Option<f32>,
    pub(super) height: Option<f32>,
    positioned: Option<bool>,
    far_off: bool,
}

impl StyleDeclarations {
    /// Reads a declaration block. A later declaration of a property goes before an earlier one.
    pub(super) fn read(block: &str) -> StyleDeclarations {
        let mut declared = StyleDeclarations::default();
        let block = crate::text::truncate(block, BLOCK_BYTES_MAX);
        for declaration in without_comments(block).split(';') {
            if let Some((property, value)) = declaration.split_once(':') {
                let value = value.trim().to_ascii_lowercase();
                let value = value.split('!').next().unwrap_or_default().trim();
                declared.set(property.trim().to_ascii_lowercase().as_str(), value);
            }
        }
        declared
    }

    fn set(&mut self, property: &str, value: &str) {
        match property {
            "display" => self.displayed = Some(value != "none"),
            "visibility" => self.visible = Some(!matches!(value, "hidden" | "collapse")),
            "opacity" => self.gone |= number(value).is_some_and(|opacity| opacity < 0.05),
            "color" => self.color = Some(paint(value)),
            "background-color" => self.background = Some(paint(value)),
            "background-image" if value != "none" => self.background = Some(Paint::Unknown),
            "background" => {
                let first = value.split([' ', ')']).next().unwrap_or_default();
                let has_image = value.contains("url(") || value.contains("gradient");
                self.background = Some(match has_image {
                    true => Paint::Unknown,
                    false if value.starts_with("rgb") => paint(value),
                    false => paint(first),
                });
            }
            "font-size" => self.size = size(value),
            "font" => {
                let of_size = value.split([' ', '/']).find_map(size);
                self.size = of_size.or(self.size);
            }
            "width" | "max-width" | "height" | "max-height" => {
                let pixels = number(value);
                self.no_extent = Some(self.no_extent == Some(true) || pixels == Some(0.0));
                match property {
                    "width" => self.width = pixels.or(self.width),
                    "height" => self.height = pixels.or(self.height),
                    _ => {}
                }
            }
            "overflow" | "overflow-x" | "overflow-y" => {
                self.overflow_cut = Some(matches!(value, "hidden" | "clip"));
            }
            "position" => self.positioned = Some(matches!(value, "absolute" | "fixed" | "relative")),
            "left" | "top" | "right" | "margin-left" | "margin-top" | "text-indent" => {
                let is_far = number(value).is_some_and(|offset| offset <= -500.0);
                let moves = !matches!(property, "left" | "top" | "right");
                self.far_off |= is_far;
                self.gone |= is_far && moves;
            }
            "clip" => {
                let edges = value.trim_start_matches("rect(").trim_end_matches(')');
                let edges = || edges.split([',', ' ']).filter(|edge| !edge.is_empty());
                self.gone |= value.starts_with("rect(")
                    && edges().all(|edge| number(edge).is_some_and(|edge| edge <= 1.0));
            }
            "transform" => self.gone |= value.contains("scale(0)"),
            "filter" => self.gone |= value.contains("opacity(0") || value.contains("opacity=0)"),
            _ => {}
        }
    }

    /// Puts `other` over this.
    pub(super) fn add(&mut self, other: &StyleDeclarations) {
        self.gone |= other.gone;
        self.far_off |= other.far_off;
        self.displayed = other.displayed.or(self.displayed);
        self.visible = other.visible.or(self.visible);
        self.color = other.color.or(self.color);
        self.background = other.background.or(self.background);
        self.size = other.size.or(self.size);
        self.no_extent = other.no_extent.or(self.no_extent);
        self.overflow_cut = other.overflow_cut.or(self.overflow_cut);
        self.positioned = other.positioned.or(self.positioned);
        self.width = other.width.or(self.width);
        self.height = other.height.or(self.height);
    }

    /// Returns true if neither the element nor anything in it can be seen.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
            || self.displayed == Some(false)
            || self.no_extent == Some(true) && self.overflow_cut == Some(true)
            || self.positioned == Some(true) && self.far_off
    }
}

/// Rules of `<style>` elements, by what they select.
#[derive(Debug, Default)]
pub(super) struct StyleSheet {
    rules: HashMap<String, StyleDeclarations>,
}

impl StyleSheet {
    /// Adds the rules of a sheet.
    pub(super) fn read(&mut self, css: &str) {
        let css = without_comments(css);
        let css = css.replace("<!--", "").replace("-->", "");
        let mut rest = css.as_str();
        while let Some(open) = rest.find(['{', ';']) {
            if rest.as_bytes()[open] == b';' {
                rest = &rest[open + 1..];
                continue;
            }
            let (selectors, block) = (rest[..open].trim(), &rest[open + 1..]);
            if selectors.starts_with('@') {
                rest = behind_block(block);
                continue;
            }
            let end = block.find('}').unwrap_or(block.len());
            let declared = StyleDeclarations::read(&block[..end]);
            for selector in selectors.split(',').map(str::trim).filter(|selector| is_single(selector)) {
                if self.rules.len() < RULES_MAX || self.rules.contains_key(selector) {
                    self.rules.entry(selector.to_ascii_lowercase()).or_default().add(&declared);
                }
            }
            rest = block.get(end + 1..).unwrap_or_default();
        }
    }

    /// Returns true if there is nothing to apply.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the declarations that the rules have for an element: those for its type, then its classes, then its id.
    pub(super) fn of(&self, name: &str, classes: &str, id: &str) -> StyleDeclarations {
        let mut declared = StyleDeclarations::default();
        let mut apply = |selector: &str| {
            if let Some(found) = self.rules.get(selector) {
                declared.add(found);
            }
        };
        apply(name);
        for class in classes.split_ascii_whitespace().take(CLASSES_MAX) {
            let class = format!(".{}", class.to_ascii_lowercase());
            apply(&class);
            apply(&format!("{name}{class}"));
        }
        if !id.is_empty() {
            apply(&format!("#{}", id.trim().to_ascii_lowercase()));
        }
        declared
    }
}

/// Returns true if a selector is of one type, class or id, or a type with a class.
fn is_single(selector: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let dots = selector.matches(['.', '#']).count();
    !selector.is_empty() && dots <= 1 && selector.chars().all(|c| is_part(c) || matches!(c, '.' | '#'))
}

/// Returns the text that follows the block that `css` is in, blocks within it included.
fn behind_block(css: &str) -> &str {
    let mut depth = 1usize;
    for (at, byte) in css.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return &css[at + 1..];
        }
    }
    ""
}

fn without_comments(css: &str) -> std::borrow::Cow<'_, str> {
    if !css.contains("/*") {
        return css.into();
    }
    let mut out = String::with_capacity(css.len());
    let mut rest = css;
    while let Some(start) = rest.find("/*") {
        out.push_str(&rest[..start]);
        rest = rest[start + 2..].find("*/").map_or("", |end| &rest[start + end + 4..]);
    }
    out.push_str(rest);
    out.into()
}

/// The number that a value begins with, in pixels where it has a unit of length. A percentage is its number.
pub(super) fn number(value: &str) -> Option<f32> {
    let value = value.trim();
    let end =
        value.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+')).unwrap_or(value.len());
    let number: f32 = value[..end].parse().ok()?;
    let factor = match value[end..].trim() {
        "pt" => 4.0 / 3.0,
        "em" | "rem" => 16.0,
        "in" => 96.0,
        "cm" => 37.8,
        "mm" => 3.78,
        _ => 1.0,
    };
    Some(number * factor)
}

fn size(value: &str) -> Option<FontSize> {
    let plain = number(value)?;
    let factor = |unit: &str, one: f32| value.strip_suffix(unit)?.trim().parse().ok().map(|n: f32| n / one);
    match factor("%", 100.0).or_else(|| factor("rem", f32::NAN)).or_else(|| factor("em", 1.0)) {
        Some(factor) if factor.is_finite() => Some(FontSize::Factor(factor)),
        // `12` of `font: 700 12px` is a weight, not a size: only zero needs no unit.
        _ if value.ends_with(|c: char| c.is_ascii_digit()) && plain != 0.0 => None,
        _ => Some(FontSize::Pixels(plain)),
    }
}

/// Reads a colour in the notations of CSS and of old HTML attributes.
pub(super) fn paint(value: &str) -> Paint {
    let value = value.trim();
    if matches!(value, "transparent" | "none" | "") {
        return Paint::Clear;
    }
    if let Some(inside) = value.strip_prefix("rgb") {
        let inside = inside.trim_start_matches(['a', '(', ' ']).trim_end_matches(')');
        let mut parts = inside.split([',', ' ', '/']).filter(|part| !part.is_empty());
        let mut channel = || {
            let part = parts.next()?;
            let value = number(part)?;
            Some(if part.ends_with('%') { value * 2.55 } else { value }.clamp(0.0, 255.0) as u8)
        };
        let (Some(red), Some(green), Some(blue)) = (channel(), channel(), channel()) else {
            return Paint::Unknown;
        };
        let is_clear = parts.next().and_then(number).is_some_and(|alpha| alpha < 0.05);
        return if is_clear { Paint::Clear } else { Paint::Plain([red, green, blue]) };
    }
    if let Some((_, color)) = NAMED.iter().find(|(name, _)| *name == value) {
        return Paint::Plain(*color);
    }
    let digits = value.strip_prefix('#').unwrap_or(value);
    let Ok(bits) = u32::from_str_radix(digits, 16) else { return Paint::Unknown };
    let [_, a, b, c] = bits.to_be_bytes();
    match digits.len() {
        3 => Paint::Plain([b & 15, c >> 4, c & 15].map(|nibble| nibble * 17)),
        6 => Paint::Plain([a, b, c]),
        8 if c == 0 => Paint::Clear,
        8 => Paint::Plain([(bits >> 24) as u8, a, b]),
        _ => Paint::Unknown,
    }
}

/// Names of colours that are met in mail.
const NAMED: [(&str, [u8; 3]); 24] = [
    ("white", [255, 255, 255]),
    ("black", [0, 0, 0]),
    ("red", [255, 0, 0]),
    ("green", [0, 128, 0]),
    ("lime", [0, 255, 0]),
    ("blue", [0, 0, 255]),
    ("yellow", [255, 255, 0]),
    ("gray", [128, 128, 128]),
    ("grey", [128, 128, 128]),
    ("silver", [192, 192, 192]),
    ("navy", [0, 0, 128]),
    ("orange", [255, 165, 0]),
    ("purple", [128, 0, 128]),
    ("maroon", [128, 0, 0]),
    ("teal", [0, 128, 128]),
    ("aqua", [0, 255, 255]),
    ("cyan", [0, 255, 255]),
    ("magenta", [255, 0, 255]),
    ("fuchsia", [255, 0, 255]),
    ("whitesmoke", [245, 245, 245]),
    ("snow", [255, 250, 250]),
    ("ivory", [255, 255, 240]),
    ("ghostwhite", [248, 248, 255]),
    ("lightgrey", [211, 211, 211]),
];

/// Returns true if letters of one colour on the other cannot be told from it.
pub(super) fn are_near(letters: [u8; 3], behind: [u8; 3]) -> bool {
    letters.iter().zip(behind).all(|(a, b)| a.abs_diff(b) <= 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read() {
        for (value, expected) in [
            ("#fff", Paint::Plain([255; 3])),
            ("#FFFFFE", Paint::Plain([255, 255, 254])),
            ("00ff00", Paint::Plain([0, 255, 0])),
            ("rgb(1, 2,3)", Paint::Plain([1, 2, 3])),
            ("rgb(100% 0% 0%)", Paint::Plain([255, 0, 0])),
            ("rgba(0,0,0,0)", Paint::Clear),
            ("transparent", Paint::Clear),
            ("#ffffff00", Paint::Clear),
            ("#fffffffff", Paint::Unknown),
            ("hsl(0 0% 0%)", Paint::Unknown),
        ] {
            assert_eq!(paint(value), expected, "{value}");
        }
        assert!(are_near([255; 3], [240; 3]) && !are_near([255; 3], [200; 3]));
    }

    #[test]
    fn declarations_hide() {
        for (block, gone) in [
            ("display:none", true),
            ("DISPLAY : NONE !important", true),
            ("display:/* x */none", true),
            ("display:none;display:block", false),
            ("opacity:0", true),
            ("opacity:0.9", false),
            ("max-height:0;overflow:hidden", true),
            ("max-height:0", false),
            ("position:absolute;left:-9999px", true),
            ("left:-9999px", false),
            ("text-indent:-5000px", true),
            ("clip:rect(0 0 0 0)", true),
            ("transform:scale(0)", true),
            ("color:red", false),
        ] {
            assert_eq!(StyleDeclarations::read(block).is_gone(), gone, "{block}");
        }
        assert_eq!(StyleDeclarations::read("font-size:0.5em").size, Some(FontSize::Factor(0.5)));
        assert_eq!(StyleDeclarations::read("font:700 0/1 a").size, Some(FontSize::Pixels(0.0)));
        assert_eq!(StyleDeclarations::read("font:12px a").size, Some(FontSize::Pixels(12.0)));
    }

    #[test]
    fn rules_of_one_selector_apply() {
        let mut sheet = StyleSheet::default();
        sheet.read("@import 'x'; .a, p.b{display:none} @media screen {.c{display:none}} #d{color:#fff} .e .f{display:none}<!-- --> .a{color:red");
        assert!(sheet.of("div", "x A", "").is_gone());
        assert!(sheet.of("p", "b", "").is_gone() && !sheet.of("div", "b", "").is_gone());
        assert!(!sheet.of("p", "c e f", "").is_gone());
        assert_eq!(sheet.of("p", "", "d").color, Some(Paint::Plain([255; 3])));
        assert_eq!(sheet.of("p", "a", "").color, Some(Paint::Plain([255, 0, 0])));
    }
}
