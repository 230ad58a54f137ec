//! `associate`, `correlate`, `arules`: which fields and values go together.

use std::collections::{BTreeMap, BTreeSet};

use arrow::record_batch::RecordBatch;
use quarry_event::value::format_number;
use quarry_spl::ast::{ArulesCommand, AssociateCommand};

use crate::EngineError;
use crate::command::{BlockingTable, CommandContext, RowIter};
use crate::field_names::{matching, names_of};
use crate::rows::{self, ColumnBuilder, Value, batch_of, is_hidden, rows_in_memory};

/// Fields that are compared at most.
const FIELDS_MAX: usize = 100;
/// Fields of a rule at most.
const RULE_FIELDS_MAX: usize = 6;

/// The texts of a field, row by row.
struct FieldTexts {
    name: String,
    texts: Vec<Option<String>>,
}

fn texts_of(rows: &RecordBatch, names: &[&str], command: &str) -> Result<Vec<FieldTexts>, EngineError> {
    if names.len() > FIELDS_MAX {
        let what = format!("{command}: name the fields");
        return Err(EngineError::Limit { what, limit: "fields compared", value: FIELDS_MAX as u64 });
    }
    let texts = |name: &str| {
        let reader = rows::reader(rows, name);
        (0..rows.num_rows()).map(|row| reader.value(row).into_text().map(|text| text.into_owned())).collect()
    };
    Ok(names.iter().map(|name| FieldTexts { name: (*name).to_owned(), texts: texts(name) }).collect())
}

fn shown_names(rows: &RecordBatch) -> Vec<String> {
    names_of(rows).into_iter().filter(|name| !is_hidden(name) && !name.starts_with('_')).collect()
}

/// A table of texts and numbers under these names.
fn table_of(names: &[&str], rows: Vec<Vec<Value<'static>>>) -> Result<RecordBatch, EngineError> {
    let count = rows.len();
    let mut columns: Vec<ColumnBuilder> = names.iter().map(|_| ColumnBuilder::new(count)).collect();
    for row in rows {
        columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }
    batch_of(names.iter().copied().zip(columns.into_iter().map(ColumnBuilder::finish)), count)
}

// ---- associate ------------------------------------------------------------------------------------------------------

/// `associate`.
pub(crate) struct Associate(pub AssociateCommand);

/// Bits that a value of such a distribution tells.
fn entropy(counts: &BTreeMap<&str, usize>) -> f64 {
    let all: usize = counts.values().sum();
    let share = |count: &usize| *count as f64 / all as f64;
    counts.values().map(|count| -share(count) * share(count).log2()).sum::<f64>().abs()
}

impl BlockingTable for Associate {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("associate", rows, context)?;
        let names = shown_names(&all);
        let chosen: Vec<&str> = match self.0.fields.is_empty() {
            true => names.iter().map(String::as_str).collect(),
            false => matching(&self.0.fields, &names),
        };
        let fields = texts_of(&all, &chosen, "associate")?;
        let mut found: Vec<(f64, Vec<Value<'static>>)> = Vec::new();
        for reference in &fields {
            for target in fields.iter().filter(|target| target.name != reference.name) {
                if context.stop.is_cancelled() {
                    return Ok(Vec::new());
                }
                self.pair(reference, target, all.num_rows(), &mut found);
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let names = [
            "Reference_Key",
            "Reference_Value",
            "Target_Key",
            "Unconditional_Entropy",
            "Conditional_Entropy",
            "Entropy_Improvement",
            "Description",
            "Support",
        ];
        table_of(&names, found.into_iter().map(|(_, row)| row).collect()).map(|table| vec![table])
    }
}

impl Associate {
    /// Values of one field that tell much of another.
    fn pair(
        &self,
        reference: &FieldTexts,
        target: &FieldTexts,
        rows: usize,
        found: &mut Vec<(f64, Vec<Value<'static>>)>,
    ) {
        let mut whole: BTreeMap<&str, usize> = BTreeMap::new();
        let mut given: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (value, told) in reference.texts.iter().zip(&target.texts) {
            let Some(told) = told else { continue };
            *whole.entry(told).or_default() += 1;
            if let Some(value) = value {
                *given.entry(value).or_default().entry(told).or_default() += 1;
            }
        }
        let before = entropy(&whole);
        for (value, counts) in given {
            let support: usize = counts.values().sum();
            let share = support as f64 / rows.max(1) as f64;
            let after = entropy(&counts);
            if support < self.0.support || share < self.0.support_share || before - after < self.0.improvement {
                continue;
            }
            let likeliest = counts.iter().max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)));
            let told = likeliest.map(|(told, _)| (*told).to_owned()).unwrap_or_default();
            let (from, to) = (&reference.name, &target.name);
            let text = format!(
                "When {from} has the value {value}, the entropy of {to} falls from {before:.3} to {after:.3}. \
                 Its most frequent value is then {told}."
            );
            let row = vec![
                Value::owned(from.clone()),
                Value::owned(value.to_owned()),
                Value::owned(to.clone()),
                Value::owned(format!("{before:.3}")),
                Value::owned(format!("{after:.3}")),
                Value::owned(format!("{:.3}", before - after)),
                Value::owned(text),
                Value::owned(format!("{:.2}%", share * 100.0)),
            ];
            found.push((before - after, row));
        }
    }
}

