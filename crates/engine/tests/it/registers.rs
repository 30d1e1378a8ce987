//! Registers of a node that shares them with nobody: a test puts its own in place of the one that it is about.

use engine::{
    ChangePage, ChangePosition, ChangeRegister, Directory, Engine, LedgerHome, NodeEntries, NodeRegister,
    NumberAllotment, RulesRegister, ShardHealth, ShardMonitor, SharedChange, SharedRegisters, SharedState,
};
use event::Time;
use journal::NodeNumber;
use plan::{Config, Plan};
use stats::{EmbeddedLedger, NumberRegister};

/// The registers of a node that is alone with them.
pub(crate) struct Alone;

impl Alone {
    /// All of them, but for that of lessons.
    pub(crate) fn registers() -> SharedRegisters {
        SharedRegisters {
            numbers: Box::new(Alone),
            nodes: Box::new(Alone),
            shards: Box::new(Alone),
            rules: Box::new(Alone),
            lessons: None,
            changes: Box::new(Alone),
        }
    }
}

impl NodeRegister for Alone {
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

impl ShardMonitor for Alone {
    fn shards(&self) -> Vec<ShardHealth> {
        Vec::new()
    }
}

impl ChangeRegister for Alone {
    fn since(&self, position: ChangePosition) -> Result<Option<ChangePage>, String> {
        Ok(Some(ChangePage { position, ..ChangePage::default() }))
    }

    fn append(&self, _changes: Vec<SharedChange>, _horizon: Time) -> Result<usize, String> {
        Ok(0)
    }
}

impl RulesRegister for Alone {
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

impl NumberAllotment for Alone {
    fn allot(&self, known: &NumberRegister, wanted: &NumberRegister) -> Result<NumberRegister, String> {
        known.with(wanted).map_err(|error| error.to_string())
    }
}

/// Opens a directory by a configuration, with statistics in memory and these registers.
pub(crate) fn open_with(directory: &Directory, config: &Config, registers: SharedRegisters) -> Engine {
    let plan = Plan::compile(config).unwrap_or_else(|problems| panic!("{problems}"));
    let ledger = |plan: &Plan| {
        let ledger = EmbeddedLedger::in_memory(plan.catalog.clone(), plan.node.ledger_memory)?;
        Ok(LedgerHome::Elsewhere(Box::new(ledger)))
    };
    Engine::open_over(directory, plan, Some(registers), ledger).unwrap()
}
