//! Labels on networks, at the end of stage 4: an address that is in a network with a label has the label.
//!
//! The ledger finds marks by the hash of a whole piece, so a network that somebody has put on the list for addresses is looked
//! for where it is kept by what it is called.

use std::net::IpAddr;
use std::sync::Arc;

use super::keys::{self, PreparedEvent};
use crate::ban_list::BanList;
use plan::{ReadingColumn, ReadingSource};

/// Fills the columns of marks for what the networks of addresses say.
pub(crate) fn fill(register: &BanList, prepared: &mut [PreparedEvent]) {
    if !register.has_ranges() {
        return;
    }
    for event in prepared {
        let pipeline = Arc::clone(&event.row.pipeline);
        for ReadingColumn { slot, source } in &pipeline.readings {
            let ReadingSource::Marked { label } = source else { continue };
            let label = &pipeline.labels[*label];
            if label.decision.is_none() {
                continue;
            }
            let kind = &pipeline.kinds[label.of];
            let (of, time) = ((&*pipeline.name, &*kind.name, &*label.name), event.row.arrival);
            let mut holds = false;
            keys::pieces(kind, &event.row.facts, |piece| {
                let address: Option<IpAddr> = piece.parse().ok();
                holds |= address.is_some_and(|address| register.is_in_range(of, address, time));
            });
            if holds {
                event.row.facts.set(*slot, true);
            }
        }
    }
}
