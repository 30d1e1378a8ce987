//! The facts of texts, links, addresses and telephone numbers, wherever they stand, and how they are named.

use event::{Column, ColumnError, SchemaBuilder, Slot, Type};

use crate::field::ContentKind;

/// Most links of a field.
pub const LINKS_MAX: usize = 1_000;
/// Most items of any other list.
pub const ITEMS_MAX: usize = 200;
/// Longest string and list item but for whole texts; longer ones are cut.
pub const ITEM_BYTES_MAX: usize = 2_048;

/// The place in the docs of columns where the texts are named that are counted together.
pub(crate) const TEXTS: &str = "{texts}";

event::columns! {
    /// The columns of how a text is written, and of the text in the form in which it is compared.
    pub struct WordColumns {
        text: String "text" "Whole visible text, normalised and deobfuscated" transient,
        text_chars: Integer "text_chars" "Characters of visible text",
        digit_share: Float "digit_share" "Share of digits among letters and digits",
        scripts: List "scripts" "Scripts of the letters such as `Latin`, most frequent first",
        foreign_letter_share: Float "foreign_letter_share" "Share of letters outside the most frequent script",
        mixed_scripts: Integer "mixed_scripts" "Words in {texts} that mix Latin letters with look-alikes",
        look_alikes: Integer "look_alikes" "Look-alike letters of other scripts in such words",
        styled_letters: Integer "styled_letters" "Full-width, circled, mathematical and other styled ASCII letters and \
            digits in {texts}",
        zero_width: Integer "zero_width" "Invisible characters in {texts}",
        bidi_controls: Integer "bidi_controls" "Controls of the writing direction in {texts}",
        tag_characters: Integer "tag_characters" "Invisible tag characters outside flags in {texts}",
        stacked_marks: Integer "stacked_marks" "Accents on letters that have two already or are of another script, strokes \
            through letters and signs around them, in {texts}",
        leet_words: Integer "leet_words" "Words in {texts} with digits or signs for letters, such as `v1agra`",
        spaced_words: Integer "spaced_words" "Words in {texts} with spaced-out letters, such as `v i a g r a`",
        obfuscated_share: Float "obfuscated_share" "Share of obfuscated or invisible characters in {texts}",
        emoji: Integer "emoji" "Emoji in {texts}",
    }
}

event::columns! {
    /// The columns of what texts of several words show beside that.
    pub struct ProseColumns {
        text_start: String "text_start" "Beginning of the visible text, normalised; journalled for later training of \
            classifiers",
        empty: Bool "empty" "No visible text",
        language: String "language" "ISO 639-3 code of the language such as `eng`, where it can be told",
        fingerprints: List "fingerprints" "Near-duplicate fingerprints of the text",
    }
}

event::columns! {
    /// The columns by which copies of a short text are known.
    pub struct CopyColumns {
        short_fingerprints: List "short_fingerprints" "Near-duplicate fingerprints of a short text: copies with other \
            names, numbers, emoji, order or spacing share at least one",
        template: String "template" "Hash of the text without links, addresses, numbers, emoji and signs: the same for \
            copies that differ only in these",
    }
}

event::columns! {
    /// The columns of contact data in a text.
    pub struct ContactColumns {
        phones: List "phones" "Telephone numbers, including obfuscated ones, without separators",
        addresses: List "addresses" "E-mail addresses, including ones written as `joe (at) example (dot) com`",
        wallets: List "wallets" "Wallet addresses with a valid checksum, such as `btc:1A1z...`",
        card_numbers: Integer "card_numbers" "Payment card numbers with a valid check digit",
        obfuscated_phones: Integer "obfuscated_phones" "Telephone numbers with words, letters or odd digits",
        obfuscated_addresses: Integer "obfuscated_addresses" "E-mail addresses with words for signs",
        obfuscated_links: Integer "obfuscated_links" "Obfuscated links, such as `hxxp://` and `example[.]com`",
    }
}

event::columns! {
    /// The columns of where links lead.
    pub struct LinkColumns {
        links: List "links" "Normalised URLs of links, images and forms",
        link_hosts: List "link_hosts" "Hosts of the links",
        link_domains: List "link_domains" "Registrable domains of the links",
        link_count: Integer "link_count" "Different links",
        link_ip_host: Bool "link_ip_host" "A link leads to a literal address",
        link_text_mismatch: Bool "link_text_mismatch" "A link shows one registrable domain and leads to another",
        redirects: Integer "redirects" "Links whose target is another site's link; that link is in the lists, too",
        link_poses_as: List "link_poses_as" "Domains that link hosts imitate, by look-alike letters, labels in front or a \
            user name",
        link_homograph: Bool "link_homograph" "A link's domain is in another script and reads as ASCII",
        link_user: Bool "link_user" "A link has a user name before its host",
        link_odd_ip: Bool "link_odd_ip" "A link's address is one number, octal or hexadecimal",
        link_odd_port: Bool "link_odd_port" "A link names an unusual port",
        link_double_encoded: Bool "link_double_encoded" "A link's path is percent-encoded twice",
        script_links: Integer "script_links" "Links that run a script or contain a page: `javascript:`, `vbscript:`, \
            `data:`",
        handles: List "handles" "Messenger names and numbers, such as `telegram:some_name` and `qq:123456789`",
    }
}

