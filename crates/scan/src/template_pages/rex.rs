//! Groups of a `rex` command or an `EXTRACT` rule, evaluated on templates and dictionaries.
//!
//! A [`RexReader`] plans the pattern once per template ([`quarry_eval::pattern::template_match`]). A variable that
//! itself consists of templates is expanded only if the pattern reads it. The pattern then runs once per combination of
//! codes it reads, and each row costs a lookup of its codes. Rows whose template the plan cannot answer need their
//! text.
//!
//! Not here: which commands come here ([`crate::rexes`]); locations of fields of the same name ([`super::fields`]).

use std::str::Utf8Error;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_eval::pattern::template_match::{
    COMBINATIONS_MAX, CombinationMemo, FlatPart, FlatTemplate, MatchPlan, Planner, TemplatePosition, Window,
};
use quarry_eval::pattern::{Captures, Regex};
use quarry_eval::rows::ColumnReader;
use quarry_event::template::{ColumnKind, ColumnValues, TEXT_COLUMN, Template, TemplateSet};
use quarry_spl::ast::RexExtraction;
use quarry_stdx::number::u32_of;
use quarry_store::Segment;

use super::column_codes::{codes_of, combinations, has_few_codes};
use super::columns::{field_column, text_array};
use super::cursors::Cursors;
use super::decider::Decider;
use super::field_locations::FieldLocations;
use super::group_memos::GroupMemos;
use super::groups::{ABSENT, Groups};
use super::interner::Interner;
use super::literals::{Literals, PageHits, Sites};
use super::page::{PageReader, Rows};
use super::roots::{AskedKeys, Roots, nodes_of_field, reads_on_columns};
use super::row_values::{Dictionaries, RowOf, RowValues, append_text};
use super::slab::Slab;
use crate::fields::Extract;
use crate::rexes::PushedRex;

/// Slabs a reader remembers.
const SLABS_KEPT: usize = 2;
/// Maximum number of flat templates per slab; rows with further ones need their text.
const NODES_MAX: usize = 65_536;
/// Maximum number of answers per slab that are stored by position.
const QUICK_ANSWERS_MAX: usize = 1 << 20;
/// Maximum number of code pairs of two columns whose answers are stored by position.
const QUICK_PAIRS_MAX: usize = 1 << 16;
/// Quick answers: not asked yet, or no match; all others are the text's number plus this offset.
const QUICK_NEW: u32 = 0;
const QUICK_NO: u32 = 1;
const QUICK_TEXTS: u32 = 2;
/// The code of a match for a pure test.
const MATCHED: u32 = 0;

/// Evaluates the groups of a pattern on template pages; used by one worker at a time.
pub(crate) struct RexReader {
    /// The search-time rule; `None` for a command.
    pub(super) extract: Option<Arc<Extract>>,
    /// The field with the result of a pure test.
    pub(super) test: Option<String>,
    /// The command and the field it reads, if that is not the text.
    pub(super) of_field: Option<(Arc<RexExtraction>, String)>,
    pub(super) regex: Regex,
    captures: Captures,
    pub(super) groups: Vec<(usize, String)>,
    planner: Option<Planner>,
    literals: Literals,
    slabs: Vec<Tree>,
}

/// Plans of the pattern for the templates of one slab.
struct Tree {
    segment: Arc<dyn Segment>,
    nodes: Vec<TemplateNode>,
    /// Nodes by the parts that contain their windows.
    leaves: HashMap<Template, Vec<usize>, FixedState>,
    /// First node of each branch, by the template that was expanded.
    branches: HashMap<Template, usize, FixedState>,
    dictionaries: Dictionaries,
    texts: Vec<Interner>,
    /// Indexed by node, where present.
    quick: Vec<Quick>,
    /// The answers that [`Quick`] points to.
    answers: Vec<u32>,
}

/// Answers by code in one contiguous array, if one or two columns decide the only group.
#[derive(Clone, Copy, Default)]
struct Quick {
    column: u32,
    start: u32,
    /// 0 if quick answers are not possible.
    len: u32,
    /// The second column and its number of codes, if there is one.
    second: Option<(u32, u32)>,
}

