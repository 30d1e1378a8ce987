//! The checked model: what a file says, compiled to what evaluation needs.

use std::collections::HashMap;
use std::ops::Range;

use crate::ctr::{CtrBudget, Projection, ProjectionsBuilder};
use crate::raw::{NanMode, RawInfo, RawLink, RawModel, RawProjection, RawTree, RawTrees};
use crate::split::{BinSplit, PER_COLUMN};
use crate::{ModelError, ModelLimits, cbm, json};

/// A feature of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFeature {
    /// Its name; of a feature without one, its number among all features.
    pub name: String,
    /// The values that it takes.
    pub kind: FeatureKind,
    /// True if any tree looks at it. Training drops what does not help.
    pub used: bool,
}

/// The values that a feature takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureKind {
    /// A number; a missing one is NaN.
    Numeric(NanMode),
    /// A text, or an integer as the text that prints it; a missing one is the empty text.
    Categorical,
}

/// The way from raw values to predictions: the inverse link of its loss function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFunction {
    /// The raw value itself; also of loss functions that are not known.
    Identity,
    /// The exponential: Poisson, Tweedie.
    Exponent,
    /// The probability of the second of two classes: Logloss, CrossEntropy, Focal.
    Sigmoid,
    /// The probabilities of classes that exclude each other: MultiClass.
    Softmax,
    /// A probability for each class on its own, of which the likeliest is the row's: MultiClassOneVsAll.
    OneVsAll,
    /// A probability for each of several labels that a row may have at once: MultiLogloss, MultiCrossEntropy.
    Labels,
}

/// A CatBoost model, checked and ready.
///
/// Made by [`Model::from_bytes`]; immutable, so that threads may share it.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) features: Vec<ModelFeature>,
    pub(crate) dimension: usize,
    pub(crate) quantisers: Vec<Quantiser>,
    /// The features whose category the model asks for; [`OneHot`] and [`Projection`] name them by their place here.
    pub(crate) categories: Vec<usize>,
    pub(crate) one_hot: Vec<OneHot>,
    pub(crate) projections: Vec<Projection>,
    /// The place of each column of bins among the players of its sources.
    pub(crate) column_player: Vec<usize>,
    /// Features that make columns together, in their order: what contributions are computed for.
    pub(crate) players: Vec<Vec<usize>>,
    pub(crate) forest: Forest,
    pub(crate) leaves: Vec<f64>,
    pub(crate) weights: Vec<f64>,
    pub(crate) scale: f64,
    pub(crate) bias: Vec<f64>,
    loss: Option<String>,
    link: LinkFunction,
    classes: Vec<String>,
    threshold: f64,
}

/// Cuts a numeric feature into bins.
#[derive(Clone, Debug)]
pub(crate) struct Quantiser {
    pub(crate) feature: usize,
    pub(crate) nan_is_greatest: bool,
    pub(crate) first_column: usize,
    /// The borders of each column, filled up with infinity to a power of two.
    pub(crate) columns: Vec<Vec<f32>>,
}

/// Knows the categories of a one-hot feature: the bin is their number, from 1, in their column.
#[derive(Clone, Debug)]
pub(crate) struct OneHot {
    pub(crate) category: usize,
    pub(crate) columns: Range<usize>,
    /// Category, column, bin; by category.
    pub(crate) values: Vec<(u32, usize, u8)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Forest {
    Symmetric {
        splits: Vec<BinSplit>,
        trees: Vec<SymmetricTree>,
    },
    /// The nodes of each tree lie one behind the other, its root first, each before those that it leads to.
    Nodes {
        trees: Vec<Range<usize>>,
        nodes: Vec<TreeNode>,
        /// The number of the leaf of each node, or [`INNER`].
        leaves: Vec<u32>,
    },
}

/// The number that stands for the leaf of a node that is none.
pub(crate) const INNER: u32 = u32::MAX;

/// A tree whose levels each have one split: the leaf's number has one bit for each.
#[derive(Clone, Debug)]
pub(crate) struct SymmetricTree {
    pub(crate) splits: Range<usize>,
    /// The number of its first leaf among those of all trees.
    pub(crate) first_leaf: usize,
}

/// A node of a tree that is not symmetric, or one of its leaves.
///
/// A row goes to `next`, or where it passes the split to the node behind that. A leaf leads to itself and nothing
/// passes it, so that rows whose ways are of different length can be led together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeNode {
    pub(crate) column: u16,
    pub(crate) flip: u8,
    /// The greatest value that does not pass: one less than [`BinSplit::at`].
    pub(crate) below: u8,
    /// The number among the nodes of all trees.
    pub(crate) next: u32,
}

