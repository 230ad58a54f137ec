//! The plans of a pattern for the templates of one slab.
//!
//! A template is planned when its first row is read, or later ([`super::planning_cost`]). If the pattern reads a
//! variable whose values have templates of their own, the plan branches: one node per template of the variable, in
//! whose *flat* template the variable is replaced by that template. Templates with equal parts around their windows
//! (the parts of a text in which the pattern may match) share a node, the *leaf*.

use std::sync::{Arc, Weak};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_eval::pattern::template_match::{
    COMBINATIONS_MAX, FlatPart, FlatTemplate, MatchPlan, TemplatePosition, Window,
};
use quarry_event::template::{ColumnKind, TEXT_COLUMN, Template, TemplatePart, TemplateSet};
use quarry_stdx::number::u32_of;

use super::MATCHED;
use super::answer_table::{AnswerTable, NO_MATCH, TEXT_BASE, UNANSWERED};
use super::evaluation::Evaluation;
use super::planning_cost::PlanningCost;
use super::windows::{Answer, Leaf, WindowRequest, parts_needed};
use super::word_prefilter::SlabPrefilter;
use crate::template_pages::column_codes::{has_few_codes, max_combinations};
use crate::template_pages::cursors::Cursors;
use crate::template_pages::decider::Decider;
use crate::template_pages::field_locations::FieldLocations;
use crate::template_pages::groups::Groups;
use crate::template_pages::interner::{ABSENT, Interner};
use crate::template_pages::listed_values::ListedValues;
use crate::template_pages::page::PageReader;
use crate::template_pages::roots::nodes_of_field;
use crate::template_pages::row_values::{Dictionaries, RowOf};
use crate::template_pages::slab::Slab;

/// Maximum number of combinations of codes with a cached answer each. With more combinations, the values of the
/// deciding parts decide whether there is a match.
const CHEAP_COMBINATIONS_MAX: usize = 4_096;
/// Maximum number of nodes per slab; a plan that would branch beyond it is given up, and the texts of its rows are
/// read.
const NODES_MAX: usize = 65_536;

/// Memory of a template of which one variable is expanded, and of its key, approximately.
const BRANCH_BYTES: usize = 8 << 10;

/// Plans of the pattern for the templates of one slab.
pub(super) struct PatternTree {
    /// The templates of the slab. A tree outlives its search, and must not keep them in memory.
    template_set: Weak<TemplateSet>,
    nodes: Vec<TemplateNode>,
    /// Nodes with windows, by the parts that contain these windows.
    leaves: HashMap<Template, Vec<usize>, FixedState>,
    /// First node of each branch, by the template whose variable was expanded.
    branches: HashMap<Template, usize, FixedState>,
    dictionaries: Dictionaries,
    lists: ListedValues,
    /// The distinct texts of each group.
    pub texts: Vec<Interner>,
    pub prefilter: SlabPrefilter,
    answers: AnswerTable,
    planning: PlanningCost,
    /// Bytes of memory when the tree was last closed.
    kept_bytes: usize,
}

/// Plan of the pattern for one flat template.
pub(in crate::template_pages) enum TemplateNode {
    /// Not planned yet: the template with this number in the text column.
    Root(u32),
    /// Not planned yet: a variable replaced by the template with this number.
    Inside(Arc<ExpandedTemplate>, u32),
    /// Not planned yet: the parts that compose a field.
    Field(FlatTemplate),
    /// The plan of another node, given by its number.
    Same(usize),
    /// The plan depends on which template of this column a row has: node `first + n` has the plan for template `n`.
    Branch { column: u32, first: usize },
    /// There is never a match.
    Never,
    /// Unknown; the pattern must run on the text.
    Unknown,
    /// The pattern may match only in these windows, in order.
    Windows(Box<Leaf>),
}

/// A template of which one variable is expanded.
pub(in crate::template_pages) struct ExpandedTemplate {
    template: FlatTemplate,
    part: usize,
    column: u32,
}

