//! Fields: what a text, a page, a link, an address or a telephone number shows, whatever event it stands in.
//!
//! A comment, a shown name and a message's body are read by the same functions into the same facts, named after the field:
//! `body.links`, `name.phones`; those of a message's body are `mail.links`, `mail.phones`. A field has the facts of its
//! [`ContentKind`], and no others are computed.
//!
//! Work is charged to the event's [`Budget`]; where that ends, the facts are of what was read, and `cut_short` says so.

mod columns;
mod links;
mod page;
mod text;
mod words;

use std::fmt;
use std::slice;
use std::str::FromStr;

use event::{Facts, Slot, Value};

use crate::address::MailAddress;
use crate::budget::Budget;
use crate::text::{self as texts, phone};
use crate::web::link;
pub(crate) use columns::TEXTS;
use columns::{AddressColumns, KindColumns, NumberColumns};
pub use columns::{
    ContactColumns, CopyColumns, FieldColumns, ITEM_BYTES_MAX, ITEMS_MAX, LINKS_MAX, LinkColumns,
    PageColumns, ProseColumns, TextColumns, WordColumns,
};
use links::LinkFeatures;
pub(crate) use links::UniqueList;
pub(crate) use text::VisibleText;
pub(crate) use words::ObfuscationTally;

/// Steps of an address or a telephone number.
const SHORT_STEPS: u64 = 5_000;

/// The kind of content that a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentKind {
    /// Plain text: a comment, a message.
    Text,
    /// HTML, of which the visible text is read.
    Html,
    /// A link, or several in a list.
    Link,
    /// An e-mail address.
    Email,
    /// A telephone number.
    Phone,
    /// A name that is shown: a short text, in which contacts are looked for but no language.
    Name,
}

impl ContentKind {
    /// All kinds, in the order in which they are documented.
    pub const ALL: [ContentKind; 6] = [
        ContentKind::Text,
        ContentKind::Html,
        ContentKind::Link,
        ContentKind::Email,
        ContentKind::Phone,
        ContentKind::Name,
    ];

    /// The name by which configurations call the kind.
    pub fn name(self) -> &'static str {
        match self {
            ContentKind::Text => "text",
            ContentKind::Html => "html",
            ContentKind::Link => "link",
            ContentKind::Email => "email",
            ContentKind::Phone => "phone",
            ContentKind::Name => "name",
        }
    }

    /// Returns true if a field of this kind may be a list, whose items are read as one.
    pub fn takes_lists(self) -> bool {
        !matches!(self, ContentKind::Email | ContentKind::Phone)
    }
}

impl fmt::Display for ContentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ContentKind {
    type Err = ();

    fn from_str(text: &str) -> Result<ContentKind, ()> {
        ContentKind::ALL.into_iter().find(|kind| kind.name() == text).ok_or(())
    }
}

/// Fills what a declared field shows. Facts of a field that is missing are missing; of one that is there, counts and
/// yes-or-no facts are always set.
pub fn features(field: Slot, columns: &FieldColumns, budget: &Budget, facts: &mut Facts) {
    // Taken out of the row while others are put in.
    let Some(value) = facts.clear(field) else { return };
    let items = match &value {
        Value::String(text) => slice::from_ref(text),
        Value::List(items) => items,
        _ => &[],
    };
    match &columns.of {
        KindColumns::Text(columns) => {
            let mut text = VisibleText::default();
            for item in items {
                match columns.page {
                    Some(_) => text.add_page(item, budget),
                    None => text.add_plain(item, budget),
                }
            }
            text.fill(&ObfuscationTally::default(), budget, columns, facts);
        }
        KindColumns::Link(columns) => {
            let mut links = LinkFeatures::default();
            // One that cannot be added leaves no room, or nothing to pay, for the next.
            let _ = items.iter().all(|item| links.add(item.trim(), budget));
            links.fill(columns, facts);
        }
        KindColumns::Address(columns) if budget.spend(SHORT_STEPS) => address(items, columns, facts),
        KindColumns::Number(columns) if budget.spend(SHORT_STEPS) => number(items, columns, facts),
        KindColumns::Address(_) | KindColumns::Number(_) => {}
    }
    facts.set(columns.cut_short, budget.is_short());
    facts.set(field, value);
}

fn address(items: &[Box<str>], columns: &AddressColumns, facts: &mut Facts) {
    let read = items.first().and_then(|text| MailAddress::parse(text));
    let Some(address) = read.filter(|address| !address.domain.is_empty()) else { return };
    if let Some(registrable) = link::registrable(&address.domain) {
        facts.set(columns.registrable, registrable);
    }
    if let Some(untagged) = address.untagged {
        facts.set(columns.untagged, untagged);
    }
    facts.set(columns.domain, address.domain);
    facts.set(columns.address, address.full);
}

fn number(items: &[Box<str>], columns: &NumberColumns, facts: &mut Facts) {
    let read = |text: &str| phone::number(&texts::plain(texts::truncate(text, ITEM_BYTES_MAX)));
    if let Some(number) = items.first().and_then(|text| read(text)) {
        facts.set(columns.obfuscated, number.is_obfuscated);
        facts.set(columns.number, number.digits);
    }
}

/// Cuts to [`ITEM_BYTES_MAX`].
pub(crate) fn cut(text: &str) -> String {
    texts::truncate(text.trim(), ITEM_BYTES_MAX).to_owned()
}

pub(crate) fn set_list(facts: &mut Facts, slot: Slot, items: Vec<String>) {
    if !items.is_empty() {
        facts.set(slot, items);
    }
}
