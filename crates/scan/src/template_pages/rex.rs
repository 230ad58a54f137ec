//! Groups of a `rex` command or an `EXTRACT` rule, evaluated on templates and dictionaries.
//!
//! A [`RexReader`] plans the pattern once per template ([`quarry_eval::pattern::template_match`]). A template is a
//! sequence of literals and variables, whose values are in columns. If the values of a variable have templates of their
//! own, these templates replace the variable only if the pattern can read it. If the variables that the pattern reads
//! have few distinct values, which are numbered by codes, the pattern runs once per combination of codes, and each row
//! costs a lookup. Otherwise it runs for each row, or once per combination of the values on which a group depends, on
//! the part of the text in which it may match. If the plan for a row's template gives no answer, the row's text must be
//! read. Rows without a word that every match contains are excluded first if many texts would be read
//! ([`word_prefilter`]).
//!
//! Not here: the choice of commands to push down ([`crate::pushed_commands`]); locations of automatically extracted
//! fields that have the name of a group ([`super::fields`]).

mod answer_table;
mod evaluation;
mod page_facts;
mod pattern_tree;
mod planning_cost;
mod windows;
mod word_prefilter;

use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_eval::pattern::template_match::Planner;
use quarry_eval::pattern::{Captures, Regex};
use quarry_eval::rows::ColumnReader;
use quarry_event::template::{ColumnValues, TEXT_COLUMN, TemplateSet};
use quarry_spl::ast::RexExtraction;
use quarry_stdx::number::u32_of;

pub(super) use self::evaluation::{Evaluation, invalid_utf8};
pub(super) use self::page_facts::PatternFacts;
use self::pattern_tree::PatternTree;
pub(super) use self::pattern_tree::TemplateNode;
use self::word_prefilter::WordPrefilter;
use super::columns::field_column;
use super::divided_keys::keys_of;
use super::groups::Groups;
use super::interner::{ABSENT, Interner};
use super::literals::{PageHits, RequiredLiterals};
use super::page::{PageReader, Rows};
use super::pattern_cost::PatternCost;
use super::roots::{RequestedRows, Roots, reads_on_columns};
use super::text_arrays::text_array;
use crate::fields::Extract;
use crate::pushed_commands::PushedRex;

/// Maximum number of slabs whose plans a reader caches.
const CACHED_SLABS_MAX: usize = 64;
/// Number of slabs that a search reads at the same time; their plans are cached whatever their size.
const OPEN_SLABS: usize = 2;
/// Maximum bytes of the plans and answers that a reader caches, besides those of the open slabs.
const CACHED_BYTES_MAX: usize = 8 << 20;
/// The code of a match if a reader only tests whether the pattern matches ([`RexReader::of_test`]).
const MATCHED: u32 = 0;

/// Evaluates the groups of a pattern on template pages; used by one worker at a time.
pub(crate) struct RexReader {
    /// The search-time rule; `None` for a command.
    pub(super) extract: Option<Arc<Extract>>,
    /// The field with the result if the reader only tests whether the pattern matches.
    pub(super) test: Option<String>,
    /// The command and the field that it reads; `None` if it reads the event text.
    pub(super) source_field: Option<(Arc<RexExtraction>, String)>,
    pub(super) regex: Regex,
    captures: Captures,
    pub(super) groups: Vec<(usize, String)>,
    planner: Option<Planner>,
    literals: RequiredLiterals,
    words: WordPrefilter,
    /// Facts about the pages of slabs; shared by the readers of the pattern.
    pub(super) facts: Arc<PatternFacts>,
    slabs: Vec<PatternTree>,
    /// Number of pages read.
    pages: u64,
    /// Cost of the pattern so far.
    pub(super) cost: PatternCost,
}

impl RexReader {
    /// A reader for a command.
    pub(crate) fn new(rex: &PushedRex) -> RexReader {
        let of_field = rex.source().map(|field| (Arc::clone(&rex.command), field.to_owned()));
        RexReader { source_field: of_field, ..RexReader::of_pattern(&rex.regex, rex.groups.clone(), None) }
    }

