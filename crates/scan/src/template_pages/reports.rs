//! Locations of fields of `REPORT-` transforms in the texts of a template.
//!
//! Delimiter-based transforms are handled by [`super::cells`]. A pattern is planned like an `EXTRACT-` pattern
//! ([`quarry_eval::pattern::template_match`]); if `FORMAT` takes names from the text, planning continues after each
//! match. The names are then usually literals of the template, and a requested field that is not among these names does
//! not exist. A pair that the plan leaves undecided affects only the fields that the pair may produce.
//!
//! A transform whose names all come from the text finds the same pairs whichever fields are requested. These pairs are
//! computed once per slab ([`TemplatePairs`]); later searches look up requested names among them.
//!
//! Not here: precedence of rules ([`super::slab`]).

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::pattern::template_match::{FlatTemplate, GroupRanges, MatchPlan, Planner};
use quarry_event::template::{Dictionary, Template, TemplatePart, TemplateSet};
use quarry_stdx::number::u32_of;

use super::cells::{CellNaming, CellPlanner};
use super::planned_template::PlannedTemplate;
use super::value_location::ValueLocation;
use crate::fields::reports::{FieldTemplate, MATCHES_MAX, NamePart, Report, TextExtraction};

/// Locates the fields of a transform in templates.
pub(super) enum ReportPlanner<'a> {
    /// A list of cells.
    Cells(CellPlanner<'a>),
    /// Matches of a pattern.
    Pattern(PatternPlanner<'a>),
    /// Cached pairs of all templates, and for each requested name its number among the names of the pairs.
    Pairs(Arc<TemplatePairs>, Vec<Option<u32>>),
    /// A transform that must run on texts; for each requested name, whether it may produce the field.
    Text(Vec<bool>),
}

/// The pairs of a transform in each template of a slab, in the order in which they are found.
pub(super) struct TemplatePairs {
    names: Vec<String>,
    pairs_by_template: Vec<Box<[TemplatePair]>>,
}

/// A pair of a transform in the texts of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePair {
    /// The number of the pair's name, and the location of its value.
    Named(u32, ValueLocation),
    /// The name of the pair, or the existence of further pairs, depends on values.
    Undecided,
}

/// A pattern whose matches produce fields.
pub(super) struct PatternPlanner<'a> {
    template_set: &'a TemplateSet,
    report: &'a Report,
    /// The pairs that may produce a requested field.
    pairs: Vec<&'a FieldTemplate>,
    repeats: bool,
    planner: Option<RefCell<Box<Planner>>>,
}

impl<'a> ReportPlanner<'a> {
    /// Creates a planner for a transform that does not append to existing values. `pairs_of` returns the pairs of a
    /// transform whose names come from the text.
    pub(super) fn new(
        report: &'a Arc<Report>,
        names: &[String],
        template_set: &'a TemplateSet,
        dictionary: &'a dyn Fn(u32) -> Option<Arc<Dictionary>>,
        pairs_of: &dyn Fn(&Arc<Report>) -> Arc<TemplatePairs>,
    ) -> ReportPlanner<'a> {
        let Some(extraction) = report.text_extraction() else {
            return ReportPlanner::Text(names.iter().map(|name| report.may_produce(name)).collect());
        };
        match extraction {
            TextExtraction::Cells(of_cells, delimiters) => {
                let naming = CellNaming::Positions(of_cells);
                ReportPlanner::Cells(CellPlanner::new(report, naming, delimiters, template_set, dictionary))
            }
            TextExtraction::Pairs(delimiters, inner) => {
                let naming = CellNaming::Keys(inner);
                ReportPlanner::Cells(CellPlanner::new(report, naming, delimiters, template_set, dictionary))
            }
            TextExtraction::Pattern { pairs, .. } if pairs.iter().all(|pair| pair.known_name().is_none()) => {
                let pairs = pairs_of(report);
                let numbers = names.iter().map(|name| pairs.name_number(name)).collect();
                ReportPlanner::Pairs(pairs, numbers)
            }
            TextExtraction::Pattern { regex, pairs, repeats } => {
                let may_count =
                    |pair: &&FieldTemplate| pair.known_name().is_none_or(|name| names.contains(&report.cleaned(name)));
                let pairs: Vec<&FieldTemplate> = pairs.iter().filter(may_count).collect();
                let groups = pairs.iter().flat_map(|pair| pair.groups()).chain(repeats.then_some(0));
                let planner = Planner::new(regex, groups).map(|planner| RefCell::new(Box::new(planner)));
                ReportPlanner::Pattern(PatternPlanner { template_set, report, pairs, repeats, planner })
            }
        }
    }

    /// The locations of the fields `names` in the texts of a template.
    pub(super) fn locations(&self, template: &PlannedTemplate<'_>, names: &[String]) -> Vec<ValueLocation> {
        match self {
            ReportPlanner::Cells(cells) => cells.locations(template.template, names),
            ReportPlanner::Pattern(pattern) => pattern.locations(template, names),
            ReportPlanner::Pairs(pairs, numbers) => pairs.locations(template.number, numbers),
            ReportPlanner::Text(produced) => {
                let place = |produced: &bool| if *produced { ValueLocation::Text } else { ValueLocation::Absent };
                produced.iter().map(place).collect()
            }
        }
    }
}

