//! All cells of some pieces are removed from a cluster, whatever their kind, space and definition.
//!
//! Names end in the shingle, and not all definitions that cells may have are known: so all names are gone through. Pairs of
//! exact distinct counts have shingles of their own, which do not tell whose they are; they end with their period.

use std::collections::{BTreeSet, HashSet};

use event::Shingle;

use crate::remote::{Partition, RemoteError};
use crate::transfer::{WITHIN, again, renew};
use crate::wire::{CellName, NameScan, WireClient};

/// Erases the cells of these shingles, or only counts them; answers how many there were. `tell` hears of the names looked
/// through. Nodes read anew what they had of the partitions; what they have added and not sent yet makes new cells. To be
/// awaited where tokio's clock goes.
///
/// # Errors
/// What the cluster answered last, or that slots were moved meanwhile. Some of the cells may be gone; it can be repeated.
pub async fn erase<T: FnMut(u64) + ?Sized>(
    wire: &WireClient,
    shingles: &HashSet<Shingle>,
    pretend: bool,
    tell: &mut T,
) -> Result<u64, RemoteError> {
    let mut scan = NameScan::begin(wire, None).await?;
    let mut found = BTreeSet::<(Partition, CellName)>::new();
    let mut looked = 0;
    while let Some(names) = scan.next().await? {
        looked += names.len() as u64;
        found.extend(names.into_iter().filter(|(_, name)| shingles.contains(&name.key.shingle)));
        tell(looked);
    }
    let count = found.len() as u64;
    if pretend {
        return Ok(count);
    }
    let mut tries = 0;
    while !found.is_empty() {
        let cells: Vec<_> = found.iter().copied().collect();
        let answers = wire.remove(&cells, WITHIN).await;
        let mut failure = None;
        for (cell, answer) in cells.iter().zip(answers) {
            match answer {
                Ok(()) => drop(found.remove(cell)),
                Err(why) => failure = Some(why),
            }
        }
        if let Some(failure) = failure {
            again(&mut tries, failure).await?;
        }
    }
    // Bans and exceptions that nodes share.
    wire.erase_changes(shingles).await?;
    // Also where nothing was left: of what was begun before, nodes may not have been told.
    renew(wire, shingles.iter().map(|shingle| wire.partition_of(*shingle)).collect()).await?;
    Ok(count)
}
