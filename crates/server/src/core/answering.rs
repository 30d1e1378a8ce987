//! Answers that cost much: kept ones are given where there are any, and are renewed behind the answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::core::admission::processor_time;
use crate::core::answer_cache::AnswerCache;
use crate::core::node::Node;
use crate::core::problem::HttpFailure;

/// Returns the answer to a query: one that was made a moment ago, which may then be renewed behind it, or one that is made for
/// this call in a place for costly calls, within so long.
pub(crate) async fn answered<Q, A, E>(
    node: &Arc<Node>,
    cache: fn(&Node) -> &AnswerCache<Q, A>,
    query: Q,
    longest: Duration,
    make: impl FnOnce(&Q, &(dyn Fn() -> bool + Sync)) -> Result<A, E> + Send + 'static,
) -> Result<Arc<A>, HttpFailure>
where
    Q: PartialEq + Send + 'static,
    A: Send + Sync + 'static,
    E: Send + 'static,
    HttpFailure: From<E>,
{
    let known = cache(node).of(&query, Instant::now());
    let at = Arc::clone(node);
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| -> Result<_, E> {
        let (begun, before) = (Instant::now(), processor_time());
        // Who has waited for others of the same gets theirs.
        if let Some(known) = cache(&at).young(&query, begun) {
            return Ok(known);
        }
        let is_over = || is_over() || begun.elapsed() >= longest;
        let made = Arc::new(make(&query, &is_over)?);
        cache(&at).keep(query, &made, (begun, processor_time().saturating_sub(before)));
        Ok(made)
    };
    let of = Arc::clone(node);
    let anew = async move { Ok::<_, HttpFailure>(of.scans.run(of.timeout() / 2, work).await??) };
    let Some(known) = known else { return anew.await };
    if known.is_to_renew {
        tokio::spawn(async move {
            if let Err(failure) = anew.await {
                tracing::debug!("an answer is not renewed: {}", failure.problem().detail);
            }
        });
    }
    Ok(known.made)
}
