//! `arules`: finds association rules between field values.

use std::collections::{BTreeMap, BTreeSet};

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::{matching_names, names_of};
use quarry_eval::rows::{RowIter, Value, rows_in_memory};
use quarry_event::value::format_number;
use quarry_spl::ast::ArulesCommand;
use quarry_stdx::number::f64_of;

use super::Execute;
use super::field_texts::{FieldTexts, table_of, texts_of};
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

/// Number of rows between two checks whether to end.
const CHECKED_ROWS: usize = 256;
/// Approximate overhead of a counted combination, in bytes.
const ITEMS_OVERHEAD_BYTES: usize = 64;
/// Maximum number of fields of a rule.
const RULE_FIELDS_MAX: usize = 6;

impl Execute for ArulesCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Arules(self.clone()))])
    }
}

struct Arules(ArulesCommand);

/// Values with the index of their field.
type Items<'t> = Vec<(usize, &'t str)>;

impl BlockingTable for Arules {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("arules", rows, context)?;
        let names = names_of(&all);
        let chosen = matching_names(&self.0.fields, &names);
        if chosen.len() > RULE_FIELDS_MAX {
            let what = "arules: too many fields; name fewer".to_owned();
            return Err(EngineError::Limit { what, limit: "fields of a rule", value: RULE_FIELDS_MAX as u64 });
        }
        let fields = texts_of(&all, &chosen, "arules")?;
        let mut counts: BTreeMap<Items<'_>, usize> = BTreeMap::new();
        let (mut account, mut bytes) = (context.dataflow.account("arules"), 0);
        let start = context.stop.begin_work();
        for row in 0..all.num_rows() {
            if row.is_multiple_of(CHECKED_ROWS) {
                account.set(bytes)?;
                context.stop.check_cancelled()?;
                if context.stop.should_end_work(start) {
                    break;
                }
            }
            for set in 1u32..1 << fields.len() {
                let members = (0..fields.len()).filter(|at| set >> at & 1 == 1);
                let items: Option<Items<'_>> = members.map(|at| Some((at, fields[at].text(row)?))).collect();
                let Some(items) = items else { continue };
                let count = counts.entry(items).or_insert_with_key(|items| {
                    bytes += ITEMS_OVERHEAD_BYTES + size_of_val(items.as_slice());
                    0
                });
                *count += 1;
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
        let number = |count: usize| Value::owned_text(format_number(f64_of(count)));
        let mut rules = Vec::new();
        for (items, support) in counts.iter().filter(|(items, count)| items.len() > 1 && **count >= self.0.support) {
            for at in 0..items.len() {
                let mut given = items.clone();
                let implied = vec![given.remove(at)];
                let (Some(of_given), Some(of_implied)) = (counts.get(&given), counts.get(&implied)) else { continue };
                let strength = f64_of(*support) / f64_of(*of_given);
                if strength < self.0.confidence {
                    continue;
                }
                let row = vec![
                    written(&given),
                    written(&implied),
                    Value::owned_text(format!("{strength:.2}")),
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::sync::Arc;

    use quarry_eval::rows::{self, ColumnBuilder, batch_of, of_batches};
    use quarry_spl::ast::Command;

    use super::*;
    use crate::plan::tests::{ReadClock, runner};

    #[test]
    fn a_finalised_search_has_the_rules_of_its_first_rows() {
        let parsed = quarry_spl::parse("* | arules a b");
        let Command::Arules(command) = &parsed.pipeline.commands[1].command else { panic!("{parsed:?}") };
        let context = runner("*").context;
        let support = || {
            let columns = ["a", "b"].map(|name| {
                let mut column = ColumnBuilder::new(4 * CHECKED_ROWS);
                (0..4 * CHECKED_ROWS).for_each(|_| column.push_text("x"));
                (name, column.finish())
            });
            let batch = batch_of(columns, 4 * CHECKED_ROWS).unwrap();
            let made = BlockingTable::run(&Arules(command.clone()), of_batches(vec![batch]), &context).unwrap();
            rows::reader(&made[0], "Overall support").number(0)
        };
        assert_eq!(support(), Some(f64_of(4 * CHECKED_ROWS)));
        context.stop.set_clock(Arc::new(ReadClock::default()));
        // Finalised at 0 ms; the work begins at 40 ms. It may go on at 80 and 120 ms, and ends at 160 ms.
        context.stop.finish_early();
        assert_eq!(support(), Some(f64_of(2 * CHECKED_ROWS)));
        assert!(context.stop.was_cut());
    }
}
