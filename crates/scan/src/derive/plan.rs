//! The search-time rules of one source that produce requested fields, in Splunk's order: aliases, calculated fields,
//! lookups.

use std::collections::BTreeSet;

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use quarry_conf::{AliasRule, SearchTimeRules};
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::expr::{CompiledExpr, ExprContext};
use quarry_eval::lookup::Lookup;
use quarry_eval::messages::Messages;
use quarry_eval::rows;
use quarry_spl::analyse::expr_fields;
use quarry_spl::first_fault;
use quarry_stdx::Fault;

use super::defaults::is_default_field;
use super::requested_fields::RequestedFields;
use super::tables::{Tables, command_of};
use crate::event_fields::is_intrinsic_field;

/// The rules of a source that produce requested fields.
pub(super) struct Plan {
    aliases: Vec<AliasRule>,
    evals: Vec<(String, CompiledExpr)>,
    /// Each lookup with the fields it produces.
    lookups: Vec<(Lookup, Vec<String>)>,
    /// Whether an expression calls `searchmatch`.
    searches: bool,
    /// See [`Plan::required_fields`].
    needs: BTreeSet<String>,
}

/// An alias with no other rule for the same field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SoleAlias<'p> {
    /// The aliased field.
    pub source: &'p str,
    /// Whether the event's own value of the alias takes precedence.
    pub only_new: bool,
}

impl Plan {
    /// Traces the requested fields back through the rules. A rule that cannot be evaluated is reported and skipped.
    pub(super) fn new(
        rules: &SearchTimeRules,
        wanted: &RequestedFields,
        tables: &Tables,
        context: &ExprContext,
        messages: &Messages,
    ) -> Plan {
        let mut wanted = wanted.clone();
        let mut plan = Plan {
            aliases: Vec::new(),
            evals: Vec::new(),
            lookups: Vec::new(),
            searches: false,
            needs: BTreeSet::new(),
        };
        for (class, text) in rules.lookups.iter().rev() {
            match plan.add_lookup(text, &mut wanted, tables) {
                Ok(()) => {}
                Err(reason) => messages.push(format!("LOOKUP-{class} = {text}: {reason}; the lookup is skipped")),
            }
        }
        plan.lookups.reverse();
        let before = wanted.clone();
        for (field, text) in rules.evals.iter().filter(|(field, _)| before.contains(field)) {
            match plan.add_eval(field, text, &mut wanted, context) {
                Ok(()) => {}
                Err(reason) => messages.push(format!("EVAL-{field} = {text}: {reason}; the rule is skipped")),
            }
        }
        let before = wanted.clone();
        for alias in rules.aliases.iter().filter(|alias| before.contains(&alias.target)) {
            if is_intrinsic_field(&alias.target) {
                messages.push(format!(
                    "FIELDALIAS of {}: {} is a reserved field; the alias is skipped",
                    alias.source, alias.target
                ));
                continue;
            }
            wanted.names.extend([alias.source.clone(), alias.target.clone()]);
            plan.aliases.push(alias.clone());
        }
        plan.needs = wanted.names;
        plan
    }

    fn add_lookup(&mut self, text: &str, wanted: &mut RequestedFields, tables: &Tables) -> Result<(), Fault> {
        let outputs = tables.outputs(text)?;
        if !outputs.iter().any(|field| wanted.contains(field)) {
            return Ok(());
        }
        if let Some(reserved) = outputs.iter().find(|field| is_intrinsic_field(field)) {
            return Err(Fault::invalid(format!("{reserved} is a reserved field")));
        }
        self.lookups.push((tables.lookup(text)?, outputs.clone()));
        wanted.names.extend(command_of(text)?.inputs.into_iter().map(|(_, field)| field));
        wanted.names.extend(outputs);
        Ok(())
    }

    fn add_eval(
        &mut self,
        field: &str,
        text: &str,
        wanted: &mut RequestedFields,
        context: &ExprContext,
    ) -> Result<(), Fault> {
        if is_intrinsic_field(field) {
            return Err(Fault::invalid("the field is reserved"));
        }
        let expr = quarry_spl::parse_expression(text).map_err(|faults| first_fault(&faults))?;
        let compiled = CompiledExpr::new(&expr, context)?;
        wanted.names.extend(expr_fields(&expr));
        self.searches |= compiled.field_names().is_none();
        self.evals.push((field.to_owned(), compiled));
        Ok(())
    }

