//! Which plans have partial states that can be kept, and under what name.
//!
//! The name of a plan is everything its states follow from, written out: the condition with its subsearches replaced
//! by what they found, the commands up to the fold with all their options, the fields read, the zone. Whoever is not
//! sure that a part is in the name gives none: a search without a name is run as always.
//!
//! Not here: how fields are extracted (an engine and its states share one set of rules), and the range of the search
//! (states are kept of pages that lie wholly inside it).

use jiff::tz::TimeZone;
use quarry_event::TimeRange;
use quarry_scan::plan::FieldSource;
use quarry_spl::analyse::is_settled;
use quarry_spl::ast::Command;

use super::{Plan, Source};

/// Bytes of a plan's name at most; what a large subsearch found makes longer ones.
const NAME_BYTES_MAX: usize = 16 << 10;

/// The name of a plan's partial states; `None` where none can be kept. `fold` is what the fold adds to it
/// ([`quarry_eval::command::Reduce::fold_name`]).
pub(crate) fn partial_name(plan: &Plan, fold: &str, zone: &TimeZone) -> Option<String> {
    let Source::Scan(scan) = &plan.source else { return None };
    let commands: Vec<&Command> = plan.map.iter().chain(&plan.fold).map(|stage| &stage.command).collect();
    // Fields of a pattern, or all, are shown up to a number that counts over the whole search.
    let is_known = !scan.is_open() && scan.fields == FieldSource::SearchTime && scan.arrival == TimeRange::ALL;
    let is_repeatable = is_settled(&scan.condition) && commands.iter().all(|command| command.is_repeatable());
    if plan.fold.is_none() || !is_known || !is_repeatable {
        return None;
    }
    let (condition, rexes, fields) = (&scan.condition, &scan.extractions, &scan.projection);
    // Zones without a name are compared with nothing.
    let zone = zone.iana_name()?;
    let name = format!("{condition:?}\n{rexes:?}\n{commands:?}\n{fields:?}\n{fold:?}\n{zone:?}");
    (name.len() <= NAME_BYTES_MAX).then_some(name)
}
