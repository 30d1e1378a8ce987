//! The ban list: the labels that keys have, looked up, streamed, listed, put on and lifted.
//!
//! A stream is everything at the start of who polls it, then the changes since it last asked. Who asks is known by its key and
//! by its program's name.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::ready;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use content::network::without_full_length;
use engine::{Ban, BanChanges, BanList, BanScope};
use event::{Span, Time};
use futures_util::StreamExt;
use futures_util::stream::{once, unfold};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use utoipa::{IntoParams, ToSchema};

use super::{JsonBody, QueryParams};
use crate::api::{BanEntry, BanPage, LabelOutcome, LabelRequest, LiftOutcome, Timestamp};
use crate::core::grant::note;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, OVERLOADED, ProblemResponses, shown};
use crate::core::relay;

/// Most clients whose position in a stream is remembered. One that is forgotten gets everything anew.
const POSITIONS_MAX: usize = 1024;
/// Lists of decisions that may be on their way at once.
const FEEDS_MAX: usize = 16;
/// Lines that are sent at once.
const LINES: usize = 1000;
/// Clients that may wait for a change at once. Others are answered at once.
const WAITING_MAX: usize = 256;
/// Longest wait for a change.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The lists of bans that are being sent, and how far clients have read them.
#[derive(Debug)]
pub(super) struct BanFeeds {
    places: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    positions: StreamPositions,
}

impl Default for BanFeeds {
    fn default() -> BanFeeds {
        BanFeeds {
            places: Arc::new(Semaphore::new(FEEDS_MAX)),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            positions: StreamPositions::default(),
        }
    }
}

impl BanFeeds {
    /// A place for a list that may be long and that a client may take slowly.
    fn place(&self) -> Result<OwnedSemaphorePermit, HttpFailure> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            OVERLOADED.failure("too many lists of bans are being sent").help("try again a little later")
        })
    }
}

/// The positions up to which each client has read each stream.
#[derive(Debug, Default)]
struct StreamPositions(Mutex<HashMap<[u8; 32], u64>>);

impl StreamPositions {
    fn position(&self, client: &[u8; 32]) -> Option<u64> {
        self.0.lock().get(client).copied()
    }

    fn keep(&self, client: [u8; 32], position: u64) {
        let mut positions = self.0.lock();
        if positions.len() >= POSITIONS_MAX && !positions.contains_key(&client) {
            let furthest = positions.iter().min_by_key(|(_, position)| **position).map(|(client, _)| *client);
            furthest.map(|client| positions.remove(&client));
        }
        positions.insert(client, position);
    }
}

/// Names a client of a stream: the key that it shows, and its program's name.
fn client(stream: &str, headers: &HeaderMap) -> [u8; 32] {
    let mut digest = Sha256::new();
    let names = [header::HeaderName::from_static("x-api-key"), header::AUTHORIZATION, header::USER_AGENT];
    let values = names.map(|name| headers.get(name).map(header::HeaderValue::as_bytes).unwrap_or_default());
    for value in [&[stream.as_bytes()][..], &values].concat() {
        digest.update((value.len() as u64).to_le_bytes());
        digest.update(value);
    }
    digest.finalize().into()
}

/// A choice among bans, and the form in which a stream has them.
pub(super) trait BanForm: Send + 'static {
    /// The ban as it is written.
    type Item: Serialize;

    /// Returns the ban in this form, if it is wanted.
    fn item(&self, ban: &Ban, now: Time) -> Option<Self::Item>;
}

/// A choice among bans.
#[derive(Debug, Default)]
struct BanFilter {
    decision: Option<String>,
    label: Option<String>,
    pipeline: Option<String>,
}

impl BanFilter {
    fn takes(&self, ban: &Ban) -> bool {
        let fits = |wanted: &Option<String>, own: &str| wanted.as_ref().is_none_or(|wanted| wanted == own);
        let source = &ban.source;
        fits(&self.decision, &source.decision)
            && fits(&self.label, &source.label)
            && fits(&self.pipeline, &source.pipeline)
    }
}

impl BanForm for BanFilter {
    type Item = BanEntry;