    /// A reader that only tests whether the pattern matches; `output` is the field of the result.
    pub(crate) fn of_test(regex: &Regex, output: &str) -> RexReader {
        RexReader { test: Some(output.to_owned()), ..RexReader::of_pattern(regex, Vec::new(), None) }
    }

    /// A reader for these groups of a search-time rule.
    pub(super) fn of_extract(extract: &Arc<Extract>, groups: Vec<(usize, String)>) -> RexReader {
        RexReader::of_pattern(&extract.regex, groups, Some(Arc::clone(extract)))
    }

    fn of_pattern(regex: &Regex, groups: Vec<(usize, String)>, extract: Option<Arc<Extract>>) -> RexReader {
        let planner = Planner::new(regex, groups.iter().map(|(group, _)| *group));
        let (regex, captures) = (regex.clone(), regex.new_captures());
        let (literals, words) = (RequiredLiterals::of(&regex), WordPrefilter::of(&regex));
        let (slabs, pages, cost) = (Vec::new(), 0, PatternCost::default());
        let (test, source_field, facts) = (None, None, Arc::default());
        RexReader {
            extract,
            test,
            source_field,
            regex,
            captures,
            groups,
            planner,
            literals,
            words,
            facts,
            slabs,
            pages,
            cost,
        }
    }

    /// Whether one of the reader's groups is this field.
    pub(super) fn produces(&self, field: &str) -> bool {
        self.groups.iter().any(|(_, name)| name == field)
    }

    /// Whether the reader belongs to a command that reads the event text.
    pub(super) fn is_command_on_texts(&self) -> bool {
        self.extract.is_none() && self.test.is_none() && self.source_field.is_none()
    }

    /// The groups of these rows of a page.
    pub(super) fn read(&mut self, rows: &Rows, page: &mut PageReader<'_>) -> Result<Groups, EngineError> {
        // A test has one additional group, whose only code means a match.
        let mut found = Groups::empty(self.groups.len() + usize::from(self.test.is_some()));
        let classes = self.extract.as_ref().map(|extract| page.slab.classes_of(extract));
        if classes.as_ref().is_some_and(|classes| !classes.contains(&true)) {
            return Ok(found);
        }
        let for_some = match classes {
            Some(classes) => self.requested_rows(&classes, page)?,
            None => None,
        };
        let is_for = |row: u32| for_some.as_ref().is_none_or(|asked| asked.is_any(row));
        let Some(roots) = self.roots(page)? else { return Ok(self.require_texts(rows, is_for)) };
        if self.planner.is_none() && self.extract.is_some() {
            return Ok(self.require_texts(rows, is_for));
        }
        let at = self.tree_index(page);
        found.codes.iter_mut().for_each(|codes| codes.resize(rows.len(), ABSENT));
        let (facts, template_set, number) = (Arc::clone(&self.facts), &page.slab.template_set, page.number());
        let mut known = facts.take(template_set, number);
        let possible = match self.source_field {
            None => {
                let prefilter = &mut self.slabs[at].prefilter;
                self.words.possible_rows(prefilter, rows, &self.cost, &mut known.possible, page)?
            }
            Some(_) => None,
        };
        let is_possible = |row: u32| possible.as_ref().is_none_or(|possible| possible.is_set(row as usize));
        let may_match = |row: u32| is_for(row) && is_possible(row);
        let asked_rows = rows.iter().enumerate().filter(|(_, row)| may_match(*row));
        self.cost.rows += rows.len() as u64;
        self.pages += 1;
        let mut hits = PageHits::for_rows(rows.len(), self.pages, &mut known.searches);
        self.evaluate_rows(at, asked_rows, &roots, &mut hits, page, &mut found)?;
        if let Some(hits) = hits {
            known.searches = hits.into_searches();
        }
        facts.put(template_set, number, known);
        self.cost.texts += found.undecided.len() as u64;
        self.evaluate_values(at, rows, &mut found, page)?;
        let texts = self.slabs[at].texts.iter_mut().zip(&mut found.codes);
        found.texts = texts.map(|(texts, codes)| texts.array_of(codes)).collect();
        if let Some(asked) = &for_some {
            asked.clear_unrequested(&mut found, rows);
        }
        if self.extract.is_some() {
            self.mark_absent_undecided(rows, &mut found, page)?;
        }
        Ok(found)
    }

