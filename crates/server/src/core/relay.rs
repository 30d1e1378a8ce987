//! A node among others: it says that it is there, takes over the rules that others have posted, and asks them for what they have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::{Method, StatusCode};
use engine::{Impact, ShardHealth, SharedModelState};
use futures_util::future::join_all;
use journal::NodeNumber;
use plan::ClusterPlan;
use tokio::time::{sleep, timeout};

use crate::core::blocking::blocking;
use crate::core::node::Node;
use crate::core::peers::{
    BEAT, ModelEntry, NodeEntry, NodeRequest, NodeResponse, PeerNode, SHARE, send, sign,
};
use crate::core::problem::{CONFLICT, HttpFailure, NOT_FOUND, UNAVAILABLE};
use crate::core::reload::log_reload;

/// The time without an answer of the registry after which the node's conditions say so.
const LOST_AFTER: Duration = Duration::from_secs(10);
/// The time in which what is posted is in force everywhere, or the nodes are named on which it is not.
const RULES_WITHIN: Duration = Duration::from_secs(3);
/// The name of the condition of a node that cannot take over what others have posted.
const BEHIND: &str = "rules-behind";
/// Most models that a node says something of in its entry, which has a bound.
const MODELS_ANNOUNCED_MAX: usize = 64;
/// The time in which a ban that is made or lifted by hand is where all nodes share it, or the answer says that it is not.
const BANS_WITHIN: Duration = Duration::from_secs(1);
/// The name of the condition of a node whose bans others do not hear of, or that does not hear of theirs.
const UNSHARED: &str = "bans-unshared";
/// The time for which a shard does not answer until the node's conditions say so: longer than one answer takes.
const SHARD_LOST_AFTER: Duration = Duration::from_secs(2);
/// Most shards that a condition names.
const SHARDS_NAMED_MAX: usize = 8;
/// The name of the condition of a node of whose shards some do not answer.
const UNREACHABLE: &str = "cluster-unreachable";
/// The name of the condition of a node that does not hear of others.
const CONDITION: &str = "nodes-unknown";

/// Says once that this node is there, and hears of the others. Does nothing for a node of its own.
pub(crate) async fn announce(node: &Arc<Node>, url: Option<&str>, beat: u64) {
    if node.engine.node_registry().is_none() {
        return;
    }
    let Ok(entry) = serde_json::to_string(&node.entry(url, beat)) else { return };
    let engine = Arc::clone(&node.engine);
    let entries = blocking(move || engine.node_registry().map(|registry| registry.announce(entry))).await;
    let lost = match entries {
        Some(Ok(entries)) => {
            node.peers.update(entries);
            None
        }
        Some(Err(why)) => {
            let silent = node.peers.unheard_for();
            tracing::debug!(%why, "the registry of nodes cannot be asked");
            (silent >= LOST_AFTER).then(|| {
                format!(
                    "the registry of nodes in the cluster was last reached {} s ago: {why}",
                    silent.as_secs()
                )
            })
        }
        None => None,
    };
    node.engine.health().set(CONDITION, Impact::Degraded, lost);
}

/// The shards that do not answer, each with the time since when.
#[derive(Default)]
pub(crate) struct SilentShards(BTreeMap<String, Instant>);

/// Asks the shards, and says which have not answered for a while. Does nothing for a node of its own.
pub(crate) async fn watch_shards(node: &Arc<Node>, silent: &mut SilentShards) {
    if node.engine.shard_monitor().is_none() {
        return;
    }
    let engine = Arc::clone(&node.engine);
    let shards =
        blocking(move || engine.shard_monitor().map(|monitor| monitor.shards()).unwrap_or_default()).await;
    let (away, impact) = silent.judge(&shards, Instant::now(), node.engine.plan().node.cluster.as_ref());
    node.engine.health().set(UNREACHABLE, impact, away);
}