    fn item(&self, ban: &Ban, _: Time) -> Option<BanEntry> {
        self.takes(ban).then(|| ban.into())
    }
}

/// A list of bans that is being sent: a page at a time is looked up and written, when the one before is taken.
struct BanStream<F> {
    node: Arc<Node>,
    feeds: Arc<BanFeeds>,
    form: F,
    now: Time,
    client: [u8; 32],
    changes: BanChanges,
    is_begun: bool,
    is_first: bool,
    is_over: bool,
    _place: Option<OwnedSemaphorePermit>,
}

impl<F: BanForm> BanStream<F> {
    fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.is_begun, true) {
            out.extend_from_slice(b"{\"new\":[");
        }
        let page = self.node.engine.ban_list().page(&mut self.changes.new, self.now);
        write(&self.form, &page, self.now, &mut self.is_first, &mut out);
        if self.changes.new.is_none() {
            out.extend_from_slice(b"],\"deleted\":[");
            write(&self.form, &self.changes.deleted, self.now, &mut true, &mut out);
            out.extend_from_slice(b"]}");
            // Who breaks off gets the same again.
            self.feeds.positions.keep(self.client, self.changes.next);
            self.is_over = true;
        }
        Some(out.into())
    }
}

/// Writes those bans that are wanted behind each other.
fn write(form: &impl BanForm, bans: &[Ban], now: Time, is_first: &mut bool, out: &mut Vec<u8>) {
    for item in bans.iter().filter_map(|ban| form.item(ban, now)) {
        if !std::mem::replace(is_first, false) {
            out.push(b',');
        }
        // Writing to a vector cannot fail, and no type here refuses to be written.
        let _ = serde_json::to_writer(&mut *out, &item);
    }
}

/// Answers with the changes since the same client last asked for this stream; with everything at its start.
pub(super) fn changes<F: BanForm>(
    node: Arc<Node>,
    feeds: Arc<BanFeeds>,
    stream: &str,
    form: F,
    is_startup: bool,
    wait: Duration,
    headers: &HeaderMap,
) -> Result<Response, HttpFailure> {
    let place = feeds.place()?;
    let client = client(stream, headers);
    let position = if is_startup { None } else { feeds.positions.position(&client) };
    let begin = move |node: Arc<Node>, feeds: Arc<BanFeeds>, place| {
        let (now, bans) = (node.now(), node.engine.ban_list());
        let changes = position.map_or_else(|| bans.held(now), |number| bans.since(number, now));
        let (is_begun, is_first, is_over) = (false, true, false);
        BanStream { node, feeds, form, now, client, changes, is_begun, is_first, is_over, _place: place }
    };
    let pages = |stream| unfold(stream, async |mut stream: BanStream<F>| Some((stream.next()?, stream)));
    // Who waits has the head of the answer already, and no place among requests or lists.
    if let Some(number) = position.filter(|number| !wait.is_zero() && !has_changed(&node, *number))
        && let Ok(waiting) = Arc::clone(&feeds.waiting).try_acquire_owned()
    {
        drop(place);
        let waited = once(async move {
            wait_for_change(&node, number, wait.min(WAIT_MAX)).await;
            drop(waiting);
            // The semaphore is never closed.
            let place = Arc::clone(&feeds.places).acquire_owned().await.ok();
            begin(node, feeds, place)
        });
        let body = Body::from_stream(waited.flat_map(pages).map(Ok::<_, Infallible>));
        return Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response());
    }
    let mut stream = begin(node, feeds, Some(place));
    // What fits into one page has a length.
    let first = stream.next().unwrap_or_default();
    let body = if stream.is_over {
        Body::from(first)
    } else {
        Body::from_stream(once(ready(first)).chain(pages(stream)).map(Ok::<_, Infallible>))
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Returns true if there are changes since a number.
fn has_changed(node: &Node, number: u64) -> bool {
    !node.engine.ban_list().since(number, node.now()).is_empty()
}

/// Waits until there are changes since a number, but for so long at most.
async fn wait_for_change(node: &Node, number: u64, at_most: Duration) {
    let end = Instant::now() + at_most;
    loop {
        // It is told of what happens from here on, so a change behind the look is not missed.
        let changed = node.engine.ban_list().changed();
        if has_changed(node, number) || timeout_at(end, changed).await.is_err() {
            return;
        }
    }
}

/// The changes to send.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct BanStreamParams {
    /// True for the whole list, and not only its changes.
    #[serde(default)]
    startup: bool,
    /// Milliseconds for which the answer waits for a change where there is none, at most 10,000.
    #[serde(default)]
    wait_ms: u32,
    /// Only bans of this type, such as `ban`.
    #[serde(rename = "type")]
    decision: Option<String>,
    /// Only the labels of this name.
    label: Option<String>,
    /// Only of this pipeline.
    pipeline: Option<String>,
}

