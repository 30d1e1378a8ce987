//! A page as its owner lays it out: HTML with `{{placeholders}}`.

use thiserror::Error;

/// Most bytes of a template.
const BYTES_MAX: usize = 64 << 10;

/// A place of a template that is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceholderSlot {
    /// The language of the texts, as a tag.
    Language,
    /// The direction of the script: `ltr` or `rtl`.
    Direction,
    /// The heading.
    Title,
    /// The host that asks.
    Site,
    /// A sentence that says who asks.
    Intro,
    /// A sentence that says why.
    Reason,
    /// A paragraph that says that a form was not delivered, or nothing.
    FormNote,
    /// A sentence that says what is kept.
    Privacy,
    /// Paragraphs with the owner's address and the reference.
    Contact,
    /// The name of the decision.
    Reference,
    /// The value that lets a style or a script of the template be used.
    Nonce,
    /// Our style sheet.
    Style,
    /// The way without scripts, in the head.
    Head,
    /// The task, its button and the script.
    Challenge,
}

use PlaceholderSlot::{
    Challenge, Contact, Direction, FormNote, Head, Intro, Language, Nonce, Privacy, Reason, Reference, Site,
    Style, Title,
};

/// Placeholders: name, place, and where each may stand.
pub const SLOTS: &[(&str, PlaceholderSlot, PlaceholderKind)] = &[
    ("language", Language, PlaceholderKind::Text),
    ("direction", Direction, PlaceholderKind::Text),
    ("title", Title, PlaceholderKind::Text),
    ("site", Site, PlaceholderKind::Text),
    ("reference", Reference, PlaceholderKind::Text),
    ("reason", Reason, PlaceholderKind::Text),
    ("privacy", Privacy, PlaceholderKind::Text),
    ("nonce", Nonce, PlaceholderKind::Text),
    ("intro", Intro, PlaceholderKind::Markup),
    ("form_note", FormNote, PlaceholderKind::Markup),
    ("contact", Contact, PlaceholderKind::Markup),
    ("style", Style, PlaceholderKind::Markup),
    ("head", Head, PlaceholderKind::Markup),
    ("challenge", Challenge, PlaceholderKind::Markup),
];
/// Placeholders without which a page does not work.
const REQUIRED: [(&str, PlaceholderSlot); 2] = [("head", Head), ("challenge", Challenge)];

/// The kind of a value: between tags stands either, in a quoted attribute text alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PlaceholderKind {
    /// Text, which is escaped.
    Text,
    /// Markup, which is escaped where it was made.
    Markup,
}

/// A page laid out by the owner of a site.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PageTemplate {
    pieces: Vec<(String, Option<PlaceholderSlot>)>,
}

/// A reason for which a template is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PageTemplateError {
    /// A text beyond the bound.
    #[error("the template has {0} bytes; at most {BYTES_MAX} are read")]
    TooLong(usize),
    /// A placeholder that is not known.
    #[error("line {line}: there is no placeholder {{{{{name}}}}}; there are {known}", known = known())]
    Unknown {
        /// The line.
        line: usize,
        /// The name, cut.
        name: String,
    },
    /// A placeholder without an end.
    #[error("line {line}: a placeholder begins here and has no end: write }}}} behind its name")]
    Open {
        /// The line.
        line: usize,
    },
    /// A placeholder where its value could not be escaped.
    #[error("line {line}: {{{{{name}}}}} cannot stand {place}")]
    Misplaced {
        /// The line.
        line: usize,
        /// The placeholder.
        name: &'static str,
        /// The place, for people.
        place: &'static str,
    },
    /// A placeholder that is needed and missing.
    #[error("{{{{{0}}}}} is missing: without it the page does not work")]
    Missing(&'static str),
    /// A placeholder that can stand once and stands twice.
    #[error("line {line}: {{{{{name}}}}} stands there a second time")]
    Twice {
        /// The line.
        line: usize,
        /// The placeholder.
        name: &'static str,
    },
}

fn known() -> String {
    SLOTS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
}

