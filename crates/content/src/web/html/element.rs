//! Elements: the start tag that is being read, those that are open, and what is known of names.

use super::style::{self, FontSize, Paint, StyleDeclarations, StyleSheet};
use super::{ATTRIBUTE_BYTES_MAX, REFERENCE_BYTES_MAX};

/// Letters lower than this many pixels are not seen.
pub(super) const SIZE_SEEN_MIN: f32 = 2.0;
/// Size of letters where nothing is said of it.
const SIZE_DEFAULT: f32 = 16.0;

/// An open element, with what it passes on to those within.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenElement {
    pub(super) name: ElementName,
    pub(super) group: ElementGroup,
    pub(super) gone: bool,
    pub(super) visible: bool,
    pub(super) size: f32,
    pub(super) letters: Paint,
    pub(super) ground: Paint,
}

/// The element around everything: black on white.
pub(super) const PAGE: OpenElement = OpenElement {
    name: ElementName([0; 12]),
    group: ElementGroup(0),
    gone: false,
    visible: true,
    size: SIZE_DEFAULT,
    letters: Paint::Plain([0; 3]),
    ground: Paint::Plain([255; 3]),
};

impl OpenElement {
    pub(super) fn is_hidden(&self) -> bool {
        let unseen = match (self.letters, self.ground) {
            (Paint::Plain(letters), Paint::Plain(ground)) => style::are_near(letters, ground),
            (Paint::Clear, _) => true,
            _ => false,
        };
        self.gone || !self.visible || self.size < SIZE_SEEN_MIN || unseen
    }
}

/// An element's name, cut to what tells those apart that are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ElementName([u8; 12]);

impl ElementName {
    pub(super) fn of(name: &[u8]) -> ElementName {
        let mut cut = [0; 12];
        for (kept, byte) in cut.iter_mut().zip(name) {
            *kept = *byte;
        }
        ElementName(cut)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0[..self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len())]
    }
}

/// The role of an element for the start tags that close others: a bit for each. All open ones are looked through for it at
/// each start tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ElementGroup(u16);

impl ElementGroup {
    pub(super) const ITEM: ElementGroup = ElementGroup(1);
    pub(super) const LIST: ElementGroup = ElementGroup(1 << 1);
    pub(super) const CELL: ElementGroup = ElementGroup(1 << 2);
    pub(super) const ROW: ElementGroup = ElementGroup(1 << 3);
    pub(super) const TABLE: ElementGroup = ElementGroup(1 << 4);
    pub(super) const OPTION: ElementGroup = ElementGroup(1 << 5);
    pub(super) const SELECT: ElementGroup = ElementGroup(1 << 6);
    pub(super) const TERM: ElementGroup = ElementGroup(1 << 7);
    pub(super) const TERMS: ElementGroup = ElementGroup(1 << 8);
    pub(super) const PARAGRAPH: ElementGroup = ElementGroup(1 << 9);
    pub(super) const DATA: ElementGroup = ElementGroup(1 << 10);
    pub(super) const DIVISION: ElementGroup = ElementGroup(1 << 11);
    pub(super) const BODY: ElementGroup = ElementGroup(1 << 12);

    fn of(name: ElementName) -> ElementGroup {
        match name.bytes() {
            b"li" => ElementGroup::ITEM,
            b"ul" | b"ol" => ElementGroup::LIST,
            b"td" => ElementGroup::CELL | ElementGroup::DATA,
            b"th" => ElementGroup::CELL,
            b"tr" => ElementGroup::ROW,
            b"table" => ElementGroup::TABLE,
            b"option" => ElementGroup::OPTION,
            b"select" => ElementGroup::SELECT,
            b"dd" | b"dt" => ElementGroup::TERM,
            b"dl" => ElementGroup::TERMS,
            b"p" => ElementGroup::PARAGRAPH,
            b"div" => ElementGroup::DIVISION,
            b"body" => ElementGroup::BODY,
            _ => ElementGroup::default(),
        }
    }

    pub(super) fn is_any_of(self, of: ElementGroup) -> bool {
        self.0 & of.0 != 0
    }
}

impl std::ops::BitOr for ElementGroup {
    type Output = ElementGroup;

    fn bitor(self, other: ElementGroup) -> ElementGroup {
        ElementGroup(self.0 | other.0)
    }
}

