//! The `.cbm` file: `CBM1`, a length, a FlatBuffers table of that length, then what its CTRs count.
//!
//! Field numbers are those of `catboost/libs/model/flatbuffers/{model,features,ctr_data}.fbs`.

use std::collections::HashMap;

use crate::ModelError;
use crate::flatbuffer::{FlatBuffer, FlatFault, FlatTable};
use crate::json::{class_names, loss_name, loss_of_params};
use crate::raw::{
    CtrKind, NanMode, RawCategorical, RawCtr, RawInfo, RawLink, RawModel, RawNode, RawNumeric, RawOneHot,
    RawProjection, RawTable, RawTree, RawTrees, UNSUPPORTED,
};

pub(crate) const MAGIC: &[u8] = b"CBM1";

/// The only part that may follow the trees.
const CTR_PART: &str = "static_provider_v1";

/// An empty place in a table of keys.
const NO_KEY: u64 = u64::MAX;

fn at(place: &str) -> impl Fn(FlatFault) -> ModelError {
    move |fault| ModelError::new(place, fault)
}

pub(crate) fn read(bytes: &[u8]) -> Result<RawModel, ModelError> {
    let short = || ModelError::new("header", "the file is cut off");
    let rest = bytes.get(MAGIC.len()..).ok_or_else(short)?;
    let (core, mut rest) = part(rest).ok_or_else(short)?;
    let buffer = FlatBuffer::new(core);
    let root = buffer.root().map_err(at("header"))?;
    let trees = root.table(1).map_err(at("header"))?;
    let trees = trees.ok_or_else(|| ModelError::new("header", "the file has no trees"))?;
    refuse_unsupported(&trees)?;

    let mut model = RawModel { info: info(&root).map_err(at("metadata"))?, ..RawModel::default() };
    features(&trees, &mut model).map_err(at("features"))?;
    forest(&trees, &mut model)?;
    let bases = ctrs(&trees, &mut model).map_err(at("CTR features"))?;
    let mut numbers = HashMap::new();
    for name in root.texts(3).map_err(at("parts"))? {
        if name != CTR_PART {
            return Err(ModelError::new("parts", format!("the part `{name}` is not known")).help(UNSUPPORTED));
        }
        tables(&mut rest, &mut model, &mut numbers)?;
    }
    if !rest.is_empty() {
        return Err(ModelError::new("end", "there are bytes after the last part"));
    }
    for (ctr, base) in model.ctrs.iter_mut().zip(bases) {
        let missing = || ModelError::new("CTR features", "the file does not hold what a CTR counts");
        ctr.table = *numbers.get(&base).ok_or_else(missing)?;
    }
    Ok(model)
}

/// Bytes behind their length: both, and what is behind them.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

fn refuse_unsupported(trees: &FlatTable<'_>) -> Result<(), ModelError> {
    for (number, what) in [(12, "text"), (18, "embedding")] {
        for feature in trees.tables(number).map_err(at("features"))? {
            let feature = feature.map_err(at("features"))?;
            // An embedding has its dimension before the mark of its use.
            if feature.u8(if number == 18 { 4 } else { 3 }, 1).map_err(at("features"))? != 0 {
                let name = match feature.text(2).map_err(at("features"))? {
                    "" => feature.i32(1, -1).map_err(at("features"))?.to_string(),
                    name => name.to_owned(),
                };
                let message = format!("the model asks for {what}, which is not supported: feature `{name}`");
                return Err(ModelError::new("features", message).help(UNSUPPORTED));
            }
        }
    }
    if trees.tables(13).map_err(at("features"))?.next().is_some() {
        let message = "the model estimates features from text or embeddings, which is not supported";
        return Err(ModelError::new("features", message).help(UNSUPPORTED));
    }
    Ok(())
}

fn info(root: &FlatTable<'_>) -> Result<RawInfo, FlatFault> {
    let mut info = RawInfo::default();
    for pair in root.tables(2)? {
        let pair = pair?;
        match pair.text(0)? {
            "loss_function" => info.loss = loss_name(pair.text(1)?).or(info.loss),
            "params" => info.loss = info.loss.or(loss_of_params(pair.text(1)?)),
            "class_params" => info.classes = class_names(pair.text(1)?),
            "binclass_probability_threshold" => info.threshold = pair.text(1)?.parse().ok(),
            _ => {}
        }
    }
    Ok(info)
}

