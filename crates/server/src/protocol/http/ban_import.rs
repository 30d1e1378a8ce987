//! The import of a block list: its entries are banned, a thousand at a time, until the list or the time is over.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use engine::{BANS_AT_ONCE, CheckedBan};
use event::Span;
use plan::formats::block_list::{self, BadLines, BlockListEntry, BlockListFormat};
use serde::Deserialize;
use utoipa::IntoParams;

use super::QueryParams;
use crate::api::{BadLineJson, BanImportJson, ImportedEntryJson, Length, RefusedEntryJson};
use crate::core::grant::note;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_BODY, INVALID_PARAMETER, ProblemResponses, TOO_LARGE};
use crate::core::relay;

/// Most entries of a list.
pub(crate) const ENTRIES_MAX: usize = 100_000;
/// Entries that are shown, and refused ones and lines that are named; more are only counted.
const NAMED_MAX: usize = 20;
/// The braces of a list in JSON, which is one value: an entry has a few beside its own.
const BRACES_MAX: usize = 16 * ENTRIES_MAX;

/// The parameters of an import.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct BanImportParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
    /// The kind of the keys; `ip` if none is named.
    pub(crate) kind: Option<String>,
    /// The label, one with a `decision`.
    pub(crate) label: String,
    /// The time for which entries hold that have none of their own, such as `7d`; at most the label's `keep`.
    #[serde(rename = "for")]
    pub(crate) lasts: String,
    /// `plain`, `cidr`, `firehol`, `spamhaus-drop`, `spamhaus-json`, `ipset`, `crowdsec-json` or `crowdsec-csv`; by its beginning if none
    /// is named.
    pub(crate) format: Option<String>,
    /// Entries to pass over: `passed` of an answer that says why it `stopped`.
    pub(crate) from: Option<usize>,
    /// True to see what would be banned, and to ban nothing.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// Bans the addresses and networks of a list, of at most 100,000: plain, CIDR, FireHOL, Spamhaus DROP, ipset, or decisions of CrowdSec.
/// The body is the list. Refused entries, such as those on the allow list, and lines that are no entries are passed over and
/// named. It stops when half of `timeout` is over, and says how far it has come.
#[utoipa::path(
    post,
    path = "/v1/bans/import",
    tag = "bans",
    operation_id = "import_bans",
    params(BanImportParams),
    request_body(content = String, content_type = "text/plain"),
    responses((status = 200, description = "What was banned, and what was not", body = BanImportJson), ProblemResponses),
)]
pub(crate) async fn import(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<BanImportParams>,
    list: Bytes,
) -> Result<Json<BanImportJson>, HttpFailure> {
    let (begun, patience) = (Instant::now(), node.timeout() / 2);
    let pipeline = node.pipeline(params.pipeline.as_deref())?;
    let BanImportParams { kind, label, lasts, format, from, dry_run, .. } = params;
    let kind = kind.unwrap_or_else(|| "ip".to_owned());
    let lasts: Span = lasts.parse().map_err(|error| INVALID_PARAMETER.failure(format!("for: {error}")))?;
    if lasts <= Span::ZERO {
        return Err(INVALID_PARAMETER.failure("for: expected a length of time such as `4h`"));
    }
    let format = format.map(|name| {
        BlockListFormat::named(&name).ok_or_else(|| {
            let known = BlockListFormat::NAMES.map(|(name, _)| name).join(", ");
            INVALID_PARAMETER.failure(format!("format: expected one of: {known}"))
        })
    });
    let format = format.transpose()?;
    let target = node.engine.ban_target(&pipeline, &kind, &label)?;
    note("pipeline", pipeline.name.clone());
    note("label", label.clone());
    note("kind", kind.clone());
    note("for", lasts.to_string());
    let read = move |_: &(dyn Fn() -> bool + Sync)| entries(&list, format);
    let (entries, bad) = node.lookups.run(patience, read).await??;
    let mut answer = BanImportJson {
        entries: entries.len(),
        passed: from.unwrap_or(0).min(entries.len()),
        bad_lines: bad.count,
        ..BanImportJson::default()
    };
    let named = bad.named.into_iter().take(NAMED_MAX);
    answer.bad = named.map(|(line, detail)| BadLineJson { line, detail }).collect();
    for part in entries.get(answer.passed..).unwrap_or_default().chunks(BANS_AT_ONCE) {
        if begun.elapsed() >= patience || node.is_stopping() {
            answer.stopped = Some("its time was over".to_owned());
            break;
        }
        let mut checked: Vec<(CheckedBan, Span)> = Vec::with_capacity(part.len());
        let (first, refusals) = (answer.first.len(), answer.refusals.len());
        let mut refused = 0;
        for entry in part {
            let value = entry.network.to_string();
            match node.engine.check_ban(&target, &value) {
                Ok(ban) => {
                    if answer.first.len() < NAMED_MAX {
                        let value = ban.value().to_owned();
                        answer.first.push(ImportedEntryJson { value, lasts: entry.lasts.map(Length) });
                    }
                    checked.push((ban, entry.lasts.unwrap_or(lasts)));
                }
                Err(error) => {
                    if !dry_run {
                        node.engine.count_refused_ban(&error);
                    }
                    refused += 1;
                    if answer.refusals.len() < NAMED_MAX {
                        let detail = HttpFailure::from(error).problem().detail;
                        answer.refusals.push(RefusedEntryJson { value, detail });
                    }
                }
            }
        }
        let banned = checked.len();
        let last = checked.last().map(|(ban, _)| ban.value().to_owned()).filter(|_| !dry_run);
        if let Some(last) = last {
            if let Err(error) = node.engine.keep_bans(&target, checked, None, node.now()).await {
                // What was done before is not to be lost sight of.
                if answer.passed == from.unwrap_or(0) {
                    return Err(error.into());
                }
                answer.first.truncate(first);
                answer.refusals.truncate(refusals);
                answer.stopped = Some(HttpFailure::from(error).problem().detail);
                break;
            }
            // Others hear of bans in their order. Where they cannot, that is waited for once.
            answer.unshared = answer.unshared || !relay::wait_until_shared(&node, &last).await;
        }
        answer.passed += part.len();
        answer.banned += banned;
        answer.refused += refused;
        // Others are worked on in between.
        tokio::task::yield_now().await;
    }
    note("entries", answer.entries.to_string());
    note("banned", if dry_run { "none: a dry run".to_owned() } else { answer.banned.to_string() });
    Ok(Json(answer))
}