    /// Evaluates rows, given with their positions in the result, by the plans for their templates. Without a planner, all
    /// rows are undecided.
    fn evaluate_rows(
        &mut self,
        at: usize,
        rows: impl Iterator<Item = (usize, u32)>,
        roots: &Roots,
        hits: &mut Option<PageHits>,
        page: &mut PageReader<'_>,
        found: &mut Groups,
    ) -> Result<(), EngineError> {
        let RexReader { extract, test, regex, captures, groups, planner, literals, slabs, cost, .. } = self;
        let Some(planner) = planner else {
            found.undecided.extend(rows.map(|(_, row)| row));
            return Ok(());
        };
        let skips_empty = extract.as_ref().is_some_and(|extract| extract.skips_empty);
        let (text, codes, values, some) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (kept, searched) = (Vec::new(), hits.take());
        let mut work = Evaluation {
            regex,
            skips_empty,
            captures,
            groups,
            planner,
            literals,
            hits: searched,
            text,
            codes,
            values,
            found: kept,
            some,
            cost,
        };
        slabs[at].read_rows(rows, roots.codes(), test.is_some(), &mut work, page, found)?;
        *hits = work.hits;
        Ok(())
    }

    /// For each row of a page, the number of the root in the [`PatternTree`] from which the row is evaluated; `None` if
    /// the texts are not stored as templates, or if the field is not available yet.
    fn roots(&self, page: &mut PageReader<'_>) -> Result<Option<Roots>, EngineError> {
        match &self.source_field {
            Some((_, field)) if reads_on_columns(page.slab, field) => {
                let keys = match page.slab.field(field) {
                    Some(field) => keys_of(field, page)?,
                    None => page.keys()?,
                };
                Ok(Some(Roots::Keys(keys)))
            }
            // The field is not available yet; the command runs on its values later.
            Some(_) => Ok(None),
            None => {
                let texts = page.column(TEXT_COLUMN)?;
                Ok(matches!(texts.values, ColumnValues::Codes(_)).then_some(Roots::Templates(texts)))
            }
        }
    }

