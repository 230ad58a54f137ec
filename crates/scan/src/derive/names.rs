//! Fields that search-time rules of any source may produce. Values of most rules need not occur in the event text, so
//! a condition on such a field must not rule out events by their text. Transforms that split the text at breakers are
//! an exception, because their values consist of whole tokens of the text, and so are those that copy groups of a
//! pattern, which are analysed like `EXTRACT` rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quarry_conf::{PropsResolver, ReportRule, SearchTimeRules};
use quarry_eval::field_names::wildcard_parts;
use quarry_spl::analyse::expr_fields;

use super::defaults::is_default_field;
use super::requested_fields::RequestedFields;
use super::tables::{Tables, command_of};
use crate::fields::reports::{copies_groups, output_names, splits_at_breakers};

/// Set of events for which a rule may produce a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Any sourcetype.
    Everywhere,
    /// Only these sourcetypes.
    Sourcetypes(Vec<String>),
}

/// Fields and the events for which they may be produced.
type Scopes = BTreeMap<String, Scope>;

/// Fields that rules may produce, each with the events concerned.
#[derive(Debug, Default)]
pub(crate) struct DerivedNames {
    from_rules: Arc<RuleFieldNames>,
    /// Output fields of lookups, which depend on the tables that the search may read, and fields of labels.
    from_search: Scopes,
}

/// The part of [`DerivedNames`] that is the same for all searches under the same settings.
#[derive(Debug, Default)]
pub(crate) struct RuleFieldNames {
    all: RuleScopes,
    /// Fields of rules whose values need not occur in the text.
    elsewhere: RuleScopes,
    /// Events whose values may be written with the entities of XML.
    entities: Option<Scope>,
    /// Texts of the lookup rules, each with the events to which it applies.
    lookups: Vec<(String, Scope)>,
}

/// Fields that a group of rules produces.
#[derive(Debug, Default)]
struct RuleScopes {
    named: Scopes,
    /// Events with rules that take field names from the text and may thus produce any field.
    open: Option<Scope>,
}

impl RuleScopes {
    /// Adds the fields of a stanza; `None` means that its rules may produce any field.
    fn add(&mut self, names: Option<Vec<String>>, scope: &Scope) {
        match (names, &mut self.open) {
            (Some(names), _) => names.into_iter().for_each(|name| widen_scope(&mut self.named, name, scope)),
            (None, Some(open)) => open.extend(scope),
            (None, open) => *open = Some(scope.clone()),
        }
    }
}

impl Scope {
    /// Whether events of this sourcetype are in the scope.
    pub(crate) fn contains(&self, sourcetype: &str) -> bool {
        match self {
            Scope::Everywhere => true,
            Scope::Sourcetypes(names) => names.iter().any(|name| name == sourcetype),
        }
    }

    /// Like [`Scope::contains`], ignoring case.
    pub(crate) fn contains_ignore_case(&self, sourcetype: &str) -> bool {
        match self {
            Scope::Everywhere => true,
            Scope::Sourcetypes(names) => names.iter().any(|name| name.eq_ignore_ascii_case(sourcetype)),
        }
    }

    /// The scope of a stanza for a sourcetype; if it is a pattern or missing, the stanza may apply to any event.
    pub(crate) fn of(sourcetype: Option<&str>) -> Scope {
        match sourcetype.filter(|name| !name.contains('*')) {
            Some(sourcetype) => Scope::Sourcetypes(vec![sourcetype.to_owned()]),
            None => Scope::Everywhere,
        }
    }

    /// The union of two scopes.
    pub(crate) fn union(mut self, other: Scope) -> Scope {
        self.extend(&other);
        self
    }

    fn extend(&mut self, other: &Scope) {
        match (&mut *self, other) {
            (Scope::Sourcetypes(own), Scope::Sourcetypes(more)) => {
                own.extend(more.iter().filter(|name| !own.contains(name)).cloned().collect::<Vec<_>>());
            }
            _ => *self = Scope::Everywhere,
        }
    }
}

impl RuleFieldNames {
    /// Collects the fields of all stanzas of props.conf, except those of lookups.
    pub(crate) fn new(props: &PropsResolver) -> RuleFieldNames {
        let mut names = RuleFieldNames::default();
        for (sourcetype, rules) in props.search_time_rules() {
            let scope = Scope::of(sourcetype.as_deref());
            names.all.add(rule_output_names(rules, &|_| true), &scope);
            names
                .elsewhere
                .add(rule_output_names(rules, &|report| !splits_at_breakers(report) && !copies_groups(report)), &scope);
            names.lookups.extend(rules.lookups.iter().map(|(_, lookup)| (lookup.clone(), scope.clone())));
        }
        names.entities = props.xml_sourcetypes().map(Scope::of).reduce(Scope::union);
        names
    }
}

/// Adds a field, or widens its scope.
fn widen_scope(scopes: &mut Scopes, name: String, scope: &Scope) {
    scopes.entry(name).and_modify(|known| known.extend(scope)).or_insert_with(|| scope.clone());
}

