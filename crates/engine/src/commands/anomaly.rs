//! `anomalies`, `anomalousvalue`, `anomalydetection`: rows and values that are unlike the others.
//!
//! *anomalies* asks how much new text a row brings after those before it. *anomalousvalue* asks of each field whether a
//! value is rare, or a number far from the mean. *anomalydetection* multiplies how frequent the values of a row are in
//! their fields, numbers by the bins of a histogram. Splunk's own figures differ; what stands out is the same.

use std::collections::{BTreeMap, VecDeque};

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use hashbrown::HashMap;
use quarry_spl::ast::{AnomaliesCommand, AnomalousValueCommand, AnomalyAction, AnomalyDetectionCommand, FieldPattern};

use crate::EngineError;
use crate::command::{BlockingTable, CommandContext, RowIter};
use crate::field_names::{matching, names_of};
use crate::rows::{self, ColumnBuilder, ColumnReader, Value, batch_of, is_hidden, rows_in_memory};

/// Letters of the pieces that `anomalies` compares.
const PIECE: usize = 3;
/// Share of a field's values that must be numbers for it to count as numeric.
const NUMERIC_SHARE: f64 = 0.9;
/// Bins of a histogram at most.
const BINS_MAX: usize = 50;
/// Distances between quartiles that a probability may lie below the lower one.
const REACH: f64 = 1.5;
/// The same where few anomalies are wanted.
const CUTOFF_REACH: f64 = 3.0;

/// Share of a normal distribution below so many standard deviations (Abramowitz and Stegun 26.2.17).
pub(super) fn normal_below(deviations: f64) -> f64 {
    const WEIGHTS: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let (at, density) = (deviations.abs(), (-deviations * deviations / 2.0).exp() / std::f64::consts::TAU.sqrt());
    let share = 1.0 / (1.0 + 0.231_641_9 * at);
    let tail = density * WEIGHTS.iter().rev().fold(0.0, |sum, weight| (sum + weight) * share);
    if deviations >= 0.0 { 1.0 - tail } else { tail }
}

fn chosen<'n>(fields: &[FieldPattern], names: &'n [String]) -> Vec<&'n str> {
    match fields.is_empty() {
        true => names.iter().map(String::as_str).filter(|name| !name.starts_with('_')).collect(),
        false => matching(fields, names),
    }
}

fn shown_names(rows: &RecordBatch) -> Vec<String> {
    names_of(rows).into_iter().filter(|name| !is_hidden(name)).collect()
}

// ---- anomalies ------------------------------------------------------------------------------------------------------

/// `anomalies`.
pub(crate) struct Anomalies {
    command: AnomaliesCommand,
    /// The pieces of each text that is expected whatever came before.
    denied: Vec<Window>,
}

/// The texts before a row, and how often each piece is in them.
#[derive(Default)]
struct Window {
    texts: VecDeque<Vec<u64>>,
    counts: HashMap<u64, u32, foldhash::fast::FixedState>,
}

impl Window {
    /// Distinct pieces of a row that the window lacks, as a share of the distinct pieces of both.
    fn unexpected(&self, pieces: &[u64]) -> f64 {
        let new = pieces.iter().filter(|piece| !self.counts.contains_key(*piece)).count();
        let all = self.counts.len() + pieces.len();
        if all == 0 || self.texts.is_empty() { 0.0 } else { new as f64 / all as f64 }
    }

    fn push(&mut self, pieces: Vec<u64>, most: usize) {
        pieces.iter().for_each(|piece| *self.counts.entry(*piece).or_default() += 1);
        self.texts.push_back(pieces);
        if self.texts.len() <= most {
            return;
        }
        for piece in self.texts.pop_front().unwrap_or_default() {
            if let Some(count) = self.counts.get_mut(&piece) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&piece);
                }
            }
        }
    }
}

impl BlockingTable for Anomalies {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("anomalies", rows, context)?;
        let (texts, mut scratch) = (rows::reader(&all, &self.command.field), String::new());
        let by: Vec<ColumnReader> = self.command.by.iter().map(|field| rows::reader(&all, &field.text)).collect();
        let mut windows: BTreeMap<Vec<String>, Window> = BTreeMap::new();
        let (mut column, mut kept) = (ColumnBuilder::new(all.num_rows()), Vec::with_capacity(all.num_rows()));
        for row in 0..all.num_rows() {
            let key = by.iter().map(|reader| reader.value(row).into_text().unwrap_or_default().into_owned()).collect();
            let pieces = self.pieces(texts.text(row, &mut scratch).unwrap_or_default());
            let window = windows.entry(key).or_default();
            let unexpected = if self.is_denied(&pieces) { 0.0 } else { window.unexpected(&pieces) };
            window.push(pieces, self.command.window);
            column.push(Value::number_of(unexpected));
            kept.push(self.command.label_only || unexpected >= self.command.threshold);
        }
        let result = rows::with_column(&all, "unexpectedness", column.finish())?;
        Ok(vec![rows::filter(&result, &BooleanArray::from(kept))?])
    }
}