impl SilentShards {
    /// Returns what is wrong, if something is, and its impact.
    fn judge(
        &mut self,
        shards: &[ShardHealth],
        now: Instant,
        plan: Option<&ClusterPlan>,
    ) -> (Option<String>, Impact) {
        self.0.retain(|name, _| shards.iter().any(|shard| shard.name == *name && shard.failure.is_some()));
        let mut away = Vec::new();
        for ShardHealth { name, failure } in shards {
            let Some(why) = failure else { continue };
            let since = *self.0.entry(name.clone()).or_insert(now);
            if now.saturating_duration_since(since) >= SHARD_LOST_AFTER {
                away.push(format!("{name} ({why})"));
            }
        }
        let is_unready = plan.is_some_and(|plan| plan.unready.is_unready(away.len(), shards.len()));
        let told = (!away.is_empty()).then(|| {
            let (count, all) = (away.len(), shards.len());
            away.truncate(SHARDS_NAMED_MAX);
            format!(
                "{count} of {all} shards do not answer: {}; readings of their keys are missing, and `on_error` decides: \
                 bring the servers back, or let replicas take over",
                away.join(", ")
            )
        });
        (told, if is_unready { Impact::Unready } else { Impact::Degraded })
    }
}

/// Takes over what other nodes have posted since the last look. What does not fit here is a condition of the node.
pub(crate) async fn adopt_rules(node: &Arc<Node>) {
    if node.engine.node_registry().is_none() {
        return;
    }
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let behind = blocking(move || match engine.adopt_posted(now) {
        Ok(None) => None,
        Ok(Some(reloaded)) => {
            log_reload(&Ok(reloaded));
            None
        }
        Err(error) => {
            tracing::debug!(%error, "what other nodes have posted is not in force here");
            Some(format!("what other nodes have posted is not in force here: {error}"))
        }
    });
    node.engine.health().set(BEHIND, Impact::Degraded, behind.await);
}

/// Sends what was taught here to the other nodes, and learns what they have taught. What cannot be is a condition of the node.
pub(crate) async fn exchange_examples(node: &Arc<Node>) {
    if node.engine.node_registry().is_none() {
        return;
    }
    let engine = Arc::clone(&node.engine);
    if let Err(why) = blocking(move || engine.exchange_examples()).await {
        tracing::debug!(%why, "linear models are not as other nodes have them");
    }
}

/// Tells other nodes of this one's bans, and takes over theirs. Does nothing for a node of its own.
pub(crate) async fn share(node: &Arc<Node>) {
    if node.engine.node_registry().is_none() {
        return;
    }
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let shared = blocking(move || engine.share(now)).await;
    let fault = match shared {
        // Somebody else is at it.
        Ok(false) => return,
        Ok(true) => {
            node.peers.shared();
            let (_, refused) = node.engine.unshared_changes();
            (refused > 0).then(|| {
                format!(
                    "{refused} bans hold on the nodes that made them alone: the list that nodes share is full; let bans end earlier"
                )
            })
        }
        Err(why) => {
            let silent = node.peers.unshared_for();
            tracing::debug!(%why, "bans cannot be shared");
            let (waiting, _) = node.engine.unshared_changes();
            (silent >= LOST_AFTER).then(|| {
                format!(
                    "bans were last shared with other nodes {} s ago, and {waiting} hold here alone: {why}",
                    silent.as_secs()
                )
            })
        }
    };
    node.engine.health().set(UNSHARED, Impact::Degraded, fault);
}

/// Waits until other nodes can hear of what was done about a value on the ban list; returns false if they cannot after a while.
pub(crate) async fn wait_until_shared(node: &Arc<Node>, value: &str) -> bool {
    let begun = Instant::now();
    loop {
        if node.engine.ban_list().is_shared(value) {
            return true;
        }
        let left = BANS_WITHIN.saturating_sub(begun.elapsed());
        if left.is_zero() || timeout(left, share(node)).await.is_err() {
            return node.engine.ban_list().is_shared(value);
        }
        if !node.engine.ban_list().is_shared(value) {
            sleep(SHARE / 10).await;
        }
    }
}

/// Takes a node that is gone for good out of the list.
///
/// # Errors
/// If it is there, or there is no such node, and where the registry cannot be asked.
pub(crate) async fn forget(node: &Arc<Node>, number: NodeNumber) -> Result<(), HttpFailure> {
    let own = node.engine.node_registry().map(|registry| registry.number());
    let known = node.peers.nodes();
    let none =
        || NOT_FOUND.failure(format!("there is no node {}", number.get())).help("`/v1/nodes` lists them");
    let peer = known.get(&number).ok_or_else(none)?;
    if own == Some(number) || !peer.is_away() {
        return Err(CONFLICT
            .failure(format!("node {} (`{}`) is there", number.get(), peer.entry.name))
            .help("stop it first; ten seconds after its last sign of life it is away"));
    }
    let engine = Arc::clone(&node.engine);
    let forgotten = blocking(move || engine.node_registry().map(|registry| registry.forget(number))).await;
    match forgotten {
        Some(Ok(true)) => {
            node.peers.forget(number);
            Ok(())
        }
        Some(Ok(false)) | None => Err(none()),
        Some(Err(why)) => {
            Err(UNAVAILABLE.failure(format!("the registry of nodes in the cluster cannot be asked: {why}")))
        }
    }
}