fn features(trees: &FlatTable<'_>, model: &mut RawModel) -> Result<(), FlatFault> {
    for feature in trees.tables(5)? {
        let feature = feature?;
        let nan = match (feature.u8(0, 0)? != 0, feature.u8(5, 0)?) {
            (true, 1) => NanMode::Min,
            (true, 2) => NanMode::Max,
            (_, 0..=2) => NanMode::AsIs,
            _ => return Err("the treatment of NaN is not known"),
        };
        model.numeric.push(RawNumeric {
            index: feature.i32(1, -1)?,
            flat: feature.i32(2, -1)?,
            borders: feature.f32s(3)?,
            name: feature.text(4)?.to_owned(),
            nan,
        });
    }
    for feature in trees.tables(4)? {
        let feature = feature?;
        model.categorical.push(RawCategorical {
            index: feature.i32(0, -1)?,
            flat: feature.i32(1, -1)?,
            name: feature.text(2)?.to_owned(),
        });
    }
    for feature in trees.tables(6)? {
        let feature = feature?;
        model.one_hot.push(RawOneHot { categorical: feature.i32(0, -1)?, values: feature.i32s(1)? });
    }
    Ok(())
}

fn forest(trees: &FlatTable<'_>, model: &mut RawModel) -> Result<(), ModelError> {
    let fault = at("trees");
    model.dimension = usize::try_from(trees.i32(0, 0).map_err(&fault)?).unwrap_or(0);
    model.scale = trees.f64(14, 1.0).map_err(&fault)?;
    model.bias = trees.f64s(16).map_err(&fault)?;
    let bias = trees.f64(15, 0.0).map_err(&fault)?;
    if model.bias.is_empty() && bias != 0.0 {
        model.bias = vec![bias];
    }
    model.leaves = trees.f64s(8).map_err(&fault)?;
    model.weights = trees.f64s(9).map_err(&fault)?;
    let splits = trees.i32s(1).map_err(&fault)?;
    let sizes = trees.i32s(2).map_err(&fault)?;
    let starts = trees.i32s(3).map_err(&fault)?;
    let steps = trees.elements::<4>(10).map_err(&fault)?;
    let leaf_of = trees.i32s(11).map_err(&fault)?;

    // Trees lie one behind the other; the starts say so again.
    let mut parts = Vec::with_capacity(sizes.len());
    let mut start = 0usize;
    for (index, size) in sizes.iter().enumerate() {
        let end = usize::try_from(*size).ok().and_then(|size| start.checked_add(size));
        let Some(end) = end.filter(|end| *end <= splits.len()) else {
            return Err(ModelError::new(format!("tree {index}"), "it has more splits than the file"));
        };
        if starts.get(index).is_some_and(|said| usize::try_from(*said) != Ok(start)) {
            return Err(ModelError::new(format!("tree {index}"), "it does not follow the tree before it"));
        }
        parts.push(start..end);
        start = end;
    }
    if start != splits.len() {
        return Err(ModelError::new("trees", "some splits belong to no tree"));
    }
    if steps.is_empty() && leaf_of.is_empty() {
        let levels = parts.into_iter().map(|part| splits[part].to_vec());
        model.trees = RawTrees::Symmetric(levels.collect());
        return Ok(());
    }
    if steps.len() != splits.len() || leaf_of.len() != splits.len() {
        return Err(ModelError::new("trees", "the parts of the nodes have different lengths"));
    }
    let trees = parts.into_iter().map(|part| {
        let leaf = |node: usize| {
            // The file counts values, of which a leaf has as many as the model has dimensions.
            RawLink::Leaf(leaf_of[node] as u32 as usize / model.dimension.max(1))
        };
        let node = |node: usize| {
            let [l0, l1, r0, r1] = steps[node];
            let next = [[l0, l1], [r0, r1]].map(|step| match u16::from_le_bytes(step) {
                0 => leaf(node),
                step => RawLink::Node(node - part.start + usize::from(step)),
            });
            RawNode { split: splits[node], next }
        };
        // A node that goes nowhere is a leaf: its split says nothing.
        let ends = |node: usize| steps[node] == [0; 4];
        let mut nodes: Vec<RawNode> = part.clone().map(node).collect();
        for index in 0..nodes.len() {
            for side in 0..2 {
                if let RawLink::Node(to) = nodes[index].next[side]
                    && to < nodes.len()
                    && ends(part.start + to)
                {
                    nodes[index].next[side] = leaf(part.start + to);
                }
            }
        }
        let root = match part.clone().next() {
            Some(first) if ends(first) => leaf(first),
            _ => RawLink::Node(0),
        };
        // What is left of the leaves among the nodes is not reached, and not kept.
        let kept: Vec<bool> = part.clone().map(|node| !ends(node)).collect();
        compact(RawTree { root, nodes }, &kept)
    });
    model.trees = RawTrees::Nodes(trees.collect());
    Ok(())
}

/// The tree without the nodes that are not kept; no kept node leads to them.
fn compact(tree: RawTree, kept: &[bool]) -> RawTree {
    let mut place = Vec::with_capacity(kept.len());
    let mut count = 0;
    for kept in kept {
        place.push(count);
        count += usize::from(*kept);
    }
    let moved = |link: RawLink| match link {
        RawLink::Node(node) => RawLink::Node(place.get(node).copied().unwrap_or(usize::MAX)),
        leaf => leaf,
    };
    let nodes = tree.nodes.into_iter().zip(kept).filter(|(_, kept)| **kept);
    let nodes = nodes.map(|(node, _)| RawNode { split: node.split, next: node.next.map(moved) });
    RawTree { root: tree.root, nodes: nodes.collect() }
}

