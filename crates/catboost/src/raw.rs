//! A model as its file says it: what both loaders give, not yet checked.

/// The mend of a model that asks for text or embeddings.
pub(crate) const UNSUPPORTED: &str =
    "train the model on numeric and categorical features only, or give it the text's features as facts";

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
pub(crate) struct RawModel {
    pub(crate) dimension: usize,
    pub(crate) numeric: Vec<RawNumeric>,
    pub(crate) categorical: Vec<RawCategorical>,
    pub(crate) one_hot: Vec<RawOneHot>,
    pub(crate) ctrs: Vec<RawCtr>,
    pub(crate) tables: Vec<RawTable>,
    pub(crate) trees: RawTrees,
    /// `dimension` values for each leaf.
    pub(crate) leaves: Vec<f64>,
    /// The training rows, by weight, that fell into each leaf; empty where the file does not say.
    pub(crate) weights: Vec<f64>,
    pub(crate) scale: f64,
    /// One for each dimension, or none, which is 0.
    pub(crate) bias: Vec<f64>,
    pub(crate) info: RawInfo,
}

#[derive(Clone, Debug)]
pub(crate) struct RawNumeric {
    /// The number among the numeric features.
    pub(crate) index: i32,
    /// The number among all features.
    pub(crate) flat: i32,
    pub(crate) name: String,
    pub(crate) borders: Vec<f32>,
    pub(crate) nan: NanMode,
}

#[derive(Clone, Debug)]
pub(crate) struct RawCategorical {
    /// The number among the categorical features.
    pub(crate) index: i32,
    /// The number among all features.
    pub(crate) flat: i32,
    pub(crate) name: String,
}

#[derive(Clone, Debug)]
pub(crate) struct RawOneHot {
    /// The number among the categorical features.
    pub(crate) categorical: i32,
    /// Categories.
    pub(crate) values: Vec<i32>,
}

/// A statistic of the target over the categories of a combination, cut at borders.
#[derive(Clone, Debug)]
pub(crate) struct RawCtr {
    /// The number among the tables.
    pub(crate) table: usize,
    pub(crate) target_border: i32,
    pub(crate) prior_numerator: f32,
    pub(crate) prior_denominator: f32,
    pub(crate) shift: f32,
    pub(crate) scale: f32,
    pub(crate) borders: Vec<f32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CtrKind {
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
pub(crate) struct RawProjection {
    pub(crate) categorical: Vec<i32>,
    /// Numeric features, each beside one of its borders.
    pub(crate) numeric: Vec<(i32, f32)>,
    /// Categorical features, each beside one of its values.
    pub(crate) one_hot: Vec<(i32, i32)>,
}

#[derive(Clone, Debug)]
pub(crate) struct RawTable {
    pub(crate) projection: RawProjection,
    pub(crate) kind: CtrKind,
    /// Key and the number of its row in `counts` or `means`.
    pub(crate) keys: Vec<(u64, u32)>,
    /// The counts of each row: one number for [`CtrKind::Counter`], one for each class for `Borders` and `Buckets`.
    pub(crate) counts: Vec<i32>,
    /// The sum and count of each row of [`CtrKind::Mean`].
    pub(crate) means: Vec<(f32, i32)>,
    pub(crate) classes: i32,
    pub(crate) denominator: i32,
}

#[derive(Clone, Debug)]
pub(crate) enum RawTrees {
    /// The splits of each tree's levels, the lowest bit of the leaf's number first. Its leaves follow those of the tree
    /// before it.
    Symmetric(Vec<Vec<i32>>),
    /// The nodes of each tree; the first is the root. A tree without nodes is one leaf.
    Nodes(Vec<RawTree>),
}

impl Default for RawTrees {
    fn default() -> RawTrees {
        RawTrees::Symmetric(Vec::new())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RawTree {
    pub(crate) root: RawLink,
    pub(crate) nodes: Vec<RawNode>,
}

#[derive(Clone, Debug)]
pub(crate) struct RawNode {
    pub(crate) split: i32,
    /// The next node of a row that does not pass the split, and of one that does.
    pub(crate) next: [RawLink; 2],
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum RawLink {
    /// The number of a leaf, counted over all trees.
    Leaf(usize),
    /// The number of a node in its tree, above that of the node that names it.
    Node(usize),
}

/// The meaning of a file as it says it, beside the trees.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawInfo {
    pub(crate) loss: Option<String>,
    pub(crate) classes: Vec<String>,
    /// The probability above which a row is of the second of two classes.
    pub(crate) threshold: Option<f64>,
}
