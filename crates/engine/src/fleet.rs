//! The nodes that share statistics, as far as the engine knows of them: each has a number, by which ids say who made a decision, and
//! says something of itself where all can read it.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use event::Time;
use gate::keyring::{SigningPurpose, Tag};
use journal::NodeNumber;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Engine;
use crate::condition::Impact;
use crate::directory::NumberAllotment;
use crate::learners::{LearnerName, SharedModelState, TrainingStreams};

/// The name of the condition of a node that cannot learn what others have taught.
pub(crate) const MODELS_BEHIND: &str = "models-behind";

/// The entries of nodes, by their numbers.
pub type NodeEntries = BTreeMap<NodeNumber, String>;

/// The registry of the nodes that share statistics.
pub trait NodeRegistry: Send + Sync {
    /// Returns the number of this node, which it has for good.
    fn number(&self) -> NodeNumber;

    /// Says something of this node where all can read it, and returns what all nodes have said last, this one included. Blocks.
    ///
    /// # Errors
    /// Says why the registry cannot be asked.
    fn announce(&self, entry: String) -> Result<NodeEntries, String>;

    /// Takes what a node has said of itself out of the registry, until it says something again; its number stays its own. Returns
    /// false if there is nothing of it. Blocks.
    ///
    /// # Errors
    /// Says why the registry cannot be asked.
    fn forget(&self, number: NodeNumber) -> Result<bool, String>;
}

/// One of the servers that keep the statistics of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardHealth {
    /// The server's name, for people.
    pub name: String,
    /// The reason why it does not answer for its part of the keys.
    pub failure: Option<String>,
}

/// The servers that keep the statistics that nodes share.
pub trait ShardMonitor: Send + Sync {
    /// Asks each server, and returns how it is. Blocks for as long as an answer may take.
    fn shards(&self) -> Vec<ShardHealth>;
}

/// Bytes of a subject of a change that nodes share.
pub const CHANGE_SUBJECT_BYTES: usize = 24;

/// The sort of a change that nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedChangeKind {
    /// A change that holds to its end, unless it holds for longer already.
    Put,
    /// A change that stands instead of what was there.
    Set,
    /// A change that takes away what was there.
    Lift,
}

/// A change that nodes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedChange {
    /// The thing that it changes.
    pub subject: [u8; CHANGE_SUBJECT_BYTES],
    /// Its sort.
    pub kind: SharedChangeKind,
    /// The time from which on nobody needs to know of it.
    pub until: Time,
    /// Its text.
    pub text: Vec<u8>,
}

/// A place in the list of changes. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangePosition {
    /// The number of the last change that was read.
    pub number: u64,
    /// The number of the last call that was heard of.
    pub call: u64,
    /// The tag of that call.
    pub tag: u64,
}

/// Some changes behind a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangePage {
    /// The changes, in the order that all nodes follow.
    pub changes: Vec<SharedChange>,
    /// The place behind them.
    pub position: ChangePosition,
    /// True if there are more.
    pub has_more: bool,
}

/// The list of changes that nodes share: the last one of each subject, in one order.
pub trait ChangeRegistry: Send + Sync {
    /// Returns the changes behind a place; `None` if some of those before it are forgotten. Blocks.
    ///
    /// # Errors
    /// Says why the registry cannot be asked.
    fn since(&self, position: ChangePosition) -> Result<Option<ChangePage>, String>;

    /// Puts changes behind the others, of which those may go that ended before a time; returns for how many there was no room. Blocks.
    ///
    /// # Errors
    /// Says why the registry cannot be asked; then they can be put there again.
    fn append(&self, changes: Vec<SharedChange>, horizon: Time) -> Result<usize, String>;
}

/// A state of posted rules that nodes share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedState {
    /// Its number; 0 before the first.
    pub number: u64,
    /// The digest of its text.
    pub digest: String,
}

impl SharedState {
    /// Returns the state of a text behind another one.
    pub(crate) fn behind(&self, text: &str) -> SharedState {
        let digest = Sha256::digest(text);
        SharedState { number: self.number.saturating_add(1), digest: HEXLOWER.encode(&digest[..16]) }
    }
}

/// The place where nodes share what was posted over their files.
pub trait RulesRegistry: Send + Sync {
    /// Returns the last state. Blocks.
    ///
    /// # Errors
    /// Says why the registry cannot be asked.
    fn last(&self) -> Result<SharedState, String>;

    /// Returns the text of a state. Blocks.
    ///
    /// # Errors
    /// Says why the registry cannot be asked, or that it does not have the text.
    fn text(&self, state: &SharedState) -> Result<String, String>;

    /// Puts a state with its text behind the one before it; returns false if another node has put one there. Blocks.
    ///
    /// # Errors
    /// Says why the registry cannot be asked.
    fn put(&self, state: &SharedState, text: String) -> Result<bool, String>;
}

/// The registries that nodes share with their statistics.
pub struct SharedRegistries {
    /// The numbers of names.
    pub numbers: Box<dyn NumberAllotment>,
    /// The nodes.
    pub nodes: Box<dyn NodeRegistry>,
    /// The servers.
    pub shards: Box<dyn ShardMonitor>,
    /// The rules that were posted.
    pub rules: Box<dyn RulesRegistry>,
    /// The training examples of linear models; `None` where each node has models of its own.
    pub examples: Option<Box<dyn TrainingStreams>>,
    /// The bans, and the exceptions of limits that were posted.
    pub changes: Box<dyn ChangeRegistry>,
}

impl Engine {
    /// The registry of the nodes that share this node's statistics; `None` for a node of its own.
    pub fn node_registry(&self) -> Option<&dyn NodeRegistry> {
        self.shared.as_ref().map(|shared| &*shared.nodes)
    }

    /// The servers that keep the statistics that nodes share; `None` for a node of its own.
    pub fn shard_monitor(&self) -> Option<&dyn ShardMonitor> {
        self.shared.as_ref().map(|shared| &*shared.shards)
    }

    /// The streams of training examples; `None` where linear models are this node's alone.
    pub(crate) fn training_streams(&self) -> Option<&dyn TrainingStreams> {
        self.shared.as_ref().and_then(|shared| shared.examples.as_deref())
    }

    /// Sends what this node has taught linear models to the others, and learns what they have taught. Blocks.
    ///
    /// # Errors
    /// Says what went wrong, which is a condition of the node until it goes well again. What is to be sent waits.
    pub fn exchange_examples(&self) -> Result<(), String> {
        let Some(registry) = self.training_streams() else { return Ok(()) };
        let exchanged = self.learners.exchange(registry, LearnerName::named(&self.plan().pipelines));
        self.health().set(MODELS_BEHIND, Impact::Degraded, exchanged.as_ref().err().cloned());
        exchanged
    }

    /// The states of the linear models that nodes share, by pipeline and fact: `posts/learned.linear`.
    pub fn shared_models(&self) -> BTreeMap<String, SharedModelState> {
        let mut states = self.learners.shared_states();
        let models = LearnerName::named(&self.plan().pipelines).into_iter();
        models.map(|(learner, name)| (name, states.remove(&learner).unwrap_or_default())).collect()
    }

    /// Signs a message to another node, which has the same secret. The message must contain the time.
    pub fn sign_for_nodes(&self, time: Time, message: &[u8]) -> Tag {
        self.keyring.tag(SigningPurpose::Node, time, message)
    }

    /// Returns true if a message was signed at this time by a node that has the same secret.
    pub fn is_from_node(&self, time: Time, message: &[u8], tag: &Tag) -> bool {
        self.keyring.is_tag(SigningPurpose::Node, time, message, tag)
    }
}