// ---- correlate ------------------------------------------------------------------------------------------------------

/// `correlate`: rows that have both of two fields, as a share of those that have one.
pub(crate) struct Correlate;

impl BlockingTable for Correlate {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("correlate", rows, context)?;
        let names = shown_names(&all);
        let chosen: Vec<&str> = names.iter().map(String::as_str).collect();
        let fields = texts_of(&all, &chosen, "correlate")?;
        let share = |a: &FieldTexts, b: &FieldTexts| {
            let pairs = || a.texts.iter().zip(&b.texts);
            let both = pairs().filter(|(a, b)| a.is_some() && b.is_some()).count();
            let either = pairs().filter(|(a, b)| a.is_some() || b.is_some()).count();
            if either == 0 { 0.0 } else { both as f64 / either as f64 }
        };
        let table = fields.iter().map(|row| {
            let cells = fields.iter().map(|column| Value::owned(format!("{:.2}", share(row, column))));
            std::iter::once(Value::owned(row.name.clone())).chain(cells).collect()
        });
        let names: Vec<&str> = std::iter::once("RowField").chain(chosen.iter().copied()).collect();
        table_of(&names, table.collect()).map(|table| vec![table])
    }
}

// ---- arules ---------------------------------------------------------------------------------------------------------

/// `arules`: values of some fields that imply a value of another.
pub(crate) struct Arules(pub ArulesCommand);

/// Values of fields by the fields' places.
type Items<'t> = Vec<(usize, &'t str)>;

impl BlockingTable for Arules {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("arules", rows, context)?;
        let names = names_of(&all);
        let chosen = matching(&self.0.fields, &names);
        if chosen.len() > RULE_FIELDS_MAX {
            let what = "arules: name fewer fields".to_owned();
            return Err(EngineError::Limit { what, limit: "fields of a rule", value: RULE_FIELDS_MAX as u64 });
        }
        let fields = texts_of(&all, &chosen, "arules")?;
        let mut counts: BTreeMap<Items<'_>, usize> = BTreeMap::new();
        for row in 0..all.num_rows() {
            for set in 1u32..1 << fields.len() {
                let members = (0..fields.len()).filter(|at| set >> at & 1 == 1);
                let items: Option<Items<'_>> =
                    members.map(|at| Some((at, fields[at].texts[row].as_deref()?))).collect();
                if let Some(items) = items {
                    *counts.entry(items).or_default() += 1;
                }
            }
        }
        let names = [
            "Given fields",
            "Implied fields",
            "Strength",
            "Given fields support",
            "Implied fields support",
            "Overall support",
        ];
        let mut rules = self.rules(&counts, &fields);
        rules.sort_by(|a, b| b.0.total_cmp(&a.0));
        table_of(&names, rules.into_iter().map(|(_, row)| row).collect()).map(|table| vec![table])
    }
}

impl Arules {
    fn rules(&self, counts: &BTreeMap<Items<'_>, usize>, fields: &[FieldTexts]) -> Vec<(f64, Vec<Value<'static>>)> {
        let written = |items: &[(usize, &str)]| {
            let pairs: BTreeSet<String> =
                items.iter().map(|(at, text)| format!("{}={text}", fields[*at].name)).collect();
            Value::multi(pairs.into_iter().map(std::borrow::Cow::Owned).collect())
        };
        let number = |count: usize| Value::owned(format_number(count as f64));
        let mut rules = Vec::new();
        for (items, support) in counts.iter().filter(|(items, count)| items.len() > 1 && **count >= self.0.support) {
            for at in 0..items.len() {
                let mut given = items.clone();
                let implied = vec![given.remove(at)];
                let (Some(of_given), Some(of_implied)) = (counts.get(&given), counts.get(&implied)) else { continue };
                let strength = *support as f64 / *of_given as f64;
                if strength < self.0.confidence {
                    continue;
                }
                let row = vec![
                    written(&given),
                    written(&implied),
                    Value::owned(format!("{strength:.2}")),
                    number(*of_given),
                    number(*of_implied),
                    number(*support),
                ];
                rules.push((strength, row));
            }
        }
        rules
    }
}
