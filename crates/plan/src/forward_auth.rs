//! `[[forward_auth]]`, checked: what proxies ask before they hand a request on.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use event::{Span, Value};
use gate::page_template::PageTemplate;
use judge::{Network, Networks};

use crate::config::{ConfigProblems, ConfigView, Document, expected, template_key};
use crate::failure_mode::FailureMode;
use crate::limit::LimitPlan;
use crate::pipeline::PipelineInput;
use crate::pipeline::draft::PipelineDraft;

/// The fields that a request shows to the limits of a [`ForwardPlan`].
pub const FORWARD_FIELDS: [&str; 8] = [
    "client.ip",
    "http.host",
    "http.method",
    "http.path",
    "http.path_normal",
    "http.query",
    "http.agent",
    "http.referer",
];

/// A field of the event that is taken from the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardField {
    /// The name of the field.
    pub name: String,
    /// The place in the request where the value is.
    pub source: ForwardSource,
    /// True if the event gets a keyed hash instead of the value.
    pub is_hashed: bool,
}

/// A place in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardSource {
    /// A header field, by its name in lower case.
    Header(String),
    /// A cookie.
    Cookie(String),
    /// The first bytes of the body, where the proxy sends them.
    Body,
}

/// An answer that a client gets to a request that is refused silently: it looks like the application's to one that passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentAnswer {
    /// Its status.
    pub status: u16,
    /// The field `Location`.
    pub location: Option<String>,
    /// The field `Content-Type`.
    pub content_type: Option<String>,
    /// The body.
    pub body: String,
    /// The time from the request on in which the application answers at best.
    pub earliest: Duration,
    /// The time in which it does at worst.
    pub latest: Duration,
}

/// Longest time that an answer is held back. Proxies wait a little longer, by the documents, and then let the request pass.
const SILENT_LATEST_MAX: Span = Span(200_000);
/// Most bytes of the body of an answer to a request that is refused silently.
const SILENT_BODY_BYTES_MAX: usize = 16 << 10;

/// Most fields that are taken from a request.
const FORWARD_FIELDS_MAX: usize = 32;

/// The check that proxies may ask for before they hand a request on.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardPlan {
    /// Its name in the URL.
    pub name: String,
    /// The proxies: who may ask, and whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Networks,
    /// Names of limits that each request takes from.
    pub limits: Vec<String>,
    /// Name of the pipeline that decides, if there is one.
    pub pipeline: Option<String>,
    /// The status of a request that is over a limit.
    pub refuse: u16,
    /// The answer to a request that cannot be decided on: the strictest of its limits and its pipeline.
    pub on_error: FailureMode,
    /// Fields of the event that are taken from the request.
    pub fields: Vec<ForwardField>,
    /// Most bytes of the body that are read; 0 where no field is taken from it.
    pub body_max: usize,
    /// The owner's mail address or URL, for visitors who are challenged.
    pub contact: Option<String>,
    /// The owner's layout of the page for visitors who are challenged.
    pub template: Option<Arc<PageTemplate>>,
    /// The answer to requests that write and are refused silently; `None` if the application gives it.
    pub silent: Option<SilentAnswer>,
    /// The field in which the proxy tells the site's load, in lower case.
    pub load_field: Option<String>,
    /// Requests a second that the site is made for.
    pub capacity: Option<f64>,
}

