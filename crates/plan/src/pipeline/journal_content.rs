//! The content of events in the journal: `journal_content` at the top of a pipeline.

use event::{Column, SchemaBuilder, Slot, Type};

use crate::config::{ConfigProblems, Document};

/// The column of a row that has its content, encrypted.
pub const SEALED_COLUMN: &str = "journal.sealed";

/// The journal's treatment of content: texts, lists, addresses and bytes that an event brings or that are read from it. Numbers,
/// what is true or false, times and readings are logged in the clear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum JournalContent {
    /// Content is logged as it is.
    #[default]
    Plain,
    /// Content is not logged.
    Omitted {
        /// The columns that have it.
        slots: Vec<Slot>,
    },
    /// Content is logged encrypted, by a key of its own.
    Encrypted {
        /// The columns that have it.
        slots: Vec<Slot>,
        /// The column that it is kept in.
        sealed: Slot,
    },
}

impl JournalContent {
    /// Takes content out of what is logged in the clear. `count` columns are the event's.
    pub(super) fn compile(
        document: &Document,
        builder: &mut SchemaBuilder,
        count: usize,
        problems: &mut ConfigProblems,
    ) -> JournalContent {
        let top = document.top();
        let choice = top.str("journal_content").unwrap_or("plain");
        if choice == "plain" {
            return JournalContent::Plain;
        }
        // Statistics have them as they are.
        let kept: Vec<&str> = document.list("last").iter().filter_map(|view| view.str("of")).collect();
        let is_content = |(column, slot): (&Column, u16)| {
            let has_content = matches!(column.kind, Type::String | Type::List | Type::Ip | Type::Bytes);
            let is_logged = column.journalled && !kept.contains(&column.name.as_str());
            (has_content && is_logged).then_some(Slot(slot))
        };
        let columns = builder.schema().columns();
        let slots: Vec<Slot> = columns.iter().take(count).zip(0..).filter_map(is_content).collect();
        slots.iter().for_each(|slot| builder.leave_out(*slot));
        if choice == "none" {
            return JournalContent::Omitted { slots };
        }
        let doc = "The event's content, encrypted by a key of `content.keys`".to_owned();
        let column = Column { name: SEALED_COLUMN.to_owned(), kind: Type::Bytes, doc, journalled: true };
        match builder.add(column) {
            Ok(sealed) => JournalContent::Encrypted { slots, sealed },
            Err(error) => {
                problems.add(top.origin("journal_content"), format!("`{SEALED_COLUMN}`: {error}"), None);
                JournalContent::Omitted { slots }
            }
        }
    }
}
