//! Block lists: read in the background from the files and URLs that the configuration names, and from nowhere else.
//!
//! ```text
//! twice a second ─► due, or the file has changed? ─► read a line at a time ─► in force, or what was read before until it expires
//! ```
//!
//! No request waits for it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use engine::BLOCK_LIST_ENTRIES_MAX;
use plan::formats::block_list::{self, BadLines, BlockListEntry};
use plan::{BlockListPlan, BlockListSource};

use crate::core::blocking::blocking;
use crate::core::http_client::http_client;
use crate::core::node::Node;

/// The interval at which it is looked which lists are due.
const LOOK: Duration = Duration::from_millis(500);
/// The shortest time between two fetches that fail.
const PAUSE: Duration = Duration::from_secs(60);
/// The time for one fetch.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Most bytes of a list.
const BYTES_MAX: u64 = 512 << 20;
/// Entries for which room is made at once.
const ENTRIES: usize = 4096;

/// A list's place as it was read last.
struct ReadList {
    plan: BlockListPlan,
    stamp: Option<(SystemTime, u64)>,
    due: Instant,
}

/// Keeps block lists as they are published, until the server ends.
pub(crate) async fn keep(node: Arc<Node>) {
    let mut known: HashMap<Arc<str>, ReadList> = HashMap::new();
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let plan = node.engine.plan();
        if plan.block_lists.is_empty() && known.is_empty() {
            continue;
        }
        known.retain(|name, read| {
            plan.block_lists.iter().any(|list| list.name == *name && *list == read.plan)
        });
        for list in &plan.block_lists {
            let stamp = stamp(list).await;
            let is_due = known.get(&list.name).is_none_or(|read| match list.source {
                BlockListSource::Url(_) => Instant::now() >= read.due,
                // What cannot be looked at is tried again at its time.
                BlockListSource::File(_) => {
                    read.stamp != stamp || (stamp.is_none() && Instant::now() >= read.due)
                }
            });
            if is_due {
                let wait = read(&node, list).await;
                let read = ReadList { plan: list.clone(), stamp, due: Instant::now() + wait };
                known.insert(Arc::clone(&list.name), read);
            }
        }
        let (engine, now) = (Arc::clone(&node.engine), node.now());
        blocking(move || engine.keep_block_lists(now)).await;
    }
}

/// The time at which a file was changed, and its length.
async fn stamp(list: &BlockListPlan) -> Option<(SystemTime, u64)> {
    let BlockListSource::File(path) = &list.source else { return None };
    let path = path.clone();
    let known = blocking(move || std::fs::metadata(path)).await.ok()?;
    Some((known.modified().ok()?, known.len()))
}

/// Reads a list and puts it in force. Answers when it is due again.
async fn read(node: &Arc<Node>, list: &BlockListPlan) -> Duration {
    let (engine, own, now) = (Arc::clone(&node.engine), list.clone(), node.now());
    let done = blocking(move || -> io::Result<(usize, BadLines)> {
        let (entries, bad) = entries(&own)?;
        Ok((engine.put_block_list(&own, entries, now), bad))
    });
    let refresh = Duration::from_micros(list.refresh.0.unsigned_abs());
    let (result, wait) = match done.await {
        Ok((ranges, bad)) => {
            node.block_lists.set_ranges(&list.name, ranges);
            for (line, why) in &bad.named {
                tracing::warn!(list = %list.name, line, why, "a line of a block list is passed over");
            }
            (if bad.count > 0 { "bad-lines" } else { "ok" }, refresh)
        }
        Err(error) => {
            tracing::warn!(list = %list.name, %error, "a block list cannot be read");
            ("failed", refresh.min(PAUSE))
        }
    };
    node.block_lists.count_read(&list.name, result);
    wait
}

fn entries(list: &BlockListPlan) -> io::Result<(Vec<BlockListEntry>, BadLines)> {
    match &list.source {
        BlockListSource::File(path) => collect(File::open(path)?, list),
        BlockListSource::Url(url) => {
            let mut answer = http_client(None, TIMEOUT, false).get(url).call().map_err(io::Error::other)?;
            collect(answer.body_mut().with_config().limit(BYTES_MAX + 1).reader(), list)
        }
    }
}

fn collect(reader: impl Read, list: &BlockListPlan) -> io::Result<(Vec<BlockListEntry>, BadLines)> {
    let mut entries = Vec::with_capacity(ENTRIES);
    let mut limited = reader.take(BYTES_MAX);
    let bad = block_list::read(BufReader::with_capacity(256 << 10, &mut limited), list.format, |entry| {
        entries.push(entry);
        entries.len() <= BLOCK_LIST_ENTRIES_MAX
    })?;
    // Half a list would let the other half in.
    if limited.limit() == 0 {
        return Err(io::Error::other("the list is longer than 512 MiB"));
    }
    // A page that says that something went wrong is no list, and lets nobody in.
    if let (true, Some((line, why))) = (entries.is_empty(), bad.named.first()) {
        return Err(io::Error::other(format!("no line of it is an entry, as line {line}: {why}")));
    }
    Ok((entries, bad))
}

#[cfg(test)]
mod tests {
    use event::Span;

    use super::*;

    #[test]
    fn a_page_that_is_no_list_takes_the_place_of_none() {
        let list = BlockListPlan {
            name: "published".into(),
            source: BlockListSource::Url("http://127.0.0.1/".to_owned()),
            format: None,
            refresh: Span::hours(1),
            expires: Span::hours(2),
            action: None,
        };
        let check = |text: &str, expected: Option<usize>| {
            let read = collect(text.as_bytes(), &list).ok().map(|(entries, _)| entries.len());
            assert_eq!(read, expected, "{text:?}");
        };
        check("192.0.2.1\n198.51.100.0/24\n", Some(2));
        check("192.0.2.1\n<p>\n", Some(1));
        check("# nobody today\n", Some(0));
        check("", Some(0));
        for page in ["<!DOCTYPE html>\n<p>503</p>\n", "Too many requests\n"] {
            check(page, None);
        }
    }
}
