//! A word tested in a few rows: only the values of these rows are read, and only until a value contains the word. The
//! text of such a row need not be built, whose values may be far from each other in a remote bucket.

use quarry_eval::EngineError;

use super::super::outcome::{UNDECIDED, YES};
use super::super::page::{PageReader, Rows};
use super::{PageAnswers, Probe, ProbePlan, Word, WordPlan};

impl Word {
    /// The answers for some rows, ascending: yes if a value in the row contains the word, otherwise undecided.
    pub(in crate::template_pages) fn test_rows(
        &self,
        plan: &WordPlan,
        rows: &[u32],
        page: &mut PageReader<'_>,
    ) -> Result<Vec<u8>, EngineError> {
        let mut answers = vec![UNDECIDED; rows.len()];
        // A word with wildcards inside has several runs, which must all occur; its rows are left to their texts.
        let (Some([plans]), [probes]) = (plan.runs.as_deref(), &*self.runs) else { return Ok(answers) };
        assert_eq!(probes.len(), plans.len(), "each spelling has a plan");
        for (probe, plan) in probes.iter().zip(plans) {
            probe.confirm_rows((plan, 0), rows, &mut answers, page)?;
        }
        Ok(answers)
    }
}

impl Probe {
    /// Sets the answers of the rows in which a value of the column, or of a column below it, contains the word.
    fn confirm_rows(
        &self,
        (node, column): (&ProbePlan, u32),
        rows: &[u32],
        answers: &mut [u8],
        page: &mut PageReader<'_>,
    ) -> Result<(), EngineError> {
        if answers.iter().all(|answer| *answer == YES) {
            return Ok(());
        }
        match node {
            ProbePlan::Same(_) => return Ok(()),
            ProbePlan::Templates { children, .. } => {
                // Whether any other child counts in a row depends on the row's template.
                for child in children.iter().filter(|child| child.covers) {
                    self.confirm_rows((&child.node, child.column), rows, answers, page)?;
                }
                return Ok(());
            }
            _ => {}
        }
        let values = page.column_of_rows(column, &Rows::Some(rows.to_vec()))?;
        let kind = &page.template_set().columns[column as usize].kind;
        if let PageAnswers::Rows(found) = self.test_values(node, kind, &values) {
            for (row, _) in found.iter().filter(|(_, answer)| *answer == YES) {
                if let Ok(at) = rows.binary_search(row) {
                    answers[at] = YES;
                }
            }
        }
        Ok(())
    }
}
