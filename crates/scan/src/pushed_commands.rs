//! Push-down of `rex`, `spath` and functions of texts: the scan evaluates these commands itself if they come first and
//! read only the event text or an extracted field.
//!
//! On template pages, groups and paths are evaluated on templates and dictionaries ([`super::template_pages`]), so that
//! no text is rebuilt. If the text is available anyway, the command itself runs, with the same result.
//!
//! Not here: such commands later in a search, and `rex` with several matches (`max_match`), which `commands` of the
//! crate engine runs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::extract::rex::Rex;
use quarry_eval::pattern::{GroupBorders, Regex};
use quarry_eval::rows;
use quarry_event::template::TemplateSet;
use quarry_spl::ast::{Command, RexCommand, RexExtraction};

use super::event_fields::is_intrinsic_field;
use super::fields::Projection;
use super::template_pages::{PatternReaders, RexReader};
use crate::plan::{Extraction, ExtractionKind, TextValue};
use crate::pushed_predicates::ValueSource;
use crate::spath::{PushedPaths, TEXT_FIELD, is_not_from_text};
use crate::text_values::{char_counts, match_flags};

/// The command as an extraction, if the scan can run it. `needed` returns the fields that later commands need, if their
/// names are known. With `is_folded`, the later commands do not depend on the time order of events, so `spath` may
/// replace times and metadata.
pub fn to_extraction(
    command: &Command,
    is_folded: bool,
    needed: impl FnOnce() -> Option<Vec<String>>,
) -> Option<ExtractionKind> {
    match command {
        Command::Rex(RexCommand::Extract(rex)) => PushedRex::new(rex).map(|_| ExtractionKind::Rex(rex.clone())),
        Command::Spath(spath) if spath.path.is_some() => {
            PushedPaths::of_command(spath).map(|_| ExtractionKind::Spath(spath.clone()))
        }
        Command::Spath(spath) => {
            let fields: Vec<String> = needed()?.into_iter().filter(|name| !rows::is_hidden(name)).collect();
            let input = spath.input.clone();
            if !is_folded && fields.iter().any(|name| is_intrinsic_field(name)) {
                return None;
            }
            PushedPaths::of_fields(&input, &fields).map(|_| ExtractionKind::SpathFields { input, fields })
        }
        _ => None,
    }
}

/// A document in which `path` has the same value as in the JSON texts of a field, if the scan can produce it.
pub fn document_value(field: &str, path: &str) -> Option<TextValue> {
    PushedPaths::of_documents(field, path, "")?;
    Some(TextValue::Document { field: field.to_owned(), path: path.to_owned() })
}

/// The commands pushed down into a scan, in order.
pub(crate) struct PushedCommands {
    /// `rex` commands.
    all: Vec<PushedRex>,
    /// `spath` commands and documents, by text.
    paths: Vec<PushedPaths>,
    /// Fields that hold text lengths.
    lengths: Vec<String>,
    /// Patterns tested for a match, each with the field of the result.
    tests: Vec<(Regex, String)>,
    /// Fields that only these commands read.
    only_sources: Vec<String>,
    /// Idle readers of template pages, at most one set per worker.
    idle: Mutex<Vec<Vec<RexReader>>>,
    /// The readers of earlier searches.
    kept: Arc<PatternReaders>,
}

impl Drop for PushedCommands {
    fn drop(&mut self) {
        let idle = self.idle.get_mut().unwrap_or_else(PoisonError::into_inner);
        idle.drain(..).flatten().for_each(|reader| self.kept.keep(reader));
    }
}

/// A `rex` command pushed down into a scan.
pub(crate) struct PushedRex {
    pub command: Arc<RexExtraction>,
    /// The regular expression of the command.
    pub regex: Regex,
    /// Number and name of the requested groups.
    pub groups: Vec<(usize, String)>,
}

impl PushedCommands {
    /// Compiles the commands for the fields in `projection`, and adds the fields they read to it. `kept` has the readers
    /// of earlier searches.
    pub(crate) fn new(
        commands: &[Extraction],
        projection: &mut Projection,
        kept: &Arc<PatternReaders>,
    ) -> PushedCommands {
        let (mut all, mut paths) = (Vec::new(), Vec::new());
        let (mut lengths, mut tests) = (Vec::new(), Vec::new());
        for extraction in commands {
            match &extraction.kind {
                ExtractionKind::Rex(rex) => all.extend(PushedRex::new(rex)),
                ExtractionKind::Spath(spath) => paths.extend(PushedPaths::of_command(spath)),
                ExtractionKind::SpathFields { input, fields } => paths.extend(PushedPaths::of_fields(input, fields)),
                ExtractionKind::Text { output, .. } if !projection.includes(output) => {}
                ExtractionKind::Text { value: TextValue::Length, output } => lengths.push(output.clone()),
                ExtractionKind::Text { value: TextValue::Match(pattern), output } => {
                    // The planner has already compiled the pattern, so it is valid.
                    tests.extend(Regex::new(pattern).ok().map(|regex| (regex, output.clone())));
                }
                ExtractionKind::Text { value: TextValue::Document { field, path }, output } => {
                    paths.extend(PushedPaths::of_documents(field, path, output));
                }
            }
        }
        for rex in &mut all {
            rex.groups.retain(|(_, name)| projection.includes(name));
        }
        all.retain(|rex| !rex.groups.is_empty());
        for of_text in &mut paths {
            of_text.paths.retain(|path| projection.includes(&path.output));
        }
        paths.retain(|of_text| !of_text.paths.is_empty());
        let of_paths = paths.iter().map(|of_text| of_text.source.as_str()).filter(|source| *source != TEXT_FIELD);
        let sources: BTreeSet<&str> = all.iter().filter_map(PushedRex::source).chain(of_paths).collect();
        let only_sources: Vec<String> =
            sources.into_iter().filter(|source| !projection.includes(source)).map(str::to_owned).collect();
        projection.names.extend(only_sources.iter().cloned());
        PushedCommands { all, paths, lengths, tests, only_sources, idle: Mutex::default(), kept: Arc::clone(kept) }
    }

