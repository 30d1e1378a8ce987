//! A node is a ledger as the embedded home is one.

use std::sync::Arc;
use std::time::Duration;

use cluster::{Cluster, Settings, Threads};
use sim::suite::model::Subject;
use sim::suite::{catalog, conformance, model};
use stats::Ledger;
use store::MemoryDevice;

use crate::cloud::Cloud;

struct Home {
    cloud: Arc<Cloud>,
    device: MemoryDevice,
    settings: Settings,
    ledger: Option<Cluster>,
}

fn settings(cloud: &Cloud, fresh_for: Duration) -> Settings {
    Settings {
        flush_every: Duration::from_millis(5),
        fresh_for,
        within: Duration::from_secs(60),
        ..Settings::new(cloud.partitions())
    }
}

impl Home {
    fn new(partitions: u16, fresh_for: Duration) -> Home {
        let cloud = Cloud::new(partitions, 1);
        let settings = settings(&cloud, fresh_for);
        let mut home = Home { cloud, device: MemoryDevice::new(), settings, ledger: None };
        home.open();
        home
    }

    fn open(&mut self) {
        let remote = Arc::new(self.cloud.line(1, None));
        let surroundings = Arc::new(Threads::new(1).unwrap());
        let device = Arc::new(self.device.clone());
        self.ledger = Some(Cluster::open(remote, device, catalog(), self.settings, surroundings).unwrap());
    }
}

impl Subject for Home {
    fn ledger(&self) -> &dyn Ledger {
        self.ledger.as_ref().unwrap()
    }

    fn reopen(&mut self) -> bool {
        self.ledger().close().unwrap();
        self.ledger = None;
        self.open();
        true
    }

    fn crash(&mut self, seed: u64) -> bool {
        let image = self.device.crash(seed);
        self.ledger = None;
        self.device = image;
        self.open();
        true
    }

    fn settle(&self) {
        let metrics = || self.ledger.as_ref().unwrap().metrics();
        while metrics().pending_bytes > 0 || metrics().waiting_partitions > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn keeps_every_answer(&self) -> bool {
        true
    }

    fn marks_expire(&self) -> bool {
        false
    }

    // What is on its way when its key expires begins the key anew when it arrives.
    fn expires_at_once(&self) -> bool {
        false
    }
}

#[test]
fn a_node_conforms() {
    for partitions in [1, 256] {
        let home = Home::new(partitions, Duration::from_millis(3));
        conformance::check(home.ledger(), u64::MAX);
    }
}

#[test]
fn random_histories_agree_with_a_list_of_events() {
    for seed in 0..8 {
        // With no time at all every image is read anew in the background, one way or the other.
        for (partitions, fresh_for) in
            [(1, Duration::ZERO), (64, Duration::from_millis(2)), (256, Duration::MAX)]
        {
            model::check(seed, &mut Home::new(partitions, fresh_for));
        }
    }
}