/// The start tag that is being read. Its strings are emptied, not freed.
#[derive(Debug, Default)]
pub(super) struct StartTag {
    pub(super) name: ElementName,
    pub(super) attribute: HtmlAttribute,
    pub(super) style: String,
    pub(super) class: String,
    pub(super) id: String,
    pub(super) color: String,
    pub(super) ground: String,
    pub(super) width: String,
    pub(super) height: String,
    pub(super) kind: String,
    pub(super) content: String,
    pub(super) alt: String,
    pub(super) has_image_ground: bool,
    pub(super) is_hidden: bool,
    pub(super) is_refresh: bool,
    /// The target of the link.
    pub(super) target: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum HtmlAttribute {
    Style,
    Class,
    Id,
    Color,
    Ground,
    ImageGround,
    Width,
    Height,
    Kind,
    Content,
    Alt,
    Equivalent,
    Leads,
    #[default]
    Other,
}

impl StartTag {
    pub(super) fn begin(&mut self, name: ElementName) {
        self.name = name;
        self.attribute = HtmlAttribute::Other;
        for text in [
            &mut self.style,
            &mut self.class,
            &mut self.id,
            &mut self.color,
            &mut self.ground,
            &mut self.width,
            &mut self.height,
            &mut self.kind,
            &mut self.content,
            &mut self.alt,
        ] {
            text.clear();
        }
        (self.has_image_ground, self.is_hidden, self.is_refresh) = (false, false, false);
        self.target = None;
    }

    pub(super) fn attribute_named(&self, attribute: &[u8]) -> HtmlAttribute {
        match (self.name.bytes(), attribute) {
            (_, b"style") => HtmlAttribute::Style,
            (_, b"class") => HtmlAttribute::Class,
            (_, b"id") => HtmlAttribute::Id,
            (b"font", b"color") | (b"body", b"text") => HtmlAttribute::Color,
            (_, b"bgcolor") => HtmlAttribute::Ground,
            (_, b"background") => HtmlAttribute::ImageGround,
            (b"img", b"width") => HtmlAttribute::Width,
            (b"img", b"height") => HtmlAttribute::Height,
            (b"input", b"type") => HtmlAttribute::Kind,
            (b"img", b"alt") => HtmlAttribute::Alt,
            (b"meta", b"content") => HtmlAttribute::Content,
            (b"meta", b"http-equiv") => HtmlAttribute::Equivalent,
            (b"a" | b"area" | b"base", b"href")
            | (b"img" | b"iframe" | b"frame" | b"embed", b"src")
            | (b"form", b"action")
            | (b"button" | b"input", b"formaction") => HtmlAttribute::Leads,
            _ => HtmlAttribute::Other,
        }
    }

    pub(super) fn set(&mut self, value: &[u8]) {
        let most =
            if self.attribute == HtmlAttribute::Leads { REFERENCE_BYTES_MAX } else { ATTRIBUTE_BYTES_MAX };
        let value = &value[..value.len().min(most)];
        let into = match self.attribute {
            HtmlAttribute::Style => &mut self.style,
            HtmlAttribute::Class => &mut self.class,
            HtmlAttribute::Id => &mut self.id,
            HtmlAttribute::Color => &mut self.color,
            HtmlAttribute::Ground => &mut self.ground,
            HtmlAttribute::Width => &mut self.width,
            HtmlAttribute::Height => &mut self.height,
            HtmlAttribute::Kind => &mut self.kind,
            HtmlAttribute::Content => &mut self.content,
            HtmlAttribute::Alt => &mut self.alt,
            HtmlAttribute::ImageGround => {
                self.has_image_ground |= !value.is_empty();
                return;
            }
            HtmlAttribute::Equivalent => {
                self.is_refresh |= value.trim_ascii().eq_ignore_ascii_case(b"refresh");
                return;
            }
            HtmlAttribute::Leads => match &mut self.target {
                Some(target) if target.is_empty() => target,
                _ => return,
            },
            HtmlAttribute::Other => return,
        };
        into.push_str(&String::from_utf8_lossy(value));
        self.attribute = HtmlAttribute::Other;
    }

