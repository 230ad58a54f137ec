//! `cluster`: groups rows with similar texts.
//!
//! A row joins the first group whose first text is similar enough: the share of common words reaches the threshold.
//! `match=termlist` counts the words that are equal at the same position, relative to the longer text; the other modes
//! compare sets of words or n-grams. Splunk's own measure is not reproduced, but it yields the same groups if texts
//! differ in a few words.

use std::collections::BTreeSet;

use arrow::array::UInt32Array;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, rows_in_memory};
use quarry_spl::ast::{ClusterCommand, ClusterMatch};
use quarry_stdx::number::{f64_of, u32_of};

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum number of groups; with more, the command fails.
const CLUSTERS_MAX: usize = 5_000;
/// Maximum number of words, or n-grams, compared per text; further words are ignored.
const TERMS_MAX: usize = 1_000;
/// Length of the n-grams for `match=ngramset`.
const NGRAM_CHARS: usize = 3;

impl Execute for ClusterCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Cluster(self.clone()))])
    }
}

struct Cluster(ClusterCommand);

/// Comparable form of a text.
enum Terms {
    List(Vec<String>),
    Set(BTreeSet<String>),
}

impl Terms {
    fn len(&self) -> usize {
        match self {
            Terms::List(list) => list.len(),
            Terms::Set(set) => set.len(),
        }
    }

    /// Similarity of two texts, from 0 to 1.
    fn similarity(&self, other: &Terms) -> f64 {
        let longer = self.len().max(other.len());
        if longer == 0 {
            return 1.0;
        }
        match (self, other) {
            (Terms::List(a), Terms::List(b)) => {
                f64_of(a.iter().zip(b).filter(|(a, b)| a == b).count()) / f64_of(longer)
            }
            (Terms::Set(a), Terms::Set(b)) => {
                let common = a.intersection(b).count();
                f64_of(common) / f64_of(a.len() + b.len() - common)
            }
            _ => 0.0,
        }
    }
}

impl BlockingTable for Cluster {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("cluster", rows, context)?;
        let (texts, mut scratch) = (rows::reader(&all, &self.0.field), String::new());
        let (mut firsts, mut terms, mut counts): (Vec<u32>, Vec<Terms>, Vec<i64>) = Default::default();
        let mut labels: Vec<Option<usize>> = Vec::with_capacity(all.num_rows());
        let start = context.stop.begin_work();
        for row in 0..all.num_rows() {
            if context.stop.should_end_work(start) {
                break;
            }
            let Some(text) = texts.text(row, &mut scratch) else {
                labels.push(None);
                continue;
            };
            let own = self.terms(text);
            let at = match terms.iter().position(|first| self.is_similar(first, &own)) {
                Some(at) => at,
                None if terms.len() >= CLUSTERS_MAX => {
                    let value = CLUSTERS_MAX as u64;
                    let what = "cluster creates too many groups of texts; lower t= for fewer".into();
                    return Err(EngineError::Limit { what, limit: "groups", value });
                }
                None => {
                    firsts.push(u32_of(row));
                    terms.push(own);
                    counts.push(0);
                    terms.len() - 1
                }
            };
            counts[at] += 1;
            labels.push(Some(at));
        }
        // A search that finishes early has groups of its first rows only. Without `labelonly`, one row of each group is
        // kept.
        let (shown, groups): (RecordBatch, Vec<Option<usize>>) = match self.0.label_only {
            true => (all.slice(0, labels.len()), labels),
            false => (rows::take(&all, &UInt32Array::from(firsts.clone()))?, (0..firsts.len()).map(Some).collect()),
        };
        let column = |value: &dyn Fn(usize) -> i64| {
            let mut column = ColumnBuilder::new(groups.len());
            for group in &groups {
                match group {
                    Some(at) => column.push_int(value(*at)),
                    None => column.push_null(),
                }
            }
            column.finish()
        };
        let mut result = shown;
        if self.0.shows_count {
            result = rows::with_column(&result, &self.0.count_field, column(&|at| counts[at]))?;
        }
        result = rows::with_column(&result, &self.0.label_field, column(&|at| at as i64 + 1))?;
        Ok(vec![result])
    }
}

impl Cluster {
    fn terms(&self, text: &str) -> Terms {
        let text = text.to_lowercase();
        let is_mark = |c: char| match &self.0.delimiters {
            Some(delimiters) => delimiters.contains(c) || c.is_whitespace(),
            None => !c.is_alphanumeric(),
        };
        let words = text.split(is_mark).filter(|word| !word.is_empty()).map(str::to_owned).take(TERMS_MAX);
        match self.0.matching {
            ClusterMatch::TermList => Terms::List(words.collect()),
            ClusterMatch::TermSet => Terms::Set(words.collect()),
            ClusterMatch::NGramSet => {
                let letters: Vec<char> = text.chars().collect();
                Terms::Set(letters.windows(NGRAM_CHARS).take(TERMS_MAX).map(|run| run.iter().collect()).collect())
            }
        }
    }

    fn is_similar(&self, first: &Terms, own: &Terms) -> bool {
        let (short, long) = (first.len().min(own.len()), first.len().max(own.len()));
        // Texts of very different length cannot be similar enough.
        f64_of(short) >= self.0.threshold * f64_of(long) && first.similarity(own) >= self.0.threshold
    }
}