impl TemplateNode {
    /// Length of the literals of a template that has not been planned yet, without the literals inside its variables.
    fn literal_bytes(&self, template_set: &TemplateSet) -> usize {
        let flat = |template: &FlatTemplate| {
            let literal = |part: &FlatPart| match part {
                FlatPart::Literal(bytes) => bytes.len(),
                FlatPart::Variable(..) => 0,
            };
            template.parts().iter().map(literal).sum()
        };
        match self {
            TemplateNode::Root(number) => match template_set.columns.first().map(|column| &column.kind) {
                Some(ColumnKind::Templates(templates)) => {
                    let literal = |part: &TemplatePart| match part {
                        TemplatePart::Literal(bytes) => bytes.len(),
                        TemplatePart::Variable(_) => 0,
                    };
                    templates.get(*number as usize).map_or(0, |template| template.parts.iter().map(literal).sum())
                }
                _ => 0,
            },
            TemplateNode::Inside(of, _) => flat(&of.template),
            TemplateNode::Field(template) => flat(template),
            _ => 0,
        }
    }

    /// The template of a node that has not been planned yet.
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

impl PatternTree {
    /// A tree without plans for the templates of a slab or, if given, for the values of `field`.
    pub(super) fn new(slab: &Slab, field: Option<&FieldLocations>, groups: usize) -> PatternTree {
        let nodes = match (field, slab.template_set.columns.first().map(|column| &column.kind)) {
            (Some(field), _) => nodes_of_field(&field.locations, &slab.template_set),
            (None, Some(ColumnKind::Templates(templates))) => {
                (0..u32_of(templates.len())).map(TemplateNode::Root).collect()
            }
            _ => Vec::new(),
        };
        PatternTree::of_nodes(&slab.template_set, nodes, groups)
    }

    pub(super) fn of_nodes(template_set: &Arc<TemplateSet>, nodes: Vec<TemplateNode>, groups: usize) -> PatternTree {
        PatternTree {
            template_set: Arc::downgrade(template_set),
            nodes,
            leaves: HashMap::default(),
            branches: HashMap::default(),
            dictionaries: HashMap::default(),
            lists: ListedValues::default(),
            texts: (0..groups).map(|_| Interner::default()).collect(),
            prefilter: SlabPrefilter::default(),
            answers: AnswerTable::default(),
            planning: PlanningCost::default(),
            kept_bytes: 0,
        }
    }

    /// Whether the tree belongs to the slab with these templates. No other slab has their address as long as the tree
    /// refers to them.
    pub(super) fn is_of(&self, template_set: &Arc<TemplateSet>) -> bool {
        std::ptr::eq(self.template_set.as_ptr(), Arc::as_ptr(template_set))
    }

    /// Whether the templates are still in memory.
    pub(super) fn is_in_use(&self) -> bool {
        self.template_set.strong_count() > 0
    }

    /// Drops what refers to dictionaries of the slab; plans and answers stay for later reads.
    pub(super) fn close(&mut self) {
        self.dictionaries = HashMap::default();
        self.lists = ListedValues::default();
        self.kept_bytes = self.memory_bytes();
    }

    /// Like [`PatternTree::close`], at the end of the search.
    pub(super) fn stop_reading(&mut self) {
        self.prefilter.stop_reading();
        self.close();
    }

    /// Bytes of memory when the tree was last closed, approximately.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    fn memory_bytes(&self) -> usize {
        let nodes = self.nodes.iter().map(|node| match node {
            TemplateNode::Windows(leaf) => leaf.memory_bytes(),
            TemplateNode::Field(template) => template.memory_bytes(),
            _ => 0,
        });
        let texts = self.texts.iter().map(Interner::memory_bytes);
        size_of_val(self.nodes.as_slice())
            + nodes.sum::<usize>()
            + self.branches.len() * BRANCH_BYTES
            + texts.sum::<usize>()
            + self.answers.memory_bytes()
    }

