//! Rows to raw values.
//!
//! A row's features become bins, one byte a column. A tree then only compares bytes. A batch is done in blocks of
//! [`BLOCK`] rows, column by column, so that the compiler can make sixteen comparisons at once; leaves are added up
//! in the order of the trees in both ways, so that a row has the same value to the last bit alone and in a batch.

use std::marker::PhantomData;
use std::ops::Range;

use crate::city_hash::category;
use crate::ctr::{Projection, extend, widened};
use crate::model::{Forest, INNER, Model, OneHot, SymmetricTree, TreeNode};
use crate::scratch::ModelScratch;
use crate::split::BinSplit;

/// Rows that are evaluated together.
pub(crate) const BLOCK: usize = 128;

/// The number of rows that are cheaper one by one than as a block.
const FEW: usize = 10;

/// Rows that are led through a tree of nodes together; divides [`BLOCK`].
const TOGETHER: usize = 16;

/// A value of a row for a feature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FeatureValue<'a> {
    /// No value: NaN of a numeric feature, the empty text of a categorical one. So is a value that the feature
    /// cannot take: a text of a numeric one, a number of a categorical one.
    Missing,
    /// A number. What was computed in 64 bits is rounded to 32, as CatBoost does.
    Number(f32),
    /// A category.
    Text(&'a str),
    /// A category, hashed by [`crate::category`].
    Category(u32),
}

/// The values of a batch for a feature.
#[derive(Clone, Copy, Debug)]
pub enum FeatureColumn<'a> {
    /// No row has a value.
    Missing,
    /// Numbers.
    Numbers(&'a [f32]),
    /// Categories.
    Texts(&'a [&'a str]),
    /// Categories, hashed by [`crate::category`].
    Categories(&'a [u32]),
}

/// The values of a batch.
pub(crate) trait FeatureBatch {
    /// The value of a feature in one row.
    fn input(&self, feature: usize, row: usize) -> FeatureValue<'_>;

    /// The numbers of a feature in at most [`BLOCK`] rows; put into `buffer` where they lie nowhere in a row.
    fn numbers<'b>(&'b self, feature: usize, rows: Range<usize>, buffer: &'b mut [f32; BLOCK]) -> &'b [f32] {
        let count = rows.len();
        for (number, row) in buffer.iter_mut().zip(rows) {
            *number = self.input(feature, row).number();
        }
        &buffer[..count]
    }

    /// The hashed categories of a feature in some rows.
    fn categories(&self, feature: usize, rows: Range<usize>, hashes: &mut [u32]) {
        for (hash, row) in hashes.iter_mut().zip(rows) {
            *hash = self.input(feature, row).category();
        }
    }
}

impl FeatureBatch for &[FeatureColumn<'_>] {
    fn input(&self, feature: usize, row: usize) -> FeatureValue<'_> {
        match self[feature] {
            FeatureColumn::Missing => FeatureValue::Missing,
            FeatureColumn::Numbers(values) => FeatureValue::Number(values[row]),
            FeatureColumn::Texts(values) => FeatureValue::Text(values[row]),
            FeatureColumn::Categories(values) => FeatureValue::Category(values[row]),
        }
    }

    fn numbers<'b>(&'b self, feature: usize, rows: Range<usize>, buffer: &'b mut [f32; BLOCK]) -> &'b [f32] {
        if let FeatureColumn::Numbers(values) = self[feature] {
            return &values[rows];
        }
        buffer.fill(f32::NAN);
        &buffer[..rows.len()]
    }
}

/// A batch whose values a function gives by feature and row.
struct RowReader<'a, R> {
    read: R,
    values: PhantomData<FeatureValue<'a>>,
}

impl<'a, R: Fn(usize, usize) -> FeatureValue<'a>> FeatureBatch for RowReader<'a, R> {
    fn input(&self, feature: usize, row: usize) -> FeatureValue<'_> {
        (self.read)(feature, row)
    }
}

