//! Definitions of what a stored cell's words mean: a [`CellDefinition`] is written once, cells name it by number.
//!
//! The number is a hash of what it names, so that it will hardly come to mean anything else, not even when the record
//! of it is lost. After a change of configuration a cell is read with the definition that it was written with and
//! then [`translated`].

use std::sync::Arc;

use event::{Kind, Space};

use crate::bytes::{ByteReader, fnv, pack, push_text, unpack};
use crate::catalog::{CatalogError, Statistic};
use crate::cell::CellBuffer;
use crate::kind::{CellPlan, Measure};
use crate::layout::LayoutError;

const FORMAT: u8 = 2;

/// Set in the kind, and in the tag, of a pair.
pub(crate) const PAIR: u16 = 0x8000;

/// One statistic of one kind, as far as its cells depend on it: without the windows that it is read over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellDefinition {
    /// The space of the keys.
    pub space: Space,
    /// Keys of which kind.
    pub kind: Kind,
    /// The statistic's name.
    pub statistic: String,
    /// The kind's name.
    pub kind_name: String,
    /// The statistic that is kept.
    pub measure: Measure,
}

impl CellDefinition {
    /// The definition of a configured statistic.
    pub fn new(space: Space, kind: Kind, statistic: &Statistic) -> CellDefinition {
        let measure = statistic.measure.without_windows();
        let (statistic, kind_name) = (statistic.name.clone(), statistic.kind_name.clone());
        CellDefinition { space, kind, statistic, kind_name, measure }
    }

    /// Returns its form and names, as people read them. The number of a kind must keep its form.
    pub fn meaning(&self) -> String {
        format!("{} `{}` of `{}`", self.measure.form().1, self.statistic, self.kind_name)
    }

    /// Returns true if cells of another definition can be taken over: they have the same form.
    pub fn has_form_of(&self, other: &CellDefinition) -> bool {
        self.measure.form().0 == other.measure.form().0
    }

    /// A hash of all of it, the same on every machine and in every release.
    pub fn id(&self) -> u32 {
        fnv(&self.bytes())
    }

    /// The definition as words that show their end: the number of bytes, and the bytes.
    pub fn encode(&self) -> Vec<u64> {
        pack(&self.bytes())
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT, self.measure.form().0];
        bytes.extend_from_slice(&self.space.0.to_le_bytes());
        bytes.extend_from_slice(&self.kind.0.to_le_bytes());
        push_text(&mut bytes, &self.statistic);
        push_text(&mut bytes, &self.kind_name);
        self.measure.encode(&mut bytes);
        bytes
    }

    /// Reads what [`CellDefinition::encode`] has made; `None` for anything else.
    pub fn decode(words: &[u64]) -> Option<CellDefinition> {
        let bytes = unpack(words)?;
        let mut reader = ByteReader(&bytes);
        let [FORMAT, form] = reader.array()? else { return None };
        let space = Space(u16::from_le_bytes(reader.array()?));
        let kind = Kind(u16::from_le_bytes(reader.array()?));
        let statistic = reader.text()?.to_owned();
        let kind_name = reader.text()?.to_owned();
        let measure = Measure::decode(form, &mut reader)?;
        measure.check().ok()?;
        reader.0.is_empty().then_some(CellDefinition { space, kind, statistic, kind_name, measure })
    }

    /// The operations on its cells, but for readings over windows.
    ///
    /// # Errors
    /// If its measure does not fit.
    pub fn plan(&self) -> Result<CellPlan, LayoutError> {
        CellPlan::over(&self.measure, &[])
    }
}

/// A definition and the operations on its cells.
#[derive(Debug)]
pub(crate) struct CompiledDefinition {
    pub(crate) definition: CellDefinition,
    pub(crate) plan: CellPlan,
}

/// All definitions that cells in memory or on disk may name. Cloning copies 256 KiB.
#[derive(Clone, Default)]
pub(crate) struct DefinitionRegistry {
    by_number: Vec<Option<Arc<CompiledDefinition>>>,
}

impl DefinitionRegistry {
    /// Definitions are numbered from 1 to below this. 0 is free for what is no cell.
    pub(crate) const NUMBERS: u16 = 1 << 15;

