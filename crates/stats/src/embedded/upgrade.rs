//! Brings a directory of format 1 up to date: the same keys, their cells as words.

use std::sync::Arc;

use hashbrown::HashMap;
use store::log;
use store::{Device, RecordKey, v1};

use super::compiled_catalog::{DEFINITIONS, PAIR};
use crate::definition::DefinitionRegistry;
use crate::ledger::LedgerError;

/// Upgrades the device if it has to be. Cells that cannot be read are left out and said.
pub(super) fn upgrade(device: &Arc<dyn Device>, segment_bytes: u32) -> Result<(), LedgerError> {
    let mut registry = DefinitionRegistry::default();
    // By the number that cells name it by: its number from now on.
    let mut numbers: HashMap<u32, u16> = HashMap::new();
    let mut lost = 0u64;
    let options = log::LogOptions { segment_bytes };
    let definitions = |key: &[u8; v1::KEY_BYTES]| key.starts_with(&[0xff; 4]);
    let upgraded = v1::upgrade(device, options, &definitions, &mut |image, writer| {
        let key = key_of(&image.key);
        if definitions(&image.key) {
            let defined = crate::v1::definition(image.value).and_then(|definition| {
                let words = definition.encode();
                registry.define(definition).ok().map(|(number, _)| (number, words))
            });
            let Some((number, words)) = defined else {
                lost += 1;
                return Ok(());
            };
            numbers.insert(key.shingle as u32, number);
            let (space, kind) = DEFINITIONS;
            let key = RecordKey { space, kind, shingle: u64::from(number) };
            return writer.push(key, 0, i64::MAX, &words).map(drop);
        }
        let cell = image.value.split_first_chunk().and_then(|(number, cell)| {
            let number = *numbers.get(&u32::from_le_bytes(*number))?;
            Some((number, crate::v1::cell(registry.get(number)?, cell)?))
        });
        match cell {
            Some((number, words)) => {
                writer.push(key, number | key.kind & PAIR, image.expires, &words).map(drop)
            }
            None => {
                lost += 1;
                Ok(())
            }
        }
    })?;
    if upgraded.segments > 0 {
        let v1::UpgradeReport { images, segments, .. } = upgraded;
        tracing::info!(images, segments, "the ledger was brought to the present format");
    }
    if lost > 0 || !upgraded.losses.is_empty() {
        let bytes = upgraded.losses.bytes;
        tracing::error!(images = lost, bytes, "some of the ledger's old files could not be read and is lost");
    }
    Ok(())
}

/// Keys were big-endian: space, kind, shingle.
fn key_of(bytes: &[u8; v1::KEY_BYTES]) -> RecordKey {
    let [s0, s1, k0, k1, shingle @ ..] = *bytes;
    RecordKey {
        space: u16::from_be_bytes([s0, s1]),
        kind: u16::from_be_bytes([k0, k1]),
        shingle: u64::from_be_bytes(shingle),
    }
}
