//! What a reader of an HTML part sees and can click, without building a tree.

use std::convert::Infallible;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

use crate::text::truncate;

/// Most bytes of an anchor's text that are kept.
const ANCHOR_TEXT_BYTES_MAX: usize = 512;
/// Most bytes of a reference that are kept.
const REFERENCE_BYTES_MAX: usize = 4_096;

/// A reference to somewhere else: a link, an image, a form's target.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Reference {
    pub(crate) target: String,
    /// The text between `<a>` and `</a>`; empty for other elements.
    pub(crate) text: String,
}

/// What was read of a page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The visible text; block elements begin new lines.
    pub(crate) text: String,
    /// The visible text outside anchors, in which a mail reader would find links of its own.
    pub(crate) outside: String,
    pub(crate) references: Vec<Reference>,
    pub(crate) images: usize,
    pub(crate) has_form: bool,
    reader: Reader,
    limits: Limits,
}

#[derive(Debug, Default)]
struct Reader {
    element: Element,
    /// The attribute whose value comes next leads elsewhere.
    leads: bool,
    /// The reference whose text is being read; one past the kept ones where it was not kept.
    anchor: Option<usize>,
    /// Inside an element whose text is not shown.
    hidden: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Element {
    Anchor,
    Area,
    Form,
    Image,
    #[default]
    Other,
}

/// How much is kept of a page; the rest is read over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) text_bytes: usize,
    pub(crate) references: usize,
}

/// Reads a page in one pass.
pub(crate) fn read(html: &str, limits: Limits) -> Page {
    let mut page = Page { limits, ..Page::default() };
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<Infallible> {
        page.event(event);
        None
    });
    emitter.naively_switch_states(true);
    // It yields nothing and, from a string, cannot fail; it only has to be driven.
    Tokenizer::new_with_emitter(html, emitter).for_each(drop);
    page
}

impl Page {
    fn event(&mut self, event: CallbackEvent<'_>) {
        match event {
            CallbackEvent::OpenStartTag { name } => self.open(name),
            CallbackEvent::AttributeName { name } => {
                self.reader.leads = matches!(
                    (self.reader.element, name),
                    (Element::Anchor | Element::Area, b"href")
                        | (Element::Image, b"src")
                        | (Element::Form, b"action")
                );
            }
            CallbackEvent::AttributeValue { value } if self.reader.leads => {
                self.reader.leads = false;
                if self.reader.element == Element::Anchor {
                    self.reader.anchor = Some(self.references.len());
                }
                if self.references.len() < self.limits.references {
                    let target =
                        String::from_utf8_lossy(&value[..value.len().min(REFERENCE_BYTES_MAX)]).into_owned();
                    self.references.push(Reference { target, text: String::new() });
                }
            }
            CallbackEvent::CloseStartTag { .. } => self.reader.leads = false,
            CallbackEvent::EndTag { name } => match name {
                b"a" => self.reader.anchor = None,
                _ if is_hidden(name) => self.reader.hidden = false,
                _ if is_block(name) => self.push("\n"),
                _ => {}
            },
            CallbackEvent::String { value } if !self.reader.hidden => {
                let value = String::from_utf8_lossy(value);
                self.push(&value);
            }
            _ => {}
        }
    }

    fn open(&mut self, name: &[u8]) {
        self.reader.element = match name {
            b"a" => {
                self.reader.anchor = None;
                Element::Anchor
            }
            b"area" => Element::Area,
            b"form" => {
                self.has_form = true;
                Element::Form
            }
            b"img" => {
                self.images += 1;
                Element::Image
            }
            _ => Element::Other,
        };
        if is_hidden(name) {
            self.reader.hidden = true;
        }
        if is_block(name) {
            self.push("\n");
        }
    }

    fn push(&mut self, text: &str) {
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

fn is_hidden(name: &[u8]) -> bool {
    matches!(name, b"script" | b"style" | b"title" | b"noembed" | b"noframes")
}

fn is_block(name: &[u8]) -> bool {
    matches!(
        name,
        b"address"
            | b"article"
            | b"blockquote"
            | b"body"
            | b"br"
            | b"center"
            | b"dd"
            | b"div"
            | b"dl"
            | b"dt"
            | b"footer"
            | b"form"
            | b"h1"
            | b"h2"
            | b"h3"
            | b"h4"
            | b"h5"
            | b"h6"
            | b"header"
            | b"hr"
            | b"li"
            | b"ol"
            | b"option"
            | b"p"
            | b"pre"
            | b"section"
            | b"table"
            | b"td"
            | b"th"
            | b"tr"
            | b"ul"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { text_bytes: 1_000, references: 10 };

    fn check(html: &str, text: &str, references: &[(&str, &str)]) {
        let page = read(html, LIMITS);
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

    #[test]
    fn pages_are_bounded() {
        let page = read(&"<a href=x>text</a>".repeat(5_000), LIMITS);
        assert_eq!((page.references.len(), page.text.len()), (10, 1_000));
    }
}