    /// Returns the declarations for the element: by attributes, then by rules, then by its own style.
    pub(super) fn declared(&self, sheet: &StyleSheet) -> StyleDeclarations {
        let mut declared = StyleDeclarations::default();
        if !self.color.is_empty() {
            declared.color = Some(style::paint(&self.color.to_ascii_lowercase()));
        }
        if !self.ground.is_empty() {
            declared.background = Some(style::paint(&self.ground.to_ascii_lowercase()));
        }
        if self.has_image_ground {
            declared.background = Some(Paint::Unknown);
        }
        if !sheet.is_empty() {
            let name = std::str::from_utf8(self.name.bytes()).unwrap_or_default();
            declared.add(&sheet.of(name, &self.class, &self.id));
        }
        if !self.style.is_empty() {
            declared.add(&StyleDeclarations::read(&self.style));
        }
        if self.is_hidden {
            declared.displayed = Some(false);
        }
        declared
    }
}

/// Returns the state that an element passes on, by what is around it and said of it.
pub(super) fn within(
    around: &OpenElement,
    name: ElementName,
    declared: &StyleDeclarations,
    is_link: bool,
) -> OpenElement {
    let ground = match declared.background {
        None | Some(Paint::Clear) => around.ground,
        Some(paint) => paint,
    };
    // Links have a colour of their own where none is given to them.
    let link = (is_link && name.bytes() == b"a").then_some(Paint::Plain([0, 0, 238]));
    let size = match declared.size {
        None => around.size,
        Some(FontSize::Pixels(pixels)) => pixels,
        Some(FontSize::Factor(factor)) => around.size * factor,
    };
    OpenElement {
        name,
        group: ElementGroup::of(name),
        gone: around.gone || declared.is_gone(),
        visible: declared.visible.unwrap_or(around.visible),
        size,
        letters: declared.color.or(link).unwrap_or(around.letters),
        ground,
    }
}

/// Returns true if an image is fetched from somewhere when it is shown.
pub(super) fn is_remote(target: &str) -> bool {
    let target = target.trim_start();
    let starts = |scheme: &str| target.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme));
    starts("http://") || starts("https://") || starts("//") || starts("ftp://")
}

pub(super) fn is_void(name: &[u8]) -> bool {
    const VOID: [&[u8]; 15] = [
        b"area",
        b"base",
        b"basefont",
        b"br",
        b"col",
        b"embed",
        b"frame",
        b"hr",
        b"img",
        b"input",
        b"link",
        b"meta",
        b"param",
        b"source",
        b"wbr",
    ];
    VOID.contains(&name)
}

/// Elements of the standards, and those that office programs write. A name is known by its first twelve bytes.
pub(super) fn is_known(name: &[u8]) -> bool {
    if name.contains(&b':') {
        return true;
    }
    const KNOWN: [&str; 121] = [
        "a",
        "abbr",
        "acronym",
        "address",
        "applet",
        "area",
        "article",
        "aside",
        "audio",
        "b",
        "base",
        "basefont",
        "bdi",
        "bdo",
        "bgsound",
        "big",
        "blink",
        "blockquote",
        "body",
        "br",
        "button",
        "canvas",
        "caption",
        "center",
        "cite",
        "code",
        "col",
        "colgroup",
        "data",
        "datalist",
        "dd",
        "del",
        "details",
        "dfn",
        "dialog",
        "dir",
        "div",
        "dl",
        "dt",
        "em",
        "embed",
        "fieldset",
        "figcaption",
        "figure",
        "font",
        "footer",
        "form",
        "frame",
        "frameset",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "head",
        "header",
        "hgroup",
        "hr",
        "html",
        "i",
        "iframe",
        "image",
        "img",
        "input",
        "ins",
        "kbd",
        "label",
        "layer",
        "legend",
        "li",
        "link",
        "main",
        "map",
        "mark",
        "marquee",
        "menu",
        "meta",
        "nav",
        "nobr",
        "noembed",
        "noframes",
        "noscript",
        "object",
        "ol",
        "option",
        "p",
        "param",
        "picture",
        "pre",
        "q",
        "s",
        "samp",
        "script",
        "section",
        "select",
        "small",
        "source",
        "span",
        "strike",
        "strong",
        "style",
        "sub",
        "summary",
        "sup",
        "svg",
        "table",
        "tbody",
        "td",
        "template",
        "textarea",
        "tfoot",
        "th",
        "thead",
        "time",
        "title",
        "tr",
        "tt",
        "u",
        "ul",
        "xml",
    ];
    std::str::from_utf8(name).is_ok_and(|name| KNOWN.binary_search(&name).is_ok())
}

pub(super) fn is_block(name: &[u8]) -> bool {
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