/// Changes of the ban list, for the description of the interface: they are never in memory whole.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "it is written page by page")]
pub(super) struct BanUpdates {
    /// Bans that hold from now on.
    new: Vec<BanEntry>,
    /// Bans that hold no longer.
    deleted: Vec<BanEntry>,
}

/// Returns the changes of the ban list since this client last asked.
#[utoipa::path(
    get,
    path = "/v1/bans/stream",
    tag = "bans",
    operation_id = "bans_stream",
    params(BanStreamParams),
    responses((status = 200, description = "What has changed", body = BanUpdates), ProblemResponses),
)]
pub(super) async fn stream(
    State(node): State<Arc<Node>>,
    State(feeds): State<Arc<BanFeeds>>,
    QueryParams(params): QueryParams<BanStreamParams>,
    headers: HeaderMap,
) -> Result<Response, HttpFailure> {
    let BanStreamParams { startup, wait_ms, decision, label, pipeline } = params;
    let (filter, wait) = (BanFilter { decision, label, pipeline }, Duration::from_millis(wait_ms.into()));
    changes(node, feeds, "bans", filter, startup, wait, &headers)
}

/// The addresses to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct BanListParams {
    /// Only bans of this type, such as `ban`.
    #[serde(rename = "type")]
    decision: Option<String>,
    /// Only the labels of this name.
    label: Option<String>,
    /// Only of this pipeline.
    pipeline: Option<String>,
}

/// Lists banned addresses and networks, one a line, for `ipset`, nginx's `geo` and the like.
#[utoipa::path(
    get,
    path = "/v1/bans/ips",
    tag = "bans",
    operation_id = "bans_ips",
    params(BanListParams),
    responses(
        (status = 200, description = "One address or network a line", body = String, content_type = "text/plain"),
        ProblemResponses,
    ),
)]
pub(super) async fn ips(
    State(node): State<Arc<Node>>,
    State(feeds): State<Arc<BanFeeds>>,
    QueryParams(params): QueryParams<BanListParams>,
) -> Result<Response, HttpFailure> {
    let place = feeds.place()?;
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let BanListParams { decision, label, pipeline } = params;
    let filter = BanFilter { decision, label, pipeline };
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| addresses(engine.ban_list(), &filter, now, is_over);
    let values = node.scans.run(node.timeout() / 2, work).await?;
    let mut values = values.into_iter();
    let first = lines(&mut values);
    let body = if values.len() == 0 {
        Body::from(first)
    } else {
        let rest = unfold((values, place), async |(mut values, place)| {
            let lines = lines(&mut values);
            (!lines.is_empty()).then_some((lines, (values, place)))
        });
        Body::from_stream(once(ready(first)).chain(rest).map(Ok::<_, Infallible>))
    };
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}

/// The next values, one a line.
fn lines(values: &mut impl Iterator<Item = Arc<str>>) -> String {
    let mut lines = String::new();
    for value in values.take(LINES) {
        lines.push_str(&value);
        lines.push('\n');
    }
    lines
}

