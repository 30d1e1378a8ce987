//! Calls of the engine, in time.

use engine::Engine;
use event::Time;
use tokio::time::timeout;

use super::RespContext;
use crate::core::listener_context::DecisionFailure;
use crate::core::shares::Caller;

pub(super) const BUSY: &str = "BUSY the node is overloaded, try again later";

/// Has the engine do something in time, if there is a place for it. What is not done by then is left.
pub(super) async fn in_time<'e, T, W>(
    listener: &'e RespContext,
    caller: Caller,
    work: impl FnOnce(&'e Engine, Time) -> W,
) -> Result<T, String>
where
    W: Future<Output = T>,
{
    let _place = listener.place(caller).map_err(|_| BUSY.to_owned())?;
    let node = &listener.node;
    timeout(listener.timeout(), work(&node.engine, node.now())).await.map_err(|_| {
        let failure = DecisionFailure::Slow;
        node.metrics.listener_failure(&listener.plan.name, failure.name());
        format!("TRYAGAIN {failure}")
    })
}
