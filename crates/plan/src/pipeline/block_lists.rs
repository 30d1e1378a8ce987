//! The facts that rules see of block lists.

use std::sync::Arc;

use event::{Column, SchemaBuilder, Slot, Type};

use super::PipelineInput;
use crate::block_lists::{LISTS_MAX, is_word};
use crate::config::{ConfigProblems, Document};

/// The columns of a pipeline for block lists.
#[derive(Clone, Debug)]
pub struct BlockListColumns {
    /// The address of the client.
    pub client: Slot,
    /// The lists, each with the column of the fact.
    pub lists: Vec<(Arc<str>, Slot)>,
}

/// Adds the columns of block lists, where the main file has any and the pipeline knows the client's address.
pub(crate) fn columns(
    main: &Document,
    input: PipelineInput,
    builder: &mut SchemaBuilder,
    problems: &mut ConfigProblems,
) -> Option<BlockListColumns> {
    let views = main.list("block_list");
    if input == PipelineInput::Message || views.is_empty() {
        return None;
    }
    let client = builder.schema().slot("client.ip")?;
    if builder.schema().column(client).kind != Type::Ip {
        return None;
    }
    let mut lists = Vec::new();
    for view in views.into_iter().take(LISTS_MAX) {
        let Some(name) = view.str("name").filter(|name| is_word(name)) else { continue };
        let column = Column {
            name: format!("block_list.{name}"),
            kind: Type::Bool,
            doc: format!(
                "Whether the client's address is on the block list `{name}`. Missing while the list cannot be read"
            ),
            journalled: true,
        };
        match builder.add(column) {
            Ok(slot) => lists.push((Arc::from(name), slot)),
            Err(error) => problems.add(view.origin("name"), format!("block_list.{name}: {error}"), None),
        }
    }
    Some(BlockListColumns { client, lists })
}
