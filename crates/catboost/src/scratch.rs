//! Memory that evaluation uses.

use crate::model::Model;

/// Memory that evaluation uses, kept by the caller between rows. It grows to what the largest model needs, once.
#[derive(Clone, Debug, Default)]
pub struct ModelScratch {
    /// Column by column; in a batch each has [`crate::score::BLOCK`] rows.
    pub(crate) bins: Vec<u8>,
    /// Category by category, likewise.
    pub(crate) categories: Vec<u32>,
    pub(crate) raw: Vec<f64>,
    pub(crate) paths: ShapScratch,
}

impl ModelScratch {
    pub(crate) fn fit(&mut self, model: &Model, rows: usize) {
        // Leaves among the nodes look at the first column, even where there is none.
        let columns = model.column_player.len().max(1);
        self.bins.resize(self.bins.len().max(columns * rows), 0);
        self.categories.resize(self.categories.len().max(model.categories.len() * rows), 0);
        self.raw.resize(self.raw.len().max(model.dimension * rows), 0.0);
    }
}

/// Room for walking the trees.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShapScratch {
    pub(crate) steps: Vec<ShapNode>,
    pub(crate) elements: Vec<PathElement>,
    pub(crate) players: Vec<f64>,
    pub(crate) out: Vec<f64>,
}

/// An inner node of one tree, as this row sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShapNode {
    pub(crate) player: usize,
    /// The child that the row takes, and the other one.
    pub(crate) hot: ShapBranch,
    pub(crate) cold: ShapBranch,
    pub(crate) weight: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ShapBranch {
    pub(crate) to: BranchTarget,
    pub(crate) weight: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum BranchTarget {
    Step(usize),
    Leaf(usize),
}

/// A player on the way to a node: which share of the rows goes on when it is not known (`zero`) and when it is
/// (`one`), and the weight of the subsets with as many players as the element's place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathElement {
    pub(crate) player: usize,
    pub(crate) zero: f64,
    pub(crate) one: f64,
    pub(crate) weight: f64,
}