/// The key by which a table of counts is found: the bytes of its combination, type and classifier.
type CtrBaseBytes = Vec<u8>;

fn base(table: Option<FlatTable<'_>>) -> Result<(CtrBaseBytes, RawProjection, CtrKind), FlatFault> {
    let table = table.ok_or("a CTR does not say of what it is")?;
    let kind_number = table.u8(1, 0)?;
    let kind = match kind_number {
        0 => CtrKind::Borders,
        1 => CtrKind::Buckets,
        2 | 3 => CtrKind::Mean,
        4 | 5 => CtrKind::Counter,
        _ => return Err("the type of a CTR is not known"),
    };
    let mut base = vec![kind_number];
    base.extend(table.i32(2, 0)?.to_le_bytes());
    let mut projection = RawProjection::default();
    if let Some(combination) = table.table(0)? {
        let (numeric, one_hot) = (combination.elements::<8>(1)?, combination.elements::<8>(2)?);
        projection.categorical = combination.i32s(0)?;
        projection.numeric = numeric.iter().map(|pair| two(pair, f32::from_le_bytes)).collect();
        projection.one_hot = one_hot.iter().map(|pair| two(pair, i32::from_le_bytes)).collect();
        for part in [combination.elements::<4>(0)?.as_flattened(), numeric.as_flattened()] {
            base.extend((part.len() as u64).to_le_bytes());
            base.extend(part);
        }
        base.extend(one_hot.as_flattened());
    }
    Ok((base, projection, kind))
}

/// A number and what stands behind it.
fn two<T>(pair: &[u8; 8], second: fn([u8; 4]) -> T) -> (i32, T) {
    let [a, b, c, d, e, f, g, h] = *pair;
    (i32::from_le_bytes([a, b, c, d]), second([e, f, g, h]))
}

/// Reads the CTR features, and of each the base of the table that it means.
fn ctrs(trees: &FlatTable<'_>, model: &mut RawModel) -> Result<Vec<CtrBaseBytes>, FlatFault> {
    let mut bases = Vec::new();
    for feature in trees.tables(7)? {
        let feature = feature?;
        let ctr = feature.table(0)?.ok_or("a CTR feature has no CTR")?;
        bases.push(base(ctr.table(0)?)?.0);
        model.ctrs.push(RawCtr {
            table: 0,
            target_border: ctr.i32(1, 0)?,
            prior_numerator: ctr.f32(2, 0.0)?,
            prior_denominator: ctr.f32(3, 1.0)?,
            shift: ctr.f32(4, 0.0)?,
            scale: ctr.f32(5, 1.0)?,
            borders: feature.f32s(1)?,
        });
    }
    Ok(bases)
}

/// Reads the part with the tables of counts: their number, and each behind its length.
fn tables(
    rest: &mut &[u8],
    model: &mut RawModel,
    numbers: &mut HashMap<CtrBaseBytes, usize>,
) -> Result<(), ModelError> {
    let short = || ModelError::new("CTR tables", "the file is cut off");
    let (count, mut tail) = rest.split_first_chunk().ok_or_else(short)?;
    for _ in 0..u32::from_le_bytes(*count) {
        let (bytes, behind) = part(tail).ok_or_else(short)?;
        tail = behind;
        let (base, table) = table(&FlatBuffer::new(bytes)).map_err(at("CTR tables"))?;
        if numbers.insert(base, model.tables.len()).is_some() {
            return Err(ModelError::new("CTR tables", "a table is there twice"));
        }
        model.tables.push(table);
    }
    *rest = tail;
    Ok(())
}

fn table(buffer: &FlatBuffer<'_>) -> Result<(CtrBaseBytes, RawTable), FlatFault> {
    let root = buffer.root()?;
    let (base, projection, kind) = base(root.table(0)?)?;
    let mut keys = Vec::new();
    for [a, b, c, d, e, f, g, h, row @ ..] in root.elements::<1>(1)?.as_flattened().as_chunks::<12>().0 {
        let key = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
        if key != NO_KEY {
            keys.push((key, u32::from_le_bytes(*row)));
        }
    }
    let blob = root.elements::<1>(2)?.as_flattened();
    let (mut counts, mut means) = (Vec::new(), Vec::new());
    if kind == CtrKind::Mean {
        let pairs = blob.as_chunks::<8>().0;
        means.extend(pairs.iter().map(|[a, b, c, d, count @ ..]| {
            (f32::from_le_bytes([*a, *b, *c, *d]), i32::from_le_bytes(*count))
        }));
    } else {
        counts.extend(blob.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)));
    }
    let (denominator, classes) = (root.i32(3, 0)?, root.i32(4, 0)?);
    Ok((base, RawTable { projection, kind, keys, counts, means, classes, denominator }))
}
