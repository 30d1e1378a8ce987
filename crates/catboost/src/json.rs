//! CatBoost's JSON export, and the JSON in the metadata of both formats.
//!
//! Numbers of 32 bits are written with enough digits to come back the same. The export lacks nothing that the
//! evaluation needs when it was made with the training pool (`save_model(…, format="json", pool=pool)`).

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, IgnoredAny, Visitor};

use crate::ModelError;
use crate::raw::{
    CtrKind, NanMode, RawCategorical, RawCtr, RawInfo, RawLink, RawModel, RawNode, RawNumeric, RawOneHot,
    RawProjection, RawTable, RawTree, RawTrees, UNSUPPORTED,
};

#[derive(Deserialize)]
struct JsonModel {
    #[serde(default)]
    features_info: JsonFeatures,
    #[serde(default)]
    ctr_data: Option<HashMap<String, JsonCtrTable>>,
    oblivious_trees: Option<Vec<JsonSymmetricTree>>,
    trees: Option<Vec<JsonTreeNode>>,
    scale_and_bias: Option<(f64, OneOrMore)>,
    #[serde(default)]
    model_info: JsonModelInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonFeatures {
    float_features: Option<Vec<JsonNumericFeature>>,
    categorical_features: Option<Vec<JsonCategoricalFeature>>,
    text_features: Option<Vec<IgnoredAny>>,
    embedding_features: Option<Vec<IgnoredAny>>,
    ctrs: Option<Vec<JsonCtr>>,
}

#[derive(Deserialize)]
struct JsonNumericFeature {
    feature_index: i32,
    flat_feature_index: i32,
    #[serde(default)]
    feature_id: String,
    borders: Option<Vec<f32>>,
    #[serde(default)]
    has_nans: bool,
    nan_value_treatment: Option<String>,
}

#[derive(Deserialize)]
struct JsonCategoricalFeature {
    feature_index: i32,
    flat_feature_index: i32,
    #[serde(default)]
    feature_id: String,
    values: Option<Vec<i32>>,
}

#[derive(Deserialize)]
struct JsonCtr {
    identifier: String,
    elements: Option<Vec<JsonCtrElement>>,
    ctr_type: String,
    prior_numerator: f32,
    prior_denomerator: f32,
    shift: f32,
    scale: f32,
    target_border_idx: i32,
    borders: Option<Vec<f32>>,
}

#[derive(Deserialize)]
struct JsonCtrElement {
    combination_element: String,
    cat_feature_index: Option<i32>,
    float_feature_index: Option<i32>,
    border: Option<f32>,
    value: Option<i32>,
}

#[derive(Deserialize)]
struct JsonCtrTable {
    hash_map: Vec<JsonTableItem>,
    hash_stride: usize,
    #[serde(default)]
    counter_denominator: i32,
}

#[derive(Deserialize)]
struct JsonSymmetricTree {
    leaf_values: Option<Vec<f64>>,
    leaf_weights: Option<Vec<f64>>,
    splits: Option<Vec<JsonSplit>>,
}

#[derive(Deserialize)]
struct JsonSplit {
    split_index: i32,
}

#[derive(Deserialize)]
#[serde(expecting = "a node of a tree")]
struct JsonTreeNode {
    left: Option<Box<JsonTreeNode>>,
    right: Option<Box<JsonTreeNode>>,
    split: Option<JsonSplit>,
    value: Option<OneOrMore>,
    weight: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(f64),
    More(Vec<f64>),
}

impl OneOrMore {
    fn as_slice(&self) -> &[f64] {
        match self {
            OneOrMore::One(value) => std::slice::from_ref(value),
            OneOrMore::More(values) => values,
        }
    }
}

/// An entry of a `hash_map`: a key is a text, what is counted for it are numbers.
enum JsonTableItem {
    Key(u64),
    Number(f64),
}

impl<'de> Deserialize<'de> for JsonTableItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonTableItem, D::Error> {
        struct JsonTableItemVisitor;
        impl Visitor<'_> for JsonTableItemVisitor {
            type Value = JsonTableItem;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a key as text")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<JsonTableItem, E> {
                text.parse().map(JsonTableItem::Key).map_err(|_| E::custom("a key is no number of 64 bits"))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<JsonTableItem, E> {
                Ok(JsonTableItem::Number(number as f64))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<JsonTableItem, E> {
                Ok(JsonTableItem::Number(number as f64))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<JsonTableItem, E> {
                Ok(JsonTableItem::Number(number))
            }
        }
        deserializer.deserialize_any(JsonTableItemVisitor)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonModelInfo {
    params: Option<EmbeddedJson<TrainingParams>>,
    loss_function: Option<EmbeddedJson<LossFunction>>,
    class_params: Option<EmbeddedJson<ClassParams>>,
    binclass_probability_threshold: Option<EmbeddedJson<f64>>,
}

/// Metadata are texts, some of which are JSON. The export writes some of those as what they say, by version.
#[derive(Deserialize)]
#[serde(untagged)]
enum EmbeddedJson<T> {
    Plain(T),
    Text(String),
    Other(IgnoredAny),
}

impl<T: DeserializeOwned> EmbeddedJson<T> {
    fn open(self) -> Option<T> {
        match self {
            EmbeddedJson::Plain(value) => Some(value),
            EmbeddedJson::Text(text) => serde_json::from_str(&text).ok(),
            EmbeddedJson::Other(_) => None,
        }
    }
}

#[derive(Deserialize)]
struct TrainingParams {
    loss_function: Option<LossFunction>,
}

#[derive(Deserialize)]
struct LossFunction {
    r#type: String,
}

#[derive(Deserialize)]
struct ClassParams {
    class_names: Option<Vec<ClassLabel>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ClassLabel {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
}

impl ClassParams {
    fn names(self) -> Vec<String> {
        let name = |label| match label {
            ClassLabel::Text(text) => text,
            ClassLabel::Integer(integer) => integer.to_string(),
            ClassLabel::Float(float) => format!("{float:?}"),
            // As Python prints them, which is where such labels come from.
            ClassLabel::Bool(true) => "True".to_owned(),
            ClassLabel::Bool(false) => "False".to_owned(),
        };
        self.class_names.unwrap_or_default().into_iter().map(name).collect()
    }
}

/// The name of the loss function in the text of `params`.
pub(crate) fn loss_of_params(params: &str) -> Option<String> {
    serde_json::from_str::<TrainingParams>(params).ok()?.loss_function.map(|loss| loss.r#type)
}

/// The name of the loss function in the text of `loss_function`.
pub(crate) fn loss_name(loss: &str) -> Option<String> {
    serde_json::from_str::<LossFunction>(loss).ok().map(|loss| loss.r#type)
}

/// The names of the classes in the text of `class_params`.
pub(crate) fn class_names(params: &str) -> Vec<String> {
    serde_json::from_str::<ClassParams>(params).map(ClassParams::names).unwrap_or_default()
}

pub(crate) fn read(bytes: &[u8]) -> Result<RawModel, ModelError> {
    let export: JsonModel = serde_json::from_slice(bytes).map_err(|error| {
        ModelError::new(format!("line {} column {}", error.line(), error.column()), error.to_string())
    })?;
    let mut model = RawModel { scale: 1.0, info: info(export.model_info), ..RawModel::default() };
    if let Some((scale, bias)) = export.scale_and_bias {
        model.scale = scale;
        model.bias = bias.as_slice().to_vec();
    }
    let mut ctrs = features(export.features_info, &mut model)?;
    tables(export.ctr_data.unwrap_or_default(), &mut ctrs, &mut model)?;
    match (export.oblivious_trees, export.trees) {
        (Some(trees), None) => symmetric(trees, &mut model)?,
        (None, Some(trees)) => nodes(&trees, &mut model)?,
        _ => return Err(ModelError::new("trees", "the file has no trees, or trees of two forms")),
    }
    Ok(model)
}

fn info(info: JsonModelInfo) -> RawInfo {
    RawInfo {
        loss: info
            .loss_function
            .and_then(EmbeddedJson::open)
            .or_else(|| info.params.and_then(EmbeddedJson::open).and_then(|params| params.loss_function))
            .map(|loss| loss.r#type),
        classes: info.class_params.and_then(EmbeddedJson::open).map(ClassParams::names).unwrap_or_default(),
        threshold: info.binclass_probability_threshold.and_then(EmbeddedJson::open),
    }
}

fn features(info: JsonFeatures, model: &mut RawModel) -> Result<Vec<JsonCtr>, ModelError> {
    for (features, what) in [(info.text_features, "text"), (info.embedding_features, "embedding")] {
        if features.is_some_and(|features| !features.is_empty()) {
            let message = format!("the model asks for {what}, which is not supported");
            return Err(ModelError::new("features_info", message).help(UNSUPPORTED));
        }
    }
    for feature in info.float_features.unwrap_or_default() {
        let nan = match (feature.has_nans, feature.nan_value_treatment.as_deref()) {
            (true, Some("AsFalse")) => NanMode::Min,
            (true, Some("AsTrue")) => NanMode::Max,
            (_, None | Some("AsIs" | "AsFalse" | "AsTrue")) => NanMode::AsIs,
            _ => return Err(ModelError::new("float_features", "the treatment of NaN is not known")),
        };
        model.numeric.push(RawNumeric {
            index: feature.feature_index,
            flat: feature.flat_feature_index,
            name: feature.feature_id,
            borders: feature.borders.unwrap_or_default(),
            nan,
        });
    }
    for feature in info.categorical_features.unwrap_or_default() {
        if let Some(values) = feature.values {
            model.one_hot.push(RawOneHot { categorical: feature.feature_index, values });
        }
        model.categorical.push(RawCategorical {
            index: feature.feature_index,
            flat: feature.flat_feature_index,
            name: feature.feature_id,
        });
    }
    Ok(info.ctrs.unwrap_or_default())
}

fn projection(elements: &[JsonCtrElement]) -> Option<RawProjection> {
    let mut projection = RawProjection::default();
    for element in elements {
        match element.combination_element.as_str() {
            "cat_feature_value" => projection.categorical.push(element.cat_feature_index?),
            "float_feature" => projection.numeric.push((element.float_feature_index?, element.border?)),
            "cat_feature_exact_value" => {
                projection.one_hot.push((element.cat_feature_index?, element.value?))
            }
            _ => return None,
        }
    }
    Some(projection)
}

fn kind(name: &str) -> Option<CtrKind> {
    Some(match name {
        "Borders" => CtrKind::Borders,
        "Buckets" => CtrKind::Buckets,
        "BinarizedTargetMeanValue" | "FloatTargetMeanValue" => CtrKind::Mean,
        "Counter" | "FeatureFreq" => CtrKind::Counter,
        _ => return None,
    })
}

/// Makes the CTR features and the tables that they name.
fn tables(
    mut counts: HashMap<String, JsonCtrTable>,
    ctrs: &mut Vec<JsonCtr>,
    model: &mut RawModel,
) -> Result<(), ModelError> {
    let refuse = |what: &str| ModelError::new("ctrs", what);
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for ctr in ctrs.drain(..) {
        let table = match numbers.get(&ctr.identifier) {
            Some(number) => *number,
            None => {
                let missing = refuse("the file does not hold what a CTR counts")
                    .help("export the model with the training pool: save_model(…, format='json', pool=pool)");
                let counts = counts.remove(&ctr.identifier).ok_or(missing)?;
                let kind = kind(&ctr.ctr_type).ok_or_else(|| refuse("the type of a CTR is not known"))?;
                let projection = projection(ctr.elements.as_deref().unwrap_or_default())
                    .ok_or_else(|| refuse("an element of a combination is not known"))?;
                numbers.insert(ctr.identifier, model.tables.len());
                model.tables.push(table(projection, kind, &counts)?);
                model.tables.len() - 1
            }
        };
        model.ctrs.push(RawCtr {
            table,
            target_border: ctr.target_border_idx,
            prior_numerator: ctr.prior_numerator,
            prior_denominator: ctr.prior_denomerator,
            shift: ctr.shift,
            scale: ctr.scale,
            borders: ctr.borders.unwrap_or_default(),
        });
    }
    Ok(())
}

fn table(projection: RawProjection, kind: CtrKind, from: &JsonCtrTable) -> Result<RawTable, ModelError> {
    let refuse = |what: &str| ModelError::new("ctr_data", what);
    let (mut keys, mut counts, mut means) = (Vec::new(), Vec::new(), Vec::new());
    if from.hash_stride < 2 || !from.hash_map.len().is_multiple_of(from.hash_stride) {
        return Err(refuse("the entries of a `hash_map` have no whole number of rows"));
    }
    for (index, row) in from.hash_map.chunks_exact(from.hash_stride).enumerate() {
        let [JsonTableItem::Key(key), values @ ..] = row else { return Err(refuse("a row has no key")) };
        // The export writes empty places of its own table too.
        if *key != u64::MAX {
            keys.push((*key, u32::try_from(index).map_err(|_| refuse("a table is too large"))?));
        }
        let mut numbers = Vec::with_capacity(values.len());
        for value in values {
            let JsonTableItem::Number(number) = value else { return Err(refuse("a count is no number")) };
            numbers.push(*number);
        }
        match (kind, numbers.as_slice()) {
            (CtrKind::Mean, [sum, count]) => means.push((*sum as f32, *count as i32)),
            (CtrKind::Mean, _) => return Err(refuse("a mean is not of a sum and a count")),
            (_, numbers) => counts.extend(numbers.iter().map(|number| *number as i32)),
        }
    }
    let classes = i32::try_from(from.hash_stride - 1).map_err(|_| refuse("a table is too large"))?;
    Ok(RawTable { projection, kind, keys, counts, means, classes, denominator: from.counter_denominator })
}

fn symmetric(trees: Vec<JsonSymmetricTree>, model: &mut RawModel) -> Result<(), ModelError> {
    let mut levels = Vec::with_capacity(trees.len());
    for (index, tree) in trees.into_iter().enumerate() {
        let refuse = |what: &str| ModelError::new(format!("tree {index}"), what);
        let splits = tree.splits.unwrap_or_default();
        let values = tree.leaf_values.unwrap_or_default();
        let leaves = u32::try_from(splits.len()).ok().and_then(|depth| 1usize.checked_shl(depth));
        let leaves = leaves.ok_or_else(|| refuse("it is too deep"))?;
        if index == 0 {
            model.dimension = values.len() / leaves;
        }
        if Some(values.len()) != leaves.checked_mul(model.dimension) {
            return Err(refuse("its leaves and its splits do not fit each other"));
        }
        model.leaves.extend(values);
        model.weights.extend(tree.leaf_weights.unwrap_or_default());
        levels.push(splits.into_iter().map(|split| split.split_index).collect());
    }
    model.trees = RawTrees::Symmetric(levels);
    Ok(())
}

fn nodes(trees: &[JsonTreeNode], model: &mut RawModel) -> Result<(), ModelError> {
    let mut forest = Vec::with_capacity(trees.len());
    for (index, tree) in trees.iter().enumerate() {
        let mut nodes = Vec::new();
        let root = node(tree, &mut nodes, model);
        let root = root.map_err(|what| ModelError::new(format!("tree {index}"), what))?;
        forest.push(RawTree { root, nodes });
    }
    model.trees = RawTrees::Nodes(forest);
    Ok(())
}

/// Adds a node and all beneath it. The parser bounds how deep they can be nested.
fn node(
    from: &JsonTreeNode,
    nodes: &mut Vec<RawNode>,
    model: &mut RawModel,
) -> Result<RawLink, &'static str> {
    match from {
        JsonTreeNode { value: Some(value), left: None, right: None, .. } => {
            let values = value.as_slice();
            if model.leaves.is_empty() {
                model.dimension = values.len();
            }
            if values.len() != model.dimension || values.is_empty() {
                return Err("its leaves have different dimensions");
            }
            let leaf = model.leaves.len() / model.dimension;
            model.leaves.extend(values);
            model.weights.extend(from.weight);
            Ok(RawLink::Leaf(leaf))
        }
        JsonTreeNode { left: Some(left), right: Some(right), split: Some(split), value: None, .. } => {
            let place = nodes.len();
            nodes.push(RawNode { split: split.split_index, next: [RawLink::Node(0); 2] });
            let next = [node(left, nodes, model)?, node(right, nodes, model)?];
            nodes[place].next = next;
            Ok(RawLink::Node(place))
        }
        _ => Err("a node is neither a split with two sides nor a leaf with a value"),
    }
}
