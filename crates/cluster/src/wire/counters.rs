//! Counters of the wire, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use stats::LedgerMetric;

/// Sums since the start. All are monotone.
#[derive(Debug, Default)]
pub struct WireCounters {
    /// Commands that were sent.
    pub commands: AtomicU64,
    /// Round trips, each of one or more commands.
    pub round_trips: AtomicU64,
    /// Answers that a slot is elsewhere.
    pub moved: AtomicU64,
    /// Answers that a slot is moving, with the server to ask.
    pub asked: AtomicU64,
    /// Answers that the keys of a moving slot are on two servers.
    pub apart: AtomicU64,
    /// Scripts that a server did not know, and were loaded.
    pub loaded: AtomicU64,
    /// Commands that were sent once more after a connection broke.
    pub resent: AtomicU64,
    /// Round trips that were not answered in time.
    pub timeouts: AtomicU64,
    /// Connections that could not be opened, or broke.
    pub broken: AtomicU64,
    /// Commands that were not sent because their server's circuit is open.
    pub refused: AtomicU64,
    /// Times that the place of slots was asked for.
    pub refreshes: AtomicU64,
    /// Writes that fewer replicas have confirmed than were asked for.
    pub unconfirmed: AtomicU64,
    /// Changes that were not made because their cell is none in the cluster.
    pub damaged: AtomicU64,
}

impl WireCounters {
    /// Returns these as figures for metrics.
    pub fn figures(&self) -> Vec<LedgerMetric> {
        let all = [
            ("commands", "Commands that were sent to the cluster", &self.commands),
            ("round_trips", "Round trips, each of one or more commands", &self.round_trips),
            ("moved_redirects", "`MOVED` redirects: another server has the slot", &self.moved),
            ("ask_redirects", "`ASK` redirects: a slot is moving to another server", &self.asked),
            (
                "tryagain_replies",
                "`TRYAGAIN` replies: the keys of a moving slot are on two servers",
                &self.apart,
            ),
            ("script_loads", "Scripts loaded because a server did not know them", &self.loaded),
            ("resent_commands", "Commands sent again after a connection broke", &self.resent),
            ("timeouts", "Round trips that were not answered in time", &self.timeouts),
            ("connection_failures", "Connections that could not be opened or that broke", &self.broken),
            (
                "refused_commands",
                "Commands that were not sent because their server's circuit is open",
                &self.refused,
            ),
            ("refreshes", "Refreshes of the map from slots to servers", &self.refreshes),
            ("unconfirmed_writes", "Writes that too few replicas have confirmed", &self.unconfirmed),
            ("invalid_cells", "Changes that were refused because their cell is invalid", &self.damaged),
        ];
        let figure = |(name, help, counter): (_, _, &AtomicU64)| LedgerMetric {
            name,
            help,
            is_sum: true,
            shard: None,
            value: counter.load(Ordering::Relaxed),
        };
        all.into_iter().map(figure).collect()
    }

    pub(super) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}

/// The circuit of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitState {
    /// The server is asked.
    Closed,
    /// The server is not asked.
    Open,
    /// One call tries whether it answers again.
    Trying,
}

/// A server of the cluster as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// The server's address.
    pub address: super::ServerAddress,
    /// The circuit, which says whether the server is asked.
    pub circuit: CircuitState,
    /// Round trips that are under way.
    pub in_flight: usize,
    /// Failures since its last answer.
    pub failures: u32,
}