impl TemplatePairs {
    /// The pairs of a transform in each of these templates of a set.
    pub(super) fn new(report: &Report, template_set: &TemplateSet, templates: &[Template]) -> TemplatePairs {
        let mut found = TemplatePairs { names: Vec::new(), pairs_by_template: Vec::with_capacity(templates.len()) };
        let Some(TextExtraction::Pattern { regex, pairs, repeats }) = report.text_extraction() else { return found };
        let groups = pairs.iter().flat_map(FieldTemplate::groups).chain(repeats.then_some(0));
        let mut planner = Planner::new(regex, groups).map(Box::new);
        let mut numbers: HashMap<String, u32, FixedState> = HashMap::default();
        for (number, template) in templates.iter().enumerate() {
            let mut of_template = Vec::new();
            let template = PlannedTemplate::new(template_set, number, template);
            let mut add = |groups: &GroupRanges, flat: &FlatTemplate| {
                for pair in pairs {
                    let name = match pair_name(pair, report, groups, flat) {
                        PairName::None => continue,
                        PairName::Undecided => {
                            of_template.push(TemplatePair::Undecided);
                            continue;
                        }
                        PairName::Text(name) => name,
                    };
                    if let Some(value) = substitute_groups(&pair.value, groups, flat) {
                        let number = *numbers.entry(name).or_insert_with_key(|name| {
                            found.names.push(name.clone());
                            u32_of(found.names.len() - 1)
                        });
                        of_template.push(TemplatePair::Named(number, pair_location(&value, report, template_set)));
                    }
                }
            };
            let is_decided = planner.as_mut().and_then(|planner| for_each_match(planner, repeats, &template, &mut add));
            if is_decided.is_none() {
                of_template.push(TemplatePair::Undecided);
            }
            found.pairs_by_template.push(of_template.into());
        }
        assert_eq!(found.pairs_by_template.len(), templates.len(), "templates are numbered as in their set");
        found
    }

    /// Bytes of memory, approximately.
    pub(super) fn memory_bytes(&self) -> usize {
        let names = self.names.iter().map(|name| name.len() + size_of::<String>());
        let pairs = self.pairs_by_template.iter().map(|pairs| size_of_val(&**pairs) + size_of::<Box<[TemplatePair]>>());
        names.sum::<usize>() + pairs.sum::<usize>()
    }

    fn name_number(&self, name: &str) -> Option<u32> {
        self.names.iter().position(|known| known == name).map(u32_of)
    }

    /// The locations of the fields with these name numbers in the texts of a template.
    fn locations(&self, template: usize, numbers: &[Option<u32>]) -> Vec<ValueLocation> {
        let mut found = vec![ValueLocation::Absent; numbers.len()];
        for pair in &self.pairs_by_template[template] {
            for (known, number) in found.iter_mut().zip(numbers).filter(|(known, _)| **known == ValueLocation::Absent) {
                match pair {
                    TemplatePair::Named(name, place) if *number == Some(*name) => *known = place.clone(),
                    TemplatePair::Named(..) => {}
                    TemplatePair::Undecided => *known = ValueLocation::Text,
                }
            }
        }
        found
    }
}