    /// Takes in a definition that was stored under this number.
    pub(crate) fn restore(&mut self, number: u16, words: &[u64]) -> Result<(), CatalogError> {
        let unknown = || CatalogError::Stored(format!("definition {number} has an unknown form"));
        if number == 0 || number >= DefinitionRegistry::NUMBERS {
            return Err(unknown());
        }
        let definition = CellDefinition::decode(words).ok_or_else(unknown)?;
        let plan = definition.plan().map_err(|_| unknown())?;
        self.put(number, CompiledDefinition { definition, plan });
        Ok(())
    }

    /// The number of a definition, and whether it is new and must be stored.
    pub(crate) fn define(&mut self, definition: CellDefinition) -> Result<(u16, bool), CatalogError> {
        for (number, known) in self.iter() {
            let known = &known.definition;
            if (known.space, known.kind) != (definition.space, definition.kind) {
                continue;
            }
            if *known == definition {
                return Ok((number, false));
            }
            if !known.has_form_of(&definition) {
                return Err(CatalogError::Meaning {
                    space: known.space,
                    kind: known.kind,
                    stored: known.meaning(),
                    configured: definition.meaning(),
                });
            }
        }
        let plan = definition
            .plan()
            .map_err(|error| CatalogError::Layout { name: definition.statistic.clone(), error })?;
        let hash = definition.id();
        let wanted = (hash ^ hash >> 15 ^ hash >> 30) as u16;
        let number = (0..DefinitionRegistry::NUMBERS)
            .map(|step| wanted.wrapping_add(step) % DefinitionRegistry::NUMBERS)
            .find(|number| *number != 0 && self.get(*number).is_none())
            .ok_or_else(|| CatalogError::Stored("there are too many of them: 32,767".to_owned()))?;
        self.put(number, CompiledDefinition { definition, plan });
        Ok((number, true))
    }

    fn put(&mut self, number: u16, defined: CompiledDefinition) {
        self.by_number.resize(usize::from(DefinitionRegistry::NUMBERS), None);
        if let Some(place) = self.by_number.get_mut(usize::from(number)) {
            *place = Some(Arc::new(defined));
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u16) -> Option<&Arc<CompiledDefinition>> {
        self.by_number.get(usize::from(number))?.as_ref()
    }

    /// All of them, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &Arc<CompiledDefinition>)> {
        self.by_number.iter().zip(0..).filter_map(|(defined, number)| Some((number, defined.as_ref()?)))
    }
}

/// Puts a cell of `old` into an empty room as one of `new`. Counters go by name, a bucket goes into the finest tier
/// whose width is a multiple of its own, and what fits nowhere is dropped. Exact distinct counts and marks only go into
/// buckets of equal width: a value that was counted in two short periods would be counted twice in a long one.
/// Approximate ones go into multiples, and into a lower precision. An aggregate keeps the columns that both have; new ones
/// begin empty.
pub(crate) fn translated(
    words: &[u64],
    old: &CompiledDefinition,
    new: &CompiledDefinition,
    room: &mut impl CellBuffer,
) {
    let names = new.definition.measure.counters();
    let known = old.definition.measure.counters();
    let sources: Vec<Option<usize>> =
        names.iter().map(|name| known.iter().position(|counter| counter == name)).collect();
    new.plan.translate(room, words, &old.plan, &sources);
}

#[cfg(test)]
mod tests {
    use event::{Span, Time};

    use super::*;
    use crate::kind::aggregate::{AggregateColumn, AggregateLayout, DecayWeight};
    use crate::kind::windows::Layout;
    use crate::layout::Tier;

    fn tier(text: &str) -> Tier {
        text.parse().unwrap()
    }

    fn windows(counters: &[&str], tiers: &[&str]) -> Measure {
        let tiers: Vec<Tier> = tiers.iter().map(|text| tier(text)).collect();
        let counters = counters.iter().map(|name| (*name).to_owned()).collect();
        Measure::Windows(Layout::new(counters, &tiers, vec![tiers[0].width], None).unwrap())
    }

    fn aggregate(columns: &[AggregateColumn]) -> Measure {
        Measure::Aggregate(AggregateLayout::new(columns.to_vec(), Span::days(30)).unwrap())
    }

    fn definition(measure: Measure) -> CellDefinition {
        let statistic = Statistic {
            name: "mass".to_owned(),
            kind_name: "from".to_owned(),
            measure,
            admit: None,
            exact: false,
        };
        CellDefinition::new(Space(3), Kind(1), &statistic)
    }

