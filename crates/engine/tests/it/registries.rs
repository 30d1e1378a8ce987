//! Registries of a node that shares them with nobody: a test puts its own in place of the one that it is about.

use engine::{
    ChangePage, ChangePosition, ChangeRegistry, Directory, Engine, LedgerHome, NodeEntries, NodeRegistry,
    NumberAllotment, RulesRegistry, ShardHealth, ShardMonitor, SharedChange, SharedRegistries, SharedState,
};
use event::Time;
use journal::NodeNumber;
use plan::{Config, Plan};
use stats::{EmbeddedLedger, NumberRegistry};

/// The registries of a node that is alone with them.
pub(crate) struct LoneNode;

impl LoneNode {
    /// All of them, but for that of examples.
    pub(crate) fn registries() -> SharedRegistries {
        SharedRegistries {
            numbers: Box::new(LoneNode),
            nodes: Box::new(LoneNode),
            shards: Box::new(LoneNode),
            rules: Box::new(LoneNode),
            examples: None,
            changes: Box::new(LoneNode),
        }
    }
}

impl NodeRegistry for LoneNode {
    fn number(&self) -> NodeNumber {
        NodeNumber::new(1).unwrap()
    }

    fn announce(&self, entry: String) -> Result<NodeEntries, String> {
        Ok(NodeEntries::from([(self.number(), entry)]))
    }

    fn forget(&self, _number: NodeNumber) -> Result<bool, String> {
        Ok(false)
    }
}

impl ShardMonitor for LoneNode {
    fn shards(&self) -> Vec<ShardHealth> {
        Vec::new()
    }
}

impl ChangeRegistry for LoneNode {
    fn since(&self, position: ChangePosition) -> Result<Option<ChangePage>, String> {
        Ok(Some(ChangePage { position, ..ChangePage::default() }))
    }

    fn append(&self, _changes: Vec<SharedChange>, _horizon: Time) -> Result<usize, String> {
        Ok(0)
    }
}

impl RulesRegistry for LoneNode {
    fn last(&self) -> Result<SharedState, String> {
        Ok(SharedState::default())
    }

    fn text(&self, state: &SharedState) -> Result<String, String> {
        Err(format!("there is none: {state:?}"))
    }

    fn put(&self, _state: &SharedState, _text: String) -> Result<bool, String> {
        Ok(true)
    }
}

impl NumberAllotment for LoneNode {
    fn allot(&self, known: &NumberRegistry, wanted: &NumberRegistry) -> Result<NumberRegistry, String> {
        known.with(wanted).map_err(|error| error.to_string())
    }
}

/// Opens a directory by a configuration, with statistics in memory and these registries.
pub(crate) fn open_with(directory: &Directory, config: &Config, registries: SharedRegistries) -> Engine {
    let plan = Plan::compile(config).unwrap_or_else(|problems| panic!("{problems}"));
    let ledger = |plan: &Plan| {
        let ledger = EmbeddedLedger::in_memory(plan.catalog.clone(), plan.node.ledger_memory)?;
        Ok(LedgerHome::Elsewhere(Box::new(ledger)))
    };
    Engine::open_over(directory, plan, Some(registries), ledger).unwrap()
}