/// Plan of the pattern for one flat template.
pub(super) enum TemplateNode {
    /// Not planned yet: the template with this number.
    Root(u32),
    /// Not planned yet: a variable replaced by the template with this number.
    Inside(Arc<BranchOf>, u32),
    /// Not planned yet: the parts of a field.
    Field(FlatTemplate),
    /// The same as this node.
    Same(usize),
    /// The templates of this column decide: node `first + n` has the plan for template `n`.
    Branch { column: u32, first: usize },
    /// There is never a match.
    Never,
    /// Only known from the text.
    Unknown,
    /// These windows, in order.
    Windows(Box<Leaf>),
}

/// A template of which one variable is expanded.
pub(super) struct BranchOf {
    template: FlatTemplate,
    part: usize,
    column: u32,
}

/// Windows of a flat template in which a pattern may match.
pub(super) struct Leaf {
    /// The parts that contain the windows.
    template: FlatTemplate,
    /// The windows as planned, used to recognise equal templates.
    planned: Vec<Window>,
    windows: Vec<Asked>,
}

/// A window and its cached answers.
struct Asked {
    window: Window,
    /// Columns whose values decide, each with its part of the template.
    columns: Vec<(u32, usize)>,
    /// Whether all of them have codes, few enough to cache the answers.
    has_codes: bool,
    /// Index in `found` of the groups' codes; `None` for no match.
    memo: CombinationMemo<Option<u32>>,
    found: Vec<u32>,
    /// Decides whether there is a match, if a match determines the groups.
    decider: Option<Decider>,
    /// Answers group by group, in place of `memo`, if there would be too many combinations.
    apart: Option<GroupMemos>,
    /// Possible positions of the literals that a match needs, if the pattern runs on free text.
    sites: Option<Sites>,
}

impl Asked {
    /// A window of a template that has not been asked yet, with the columns that decide and whether all have few codes.
    fn new(
        window: Window,
        (columns, has_codes): (Vec<(u32, usize)>, bool),
        decider: Option<Decider>,
        literals: &Literals,
        template: &FlatTemplate,
        template_set: &TemplateSet,
    ) -> Asked {
        let is_too_much = has_codes && decider.is_none() && combinations(template_set, &columns) > COMBINATIONS_MAX;
        let apart = window.apart.as_ref().filter(|_| is_too_much);
        let apart = apart.and_then(|apart| GroupMemos::new(apart, &columns, template));
        let (memo, found) = (CombinationMemo::default(), Vec::new());
        let sites = match has_codes || decider.is_some() || window.groups.is_some() {
            true => None,
            false => Sites::of(literals, &window, template, template_set),
        };
        Asked { window, columns, has_codes, memo, found, decider, apart, sites }
    }
}

impl RexReader {
    /// A reader for a command.
    pub(crate) fn new(rex: &PushedRex) -> RexReader {
        let of_field = rex.source().map(|field| (Arc::clone(&rex.command), field.to_owned()));
        RexReader { of_field, ..RexReader::of_pattern(&rex.regex, rex.groups.clone(), None) }
    }

    /// A reader that only tests whether the pattern matches; `output` is the field of the result.
    pub(crate) fn of_test(regex: &Regex, output: &str) -> RexReader {
        RexReader { test: Some(output.to_owned()), ..RexReader::of_pattern(regex, Vec::new(), None) }
    }

    /// A reader for a search-time rule; `wanted` selects its groups.
    pub(super) fn of_extract(extract: &Arc<Extract>, wanted: impl Fn(&str) -> bool) -> RexReader {
        let names = extract.names.iter().enumerate();
        let groups = names.filter_map(|(at, name)| Some((at, name.clone().filter(|name| wanted(name))?)));
        RexReader::of_pattern(&extract.regex, groups.collect(), Some(Arc::clone(extract)))
    }

    fn of_pattern(regex: &Regex, groups: Vec<(usize, String)>, extract: Option<Arc<Extract>>) -> RexReader {
        let planner = Planner::new(regex, groups.iter().map(|(group, _)| *group));
        let (regex, captures) = (regex.clone(), regex.new_captures());
        let literals = Literals::of(&regex);
        RexReader { extract, test: None, of_field: None, regex, captures, groups, planner, literals, slabs: Vec::new() }
    }

