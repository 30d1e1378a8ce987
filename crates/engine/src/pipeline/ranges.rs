//! Labels on networks, at the end of stage 4: an address that is in a network with a label has the label. And labels that were lifted:
//! a key has them no more.
//!
//! The ledger finds marks by the hash of a whole piece, so a network that somebody has put on the list for addresses is looked
//! for where it is kept by what it is called. A mark that is kept in a cluster cannot be taken back there, so the list says of it that
//! it does not hold. What is on the allow list has no label that bans it, whatever was marked before it was on it.

use std::net::IpAddr;
use std::sync::Arc;

use super::keys::{self, PreparedEvent};
use crate::ban_list::BanList;
use event::Value;
use plan::{AllowPlan, KindPlan, ReadingColumn, ReadingSource};

/// Returns true if no label with a decision holds for an event: the allow list has one of its keys, or the address that such a key
/// is made of, or it is of a verified robot.
fn is_allowed(allow: &AllowPlan, event: &PreparedEvent, kind: &KindPlan) -> bool {
    let (pipeline, facts) = (&event.row.pipeline, &event.row.facts);
    let mut address = kind.fields.single().and_then(|field| match facts.get(field.slot) {
        Some(Value::Ip(address)) => Some(*address),
        _ => None,
    });
    let mut found = allow.is_of_robot(pipeline, facts)
        || address.take().is_some_and(|address| allow.has_address(address));
    keys::pieces(kind, facts, |piece| found = found || allow.find(piece).is_some());
    found
}

/// Fills the columns of marks for what the networks of addresses say.
pub(crate) fn fill(bans: &BanList, prepared: &mut [PreparedEvent]) {
    let (has_ranges, has_lifted) = (bans.has_ranges(), bans.has_lifted());
    let mut allow = None;
    for event in prepared {
        if !event.row.pipeline.labels.iter().any(|label| label.decision.is_some()) {
            continue;
        }
        let pipeline = Arc::clone(&event.row.pipeline);
        for ReadingColumn { slot, source } in &pipeline.readings {
            let ReadingSource::Marked { label } = source else { continue };
            let label = &pipeline.labels[*label];
            if label.decision.is_none() {
                continue;
            }
            let is_marked = event.row.facts.get(*slot) == Some(&Value::Bool(true));
            if !is_marked && !has_ranges && !has_lifted {
                continue;
            }
            let kind = &pipeline.kinds[label.of];
            let (of, time) = ((&*pipeline.name, &*kind.name, &*label.name), event.row.arrival);
            let (mut holds, mut pieces, mut lifted) = (false, 0, 0);
            keys::pieces(kind, &event.row.facts, |piece| {
                if has_ranges {
                    let address: Option<IpAddr> = piece.parse().ok();
                    holds |= address.is_some_and(|address| bans.is_in_range(of, address, time));
                }
                if has_lifted {
                    pieces += 1;
                    lifted += usize::from(bans.is_lifted(of, piece, time));
                }
            });
            let is_banned = holds || is_marked;
            if is_banned && is_allowed(allow.get_or_insert_with(|| bans.allow()), event, kind) {
                event.row.facts.set(*slot, false);
            } else if holds {
                event.row.facts.set(*slot, true);
            } else if pieces > 0 && lifted == pieces {
                // Of several keys the statistics do not say which one has the label.
                event.row.facts.set(*slot, false);
            }
        }
    }
}