impl FeatureValue<'_> {
    fn number(self) -> f32 {
        match self {
            FeatureValue::Number(number) => number,
            _ => f32::NAN,
        }
    }

    fn category(self) -> u32 {
        match self {
            FeatureValue::Text(text) => category(text.as_bytes()),
            FeatureValue::Category(hash) => hash,
            _ => category(b""),
        }
    }
}

impl FeatureColumn<'_> {
    fn len(&self) -> Option<usize> {
        match self {
            FeatureColumn::Missing => None,
            FeatureColumn::Numbers(values) => Some(values.len()),
            FeatureColumn::Texts(values) => Some(values.len()),
            FeatureColumn::Categories(values) => Some(values.len()),
        }
    }
}

/// A batch whose parts do not fit each other or the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchShapeError;

impl std::fmt::Display for BatchShapeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a batch needs a column for each feature and a value of each for every row")
    }
}

impl std::error::Error for BatchShapeError {}

impl Model {
    /// The raw values of one row, [`Model::dimension`] of them. `read` gives the value of a feature by its place
    /// among [`Model::features`]; it is asked once for each that is used.
    ///
    /// Allocates nothing once `scratch` has grown.
    pub fn raw<'a, 's>(
        &self,
        read: impl FnMut(usize) -> FeatureValue<'a>,
        scratch: &'s mut ModelScratch,
    ) -> &'s [f64] {
        self.quantise(read, scratch);
        let ModelScratch { bins, raw, .. } = scratch;
        let raw = &mut raw[..self.dimension];
        raw.fill(0.0);
        match &self.forest {
            Forest::Symmetric { splits, trees } => {
                for tree in trees {
                    self.add(leaf(&splits[tree.splits.clone()], tree.first_leaf, bins), raw);
                }
            }
            Forest::Nodes { trees, nodes, leaves } => {
                for tree in trees {
                    self.add(walk(nodes, leaves, tree.start, bins), raw);
                }
            }
        }
        for (value, bias) in raw.iter_mut().zip(&self.bias) {
            *value = *value * self.scale + bias;
        }
        raw
    }

    /// Turns a row into bins.
    pub(crate) fn quantise<'a>(
        &self,
        mut read: impl FnMut(usize) -> FeatureValue<'a>,
        scratch: &mut ModelScratch,
    ) {
        scratch.fit(self, 1);
        let ModelScratch { bins, categories, .. } = scratch;
        for quantiser in &self.quantisers {
            let value = read(quantiser.feature).number();
            let columns = &mut bins[quantiser.first_column..][..quantiser.columns.len()];
            for (bin, borders) in columns.iter_mut().zip(&quantiser.columns) {
                quantise(borders, quantiser.nan_is_greatest, &[value], std::slice::from_mut(bin));
            }
        }
        for (hash, feature) in categories.iter_mut().zip(&self.categories) {
            *hash = read(*feature).category();
        }
        self.derive(1, categories, bins);
    }

    /// Fills the columns of bins that come from categories; each has `rows` rows.
    fn derive(&self, rows: usize, categories: &[u32], bins: &mut [u8]) {
        for one_hot in &self.one_hot {
            one_hot.fill(rows, categories, bins);
        }
        for projection in &self.projections {
            projection.fill(rows, categories, bins);
        }
    }

    fn add(&self, leaf: usize, raw: &mut [f64]) {
        let values = &self.leaves[leaf * self.dimension..][..self.dimension];
        for (sum, value) in raw.iter_mut().zip(values) {
            *sum += value;
        }
    }

    /// The raw values of a batch of `out.len()` / [`Model::dimension`] rows, row by row. There is a column for
    /// each feature of [`Model::features`], and each has a value for every row.
    pub fn raw_batch(
        &self,
        columns: &[FeatureColumn<'_>],
        scratch: &mut ModelScratch,
        out: &mut [f64],
    ) -> Result<(), BatchShapeError> {
        let rows = out.len() / self.dimension;
        let fits = columns.iter().all(|column| column.len().is_none_or(|length| length == rows));
        if columns.len() != self.features.len() || !out.len().is_multiple_of(self.dimension) || !fits {
            return Err(BatchShapeError);
        }
        self.score_blocks(&columns, scratch, out);
        Ok(())
    }

    /// The raw values of rows that lie anywhere, row by row in `out`: the same as of each alone, faster. `read` gives
    /// the value of a feature in a row, both by their number.
    pub fn raw_rows<'a>(
        &self,
        rows: usize,
        read: impl Fn(usize, usize) -> FeatureValue<'a>,
        scratch: &mut ModelScratch,
        out: &mut [f64],
    ) -> Result<(), BatchShapeError> {
        if out.len() != rows * self.dimension {
            return Err(BatchShapeError);
        }
        self.score_blocks(&RowReader { read, values: PhantomData }, scratch, out);
        Ok(())
    }

    /// Scores `out.len()` / [`Model::dimension`] rows of a batch.
    pub(crate) fn score_blocks(
        &self,
        batch: &impl FeatureBatch,
        scratch: &mut ModelScratch,
        out: &mut [f64],
    ) {
        scratch.fit(self, BLOCK);
        for (block, out) in out.chunks_mut(BLOCK * self.dimension).enumerate() {
            let start = block * BLOCK;
            let count = out.len() / self.dimension;
            if count <= FEW {
                for (row, out) in (start..).zip(out.chunks_exact_mut(self.dimension)) {
                    out.copy_from_slice(self.raw(|feature| batch.input(feature, row), scratch));
                }
                continue;
            }
            self.quantise_block(batch, start..start + count, scratch);
            let ModelScratch { bins, raw, .. } = &mut *scratch;
            let raw = &mut raw[..BLOCK * self.dimension];
            raw.fill(0.0);
            match &self.forest {
                Forest::Symmetric { splits, trees } => self.symmetric_block(splits, trees, bins, raw),
                Forest::Nodes { trees, nodes, leaves } => {
                    for tree in trees {
                        let mut reached = [0; BLOCK];
                        for start in (0..count).step_by(TOGETHER) {
                            let places = walk_together(nodes, tree.start, bins, start);
                            for (reached, place) in reached[start..].iter_mut().zip(places) {
                                *reached = leaves[place as usize] as usize;
                            }
                        }
                        add_leaves(self.dimension, &reached[..count], &self.leaves, raw);
                    }
                }
            }
            for (out, raw) in out.chunks_exact_mut(self.dimension).zip(raw.chunks_exact(self.dimension)) {
                for ((out, value), bias) in out.iter_mut().zip(raw).zip(&self.bias) {
                    *out = value * self.scale + bias;
                }
            }
        }
    }

    fn quantise_block(&self, batch: &impl FeatureBatch, rows: Range<usize>, scratch: &mut ModelScratch) {
        let ModelScratch { bins, categories, .. } = scratch;
        let mut buffer = [0.0; BLOCK];
        for quantiser in &self.quantisers {
            let values = batch.numbers(quantiser.feature, rows.clone(), &mut buffer);
            for (column, borders) in (quantiser.first_column..).zip(&quantiser.columns) {
                let bins = &mut bins[column * BLOCK..][..BLOCK];
                quantise(borders, quantiser.nan_is_greatest, values, bins);
            }
        }
        for (hashes, feature) in categories.chunks_exact_mut(BLOCK).zip(&self.categories) {
            batch.categories(*feature, rows.clone(), hashes);
        }
        self.derive(BLOCK, categories, bins);
    }

    fn symmetric_block(&self, splits: &[BinSplit], trees: &[SymmetricTree], bins: &[u8], raw: &mut [f64]) {
        let mut rest = trees;
        while let Some(tree) = rest.first() {
            let depth = tree.splits.len();
            if self.dimension == 1
                && let Some((four, behind)) = rest.split_first_chunk::<4>()
                && (1..=8).contains(&depth)
                && four.iter().all(|tree| tree.splits.len() == depth)
            {
                let four = four
                    .each_ref()
                    .map(|tree| (&splits[tree.splits.clone()], &self.leaves[tree.first_leaf..]));
                match depth {
                    1 => add_four::<1, 2>(four, bins, raw),
                    2 => add_four::<2, 4>(four, bins, raw),
                    3 => add_four::<3, 8>(four, bins, raw),
                    4 => add_four::<4, 16>(four, bins, raw),
                    5 => add_four::<5, 32>(four, bins, raw),
                    6 => add_four::<6, 64>(four, bins, raw),
                    7 => add_four::<7, 128>(four, bins, raw),
                    _ => add_four::<8, 256>(four, bins, raw),
                }
                rest = behind;
                continue;
            }
            let splits = &splits[tree.splits.clone()];
            let values = &self.leaves[tree.first_leaf * self.dimension..];
            // Bytes are compared as bytes: deeper trees have two for each row.
            let (low, high) = splits.split_at(depth.min(8));
            let low = leaf_block(low, bins);
            if high.is_empty() {
                add_leaves(self.dimension, &low, values, raw);
            } else {
                let high = leaf_block(high, bins);
                let leaves: [u16; BLOCK] =
                    std::array::from_fn(|row| u16::from_le_bytes([low[row], high[row]]));
                add_leaves(self.dimension, &leaves, values, raw);
            }
            rest = &rest[1..];
        }
    }
}

