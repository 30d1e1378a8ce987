//! The visible text and links of an HTML part, and its hidden parts, found without building a tree.
//!
//! Text is hidden from readers to be read by filters, or to break the words that filters look for: white on
//! white, in letters of no height, in boxes of no extent, off the page. A stack of open elements carries what
//! decides it (colour, ground, size, display), from attributes, `style` and simple rules of `<style>`
//! ([`style`]); what it cannot tell counts as seen.

mod element;
mod page_features;
mod source;
mod style;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};
use url::Url;

use crate::budget::Budget;
use crate::text::character::is_alphanumeric;
use crate::text::truncate;
use element::{
    ElementGroup, ElementName, HtmlAttribute, OpenElement, PAGE, SIZE_SEEN_MIN, StartTag, is_block, is_known,
    is_remote, is_void, within,
};
use source::Source;
use style::{StyleDeclarations, StyleSheet};

pub(crate) use page_features::PageFeatures;

/// Most bytes of an anchor's text that are kept.
const ANCHOR_TEXT_BYTES_MAX: usize = 512;
/// Most bytes of a title, or of what stands for an image.
const TITLE_BYTES_MAX: usize = 256;
/// Most bytes of a reference that are kept.
const REFERENCE_BYTES_MAX: usize = 4_096;
/// Most bytes of an attribute that are looked at, but for references.
const ATTRIBUTE_BYTES_MAX: usize = 4_096;
/// Most bytes of hidden text that are kept.
pub(crate) const HIDDEN_BYTES_MAX: usize = 16 * 1024;
/// Most open elements that are known; those within are read as if they had no style.
const OPEN_MAX: usize = 100;
/// Most letters and digits of hidden text before all else that are taken for the line that list mail shows beside its subject.
const PREHEADER_CHARS_MAX: usize = 200;
/// Steps of a byte that is cut into tags and text.
const STEPS_A_BYTE: u64 = 12;
/// Steps of a tag, and of an attribute of it.
const TAG_STEPS: u64 = 150;
const ATTRIBUTE_STEPS: u64 = 40;
/// Steps of a byte of a style, and of the rules that are looked up for a class.
const STEPS_A_STYLE_BYTE: u64 = 15;
const CLASS_STEPS: u64 = 250;
/// Steps of a byte of the address that relative references start from, each time that one does.
const STEPS_A_BASE_BYTE: u64 = 10;

/// A reference to somewhere else: a link, an image, a form's target.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct PageReference {
    pub(crate) target: String,
    /// The text between `<a>` and `</a>`; empty for other elements.
    pub(crate) text: String,
    /// True if a reader is shown what it leads to, and does not go there.
    pub(crate) is_image: bool,
}

/// The content that was read of a page.
#[derive(Debug, Default)]
pub(crate) struct HtmlPage {
    /// The visible text; block elements begin new lines.
    pub(crate) text: String,
    /// The visible text outside anchors, in which a mail reader would find links of its own.
    pub(crate) outside: String,
    pub(crate) references: Vec<PageReference>,
    pub(crate) marks: PageFeatures,
    /// The base of relative references.
    base: Option<Url>,
    reader: PageReader,
    limits: PageLimits,
}

/// The limits of what is kept of a page; the rest is read over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageLimits {
    pub(crate) text_bytes: usize,
    pub(crate) references: usize,
}

#[derive(Debug, Default)]
struct PageReader {
    tag: StartTag,
    sheet: StyleSheet,
    /// Bytes of style sheets that were read.
    sheet_bytes: usize,
    open: Vec<OpenElement>,
    /// Elements that are open beyond the stack.
    deeper: usize,
    /// The reference whose text is being read; one past the kept ones where it was not kept.
    anchor: Option<usize>,
    /// An image was met in it.
    anchor_has_image: bool,
    /// Inside an element whose content is not text of the page.
    apart: RawTextState,
    /// The last visible character is one of a word, and something unseen came after it.
    in_word: bool,
    parted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum RawTextState {
    #[default]
    No,
    Style,
    Title,
    Yes,
}

/// Reads a page in one pass, as far as the budget reaches.
pub(crate) fn read(html: &str, limits: PageLimits, budget: &Budget) -> HtmlPage {
    let mut page = HtmlPage { limits, ..HtmlPage::default() };
    let html = budget.cut(html, STEPS_A_BYTE);
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<()> {
        let steps = page.steps(&event);
        page.event(event);
        (!budget.spend(steps)).then_some(())
    });
    emitter.naively_switch_states(true);
    // It yields something when the budget ends and, from a string, cannot fail; it only has to be driven.
    Tokenizer::new_with_emitter(Source::new(html), emitter).next();
    page
}