impl Anomalies {
    /// The command, with a table of texts that are no news.
    pub(crate) fn new(command: &AnomaliesCommand, denied: Option<&RecordBatch>) -> Anomalies {
        let mut anomalies = Anomalies { command: command.clone(), denied: Vec::new() };
        if let Some(table) = denied {
            let (texts, mut scratch) = (rows::reader(table, &command.field), String::new());
            for row in 0..table.num_rows() {
                let pieces = texts.text(row, &mut scratch).map(|text| anomalies.pieces(text));
                let mut window = Window::default();
                window.push(pieces.unwrap_or_default(), 1);
                anomalies.denied.push(window);
            }
        }
        anomalies
    }

    /// Whether a text brings next to nothing that a denied one has not.
    fn is_denied(&self, pieces: &[u64]) -> bool {
        self.denied.iter().any(|denied| denied.unexpected(pieces) <= self.command.denied_threshold)
    }

    /// Distinct runs of letters of a text, each as a number.
    fn pieces(&self, text: &str) -> Vec<u64> {
        let letter = |c: char| if self.command.normalizes && c.is_ascii_digit() { '0' } else { c };
        let mut letters: Vec<char> = text.chars().map(letter).collect();
        if self.command.normalizes {
            // Numbers are alike whatever their length.
            letters.dedup_by(|a, b| *a == '0' && *b == '0');
        }
        let code = |run: &[char]| run.iter().fold(0u64, |code, c| (code << 21) | u64::from(u32::from(*c)));
        let mut pieces: Vec<u64> = letters.windows(PIECE).map(code).collect();
        pieces.sort_unstable();
        pieces.dedup();
        pieces
    }
}

// ---- anomalousvalue -------------------------------------------------------------------------------------------------

/// `anomalousvalue`.
pub(crate) struct AnomalousValue(pub AnomalousValueCommand);

/// What is known of a field.
struct FieldFacts {
    name: String,
    count: usize,
    distinct: usize,
    numbers: usize,
    mean: f64,
    deviation: f64,
    /// Share of each row's value among the values; `None` without one.
    frequencies: Vec<Option<f64>>,
    /// Chance of a number so far from the mean; `None` without one.
    chances: Vec<Option<f64>>,
}

impl FieldFacts {
    fn of(name: &str, rows: &RecordBatch) -> FieldFacts {
        let (reader, count) = (rows::reader(rows, name), rows.num_rows());
        let texts: Vec<Option<String>> =
            (0..count).map(|row| reader.value(row).into_text().map(|text| text.into_owned())).collect();
        let mut counts: HashMap<&str, usize, foldhash::fast::FixedState> = HashMap::default();
        texts.iter().flatten().for_each(|text| *counts.entry(text).or_default() += 1);
        let present = texts.iter().flatten().count();
        let numbers: Vec<Option<f64>> = (0..count).map(|row| reader.number(row).filter(|n| n.is_finite())).collect();
        let known = numbers.iter().flatten().count();
        let mean = numbers.iter().flatten().sum::<f64>() / known.max(1) as f64;
        let squares: f64 = numbers.iter().flatten().map(|number| (number - mean).powi(2)).sum();
        let deviation = (squares / known.saturating_sub(1).max(1) as f64).sqrt();
        let chance = |number: f64| match deviation > 0.0 {
            true => 2.0 * (1.0 - normal_below(((number - mean) / deviation).abs())),
            false => 1.0,
        };
        let share = |text: &String| counts.get(text.as_str()).map(|count| *count as f64 / present as f64);
        FieldFacts {
            name: name.to_owned(),
            count: present,
            distinct: counts.len(),
            numbers: known,
            mean,
            deviation,
            frequencies: texts.iter().map(|text| text.as_ref().and_then(share)).collect(),
            chances: numbers.iter().map(|number| number.map(chance)).collect(),
        }
    }

    fn is_numeric(&self) -> bool {
        self.count > 0 && self.numbers as f64 >= NUMERIC_SHARE * self.count as f64
    }