/// Adds the values of the rows' leaves to their sums.
fn add_leaves<L: Copy + Into<usize>>(dimension: usize, leaves: &[L], values: &[f64], raw: &mut [f64]) {
    match dimension {
        1 => add_few::<1, L>(leaves, values, raw),
        2 => add_few::<2, L>(leaves, values, raw),
        3 => add_few::<3, L>(leaves, values, raw),
        4 => add_few::<4, L>(leaves, values, raw),
        5 => add_few::<5, L>(leaves, values, raw),
        _ => {
            for (leaf, raw) in leaves.iter().zip(raw.chunks_exact_mut(dimension)) {
                let leaf: usize = (*leaf).into();
                for (sum, value) in raw.iter_mut().zip(&values[leaf * dimension..]) {
                    *sum += value;
                }
            }
        }
    }
}

fn add_few<const DIMENSION: usize, L: Copy + Into<usize>>(leaves: &[L], values: &[f64], raw: &mut [f64]) {
    let values = values.as_chunks::<DIMENSION>().0;
    for (leaf, sums) in leaves.iter().zip(raw.as_chunks_mut::<DIMENSION>().0) {
        let leaf: usize = (*leaf).into();
        let values = &values[leaf];
        for dimension in 0..DIMENSION {
            sums[dimension] += values[dimension];
        }
    }
}

