//! Answers of a pattern as an array indexed by code, one per slab.
//!
//! If only one or two columns determine a template's single group, or whether there is a match, a row costs a lookup
//! by its codes, without hashing. The table has no answers for other templates.

use quarry_eval::EngineError;
use quarry_event::template::TemplateSet;
use quarry_stdx::number::u32_of;

use super::windows::WindowRequest;
use crate::template_pages::column_codes::max_codes;
use crate::template_pages::cursors::Cursors;
use crate::template_pages::page::PageReader;

/// Maximum number of answers per slab.
const ANSWERS_MAX: usize = 1 << 20;
/// Maximum number of combinations of two columns' codes.
const PAIRS_MAX: usize = 1 << 16;
/// No answer yet.
pub(super) const UNANSWERED: u32 = 0;
/// No match, or a match without the group.
pub(super) const NO_MATCH: u32 = 1;
/// All other answers are the number of a text plus this.
pub(super) const TEXT_BASE: u32 = 2;

/// The answers of a slab.
#[derive(Default)]
pub(super) struct AnswerTable {
    /// Location of the answers of each node, up to the last node that has answers.
    nodes: Vec<Answers>,
    answers: Vec<u32>,
}

/// Location of a node's answers in the array.
#[derive(Clone, Copy, Default)]
struct Answers {
    column: u32,
    start: u32,
    /// Number of codes of `column`; 0 if the node has no answers in the array.
    len: u32,
    /// The second column and its number of codes, if the answers depend on two columns.
    second: Option<(u32, u32)>,
}

impl AnswerTable {
    /// Position of the answer for a row; `None` if the table has no answer for the row.
    #[inline]
    pub(super) fn answer_position(
        &self,
        node: u32,
        row: u32,
        cursors: &mut Cursors,
        page: &mut PageReader<'_>,
    ) -> Result<Option<usize>, EngineError> {
        let Some(Answers { column, start, len, second }) = self.nodes.get(node as usize).copied() else {
            return Ok(None);
        };
        if len == 0 {
            return Ok(None);
        }
        let Some(code) = cursors.code(column, row, page)?.filter(|code| *code < len) else { return Ok(None) };
        let Some((second, second_len)) = second else { return Ok(Some((start + code) as usize)) };
        let other = cursors.code(second, row, page)?.filter(|other| *other < second_len);
        Ok(other.map(|other| (start + code * second_len + other) as usize))
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(self.nodes.as_slice()) + size_of_val(self.answers.as_slice())
    }

    /// The answer at a position.
    #[inline]
    pub(super) fn get(&self, place: usize) -> u32 {
        self.answers[place]
    }

    /// Stores the answer at a position.
    #[inline]
    pub(super) fn set(&mut self, place: usize, answer: u32) {
        self.answers[place] = answer;
    }

    /// Makes room for the answers of a node if they consist of at most one group that depends on one or two columns.
    pub(super) fn add_node(&mut self, at: usize, windows: &[WindowRequest], groups: usize, template_set: &TemplateSet) {
        let [WindowRequest { columns, has_codes: true, decider: None, .. }] = windows else { return };
        let codes_of = |(column, _): &(u32, usize)| max_codes(template_set, *column);
        let (column, len, second, most) = match columns.as_slice() {
            [only] => (only.0, codes_of(only), None, ANSWERS_MAX),
            [first, other] => (first.0, codes_of(first), Some((other.0, codes_of(other))), PAIRS_MAX),
            _ => return,
        };
        let pairs = len.saturating_mul(second.map_or(1, |(_, len)| len));
        if groups > 1 || pairs == 0 || pairs > most || self.answers.len() + pairs > ANSWERS_MAX {
            return;
        }
        let second = second.map(|(column, len)| (column, u32_of(len)));
        self.nodes.resize(self.nodes.len().max(at + 1), Answers::default());
        self.nodes[at] = Answers { column, start: u32_of(self.answers.len()), len: u32_of(len), second };
        self.answers.resize(self.answers.len() + pairs, UNANSWERED);
    }
}
