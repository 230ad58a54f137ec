//! Locations of fields of `EXTRACT-` rules in the texts of a template.
//!
//! If a rule's group lies at the same location of a template for all values of its variables
//! ([`quarry_eval::pattern::template_match`]), the field becomes a part of the template, as with automatic extraction,
//! and the pattern need not run again. Rules are tried in order, because the first that finds the field wins.
//!
//! The location may depend on codes: on the template of an inner value (`10.0.0.1:443`, `10.0.0.1`), or on the values
//! of small dictionaries. A rule is then planned for each template of the inner value, or its pattern runs for each
//! combination of the values, and the location differs by code ([`super::key_splits`]). If the location depends on
//! other values, [`super::rex::RexReader`] handles the rows.

use std::str::Utf8Error;
use std::sync::Arc;

use quarry_eval::pattern::template_match::{
    FlatPart, FlatTemplate, GroupRanges, MatchPlan, Planner, ValueLists, Window,
};
use quarry_event::template::{Column, ColumnKind, TemplateSet};
use quarry_stdx::number::u32_of;

use super::column_codes::max_codes;
use super::key_splits::{Division, KeySplit};
use super::planned_template::PlannedTemplate;
use super::planning_budget::PlanningBudget;
use super::prefixed_values::{self, with_prefixes_as_literals};
use super::shared_plans::{SettledPlan, SharedPlans};
use super::value_location::ValueLocation;
use crate::fields::{Extract, ExtractionClass};

/// Maximum number of automaton steps to plan a slab's templates for one rule and field: a few hundredths of a second.
/// The remaining templates are planned when rows of them are read. All rules and fields share a [`PlanningBudget`].
pub(super) const PLANNING_STEPS_MAX: usize = 4 << 20;
/// Maximum number of templates of an inner value; with more, the location counts as dependent on values.
const INNER_TEMPLATES_MAX: usize = 64;
/// Maximum number of combinations of values for which a pattern runs while a template is planned.
pub(super) const COMBINATIONS_MAX: usize = 1_024;
/// A template is planned once per value of a column with at most this many values.
const PLANNED_VALUES_MAX: usize = 8;
/// Number of plans after which planning ends if the location depended on values in more than three quarters of them.
const TRIED_PLANS: usize = 64;
/// If the location depends on values for each of this many first codes, no further codes are planned.
const OPEN_CODES_MAX: usize = 2;
/// Number of recent locations among which an equal location is searched for.
const RECENT_PARTS: usize = 16;

/// Location of a field according to the rules that produce it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RuleLocation {
    /// No rule finds the field in this template.
    Nowhere,
    /// The field is always at this location.
    At(ValueLocation),
    /// The location depends on the values of the variables.
    ByValue,
}

/// The patterns of all classes in one order, and for each class which patterns it has. If the order of a class is
/// incompatible, the texts of its events are read.
pub(super) fn merge_extracts(classes: &mut [ExtractionClass]) -> (Vec<Arc<Extract>>, Vec<Vec<bool>>) {
    let mut all: Vec<Arc<Extract>> = Vec::new();
    for ExtractionClass { automatic, text_patterns: extracts, field_patterns: of_fields, .. } in classes.iter_mut() {
        if automatic.by_pattern {
            extracts.clear();
            of_fields.clear();
        }
        let mut last = None;
        for extract in extracts.iter() {
            let known = all.iter().position(|known| Arc::ptr_eq(known, extract));
            let at = known.unwrap_or(all.len());
            automatic.by_pattern |= last.is_some_and(|last| at <= last);
            last = Some(at);
            if known.is_none() {
                all.push(Arc::clone(extract));
            }
        }
        if automatic.by_pattern {
            extracts.clear();
            of_fields.clear();
        }
    }
    let has = |extracts: &[Arc<Extract>], extract| extracts.iter().any(|known| Arc::ptr_eq(known, extract));
    let of_class = |class: &ExtractionClass| -> Vec<bool> {
        all.iter().map(|extract| has(&class.text_patterns, extract)).collect()
    };
    let by_class: Vec<Vec<bool>> = classes.iter().map(of_class).collect();
    let count = |has: &Vec<bool>| has.iter().filter(|has| **has).count();
    let is_whole = classes.iter().zip(&by_class).all(|(class, has)| count(has) == class.text_patterns.len());
    assert!(is_whole, "each pattern of a class has one place in the order of all");
    (all, by_class)
}

