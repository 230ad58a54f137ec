//! Fields that the search-time rules of any source may produce. Their values need not occur in the event text, so a
//! condition on such a field must not rule out events by their text.

use std::collections::BTreeMap;

use quarry_conf::{PropsResolver, SearchTimeRules};
use quarry_eval::field_names::wildcard_parts;

use super::defaults::is_default_field;
use super::needs::Wanted;
use super::tables::Tables;
use crate::fields::reports::names_of;

/// Set of events for which a rule may produce a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Any.
    Everywhere,
    /// Those of these sourcetypes.
    Sourcetypes(Vec<String>),
}

/// Fields that rules may produce, each with the events concerned.
#[derive(Debug, Default)]
pub(crate) struct DerivedNames {
    named: BTreeMap<String, Scope>,
    /// Events with rules that take field names from the text, so that any field may result.
    open: Option<Scope>,
}

impl Scope {
    /// Whether events of this sourcetype are in the scope.
    pub(crate) fn holds(&self, sourcetype: &str) -> bool {
        match self {
            Scope::Everywhere => true,
            Scope::Sourcetypes(names) => names.iter().any(|name| name == sourcetype),
        }
    }

    fn of(sourcetype: Option<&str>) -> Scope {
        match sourcetype.filter(|name| !name.contains('*')) {
            Some(sourcetype) => Scope::Sourcetypes(vec![sourcetype.to_owned()]),
            None => Scope::Everywhere,
        }
    }

    fn join(&mut self, other: &Scope) {
        match (&mut *self, other) {
            (Scope::Sourcetypes(own), Scope::Sourcetypes(more)) => {
                own.extend(more.iter().filter(|name| !own.contains(name)).cloned().collect::<Vec<_>>());
            }
            _ => *self = Scope::Everywhere,
        }
    }
}

impl DerivedNames {
    /// The fields of all stanzas of props.conf, and those of labels.
    pub(crate) fn new(props: &PropsResolver, tables: &Tables, labels: &[String]) -> DerivedNames {
        let mut names = DerivedNames::default();
        for (sourcetype, rules) in props.search_time_rules() {
            let scope = Scope::of(sourcetype.as_deref());
            match rule_names(rules, tables) {
                Some(found) => found.into_iter().for_each(|name| names.give(name, &scope)),
                None => match &mut names.open {
                    Some(open) => open.join(&scope),
                    None => names.open = Some(scope),
                },
            }
        }
        labels.iter().for_each(|label| names.give(label.clone(), &Scope::Everywhere));
        names
    }

    fn give(&mut self, name: String, scope: &Scope) {
        self.named.entry(name).and_modify(|known| known.join(scope)).or_insert_with(|| scope.clone());
    }

    /// Events for which a rule may produce `field`, which may be a wildcard pattern.
    pub(crate) fn scope_of(&self, field: &str) -> Option<Scope> {
        if is_default_field(field) {
            return Some(Scope::Everywhere);
        }
        let fitting = self.named.iter().filter(|(name, _)| *name == field || wildcard_parts(field, name).is_some());
        let mut scopes = fitting.map(|(_, scope)| scope).chain(&self.open);
        let mut found = scopes.next()?.clone();
        scopes.for_each(|scope| found.join(scope));
        Some(found)
    }

    /// Events for which a rule may produce a requested field; `None` if there are none.
    pub(crate) fn scope_of_wanted(&self, wanted: &Wanted) -> Option<Scope> {
        let given = self.named.iter().filter(|(name, _)| wanted.wants(name)).map(|(_, scope)| scope);
        given.chain(&self.open).cloned().reduce(|mut all, scope| {
            all.join(&scope);
            all
        })
    }
}

/// Fields that the rules of a stanza produce; `None` if they may produce any.
fn rule_names(rules: &SearchTimeRules, tables: &Tables) -> Option<Vec<String>> {
    // Table rules (multikv.conf) rewrite the text and take column names from it.
    if rules.table.is_some() {
        return None;
    }
    let mut names: Vec<String> = Vec::new();
    for report in &rules.reports {
        names.extend(names_of(report)?);
    }
    names.extend(rules.aliases.iter().map(|alias| alias.target.clone()));
    names.extend(rules.evals.iter().map(|(field, _)| field.clone()));
    for (_, lookup) in &rules.lookups {
        // A lookup that cannot be read produces no fields.
        names.extend(tables.outputs(lookup).unwrap_or_default());
    }
    Some(names)
}
