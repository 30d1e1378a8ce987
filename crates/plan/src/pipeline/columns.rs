//! Columns that events fill: those of an input, and those of declared fields.

use std::sync::Arc;

use content::field::{ContentKind, FieldColumns};
use content::mail::authentication::AuthColumns;
use content::web::log_format::AccessLogFormat;
use content::web::pattern::RequestPatterns;
use event::{Column, ColumnError, Schema, SchemaBuilder, Slot, Type};
use logs::columns::LogColumns;
use logs::log_stream::LogSettings;

use super::{ContentColumns, EventColumns, FieldContent, InputColumns, PipelineInput};
use super::{access_log, log, patterns};
use crate::config::{ConfigOrigin, ConfigProblems, ConfigView, Document, expected};
use crate::entries;

/// Adds the columns that an input fills by itself.
fn input_columns(
    input: PipelineInput,
    patterns: impl FnOnce() -> RequestPatterns,
    settings: impl FnOnce() -> LogSettings,
    format: impl FnOnce() -> Option<Arc<AccessLogFormat>>,
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
                patterns: Arc::new(patterns()),
                format: format(),
            },
            PipelineInput::Log => ContentColumns::Log {
                columns: LogColumns::register(builder)?,
                settings: Box::new(settings()),
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
    input_columns(input, RequestPatterns::default, LogSettings::default, || None, &mut builder);
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
        access_log::refuse(document, problems);
    }
    if input != PipelineInput::Log {
        log::refuse(document, problems);
    }
    let (mut log_problems, mut format_problems) = (ConfigProblems::default(), ConfigProblems::default());
    let (event, content) = input_columns(
        input,
        || patterns::compile(document, problems),
        || log::compile(document, &mut log_problems),
        || access_log::compile(document, &mut format_problems),
        builder,
    );
    problems.extend(log_problems);
    problems.extend(format_problems);
    let fields_start = builder.schema().columns().len();
    let (mut networks, mut fields) = (Vec::new(), Vec::new());
    for view in entries(document, "field", problems) {
        let (Some(name), Some(kind)) =
            (view.str("name"), view.str("type").and_then(|kind| kind.parse().ok()))
        else {
            continue;
        };
        let content = view.str("content").and_then(|content| content.parse::<ContentKind>().ok());
        if let Some(content) = content
            && let Some(slot) = builder.schema().slot(name)
            && builder.schema().column(slot).kind == kind
        {
            fields.extend(field_content(slot, content, &view, builder, problems));
            continue;
        }
        let doc = view.str("description").unwrap_or_default().to_owned();
        let journalled = view.bool("journal").unwrap_or(true);
        let mut add = |name: String, kind: Type, doc: String| {
            let added = builder.add(Column { name: name.clone(), kind, doc, journalled });
            added.map_err(|error| problems.add(view.origin("name"), format!("`{name}`: {error}"), None)).ok()
        };
        let Some(slot) = add(name.to_owned(), kind, doc) else { continue };
        if kind == Type::Ip {
            let doc = format!("The network of {name}");
            networks.extend(add(format!("{name}_net"), Type::String, doc).map(|net| (slot, net)));
        }
        if let Some(content) = content {
            fields.extend(field_content(slot, content, &view, builder, problems));
        }
    }
    let fields_end = builder.schema().columns().len();
    InputColumns {
        event,
        networks,
        content,
        declared: fields_start..fields_end,
        fields,
        derived: Vec::new(),
        count: fields_end,
    }
}

/// Adds the columns of a field's content. What cannot have any is told of.
fn field_content(
    slot: Slot,
    content: ContentKind,
    view: &ConfigView<'_>,
    builder: &mut SchemaBuilder,
    problems: &mut ConfigProblems,
) -> Option<FieldContent> {
    let schema = builder.schema();
    let Column { name, kind, .. } = schema.column(slot).clone();
    if kind != Type::String && !(kind == Type::List && content.takes_lists()) {
        let message = format!("a field of type {kind} has no content of kind `{content}`");
        let types = if content.takes_lists() { "`string` or `list`" } else { "`string`" };
        problems.add(
            view.origin("content"),
            message,
            Some(format!("make its type {types}, or leave it out")),
        );
        return None;
    }
    let first = schema.columns().len() as u16;
    match FieldColumns::register(builder, &name, content) {
        Ok(columns) => {
            // It would be a copy of what the journal is not to keep.
            let copy = builder.schema().slot(&format!("{name}.text_start"));
            if let (Some(copy), Some(false)) = (copy, view.bool("journal")) {
                builder.leave_out(copy);
            }
            let facts = first..builder.schema().columns().len() as u16;
            Some(FieldContent { slot, columns, facts })
        }
        Err(error) => {
            problems.add(view.origin("content"), format!("the facts of `{name}`: {error}"), None);
            None
        }
    }
}

/// The facts of a field by its content, named as those of a field `NAME`.
pub(crate) fn content_facts(content: ContentKind) -> Schema {
    let mut builder = SchemaBuilder::default();
    FieldColumns::register(&mut builder, "NAME", content)
        .unwrap_or_else(|error| unreachable!("columns of {content}: {error}"));
    builder.finish()
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