/// The rules that produce one field, in order.
pub(super) struct NamedRules<'b> {
    rules: Vec<NamedRule<'b>>,
    /// Whether locations may differ by code.
    divides: bool,
    /// Number of nodes of all [`KeySplit`]s created until now.
    nodes: usize,
    /// Number of plans so far, and number of plans in which the location depends on values.
    tried: usize,
    by_value: usize,
}

/// A rule with the group that is the field.
struct NamedRule<'b> {
    budget: &'b PlanningBudget,
    extract: Arc<Extract>,
    group: usize,
    planner: Option<Planner>,
}

/// Result of a rule for a template.
enum Finding {
    Known(RuleLocation),
    /// The result depends on the template of this part, whose values are in the column.
    ByTemplate(usize, u32),
    /// The result depends on the value of this part, which has few different values.
    ByFewValues(usize, u32, Arc<[Box<str>]>),
    /// For each combination of the codes of these columns, each with its number of codes: the location, or `None` if
    /// the rule does not find the field.
    ByCodes(Box<[(u32, u32)]>, Vec<Option<ValueLocation>>),
}

/// Parts with their columns and values.
type PartValues = Vec<(usize, u32, Arc<[Box<str>]>)>;

impl<'b> NamedRules<'b> {
    /// The rules for the field `name` in texts of a slab. With `divides`, its location may differ by code.
    pub(super) fn new(
        extracts: &[Arc<Extract>],
        name: &str,
        template_set: &TemplateSet,
        divides: bool,
        budget: &'b PlanningBudget,
    ) -> NamedRules<'b> {
        let is_one_line = is_one_line(template_set);
        let planner_of = |extract: &Extract, group| Planner::of_texts(&extract.regex, [group], is_one_line);
        let rule = |extract: &Arc<Extract>| {
            let group = extract.group(name)?;
            Some(NamedRule { budget, extract: Arc::clone(extract), group, planner: planner_of(extract, group) })
        };
        NamedRules { rules: extracts.iter().filter_map(rule).collect(), divides, nodes: 0, tried: 0, by_value: 0 }
    }

    /// The location of the field in the texts of a template; `shared` plans rules for several fields, and `values`
    /// lists the values of columns.
    pub(super) fn location(
        &mut self,
        template: &PlannedTemplate<'_>,
        shared: &mut SharedPlans,
        values: &mut ValueLists<'_>,
    ) -> Division<RuleLocation> {
        if self.rules.is_empty() {
            return Division::Whole(RuleLocation::Nowhere, [].into());
        }
        let template_set = template.template_set;
        let columns = u32_of(template_set.columns.len());
        let values: &mut ValueLists<'_> = &mut |column| if column < columns { values(column) } else { None };
        match template.with_prefixes_as_literals() {
            None => Division::Whole(RuleLocation::ByValue, [].into()),
            Some(flat) => {
                for (at, rule) in self.rules.iter().enumerate() {
                    match shared.settled(&rule.extract, template.number, flat, values) {
                        Some(SettledPlan::Never) => {}
                        Some(SettledPlan::Groups(groups)) => match rule.location_of(&groups, flat, template_set) {
                            RuleLocation::Nowhere => {}
                            known => return Division::Whole(known, variables(flat, template_set)),
                        },
                        None => return self.locate(at, flat, template_set, values),
                    }
                }
                Division::Whole(RuleLocation::Nowhere, variables(flat, template_set))
            }
        }
    }

    /// Tries the rules from number `first` on; earlier rules find nothing. The recursion is as deep as columns are
    /// nested, plus one level for each part with few values.
    fn locate(
        &mut self,
        first: usize,
        flat: &FlatTemplate,
        template_set: &TemplateSet,
        values: &mut ValueLists<'_>,
    ) -> Division<RuleLocation> {
        self.nodes += 1;
        for at in first..self.rules.len() {
            if self.tried >= TRIED_PLANS && self.by_value * 4 > self.tried * 3 {
                return Division::Whole(RuleLocation::ByValue, variables(flat, template_set));
            }
            let divides = self.divides && KeySplit::may_have(self.nodes);
            let finding = self.rules[at].find(flat, template_set, values, divides);
            self.tried += 1;
            self.by_value += usize::from(matches!(finding, Finding::Known(RuleLocation::ByValue)));
            let plans: (u32, Vec<Option<FlatTemplate>>) = match finding {
                Finding::Known(RuleLocation::Nowhere) => continue,
                Finding::Known(known) => return Division::Whole(known, variables(flat, template_set)),
                Finding::ByTemplate(part, column) => {
                    let ColumnKind::Templates(inner) = &template_set.columns[column as usize].kind else { break };
                    let plan = |inner| flat.with_variable(part, template_set, inner);
                    let split = |flat| with_prefixes_as_literals(flat, template_set);
                    (column, inner.iter().map(|inner| plan(inner).map(split)).collect())
                }
                Finding::ByFewValues(part, column, list) => {
                    (column, list.iter().map(|value| flat.with_value(part, value.as_bytes())).collect())
                }
                Finding::ByCodes(columns, locations) => {
                    self.nodes += locations.len();
                    return self.divide(at, columns, locations, flat, template_set, values);
                }
            };
            return self.locate_each(at, flat, plans, template_set, values);
        }
        Division::Whole(RuleLocation::Nowhere, variables(flat, template_set))
    }

    /// The locations by code of a column; each code stands for one of these templates.
    fn locate_each(
        &mut self,
        rule: usize,
        whole: &FlatTemplate,
        (column, plans): (u32, Vec<Option<FlatTemplate>>),
        template_set: &TemplateSet,
        values: &mut ValueLists<'_>,
    ) -> Division<RuleLocation> {
        let codes = u32_of(plans.len());
        let mut parts = Vec::with_capacity(plans.len());
        for flat in plans {
            parts.push(match flat {
                Some(flat) => self.locate(rule, &flat, template_set, values),
                None => Division::Whole(RuleLocation::ByValue, variables(whole, template_set)),
            });
            let is_open = |part: &Division<RuleLocation>| matches!(part, Division::Whole(RuleLocation::ByValue, _));
            if parts.len() == OPEN_CODES_MAX && parts.iter().all(is_open) {
                return Division::Whole(RuleLocation::ByValue, variables(whole, template_set));
            }
        }
        Division::ByCode {
            columns: [(column, codes)].into(),
            part_of: (0..codes).collect(),
            parts,
            variables: variables(whole, template_set),
        }
    }

    /// The locations by combination of codes; where rule number `at` finds nothing, the next rules are tried.
    fn divide(
        &mut self,
        at: usize,
        columns: Box<[(u32, u32)]>,
        locations: Vec<Option<ValueLocation>>,
        flat: &FlatTemplate,
        template_set: &TemplateSet,
        values: &mut ValueLists<'_>,
    ) -> Division<RuleLocation> {
        let known = variables(flat, template_set);
        let mut parts = Vec::new();
        if locations.contains(&None) {
            parts.push(self.locate(at + 1, flat, template_set, values));
        }
        let first = parts.len();
        let mut part_of = Vec::with_capacity(locations.len());
        for location in locations {
            let Some(place) = location else {
                part_of.push(0);
                continue;
            };
            let place = RuleLocation::At(place);
            let recent = parts.len().saturating_sub(RECENT_PARTS).max(first);
            let is_same = |part: &Division<RuleLocation>| matches!(part, Division::Whole(known, _) if *known == place);
            let number = parts[recent..].iter().position(is_same).map_or(parts.len(), |number| recent + number);
            if number == parts.len() {
                parts.push(Division::Whole(place, Arc::clone(&known)));
            }
            part_of.push(u32_of(number));
        }
        Division::ByCode { columns, part_of: part_of.into(), parts, variables: known }
    }
}

