//! The names of keys in the cluster.
//!
//! ```text
//! cell      <prefix> {tag} space (2 bytes) kind (2) form (4) shingle (8), each with the greatest byte first
//! number    <prefix> {tag} '#' node (16)
//! writer    <prefix> {tag} '#!'
//! round     <prefix> {tag} '##' owner (16)
//! sketch    <prefix> {tag} '#s' sketch (4) lines (4) span (8) half (8), each with the greatest byte first
//! sighter   <prefix> {tag} '#s' owner (16)
//! probe     <prefix> {tag} '#?'
//! table     <prefix> {tag} '#t' number (1)
//! layout    <prefix> {tag of partition 0} '#'
//! changed   <prefix> {tag of partition 0} '#' 'g'
//! numbers   <prefix> {tag of partition 0} '#' 'n'
//! nodes     <prefix> {tag of partition 0} '#' 'o'
//! entries   <prefix> {tag of partition 0} '#' 'e'
//! rules     <prefix> {tag of partition 0} '#' 'r'
//! texts     <prefix> {tag of partition 0} '#' 'x'
//! examples  <prefix> {tag of partition 0} '#l' model (5), then nothing, 'n', 'l' or 's'
//! changes   <prefix> {tag of partition 0} '#' 'c' part (1)
//! ```
//!
//! What follows the braces tells them by its length, and `#!`, `#?`, `#g`, `#n`, `#o`, `#e`, `#r`, `#x` and `#l` from each other, as
//! `#c` from `#t`.

use event::{Key, Kind, Shingle, Space};

use super::slot::PartitionTags;
use crate::remote::{Partition, PartitionCount, RemoteCell, SketchHalf};

/// Longest prefix, in bytes.
pub(crate) const PREFIX_BYTES_MAX: usize = 64;

/// The content of a cell's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CellName {
    /// The key of the cell, with [`RemoteCell::PAIR`] in the kind of pairs.
    pub(crate) key: Key,
    /// The form of the cell.
    pub(crate) form: u32,
}

/// Makes names, and reads those of cells.
#[derive(Debug)]
pub(crate) struct NameCodec {
    prefix: Vec<u8>,
    node: [u8; 16],
    tags: PartitionTags,
    partitions: PartitionCount,
}

impl NameCodec {
    pub(crate) fn new(prefix: &str, node: [u8; 16], partitions: PartitionCount) -> NameCodec {
        NameCodec {
            prefix: prefix.as_bytes().to_vec(),
            node,
            tags: PartitionTags::find(partitions),
            partitions,
        }
    }

    fn start(&self, partition: Partition, more: usize) -> Vec<u8> {
        let tag = self.tags.of(partition);
        let mut name = Vec::with_capacity(self.prefix.len() + tag.len() + 2 + more);
        name.extend_from_slice(&self.prefix);
        name.push(b'{');
        name.extend_from_slice(tag);
        name.push(b'}');
        name
    }

    /// The name of a cell.
    pub(crate) fn cell(&self, partition: Partition, cell: &RemoteCell) -> Vec<u8> {
        self.named(partition, CellName { key: cell.key, form: cell.form.id })
    }

    /// Returns the name of a cell from what the name says.
    pub(crate) fn named(&self, partition: Partition, CellName { key, form }: CellName) -> Vec<u8> {
        let Key { space, kind, shingle } = key;
        let mut name = self.start(partition, 16);
        name.extend_from_slice(&space.0.to_be_bytes());
        name.extend_from_slice(&kind.0.to_be_bytes());
        name.extend_from_slice(&form.to_be_bytes());
        name.extend_from_slice(&shingle.0.to_be_bytes());
        name
    }

    /// Reads what the name of a cell says, with its partition; `None` for any other name.
    pub(crate) fn read(&self, name: &[u8]) -> Option<(Partition, CellName)> {
        let rest = name.strip_prefix(self.prefix.as_slice())?.strip_prefix(b"{")?;
        let at = rest.iter().position(|byte| *byte == b'}')?;
        let (tag, rest) = rest.split_at(at);
        let rest: &[u8; 17] = rest.try_into().ok()?;
        let [_, s0, s1, k0, k1, f0, f1, f2, f3, shingle @ ..] = *rest;
        let shingle = Shingle(u64::from_be_bytes(shingle));
        let space = Space(u16::from_be_bytes([s0, s1]));
        let kind = Kind(u16::from_be_bytes([k0, k1]));
        let partition = self.partitions.of(shingle);
        let name = CellName { key: Key { space, kind, shingle }, form: u32::from_be_bytes([f0, f1, f2, f3]) };
        (self.tags.of(partition) == tag).then_some((partition, name))
    }