impl DerivedNames {
    /// Combines the fields of rules, of lookups among the search's tables, and of labels.
    pub(crate) fn new(of_rules: &Arc<RuleFieldNames>, tables: &Tables, labels: &[String]) -> DerivedNames {
        let mut of_search = Scopes::new();
        for (lookup, scope) in &of_rules.lookups {
            // A lookup that cannot be read produces no fields.
            let outputs = tables.outputs(lookup).unwrap_or_default();
            outputs.into_iter().for_each(|name| widen_scope(&mut of_search, name, scope));
        }
        labels.iter().for_each(|label| widen_scope(&mut of_search, label.clone(), &Scope::Everywhere));
        DerivedNames { from_rules: Arc::clone(of_rules), from_search: of_search }
    }

    /// Events for which a rule may produce `field`, which may be a wildcard pattern.
    pub(crate) fn scope_of(&self, field: &str) -> Option<Scope> {
        self.find_scope(&self.from_rules.all, field)
    }

    /// Events for which a rule may produce `field` with a value that need not consist of whole tokens of the text.
    pub(crate) fn nonverbatim_scope(&self, field: &str) -> Option<Scope> {
        self.find_scope(&self.from_rules.elsewhere, field)
    }

    /// Events in which this value of `field` need not be in the text as it is: a rule may derive it, or XML may write it
    /// with entities, such as `&amp;`.
    pub(crate) fn unwritten_scope(&self, field: &str, value: &str) -> Option<Scope> {
        let is_plain = |letter: char| letter == ' ' || letter.is_ascii_graphic();
        let is_marked = |letter: char| matches!(letter, '<' | '>' | '&' | '\'' | '"') || !is_plain(letter);
        let entities = self.from_rules.entities.clone().filter(|_| value.contains(is_marked));
        [self.nonverbatim_scope(field), entities].into_iter().flatten().reduce(Scope::union)
    }

    fn find_scope(&self, rules: &RuleScopes, field: &str) -> Option<Scope> {
        if is_default_field(field) {
            return Some(Scope::Everywhere);
        }
        self.union_scope(rules, &|scopes| match field.contains('*') {
            true => matching_scopes(scopes, |name| name == field || wildcard_parts(field, name).is_some()),
            false => scopes.get(field).into_iter().collect(),
        })
    }

    /// Events for which a rule may produce a requested field; `None` if there are none.
    pub(crate) fn scope_of_requested(&self, wanted: &RequestedFields) -> Option<Scope> {
        self.union_scope(&self.from_rules.all, &|scopes| match wanted.has_only_names() {
            true => wanted.names.iter().filter_map(|name| scopes.get(name)).collect(),
            false => matching_scopes(scopes, |name| wanted.contains(name)),
        })
    }

    /// The union of the scopes that `of` finds and of those whose rules may produce any field.
    fn union_scope(&self, rules: &RuleScopes, of: &dyn for<'s> Fn(&'s Scopes) -> Vec<&'s Scope>) -> Option<Scope> {
        let found = [&rules.named, &self.from_search].into_iter().flat_map(of);
        found.chain(&rules.open).cloned().reduce(Scope::union)
    }
}

/// The scopes of fields whose names pass a test.
fn matching_scopes(scopes: &Scopes, passes: impl Fn(&str) -> bool) -> Vec<&Scope> {
    scopes.iter().filter(|(name, _)| passes(name)).map(|(_, scope)| scope).collect()
}

/// Fields that the rules of a stanza produce, except those of lookups and of transforms that `counts` rejects; `None`
/// if the rules may produce any field.
fn rule_output_names(rules: &SearchTimeRules, counts: &dyn Fn(&ReportRule) -> bool) -> Option<Vec<String>> {
    // Table rules (multikv.conf) rewrite the text and take column names from it.
    if rules.table.is_some() {
        return None;
    }
    let mut names: Vec<String> = Vec::new();
    for report in rules.reports.iter().filter(|report| counts(report)) {
        names.extend(output_names(report)?);
    }
    names.extend(rules.aliases.iter().map(|alias| alias.target.clone()));
    names.extend(rules.evals.iter().map(|(field, _)| field.clone()));
    Some(names)
}

/// Fields that aliases, calculations and lookups name, as inputs or as outputs. Rules that cannot be read are skipped.
pub(crate) fn named_fields(rules: &SearchTimeRules) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for alias in &rules.aliases {
        names.extend([alias.source.clone(), alias.target.clone()]);
    }
    for (field, text) in &rules.evals {
        names.insert(field.clone());
        names.extend(quarry_spl::parse_expression(text).iter().flat_map(expr_fields));
    }
    for (_, text) in &rules.lookups {
        let Ok(command) = command_of(text) else { continue };
        names.extend(command.inputs.into_iter().chain(command.outputs).map(|(_, field)| field));
    }
    names
}