/// Waits until what this node has posted is in force on all nodes that are there, for a while; returns those on which it is not.
pub(crate) async fn wait_for_rules(node: &Arc<Node>) -> Vec<String> {
    let Some(own) = node.engine.node_registry().map(|registry| registry.number()) else { return Vec::new() };
    let posted = node.engine.shared_rules();
    let begun = Instant::now();
    loop {
        let others = node.peers.nodes().into_iter().filter(|(number, _)| *number != own);
        let behind = others.filter(|(_, peer)| peer.entry.rules < posted);
        let behind: Vec<(NodeNumber, PeerNode)> = behind.collect();
        let waits = behind.iter().any(|(_, peer)| !peer.is_away());
        if !waits || begun.elapsed() >= RULES_WITHIN {
            return behind.iter().map(|(number, peer)| name(*number, peer)).collect();
        }
        sleep(BEAT / 10).await;
    }
}

/// The name of a node, as answers have it.
fn name(number: NodeNumber, peer: &PeerNode) -> String {
    format!("{} ({})", number.get(), peer.entry.name)
}

impl Node {
    /// Returns the entry of this node: what it says of itself.
    pub(crate) fn entry(&self, url: Option<&str>, beat: u64) -> NodeEntry {
        let plan = self.engine.plan();
        let pipelines = plan.pipelines.iter();
        NodeEntry {
            name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            url: url.map(str::to_owned),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.started_at.0,
            beat,
            unready: self.unready(),
            conditions: self.engine.health().list().into_iter().map(|one| one.name.to_owned()).collect(),
            rules: self.engine.shared_rules(),
            pipelines: pipelines.map(|pipeline| (pipeline.name.clone(), pipeline.version.clone())).collect(),
            models: self.models(),
        }
    }

    /// The linear models that this node shares.
    fn models(&self) -> BTreeMap<String, ModelEntry> {
        let of = |(name, state): (String, SharedModelState)| {
            let SharedModelState { version, head, waiting, .. } = state;
            (name, ModelEntry { version, lag: head.saturating_sub(version), waiting })
        };
        let models = self.engine.shared_models().into_iter();
        models.take(MODELS_ANNOUNCED_MAX).map(of).collect()
    }

    /// Asks the node that has a record, where that is another one. `None` where it would be this one, or is none of those that share
    /// its statistics.
    ///
    /// # Errors
    /// Where the other node is away, or cannot be reached: what it has is not gone.
    pub(crate) async fn ask_owner(
        &self,
        owner: Option<NodeNumber>,
        request: NodeRequest,
    ) -> Option<Result<NodeResponse, HttpFailure>> {
        let owner = owner?;
        let peer = self.peers.other(&self.engine, owner)?;
        Some(self.ask_node(owner, peer, request).await)
    }

    /// Asks all other nodes that share this one's statistics to erase what they have, by the body of an order. Returns those that
    /// have begun it, and those that have not: they are away, or refuse it.
    pub(crate) async fn erase_elsewhere(&self, body: &Bytes) -> (Vec<String>, Vec<String>) {
        let (mut asked, mut missing) = (Vec::new(), Vec::new());
        let Some(own) = self.engine.node_registry().map(|registry| registry.number()) else {
            return (asked, missing);
        };
        for (number, peer) in self.peers.nodes().into_iter().filter(|(number, _)| *number != own) {
            let name = name(number, &peer);
            let request = NodeRequest {
                method: Method::POST,
                target: "/v1/erase".to_owned(),
                content_type: Some("application/json"),
                body: body.clone(),
            };
            match self.ask_node(number, peer, request).await {
                Ok(answer) if answer.status == StatusCode::ACCEPTED => asked.push(name),
                _ => missing.push(name),
            }
        }
        (asked, missing)
    }

    /// Returns the name of this node among those of a cluster, as answers have it: `3 (mail-3)`.
    pub(crate) fn own_name(&self) -> Option<String> {
        let own = self.engine.node_registry()?.number();
        Some(name(own, &self.peers.nodes().remove(&own)?))
    }