    /// Whether nothing is pushed down.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.paths.is_empty() && self.lengths.is_empty() && self.tests.is_empty()
    }

    /// Whether there is a `rex` command or a match test.
    pub(super) fn has_patterns(&self) -> bool {
        !self.all.is_empty() || !self.tests.is_empty()
    }

    /// Whether a field is read only by these commands.
    pub(super) fn reads_exclusively(&self, name: &str) -> bool {
        self.only_sources.iter().any(|source| source == name)
    }

    /// Origin of a field's value, as far as the pushed-down commands determine it.
    pub(crate) fn value_source(&self, field: &str) -> ValueSource {
        if self.is_path_output(field) {
            return ValueSource::Group(GroupBorders::Unknown);
        }
        let mut made = self.all.iter().filter_map(|rex| {
            let (group, _) = rex.groups.iter().find(|(_, name)| name == field)?;
            Some(if rex.source().is_none() { rex.regex.borders_of(*group) } else { GroupBorders::Unknown })
        });
        match (made.next(), made.next()) {
            (None, _) => ValueSource::Rules,
            (Some(borders), None) => ValueSource::Group(borders),
            // The value may come from either command.
            (Some(_), Some(_)) => ValueSource::Group(GroupBorders::Unknown),
        }
    }

    /// Whether a path produces this field.
    pub(crate) fn is_path_output(&self, field: &str) -> bool {
        self.paths.iter().flat_map(|of_text| &of_text.paths).any(|path| path.output == field)
    }

    /// The fields that hold text lengths.
    pub(super) fn length_fields(&self) -> &[String] {
        &self.lengths
    }

    /// The pushed-down paths, by text.
    pub(super) fn paths(&self) -> &[PushedPaths] {
        &self.paths
    }

    /// Adds the extracted fields to the rows; `text` returns their texts.
    pub(super) fn extract_from_texts(
        &self,
        rows: RecordBatch,
        text: impl FnOnce() -> Result<ArrayRef, EngineError>,
    ) -> Result<RecordBatch, EngineError> {
        if self.is_empty() {
            return Ok(rows);
        }
        let texts = text()?;
        assert_eq!(texts.len(), rows.num_rows(), "each row has a text");
        let mut rows = rows;
        for output in &self.lengths {
            rows = rows::with_column(&rows, output, char_counts(&texts))?;
        }
        for (regex, output) in &self.tests {
            rows = rows::with_column(&rows, output, match_flags(regex, &texts))?;
        }
        let mut found = rows::with_column(&rows, TEXT_FIELD, texts)?;
        for rex in &self.all {
            found = Rex::new(Arc::clone(&rex.command), rex.regex.clone()).apply(found)?;
        }
        for of_text in &self.paths {
            found = of_text.apply(found)?;
        }
        let is_new = |name: &str| rows::column(&rows, name).is_none();
        let is_wanted = |name: &str| {
            self.all.iter().any(|rex| rex.groups.iter().any(|(_, group)| group == name)) || self.is_path_output(name)
        };
        rows::drop_columns(&found, |name| name == TEXT_FIELD || (is_new(name) && !is_wanted(name)))
    }

    /// The readers of earlier searches.
    pub(super) fn kept(&self) -> &PatternReaders {
        &self.kept
    }

    /// One reader per command and match test, for one worker that reads pages of the slab with these templates;
    /// preferably readers that already know the slab.
    pub(super) fn take_readers(&self, template_set: &Arc<TemplateSet>) -> Vec<RexReader> {
        let idle = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let known = idle.iter().position(|readers| readers.iter().all(|reader| reader.has_read(template_set)));
            known.or(idle.len().checked_sub(1)).map(|at| idle.swap_remove(at))
        };
        let commands = self.all.iter().map(|rex| self.kept.of_command(rex, template_set));
        let tests = self.tests.iter().map(|(regex, output)| self.kept.of_test(regex, output, template_set));
        idle.unwrap_or_else(|| commands.chain(tests).collect())
    }

    /// Keeps idle readers for the next page.
    pub(super) fn return_readers(&self, readers: Vec<RexReader>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(readers);
    }
}

impl PushedRex {
    /// The field that the command reads; `None` if it reads the event text.
    pub(crate) fn source(&self) -> Option<&str> {
        Some(self.command.field.as_str()).filter(|field| *field != TEXT_FIELD)
    }

    /// The pushed-down form of the command, if the scan can run it.
    fn new(command: &RexExtraction) -> Option<PushedRex> {
        let reads_given = command.field != TEXT_FIELD && is_not_from_text(&command.field);
        if reads_given || command.max_match != 1 || command.offset_field.is_some() {
            return None;
        }
        let regex = Regex::new(&command.pattern.text).ok()?;
        let names = regex.group_names().iter().enumerate();
        let groups: Vec<(usize, String)> = names.filter_map(|(at, name)| Some((at, name.clone()?))).collect();
        let distinct =
            groups.iter().enumerate().all(|(at, (_, name))| groups[..at].iter().all(|(_, known)| known != name));
        (distinct && !groups.iter().any(|(_, name)| is_not_from_text(name))).then(|| PushedRex {
            command: Arc::new(command.clone()),
            regex,
            groups,
        })
    }
}
