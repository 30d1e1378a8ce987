//! Sightings as arguments of their script, and what the scripts answer.

use event::Span;
use stats::SketchPlace;

use super::batch::ScriptArguments;
use super::message_pack::MessagePackWriter;
use super::name::NameCodec;
use crate::remote::{HalfSightings, Partition, PartitionRead, SightingBatch, SightingCounts, SketchHalf};

/// Counters of a line.
const LINE_COUNTERS: i64 = 128;
/// The time by which counters outlive their life, in milliseconds: nodes may be late.
const TTL_MORE: i64 = 10 * 60_000;
/// The longest time to live, in milliseconds, as for cells.
const TTL_MAX: i64 = 3_155_760_000_000;

/// The time for which the counters of a half are kept after they were last changed, in milliseconds: to the end of the next
/// half.
fn ttl(span: Span) -> i64 {
    (span.0 / 1000).saturating_mul(2).saturating_add(TTL_MORE).clamp(1, TTL_MAX)
}

pub(super) fn half_before(half: &SketchHalf) -> SketchHalf {
    SketchHalf { number: half.number.saturating_sub(1), ..*half }
}

fn place(pack: &mut MessagePackWriter, SketchPlace { line, counters }: SketchPlace) {
    pack.integer(i64::from(line));
    pack.integer(i64::from(counters));
}

/// The call of a batch.
pub(super) fn batch(names: &NameCodec, batch: &SightingBatch) -> ScriptArguments {
    let mut keys = vec![names.sighter(batch.partition, &batch.owner)];
    let mut pack = MessagePackWriter::default();
    pack.array(2 + batch.halves.len());
    pack.count(batch.number);
    pack.integer(batch.halves.iter().map(|sightings| ttl(sightings.half.span)).max().unwrap_or(1));
    for HalfSightings { half, places } in batch.halves.iter() {
        keys.push(names.sketch(batch.partition, half));
        keys.push(names.sketch(batch.partition, &half_before(half)));
        pack.array(3);
        pack.integer(ttl(half.span));
        pack.integer(i64::from(half.lines) * LINE_COUNTERS - 1);
        pack.array(3 * places.len());
        for (at, sightings) in places {
            place(&mut pack, *at);
            pack.integer(i64::from(*sightings));
        }
    }
    ScriptArguments { keys, argument: pack.into_bytes() }
}

/// The places of a reading: their keys go behind those of its cells, the argument says where each is counted. `None` where
/// there are none.
pub(super) fn places(
    names: &NameCodec,
    partition: Partition,
    PartitionRead { cells, places, .. }: &PartitionRead,
    keys: &mut Vec<Vec<u8>>,
) -> Option<Vec<u8>> {
    if places.is_empty() {
        return None;
    }
    let mut halves = Vec::<(SketchHalf, usize)>::new();
    let mut pack = MessagePackWriter::default();
    pack.array(1 + 3 * places.len());
    pack.integer(cells.len() as i64);
    for (half, at) in places {
        let known = halves.iter().find(|(known, _)| known == half).map(|(_, key)| *key);
        let key = known.unwrap_or_else(|| {
            keys.push(names.sketch(partition, half));
            keys.push(names.sketch(partition, &half_before(half)));
            halves.push((*half, keys.len() - 1));
            keys.len() - 1
        });
        pack.integer(key as i64);
        place(&mut pack, *at);
    }
    Some(pack.into_bytes())
}

/// Reads what places have; an error if it is not of so many.
pub(super) fn decode(text: &[u8], places: usize) -> Result<Vec<SightingCounts>, &'static str> {
    if text.len() != places {
        return Err("it answered not as many places as were asked for");
    }
    Ok(text.iter().map(|both| [u32::from(both & 15), u32::from(both >> 4)]).collect())
}