/// The addresses and networks that are wanted, in order, each once.
fn addresses(
    bans: &BanList,
    filter: &BanFilter,
    now: Time,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Vec<Arc<str>> {
    let mut rest = bans.held(now).new;
    let mut values = Vec::new();
    while rest.is_some() && !is_over() {
        let page = bans.page(&mut rest, now).into_iter();
        let wanted = page.filter(|ban| ban.scope != BanScope::Other && filter.takes(ban));
        values.extend(wanted.map(|ban| ban.value));
    }
    values.sort_unstable();
    values.dedup();
    values
}

/// The bans to look up.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct BanLookupParams {
    /// An address.
    pub(crate) ip: Option<String>,
    /// Any value, as the list has it.
    pub(crate) value: Option<String>,
    /// Only bans of this type, such as `ban`.
    #[serde(rename = "type")]
    pub(crate) decision: Option<String>,
    /// Only the labels of this name.
    pub(crate) label: Option<String>,
    /// Only of this pipeline.
    pub(crate) pipeline: Option<String>,
}

/// Returns the bans on an address and the networks that it is in, or else on a value; `None` if neither is named.
pub(super) fn held(
    bans: &BanList,
    ip: Option<&str>,
    value: Option<&str>,
    now: Time,
) -> Result<Option<Vec<Ban>>, HttpFailure> {
    let Some(ip) = ip else { return Ok(value.map(|value| bans.of_value(value, now))) };
    let address = without_full_length(ip).parse::<IpAddr>();
    let address =
        address.map_err(|_| INVALID_PARAMETER.failure(format!("ip: `{}` is no address", shown(ip))))?;
    Ok(Some(bans.of_address(address, now)))
}

/// Lists the bans on a value, including those on networks that an address is in.
#[utoipa::path(
    get,
    path = "/v1/bans",
    tag = "bans",
    operation_id = "bans",
    params(BanLookupParams),
    responses((status = 200, description = "Bans that hold", body = Vec<BanEntry>), ProblemResponses),
)]
pub(crate) async fn lookup(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<BanLookupParams>,
) -> Result<Json<Vec<BanEntry>>, HttpFailure> {
    let BanLookupParams { ip, value, decision, label, pipeline } = params;
    let now = node.now();
    let found = held(node.engine.ban_list(), ip.as_deref(), value.as_deref(), now)?.ok_or_else(|| {
        INVALID_PARAMETER
            .failure("ip: missing, and `value` too")
            .help("/v1/bans/stream?startup=true lists all bans")
    })?;
    let filter = BanFilter { decision, label, pipeline };
    let found = found.iter().filter(|ban| value.as_ref().is_none_or(|value| ban.is_of(value)));
    Ok(Json(found.filter_map(|ban| filter.item(ban, now)).collect()))
}

/// Bans of a page unless another number is asked for.
const PAGE: usize = 50;
/// Most bans of a page.
const PAGE_MAX: usize = 1000;

/// A search in the ban list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct BanSearchParams {
    /// Only bans in whose value, label or origin this stands, in letters of any size.
    pub(crate) text: Option<String>,
    /// Only bans of this type, such as `ban`.
    #[serde(rename = "type")]
    pub(crate) decision: Option<String>,
    /// Only the labels of this name.
    pub(crate) label: Option<String>,
    /// Only of this pipeline.
    pub(crate) pipeline: Option<String>,
    /// Most bans of the page, up to 1000; 50 if none is given.
    pub(crate) limit: Option<usize>,
    /// `next` of the page before.
    pub(crate) before: Option<u64>,
}