    /// The groups of these rows of a page.
    pub(super) fn read(&mut self, rows: &Rows, page: &mut PageReader<'_>) -> Result<Groups, EngineError> {
        // The result of a test is one more group, whose only code means a match.
        let mut found = Groups::none(self.groups.len() + usize::from(self.test.is_some()));
        let classes = self.extract.as_ref().map(|extract| page.slab.classes_of(extract));
        if classes.as_ref().is_some_and(|classes| !classes.contains(&true)) {
            return Ok(found);
        }
        // The rows that a rule applies to are looked up only if it does not apply to all.
        let asked = match classes {
            Some(classes) => self.asked_keys(&classes, page.slab),
            None => None,
        };
        let for_some = match asked {
            Some(asked) => Some((page.keys()?, asked)),
            None => None,
        };
        let is_for = |row: u32| match &for_some {
            Some((keys, asked)) => asked.any.get(keys[row as usize] as usize) == Some(&true),
            None => true,
        };
        let Some(roots) = self.roots(page)? else { return Ok(self.left_to_texts(rows, is_for)) };
        if self.planner.is_none() && self.extract.is_some() {
            return Ok(self.left_to_texts(rows, is_for));
        }
        let at = self.tree(page);
        found.codes.iter_mut().for_each(|codes| codes.resize(rows.len(), ABSENT));
        let asked_rows = rows.iter().enumerate().filter(|(_, row)| is_for(*row));
        let RexReader { extract, test, regex, captures, groups, planner, literals, slabs, .. } = self;
        match planner {
            Some(planner) => {
                let skips_empty = extract.as_ref().is_some_and(|extract| extract.skips_empty);
                let (text, codes, values, some) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
                let (kept, hits) = (Vec::new(), PageHits::for_rows(rows.len()));
                let mut work = Work {
                    regex,
                    skips_empty,
                    captures,
                    groups,
                    planner,
                    literals,
                    hits,
                    text,
                    codes,
                    values,
                    found: kept,
                    some,
                };
                slabs[at].read_rows(asked_rows, roots.codes(), test.is_some(), &mut work, page, &mut found)?;
            }
            None => found.undecided.extend(asked_rows.map(|(_, row)| row)),
        }
        self.ask_values(at, rows, &mut found, page)?;
        let texts = self.slabs[at].texts.iter_mut().zip(&mut found.codes);
        found.texts = texts.map(|(texts, codes)| texts.array_of(codes)).collect();
        if let Some((keys, asked)) = &for_some {
            asked.forget_others(&mut found, rows, keys);
        }
        if self.extract.is_some() {
            self.doubt_absent(rows, &mut found, page)?;
        }
        Ok(found)
    }

    /// The first node of each row of a page; `None` if the templates determine nothing.
    fn roots(&self, page: &mut PageReader<'_>) -> Result<Option<Roots>, EngineError> {
        match &self.of_field {
            Some((_, field)) if reads_on_columns(page.slab, field) => page.keys().map(|keys| Some(Roots::Keys(keys))),
            // The command runs once the field exists.
            Some(_) => Ok(None),
            None => {
                let texts = page.column(TEXT_COLUMN)?;
                Ok(matches!(texts.values, ColumnValues::Codes(_)).then_some(Roots::Templates(texts)))
            }
        }
    }

