//! Names (cache keys) of the plans whose partial states may be cached.
//!
//! The name spells out everything that the states depend on: the condition with subsearch results, the commands up to
//! the fold with all their options, the fields read, the time zone. If completeness is in doubt, a plan has no name and
//! runs without the cache.
//!
//! Not here: field extraction rules (an engine and its states share one set), and the time range (states are cached for
//! pages entirely within it).

use jiff::tz::TimeZone;
use quarry_event::TimeRange;
use quarry_scan::plan::FieldSource;
use quarry_spl::analyse::depends_only_on_event;
use quarry_spl::ast::Command;

use super::{Plan, Source};

/// Maximum bytes of a plan's name. Plans with longer names, such as those with large subsearch results, are
/// not cached.
const NAME_BYTES_MAX: usize = 16 << 10;

/// The name of a plan's partial states; `None` if they cannot be cached. `fold` is the fold's own contribution
/// ([`quarry_eval::command::Reduce::fold_name`]).
pub(crate) fn partial_name(plan: &Plan, fold: &str, zone: &TimeZone) -> Option<String> {
    let Source::Scan(scan) = &plan.source else { return None };
    let commands: Vec<&Command> = plan.map.iter().chain(&plan.fold).map(|stage| &stage.command).collect();
    // If all fields or those that match a pattern are shown, their number is limited for the search as a whole, so the
    // states of a page depend on other pages.
    let is_known = !scan.is_open() && scan.fields == FieldSource::SearchTime && scan.arrival == TimeRange::ALL;
    let is_repeatable =
        depends_only_on_event(&scan.condition) && commands.iter().all(|command| command.is_repeatable());
    if plan.fold.is_none() || !is_known || !is_repeatable {
        return None;
    }
    let (condition, rexes, fields) = (&scan.condition, &scan.extractions, &scan.projection);
    // A zone without a name cannot be compared.
    let zone = zone.iana_name()?;
    let name = format!("{condition:?}\n{rexes:?}\n{commands:?}\n{fields:?}\n{fold:?}\n{zone:?}");
    (name.len() <= NAME_BYTES_MAX).then_some(name)
}