    /// Evaluates rows, given in ascending order with their positions in the result. For a test, the only code means a
    /// match.
    pub(super) fn read_rows(
        &mut self,
        rows: impl Iterator<Item = (usize, u32)>,
        roots: &[u32],
        is_test: bool,
        work: &mut Evaluation<'_>,
        page: &mut PageReader<'_>,
        found: &mut Groups,
    ) -> Result<(), EngineError> {
        // Row by row, so that the cursors only move forward.
        let mut cursors = Cursors::new(page);
        for (place, row) in rows {
            let root = roots.get(row as usize).map_or(usize::MAX, |root| *root as usize);
            let node = self.leaf_of_row(root, row, work, &mut cursors, page)?;
            let known = self.answers.answer_position(node, row, &mut cursors, page)?;
            match known.map_or(UNANSWERED, |at| self.answers.get(at)) {
                UNANSWERED => {}
                NO_MATCH => continue,
                text => {
                    found.codes[0][place] = text - TEXT_BASE;
                    continue;
                }
            }
            let answer = match self.evaluate_node(node as usize, row, known.is_none(), work, &mut cursors, page)? {
                Answer::Unknown => {
                    found.undecided.push(row);
                    continue;
                }
                Answer::No => NO_MATCH,
                Answer::Groups(_) if is_test => {
                    found.codes[0][place] = MATCHED;
                    MATCHED + TEXT_BASE
                }
                Answer::Groups(groups) => {
                    found.codes.iter_mut().zip(groups).for_each(|(codes, code)| codes[place] = *code);
                    match groups {
                        [code] if *code != ABSENT => code + TEXT_BASE,
                        _ => NO_MATCH,
                    }
                }
            };
            // `known` is set only if few columns determine a single group, or whether there is a match.
            if let Some(at) = known {
                self.answers.set(at, answer);
            }
        }
        Ok(())
    }