impl TreeNode {
    pub(crate) fn after(self, bin: u8) -> u32 {
        self.next + u32::from(bin ^ self.flip > self.below)
    }
}

impl Model {
    /// Reads a `.cbm` file or CatBoost's JSON export, whichever the bytes are.
    ///
    /// All that the file says is checked: what comes back can be evaluated on any row without a fault. Memory and
    /// time are bounded by a multiple of the file's length ([`ModelLimits`]).
    pub fn from_bytes(bytes: &[u8]) -> Result<Model, ModelError> {
        if bytes.len() > ModelLimits::FILE_BYTES {
            let message = format!("a model has at most {} bytes", ModelLimits::FILE_BYTES);
            return Err(ModelError::new("file", message));
        }
        let raw = if bytes.starts_with(cbm::MAGIC) {
            cbm::read(bytes)?
        } else if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
            json::read(bytes)?
        } else {
            return Err(ModelError::new("file", "this is no CatBoost model")
                .help("save it with save_model(…) as `cbm` or as `json`"));
        };
        Model::check(raw, bytes.len())
    }

    /// All features, in the order of the columns that the model was trained on.
    pub fn features(&self) -> &[ModelFeature] {
        &self.features
    }

    /// Returns the number of raw values of a row: 1, or one for each class or target.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns the number of trees that are evaluated for each row.
    pub fn tree_count(&self) -> usize {
        match &self.forest {
            Forest::Symmetric { trees, .. } => trees.len(),
            Forest::Nodes { trees, .. } => trees.len(),
        }
    }

    /// The loss function that the model was trained with, if the file says it.
    pub fn loss(&self) -> Option<&str> {
        self.loss.as_deref()
    }

    /// Returns the way from raw values to predictions.
    pub fn link(&self) -> LinkFunction {
        self.link
    }

    /// The classes' names in the order of their probabilities; none of a model that does not classify.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The probability above which a row is of the second of two classes.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Checks and compiles what a file of `file_bytes` says.
    pub(crate) fn check(mut raw: RawModel, file_bytes: usize) -> Result<Model, ModelError> {
        let dimension = raw.dimension;
        if dimension == 0 || dimension > ModelLimits::DIMENSION {
            let message = format!("a model has 1 to {} dimensions, not {dimension}", ModelLimits::DIMENSION);
            return Err(ModelError::new("trees", message));
        }
        if raw.bias.is_empty() {
            raw.bias = vec![0.0; dimension];
        }
        if raw.bias.len() != dimension {
            return Err(ModelError::new("bias", "there is not one for each dimension"));
        }
        let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
        if !finite(&raw.leaves) || !finite(&raw.bias) || !raw.scale.is_finite() {
            return Err(ModelError::new("leaves", "a value is no finite number"));
        }
        if !finite(&raw.weights) || raw.weights.iter().any(|weight| *weight < 0.0) {
            return Err(ModelError::new("leaves", "a weight is no positive number"));
        }
        let mut model = Model {
            features: Vec::new(),
            dimension,
            quantisers: Vec::new(),
            categories: Vec::new(),
            one_hot: Vec::new(),
            projections: Vec::new(),
            column_player: Vec::new(),
            players: Vec::new(),
            forest: Forest::Symmetric { splits: Vec::new(), trees: Vec::new() },
            leaves: std::mem::take(&mut raw.leaves),
            weights: std::mem::take(&mut raw.weights),
            scale: raw.scale,
            bias: std::mem::take(&mut raw.bias),
            loss: raw.info.loss.take(),
            link: LinkFunction::Identity,
            classes: Vec::new(),
            threshold: raw.info.threshold.unwrap_or(0.5),
        };
        let splits = ModelCompiler::new(&raw, &mut model)?.columns(&raw, file_bytes)?;
        model.forest = forest(&raw.trees, &splits, dimension, model.leaves.len())?;
        let leaves = model.leaves.len() / dimension;
        if !model.weights.is_empty() && model.weights.len() != leaves {
            return Err(ModelError::new("leaves", "there is not one weight for each leaf"));
        }
        model.meaning(raw.info)?;
        Ok(model)
    }

    fn meaning(&mut self, info: RawInfo) -> Result<(), ModelError> {
        self.link = match self.loss.as_deref() {
            Some("Logloss" | "CrossEntropy" | "Focal") => LinkFunction::Sigmoid,
            Some("MultiClass") => LinkFunction::Softmax,
            Some("MultiClassOneVsAll") => LinkFunction::OneVsAll,
            Some("MultiLogloss" | "MultiCrossEntropy") => LinkFunction::Labels,
            Some("Poisson" | "Tweedie") => LinkFunction::Exponent,
            _ => LinkFunction::Identity,
        };
        let count = match self.link {
            LinkFunction::Identity | LinkFunction::Exponent => 0,
            LinkFunction::Sigmoid if self.dimension == 1 => 2,
            LinkFunction::Sigmoid => {
                return Err(ModelError::new("trees", "a model of two classes has one dimension"));
            }
            LinkFunction::Softmax | LinkFunction::OneVsAll | LinkFunction::Labels => self.dimension,
        };
        if !(0.0..=1.0).contains(&self.threshold) {
            return Err(ModelError::new("metadata", "the threshold is no probability"));
        }
        self.classes = info.classes;
        if self.classes.len() != count {
            self.classes = (0..count).map(|class| class.to_string()).collect();
        }
        Ok(())
    }
}

