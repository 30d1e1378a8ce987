//! Contributions of features to a row's raw value: exact Shapley values of the trees.
//!
//! The path-dependent TreeSHAP (S. Lundberg et al., "Consistent individualized feature attribution for tree
//! ensembles", 2018, algorithm 2), with the choices of CatBoost's `ShapValues`: a symmetric tree is walked from its
//! last split, and what several features make together (a CTR of a combination) is one player, whose value is
//! shared among them equally. Unlike there, a branch that no training row took is not left out where the explained
//! row takes it: so contributions add up to the raw value of every row.

use crate::model::{Forest, INNER, Model};
use crate::score::{FeatureValue, leaf};
use crate::scratch::{BranchTarget, ModelScratch, PathElement, ShapBranch, ShapNode, ShapScratch};

/// A model that cannot explain itself: its file does not say how many training rows fell into each leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingWeightsError;

impl std::fmt::Display for MissingWeightsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the model has no leaf weights, which contributions need (save it again with CatBoost)")
    }
}

impl std::error::Error for MissingWeightsError {}

impl Model {
    /// The contribution of each feature to each raw value of a row: for each dimension one number a feature of
    /// [`Model::features`], then the value that is expected of no row in particular. They add up to the raw value.
    ///
    /// For each tree, about leaves × depth² operations: some milliseconds for hundreds of trees.
    pub fn contributions<'a, 's>(
        &self,
        read: impl FnMut(usize) -> FeatureValue<'a>,
        scratch: &'s mut ModelScratch,
    ) -> Result<&'s [f64], MissingWeightsError> {
        if self.weights.is_empty() {
            return Err(MissingWeightsError);
        }
        self.quantise(read, scratch);
        let ModelScratch { bins, paths, .. } = scratch;
        let (dimension, width) = (self.dimension, self.features.len() + 1);
        paths.players.clear();
        paths.players.resize(self.players.len() * dimension, 0.0);
        paths.out.clear();
        paths.out.resize(width * dimension, 0.0);
        for tree in 0..self.tree_count() {
            let root = self.steps(tree, bins, &mut paths.steps);
            let (mut mean, mut weight) = (vec![0.0; dimension], 0.0);
            self.mean(root, &paths.steps, &mut mean, &mut weight);
            if weight <= 0.0 {
                return Err(MissingWeightsError);
            }
            for (dimension, mean) in mean.iter_mut().enumerate() {
                *mean /= weight;
                paths.out[dimension * width + width - 1] += *mean;
            }
            paths.elements.clear();
            paths.elements.push(PathElement { player: usize::MAX, zero: 1.0, one: 1.0, weight: 1.0 });
            self.walk_paths(root, 0, paths);
        }
        for (player, features) in self.players.iter().enumerate() {
            for value in 0..dimension {
                let share = paths.players[player * dimension + value] / features.len() as f64;
                for feature in features {
                    paths.out[value * width + feature] += share;
                }
            }
        }
        for (value, out) in paths.out.chunks_exact_mut(width).enumerate() {
            out.iter_mut().for_each(|out| *out *= self.scale);
            out[width - 1] += self.bias[value];
        }
        Ok(&paths.out)
    }

    /// The inner nodes of a tree, children before their parents; gives its root.
    fn steps(&self, tree: usize, bins: &[u8], steps: &mut Vec<ShapNode>) -> ShapBranch {
        steps.clear();
        let branch = |steps: &[ShapNode], to: BranchTarget| match to {
            BranchTarget::Step(step) => ShapBranch { to, weight: steps[step].weight },
            BranchTarget::Leaf(leaf) => ShapBranch { to, weight: self.weights[leaf] },
        };
        let push = |steps: &mut Vec<ShapNode>, column: u16, sides: [BranchTarget; 2], passes: bool| {
            let [cold, hot] = if passes { sides } else { [sides[1], sides[0]] };
            let (hot, cold) = (branch(steps, hot), branch(steps, cold));
            let player = self.column_player[usize::from(column)];
            steps.push(ShapNode { player, hot, cold, weight: hot.weight + cold.weight });
            BranchTarget::Step(steps.len() - 1)
        };
        let root = match &self.forest {
            Forest::Symmetric { splits, trees } => {
                let tree = &trees[tree];
                let taken = leaf(&splits[tree.splits.clone()], 0, bins);
                // From the lowest bit of the leaf's number, which is the level above the leaves, upwards.
                let count = 1usize << tree.splits.len();
                let mut level: Vec<BranchTarget> =
                    (0..count).map(|leaf| BranchTarget::Leaf(tree.first_leaf + leaf)).collect();
                for (bit, split) in splits[tree.splits.clone()].iter().enumerate() {
                    let passes = taken >> bit & 1 == 1;
                    let pairs = level.as_chunks::<2>().0;
                    level = pairs.iter().map(|sides| push(steps, split.column, *sides, passes)).collect();
                }
                level[0]
            }
            Forest::Nodes { trees, nodes, leaves } => {
                let tree = trees[tree].clone();
                let mut places: Vec<BranchTarget> = Vec::with_capacity(tree.len());
                for (node, leaf) in nodes[tree.clone()].iter().zip(&leaves[tree.clone()]).rev() {
                    let place = if *leaf == INNER {
                        let side = |next: u32| places[tree.end - 1 - next as usize];
                        let passes = node.after(bins[usize::from(node.column)]) != node.next;
                        push(steps, node.column, [side(node.next), side(node.next + 1)], passes)
                    } else {
                        BranchTarget::Leaf(*leaf as usize)
                    };
                    places.push(place);
                }
                places[tree.len() - 1]
            }
        };
        branch(steps, root)
    }

    /// Adds up the leaves beneath, by weight.
    fn mean(&self, at: ShapBranch, steps: &[ShapNode], sums: &mut [f64], weight: &mut f64) {
        match at.to {
            BranchTarget::Step(step) => {
                self.mean(steps[step].hot, steps, sums, weight);
                self.mean(steps[step].cold, steps, sums, weight);
            }
            BranchTarget::Leaf(leaf) => {
                *weight += at.weight;
                let values = &self.leaves[leaf * self.dimension..][..self.dimension];
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum += value * at.weight;
                }
            }
        }
    }

    /// Walks a branch whose path begins at `start` of the stack of paths, and goes to its end.
    fn walk_paths(&self, at: ShapBranch, start: usize, paths: &mut ShapScratch) {
        match at.to {
            BranchTarget::Leaf(leaf) => {
                let path = &paths.elements[start..];
                let values = &self.leaves[leaf * self.dimension..][..self.dimension];
                for (place, element) in path.iter().enumerate().skip(1) {
                    let share = unwound_sum(path, place) * (element.one - element.zero);
                    let sums = &mut paths.players[element.player * self.dimension..][..self.dimension];
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum += share * value;
                    }
                }
            }
            BranchTarget::Step(step) => {
                let step = paths.steps[step];
                let end = paths.elements.len();
                for (branch, is_hot) in [(step.hot, true), (step.cold, false)] {
                    paths.elements.extend_from_within(start..end);
                    let known =
                        paths.elements[end..].iter().position(|element| element.player == step.player);
                    let before = known.map(|place| unwind(&mut paths.elements, end, place));
                    let (zero, one) = before.map_or((1.0, 1.0), |element| (element.zero, element.one));
                    // Beneath a branch that no training row took, nothing says where one would go.
                    let share = if step.weight > 0.0 { branch.weight / step.weight } else { 0.5 };
                    let (zero, one) = (zero * share, if is_hot { one } else { 0.0 });
                    if zero > 0.0 || one > 0.0 {
                        extend(&mut paths.elements, end, step.player, zero, one);
                        self.walk_paths(branch, end, paths);
                    }
                    paths.elements.truncate(end);
                }
            }
        }
    }
}

