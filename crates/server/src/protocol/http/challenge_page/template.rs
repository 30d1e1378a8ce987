//! A page as its owner lays it out: HTML with `{{placeholders}}`.

use thiserror::Error;

/// Most bytes of a template.
const BYTES_MAX: usize = 64 << 10;

/// A place of a template that is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Language,
    Direction,
    Title,
    Site,
    Intro,
    Reason,
    FormNote,
    Privacy,
    Contact,
    Reference,
    Nonce,
    Style,
    Head,
    Challenge,
}

use Slot::{
    Challenge, Contact, Direction, FormNote, Head, Intro, Language, Nonce, Privacy, Reason, Reference, Site,
    Style, Title,
};

/// Placeholders: name, place, and where each may stand.
pub(super) const SLOTS: &[(&str, Slot, Kind)] = &[
    ("language", Language, Kind::Text),
    ("direction", Direction, Kind::Text),
    ("title", Title, Kind::Text),
    ("site", Site, Kind::Text),
    ("reference", Reference, Kind::Text),
    ("reason", Reason, Kind::Text),
    ("privacy", Privacy, Kind::Text),
    ("nonce", Nonce, Kind::Text),
    ("intro", Intro, Kind::Markup),
    ("form_note", FormNote, Kind::Markup),
    ("contact", Contact, Kind::Markup),
    ("style", Style, Kind::Markup),
    ("head", Head, Kind::Markup),
    ("challenge", Challenge, Kind::Markup),
];
/// Placeholders without which a page does not work.
const REQUIRED: [(&str, Slot); 2] = [("head", Head), ("challenge", Challenge)];

/// The kind of a value: between tags stands either, in a quoted attribute text alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Markup,
}

/// A page laid out by the owner of a site.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<(String, Option<Slot>)>,
}

/// A reason for which a template is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum TemplateError {
    #[error("the template has {0} bytes; at most {BYTES_MAX} are read")]
    TooLong(usize),
    #[error("line {line}: there is no placeholder {{{{{name}}}}}; there are {known}", known = known())]
    Unknown { line: usize, name: String },
    #[error("line {line}: a placeholder begins here and has no end: write }}}} behind its name")]
    Open { line: usize },
    #[error("line {line}: {{{{{name}}}}} cannot stand {place}")]
    Misplaced { line: usize, name: &'static str, place: &'static str },
    #[error("{{{{{0}}}}} is missing: without it the page does not work")]
    Missing(&'static str),
    #[error("line {line}: {{{{{name}}}}} stands there a second time")]
    Twice { line: usize, name: &'static str },
}

fn known() -> String {
    SLOTS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
}

impl Template {
    /// Reads a template, and refuses one with which the page would not work or values would not be escaped rightly.
    pub(crate) fn read(text: &str) -> Result<Template, TemplateError> {
        if text.len() > BYTES_MAX {
            return Err(TemplateError::TooLong(text.len()));
        }
        let (mut pieces, mut rest, mut place, mut line) = (Vec::new(), text, Place::default(), 1);
        while let Some((before, behind)) = rest.split_once("{{") {
            line += before.matches('\n').count();
            place.advance(before);
            let (name, after) = behind.split_once("}}").ok_or(TemplateError::Open { line })?;
            let Some(&(name, slot, kind)) = SLOTS.iter().find(|(known, ..)| *known == name.trim()) else {
                let name = name.trim().chars().take(40).collect();
                return Err(TemplateError::Unknown { line, name });
            };
            if let Some(place) = place.refuses(kind) {
                return Err(TemplateError::Misplaced { line, name, place });
            }
            let had = pieces.iter().any(|(_, had)| *had == Some(slot));
            if had && (slot == Head || slot == Challenge) {
                return Err(TemplateError::Twice { line, name });
            }
            pieces.push((before.to_owned(), Some(slot)));
            line += behind[..behind.len() - after.len()].matches('\n').count();
            rest = after;
        }
        pieces.push((rest.to_owned(), None));
        for (name, required) in REQUIRED {
            if !pieces.iter().any(|(_, slot)| *slot == Some(required)) {
                return Err(TemplateError::Missing(name));
            }
        }
        Ok(Template { pieces })
    }

    /// Writes the page, each place by `fill`.
    pub(super) fn fill(&self, page: &mut String, fill: impl Fn(Slot, &mut String)) {
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
    fn refuses(&self, kind: Kind) -> Option<&'static str> {
        match (self, kind) {
            (Place::Text, _) | (Place::Quoted(..), Kind::Text) => None,
            (Place::Quoted(..), Kind::Markup) => Some("in an attribute: it is markup"),
            (Place::Comment, _) => Some("in a comment"),
            (Place::Tag(..), _) => Some("in a tag, but in a quoted value: write name=\"{{…}}\""),
            (Place::Raw(_), _) => Some("in a script or a style"),
        }
    }
}
