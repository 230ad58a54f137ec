//! Drops rows of a page that the commands after the scan would drop, before further patterns read their texts.
//!
//! For example, if four `rex` commands read prose and a condition tests the result of one of them, the other three are
//! evaluated only in rows that meet the condition. Patterns that read the fewest free texts come first. Rows whose text
//! must be read are left to the commands.
//!
//! Not here: the demands themselves ([`crate::pushed_predicates`]); evaluating a pattern ([`super::rex`]).

use arrow::array::ArrayRef;
use quarry_eval::EngineError;
use quarry_eval::rows;

use super::columns::field_column;
use super::groups::Groups;
use super::page::{PageReader, Rows};
use super::rex::RexReader;
use super::{EventScan, PageRef, RARE_ROWS_MAX, SlabFieldColumns};
use crate::derive::is_default_field;
use crate::event_fields::is_intrinsic_field;
use crate::page::CandidateRows;
use crate::pushed_predicates::PushedPredicate;

impl EventScan {
    /// Drops matching rows of a page that lack the terms of the demands, and adds their number to `left`. The few
    /// remaining rows become undecided: reading their texts costs less than planning the patterns.
    pub(super) fn filter_by_terms(
        &self,
        page: &PageRef,
        (sure, mut maybe): (Rows, Vec<u32>),
        reader: &PageReader<'_>,
        left: &mut usize,
    ) -> Result<(Rows, Vec<u32>), EngineError> {
        let found = match page.candidates {
            CandidateRows::Any => return Ok((sure, maybe)),
            CandidateRows::None => Some(Vec::new()),
            CandidateRows::Rare => {
                let slab = SlabFieldColumns(Some(reader.slab));
                page.segment.candidate_rows(page.page, self.demands.terms(), &slab, RARE_ROWS_MAX)?
            }
        };
        let Some(found) = found else { return Ok((sure, maybe)) };
        let before = maybe.len();
        maybe.extend(sure.iter().filter(|row| found.binary_search(row).is_ok()));
        *left += sure.len() - (maybe.len() - before);
        maybe.sort_unstable();
        Ok((Rows::Some(Vec::new()), maybe))
    }

    /// Drops rows that fail a demand, as long as this saves reading the rows for further patterns; adds their number
    /// to `left`. Returns the groups that were read in the process, by reader.
    pub(super) fn filter_by_groups(
        &self,
        rexes: &mut [RexReader],
        sure: &mut Rows,
        reader: &mut PageReader<'_>,
        left: &mut usize,
    ) -> Result<Vec<Option<Groups>>, EngineError> {
        let mut known: Vec<Option<Groups>> = rexes.iter().map(|_| None).collect();
        if self.projection.includes_unnamed() || rexes.is_empty() {
            return Ok(known);
        }
        let demands = self.demands.all().iter();
        let mut demands: Vec<(&PushedPredicate, Vec<usize>)> =
            demands.filter_map(|demand| Some((demand, self.readers_of(demand, rexes, reader)?))).collect();
        demands.sort_by_key(|(_, readers)| {
            readers.iter().map(|at| rexes[*at].cost.texts_per_thousand_rows()).sum::<u64>()
        });
        for (demand, readers) in demands {
            let is_open = |at: usize| known[at].is_none() && !readers.contains(&at);
            if sure.is_empty() || !(0..rexes.len()).any(is_open) {
                break;
            }
            for at in &readers {
                if known[*at].is_none() {
                    let groups = rexes[*at].read(sure, reader)?;
                    if !groups.undecided.is_empty() {
                        return Ok(known);
                    }
                    known[*at] = Some(groups);
                }
            }
            let columns = demand.fields.iter().filter_map(|field| {
                let column = self.tested_column(field, &readers, rexes, &known, sure, reader);
                column.map(|column| Some((field.clone(), column?))).transpose()
            });
            let columns: Vec<(String, ArrayRef)> = columns.collect::<Result<_, EngineError>>()?;
            let kept = demand.filter.matches(&rows::batch_of(columns, sure.len())?)?;
            if kept.true_count() == sure.len() {
                continue;
            }
            let kept: Vec<bool> = kept.values().iter().collect();
            let of_rows = sure.iter().zip(&kept).filter(|(_, kept)| **kept);
            let rows: Vec<u32> = of_rows.map(|(row, _)| row).collect();
            *left += sure.len() - rows.len();
            *sure = Rows::Some(rows);
            known.iter_mut().flatten().for_each(|groups| groups.retain(&kept));
        }
        Ok(known)
    }

    /// The readers of the patterns that produce the fields of a demand. `None` if one of the fields is intrinsic, a
    /// default field, computed or not requested, or may come from an `spath` path, a rule's pattern, or a command that
    /// reads a field.
    fn readers_of(&self, demand: &PushedPredicate, rexes: &[RexReader], page: &PageReader<'_>) -> Option<Vec<usize>> {
        let mut readers = Vec::new();
        for field in &demand.fields {
            let is_plain = !is_intrinsic_field(field)
                && !is_default_field(field)
                && !page.slab.is_computed(field)
                && !self.rexes.is_path_output(field);
            let is_placed = page.slab.stored_field(field).is_none_or(|field| field.patterned.is_empty());
            if !is_plain || !is_placed || !self.projection.includes(field) {
                return None;
            }
            for (at, rex) in rexes.iter().enumerate().filter(|(_, rex)| rex.produces(field)) {
                if rex.extract.is_some() || rex.source_field.is_some() {
                    return None;
                }
                readers.push(at);
            }
        }
        readers.sort_unstable();
        readers.dedup();
        Some(readers)
    }

    /// The values of a field that a demand tests, in these rows; `None` if no row has a value.
    fn tested_column(
        &self,
        field: &str,
        readers: &[usize],
        rexes: &[RexReader],
        known: &[Option<Groups>],
        sure: &Rows,
        page: &mut PageReader<'_>,
    ) -> Result<Option<ArrayRef>, EngineError> {
        let old = match page.slab.field(field) {
            Some(places) => field_column(places, sure, page)?,
            None => None,
        };
        let made = readers.iter().find_map(|at| {
            let group = rexes[*at].groups.iter().position(|(_, name)| name == field)?;
            Some((known[*at].as_ref()?, group))
        });
        match made {
            Some((groups, group)) => groups.clone_column(group, old.as_ref()).map(Some),
            None => Ok(old),
        }
    }
}
