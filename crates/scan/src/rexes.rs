//! `rex` commands that the scan runs itself, because they come first and read nothing but the text of an event.
//!
//! On shaped pages their groups come from templates and dictionaries ([`super::template_pages`]), so that no text is rebuilt for
//! them. Where there is text anyway the command itself runs, and gives the same.
//!
//! Not here: `rex` after other commands, on other fields or with more than one match (commands).

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::extract::rex::Rex;
use quarry_eval::pattern::Regex;
use quarry_eval::rows;
use quarry_spl::ast::RexExtraction;
use quarry_store::Segment;

use super::event_fields::is_given;
use super::fields::Projection;
use super::template_pages::RexReader;
use crate::plan::Extraction;

/// The field whose patterns a scan can run.
const TEXT_FIELD: &str = "_raw";

/// Whether a scan can run the command.
pub fn is_pushable(command: &RexExtraction) -> bool {
    PushedRex::new(command).is_some()
}

/// The commands a scan runs, in order.
#[derive(Default)]
pub(crate) struct Rexes {
    all: Vec<PushedRex>,
    /// Readers of shaped pages that no worker uses now: as many sets as there are workers at most.
    idle: Mutex<Vec<Vec<RexReader>>>,
}

/// A command a scan runs.
pub(crate) struct PushedRex {
    command: Arc<RexExtraction>,
    /// Its pattern.
    pub regex: Regex,
    /// Number and name of the groups that are wanted.
    pub groups: Vec<(usize, String)>,
}

impl Rexes {
    /// What runs these commands, of whose groups those in `projection` are wanted.
    pub(crate) fn new(commands: &[Extraction], projection: &Projection) -> Rexes {
        let mut all: Vec<PushedRex> = commands.iter().filter_map(|rex| PushedRex::new(&rex.command)).collect();
        for rex in &mut all {
            rex.groups.retain(|(_, name)| projection.wants(name));
        }
        all.retain(|rex| !rex.groups.is_empty());
        Rexes { all, idle: Mutex::default() }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The rows with the groups found in their texts, which `text` gives.
    pub(super) fn on_texts(
        &self,
        rows: RecordBatch,
        text: impl FnOnce() -> Result<ArrayRef, EngineError>,
    ) -> Result<RecordBatch, EngineError> {
        if self.all.is_empty() {
            return Ok(rows);
        }
        let mut found = rows::with_column(&rows, TEXT_FIELD, text()?)?;
        for rex in &self.all {
            found = Rex::new(Arc::clone(&rex.command), rex.regex.clone()).apply(found)?;
        }
        let is_new = |name: &str| rows::column(&rows, name).is_none();
        let is_group = |name: &str| self.all.iter().any(|rex| rex.groups.iter().any(|(_, group)| group == name));
        rows::without(&found, |name| name == TEXT_FIELD || (is_new(name) && !is_group(name)))
    }

    /// Readers of a segment's pages, one per command, for one worker; if possible some that know the segment.
    pub(super) fn readers(&self, segment: &Arc<dyn Segment>) -> Vec<RexReader> {
        let idle = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let known = idle.iter().position(|readers| readers.iter().all(|reader| reader.knows(segment)));
            known.or(idle.len().checked_sub(1)).map(|at| idle.swap_remove(at))
        };
        idle.unwrap_or_else(|| self.all.iter().map(RexReader::new).collect())
    }

    /// Takes readers back for the next page.
    pub(super) fn give_back(&self, readers: Vec<RexReader>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(readers);
    }
}

impl PushedRex {
    /// The command if a scan can run it.
    fn new(command: &RexExtraction) -> Option<PushedRex> {
        if command.field != TEXT_FIELD || command.max_match != 1 || command.offset_field.is_some() {
            return None;
        }
        let regex = Regex::new(&command.pattern.text).ok()?;
        let names = regex.group_names().iter().enumerate();
        let groups: Vec<(usize, String)> = names.filter_map(|(at, name)| Some((at, name.clone()?))).collect();
        // Fields that do not come from the text are made elsewhere in the scan.
        let is_own = |name: &String| is_given(name) || rows::is_hidden(name) || name == TEXT_FIELD;
        let distinct =
            groups.iter().enumerate().all(|(at, (_, name))| groups[..at].iter().all(|(_, known)| known != name));
        (distinct && !groups.iter().any(|(_, name)| is_own(name))).then(|| PushedRex {
            command: Arc::new(command.clone()),
            regex,
            groups,
        })
    }
}