    /// Returns the pattern that the names of all cells match, as `SCAN` takes it.
    pub(crate) fn pattern(&self) -> Vec<u8> {
        let mut pattern = Vec::with_capacity(self.prefix.len() + 2);
        for byte in &self.prefix {
            if b"*?[]^\\".contains(byte) {
                pattern.push(b'\\');
            }
            pattern.push(*byte);
        }
        pattern.extend_from_slice(b"{*");
        pattern
    }

    /// The name of the cell of a pair of an owner.
    pub(crate) fn pair(&self, partition: Partition, owner: &RemoteCell, pair: event::Shingle) -> Vec<u8> {
        let kind = Kind(owner.key.kind.0 | RemoteCell::PAIR);
        let key = Key { kind, shingle: pair, ..owner.key };
        self.cell(partition, &RemoteCell { key, form: owner.form.clone() })
    }

    /// The name of the node's number.
    pub(crate) fn number(&self, partition: Partition) -> Vec<u8> {
        let mut name = self.start(partition, 17);
        name.push(b'#');
        name.extend_from_slice(&self.node);
        name
    }

    /// The name of what says who wrote to a partition last.
    pub(crate) fn writer(&self, partition: Partition) -> Vec<u8> {
        let mut name = self.start(partition, 2);
        name.extend_from_slice(b"#!");
        name
    }

    /// The name of what is remembered of an owner's last round.
    pub(crate) fn exact_batch(&self, partition: Partition, owner: &[u8; 16]) -> Vec<u8> {
        let mut name = self.start(partition, 18);
        name.extend_from_slice(b"##");
        name.extend_from_slice(owner);
        name
    }

    /// The name of the counters of a sketch in one half of its life.
    pub(crate) fn sketch(&self, partition: Partition, half: &SketchHalf) -> Vec<u8> {
        let mut name = self.start(partition, 26);
        name.extend_from_slice(b"#s");
        name.extend_from_slice(&half.sketch.to_be_bytes());
        name.extend_from_slice(&half.lines.to_be_bytes());
        name.extend_from_slice(&half.span.0.to_be_bytes());
        name.extend_from_slice(&half.number.to_be_bytes());
        name
    }

    /// The name of a table of cells, where a module keeps them.
    pub(crate) fn table(&self, partition: Partition, table: u8) -> Vec<u8> {
        let mut name = self.start(partition, 3);
        name.extend_from_slice(b"#t");
        name.push(table);
        name
    }

    /// The name of the number of an owner's last batch of sightings.
    pub(crate) fn sighter(&self, partition: Partition, owner: &[u8; 16]) -> Vec<u8> {
        let mut name = self.start(partition, 18);
        name.extend_from_slice(b"#s");
        name.extend_from_slice(owner);
        name
    }

    /// The name of what is tried out when a node is opened.
    pub(crate) fn probe(&self, partition: Partition) -> Vec<u8> {
        let mut name = self.start(partition, 2);
        name.extend_from_slice(b"#?");
        name
    }

    /// The name of what says how keys are laid out.
    pub(crate) fn layout(&self) -> Vec<u8> {
        let mut name = self.start(Partition(0), 1);
        name.push(b'#');
        name
    }

    /// The name of what says when cells were changed by others than nodes.
    pub(crate) fn changed(&self) -> Vec<u8> {
        let mut name = self.start(Partition(0), 2);
        name.extend_from_slice(b"#g");
        name
    }

    /// The name of the registry of numbers.
    pub(crate) fn numbers(&self) -> Vec<u8> {
        let mut name = self.start(Partition(0), 2);
        name.extend_from_slice(b"#n");
        name
    }

    /// The name of what says which node has which number.
    pub(crate) fn node_numbers(&self) -> Vec<u8> {
        let mut name = self.start(Partition(0), 2);
        name.extend_from_slice(b"#o");
        name
    }

