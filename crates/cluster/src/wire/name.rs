//! The names of keys in the cluster.
//!
//! ```text
//! cell      <prefix> {tag} space (2 bytes) kind (2) form (4) shingle (8), each with the greatest byte first
//! number    <prefix> {tag} '#' node (16)
//! writer    <prefix> {tag} '#!'
//! layout    <prefix> {tag of partition 0} '#'
//! ```
//!
//! What follows the braces tells the four by its length: 16, 17, 2 and 1 bytes.

use event::{Key, Kind};

use super::slot::Tags;
use crate::remote::{Cell, Partition, Partitions};

/// Longest prefix, in bytes.
pub(crate) const PREFIX_BYTES_MAX: usize = 64;

/// Makes names.
#[derive(Debug)]
pub(crate) struct Names {
    prefix: Vec<u8>,
    node: [u8; 16],
    tags: Tags,
}

impl Names {
    pub(crate) fn new(prefix: &str, node: [u8; 16], partitions: Partitions) -> Names {
        Names { prefix: prefix.as_bytes().to_vec(), node, tags: Tags::find(partitions) }
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
    pub(crate) fn cell(&self, partition: Partition, cell: &Cell) -> Vec<u8> {
        let Key { space, kind, shingle } = cell.key;
        let mut name = self.start(partition, 16);
        name.extend_from_slice(&space.0.to_be_bytes());
        name.extend_from_slice(&kind.0.to_be_bytes());
        name.extend_from_slice(&cell.form.id.to_be_bytes());
        name.extend_from_slice(&shingle.0.to_be_bytes());
        name
    }

    /// The name of the cell of a pair of an owner.
    pub(crate) fn pair(&self, partition: Partition, owner: &Cell, pair: event::Shingle) -> Vec<u8> {
        let kind = Kind(owner.key.kind.0 | Cell::PAIR);
        let key = Key { kind, shingle: pair, ..owner.key };
        self.cell(partition, &Cell { key, form: owner.form.clone() })
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

    /// The name of what says how keys are laid out.
    pub(crate) fn layout(&self) -> Vec<u8> {
        let mut name = self.start(Partition(0), 1);
        name.push(b'#');
        name
    }
}