/// Reads a list, of so many entries at most.
fn entries(
    list: &[u8],
    format: Option<BlockListFormat>,
) -> Result<(Vec<BlockListEntry>, BadLines), HttpFailure> {
    let too_many = || {
        let failure = TOO_LARGE.failure(format!("the list has more than {ENTRIES_MAX} entries"));
        failure.help("send parts of it; `tollhouse import bans` does that")
    };
    let format = format.unwrap_or_else(|| BlockListFormat::detect(list));
    let is_json = format == BlockListFormat::CrowdsecJson;
    if is_json && list.iter().filter(|byte| **byte == b'{').count() > BRACES_MAX {
        return Err(too_many());
    }
    let (mut entries, mut is_full) = (Vec::new(), false);
    let read = block_list::read(list, Some(format), |entry| {
        is_full = entries.len() >= ENTRIES_MAX;
        if !is_full {
            entries.push(entry);
        }
        !is_full
    });
    match read {
        Ok(bad) => Ok((entries, bad)),
        Err(_) if is_full => Err(too_many()),
        Err(error) => Err(INVALID_BODY.failure(format!("the list cannot be read: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_bounded() {
        let lines = |count: usize| {
            (0..count)
                .map(|number| format!("{}\n", std::net::Ipv4Addr::from_bits(number as u32 + 1)))
                .collect()
        };
        let whole: String = lines(ENTRIES_MAX);
        let (read, bad) = entries(whole.as_bytes(), None).unwrap();
        assert_eq!((read.len(), bad.count), (ENTRIES_MAX, 0));
        let check = |list: &[u8], format| {
            let failure = entries(list, format).unwrap_err().problem();
            assert_eq!(failure.status, 413, "{}", failure.detail);
        };
        let more: String = lines(ENTRIES_MAX + 1);
        check(more.as_bytes(), None);
        check("[".chars().chain("{},".repeat(BRACES_MAX + 1).chars()).collect::<String>().as_bytes(), None);
        // A range is many entries.
        check("192.0.2.1-198.51.100.7\n".repeat(ENTRIES_MAX).as_bytes(), Some(BlockListFormat::Plain));
        assert_eq!(entries(b"[{]", None).unwrap_err().problem().status, 400);
    }
}