impl PatternPlanner<'_> {
    fn locations(&self, template: &PlannedTemplate<'_>, names: &[String]) -> Vec<ValueLocation> {
        let mut found = vec![ValueLocation::Absent; names.len()];
        if self.locate_matches(template, names, &mut found).is_none() {
            for pair in &self.pairs {
                self.mark_text_only(pair, names, &mut found);
            }
        }
        found
    }

    /// Records the fields of all matches in a template; `None` if the number of matches depends on values.
    fn locate_matches(
        &self,
        template: &PlannedTemplate<'_>,
        names: &[String],
        found: &mut [ValueLocation],
    ) -> Option<()> {
        let mut planner = self.planner.as_ref()?.borrow_mut();
        for_each_match(&mut planner, self.repeats, template, &mut |groups, flat| {
            for pair in &self.pairs {
                if self.record_pair(pair, groups, flat, names, found).is_none() {
                    self.mark_text_only(pair, names, found);
                }
            }
        })
    }

    /// Records the field of one pair of a match; `None` if the pair depends on values.
    fn record_pair(
        &self,
        pair: &FieldTemplate,
        groups: &GroupRanges,
        flat: &FlatTemplate,
        names: &[String],
        found: &mut [ValueLocation],
    ) -> Option<()> {
        let name = match pair_name(pair, self.report, groups, flat) {
            PairName::None => return Some(()),
            PairName::Undecided => None,
            PairName::Text(name) => Some(name),
        };
        let is_new = |at: &usize| found[*at] == ValueLocation::Absent;
        let at = name.map(|name| names.iter().position(|known| *known == name).filter(is_new));
        // Most names that a text contains are not requested, so their values do not matter.
        if at == Some(None) {
            return Some(());
        }
        // If a group of the value took no part in the match, there is no pair.
        let Some(value) = substitute_groups(&pair.value, groups, flat) else { return Some(()) };
        found[at??] = pair_location(&value, self.report, self.template_set);
        Some(())
    }

    /// Marks the fields that a pair may produce and that have no location yet as readable from the text only.
    fn mark_text_only(&self, pair: &FieldTemplate, names: &[String], found: &mut [ValueLocation]) {
        let known = pair.known_name().map(|name| self.report.cleaned(name));
        for (place, name) in found.iter_mut().zip(names) {
            if *place == ValueLocation::Absent && known.as_ref().is_none_or(|known| known == name) {
                *place = ValueLocation::Text;
            }
        }
    }
}

/// Calls `found` with the groups of each match in a template, and with the rest of the template to which the groups'
/// positions refer; `None` if the number of matches depends on values.
fn for_each_match(
    planner: &mut Planner,
    repeats: bool,
    template: &PlannedTemplate<'_>,
    found: &mut dyn FnMut(&GroupRanges, &FlatTemplate),
) -> Option<()> {
    let mut rest = Cow::Borrowed(template.flat()?);
    for _ in 0..MATCHES_MAX {
        let groups = match planner.plan(&rest) {
            MatchPlan::Never => return Some(()),
            MatchPlan::Unknown => return None,
            MatchPlan::Windows(windows) => windows.into_iter().next()?.groups?,
        };
        found(&groups, &rest);
        if !repeats {
            return Some(());
        }
        // Assertions such as `\b` would have to see the text of the previous match.
        if planner.looks_around() {
            return None;
        }
        let (_, end) = groups.first().copied().flatten()?;
        rest = Cow::Owned(rest.into_owned().suffix_from(end));
    }
    Some(())
}

/// Name of a pair in a template.
enum PairName {
    /// The match has no such pair.
    None,
    Text(String),
    /// The name depends on values.
    Undecided,
}

fn pair_name(pair: &FieldTemplate, report: &Report, groups: &GroupRanges, flat: &FlatTemplate) -> PairName {
    match substitute_groups(&pair.name, groups, flat).as_deref() {
        None | Some([]) => PairName::None,
        Some([TemplatePart::Literal(name)]) => match std::str::from_utf8(name) {
            Ok(name) => PairName::Text(report.cleaned(name)),
            Err(_) => PairName::Undecided,
        },
        Some(_) => PairName::Undecided,
    }
}

/// The location of a pair's value.
fn pair_location(value: &[TemplatePart], report: &Report, template_set: &TemplateSet) -> ValueLocation {
    let is_substitution = |part: &TemplatePart| match part {
        TemplatePart::Literal(_) => true,
        TemplatePart::Variable(column) => template_set.columns[*column as usize].traits.min_len > 0,
    };
    match (value.is_empty(), report.keeps_empty() || value.iter().any(is_substitution)) {
        // An empty value produces no field.
        (true, false) => ValueLocation::Absent,
        (false, false) => ValueLocation::Text,
        (_, true) => ValueLocation::of_parts(value),
    }
}

/// Substitutes the groups; `None` if a group did not take part in the match.
fn substitute_groups(parts: &[NamePart], groups: &GroupRanges, flat: &FlatTemplate) -> Option<Vec<TemplatePart>> {
    let mut all: Vec<TemplatePart> = Vec::new();
    for part in parts {
        let more = match part {
            NamePart::Text(text) => vec![TemplatePart::Literal(text.as_bytes().into())],
            NamePart::Group(group) => {
                let (start, end) = groups.get(*group).copied().flatten()?;
                flat.between(start, end).key().parts
            }
        };
        for part in more {
            match (all.last_mut(), part) {
                (Some(TemplatePart::Literal(last)), TemplatePart::Literal(text)) => {
                    *last = [&**last, &*text].concat().into()
                }
                (_, part) => all.push(part),
            }
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests;
