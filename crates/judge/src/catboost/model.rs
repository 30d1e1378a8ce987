//! The checked model: what a file says, compiled to what evaluation needs.

use std::collections::HashMap;
use std::ops::Range;

use super::ctr::{Budget, Projection, Projections};
use super::raw::{NanMode, RawInfo, RawLink, RawModel, RawTree, RawTrees};
use super::{Limits, ModelError, cbm, json};

/// Thresholds that share one column of bins. One value of the byte says "beneath all", and one stays free, as in
/// CatBoost.
pub(super) const PER_COLUMN: usize = 254;

/// A feature of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Feature {
    /// Its name; of a feature without one, its number among all features.
    pub name: String,
    /// What it takes.
    pub kind: FeatureKind,
    /// Whether any tree looks at it. Training drops what does not help.
    pub used: bool,
}

/// What a feature takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureKind {
    /// A number; a missing one is NaN.
    Numeric(NanMode),
    /// A text, or an integer as the text that prints it; a missing one is the empty text.
    Categorical,
}

/// How raw values become what the model predicts: the inverse link of its loss function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
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
    pub(super) features: Vec<Feature>,
    pub(super) dimension: usize,
    pub(super) quantisers: Vec<Quantiser>,
    /// The features whose category the model asks for; [`OneHot`] and [`Projection`] name them by their place here.
    pub(super) categories: Vec<usize>,
    pub(super) one_hot: Vec<OneHot>,
    pub(super) projections: Vec<Projection>,
    /// For each column of bins the place among the players of what it is made of.
    pub(super) column_player: Vec<usize>,
    /// Features that make columns together, in their order: what contributions are computed for.
    pub(super) players: Vec<Vec<usize>>,
    pub(super) forest: Forest,
    pub(super) leaves: Vec<f64>,
    pub(super) weights: Vec<f64>,
    pub(super) scale: f64,
    pub(super) bias: Vec<f64>,
    loss: Option<String>,
    link: Link,
    classes: Vec<String>,
    threshold: f64,
}

/// Cuts a numeric feature into bins.
#[derive(Clone, Debug)]
pub(super) struct Quantiser {
    pub(super) feature: usize,
    pub(super) nan_is_greatest: bool,
    pub(super) first_column: usize,
    /// The borders of each column, filled up with infinity to a power of two.
    pub(super) columns: Vec<Vec<f32>>,
}

/// Knows the categories of a one-hot feature: the bin is their number, from 1, in their column.
#[derive(Clone, Debug)]
pub(super) struct OneHot {
    pub(super) category: usize,
    pub(super) columns: Range<usize>,
    /// Category, column, bin; by category.
    pub(super) values: Vec<(u32, usize, u8)>,
}

/// A test of a row: `bin ^ flip >= at`.
///
/// With no bits flipped that is "above a border". With those flipped that make the wanted bin 255, and 255 as the
/// least, it is "equal to". So there is one form for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) column: u16,
    pub(super) flip: u8,
    pub(super) at: u8,
}

impl Split {
    pub(super) fn passes(self, bin: u8) -> bool {
        bin ^ self.flip >= self.at
    }
}

#[derive(Clone, Debug)]
pub(super) enum Forest {
    Symmetric { splits: Vec<Split>, trees: Vec<Tree> },
    Nodes { roots: Vec<Next>, nodes: Vec<Node> },
}

/// A tree whose levels each have one split: the leaf's number has one bit for each.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) splits: Range<usize>,
    /// The number of its first leaf among those of all trees.
    pub(super) first_leaf: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) split: Split,
    /// Where a row goes that does not pass, and that does.
    pub(super) next: [Next; 2],
}

/// A node, or a leaf: both are numbered over all trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next(pub(super) u32);

impl Next {
    const LEAF: u32 = 1 << 31;

    fn leaf(number: usize) -> Next {
        Next(number as u32 | Next::LEAF)
    }

