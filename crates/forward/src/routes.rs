//! Routing: selects the groups of indexers for an event, by a rule, else by its input, else by default, and drops
//! events of indexes that are filtered out.
//!
//! Events of a batch with the same groups and index stay together, in order.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::ForwardError;
use quarry_conf::OutputSettings;
use quarry_conf::settings::index_rules::ROUTING_KEY;
use quarry_event::{EventBatch, FieldRef};
use quarry_pipeline::Pattern;
use quarry_stdx::number::u32_of;

/// Name that stands for all groups.
const ALL: &str = "*";
/// Maximum number of groups, whose numbers are bits of a [`Groups`].
pub(crate) const GROUPS_MAX: usize = 64;
/// Maximum unknown group names that are logged.
const UNKNOWN_NAMES_MAX: usize = 100;

/// A set of groups, as bits of their numbers.
pub(crate) type Groups = u64;

/// The routing rules.
#[derive(Debug)]
pub struct Routes {
    names: Vec<String>,
    default: Groups,
    /// Index patterns, each with a flag that tells whether matching indexes are sent.
    filters: Vec<(Pattern, bool)>,
    unknown: Mutex<BTreeSet<String>>,
}

impl Routes {
    /// The rules of outputs.conf.
    pub fn new(settings: &OutputSettings) -> Result<Routes, ForwardError> {
        let names: Vec<String> = settings.groups.iter().take(GROUPS_MAX).map(|group| group.name.clone()).collect();
        let mut filters = Vec::new();
        for (pattern, is_sent) in &settings.index_filters {
            // Patterns match whole names.
            let compiled = Pattern::new(&format!("^(?:{pattern})$"));
            let compiled = compiled
                .map_err(|reason| ForwardError::Pattern { pattern: pattern.clone(), reason: reason.to_string() });
            filters.push((compiled?, *is_sent));
        }
        let mut routes = Routes { names, default: 0, filters, unknown: Mutex::default() };
        routes.default = settings.default_groups.iter().filter_map(|name| routes.find_group(name)).sum();
        Ok(routes)
    }

    /// Names of the groups, by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Group names in rules and inputs that are unknown and have not been reported yet.
    pub fn take_unknown(&self) -> Vec<String> {
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh: Vec<String> = unknown.iter().filter(|name| !name.starts_with('\0')).cloned().collect();
        for name in &fresh {
            unknown.remove(name);
            unknown.insert(format!("\0{name}"));
        }
        fresh
    }

    fn find_group(&self, name: &str) -> Option<Groups> {
        self.names.iter().position(|known| known == name).map(|at| 1 << at)
    }

    /// The groups that a text names; the default groups if it names no known group.
    fn parse_groups(&self, text: Option<&str>) -> Groups {
        let Some(text) = text else { return self.default };
        let mut groups = 0;
        for name in text.split([',', ' ']).filter(|name| !name.is_empty()) {
            match self.find_group(name) {
                Some(group) => groups |= group,
                None if name == ALL => groups |= self.all(),
                None => self.add_unknown(name),
            }
        }
        if groups == 0 { self.default } else { groups }
    }

    fn all(&self) -> Groups {
        (0..self.names.len()).map(|at| 1 << at).sum()
    }

    fn add_unknown(&self, name: &str) {
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        if unknown.len() < UNKNOWN_NAMES_MAX && !unknown.contains(&format!("\0{name}")) {
            unknown.insert(name.to_owned());
        }
    }

    /// Whether events of an index are sent; the last matching pattern applies. An index that matches no pattern is sent
    /// only if no patterns exist.
    fn is_sent(&self, index: &str) -> bool {
        let fitting = self.filters.iter().rev().find(|(pattern, _)| pattern.is_match(index.as_bytes()));
        fitting.map_or(self.filters.is_empty(), |(_, is_sent)| *is_sent)
    }

    /// Splits a batch by index and groups; events that have no group, or whose index is filtered out, are dropped and
    /// counted.
    pub(crate) fn split(&self, batch: EventBatch, routing: Option<&str>) -> (Vec<(Groups, EventBatch)>, u64) {
        let by_input = self.parse_groups(routing);
        let has_own = batch.fields.names().iter().any(|name| **name == *ROUTING_KEY);
        if !has_own && batch.has_single_index() {
            let groups = if batch.metas.first().is_none_or(|meta| self.is_sent(&meta.index)) { by_input } else { 0 };
            return if groups == 0 { (Vec::new(), batch.len() as u64) } else { (vec![(groups, batch)], 0) };
        }
        let sent: Vec<bool> = batch.metas.iter().map(|meta| self.is_sent(&meta.index)).collect();
        let mut parts: Vec<(Groups, EventBatch)> = Vec::new();
        let mut unsent = 0;
        let mut fields = batch.fields.iter().peekable();
        for row in 0..batch.len() {
            let (mut own, mut groups) = (Vec::<FieldRef<'_>>::new(), by_input);
            while let Some(field) = fields.next_if(|field| field.row as usize <= row) {
                if **field.name == *ROUTING_KEY {
                    groups = self.parse_groups(Some(field.value));
                } else {
                    own.push(field);
                }
            }
            let meta = batch.meta[row] as usize;
            if groups == 0 || !sent[meta] {
                unsent += 1;
                continue;
            }
            let meta = &batch.metas[meta];
            // The event may join only the last part that shares a group with it, and only if both have the same groups;
            // otherwise a group would receive its events out of order.
            let is_shared = |(known, part): &(Groups, EventBatch)| {
                known & groups != 0 && part.metas.first().is_some_and(|first| first.index == meta.index)
            };
            let last = parts.iter().rposition(is_shared).filter(|at| parts[*at].0 == groups);
            let at = last.unwrap_or_else(|| {
                parts.push((groups, EventBatch { index_time: batch.index_time, ..EventBatch::default() }));
                parts.len() - 1
            });
            let part = &mut parts[at].1;
            let meta = part.intern(meta);
            part.push(batch.raw(row), batch.time[row], meta);
            let row = u32_of(part.len()) - 1;
            own.iter().for_each(|field| part.fields.push(row, field.name, field.value));
        }
        (parts, unsent)
    }
}

#[cfg(test)]
mod tests {
    use quarry_conf::{ConfSource, Layer, Layers, OutputSettings};
    use quarry_event::{EventBatch, Metadata};