    /// The result of a command for texts, or for values of its field, that the templates cannot answer; nothing else of
    /// the row is read.
    fn ask_values(
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
        let values = match &self.of_field {
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
                    // There are too many distinct texts.
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

    /// Empty result; rows that the pattern applies to need their text.
    fn left_to_texts(&self, rows: &Rows, is_for: impl Fn(u32) -> bool) -> Groups {
        let mut found = Groups::none(self.groups.len() + usize::from(self.test.is_some()));
        if self.of_field.is_some() {
            return found;
        }
        found.undecided = rows.iter().filter(|row| is_for(*row)).collect();
        found.codes.iter_mut().for_each(|codes| codes.resize(rows.len(), ABSENT));
        found.texts = self.groups.iter().map(|_| Interner::default().array_of(&mut [])).collect();
        found
    }

    /// By key: whether the rule must be evaluated; `None` if for all keys. It need not be if the templates give the
    /// location of the field.
    fn asked_keys(&self, classes: &[bool], slab: &Slab) -> Option<AskedKeys> {
        let is_asked = |field: Option<&FieldLocations>, key: u32| {
            classes.get(slab.class_of_key(key)) == Some(&true) && field.is_none_or(|field| field.is_patterned(key))
        };
        let by_group = self.groups.iter().map(|(_, name)| {
            let field = slab.held(name);
            (0..u32_of(slab.keys())).map(|key| is_asked(field, key)).collect::<Vec<_>>()
        });
        let by_group: Vec<Vec<bool>> = by_group.collect();
        if by_group.iter().flatten().all(|asked| *asked) {
            return None;
        }
        let any = (0..slab.keys()).map(|key| by_group.iter().any(|keys| keys[key])).collect();
        Some(AskedKeys { any, by_group })
    }

    /// Moves rows to the undecided ones in which a rule finds nothing and automatic extraction depends on the text.
    fn doubt_absent(&self, rows: &Rows, found: &mut Groups, page: &mut PageReader<'_>) -> Result<(), EngineError> {
        for (codes, (_, name)) in found.codes.iter().zip(&self.groups) {
            let Some(field) = page.slab.held(name).filter(|field| field.by_text && codes.contains(&ABSENT)) else {
                continue;
            };
            let keys = page.keys()?;
            let absent = rows.iter().zip(codes).filter(|(_, code)| **code == ABSENT).map(|(row, _)| row);
            found.undecided.extend(absent.filter(|row| field.is_text_or_pattern(keys[*row as usize])));
        }
        Ok(())
    }

    /// Whether it has read this slab before.
    pub(crate) fn knows(&self, segment: &Arc<dyn Segment>) -> bool {
        self.slabs.iter().any(|tree| Arc::ptr_eq(&tree.segment, segment))
    }

    /// Index of the tree for the page's slab.
    fn tree(&mut self, page: &PageReader<'_>) -> usize {
        let segment = &page.slab.segment;
        if let Some(at) = self.slabs.iter().position(|tree| Arc::ptr_eq(&tree.segment, segment)) {
            return at;
        }
        if self.slabs.len() == SLABS_KEPT {
            self.slabs.remove(0);
        }
        let field = self.of_field.as_ref().and_then(|(_, field)| page.slab.field(field));
        let nodes = match (field, page.template_set().columns.first().map(|column| &column.kind)) {
            (Some(field), _) => nodes_of_field(&field.places, page.template_set()),
            (None, Some(ColumnKind::Templates(templates))) => {
                (0..u32_of(templates.len())).map(TemplateNode::Root).collect()
            }
            _ => Vec::new(),
        };
        let texts = self.groups.iter().map(|_| Interner::default()).collect();
        self.slabs.push(Tree {
            segment: Arc::clone(segment),
            nodes,
            leaves: HashMap::default(),
            branches: HashMap::default(),
            dictionaries: HashMap::default(),
            texts,
            quick: Vec::new(),
            answers: Vec::new(),
        });
        self.slabs.len() - 1
    }
}

impl TemplateNode {
    /// The template of a node that is not planned yet.
    fn template(&self, template_set: &TemplateSet) -> Option<FlatTemplate> {
        let template_of = |column: u32, number: u32| match &template_set.columns.get(column as usize)?.kind {
            ColumnKind::Templates(templates) => templates.get(number as usize),
            _ => None,
        };
        match self {
            TemplateNode::Root(number) => FlatTemplate::of(template_set, template_of(TEXT_COLUMN, *number)?),
            TemplateNode::Inside(of, number) => {
                of.template.with_variable(of.part, template_set, template_of(of.column, *number)?)
            }
            TemplateNode::Field(template) => Some(template.clone()),
            _ => None,
        }
    }
}

/// Pattern with everything needed to run it.
pub(super) struct Work<'a> {
    pub regex: &'a Regex,
    /// Whether an empty group counts as absent.
    skips_empty: bool,
    pub captures: &'a mut Captures,
    groups: &'a [(usize, String)],
    pub planner: &'a mut Planner,
    literals: &'a Literals,
    /// Literals found in the values of the page; `None` if each row is better tested by itself.
    hits: Option<PageHits>,
    pub text: Vec<u8>,
    pub codes: Vec<u32>,
    /// Parts and their values.
    values: Vec<(usize, Vec<u8>)>,
    /// Codes of the groups of rows whose answers are not cached.
    found: Vec<u32>,
    /// Reusable buffer for codes.
    some: Vec<u32>,
}

/// Answer for a row's templates and codes.
enum Answer<'a> {
    Unknown,
    No,
    Groups(&'a [u32]),
}

impl Tree {
    /// Evaluates rows, ascending, with their positions in the result. A test has one code, that of a match.
    fn read_rows(
        &mut self,
        rows: impl Iterator<Item = (usize, u32)>,
        roots: &[u32],
        is_test: bool,
        work: &mut Work<'_>,
        page: &mut PageReader<'_>,
        found: &mut Groups,
    ) -> Result<(), EngineError> {
        // Row by row, so that the cursors only move forward.
        let mut cursors = Cursors::new(page);
        for (place, row) in rows {
            let root = roots.get(row as usize).map_or(usize::MAX, |root| *root as usize);
            let node = self.leaf(root, row, work, &mut cursors, page)?;
            let quick = self.quick_place(node, row, &mut cursors, page)?;
            match quick.map_or(QUICK_NEW, |at| self.answers[at]) {
                QUICK_NEW => {}
                QUICK_NO => continue,
                text => {
                    found.codes[0][place] = text - QUICK_TEXTS;
                    continue;
                }
            }
            let answer = match self.ask(node as usize, row, quick.is_none(), work, &mut cursors, page)? {
                Answer::Unknown => {
                    found.undecided.push(row);
                    continue;
                }
                Answer::No => QUICK_NO,
                Answer::Groups(_) if is_test => {
                    found.codes[0][place] = MATCHED;
                    MATCHED + QUICK_TEXTS
                }
                Answer::Groups(groups) => {
                    found.codes.iter_mut().zip(groups).for_each(|(codes, code)| codes[place] = *code);
                    match groups {
                        [code] if *code != ABSENT => code + QUICK_TEXTS,
                        _ => QUICK_NO,
                    }
                }
            };
            // Only if few columns decide about one group, or about a match.
            if let Some(at) = quick {
                self.answers[at] = answer;
            }
        }
        Ok(())
    }

