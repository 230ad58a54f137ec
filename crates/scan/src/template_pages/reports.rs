//! Locations of fields of `REPORT-` transforms in the texts of a template.
//!
//! Delimiter-based transforms are handled by [`super::cells`]. A pattern is planned like those of `EXTRACT-`
//! ([`quarry_eval::pattern::template_match`]); if `FORMAT` takes names from the text, planning continues after each
//! match. The names are then usually literals of the template, and a field that none of them names does not exist. What
//! the plan leaves undecided affects only the fields concerned.
//!
//! Not here: precedence of rules ([`super::slab`]).

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use quarry_eval::pattern::template_match::{FlatTemplate, GroupPlaces, MatchPlan, Planner};
use quarry_event::template::{Dictionary, TemplatePart, TemplateSet};

use super::cells::CellPlanner;
use super::planned_template::PlannedTemplate;
use super::value_location::ValueLocation;
use crate::fields::reports::{MATCHES_MAX, NamePart, Pair, Report, ReportText};

/// Locates the fields of a transform in templates.
pub(super) enum ReportPlanner<'a> {
    /// A list of cells.
    Cells(CellPlanner<'a>),
    /// Matches of a pattern.
    Pattern(PatternPlanner<'a>),
}

/// A pattern whose matches produce fields.
pub(super) struct PatternPlanner<'a> {
    template_set: &'a TemplateSet,
    report: &'a Report,
    /// The pairs that may produce a requested field.
    pairs: Vec<&'a Pair>,
    repeats: bool,
    planner: Option<RefCell<Box<Planner>>>,
}

impl<'a> ReportPlanner<'a> {
    /// `None` for a transform that does not read the event text, or that appends to existing values.
    pub(super) fn new(
        report: &'a Report,
        names: &[String],
        template_set: &'a TemplateSet,
        dictionary: &'a dyn Fn(u32) -> Option<Arc<Dictionary>>,
    ) -> Option<ReportPlanner<'a>> {
        Some(match report.of_text()? {
            ReportText::Cells(of_cells, delimiters) => {
                ReportPlanner::Cells(CellPlanner::new(report, (of_cells, delimiters), template_set, dictionary))
            }
            ReportText::Pattern { regex, pairs, repeats } => {
                let may_count =
                    |pair: &&Pair| pair.known_name().is_none_or(|name| names.contains(&report.cleaned(name)));
                let pairs: Vec<&Pair> = pairs.iter().filter(may_count).collect();
                let groups = pairs.iter().flat_map(|pair| pair.groups()).chain(repeats.then_some(0));
                let planner = Planner::new(regex, groups).map(|planner| RefCell::new(Box::new(planner)));
                ReportPlanner::Pattern(PatternPlanner { template_set, report, pairs, repeats, planner })
            }
        })
    }

    /// The locations of the fields `names` in the texts of a template.
    pub(super) fn places(&self, template: &PlannedTemplate<'_>, names: &[String]) -> Vec<ValueLocation> {
        match self {
            ReportPlanner::Cells(cells) => cells.places(template.template, names),
            ReportPlanner::Pattern(pattern) => pattern.places(template, names),
        }
    }
}

impl PatternPlanner<'_> {
    fn places(&self, template: &PlannedTemplate<'_>, names: &[String]) -> Vec<ValueLocation> {
        let mut found = vec![ValueLocation::Absent; names.len()];
        if self.find(template, names, &mut found).is_none() {
            for pair in &self.pairs {
                self.doubt(pair, names, &mut found);
            }
        }
        found
    }

    /// Records the fields of all matches in a template; `None` if values decide whether there are more matches.
    fn find(&self, template: &PlannedTemplate<'_>, names: &[String], found: &mut [ValueLocation]) -> Option<()> {
        let mut rest = Cow::Borrowed(template.flat()?);
        let mut planner = self.planner.as_ref()?.borrow_mut();
        for _ in 0..MATCHES_MAX {
            let groups = match planner.plan(&rest) {
                MatchPlan::Never => return Some(()),
                MatchPlan::Unknown => return None,
                MatchPlan::Windows(windows) => windows.into_iter().next()?.groups?,
            };
            for pair in &self.pairs {
                if self.note(pair, &groups, &rest, names, found).is_none() {
                    self.doubt(pair, names, found);
                }
            }
            if !self.repeats {
                return Some(());
            }
            // After a match, its text still matters to look-behind.
            if planner.looks_around() {
                return None;
            }
            let (_, end) = groups.first().copied().flatten()?;
            rest = Cow::Owned(rest.into_owned().from_on(end));
        }
        Some(())
    }

    /// Records the field of one pair of a match; `None` if values decide.
    fn note(
        &self,
        pair: &Pair,
        groups: &GroupPlaces,
        flat: &FlatTemplate,
        names: &[String],
        found: &mut [ValueLocation],
    ) -> Option<()> {
        let Some(name) = filled(&pair.name, groups, flat) else { return Some(()) };
        let name = match name.as_slice() {
            [] => Some(None),
            [TemplatePart::Literal(name)] => Some(Some(self.report.cleaned(std::str::from_utf8(name).ok()?))),
            _ => None,
        };
        let is_new = |at: &usize| found[*at] == ValueLocation::Absent;
        let at = name.map(|name| names.iter().position(|known| Some(known) == name.as_ref()).filter(is_new));
        // Most names that occur in a text are not requested, and their values do not matter.
        if at == Some(None) {
            return Some(());
        }
        // The group did not take part in the match.
        let Some(value) = filled(&pair.value, groups, flat) else { return Some(()) };
        let at = at??;
        let is_substitution = |part: &TemplatePart| match part {
            TemplatePart::Literal(_) => true,
            TemplatePart::Variable(column) => self.template_set.columns[*column as usize].traits.min_len > 0,
        };
        found[at] = match (value.is_empty(), self.report.keeps_empty() || value.iter().any(is_substitution)) {
            // An empty value produces no field.
            (true, false) => ValueLocation::Absent,
            (false, false) => ValueLocation::Text,
            (_, true) => ValueLocation::of_parts(&value),
        };
        Some(())
    }

    /// Marks the fields that a pair may produce and that have no location yet as readable from the text only.
    fn doubt(&self, pair: &Pair, names: &[String], found: &mut [ValueLocation]) {
        let known = pair.known_name().map(|name| self.report.cleaned(name));
        for (place, name) in found.iter_mut().zip(names) {
            if *place == ValueLocation::Absent && known.as_ref().is_none_or(|known| known == name) {
                *place = ValueLocation::Text;
            }
        }
    }
}

/// Substitutes the groups; `None` if one of them did not take part in the match.
fn filled(parts: &[NamePart], groups: &GroupPlaces, flat: &FlatTemplate) -> Option<Vec<TemplatePart>> {
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