/// Searches the ban list, newest first. A page may come out short when its time is up; `next` continues.
#[utoipa::path(
    get,
    path = "/v1/bans/search",
    tag = "bans",
    operation_id = "bans_search",
    params(BanSearchParams),
    responses((status = 200, description = "A page of bans", body = BanPage), ProblemResponses),
)]
pub(crate) async fn search(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<BanSearchParams>,
) -> Result<Json<BanPage>, HttpFailure> {
    let BanSearchParams { text, decision, label, pipeline, limit, before } = params;
    let limit = limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(INVALID_PARAMETER.failure(format!("limit: expected 1 to {PAGE_MAX}")));
    }
    let text = text.map(|text| without_full_length(&text).to_lowercase());
    let filter = BanFilter { decision, label, pipeline };
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
        let list = engine.ban_list();
        let has = |own: &str, text: &String| own.to_lowercase().contains(text.as_str());
        let takes = |ban: &Ban| {
            let source = &ban.source;
            filter.takes(ban)
                && text.as_ref().is_none_or(|text| {
                    has(&ban.value, text) || has(&source.label, text) || has(&source.by, text)
                })
        };
        let (mut bans, mut next) = (Vec::new(), Some(before.unwrap_or(u64::MAX)));
        while let Some(before) = next.filter(|_| bans.len() < limit && !is_over()) {
            let (page, rest) = list.page_before(before, now);
            next = rest;
            for ban in page.iter().filter(|ban| takes(ban)) {
                if bans.len() == limit {
                    break;
                }
                bans.push(BanEntry::from(ban));
                if bans.len() == limit {
                    next = Some(ban.id);
                }
            }
        }
        BanPage { bans, next, all: list.size().0 }
    };
    Ok(Json(node.lookups.run(node.timeout() / 2, work).await?))
}

/// Longest reason of a ban.
const WHY_BYTES_MAX: usize = 1000;

/// Puts a label on a key, for rules and enforcement points.
#[utoipa::path(
    post,
    path = "/v1/bans",
    tag = "bans",
    operation_id = "ban",
    request_body = LabelRequest,
    responses((status = 200, description = "It holds", body = LabelOutcome), ProblemResponses),
)]
pub(crate) async fn label(
    State(node): State<Arc<Node>>,
    JsonBody(label): JsonBody<LabelRequest>,
) -> Result<Json<LabelOutcome>, HttpFailure> {
    let pipeline = node.pipeline(label.pipeline.as_deref())?;
    let LabelRequest { kind, label, value, lasts, why, .. } = label;
    let why = why.as_deref().map(str::trim).filter(|why| !why.is_empty());
    if why.is_some_and(|why| why.len() > WHY_BYTES_MAX) {
        return Err(INVALID_PARAMETER.failure(format!("why: it has more than {WHY_BYTES_MAX} bytes")));
    }
    if lasts.0 <= Span::ZERO {
        return Err(INVALID_PARAMETER.failure("for: expected a length of time such as `4h`"));
    }
    note("pipeline", pipeline.name.clone());
    note("label", label.clone());
    note("kind", kind.clone());
    note("value", value.clone());
    note("for", lasts.to_string());
    why.into_iter().for_each(|why| note("why", why));
    let held = node.engine.mark(&pipeline, &kind, &label, &value, (lasts.0, why), node.now());
    let (until, value) = held.await?;
    let unshared = !relay::wait_until_shared(&node, &value).await;
    Ok(Json(LabelOutcome { until: Timestamp(until), value, unshared }))
}

/// The value to lift.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LiftParams {
    /// The address, network or other piece, as the list has it.
    pub(crate) value: String,
}

/// Lifts the bans on a value: its labels with a `decision` end now, for enforcement points and rules.
#[utoipa::path(
    delete,
    path = "/v1/bans",
    tag = "bans",
    operation_id = "lift_bans",
    params(LiftParams),
    responses((status = 200, description = "How many bans were lifted", body = LiftOutcome), ProblemResponses),
)]
pub(crate) async fn lift(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<LiftParams>,
) -> Result<Json<LiftOutcome>, HttpFailure> {
    note("value", params.value.clone());
    let lifted = node.engine.lift(&params.value, node.now()).await?;
    let unshared = !relay::wait_until_shared(&node, &params.value).await;
    Ok(Json(LiftOutcome { lifted, unshared }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_bounded() {
        let positions = StreamPositions::default();
        let named = |number: u64| *number.to_le_bytes().repeat(4).first_chunk().unwrap();
        for number in 0..=POSITIONS_MAX as u64 {
            positions.keep(named(number), number);
        }
        assert_eq!(positions.position(&named(0)), None, "the one that was furthest behind is forgotten");
        let last = POSITIONS_MAX as u64;
        assert_eq!(positions.position(&named(last)), Some(last));
    }
}
