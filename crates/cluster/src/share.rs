//! Nodes share what their admission sketches have seen: see [`crate::sighting`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::core::ClusterCore;
use crate::remote::SightingBatch;
use crate::sighting::SentSightings;

/// A batch of sightings that is sent now, with the shard and the place of its partition.
type OutgoingSightings = (usize, usize, SentSightings);

impl ClusterCore {
    /// Sends the sightings that are due.
    pub(crate) fn share_sightings(self: &Arc<ClusterCore>, now: Duration) {
        let is_draining = self.is_draining.load(Ordering::Acquire);
        let mut outgoing = Vec::<OutgoingSightings>::new();
        for (number, shard) in self.shards.iter().enumerate() {
            let mut shard = shard.lock();
            if shard.sightings.is_empty() {
                continue;
            }
            let Some(first) = shard.parts.first().map(|part| part.partition) else { continue };
            let interval = self.settings.flush_every;
            let due = shard.sightings.collect(first, self.owner, now, interval, is_draining);
            outgoing.extend(due.into_iter().map(|(at, sent)| (number, at, sent)));
        }
        if !outgoing.is_empty() {
            let inner = self.clone();
            self.environment.spawn(Box::pin(async move { inner.send_sightings(outgoing).await }));
        }
    }

    async fn send_sightings(&self, outgoing: Vec<OutgoingSightings>) {
        let batches: Vec<SightingBatch> = outgoing.iter().map(|(_, _, sent)| sent.batch.clone()).collect();
        let places =
            batches.iter().flat_map(|batch| batch.halves.iter()).map(|half| half.places.len() as u64);
        self.counts.sightings.fetch_add(places.sum(), Ordering::Relaxed);
        self.counts.sighting_batches.fetch_add(batches.len() as u64, Ordering::Relaxed);
        let mut answers = self.remote.sight(batches, self.settings.within).await.into_iter();
        let now = self.environment.now();
        for (shard, at, sent) in outgoing {
            let counts = match answers.next() {
                Some(Ok(counts)) => Some(counts),
                Some(Err(failure)) => {
                    tracing::debug!(partition = sent.batch.partition.0, %failure, "sightings are sent again");
                    None
                }
                None => None,
            };
            let mut shard = self.shards[shard].lock();
            shard.sightings.answer(at, counts.as_deref(), now, |attempts| self.again(attempts));
        }
        if self.is_draining.load(Ordering::Acquire) {
            self.kick.notify(1);
        }
    }
}