    /// Share of the field's values whose figure is at most the threshold.
    fn share_below(&self, figures: &[Option<f64>], threshold: f64) -> f64 {
        figures.iter().flatten().filter(|figure| **figure <= threshold).count() as f64 / self.count.max(1) as f64
    }
}

impl AnomalousValue {
    /// Whether rarity, and distance from the mean, say something of a field.
    fn uses(&self, facts: &FieldFacts, rows: usize) -> (bool, bool) {
        let (least, share) = self.0.support;
        let supported = facts.count >= least && facts.count as f64 >= share * rows as f64;
        let few = |figures: &[Option<f64>]| facts.share_below(figures, self.0.threshold) <= self.0.anomalous_share;
        let normal = facts.frequencies.iter().flatten().any(|share| *share >= self.0.normal_share);
        let numeric = facts.is_numeric() && facts.deviation > 0.0;
        (supported && normal && few(&facts.frequencies), supported && numeric && few(&facts.chances))
    }

    fn summary(&self, all: &[FieldFacts], rows: usize) -> Result<RecordBatch, EngineError> {
        let names = [
            "fieldname",
            "count",
            "distinct_count",
            "mean",
            "stdev",
            "isNum",
            "useCat",
            "useNum",
            "catAnoFreq%",
            "numAnoFreq%",
            "supportFreq%",
        ];
        let mut columns: Vec<ColumnBuilder> = names.iter().map(|_| ColumnBuilder::new(all.len())).collect();
        for facts in all {
            let (rare, far) = self.uses(facts, rows);
            let number = |value: f64| if facts.is_numeric() { Value::number_of(value) } else { Value::Null };
            let yes = |yes: bool| Value::text_of(if yes { "yes" } else { "no" });
            let percent = |share: f64| Value::owned(format!("{:.2}", share * 100.0));
            let values = [
                Value::owned(facts.name.clone()),
                Value::Int(facts.count as i64),
                Value::Int(facts.distinct as i64),
                number(facts.mean),
                number(facts.deviation),
                yes(facts.is_numeric()),
                yes(rare),
                yes(far),
                percent(facts.share_below(&facts.frequencies, self.0.threshold)),
                percent(facts.share_below(&facts.chances, self.0.threshold)),
                percent(facts.count as f64 / rows.max(1) as f64),
            ];
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        batch_of(names.into_iter().zip(columns.into_iter().map(ColumnBuilder::finish)), all.len())
    }
}

impl BlockingTable for AnomalousValue {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("anomalousvalue", rows, context)?;
        let (names, count) = (shown_names(&all), all.num_rows());
        let facts: Vec<FieldFacts> =
            chosen(&self.0.fields, &names).into_iter().map(|name| FieldFacts::of(name, &all)).collect();
        if self.0.action == AnomalyAction::Summary {
            return self.summary(&facts, count).map(|table| vec![table]);
        }
        let (mut result, mut anomalous) = (all, vec![false; count]);
        for facts in &facts {
            let (rare, far) = self.uses(facts, count);
            for (used, figures, kind) in [(rare, &facts.frequencies, "Cat"), (far, &facts.chances, "Num")] {
                if !used {
                    continue;
                }
                let mut column = ColumnBuilder::new(count);
                for (row, figure) in figures.iter().enumerate() {
                    match figure.filter(|figure| *figure <= self.0.threshold) {
                        Some(figure) => {
                            anomalous[row] = true;
                            column.push(Value::number_of(figure));
                        }
                        None => column.push_null(),
                    }
                }
                let name = format!("Anomaly_Score_{kind}({})", facts.name);
                result = rows::with_column(&result, &name, column.finish())?;
            }
        }
        match self.0.action {
            AnomalyAction::Filter => Ok(vec![rows::filter(&result, &BooleanArray::from(anomalous))?]),
            _ => Ok(vec![result]),
        }
    }
}

// ---- anomalydetection -----------------------------------------------------------------------------------------------

/// `anomalydetection method=histogram`.
pub(crate) struct AnomalyDetection(pub AnomalyDetectionCommand);

/// Of a row: the logarithm of its probability, and the field that makes it least probable with that field's share.
struct Likelihood {
    logarithm: f64,
    cause: Option<(String, f64)>,
}