impl NamedRule<'_> {
    /// Result of the rule for a template. With `divides`, the location may differ by code.
    fn find(
        &mut self,
        flat: &FlatTemplate,
        template_set: &TemplateSet,
        values: &mut ValueLists<'_>,
        divides: bool,
    ) -> Finding {
        let open = || Finding::Known(RuleLocation::ByValue);
        let is_allowed = |planner: &&mut Planner| !self.budget.is_spent() && planner.steps_spent() < PLANNING_STEPS_MAX;
        let Some(planner) = self.planner.as_mut().filter(is_allowed) else { return open() };
        let before = planner.steps_spent();
        let plan = planner.plan_with_values(flat, values);
        self.budget.spend(planner.steps_spent().saturating_sub(before), flat.parts().len());
        let windows = match plan {
            MatchPlan::Never => return Finding::Known(RuleLocation::Nowhere),
            MatchPlan::Unknown => return open(),
            MatchPlan::Windows(windows) => windows,
        };
        let Some(first) = windows.first() else { return open() };
        if let Some(groups) = &first.groups {
            return Finding::Known(self.location_of(groups, flat, template_set));
        }
        if !divides {
            return open();
        }
        let decision = first.decision.as_ref().filter(|_| windows.len() == 1);
        let deciding = decision.map_or(&first.read, |decision| &decision.read);
        if let Some((part, column)) = inner_value(flat, deciding, template_set) {
            return Finding::ByTemplate(part, column);
        }
        let by_codes = match decision {
            Some(decision) => match self.location_of(&decision.positions, flat, template_set) {
                RuleLocation::ByValue => return open(),
                location => listed_values(flat, deciding, template_set, values)
                    .and_then(|parts| self.matches_by_code(first, flat, &parts, &location).ok()),
            },
            None => {
                let mut read: Vec<usize> = windows.iter().flat_map(|window| window.read.iter().copied()).collect();
                read.sort_unstable();
                read.dedup();
                listed_values(flat, &read, template_set, values)
                    .and_then(|parts| self.texts_by_code(&windows, flat, &parts).ok()?)
            }
        };
        if let Some((columns, locations)) = by_codes {
            return Finding::ByCodes(columns, locations);
        }
        let few = deciding.iter().find_map(|part| {
            let (column, list) = listed_part(flat, *part, template_set, values)?;
            (list.len() <= PLANNED_VALUES_MAX).then_some((*part, column, list))
        });
        few.map_or_else(open, |(part, column, list)| Finding::ByFewValues(part, column, list))
    }

    /// The location of the group at these locations, or none if the group takes no part in the match.
    fn location_of(&self, groups: &GroupRanges, flat: &FlatTemplate, template_set: &TemplateSet) -> RuleLocation {
        let Some((start, end)) = groups.get(self.group).copied().flatten() else { return RuleLocation::Nowhere };
        match prefixed_values::location_of(&flat.between(start, end).key().parts, template_set) {
            ValueLocation::Text => RuleLocation::ByValue,
            place => RuleLocation::At(place),
        }
    }

    /// For each combination of values, the location if the window has a match.
    fn matches_by_code(
        &self,
        window: &Window,
        flat: &FlatTemplate,
        parts: &PartValues,
        location: &RuleLocation,
    ) -> Result<CodedLocations, Utf8Error> {
        let Some(decision) = &window.decision else { return Ok((codes_of(parts), Vec::new())) };
        let place = match location {
            RuleLocation::At(place) => Some(place),
            RuleLocation::Nowhere | RuleLocation::ByValue => None,
        };
        let (mut text, mut captures) = (Vec::new(), self.extract.regex.new_captures());
        let mut locations = Vec::with_capacity(combinations(parts));
        for index in 0..combinations(parts) {
            let value = |part: usize, text: &mut Vec<u8>| append_value(parts, index, part, text);
            let is_match = window.has_match(decision, flat, &self.extract.regex, value, &mut text, &mut captures)?;
            locations.push(place.filter(|_| is_match).cloned());
        }
        Ok((codes_of(parts), locations))
    }

    /// For each combination of values, the text of the group; `None` if the group may be empty or its positions do not
    /// depend on values.
    fn texts_by_code(
        &self,
        windows: &[Window],
        flat: &FlatTemplate,
        parts: &PartValues,
    ) -> Result<Option<CodedLocations>, Utf8Error> {
        let (mut text, mut captures) = (Vec::new(), self.extract.regex.new_captures());
        let mut locations = Vec::with_capacity(combinations(parts));
        for index in 0..combinations(parts) {
            let value = |part: usize, text: &mut Vec<u8>| append_value(parts, index, part, text);
            let mut found: Option<ValueLocation> = None;
            for window in windows {
                // The positions of these groups are known without trying values.
                if window.groups.is_some() {
                    return Ok(None);
                }
                if let Some(text) = window.evaluate(flat, &self.extract.regex, value, &mut text, &mut captures)? {
                    found = match captures.text(text, self.group) {
                        Some("") => return Ok(None),
                        group => group.map(|group| ValueLocation::Constant(group.into())),
                    };
                    break;
                }
            }
            locations.push(found);
        }
        Ok(Some((codes_of(parts), locations)))
    }
}

