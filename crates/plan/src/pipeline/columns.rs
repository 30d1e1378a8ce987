//! Columns that events fill: those of an input, and those of declared fields.

use content::mail::authentication::AuthColumns;
use content::web::pattern::RequestPatterns;
use event::{Column, ColumnError, Schema, SchemaBuilder, Slot, Type};

use super::patterns;
use super::{ContentColumns, EventColumns, InputColumns, PipelineInput};
use crate::config::{ConfigOrigin, ConfigProblems, Document, expected};
use crate::entries;

/// Adds the columns that an input fills by itself.
fn input_columns(
    input: PipelineInput,
    patterns: impl FnOnce() -> RequestPatterns,
    builder: &mut SchemaBuilder,
) -> (EventColumns, ContentColumns) {
    let register = || -> Result<_, ColumnError> {
        let event = EventColumns::register(builder)?;
        let content = match input {
            PipelineInput::Message => ContentColumns::Message {
                envelope: content::mail::message::EnvelopeColumns::register(builder)?,
                mail: Box::new(content::mail::message::MailColumns::register(builder)?),
                auth: Box::new(AuthColumns::register(builder)?),
            },
            PipelineInput::AccessLog => ContentColumns::AccessLog {
                columns: Box::new(content::web::access_log::HttpColumns::register(builder)?),
                patterns: Box::new(patterns()),
            },
            PipelineInput::Json => ContentColumns::Json,
        };
        Ok((event, content))
    };
    // The columns of an input have names of their own: every test that compiles a preset holds them to that.
    register().unwrap_or_else(|error| unreachable!("columns of {input:?}: {error}"))
}

/// The facts that events of an input bring, before readings and declared fields.
pub(crate) fn input_facts(input: PipelineInput) -> Schema {
    let mut builder = SchemaBuilder::default();
    input_columns(input, RequestPatterns::default, &mut builder);
    builder.finish()
}

pub(crate) fn columns(
    document: &Document,
    input: PipelineInput,
    builder: &mut SchemaBuilder,
    problems: &mut ConfigProblems,
) -> InputColumns {
    if input != PipelineInput::AccessLog {
        patterns::refuse(document, problems);
    }
    let (event, content) = input_columns(input, || patterns::compile(document, problems), builder);
    let fields_start = builder.schema().columns().len();
    let mut networks = Vec::new();
    for view in entries(document, "field", problems) {
        let (Some(name), Some(kind)) =
            (view.str("name"), view.str("type").and_then(|kind| kind.parse().ok()))
        else {
            continue;
        };
        let doc = view.str("description").unwrap_or_default().to_owned();
        let mut add = |name: String, kind: Type, doc: String| {
            let added = builder.add(Column { name: name.clone(), kind, doc, journalled: true });
            added.map_err(|error| problems.add(view.origin("name"), format!("`{name}`: {error}"), None)).ok()
        };
        let Some(slot) = add(name.to_owned(), kind, doc) else { continue };
        if kind == Type::Ip {
            let doc = format!("The network of {name}");
            networks.extend(add(format!("{name}_net"), Type::String, doc).map(|net| (slot, net)));
        }
    }
    let fields_end = builder.schema().columns().len();
    InputColumns {
        event,
        networks,
        content,
        fields: fields_start..fields_end,
        derived: Vec::new(),
        count: fields_end,
    }
}

pub(crate) fn fact(
    schema: &Schema,
    name: &str,
    origin: &ConfigOrigin,
    problems: &mut ConfigProblems,
) -> Slot {
    schema.slot(name).unwrap_or_else(|| {
        let names = schema.columns().iter().map(|column| column.name.as_str());
        problems.add(origin, format!("there is no fact `{name}`"), Some(expected(name, names)));
        Slot(u16::MAX)
    })
}
