//! Growing trees: CART (Breiman, Friedman, Olshen, Stone: "Classification and Regression Trees", 1984), and random
//! forests (Breiman: "Random Forests", 2001).
//!
//! Rows are sorted by every column once; a split partitions each sorted list and preserves its order, so that a level
//! of the tree costs one pass over the cells. The best split is made first, so that a limit on the number of leaves
//! keeps the best splits.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use quarry_stdx::number::{f64_of, integer_part, u32_of};

use crate::matrix::Matrix;
use crate::options::Options;
use crate::rng::Rng;
use crate::tree::{Forest, Tree};
use crate::{FitControl, LearnError, check_stop};

/// Maximum number of trees of a forest.
const TREES_MAX: usize = 500;
/// Maximum depth of a tree, even if `max_depth` is greater.
const DEPTH_MAX: usize = 1_000;
/// Impurity up to which a node counts as pure, relative to its sum of squares or, for classes, to its weight.
const PURE_NODE_IMPURITY: f64 = 1e-12;

/// Target values of the rows.
pub(crate) enum Targets<'a> {
    /// A class for each row, and the number of classes.
    Classes(&'a [u32], usize),
    /// A number for each row.
    Numbers(&'a [f64]),
}

/// Parameters of growing trees.
#[derive(Clone, Debug)]
pub(crate) struct GrowthOptions {
    trees: usize,
    by_entropy: bool,
    depth: usize,
    leaves: usize,
    split_rows: f64,
    leaf_rows: f64,
    columns: usize,
    is_forest: bool,
    seed: u64,
}

impl GrowthOptions {
    /// Reads the options.
    pub(crate) fn new(
        options: &Options,
        width: usize,
        is_forest: bool,
        classifies: bool,
    ) -> Result<GrowthOptions, LearnError> {
        let counts = |name: &str, least: usize| options.number(name, (least, 1_000_000usize));
        let by_entropy = match options.get("criterion") {
            None | Some("gini") => false,
            Some("entropy") => true,
            Some(_) => return Err(options.invalid_option("criterion", "gini or entropy")),
        };
        let root: usize = integer_part(f64_of(width).sqrt());
        let all = if is_forest && classifies { root } else { width };
        let columns = match options.get("max_features").map(str::to_ascii_lowercase).as_deref() {
            None | Some("auto") => all,
            Some("none") => width,
            Some("sqrt") => root,
            Some("log2") => integer_part(f64_of(width).log2()),
            Some(text) if text.contains('.') => {
                let share: f64 = options.number("max_features", (0.0, 1.0))?.unwrap_or(1.0);
                integer_part(f64_of(width) * share)
            }
            Some(_) => counts("max_features", 1)?.unwrap_or(width),
        };
        let depth = match options.get("max_depth").map(str::to_ascii_lowercase).as_deref() {
            None | Some("none") => DEPTH_MAX,
            Some(_) => counts("max_depth", 1)?.unwrap_or(DEPTH_MAX).min(DEPTH_MAX),
        };
        Ok(GrowthOptions {
            trees: if is_forest { options.number("n_estimators", (1, TREES_MAX))?.unwrap_or(10) } else { 1 },
            by_entropy,
            depth,
            leaves: counts("max_leaf_nodes", 2)?.unwrap_or(usize::MAX),
            split_rows: f64_of(counts("min_samples_split", 2)?.unwrap_or(2)),
            leaf_rows: f64_of(counts("min_samples_leaf", 1)?.unwrap_or(1)),
            columns: columns.clamp(1, width),
            is_forest,
            seed: options.seed()?,
        })
    }
}

/// Fits a tree or a forest to the rows. A fit that ends early has the trees grown so far, or the first splits of its
/// first tree.
pub(crate) fn fit(
    x: &Matrix,
    truth: &Targets<'_>,
    growth: &GrowthOptions,
    control: FitControl<'_>,
) -> Result<Forest, LearnError> {
    let rows = x.rows();
    let mut sorted = Vec::with_capacity(x.width());
    for column in 0..x.width() {
        check_stop(control.stop)?;
        let cells: Vec<f64> = x.column(column).collect();
        let mut order: Vec<u32> = (0..u32_of(rows)).collect();
        order.sort_by(|one, other| cells[*one as usize].total_cmp(&cells[*other as usize]));
        sorted.push(order);
    }
    // Target values are centred, so that squaring does not lose small differences.
    let middle = match truth {
        Targets::Numbers(numbers) => numbers.iter().sum::<f64>() / f64_of(rows.max(1)),
        Targets::Classes(..) => 0.0,
    };
    let mut forest = Forest { trees: Vec::new(), importances: vec![0.0; x.width()] };
    for number in 0..growth.trees {
        let mut rng = Rng::new(growth.seed.wrapping_add(number as u64).wrapping_mul(0x2545_f491_4f6c_dd1d));
        let mut weights = vec![1.0; rows];
        if growth.is_forest {
            weights.fill(0.0);
            (0..rows).for_each(|_| weights[rng.below(rows)] += 1.0);
        }
        let keeps = |row: &&u32| weights[**row as usize] > 0.0;
        let orders = sorted.iter().map(|order| order.iter().filter(keeps).copied().collect()).collect();
        let grower = Grower {
            x,
            truth,
            growth,
            middle,
            weights: &weights,
            orders,
            goes_low: vec![false; rows],
            rng,
            tree: Tree::default(),
            gains: vec![0.0; x.width()],
            control,
        };
        let (tree, gains, is_complete) = grower.grow()?;
        if !is_complete && number > 0 {
            break;
        }
        let whole: f64 = gains.iter().sum();
        if whole > 0.0 {
            forest.importances.iter_mut().zip(&gains).for_each(|(sum, gain)| *sum += gain / whole);
        }
        forest.trees.push(tree);
        if !is_complete {
            break;
        }
    }
    let whole: f64 = forest.importances.iter().sum();
    if whole > 0.0 {
        forest.importances.iter_mut().for_each(|importance| *importance /= whole);
    }
    Ok(forest)
}

/// Statistics of a node's rows: the weight of each class; or, for numbers, the total weight, the sum and the sum of
/// squares.
type Sums = Vec<f64>;

/// A possible split of a leaf.
struct Split {
    gain: f64,
    node: usize,
    rows: (usize, usize),
    depth: usize,
    column: usize,
    limit: f64,
}

impl PartialEq for Split {
    fn eq(&self, other: &Split) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Split {}

impl PartialOrd for Split {
    fn partial_cmp(&self, other: &Split) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Split {
    fn cmp(&self, other: &Split) -> Ordering {
        self.gain.total_cmp(&other.gain).then(other.node.cmp(&self.node))
    }
}

struct Grower<'a> {
    x: &'a Matrix,
    truth: &'a Targets<'a>,
    growth: &'a GrowthOptions,
    middle: f64,
    weights: &'a [f64],
    /// For each column, the row numbers sorted by its values; the rows of a node occupy the same range in all lists.
    orders: Vec<Vec<u32>>,
    goes_low: Vec<bool>,
    rng: Rng,
    tree: Tree,
    gains: Vec<f64>,
    control: FitControl<'a>,
}

impl Grower<'_> {
    /// The tree, the gains of its splits by column, and whether the tree is complete.
    fn grow(mut self) -> Result<(Tree, Vec<f64>, bool), LearnError> {
        let rows = self.orders.first().map_or(0, Vec::len);
        let mut splits = BinaryHeap::new();
        let root = self.add_node((0, rows));
        splits.extend(self.best_split(root, (0, rows), 0));
        let mut leaves = 1;
        while let Some(split) = splits.pop().filter(|_| leaves < self.growth.leaves) {
            check_stop(self.control.stop)?;
            if (self.control.should_end)() {
                return Ok((self.tree, self.gains, false));
            }
            leaves += 1;
            self.gains[split.column] += split.gain.max(0.0);
            let (start, end) = split.rows;
            let middle = self.partition(&split);
            let low = self.add_node((start, middle));
            let high = self.add_node((middle, end));
            self.tree.columns[split.node] = u32_of(split.column);
            self.tree.limits[split.node] = split.limit;
            (self.tree.low[split.node], self.tree.high[split.node]) = (u32_of(low), u32_of(high));
            splits.extend(self.best_split(low, (start, middle), split.depth + 1));
            splits.extend(self.best_split(high, (middle, end), split.depth + 1));
        }
        Ok((self.tree, self.gains, true))
    }

    fn add_node(&mut self, rows: (usize, usize)) -> usize {
        let sums = self.sums(rows);
        self.tree.columns.push(0);
        self.tree.limits.push(0.0);
        self.tree.low.push(0);
        self.tree.high.push(0);
        match self.truth {
            Targets::Numbers(_) => self.tree.values.push(self.middle + sums[1] / sums[0]),
            Targets::Classes(..) => {
                self.tree.values.push(f64_of(self.tree.shares.len()));
                let whole: f64 = sums.iter().sum();
                let there = sums.iter().enumerate().filter(|(_, sum)| **sum > 0.0);
                self.tree.classes.push(there.clone().map(|(class, _)| u32_of(class)).collect());
                self.tree.shares.extend(there.map(|(_, sum)| sum / whole));
            }
        }
        self.tree.columns.len() - 1
    }

    fn sums(&self, (start, end): (usize, usize)) -> Sums {
        let mut sums = self.empty_sums();
        self.orders[0][start..end].iter().for_each(|row| self.add(&mut sums, *row as usize, 1.0));
        sums
    }

    fn empty_sums(&self) -> Sums {
        match self.truth {
            Targets::Classes(_, count) => vec![0.0; *count],
            Targets::Numbers(_) => vec![0.0; 3],
        }
    }

    /// Adds a row to the statistics (`sign` 1) or removes it (-1).
    fn add(&self, sums: &mut Sums, row: usize, sign: f64) {
        let weight = self.weights[row] * sign;
        match self.truth {
            Targets::Classes(classes, _) => sums[classes[row] as usize] += weight,
            Targets::Numbers(numbers) => {
                let number = numbers[row] - self.middle;
                sums[0] += weight;
                sums[1] += weight * number;
                sums[2] += weight * number * number;
            }
        }
    }

    fn weight(&self, sums: &Sums) -> f64 {
        match self.truth {
            Targets::Classes(..) => sums.iter().sum(),
            Targets::Numbers(_) => sums[0],
        }
    }

    /// Impurity of the rows, multiplied by their weight.
    fn impurity(&self, sums: &Sums) -> f64 {
        match self.truth {
            Targets::Numbers(_) => (sums[2] - sums[1] * sums[1] / sums[0]).max(0.0),
            Targets::Classes(..) => {
                let whole: f64 = sums.iter().sum();
                let there = sums.iter().filter(|sum| **sum > 0.0);
                if self.growth.by_entropy {
                    there.map(|sum| -sum * (sum / whole).log2()).sum()
                } else {
                    whole - there.map(|sum| sum * sum).sum::<f64>() / whole
                }
            }
        }
    }

    /// The best split of a leaf; `None` if the leaf may not or cannot be split.
    fn best_split(&mut self, node: usize, rows: (usize, usize), depth: usize) -> Option<Split> {
        let sums = self.sums(rows);
        let (whole, impurity) = (self.weight(&sums), self.impurity(&sums));
        let scale = match self.truth {
            Targets::Numbers(_) => sums[2].max(f64::MIN_POSITIVE),
            Targets::Classes(..) => whole,
        };
        let is_done =
            depth >= self.growth.depth || whole < self.growth.split_rows || impurity <= PURE_NODE_IMPURITY * scale;
        if is_done || (self.control.stop)() {
            return None;
        }
        let width = self.x.width();
        let mut columns: Vec<usize> = (0..width).collect();
        let mut best: Option<Split> = None;
        let mut asked = 0;
        for at in 0..width {
            if asked == self.growth.columns {
                break;
            }
            if self.growth.columns < width {
                let other = at + self.rng.below(width - at);
                columns.swap(at, other);
            }
            let column = columns[at];
            let cell = |row: u32| self.x.row(row as usize)[column];
            let order = &self.orders[column][rows.0..rows.1];
            // Constant columns cannot split anything, so other columns are tried instead.
            if order.first().map(|row| cell(*row)) == order.last().map(|row| cell(*row)) {
                continue;
            }
            asked += 1;
            let (mut low, mut high) = (self.empty_sums(), sums.clone());
            for pair in order.windows(2) {
                self.add(&mut low, pair[0] as usize, 1.0);
                self.add(&mut high, pair[0] as usize, -1.0);
                let (this, next) = (cell(pair[0]), cell(pair[1]));
                if this == next
                    || self.weight(&low) < self.growth.leaf_rows
                    || self.weight(&high) < self.growth.leaf_rows
                {
                    continue;
                }
                let gain = impurity - self.impurity(&low) - self.impurity(&high);
                if best.as_ref().is_none_or(|best| gain > best.gain + PURE_NODE_IMPURITY * scale) {
                    let middle = this + (next - this) / 2.0;
                    let limit = if middle < next { middle } else { this };
                    best = Some(Split { gain, node, rows, depth, column, limit });
                }
            }
        }
        best
    }

    /// Partitions the rows of a node; returns the position at which the rows of the second child start.
    fn partition(&mut self, split: &Split) -> usize {
        let (start, end) = split.rows;
        let mut low_count = 0;
        for row in &self.orders[split.column][start..end] {
            let is_low = self.x.row(*row as usize)[split.column] <= split.limit;
            self.goes_low[*row as usize] = is_low;
            low_count += usize::from(is_low);
        }
        let mut high = Vec::with_capacity(end - start - low_count);
        for order in &mut self.orders {
            high.clear();
            let mut at = start;
            for from in start..end {
                let row = order[from];
                if self.goes_low[row as usize] {
                    order[at] = row;
                    at += 1;
                } else {
                    high.push(row);
                }
            }
            order[at..end].copy_from_slice(&high);
        }
        start + low_count
    }
}