/// Whether no text of a slab has a line feed.
pub(super) fn is_one_line(template_set: &TemplateSet) -> bool {
    let has_line_feeds = |texts: &Column| texts.traits.bytes.contains(b'\n');
    template_set.columns.first().is_some_and(|texts| !has_line_feeds(texts))
}

/// Columns, each with its number of codes, and the location for each combination of their codes.
type CodedLocations = (Box<[(u32, u32)]>, Vec<Option<ValueLocation>>);

/// The columns of a template's variables.
fn variables(flat: &FlatTemplate, template_set: &TemplateSet) -> Arc<[u32]> {
    let column = |part: &FlatPart| match part {
        FlatPart::Variable(variable, _) => Some(prefixed_values::column_of(*variable, template_set)),
        FlatPart::Literal(_) => None,
    };
    flat.parts().iter().filter_map(column).collect()
}

/// The first of these parts whose values have templates of their own, if the templates are few.
fn inner_value(flat: &FlatTemplate, parts: &[usize], template_set: &TemplateSet) -> Option<(usize, u32)> {
    parts.iter().find_map(|part| match flat.parts().get(*part)? {
        FlatPart::Variable(column, _) => match &template_set.columns.get(*column as usize)?.kind {
            ColumnKind::Templates(inner) if inner.len() <= INNER_TEMPLATES_MAX => Some((*part, *column)),
            _ => None,
        },
        FlatPart::Literal(_) => None,
    })
}

