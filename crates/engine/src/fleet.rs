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
use crate::learners::{LearnerName, LessonRegister, SharedModelState};

/// The name of the condition of a node that cannot learn what others have taught.
pub(crate) const MODELS_BEHIND: &str = "models-behind";

/// The entries of nodes, by their numbers.
pub type NodeEntries = BTreeMap<NodeNumber, String>;

/// The register of the nodes that share statistics.
pub trait NodeRegister: Send + Sync {
    /// Returns the number of this node, which it has for good.
    fn number(&self) -> NodeNumber;

    /// Says something of this node where all can read it, and returns what all nodes have said last, this one included. Blocks.
    ///
    /// # Errors
    /// Says why the register cannot be asked.
    fn announce(&self, entry: String) -> Result<NodeEntries, String>;
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
pub trait RulesRegister: Send + Sync {
    /// Returns the last state. Blocks.
    ///
    /// # Errors
    /// Says why the register cannot be asked.
    fn last(&self) -> Result<SharedState, String>;

    /// Returns the text of a state. Blocks.
    ///
    /// # Errors
    /// Says why the register cannot be asked, or that it does not have the text.
    fn text(&self, state: &SharedState) -> Result<String, String>;

    /// Puts a state with its text behind the one before it; returns false if another node has put one there. Blocks.
    ///
    /// # Errors
    /// Says why the register cannot be asked.
    fn put(&self, state: &SharedState, text: String) -> Result<bool, String>;
}

/// The registers that nodes share with their statistics.
pub struct SharedRegisters {
    /// The numbers of names.
    pub numbers: Box<dyn NumberAllotment>,
    /// The nodes.
    pub nodes: Box<dyn NodeRegister>,
    /// The rules that were posted.
    pub rules: Box<dyn RulesRegister>,
    /// The lessons of linear models; `None` where each node has models of its own.
    pub lessons: Option<Box<dyn LessonRegister>>,
}

impl Engine {
    /// The register of the nodes that share this node's statistics; `None` for a node of its own.
    pub fn node_register(&self) -> Option<&dyn NodeRegister> {
        self.shared.as_ref().map(|shared| &*shared.nodes)
    }

    /// The register of lessons; `None` where linear models are this node's alone.
    pub(crate) fn lesson_register(&self) -> Option<&dyn LessonRegister> {
        self.shared.as_ref().and_then(|shared| shared.lessons.as_deref())
    }

    /// Sends what this node has taught linear models to the others, and learns what they have taught. Blocks.
    ///
    /// # Errors
    /// Says what went wrong, which is a condition of the node until it goes well again. What is to be sent waits.
    pub fn exchange_lessons(&self) -> Result<(), String> {
        let Some(register) = self.lesson_register() else { return Ok(()) };
        let exchanged = self.learners.exchange(register, LearnerName::named(&self.plan().pipelines));
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