/// Adds a player to the path from `start` to the end of the stack.
fn extend(elements: &mut Vec<PathElement>, start: usize, player: usize, zero: f64, one: f64) {
    let length = elements.len() - start;
    elements.push(PathElement { player, zero, one, weight: 0.0 });
    let path = &mut elements[start..];
    let count = (length + 1) as f64;
    for place in (0..length).rev() {
        let weight = path[place].weight;
        path[place + 1].weight += one * weight * (place + 1) as f64 / count;
        path[place].weight = zero * weight * (length - place) as f64 / count;
    }
}

/// Takes the player at `place` out of the path from `start` to the end of the stack.
fn unwind(elements: &mut Vec<PathElement>, start: usize, place: usize) -> PathElement {
    let path = &mut elements[start..];
    let taken @ PathElement { zero, one, .. } = path[place];
    let last = path.len() - 1;
    let count = path.len() as f64;
    let mut ahead = path[last].weight;
    for index in (0..last).rev() {
        if one != 0.0 {
            let weight = path[index].weight;
            path[index].weight = ahead * count / (one * (index + 1) as f64);
            ahead = weight - path[index].weight * zero * (last - index) as f64 / count;
        } else {
            path[index].weight *= count / (zero * (last - index) as f64);
        }
    }
    for index in place..last {
        path[index] = PathElement { weight: path[index].weight, ..path[index + 1] };
    }
    elements.pop();
    taken
}

/// The sum of the weights that [`unwind`] would leave.
fn unwound_sum(path: &[PathElement], place: usize) -> f64 {
    let PathElement { zero, one, .. } = path[place];
    let last = path.len() - 1;
    let count = path.len() as f64;
    let mut ahead = path[last].weight;
    let mut sum = 0.0;
    for index in (0..last).rev() {
        if one != 0.0 {
            let weight = ahead * count / (one * (index + 1) as f64);
            sum += weight;
            ahead = path[index].weight - weight * zero * (last - index) as f64 / count;
        } else {
            sum += path[index].weight * count / (zero * (last - index) as f64);
        }
    }
    sum
}
