//! Decision trees and forests, as stored and evaluated.

use quarry_stdx::number::{f64_of, integer_part};
use serde::{Deserialize, Serialize};

use crate::exact_numbers;

/// A tree. Children come after their parents, so every path ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tree {
    /// Column tested by each node.
    pub(crate) columns: Vec<u32>,
    /// Threshold of each node; rows with values up to the threshold continue at the first child.
    #[serde(with = "exact_numbers::list")]
    pub(crate) limits: Vec<f64>,
    /// First child of each node; 0 for a leaf.
    pub(crate) low: Vec<u32>,
    /// Second child of each node.
    pub(crate) high: Vec<u32>,
    /// Value of each leaf: a number, or for classifiers the index in `shares` at which the shares of its classes
    /// begin.
    #[serde(with = "exact_numbers::list")]
    pub(crate) values: Vec<f64>,
    /// For classifiers: the classes that occur in each leaf.
    pub(crate) classes: Vec<Vec<u32>>,
    /// Shares of the classes in `classes`, concatenated over all leaves.
    #[serde(with = "exact_numbers::list")]
    pub(crate) shares: Vec<f64>,
}

/// An ensemble of trees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forest {
    pub(crate) trees: Vec<Tree>,
    /// Feature importances, as fractions of the total.
    #[serde(with = "exact_numbers::list")]
    pub(crate) importances: Vec<f64>,
}

impl Tree {
    /// The leaf in which a row ends.
    fn leaf(&self, row: &[f64]) -> usize {
        let mut at = 0;
        while self.low[at] != 0 {
            let goes_low = row[self.columns[at] as usize] <= self.limits[at];
            at = if goes_low { self.low[at] } else { self.high[at] } as usize;
        }
        at
    }
}

impl Forest {
    /// The mean prediction of the trees.
    pub(crate) fn number(&self, row: &[f64]) -> f64 {
        self.trees.iter().map(|tree| tree.values[tree.leaf(row)]).sum::<f64>() / f64_of(self.trees.len())
    }

    /// The mean class shares of the trees, for `count` classes.
    pub(crate) fn probabilities(&self, row: &[f64], count: usize) -> Vec<f64> {
        let mut sums = vec![0.0; count];
        for tree in &self.trees {
            let leaf = tree.leaf(row);
            let start: usize = integer_part(tree.values[leaf]);
            for (class, share) in tree.classes[leaf].iter().zip(&tree.shares[start..]) {
                sums[*class as usize] += share;
            }
        }
        sums.iter_mut().for_each(|sum| *sum /= f64_of(self.trees.len()));
        sums
    }
}

impl Tree {
    /// Validates a deserialized tree for this number of columns and classes (0 for regression); returns a description
    /// of the fault.
    pub(crate) fn find_fault(&self, width: usize, classes: usize) -> Option<&'static str> {
        let size = self.columns.len();
        let lists = [self.limits.len(), self.low.len(), self.high.len(), self.values.len()];
        if size == 0 || lists.iter().any(|length| *length != size) {
            return Some("a tree's lists differ in length");
        }
        let is_inner = |at: usize| self.low[at] != 0;
        let leads_on = |at: usize, child: u32| child as usize > at && (child as usize) < size;
        if (0..size).filter(|at| is_inner(*at)).any(|at| !leads_on(at, self.low[at]) || !leads_on(at, self.high[at])) {
            return Some("a node's child does not come after it");
        }
        if self.columns.iter().any(|column| *column as usize >= width) {
            return Some("a tree tests a missing column");
        }
        if classes == 0 {
            return None;
        }
        let is_wrong = |at: usize| {
            let start = self.values[at];
            let fits = start >= 0.0 && start + f64_of(self.classes[at].len()) <= f64_of(self.shares.len());
            !fits || self.classes[at].iter().any(|class| *class as usize >= classes)
        };
        match self.classes.len() == size && !(0..size).any(is_wrong) {
            true => None,
            false => Some("a tree's leaf names a missing class"),
        }
    }
}