/// The column of a part and its values by code; `None` if the values are not known to be few.
fn listed_part(
    flat: &FlatTemplate,
    part: usize,
    template_set: &TemplateSet,
    values: &mut ValueLists<'_>,
) -> Option<(u32, Arc<[Box<str>]>)> {
    let FlatPart::Variable(column, _) = flat.parts().get(part)? else { return None };
    template_set.columns.get(*column as usize)?;
    let codes = max_codes(template_set, *column);
    if codes == 0 || codes > COMBINATIONS_MAX {
        return None;
    }
    let list: Arc<[Box<str>]> = match template_set.columns[*column as usize].kind {
        ColumnKind::Dictionary { .. } => values(*column)?,
        ColumnKind::Numbers { format, min, max } => {
            let text = |number: i64| {
                let mut text = Vec::new();
                format.write(number, &mut text);
                String::from_utf8(text).ok().map(String::into_boxed_str)
            };
            (min..=max).map(text).collect::<Option<_>>()?
        }
        ColumnKind::Texts | ColumnKind::Templates(_) => return None,
    };
    (list.len() == codes).then_some((*column, list))
}

/// The values of these parts by code; `None` if they have too many combinations.
fn listed_values(
    flat: &FlatTemplate,
    parts: &[usize],
    template_set: &TemplateSet,
    values: &mut ValueLists<'_>,
) -> Option<PartValues> {
    let mut listed: PartValues = Vec::with_capacity(parts.len());
    for part in parts.iter().filter(|part| matches!(flat.parts().get(**part), Some(FlatPart::Variable(..)))) {
        let (column, list) = listed_part(flat, *part, template_set, values)?;
        listed.push((*part, column, list));
        if combinations(&listed) > COMBINATIONS_MAX {
            return None;
        }
    }
    Some(listed)
}

/// Number of combinations of values.
fn combinations(parts: &PartValues) -> usize {
    parts.iter().map(|(_, _, list)| list.len()).product()
}

/// Appends the value of a part in a combination; the values of the first part change fastest.
fn append_value(parts: &PartValues, combination: usize, wanted: usize, text: &mut Vec<u8>) {
    let mut left = combination;
    for (part, _, list) in parts {
        if *part == wanted {
            text.extend_from_slice(list[left % list.len()].as_bytes());
            return;
        }
        left /= list.len();
    }
}

fn codes_of(parts: &PartValues) -> Box<[(u32, u32)]> {
    parts.iter().map(|(_, column, list)| (*column, u32_of(list.len()))).collect()
}

#[cfg(test)]
mod tests;