    fn all() -> Vec<Measure> {
        let decayed =
            |seconds, weight| AggregateColumn::Decayed { half_life: Span::seconds(seconds), weight };
        vec![
            windows(&["seen"], &["10m x 144"]),
            windows(&["seen", "spam"], &["10m x 144", "1d x 14"]),
            Measure::distinct(tier("1d x 7"), vec![Span::days(3)]),
            Measure::once(Span::minutes(5)),
            aggregate(&[AggregateColumn::First, AggregateColumn::Last, AggregateColumn::Count]),
            aggregate(&[
                AggregateColumn::Sum,
                AggregateColumn::Min,
                AggregateColumn::Max,
                decayed(60, DecayWeight::One),
                decayed(60, DecayWeight::Value),
            ]),
            Measure::approx(tier("1d x 7"), vec![Span::days(7)], 12),
            Measure::evidence(Span::days(90)),
            Measure::gcra(),
            Measure::last(Span::days(90)),
        ]
    }

    #[test]
    fn definitions_read_back() {
        for measure in all() {
            let definition = definition(measure);
            let mut words = definition.encode();
            assert_eq!(CellDefinition::decode(&words).as_ref(), Some(&definition));
            words.push(0);
            assert_eq!(CellDefinition::decode(&words).as_ref(), Some(&definition), "padded");
            words[0] += 1;
            assert_eq!(CellDefinition::decode(&words), None, "one byte more");
            for length in 0..definition.bytes().len() {
                words[0] = length as u64;
                assert_eq!(CellDefinition::decode(&words), None, "cut to {length}");
            }
        }
    }

    #[test]
    fn numbers_are_found_again_and_never_reused() {
        let mut registry = DefinitionRegistry::default();
        let mut other = DefinitionRegistry::default();
        for (kind, measure) in all().into_iter().enumerate() {
            let definition = CellDefinition { kind: Kind(kind as u16), ..definition(measure) };
            let (number, new) = registry.define(definition.clone()).unwrap();
            assert!(new && number > 0 && number < DefinitionRegistry::NUMBERS);
            assert_eq!(registry.define(definition.clone()), Ok((number, false)));
            assert_eq!(registry.get(number).unwrap().definition, definition);
            other.restore(number, &definition.encode()).unwrap();
        }
        assert_eq!(registry.iter().count(), all().len());
        let numbers =
            |registry: &DefinitionRegistry| registry.iter().map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!(numbers(&registry), numbers(&other));
        assert!(registry.get(0).is_none());
        assert!(other.restore(0, &definition(all().remove(0)).encode()).is_err());
        assert!(other.restore(1 << 15, &definition(all().remove(0)).encode()).is_err());
        assert!(other.restore(7, &[1, 2, 3]).is_err());
    }

    #[test]
    fn a_taken_number_gives_way_to_the_next() {
        let wanted = DefinitionRegistry::default().define(definition(all().remove(0))).unwrap().0;
        let mut registry = DefinitionRegistry::default();
        let other = CellDefinition { kind: Kind(9), ..definition(all().remove(1)) };
        registry.restore(wanted, &other.encode()).unwrap();
        let next = if wanted + 1 == DefinitionRegistry::NUMBERS { 1 } else { wanted + 1 };
        assert_eq!(registry.define(definition(all().remove(0))), Ok((next, true)));
    }

    #[test]
    fn a_kind_keeps_its_meaning() {
        let mut registry = DefinitionRegistry::default();
        registry.define(definition(windows(&["seen"], &["10s x 6"]))).unwrap();
        registry.define(definition(windows(&["seen", "spam"], &["10s x 6"]))).unwrap();
        let error = registry.define(definition(all().remove(4))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "kind 1 of space 3 is stored as windows `mass` of `from` and now configured as aggregate `mass` of `from`: \
             give the new one another name, or let go of the stored one with `tollhouse ledger names --drop`"
        );
    }

    fn defined(measure: Measure) -> CompiledDefinition {
        let definition = definition(measure);
        CompiledDefinition { plan: definition.plan().unwrap(), definition }
    }

