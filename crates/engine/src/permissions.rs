//! Permissions of a search's user: the commands that may run, and the indexes that may be read and written.
//!
//! All commands of a search are checked before the first event is read, including those of its subsearches, of saved
//! searches and of the texts of `map` and `foreach` ([`Runner::permit_all`]). Each command is checked again when its
//! steps are built, because commands may result from data: values substituted by `map`, subsearch results, or a
//! program that requires commands before it. Indexes that the user may not search appear empty ([`restrict_source`]),
//! as in Splunk. The capability of a command is in its row of `quarry_spl::commands`.

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_conf::Permissions;
use quarry_conf::permissions::SEARCH;
use quarry_eval::EngineError;
use quarry_event::{EventBatch, TimeRange};
use quarry_spl::ast::{Command, Pipeline, Span};
use quarry_spl::capabilities::{required_capability, visit_commands};
use quarry_spl::commands::{Effect, InnerSearchText};
use quarry_stdx::Fault;
use quarry_store::{BucketListing, Deletion, Follower, IndexSelector, IndexStats, RemoteStats, Snapshot, StoreError};

use crate::plan::Effects;
use crate::run::Runner;
use crate::source::SnapshotSource;

/// Maximum number of texts parsed in advance to find the commands that they run, including nested saved searches;
/// further texts are checked when they run.
const TEXTS_MAX: usize = 1_000;

/// The source restricted to what a user may see.
pub(crate) fn restrict_source(
    source: Arc<dyn SnapshotSource>,
    permissions: &Arc<Permissions>,
) -> Arc<dyn SnapshotSource> {
    if permissions.is_owner() {
        return source;
    }
    let allowed = allowed_indexes(permissions);
    Arc::new(PermittedSource { source, allowed, permissions: Arc::clone(permissions) })
}

/// The indexes that a user may search.
pub fn allowed_indexes(permissions: &Permissions) -> IndexSelector {
    let allowed = IndexSelector::new(permissions.allowed_indexes.iter().cloned());
    allowed.without(permissions.disallowed_indexes.iter().cloned())
}

/// A source with only some indexes visible.
struct PermittedSource {
    source: Arc<dyn SnapshotSource>,
    allowed: IndexSelector,
    permissions: Arc<Permissions>,
}

impl SnapshotSource for PermittedSource {
    fn snapshot(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        self.source.snapshot(&indexes.within(&self.allowed), range)
    }

    fn snapshot_newest_first(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        self.source.snapshot_newest_first(&indexes.within(&self.allowed), range)
    }

    fn buckets(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Option<Vec<BucketListing>>, StoreError> {
        self.source.buckets(&indexes.within(&self.allowed), range)
    }

    fn index_stats(&self) -> Vec<IndexStats> {
        let mut indexes = self.source.index_stats();
        indexes.retain(|stats| self.allowed.matches(&stats.index));
        indexes
    }

    fn follow(&self, indexes: &IndexSelector) -> Option<Follower> {
        self.source.follow(&indexes.within(&self.allowed))
    }

    fn remote_figures(&self) -> Option<RemoteStats> {
        self.source.remote_figures()
    }

    fn store_events(&self, events: EventBatch) -> Result<(), Fault> {
        match events.metas.iter().find(|meta| !self.permissions.may_write(&meta.index)) {
            Some(meta) => Err(not_writable(&self.permissions, &meta.index)),
            None => self.source.store_events(events),
        }
    }

    fn seal(&self, indexes: &IndexSelector) -> Result<(), Fault> {
        self.source.seal(&indexes.within(&self.allowed))
    }

    fn delete(&self, deletion: &Deletion) -> Result<BTreeMap<String, u64>, Fault> {
        self.source.delete(deletion)
    }
}

fn not_writable(permissions: &Permissions, index: &str) -> Fault {
    Fault::denied(format!(
        "user {} may not write into index {index}: names with a leading _ require the capability {}",
        permissions.user,
        quarry_conf::permissions::INDEXES_EDIT
    ))
}

impl Runner {
    /// Refuses a search that the user may not run. A search with side effects is also checked for faults, so that no
    /// command has run when a later command is refused.
    pub(crate) fn admit(&self, pipeline: &Pipeline) -> Result<(), EngineError> {
        let effects = self.permit_all(pipeline)?;
        if effects.any { self.checker.check(self, pipeline, effects) } else { Ok(()) }
    }

