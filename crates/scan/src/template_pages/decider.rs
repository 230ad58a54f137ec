//! Decides whether a row matches a pattern whose capture groups are at fixed positions of the template. Only the values
//! on which the match depends are tested. If they have few codes, results are cached by code; otherwise, an automaton
//! reads no more of a value than necessary.
//!
//! Not here: which values decide ([`quarry_eval::pattern::template_match`]).

use quarry_eval::EngineError;
use quarry_eval::pattern::template_match::{CombinationMemo, Decision, FlatPart, FlatTemplate, ValueTest, Window};
use quarry_event::template::{ColumnKind, TemplateSet};

use super::column_codes::has_few_codes;
use super::rex::{Evaluation, invalid_utf8};
use super::row_values::{RowOf, append_text};

/// Decides for one window whether a match starts in it.
pub(super) struct Decider {
    decision: Decision,
    /// Columns on whose values the match depends, each with its part of the template.
    columns: Vec<(u32, usize)>,
    /// Whether all these columns have codes, few enough for the results to be cached.
    has_codes: bool,
    memo: CombinationMemo<bool>,
    test: Option<ValueTest>,
}

impl Decider {
    pub(super) fn new(
        decision: Decision,
        window: &Window,
        template: &FlatTemplate,
        template_set: &TemplateSet,
    ) -> Decider {
        let column_of = |part: &usize| match template.parts().get(*part) {
            Some(FlatPart::Variable(column, _)) => Some((*column, *part)),
            _ => None,
        };
        let columns: Vec<(u32, usize)> = decision.read.iter().filter_map(column_of).collect();
        let has_codes = columns.iter().all(|(column, _)| has_few_codes(template_set, *column));
        let is_text =
            |(column, _): &(u32, usize)| matches!(template_set.columns[*column as usize].kind, ColumnKind::Texts);
        let test = if columns.iter().all(is_text) { window.value_test(&decision, template) } else { None };
        Decider { decision, columns, has_codes, memo: CombinationMemo::default(), test }
    }

    /// Bytes of memory, approximately.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Decider>() + self.memo.memory_bytes()
    }

    /// Whether a match starts in the window; `None` if a value is missing.
    pub(super) fn has_match(
        &mut self,
        window: &Window,
        template: &FlatTemplate,
        of_row: &mut RowOf<'_, '_>,
        work: &mut Evaluation<'_>,
    ) -> Result<Option<bool>, EngineError> {
        if self.has_codes {
            if !work.read_codes(&self.columns, of_row.row, of_row.cursors, of_row.page)? {
                return Ok(None);
            }
            if let Some(known) = self.memo.get(&work.codes) {
                return Ok(self.memo.answers().get(known as usize).copied());
            }
        } else if let (Some(test), [(column, _)]) = (&mut self.test, self.columns.as_slice()) {
            work.cost.texts += 1;
            let Some(value) = of_row.cursors.text(*column, of_row.row, of_row.page)? else { return Ok(None) };
            if let Some(answer) = test.is_match(work.planner, value) {
                return Ok(Some(answer));
            }
        }
        let Some(answer) = self.run(window, template, of_row, work)? else { return Ok(None) };
        if self.has_codes && !self.memo.is_full() {
            self.memo.index_or_insert(&work.codes, || answer);
        }
        Ok(Some(answer))
    }

    /// Runs the expression on the window.
    fn run(
        &self,
        window: &Window,
        template: &FlatTemplate,
        of_row: &mut RowOf<'_, '_>,
        work: &mut Evaluation<'_>,
    ) -> Result<Option<bool>, EngineError> {
        work.values.resize_with(self.columns.len(), Default::default);
        for ((column, part), (of, text)) in self.columns.iter().zip(&mut work.values) {
            *of = *part;
            text.clear();
            match &of_row.page.template_set().columns[*column as usize].kind {
                ColumnKind::Dictionary { .. } => {
                    let Some(code) = of_row.cursors.code(*column, of_row.row, of_row.page)? else { return Ok(None) };
                    append_text(*column, code, of_row.segment, of_row.dictionaries, text)?;
                }
                _ if of_row.cursors.append_value(*column, of_row.row, of_row.page, text)? => {}
                _ => return Ok(None),
            }
        }
        let Evaluation { regex, captures, text, values, .. } = work;
        let value = |part: usize, text: &mut Vec<u8>| {
            if let Some((_, value)) = values.iter().find(|(known, _)| *known == part) {
                text.extend_from_slice(value);
            }
        };
        let found = window.has_match(&self.decision, template, regex, value, text, captures);
        found.map(Some).map_err(invalid_utf8)
    }
}