    /// The name of the list of states of what was posted over the files of configurations.
    pub(crate) fn rule_states(&self) -> Vec<u8> {
        let mut name = self.start(Partition(0), 2);
        name.extend_from_slice(b"#r");
        name
    }

    /// The name of these states themselves.
    pub(crate) fn rule_texts(&self) -> Vec<u8> {
        let mut name = self.start(Partition(0), 2);
        name.extend_from_slice(b"#x");
        name
    }

    /// The name of the stream of a model's examples.
    pub(crate) fn examples(&self, model: [u8; 5]) -> Vec<u8> {
        let mut name = self.start(Partition(0), 8);
        name.extend_from_slice(b"#l");
        name.extend_from_slice(&model);
        name
    }

    /// The name of what says who has sent which of these examples.
    pub(crate) fn example_senders(&self, model: [u8; 5]) -> Vec<u8> {
        [&self.examples(model)[..], b"n"].concat()
    }

    /// The name of the lease of who writes a snapshot of a model.
    pub(crate) fn model_lease(&self, model: [u8; 5]) -> Vec<u8> {
        [&self.examples(model)[..], b"l"].concat()
    }

    /// The name of the pieces of a model's snapshots.
    pub(crate) fn model_pieces(&self, model: [u8; 5]) -> Vec<u8> {
        [&self.examples(model)[..], b"s"].concat()
    }

    /// The names of the list of changes that nodes share: the numbers of subjects, their changes, when these end, and calls.
    pub(crate) fn changes(&self) -> Vec<Vec<u8>> {
        let named = |part: &u8| {
            let mut name = self.start(Partition(0), 3);
            name.extend_from_slice(b"#c");
            name.push(*part);
            name
        };
        b"nveh".iter().map(named).collect()
    }

    /// The name of what nodes say of themselves, by number.
    pub(crate) fn node_entries(&self) -> Vec<u8> {
        let mut name = self.start(Partition(0), 2);
        name.extend_from_slice(b"#e");
        name
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names() -> NameCodec {
        NameCodec::new("a*[b:", [7; 16], PartitionCount::new(64).unwrap())
    }

    #[test]
    fn other_names_are_none_of_cells() {
        let names = names();
        assert_eq!(names.pattern(), b"a\\*\\[b:{*");
        for name in [
            names.layout(),
            names.changed(),
            names.numbers(),
            names.node_numbers(),
            names.node_entries(),
            names.rule_states(),
            names.rule_texts(),
            names.examples([0; 5]),
            names.example_senders([1; 5]),
            names.model_lease([2; 5]),
            names.model_pieces([3; 5]),
            names.changes().remove(0),
            names.number(Partition(3)),
            names.writer(Partition(3)),
            names.table(Partition(3), 7),
            names.sighter(Partition(3), &[7; 16]),
            names.sketch(Partition(3), &SketchHalf { sketch: 1, lines: 2, span: event::Span(3), number: 4 }),
            Vec::new(),
        ] {
            assert_eq!(names.read(&name), None, "{name:?}");
        }
        let key = Key { space: Space(1), kind: Kind(2), shingle: Shingle(3) };
        let mut cell = names.named(Partition(0), CellName { key, form: 4 });
        assert!(names.read(&cell).is_some());
        *cell.last_mut().unwrap() ^= 1;
        assert!(names.read(&cell).is_some());
        let stray = names.named(Partition(1), CellName { key, form: 4 });
        assert_eq!(names.read(&stray), None, "it lies where nobody looks for it");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn names_say_what_they_were_made_of(
            space: u16, kind: u16, shingle: u64, form: u32, cut in 0usize..40, byte: u8,
        ) {
            let names = names();
            let key = Key { space: Space(space), kind: Kind(kind), shingle: Shingle(shingle) };
            let partition = names.partitions.of(key.shingle);
            let mut name = names.named(partition, CellName { key, form });
            prop_assert_eq!(names.read(&name), Some((partition, CellName { key, form })));
            if cut < name.len() {
                name[cut] = byte;
                let _ = names.read(&name);
                name.truncate(cut);
                prop_assert_eq!(names.read(&name), None);
            }
        }
    }
}