/// The settings of the main file.
pub(super) fn compile(
    document: &Document,
    drafts: &[PipelineDraft<'_>],
    limits: &[Arc<LimitPlan>],
    problems: &mut ConfigProblems,
) -> Vec<ForwardPlan> {
    let mut names = HashSet::new();
    let mut plans = Vec::new();
    for view in document.list("forward_auth") {
        // What is absent here failed its check, and the plan is never used.
        let (Some(name), Some(refuse)) = (view.str("name"), view.integer("refuse")) else { continue };
        if !names.insert(name) {
            problems.add(view.origin("name"), format!("`{name}` is defined twice"), None);
        }
        let proxies = view.strings("trusted_proxies").into_iter();
        let proxies = proxies.filter_map(|(network, _)| network.parse::<Network>().ok());
        let taken = taken(&view, limits, problems);
        let pipeline = view.str("pipeline");
        if let Some(pipeline) = pipeline {
            let reads = |draft: &&PipelineDraft<'_>| draft.pipeline.input != PipelineInput::Message;
            let readers = drafts.iter().filter(reads).map(|draft| draft.pipeline.name.as_str());
            if !readers.clone().any(|reader| reader == pipeline) {
                let message = format!("no pipeline that reads requests is called `{pipeline}`");
                problems.add(view.origin("pipeline"), message, Some(expected(pipeline, readers)));
            }
        }
        if taken.is_empty() && pipeline.is_none() {
            let help = "add `limits = [...]`, or `pipeline = ...`".to_owned();
            problems.add(view.origin("name"), format!("`{name}` lets all through"), Some(help));
        }
        let limits_fail = limits.iter().filter(|limit| taken.iter().any(|name| **name == *limit.name));
        let deciding = drafts.iter().filter(|draft| Some(draft.pipeline.name.as_str()) == pipeline);
        let on_error = limits_fail
            .map(|limit| limit.on_error)
            .chain(deciding.map(|draft| draft.pipeline.on_error))
            .fold(FailureMode::Open, FailureMode::or);
        let fields = fields(&view, pipeline, drafts, problems);
        let is_body_read = fields.iter().any(|field| field.source == ForwardSource::Body);
        let body_max = view.size("body_max").filter(|_| is_body_read).unwrap_or_default();
        plans.push(ForwardPlan {
            name: name.to_owned(),
            trusted_proxies: Networks::new(proxies),
            limits: taken,
            pipeline: pipeline.map(str::to_owned),
            refuse: u16::try_from(refuse).unwrap_or(429),
            on_error,
            fields,
            body_max: usize::try_from(body_max).unwrap_or_default(),
            contact: view.str("contact").map(str::to_owned),
            template: template(document, name, &view, problems),
            silent: view.table("silent").and_then(|silent| silent_answer(&silent, refuse, problems)),
            load_field: view.str("load_field").map(str::to_ascii_lowercase),
            capacity: view.float("capacity").filter(|capacity| *capacity > 0.0),
        });
    }
    plans
}

/// Reads the answer to requests that are refused silently. `None`, and a problem, if no proxy could give it.
fn silent_answer(view: &ConfigView<'_>, refuse: i64, problems: &mut ConfigProblems) -> Option<SilentAnswer> {
    let status = u16::try_from(view.integer("status").unwrap_or(303)).ok()?;
    let (earliest, latest) = (view.span("earliest")?, view.span("latest")?);
    if latest > SILENT_LATEST_MAX || earliest > latest {
        let help = format!("`earliest` is at most `latest`, and that at most {SILENT_LATEST_MAX}");
        problems.add(view.origin("latest"), format!("{earliest} to {latest} cannot be waited"), Some(help));
        return None;
    }
    if status < 300 && refuse == 429 {
        let message = format!("a proxy takes an answer {status} for a pass");
        let help = "behind nginx write `refuse = 403` beside it; elsewhere use a status of 300 to 399";
        problems.add(view.origin("status"), message, Some(help.to_owned()));
    }
    for key in ["location", "content_type"] {
        let is_field =
            |text: &str| text.len() <= 1024 && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if view.str(key).is_some_and(|text| !is_field(text)) {
            let help = "write up to 1,024 printable characters of ASCII, others percent-encoded".to_owned();
            problems.add(view.origin(key), format!("`{key}` cannot be a header field"), Some(help));
        }
    }
    if (300..400).contains(&status) && view.str("location").is_none() {
        let help = "add `location = \"/...\"`: where the application sends a client after a form".to_owned();
        problems.add(view.origin("status"), format!("an answer {status} has no `location`"), Some(help));
    }
    let body = view.str("body").unwrap_or_default();
    if body.len() > SILENT_BODY_BYTES_MAX {
        let help = format!("at most {SILENT_BODY_BYTES_MAX} are possible");
        problems.add(view.origin("body"), format!("`body` has {} bytes", body.len()), Some(help));
    }
    let time = |span: Span| Duration::from_micros(u64::try_from(span.0).unwrap_or_default());
    Some(SilentAnswer {
        status,
        location: view.str("location").map(str::to_owned),
        content_type: view.str("content_type").map(str::to_owned),
        body: body.to_owned(),
        earliest: time(earliest),
        latest: time(latest),
    })
}

/// The owner's layout of a page; what is wrong with it is told of.
fn template(
    document: &Document,
    name: &str,
    view: &ConfigView<'_>,
    problems: &mut ConfigProblems,
) -> Option<Arc<PageTemplate>> {
    let file = document.list_file(&template_key(name))?;
    match PageTemplate::read(&file.text) {
        Ok(template) => Some(Arc::new(template)),
        Err(error) => {
            problems.add(view.origin("template"), format!("{}: {error}", file.name), None);
            None
        }
    }
}

/// The fields that a request gives.
fn fields(
    view: &ConfigView<'_>,
    pipeline: Option<&str>,
    drafts: &[PipelineDraft<'_>],
    problems: &mut ConfigProblems,
) -> Vec<ForwardField> {
    let Some(table) = view.table("fields") else { return Vec::new() };
    let deciding = drafts.iter().find(|draft| Some(draft.pipeline.name.as_str()) == pipeline);
    let mut fields = Vec::new();
    for (name, value) in table.facts() {
        let origin = table.origin(&name);
        let text = match &value {
            Value::String(text) => text.trim(),
            _ => "",
        };
        let (is_hashed, place) = match text.strip_prefix("hash ") {
            Some(place) => (true, place.trim_start()),
            None => (false, text),
        };
        let source = match place.split_once(' ') {
            Some(("header", name)) if is_token(name.trim()) => {
                ForwardSource::Header(name.trim().to_ascii_lowercase())
            }
            Some(("cookie", name)) if is_token(name.trim()) => ForwardSource::Cookie(name.trim().to_owned()),
            None if place == "body" => ForwardSource::Body,
            _ => {
                let help = "write `header NAME`, `cookie NAME` or `body`, with `hash` before it for a hash of the value";
                problems.add(origin, format!("`{name}` is taken from nowhere"), Some(help.to_owned()));
                continue;
            }
        };
        let schema = deciding.map(|draft| &draft.pipeline.schema);
        let Some(column) = schema.and_then(|schema| Some(schema.column(schema.slot(&name)?))) else {
            let help = "declare it in the pipeline: [[field]], type = \"string\"".to_owned();
            problems.add(origin, format!("the pipeline has no field `{name}`"), Some(help));
            continue;
        };
        if source == ForwardSource::Body && !is_hashed && column.journalled {
            let help =
                "bodies have passwords in them: `journal = false` in the [[field]] keeps it out".to_owned();
            problems.add(origin, format!("the body would be kept in the journal, as `{name}`"), Some(help));
        }
        fields.push(ForwardField { name, source, is_hashed });
    }
    if fields.len() > FORWARD_FIELDS_MAX {
        let help = format!("at most {FORWARD_FIELDS_MAX} are possible");
        problems.add(view.origin("fields"), format!("`fields` has {}", fields.len()), Some(help));
    }
    fields
}

/// Returns true if a text can be the name of a header field or a cookie (RFC 9110, 5.6.2).
fn is_token(name: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_sign)
}

fn taken(view: &ConfigView<'_>, limits: &[Arc<LimitPlan>], problems: &mut ConfigProblems) -> Vec<String> {
    named(view, limits, &FORWARD_FIELDS, "a request", problems)
}

/// The limits that a section names. Each, and those that are taken with it, must count by what is known there.
pub(super) fn named(
    view: &ConfigView<'_>,
    limits: &[Arc<LimitPlan>],
    fields: &[&str],
    what: &str,
    problems: &mut ConfigProblems,
) -> Vec<String> {
    let mut names = Vec::new();
    for (name, origin) in view.strings("limits") {
        let Some(limit) = limits.iter().find(|limit| *limit.name == *name) else {
            let help = expected(name, limits.iter().map(|limit| &*limit.name));
            problems.add(origin, format!("there is no limit `{name}`"), Some(help));
            continue;
        };
        let with = limits.iter().filter(|other| limit.also.iter().any(|also| **also == *other.name));
        for limit in std::iter::once(limit).chain(with) {
            if limit.when.is_some() {
                let message = format!("`when` of the limit `{}` has no meaning for {what}", limit.name);
                let help = "it is for events: ask for the limit in a rule, with `over(...)`, or name one without `when`";
                problems.add(origin, message, Some(help.to_owned()));
            }
            if let Some(field) = limit.key.iter().find(|field| !fields.contains(&field.name.as_str())) {
                let message =
                    format!("`{}` counts by `{}`, which {what} does not show", limit.name, field.name);
                problems.add(origin, message, Some(format!("it shows {}", fields.join(", "))));
            }
        }
        names.push(name.to_owned());
    }
    names
}