    /// Asks all other nodes for what is at a URL, at the same time; returns the name of each and its answer.
    pub(crate) async fn ask_others(&self, target: &str) -> Vec<(String, Result<NodeResponse, HttpFailure>)> {
        let Some(own) = self.engine.node_registry().map(|registry| registry.number()) else {
            return Vec::new();
        };
        let others = self.peers.nodes().into_iter().filter(|(number, _)| *number != own);
        let asked = others.map(|(number, peer)| {
            let request = NodeRequest {
                method: Method::GET,
                target: target.to_owned(),
                content_type: None,
                body: Bytes::new(),
            };
            async move {
                let name = name(number, &peer);
                (name, self.ask_node(number, peer, request).await)
            }
        });
        join_all(asked).await
    }

    async fn ask_node(
        &self,
        number: NodeNumber,
        peer: PeerNode,
        request: NodeRequest,
    ) -> Result<NodeResponse, HttpFailure> {
        let (number, name) = (number.get(), peer.entry.name.clone());
        let help = "`/v1/nodes` shows which nodes are there; ask again once it is back";
        let absent = |why: String| {
            UNAVAILABLE.failure(format!("this is with node {number} (`{name}`), which {why}")).help(help)
        };
        let silent = peer.silent_for().as_secs();
        let Some(url) = peer.entry.url else {
            return Err(
                absent("has no address for others".to_owned()).help("set `advertise` in its [cluster]")
            );
        };
        let time = self.now();
        let sender = self.engine.node_registry().map_or(0, |registry| registry.number().get());
        let signature = sign(&self.engine, sender, time, &request);
        let (agent, limit) = (self.peers.agent(), self.plan().body_max.saturating_mul(2));
        let patience = self.timeout() / 4;
        let asked =
            self.peers.places().run(patience, move |_| send(&agent, &url, &request, &signature, limit));
        // One that was not heard of may be there all the same: it is asked, and refuses at once where it is not.
        asked.await?.map_err(|why| {
            tracing::warn!(number, name, %why, "another node cannot be asked");
            absent(format!("does not answer, and was last heard of {silent} s ago"))
        })
    }
}

#[cfg(test)]
mod tests {
    use plan::{Config, Overrides, Plan};

    use super::*;

    fn plan(unready: &str) -> ClusterPlan {
        let text = format!("[cluster]\nnodes = [\"192.0.2.1:6379\"]\nunready = \"{unready}\"\n");
        let plan = Plan::compile(&Config::from_text("test.toml", &text, &Overrides::default()));
        plan.unwrap_or_else(|problems| panic!("{problems}")).node.cluster.unwrap()
    }

    #[test]
    fn shards_that_stay_silent_are_told_and_make_a_node_unready_as_configured() {
        let shards = |silent: &[usize]| -> Vec<ShardHealth> {
            let shard = |at: usize| ShardHealth {
                name: format!("shard{at}"),
                failure: silent.contains(&at).then(|| "no answer".to_owned()),
            };
            (0..3).map(shard).collect()
        };
        let start = Instant::now();
        let mut silent = SilentShards::default();
        let mut judge = |away: &[usize], seconds: u64, unready: &str| {
            let now = start + Duration::from_secs(seconds);
            silent.judge(&shards(away), now, Some(&plan(unready)))
        };
        assert_eq!(judge(&[], 0, "some"), (None, Impact::Degraded));
        assert_eq!(judge(&[1], 1, "some"), (None, Impact::Degraded), "it may be slow");
        assert_eq!(judge(&[1, 2], 2, "some"), (None, Impact::Degraded));
        let (told, impact) = judge(&[1, 2], 3, "some");
        let told = told.unwrap();
        assert!(told.starts_with("1 of 3 shards do not answer: shard1 (no answer);"), "{told}");
        assert_eq!(impact, Impact::Unready);
        for (unready, expected) in
            [("never", Impact::Degraded), ("all", Impact::Degraded), ("some", Impact::Unready)]
        {
            let (told, impact) = judge(&[1, 2], 9, unready);
            assert!(told.is_some_and(|told| told.starts_with("2 of 3")));
            assert_eq!(impact, expected, "{unready}");
        }
        assert_eq!(judge(&[2], 10, "some").1, Impact::Unready);
        assert_eq!(judge(&[], 11, "some"), (None, Impact::Degraded));
        assert_eq!(judge(&[0, 1, 2], 12, "all"), (None, Impact::Degraded));
        assert_eq!(judge(&[0, 1, 2], 14, "all").1, Impact::Unready);
    }
}
