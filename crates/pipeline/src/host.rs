//! The host that an event names itself (index-time rules of transforms.conf).
//!
//! The first rule that matches gives the host. Few hosts share a source, so the rows of a batch's metadata are kept by
//! name while a batch is filled.

use std::sync::Arc;

use quarry_conf::PropsSettings;
use quarry_event::{EventBatch, Metadata};

use crate::error::PipelineError;
use crate::pattern::Pattern;

/// Bytes of an event that rules look at.
const LOOKAHEAD: usize = 4_096;
/// Longest host name.
const HOST_BYTES_MAX: usize = 255;
/// Distinct hosts of one batch; a further one keeps the source's host.
const HOSTS_MAX: usize = 10_000;

/// Rules of one source.
#[derive(Debug)]
pub(crate) struct HostRules {
    patterns: Vec<Pattern>,
    /// Hosts of the current batch with their row, ascending by name.
    known: Vec<(Arc<str>, u32)>,
}

impl HostRules {
    /// The rules of these settings, if there are any.
    pub(crate) fn new(settings: &PropsSettings) -> Result<Option<HostRules>, PipelineError> {
        let compile = |rule: &quarry_conf::HostRule| {
            Pattern::new(&rule.pattern)
                .map_err(|reason| PipelineError::of_pattern(settings, "REGEX", &rule.pattern, reason))
        };
        let patterns = settings.host_rules.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
        Ok((!patterns.is_empty()).then_some(HostRules { patterns, known: Vec::new() }))
    }

    /// Must be called before events go to a batch.
    pub(crate) fn begin(&mut self) {
        self.known.clear();
    }

    /// Row of the metadata with the event's own host; `None` when it names none.
    pub(crate) fn row_of(&mut self, event: &[u8], meta: &Metadata, out: &mut EventBatch) -> Option<u32> {
        let head = &event[..event.len().min(LOOKAHEAD)];
        let found = self.patterns.iter().find_map(|pattern| pattern.find_break(head, 0))?;
        let host = std::str::from_utf8(&head[found.group]).ok()?;
        if host.is_empty() || host.len() > HOST_BYTES_MAX {
            return None;
        }
        match self.known.binary_search_by(|(known, _)| known.as_ref().cmp(host)) {
            Ok(at) => Some(self.known[at].1),
            Err(_) if self.known.len() >= HOSTS_MAX => None,
            Err(at) => {
                let host: Arc<str> = Arc::from(host);
                let row = out.intern(&Metadata { host: Arc::clone(&host), ..meta.clone() });
                self.known.insert(at, (host, row));
                Some(row)
            }
        }
    }
}