    /// The node with the plan for a row, or a number beyond all nodes.
    #[inline]
    fn leaf(
        &mut self,
        root: usize,
        row: u32,
        work: &mut Work<'_>,
        cursors: &mut Cursors,
        page: &mut PageReader<'_>,
    ) -> Result<u32, EngineError> {
        let mut at = root;
        loop {
            match self.nodes.get(at) {
                Some(TemplateNode::Root(_) | TemplateNode::Inside(..) | TemplateNode::Field(_)) => {
                    self.plan(at, work, page.template_set());
                }
                Some(TemplateNode::Same(same)) => at = *same,
                Some(TemplateNode::Branch { column, first }) => match cursors.code(*column, row, page)? {
                    Some(code) => at = first + code as usize,
                    None => return Ok(u32::MAX),
                },
                Some(_) => return Ok(u32_of(at)),
                None => return Ok(u32::MAX),
            }
        }
    }

    /// Position of the quick answer for a row, if there can be one.
    #[inline]
    fn quick_place(
        &self,
        node: u32,
        row: u32,
        cursors: &mut Cursors,
        page: &mut PageReader<'_>,
    ) -> Result<Option<usize>, EngineError> {
        let Some(Quick { column, start, len, second }) = self.quick.get(node as usize).copied() else {
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

    /// Allocates quick answers if one or two columns decide about one group.
    fn make_quick(&mut self, at: usize, windows: &[Asked], groups: usize, template_set: &TemplateSet) {
        let [Asked { columns, has_codes: true, decider: None, .. }] = windows else { return };
        let codes_of = |(column, _): &(u32, usize)| codes_of(template_set, *column);
        let (column, len, second, most) = match columns.as_slice() {
            [only] => (only.0, codes_of(only), None, QUICK_ANSWERS_MAX),
            [first, other] => (first.0, codes_of(first), Some((other.0, codes_of(other))), QUICK_PAIRS_MAX),
            _ => return,
        };
        let pairs = len.saturating_mul(second.map_or(1, |(_, len)| len));
        if groups > 1 || pairs == 0 || pairs > most || self.answers.len() + pairs > QUICK_ANSWERS_MAX {
            return;
        }
        let second = second.map(|(column, len)| (column, u32_of(len)));
        self.quick.resize(self.quick.len().max(at + 1), Quick::default());
        self.quick[at] = Quick { column, start: u32_of(self.answers.len()), len: u32_of(len), second };
        self.answers.resize(self.answers.len() + pairs, QUICK_NEW);
    }

    /// Runs the windows of a template, and caches the answers if possible.
    #[inline]
    fn ask<'w>(
        &'w mut self,
        at: usize,
        row: u32,
        remembers: bool,
        work: &'w mut Work<'_>,
        cursors: &mut Cursors,
        page: &mut PageReader<'_>,
    ) -> Result<Answer<'w>, EngineError> {
        let Tree { segment, nodes, dictionaries, texts, .. } = self;
        let leaf = match nodes.get_mut(at) {
            Some(TemplateNode::Windows(leaf)) => leaf,
            Some(TemplateNode::Never) => return Ok(Answer::No),
            _ => return Ok(Answer::Unknown),
        };
        let Leaf { template, windows, .. } = leaf.as_mut();
        for Asked { window, columns, has_codes, memo, found, decider, apart, sites } in windows {
            if work.excludes(sites.as_ref(), row, cursors, page)? {
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
            if *has_codes && !work.take_codes(columns, row, cursors, page)? {
                return Ok(Answer::Unknown);
            }
            match apart.as_ref().and_then(|apart| apart.known(&work.codes, &mut work.some, &mut work.found)) {
                Some(true) => return Ok(Answer::Groups(&work.found)),
                Some(false) => continue,
                None => {}
            }
            let known = if *has_codes { memo.known(&work.codes) } else { None };
            let place = match known.map(|number| memo.answers()[number as usize]) {
                Some(place) => place,
                None => {
                    let remembers = remembers && *has_codes && apart.is_none() && !memo.is_full();
                    let start = u32_of(found.len());
                    if !remembers {
                        // Cached answers stay at the front.
                        work.found.clear();
                    }
                    let mut to = std::mem::take(if remembers { &mut *found } else { &mut work.found });
                    let of_row = RowOf { row, cursors: &mut *cursors, page: &mut *page, segment, dictionaries };
                    let is_match = evaluate_row(template, window, (columns, *has_codes), of_row, work, texts, &mut to)?;
                    *if remembers { &mut *found } else { &mut work.found } = to;
                    let Some(is_match) = is_match else { return Ok(Answer::Unknown) };
                    if let Some(apart) = apart {
                        apart.keep(&work.codes, &mut work.some, is_match.then_some(&work.found));
                    }
                    match is_match {
                        true if !remembers => return Ok(Answer::Groups(&work.found)),
                        false if !remembers => continue,
                        _ => {}
                    }
                    let place = is_match.then_some(start);
                    memo.number(&work.codes, || place);
                    place
                }
            };
            let Some(place) = place else { continue };
            let groups = found.get(place as usize..).and_then(|found| found.get(..texts.len()));
            return Ok(groups.map_or(Answer::Unknown, Answer::Groups));
        }
        Ok(Answer::No)
    }

    /// Plans a flat template.
    fn plan(&mut self, at: usize, work: &mut Work<'_>, template_set: &TemplateSet) {
        let node = std::mem::replace(&mut self.nodes[at], TemplateNode::Unknown);
        let Some(template) = node.template(template_set) else { return };
        let windows = match work.planner.plan(&template) {
            MatchPlan::Never => {
                self.nodes[at] = TemplateNode::Never;
                return;
            }
            MatchPlan::Unknown => return,
            MatchPlan::Windows(windows) => windows,
        };
        let Some(origin) = windows.iter().map(|window| window.context).min() else { return };
        let Some(reach) = windows.iter().map(Window::reach).max() else { return };
        // If nothing around a match matters, the parts that contain the windows are sufficient. They are the same in
        // many templates.
        let is_all = match work.planner.looks_ahead() {
            true => false,
            false => !work.planner.looks_around() || origin == TemplatePosition { part: 0, offset: 0 },
        };
        let inside = template.between(origin, reach);
        let windows: Vec<Window> = windows.iter().map(|window| window.seen_from(origin)).collect();
        let key = inside.key();
        let known = self.leaves.get(&key).into_iter().flatten();
        for same in known.copied() {
            if matches!(&self.nodes[same], TemplateNode::Windows(leaf) if leaf.planned == windows) {
                self.nodes[at] = TemplateNode::Same(same);
                return;
            }
        }
        let planned = windows.clone();
        let mut asked = Vec::with_capacity(windows.len());
        for mut window in windows {
            // The groups follow from the fact that there is a match. If codes decide everything, one lookup is enough.
            let reads_long = |part: &usize| match inside.parts().get(*part) {
                Some(FlatPart::Variable(column, _)) => !has_few_codes(template_set, *column),
                _ => false,
            };
            let decision = window.decision.take().filter(|_| window.read.iter().any(reads_long));
            if let Some(decision) = &decision {
                window.groups = Some(decision.places.clone());
            }
            let (mut columns, mut has_codes) = (Vec::new(), true);
            let of_groups = parts_read(&window, work.groups);
            let deciding = decision.as_ref().map_or(&[][..], |decision| &decision.read);
            for part in deciding.iter().chain(&of_groups).copied() {
                let column = match inside.parts().get(part) {
                    Some(FlatPart::Variable(column, _)) => *column,
                    _ => continue,
                };
                match &template_set.columns[column as usize].kind {
                    ColumnKind::Templates(templates) => {
                        let (of, part) = if is_all { (inside, part) } else { (template, part + origin.part) };
                        self.nodes[at] = self.branch(of, part, column, templates.len());
                        return;
                    }
                    ColumnKind::Dictionary { .. } | ColumnKind::Numbers { .. } | ColumnKind::Texts => {}
                }
                if of_groups.contains(&part) && !columns.contains(&(column, part)) {
                    has_codes &= has_few_codes(template_set, column);
                    columns.push((column, part));
                }
            }
            let decider = decision.map(|decision| Decider::new(decision, &window, &inside, template_set));
            asked.push(Asked::new(window, (columns, has_codes), decider, work.literals, &inside, template_set));
        }
        self.make_quick(at, &asked, work.groups.len(), template_set);
        self.leaves.entry(key).or_default().push(at);
        self.nodes[at] = TemplateNode::Windows(Box::new(Leaf { template: inside, planned, windows: asked }));
    }

    /// Adds one node for each template of a variable.
    fn branch(&mut self, template: FlatTemplate, part: usize, column: u32, count: usize) -> TemplateNode {
        let key = template.key();
        if let Some(first) = self.branches.get(&key) {
            return TemplateNode::Branch { column, first: *first };
        }
        let first = self.nodes.len();
        if first + count > NODES_MAX {
            return TemplateNode::Unknown;
        }
        let of = Arc::new(BranchOf { template, part, column });
        self.nodes.extend((0..u32_of(count)).map(|number| TemplateNode::Inside(Arc::clone(&of), number)));
        self.branches.insert(key, first);
        TemplateNode::Branch { column, first }
    }
}

/// Parts of a template whose values decide the requested groups of a window.
fn parts_read(window: &Window, groups: &[(usize, String)]) -> Vec<usize> {
    let Some(places) = &window.groups else { return window.read.clone() };
    let lies_in = |part: &usize| {
        let mut wanted = groups.iter().filter_map(|(group, _)| places.get(*group).copied().flatten());
        wanted.any(|(start, end)| (start.part..end.part).contains(part))
    };
    let last = places.iter().flatten().map(|(_, end)| end.part).max().unwrap_or(0);
    (0..last).filter(lies_in).collect()
}

/// Like [`evaluate`], for the values of a row in these columns; `None` also if a value is missing.
fn evaluate_row(
    template: &FlatTemplate,
    window: &Window,
    (columns, has_codes): (&[(u32, usize)], bool),
    of_row: RowOf<'_, '_>,
    work: &mut Work<'_>,
    texts: &mut [Interner],
    codes: &mut Vec<u32>,
) -> Result<Option<bool>, EngineError> {
    let RowOf { row, cursors, page, segment, dictionaries } = of_row;
    match has_codes {
        true => work.take_values(columns, page.template_set(), segment, dictionaries)?,
        false => work.values.clear(),
    }
    let (known, outcome) = (std::mem::take(&mut work.values), Ok(true));
    let mut row = RowValues { known, columns, row, cursors, page, segment, dictionaries, outcome };
    let is_match =
        evaluate(template, window, work, texts, codes, |part: usize, text: &mut Vec<u8>| row.append(part, text))?;
    work.values = row.known;
    let has_all = row.outcome?;
    Ok(is_match.filter(|_| has_all))
}

/// Appends the groups' codes for the values that `value` writes, and returns whether there is a match; `None` if there
/// are too many distinct texts.
fn evaluate(
    template: &FlatTemplate,
    window: &Window,
    work: &mut Work<'_>,
    texts: &mut [Interner],
    codes: &mut Vec<u32>,
    mut value: impl FnMut(usize, &mut Vec<u8>),
) -> Result<Option<bool>, EngineError> {
    if let Some(places) = &window.groups {
        for ((group, _), texts) in work.groups.iter().zip(texts) {
            let Some((start, end)) = places.get(*group).copied().flatten() else {
                codes.push(ABSENT);
                continue;
            };
            work.text.clear();
            template.write_between(start, end, &mut work.text, &mut value);
            let text = std::str::from_utf8(&work.text).map_err(no_text)?;
            let Some(code) = texts.code_of(text, work.skips_empty) else { return Ok(None) };
            codes.push(code);
        }
        return Ok(Some(true));
    }
    let found = window.evaluate(template, work.regex, value, &mut work.text, work.captures).map_err(no_text)?;
    let Some(text) = found else { return Ok(Some(false)) };
    for ((group, _), texts) in work.groups.iter().zip(texts) {
        let code = match work.captures.text(text, *group) {
            Some(found) => texts.code_of(found, work.skips_empty),
            None => Some(ABSENT),
        };
        let Some(code) = code else { return Ok(None) };
        codes.push(code);
    }
    Ok(Some(true))
}

impl Work<'_> {
    /// Whether a literal that every match contains is not in the window of this row.
    fn excludes(
        &mut self,
        sites: Option<&Sites>,
        row: u32,
        cursors: &mut Cursors,
        page: &mut PageReader<'_>,
    ) -> Result<bool, EngineError> {
        match (sites, &mut self.hits) {
            (Some(sites), Some(hits)) => Ok(!sites.may_match(row, self.literals, hits, cursors, page)?),
            _ => Ok(false),
        }
    }

