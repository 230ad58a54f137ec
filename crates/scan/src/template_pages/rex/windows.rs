//! The windows of a template in which a pattern may match, with their cached answers.
//!
//! If the answer for a window depends on few codes, the pattern runs once per combination of these codes. If there are
//! too many combinations, the answer is cached separately for each capture group, provided that the groups do not
//! depend on each other.

use quarry_eval::EngineError;
use quarry_eval::pattern::template_match::{COMBINATIONS_MAX, CombinationMemo, FlatTemplate, Window};
use quarry_event::template::TemplateSet;
use quarry_stdx::number::u32_of;

use super::evaluation::{Evaluation, evaluate_row};
use crate::template_pages::column_codes::max_combinations;
use crate::template_pages::decider::Decider;
use crate::template_pages::group_memos::GroupMemos;
use crate::template_pages::interner::Interner;
use crate::template_pages::literals::{LiteralSites, RequiredLiterals};
use crate::template_pages::row_values::RowOf;

/// Memory of the positions of the literals of a window, approximately: for each, the values of the last page that may
/// contain it.
const SITES_BYTES: usize = 1024;

/// A leaf of a pattern's plans: the windows of a flat template ([`super::pattern_tree`]) in which the pattern may
/// match.
pub(in crate::template_pages) struct Leaf {
    /// The parts that contain the windows.
    pub(super) template: FlatTemplate,
    /// The windows before evaluation; templates with equal parts and windows share a leaf.
    pub(super) planned: Vec<Window>,
    pub(super) windows: Vec<WindowRequest>,
}

/// A window and its cached answers.
pub(super) struct WindowRequest {
    window: Window,
    /// Columns on which the answer depends, each with its part of the template.
    pub columns: Vec<(u32, usize)>,
    /// Whether all these columns have codes, and so few that the answers can be cached.
    pub has_codes: bool,
    /// Index in `found` of the groups' codes; `None` for no match.
    memo: CombinationMemo<Option<u32>>,
    found: Vec<u32>,
    /// Decides whether there is a match, if the positions of the groups are known in advance; the pattern then need not
    /// be run to find them.
    pub decider: Option<Decider>,
    /// Answers group by group, in place of `memo`, if there would be too many combinations.
    apart: Option<GroupMemos>,
    /// Possible positions of the literals that a match needs, if the pattern runs on free text.
    sites: Option<LiteralSites>,
}

/// The pattern's answer for a row.
pub(super) enum Answer<'a> {
    Unknown,
    No,
    Groups(&'a [u32]),
}

impl WindowRequest {
    /// A window without cached answers. An answer depends on `columns`; with `has_codes`, all of them have few codes.
    pub(super) fn new(
        window: Window,
        (columns, has_codes): (Vec<(u32, usize)>, bool),
        decider: Option<Decider>,
        literals: &RequiredLiterals,
        template: &FlatTemplate,
        template_set: &TemplateSet,
    ) -> WindowRequest {
        let is_too_much = has_codes && decider.is_none() && max_combinations(template_set, &columns) > COMBINATIONS_MAX;
        let apart = window.group_dependence.as_ref().filter(|_| is_too_much);
        let apart = apart.and_then(|apart| GroupMemos::new(apart, &columns, template));
        let (memo, found) = (CombinationMemo::default(), Vec::new());
        let sites = match has_codes || decider.is_some() || window.groups.is_some() {
            true => None,
            false => LiteralSites::of(literals, &window, template, template_set),
        };
        WindowRequest { window, columns, has_codes, memo, found, decider, apart, sites }
    }
}