    /// Runs a command on the texts, or on the values of its field, for rows that the templates cannot answer; nothing
    /// else of these rows is read.
    fn evaluate_values(
        &mut self,
        at: usize,
        rows: &Rows,
        found: &mut Groups,
        page: &mut PageReader<'_>,
    ) -> Result<(), EngineError> {
        if self.extract.is_some() || found.undecided.is_empty() {
            return Ok(());
        }
        let undecided = std::mem::take(&mut found.undecided);
        let asked = Rows::Some(undecided);
        let values = match &self.source_field {
            None => {
                let texts = page.texts(TEXT_COLUMN, &asked.iter().collect::<Vec<_>>())?;
                Some(text_array(&texts.bytes, &texts.ends)?)
            }
            Some((_, field)) => match page.slab.field(field) {
                Some(field) => field_column(field, &asked, page)?,
                None => None,
            },
        };
        let Some(values) = values else { return Ok(()) };
        let RexReader { test, regex, captures, groups, slabs, .. } = self;
        let texts = &mut slabs[at].texts;
        let (reader, mut scratch) = (ColumnReader::new(&values), String::new());
        let mut places = rows.iter().enumerate();
        for (at, row) in asked.iter().enumerate() {
            let Some((place, _)) = places.find(|(_, known)| *known == row) else { break };
            let Some(text) = reader.text(at, &mut scratch) else { continue };
            if test.is_some() {
                found.codes[0][place] = if regex.is_match(text) { MATCHED } else { ABSENT };
                continue;
            }
            if !regex.captures_into(text, captures) {
                continue;
            }
            for (((group, _), texts), codes) in groups.iter().zip(texts.iter_mut()).zip(&mut found.codes) {
                match captures.text(text, *group).map(|text| texts.code_of(text, false)) {
                    Some(Some(code)) => codes[place] = code,
                    // The group has too many distinct texts.
                    Some(None) => {
                        found.undecided.push(row);
                        break;
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// An empty result. The rows to which the pattern applies are undecided, so that their text is read, unless the
    /// pattern reads a field: then the command runs later.
    fn require_texts(&self, rows: &Rows, is_for: impl Fn(u32) -> bool) -> Groups {
        let mut found = Groups::empty(self.groups.len() + usize::from(self.test.is_some()));
        if self.source_field.is_some() {
            return found;
        }
        found.undecided = rows.iter().filter(|row| is_for(*row)).collect();
        found.codes.iter_mut().for_each(|codes| codes.resize(rows.len(), ABSENT));
        found.texts = self.groups.iter().map(|_| Interner::default().array_of(&mut [])).collect();
        found
    }

    /// The rows for which the rule must be evaluated; `None` for all rows. A row needs no evaluation if the rule does
    /// not apply to the row's extraction class (its source, host and sourcetype), or if the templates determine the
    /// locations of all fields that the rule extracts.
    fn requested_rows(
        &self,
        classes: &[bool],
        page: &mut PageReader<'_>,
    ) -> Result<Option<RequestedRows>, EngineError> {
        let slab = page.slab;
        let is_of_class = |key: usize| classes.get(slab.class_of_key(u32_of(key))) == Some(&true);
        let mut by_group = Vec::with_capacity(self.groups.len());
        for (_, name) in &self.groups {
            let field = slab.stored_field(name);
            let asked: Vec<bool> = match field {
                Some(field) => (0..field.locations.len())
                    .map(|key| is_of_class(field.slab_key(key)) && field.is_patterned(u32_of(key)))
                    .collect(),
                None => (0..slab.key_count()).map(is_of_class).collect(),
            };
            by_group.push((field, asked));
        }
        if by_group.iter().all(|(_, asked)| !asked.contains(&false)) {
            return Ok(None);
        }
        let mut known = Vec::with_capacity(by_group.len());
        for (field, asked) in by_group {
            let keys = match field {
                Some(field) => keys_of(field, page)?,
                None => page.keys()?,
            };
            known.push((keys, asked));
        }
        Ok(Some(RequestedRows { by_group: known }))
    }

    /// Marks as undecided the rows in which a rule finds nothing and automatic extraction depends on the text.
    fn mark_absent_undecided(
        &self,
        rows: &Rows,
        found: &mut Groups,
        page: &mut PageReader<'_>,
    ) -> Result<(), EngineError> {
        for (codes, (_, name)) in found.codes.iter().zip(&self.groups) {
            let Some(field) = page.slab.stored_field(name).filter(|field| field.by_text && codes.contains(&ABSENT))
            else {
                continue;
            };
            let keys = keys_of(field, page)?;
            let absent = rows.iter().zip(codes).filter(|(_, code)| **code == ABSENT).map(|(row, _)| row);
            found.undecided.extend(absent.filter(|row| field.is_text_or_pattern(keys[*row as usize])));
        }
        Ok(())
    }

    /// Whether the reader has plans for the slab with these templates.
    pub(crate) fn has_read(&self, template_set: &Arc<TemplateSet>) -> bool {
        self.slabs.iter().any(|tree| tree.is_of(template_set))
    }

    /// Whether a later search can use the reader, for another command with the same pattern and groups. The plans of a
    /// command that reads a field depend on where the search finds the field.
    pub(super) fn is_reusable(&self) -> bool {
        self.planner.is_some() && self.source_field.is_none()
    }

    /// Whether the reader evaluates this pattern for these groups of a command or, with `is_test`, for a match test.
    pub(super) fn is_for_command(&self, regex: &Regex, groups: &[(usize, String)], is_test: bool) -> bool {
        self.extract.is_none()
            && self.source_field.is_none()
            && self.test.is_some() == is_test
            && self.groups == groups
            && self.regex.is_same_linear(regex)
    }

    /// Whether the reader evaluates these groups of a rule.
    pub(super) fn is_for_rule(&self, extract: &Arc<Extract>, groups: &[(usize, String)]) -> bool {
        self.extract.as_ref().is_some_and(|known| Arc::ptr_eq(known, extract)) && self.groups == groups
    }

    /// Drops what only the ending search needs, and the plans of slabs whose templates have left memory.
    pub(super) fn end_search(&mut self) {
        self.slabs.retain(PatternTree::is_in_use);
        self.slabs.iter_mut().for_each(PatternTree::stop_reading);
        self.planner.iter_mut().for_each(Planner::end_search);
        // The facts have a limit of their own, beyond which an idle reader must not keep them.
        self.facts = Arc::default();
    }

    /// Bytes of memory between searches, approximately.
    pub(super) fn kept_bytes(&self) -> usize {
        let planner = self.planner.as_ref().map_or(0, Planner::memory_bytes);
        size_of::<RexReader>() + planner + self.slabs.iter().map(PatternTree::kept_bytes).sum::<usize>()
    }

    /// Index of the tree for the page's slab.
    fn tree_index(&mut self, page: &PageReader<'_>) -> usize {
        let known = self.slabs.iter().position(|tree| tree.is_of(&page.slab.template_set));
        if let Some(at) = known.filter(|at| at + OPEN_SLABS >= self.slabs.len()) {
            return at;
        }
        if let Some(planner) = &mut self.planner {
            planner.begin_slab();
        }
        let tree = match known {
            Some(at) => self.slabs.remove(at),
            None => {
                let field = self.source_field.as_ref().and_then(|(_, field)| page.slab.field(field));
                PatternTree::new(page.slab, field, self.groups.len())
            }
        };
        open_tree(&mut self.slabs, tree);
        self.slabs.len() - 1
    }
}

/// Adds a tree that is about to be read. The last [`OPEN_SLABS`] trees are open; the others are limited by their bytes,
/// which are determined anew whenever a tree is closed.
fn open_tree(trees: &mut Vec<PatternTree>, tree: PatternTree) {
    if let Some(left) = trees.len().checked_sub(OPEN_SLABS) {
        trees[left].close();
        let mut bytes: usize = trees[..=left].iter().map(PatternTree::kept_bytes).sum();
        while trees.len() >= CACHED_SLABS_MAX || bytes > CACHED_BYTES_MAX {
            bytes -= trees.remove(0).kept_bytes();
        }
    }
    trees.push(tree);
    assert!(trees.len() <= CACHED_SLABS_MAX, "the number of cached slabs is limited");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_grows_when_it_is_read_again_is_limited() {
        let slabs = [(); 4].map(|()| Arc::new(TemplateSet::default()));
        let mut trees = Vec::new();
        slabs.iter().for_each(|slab| open_tree(&mut trees, PatternTree::of_nodes(slab, Vec::new(), 1)));
        assert_eq!(trees.len(), 4);
        let mut first = trees.remove(0);
        assert!(first.is_of(&slabs[0]) && first.kept_bytes() < CACHED_BYTES_MAX);
        first.texts[0].code_of(&"x".repeat(CACHED_BYTES_MAX + 1), false);
        open_tree(&mut trees, first);
        let last = trees.remove(1);
        open_tree(&mut trees, last);
        assert!(trees.iter().any(|tree| tree.is_of(&slabs[0])), "the tree is open");
        open_tree(&mut trees, PatternTree::of_nodes(&Arc::new(TemplateSet::default()), Vec::new(), 1));
        assert!(!trees.iter().any(|tree| tree.is_of(&slabs[0])));
    }
}