impl HtmlPage {
    /// Returns the steps that an event costs beyond the bytes that it was cut from.
    fn steps(&self, event: &CallbackEvent<'_>) -> u64 {
        let tag = &self.reader.tag;
        match event {
            CallbackEvent::AttributeName { .. } | CallbackEvent::AttributeValue { .. } => ATTRIBUTE_STEPS,
            CallbackEvent::CloseStartTag { .. } => {
                let classes = if self.reader.sheet.is_empty() {
                    0
                } else {
                    tag.class.split_ascii_whitespace().take(style::CLASSES_MAX).count() + 1
                };
                let base =
                    self.base.as_ref().filter(|_| tag.target.is_some()).map_or(0, |base| base.as_str().len());
                TAG_STEPS
                    + CLASS_STEPS * classes as u64
                    + STEPS_A_STYLE_BYTE * tag.style.len() as u64
                    + STEPS_A_BASE_BYTE * base as u64
            }
            CallbackEvent::String { value } if self.reader.apart == RawTextState::Style => {
                STEPS_A_STYLE_BYTE * value.len() as u64
            }
            _ => ATTRIBUTE_STEPS,
        }
    }

    fn event(&mut self, event: CallbackEvent<'_>) {
        match event {
            CallbackEvent::OpenStartTag { name } => self.reader.tag.begin(ElementName::of(name)),
            CallbackEvent::AttributeName { name } => {
                let tag = &mut self.reader.tag;
                tag.attribute = tag.attribute_named(name);
                match tag.attribute {
                    HtmlAttribute::Leads if tag.target.is_none() => tag.target = Some(String::new()),
                    HtmlAttribute::Other if name == b"hidden" => tag.is_hidden = true,
                    _ => {}
                }
            }
            CallbackEvent::AttributeValue { value } => self.reader.tag.set(value),
            CallbackEvent::CloseStartTag { self_closing } => self.open(self_closing),
            CallbackEvent::EndTag { name } => self.close(ElementName::of(name)),
            CallbackEvent::Comment { .. } => self.reader.parted = true,
            CallbackEvent::String { value } => {
                let value = String::from_utf8_lossy(value);
                match self.reader.apart {
                    RawTextState::No => self.push(&value),
                    RawTextState::Style => {
                        let left = style::SHEET_BYTES_MAX - self.reader.sheet_bytes;
                        let css = truncate(&value, left);
                        self.reader.sheet_bytes += css.len();
                        self.reader.sheet.read(css);
                    }
                    RawTextState::Title => {
                        let title = &mut self.marks.title;
                        title.push_str(truncate(&value, TITLE_BYTES_MAX.saturating_sub(title.len())));
                    }
                    RawTextState::Yes => {}
                }
            }
            _ => {}
        }
    }

    /// A start tag is complete.
    fn open(&mut self, self_closing: bool) {
        let name = self.reader.tag.name;
        self.close_implied(name);
        let declared = self.reader.tag.declared(&self.reader.sheet);
        let around = self.reader.open.last().copied().unwrap_or(PAGE);
        let element = within(&around, name, &declared, self.reader.tag.target.is_some());
        match name.bytes() {
            b"style" => self.reader.apart = RawTextState::Style,
            b"title" => self.reader.apart = RawTextState::Title,
            b"script" | b"noembed" | b"noframes" => self.reader.apart = RawTextState::Yes,
            b"p" | b"div" | b"td" => {}
            known => self.marks.unknown_elements += usize::from(!is_known(known)),
        }
        self.mark(name, &declared);
        self.refer(name, &element);
        if is_block(name.bytes()) && !element.gone {
            self.line();
        }
        if is_void(name.bytes()) || self_closing && name.bytes().contains(&b':') {
            return;
        }
        if self.reader.open.len() < OPEN_MAX {
            self.reader.open.push(element);
        } else {
            self.reader.deeper += 1;
        }
    }