    /// Reads the codes of a row in these columns; `false` if one is missing.
    #[inline]
    pub(super) fn take_codes(
        &mut self,
        columns: &[(u32, usize)],
        row: u32,
        cursors: &mut Cursors,
        page: &mut PageReader<'_>,
    ) -> Result<bool, EngineError> {
        self.codes.clear();
        for (column, _) in columns {
            match cursors.code(*column, row, page)? {
                Some(code) => self.codes.push(code),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Reads the values of these columns and parts for the current codes, as [`Cursors::code`] returned them.
    fn take_values(
        &mut self,
        columns: &[(u32, usize)],
        template_set: &TemplateSet,
        segment: &Arc<dyn Segment>,
        dictionaries: &mut Dictionaries,
    ) -> Result<(), EngineError> {
        self.values.resize_with(columns.len(), Default::default);
        for (((column, part), code), (of, bytes)) in columns.iter().zip(&self.codes).zip(&mut self.values) {
            *of = *part;
            bytes.clear();
            match &template_set.columns[*column as usize].kind {
                ColumnKind::Numbers { format, min, .. } => format.write(min + i64::from(*code), bytes),
                _ => append_text(*column, *code, segment, dictionaries, bytes)?,
            }
        }
        Ok(())
    }
}

pub(super) fn no_text(_: Utf8Error) -> EngineError {
    EngineError::invalid("a text of a bucket is not UTF-8; rebuild the bucket")
}