    /// Whether the plan adds no fields.
    pub(super) fn is_empty(&self) -> bool {
        self.aliases.is_empty() && self.evals.is_empty() && self.lookups.is_empty()
    }

    /// Requested fields, and fields that the rules read; all of them are extracted from texts before the rules run.
    pub(super) fn required_fields(&self) -> &BTreeSet<String> {
        &self.needs
    }

    /// Whether the rules read only stored columns. The text, its index time and the default fields are not columns.
    pub(super) fn reads_only_columns(&self) -> bool {
        let is_computed = |name: &str| matches!(name, "_raw" | "_indextime") || is_default_field(name);
        !self.searches && !self.input_fields().into_iter().any(is_computed)
    }

    /// Fields that the rules read as extracted, before any rule has set them.
    pub(super) fn input_fields(&self) -> BTreeSet<&str> {
        let mut reads: BTreeSet<&str> = BTreeSet::new();
        for (lookup, outputs) in &self.lookups {
            reads.extend(lookup.input_names());
            // A lookup without a match leaves its output fields unchanged.
            reads.extend(outputs.iter().map(String::as_str));
        }
        // The result of an earlier rule hides the event's own field of that name.
        reads.retain(|name| !self.evals.iter().any(|(field, _)| field == name));
        reads.extend(self.evals.iter().flat_map(|(_, expr)| expr.fields()));
        let hides = |alias: &AliasRule, name: &str| !alias.only_new && alias.target == name;
        reads.retain(|name| !self.aliases.iter().any(|alias| hides(alias, name)));
        for alias in &self.aliases {
            reads.insert(&alias.source);
            if alias.only_new {
                reads.insert(&alias.target);
            }
        }
        reads
    }

    /// The fields that the plan produces.
    pub(super) fn output_fields(&self) -> impl Iterator<Item = &str> {
        let aliases = self.aliases.iter().map(|alias| alias.target.as_str());
        let evals = self.evals.iter().map(|(field, _)| field.as_str());
        let outputs = self.lookups.iter().flat_map(|(_, outputs)| outputs.iter().map(String::as_str));
        aliases.chain(evals).chain(outputs)
    }

    /// The alias rule of `field`, if no other rule produces that field.
    pub(super) fn sole_alias(&self, field: &str) -> Option<SoleAlias<'_>> {
        let alias = self.aliases.iter().find(|alias| alias.target == field)?;
        let is_only = self.output_fields().filter(|given| *given == field).count() == 1;
        is_only.then_some(SoleAlias { source: &alias.source, only_new: alias.only_new })
    }

    /// Adds the fields of the rules to the rows.
    pub(super) fn apply(&self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        if rows.num_rows() == 0 {
            return Ok(rows);
        }
        let mut result = rows.clone();
        for alias in &self.aliases {
            // An alias reads extracted fields, not the result of another alias.
            let source = rows::column_or_null(&rows, &alias.source);
            let column = match rows::column(&result, &alias.target).filter(|_| alias.only_new) {
                Some(old) => rows::coalesce(old, &source),
                None => source,
            };
            result = with_column(&result, &alias.target, column)?;
        }
        let before = result.clone();
        for (field, expr) in &self.evals {
            result = with_column(&result, field, expr.evaluate(&before)?)?;
        }
        for (lookup, outputs) in &self.lookups {
            result = lookup.clone().apply(result)?;
            let is_output = |name: &str| outputs.iter().any(|output| output == name);
            let empty = |array| rows::ColumnReader::new(array).validity().is_some_and(|p| p.null_count() == p.len());
            let columns = result.schema_ref().fields().iter().zip(result.columns());
            let unset: Vec<String> = columns
                .filter(|(field, array)| is_output(field.name()) && empty(array))
                .map(|(field, _)| field.name().clone())
                .collect();
            result = rows::drop_columns(&result, |name| unset.iter().any(|unset| unset == name))?;
        }
        Ok(result)
    }
}

/// Sets a column, or drops it if no row has a value.
pub(super) fn with_column(rows: &RecordBatch, name: &str, column: ArrayRef) -> Result<RecordBatch, EngineError> {
    if rows::ColumnReader::new(&column).validity().is_some_and(|present| present.null_count() == column.len()) {
        return rows::drop_columns(rows, |known| known == name);
    }
    rows::with_column(rows, name, column)
}