    /// Notes the marks of an element that matter by themselves.
    fn mark(&mut self, name: ElementName, declared: &StyleDeclarations) {
        let tag = &self.reader.tag;
        let marks = &mut self.marks;
        match name.bytes() {
            b"img" => {
                marks.images += 1;
                if self.reader.anchor.is_some() && !std::mem::replace(&mut self.reader.anchor_has_image, true)
                {
                    marks.image_links += 1;
                }
                if marks.first_alt.is_empty() {
                    marks.first_alt.push_str(truncate(tag.alt.trim(), TITLE_BYTES_MAX));
                }
                let target = tag.target.as_deref().unwrap_or_default();
                if is_remote(target) {
                    marks.external_images += 1;
                    let side = |attribute: &str, declared: Option<f32>| {
                        declared.or_else(|| style::number(attribute)).is_some_and(|side| side <= 1.0)
                    };
                    let is_pixel = side(&tag.width, declared.width) && side(&tag.height, declared.height);
                    marks.pixels += usize::from(is_pixel || declared.is_gone());
                }
            }
            b"form" => marks.has_form = true,
            b"input" => marks.has_password |= tag.kind.trim().eq_ignore_ascii_case("password"),
            b"script" => marks.has_script = true,
            b"iframe" | b"frame" | b"object" | b"embed" | b"applet" => marks.has_frame = true,
            b"meta" => marks.has_refresh |= tag.is_refresh,
            b"base" => marks.has_base |= tag.target.is_some(),
            _ => {}
        }
        marks.external_images += usize::from(tag.has_image_ground);
    }

    /// Takes the reference of a start tag, if it has one.
    fn refer(&mut self, name: ElementName, element: &OpenElement) {
        let tag = &mut self.reader.tag;
        if name.bytes() == b"meta" {
            let url = tag.is_refresh.then(|| tag.content.split_once('='));
            tag.target = url.flatten().map(|(_, url)| url.trim_matches(['\'', '"', ' ']).to_owned());
        }
        if name.bytes() == b"a" {
            self.reader.anchor = None;
        }
        let Some(mut target) = tag.target.take() else { return };
        if name.bytes() == b"base" {
            self.base = self.base.take().or_else(|| Url::parse(target.trim()).ok());
            return;
        }
        if matches!(name.bytes(), b"form" | b"button" | b"input") {
            self.marks.posts |= is_remote(&target);
        }
        let is_kept = self.references.len() < self.limits.references;
        if let Some(base) = &self.base
            && is_kept
            && let Err(url::ParseError::RelativeUrlWithoutBase) = Url::parse(&target)
            && let Ok(joined) = base.join(&target)
        {
            target = joined.into();
        }
        let start = target.trim_start().get(..5).unwrap_or_default();
        self.marks.data_urls += usize::from(start.eq_ignore_ascii_case("data:"));
        if name.bytes() == b"a" {
            self.reader.anchor = Some(self.references.len());
            self.reader.anchor_has_image = false;
            self.marks.hidden_links += usize::from(element.gone || element.size < SIZE_SEEN_MIN);
        }
        if is_kept {
            let is_image = name.bytes() == b"img";
            self.references.push(PageReference { target, text: String::new(), is_image });
        }
    }

    /// An end tag: closes the innermost element of its name and those within it.
    fn close(&mut self, name: ElementName) {
        match name.bytes() {
            b"style" | b"script" | b"title" | b"noembed" | b"noframes" => {
                self.reader.apart = RawTextState::No
            }
            b"a" => self.reader.anchor = None,
            known if is_block(known) => self.line(),
            _ => {}
        }
        if self.reader.deeper > 0 {
            self.reader.deeper -= 1;
        } else if let Some(at) = self.reader.open.iter().rposition(|open| open.name == name) {
            self.reader.open.truncate(at);
        }
    }

    /// Closes what the start of an element closes without an end tag.
    fn close_implied(&mut self, name: ElementName) {
        let (closed, bounds) = match name.bytes() {
            b"li" => (ElementGroup::ITEM, ElementGroup::LIST),
            b"td" | b"th" => (ElementGroup::CELL, ElementGroup::ROW | ElementGroup::TABLE),
            b"tr" => (ElementGroup::ROW, ElementGroup::TABLE),
            b"option" => (ElementGroup::OPTION, ElementGroup::SELECT),
            b"dd" | b"dt" => (ElementGroup::TERM, ElementGroup::TERMS),
            block if block != b"br" && is_block(block) => (
                ElementGroup::PARAGRAPH,
                ElementGroup::DATA | ElementGroup::DIVISION | ElementGroup::TABLE | ElementGroup::BODY,
            ),
            _ => return,
        };
        let met = self.reader.open.iter().rposition(|open| open.group.is_any_of(closed | bounds));
        if let Some(at) = met.filter(|&at| self.reader.open[at].group.is_any_of(closed)) {
            self.reader.open.truncate(at);
        }
    }