    use super::Routes;

    fn routes(text: &str) -> Routes {
        let source =
            ConfSource { layer: Layer::SystemLocal, app: None, file: "outputs.conf".to_owned(), text: text.to_owned() };
        Routes::new(&OutputSettings::new(&Layers::new([source]))).unwrap()
    }

    fn batch(rows: &[(&str, &str, Option<&str>)]) -> EventBatch {
        let mut batch = EventBatch::default();
        for (row, (index, text, routing)) in rows.iter().enumerate() {
            let meta =
                Metadata { index: (*index).into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() };
            let meta = batch.intern(&meta);
            batch.push(text.as_bytes(), row as i64, meta);
            let row = row as u32;
            batch.fields.push(row, "n", text);
            if let Some(groups) = routing {
                batch.fields.push(row, "_TCP_ROUTING", groups);
            }
        }
        batch
    }

    fn groups_of(parts: &[(u64, EventBatch)]) -> Vec<String> {
        let text = |(groups, part): &(u64, EventBatch)| {
            let texts: Vec<String> =
                (0..part.len()).map(|row| String::from_utf8(part.raw(row).to_vec()).unwrap()).collect();
            let fields: Vec<&str> = part.fields.iter().map(|field| field.value).collect();
            assert_eq!(fields, texts, "fields go with their events, the routing does not");
            format!("{groups:b} {} {}", part.metas[0].index, texts.join(","))
        };
        parts.iter().map(text).collect()
    }

    const GROUPS: &str = "[tcpout:a]\nserver = x:1\n[tcpout:b]\nserver = x:2\n[tcpout:c]\nserver = x:3\n";

    #[test]
    fn rules_override_inputs_and_inputs_override_the_default() {
        let routes = routes(&format!("[tcpout]\ndefaultGroup = a,b\n{GROUPS}"));
        let events = batch(&[("i", "1", None), ("i", "2", Some("c")), ("i", "3", None), ("i", "4", Some("a, c"))]);
        assert_eq!(groups_of(&routes.split(events.clone(), None).0), ["11 i 1,3", "100 i 2", "101 i 4"]);
        assert_eq!(groups_of(&routes.split(events, Some("b")).0), ["10 i 1,3", "100 i 2", "101 i 4"]);
        let crossed =
            batch(&[("i", "1", Some("a,b")), ("i", "2", Some("a")), ("i", "3", Some("a,b")), ("i", "4", Some("c"))]);
        assert_eq!(
            groups_of(&routes.split(crossed, None).0),
            ["11 i 1", "1 i 2", "11 i 3", "100 i 4"],
            "in order for a"
        );
        let all = batch(&[("i", "1", Some("*")), ("j", "2", Some("*"))]);
        assert_eq!(groups_of(&routes.split(all, None).0), ["111 i 1", "111 j 2"]);
        let (parts, unsent) = routes.split(batch(&[("i", "1", Some("nobody"))]), Some("b"));
        assert_eq!((groups_of(&parts), unsent), (vec!["11 i 1".to_owned()], 0));
        assert_eq!((routes.take_unknown(), routes.take_unknown()), (vec!["nobody".to_owned()], vec![]));
    }

    #[test]
    fn indexes_that_are_not_sent_are_counted() {
        let routes = routes(&format!("[tcpout]\ndefaultGroup = a\nforwardedindex.3.blacklist = no.*\n{GROUPS}"));
        let events = [
            ("_internal", "1", None),
            ("_x", "2", None),
            ("nope", "3", None),
            ("no", "4", Some("b")),
            ("on", "5", None),
        ];
        let (parts, unsent) = routes.split(batch(&events), None);
        assert_eq!((groups_of(&parts), unsent), (vec!["1 _internal 1".to_owned(), "1 on 5".to_owned()], 3));
        assert_eq!(routes.split(batch(&[("nope", "1", None)]), None).1, 1);
    }

    #[test]
    fn without_a_default_group_only_routed_events_are_sent() {
        let routes = routes(GROUPS);
        let (parts, unsent) = routes.split(batch(&[("i", "1", None), ("i", "2", Some("b"))]), None);
        assert_eq!((groups_of(&parts), unsent), (vec!["10 i 2".to_owned()], 1));
    }
}