/// Numbers features, columns and splits.
struct ModelCompiler<'m> {
    model: &'m mut Model,
    /// Place among the features by the number in the file.
    places: HashMap<i32, usize>,
    /// Place among the features by the number among the categorical ones.
    categorical: HashMap<i32, usize>,
    /// Place among [`Model::categories`] by place among the features.
    categories: HashMap<usize, usize>,
    /// The borders and splits of each numeric feature.
    numeric: HashMap<i32, NumericSplits>,
    /// Its splits, by number among the categorical features and category.
    one_hot: HashMap<(i32, i32), BinSplit>,
    splits: Vec<BinSplit>,
    /// Place among [`Model::players`].
    players: HashMap<Vec<usize>, usize>,
}

struct NumericSplits {
    /// The place among [`RawModel::numeric`].
    place: usize,
    first_split: usize,
}

impl<'m> ModelCompiler<'m> {
    /// Puts the features in the order of their columns in the training data.
    fn new(raw: &RawModel, model: &'m mut Model) -> Result<ModelCompiler<'m>, ModelError> {
        let refuse = |what: &str| ModelError::new("features", what);
        let numeric = raw
            .numeric
            .iter()
            .map(|feature| (feature.flat, feature.index, &feature.name, FeatureKind::Numeric(feature.nan)));
        let categorical = raw
            .categorical
            .iter()
            .map(|feature| (feature.flat, feature.index, &feature.name, FeatureKind::Categorical));
        let mut all: Vec<_> = numeric.chain(categorical).collect();
        if all.len() > ModelLimits::FEATURES {
            return Err(refuse("there are too many").help(format!("at most {}", ModelLimits::FEATURES)));
        }
        all.sort_by_key(|(flat, ..)| *flat);
        if all.first().is_some_and(|(flat, ..)| *flat < 0)
            || all.windows(2).any(|pair| pair[0].0 == pair[1].0)
        {
            return Err(refuse("their numbers are not in order"));
        }
        let (mut places, mut numbers) = (HashMap::new(), HashMap::new());
        for (place, (flat, index, name, kind)) in all.into_iter().enumerate() {
            let name = if name.is_empty() { flat.to_string() } else { name.clone() };
            model.features.push(ModelFeature { name, kind, used: false });
            places.insert(flat, place);
            if kind == FeatureKind::Categorical && numbers.insert(index, place).is_some() {
                return Err(refuse("two categorical ones have the same number"));
            }
        }
        Ok(ModelCompiler {
            model,
            places,
            categorical: numbers,
            categories: HashMap::new(),
            numeric: HashMap::new(),
            one_hot: HashMap::new(),
            splits: Vec::new(),
            players: HashMap::new(),
        })
    }

    /// The place of a categorical feature among those that are asked for.
    fn category(&mut self, index: i32) -> Result<usize, ModelError> {
        let unknown = || ModelError::new("features", "a categorical feature is used that is not described");
        let feature = *self.categorical.get(&index).ok_or_else(unknown)?;
        self.model.features[feature].used = true;
        let next = self.model.categories.len();
        let place = *self.categories.entry(feature).or_insert(next);
        if place == next {
            self.model.categories.push(feature);
        }
        Ok(place)
    }

    /// Adds columns for so many thresholds or values, all of these features, and gives their range.
    fn add_columns(&mut self, thresholds: usize, features: &[usize]) -> Result<Range<usize>, ModelError> {
        let first = self.model.column_player.len();
        let count = thresholds.div_ceil(PER_COLUMN);
        if first + count > ModelLimits::COLUMNS {
            let message = format!("its thresholds fill more than {} columns", ModelLimits::COLUMNS);
            return Err(ModelError::new("features", message));
        }
        let next = self.model.players.len();
        let player = *self.players.entry(features.to_vec()).or_insert(next);
        if player == next {
            self.model.players.push(features.to_vec());
        }
        self.model.column_player.extend(std::iter::repeat_n(player, count));
        Ok(first..first + count)
    }

    fn columns(mut self, raw: &RawModel, file_bytes: usize) -> Result<Vec<BinSplit>, ModelError> {
        self.numeric(raw)?;
        self.one_hot(raw)?;
        self.ctrs(raw, CtrBudget::new(file_bytes))?;
        Ok(self.splits)
    }

    fn numeric(&mut self, raw: &RawModel) -> Result<(), ModelError> {
        for (place, feature) in raw.numeric.iter().enumerate() {
            let first_split = self.splits.len();
            if self.numeric.insert(feature.index, NumericSplits { place, first_split }).is_some() {
                return Err(ModelError::new("features", "two numeric ones have the same number"));
            }
            if feature.borders.is_empty() {
                continue;
            }
            check_borders(&feature.borders)?;
            let unknown = || ModelError::new("features", "a numeric feature is not among all features");
            let index = *self.places.get(&feature.flat).ok_or_else(unknown)?;
            self.model.features[index].used = true;
            let columns = self.add_columns(feature.borders.len(), &[index])?;
            self.splits.extend((0..feature.borders.len()).map(|border| BinSplit {
                column: (columns.start + border / PER_COLUMN) as u16,
                flip: 0,
                at: (border % PER_COLUMN + 1) as u8,
            }));
            self.model.quantisers.push(Quantiser {
                feature: index,
                nan_is_greatest: feature.nan == NanMode::Max,
                first_column: columns.start,
                columns: feature.borders.chunks(PER_COLUMN).map(padded).collect(),
            });
        }
        Ok(())
    }

    fn one_hot(&mut self, raw: &RawModel) -> Result<(), ModelError> {
        for feature in &raw.one_hot {
            let category = self.category(feature.categorical)?;
            let owner = self.model.categories[category];
            let columns = self.add_columns(feature.values.len(), &[owner])?;
            let mut values = Vec::with_capacity(feature.values.len());
            for (number, value) in feature.values.iter().enumerate() {
                let (column, bin) = (columns.start + number / PER_COLUMN, (number % PER_COLUMN + 1) as u8);
                let split = BinSplit { column: column as u16, flip: u8::MAX ^ bin, at: u8::MAX };
                values.push((*value as u32, column, bin));
                self.splits.push(split);
                if self.one_hot.insert((feature.categorical, *value), split).is_some() {
                    return Err(ModelError::new("features", "a one-hot feature has a value twice"));
                }
            }
            values.sort_unstable();
            self.model.one_hot.push(OneHot { category, columns, values });
        }
        Ok(())
    }

    fn ctrs(&mut self, raw: &RawModel, mut budget: CtrBudget) -> Result<(), ModelError> {
        let mut projections = ProjectionsBuilder::default();
        for ctr in &raw.ctrs {
            let unknown = || ModelError::new("CTR features", "a CTR counts in a table that is not there");
            let table = raw.tables.get(ctr.table).ok_or_else(unknown)?;
            check_borders(&ctr.borders)?;
            let RawProjection { categorical, numeric, one_hot } = &table.projection;
            if categorical.len() + numeric.len() + one_hot.len() > ModelLimits::COMBINATION {
                let message =
                    format!("a CTR combines at most {} features and splits", ModelLimits::COMBINATION);
                return Err(ModelError::new("CTR features", message));
            }
            let mut features = Vec::with_capacity(categorical.len());
            let mut categories = Vec::with_capacity(categorical.len());
            for index in categorical {
                let category = self.category(*index)?;
                categories.push(category);
                features.push(self.model.categories[category]);
            }
            let missing =
                || ModelError::new("CTR features", "a combination uses a split that the model lacks");
            let mut bits = Vec::new();
            for (index, border) in numeric {
                let known = self.numeric.get(index).ok_or_else(missing)?;
                let borders = &raw.numeric[known.place].borders;
                let place = borders.partition_point(|known| known < border);
                if borders.get(place) != Some(border) {
                    return Err(missing());
                }
                bits.push(self.splits[known.first_split + place]);
            }
            for (index, value) in one_hot {
                bits.push(*self.one_hot.get(&(*index, *value)).ok_or_else(missing)?);
            }
            let columns = self.add_columns(ctr.borders.len(), &features)?;
            self.splits.extend((0..ctr.borders.len()).map(|border| BinSplit {
                column: (columns.start + border / PER_COLUMN) as u16,
                flip: 0,
                at: (border % PER_COLUMN + 1) as u8,
            }));
            projections.add(ctr, table, categories, bits, columns, &mut budget)?;
        }
        self.model.projections = projections.finish();
        Ok(())
    }
}

fn check_borders(borders: &[f32]) -> Result<(), ModelError> {
    if borders.is_sorted() && borders.iter().all(|border| !border.is_nan()) {
        return Ok(());
    }
    Err(ModelError::new("features", "the borders of a feature are not in order"))
}

/// The borders with infinity behind them, which no value is above, up to a power of two; at least one is added.
fn padded(borders: &[f32]) -> Vec<f32> {
    let mut padded = borders.to_vec();
    padded.resize((borders.len() + 1).next_power_of_two(), f32::INFINITY);
    padded
}

fn forest(
    raw: &RawTrees,
    splits: &[BinSplit],
    dimension: usize,
    values: usize,
) -> Result<Forest, ModelError> {
    let leaves = values / dimension;
    if !values.is_multiple_of(dimension) || leaves >= INNER as usize {
        return Err(ModelError::new("leaves", "there are not as many as the trees have"));
    }
    let split = |index: i32| usize::try_from(index).ok().and_then(|index| splits.get(index)).copied();
    match raw {
        RawTrees::Symmetric(levels) => {
            let (mut trees, mut compiled, mut first_leaf) = (Vec::new(), Vec::new(), 0usize);
            for (index, levels) in levels.iter().enumerate() {
                let refuse = |what: &str| ModelError::new(format!("tree {index}"), what);
                if levels.len() > ModelLimits::DEPTH {
                    return Err(
                        refuse("it is too deep").help(format!("at most {} levels", ModelLimits::DEPTH))
                    );
                }
                let start = compiled.len();
                for level in levels {
                    compiled.push(split(*level).ok_or_else(|| refuse("it has a split that is not there"))?);
                }
                trees.push(SymmetricTree { splits: start..compiled.len(), first_leaf });
                first_leaf += 1 << levels.len();
                if first_leaf > leaves {
                    return Err(refuse("its leaves are not there"));
                }
            }
            if first_leaf != leaves {
                return Err(ModelError::new("leaves", "there are not as many as the trees have"));
            }
            Ok(Forest::Symmetric { splits: compiled, trees })
        }
        RawTrees::Nodes(raw) => {
            let (mut trees, mut nodes, mut leaf_of) = (Vec::new(), Vec::new(), Vec::new());
            for (index, tree) in raw.iter().enumerate() {
                let first = nodes.len();
                let added = add_tree(tree, split, leaves, &mut nodes, &mut leaf_of);
                added.map_err(|what| ModelError::new(format!("tree {index}"), what))?;
                trees.push(first..nodes.len());
            }
            Ok(Forest::Nodes { trees, nodes, leaves: leaf_of })
        }
    }
}

/// Adds the nodes of a tree, level by level. Each may be led to once: there are no loops, and no shared parts that
/// would make a walk of all ways explode.
fn add_tree(
    tree: &RawTree,
    split: impl Fn(i32) -> Option<BinSplit>,
    leaves: usize,
    nodes: &mut Vec<TreeNode>,
    leaf_of: &mut Vec<u32>,
) -> Result<(), &'static str> {
    let first = nodes.len();
    if first + 2 * tree.nodes.len() + 1 >= INNER as usize {
        return Err("it has too many nodes");
    }
    let mut is_met = vec![false; tree.nodes.len()];
    let mut links = vec![(tree.root, 0)];
    let mut done = 0;
    while let Some((link, depth)) = links.get(done).copied() {
        let place = (first + done) as u32;
        done += 1;
        match link {
            RawLink::Leaf(number) if number < leaves => {
                nodes.push(TreeNode { column: 0, flip: 0, below: u8::MAX, next: place });
                leaf_of.push(number as u32);
            }
            RawLink::Leaf(_) => return Err("its leaves are not there"),
            RawLink::Node(number) => {
                let node = tree.nodes.get(number).ok_or("a node leads out of it")?;
                if std::mem::replace(&mut is_met[number], true) {
                    return Err("two ways lead to one of its nodes");
                }
                if depth == ModelLimits::NODE_DEPTH {
                    return Err("it is too deep");
                }
                let BinSplit { column, flip, at } =
                    split(node.split).ok_or("it has a split that is not there")?;
                nodes.push(TreeNode { column, flip, below: at - 1, next: (first + links.len()) as u32 });
                leaf_of.push(INNER);
                links.extend(node.next.map(|link| (link, depth + 1)));
            }
        }
    }
    if is_met.contains(&false) {
        return Err("no way leads to one of its nodes");
    }
    Ok(())
}