    /// The number of the leaf, or else of the node.
    pub(super) fn target(self) -> Result<usize, usize> {
        let number = (self.0 & !Next::LEAF) as usize;
        if self.0 & Next::LEAF == 0 { Err(number) } else { Ok(number) }
    }
}

impl Model {
    /// Reads a `.cbm` file or CatBoost's JSON export, whichever the bytes are.
    ///
    /// All that the file says is checked: what comes back can be evaluated on any row without a fault. Memory and
    /// time are bounded by a multiple of the file's length ([`Limits`]).
    pub fn from_bytes(bytes: &[u8]) -> Result<Model, ModelError> {
        if bytes.len() > Limits::FILE_BYTES {
            let message = format!("a model has at most {} bytes", Limits::FILE_BYTES);
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
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// How many raw values a row has: 1, or one for each class or target.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// How many trees are evaluated for each row.
    pub fn tree_count(&self) -> usize {
        match &self.forest {
            Forest::Symmetric { trees, .. } => trees.len(),
            Forest::Nodes { roots, .. } => roots.len(),
        }
    }

    /// The loss function that the model was trained with, if the file says it.
    pub fn loss(&self) -> Option<&str> {
        self.loss.as_deref()
    }

    /// How raw values become what the model predicts.
    pub fn link(&self) -> Link {
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
    pub(super) fn check(mut raw: RawModel, file_bytes: usize) -> Result<Model, ModelError> {
        let dimension = raw.dimension;
        if dimension == 0 || dimension > Limits::DIMENSION {
            let message = format!("a model has 1 to {} dimensions, not {dimension}", Limits::DIMENSION);
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
            forest: Forest::Nodes { roots: Vec::new(), nodes: Vec::new() },
            leaves: std::mem::take(&mut raw.leaves),
            weights: std::mem::take(&mut raw.weights),
            scale: raw.scale,
            bias: std::mem::take(&mut raw.bias),
            loss: raw.info.loss.take(),
            link: Link::Identity,
            classes: Vec::new(),
            threshold: raw.info.threshold.unwrap_or(0.5),
        };
        let splits = Compiler::new(&raw, &mut model)?.columns(&raw, file_bytes)?;
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
            Some("Logloss" | "CrossEntropy" | "Focal") => Link::Sigmoid,
            Some("MultiClass") => Link::Softmax,
            Some("MultiClassOneVsAll") => Link::OneVsAll,
            Some("MultiLogloss" | "MultiCrossEntropy") => Link::Labels,
            Some("Poisson" | "Tweedie") => Link::Exponent,
            _ => Link::Identity,
        };
        let count = match self.link {
            Link::Identity | Link::Exponent => 0,
            Link::Sigmoid if self.dimension == 1 => 2,
            Link::Sigmoid => return Err(ModelError::new("trees", "a model of two classes has one dimension")),
            Link::Softmax | Link::OneVsAll | Link::Labels => self.dimension,
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
struct Compiler<'m> {
    model: &'m mut Model,
    /// Place among the features by the number among the categorical ones.
    categorical: HashMap<i32, usize>,
    /// Place among [`Model::categories`] by place among the features.
    categories: HashMap<usize, usize>,
    /// Quantiser, and the split of its first border, by the number among the numeric features.
    numeric: HashMap<i32, NumericSplits>,
    /// Its splits, by number among the categorical features and category.
    one_hot: HashMap<(i32, i32), Split>,
    splits: Vec<Split>,
    /// Place among [`Model::players`].
    players: HashMap<Vec<usize>, usize>,
}

struct NumericSplits {
    /// The place among [`RawModel::numeric`].
    place: usize,
    first_split: usize,
}

impl<'m> Compiler<'m> {
    /// Puts the features in the order of their columns in the training data.
    fn new(raw: &RawModel, model: &'m mut Model) -> Result<Compiler<'m>, ModelError> {
        let refuse = |what: &str| ModelError::new("features", what);
        let numeric = raw.numeric.iter().map(|feature| {
            (feature.flat, feature.index, &feature.name, FeatureKind::Numeric(feature.nan))
        });
        let categorical = raw.categorical.iter().map(|feature| {
            (feature.flat, feature.index, &feature.name, FeatureKind::Categorical)
        });
        let mut all: Vec<_> = numeric.chain(categorical).collect();
        if all.len() > Limits::FEATURES {
            return Err(refuse("there are too many").help(format!("at most {}", Limits::FEATURES)));
        }
        all.sort_by_key(|(flat, ..)| *flat);
        if all.first().is_some_and(|(flat, ..)| *flat < 0) || all.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(refuse("their numbers are not in order"));
        }
        let mut places = HashMap::new();
        for (place, (flat, index, name, kind)) in all.into_iter().enumerate() {
            let name = if name.is_empty() { flat.to_string() } else { name.clone() };
            model.features.push(Feature { name, kind, used: false });
            if kind == FeatureKind::Categorical && places.insert(index, place).is_some() {
                return Err(refuse("two categorical ones have the same number"));
            }
        }
        Ok(Compiler {
            model,
            categorical: places,
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
        if first + count > Limits::COLUMNS {
            let message = format!("its thresholds fill more than {} columns", Limits::COLUMNS);
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

    fn columns(mut self, raw: &RawModel, file_bytes: usize) -> Result<Vec<Split>, ModelError> {
        self.numeric(raw)?;
        self.one_hot(raw)?;
        self.ctrs(raw, Budget::new(file_bytes))?;
        Ok(self.splits)
    }

    fn numeric(&mut self, raw: &RawModel) -> Result<(), ModelError> {
        let places: HashMap<i32, usize> = {
            let mut order: Vec<(i32, bool)> = raw.numeric.iter().map(|feature| (feature.flat, true)).collect();
            order.extend(raw.categorical.iter().map(|feature| (feature.flat, false)));
            order.sort_unstable();
            order.into_iter().zip(0..).map(|((flat, _), place)| (flat, place)).collect()
        };
        for (place, feature) in raw.numeric.iter().enumerate() {
            let first_split = self.splits.len();
            if self.numeric.insert(feature.index, NumericSplits { place, first_split }).is_some() {
                return Err(ModelError::new("features", "two numeric ones have the same number"));
            }
            if feature.borders.is_empty() {
                continue;
            }
            check_borders(&feature.borders)?;
            let index = places[&feature.flat];
            self.model.features[index].used = true;
            let columns = self.add_columns(feature.borders.len(), &[index])?;
            self.splits.extend((0..feature.borders.len()).map(|border| Split {
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
                let split = Split { column: column as u16, flip: u8::MAX ^ bin, at: u8::MAX };
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

    fn ctrs(&mut self, raw: &RawModel, mut budget: Budget) -> Result<(), ModelError> {
        let mut projections = Projections::default();
        for ctr in &raw.ctrs {
            let unknown = || ModelError::new("CTR features", "a CTR counts in a table that is not there");
            let table = raw.tables.get(ctr.table).ok_or_else(unknown)?;
            check_borders(&ctr.borders)?;
            let mut features = Vec::with_capacity(table.projection.categorical.len());
            let mut categories = Vec::with_capacity(table.projection.categorical.len());
            for index in &table.projection.categorical {
                let category = self.category(*index)?;
                categories.push(category);
                features.push(self.model.categories[category]);
            }
            let missing = || ModelError::new("CTR features", "a combination uses a split that the model lacks");
            let mut bits = Vec::new();
            for (index, border) in &table.projection.numeric {
                let known = self.numeric.get(index).ok_or_else(missing)?;
                let borders = &raw.numeric[known.place].borders;
                let place = borders.partition_point(|known| known < border);
                if borders.get(place) != Some(border) {
                    return Err(missing());
                }
                bits.push(self.splits[known.first_split + place]);
            }
            for (index, value) in &table.projection.one_hot {
                bits.push(*self.one_hot.get(&(*index, *value)).ok_or_else(missing)?);
            }
            let columns = self.add_columns(ctr.borders.len(), &features)?;
            self.splits.extend((0..ctr.borders.len()).map(|border| Split {
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
    splits: &[Split],
    dimension: usize,
    values: usize,
) -> Result<Forest, ModelError> {
    let leaves = values / dimension;
    if !values.is_multiple_of(dimension) || leaves >= Next::LEAF as usize {
        return Err(ModelError::new("leaves", "there are not as many as the trees have"));
    }
    let split = |index: i32| usize::try_from(index).ok().and_then(|index| splits.get(index)).copied();
    match raw {
        RawTrees::Symmetric(levels) => {
            let (mut trees, mut compiled, mut first_leaf) = (Vec::new(), Vec::new(), 0usize);
            for (index, levels) in levels.iter().enumerate() {
                let refuse = |what: &str| ModelError::new(format!("tree {index}"), what);
                if levels.len() > Limits::DEPTH {
                    return Err(refuse("it is too deep").help(format!("at most {} levels", Limits::DEPTH)));
                }
                let start = compiled.len();
                for level in levels {
                    compiled.push(split(*level).ok_or_else(|| refuse("it has a split that is not there"))?);
                }
                trees.push(Tree { splits: start..compiled.len(), first_leaf });
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
            let (mut roots, mut nodes) = (Vec::new(), Vec::new());
            for (index, tree) in raw.iter().enumerate() {
                let first = nodes.len();
                let links = check_nodes(tree, first, leaves);
                let (root, links) = links.map_err(|what| ModelError::new(format!("tree {index}"), what))?;
                for (node, next) in tree.nodes.iter().zip(links) {
                    let missing = || ModelError::new(format!("tree {index}"), "it has a split that is not there");
                    nodes.push(Node { split: split(node.split).ok_or_else(missing)?, next });
                }
                roots.push(root);
            }
            Ok(Forest::Nodes { roots, nodes })
        }
    }
}

/// Numbers the links of a tree, whose first node gets the number `first`. Each node but the root is led to from
/// one node before it: there are no loops, and no shared parts that would make a walk of all paths explode.
fn check_nodes(
    tree: &RawTree,
    first: usize,
    leaves: usize,
) -> Result<(Next, Vec<[Next; 2]>), &'static str> {
    // 0 is "no node leads to it".
    let mut depths = vec![0u8; tree.nodes.len()];
    if first + tree.nodes.len() >= Next::LEAF as usize {
        return Err("it has too many nodes");
    }
    let leaf = |number: usize| if number < leaves { Ok(Next::leaf(number)) } else { Err("its leaves are not there") };
    let root = match (tree.root, tree.nodes.is_empty()) {
        (RawLink::Leaf(number), true) => return Ok((leaf(number)?, Vec::new())),
        (RawLink::Node(0), false) => Next(first as u32),
        _ => return Err("its root is not its first node"),
    };
    depths[0] = 1;
    let mut links = Vec::with_capacity(tree.nodes.len());
    for (place, node) in tree.nodes.iter().enumerate() {
        let depth = depths[place];
        if depth == 0 {
            return Err("no way leads to one of its nodes");
        }
        let mut next = [root; 2];
        for (next, link) in next.iter_mut().zip(node.next) {
            *next = match link {
                RawLink::Leaf(number) => leaf(number)?,
                RawLink::Node(to) => {
                    let known = depths.get_mut(to).filter(|_| to > place);
                    let known = known.ok_or("a node leads out of it, or back")?;
                    if *known != 0 {
                        return Err("two nodes lead to the same");
                    }
                    if usize::from(depth) >= Limits::NODE_DEPTH {
                        return Err("it is too deep");
                    }
                    *known = depth + 1;
                    Next((first + to) as u32)
                }
            };
        }
        links.push(next);
    }
    Ok((root, links))
}
