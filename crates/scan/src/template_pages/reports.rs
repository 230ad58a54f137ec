//! Where transforms (`REPORT-`) put fields in the texts of one template.
//!
//! A list of cells goes to [`super::cells`]. A pattern is planned as those of `EXTRACT-` are
//! ([`quarry_eval::pattern::template_match`]), and where `FORMAT` takes names from the text it goes on behind each match:
//! names are then literals of the template, as a rule, and a field that none of them names is not there. What the plan
//! leaves open costs only the fields that it may concern.
//!
//! Not here: which rule wins ([`super::slab`]).

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use quarry_eval::pattern::template_match::{FlatTemplate, GroupPlaces, MatchPlan, Planner};
use quarry_event::template::{Dictionary, TemplatePart, TemplateSet};

use super::cells::CellPlanner;
use super::flat::AskedTemplate;
use super::value_location::ValueLocation;
use crate::fields::reports::{MATCHES_MAX, NamePart, Pair, Report, ReportText};

/// A transform that is asked of templates.
pub(super) enum ReportPlanner<'a> {
    /// A list of cells.
    Cells(CellPlanner<'a>),
    /// Matches of a pattern.
    Pattern(PatternPlanner<'a>),
}

/// A pattern whose matches make fields.
pub(super) struct PatternPlanner<'a> {
    template_set: &'a TemplateSet,
    report: &'a Report,
    /// Those of its pairs that may make a wanted field.
    pairs: Vec<&'a Pair>,
    repeats: bool,
    planner: Option<RefCell<Box<Planner>>>,
}

impl<'a> ReportPlanner<'a> {
    /// `None` for a transform that does not read the text of events, or adds values to those that are there.
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

    /// The places of the fields `names` in the texts of a template.
    pub(super) fn places(&self, template: &AskedTemplate<'_>, names: &[String]) -> Vec<ValueLocation> {
        match self {
            ReportPlanner::Cells(cells) => cells.places(template.template, names),
            ReportPlanner::Pattern(pattern) => pattern.places(template, names),
        }
    }
}

impl PatternPlanner<'_> {
    fn places(&self, template: &AskedTemplate<'_>, names: &[String]) -> Vec<ValueLocation> {
        let mut found = vec![ValueLocation::Absent; names.len()];
        if self.find(template, names, &mut found).is_none() {
            for pair in &self.pairs {
                self.doubt(pair, names, &mut found);
            }
        }
        found
    }

    /// Notes what the matches in a template make; `None` where only values tell whether there are more.
    fn find(&self, template: &AskedTemplate<'_>, names: &[String], found: &mut [ValueLocation]) -> Option<()> {
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
            // Behind a match its text still counts for what looks behind.
            if planner.looks_around() {
                return None;
            }
            let (_, end) = groups.first().copied().flatten()?;
            rest = Cow::Owned(rest.into_owned().from_on(end));
        }
        Some(())
    }

    /// Notes what one pair of a match makes; `None` where only values tell.
    fn note(
        &self,
        pair: &Pair,
        groups: &GroupPlaces,
        flat: &FlatTemplate,
        names: &[String],
        found: &mut [ValueLocation],
    ) -> Option<()> {
        let (Some(name), Some(value)) = (filled(&pair.name, groups, flat), filled(&pair.value, groups, flat)) else {
            // A group that takes no part.
            return Some(());
        };
        let name = match name.as_slice() {
            [] => return Some(()),
            [TemplatePart::Literal(name)] => self.report.cleaned(std::str::from_utf8(name).ok()?),
            _ => return None,
        };
        let at = names.iter().position(|known| *known == name).filter(|at| found[*at] == ValueLocation::Absent);
        let Some(at) = at else { return Some(()) };
        let is_substitution = |part: &TemplatePart| match part {
            TemplatePart::Literal(_) => true,
            TemplatePart::Variable(column) => self.template_set.columns[*column as usize].traits.min_len > 0,
        };
        found[at] = match (value.is_empty(), self.report.keeps_empty() || value.iter().any(is_substitution)) {
            // A value without characters makes no field.
            (true, false) => ValueLocation::Absent,
            (false, false) => ValueLocation::Text,
            (_, true) => ValueLocation::of_parts(&value),
        };
        Some(())
    }

    /// Leaves the fields that a pair may make and that are not found yet to the text.
    fn doubt(&self, pair: &Pair, names: &[String], found: &mut [ValueLocation]) {
        let known = pair.known_name().map(|name| self.report.cleaned(name));
        for (place, name) in found.iter_mut().zip(names) {
            if *place == ValueLocation::Absent && known.as_ref().is_none_or(|known| known == name) {
                *place = ValueLocation::Text;
            }
        }
    }
}

/// The parts put together; `None` when a group takes no part.
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
