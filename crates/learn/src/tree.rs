//! Decision trees and forests as they are kept and asked.

use serde::{Deserialize, Serialize};

use crate::exact_numbers;

/// A tree. Children stand behind their parents, so that every way down ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tree {
    /// Column that each node asks.
    pub(crate) columns: Vec<u32>,
    /// What it is compared with: rows that have no more go to the first child.
    #[serde(with = "exact_numbers::list")]
    pub(crate) limits: Vec<f64>,
    /// The first child of each node, 0 for a leaf.
    pub(crate) low: Vec<u32>,
    /// The second.
    pub(crate) high: Vec<u32>,
    /// What a leaf says: a number; or the first of its classes in `shares`.
    #[serde(with = "exact_numbers::list")]
    pub(crate) values: Vec<f64>,
    /// Of a classifier: for each node the classes of its rows, as class and share.
    pub(crate) classes: Vec<Vec<u32>>,
    /// Shares beside `classes`, leaf after leaf in one list.
    #[serde(with = "exact_numbers::list")]
    pub(crate) shares: Vec<f64>,
}

/// Trees that are asked together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forest {
    pub(crate) trees: Vec<Tree>,
    /// How much the columns told apart, as shares of the whole.
    #[serde(with = "exact_numbers::list")]
    pub(crate) importances: Vec<f64>,
}

impl Tree {
    /// The leaf of a row.
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
    /// The mean of what the trees say.
    pub(crate) fn number(&self, row: &[f64]) -> f64 {
        self.trees.iter().map(|tree| tree.values[tree.leaf(row)]).sum::<f64>() / self.trees.len() as f64
    }

    /// The mean of the shares of classes that the trees give, of `count` classes.
    pub(crate) fn probabilities(&self, row: &[f64], count: usize) -> Vec<f64> {
        let mut sums = vec![0.0; count];
        for tree in &self.trees {
            let leaf = tree.leaf(row);
            let start = tree.values[leaf] as usize;
            for (class, share) in tree.classes[leaf].iter().zip(&tree.shares[start..]) {
                sums[*class as usize] += share;
            }
        }
        sums.iter_mut().for_each(|sum| *sum /= self.trees.len() as f64);
        sums
    }
}

impl Tree {
    /// What is wrong with a tree that was read, for so many columns and classes (0 where it says numbers).
    pub(crate) fn fault(&self, width: usize, classes: usize) -> Option<&'static str> {
        let size = self.columns.len();
        let lists = [self.limits.len(), self.low.len(), self.high.len(), self.values.len()];
        if size == 0 || lists.iter().any(|length| *length != size) {
            return Some("a tree's lists differ in length");
        }
        let is_inner = |at: usize| self.low[at] != 0;
        let leads_on = |at: usize, child: u32| child as usize > at && (child as usize) < size;
        if (0..size).filter(|at| is_inner(*at)).any(|at| !leads_on(at, self.low[at]) || !leads_on(at, self.high[at])) {
            return Some("a tree's node leads back");
        }
        if self.columns.iter().any(|column| *column as usize >= width) {
            return Some("a tree asks a column that is not there");
        }
        if classes == 0 {
            return None;
        }
        let is_wrong = |at: usize| {
            let start = self.values[at];
            let fits = start >= 0.0 && start + self.classes[at].len() as f64 <= self.shares.len() as f64;
            !fits || self.classes[at].iter().any(|class| *class as usize >= classes)
        };
        match self.classes.len() == size && !(0..size).any(is_wrong) {
            true => None,
            false => Some("a tree's leaf names a class that is not there"),
        }
    }
}