    /// The node with the plan for a row; a number beyond all nodes if the row's text must be read.
    #[inline]
    fn leaf_of_row(
        &mut self,
        root: usize,
        row: u32,
        work: &mut Evaluation<'_>,
        cursors: &mut Cursors,
        page: &mut PageReader<'_>,
    ) -> Result<u32, EngineError> {
        let mut at = root;
        loop {
            match self.nodes.get(at) {
                Some(node @ (TemplateNode::Root(_) | TemplateNode::Inside(..) | TemplateNode::Field(_))) => {
                    if !self.planning.is_due(at, node.literal_bytes(page.template_set())) {
                        return Ok(u32::MAX);
                    }
                    let before = work.planner.steps_spent();
                    let parts = self.plan(at, work, page.slab);
                    self.planning.add_plan(work.planner.steps_spent().saturating_sub(before), parts);
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

    /// Runs the windows of a node, and caches the answers if possible.
    #[inline]
    fn evaluate_node<'w>(
        &'w mut self,
        at: usize,
        row: u32,
        remembers: bool,
        work: &'w mut Evaluation<'_>,
        cursors: &mut Cursors,
        page: &mut PageReader<'_>,
    ) -> Result<Answer<'w>, EngineError> {
        let PatternTree { nodes, dictionaries, texts, .. } = self;
        let segment = &page.slab.segment;
        match nodes.get_mut(at) {
            Some(TemplateNode::Windows(leaf)) => {
                leaf.evaluate(remembers, work, RowOf { row, cursors, page, segment, dictionaries }, texts)
            }
            Some(TemplateNode::Never) => Ok(Answer::No),
            _ => Ok(Answer::Unknown),
        }
    }

    /// Plans a flat template; returns the number of its parts.
    fn plan(&mut self, at: usize, work: &mut Evaluation<'_>, slab: &Slab) -> usize {
        let template_set: &TemplateSet = &slab.template_set;
        let node = std::mem::replace(&mut self.nodes[at], TemplateNode::Unknown);
        let Some(template) = node.template(template_set) else { return 0 };
        let parts = template.parts().len();
        let lists = &mut self.lists;
        let dictionary = |column| slab.segment.dictionary(column).ok();
        let mut values = |column: u32| lists.of_column(template_set, column, &dictionary);
        match work.planner.plan_with_values(&template, &mut values) {
            MatchPlan::Never => self.nodes[at] = TemplateNode::Never,
            MatchPlan::Unknown => {}
            MatchPlan::Windows(windows) => self.plan_windows(at, template, windows, work, template_set),
        }
        parts
    }

    /// Plans the evaluation of windows.
    fn plan_windows(
        &mut self,
        at: usize,
        template: FlatTemplate,
        windows: Vec<Window>,
        work: &mut Evaluation<'_>,
        template_set: &TemplateSet,
    ) {
        let Some(origin) = windows.iter().map(|window| window.context).min() else { return };
        let Some(reach) = windows.iter().map(Window::last_position).max() else { return };
        // If the pattern does not look around a match, the parts that contain the windows are sufficient. These parts
        // are the same in many templates.
        let is_all = match work.planner.looks_ahead() {
            true => false,
            false => !work.planner.looks_around() || origin == TemplatePosition { part: 0, offset: 0 },
        };
        let inside = template.between(origin, reach);
        let windows: Vec<Window> = windows.iter().map(|window| window.relative_to(origin)).collect();
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
            // The existence of a match determines the groups. If everything depends on a few codes, one lookup is
            // enough and no decider is needed.
            let decision = window.decision.take();
            let decision =
                decision.filter(|_| !has_few_combinations(template_set, &variables_of(&inside, &window.read)));
            if let Some(decision) = &decision {
                window.groups = Some(decision.positions.clone());
            }
            let deciding = decision.as_ref().map_or(&[][..], |decision| &decision.read);
            let of_groups = parts_needed(&window, work.groups);
            // The text of a group at a fixed position is copied, whatever its templates.
            let run = if window.groups.is_some() { &[][..] } else { &of_groups };
            let nested = variables_of(&inside, deciding).into_iter().chain(variables_of(&inside, run)).find_map(
                |(column, part)| match &template_set.columns[column as usize].kind {
                    ColumnKind::Templates(templates) => Some((column, part, templates.len())),
                    _ => None,
                },
            );
            if let Some((column, part, count)) = nested {
                let (of, part) = if is_all { (inside, part) } else { (template, part + origin.part) };
                self.nodes[at] = self.branch(of, part, column, count);
                return;
            }
            let columns = variables_of(&inside, &of_groups);
            let has_codes = columns.iter().all(|(column, _)| has_few_codes(template_set, *column))
                && (window.groups.is_none() || max_combinations(template_set, &columns) <= COMBINATIONS_MAX);
            let decider = decision.map(|decision| Decider::new(decision, &window, &inside, template_set));
            asked.push(WindowRequest::new(window, (columns, has_codes), decider, work.literals, &inside, template_set));
        }
        self.answers.add_node(at, &asked, work.groups.len(), template_set);
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
        let of = Arc::new(ExpandedTemplate { template, part, column });
        self.nodes.extend((0..u32_of(count)).map(|number| TemplateNode::Inside(Arc::clone(&of), number)));
        self.branches.insert(key, first);
        TemplateNode::Branch { column, first }
    }
}

/// Whether the values of these columns have codes, and so few combinations that each may be looked up.
fn has_few_combinations(template_set: &TemplateSet, columns: &[(u32, usize)]) -> bool {
    columns.iter().all(|(column, _)| has_few_codes(template_set, *column))
        && (columns.len() <= 1 || max_combinations(template_set, columns) <= CHEAP_COMBINATIONS_MAX)
}

/// The columns of the variables among these parts, each with its part, without repetitions.
fn variables_of(template: &FlatTemplate, parts: &[usize]) -> Vec<(u32, usize)> {
    let mut columns = Vec::with_capacity(parts.len());
    for part in parts {
        if let Some(FlatPart::Variable(column, _)) = template.parts().get(*part)
            && !columns.contains(&(*column, *part))
        {
            columns.push((*column, *part));
        }
    }
    columns
}
