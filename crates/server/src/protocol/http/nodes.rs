//! The nodes that share statistics.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use event::Time;
use journal::NodeNumber;

use crate::api::{self, Timestamp};
use crate::core::grant::note;
use crate::core::node::Node;
use crate::core::peers::{ModelEntry, NodeEntry};
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, ProblemResponses, shown};
use crate::core::relay;

/// Lists the nodes that share this one's statistics, itself included: the address of each, and what it runs. A node with
/// its own statistics is alone.
#[utoipa::path(
    get,
    path = "/v1/nodes",
    tag = "node",
    responses((status = 200, description = "The nodes", body = api::NodesJson), ProblemResponses),
)]
pub(crate) async fn nodes(State(node): State<Arc<Node>>) -> Json<api::NodesJson> {
    let own = node.engine.node_registry().map(|registry| registry.number());
    let known = node.peers.nodes();
    let this = described(own, &node.entry(None, 0), None, true);
    let others = known.iter().filter(|(number, _)| Some(**number) != own);
    let others = others.map(|(number, peer)| {
        described(Some(*number), &peer.entry, Some(peer.silent_for()), !peer.is_away())
    });
    let this = api::NodeJson { url: own.and_then(|own| known.get(&own)?.entry.url.clone()), ..this };
    let mut nodes: Vec<api::NodeJson> = std::iter::once(this).chain(others).collect();
    nodes.sort_by_key(|node| node.number);
    Json(api::NodesJson { nodes })
}

/// Removes a dead node from the list. Its number is not reused; if it returns, it is listed again.
#[utoipa::path(
    delete,
    path = "/v1/nodes/{number}",
    tag = "node",
    operation_id = "forget_node",
    params(("number" = u16, Path, description = "The number of the node")),
    responses((status = 200, description = "The nodes by now", body = api::NodesJson), ProblemResponses),
)]
pub(crate) async fn forget(
    State(node): State<Arc<Node>>,
    Path(number): Path<String>,
) -> Result<Json<api::NodesJson>, HttpFailure> {
    note("node", number.clone());
    let read = number.parse().ok().and_then(NodeNumber::new);
    let read = read.ok_or_else(|| {
        INVALID_PARAMETER.failure(format!("number: `{}` is no number of a node", shown(&number)))
    })?;
    relay::forget(&node, read).await?;
    Ok(nodes(State(node)).await)
}

/// Returns a node by what it says of itself; `silent` is for another one than the one that is asked.
fn described(
    number: Option<NodeNumber>,
    entry: &NodeEntry,
    silent: Option<Duration>,
    is_alive: bool,
) -> api::NodeJson {
    let state = match (silent, is_alive, &entry.unready) {
        (None, ..) => "here",
        (Some(_), false, _) => "away",
        (Some(_), true, None) => "ready",
        (Some(_), true, Some(_)) => "unready",
    };
    api::NodeJson {
        number: number.map(NodeNumber::get),
        name: entry.name.clone(),
        url: entry.url.clone(),
        release: entry.release.clone(),
        started: Timestamp(Time(entry.started)),
        state: state.to_owned(),
        silent: silent.map(|silent| silent.as_secs_f64()),
        unready: entry.unready.clone(),
        conditions: entry.conditions.clone(),
        rules: entry.rules,
        pipelines: entry.pipelines.clone(),
        models: entry.models.iter().map(|(name, model)| (name.clone(), model_json(model))).collect(),
    }
}

fn model_json(&ModelEntry { version, lag, waiting }: &ModelEntry) -> api::SharedModelJson {
    api::SharedModelJson { version, lag, waiting }
}