    /// Refuses a search with a command that the user may not run; otherwise returns its side effects.
    pub(crate) fn permit_all(&self, pipeline: &Pipeline) -> Result<Effects, EngineError> {
        if !self.context.permissions.has_capability(SEARCH) {
            return Err(self.forbidden("search", SEARCH, pipeline.span));
        }
        let (mut texts, mut effects) = (RunTexts::default(), Effects::default());
        visit_commands(pipeline, &mut |command, span| {
            effects.add(command);
            self.permit_text(command, span, &mut texts)
        })?;
        // Texts that are run by these texts are appended to the list while it is read.
        let mut at = 0;
        while let Some((text, span)) = texts.0.get(at).cloned() {
            // Parse errors are reported when the text runs.
            let parsed = match text {
                RunText::Search(text) => quarry_spl::parse_with_commands(&text, &self.commands.names()),
                RunText::Commands(text) => quarry_spl::parse_commands(&text, true, &self.commands.names()),
            };
            visit_commands(&parsed.pipeline, &mut |command, _| {
                effects.add(command);
                self.permit_text(command, span, &mut texts)
            })?;
            at += 1;
        }
        Ok(effects)
    }

    /// Checks a command, and records the text that it runs; `span` is the position in the original search.
    fn permit_text(&self, command: &Command, span: Span, texts: &mut RunTexts) -> Result<(), EngineError> {
        self.permit(command, span)?;
        if let Some(text) = self.text_run_by(command) {
            texts.add(text, span);
        }
        Ok(())
    }

    /// The text that a command runs, with macros expanded.
    fn text_run_by(&self, command: &Command) -> Option<RunText> {
        let text = match command.inner_search()? {
            InnerSearchText::Saved(name) => self.knowledge.saved_search(name)?,
            InnerSearchText::Search(text) => text.to_owned(),
            InnerSearchText::Commands(text) => return Some(RunText::Commands(text)),
        };
        self.expand_macros(&text).ok().map(RunText::Search)
    }

    /// Refuses a command that the user may not run, or that writes where that is not allowed.
    pub(crate) fn permit(&self, command: &Command, span: Span) -> Result<(), EngineError> {
        let permissions = &self.context.permissions;
        if let Some(demand) =
            required_capability(command).filter(|demand| !permissions.has_capability(demand.capability))
        {
            return Err(self.forbidden(&demand.command, demand.capability, span));
        }
        let checked = match command.effect() {
            Some(Effect::Table(name, context)) => self.lookups.check_writable(name, context),
            Some(Effect::Index(index)) if !permissions.may_write(index) => Err(not_writable(permissions, index)),
            Some(Effect::Index(index)) => self.rules.props().indexes().check(index),
            Some(Effect::Model(_) | Effect::Other) | None => Ok(()),
        };
        checked.map_err(|fault| EngineError::at(fault.with_context(command.name()), span))
    }

    fn forbidden(&self, command: &str, capability: &str, span: Span) -> EngineError {
        EngineError::Forbidden {
            command: command.to_owned(),
            capability: capability.to_owned(),
            user: self.context.permissions.user.clone(),
            span: Some(span),
        }
    }
}

/// A text that a command runs.
#[derive(Clone, PartialEq)]
enum RunText {
    Search(String),
    /// Commands that receive rows, without a search before them.
    Commands(String),
}

/// Texts run by a search, each once, with the position that runs them.
#[derive(Default)]
struct RunTexts(Vec<(RunText, Span)>);

impl RunTexts {
    fn add(&mut self, text: RunText, span: Span) {
        if self.0.len() < TEXTS_MAX && self.0.iter().all(|(known, _)| *known != text) {
            self.0.push((text, span));
        }
    }
}