    fn line(&mut self) {
        if !self.reader.open.last().is_some_and(OpenElement::is_hidden) {
            self.reader.in_word = false;
            self.keep("\n");
        }
    }

    fn push(&mut self, text: &str) {
        let is_part = is_alphanumeric;
        if self.reader.open.last().is_some_and(OpenElement::is_hidden) {
            let chars = text.chars().filter(|&c| is_part(c)).count();
            self.reader.parted |= chars > 0;
            let is_first =
                self.marks.seen_chars == 0 && self.marks.preheader_chars + chars <= PREHEADER_CHARS_MAX;
            let kept = if is_first { &mut self.marks.preheader } else { &mut self.marks.hidden };
            let left = HIDDEN_BYTES_MAX.saturating_sub(kept.len() + 1);
            if !kept.is_empty() && left > 0 {
                kept.push(' ');
            }
            kept.push_str(truncate(text.trim(), left));
            let counter =
                if is_first { &mut self.marks.preheader_chars } else { &mut self.marks.hidden_chars };
            *counter += chars;
            return;
        }
        let parted = std::mem::take(&mut self.reader.parted);
        if parted && self.reader.in_word && text.starts_with(is_part) {
            self.marks.split_words += 1;
        }
        self.reader.in_word = text.ends_with(is_part);
        self.marks.seen_chars += text.chars().filter(|&c| is_part(c)).count();
        self.keep(text);
    }