/// The leaf of a tree of nodes, for one row.
fn walk(nodes: &[TreeNode], leaves: &[u32], root: usize, bins: &[u8]) -> usize {
    let mut place = root;
    while leaves[place] == INNER {
        let node = nodes[place];
        place = node.after(bins[usize::from(node.column)]) as usize;
    }
    leaves[place] as usize
}

/// The leaves of a block's rows in a tree of nodes, from row `start` on. No row waits for the memory of another.
fn walk_together(nodes: &[TreeNode], root: usize, bins: &[u8], start: usize) -> [u32; TOGETHER] {
    let bins = &bins[start..];
    let mut places = [root as u32; TOGETHER];
    loop {
        let mut moved = 0;
        for (row, place) in places.iter_mut().enumerate() {
            let node = nodes[*place as usize];
            let next = node.after(bins[usize::from(node.column) * BLOCK + row]);
            moved |= next ^ *place;
            *place = next;
        }
        if moved == 0 {
            return places;
        }
    }
}

/// The leaf of a symmetric tree, for one row.
pub(crate) fn leaf(splits: &[BinSplit], first_leaf: usize, bins: &[u8]) -> usize {
    let mut leaf = 0;
    for (level, split) in splits.iter().enumerate() {
        leaf |= usize::from(split.passes(bins[usize::from(split.column)])) << level;
    }
    first_leaf + leaf
}

/// The leaves' numbers of a block in one tree of at most 8 levels.
fn leaf_block(splits: &[BinSplit], bins: &[u8]) -> [u8; BLOCK] {
    let mut leaves = [0; BLOCK];
    for (level, split) in splits.iter().enumerate() {
        let bins = &bins[usize::from(split.column) * BLOCK..][..BLOCK];
        for (leaf, bin) in leaves.iter_mut().zip(bins) {
            *leaf |= u8::from(split.passes(*bin)) << level;
        }
    }
    leaves
}