impl Leaf {
    /// Bytes of memory, approximately.
    pub(super) fn memory_bytes(&self) -> usize {
        let windows = self.windows.iter().zip(&self.planned).map(|(request, planned)| {
            let WindowRequest { columns, memo, found, decider, apart, .. } = request;
            size_of::<WindowRequest>()
                // The window is kept as planned and as it is evaluated.
                + planned.memory_bytes() * 2
                + size_of_val(columns.as_slice())
                + size_of_val(found.as_slice())
                + memo.memory_bytes()
                + decider.as_ref().map_or(0, Decider::memory_bytes)
                + apart.as_ref().map_or(0, GroupMemos::memory_bytes)
                + SITES_BYTES
        });
        self.template.memory_bytes() + windows.sum::<usize>()
    }

    #[inline]
    pub(super) fn evaluate<'w>(
        &'w mut self,
        remembers: bool,
        work: &'w mut Evaluation<'_>,
        of_row: RowOf<'_, '_>,
        texts: &mut [Interner],
    ) -> Result<Answer<'w>, EngineError> {
        let RowOf { row, cursors, page, segment, dictionaries } = of_row;
        let Leaf { template, windows, .. } = self;
        for WindowRequest { window, columns, has_codes, memo, found, decider, apart, sites } in windows {
            if work.lacks_literal(sites.as_mut(), row, cursors, page)? {
                continue;
            }
            if let Some(decider) = decider {
                let mut of_row = RowOf { row, cursors: &mut *cursors, page: &mut *page, segment, dictionaries };
                match decider.has_match(window, template, &mut of_row, work)? {
                    Some(true) => {}
                    Some(false) => continue,
                    None => return Ok(Answer::Unknown),
                }
            }
            if *has_codes && !work.read_codes(columns, row, cursors, page)? {
                return Ok(Answer::Unknown);
            }
            match apart.as_ref().and_then(|apart| apart.get(&work.codes, &mut work.some, &mut work.found)) {
                Some(true) => return Ok(Answer::Groups(&work.found)),
                Some(false) => continue,
                None => {}
            }
            let known = if *has_codes { memo.get(&work.codes) } else { None };
            let place = match known.map(|number| memo.answers()[number as usize]) {
                Some(place) => place,
                None => {
                    let remembers = remembers && *has_codes && apart.is_none() && !memo.is_full();
                    let start = u32_of(found.len());
                    if !remembers {
                        // Answers that are not cached go to the scratch buffer.
                        work.found.clear();
                    }
                    let mut to = std::mem::take(if remembers { &mut *found } else { &mut work.found });
                    let of_row = RowOf { row, cursors: &mut *cursors, page: &mut *page, segment, dictionaries };
                    let is_match = evaluate_row(template, window, (columns, *has_codes), of_row, work, texts, &mut to)?;
                    *if remembers { &mut *found } else { &mut work.found } = to;
                    let Some(is_match) = is_match else { return Ok(Answer::Unknown) };
                    if let Some(apart) = apart {
                        apart.insert(&work.codes, &mut work.some, is_match.then_some(&work.found));
                    }
                    match is_match {
                        true if !remembers => return Ok(Answer::Groups(&work.found)),
                        false if !remembers => continue,
                        _ => {}
                    }
                    let place = is_match.then_some(start);
                    memo.index_or_insert(&work.codes, || place);
                    place
                }
            };
            let Some(place) = place else { continue };
            let groups = found.get(place as usize..).and_then(|found| found.get(..texts.len()));
            return Ok(groups.map_or(Answer::Unknown, Answer::Groups));
        }
        Ok(Answer::No)
    }
}

/// Parts of a template on whose values the requested groups of a window depend.
pub(super) fn parts_needed(window: &Window, groups: &[(usize, String)]) -> Vec<usize> {
    let Some(places) = &window.groups else { return window.read.clone() };
    let lies_in = |part: &usize| {
        let mut wanted = groups.iter().filter_map(|(group, _)| places.get(*group).copied().flatten());
        wanted.any(|(start, end)| (start.part..end.part).contains(part))
    };
    let last = places.iter().flatten().map(|(_, end)| end.part).max().unwrap_or(0);
    (0..last).filter(lies_in).collect()
}
