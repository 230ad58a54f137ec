//! Host extraction from events (index-time rules of transforms.conf).
//!
//! If a source has no other rules, its host rules run here, and the last rule that matches wins; otherwise the typing
//! stage runs them. A source has few hosts, so metadata rows are cached by host while a batch is filled. The built-in
//! syslog rule applies to nearly every event of many sources and is implemented byte by byte ([`syslog`]) instead of by
//! its pattern.

mod syslog;

use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use quarry_conf::{PropsSettings, TypingSettings};
use quarry_event::{EventBatch, Metadata};
use quarry_stdx::Fault;

use crate::error::PipelineError;
use crate::pattern::Pattern;

/// Number of bytes of an event that rules examine.
const LOOKAHEAD_BYTES: usize = 4_096;
/// Longest host name.
const HOST_BYTES_MAX: usize = 255;
/// Maximum number of distinct hosts per batch; events with further hosts keep the source's host. Only batches that are
/// limited by bytes alone can have so many events.
const HOSTS_MAX: usize = 262_144;

/// Rules of one source.
#[derive(Debug)]
pub(crate) struct HostRules {
    rules: Vec<Rule>,
    /// Hosts of the current batch, each with its metadata row.
    known: HashMap<Arc<str>, u32, RandomState>,
    /// The most recent of these hosts.
    last: Option<(Arc<str>, u32)>,
}

/// Rule that finds a host in an event.
#[derive(Debug)]
enum Rule {
    Syslog,
    Pattern(Pattern),
}

impl Rule {
    fn new(pattern: &str) -> Result<Rule, Fault> {
        if pattern == syslog::PATTERN { Ok(Rule::Syslog) } else { Pattern::new(pattern).map(Rule::Pattern) }
    }

    fn host_in(&self, text: &[u8]) -> Option<Range<usize>> {
        match self {
            Rule::Syslog => syslog::host_in(text),
            Rule::Pattern(pattern) => pattern.find_break(text, 0).map(|found| found.group),
        }
    }
}

impl HostRules {
    /// The rules in these settings; `None` unless they consist of host rules only.
    pub(crate) fn new(settings: &PropsSettings) -> Result<Option<HostRules>, PipelineError> {
        if !HostRules::are_all(&settings.typing) {
            return Ok(None);
        }
        let compile = |pattern: &String| {
            Rule::new(pattern).map_err(|reason| PipelineError::of_pattern(settings, "REGEX", pattern, &reason))
        };
        let patterns = settings.typing.rules().filter_map(|rule| rule.pattern.as_ref());
        let mut rules = patterns.map(compile).collect::<Result<Vec<_>, _>>()?;
        rules.reverse();
        Ok((!rules.is_empty()).then(|| HostRules { rules, known: HashMap::default(), last: None }))
    }

    /// Whether the only processing of an event is extracting its host.
    pub(crate) fn are_all(typing: &TypingSettings) -> bool {
        let is_more = !typing.sed.is_empty() || typing.drop_older_than_seconds.is_some();
        !is_more && typing.rules().all(|rule| rule.is_plain_host())
    }

    /// Must be called before events are added to a batch.
    pub(crate) fn begin(&mut self, out: &EventBatch) {
        // The row is only valid if the batch is the one to which the host was added.
        let is_same = self
            .last
            .as_ref()
            .is_some_and(|(host, row)| out.metas.get(*row as usize).is_some_and(|meta| Arc::ptr_eq(&meta.host, host)));
        if !is_same {
            self.known.clear();
            self.last = None;
        }
    }

    /// Metadata row for the event's own host; `None` if it has no valid host of its own, or if the batch already has
    /// [`HOSTS_MAX`] hosts.
    pub(crate) fn metadata_row(&mut self, event: &[u8], meta: &Metadata, out: &mut EventBatch) -> Option<u32> {
        let head = &event[..event.len().min(LOOKAHEAD_BYTES)];
        let found = self.rules.iter().find_map(|rule| rule.host_in(head))?;
        let host = std::str::from_utf8(&head[found]).ok()?;
        if host.is_empty() || host.len() > HOST_BYTES_MAX {
            return None;
        }
        if let Some(row) = self.known.get(host) {
            return Some(*row);
        }
        if self.known.len() >= HOSTS_MAX {
            return None;
        }
        let host: Arc<str> = Arc::from(host);
        let row = out.intern(&Metadata { host: Arc::clone(&host), ..meta.clone() });
        self.known.insert(Arc::clone(&host), row);
        self.last = Some((host, row));
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(host: &str) -> Metadata {
        Metadata { index: "main".into(), host: host.into(), source: "s".into(), sourcetype: "t".into() }
    }

    fn rules() -> HostRules {
        HostRules { rules: vec![Rule::new("host=([a-z]+)").unwrap()], known: HashMap::default(), last: None }
    }

    #[test]
    fn cached_rows_are_valid_only_for_their_batch() {
        let (mut rules, meta) = (rules(), metadata("none"));
        let (mut one, mut other) = (EventBatch::default(), EventBatch::default());
        other.intern(&metadata("none"));
        for _ in 0..2 {
            rules.begin(&one);
            assert_eq!(rules.metadata_row(b"host=a", &meta, &mut one), Some(0));
            assert_eq!(rules.metadata_row(b"host=b", &meta, &mut one), Some(1));
            rules.begin(&one);
            assert_eq!(rules.metadata_row(b"host=a", &meta, &mut one), Some(0));
            rules.begin(&other);
            assert_eq!(rules.metadata_row(b"host=b", &meta, &mut other), Some(1));
            assert_eq!(rules.metadata_row(b"host=a", &meta, &mut other), Some(2));
        }
        assert_eq!((one.metas.len(), other.metas.len()), (2, 3));
        assert_eq!(rules.metadata_row(b"nothing", &meta, &mut other), None);
    }

    #[test]
    fn existing_metadata_rows_are_reused() {
        let (mut rules, meta) = (rules(), metadata("none"));
        let mut batch = EventBatch::default();
        batch.intern(&metadata("a"));
        rules.begin(&batch);
        assert_eq!(rules.metadata_row(b"host=a", &meta, &mut batch), Some(0));
        rules.begin(&batch);
        assert_eq!(rules.metadata_row(b"host=a", &meta, &mut batch), Some(0));
        assert_eq!(batch.metas.len(), 1);
    }
}