impl PageTemplate {
    /// Reads a template, and refuses one with which the page would not work or values would not be escaped rightly.
    pub fn read(text: &str) -> Result<PageTemplate, PageTemplateError> {
        if text.len() > BYTES_MAX {
            return Err(PageTemplateError::TooLong(text.len()));
        }
        let (mut pieces, mut rest, mut place, mut line) = (Vec::new(), text, Place::default(), 1);
        while let Some((before, behind)) = rest.split_once("{{") {
            line += before.matches('\n').count();
            place.advance(before);
            let (name, after) = behind.split_once("}}").ok_or(PageTemplateError::Open { line })?;
            let Some(&(name, slot, kind)) = SLOTS.iter().find(|(known, ..)| *known == name.trim()) else {
                let name = name.trim().chars().take(40).collect();
                return Err(PageTemplateError::Unknown { line, name });
            };
            if let Some(place) = place.refuses(kind) {
                return Err(PageTemplateError::Misplaced { line, name, place });
            }
            let had = pieces.iter().any(|(_, had)| *had == Some(slot));
            if had && (slot == Head || slot == Challenge) {
                return Err(PageTemplateError::Twice { line, name });
            }
            pieces.push((before.to_owned(), Some(slot)));
            line += behind[..behind.len() - after.len()].matches('\n').count();
            rest = after;
        }
        pieces.push((rest.to_owned(), None));
        for (name, required) in REQUIRED {
            if !pieces.iter().any(|(_, slot)| *slot == Some(required)) {
                return Err(PageTemplateError::Missing(name));
            }
        }
        Ok(PageTemplate { pieces })
    }

    /// Writes the page, each place by `fill`.
    pub fn fill(&self, page: &mut String, fill: impl Fn(PlaceholderSlot, &mut String)) {
        for (text, slot) in &self.pieces {
            page.push_str(text);
            if let Some(slot) = slot {
                fill(*slot, page);
            }
        }
    }
}

/// A place in HTML, as far as escaping asks for it. It errs on the side of refusing.
#[derive(Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Text,
    Comment,
    /// In a tag, outside of values; the name of the element, and what was read since a value could begin.
    Tag(String, bool),
    /// In a quoted value of that tag.
    Quoted(String, char),
    /// In an element whose content is not markup.
    Raw(String),
}

impl Place {
    /// Goes on over a piece of the template.
    fn advance(&mut self, text: &str) {
        let mut at = 0;
        while let Some(sign) = text[at..].chars().next() {
            let rest = &text[at..];
            let mut step = sign.len_utf8();
            let next = match &mut *self {
                Place::Text if rest.starts_with("<!--") => Some(Place::Comment),
                Place::Text if sign == '<' => Some(Place::Tag(String::new(), true)),
                Place::Comment if rest.starts_with("-->") => {
                    step = 3;
                    Some(Place::Text)
                }
                Place::Tag(name, _) if sign == '>' => Some(match name.as_str() {
                    "script" | "style" | "textarea" | "xmp" | "iframe" | "noembed" | "noframes" => {
                        Place::Raw(std::mem::take(name))
                    }
                    _ => Place::Text,
                }),
                Place::Tag(name, _) if sign == '"' || sign == '\'' => {
                    Some(Place::Quoted(std::mem::take(name), sign))
                }
                Place::Tag(name, open) => {
                    if *open && (sign.is_ascii_alphanumeric() || sign == '/') {
                        name.push(sign.to_ascii_lowercase());
                    } else {
                        *open = false;
                    }
                    None
                }
                Place::Quoted(name, quote) if sign == *quote => Some(Place::Tag(std::mem::take(name), false)),
                Place::Raw(name) if sign == '<' => {
                    let ends = rest
                        .get(1..)
                        .and_then(|end| end.strip_prefix('/'))
                        .and_then(|end| end.get(..name.len()))
                        .is_some_and(|end| end.eq_ignore_ascii_case(name));
                    ends.then(|| Place::Tag("/".to_owned(), false))
                }
                _ => None,
            };
            if let Some(next) = next {
                *self = next;
            }
            at += step;
        }
    }

    /// Returns the place, in words, if a value of this kind cannot stand there.
    fn refuses(&self, kind: PlaceholderKind) -> Option<&'static str> {
        match (self, kind) {
            (Place::Text, _) | (Place::Quoted(..), PlaceholderKind::Text) => None,
            (Place::Quoted(..), PlaceholderKind::Markup) => Some("in an attribute: it is markup"),
            (Place::Comment, _) => Some("in a comment"),
            (Place::Tag(..), _) => Some("in a tag, but in a quoted value: write name=\"{{…}}\""),
            (Place::Raw(_), _) => Some("in a script or a style"),
        }
    }
}
