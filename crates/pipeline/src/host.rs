//! The host that an event names itself (index-time rules of transforms.conf).
//!
//! Where nothing but such rules work on a source's events, they are run here, and of several that match the last
//! counts; else the typing stage runs them. Few hosts share a source, so the rows of a batch's metadata are kept by
//! name while a batch is filled. The built-in rule for syslog stands before nearly every event of many sources and is
//! read byte by byte ([`syslog`]) instead of by its pattern.

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

/// Bytes of an event that rules look at.
const LOOKAHEAD: usize = 4_096;
/// Longest host name.
const HOST_BYTES_MAX: usize = 255;
/// Distinct hosts of one batch, more than events of it by any limit but that of bytes; a further one keeps the source's host.
const HOSTS_MAX: usize = 262_144;

/// Rules of one source.
#[derive(Debug)]
pub(crate) struct HostRules {
    rules: Vec<Rule>,
    /// Hosts of the current batch with their row.
    known: HashMap<Arc<str>, u32, RandomState>,
    /// The one of them that came last.
    last: Option<(Arc<str>, u32)>,
}

/// How a host is found in an event.
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
    /// The rules of these settings, if they have such rules and no others.
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

    /// Whether what is done with an event is taking its host from its text and nothing else.
    pub(crate) fn are_all(typing: &TypingSettings) -> bool {
        let is_more = !typing.sed.is_empty() || typing.drop_older_than_seconds.is_some();
        !is_more && typing.rules().all(|rule| rule.is_plain_host())
    }

    /// Must be called before events go to a batch.
    pub(crate) fn begin(&mut self, out: &EventBatch) {
        // Only the batch that the last host was added to holds this very text in this row.
        let is_same = self
            .last
            .as_ref()
            .is_some_and(|(host, row)| out.metas.get(*row as usize).is_some_and(|meta| Arc::ptr_eq(&meta.host, host)));
        if !is_same {
            self.known.clear();
            self.last = None;
        }
    }

    /// Row of the metadata with the event's own host; `None` when it names none.
    pub(crate) fn row_of(&mut self, event: &[u8], meta: &Metadata, out: &mut EventBatch) -> Option<u32> {
        let head = &event[..event.len().min(LOOKAHEAD)];
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
    fn rows_belong_to_the_batch_they_were_added_to() {
        let (mut rules, meta) = (rules(), metadata("none"));
        let (mut one, mut other) = (EventBatch::default(), EventBatch::default());
        other.intern(&metadata("none"));
        for _ in 0..2 {
            rules.begin(&one);
            assert_eq!(rules.row_of(b"host=a", &meta, &mut one), Some(0));
            assert_eq!(rules.row_of(b"host=b", &meta, &mut one), Some(1));
            rules.begin(&one);
            assert_eq!(rules.row_of(b"host=a", &meta, &mut one), Some(0));
            rules.begin(&other);
            assert_eq!(rules.row_of(b"host=b", &meta, &mut other), Some(1));
            assert_eq!(rules.row_of(b"host=a", &meta, &mut other), Some(2));
        }
        assert_eq!((one.metas.len(), other.metas.len()), (2, 3));
        assert_eq!(rules.row_of(b"nothing", &meta, &mut other), None);
    }

    #[test]
    fn a_row_that_was_there_before_is_taken() {
        let (mut rules, meta) = (rules(), metadata("none"));
        let mut batch = EventBatch::default();
        batch.intern(&metadata("a"));
        rules.begin(&batch);
        assert_eq!(rules.row_of(b"host=a", &meta, &mut batch), Some(0));
        rules.begin(&batch);
        assert_eq!(rules.row_of(b"host=a", &meta, &mut batch), Some(0));
        assert_eq!(batch.metas.len(), 1);
    }
}