/// Adds the leaves of four trees of `LEAVES` leaves to the sums of a block: a sum is loaded once for four.
fn add_four<const DEPTH: usize, const LEAVES: usize>(
    trees: [(&[BinSplit], &[f64]); 4],
    bins: &[u8],
    raw: &mut [f64],
) {
    let leaves = trees.map(|(splits, _)| leaf_block(&splits[..DEPTH], bins));
    let [a, b, c, d] = trees.map(|(_, values)| values.first_chunk::<LEAVES>());
    let (Some(a), Some(b), Some(c), Some(d)) = (a, b, c, d) else { return };
    let Some(raw) = raw.first_chunk_mut::<BLOCK>() else { return };
    for row in 0..BLOCK {
        // The leaf's number is below `LEAVES`; the mask tells the compiler.
        let at = |tree: usize| usize::from(leaves[tree][row]) & (LEAVES - 1);
        raw[row] = raw[row] + a[at(0)] + b[at(1)] + c[at(2)] + d[at(3)];
    }
}

/// Counts the borders that each value is above. The borders are filled up to a power of two.
fn quantise(borders: &[f32], nan_is_greatest: bool, values: &[f32], bins: &mut [u8]) {
    match borders.len() {
        2 => quantise_in::<2>(borders, nan_is_greatest, values, bins),
        4 => quantise_in::<4>(borders, nan_is_greatest, values, bins),
        8 => quantise_in::<8>(borders, nan_is_greatest, values, bins),
        16 => quantise_in::<16>(borders, nan_is_greatest, values, bins),
        32 => quantise_in::<32>(borders, nan_is_greatest, values, bins),
        64 => quantise_in::<64>(borders, nan_is_greatest, values, bins),
        128 => quantise_in::<128>(borders, nan_is_greatest, values, bins),
        _ => quantise_in::<256>(borders, nan_is_greatest, values, bins),
    }
}

/// A binary search without branches. No value is above the infinity that fills the borders up.
fn quantise_in<const COUNT: usize>(borders: &[f32], nan_is_greatest: bool, values: &[f32], bins: &mut [u8]) {
    let Some(borders) = borders.first_chunk::<COUNT>() else { return };
    for (bin, value) in bins.iter_mut().zip(values) {
        // NaN is above nothing.
        let value = if nan_is_greatest && value.is_nan() { f32::INFINITY } else { *value };
        let mut place = 0;
        let mut step = COUNT / 2;
        while step > 0 {
            place += step * usize::from(value > borders[(place + step - 1) & (COUNT - 1)]);
            step /= 2;
        }
        *bin = place as u8;
    }
}

impl OneHot {
    fn fill(&self, rows: usize, categories: &[u32], bins: &mut [u8]) {
        bins[self.columns.start * rows..self.columns.end * rows].fill(0);
        for (row, hash) in categories[self.category * rows..][..rows].iter().enumerate() {
            if let Ok(place) = self.values.binary_search_by_key(hash, |(value, ..)| *value) {
                let (_, column, bin) = self.values[place];
                bins[column * rows + row] = bin;
            }
        }
    }
}

impl Projection {
    fn fill(&self, rows: usize, categories: &[u32], bins: &mut [u8]) {
        let mut keys = [0u64; BLOCK];
        let keys = &mut keys[..rows];
        for category in &self.categories {
            for (key, hash) in keys.iter_mut().zip(&categories[category * rows..][..rows]) {
                *key = extend(*key, widened(*hash));
            }
        }
        for split in &self.bits {
            for (key, bin) in keys.iter_mut().zip(&bins[usize::from(split.column) * rows..][..rows]) {
                *key = extend(*key, u64::from(split.passes(*bin)));
            }
        }
        for table in &self.tables {
            for (row, key) in keys.iter().enumerate() {
                let found = table.row(*key);
                for column in &table.columns {
                    bins[column.column * rows + row] = column.bins[found];
                }
            }
        }
    }
}
