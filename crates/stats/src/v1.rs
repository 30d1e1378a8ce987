//! The cells and definitions of stores of format 1, in which a cell was a string of varints: read when such a store is
//! upgraded, and never written.
//!
//! ```text
//! cell   zigzag last · last - first · coarse rows · fine rows
//!        then each row, newest first, fine ones before coarse ones: distance from the row before · counters
//! ```

use event::{Kind, Space, Time};

use crate::bytes::ByteReader;
use crate::catalog::Measure;
use crate::definition::{CellDefinition, CompiledDefinition, read_windows};

const FORMAT: u8 = 1;

/// Reads the bytes of a definition.
pub(crate) fn definition(bytes: &[u8]) -> Option<CellDefinition> {
    let mut reader = ByteReader(bytes);
    let [FORMAT, form] = reader.array()? else { return None };
    let space = Space(u16::from_le_bytes(reader.array()?));
    let kind = Kind(u16::from_le_bytes(reader.array()?));
    let statistic = reader.text()?.to_owned();
    let kind_name = reader.text()?.to_owned();
    let Measure::Windows(layout) = read_windows(&mut reader)? else { return None };
    let tier = layout.shape().fine();
    let measure = match form {
        0 => Measure::Windows(layout),
        1 => Measure::Distinct { tier, windows: Vec::new() },
        2 => Measure::Once { window: tier.width },
        _ => return None,
    };
    reader.0.is_empty().then_some(CellDefinition { space, kind, statistic, kind_name, measure })
}

/// Reads the bytes of a cell, those after the number of its definition, and makes words of them.
pub(crate) fn cell(defined: &CompiledDefinition, bytes: &[u8]) -> Option<Vec<u64>> {
    let plan = defined.plan.windows()?;
    let shape = plan.shape();
    let mut reader = ByteReader(bytes);
    let last = reader.zigzag()?;
    let first = last.checked_sub_unsigned(reader.varint()?)?;
    let rows = [reader.varint()?, reader.varint()?];
    let most =
        [shape.coarse().map_or(0, |tier| u64::from(tier.buckets) + 1), u64::from(shape.fine().buckets) + 1];
    if rows[0] > most[0] || rows[1] > most[1] {
        return None;
    }
    let head = Time(last).bucket(shape.fine().width);
    let heads = [head.div_euclid(shape.ratio()), head];
    let mut words = Vec::new();
    plan.widen_times(&mut words, Time(first), Time(last));
    let mut counts = vec![0; shape.counters()];
    for tier in [1, 0] {
        let mut newer = heads[tier];
        for _ in 0..rows[tier] {
            newer = newer.checked_sub_unsigned(reader.varint()?)?;
            for count in &mut counts {
                *count = reader.varint()?;
            }
            plan.put_row(&mut words, tier == 0, newer, &counts);
        }
    }
    reader.0.is_empty().then_some(words)
}

#[cfg(test)]
mod tests {
    use event::Span;

    use super::*;
    use crate::cell::CellPlan;
    use crate::layout::Layout;

    /// What a store of format 1 had for the three kinds of statistic.
    const MASS: &str = "010003000100046d6173730466726f6d8080f5f9b74b02808c8d9e02900180c0ddeec1020e03047365656e047370616d0368616d";
    const RCPTS: &str = "010103000200057263707473047573657280c08e87cd110180c0ddeec10207010864697374696e6374";
    const ONCE: &str = "010203000300046f6e6365046f6e636580c6868f010180c6868f010101046f6e6365";
    /// The cell of the events of [`events`], and of one mark.
    const CELL: &str = "80c0e9f5e9e3850680b0d7fda7300e01008180e009000001828090018080a802000182c010008080e00401028080228080460182f00180f0030001821b00808008018303803880740101a00600012d58800d018280a00200b80101028080e004140182801e8080400001828003008080880101832480c00680800e0101805000";
    const MARK: &str = "8080f281838985060000010001";

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap())
            .collect()
    }

    fn defined(hex: &str) -> CompiledDefinition {
        let definition = definition(&bytes(hex)).unwrap();
        CompiledDefinition { plan: definition.plan().unwrap(), definition }
    }

    fn events() -> impl Iterator<Item = (Time, [(u8, u64); 2])> {
        (0..40i64).map(|step| {
            let time = Time::from_seconds(1_700_000_000 + step * 40_000 - (step % 3) * 90_000);
            (time, [(0, 1), ((step % 3) as u8, (step as u64) << (step % 20))])
        })
    }

    #[test]
    fn definitions_are_read() {
        let tiers = ["10m x 144", "1d x 14"].map(|tier| tier.parse().unwrap());
        let names = ["seen", "spam", "ham"].map(str::to_owned).to_vec();
        let layout = Layout::new(names, &tiers, vec![], Some(Span::days(30))).unwrap();
        let expected = |kind, statistic: &str, kind_name: &str, measure| CellDefinition {
            space: Space(3),
            kind: Kind(kind),
            statistic: statistic.to_owned(),
            kind_name: kind_name.to_owned(),
            measure,
        };
        let distinct = Measure::Distinct { tier: "1d x 7".parse().unwrap(), windows: vec![] };
        let once = Measure::Once { window: Span::minutes(5) };
        assert_eq!(definition(&bytes(MASS)), Some(expected(1, "mass", "from", Measure::Windows(layout))));
        assert_eq!(definition(&bytes(RCPTS)), Some(expected(2, "rcpts", "user", distinct)));
        assert_eq!(definition(&bytes(ONCE)), Some(expected(3, "once", "once", once)));
        for hex in [MASS, RCPTS, ONCE] {
            let bytes = bytes(hex);
            (0..bytes.len()).for_each(|length| assert_eq!(definition(&bytes[..length]), None));
        }
    }

    #[test]
    fn cells_become_what_their_events_say() {
        let check = |defined: &CompiledDefinition, stored: &[u8], expected: &[u64]| {
            let words = cell(defined, stored).unwrap();
            let plan: &CellPlan = &defined.plan;
            assert!(plan.check(&words));
            assert_eq!((plan.times(&words), plan.rows(&words)), (plan.times(expected), plan.rows(expected)));
            for length in 0..stored.len() {
                assert_eq!(cell(defined, &stored[..length]), None, "cut to {length}");
            }
            assert_eq!(cell(defined, &[stored, &[0]].concat()), None, "one byte more");
        };
        let mass = defined(MASS);
        let mut words = Vec::new();
        events().for_each(|(time, amounts)| mass.plan.add(&mut words, time, amounts));
        assert_eq!(mass.plan.rows(&words).len(), 15);
        check(&mass, &bytes(CELL), &words);
        let once = defined(ONCE);
        let mut words = Vec::new();
        once.plan.add(&mut words, Time::from_seconds(1_700_000_000), [(0, 1)]);
        check(&once, &bytes(MARK), &words);
    }

    #[test]
    fn damaged_cells_make_no_panic() {
        let mass = defined(MASS);
        let stored = bytes(CELL);
        for at in 0..stored.len() {
            for bit in 0..8 {
                let mut damaged = stored.clone();
                damaged[at] ^= 1 << bit;
                assert!(cell(&mass, &damaged).is_none_or(|words| mass.plan.check(&words)));
            }
        }
    }
}
