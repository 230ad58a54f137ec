//! Time bounds of a search's rows, for a command that must know them before the first row.
//!
//! A page's time range covers all its events, but the range of the matching events may be much shorter. Therefore pages
//! are read from both ends of the time range inward, until no unread page can hold an earlier or later row; if a
//! command may change times, all pages are read. If every event of a page is a row, the page's time range is used
//! without reading the page.

use quarry_eval::EngineError;
use quarry_eval::command::MakeRowCommand;
use quarry_eval::context::CommandContext;
use quarry_eval::spans::time_bounds;
use quarry_event::TimeNs;
use quarry_scan::{EventScan, PageRef, Window};
use quarry_spl::ast::Stage;

/// First and last time.
type Bounds = Option<(TimeNs, TimeNs)>;

/// The time bounds of the rows that `commands`, built from `stages`, produce from the events of `windows`. Progress
/// does not count these pages, because they are read again later.
pub(super) fn bounds_of_rows(
    scan: &mut EventScan,
    windows: &[Window],
    stages: &[Stage],
    commands: &[MakeRowCommand],
    context: &CommandContext,
) -> Result<Bounds, EngineError> {
    let progress = std::mem::take(&mut scan.progress);
    let pages = windows.iter().flat_map(|window| &window.pages).collect();
    let bounds = RowBounds { scan, commands, context }.of_pages(pages, stages);
    scan.progress = progress;
    bounds
}

struct RowBounds<'a> {
    scan: &'a EventScan,
    commands: &'a [MakeRowCommand],
    context: &'a CommandContext,
}

impl RowBounds<'_> {
    fn of_pages(&self, mut pages: Vec<&PageRef>, stages: &[Stage]) -> Result<Bounds, EngineError> {
        if !stages.iter().all(|stage| stage.command.keeps_times()) {
            return pages.iter().try_fold(None, |known, page| Ok(union_bounds(known, self.read(page)?)));
        }
        pages.sort_by_key(|page| page.info.time_min);
        let mut bounds: Bounds = None;
        for page in &pages {
            if bounds.is_some_and(|(first, _)| page.info.time_min >= first) || self.context.stop.should_stop_reading() {
                break;
            }
            bounds = union_bounds(bounds, self.of(page)?);
        }
        pages.sort_by_key(|page| std::cmp::Reverse(page.info.time_max));
        for page in &pages {
            if bounds.is_none_or(|(_, last)| page.info.time_max <= last) || self.context.stop.should_stop_reading() {
                break;
            }
            bounds = union_bounds(bounds, self.of(page)?);
        }
        Ok(bounds)
    }

    /// The bounds of the rows of a page.
    fn of(&self, page: &PageRef) -> Result<Bounds, EngineError> {
        match self.commands.is_empty() && self.scan.matches_every_event(page) {
            true => Ok(Some((page.info.time_min, page.info.time_max))),
            false => self.read(page),
        }
    }

    fn read(&self, page: &PageRef) -> Result<Bounds, EngineError> {
        let Some(mut rows) = self.scan.read(page, self.context)? else { return Ok(None) };
        for make in self.commands {
            rows = make().apply(rows)?;
        }
        Ok(time_bounds(None, &rows))
    }
}

fn union_bounds(one: Bounds, other: Bounds) -> Bounds {
    match (one, other) {
        (Some((low, high)), Some((lower, higher))) => Some((low.min(lower), high.max(higher))),
        (one, other) => one.or(other),
    }
}
