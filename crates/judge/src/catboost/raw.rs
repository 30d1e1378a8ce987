//! A model as its file says it: what both loaders give, not yet checked.

/// The way in which a numeric feature takes NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NanMode {
    /// No NaN was seen in training. One that comes is below every border.
    AsIs,
    /// NaN is below every border.
    Min,
    /// NaN is above every border.
    Max,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RawModel {
    pub(super) dimension: usize,
    pub(super) numeric: Vec<RawNumeric>,
    pub(super) categorical: Vec<RawCategorical>,
    pub(super) one_hot: Vec<RawOneHot>,
    pub(super) ctrs: Vec<RawCtr>,
    pub(super) tables: Vec<RawTable>,
    pub(super) trees: RawTrees,
    /// `dimension` values for each leaf.
    pub(super) leaves: Vec<f64>,
    /// The training rows, by weight, that fell into each leaf; empty where the file does not say.
    pub(super) weights: Vec<f64>,
    pub(super) scale: f64,
    /// One for each dimension, or none, which is 0.
    pub(super) bias: Vec<f64>,
    pub(super) info: RawInfo,
}

#[derive(Clone, Debug)]
pub(super) struct RawNumeric {
    /// The number among the numeric features.
    pub(super) index: i32,
    /// The number among all features.
    pub(super) flat: i32,
    pub(super) name: String,
    pub(super) borders: Vec<f32>,
    pub(super) nan: NanMode,
}

#[derive(Clone, Debug)]
pub(super) struct RawCategorical {
    /// The number among the categorical features.
    pub(super) index: i32,
    /// The number among all features.
    pub(super) flat: i32,
    pub(super) name: String,
}

#[derive(Clone, Debug)]
pub(super) struct RawOneHot {
    /// The number among the categorical features.
    pub(super) categorical: i32,
    /// Categories.
    pub(super) values: Vec<i32>,
}

/// A statistic of the target over the categories of a combination, cut at borders.
#[derive(Clone, Debug)]
pub(super) struct RawCtr {
    /// The number among the tables.
    pub(super) table: usize,
    pub(super) target_border: i32,
    pub(super) prior_numerator: f32,
    pub(super) prior_denominator: f32,
    pub(super) shift: f32,
    pub(super) scale: f32,
    pub(super) borders: Vec<f32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CtrKind {
    /// The share of target classes above a border.
    Borders,
    /// The share of one target class.
    Buckets,
    /// The mean of the target: of its classes, or of itself.
    Mean,
    /// The number of times that the category was seen.
    Counter,
}

/// The values that are hashed into the key of a CTR table, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RawProjection {
    pub(super) categorical: Vec<i32>,
    /// Numeric features, each beside one of its borders.
    pub(super) numeric: Vec<(i32, f32)>,
    /// Categorical features, each beside one of its values.
    pub(super) one_hot: Vec<(i32, i32)>,
}

#[derive(Clone, Debug)]
pub(super) struct RawTable {
    pub(super) projection: RawProjection,
    pub(super) kind: CtrKind,
    /// Key and the number of its row in `counts` or `means`.
    pub(super) keys: Vec<(u64, u32)>,
    /// For each row: of [`CtrKind::Counter`] one number, of `Borders` and `Buckets` one for each class.
    pub(super) counts: Vec<i32>,
    /// For each row of [`CtrKind::Mean`]: sum and count.
    pub(super) means: Vec<(f32, i32)>,
    pub(super) classes: i32,
    pub(super) denominator: i32,
}

#[derive(Clone, Debug)]
pub(super) enum RawTrees {
    /// For each tree the splits of its levels, the lowest bit of the leaf's number first. Its leaves follow those
    /// of the tree before it.
    Symmetric(Vec<Vec<i32>>),
    /// For each tree its nodes; the first is the root. A tree without nodes is one leaf.
    Nodes(Vec<RawTree>),
}

impl Default for RawTrees {
    fn default() -> RawTrees {
        RawTrees::Symmetric(Vec::new())
    }
}

#[derive(Clone, Debug)]
pub(super) struct RawTree {
    pub(super) root: RawLink,
    pub(super) nodes: Vec<RawNode>,
}

#[derive(Clone, Debug)]
pub(super) struct RawNode {
    pub(super) split: i32,
    /// Where a row goes that does not pass the split, and that does.
    pub(super) next: [RawLink; 2],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RawLink {
    /// The number of a leaf, counted over all trees.
    Leaf(usize),
    /// The number of a node in its tree, above that of the node that names it.
    Node(usize),
}

/// The meaning of a file as it says it, beside the trees.
#[derive(Clone, Debug, Default)]
pub(super) struct RawInfo {
    pub(super) loss: Option<String>,
    pub(super) classes: Vec<String>,
    /// The probability above which a row is of the second of two classes.
    pub(super) threshold: Option<f64>,
}