event::columns! {
    /// The columns of what a page has beside what is seen of it.
    pub struct PageColumns {
        html_images: Integer "html_images" "Images shown in HTML",
        html_image_links: Integer "html_image_links" "Links around an image",
        html_external_images: Integer "html_external_images" "Images fetched on display",
        html_pixels: Integer "html_pixels" "Fetched images of at most a pixel, which track reading",
        html_hidden_chars: Integer "html_hidden_chars" "Letters and digits that HTML hides, except a preheader",
        html_hidden_share: Float "html_hidden_share" "Share of hidden letters and digits in HTML",
        html_hidden_text: String "html_hidden_text" "Text that HTML hides, normalised" transient,
        html_preheader: String "html_preheader" "Hidden text before the visible one, which mail readers show beside the \
            subject",
        html_hidden_links: Integer "html_hidden_links" "Links in hidden elements",
        html_split_words: Integer "html_split_words" "Words split by comments or hidden text",
        html_unknown_elements: Integer "html_unknown_elements" "Elements in no standard",
        html_password: Bool "html_password" "HTML asks for a password",
        html_script: Bool "html_script" "HTML contains a script",
        html_frame: Bool "html_frame" "HTML embeds another page or object",
        html_refresh: Bool "html_refresh" "HTML redirects by itself",
        html_base: Bool "html_base" "HTML sets the base of its links",
        html_data_urls: Integer "html_data_urls" "Links and images with their content in the URL",
        html_form: Bool "html_form" "HTML contains a form",
        html_form_posts: Bool "html_form_posts" "A form in HTML is sent to another host",
    }
}

event::columns! {
    /// The columns of a field that is an e-mail address.
    pub struct AddressColumns {
        address: String "address" "Normalised address; missing where the field holds none",
        untagged: String "untagged" "Address without the tag after `+`, if it has one",
        domain: String "domain" "Domain of the address",
        registrable: String "registrable" "Registrable domain of the address",
    }
}

event::columns! {
    /// The columns of a field that is a telephone number.
    pub struct NumberColumns {
        number: String "number" "Digits of the number, without separators, `+` and international prefix `00`; missing \
            where the field holds none",
        obfuscated: Bool "obfuscated" "Digits are written as words or letters, or in odd forms",
    }
}

/// The columns of what a text shows.
#[derive(Clone, Debug)]
pub struct TextColumns {
    /// The columns of how it is written.
    pub words: WordColumns,
    /// The columns of contact data in it.
    pub contacts: ContactColumns,
    /// The columns of its links.
    pub links: LinkColumns,
    /// The columns of texts that are more than a name.
    pub prose: Option<ProseColumns>,
    /// The columns by which copies of such texts are known.
    pub copies: Option<CopyColumns>,
    /// The columns of HTML.
    pub page: Option<PageColumns>,
}

impl TextColumns {
    /// Adds the columns of texts of a kind, each as it is renamed.
    pub(crate) fn register(
        builder: &mut SchemaBuilder,
        kind: ContentKind,
        rename: &dyn Fn(Column) -> Column,
    ) -> Result<TextColumns, ColumnError> {
        let page = match kind {
            ContentKind::Html => Some(PageColumns::register_as(builder, rename)?),
            _ => None,
        };
        let words = WordColumns::register_as(builder, rename)?;
        let prose = match kind {
            ContentKind::Name => None,
            _ => Some(ProseColumns::register_as(builder, rename)?),
        };
        let contacts = ContactColumns::register_as(builder, rename)?;
        let links = LinkColumns::register_as(builder, rename)?;
        let copies = match kind {
            ContentKind::Name => None,
            _ => Some(CopyColumns::register_as(builder, rename)?),
        };
        Ok(TextColumns { words, contacts, links, prose, copies, page })
    }
}

/// The columns of what a declared field shows.
#[derive(Clone, Debug)]
pub struct FieldColumns {
    pub(crate) of: KindColumns,
    /// The column of the fact that reading stopped early.
    pub(crate) cut_short: Slot,
}

/// The columns of a field, by its kind of content.
#[derive(Clone, Debug)]
pub(crate) enum KindColumns {
    /// The facts of texts, HTML and names.
    Text(Box<TextColumns>),
    /// The facts of links.
    Link(Box<LinkColumns>),
    /// The facts of e-mail addresses.
    Address(AddressColumns),
    /// The facts of telephone numbers.
    Number(NumberColumns),
}

impl FieldColumns {
    /// Adds the columns of a field, each named after it: `body.links` of `body`.
    ///
    /// # Errors
    /// If there is a column of such a name, or too many.
    pub fn register(
        builder: &mut SchemaBuilder,
        field: &str,
        kind: ContentKind,
    ) -> Result<FieldColumns, ColumnError> {
        let rename = |column: Column| Column {
            name: format!("{field}.{}", column.name),
            doc: column.doc.replace(TEXTS, "the text"),
            ..column
        };
        let of = match kind {
            ContentKind::Text | ContentKind::Html | ContentKind::Name => {
                KindColumns::Text(Box::new(TextColumns::register(builder, kind, &rename)?))
            }
            ContentKind::Link => KindColumns::Link(Box::new(LinkColumns::register_as(builder, &rename)?)),
            ContentKind::Email => KindColumns::Address(AddressColumns::register_as(builder, &rename)?),
            ContentKind::Phone => KindColumns::Number(NumberColumns::register_as(builder, &rename)?),
        };
        let cut_short = builder.add(rename(Column {
            name: "cut_short".to_owned(),
            kind: Type::Bool,
            doc: "Reading stopped early because it cost too much or took too long; the facts cover what was read"
                .to_owned(),
            journalled: true,
        }))?;
        Ok(FieldColumns { of, cut_short })
    }

    /// The column of the whole text in the form in which phrases are looked for
    /// ([`crate::text::obfuscation::normalise`]), if there is one.
    pub fn normalised(&self) -> Option<Slot> {
        match &self.of {
            KindColumns::Text(columns) => Some(columns.words.text),
            _ => None,
        }
    }
}