/// Share of each row's value in a field: by value, or by bin where there are many different numbers.
fn shares_of(name: &str, rows: &RecordBatch) -> Vec<Option<f64>> {
    let facts = FieldFacts::of(name, rows);
    let bins = (facts.count as f64).sqrt().ceil().min(BINS_MAX as f64);
    if !facts.is_numeric() || facts.distinct as f64 <= bins {
        return facts.frequencies;
    }
    let reader = rows::reader(rows, name);
    let numbers: Vec<Option<f64>> =
        (0..rows.num_rows()).map(|row| reader.number(row).filter(|number| number.is_finite())).collect();
    let low = numbers.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    let width = (high - low) / bins;
    let bin = |number: f64| ((number - low) / width).floor().min(bins - 1.0) as usize;
    let mut counts = vec![0usize; bins as usize];
    numbers.iter().flatten().for_each(|number| counts[bin(*number)] += 1);
    let of_bin = |number: f64| counts[bin(number)] as f64 / facts.count as f64;
    numbers.iter().zip(facts.frequencies).map(|(number, frequency)| number.map(of_bin).or(frequency)).collect()
}

impl AnomalyDetection {
    fn likelihoods(&self, all: &RecordBatch) -> Vec<Likelihood> {
        let names = shown_names(all);
        let fields: Vec<(&str, Vec<Option<f64>>)> =
            chosen(&self.0.fields, &names).into_iter().map(|name| (name, shares_of(name, all))).collect();
        let of_row = |row: usize| {
            let mut found = Likelihood { logarithm: 0.0, cause: None };
            for (name, shares) in &fields {
                let Some(share) = shares[row] else { continue };
                found.logarithm += share.ln();
                if found.cause.as_ref().is_none_or(|(_, least)| share < *least) {
                    found.cause = Some(((*name).to_owned(), share));
                }
            }
            found
        };
        (0..all.num_rows()).map(of_row).collect()
    }

    /// The logarithm below which a row is anomalous, and the quartiles it comes from.
    fn threshold(&self, likelihoods: &[Likelihood]) -> (f64, f64, f64) {
        let mut sorted: Vec<f64> = likelihoods.iter().map(|likelihood| likelihood.logarithm).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted.get(((sorted.len().max(1) - 1) as f64 * share) as usize).copied().unwrap_or(0.0);
        let (low, high) = (at(0.25), at(0.75));
        let reach = if self.0.cutoff { CUTOFF_REACH } else { REACH };
        let found = self.0.threshold.map_or(low - reach * (high - low), f64::ln);
        (found, low, high)
    }

    fn summary(&self, likelihoods: &[Likelihood]) -> Result<RecordBatch, EngineError> {
        let (threshold, low, high) = self.threshold(likelihoods);
        let logarithms = || likelihoods.iter().map(|likelihood| likelihood.logarithm);
        let anomalous = logarithms().filter(|logarithm| *logarithm < threshold).count();
        let figures = [
            ("num_anomalies", anomalous as f64),
            ("thresh", threshold),
            ("max_logprob", logarithms().fold(f64::NEG_INFINITY, f64::max)),
            ("min_logprob", logarithms().fold(f64::INFINITY, f64::min)),
            ("1st_quartile", low),
            ("3rd_quartile", high),
        ];
        let columns = figures.map(|(name, figure)| {
            let mut column = ColumnBuilder::new(1);
            column.push(if figure.is_finite() { Value::number_of(figure) } else { Value::Null });
            (name, column.finish())
        });
        batch_of(columns, 1)
    }
}

impl BlockingTable for AnomalyDetection {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("anomalydetection", rows, context)?;
        let likelihoods = self.likelihoods(&all);
        if self.0.action == AnomalyAction::Summary {
            return self.summary(&likelihoods).map(|table| vec![table]);
        }
        let (threshold, ..) = self.threshold(&likelihoods);
        let mut columns: [ColumnBuilder; 3] = std::array::from_fn(|_| ColumnBuilder::new(all.num_rows()));
        let mut anomalous = Vec::with_capacity(all.num_rows());
        for likelihood in &likelihoods {
            let is_anomalous = likelihood.logarithm < threshold;
            anomalous.push(is_anomalous);
            let cause = likelihood.cause.as_ref().filter(|_| is_anomalous);
            let [logarithm, name, share] = &mut columns;
            match cause {
                Some((field, least)) => {
                    logarithm.push(Value::number_of(likelihood.logarithm));
                    name.push_text(field);
                    share.push(Value::number_of(*least));
                }
                None => {
                    logarithm.push_null();
                    name.push_null();
                    share.push_null();
                }
            }
        }
        let mut result = all;
        let names = ["log_event_prob", "probable_cause", "probable_cause_freq"];
        for (name, column) in names.into_iter().zip(columns) {
            result = rows::with_column(&result, name, column.finish())?;
        }
        match self.0.action {
            AnomalyAction::Filter => Ok(vec![rows::filter(&result, &BooleanArray::from(anomalous))?]),
            _ => Ok(vec![result]),
        }
    }
}