    #[test]
    fn windows_are_translated() {
        let at = Time::from_seconds;
        let old = defined(windows(&["seen", "spam"], &["10s x 6", "1m x 5"]));
        let mut words = Vec::new();
        for time in [1200, 1215, 1290, 1300] {
            old.plan.add(&mut words, at(time), [(0, 1), (1, 10)]);
        }
        let check = |new: Measure, expected: &[(i64, i64, &[u64])]| {
            let new = defined(new);
            let mut made = Vec::new();
            translated(&words, &old, &new, &mut made);
            assert!(new.plan.check(&made));
            assert_eq!(new.plan.times(&made), Some((at(1200), at(1300))));
            let rows: Vec<_> = new
                .plan
                .rows(&made)
                .into_iter()
                .map(|row| (row.start.seconds(), row.width.0 / 1_000_000, row.counts))
                .collect();
            let expected: Vec<_> =
                expected.iter().map(|(start, width, counts)| (*start, *width, counts.to_vec())).collect();
            assert_eq!(rows, expected);
        };
        let two = &["10s x 6", "1m x 5"];
        let turned: &[(i64, i64, &[u64])] =
            &[(1200, 60, &[20, 0, 2]), (1290, 10, &[10, 0, 1]), (1300, 10, &[10, 0, 1])];
        check(windows(&["spam", "new", "seen"], two), turned);
        check(windows(&["spam"], &["30s x 2", "2m x 3"]), &[(1200, 120, &[20]), (1290, 30, &[20])]);
        check(windows(&["seen"], &["1m x 5"]), &[(1200, 60, &[2]), (1260, 60, &[2])]);
        check(windows(&["seen"], &["15s x 8"]), &[]);
    }

    #[test]
    fn distinct_counts_stay_in_their_periods_and_approximate_ones_are_united() {
        let at = |seconds| Time::from_seconds(seconds);
        let distinct = |text| defined(Measure::distinct(tier(text), vec![]));
        let mut words = Vec::new();
        distinct("1m x 5").plan.add(&mut words, at(600), [(0, 3)]);
        let rows = |text| {
            let mut made = Vec::new();
            translated(&words, &distinct("1m x 5"), &distinct(text), &mut made);
            distinct(text).plan.rows(&made).into_iter().map(|row| row.counts).collect::<Vec<_>>()
        };
        assert_eq!(rows("1m x 9"), [[3]]);
        assert_eq!(rows("2m x 9"), [[0u64; 1]; 0]);

        let approx = |text, precision| defined(Measure::approx(tier(text), vec![], precision));
        let hash = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7;
        let (mut words, mut expected) = (Vec::new(), Vec::new());
        for number in 0..3000 {
            for time in [600, 660] {
                approx("1m x 5", 12).plan.add_hash(&mut words, at(time), hash(number));
                approx("2m x 5", 10).plan.add_hash(&mut expected, at(time), hash(number));
            }
        }
        let mut made = Vec::new();
        translated(&words, &approx("1m x 5", 12), &approx("2m x 5", 10), &mut made);
        assert!(approx("2m x 5", 10).plan.check(&made));
        let rows = approx("2m x 5", 10).plan.rows(&made);
        assert_eq!(rows, approx("2m x 5", 10).plan.rows(&expected));
        assert_eq!(rows.len(), 1);
        let mut made = Vec::new();
        translated(&words, &approx("1m x 5", 12), &approx("1m x 5", 13), &mut made);
        assert_eq!(approx("1m x 5", 13).plan.rows(&made), [], "registers cannot be divided");
    }

    #[test]
    fn aggregates_keep_what_both_have() {
        let decayed =
            |hours| AggregateColumn::Decayed { half_life: Span::hours(hours), weight: DecayWeight::Value };
        let old = defined(aggregate(&[AggregateColumn::Sum, AggregateColumn::Max, decayed(1), decayed(2)]));
        let new = defined(aggregate(&[
            AggregateColumn::Count,
            AggregateColumn::Sum,
            AggregateColumn::Min,
            decayed(2),
            decayed(3),
        ]));
        let mut words = Vec::new();
        for value in [5, 7] {
            old.plan.add_value(&mut words, Time::from_seconds(1000), Some(value));
        }
        let mut made = Vec::new();
        translated(&words, &old, &new, &mut made);
        assert!(new.plan.check(&made));
        let mut out = [0; 5];
        new.plan.read(&made, Time::from_seconds(1000), &mut out);
        assert_eq!(out, [2, 12, i64::MAX as u64, 12f64.to_bits(), 0]);
        assert_eq!(new.plan.first(&made), Some(Time::from_seconds(1000)));
    }
}