    fn keep(&mut self, text: &str) {
        let left = self.limits.text_bytes.saturating_sub(self.text.len());
        let text = truncate(text, left);
        self.text.push_str(text);
        let Some(anchor) = self.reader.anchor else {
            self.outside.push_str(text);
            return;
        };
        if let Some(anchor) = self.references.get_mut(anchor) {
            let left = ANCHOR_TEXT_BYTES_MAX.saturating_sub(anchor.text.len());
            anchor.text.push_str(truncate(text, left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PageLimits = PageLimits { text_bytes: 1_000, references: 10 };

    fn check(html: &str, text: &str, references: &[(&str, &str)]) {
        let page = read(html, LIMITS, &Budget::ample());
        assert_eq!(page.text.split_whitespace().collect::<Vec<_>>().join(" "), text, "{html:?}");
        let found: Vec<_> = page.references.iter().map(|r| (r.target.as_str(), r.text.as_str())).collect();
        assert_eq!(found, references, "{html:?}");
    }

    #[test]
    fn pages_give_what_is_seen() {
        check("<p>Hello<br>you &amp; me", "Hello you & me", &[]);
        check("<title>T</title><style>p{}</style><script>x</script>seen", "seen", &[]);
        check(
            "<a href=\"http://a.example/?a=1&amp;b=2\">a <b>b</b></a> c",
            "a b c",
            &[("http://a.example/?a=1&b=2", "a b")],
        );
        check("<a href=x>one<img src=y>two", "onetwo", &[("x", "onetwo"), ("y", "")]);
        check("<a name=x>one</a>", "one", &[]);
        check("<!-- no --><span>vi<!-- -->agra</span>", "viagra", &[]);
        check("<a href='h", "", &[]);
    }

    /// Checks what is seen and what is hidden, but for white space.
    fn check_hidden(html: &str, seen: &str, hidden: &str) {
        let page = read(html, LIMITS, &Budget::ample());
        assert_eq!(page.text.split_whitespace().collect::<Vec<_>>().join(" "), seen, "{html:?}");
        assert_eq!(page.marks.hidden.split_whitespace().collect::<Vec<_>>().join(" "), hidden, "{html:?}");
    }

    #[test]
    fn hidden_text_is_kept_apart() {
        for style in [
            "display:none",
            "visibility:hidden",
            "font-size:0",
            "font-size:1px",
            "color:#fff",
            "color:#fefefe",
            "color:transparent",
            "opacity:0",
            "height:0;overflow:hidden",
            "position:absolute;left:-9999px",
            "color:red;background:red",
        ] {
            check_hidden(
                &format!("see <span style=\"{style}\">no <b>more</b></span> me"),
                "see me",
                "no more",
            );
        }
        check_hidden("a <font color=white>x</font> b", "a b", "x");
        check_hidden(
            "a<table bgcolor=#000000><tr><td><font color=white>b</font><font color=#010101>x",
            "a b",
            "x",
        );
        check_hidden("a<p hidden>x<p>b", "a b", "x");
        check_hidden("<style>.h{display:none}</style>a<div class=h>x</div>b", "ab", "x");
        check_hidden("a<div style=visibility:hidden>x<i style=visibility:visible>b</i></div>", "a b", "x");
        check_hidden("a<div style=font-size:0>x<i style=font-size:12px>b</i></div>", "a b", "x");
        check_hidden("a<div style=color:#fff;background:url(x)>b</div>", "a b", "");
        check_hidden("a<td style=color:white><a href=x>b</a></td>", "a b", "");
        check_hidden("a<ul><li style=display:none>x<li>b", "a b", "x");
        check_hidden("a<div style=display:none><div>x</div>y</div>b", "ab", "x y");
    }

    #[test]
    fn what_pages_do_is_marked() {
        let page = read(
            "<base href=http://b.example/><meta http-equiv=refresh content='0; url=http://r.example/'>\
             <div style=display:none>Preview</div>V<!-- -->iagra p<span style=font-size:0>x</span>ills <blurb>\
             <form action=//f.example><input type=password></form><script>x</script><iframe src=//i.example></iframe>\
             <img src=https://t.example/p width=1 height=1><img src=cid:a><a href=data:text/html,x>d</a>\
             <a href=//h.example style=display:none>h</a> <a href=p/q>r</a>",
            LIMITS,
            &Budget::ample(),
        );
        let marks = &page.marks;
        assert!(marks.has_base && marks.has_refresh && marks.has_form && marks.has_password);
        assert!(marks.has_script && marks.has_frame);
        assert_eq!((marks.images, marks.external_images, marks.pixels, marks.data_urls), (2, 1, 1, 1));
        assert_eq!((marks.split_words, marks.unknown_elements, marks.hidden_links), (2, 1, 1));
        assert_eq!(
            (marks.preheader.as_str(), marks.hidden.as_str(), marks.hidden_chars),
            ("Preview", "x h", 2)
        );
        let long = read(&format!("<p hidden>{}</p>a", "long ".repeat(100)), LIMITS, &Budget::ample());
        assert_eq!((long.marks.preheader.as_str(), long.marks.hidden_chars), ("", 400));
        let targets: Vec<_> = page.references.iter().map(|reference| reference.target.as_str()).collect();
        let expected = [
            "http://r.example/",
            "http://f.example/",
            "http://i.example/",
            "https://t.example/p",
            "cid:a",
            "data:text/html,x",
            "http://h.example/",
            "http://b.example/p/q",
        ];
        assert_eq!(targets, expected);
    }

    #[test]
    fn known_elements_are_in_order() {
        assert!(
            ["a", "div", "xml", "blockquote", "figcaption", "h1"]
                .iter()
                .all(|name| is_known(name.as_bytes()))
        );
        assert!(is_known(b"o:p") && !is_known(b"blurb"));
    }

    #[test]
    fn pages_are_bounded() {
        let deep = read(&"<div style=color:red>".repeat(100_000), LIMITS, &Budget::ample());
        assert_eq!(deep.reader.open.len(), OPEN_MAX);
        let hidden = read(&"a<i hidden>b</i>".repeat(50_000), LIMITS, &Budget::ample());
        assert!(hidden.marks.hidden.len() <= HIDDEN_BYTES_MAX);
        let page = read(&"<a href=x>text</a>".repeat(5_000), LIMITS, &Budget::ample());
        assert_eq!((page.references.len(), page.text.len()), (10, 1_000));
    }

    #[test]
    fn pages_say_whose_they_are() {
        let marks = |html: &str| read(html, LIMITS, &Budget::ample()).marks;
        let page = marks("<title>Bank &amp; Co</title><img src=a><img alt=' Bank '><img alt=x><p title=y>z");
        assert_eq!((page.title.as_str(), page.first_alt.as_str()), ("Bank & Co", "Bank"));
        assert_eq!(marks("<a href=x><img src=a><img src=b></a><img src=c><a href=y>z</a>").image_links, 1);
        assert!(marks("<form action=https://evil.example/><input>").posts);
        assert!(!marks("<form action=/search><input></form><a href=https://a.example/>").posts);
        assert!(marks("<form><button formaction='//evil.example/'>").posts);
    }
}
